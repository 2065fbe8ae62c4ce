"""Where things stand: scenes become placed sprites, painted from back to front, and the look of each picture."""

from dataclasses import dataclass
from functools import cache
from math import cos, pi, sin

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Floats, Ints, Strs
from shiftbench.rng import uniform
from shiftbench.worlds.scenes import themes
from shiftbench.worlds.scenes.colours import NAMED
from shiftbench.worlds.scenes.model import STRIDE, Scenes, choose, pick, things
from shiftbench.worlds.scenes.pen import FRAME
from shiftbench.worlds.scenes.sheet import sheet

PLACE, SKY, AIR, THING = 0, -1, -2, 1
ORDER = {"place": 0, "weather": 1, "sky": 2, "wall": 3, "back": 4, "mid": 5, "surface": 6, "side": 7, "subject": 8, "front": 9, "air": 10}
# band -> how far left or right of the middle, height of the foot above the horizon, its jitter, size in percent
STAND = {"sky": (22, 30, 8, 100), "wall": (0, 27, 5, 95), "back": (31, -1, 2, 100), "mid": (25, -10, 3, 92),
         "side": (36, -20, 4, 96), "front": (33, -36, 3, 124)}
SECOND_WALL = 26  # the second thing on the wall hangs beside the first
AS_CONTEXT_SCALE = 60
COS = tuple(round(4096 * cos(degree * pi / 180)) for degree in range(-15, 16))
SIN = tuple(round(4096 * sin(degree * pi / 180)) for degree in range(-15, 16))


@dataclass(frozen=True)
class Layout:
    """Placed sprites sorted by item, then from back to front; item i owns rows `first[i]:first[i+1]` of `placed`.

    `name` is the object's tag ("" for place and weather), `subject` marks the main object, `main` is its colour's name.
    """

    first: Ints
    placed: Ints
    look: Ints
    item: Ints
    name: Strs
    subject: npt.NDArray[np.bool_]
    main: Strs
    pose: Strs


def arrange(scenes: Scenes, seed: int) -> Layout:
    """Give every object of every scene a place, a size and colours."""
    n, index = len(scenes.index), scenes.index
    rows = np.arange(n)
    sprites = sheet().sprites
    number = {(s.name, s.band): k for k, s in enumerate(sprites)}
    indoors = scenes.factors["location"] == "indoors"
    place = np.asarray([number[name, where] for name, where in zip(scenes.factors["place"], scenes.factors["location"], strict=True)], np.int64)
    horizon = np.asarray([s.horizon for s in sprites])[place]
    middle = np.full(n, 50.0)
    outside = np.flatnonzero(~indoors)
    sky = np.asarray([number[word, "sky"] for word in scenes.factors["weather"][outside]], np.int64)
    air = np.asarray([number.get((themes.AIR.get(word, ""), "air"), -1) for word in scenes.factors["weather"]], np.int64)
    falling = (scenes.factors["place"] == "snow") & (scenes.factors["weather"] == "overcast")
    air[falling] = number["snowfall", "air"]
    wet = np.flatnonzero(air >= 0)
    tables = np.flatnonzero(np.isin(scenes.factors["class"], themes.ON_A_TABLE))
    tabletop = np.full(len(tables), number["tabletop", "surface"])

    def layer(items: Ints, sprite: Ints, band: str, slot: int, x: Floats, y: Floats, wide: Floats, high: Floats, cell: Ints) -> Ints:
        return np.column_stack([items, np.full(len(items), ORDER[band]), sprite, np.rint(x * FRAME / 100), np.rint(y * FRAME / 100),
                                np.rint(wide * 1024), np.rint(high * 1024), np.full(len(items), slot), cell]).astype(np.int64)

    def backdrop(items: Ints, sprite: Ints, band: str, slot: int, own: int) -> Ints:
        one = np.ones(len(items))
        flip = np.where(uniform(seed, f"flip {band}", index[items]) < 0.5, -1.0, 1.0) if slot <= 0 else one
        return layer(items, sprite, band, slot, middle[items], 0 * one, flip, one, index[items] * STRIDE + own)

    u = {purpose: uniform(seed, purpose, index) for purpose in ("subject x", "subject y", "subject scale", "subject flip", "stretch")}
    scale = (np.asarray([themes.SCALES[s] for s in scenes.factors["size"]]) * np.asarray([themes.GROWTH[c] for c in scenes.factors["class"]])
             / 10_000 * (0.94 + 0.12 * u["subject scale"]))
    mirror = np.where(u["subject flip"] < 0.5, -1.0, 1.0)
    subject = layer(rows, scenes.subject, "subject", THING, 41 + 18 * u["subject x"], 7 + 8 * u["subject y"],
                    mirror * scale * (0.94 + 0.12 * u["stretch"]), scale, index * STRIDE + 255)
    found = np.concatenate([
        backdrop(rows, place, "place", PLACE, 254),
        backdrop(outside, sky, "weather", SKY, 253),
        backdrop(wet, air[wet], "air", AIR, 252),
        backdrop(tables, tabletop, "surface", THING, 251),
        subject,
        *(stand(scenes, seed, band, horizon, layer) for band in STAND),
    ])
    found = found[np.lexsort((found[:, 8], found[:, 1], found[:, 0]))]
    item, sprite, slot, cell = found[:, 0], found[:, 2], found[:, 7], found[:, 8]
    main, accent = (word_of(sprite, uniform(seed, role, cell), role) for role in ("main", "accent"))
    placed = np.column_stack([sprite, found[:, 3:7], shade(main, uniform(seed, "shade", cell)), shade(accent, uniform(seed, "tone", cell)), slot])
    under_sky = (slot == PLACE) & ~indoors[item]
    placed[under_sky, 5:8] = np.asarray([themes.SKY.get(word, (0, 0, 0)) for word in scenes.factors["weather"]])[item[under_sky]]
    names = np.asarray([s.name if s.name != "tabletop" else "table" for s in sprites])[sprite]
    return Layout(
        first=np.searchsorted(item, np.arange(n + 1)).astype(np.int64), placed=placed, look=looks(scenes, seed), item=item,
        name=np.where(slot == THING, names, ""), subject=found[:, 1] == ORDER["subject"], main=main,
        pose=np.asarray([s.pose for s in sprites])[sprite])


