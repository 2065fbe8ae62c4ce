"""smallNORB: toys on a turntable under two cameras (LeCun et al., 2004), from its binary matrix files.

A matrix file begins with a magic number for its type, the number of dimensions and their lengths, at least three of
them, all little-endian 32-bit; the values follow. `…-dat.mat` has pairs of images, `…-cat.mat` the category of each and
`…-info.mat` the instance, elevation, azimuth and lighting. Files may still be compressed, as published (`.mat.gz`).
"""

import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np

from shiftbench.core.arrays import Ints, Values, blocks, room
from shiftbench.core.errors import Advance, ShiftBenchError, unknown
from shiftbench.core.files import check_regular
from shiftbench.data.collection import Collection
from shiftbench.readers.npz import DEFLATE, readable

CATEGORIES = ("animal", "human", "airplane", "truck", "car")
CAMERAS = ("left", "right")
TYPES = {0x1E3D4C51: "<f4", 0x1E3D4C53: "<f8", 0x1E3D4C54: "<i4", 0x1E3D4C55: "u1", 0x1E3D4C56: "<i2"}
INSTANCE, ELEVATION, AZIMUTH, LIGHTING = range(4)
LIMITS = {INSTANCE: 9, ELEVATION: 8, AZIMUTH: 34, LIGHTING: 5}


def smallnorb(
    sources: Sequence[Path], name: str, camera: str = "left", progress: Advance | None = None
) -> Collection:
    """Read smallNORB from its `-dat.mat` files, or from the folder that holds them; -cat and -info lie beside them.

    Factors: `category` (animal, human, airplane, truck, car), `instance` (0 to 9, the toy within its category),
    `elevation` (30 to 70 degrees), `azimuth` (0 to 340 degrees), `lighting` (0 to 5), `source` (training or testing)
    and `camera`. Ids: training-17. By default only the left camera's images are items: the two images of a pair are
    nearly the same and must not end up on both sides of a split. `camera` = both gives both, 17-left and 17-right.
    """
    if camera not in (*CAMERAS, "both"):
        raise unknown("camera", camera, (*CAMERAS, "both"), "Option camera")
    cameras = CAMERAS if camera == "both" else (camera,)
    columns = [index for index, word in enumerate(CAMERAS) if word in cameras]
    files = [file for source in sources for file in _image_files(source)]
    names = [_source(file) for file in files]
    for word in names:
        if names.count(word) > 1:
            raise ShiftBenchError(f"Two files of images are called {word}: {', '.join(map(str, files))}. Give one.")
    shapes = [_shape(file) for file in files]
    if len({shape[2:] for shape in shapes}) > 1:
        raise ShiftBenchError(f"The images of {files[0]} and {files[-1]} differ in size. Give files of one data set.")
    facts = [_facts(file, shape[0]) for file, shape in zip(files, shapes, strict=True)]
    counts, total = [shape[0] for shape in shapes], sum(shape[0] for shape in shapes)
    pixels = room((total, len(cameras), *shapes[0][2:], 3), files[0])
    start = 0
    for file, shape in zip(files, shapes, strict=True):
        with _opened(file) as stream:
            _header(stream)
            for span in blocks(shape[0], math.prod(shape[1:])):
                pairs = _values(stream, "u1", (span.stop - span.start, *shape[1:]))
                pixels[start + span.start:start + span.stop] = pairs[:, columns, :, :, None]
                if progress:
                    progress(start + span.stop, total)
            _check_end(stream)
        start += shape[0]
    category, info = (np.concatenate(column) for column in zip(*facts, strict=True))
    ids = [f"{word}-{row}" for word, count in zip(names, counts, strict=True) for row in range(count)]
    copies = len(cameras)
    return Collection(
        name=name,
        items=np.asarray(ids if copies == 1 else [f"{key}-{word}" for key in ids for word in cameras], np.str_),
        factors={
            "category": np.repeat(np.asarray(CATEGORIES, np.str_)[category], copies),
            "instance": np.repeat(info[:, INSTANCE], copies),
            "elevation": np.repeat(30 + 5 * info[:, ELEVATION], copies),
            "azimuth": np.repeat(10 * info[:, AZIMUTH], copies),
            "lighting": np.repeat(info[:, LIGHTING], copies),
            "source": np.repeat(np.asarray(names, np.str_), np.asarray(counts) * copies),
            "camera": np.tile(np.asarray(cameras, np.str_), total),
        },
        pixels=pixels.reshape(-1, *pixels.shape[2:]),
    )


