"""Pixels of items: from the collection's array or from its image files, always RGB and uint8. No torch here."""

import hashlib
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from shiftbench.core.arrays import Bools, Images, Ints, Strs, Values, disk_zeros
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import missing_files

SHARE = 0.5
"""The share of this machine's memory that images may use."""
MAX_PIXELS = 64_000_000
"""A larger image is refused before it is decoded: a small file can unfold into gigabytes."""

T = TypeVar("T")


def images(collection: Collection, rows: Ints, size: int | None = None) -> Images:
    """The images of these items, N × H × W × 3.

    With `size` each is squeezed to size × size (bicubic, antialiased): nothing is cut off, since the edge may show the
    context that a shift is about. Without it all must have one size already. Rotation flags in a file are not applied:
    boxes and areas refer to the pixels as stored.
    """
    rows = np.asarray(rows, np.int64)
    if collection.pixels is None:
        raise ShiftBenchError(f"Collection '{collection.name}' has no images. Read it with its image files, or choose "
                              "a model of what it has: text-bag of texts, mlp of features, gin-small of molecules.")
    if collection.pixels.dtype.kind == "U":
        return _stack(collection, rows, size)
    _check_array(collection)
    if not size or collection.pixels.shape[1:3] == (size, size):
        return np.ascontiguousarray(collection.pixels[rows])
    pixels, side = collection.pixels, int(size)
    resized = _threaded(lambda row: np.asarray(_squeeze(Image.fromarray(pixels[row]), side)), rows)
    return _filled(resized, len(rows), (side, side, 3))


def pictures(collection: Collection, rows: Ints, work: Callable[[Image.Image], T]) -> list[T]:
    """Apply `work`, a transform of another library, to each item's image, an RGB picture in its own size."""
    if collection.pixels is None:
        images(collection, rows)  # raises an error that says what to do
    if collection.pixels is not None and collection.pixels.dtype.kind != "U":
        _check_array(collection)
        array = collection.pixels
        return list(_threaded(lambda row: work(Image.fromarray(array[row])), np.asarray(rows, np.int64)))
    return list(_threaded(lambda row: work(open_image(collection, row, None)), np.asarray(rows, np.int64)))


def content_hashes(collection: Collection, rows: Ints) -> Strs:
    """SHA-256 of each item's image: of the file's bytes, or of its row of the pixel array."""
    if collection.pixels is None:
        raise ShiftBenchError(f"Collection '{collection.name}' has no images to compare.")
    pixels = collection.pixels
    if pixels.dtype.kind != "U":
        return np.asarray([hashlib.sha256(np.ascontiguousarray(pixels[row])).hexdigest() for row in rows], np.str_)

    def of_file(row: int) -> str:
        path = collection.path(row)
        try:
            with path.open("rb") as handle:
                return hashlib.file_digest(handle, "sha256").hexdigest()
        except OSError as problem:
            raise _unreadable(collection, row, path, problem) from problem

    return np.asarray(list(_threaded(of_file, np.asarray(rows, np.int64))), np.str_)


def hashes_and_missing(collection: Collection, items: Strs) -> tuple[Values, Bools]:
    """A content hash per item, and which items have no image file; those differ from all others."""
    rows = collection.index(items)
    missing = np.isin(rows, missing_files(collection.pixels, collection.root))
    hashes = np.char.add("no file of ", items).astype(np.object_)
    hashes[~missing] = content_hashes(collection, rows[~missing])
    return hashes, missing


def _stack(collection: Collection, rows: Ints, size: int | None) -> Images:
    """Decode files; if no size is asked for, the first file sets it."""
    def decode(row: int) -> Images:
        picture = np.asarray(open_image(collection, row, size))
        if picture.shape != shape:
            raise ShiftBenchError(f"Collection '{collection.name}': the image of item '{collection.items[row]}' has "
                                  f"{picture.shape[1]} × {picture.shape[0]} pixels, others have {shape[1]} × "
                                  f"{shape[0]}. Ask for one size, for example size=224.")
        return picture

    if not len(rows):
        return np.zeros((0, size or 1, size or 1, 3), np.uint8)
    shape = (size, size, 3) if size else np.asarray(open_image(collection, int(rows[0]), size)).shape
    return _filled(_threaded(decode, rows), len(rows), (shape[0], shape[1], 3))


def open_image(collection: Collection, row: int, size: int | None, least: int = 0) -> Image.Image:
    """An item's image file, squeezed to size × size if asked for.

    With `least` a JPEG is decoded at a fraction of its size, of no fewer pixels than that a side: much faster.
    """
    path = collection.path(row)
    try:
        with Image.open(path) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise Image.DecompressionBombError(f"it has {picture.width} × {picture.height} pixels, more than the "
                                                   f"{MAX_PIXELS:,} allowed")
            if picture.mode.startswith(("I", "F")):
                raise OSError(f"it has more than 8 bits per channel (mode {picture.mode}); store it with 8")
            if least:
                picture.draft("RGB", (least, least))
            converted = picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as problem:
        raise _unreadable(collection, row, path, problem) from problem
    return _squeeze(converted, size) if size else converted