def stand(scenes: Scenes, seed: int, band: str, horizon: Floats, layer) -> Ints:  # type: ignore[no-untyped-def]
    """The context objects of one band, alternating left and right of the middle."""
    names, bands = things()
    mine = np.flatnonzero(np.asarray(bands)[scenes.thing] == band)
    item, thing, rank = scenes.item[mine], scenes.thing[mine], scenes.rank[mine]
    cell = scenes.index[item] * STRIDE + thing
    a, b, c, d, e = (uniform(seed, f"context {what}", cell) for what in ("x", "y", "scale", "flip", "variant"))
    variants = [np.asarray(sheet().variants(name)) for name in names]
    sprite = np.asarray([variants[t][int(share * len(variants[t]))] for t, share in zip(thing, e, strict=True)], np.int64)
    away, rise, jitter, size = STAND[band]
    # what stands at the back and what stands before it begin on opposite sides, so that both are seen
    turn = uniform(seed, "side" if band in ("back", "mid", "wall") else f"side {band}", scenes.index[item]) < 0.5
    sign = np.where(turn ^ (band in ("mid", "wall")) ^ (rank % 2 == 1), 1.0, -1.0)
    x = 50 + sign * (away + (SECOND_WALL * rank if band == "wall" else 0)) + 10 * (a - 0.5)
    y = horizon[item] + rise + jitter * (2 * b - 1)
    scale = size / 100 * (0.9 + 0.22 * c) * np.where(np.isin(thing, class_codes()), AS_CONTEXT_SCALE / 60 * 0.75, 1.0)
    return layer(item, sprite, band, THING, x, np.maximum(y, 2.0), scale * np.where(d < 0.5, -1, 1), scale, cell)


@cache
def class_codes() -> tuple[int, ...]:
    return tuple(code for code, name in enumerate(things()[0]) if name in themes.CLASSES)


def word_of(sprite: Ints, u: Floats, role: str) -> Strs:
    """The name of each instance's main or accent colour, one of those its sprite may have."""
    options = [s.main if role == "main" else s.accent for s in sheet().sprites]
    start = np.cumsum([0, *(len(words) for words in options)])
    words = np.asarray([word for words in options for word in words])
    return np.asarray(words[start[sprite] + (u * np.diff(start)[sprite]).astype(np.int64)])


def shade(words: Strs, u: Floats) -> Ints:
    """The named colour, a little lighter or darker from instance to instance."""
    known = list(NAMED)
    rgb = np.asarray([NAMED[word] for word in known])[[known.index(w) for w in np.unique(words)]]
    codes = np.unique(words, return_inverse=True)[1]
    return np.clip(rgb[codes] * (230 + (52 * u).astype(np.int64))[:, None] // 256, 0, 255).astype(np.int64)


def looks(scenes: Scenes, seed: int) -> Ints:
    """Per picture: rotation and zoom, gain and lift by channel, style, vignette, noise and the key of its grain."""
    cameras = [themes.TINTS[name] for name in scenes.factors["camera"]]
    gain = np.asarray([c[0] for c in cameras]) * np.asarray([themes.GAINS[name] for name in scenes.factors["light"]]) // 256
    night = scenes.factors["style"] == "nocturne"
    gain[night] = np.maximum(gain[night], 200)
    zoom, most = np.asarray([c[2] for c in cameras]), np.asarray([c[3] for c in cameras])
    tilt = np.rint((2 * uniform(seed, "tilt", scenes.index) - 1) * most).astype(np.int64)
    style = np.asarray([list(themes.STYLE).index(name) for name in scenes.factors["style"]])
    return np.column_stack([
        np.asarray(COS)[tilt + 15] * zoom // 100, np.asarray(SIN)[tilt + 15] * zoom // 100, gain,
        np.asarray([c[1] for c in cameras]), style, np.asarray([c[4] for c in cameras]), np.asarray([c[5] for c in cameras]),
        (uniform(seed, "grain", scenes.index) * 2**31).astype(np.int64)]).astype(np.int64)
