"""GQA scene graphs, and Visual Genome's own objects.json, attributes.json and image_data.json, merged by image id.

Objects become tags of kind object; an attribute of an object becomes the tag `cat(black)` of kind attribute; location
and weather become tags of kinds place and weather, in the words of the file. The area of a tag is the sum of its boxes'
shares of the image. Boxes of Visual Genome sometimes leave their images, some by far: the part inside counts.
A file that is a dictionary of scenes is GQA's; one that is a list of images is Visual Genome's.
"""

import math
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from shiftbench.core.arrays import Floats, Ints, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags
from shiftbench.data.image_files import image_folder, paths_below
from shiftbench.readers.annotation_files import (
    Images,
    Name,
    Sources,
    decode_json,
    first_bracket,
    no_collection,
    sorted_ids,
    source_files,
)

Side = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Length = Annotated[float, msgspec.Meta(ge=0)]
Id = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Thing(msgspec.Struct, gc=False):
    """An object: GQA gives it a name, Visual Genome a list of names. No type names relations, so they are skipped."""

    x: float
    y: float
    w: Length
    h: Length
    name: str = ""
    names: list[str] = []
    attributes: list[str] | None = None
    object_id: Id | None = None


COLUMNS = attrgetter("x", "y", "w", "h", "name", "names", "attributes")
"""What becomes columns, read in one pass: the objects of a file lie far apart in memory."""


class Scene(msgspec.Struct):
    """An image of GQA."""

    width: Side
    height: Side
    objects: dict[str, Thing]
    location: str | None = None
    weather: str | None = None


class Picture(msgspec.Struct):
    """An image of Visual Genome; each of its files has other fields."""

    image_id: Id
    width: Side | None = None
    height: Side | None = None
    objects: list[Thing] | None = None
    attributes: list[Thing] | None = None


def gqa(*sources: Sources, images: Images = None, name: Name = "gqa") -> Collection:
    """GQA scene graphs, or Visual Genome's objects.json, attributes.json and image_data.json.

    Factors: `source`, the first file that lists the image, and `width` and `height` where they are known for all.
    Visual Genome has sizes only in image_data.json: without it, areas are unknown and there are no boxes. The folder
    of the images holds ID.jpg for each image.

    shiftbench read gqa train_sceneGraphs.json val_sceneGraphs.json --images images/ --out collections/vg
    """
    root = image_folder(images)
    table = Table()
    for path in source_files(sources, "gqa"):
        with no_collection():
            if first_bracket(path) == "{":
                table.add_scenes(path, decode_json(path, dict[str, Scene]))
            else:
                table.add_pictures(path, decode_json(path, list[Picture]))
    ids = sorted_ids(table.images)
    numbers = [table.images[key] for key in ids]
    item: Ints = np.zeros(len(ids), np.int64)
    item[numbers] = np.arange(len(ids))
    sizes: Ints = np.asarray([table.sizes[number] for number in numbers], np.int64).reshape(-1, 2)
    factors: dict[str, Values] = {"source": np.asarray(
        [table.first[number].stem.removesuffix("_sceneGraphs") for number in numbers], np.str_)}
    if sizes.all():
        factors |= {"width": sizes[:, 0], "height": sizes[:, 1]}
    return Collection(
        name=name,
        items=np.asarray(ids, np.str_),
        factors=factors,
        tags=table.tags(item, sizes),
        pixels=None if root is None else paths_below(root, [f"{key}.jpg" for key in ids]),
        root=root,
    )


