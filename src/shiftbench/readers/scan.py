"""The annotations of a large COCO file, scanned into columns by a compiled loop: no Python object per annotation.

The loop knows the plain case only: annotations of one list with whole ids, an area, a box of four numbers and any other
members, which it steps over. At anything else (captions, escapes in names, numbers with exponents, wrong types, text
that ends) it stops before the element and leaves it, and what follows, to the decoder, which reads it or says what is
wrong. So it is never the one to judge, and both give the same columns to the last bit. Imported only where a file is
large, because numba is slow to import. Indices are unsigned, because numba checks signed ones for counting from the end.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from shiftbench.arrays import Floats, Ints

Bytes = npt.NDArray[np.uint8]

KEYS = np.zeros((5, 12), np.uint8)
for _row, _key in enumerate((b"image_id", b"category_id", b"area", b"bbox", b"caption")):
    KEYS[_row, :len(_key)] = np.frombuffer(_key, np.uint8)
LENGTH = np.asarray([8, 11, 4, 4, 7])
BBOX, CAPTION, OTHER = 3, 4, 5

PLAIN, OPEN, CLOSE, QUOTE, ODD = range(5)  # what a byte inside a value that is stepped over may be
KIND = np.full(256, ODD, np.uint8)
KIND[np.frombuffer(b"0123456789+-.eE, \t\r\n:truefalsn", np.uint8)] = PLAIN
KIND[np.frombuffer(b"[{", np.uint8)] = OPEN
KIND[np.frombuffer(b"]}", np.uint8)] = CLOSE
KIND[ord('"')] = QUOTE
POWERS = 10.0 ** np.arange(19)

ONE, NOWHERE = np.uint64(1), np.uint64(0)
QUOTED, BACKSLASH, COMMA, COLON, MINUS, POINT, ZERO = (np.uint8(ord(sign)) for sign in '"\\,:-.0')
LIST, LIST_END, OBJECT, OBJECT_END = (np.uint8(ord(sign)) for sign in "[]{}")


def compiled(loop: Any) -> Any:
    """Compile on first use; keep the result on disk for the next process where a folder can be written."""
    try:
        return njit(loop, cache=True, nogil=True)
    except RuntimeError:  # neither the package's folder nor the home can be written
        return njit(loop, nogil=True)


@compiled
def _space(text: Bytes, i: np.uint64, end: np.uint64) -> np.uint64:
    while i < end and (text[i] == 32 or 9 <= text[i] <= 13):
        i += ONE
    return i


@compiled
def _string(text: Bytes, i: np.uint64, end: np.uint64) -> np.uint64:
    """Behind the quote that ends a string whose first sign is at i."""
    while i < end and text[i] != QUOTED:
        i += ONE if text[i] != BACKSLASH else ONE + ONE
    return i + ONE if i < end else NOWHERE


@compiled
def _value(text: Bytes, i: np.uint64, end: np.uint64) -> np.uint64:
    """Behind the value at i, or NOWHERE."""
    depth = 0
    while i < end:
        while i < end and KIND[text[i]] == PLAIN and (depth > 0 or text[i] != COMMA):
            i += ONE
        if i >= end:
            return NOWHERE
        kind = KIND[text[i]]
        if kind == PLAIN or (kind == CLOSE and depth == 0):
            return i
        i += ONE
        if kind == OPEN:
            depth += 1
        elif kind == QUOTE:
            i = _string(text, i, end)
        else:
            depth -= 1
        if i == NOWHERE or kind == ODD or depth == 0:
            return NOWHERE if kind == ODD else i
    return NOWHERE
