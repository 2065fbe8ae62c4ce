"""Where things stand: scenes become placed sprites, sorted from back to front, and the look of each picture."""

from dataclasses import dataclass
from math import cos, pi, sin

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, encode, uniform
from shiftbench.worlds.scenes import scene
from shiftbench.worlds.scenes.pen import FRAME, NAMED
from shiftbench.worlds.scenes.scene import STRIDE, Scenes, things
from shiftbench.worlds.scenes.sheet import sheet

THING, PLACE, SKY, AIR = 1, 0, -1, -2  # slots, as the rasteriser knows them
LAYERS = ("place", "weather", "sky", "wall", "back", "mid", "surface", "side", "subject", "front", "air")
# band -> how far left or right of the middle, height of the foot above the horizon, its jitter, size
STAND = {"sky": (22, 30, 8, 1.0), "wall": (0, 27, 5, 0.95), "back": (31, -1, 2, 1.0), "mid": (25, -10, 3, 0.92),
         "side": (36, -20, 4, 0.96), "front": (36, -36, 3, 1.2)}
BESIDE = 26  # the second thing on a wall hangs beside the first
DISTANT = 0.75  # size of a class's object where it is only a context
MOST = 0.86  # of the picture's width or height, for a subject
STEEPEST = 15
COS = np.asarray([round(4096 * cos(degree * pi / 180)) for degree in range(-STEEPEST, STEEPEST + 1)])
SIN = np.asarray([round(4096 * sin(degree * pi / 180)) for degree in range(-STEEPEST, STEEPEST + 1)])


@dataclass(frozen=True)
class Layout:
    """Placed sprites sorted by item, then from back to front; item i owns rows `first[i]:first[i+1]`.

    `placed` and `look` are what the rasteriser reads; `name` is the object's tag ("" for place and weather), `subject`
    marks the main object, `main` names its colour.
    """

    first: Ints
    placed: Ints
    look: Ints
    item: Ints
    name: Strs
    subject: Bools
    main: Strs
    pose: Strs


def arrange(scenes: Scenes, seed: int) -> Layout:
    """Give every object of every scene a place, a size and colours."""
    sprites = sheet().sprites
    rows = np.concatenate([backdrops(scenes, seed), subjects(scenes, seed),
                           *(contexts(scenes, seed, band) for band in STAND)])
    item, layer, sprite, x, y, wide, high, slot, cell = rows[np.lexsort((rows[:, 8], rows[:, 1], rows[:, 0]))].T
    main = colour_words(sprite, uniform(seed, "main", cell), [s.main for s in sprites])
    accent = colour_words(sprite, uniform(seed, "accent", cell), [s.accent for s in sprites])
    ground, overhead = shaded(main, uniform(seed, "shade", cell)), shaded(accent, uniform(seed, "tone", cell))
    open_air = (slot == PLACE) & (scenes.factors["location"] == "outdoors")[item]
    skies = np.asarray([scene.SKY.get(word, (0, 0, 0)) for word in scenes.factors["weather"]])
    ground[open_air] = skies[item[open_air]]
    names = np.asarray(["table" if s.name == "tabletop" else s.name for s in sprites])[sprite]
    return Layout(
        first=np.searchsorted(item, np.arange(len(scenes.index) + 1)).astype(np.int64),
        placed=np.column_stack([sprite, x, y, wide, high, ground, overhead, slot]),
        look=looks(scenes, seed),
        item=item,
        name=np.where(slot == THING, names, ""),
        subject=layer == LAYERS.index("subject"),
        main=main,
        pose=np.asarray([s.pose for s in sprites])[sprite],
    )


def rows_of(item: Ints, layer: str, sprite: Ints, x: npt.ArrayLike, y: npt.ArrayLike, wide: npt.ArrayLike,
            high: npt.ArrayLike, slot: int, cell: Ints) -> Ints:
    """One row per placed sprite, in the rasteriser's whole numbers; `cell` keys its random numbers."""
    x, y = (np.rint(np.multiply(coordinate, FRAME / 100)) for coordinate in (x, y))
    wide, high = (np.rint(np.multiply(scale, 1024)) for scale in (wide, high))
    columns = np.broadcast_arrays(item, LAYERS.index(layer), sprite, x, y, wide, high, slot, cell)
    return np.column_stack(columns).astype(np.int64)


def backdrops(scenes: Scenes, seed: int) -> Ints:
    """The place, the sky's weather, what falls through the air, and the tabletop before a room."""
    number = {(sprite.name, sprite.band): code for code, sprite in enumerate(sheet().sprites)}
    index, factors, rows = scenes.index, scenes.factors, np.arange(len(scenes.index))
    mirrored = np.where(uniform(seed, "mirrored", index) < 0.5, -1, 1)
    backdrop = [number[key] for key in zip(factors["place"], factors["location"], strict=True)]
    sky = np.asarray([number.get((word, "sky"), -1) for word in factors["weather"]], np.int64)
    falls = np.where((factors["place"] == "snow") & (factors["weather"] == "overcast"), "snowy", factors["weather"])
    air = np.asarray([number.get((scene.AIR.get(word, ""), "air"), -1) for word in falls], np.int64)
    table = np.where(np.isin(factors["class"], scene.ON_A_TABLE), number["tabletop", "surface"], -1)
    layers = [("place", np.asarray(backdrop, np.int64), PLACE, 255), ("weather", sky, SKY, 254), ("air", air, AIR, 253),
              ("surface", table, THING, 252)]
    return np.concatenate([
        rows_of(rows, layer, sprite, 50, 0, mirrored, 1, slot, index * STRIDE + key)[sprite >= 0]
        for layer, sprite, slot, key in layers])


