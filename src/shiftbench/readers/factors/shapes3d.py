"""Shapes3D: one object in a room, six factors on a grid (Burgess and Kim, 2018), from its HDF5 file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.core.arrays import Advance, Floats, Values, blocks, room
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.readers.npz import DEFLATE, numbered

SHAPES = ("cube", "cylinder", "sphere", "capsule")
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
        factors = _factors(path, np.asarray(labels[()], np.float64))
        pixels = room(images.shape, path)
        for span in blocks(rows, images.dtype.itemsize * images.size // rows, progress):
            images.read_direct(pixels, span, span)
    return Collection(name=name, items=np.asarray(numbered(rows), np.str_), factors=factors, pixels=pixels)


def _factors(path: Path, value: Floats) -> dict[str, Values]:
    shape = value[:, COLUMNS.index("shape")]
    wrong = ~np.isfinite(value).all(axis=1) | ~np.isin(shape, np.arange(len(SHAPES)))
    for row in np.flatnonzero(wrong)[:1]:
        raise ShiftBenchError(f"{path}: row {row} of 'labels' is {value[row].tolist()}; it should have finite numbers "
                              f"and a shape of 0 to {len(SHAPES) - 1} ({', '.join(SHAPES)}).")
    factors: dict[str, Values] = {column: value[:, index].round(6) for index, column in enumerate(COLUMNS)}
    factors["shape"] = np.asarray(SHAPES, np.str_)[shape.astype(np.int64)]
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
    try:
        with h5py.File(path, "r") as file:
            yield file
    except ShiftBenchError:
        raise
    except FileNotFoundError as problem:
        raise ShiftBenchError(f"{path}: no such file.") from problem
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({str(problem).splitlines()[0]}). It is damaged or no HDF5 "
                              "file; copy or download it again.") from problem
