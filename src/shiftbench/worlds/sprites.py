"""Sprites: dSprites' grid of squares, ellipses and hearts, painted red, green and blue, drawn by our own code.

Every combination of six factors has a number, and a seed puts the numbers in an order.

    number = colour * 737,280 + the number of the picture in dSprites (Matthey et al., 2017; y runs fastest)

Orientations are dSprites' 40 from 0 to 360 degrees with both ends, so the last one looks like the first. A quarter and
a half turn are not a whole number of steps (9.75 and 19.5), so squares and ellipses do not repeat in between.
"""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Images, Ints, Values, room, uniform
from shiftbench.core.errors import Advance, ShiftBenchError
from shiftbench.data.collection import Collection

TURNS = 39  # steps of orientation in a full circle
VALUES: dict[str, Values] = {
    "colour": np.asarray(["red", "green", "blue"]),
    "shape": np.asarray(["square", "ellipse", "heart"]),
    "scale": np.asarray([0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
    "orientation": np.round(np.arange(TURNS + 1) * 360 / TURNS, 1),  # degrees, counter-clockwise
    "x": np.arange(32),  # from left to right
    "y": np.arange(32),  # from top to bottom
}
LENGTHS = tuple(len(values) for values in VALUES.values())
CELLS = int(np.prod(LENGTHS))  # 3 × 737,280
SIZES = (32, 64, 128, 256)
CHUNK = 512
IN_MEMORY = 4 * 2**30  # bytes of pixels; what is larger lives in a file


def sprites(items: int = 6000, seed: int = 0, size: int = 64, progress: Advance | None = None) -> Collection:
    """The first `items` pictures of the grid in the order of a seed, at `size` × `size`.

    Item i of a seed is the same however many are drawn; no picture occurs twice before all others have occurred once,
    and `items=2_211_840` is the whole grid (27 GB). An id is `sprite-` and the number in the grid, so the same picture
    has the same id under every seed. `progress(done, items)` reports the progress.
    """
    if not 1 <= items <= CELLS:
        raise ShiftBenchError(f"sprites: items is {items}, but the grid has from 1 to {CELLS:,} to draw.")
    check(size)
    number = order(seed)[:items]
    return Collection(name="sprites", items=np.char.mod("sprite-%07d", number), factors=factors(number),
                      pixels=render(number, size, progress))


def draw(number: npt.ArrayLike, size: int = 64) -> Images:
    """The pictures with these numbers of the grid, in any order, without drawing any other.

    `draw(order(seed)[i], size)[0]` has the pixels of item i of `sprites(items, seed, size)`.
    """
    check(size)
    return render(np.atleast_1d(np.asarray(number, np.int64)), size)


def check(size: int) -> None:
    if size not in SIZES:
        raise ShiftBenchError(f"sprites: size is {size}, but pictures are drawn at 32, 64, 128 or 256 pixels. "
                              "64 is usual.")


# The grid.

def codes(number: Ints) -> Ints:
    """One row per grid number: the position of its colour, shape, scale, orientation, x and y in `VALUES`."""
    outside = number[(number < 0) | (number >= CELLS)]
    if len(outside):
        raise ShiftBenchError(f"sprites: picture {int(outside[0])} does not exist. The grid is numbered from 0 to "
                              f"{CELLS - 1}.")
    return np.stack(np.unravel_index(number, LENGTHS), axis=1).astype(np.int64)


def factors(number: Any) -> dict[str, Values]:
    """What grid numbers show: a column per factor.

    >>> {name: column.tolist() for name, column in factors([737_280 + 31]).items() if name in ("colour", "shape", "y")}
    {'colour': ['green'], 'shape': ['square'], 'y': [31]}
    """
    rows = codes(np.atleast_1d(np.asarray(number, np.int64)))
    return {name: values[rows[:, k]] for k, (name, values) in enumerate(VALUES.items())}


def order(seed: int) -> Ints:
    """All grid numbers in the order of a seed: the first n are a sample of n without replacement.

    Pictures of orientation 360 come last: they repeat those of orientation 0, and a repeat in a sample would be a leak
    between training and test.
    """
    number = np.arange(CELLS)
    repeats = number // (LENGTHS[4] * LENGTHS[5]) % LENGTHS[3] == TURNS
    chance = (uniform(seed, "sprites", number) * 2.0**40).astype(np.int64)
    key = repeats.astype(np.int64) << 62 | chance << 22 | number  # no two alike: any sort gives the same order
    return np.sort(key) & (1 << 22) - 1


# The 720 stencils: 3 shapes × 6 scales × 40 orientations, each as the share of every pixel that the shape covers.
#
# A shape is an inequality in its own coordinates (u, v), in pixels of a 64 px picture at scale 1:
#
#     square   max(|u|, |v|) <= 10
#     ellipse  u² / 14.5² + v² / 7.25² <= 1
#     heart    (p² + q² - 1)³ <= p² q³   with  p = u / 11.8,  q = v / 11.8 + 0.294  (its centroid is the origin)
#
# It is tested at 8 × 8 points of a pixel of the 64 px picture, whatever size is asked for. dSprites' pixels are 0 or
# 1; with shaded edges no two stencils are alike, while hard edges would draw the smallest square in 21 ways, not 39.

WINDOW = 33  # pixels of a 64 px picture that hold any sprite; the 32 positions move it from edge to edge
FINE = 8  # points per pixel and direction


def covered(shape: str, scale: float, turn: float) -> Bools:
    """Which points of the window lie in the shape; a turn of 1 is the full circle.

    Cosines are rounded and all else is plain arithmetic in 64 bits, so that every machine finds the same points.
    """
    axis = (np.arange(WINDOW * FINE) + 0.5) / FINE - WINDOW / 2
    cos, sin = (round(wave(2 * math.pi * turn) * 2**20) / 2**20 for wave in (math.cos, math.sin))
    u = (cos * axis)[None, :] - (sin * axis)[:, None]  # axis runs to the right and down, v up
    v = (-cos * axis)[:, None] - (sin * axis)[None, :]
    if shape == "square":
        return np.asarray(np.maximum(np.abs(u), np.abs(v)) <= 10 * scale)
    if shape == "ellipse":
        return np.asarray(u * u + 4 * (v * v) <= (14.5 * scale) * (14.5 * scale))
    p, q = u / (11.8 * scale), v / (11.8 * scale) + 0.294
    p2, q2 = p * p, q * q
    ring = p2 + q2 - 1
    return np.asarray(ring * ring * ring <= p2 * (q2 * q))


@cache
def stencils(zoom: int) -> Images:
    """Shape × scale × orientation × window, 0 outside to 255 inside, for pictures of 64 * zoom pixels."""
    step, side = FINE // zoom, WINDOW * zoom
    shapes = np.empty((3, 6, TURNS + 1, side, side), np.uint8)
    for (i, shape), (j, scale) in product(enumerate(VALUES["shape"].tolist()), enumerate(VALUES["scale"].tolist())):
        for k in range(TURNS):
            points = covered(shape, scale, k / TURNS).view(np.uint8)
            rows = np.add.reduce([points[r::step] for r in range(step)], dtype=np.uint8)
            count = np.add.reduce([rows[:, c::step] for c in range(step)], dtype=np.int64)
            shapes[i, j, k] = (count * 255 + step * step // 2) // (step * step)
    shapes[:, :, TURNS] = shapes[:, :, 0]
    return shapes


# Pictures: a stencil is put at its place in one colour channel of a black picture.

def render(number: Ints, size: int, progress: Advance | None = None) -> Images:
    """Draw pictures of the grid on all cores; at 32 px each pixel is the mean of four of the 64 px picture."""
    draw_stencils, shrink = compiled(paint), compiled(halve)
    cells, zoom, n = codes(number), max(1, size // 64), len(number)
    table, images = stencils(zoom), space(n, size)

    def work(lo: int) -> int:
        rows = cells[lo:lo + CHUNK]
        if size >= 64:
            draw_stencils(rows, table, zoom, images[lo:lo + CHUNK])
        else:
            doubled = np.zeros((len(rows), 64, 64, 3), np.uint8)
            draw_stencils(rows, table, zoom, doubled)
            shrink(doubled, images[lo:lo + CHUNK])
        return len(rows)

    done = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for drawn in pool.map(work, range(0, n, CHUNK)):
            done += drawn
            if progress:
                progress(done, n)
    return images


def space(n: int, size: int) -> Images:
    """Room for n black pictures: memory or, for many, a file without a name that vanishes with the array."""
    shape = (n, size, size, 3)
    return np.zeros(shape, np.uint8) if math.prod(shape) <= IN_MEMORY else room(shape, Path("sprites"))


@cache
def compiled(function: Callable[..., None]) -> Callable[..., None]:
    """The function as machine code; numba is loaded by the first picture, not by the import."""
    from numba import njit

    machine_code: Callable[..., None] = njit(nogil=True, cache=True)(function)
    return machine_code


def paint(codes: Ints, stencils: Images, zoom: int, images: Images) -> None:
    """Paint one picture per row of codes (colour, shape, scale, orientation, x, y): red is channel 0, blue 2.

    Images must be black at first: fresh memory is, and untouched pages cost nothing.
    """
    side = stencils.shape[3]
    for item in range(len(codes)):
        channel, shape, scale, orientation = codes[item, 0], codes[item, 1], codes[item, 2], codes[item, 3]
        left, top = codes[item, 4] * zoom, codes[item, 5] * zoom
        stencil, image = stencils[shape, scale, orientation], images[item]
        for row in range(side):
            for column in range(side):
                image[top + row, left + column, channel] = stencil[row, column]


def halve(images: Images, halves: Images) -> None:
    """Every pixel of a half is the mean of 2 × 2 of the whole, rounded."""
    n, height, width, channels = halves.shape
    for item in range(n):
        for row in range(height):
            for column in range(width):
                for channel in range(channels):
                    total = 2
                    for k in range(4):
                        total += images[item, 2 * row + (k >> 1), 2 * column + (k & 1), channel]
                    halves[item, row, column, channel] = total >> 2
