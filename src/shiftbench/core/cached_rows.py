"""A table of a cache on disk, mapped into memory: read by rows, written by rows through the file."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftbench.core.errors import ShiftBenchError, first_line


def kept_rows(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
    """A table of a cache, mapped for reading: `write_rows` writes it. What cannot be read says whose fault that is."""
    folder = path.parent
    try:
        table = np.lib.format.open_memmap(path, "r")
    except FileNotFoundError as problem:
        raise ShiftBenchError(f"{folder}: has no {path.name}. Delete this folder; what it keeps is computed "
                              "again.") from problem
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({problem.strerror}). Ask its owner for the right to read "
                              "it.") from problem
    except Exception as problem:  # see `read_array`
        raise ShiftBenchError(f"{folder}: {path.name} is damaged ({first_line(problem)}). Delete this folder; what it "
                              "keeps is computed again.") from problem
    if table.shape != shape or table.dtype != dtype:
        raise ShiftBenchError(f"{path}: has {table.dtype} of shape {table.shape}, not {shape}. Delete the folder "
                              f"{folder}; what it keeps is computed again.")
    return table


def may_write(path: Path | str) -> bool:
    """Whether this process may change a file, asked of the system by opening it."""
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        return False
    return True


def check_writable(table: Any, missing: int) -> None:
    """Say before hours of work that their outcome cannot be kept."""
    if missing and not may_write(table.filename):
        raise ShiftBenchError(f"{table.filename}: lacks {missing:,} items that are needed, and you have no right to "
                              "write it. Ask its owner to compute them, or make a copy of the collection's folder.")


def write_rows(table: Any, rows: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> None:
    """Write rows of a memory-mapped file through the file: on a full disk the map itself would end the process."""
    try:
        with open(table.filename, "r+b") as file:
            for row, value in zip(rows.tolist(), values, strict=True):
                file.seek(table.offset + row * table[0].nbytes)
                file.write(value.tobytes())
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        raise ShiftBenchError(f"{table.filename}: cannot be written ({problem.strerror}).") from problem
