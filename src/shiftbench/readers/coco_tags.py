"""The annotations of COCO files as tags: whose image, which category, which share of the image; all of it checked."""

from collections.abc import Sequence

import numpy as np

from shiftbench.arrays import Bools, Floats, Ints
from shiftbench.collection import Tags
from shiftbench.errors import ShiftBenchError
from shiftbench.readers.coco_file import CocoFile

LARGEST = 10  # images' worth of area or side: more is a mistake in the file, not an object that leaves its image
LOOKUP = 1 << 23  # up to this id a table is faster than a search


def tags(files: Sequence[CocoFile], known: Ints, width: Ints, height: Ints) -> Tags:
    """The tags of images `known`, their vocabulary in the order of kinds and names and not of the files.

    The outcome is that of `Tags.of`. There are so many rows that item, tag and row are sorted as one number, and that
    areas and boxes are worked out in the order of the items.
    """
    named = [_named(file) for file in files]
    vocabulary = sorted({pair for mine in named for pair in mine.values()})
    code_of = {pair: code for code, pair in enumerate(vocabulary)}
    pairs = [_pairs(file, {key: code_of[mine[key]] for key in sorted(mine)}, known, len(vocabulary))
             for file, mine in zip(files, named, strict=True)]
    pair, order = _sorted(np.concatenate(pairs))
    pair, order = pair[(start := int(np.searchsorted(pair, 0))):], order[start:]
    new: Bools = np.diff(pair, prepend=-1) > 0
    first = np.flatnonzero(new)
    item = pair // max(len(vocabulary), 1)
    area = np.concatenate([file.rows.area for file in files])[order] / (width * height)[item]
    box = np.concatenate([file.rows.box for file in files]).reshape(-1, 4)[order]
    box /= np.stack([width, height, width, height], axis=1)[item]
    for what, size in (("area", area[:, None]), ("bbox", box)):
        if not -LARGEST <= size.min(initial=0) <= size.max(initial=0) <= LARGEST:
            _check(what, size, files, order, known[item])
    boxed = ~np.isnan(box[:, 0])
    return Tags(
        item=item[first],
        tag=pair[first] % max(len(vocabulary), 1),
        area=_sums(area, first).astype(np.float32),
        names=tuple(word for _, word in vocabulary),
        kinds=tuple(kind for kind, _ in vocabulary),
        box_row=(np.cumsum(new) - 1)[boxed],
        boxes=box[boxed].astype(np.float32),
    )


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


def _named(file: CocoFile) -> dict[int, tuple[str, str]]:
    """Kind and name of each category id. A category says itself whether it is a thing, or its file does."""
    named: dict[int, tuple[str, str]] = {}
    for place, category in enumerate(file.categories):
        kind = "stuff" if category.isthing == 0 or (category.isthing is None and file.stuff) else "object"
        if named.setdefault(category.id, (kind, category.name)) != (kind, category.name):
            raise ShiftBenchError(f"{file.path}: categories[{place}] has id {category.id}, which is the id of "
                                  f"'{named[category.id][1]}' too.")
    return named


def _pairs(file: CocoFile, codes: dict[int, int], known: Ints, n_tags: int) -> Ints:
    """Item and tag of each annotation as one number; -1 for a caption. `codes` maps sorted category ids to tags."""
    image, category = file.rows.image, file.rows.category
    item, which = places(image, known), places(category, np.fromiter(codes, np.int64, len(codes)))
    for row in np.flatnonzero(item < 0)[:1]:
        raise ShiftBenchError(f"{file.path}: annotations[{row}] has image_id {image[row]}, which no file lists among "
                              "its images.")
    for row in np.flatnonzero((which < 0) & (category >= 0))[:1]:
        raise ShiftBenchError(f"{file.path}: annotations[{row}] has category_id {category[row]}, which is not among "
                              f"the {len(codes)} categories of the file.")
    code = np.fromiter([*codes.values(), 0], np.int64, len(codes) + 1)[which]
    return np.where(which < 0, -1, item * n_tags + code)


def _sorted(numbers: Ints) -> tuple[Ints, Ints]:
    """Numbers in order, equal ones in the order they had, and where each stood."""
    bits = len(numbers).bit_length()
    if numbers.max(initial=0) >= 1 << (62 - bits):
        order = np.argsort(numbers, kind="stable")
        return numbers[order], order
    packed = (numbers << bits) | np.arange(len(numbers))
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)


def _sums(area: Floats, first: Ints) -> Floats:
    """The sum of what is known between one start and the next; NaN where nothing is."""
    unknown = np.isnan(area)
    if not unknown.any():
        return np.add.reduceat(area, first) if len(first) else area
    total = np.add.reduceat(np.where(unknown, 0, area), first)
    return np.where(np.logical_and.reduceat(unknown, first), np.nan, total)


def _check(what: str, size: Floats, files: Sequence[CocoFile], order: Ints, image: Ints) -> None:
    """Raise the error of the first annotation that is out of all proportion to its image; a NaN is none."""
    for row in np.flatnonzero((np.abs(size) > LARGEST).any(axis=1))[:1]:
        place = int(order[row])
        for file in files:
            if place < len(file.rows.image):
                raise ShiftBenchError(f"{file.path}: annotations[{place}].{what} is more than {LARGEST} times the size "
                                      f"of image {image[row]}. It must be in pixels of that image.")
            place -= len(file.rows.image)
