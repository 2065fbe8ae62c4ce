"""COCO: instances, stuff and captions files, any number, merged by image id.

Categories become tags, supercategories their parents, captions texts. The area of a category in an image is the sum of
its annotations' areas / (height × width); crowd annotations count, and no union is taken, so that overlapping instances
may exceed 1. That is the area the NOOCh benchmark is made with. Which kind a file is, is told by what it holds.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Floats, Ints, Strs, Values
from shiftbench.collection import Collection, Tags, Texts
from shiftbench.errors import ShiftBenchError
from shiftbench.readers.coco_file import CocoFile, load
from shiftbench.readers.images import below, folder, given

Singles = npt.NDArray[np.float32]

LARGEST = 10  # images' worth of area or side: more is a mistake in the file, not an object that leaves its image
LOOKUP = 1 << 23  # up to this id a table is faster than a search
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
    ids, width, height = (np.concatenate([getattr(file, of) for file in files]) for of in ("ids", "width", "height"))
    file_of: Ints = np.repeat(np.arange(len(files)), [len(file.ids) for file in files])
    known, first, where = np.unique(ids, return_index=True, return_inverse=True)
    for row in np.flatnonzero((width != width[first][where]) | (height != height[first][where]))[:1]:
        other = first[where[row]]
        raise ShiftBenchError(f"{files[file_of[row]].path}: image {ids[row]} is {width[row]} × {height[row]}, but in "
                              f"{files[file_of[other]].path} it is {width[other]} × {height[other]}. "
                              "Give files of the same images.")
    return known, first, file_of[first]


def _tags(files: Sequence[CocoFile], known: Ints, width: Ints, height: Ints) -> Tags:
    """Annotations with a category, merged by image; the vocabulary in the order of kinds and names, not of the files."""
    named = [_named(file) for file in files]
    vocabulary = sorted({pair for mine in named for pair in mine.values()})
    code_of = {pair: code for code, pair in enumerate(vocabulary)}
    parts: list[tuple[Ints, Ints, Floats, Singles]] = []
    for file, mine in zip(files, named, strict=True):
        rows: Ints = np.flatnonzero(file.rows.category >= 0)
        image, category, area, box = (column.reshape(len(file.rows.image), -1)[rows] for column in file.rows[:4])
        ids: Ints = np.asarray(sorted(mine), np.int64)
        item, which = _places(image[:, 0], known), _places(category[:, 0], ids)
        for row in rows[item < 0][:1]:
            raise _no_image(file, row)
        for row in rows[which < 0][:1]:
            raise ShiftBenchError(f"{file.path}: annotations[{row}] has category_id {file.rows.category[row]}, but "
                                  f"that is none of the {len(ids)} categories of the file.")
        area /= (width * height)[item, None]
        box[:, ::2] /= width[item, None]
        box[:, 1::2] /= height[item, None]
        for what, size in (("area", area), ("bbox", box)):
            if max(np.fmax.reduce(size, axis=None, initial=0), -np.fmin.reduce(size, axis=None, initial=0)) > LARGEST:
                place = int(np.flatnonzero((np.abs(size) > LARGEST).any(axis=1))[0])
                at = item[place]
                raise ShiftBenchError(f"{file.path}: annotations[{rows[place]}].{what} is more than {LARGEST} times the "
                                      f"size of image {known[at]} ({width[at]} × {height[at]}). It must be in pixels.")
        code: Ints = np.asarray([code_of[mine[key]] for key in ids.tolist()], np.int64)[which]
        parts.append((item, code, area[:, 0], box.astype(np.float32)))
    return _merged_tags(*(np.concatenate([part[column] for part in parts]) for column in range(4)), vocabulary)


def _merged_tags(item: Ints, code: Ints, area: Floats, box: Singles, vocabulary: Sequence[tuple[str, str]]) -> Tags:
    """What `Tags.of` gives, for very many rows: item, tag and row are sorted as one number, which takes a tenth."""
    bits, width = len(item).bit_length(), max(len(vocabulary), 1)
    packed = ((item * width + code) << bits) | np.arange(len(item))
    packed.sort()
    order = packed & ((1 << bits) - 1)
    packed >>= bits
    new = np.diff(packed, prepend=-1) > 0
    first = np.flatnonzero(new)
    pair, area, box = packed[first], area[order], box[order]
    total = np.add.reduceat(np.nan_to_num(area), first) if len(first) else area
    unknown = np.logical_and.reduceat(np.isnan(area), first) if len(first) else np.zeros(0, np.bool_)
    boxed = ~np.isnan(box[:, 0])
    return Tags(
        item=pair // width,
        tag=pair % width,
        area=np.where(unknown, np.nan, total).astype(np.float32),
        names=tuple(word for _, word in vocabulary),
        kinds=tuple(kind for kind, _ in vocabulary),
        box_row=(np.cumsum(new) - 1)[boxed],
        boxes=box[boxed],
    )


def _named(file: CocoFile) -> dict[int, tuple[str, str]]:
    """Kind and name of each category id. A category says itself whether it is a thing, or its file does."""
    named: dict[int, tuple[str, str]] = {}
    for place, category in enumerate(file.categories):
        kind = "stuff" if category.isthing == 0 or (category.isthing is None and file.stuff) else "object"
        if named.setdefault(category.id, (kind, category.name)) != (kind, category.name):
            raise ShiftBenchError(f"{file.path}: categories[{place}] has id {category.id}, which is the id of "
                                  f"'{named[category.id][1]}' too.")
    return named


def _texts(files: Sequence[CocoFile], known: Ints) -> Texts:
    """Captions in the order of their images, those of one image in the order of the files."""
    items = []
    for file in files:
        items.append(_places(file.rows.image[file.rows.captioned], known))
        for row in file.rows.captioned[items[-1] < 0][:1]:
            raise _no_image(file, row)
    item = np.concatenate(items)
    order = np.argsort(item, kind="stable")
    words = [word for file in files for word in file.rows.captions]
    return Texts(item[order], np.asarray([words[row] for row in order.tolist()], np.str_))


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


def _places(needles: Ints, haystack: Ints) -> Ints:
    """Where each number stands among sorted numbers; -1 where it does not."""
    if not len(haystack):
        return np.full(len(needles), -1)
    if haystack[-1] < LOOKUP:
        table: Ints = np.full(haystack[-1] + 2, -1)  # the last entry is for all that are larger
        table[haystack] = np.arange(len(haystack))
        return table[np.minimum(needles, len(table) - 1)]
    place = np.minimum(np.searchsorted(haystack, needles), len(haystack) - 1)
    return np.where(haystack[place] == needles, place, -1)


def _no_image(file: CocoFile, row: int) -> ShiftBenchError:
    return ShiftBenchError(f"{file.path}: annotations[{row}] has image_id {file.rows.image[row]}, which no file lists "
                           "among its images.")


def _source(path: Path) -> str:
    return next((path.stem.removeprefix(start) for start in PREFIXES if path.stem.startswith(start)), path.stem)
