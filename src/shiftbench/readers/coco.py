"""COCO: instances, stuff and captions files, any number, merged by image id.

Categories become tags, supercategories their parents, captions texts. The area of a category in an image is the sum of
its annotations' areas / (height × width); crowd annotations count, and no union is taken, so that overlapping instances
may exceed 1. That is the area the NOOCh benchmark is made with. Which kind a file is, is told by what it holds.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shiftbench.arrays import Floats, Ints, Strs, Values
from shiftbench.collection import Collection, Tags, Texts
from shiftbench.errors import ShiftBenchError
from shiftbench.readers.coco_file import CocoFile, load
from shiftbench.readers.images import below, folder, given

LARGEST = 10  # images' worth of area or side: more is a mistake in the file, not an object that leaves its image
PREFIXES = ("instances_", "stuff_", "captions_", "person_keypoints_", "image_info_")


def coco(*sources: Path | str, name: str = "coco", images: Path | str | None = None) -> Collection:
    """Read COCO annotation files; with `images`, the folder of the image files, the items have pixels.

    Factors: `width`, `height`, `source` (the first file that lists the image, without the part of its name that tells
    the kind: train2017), and `file` where the files name their images. Where the folder holds a folder of the source's
    name, as COCO is unpacked, the images of that source are looked for in it.
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
    return Collection(
        name=name,
        items=known.astype(np.str_),
        factors=factors,
        tags=_tags(files, known, width, height),
        texts=_texts(files, known),
        parents=_parents(files),
        pixels=None if root is None else _pixels(root, names, source, known),
        root=root,
    )


def _merged(files: Sequence[CocoFile]) -> tuple[Ints, Ints, Ints]:
    """Image ids in order, the first row that lists each, and the number of the file this row is in."""
    ids, width, height = (np.concatenate([getattr(file, column) for file in files]) for column in ("ids", "width", "height"))
    file_of: Ints = np.repeat(np.arange(len(files)), [len(file.ids) for file in files])
    known, first, where = np.unique(ids, return_index=True, return_inverse=True)
    for row in np.flatnonzero((width != width[first][where]) | (height != height[first][where]))[:1]:
        other = first[where[row]]
        raise ShiftBenchError(f"{files[file_of[row]].path}: image {ids[row]} is {width[row]} × {height[row]}, but in "
                              f"{files[file_of[other]].path} it is {width[other]} × {height[other]}. "
                              "Give files of the same images.")
    return known, first, file_of[first]


def _tags(files: Sequence[CocoFile], known: Ints, width: Ints, height: Ints) -> Tags:
    """One row per annotation with a category; the vocabulary in the order of kinds and names, not of the files."""
    named = [{category.id: (_kind(category.isthing, file.stuff), category.name) for category in file.categories}
             for file in files]
    for file, mine in zip(files, named, strict=True):
        for category in file.categories:
            if mine[category.id][1] != category.name:
                raise ShiftBenchError(f"{file.path}: category {category.id} is both '{category.name}' and "
                                      f"'{mine[category.id][1]}'. An id may have one name.")
    vocabulary = sorted({pair for mine in named for pair in mine.values()})
    code_of = {pair: code for code, pair in enumerate(vocabulary)}
    items, codes, areas, boxes = [], [], [], []
    for file, mine in zip(files, named, strict=True):
        rows = slice(None) if file.category.min(initial=0) >= 0 else file.category >= 0
        item, category = _numbers(file, known)[rows], file.category[rows]
        ids = np.asarray(sorted(mine), np.int64)
        found = _places(category, ids)
        for row in np.flatnonzero(found < 0)[:1]:
            at = np.arange(len(file.category))[rows][row]
            raise ShiftBenchError(f"{file.path}: annotations[{at}] has category_id {category[row]}, which is not among "
                                  f"the {len(ids)} categories of the file.")
        area = file.area[rows] / (width * height)[item]
        sides = np.stack([width, height, width, height], axis=1)[item]
        box = file.box[rows] / sides
        _check_size(file, rows, area, box, known[item], width[item], height[item])
        items.append(item)
        codes.append(np.asarray([code_of[mine[key]] for key in ids.tolist()], np.int64)[found])
        areas.append(area)
        boxes.append(box)
    return Tags.of(np.concatenate(items), np.concatenate(codes), [word for _, word in vocabulary],
                   [kind for kind, _ in vocabulary], np.concatenate(areas), np.concatenate(boxes))
