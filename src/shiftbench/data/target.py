"""The targets of benchmarks: a class, numbers, yes/no tasks with gaps, boxes, or the next token; and truths as text.

A benchmark's rows hold one value per item and column. Lists per item are stored as text: boxes as
"left top right bottom;…" in shares of the image, tokens as one character each, so that files, digests and tables need
to know nothing about them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError, unknown

BOXES, TOKENS, TOKEN_KINDS = "boxes", "tokens", "kinds"
"""The columns of `benchmark.extra` that hold boxes, tokens and what kind each token is."""
NO_LABEL = -100
"""Where there is no token, or one that is not asked for."""
FIRST, LAST = 0x10000, 0x10FFFF
"""Token t is the character FIRST + t: beyond surrogates and code points that are no characters."""
ZERO, MASKED = ord("0"), ord("-")

Boxes = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Target:
    """The target of prediction, here a class. The other kinds are subclasses, which hold what differs between kinds.

    `columns` are those of `benchmark.extra` that hold the truth, where it is not the label; `n` is the number of
    tokens, the largest plus one, and 0 for all other kinds.
    """

    columns: tuple[str, ...] = ()
    n: int = 0

    kind: ClassVar[str] = "class"
    words: ClassVar[str] = "a class"
    metric: ClassVar[str] = "accuracy"
    """The metric over all items; `worst_group_` before it is that of the worst group."""
    headline: ClassVar[str] = "accuracy"
    """The metric that ranks methods, where a benchmark's card names no other."""
    ranking: ClassVar[tuple[str, ...]] = ("accuracy", "worst_group_accuracy")
    """Metrics that a table of methods shows, higher better."""
    of_groups: ClassVar[str] = "accuracy"
    """The accuracy that is drawn group by group; empty where there is none."""
    loss: ClassVar[str] = "cross_entropy"
    """The loss of an item, by its name in `methods.method.LOSSES`; empty where a model has its own."""
    has_classes: ClassVar[bool] = True
    one_per_column: ClassVar[bool] = False
    """Whether a model has one output per column of the truth; else one per class, or a list."""
    lists: ClassVar[bool] = False
    """Whether a prediction is a list per item, and not a row of scores or numbers."""
    per_place: ClassVar[bool] = False
    """Whether a model predicts at every place of an item."""
    detects: ClassVar[bool] = False
    """Whether a model predicts boxes, with its own loss."""
    in_units: ClassVar[bool] = False
    """Whether truths have a unit, so that nets learn them standardised: minus the mean, divided by the spread."""

    @staticmethod
    def of(facts: Mapping[str, Any]) -> "Target":
        """The target that a card describes."""
        settings = dict(facts)
        target = KINDS.get(settings.pop("kind", "class"))
        if target is None:
            raise unknown("kind of target", str(facts["kind"]), KINDS)
        try:
            return target(tuple(settings.pop("columns", ())), **settings)
        except TypeError as problem:
            raise ShiftBenchError(f"A target has kind, columns, n, not {', '.join(map(repr, facts))}: "
                                  "the card was changed. Make the benchmark again.") from problem

    @property
    def facts(self) -> dict[str, Any]:
        """The card's entry for the target, which `of` reads."""
        return {"kind": self.kind, "columns": self.columns, "n": self.n}

    def task(self, names: Sequence[str]) -> str:
        """What a model predicts, in words; `names` are those of the benchmark's classes, columns or objects.

        >>> Target().task(["cat", "dog"]), NumberTarget().task(["wealth"]), TaskTarget().task(["toxic", "soluble"])
        ('cat vs. dog', '1 number', '2 yes/no tasks')
        """
        return " vs. ".join(names) if len(names) <= 3 else f"{len(names)} classes"

    def numbers(self, extra: Mapping[str, Values], rows: Ints) -> Floats:
        """The truth of some rows, items × columns, where it is numbers; NaN is a missing label."""
        return np.stack([np.asarray(extra[name], np.float64)[rows] for name in self.columns], axis=1)


class NumberTarget(Target):
    """One or several numbers."""

    kind, words, has_classes = "number", "numbers", False
    metric, headline, ranking, of_groups = "r", "worst_group_r", ("worst_group_r", "r"), ""
    loss = "squared_error"
    one_per_column = in_units = True

    def task(self, names: Sequence[str]) -> str:
        return f"{len(names)} number{'' if len(names) == 1 else 's'}"


class TaskTarget(Target):
    """Several yes/no tasks; an item may have labels for any number of them."""

    kind, words, has_classes = "tasks", "yes or no of several tasks", False
    metric, headline, ranking, of_groups = "mean_ap", "mean_ap", ("mean_ap",), ""
    loss = "task_cross_entropy"
    one_per_column = True

    def task(self, names: Sequence[str]) -> str:
        return f"{len(names)} yes/no task{'' if len(names) == 1 else 's'}"


class BoxTarget(Target):
    """Boxes around one kind of thing."""

    kind, words, has_classes = "boxes", "boxes", False
    metric, headline = "detection_accuracy", "detection_accuracy_by_domain"
    ranking = ("detection_accuracy_by_domain", "detection_accuracy", "worst_group_detection_accuracy")
    of_groups, loss = "detection_accuracy", ""
    lists = detects = True

    def task(self, names: Sequence[str]) -> str:
        return f"boxes around {', '.join(names)}"


class TokenTarget(Target):
    """The next token at every place of a text."""

    kind, words, has_classes = "tokens", "the next token", False
    ranking, loss = ("accuracy", "overall_accuracy", "worst_group_accuracy"), "token_cross_entropy"
    lists = per_place = True

    def task(self, names: Sequence[str]) -> str:
        return self.words


KINDS: Mapping[str, type[Target]] = {
    target.kind: target for target in (Target, NumberTarget, TaskTarget, BoxTarget, TokenTarget)}
"""The kinds of target by name."""


def boxes_of(column: Strs) -> tuple[Ints, Boxes]:
    """The item of every box, and the boxes: left, top, right, bottom, M × 4. The empty text has none.

    >>> boxes_of(np.array(["0 0 0.5 1;0.25 0 1 1", ""]))[0].tolist()
    [0, 0]
    """
    texts = np.asarray(column, np.str_).tolist()
    lists = [text.split(";") if text else [] for text in texts]
    row = np.repeat(np.arange(len(lists)), [len(boxes) for boxes in lists]).astype(np.int64)
    pieces = [box.split(" ") for boxes in lists for box in boxes]
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


def _inside(codes: Ints, present: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Where `present` is true from the start of the row without a gap; tokens after a gap are an error."""
    inside = np.logical_and.accumulate(present, axis=1)
    for row in np.flatnonzero((present & ~inside).any(axis=1))[:1]:
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
