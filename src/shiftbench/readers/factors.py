"""Collections of factors: data sets whose every item has a value of every factor, as Wiles et al. (2022) use them.

dSprites, Shapes3D and MPI3D are grids of images in one file each; the others have pages of their own.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Strs, Values, blocks, room, uniform
from shiftbench.core.errors import Advance, ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.readers.annotation_files import Images, Name, source_files
from shiftbench.readers.npz import DEFLATE, Npz, numbered, readable
from shiftbench.readers.smallnorb import smallnorb
from shiftbench.readers.wilds.metadata import camelyon17, iwildcam


def factors(
    *sources: Annotated[Path | str, "The published files; for smallnorb also their folder."],
    kind: Annotated[str, "dsprites, shapes3d, mpi3d, smallnorb, camelyon17 or iwildcam."],
    colours: Annotated[str | None, "dsprites: one per image (default), or all three."] = None,
    seed: Annotated[int | None, "dsprites: which image gets which colour."] = None,
    objects: Annotated[str | None, "mpi3d: simple (default) or complex."] = None,
    camera: Annotated[str | None, "smallnorb: left (default), right or both."] = None,
    images: Images = None,
    name: Name | None = None,
    progress: Advance | None = None,
) -> Collection:
    """Data sets of factors, as published: dSprites, Shapes3D, MPI3D, smallNORB, Camelyon17, iWildCam.

    Sources are the npz of dsprites or mpi3d, 3dshapes.h5, the folder or the -dat.mat files of smallnorb, metadata.csv
    of camelyon17, or metadata.csv and optionally categories.csv of iwildcam. The images of camelyon17 are below the
    folder that holds patches/.

    shiftbench read factors dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz --kind dsprites --out collections/dsprites
    """
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS, "Reading factors")
    reader, paths = KINDS[kind], source_files(sources, kind)
    if len(paths) > (2 if kind in SEVERAL else 1):
        raise ShiftBenchError(f"Reading {kind} takes {'at most two files' if kind in SEVERAL else 'one file'}, but "
                              f"{len(paths)} are given: {', '.join(map(str, paths))}.")
    options = {"colours": colours, "seed": seed, "objects": objects, "camera": camera, "images": images}
    chosen: dict[str, Any] = {option: value for option, value in options.items() if value is not None}
    accepted = inspect.signature(reader).parameters.keys()
    for option in chosen.keys() - accepted:
        raise unknown("option", option, accepted & options.keys(), f"Reading {kind}")
    if "progress" in accepted:
        chosen["progress"] = progress
    return reader(paths if kind in SEVERAL else paths[0], name=name or kind, **chosen)


# dSprites: white shapes on black, six factors on a grid (Matthey et al., 2017), painted as Wiles et al. (2022) do.
#
# The file has one image per cell of shape × scale × orientation × x × y in a single colour. A colour is painted on: one
# of three per image, by a rule that depends only on the seed and the image's number, so that colour is independent of
# every other factor; or all three, and then each image is three items.

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


# Shapes3D: one object in a room, six factors on a grid (Burgess and Kim, 2018), from its HDF5 file.

SHAPES_3D = ("cube", "cylinder", "sphere", "capsule")
COLUMNS = ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")  # of the array `labels`


def shapes3d(path: Path, name: str, progress: Advance | None = None) -> Collection:
    """Read 3dshapes.h5.

    Factors: `floor_hue`, `wall_hue`, `object_hue` (0 to 0.9), `scale` (0.75 to 1.25), `shape` (cube, cylinder, sphere,
    capsule), `orientation` (-30 to 30 degrees); numbers to six places. Ids are row numbers.
    """
    with _opened(path) as file:
        images, labels = _array(path, file, "images"), _array(path, file, "labels")
        rows = images.shape[0] if images.ndim else 0
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3 or not images.size:
            raise ShiftBenchError(f"{path}: array 'images' is {images.dtype} of shape {images.shape}, but it should be "
                                  "bytes of shape N × height × width × 3.")
        if labels.dtype.kind not in "fiu" or labels.shape != (rows, len(COLUMNS)):
            raise ShiftBenchError(f"{path}: array 'labels' is {labels.dtype} of shape {labels.shape}, but it should be "
                                  f"numbers of shape {rows} × {len(COLUMNS)}: {', '.join(COLUMNS)}.")
        factors = _columns(path, np.asarray(labels[()], np.float64))
        pixels = room(images.shape, path)
        for span in blocks(rows, images.dtype.itemsize * images.size // rows, progress):
            images.read_direct(pixels, span, span)
    return Collection(name=name, items=np.asarray(numbered(rows), np.str_), factors=factors, pixels=pixels)


def _columns(path: Path, value: Floats) -> dict[str, Values]:
    shape = value[:, COLUMNS.index("shape")]
    wrong = ~np.isfinite(value).all(axis=1) | ~np.isin(shape, np.arange(len(SHAPES_3D)))
    for row in np.flatnonzero(wrong)[:1]:
        raise ShiftBenchError(f"{path}: row {row} of 'labels' is {value[row].tolist()}; it should have finite numbers "
                              f"and a shape of 0 to {len(SHAPES_3D) - 1} ({', '.join(SHAPES_3D)}).")
    factors: dict[str, Values] = {column: value[:, index].round(6) for index, column in enumerate(COLUMNS)}
    factors["shape"] = np.asarray(SHAPES_3D, np.str_)[shape.astype(np.int64)]
    return factors


def _array(path: Path, file: Any, name: str) -> Any:
    """An array that lies in this file: HDF5 may also refer to other files, which is refused."""
    import h5py

    if name not in file:
        raise unknown("array", name, file, str(path))
    link, array = file.get(name, getlink=True), file[name]
    if not isinstance(array, h5py.Dataset) or not isinstance(link, h5py.HardLink) or array.external or array.is_virtual:
        raise ShiftBenchError(f"{path}: '{name}' is not an array but a group or a link. Give the file as "
                              "published.")
    if array.size * array.dtype.itemsize > array.id.get_storage_size() * DEFLATE:
        raise ShiftBenchError(f"{path}: '{name}' says it has the shape {array.shape}, but the file holds too little "
                              "for that. Copy or download it again.")
    return array


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError as problem:
        raise ShiftBenchError("Reading Shapes3D needs h5py, which is not installed. Install it with "
                              "`pip install 'shiftbench[hdf5]'`.") from problem
    faults = (OSError, RuntimeError, KeyError, ValueError, TypeError)
    with readable(path, "HDF5 file", faults), h5py.File(path, "r") as file:
        yield file


# MPI3D: a robot arm holds an object (Gondal et al., 2019). The npz has only images; their order is that of the grid.
#
#     number of the image = (((((colour · S + shape) · 2 + size) · 3 + height) · 3 + background) · 40 + horizontal) · 40
#                           + vertical
#
# so which image shows what follows from how many there are: 1,036,800 for `toy`, `realistic` and `real`, 460,800 for
# `real complex`, which has other objects. (The challenge's first release had 460,800 images of yet other objects; it
# cannot be read.)

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


KINDS: dict[str, Callable[..., Collection]] = {
    reader.__name__: reader for reader in (dsprites, shapes3d, mpi3d, smallnorb, camelyon17, iwildcam)}
SEVERAL = ("smallnorb", "iwildcam")  # the kinds that may be given more than one file
