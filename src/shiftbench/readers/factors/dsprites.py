"""dSprites: white shapes on black, six factors on a grid (Matthey et al., 2017), painted as Wiles et al. (2022) do.

The file has one image per cell of shape × scale × orientation × x × y in a single colour. A colour is painted
on: one of three per image, by a rule that depends only on the seed and the image's number, so that colour is
independent of every other factor; or all three, and then each image is three items.
"""

from pathlib import Path

import numpy as np

from shiftbench.core.arrays import Advance, Floats, Ints, Strs, room, uniform
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.readers.npz import Npz, numbered

SHAPES = ("square", "ellipse", "heart")
COLOURS = ("red", "green", "blue")
GRID = ("colour", "shape", "scale", "orientation", "x", "y")  # the columns of the file
COPIES = ("one", "all")


def dsprites(
    path: Path, name: str, colours: str = "one", seed: int = 0, progress: Advance | None = None
) -> Collection:
    """Read the npz of dSprites.

    Factors: `colour` (red, green, blue), `shape` (square, ellipse, heart), `scale` (0.5 to 1), `orientation` (0 to
    360 degrees, to one place; the first and the last look the same), `x` and `y` (0 to 31): those of the world sprites,
    so that a recipe for one fits the other. Ids are row numbers; with `colours` = all the colour follows: 17-red.
    """
    if colours not in COPIES:
        raise unknown("way to paint", colours, COPIES, "Option colours")
    with Npz(path) as file:
        images = file.member("imgs", "u", (None, None, None))
        rows, height, width = images.shape
        if images.dtype.itemsize != 1:
            raise ShiftBenchError(f"{path}: array 'imgs' is {images.dtype}, but it should be bytes.")
        cell: Ints = file.array(file.member("latents_classes", "iu", (rows, len(GRID)))).astype(np.int64)
        value: Floats = file.array(file.member("latents_values", "fiu", (rows, len(GRID)))).astype(np.float64)
        _check(path, cell, value)
        copies = len(COLOURS) if colours == "all" else 1
        colour: Ints = (np.tile(np.arange(copies), rows) if copies > 1 else
                        (len(COLOURS) * uniform(seed, "colour", np.arange(rows))).astype(np.int64))
        pixels = room((rows * copies, height, width, len(COLOURS)), path)
        by_channel = pixels.transpose(0, 3, 1, 2)
        for span, block in file.blocks(images, progress):
            # The file holds 0 and 1; files with 0 and 255 exist too.
            white = np.where(block != 0, np.uint8(255), np.uint8(0))
            item: Ints = np.arange(span.start * copies, span.stop * copies)
            by_channel[item, colour[item]] = np.repeat(white, copies, axis=0)
    names: Strs = np.asarray(COLOURS, np.str_)[colour]
    ids = numbered(rows)
    return Collection(
        name=name,
        items=np.asarray(ids if copies == 1 else [f"{row}-{word}" for row in ids for word in COLOURS], np.str_),
        factors={
            "colour": names,
            "shape": np.repeat(np.asarray(SHAPES, np.str_)[cell[:, 1]], copies),
            "scale": np.repeat(value[:, 2].round(6), copies),
            "orientation": np.repeat(np.degrees(value[:, 3]).round(1), copies),
            "x": np.repeat(cell[:, 4], copies),
            "y": np.repeat(cell[:, 5], copies),
        },
        pixels=pixels,
    )


def _check(path: Path, cell: Ints, value: Floats) -> None:
    """The cells of the grid and their values must agree."""
    outside = (cell < 0).any(axis=1) | (cell[:, 1] >= len(SHAPES)) | ~np.isfinite(value).all(axis=1)
    outside |= (value[:, 1] != cell[:, 1] + 1)  # the file counts shapes from 1 in its values
    for row in np.flatnonzero(outside)[:1]:
        raise ShiftBenchError(f"{path}: row {row} has the classes {cell[row].tolist()} and the values "
                              f"{value[row].tolist()}, which is not a cell of dSprites' grid "
                              f"({', '.join(GRID)}; shapes {', '.join(SHAPES)}).")
