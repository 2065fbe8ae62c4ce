"""From placed sprites to pixels and to what can be seen, on all cores."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from shiftbench.core.arrays import Floats, Images
from shiftbench.worlds.scenes.layout import Layout
from shiftbench.worlds.scenes.sheet import sheet

CANONICAL = 64  # areas and boxes are measured on a picture of this size, whatever size is asked for
CHUNK = 64
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Seen:
    """What is visible after occlusion, as shares of the picture: `area` and `box` (x, y, width, height) per placed
    sprite, `stuff` per item and kind of stuff."""

    area: Floats
    box: Floats
    stuff: Floats


def render(layout: Layout, size: int, progress: Progress | None = None) -> tuple[Images, Seen]:
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
