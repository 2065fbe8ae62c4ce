"""Columns: the array types of all data, their codes and digests, random numbers for them, and arrays in files."""

import hashlib
import math
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.errors import Advance, ShiftBenchError, first_line

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Strs = npt.NDArray[np.str_]
Images = npt.NDArray[np.uint8]
Values = npt.NDArray[Any]


def array_of(values: Any, argument: str) -> Values:
    """What a user passed for `argument`, as an array: a list, an array, a tensor, or a column of a data frame.

    >>> array_of([1, 2], "ids").tolist()
    [1, 2]
    """
    array: Values = np.zeros(())
    try:
        if hasattr(values, "detach"):  # a tensor may have a gradient, and may be on a GPU
            values = values.detach().cpu()
        if not isinstance(values, str | bytes | Mapping | None):
            array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise ShiftBenchError(f"{argument}: {type(values).__name__} cannot be read as an array "
                              f"({first_line(problem)}).") from problem
    if array.ndim == 0:
        raise ShiftBenchError(f"{argument}: is {type(values).__name__}, but one value per item is needed, in a list or "
                              "an array.")
    return array


def is_lazy(values: Any) -> bool:
    """Whether this is a frame of polars that waits to be computed."""
    return hasattr(values, "collect") and hasattr(values, "collect_schema")


def in_short(names: Iterable[object], most: int = 6) -> str:
    """The first names and the number of others, for a `__repr__`.

    >>> in_short(range(9)), in_short(["cat", "dog"])
    ('0, 1, 2, 3, 4, 5 and 3 more', 'cat, dog')
    """
    words = [str(name) for name in names]
    return ", ".join(words[:most]) + (f" and {len(words) - most:,} more" if len(words) > most else "")


@dataclass(frozen=True, eq=False)
class Words:
    """A column of words that may repeat: the word of row i is `names[codes[i]]`.

    Names are distinct and in no particular order; some may be the word of no row.
    """

    codes: npt.NDArray[np.int32]
    names: pa.Array

    @staticmethod
    def of(column: Any) -> "Words":
        """An arrow column of one value per row, the empty word where there is none; its categories are kept."""
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        else:
            column = column.cast(pa.string()) if str(column.type) == "string_view" else column
            column = column.dictionary_encode()
        if not column.num_chunks:
            return Words(np.zeros(0, np.int32), pa.array([], pa.string()))
        names = column.chunk(0).dictionary.cast(pa.string())
        names.validate(full=True)
        codes = np.concatenate([np.asarray(chunk.indices.fill_null(len(names)), np.int32) for chunk in column.chunks])
        every = pa.concat_arrays([names.fill_null(""), pa.array([""], pa.string())]).dictionary_encode()
        if not column.null_count and len(every.dictionary) > len(names):  # no gap, and no category twice or empty
            return Words(codes, names)
        return Words(np.asarray(every.indices, np.int32)[codes], every.dictionary)

    @staticmethod
    def of_array(column: Values) -> "Words":
        """An array of words."""
        coded = _as_words(column).dictionary_encode()
        return Words(np.asarray(coded.indices, np.int32), coded.dictionary)

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Values) -> "Words":
        return Words(self.codes[rows], self.names)

    def of_word(self, word: str) -> int:
        """The code of a word; -1 where it is none of the names."""
        return int(pc.index(self.names, word).as_py())

    @cached_property
    def sizes(self) -> Ints:
        """How many rows have each name."""
        return np.bincount(self.codes, minlength=len(self.names))

    @cached_property
    def coded(self) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
        """Codes and names as `encode` returns them: sorted, and each the word of some row."""
        present = np.flatnonzero(self.sizes)
        names = self.names.take(pa.array(present)).to_pylist()
        order = sorted(range(len(names)), key=names.__getitem__)
        if len(names) == len(self.names) and order == list(range(len(names))):
            return self.codes, tuple(names)
        rank = np.zeros(len(self.names), np.int32)
        rank[present[order]] = np.arange(len(names))
        return rank[self.codes], tuple(names[number] for number in order)

    def to_numpy(self) -> Strs:
        return to_strings(pa.chunked_array([self.names.take(pa.array(self.codes))]))