class Table:
    """The files read so far. Images and words have numbers, images in the order of their first appearance.

    Object k is in image `owner[k]`, has an id that is unique within the image (negative when the file gives none), and
    a box in pixels. A row of `named` is an object and one of its names, a row of `described` an object and one of its
    attributes, a row of `scenery[kind]` an image and its word of that kind.
    """

    def __init__(self) -> None:
        self.images: dict[str, int] = {}
        self.sizes: list[tuple[int, int]] = []
        self.first: list[Path] = []
        self.words: list[str] = []
        self.codes: dict[str, int] = {}
        self.count = 0
        self.owner: list[Ints] = []
        self.object_id: list[Ints] = []
        self.boxes: list[Floats] = []
        self.named: list[Ints] = []
        self.described: list[Ints] = []
        self.scenery: dict[str, list[Ints]] = {"place": [], "weather": []}

    def add_scenes(self, path: Path, scenes: dict[str, Scene]) -> None:
        """Add a GQA file."""
        images: Ints = np.asarray([self.image(path, key, scene.width, scene.height) for key, scene in scenes.items()],
                                  np.int64)
        for key, scene in scenes.items():
            for object_key, thing in scene.objects.items():
                if not thing.name or thing.name.isspace():
                    raise ShiftBenchError(f"{path}: {key}.objects.{object_key} has no name.")
        object_ids = [int(object_key) if object_key.isdecimal() and len(object_key) < 19 else -1
                      for scene in scenes.values() for object_key in scene.objects]
        counts: Ints = np.ones(len(scenes), np.int64)
        self.scenery["place"].append(self.rows(images, counts, [scene.location or "" for scene in scenes.values()]))
        self.scenery["weather"].append(self.rows(images, counts, [scene.weather or "" for scene in scenes.values()]))
        self.add_things([list(scene.objects.values()) for scene in scenes.values()], images, object_ids)

    def add_pictures(self, path: Path, pictures: Sequence[Picture]) -> None:
        """Add a Visual Genome file."""
        images = []
        for picture in pictures:
            if picture.objects is None and picture.attributes is None and picture.width is None:
                raise ShiftBenchError(f"{path}: image {picture.image_id} has no objects, no attributes and no size. "
                                      "Visual Genome's objects, attributes and image_data files can be read.")
            images.append(self.image(path, str(picture.image_id), picture.width or 0, picture.height or 0))
        things = [[*(picture.objects or ()), *picture.attributes] if picture.attributes else picture.objects or []
                  for picture in pictures]
        object_ids = [-1 if thing.object_id is None else thing.object_id for objects in things for thing in objects]
        self.add_things(things, np.asarray(images, np.int64), object_ids)

    def image(self, path: Path, key: str, width: int, height: int) -> int:
        """The number of an image; two files must agree on its size."""
        number = self.images.setdefault(key, len(self.images))
        if number == len(self.sizes):
            self.sizes.append((width, height))
            self.first.append(path)
        elif self.sizes[number] == (0, 0):
            self.sizes[number] = width, height
        elif width and self.sizes[number] != (width, height):
            other = "{} × {}".format(*self.sizes[number])
            raise ShiftBenchError(f"{path}: image {key} is {width} × {height}, but in {self.first[number]} it is "
                                  f"{other}. Give files of the same images.")
        return number

    def add_things(self, by_image: Sequence[Sequence[Thing]], images: Ints, object_ids: Sequence[int]) -> None:
        """Add the objects of each image of a file."""
        n = len(object_ids)
        if not n:
            return
        numbers = np.arange(self.count, self.count + n)
        self.count += n
        self.owner.append(np.repeat(images, [len(objects) for objects in by_image]))
        self.object_id.append(np.fromiter(object_ids, np.int64, n))
        *sides, name, names, attributes = zip(*map(COLUMNS, chain.from_iterable(by_image)), strict=True)
        self.boxes.append(np.stack([np.fromiter(side, np.float64, n) for side in sides], axis=1))
        if not any(names):
            self.named.append(self.rows(numbers, np.ones(n, np.int64), name))
        else:
            self.named.append(self.lists(numbers, [[*others, first] for others, first in zip(names, name, strict=True)]
                                         if any(name) else names))
        self.described.append(self.lists(numbers, [words or () for words in attributes]))

    def lists(self, owners: Ints, words: Sequence[Sequence[str]]) -> Ints:
        """`rows` of a list of words per owner."""
        count: Ints = np.fromiter(map(len, words), np.int64, len(words))
        return self.rows(owners, count, list(chain.from_iterable(words)))

    def rows(self, owners: Ints, count: Ints, words: Sequence[str]) -> Ints:
        """The owner and the number of every word that is not blank; blanks around a word do not count.

        An owner has `count` words, which follow those of the owner before.
        """
        for word in set(words).difference(self.codes):
            stripped = word.strip()
            if stripped and stripped not in self.codes:
                self.codes[stripped] = len(self.words)
                self.words.append(stripped)
            self.codes[word] = self.codes[stripped] if stripped else -1
        code = np.fromiter(map(self.codes.__getitem__, words), np.int64, len(words))
        owner = np.repeat(owners, count)
        return np.stack([owner, code], axis=1)[code >= 0]

    def tags(self, item_of: Ints, sizes: Ints) -> Tags:
        """Every object once, however many files list it; tags in the order of kinds and words, not of the files."""
        named, described = _joined(self.named), _joined(self.described)
        thing, name, attribute = _every_pair(named, described)
        n = len(self.words)
        described_as, phrase = np.unique(name * n + attribute, return_inverse=True)
        phrases = [f"{self.words[pair // n]}({self.words[pair % n]})" for pair in described_as.tolist()]
        scenery = [(kind, _joined(rows)) for kind, rows in self.scenery.items()]
        groups = [("object", self.words, named[:, 1]), ("attribute", phrases, phrase),
                  *((kind, self.words, rows[:, 1]) for kind, rows in scenery)]
        vocabulary, codes = _vocabulary(groups)
        item: Ints = item_of[np.concatenate([np.zeros(0, np.int64), *self.owner])]
        object_id = np.concatenate([np.zeros(0, np.int64), *self.object_id])
        object_id = np.where(object_id < 0, -1 - np.arange(len(object_id)), object_id)
        thing, code = np.concatenate([named[:, 0], thing]), np.concatenate(codes[:2])
        first = _first_of_each(item[thing], object_id[thing], code)
        thing, code = thing[first], code[first]
        box = _shares(np.concatenate([np.zeros((0, 4)), *self.boxes]), sizes[item])
        is_object = np.asarray([kind == "object" for kind, _ in vocabulary], np.bool_)
        n_scenery = sum(len(rows) for _, rows in scenery)
        return Tags.of(
            item=np.concatenate([item[thing], *(item_of[rows[:, 0]] for _, rows in scenery)]),
            tag=np.concatenate([code, *codes[2:]]),
            names=[word for _, word in vocabulary],
            kinds=[kind for kind, _ in vocabulary],
            area=np.concatenate([(box[:, 2] * box[:, 3])[thing], np.full(n_scenery, math.nan)]),
            boxes=np.concatenate([np.where(is_object[code][:, None], box[thing], math.nan),
                                  np.full((n_scenery, 4), math.nan)]),
        )