def _image_files(source: Path) -> list[Path]:
    """The files of images: this one, or all in this folder, training first."""
    if not source.is_dir():
        if "-dat.mat" not in source.name:
            raise ShiftBenchError(f"{source}: give the folder of smallNORB, or its files that end in -dat.mat or "
                                  "-dat.mat.gz; -cat and -info are found beside them.")
        return [source]
    files = sorted([*source.glob("*-dat.mat"), *source.glob("*-dat.mat.gz")], key=lambda file: ("test" in file.name,
                                                                                             file.name))
    if not files:
        raise ShiftBenchError(f"{source}: holds no file that ends in -dat.mat or -dat.mat.gz.")
    return files


def _source(file: Path) -> str:
    """training or testing, as the published names say; any other name as it is."""
    stem = file.name.partition("-dat.mat")[0]
    return next((word for word in ("training", "testing") if stem.endswith(word)), stem)


def _beside(file: Path, content: str) -> Path:
    plain = file.with_name(f"{file.name.rpartition('-dat.mat')[0]}-{content}.mat")
    packed = plain.with_name(f"{plain.name}.gz")
    return packed if packed.is_file() and not plain.is_file() else plain


def _shape(file: Path) -> tuple[int, ...]:
    """Lengths of the images' matrix, checked against the size of the file."""
    with _opened(file) as stream:
        dtype, shape = _header(stream)
        file_size, size = file.stat().st_size, math.prod(shape)
        if dtype != "u1" or len(shape) != 4 or shape[1] != len(CAMERAS) or not size:
            raise ShiftBenchError(f"{file}: holds a matrix of type {dtype} and shape {shape}, but images are bytes of "
                                  "shape N × 2 × height × width.")
        if size > file_size * (DEFLATE if file.suffix == ".gz" else 1):
            raise ShiftBenchError(f"{file}: says it has {size} bytes of images but is {file_size} bytes long. Copy or "
                                  "download it again.")
    return shape


def _facts(file: Path, rows: int) -> tuple[Ints, Ints]:
    """The category of each pair, and its instance, elevation, azimuth and lighting."""
    category = _matrix(_beside(file, "cat"), (rows,))
    info = _matrix(_beside(file, "info"), (rows, len(LIMITS)))
    wrong = (category < 0) | (category >= len(CATEGORIES)) | (info < 0).any(axis=1)
    wrong |= (info > np.asarray([LIMITS[column] for column in sorted(LIMITS)])).any(axis=1)
    for row in np.flatnonzero(wrong)[:1]:
        raise ShiftBenchError(f"{_beside(file, 'info')}: pair {row} has category {category[row]} and instance, "
                              f"elevation, azimuth, lighting {info[row].tolist()}; allowed are 0 to 4 and 0 to "
                              f"{', '.join(str(LIMITS[column]) for column in sorted(LIMITS))}.")
    return category, info


def _matrix(path: Path, shape: tuple[int, ...]) -> Ints:
    with _opened(path) as stream:
        dtype, actual = _header(stream)
        if dtype != "<i4" or actual != shape:
            raise ShiftBenchError(f"{path}: holds a matrix of type {dtype} and shape {actual}, but it should be whole "
                                  f"numbers of shape {shape}, one row per pair of images.")
        values: Ints = _values(stream, dtype, shape).astype(np.int64)
        _check_end(stream)
    return values


def _header(stream: IO[bytes]) -> tuple[str, tuple[int, ...]]:
    magic, dimensions = (int(number) for number in _values(stream, "<u4", (2,)))
    if magic not in TYPES:
        raise ValueError(f"it begins with {magic:#x}, which is not the magic number of a matrix file")
    if not 1 <= dimensions <= 8:
        raise ValueError(f"it says it has {dimensions} dimensions")
    lengths = _values(stream, "<i4", (max(3, dimensions),))
    if (lengths < 0).any():
        raise ValueError(f"it says its lengths are {lengths.tolist()}")
    return TYPES[magic], tuple(lengths[:dimensions].tolist())


def _values(stream: IO[bytes], dtype: str, shape: tuple[int, ...]) -> Values:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("it ends too early")
    return np.frombuffer(data, dtype).reshape(shape)


def _check_end(stream: IO[bytes]) -> None:
    """Nothing may follow; reading on also verifies the checksum of a compressed file."""
    if stream.read(1):
        raise ValueError("it goes on after its last value")


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    check_regular(path)
    faults = (OSError, EOFError, zlib.error, ValueError)
    with readable(path, "matrix file of smallNORB", faults), path.open("rb") as file:
        yield cast(IO[bytes], gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
