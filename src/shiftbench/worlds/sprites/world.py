"""The world as a collection, and single pictures of it."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Images, Ints
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError
from shiftbench.readers.room import Advance, room
from shiftbench.worlds.sprites.grid import CELLS, codes, factors, order
from shiftbench.worlds.sprites.shapes import stencils

SIZES = (32, 64, 128, 256)
CHUNK = 512
IN_MEMORY = 4 * 2**30  # bytes of pixels; what is larger lives in a file


def sprites(items: int = 6000, seed: int = 0, size: int = 64, progress: Advance | None = None) -> Collection:
    """The first `items` pictures of the grid in the order of a seed, at `size` × `size`.

    Item i of a seed is the same however many are drawn; no picture comes twice before all the others have come once,
    and `items=2_211_840` is the whole grid (27 GB). An id is `sprite-` and the number in the grid, so the same picture
    has the same id under every seed. `progress(done, items)` is called now and then.
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


def render(number: Ints, size: int, progress: Advance | None = None) -> Images:
    """Draw pictures of the grid on all cores; at 32 px each pixel is the mean of four of the 64 px picture."""
    from shiftbench.worlds.sprites.paint import halve, paint  # numba is loaded by the first picture, not by the import

    cells, zoom, n = codes(number), max(1, size // 64), len(number)
    table, images = stencils(zoom), space(n, size)

    def work(lo: int) -> int:
        rows = cells[lo:lo + CHUNK]
        if size >= 64:
            paint(rows, table, zoom, images[lo:lo + CHUNK])
        else:
            whole = np.zeros((len(rows), 64, 64, 3), np.uint8)
            paint(rows, table, zoom, whole)
            halve(whole, images[lo:lo + CHUNK])
        return len(rows)

    done = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for drawn in pool.map(work, range(0, n, CHUNK)):
            done += drawn
            if progress:
                progress(done, n)
    return images


def space(n: int, size: int) -> Images:
    """Room for n black pictures: memory, or where they are many a file without a name that vanishes with the array."""
    shape = (n, size, size, 3)
    return np.zeros(shape, np.uint8) if math.prod(shape) <= IN_MEMORY else room(shape, Path("sprites"))
