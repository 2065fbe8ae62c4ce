"""One COCO file as columns: decoded by type, a piece at a time, only the fields that are used.

Outlines are most of such a file. They are named in no type here, so they are skipped without becoming objects. In a
large file the annotations are scanned by compiled loops, as many at a time as there are processors.
"""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.readers.json_pieces import Pieces

STUFF_IDS = range(92, 184)  # COCO-Stuff numbers its categories after COCO's 91 things
LARGE = 64 << 20  # below this, decoding is done before numba is imported
ROWS = 1 << 15  # scanned at a time

Id = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Side = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Length = Annotated[float, msgspec.Meta(ge=0)]
Word = Annotated[str, msgspec.Meta(min_length=1)]
NOWHERE = (math.nan,) * 4


class Image(msgspec.Struct, gc=False):
    id: Id
    width: Side
    height: Side
    file_name: str = ""


class Category(msgspec.Struct):
    id: Id
    name: Word
    supercategory: str | None = None
    isthing: bool | int | None = None


class Annotation(msgspec.Struct, gc=False):
    image_id: Id
    category_id: Id = -1
    area: Length = math.nan
    bbox: tuple[float, float, Length, Length] = NOWHERE
    caption: str | None = None


class Frame(msgspec.Struct):
    """What stands around the annotations."""

    info: Any = None
    images: list[Image] | msgspec.UnsetType = msgspec.UNSET
    categories: list[Category] | msgspec.UnsetType = msgspec.UNSET
    annotations: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Rows(NamedTuple):
    """Annotations in columns: `category` is -1, `area` and `box` NaN where the file gives none.

    Row r has the box `box[4 * r:4 * r + 4]`; caption k is that of row `captioned[k]`.
    """

    image: Ints
    category: Ints
    area: Floats
    box: Floats
    captioned: Ints
    captions: list[str]


class CocoFile(NamedTuple):
    """Images and annotations in columns; row r of `rows` is annotations[r] of the file."""

    path: Path
    ids: Ints
    width: Ints
    height: Ints
    names: list[str]
    categories: list[Category]
    stuff: bool
    judged: bool  # an instances or stuff file: of every image that it lists, somebody said what is in it
    rows: Rows


def load(path: Path, large: int | None = None) -> CocoFile:
    """Read one file; whether its ids and sizes make sense together is for the caller to check."""
    with Pieces(path) as file:
        head, rows, tail = _parts(file, LARGE if large is None else large)
    if tail.annotations is not msgspec.UNSET:
        raise ShiftBenchError(f"{path}: 'annotations' stands in it twice.")
    images = head.images if tail.images is msgspec.UNSET else tail.images
    categories = head.categories if tail.categories is msgspec.UNSET else tail.categories
    if images is msgspec.UNSET and not rows:
        raise ShiftBenchError(f"{path}: has neither 'images' nor 'annotations', so it is no COCO annotation file.")
    images, categories = images or [], categories or []
    n, joined = len(images), _joined(rows)
    return CocoFile(
        path=path,
        ids=np.fromiter([image.id for image in images], np.int64, n),
        width=np.fromiter([image.width for image in images], np.int64, n),
        height=np.fromiter([image.height for image in images], np.int64, n),
        names=[image.file_name for image in images],
        categories=categories,
        stuff=_says_stuff(head.info) or _says_stuff(tail.info) or (
            bool(categories) and all(category.id in STUFF_IDS for category in categories)),
        judged=bool(rows and categories) and (
            not len(joined.image) or bool((joined.category >= 0).any())),
        rows=joined,
    )


