"""Scenes: pets, wild and farm animals, vehicles and tableware among the things of their places, drawn by vector art.

The world as a collection, and single pictures of it: drawn on all cores, measured, and annotated.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Images, Ints, Strs, Values
from shiftbench.core.errors import Advance, ShiftBenchError
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.worlds.scenes.layout import Layout, arrange
from shiftbench.worlds.scenes.scene import CLASSES, WEATHER, WITH, Scenes, sample, things
from shiftbench.worlds.scenes.sheet import sheet

CANONICAL = 64  # areas and boxes are measured on a picture of this size, whatever size is asked for
CHUNK = 64
SMALLEST, LARGEST = 32, 256


def scenes(items: int = 6000, seed: int = 0, size: int = 64, progress: Advance | None = None) -> Collection:
    """The first `items` scenes of a seed, drawn at `size` × `size` and fully annotated.

    Item i of a seed is the same picture with the same annotations however many items are drawn. Areas and boxes are
    measured at 64 px whatever size is asked for, so that a collection's annotations do not depend on its resolution.
    `progress(done, items)` reports the progress.
    """
    if items < 1:
        raise ShiftBenchError(f"scenes: items is {items}, but a collection needs at least 1.")
    check(size)
    index = np.arange(items)
    facts = sample(index, seed)
    layout = arrange(facts, seed)
    pixels, seen = render(layout, size, progress)
    if size != CANONICAL:
        seen = render(layout, CANONICAL)[1]
    factors = {**facts.factors, "colour": layout.main[layout.subject]}
    texts = captions(factors, neighbours(layout, seen, items))
    return Collection(
        name="scenes", items=np.char.mod("scene-%06d", index), factors=factors, tags=tags(facts, layout, seen),
        texts=Texts(np.repeat(index, 5), np.asarray([text for five in texts for text in five], np.str_)),
        parents=parents(), pixels=pixels)


def draw(index: npt.ArrayLike, seed: int = 0, size: int = 64) -> Images:
    """The pictures of these items of a seed, without drawing any other.

    `draw([7], seed, size)[0]` has the pixels of item 7 of `scenes(items, seed, size)`.
    """
    check(size)
    numbers: Ints = np.atleast_1d(np.asarray(index, np.int64))
    if not len(numbers):
        return np.zeros((0, size, size, 3), np.uint8)
    if numbers.min() < 0:
        raise ShiftBenchError(f"scenes: item {int(numbers.min())} does not exist. Items are numbered from 0.")
    return render(arrange(sample(numbers, seed), seed), size)[0]


def check(size: int) -> None:
    if not SMALLEST <= size <= LARGEST:
        raise ShiftBenchError(f"scenes: size is {size}, but pictures are drawn from {SMALLEST} to {LARGEST} pixels. "
                              "64 is usual.")


# Pixels, and what can be seen of each object.

class Seen(NamedTuple):
    """What is visible after occlusion, as shares of the picture: `area` and `box` (x, y, width, height) per placed
    sprite, `stuff` per item and kind of stuff."""

    area: Floats
    box: Floats
    stuff: Floats


def render(layout: Layout, size: int, progress: Advance | None = None) -> tuple[Images, Seen]:
    """Draw every picture of a layout at `size` × `size`, and measure it at that size."""
    from shiftbench.worlds.scenes.raster import paint  # numba is loaded by the first picture, not by the import

    art, n = sheet(), len(layout.first) - 1
    images = np.empty((n, size, size, 3), np.uint8)
    area, box = np.zeros(len(layout.placed), np.int64), np.zeros((len(layout.placed), 4), np.int64)
    stuff = np.zeros((n, len(art.stuff)), np.int64)

    def work(lo: int) -> int:
        hi = min(n, lo + CHUNK)
        paint(lo, hi, size, layout.first, layout.placed, layout.look, art.first, art.start, art.ink, art.points,
              images, area, box, stuff)
        return hi - lo

    done = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for drawn in pool.map(work, range(0, n, CHUNK)):
            done += drawn
            if progress:
                progress(done, n)
    side = 2.0 * size
    corner, far = box[:, :2] / side, box[:, 2:] / side
    return images, Seen(area / side**2, np.column_stack([corner, far - corner]), stuff / side**2)


# Tags.

VISIBLE = 0.004  # an object or stuff that covers less of the picture is not tagged: it would not be seen


@cache
def vocabulary() -> dict[tuple[str, str], int]:
    """Every tag of this world as (kind, name) and its code, whether an item carries it or not."""
    sprites = sheet().sprites
    subjects = [sprite for sprite in sprites if sprite.name in CLASSES]
    traits = {f"{sprite.name}({word})" for sprite in subjects
              for word in (*sprite.main, *([sprite.pose] if sprite.pose else ()), "small", "large")}
    words = {
        "object": {*things()[0], *CLASSES, "table"},
        "attribute": traits,
        "place": {*WITH, "indoors", "outdoors"},
        "weather": set(WEATHER),
        "stuff": set(sheet().stuff) - {""},
    }
    pairs = [(kind, name) for kind, names in words.items() for name in sorted(names)]
    return {pair: code for code, pair in enumerate(pairs)}


def shown(layout: Layout, seen: Seen) -> Ints:
    """Rows of the layout whose object is visible; the subject always is."""
    return np.flatnonzero((layout.name != "") & ((seen.area >= VISIBLE) | layout.subject))


def tags(scenes: Scenes, layout: Layout, seen: Seen) -> Tags:
    """Objects with area and boxes, traits of the classes' objects, stuff, place, indoors or outdoors, and weather.

    The areas are visible shares after occlusion. A place covers what no object hides; weather has no area.
    """
    n = len(scenes.index)
    rows = shown(layout, seen)
    item, name, area, box = layout.item[rows], layout.name[rows], seen.area[rows], seen.box[rows]
    size = np.where(layout.subject[rows], scenes.factors["size"][item], "")
    groups: list[tuple[str, Ints, Strs, Floats, Floats]] = [("object", item, name, area, box)]
    for trait in (layout.main[rows], layout.pose[rows], np.where(size == "medium", "", size)):
        has = np.isin(name, list(CLASSES)) & (trait != "")
        words = np.char.add(np.char.add(np.char.add(name[has], "("), trait[has]), ")")
        groups.append(("attribute", item[has], words, area[has], no_boxes(words)))
    item_of, stuff_of = np.nonzero(seen.stuff[:, 1:] >= VISIBLE)
    ground = np.asarray(sheet().stuff)[1:][stuff_of]
    groups.append(("stuff", item_of, ground, seen.stuff[item_of, stuff_of + 1], no_boxes(item_of)))
    index, uncovered = np.arange(n), seen.stuff.sum(1)
    for factor, kind in (("place", "place"), ("location", "place"), ("weather", "weather")):
        words = scenes.factors[factor]
        has = words != "none"
        shares = uncovered if kind == "place" else np.full(n, np.nan)
        groups.append((kind, index[has], words[has], shares[has], no_boxes(words[has])))
    kinds, items, names, areas, boxes = zip(*groups, strict=True)
    return Tags.of(
        item=np.concatenate(items), tag=np.concatenate([codes(*pair) for pair in zip(kinds, names, strict=True)]),
        names=[name for _, name in vocabulary()], kinds=[kind for kind, _ in vocabulary()],
        area=np.concatenate(areas), boxes=np.concatenate(boxes))


def codes(kind: str, names: Strs) -> Ints:
    """The codes of tags of one kind."""
    distinct, back = np.unique(names, return_inverse=True)
    return np.asarray([vocabulary()[kind, str(name)] for name in distinct], np.int64)[back]


def no_boxes(rows: Values) -> Floats:
    return np.full((len(rows), 4), np.nan)


# Five captions per scene, from what is in it and can be seen.

PREPOSITIONS = {
    "street": "on the street", "parking lot": "in a parking lot", "park": "in a park", "yard": "in the yard",
    "beach": "on the beach", "lake": "by a lake", "farm": "on a farm", "field": "in a field",
    "savanna": "on the savanna", "forest": "in the forest", "snow": "in the snow", "airport": "at the airport",
    "plaza": "on a plaza",
}
LIGHTS = {"bright": "in bright light", "golden": "in golden light", "dark": "in the dark"}
STYLES = {"flat": "a flat drawing", "outlined": "an outlined drawing", "textured": "a drawing on rough paper",
          "pastel": "a pastel", "nocturne": "a picture in night colours"}
SOME = ("fruit", "coffee", "water", "hay")


def captions(factors: Mapping[str, Strs], near: Sequence[Sequence[str]]) -> list[list[str]]:
    """`near[i]` names the other objects of item i, the most visible first; each item gets five sentences."""
    columns = ("class", "breed", "colour", "size", "pose", "place", "weather", "light", "style")
    rows = zip(*(factors[name].tolist() for name in columns), near, strict=True)
    return [five(*row) for row in rows]


def five(kind: str, breed: str, colour: str, size: str, pose: str, place: str, weather: str, light: str, style: str,
         near: Sequence[str]) -> list[str]:
    where = PREPOSITIONS.get(place, f"in the {place}")
    doing = "" if pose == "still" else f" {pose}"
    full = breed if kind in breed else f"{breed} {kind}"
    beside = f" next to {listed(near[:1])}" if near else ""
    sky = LIGHTS[light] if weather == "none" else f"on a {weather} day"
    scene = f" with {listed(near[:3])}" if near else ""
    return [sentence(text) for text in (
        f"{a(colour)} {kind} {where}",
        f"{a(full)}{doing}{beside}",
        f"{listed([*near[:2], kind])} {where} {sky}",
        f"{a(size)} {colour} {kind}{doing} {LIGHTS[light]}{beside}",
        f"{STYLES[style]} of {a(full)} {where}{scene}")]


def a(word: str) -> str:
    """The word with its article."""
    return f"some {word}" if word in SOME else f"an {word}" if word[0] in "aeiou" else f"a {word}"


def listed(words: Sequence[str]) -> str:
    """`a sofa, a lamp and a cat`."""
    named = [a(word) for word in words]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def neighbours(layout: Layout, seen: Seen, items: int) -> list[list[str]]:
    """The objects beside each item's subject, the most visible first, each named once."""
    rows = shown(layout, seen)
    rows = rows[~layout.subject[rows]]
    rows = rows[np.lexsort((-seen.area[rows], layout.item[rows]))]
    bounds = np.searchsorted(layout.item[rows], np.arange(items + 1))
    names: list[str] = layout.name[rows].tolist()
    return [list(dict.fromkeys(names[lo:hi])) for lo, hi in pairwise(bounds.tolist())]


# The class tree: breed -> class -> superclass -> animal or artifact -> entity.

SUPERCLASSES = {
    "cat": "pet", "dog": "pet", "horse": "farm animal", "cow": "farm animal", "sheep": "farm animal",
    "bear": "wild animal", "bird": "wild animal", "elephant": "wild animal", "giraffe": "wild animal",
    "zebra": "wild animal", "bus": "vehicle", "truck": "vehicle", "bowl": "tableware", "cup": "tableware",
}
KINDS = {"pet": "animal", "farm animal": "animal", "wild animal": "animal", "vehicle": "artifact",
         "tableware": "artifact"}
ROOT = "entity"


@cache
def breeds() -> dict[str, str]:
    """Every breed and its class."""
    return {sprite.breed: sprite.name for sprite in sheet().sprites if sprite.name in CLASSES}


def parents() -> dict[str, tuple[str, ...]]:
    """The tree as a collection stores it: a name and the names above it."""
    above = {**breeds(), **SUPERCLASSES, **KINDS, **dict.fromkeys(KINDS.values(), ROOT)}
    return {name: (parent,) for name, parent in above.items()}
