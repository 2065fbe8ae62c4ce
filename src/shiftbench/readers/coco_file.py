"""One COCO file as columns: decoded by type, a piece at a time, only the fields that are used.

Outlines are four fifths of such a file. They are named in no type here, so they are skipped without becoming objects.
"""

import math
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from shiftbench.arrays import Floats, Ints
from shiftbench.errors import ShiftBenchError
from shiftbench.readers.pieces import Pieces

STUFF_IDS = range(92, 184)  # COCO-Stuff numbers its categories after COCO's 91 things

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


class CocoFile(NamedTuple):
    """Images and annotations in columns; row r of the annotations is annotations[r] of the file.

    `category` is -1, `area` and `box` NaN where the file gives none. Caption k is that of row `captioned[k]`.
    """

    path: Path
    ids: Ints
    width: Ints
    height: Ints
    names: list[str]
    categories: list[Category]
    stuff: bool
    image: Ints
    category: Ints
    area: Floats
    box: Floats
    captioned: Ints
    captions: list[str]


def load(path: Path) -> CocoFile:
    """Read one file; that its ids and sizes make sense together is for the caller to check."""
    columns: list[tuple[Ints, Ints, Floats, Floats]] = []
    captioned: list[Ints] = []
    captions: list[str] = []
    count = 0
    with Pieces(path) as file:
        head = file.before("annotations", Frame)
        for piece in file.elements(Annotation, "annotations"):
            columns.append(_columns(piece))
            words = [annotation.caption for annotation in piece]
            has: Ints = np.asarray([row for row, word in enumerate(words) if word is not None], np.int64)
            for row in np.setdiff1d(np.flatnonzero(columns[-1][1] < 0), has)[:1]:
                raise ShiftBenchError(f"{path}: annotations[{count + row}] has neither a category_id nor a caption. "
                                      "Instances, stuff and captions files can be read.")
            captioned.append(has + count)
            captions += [words[row] or "" for row in has.tolist()]
            count += len(piece)
        tail = file.after(Frame)
    if tail.annotations is not msgspec.UNSET:
        raise ShiftBenchError(f"{path}: 'annotations' stands in it twice.")
    images = head.images if tail.images is msgspec.UNSET else tail.images
    categories = head.categories if tail.categories is msgspec.UNSET else tail.categories
    if images is msgspec.UNSET and not columns:
        raise ShiftBenchError(f"{path}: has neither 'images' nor 'annotations', so it is no COCO annotation file.")
    images, categories = images or [], categories or []
    n = len(images)
    return CocoFile(
        path=path,
        ids=np.fromiter([image.id for image in images], np.int64, n),
        width=np.fromiter([image.width for image in images], np.int64, n),
        height=np.fromiter([image.height for image in images], np.int64, n),
        names=[image.file_name for image in images],
        categories=categories,
        stuff=_says_stuff(head.info) or _says_stuff(tail.info) or (
            bool(categories) and all(category.id in STUFF_IDS for category in categories)),
        image=np.concatenate([part[0] for part in columns] or [np.zeros(0, np.int64)]),
        category=np.concatenate([part[1] for part in columns] or [np.zeros(0, np.int64)]),
        area=np.concatenate([part[2] for part in columns] or [np.zeros(0)]),
        box=np.concatenate([part[3] for part in columns] or [np.zeros((0, 4))]),
        captioned=np.concatenate(captioned or [np.zeros(0, np.int64)]),
        captions=captions,
    )


def _columns(piece: list[Annotation]) -> tuple[Ints, Ints, Floats, Floats]:
    n = len(piece)
    return (
        np.fromiter([annotation.image_id for annotation in piece], np.int64, n),
        np.fromiter([annotation.category_id for annotation in piece], np.int64, n),
        np.fromiter([annotation.area for annotation in piece], np.float64, n),
        np.fromiter(chain.from_iterable([annotation.bbox for annotation in piece]), np.float64, 4 * n).reshape(n, 4),
    )


def _says_stuff(info: Any) -> bool:
    """Does the file call itself a stuff file? What stands in `info` is free."""
    return isinstance(info, dict) and "stuff" in str(info.get("description")).lower()
