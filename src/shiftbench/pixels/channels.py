"""Images of any number of channels, one .npz file each: PovertyMap's have eight. They keep their own scale."""

import os
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Ints, Values
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError
from shiftbench.pixels.room import room

Channels = npt.NDArray[np.float32]

ARRAY = "x"
MAX_VALUES = 64_000_000
"""A larger image is refused before it is unpacked: a small file can unfold into gigabytes."""

UNREADABLE = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError, NotImplementedError,
              RuntimeError, MemoryError)


def channel_images(collection: Collection, rows: Ints, size: int | None = None) -> Channels:
    """The images of these items, float32 N × C × H × W, as their files have them.

    Each is the array `x`, C × H × W, of its .npz file; the first fixes the shape that all must have. With `size` each
    is squeezed to size × size, every new pixel being the mean of the old ones it covers.
    """
    rows = np.asarray(rows, np.int64)
    if collection.pixels is None or collection.pixels.dtype.kind != "U":
        raise ShiftBenchError(f"Collection '{collection.name}' has no image files. A model of more than three channels "
                              "needs .npz files, as PovertyMap's; read the collection with its images.")
    if size is not None and size < 1:
        raise ShiftBenchError(f"Images cannot be squeezed to {size} × {size} pixels. Use size=64, or none.")
    if not len(rows):
        return np.zeros((0, 1, size or 1, size or 1), np.float32)
    shape = _read(collection, int(rows[0])).shape
    out: Channels = room((len(rows), shape[0], *((size, size) if size else shape[1:])), np.dtype(np.float32))

    def fill(place: int) -> None:
        image = _read(collection, int(rows[place]))
        if image.shape != shape:
            raise ShiftBenchError(f"{collection.path(int(rows[place]))}: the image has shape {_by(image.shape)}, "
                                  f"others have {_by(shape)}. All images of a collection must have one shape.")
        out[place] = _squeezed(image, size) if size else image

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # unpacking releases the interpreter lock
        for _ in pool.map(fill, range(len(rows))):
            pass
    return out


def _read(collection: Collection, row: int) -> Channels:
    path = collection.path(row)
    if path.suffix != ".npz":
        raise ShiftBenchError(f"{path}: images of more than three channels are .npz files with an array '{ARRAY}'. "
                              "For this file choose a model of three channels, for example resnet18.")
    try:
        values = _array(path)
    except UNREADABLE as problem:
        why = "no such file" if isinstance(problem, FileNotFoundError) else str(problem).splitlines()[0] if str(
            problem) else type(problem).__name__
        raise ShiftBenchError(f"{path}: the image of item '{collection.items[row]}' cannot be read ({why}). "
                              "Replace the file or drop the item.") from problem
    image = values.astype(np.float32, copy=False)
    if not np.isfinite(image).all():
        raise ShiftBenchError(f"{path}: the image of item '{collection.items[row]}' has a value that is no finite "
                              "number. Replace the file or drop the item.")
    return image


def _array(path: Path) -> Values:
    """The array; what is wrong with it is a ValueError."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if ARRAY not in names:
            raise ValueError(f"it has no array '{ARRAY}', but {', '.join(names) or 'none at all'}")
        info = archive.getinfo(f"{ARRAY}.npy")
        if info.file_size > 8 * MAX_VALUES:
            raise ValueError(f"it unfolds into {info.file_size:,} bytes")
        with archive.open(info) as stream:
            values = np.lib.format.read_array(stream, allow_pickle=False)
            stream.read(1)  # the check sum is looked at when the end is met
    if values.dtype.kind not in "fiu" or values.ndim != 3 or not values.size or values.size > MAX_VALUES:
        raise ValueError(f"its array '{ARRAY}' is {values.dtype} of shape {_by(values.shape)}; it should be numbers of "
                         f"shape channels × height × width, at most {MAX_VALUES:,}")
    return values


def _squeezed(image: Channels, size: int) -> Channels:
    if image.shape[1:] == (size, size):
        return image
    import torch
    import torch.nn.functional as F

    whole = torch.from_numpy(np.ascontiguousarray(image))[None]
    squeezed: Channels = F.interpolate(whole, (size, size), mode="area")[0].numpy()
    return squeezed


def _by(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "()"