def encode(values: "npt.ArrayLike | Words") -> tuple[Ints, tuple[str, ...]]:
    """Codes and names of a column: `names[codes[i]] == str(values[i])`.

    Names come sorted, numbers by value and words by code point, so the codes never depend on the order of the rows.
    This is the only place where codes are made.

    >>> codes, names = encode(["b", "a", "b"])
    >>> codes.tolist(), names
    ([1, 0, 1], ('a', 'b'))
    """
    if isinstance(values, Words):
        return values.coded[0].astype(np.int64), values.coded[1]
    column = np.asarray(values)
    if column.ndim != 1:
        raise ShiftBenchError(f"A column has one value per item; got an array of shape {column.shape}.")
    if column.dtype.kind == "f" and np.isnan(column).any():
        missing = int(np.isnan(column).sum())
        raise ShiftBenchError(f"A column of codes has {missing} missing values (NaN). Fill them or drop those items.")
    if column.dtype.kind in "UO":
        return encode(Words.of_array(column))
    distinct, codes = np.unique(column, return_inverse=True)
    return codes.astype(np.int64), tuple(str(value) for value in distinct.tolist())


def _as_words(column: Values) -> Any:
    """An array of words as one arrow array; pyarrow makes several chunks of a very long column.

    pyarrow cuts words of a numpy array at a NUL, but not those of a list.
    """
    words = pa.array(column.tolist() if _has_nul(column) else column, pa.string())
    return words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words


def _has_nul(column: Values) -> bool:
    """Whether a string of an array of strings has a NUL before its end."""
    if column.dtype.kind != "U" or column.dtype.itemsize < 8 or not len(column):
        return False
    letters = np.ascontiguousarray(column).view(np.uint32).reshape(len(column), -1)
    return bool(((letters[:, :-1] == 0) & (letters[:, 1:] != 0)).any())


def broken_text(values: Values) -> str | None:
    """The first string that cannot be encoded, like a file name that is no UTF-8; None where all can."""
    if values.dtype.kind != "U" or not values.size or not values.dtype.itemsize:
        return None
    letters = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
    if letters.max() < 0xD800:
        return None
    odd = ((letters >= 0xD800) & (letters < 0xE000)).any(axis=1)
    return str(values[odd][0]) if odd.any() else None


def has_doubles(words: Strs) -> bool:
    """Whether a word occurs twice. Three times as fast as sorting them."""
    return len(_as_words(words).unique()) < len(words)


def positions(needles: Strs, haystack: Strs) -> Ints:
    """The index of each needle in the haystack, -1 where it is not there. The haystack has no duplicates."""
    if not len(needles):
        return np.zeros(0, np.int64)
    if np.array_equal(needles, haystack):  # predictions usually come in the order of the rows
        return np.arange(len(needles))
    indices = pc.index_in(_as_words(needles), value_set=_as_words(haystack))
    return np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False), np.int64)


def digest(columns: Mapping[str, npt.ArrayLike]) -> str:
    """SHA-256 over canonical column bytes: the same columns give the same digest on any machine.

    Each column contributes its name, its kind, its length and its values: words as UTF-8 with 64-bit offsets, whole
    numbers as little-endian 64-bit integers, others as little-endian 64-bit floats. An arrow column of strings counts
    as an array of strings.
    """
    total = hashlib.sha256()
    for name, values in columns.items():
        if isinstance(values, pa.ChunkedArray):
            total.update(f"{name}\0s\0{(len(values),)}\0".encode())
            total.update(np.cumsum(pc.binary_length(values), dtype="<i8"))
            for chunk in values.chunks:
                total.update(letters(chunk))
            continue
        column = np.asarray(values)
        kind = "s" if column.dtype.kind in "UO" else "i" if column.dtype.kind in "iub" else "f"
        total.update(f"{name}\0{kind}\0{column.shape}\0".encode())
        if kind == "s":
            words = [str(word).encode() for word in column.ravel().tolist()]
            total.update(np.cumsum([len(word) for word in words], dtype="<i8").tobytes())
            total.update(b"".join(words))
        else:
            total.update(np.ascontiguousarray(column, dtype="<i8" if kind == "i" else "<f8").reshape(-1))
    return total.hexdigest()


def letters(words: pa.Array) -> memoryview:
    """The concatenated UTF-8 bytes of an arrow array of strings without gaps."""
    starts, text = (memoryview(buffer or b"") for buffer in words.buffers()[1:])
    ends = np.frombuffer(starts, np.int32)[[words.offset, words.offset + len(words)]] if len(words) else (0, 0)
    return text[int(ends[0]):int(ends[1])]


WASTE = 1 << 26
"""Bytes that a column of fixed width may take before its width is compared with what its words need."""


