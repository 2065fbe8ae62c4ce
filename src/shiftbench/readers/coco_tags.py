"""The annotations of COCO files as tags: whose image, which category, what share of the image, and all of it checked."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Floats, Ints
from shiftbench.collection import Tags
from shiftbench.errors import ShiftBenchError
from shiftbench.readers.coco_file import CocoFile

LARGEST = 10  # images' worth of area or side: more is a mistake in the file, not an object that leaves its image
LOOKUP = 1 << 23  # up to this id a table is faster than a search


class Found(NamedTuple):
    """One row per annotation with a category: its item, its tag, and its area and box as shares of the image."""

    item: Ints
    code: Ints
    area: Floats
    box: npt.NDArray[np.float32]


def tags(files: Sequence[CocoFile], known: Ints, width: Ints, height: Ints) -> Tags:
    """The tags of images `known`, their vocabulary in the order of kinds and names and not of the files."""
    named = [_named(file) for file in files]
    vocabulary = sorted({pair for mine in named for pair in mine.values()})
    code_of = {pair: code for code, pair in enumerate(vocabulary)}
    found = [_found(file, {key: code_of[mine[key]] for key in sorted(mine)}, known, width, height)
             for file, mine in zip(files, named, strict=True)]
    return _merged(vocabulary, Found(
        item=np.concatenate([part.item for part in found]),
        code=np.concatenate([part.code for part in found]),
        area=np.concatenate([part.area for part in found]),
        box=np.concatenate([part.box for part in found]),
    ))


def places(needles: Ints, haystack: Ints) -> Ints:
    """Where each number stands among sorted numbers; -1 where it does not."""
    if not len(haystack):
        return np.full(len(needles), -1)
    if haystack[-1] < LOOKUP:
        table: Ints = np.full(haystack[-1] + 2, -1)  # the last entry is for all that are larger
        table[haystack] = np.arange(len(haystack))
        return table[np.minimum(needles, len(table) - 1)]
    place = np.minimum(np.searchsorted(haystack, needles), len(haystack) - 1)
    return np.where(haystack[place] == needles, place, -1)


def no_image(file: CocoFile, row: int) -> ShiftBenchError:
    return ShiftBenchError(f"{file.path}: annotations[{row}] has image_id {file.rows.image[row]}, which no file lists "
                           "among its images.")


def _named(file: CocoFile) -> dict[int, tuple[str, str]]:
    """Kind and name of each category id. A category says itself whether it is a thing, or its file does."""
    named: dict[int, tuple[str, str]] = {}
    for place, category in enumerate(file.categories):
        kind = "stuff" if category.isthing == 0 or (category.isthing is None and file.stuff) else "object"
        if named.setdefault(category.id, (kind, category.name)) != (kind, category.name):
            raise ShiftBenchError(f"{file.path}: categories[{place}] has id {category.id}, which is the id of "
                                  f"'{named[category.id][1]}' too.")
    return named


def _found(file: CocoFile, codes: dict[int, int], known: Ints, width: Ints, height: Ints) -> Found:
    """The rows of one file; `codes` maps its category ids to tags."""
    kept: Ints = np.flatnonzero(file.rows.category >= 0)
    item = places(file.rows.image[kept], known)
    which = places(file.rows.category[kept], np.fromiter(codes, np.int64, len(codes)))
    for row in kept[item < 0][:1]:
        raise no_image(file, row)
    for row in kept[which < 0][:1]:
        raise ShiftBenchError(f"{file.path}: annotations[{row}] has category_id {file.rows.category[row]}, which is not "
                              f"among the {len(codes)} categories of the file.")
    area = file.rows.area[kept] / (width * height)[item]
    box = file.rows.box.reshape(-1, 4)[kept]
    box[:, ::2] /= width[item, None]
    box[:, 1::2] /= height[item, None]
    for what, size in (("area", area[:, None]), ("bbox", box)):
        if max(np.fmax.reduce(size, axis=None, initial=0), -np.fmin.reduce(size, axis=None, initial=0)) > LARGEST:
            row = int(np.flatnonzero((np.abs(size) > LARGEST).any(axis=1))[0])
            at = item[row]
            raise ShiftBenchError(f"{file.path}: annotations[{kept[row]}].{what} is more than {LARGEST} times the size of "
                                  f"image {known[at]} ({width[at]} × {height[at]}). It must be in pixels.")
    return Found(item, np.fromiter(codes.values(), np.int64, len(codes))[which], area, box.astype(np.float32))


def _merged(vocabulary: Sequence[tuple[str, str]], rows: Found) -> Tags:
    """What `Tags.of` makes of rows, for very many: item, tag and row are sorted as one number, which is much faster."""
    bits, width = len(rows.item).bit_length(), max(len(vocabulary), 1)
    packed = ((rows.item * width + rows.code) << bits) | np.arange(len(rows.item))
    packed.sort()
    order = packed & ((1 << bits) - 1)
    packed >>= bits
    new = np.diff(packed, prepend=-1) > 0
    first = np.flatnonzero(new)
    area, box = rows.area[order], rows.box[order]
    total, unknown = np.zeros(0), np.zeros(0, np.bool_)
    if len(first):
        total = np.add.reduceat(np.nan_to_num(area), first)
        unknown = np.logical_and.reduceat(np.isnan(area), first)
    boxed = ~np.isnan(box[:, 0])
    return Tags(
        item=packed[first] // width,
        tag=packed[first] % width,
        area=np.where(unknown, np.nan, total).astype(np.float32),
        names=tuple(word for _, word in vocabulary),
        kinds=tuple(kind for kind, _ in vocabulary),
        box_row=(np.cumsum(new) - 1)[boxed],
        boxes=box[boxed],
    )
