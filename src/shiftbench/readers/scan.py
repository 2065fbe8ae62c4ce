"""The annotations of a large COCO file, scanned into columns by a compiled loop: no Python object per annotation.

The loop knows the plain case only: annotations of one list with whole ids, an area, a box of four numbers and any other
members, which it steps over. At anything else (captions, escapes in names, numbers with exponents, wrong types, text
that ends) it stops before the element and leaves it, and what follows, to the decoder, which reads it or says what is
wrong. So it is never the one to judge, and both give the same columns to the last bit.

Imported only where a file is large, because numba is slow to import. Indices are unsigned, because numba checks signed
ones for counting from the end; their small functions are inlined, because numba counts references at every call.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from shiftbench.core.arrays import Floats, Ints

Bytes = npt.NDArray[np.uint8]
Place = Any  # an unsigned index; what numba infers is finer than what can be written here

WORDS = (b"image_id", b"category_id", b"area", b"bbox", b"caption")
IMAGE, CATEGORY, AREA, BBOX, CAPTION, OTHER = range(6)
KEYS = np.asarray([list(word.ljust(12)) for word in WORDS], np.uint8)
LENGTH = np.asarray([len(word) for word in WORDS])

PLAIN, OPEN, CLOSE, QUOTE, ODD = range(5)  # what a byte of a value that is stepped over may be
KIND = np.full(256, ODD, np.uint8)
KIND[np.frombuffer(b"0123456789+-.eE, \t\r\n:truefalsn", np.uint8)] = PLAIN
KIND[np.frombuffer(b"[{", np.uint8)] = OPEN
KIND[np.frombuffer(b"]}", np.uint8)] = CLOSE
KIND[ord('"')] = QUOTE

LARGEST = 10**18  # as many digits as fit into 64 bits, and some room
POWERS = 10.0 ** np.arange(23)  # those that are whole numbers of 53 bits times a power of two
ONE, NOWHERE = np.uint64(1), np.uint64(0)


def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use; keep the result on disk for the next process where a folder can be written."""
    try:
        return njit(loop, cache=True, nogil=True)  # type: ignore[no-any-return]
    except RuntimeError:  # neither the package's folder nor the home can be written
        return njit(loop, nogil=True)  # type: ignore[no-any-return]