def _joined(rows: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros((0, 2), np.int64), *rows])


def _every_pair(named: Ints, described: Ints) -> tuple[Ints, Ints, Ints]:
    """Object, name and attribute, of every attribute with each name of its object; rows are in order of objects."""
    start, stop = (np.searchsorted(named[:, 0], described[:, 0], side) for side in ("left", "right"))
    count = stop - start
    row = np.repeat(start - np.cumsum(count) + count, count) + np.arange(count.sum())
    return named[row, 0], named[row, 1], np.repeat(described[:, 1], count)


def _vocabulary(groups: Sequence[tuple[str, Sequence[str], Ints]]) -> tuple[list[tuple[str, str]], list[Ints]]:
    """Kind and word of every tag that occurs, sorted, and the tags of each group, given as numbers of its words."""
    used = [(kind, words, np.unique(numbers)) for kind, words, numbers in groups]
    vocabulary = sorted({(kind, words[number]) for kind, words, numbers in used for number in numbers.tolist()})
    code_of = {pair: code for code, pair in enumerate(vocabulary)}
    codes = []
    for (kind, words, present), (_, _, numbers) in zip(used, groups, strict=True):
        code_at: Ints = np.zeros(len(words), np.int64)
        code_at[present] = [code_of[kind, words[number]] for number in present.tolist()]
        codes.append(code_at[numbers])
    return vocabulary, codes


def _first_of_each(item: Ints, object_id: Ints, code: Ints) -> Ints:
    """The first row of each item, object and tag, in that order."""
    order = np.lexsort((code, object_id, item))
    ranked = np.stack([code, object_id, item])[:, order]
    return order[np.flatnonzero((np.diff(ranked, axis=1, prepend=-1) != 0).any(axis=0))]


def _shares(box: Floats, size: Ints) -> Floats:
    """The part of each box that lies inside its image, as shares of the image; NaN where the size is unknown (0)."""
    side = np.where(size == 0, math.nan, size)
    low = np.clip(box[:, :2], 0, side)
    high = np.clip(box[:, :2] + box[:, 2:], 0, side)
    return np.concatenate([low / side, (high - low) / side], axis=1)
