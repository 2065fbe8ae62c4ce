"""GQA scene graphs, and Visual Genome's own objects.json, attributes.json and image_data.json, merged by image id.

Objects become tags of kind object; an attribute of an object becomes the tag `cat(black)` of kind attribute; location
and weather become tags of kinds place and weather, in the words of the file. The area of a tag is the sum of its boxes'
shares of the image. Boxes of Visual Genome leave their images now and then, some by far: the part inside counts.
Which kind a file is, is told by what it holds: a dictionary of scenes is GQA's, a list of images is Visual Genome's.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from shiftbench.core.arrays import Floats, Ints, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags
from shiftbench.readers.images import below, folder, given, in_order
from shiftbench.readers.json_pieces import Pieces

Side = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Length = Annotated[float, msgspec.Meta(ge=0)]
Id = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Thing(msgspec.Struct, gc=False):
    """An object: GQA gives it a name, Visual Genome a list of names. Relations are named in no type and skipped."""

    x: float
    y: float
    w: Length
    h: Length
    name: str = ""
    names: list[str] = []
    attributes: list[str] | None = None
    object_id: Id | None = None


class Scene(msgspec.Struct):
    """An image of GQA."""

    width: Side
    height: Side
    objects: dict[str, Thing]
    location: str | None = None
    weather: str | None = None


class Picture(msgspec.Struct):
    """An image of Visual Genome; each of its files gives another part."""

    image_id: Id
    width: Side | None = None
    height: Side | None = None
    objects: list[Thing] | None = None
    attributes: list[Thing] | None = None


def gqa(*sources: Path | str, name: str = "gqa", images: Path | str | None = None) -> Collection:
    """Read scene graphs; with `images`, the folder that holds ID.jpg for each image, the items have pixels.

    Factors: `source`, the first file that lists the image, and `width` and `height` where they are known for all.
    Visual Genome gives sizes in image_data.json alone: without it, areas are unknown and there are no boxes.
    """
    root = folder(images)
    table = Table()
    for path in given(sources, "gqa"):
        with Pieces(path) as file:
            if file.bracket == "{":
                for scenes in file.entries(Scene):
                    table.add_scenes(path, scenes)
            else:
                for pictures in file.elements(Picture):
                    table.add_pictures(path, pictures)
    ids = in_order(table.images)
    item: Ints = np.zeros(len(ids), np.int64)
    item[[table.images[key] for key in ids]] = np.arange(len(ids))
    sizes: Ints = np.asarray([table.sizes[table.images[key]] for key in ids], np.int64).reshape(-1, 2)
    factors: dict[str, Values] = {"source": np.asarray(
        [table.first[table.images[key]].stem.removesuffix("_sceneGraphs") for key in ids], np.str_)}
    if sizes.all():
        factors |= {"width": sizes[:, 0], "height": sizes[:, 1]}
    return Collection(
        name=name,
        items=np.asarray(ids, np.str_),
        factors=factors,
        tags=table.tags(item, sizes),
        pixels=None if root is None else below(root, [f"{key}.jpg" for key in ids]),
        root=root,
    )


class Codes(dict[tuple[str, str], int]):
    """Kind and word of a tag -> its number, in the order in which they were first asked for."""

    def __missing__(self, key: tuple[str, str]) -> int:
        self[key] = len(self)
        return self[key]


class Table:
    """What was read so far. Images and tags have numbers in the order of their first appearance.

    A row says that object number `thing` is called `code`; an object has an image, an id that is its own within the
    image (negative when the file gives none), and a box in pixels.
    """

    def __init__(self) -> None:
        self.images: dict[str, int] = {}
        self.sizes: list[tuple[int, int]] = []
        self.first: list[Path] = []
        self.codes = Codes()
        self.owner: list[int] = []
        self.own_id: list[int] = []
        self.boxes: list[Floats] = []
        self.rows: list[Ints] = []
        self.words: list[tuple[int, int]] = []

    def add_scenes(self, path: Path, scenes: dict[str, Scene]) -> None:
        """A piece of a GQA file."""
        things: list[Thing] = []
        for key, scene in scenes.items():
            number = self.image(path, key, scene.width, scene.height)
            for place, thing in scene.objects.items():
                if not thing.name.strip():
                    raise ShiftBenchError(f"{path}: {key}.objects.{place} has no name.")
            things += scene.objects.values()
            self.owner += [number] * len(scene.objects)
            self.own_id += [int(place) if place.isdecimal() and len(place) < 19 else -1 for place in scene.objects]
            for kind, word in (("place", scene.location), ("weather", scene.weather)):
                if word and word.strip():
                    self.words.append((number, self.codes[kind, word.strip()]))
        self.add_things(things, [(thing.name.strip(),) for thing in things])

    def add_pictures(self, path: Path, pictures: Sequence[Picture]) -> None:
        """A piece of a Visual Genome file."""
        things: list[Thing] = []
        for picture in pictures:
            if picture.objects is None and picture.attributes is None and picture.width is None:
                raise ShiftBenchError(f"{path}: image {picture.image_id} has no objects, no attributes and no size. "
                                      "Visual Genome's objects, attributes and image_data files can be read.")
            number = self.image(path, str(picture.image_id), picture.width or 0, picture.height or 0)
            here = [*(picture.objects or ()), *(picture.attributes or ())]
            things += here
            self.owner += [number] * len(here)
            self.own_id += [-1 if thing.object_id is None else thing.object_id for thing in here]
        self.add_things(things, [tuple(_words((*thing.names, thing.name))) for thing in things])

    def add_things(self, things: Sequence[Thing], names: Sequence[tuple[str, ...]]) -> None:
        """Objects of a piece, each with its names."""
        start, codes = sum(map(len, self.boxes)) // 4, self.codes
        pairs = [(row, codes["object", word]) for row, words in enumerate(names, start) for word in words]
        pairs += [(row, codes["attribute", f"{word}({attribute})"])
                  for row, (thing, words) in enumerate(zip(things, names, strict=True), start) if thing.attributes
                  for attribute in _words(thing.attributes) for word in words]
        self.rows.append(np.fromiter(chain.from_iterable(pairs), np.int64, 2 * len(pairs)))
        self.boxes.append(np.fromiter(chain.from_iterable([(thing.x, thing.y, thing.w, thing.h) for thing in things]),
                                      np.float64, 4 * len(things)))

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

    def tags(self, item_of: Ints, sizes: Ints) -> Tags:
        """Every object once, however many files list it; tags in the order of kinds and words, not of the files."""
        vocabulary = sorted(self.codes)
        code_of: Ints = np.zeros(len(vocabulary), np.int64)
        code_of[[self.codes[pair] for pair in vocabulary]] = np.arange(len(vocabulary))
        thing, code = np.concatenate([np.zeros(0, np.int64), *self.rows]).reshape(-1, 2).T
        item: Ints = item_of[np.asarray(self.owner, np.int64)]
        own_id: Ints = np.asarray(self.own_id, np.int64)
        own_id = np.where(own_id < 0, -1 - np.arange(len(own_id)), own_id)
        order = np.lexsort((code, own_id[thing], item[thing]))
        ranked = np.stack([code, own_id[thing], item[thing]])[:, order]
        new = order[np.flatnonzero((np.diff(ranked, axis=1, prepend=-1) != 0).any(axis=0))]
        thing, code = thing[new], code_of[code[new]]
        box = _shares(np.concatenate([np.zeros(0), *self.boxes]).reshape(-1, 4), sizes[item])
        kinds = [kind for kind, _ in vocabulary]
        shown = np.where((np.asarray(kinds, np.str_) == "object")[code][:, None], box[thing], math.nan)
        words: Ints = np.asarray(self.words, np.int64).reshape(-1, 2)
        return Tags.of(
            item=np.concatenate([item[thing], item_of[words[:, 0]]]),
            tag=np.concatenate([code, code_of[words[:, 1]]]),
            names=[word for _, word in vocabulary],
            kinds=kinds,
            area=np.concatenate([(box[:, 2] * box[:, 3])[thing], np.full(len(words), math.nan)]),
            boxes=np.concatenate([shown, np.full((len(words), 4), math.nan)]),
        )


def _shares(box: Floats, size: Ints) -> Floats:
    """The part of each box that lies inside its image, as shares of the image; NaN where the size is unknown (0)."""
    side = np.where(size == 0, math.nan, size)
    low = np.clip(box[:, :2], 0, side)
    high = np.clip(box[:, :2] + box[:, 2:], 0, side)
    return np.concatenate([low / side, (high - low) / side], axis=1)


def _words(words: Iterable[str]) -> list[str]:
    """Words without doubles and without the blanks around them, which could not be written between brackets."""
    return [word for word in dict.fromkeys(word.strip() for word in words) if word]