def _parts(file: Pieces, large: int) -> tuple[Frame, list[Rows], Frame]:
    """What stands before the annotations, the annotations in parts, and what stands after.

    Scanning and decoding take turns, so that one annotation which the scan does not understand costs one piece. A scan
    that understood nothing, as of captions, is not tried again.
    """
    head = file.before("annotations", Frame)
    rows: list[Rows] = []
    scanning, count = file.size - file.at >= large, 0
    while not file.closed:
        more = _scanned(file) if scanning else []
        scanning = any(len(part.image) for part in more)
        count += sum(len(part.image) for part in more)
        piece = next(file.elements(Annotation, "annotations", count))
        rows += [*more, _decoded(file.path, piece, count)]
        count += len(piece)
    return head, rows, file.after(Frame)


def _scanned(file: Pieces) -> list[Rows]:
    """As many annotations as the loop understands; the file then stands where it does not, or at the end of the list.

    Each thread scans from one comma that seems to part two elements to the next. A share that ends at the very comma
    where the next begins proves that this comma does part two elements; if it does not, what follows does not count.
    """
    from shiftbench.readers.scan import resume, scan

    text = file.array()
    borders = [file.at, *file.borders(min(os.cpu_count() or 1, 4)), file.size]

    def share(start: int, until: int) -> tuple[list[Rows], int]:
        parts: list[Rows] = []
        while not parts or len(parts[-1].image) == ROWS:
            ids, area, box = np.empty((2, ROWS), np.int64), np.empty(ROWS), np.empty(4 * ROWS)
            count, end = scan(text, start + 1, until, *ids, area, box)
            parts.append(Rows(ids[0, :count], ids[1, :count], area[:count], box[:4 * count], np.zeros(0, np.int64), []))
            if count:
                file.forget(start, end)
                start = resume(text, end)
        return parts, start

    with ThreadPoolExecutor() as pool:
        shares = list(pool.map(share, borders[:-1], borders[1:]))
    proved: list[Rows] = []
    for border, (parts, end) in zip(borders[1:], shares, strict=True):
        proved += parts
        file.go(end)
        if end != border:
            break
    return proved


def _decoded(path: Path, piece: Sequence[Annotation], count: int) -> Rows:
    """Annotations in columns; `count` stand before them in the file."""
    n = len(piece)
    category: Ints = np.fromiter([annotation.category_id for annotation in piece], np.int64, n)
    words = [annotation.caption for annotation in piece]
    captioned: Ints = np.zeros(0, np.int64)
    if words.count(None) < n:
        captioned = np.asarray([row for row, word in enumerate(words) if word is not None], np.int64)
    if n and category.min() < 0:
        for row in np.setdiff1d(np.flatnonzero(category < 0), captioned)[:1]:
            raise ShiftBenchError(f"{path}: annotations[{count + row}] has neither a category_id nor a caption. "
                                  "Instances, stuff and captions files can be read.")
    return Rows(
        image=np.fromiter([annotation.image_id for annotation in piece], np.int64, n),
        category=category,
        area=np.fromiter([annotation.area for annotation in piece], np.float64, n),
        box=np.fromiter(chain.from_iterable([annotation.bbox for annotation in piece]), np.float64, 4 * n),
        captioned=captioned,
        captions=[words[row] or "" for row in captioned.tolist()],
    )


def _joined(parts: Sequence[Rows]) -> Rows:
    """Parts one after another, rows numbered through."""
    starts = np.cumsum([0, *(len(part.image) for part in parts)])[:-1]
    return Rows(
        image=np.concatenate([np.zeros(0, np.int64), *(part.image for part in parts)]),
        category=np.concatenate([np.zeros(0, np.int64), *(part.category for part in parts)]),
        area=np.concatenate([np.zeros(0), *(part.area for part in parts)]),
        box=np.concatenate([np.zeros(0), *(part.box for part in parts)]),
        captioned=np.concatenate([np.zeros(0, np.int64), *(
            part.captioned + start for part, start in zip(parts, starts, strict=True))]),
        captions=[word for part in parts for word in part.captions],
    )


def _says_stuff(info: Any) -> bool:
    """Does the file call itself a stuff file? What stands in `info` is free."""
    return isinstance(info, dict) and "stuff" in str(info.get("description")).lower()