def subjects(scenes: Scenes, seed: int) -> Ints:
    """The main object, near the middle, in front of nearly everything."""
    index, factors = scenes.index, scenes.factors
    a, b, c, d, e = (uniform(seed, f"subject {what}", index) for what in ("x", "y", "scale", "stretch", "flip"))
    scale = np.asarray([scene.SCALES[size] for size in factors["size"]]) / 100
    growth = np.asarray([scene.GROWTH[kind] for kind in factors["class"]]) / 100
    room = (MOST / sheet().extents()).min(1)[scenes.subject]
    high = np.minimum(scale * growth * (0.94 + 0.12 * c), room)
    wide = high * (0.94 + 0.12 * d) * np.where(e < 0.5, -1, 1)
    rows, cell = np.arange(len(index)), index * STRIDE + 251
    return rows_of(rows, "subject", scenes.subject, 41 + 18 * a, 7 + 8 * b, wide, high, THING, cell)


def contexts(scenes: Scenes, seed: int, band: str) -> Ints:
    """The context objects of one band, alternating left and right of the middle."""
    names, bands = things()
    in_band = np.asarray(bands)[scenes.thing] == band
    item, thing, rank = scenes.item[in_band], scenes.thing[in_band], scenes.rank[in_band]
    cell = scenes.index[item] * STRIDE + thing
    a, b, c, d, e = (uniform(seed, f"context {what}", cell) for what in ("x", "y", "scale", "flip", "variant"))
    variants = [sheet().variants(name) for name in names]
    sprite = np.asarray([variants[t][int(u * len(variants[t]))] for t, u in zip(thing, e, strict=True)], np.int64)
    away, rise, jitter, size = STAND[band]
    # what stands at the back and what stands before it begin on opposite sides, so that both are seen
    shared = band in ("back", "mid", "wall")
    left = uniform(seed, "side" if shared else f"side {band}", scenes.index[item]) < 0.5
    sign = np.where(left ^ (band in ("mid", "wall")) ^ (rank % 2 == 1), 1, -1)
    x = 50 + sign * (away + (BESIDE * rank if band == "wall" else 0)) + 10 * (a - 0.5)
    horizon = np.asarray([sprite.horizon for sprite in sheet().sprites if sprite.band in ("indoors", "outdoors")])
    places = [sprite.name for sprite in sheet().sprites if sprite.band in ("indoors", "outdoors")]
    foot = horizon[[places.index(word) for word in scenes.factors["place"][item]]] + rise + jitter * (2 * b - 1)
    distant = np.isin(np.asarray(names)[thing], list(scene.CLASSES))
    high = size * (0.9 + 0.22 * c) * np.where(distant, DISTANT, 1.0)
    return rows_of(item, band, sprite, x, np.maximum(foot, 2), high * np.where(d < 0.5, -1, 1), high, THING, cell)


def colour_words(sprite: Ints, u: Floats, options: list[tuple[str, ...]]) -> Strs:
    """The name of each instance's colour, one of those its sprite may have."""
    start = np.cumsum([0, *(len(words) for words in options)])
    words = np.asarray([word for words in options for word in words])
    names: Strs = words[start[sprite] + (u * np.diff(start)[sprite]).astype(np.int64)]
    return names


def shaded(words: Strs, u: Floats) -> Ints:
    """The named colour, a little lighter or darker from instance to instance."""
    codes, names = encode(words)
    rgb = np.asarray([NAMED[name] for name in names])[codes]
    return np.minimum(rgb * (230 + (52 * u).astype(np.int64))[:, None] // 256, 255)


def looks(scenes: Scenes, seed: int) -> Ints:
    """For every picture: turn and zoom, gain and lift by channel, style, vignette, noise and the key of its grain."""
    cameras = [scene.TINTS[name] for name in scenes.factors["camera"]]
    gain, lift, zoom, most, vignette, noise = (np.asarray(column) for column in zip(*cameras, strict=True))
    gain = gain * np.asarray([scene.GAINS[name] for name in scenes.factors["light"]]) // 256
    night = scenes.factors["style"] == "nocturne"
    gain[night] = np.maximum(gain[night], 200)  # night colours in the dark would be black
    tilt = np.rint((2 * uniform(seed, "tilt", scenes.index) - 1) * most).astype(np.int64) + STEEPEST
    style = np.asarray([list(scene.STYLE).index(name) for name in scenes.factors["style"]])
    key = (uniform(seed, "grain", scenes.index) * 2**31).astype(np.int64)
    turn = np.column_stack([COS[tilt], SIN[tilt]]) * zoom[:, None] // 100
    return np.column_stack([turn, gain, lift, style, vignette, noise, key]).astype(np.int64)
