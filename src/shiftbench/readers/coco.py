"""COCO: instances, stuff and captions files, any number, merged by image id; LVIS files are instances files.

Categories become tags, supercategories their parents, captions texts. The area of a category in an image is the sum of
its annotations' areas / (height × width); crowd annotations count, and no union is taken, so that overlapping instances
may exceed 1. The NOOCh benchmark is made with that area. The content of a file shows which of the three it is.

A missing tag means something only where somebody looked for it. So items are the images of instances and
stuff files. Images that only a captions or image_info file lists are left out and counted; `unannotated` keeps them.
"""

import math
import warnings
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.data.image_files import image_folder, paths_below
from shiftbench.readers.annotation_files import LARGEST, Images, Name, Sources, decode_json, source_files

PREFIXES = ("instances_", "stuff_", "captions_", "person_keypoints_", "image_info_")
STUFF_IDS = range(92, 184)  # COCO-Stuff numbers its categories after COCO's 91 things
LOOKUP = 1 << 23  # up to this id a table is faster than a search


def coco(
    *sources: Sources,
    images: Images = None,
    unannotated: Annotated[bool, "Keep images that no instances or stuff file lists; they have no tags."] = False,
    name: Name = "coco",
) -> Collection:
    """COCO instances, stuff and captions files, and LVIS: categories become tags with areas and boxes, captions texts.

    Items are the images that an instances or stuff file lists. Images that only a captions file lists are left out.
    Where there is no instances or stuff file, all images are items.

    Factors: `width`, `height`, `source` (the first file that lists the image, without the prefix of its name:
    train2017), and `file` where the files name their images. Where the folder of the images holds a folder of the
    source's name, as COCO is unpacked, the images of that source are looked for in it.

    shiftbench read coco instances_train2017.json captions_train2017.json --images coco/ --out collections/coco
    """
    root = None if images is None else image_folder(images)
    files = [_load(path) for path in source_files(sources, "coco")]
    ids, first, origin = _merge_images(files)
    width, height = (np.concatenate([getattr(file, side) for file in files])[first] for side in ("width", "height"))
    names = [name for file in files for name in file.names]
    names = [names[row] for row in first.tolist()]
    source = np.asarray([_source(file.path) for file in files], np.str_)[origin]
    factors: dict[str, Values] = {"width": width, "height": height, "source": source}
    if any(names):
        factors["file"] = np.asarray(names, np.str_)
    collection = Collection(
        name=name,
        items=ids.astype(np.str_),
        factors=factors,
        tags=_tags(files, ids, width, height),
        texts=_texts(files, ids),
        parents=_parents(files),
        pixels=None if root is None else _pixels(root, names, source, ids),
        root=root,
    )
    annotated = _annotated(files, ids)
    _warn_partly_annotated(files, ids[annotated])
    return collection if unannotated or annotated.all() else _leave_out(collection, annotated)


# What a file holds, decoded by type. Outlines are most of a file; no type names them, so the decoder skips them.

Id = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Side = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Length = Annotated[float, msgspec.Meta(ge=0)]
Word = Annotated[str, msgspec.Meta(min_length=1)]
NO_BOX = (math.nan,) * 4


class Image(msgspec.Struct, gc=False):
    id: Id
    width: Side
    height: Side
    file_name: str = ""
    coco_url: str = ""  # LVIS has no file_name
    neg_category_ids: Any = None  # nor are all categories looked for; these were, and are not there


class Category(msgspec.Struct):
    id: Id
    name: Word
    supercategory: str | None = None
    isthing: bool | int | None = None


class Annotation(msgspec.Struct, gc=False):
    image_id: Id
    category_id: Id = -1
    area: Length = math.nan
    bbox: tuple[float, float, Length, Length] = NO_BOX
    caption: str | None = None


class Content(msgspec.Struct):
    info: Any = None
    images: list[Image] | msgspec.UnsetType = msgspec.UNSET
    categories: list[Category] = []
    annotations: list[Annotation] | msgspec.UnsetType = msgspec.UNSET


