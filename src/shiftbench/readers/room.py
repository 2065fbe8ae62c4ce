"""Room for many images: a nameless file on disk, mapped into memory, so that they are never held in memory whole."""

import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Images
from shiftbench.errors import ShiftBenchError

Advance = Callable[[int, int], None]
BLOCK = 32 << 20  # bytes of pixels that are worked on at a time


def room(shape: tuple[int, ...], path: Path) -> Images:
    """Black images on disk that can be written in place; the file is gone when nobody holds the array any more.

    The disk space is taken before the first image is read: a full disk is an error here, not a crash on writing.
    """
    return mapped(shape, np.dtype(np.uint8), f"{path}: its images")


def mapped(shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """Zeros in a nameless file below TMPDIR whose room on disk is taken now, or an error that says whose they were."""
    size, folder = math.prod(shape) * dtype.itemsize, tempfile.gettempdir()
    try:
        if shutil.disk_usage(folder).free < size:
            raise OSError(0, f"{shutil.disk_usage(folder).free / 1e9:.1f} GB are free")
        with tempfile.TemporaryFile() as file:
            if sys.platform == "linux":
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            return np.memmap(file, dtype, "r+", shape=shape)
    except OSError as problem:
        raise ShiftBenchError(f"{what} take {size / 1e9:.1f} GB, which the folder for temporary files, "
                              f"{folder}, cannot hold ({problem.strerror}). Set TMPDIR to a folder on a larger "
                              "disk.") from problem


def blocks(rows: int, each: int, progress: Advance | None = None) -> Iterator[slice]:
    """Consecutive rows, as many at a time as `BLOCK` holds of `each` bytes; says after each block how far it is."""
    step = max(1, BLOCK // max(each, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
        if progress:
            progress(min(start + step, rows), rows)


def numbered(rows: int) -> list[str]:
    """Ids of items that a file knows by their place alone."""
    return list(map(str, range(rows)))
