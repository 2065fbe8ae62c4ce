"""Arrays on disk: room for more images than memory holds, in a file without a name that is mapped into memory."""

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

from shiftbench.core.arrays import Images
from shiftbench.core.errors import ShiftBenchError

Advance = Callable[[int, int], None]
"""Reports progress: (done, total)."""
BLOCK = 32 << 20
"""The bytes of pixels that are processed at a time."""


def room(shape: tuple[int, ...], path: Path) -> Images:
    """Black images on disk that can be written in place; the file is deleted with the last reference to the array."""
    return disk_zeros(shape, np.dtype(np.uint8), f"{path}: its images")


def disk_zeros(shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """Zeros in a nameless file below TMPDIR; `what` names them in an error.

    The disk space is taken before the first value is written: a full disk is an error here, not a crash on writing.
    """
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


def blocks(rows: int, row_bytes: int, progress: Advance | None = None) -> Iterator[slice]:
    """Consecutive rows of `row_bytes` bytes, as many at a time as `BLOCK` holds; reports progress after each block."""
    step = max(1, BLOCK // max(row_bytes, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
        if progress:
            progress(min(start + step, rows), rows)
