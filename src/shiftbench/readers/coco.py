"""COCO: instances, stuff and captions files, any number, merged by image id.

Categories become tags, supercategories their parents, captions texts. The area of a category in an image is the sum of
its annotations' areas / (height × width); crowd annotations count, and no union is taken, so that overlapping instances
may exceed 1. That is the area the NOOCh benchmark is made with. Which kind a file is, is told by what it holds.

That an image lacks a tag means something only where somebody looked for it. So items are the images of instances and
stuff files; those that a captions or image_info file alone lists are left out, counted, and read when asked for.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.readers.coco_file import CocoFile, load
from shiftbench.readers.images import below, folder, given

# The annotations of COCO files as tags: whose image, which category, which share of the image; all of it checked.

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


PREFIXES = ("instances_", "stuff_", "captions_", "person_keypoints_", "image_info_")


def coco(
    *sources: Path | str, name: str = "coco", images: Path | str | None = None, unannotated: bool = False
) -> Collection:
    """Read COCO annotation files; with `images`, the folder of the image files, the items have pixels.

    Factors: `width`, `height`, `source` (the first file that lists the image, without the part of its name that tells
    the kind: train2017), and `file` where the files name their images. Where the folder holds a folder of the source's
    name, as COCO is unpacked, the images of that source are looked for in it. With `unannotated`, images that no
    instances or stuff file lists are items too, without tags; where there is no such file, all images are items.
    """
    root = folder(images)
    files = [load(path) for path in given(sources, "coco")]
    known, first, origin = _merged(files)
    width, height = (np.concatenate([getattr(file, side) for file in files])[first] for side in ("width", "height"))
    names = [name for file in files for name in file.names]
    names = [names[row] for row in first.tolist()]
    source = np.asarray([_source(file.path) for file in files], np.str_)[origin]
    factors: dict[str, Values] = {"width": width, "height": height, "source": source}
    if any(names):
        factors["file"] = np.asarray(names, np.str_)
    collection = Collection(
        name=name,
        items=known.astype(np.str_),
        factors=factors,
        tags=tags(files, known, width, height),
        texts=_texts(files, known),
        parents=_parents(files),
        pixels=None if root is None else _pixels(root, names, source, known),
        root=root,
    )
    judged = _judged(files, known)
    _tell_partly_judged(files, known[judged])
    return collection if unannotated or judged.all() else _left_out(collection, judged)


def _judged(files: Sequence[CocoFile], known: Ints) -> Bools:
    """The images that an instances or stuff file lists, or has an annotation of; all where there is no such file."""
    if not any(file.judged for file in files):
        return np.ones(len(known), np.bool_)
    return np.isin(known, np.concatenate([
        ids for file in files for ids in (file.ids if file.judged else (), file.rows.image[file.rows.category >= 0])]))


def _left_out(collection: Collection, judged: Bools) -> Collection:
    count, example = int((~judged).sum()), collection.items[~judged][0]
    warnings.warn(f"{count:,} of {len(judged):,} images are listed by no instances or stuff file (the first is "
                  f"{example}): nobody said what is in them, so they are left out. --unannotated keeps them.",
                  stacklevel=3)
    return collection.take(np.flatnonzero(judged))


def _tell_partly_judged(files: Sequence[CocoFile], items: Ints) -> None:
    """Things of one file, stuff of another: an item that only one of them lists was not looked at for the rest."""
    judged = [(file, frozenset(category.name for category in file.categories)) for file in files if file.judged]
    for names in dict.fromkeys(names for _, names in judged):
        covering = [file for file, more in judged if more >= names]
        count = len(items) - int(np.isin(items, np.concatenate([file.ids for file in covering])).sum())
        if count:
            warnings.warn(f"{count:,} of {len(items):,} items are in no file with the categories of "
                          f"{covering[0].path.name}: in these items such tags count as absent. Give files of the same "
                          "images.", stacklevel=3)


def _merged(files: Sequence[CocoFile]) -> tuple[Ints, Ints, Ints]:
    """Image ids in order, the first row that lists each, and the number of the file this row is in."""
    ids, width, height = (np.concatenate([getattr(file, of) for file in files]) for of in ("ids", "width", "height"))
    file_of: Ints = np.repeat(np.arange(len(files)), [len(file.ids) for file in files])
    known, first, where = np.unique(ids, return_index=True, return_inverse=True)
    for row in np.flatnonzero((width != width[first][where]) | (height != height[first][where]))[:1]:
        other = first[where[row]]
        raise ShiftBenchError(f"{files[file_of[row]].path}: image {ids[row]} is {width[row]} × {height[row]}, but in "
                              f"{files[file_of[other]].path} it is {width[other]} × {height[other]}. "
                              "Give files of the same images.")
    return known, first, file_of[first]


def _texts(files: Sequence[CocoFile], known: Ints) -> Texts:
    """Captions in the order of their images, those of one image in the order of the files."""
    item = np.concatenate([places(file.rows.image[file.rows.captioned], known) for file in files])
    order = np.argsort(item, kind="stable")
    words = [word for file in files for word in file.rows.captions]
    return Texts(item[order], np.asarray([words[row] for row in order.tolist()], np.object_))


def _parents(files: Sequence[CocoFile]) -> dict[str, tuple[str, ...]]:
    """Supercategories; COCO calls the supercategory of `person` person too, which says nothing and would be a loop."""
    above: dict[str, set[str]] = {}
    for category in (category for file in files for category in file.categories):
        if category.supercategory and category.supercategory != category.name:
            above.setdefault(category.name, set()).add(category.supercategory)
    return {name: tuple(sorted(above[name])) for name in sorted(above)}


def _pixels(root: Path, names: Sequence[str], source: Strs, known: Ints) -> Strs:
    own = {name: (root / name).is_dir() for name in set(source.tolist())}
    for row, name in enumerate(names):
        if not name:
            raise ShiftBenchError(f"Image {known[row]} of {source[row]} has no file_name, so it is not to be found in "
                                  f"{root}.")
    return below(root, [f"{part}/{name}" if own[part] else name
                        for part, name in zip(source.tolist(), names, strict=True)])


def _source(path: Path) -> str:
    return next((path.stem.removeprefix(start) for start in PREFIXES if path.stem.startswith(start)), path.stem)