class CocoFile(NamedTuple):
    """One file in columns: images first, then annotations, row r of which is annotations[r] of the file.

    `category` is -1, `area` and `box` are NaN where the file has none; caption k is that of row `captioned[k]`.
    """

    path: Path
    ids: Ints
    width: Ints
    height: Ints
    names: list[str]
    categories: list[Category]
    stuff: bool
    annotated: bool  # an instances or stuff file: somebody annotated every image that it lists
    image: Ints
    category: Ints
    area: Floats
    box: Floats
    captioned: Ints
    captions: list[str]


def _load(path: Path) -> CocoFile:
    """Read one file; whether its ids and sizes fit together is for the caller to check."""
    content = decode_json(path, Content, once="annotations")
    if content.images is msgspec.UNSET and content.annotations is msgspec.UNSET:
        raise ShiftBenchError(f"{path}: has neither 'images' nor 'annotations', so it is not a COCO annotation file.")
    images, rows, categories = content.images or [], content.annotations or [], content.categories
    n, m = len(images), len(rows)
    if any(image.neg_category_ids is not None for image in images):
        warnings.warn(f"{path}: is an LVIS file: in each image its annotators looked for some categories, not for all, "
                      "so an object without a tag may be there.", stacklevel=4)
    category: Ints = np.fromiter([row.category_id for row in rows], np.int64, m)
    captions = [row.caption for row in rows]
    captioned: Ints = np.asarray([row for row, text in enumerate(captions) if text is not None], np.int64)
    for row in np.setdiff1d(np.flatnonzero(category < 0), captioned)[:1]:
        raise ShiftBenchError(f"{path}: annotations[{row}] has neither a category_id nor a caption. "
                              "Instances, stuff and captions files can be read.")
    return CocoFile(
        path=path,
        ids=np.fromiter([image.id for image in images], np.int64, n),
        width=np.fromiter([image.width for image in images], np.int64, n),
        height=np.fromiter([image.height for image in images], np.int64, n),
        names=[image.file_name or "/".join(image.coco_url.split("/")[-2:]) for image in images],
        categories=categories,
        stuff=_says_stuff(content.info) or (bool(categories) and all(entry.id in STUFF_IDS for entry in categories)),
        annotated=content.annotations is not msgspec.UNSET and bool(categories) and (
            not rows or bool((category >= 0).any())),
        image=np.fromiter([row.image_id for row in rows], np.int64, m),
        category=category,
        area=np.fromiter([row.area for row in rows], np.float64, m),
        box=np.fromiter(chain.from_iterable([row.bbox for row in rows]), np.float64, 4 * m).reshape(-1, 4),
        captioned=captioned,
        captions=[text for text in captions if text is not None],
    )


def _says_stuff(info: Any) -> bool:
    """Does the file call itself a stuff file? `info` may hold anything."""
    return isinstance(info, dict) and "stuff" in str(info.get("description")).lower()


# The images of all files.


def _merge_images(files: Sequence[CocoFile]) -> tuple[Ints, Ints, Ints]:
    """Image ids in order, the first row that lists each, and the number of the file this row is in."""
    ids, width, height = (np.concatenate([getattr(file, key) for file in files]) for key in ("ids", "width", "height"))
    file_of: Ints = np.repeat(np.arange(len(files)), [len(file.ids) for file in files])
    unique, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    for row in np.flatnonzero((width != width[first][inverse]) | (height != height[first][inverse]))[:1]:
        other = first[inverse[row]]
        raise ShiftBenchError(f"{files[file_of[row]].path}: image {ids[row]} is {width[row]} × {height[row]}, but in "
                              f"{files[file_of[other]].path} it is {width[other]} × {height[other]}. "
                              "Give files of the same images.")
    return unique, first, file_of[first]


def _annotated(files: Sequence[CocoFile], ids: Ints) -> Bools:
    """The images that an instances or stuff file lists, or has an annotation of; all where there is no such file."""
    if not any(file.annotated for file in files):
        return np.ones(len(ids), np.bool_)
    return np.isin(ids, np.concatenate([
        images for file in files for images in (file.ids if file.annotated else (), file.image[file.category >= 0])]))


