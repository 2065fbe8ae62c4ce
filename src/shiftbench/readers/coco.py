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

from shiftbench.arrays import Bools, Ints, Strs, Values
from shiftbench.collection import Collection, Texts
from shiftbench.errors import ShiftBenchError
from shiftbench.readers.coco_file import CocoFile, load
from shiftbench.readers.coco_tags import places, tags
from shiftbench.readers.images import below, folder, given

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
