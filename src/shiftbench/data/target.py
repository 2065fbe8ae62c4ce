"""What a benchmark asks for: a class, numbers, yes/no tasks with gaps, boxes, or the next token; and truths as text.

A benchmark's rows hold one value per item and column. What is a list per item is text there: boxes as
"left top right bottom;…" in shares of the image, tokens as one character each, so that files, digests and tables need
to know nothing about them.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Ints, Strs
from shiftbench.core.errors import ShiftBenchError, unknown

KINDS = ("class", "number", "tasks", "boxes", "tokens")
BOXES, TOKENS, TOKEN_KINDS = "boxes", "tokens", "kinds"
"""The columns of `benchmark.extra` that hold boxes, tokens and what kind each token is."""
NO_LABEL = -100
"""Where there is no token, or one that is not asked for."""
FIRST, LAST = 0x10000, 0x10FFFF
"""Token t is the character FIRST + t: beyond those that are half a character or none at all."""
ZERO, MASKED = ord("0"), ord("-")

Boxes = npt.NDArray[np.float32]


class Target(NamedTuple):
    """What is predicted: its kind, the columns of `benchmark.extra` that hold the truth, and the number of tokens."""

    kind: str = "class"
    columns: tuple[str, ...] = ()
    n: int = 0  # tokens alone: the largest plus one

    @staticmethod
    def of(facts: Mapping[str, Any] | None) -> "Target":
        """From a card, where it may lack: then the target is the class."""
        try:
            made = Target(**facts) if facts else Target()
        except TypeError as problem:
            raise ShiftBenchError(f"A target has {', '.join(Target._fields)}, not {', '.join(map(repr, facts or ()))}: "
                                  "the card was changed. Make the benchmark again.") from problem
        if made.kind not in KINDS:
            raise unknown("kind of target", made.kind, KINDS)
        return made._replace(columns=tuple(made.columns))


def boxes_of(column: Strs) -> tuple[Ints, Boxes]:
    """The item of every box, and the boxes: left, top, right, bottom, M × 4. The empty text has none.

    >>> boxes_of(np.array(["0 0 0.5 1;0.25 0 1 1", ""]))[0].tolist()
    [0, 0]
    """
    texts = np.asarray(column, np.str_).tolist()
    lists = [text.split(";") if text else [] for text in texts]
    row = np.repeat(np.arange(len(lists)), [len(one) for one in lists]).astype(np.int64)
    pieces = [box.split(" ") for one in lists for box in one]
    for at in (at for at, piece in enumerate(pieces) if len(piece) != 4):
        raise ShiftBenchError(f"Row {row[at]} has the box '{' '.join(pieces[at])}'. A box is four numbers: left top "
                              "right bottom.")
    try:
        return row, np.asarray(pieces, np.float64).reshape(-1, 4).astype(np.float32)
    except ValueError as problem:
        raise ShiftBenchError(f"A box is four numbers: left top right bottom ({problem}).") from problem


def boxes_text(row: Ints, box: npt.NDArray[np.floating], n: int) -> Strs:
    """The column of n items that `boxes_of` reads; boxes of an item keep their order.

    Nine digits tell any two 32-bit floats apart, so boxes come back as they were.
    """
    order = np.argsort(row, kind="stable")
    lines = [f"{a:.9g} {b:.9g} {c:.9g} {d:.9g}" for a, b, c, d in np.asarray(box, np.float32)[order].tolist()]
    end = np.searchsorted(row[order], np.arange(n + 1)).tolist()
    return np.asarray([";".join(lines[start:stop]) for start, stop in pairwise(end)], np.str_)


def tokens_of(column: Strs) -> Ints:
    """Tokens, items × places; NO_LABEL beyond an item's end."""
    points = _points(column)
    if ((points > 0) & (points < FIRST)).any():
        row = int(np.flatnonzero(((points > 0) & (points < FIRST)).any(axis=1))[0])
        raise ShiftBenchError(f"Row {row} has a character that is no token. Tokens are written by `tokens_text`.")
    return np.where(points == 0, NO_LABEL, points - FIRST)


def tokens_text(codes: Ints) -> Strs:
    """Tokens as one character each; a row ends at its first negative number.

    >>> tokens_of(tokens_text(np.array([[7, 0, -100], [1, 2, 3]]))).tolist()
    [[7, 0, -100], [1, 2, 3]]
    """
    if codes.size and codes.max() > LAST - FIRST:
        raise ShiftBenchError(f"Token {codes.max()} is too large: there is room for {LAST - FIRST + 1} tokens, from 0.")
    return _text(np.where(_inside(codes, codes >= 0), codes + FIRST, 0))


def kinds_of(column: Strs) -> Ints:
    """The kind of every token, items × places; NO_LABEL where it is masked and beyond an item's end."""
    points = _points(column)
    return np.where((points == 0) | (points == MASKED), NO_LABEL, points - ZERO)


def kinds_text(kinds: Ints, length: Ints | None = None) -> Strs:
    """Kinds as one digit each, "-" where negative: masked. A row has `length` places, by default all.

    >>> kinds_text(np.array([[0, -100, 6], [1, 1, -100]]), np.array([3, 2])).tolist()
    ['0-6', '11']
    """
    if kinds.size and kinds.max() > 9:
        raise ShiftBenchError(f"Kind {kinds.max()} of token is too large: kinds are 0 to 9.")
    marks = np.where(kinds < 0, MASKED, kinds + ZERO)
    end = np.full(len(kinds), kinds.shape[1]) if length is None else length
    return _text(np.where(np.arange(kinds.shape[1]) < end[:, None], marks, 0))


def _inside(codes: Ints, known: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Where `known` holds from the row's beginning on; it may not begin again."""
    inside = np.logical_and.accumulate(known, axis=1)
    for row in np.flatnonzero((known & ~inside).any(axis=1))[:1]:
        raise ShiftBenchError(f"Row {row} has tokens behind a gap: {codes[row].tolist()[:8]}… A row may end early; "
                              "before its end every place has a token from 0.")
    return inside


def _points(column: Strs) -> Ints:
    """Code points, items × longest text; 0 beyond a text's end, since numpy pads with it."""
    texts = np.ascontiguousarray(column, np.str_)
    return texts.view(np.uint32).reshape(len(texts), texts.dtype.itemsize // 4).astype(np.int64)


def _text(points: Ints) -> Strs:
    if not points.size:
        return np.zeros(len(points), np.str_)
    return np.ascontiguousarray(points, np.uint32).view(f"<U{points.shape[1]}")[:, 0]