def _leave_out(collection: Collection, annotated: Bools) -> Collection:
    count, example = int((~annotated).sum()), collection.items[~annotated][0]
    warnings.warn(f"{count:,} of {len(annotated):,} images are listed by no instances or stuff file (the first is "
                  f"{example}): nobody annotated what they show, so they are left out. --unannotated keeps them.",
                  stacklevel=3)
    return collection.take(np.flatnonzero(annotated))


def _warn_partly_annotated(files: Sequence[CocoFile], items: Ints) -> None:
    """With things in one file and stuff in another, an item that only one of them lists lacks the tags of the other."""
    annotated = [(file, frozenset(category.name for category in file.categories)) for file in files if file.annotated]
    for names in dict.fromkeys(names for _, names in annotated):
        covering = [file for file, categories in annotated if categories >= names]
        count = len(items) - int(np.isin(items, np.concatenate([file.ids for file in covering])).sum())
        if count:
            warnings.warn(f"{count:,} of {len(items):,} items are in no file with the categories of "
                          f"{covering[0].path.name}: in these items such tags count as absent. Give files of the same "
                          "images.", stacklevel=3)


def _pixels(root: Path, names: Sequence[str], source: Strs, ids: Ints) -> Strs:
    has_folder = {name: (root / name).is_dir() for name in set(source.tolist())}
    for row, name in enumerate(names):
        if not name:
            raise ShiftBenchError(f"Image {ids[row]} of {source[row]} has no file_name, so it cannot be found in "
                                  f"{root}.")
    return paths_below(root, [f"{folder}/{name}" if has_folder[folder] else name
                              for folder, name in zip(source.tolist(), names, strict=True)])


def _source(path: Path) -> str:
    return next((path.stem.removeprefix(prefix) for prefix in PREFIXES if path.stem.startswith(prefix)), path.stem)


# The annotations of all files: captions as texts, categories as tags with their share of the image, all checked.


def _texts(files: Sequence[CocoFile], ids: Ints) -> Texts:
    """Captions in the order of their images, those of one image in the order of the files."""
    item = np.concatenate([_positions(file.image[file.captioned], ids) for file in files])
    order = np.argsort(item, kind="stable")
    captions = [caption for file in files for caption in file.captions]
    return Texts(item[order], np.asarray([captions[row] for row in order.tolist()], np.object_))


def _parents(files: Sequence[CocoFile]) -> dict[str, tuple[str, ...]]:
    """Supercategories; COCO calls the supercategory of `person` person too, which says nothing and would be a loop."""
    parents: dict[str, set[str]] = {}
    for category in (category for file in files for category in file.categories):
        if category.supercategory and category.supercategory != category.name:
            parents.setdefault(category.name, set()).add(category.supercategory)
    return {name: tuple(sorted(parents[name])) for name in sorted(parents)}


def _tags(files: Sequence[CocoFile], ids: Ints, width: Ints, height: Ints) -> Tags:
    """The tags of images `ids`; their vocabulary is in the order of kinds and names, whatever the order of the files.

    The outcome is that of `Tags.of`. There are so many rows that item, tag and row are sorted as one number, and that
    areas and boxes are computed in the order of the items.
    """
    categories = [_kind_and_name(file) for file in files]
    vocabulary = sorted({pair for pairs in categories for pair in pairs.values()})
    code_of = {pair: code for code, pair in enumerate(vocabulary)}
    pairs = [_pairs(file, {key: code_of[names[key]] for key in sorted(names)}, ids, len(vocabulary))
             for file, names in zip(files, categories, strict=True)]
    pair, order = _sort(np.concatenate(pairs))
    pair, order = pair[(start := int(np.searchsorted(pair, 0))):], order[start:]
    new: Bools = np.diff(pair, prepend=-1) > 0
    first = np.flatnonzero(new)
    item = pair // max(len(vocabulary), 1)
    area = np.concatenate([file.area for file in files])[order] / (width * height)[item]
    box = np.concatenate([file.box for file in files])[order]
    box /= np.stack([width, height, width, height], axis=1)[item]
    for field, size in (("area", area[:, None]), ("bbox", box)):
        if not -LARGEST <= size.min(initial=0) <= size.max(initial=0) <= LARGEST:
            _check_sizes(field, size, files, order, ids[item])
    boxed = ~np.isnan(box[:, 0])
    return Tags(
        item=item[first],
        tag=pair[first] % max(len(vocabulary), 1),
        area=_sums(area, first).astype(np.float32),
        names=tuple(name for _, name in vocabulary),
        kinds=tuple(kind for kind, _ in vocabulary),
        box_row=(np.cumsum(new) - 1)[boxed],
        boxes=box[boxed].astype(np.float32),
    )