def to_strings(column: pa.ChunkedArray) -> Strs:
    """An arrow column as a numpy array of strings.

    numpy gives every string of an array the width of the longest, four bytes a letter. Where that would take far more
    than the words themselves, as in a column of names with one long text in it, the array holds Python's strings.
    """
    if not len(column):
        return np.zeros(0, np.str_)
    words = column.cast(pa.string())
    fixed = 4 * len(words) * (pc.max(pc.utf8_length(words)).as_py() or 0)
    if fixed > WASTE and fixed > 64 * words.nbytes:
        return np.asarray(words.to_pylist(), np.object_)
    if not words.null_count and 4 * len(words[:1000].unique()) < len(words[:1000]):  # few words, each of them often
        distinct = words.unique()
        codes = pc.index_in(words, value_set=distinct).to_numpy()
        return np.asarray(np.asarray(distinct.to_pylist(), np.str_)[codes], np.str_)
    return np.asarray(words.to_pylist(), dtype=np.str_)


# Random numbers: a stream per named purpose, passed in, never global. `child` gives a generator for one purpose;
# `uniform` gives one number per index, so that item i never depends on which other items are drawn. Adding a draw under
# a new name moves no other draw.

def child(seed: int, *purpose: str) -> np.random.Generator:
    """An independent stream for one named purpose: child(0, "split", "dog")."""
    return np.random.default_rng([checked_seed(seed), *(zlib.crc32(word.encode()) for word in purpose)])


def checked_seed(seed: int) -> int:
    """The seed, after a check that every random draw goes through."""
    if seed < 0:
        raise ShiftBenchError(f"seed = {seed}, but a seed is a whole number of at least 0.")
    return seed


def uniform(seed: int, purpose: str, index: Ints) -> Floats:
    """One number in [0, 1) per index, a pure function of (seed, purpose, index).

    A counter hash: the splitmix64 finaliser applied twice to index + key. Integer arithmetic alone, so every machine
    gives the same bits.
    """
    sequence = np.random.SeedSequence([checked_seed(seed), zlib.crc32(purpose.encode())])
    key = np.uint64(sequence.generate_state(1, np.uint64)[0])
    with np.errstate(over="ignore"):
        mixed = _splitmix(_splitmix(np.asarray(index).astype(np.uint64) + key) ^ key)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _splitmix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


# Arrays on disk, mapped into memory: read through the map, written through the file

BLOCK = 32 << 20
"""The bytes of an array on disk that are processed at a time."""


def read_array(path: Path | str) -> Values:
    """An array in numpy's format, mapped for reading. Nothing is unpickled, and no more is read than the file holds.

    numpy's parser of headers raises whatever Python's own parser does, from SyntaxError to MemoryError.
    """
    try:
        return np.lib.format.open_memmap(path, "r")
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({problem.strerror or first_line(problem)}).") from problem
    except Exception as problem:
        raise ShiftBenchError(f"{path}: not an array in numpy's format, or a damaged one ({first_line(problem)}). Copy "
                              "or make it again; files of Python objects are never opened.") from problem


def cached_rows(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
    """An array of a cache, mapped for reading, with a row per item; `write_rows` writes it."""
    remedy = f"Delete the folder {path.parent}; what it keeps is computed again."
    try:
        table = np.lib.format.open_memmap(path, "r")
    except PermissionError as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({problem.strerror}). Ask its owner for the right to read "
                              "it.") from problem
    except Exception as problem:  # see `read_array`
        raise ShiftBenchError(f"{path}: is missing or damaged ({first_line(problem)}). {remedy}") from problem
    if table.shape != shape or table.dtype != dtype:
        raise ShiftBenchError(f"{path}: has {table.dtype} of shape {table.shape}, not {shape}. {remedy}")
    return table


def may_write(path: Path | str) -> bool:
    """Whether this process may write a file, which only opening it shows."""
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        return False
    return True


def check_writable(table: Any, missing: int) -> None:
    """Raise an error before hours of work whose result could not be stored."""
    if missing and not may_write(table.filename):
        raise ShiftBenchError(f"{table.filename}: lacks {missing:,} items that are needed, and you have no right to "
                              "write it. Ask its owner to compute them, or make a copy of the collection's folder.")


def write_rows(table: Any, rows: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> None:
    """Write rows of a mapped array through its file: on a full disk, writing to the map would kill the process."""
    try:
        with open(table.filename, "r+b") as file:
            for row, value in zip(rows.tolist(), values, strict=True):
                file.seek(table.offset + row * table[0].nbytes)
                file.write(value.tobytes())
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        raise ShiftBenchError(f"{table.filename}: cannot be written ({problem.strerror}).") from problem


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
