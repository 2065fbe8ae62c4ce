"""The generative model: what is in each scene, as columns. No coordinates, no pixels.

class -> place -> objects, each by one number per (seed, purpose, item), so item i is the same whatever else is drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, uniform
from shiftbench.worlds.scenes import themes
from shiftbench.worlds.scenes.sheet import sheet

CAPS = {"sky": 1, "wall": 2, "back": 2, "mid": 2, "side": 2, "front": 2}  # how many of a band fit into a picture
# where a class's object stands when it is only a context; the others stand at the back
AS_CONTEXT = {"cat": "side", "dog": "side", "bird": "front", "bowl": "front", "cup": "front"}
STRIDE = 256  # room for one number per object of an item


@dataclass(frozen=True)
class Scenes:
    """One row per item in `index`: its factors and its subject's sprite; one row per context object in `item`, `thing`.

    `thing` counts in `things()`; `rank` is the object's place among those of its band, 0 first.
    """

    index: Ints
    factors: Mapping[str, Strs]
    subject: Ints
    item: Ints
    thing: Ints
    rank: Ints


@cache
def things() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and bands of everything that can be a context, in a fixed order."""
    lines = [*themes.WITH.values(), *themes.COMPANIONS.values()]
    names = tuple(sorted({name for line in lines for name in themes.table(line)}))
    bands = {sprite.name: sprite.band for sprite in sheet().sprites}
    bands |= {name: AS_CONTEXT.get(name, "back") for name in themes.CLASSES}
    return names, tuple(bands[name] for name in names)


def sample(index: Ints, seed: int) -> Scenes:
    """Draw the facts of the scenes with these numbers."""
    cls = choose(uniform(seed, "class", index), themes.CLASSES)
    place = np.empty(len(index), "U20")
    subject = np.zeros(len(index), np.int64)
    u, v = uniform(seed, "place", index), uniform(seed, "subject", index)
    for name in themes.CLASSES:
        rows = cls == name
        place[rows] = choose(u[rows], themes.table(themes.WHERE[name]))
        subject[rows] = pick(np.asarray(sheet().variants(name)), v[rows])
    sprites = sheet().sprites
    indoors = {sprite.name for sprite in sprites if sprite.band == "indoors"}
    location = np.where(np.isin(place, list(indoors)), "indoors", "outdoors")
    weather = np.where(location == "indoors", "none", choose(uniform(seed, "weather", index), themes.WEATHER))
    factors = {
        "class": cls,
        "breed": np.asarray([sprite.breed for sprite in sprites])[subject],
        "place": place,
        "location": location,
        "weather": weather,
        "light": choose(uniform(seed, "light", index), themes.LIGHT),
        "size": choose(uniform(seed, "size", index), themes.SIZE),
        "pose": np.asarray([sprite.pose or "still" for sprite in sprites])[subject],
        "style": choose(uniform(seed, "style", index), themes.STYLE),
        "camera": choose(uniform(seed, "camera", index), themes.CAMERA),
    }
    item, thing, rank = contexts(index, seed, cls, place)
    return Scenes(index, factors, subject, item, thing, rank)


def contexts(index: Ints, seed: int, cls: Strs, place: Strs) -> tuple[Ints, Ints, Ints]:
    """The context objects of each scene: every one by its own chance, then as many of a band as fit."""
    names, bands = things()
    chance = np.zeros((len(index), len(names)))
    for theme, line in themes.WITH.items():
        chance[place == theme] = [themes.table(line).get(name, 0.0) for name in names]
    for name, line in themes.COMPANIONS.items():
        chance[cls == name] += [themes.table(line).get(other, 0.0) for other in names]
    lone = np.asarray([name in themes.CLASSES for name in names])
    chance[(cls[:, None] == np.asarray(names)) & (cls != "dog")[:, None] & lone] = 0.0
    on_table = np.isin(cls, themes.ON_A_TABLE)
    chance[np.ix_(on_table, np.isin(names, themes.NEVER_ON_A_TABLE))] = 0.0
    cell = index[:, None] * STRIDE + np.arange(len(names))
    present: Bools = uniform(seed, "has", cell) * 100 < chance
    order: Floats = np.where(present, uniform(seed, "order", cell), 2.0)
    rank = np.zeros(present.shape, np.int64)
    for band, cap in CAPS.items():
        columns = np.flatnonzero(np.asarray(bands) == band)
        rank[:, columns] = order[:, columns].argsort(1, kind="stable").argsort(1, kind="stable")
        present[:, columns] &= rank[:, columns] < cap
    item, thing = np.nonzero(present)
    return item, thing, rank[item, thing]


def choose(u: Floats, weights: Mapping[str, float]) -> Strs:
    """The word whose share of [0, 1) each number falls into."""
    bounds = np.cumsum(list(weights.values()))
    code = np.searchsorted(bounds / bounds[-1], u, side="right").clip(max=len(bounds) - 1)
    words: Strs = np.asarray(list(weights))[code]
    return words


def pick(options: Ints, u: Floats) -> Ints:
    """One of the options for each number, all equally likely."""
    return np.asarray(options[(u * len(options)).astype(np.int64)])
