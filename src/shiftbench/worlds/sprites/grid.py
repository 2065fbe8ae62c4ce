"""The grid: every combination of six factors has a number, and a seed puts the numbers in an order.

    number = colour * 737,280 + the number of the picture in dSprites (Matthey et al., 2017; y runs fastest)

Orientations are dSprites' 40 from 0 to 360 degrees with both ends, so the last one looks like the first. A quarter and
a half turn are no whole number of steps (9.75 and 19.5), so squares and ellipses do not repeat themselves in between.
"""

from typing import Any

import numpy as np

from shiftbench.arrays import Ints, Values
from shiftbench.errors import ShiftBenchError
from shiftbench.rng import uniform

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
