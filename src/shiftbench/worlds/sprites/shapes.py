"""The 720 stencils: 3 shapes × 6 scales × 40 orientations, each as the share of every pixel that the shape covers.

A shape is an inequality in its own coordinates (u, v), in pixels of a 64 px picture at scale 1:

    square   max(|u|, |v|) <= 10
    ellipse  u² / 14.5² + v² / 7.25² <= 1
    heart    (p² + q² - 1)³ <= p² q³   with  p = u / 11.8,  q = v / 11.8 + 0.294  (its centroid is the origin)

It is tested at 8 × 8 points of a pixel of the 64 px picture, whatever size is asked for. dSprites' pixels are 0 or 1;
with shaded edges no two stencils are alike, while hard edges would draw the smallest square in 21 ways, not 39.
"""

import math
from functools import cache
from itertools import product

import numpy as np

from shiftbench.arrays import Bools, Images
from shiftbench.worlds.sprites.grid import TURNS, VALUES

WINDOW = 33  # pixels of a 64 px picture that hold any sprite; the 32 positions move it from edge to edge
FINE = 8  # points per pixel and direction


def covered(shape: str, scale: float, turn: float) -> Bools:
    """Which points of the window lie in the shape; a turn of 1 is the full circle.

    Cosines are rounded and all else is plain arithmetic in 64 bits, so that every machine finds the same points.
    """
    at = (np.arange(WINDOW * FINE) + 0.5) / FINE - WINDOW / 2
    cos, sin = (round(wave(2 * math.pi * turn) * 2**20) / 2**20 for wave in (math.cos, math.sin))
    u = (cos * at)[None, :] - (sin * at)[:, None]  # at runs to the right and down, v up
    v = (-cos * at)[:, None] - (sin * at)[None, :]
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
    made = np.empty((3, 6, TURNS + 1, side, side), np.uint8)
    for (i, shape), (j, scale) in product(enumerate(VALUES["shape"].tolist()), enumerate(VALUES["scale"].tolist())):
        for k in range(TURNS):
            points = covered(shape, scale, k / TURNS).view(np.uint8)
            rows = np.add.reduce([points[r::step] for r in range(step)], dtype=np.uint8)
            count = np.add.reduce([rows[:, c::step] for c in range(step)], dtype=np.int64)
            made[i, j, k] = (count * 255 + step * step // 2) // (step * step)
    made[:, :, TURNS] = made[:, :, 0]
    return made
