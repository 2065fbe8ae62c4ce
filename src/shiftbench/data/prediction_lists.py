"""Answers: predictions that are lists (an image's boxes, a text's tokens), from our training or any model.

Lists are kept flat, one after the other, with the index at which each begins: there is no object per item.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Ints, Strs, Values, positions
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import read_json
from shiftbench.core.tables import FAULTS, long_texts, table_name, write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import IDS, SPLIT, matched_table
from shiftbench.data.target import BOXES, TOKENS

SCORES = "scores"
TYPES = {BOXES: np.float32, SCORES: np.float32, TOKENS: np.int32}
FORMS = ((BOXES, SCORES), (TOKENS,))
Lists = tuple[Values, Ints]
"""The values of all items, and the index at which those of each item begin; one more entry says where they end."""
Reals = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Answers:
    """`values[name] = (flat, start)`: the list of `item[i]` is `flat[start[i]:start[i + 1]]`.

    A detector's: `boxes`, four numbers each, left top right bottom as shares of the image (so `start` counts by fours),
    and `scores` in [0, 1], one per box. Of tokens: `tokens`, the next token as predicted at every position.
    """

    item: Strs
    split: Strs
    values: Mapping[str, Lists]

    def __post_init__(self) -> None:
        if set(self.values) not in map(set, FORMS):
            raise ShiftBenchError(f"Answers are {' or '.join(' and '.join(form) for form in FORMS)}; got "
                                  f"{', '.join(self.values) or 'nothing'}.")
        if len(self.split) != len(self.item):
            raise ShiftBenchError(f"Answers need a split per item: {len(self.split)} for {len(self.item)} items.")
        for name, (flat, start) in self.values.items():
            if len(start) != len(self.item) + 1 or start[0] or start[-1] != len(flat) or (np.diff(start) < 0).any():
                raise ShiftBenchError(f"The {name} of {len(self.item)} items need {len(self.item) + 1} offsets, from 0 "
                                      f"to {len(flat)}, that never decrease.")
        if TOKENS in self.values:
            flat, start = self.values[TOKENS]
            self._refuse(flat < 0, start, TOKENS, "has the token {value}. Tokens are whole numbers from 0")
        else:
            self._check_boxes()

    def _check_boxes(self) -> None:
        (flat, start), (scores, score_start) = self.values[BOXES], self.values[SCORES]
        for row in np.flatnonzero(np.diff(start) != 4 * np.diff(score_start))[:1]:
            raise ShiftBenchError(f"Item '{self.item[row]}' has {start[row + 1] - start[row]} numbers of boxes for "
                                  f"{score_start[row + 1] - score_start[row]} scores. A box is four numbers, left top "
                                  "right bottom, and has one score.")
        self._refuse(~np.isfinite(flat), start, BOXES, "has the number {value} in a box")
        self._refuse((flat < -1) | (flat > 2), start, BOXES, "has the number {value} in a box. Boxes are shares of "
                       "the image, from 0 to 1: divide by its width and height in pixels")
        box = flat.reshape(-1, 4)
        back = np.repeat((box[:, 2:] < box[:, :2]).any(axis=1), 4)
        self._refuse(back, start, BOXES, "has a box (from {value}) that ends before it begins. A box is left top "
                       "right bottom")
        self._refuse(~((scores >= 0) & (scores <= 1)), score_start, SCORES, "has the score {value}. Scores of boxes "
                       "are shares, from 0 to 1")

    def _refuse(self, wrong: npt.NDArray[np.bool_], start: Ints, name: str, what: str) -> None:
        for at in np.flatnonzero(wrong)[:1]:
            row = int(np.searchsorted(start, at, "right")) - 1
            raise ShiftBenchError(f"Item '{self.item[row]}' {what.format(value=self.values[name][0][at])}.")

    @staticmethod
    def of(item: Strs, split: Strs, lists: Mapping[str, Sequence[npt.ArrayLike]]) -> "Answers":
        """From one array per item; of boxes M × 4, or their numbers in a row."""
        values: dict[str, Lists] = {}
        for name, arrays_of_items in lists.items():
            arrays = [np.asarray(array, TYPES.get(name)).ravel() for array in arrays_of_items]
            flat = np.concatenate([np.zeros(0, TYPES.get(name)), *arrays])
            values[name] = flat, _start(np.asarray([len(array) for array in arrays], np.int64))
        return Answers(np.asarray(item, np.str_), np.asarray(split, np.str_), values)

    def __len__(self) -> int:
        return len(self.item)

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Answers) and self.values.keys() == other.values.keys()
                and np.array_equal(self.item, other.item) and np.array_equal(self.split, other.split)
                and all(np.array_equal(array, other_array) for name in self.values
                        for array, other_array in zip(self.values[name], other.values[name], strict=True)))

    def lists(self, name: str) -> list[Values]:
        """One array per item, without a copy; of boxes M × 4."""
        flat, start = self.values[name]
        if name == BOXES:
            flat, start = flat.reshape(-1, 4), start // 4
        return [flat[begin:end] for begin, end in pairwise(start.tolist())]

    def boxes(self) -> tuple[Ints, Reals, Reals]:
        """All boxes: the number of each box's answer, its sides (M × 4), and its score."""
        flat, start = self.values[BOXES]
        return np.repeat(np.arange(len(self)), np.diff(start) // 4), flat.reshape(-1, 4), self.values[SCORES][0]

    def take(self, rows: Ints) -> "Answers":
        """The answers with these numbers, in this order."""
        return Answers(self.item[rows], self.split[rows],
                       {name: _take(lists, rows) for name, lists in self.values.items()})

    @staticmethod
    def join(answers: Sequence["Answers"]) -> "Answers":
        """One after the other."""
        values = {}
        for name in answers[0].values:
            lists = [part.values[name] for part in answers]
            values[name] = (np.concatenate([flat for flat, _ in lists]),
                            _start(np.concatenate([np.diff(start) for _, start in lists])))
        return Answers(np.concatenate([part.item for part in answers]),
                       np.concatenate([part.split for part in answers]), values)

    def save(self, path: Path | str) -> Path:
        """One file: columns item, split, and lists per item; in a CSV file a list is numbers separated by spaces."""
        columns = {name: pa.LargeListArray.from_arrays(start, flat) for name, (flat, start) in self.values.items()}
        if Path(path).suffix == ".csv":
            columns = {name: pa.array([" ".join(map(repr, numbers)) for numbers in column.to_pylist()])
                       for name, column in columns.items()}
        table = pa.table({"item": self.item, "split": self.split, **columns})
        return write_table(path, table, write_statistics=False, store_schema=False)

    @staticmethod
    def load(
        path: Any, benchmark: Benchmark, *, ignore_splits: bool = False,
        columns: Mapping[str, str] | None = None, ignore_extra: bool = False, beside: Sequence[Benchmark] = (),
    ) -> "Answers":
        """Read a parquet or CSV file of answers and match it to a benchmark by item id, as `Predictions.load` does.

        The file has a column `item` (or `id`) and either `boxes` and `scores`, or `tokens`: a list per item. Boxes may
        be lists of four. In a CSV file the numbers of a list are separated by spaces, and boxes may be by ";".
        """
        names = [name for form in FORMS for name in form]
        table, items, rows = matched_table(
            path, benchmark, (*IDS, SPLIT, *names), (IDS[0], SPLIT, *names), columns=columns,
            ignore_splits=ignore_splits, ignore_extra=ignore_extra, beside=beside)
        where, form = table_name(path), next((form for form in FORMS if set(form) <= set(table.column_names)), None)
        if form is None:
            raise ShiftBenchError(f"{where}: needs a column 'item', and 'boxes' and 'scores' or 'tokens'. Its columns: "
                                  f"{', '.join(table.column_names)}.")
        values = {name: _lists(table[name], name, where) for name in form}
        try:
            answers = Answers(items, benchmark.split[rows], values)
        except ShiftBenchError as problem:
            raise ShiftBenchError(f"{where}: {problem}") from problem
        if TOKENS in form and TOKENS in benchmark.extra:
            _check_lengths(answers, np.strings.str_len(np.asarray(benchmark.extra[TOKENS], np.str_))[rows], where)
        return answers

    @staticmethod
    def of_coco(path: Path | str, benchmark: Benchmark, width: npt.ArrayLike, height: npt.ArrayLike) -> "Answers":
        """A file of COCO results, a list of {image_id, bbox: [x, y, width, height], score}, with boxes in pixels.

        `width` and `height` are those of all images, or of each row of the benchmark. An image that the file does not
        name has no boxes; a split of which it names none is left out.
        """
        where, results = str(path), read_json(path)
        try:
            ids = np.asarray([str(result["image_id"]) for result in results], np.str_)
            box = np.asarray([result["bbox"] for result in results], np.float64).reshape(len(results), 4)
            score = np.asarray([result["score"] for result in results], np.float32)
        except (KeyError, TypeError, ValueError) as problem:
            raise ShiftBenchError(f"{where}: not a list of COCO results, each with image_id, bbox (four numbers) and "
                                  f"score ({type(problem).__name__}: {problem}).") from problem
        row = positions(ids, benchmark.items)
        for at in np.flatnonzero(row < 0)[:1]:
            raise ShiftBenchError(f"{where}: {(row < 0).sum()} results are of images that are not in the benchmark, "
                                  f"the first is '{ids[at]}'. Images are known by the items that rows.parquet lists.")
        if not len(row):
            raise ShiftBenchError(f"{where}: holds no results.")
        sides = np.stack([np.broadcast_to(np.asarray(side, np.float64), len(benchmark)) for side in (width, height)], 1)
        box[:, 2:] += box[:, :2]
        rows = np.flatnonzero(np.isin(benchmark.split, np.unique(benchmark.split[row])))
        order = np.argsort(row, kind="stable")
        flat = (box / np.tile(sides[row], 2))[order].astype(np.float32).ravel()
        start = _start(np.bincount(row, minlength=len(benchmark))[rows])
        try:
            return Answers(benchmark.items[rows], benchmark.split[rows], {
                BOXES: (flat, 4 * start), SCORES: (score[order], start)})
        except ShiftBenchError as problem:
            raise ShiftBenchError(f"{where}: {problem}") from problem


def _start(lengths: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _take(lists: Lists, rows: Ints) -> Lists:
    flat, start = lists
    lengths = np.diff(start)[rows]
    begin = _start(lengths)
    return flat[np.arange(begin[-1]) + np.repeat(start[rows] - begin[:-1], lengths)], begin


def _lists(column: pa.ChunkedArray, name: str, where: str) -> Lists:
    """A column of lists, of lists of four, or of text."""
    fault = ShiftBenchError(f"{where}: column '{name}' must hold a list of numbers per item, but holds {column.type}.")
    if pa.types.is_string(column.type):
        texts = [text.replace(";", " ").split() for text in long_texts(where, pa.table({name: column}), name, gap="")]
        column = pa.chunked_array([texts], pa.list_(pa.string()))
    for row in np.flatnonzero(pc.is_null(column).to_numpy())[:1]:
        raise ShiftBenchError(f"{where}: column '{name}' has no list in row {row + 1}. Where there is nothing, "
                              "give an empty list.")
    try:
        lengths, inner = _lengths(column), pc.list_flatten(column)
        if name == BOXES and pa.types.is_nested(inner.type):
            if (_lengths(inner) != 4).any():
                raise fault
            lengths, inner = 4 * lengths, pc.list_flatten(inner)
        flat = inner.cast(pa.from_numpy_dtype(TYPES[name])).to_numpy()
    except FAULTS as problem:
        raise fault from problem
    if inner.null_count:
        raise fault
    return np.asarray(flat), _start(lengths)


def _lengths(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.list_value_length(column).to_numpy(), np.int64)


def _check_lengths(answers: Answers, length: Ints, where: str) -> None:
    """An item of L tokens has L − 1 next tokens; an answer at its last position is allowed and ignored."""
    count = np.diff(answers.values[TOKENS][1])
    for row in np.flatnonzero((count != length) & (count != length - 1))[:1]:
        raise ShiftBenchError(f"{where}: item '{answers.item[row]}' has {count[row]} answers for {length[row]} tokens. "
                              "Answer with the next token at every position.")