def _kind_and_name(file: CocoFile) -> dict[int, tuple[str, str]]:
    """Kind and name of each category id. A category says itself whether it is a thing, or its file does."""
    pairs: dict[int, tuple[str, str]] = {}
    for row, category in enumerate(file.categories):
        kind = "stuff" if category.isthing == 0 or (category.isthing is None and file.stuff) else "object"
        if pairs.setdefault(category.id, (kind, category.name)) != (kind, category.name):
            raise ShiftBenchError(f"{file.path}: categories[{row}] has id {category.id}, which is the id of "
                                  f"'{pairs[category.id][1]}' too.")
    return pairs


def _pairs(file: CocoFile, codes: dict[int, int], ids: Ints, n_tags: int) -> Ints:
    """Item and tag of each annotation as one number; -1 for a caption. `codes` maps sorted category ids to tags."""
    item = _positions(file.image, ids)
    category = _positions(file.category, np.fromiter(codes, np.int64, len(codes)))
    for row in np.flatnonzero(item < 0)[:1]:
        raise ShiftBenchError(f"{file.path}: annotations[{row}] has image_id {file.image[row]}, which no file lists "
                              "among its images.")
    for row in np.flatnonzero((category < 0) & (file.category >= 0))[:1]:
        raise ShiftBenchError(f"{file.path}: annotations[{row}] has category_id {file.category[row]}, which is not "
                              f"among the {len(codes)} categories of the file.")
    code = np.fromiter([*codes.values(), 0], np.int64, len(codes) + 1)[category]
    return np.where(category < 0, -1, item * n_tags + code)


def _positions(numbers: Ints, among: Ints) -> Ints:
    """The position of each number among sorted ones; -1 where it is not among them."""
    if not len(among):
        return np.full(len(numbers), -1)
    if among[-1] < LOOKUP:
        table: Ints = np.full(among[-1] + 2, -1)  # the last entry is for all that are larger
        table[among] = np.arange(len(among))
        return table[np.minimum(numbers, len(table) - 1)]
    position = np.minimum(np.searchsorted(among, numbers), len(among) - 1)
    return np.where(among[position] == numbers, position, -1)


def _sort(numbers: Ints) -> tuple[Ints, Ints]:
    """Numbers in stable order, and the row that each had before."""
    bits = len(numbers).bit_length()
    if numbers.max(initial=0) >= 1 << (62 - bits):
        order = np.argsort(numbers, kind="stable")
        return numbers[order], order
    packed = (numbers << bits) | np.arange(len(numbers))
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)


def _sums(area: Floats, first: Ints) -> Floats:
    """The sum of the known areas between one start and the next; NaN where none is known."""
    unknown = np.isnan(area)
    if not unknown.any():
        return np.add.reduceat(area, first) if len(first) else area
    total = np.add.reduceat(np.where(unknown, 0, area), first)
    return np.where(np.logical_and.reduceat(unknown, first), np.nan, total)


def _check_sizes(field: str, size: Floats, files: Sequence[CocoFile], order: Ints, image: Ints) -> None:
    """Raise an error for the first annotation that is far too large for its image; NaN passes."""
    for row in np.flatnonzero((np.abs(size) > LARGEST).any(axis=1))[:1]:
        number = int(order[row])
        for file in files:
            if number < len(file.image):
                raise ShiftBenchError(f"{file.path}: annotations[{number}].{field} is more than {LARGEST} times the "
                                      f"size of image {image[row]}. It must be in pixels of that image.")
            number -= len(file.image)
