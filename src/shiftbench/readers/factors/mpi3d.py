"""MPI3D: a robot arm holds an object (Gondal et al., 2019). The npz has only images; their order is that of the grid.

    number of the image = (((((colour · S + shape) · 2 + size) · 3 + height) · 3 + background) · 40 + horizontal) · 40
                          + vertical

so which image shows what follows from how many there are: 1,036,800 for `toy`, `realistic` and `real`, 460,800 for
`real complex`, which has other objects. (The challenge's first release had 460,800 images of yet other objects; it
cannot be read.)
"""

import math
from pathlib import Path

import numpy as np

from shiftbench.core.arrays import Advance, Values, room
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.readers.npz import Npz, numbered

Grid = dict[str, tuple[str, ...] | int]

SHARED: Grid = {
    "object_size": ("small", "large"),
    "camera_height": ("top", "center", "bottom"),
    "background_color": ("purple", "sea green", "salmon"),
    "horizontal_axis": 40,
    "vertical_axis": 40,
}
OBJECTS: dict[str, Grid] = {
    "simple": {
        "object_color": ("white", "green", "red", "blue", "brown", "olive"),
        "object_shape": ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere"),
        **SHARED,
    },
    "complex": {
        "object_color": ("yellow", "green", "olive", "red"),
        "object_shape": ("coffee-cup", "tennis-ball", "croissant", "beer-cup"),
        **SHARED,
    },
}


def mpi3d(path: Path, name: str, objects: str = "simple", progress: Advance | None = None) -> Collection:
    """Read an npz of MPI3D; `objects` = complex reads the one with cups, ball and croissant.

    Factors: `object_color`, `object_shape`, `object_size`, `camera_height`, `background_color` (words) and
    `horizontal_axis`, `vertical_axis` (0 to 39). Ids are the numbers of the images. Where the images are not
    compressed, as published, they are used where they lie.
    """
    if objects not in OBJECTS:
        raise unknown("set of objects", objects, OBJECTS, "Option objects")
    grid = OBJECTS[objects]
    rows = math.prod(map(_length, grid.values()))
    with Npz(path) as file:
        images = file.member("images", "u", (None, None, None, 3))
        if images.dtype.itemsize != 1:
            raise ShiftBenchError(f"{path}: array 'images' is {images.dtype}, but it should be bytes.")
        if images.shape[0] != rows:
            fit = [key for key, other in OBJECTS.items() if math.prod(map(_length, other.values())) == images.shape[0]]
            hint = f"Read it with objects = {fit[0]}." if fit else "The factors follow from the order of all images, " \
                "so a subset of them cannot be read."
            raise ShiftBenchError(f"{path}: has {images.shape[0]} images, but MPI3D with {objects} objects has {rows}. "
                                  f"{hint}")
        pixels = file.mapped(images)
        if pixels is None:
            pixels = room(images.shape, path)
            for span, block in file.blocks(images, progress):
                pixels[span] = block
    return Collection(name=name, items=np.asarray(numbered(rows), np.str_), factors=_factors(grid), pixels=pixels)


def _factors(grid: Grid) -> dict[str, Values]:
    """The columns of a full grid, the last factor the fastest."""
    cells = np.indices([_length(values) for values in grid.values()]).reshape(len(grid), -1)
    return {factor: cell if isinstance(values, int) else np.asarray(values, np.str_)[cell]
            for (factor, values), cell in zip(grid.items(), cells, strict=True)}


def _length(values: tuple[str, ...] | int) -> int:
    return values if isinstance(values, int) else len(values)