def inlined(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile into its callers."""
    return njit(loop, inline="always")  # type: ignore[no-any-return]


@inlined
def _space(text: Bytes, i: Place, end: Place) -> Place:
    while i < end and (text[i] == 32 or text[i] == 9 or text[i] == 10 or text[i] == 13):
        i += ONE
    return i


@inlined
def _is(text: Bytes, i: Place, end: Place, sign: int) -> Any:
    return i < end and text[i] == sign


@compiled
def _string(text: Bytes, i: Place, end: Place) -> Place:
    """Behind the quote that ends the string whose first sign is at i, or NOWHERE."""
    while i < end and text[i] != 34:
        i += ONE if text[i] != 92 else ONE + ONE
    return i + ONE if i < end else NOWHERE


@compiled
def _value(text: Bytes, i: Place, end: Place) -> Place:
    """Behind the value at i, or NOWHERE."""
    if _is(text, i, end, 34):
        return _string(text, i + ONE, end)
    if i < end and KIND[text[i]] != OPEN:
        start = i
        while i < end and KIND[text[i]] == PLAIN and text[i] != 44:
            i += ONE
        return i if i > start else NOWHERE
    depth = 0
    while True:
        while i < end and KIND[text[i]] == PLAIN:
            i += ONE
        if i >= end or KIND[text[i]] == ODD:
            return NOWHERE
        kind = KIND[text[i]]
        i += ONE
        if kind == QUOTE:
            i = _string(text, i, end)
        else:
            depth += 1 if kind == OPEN else -1
        if i == NOWHERE or depth == 0:
            return i


@compiled
def _number(text: Bytes, i: Place, end: Place) -> tuple[Any, Any, Place]:
    """The digits of a number that is not negative, how many of them stand behind the point, and where it ends."""
    number, start, point, whole = np.int64(0), i, NOWHERE, True
    while i < end and number < LARGEST:
        digit = np.int64(text[i]) - 48
        if 0 <= digit <= 9:
            number = number * 10 + digit
        elif digit == -2 and whole and i > start:  # the point
            point, whole = i, False
        else:
            break
        i += ONE
    before = i - start if whole else point - start
    places = NOWHERE if whole else i - point - ONE
    if i >= end or number >= LARGEST or before == NOWHERE or (not whole and places == NOWHERE):
        return np.int64(0), np.int64(0), NOWHERE
    exponent, zeros = text[i] == 101 or text[i] == 69, text[start] == 48 and before > ONE  # 1e5 is rare, 05 is wrong
    if exponent or zeros or places >= np.uint64(len(POWERS)):
        return np.int64(0), np.int64(0), NOWHERE
    return number, np.int64(places), i


@compiled
def _divided(number: Any, power: Any) -> Any:
    """The double next to number / power, for any number below 10^18 and any power of ten up to 10^22.

    Up to 2^53 both are exact and one division rounds rightly. Above, what the division left over is worked out exactly
    (Dekker's product) and added.
    """
    if number < 9007199254740992:
        return number / power
    high, low = float((number >> 20) << 20), float(number & 1048575)
    first = (high + low) / power
    part = 134217729.0 * first
    first_high = part - (part - first)
    first_low = first - first_high
    part = 134217729.0 * power
    power_high = part - (part - power)
    power_low = power - power_high
    product = first * power
    error = first_high * power_high - product
    error = ((error + first_high * power_low) + first_low * power_high) + first_low * power_low
    return first + (((high - product) - error) + low) / power


@compiled
def _key(text: Bytes, start: Place, length: Place) -> int:
    for key in range(len(LENGTH)):
        j = 0
        while length == np.uint64(LENGTH[key]) and j < LENGTH[key] and text[start + np.uint64(j)] == KEYS[key, j]:
            j += 1
        if j == LENGTH[key]:
            return key
    return OTHER


@compiled
def scan(text: Bytes, at: int, until: int, image: Ints, category: Ints, area: Floats, box: Floats) -> tuple[int, Place]:
    """Fill the columns from the elements that begin behind `at` and end before `until`; their number and their end.

    `box` has the four numbers of each row one after another. The end is where the last element ends, or `at`.
    """
    row, i, end, safe = 0, np.uint64(at), np.uint64(until), np.uint64(at)
    while row < len(image):
        i = _space(text, i, end)
        if row > 0:
            if not _is(text, i, end, 44):
                return row, safe
            i = _space(text, i + ONE, end)
        if not _is(text, i, end, 123):
            return row, safe
        image[row], category[row], area[row] = -1, -1, np.nan
        for side in range(4):
            box[4 * row + side] = np.nan
        inside = True
        while inside:
            start = _space(text, i + ONE, end) + ONE
            if not _is(text, start - ONE, end, 34):
                return row, safe
            i = start
            while i < end and text[i] != 34 and text[i] != 92:
                i += ONE
            if not _is(text, i, end, 34):
                return row, safe
            key = _key(text, start, i - start)
            i = _space(text, i + ONE, end)
            if not _is(text, i, end, 58):
                return row, safe
            i = _space(text, i + ONE, end)
            if key == OTHER:
                i = _value(text, i, end)
            elif key == BBOX:
                if not _is(text, i, end, 91):
                    return row, safe
                for side in range(4):
                    i = _space(text, i + ONE, end)
                    minus = side < 2 and _is(text, i, end, 45)
                    number, places, i = _number(text, i + ONE if minus else i, end)
                    if i == NOWHERE:
                        return row, safe
                    size = _divided(number, POWERS[places])
                    box[4 * row + side] = -size if minus else size
                    i = _space(text, i, end)
                    if not _is(text, i, end, 44 if side < 3 else 93):
                        return row, safe
                i += ONE
            elif key == CAPTION:
                return row, safe
            else:
                number, places, i = _number(text, i, end)
                if key == AREA:
                    area[row] = _divided(number, POWERS[places])
                elif places > 0:
                    return row, safe
                elif key == IMAGE:
                    image[row] = number
                else:
                    category[row] = number
            if i == NOWHERE:
                return row, safe
            i = _space(text, i, end)
            inside = _is(text, i, end, 44)
            if not inside and not _is(text, i, end, 125):
                return row, safe
        if image[row] < 0 or category[row] < 0:
            return row, safe
        i += ONE
        row, safe = row + 1, i
    return row, safe


@compiled
def resume(text: Bytes, at: int) -> Place:
    """Where to go on behind an element that ends at `at`: at the comma that follows, or else at its last byte."""
    i = _space(text, np.uint64(at), np.uint64(len(text)))
    return i if _is(text, i, np.uint64(len(text)), 44) else np.uint64(at) - ONE
