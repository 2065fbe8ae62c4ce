"""The world as a collection, and single pictures of it."""

from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Images, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Texts
from shiftbench.worlds.scenes.annotate import captions, shown, tags
from shiftbench.worlds.scenes.layout import Layout, arrange
from shiftbench.worlds.scenes.scene import sample
from shiftbench.worlds.scenes.sheet import sheet
from shiftbench.worlds.scenes.themes import CLASSES
from shiftbench.worlds.scenes.world import CANONICAL, Progress, Seen, render

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


SMALLEST, LARGEST = 32, 256


def scenes(items: int = 6000, seed: int = 0, size: int = 64, progress: Progress | None = None) -> Collection:
    """The first `items` scenes of a seed, drawn at `size` × `size` and fully annotated.

    Item i of a seed is the same picture with the same annotations however many items are drawn. Areas and boxes are
    measured at 64 px whatever size is asked for, so that a collection's annotations do not depend on its resolution.
    `progress(done, items)` is called now and then.
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


def neighbours(layout: Layout, seen: Seen, items: int) -> list[list[str]]:
    """The objects beside each item's subject, the most visible first, each named once."""
    rows = shown(layout, seen)
    rows = rows[~layout.subject[rows]]
    rows = rows[np.lexsort((-seen.area[rows], layout.item[rows]))]
    bounds = np.searchsorted(layout.item[rows], np.arange(items + 1))
    names: list[str] = layout.name[rows].tolist()
    return [list(dict.fromkeys(names[lo:hi])) for lo, hi in pairwise(bounds.tolist())]
