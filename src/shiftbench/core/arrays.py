"""Columns: the array types everything is made of, their codes and their digest."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.errors import ShiftBenchError, first_line

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
    if isinstance(values, str | bytes | Mapping) or values is None:
        raise ShiftBenchError(f"{argument}: is {type(values).__name__}, but one value per item is needed, in a list or "
                              "an array.")
    try:
        if hasattr(values, "detach"):  # a tensor may have a gradient, and may be on a GPU
            values = values.detach().cpu()
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise ShiftBenchError(f"{argument}: {type(values).__name__} cannot be read as an array "
                              f"({first_line(problem)}).") from problem
    if array.ndim == 0:
        raise ShiftBenchError(f"{argument}: is {type(values).__name__}, but one value per item is needed, in a list or "
                              "an array.")
    return array


def in_short(names: Iterable[object], most: int = 6) -> str:
    """The first names, and that there are more: what a `__repr__` says of many.

    >>> in_short(range(9)), in_short(["cat", "dog"])
    ('0, 1, 2, 3, 4, 5 and 3 more', 'cat, dog')
    """
    words = [str(name) for name in names]
    return ", ".join(words[:most]) + (f" and {len(words) - most:,} more" if len(words) > most else "")


def encode(values: npt.ArrayLike) -> tuple[Ints, tuple[str, ...]]:
    """Codes and names of a column: `names[codes[i]] == str(values[i])`.

    Names come sorted, numbers by value and words by code point, so the codes never depend on the order of the rows.
    This is the only place where codes are made.

    >>> codes, names = encode(["b", "a", "b"])
    >>> codes.tolist(), names
    ([1, 0, 1], ('a', 'b'))
    """
    column = np.asarray(values)
    if column.ndim != 1:
        raise ShiftBenchError(f"A column has one value per item; got an array of shape {column.shape}.")
    if column.dtype.kind == "f" and np.isnan(column).any():
        missing = int(np.isnan(column).sum())
        raise ShiftBenchError(f"A column of codes has {missing} missing values (NaN). Fill them or drop those items.")
    if column.dtype.kind in "UO":
        dictionary = _as_words(column).dictionary_encode()
        words = np.asarray(dictionary.dictionary.to_pylist(), dtype=str)
        order = np.argsort(words, kind="stable")
        rank = np.empty(len(words), np.int64)
        rank[order] = np.arange(len(words))
        return rank[dictionary.indices.to_numpy()], tuple(words[order].tolist())
    distinct, codes = np.unique(column, return_inverse=True)
    return codes.astype(np.int64), tuple(str(value) for value in distinct.tolist())


def _as_words(column: Values) -> Any:
    """One array: of a very long column pyarrow makes several chunks."""
    words = pa.array(column, pa.string())
    return words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words


def broken_text(values: Values) -> str | None:
    """The first string that cannot be encoded, like a file name that is no UTF-8; None where all can."""
    if values.dtype.kind != "U" or not values.size or not values.dtype.itemsize:
        return None
    letters = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
    odd = ((letters >= 0xD800) & (letters < 0xE000)).any(axis=1)
    return str(values[odd][0]) if odd.any() else None


def positions(needles: Strs, haystack: Strs) -> Ints:
    """Where each needle stands in the haystack; -1 where it does not. The haystack has no doubles."""
    if np.array_equal(needles, haystack):  # as a rule predictions come in the order of the rows
        return np.arange(len(needles))
    indices = pc.index_in(_as_words(needles), value_set=_as_words(haystack))
    return np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False), np.int64)


def digest(columns: Mapping[str, npt.ArrayLike]) -> str:
    """SHA-256 over canonical column bytes: the same columns give the same digest on any machine.

    Each column contributes its name, its kind, its length and its values: words as UTF-8 with 64-bit offsets, whole
    numbers as little-endian 64-bit integers, others as little-endian 64-bit floats.
    """
    total = hashlib.sha256()
    for name, values in columns.items():
        column = np.asarray(values)
        kind = "s" if column.dtype.kind in "UO" else "i" if column.dtype.kind in "iub" else "f"
        total.update(f"{name}\0{kind}\0{column.shape}\0".encode())
        if kind == "s":
            words = [str(word).encode() for word in column.ravel().tolist()]
            total.update(np.cumsum([len(word) for word in words], dtype="<i8").tobytes())
            total.update(b"".join(words))
        else:
            total.update(np.ascontiguousarray(column, dtype="<i8" if kind == "i" else "<f8").tobytes())
    return total.hexdigest()


WASTE = 1 << 26
"""Bytes that a column of fixed width may take before its width is compared with what its words need."""


def settings_id(settings: Mapping[str, Any]) -> str:
    """A name for settings: the first 16 hexadecimal digits of the SHA-256 of their canonical JSON."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    return np.asarray(words.to_pylist(), dtype=np.str_)