def _squeeze(picture: Image.Image, size: int) -> Image.Image:
    return picture if picture.size == (size, size) else picture.resize((size, size), Image.Resampling.BICUBIC)


def _check_array(collection: Collection) -> None:
    pixels = collection.pixels
    if pixels is None or pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] != 3:
        actual = "none" if pixels is None else f"{pixels.dtype} of shape {pixels.shape}"
        raise ShiftBenchError(f"Collection '{collection.name}': pixels must be uint8, N × H × W × 3, but are {actual}.")


def _unreadable(collection: Collection, row: int, path: Path, problem: Exception) -> ShiftBenchError:
    if path.suffix == ".npz":
        return ShiftBenchError(f"{path}: the image of item '{collection.items[row]}' is an array of any number of "
                               "channels, not a picture. Train with a model that takes those: --model resnet18-ms.")
    return _damaged(collection, row, problem)


def _damaged(collection: Collection, row: int, problem: Exception) -> ShiftBenchError:
    why = "no such file" if isinstance(problem, FileNotFoundError) else first_line(problem)
    return ShiftBenchError(f"{collection.path(row)}: the image of item '{collection.items[row]}' cannot be read "
                           f"({why}). Replace the file or drop the item.")


def _threaded(work: Callable[[int], T], rows: Ints) -> Iterator[T]:
    """Decoding and resizing release the interpreter lock, so threads use every core. Results come in order."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(work, rows.tolist())


def room(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An empty array for images, from a toy's to iWildCam's 122 GB at 448 px.

    Where it does not fit in memory it is a file in TMPDIR, which has no name and disappears with the process.
    """
    if math.prod(shape) * dtype.itemsize <= SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        return np.empty(shape, dtype)
    return disk_zeros(shape, dtype, f"{shape[0]:,} images")


def _filled(pictures: Iterator[Images], n: int, shape: tuple[int, int, int]) -> Images:
    out: Images = room((n, *shape), np.dtype(np.uint8))
    for row, picture in enumerate(pictures):
        out[row] = picture
    return out


# Images of any number of channels, one .npz file each: PovertyMap's have eight. They keep their own scale.

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
    shape = _read_channels(collection, int(rows[0])).shape
    out: Channels = room((len(rows), shape[0], *((size, size) if size else shape[1:])), np.dtype(np.float32))

    def fill(row: int) -> None:
        image = _read_channels(collection, int(rows[row]))
        if image.shape != shape:
            raise ShiftBenchError(f"{collection.path(int(rows[row]))}: the image has shape {_by(image.shape)}, "
                                  f"others have {_by(shape)}. All images of a collection must have one shape.")
        out[row] = _squeezed(image, size) if size else image

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # unpacking releases the interpreter lock
        for _ in pool.map(fill, range(len(rows))):
            pass
    return out


def _read_channels(collection: Collection, row: int) -> Channels:
    path = collection.path(row)
    if path.suffix != ".npz":
        raise ShiftBenchError(f"{path}: images of more than three channels are .npz files with an array '{ARRAY}'. "
                              "For this file choose a model of three channels, for example resnet18.")
    try:
        values = _array(path)
    except UNREADABLE as problem:
        raise _damaged(collection, row, problem) from problem
    image = values.astype(np.float32, copy=False)
    if not np.isfinite(image).all():
        raise ShiftBenchError(f"{path}: the image of item '{collection.items[row]}' has a value that is not a finite "
                              "number. Replace the file or drop the item.")
    return image


def _array(path: Path) -> Values:
    """Read the array; a ValueError says what is wrong with it."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if ARRAY not in names:
            raise ValueError(f"it has no array '{ARRAY}', but {', '.join(names) or 'none at all'}")
        info = archive.getinfo(f"{ARRAY}.npy")
        if info.file_size > 8 * MAX_VALUES:
            raise ValueError(f"it unfolds into {info.file_size:,} bytes")
        with archive.open(info) as stream:
            values = np.lib.format.read_array(stream, allow_pickle=False)
            stream.read(1)  # the checksum is verified at the end
    if values.dtype.kind not in "fiu" or values.ndim != 3 or not values.size or values.size > MAX_VALUES:
        raise ValueError(f"its array '{ARRAY}' is {values.dtype} of shape {_by(values.shape)}; it should be numbers of "
                         f"shape channels × height × width, at most {MAX_VALUES:,}")
    return values


def _squeezed(image: Channels, size: int) -> Channels:
    if image.shape[1:] == (size, size):
        return image
    import torch
    import torch.nn.functional as F

    batch = torch.from_numpy(np.ascontiguousarray(image))[None]
    squeezed: Channels = F.interpolate(batch, (size, size), mode="area")[0].numpy()
    return squeezed


def _by(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "()"
