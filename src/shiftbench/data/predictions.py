"""Predictions: one row of class scores per item, from our training or from any other model's table.

Numbers and tasks are read in the same way as classes: their columns take the place of the classes.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, in_short, positions
from shiftbench.core.backend import notebook
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import Tabular, decimal, is_frame, read_table, strings, table_name, write_table
from shiftbench.data.benchmark import Benchmark

if TYPE_CHECKING:
    from shiftbench.data.prediction_lists import Answers

IDS = ("item", "id", "item_id")
CHOICES = ("prediction", "label")
CONFIDENCE = "confidence"
LISTS = ("scores", "logits", "probabilities", "probs")
"""The columns that a table of predictions may have; see `Predictions.load`."""
SPLIT = "split"
TRAINED = ("train", "training")
"""The words by which a table of predictions marks items that its model was trained on."""
HELD_OUT = ("id_val", "val", "id_test", "test")
PREDICTIONS = "predictions.parquet"
TARGET_RT = "target_rt.parquet"
"""The file in a run's folder with predictions on test after its last layer was retrained on the target."""
ROUNDING = 1e-3
"""How far the probabilities of an item may be from a sum of 1."""
BELOW = -1e-6
"""The smallest number that counts as a probability of 0."""
BLOCK = 4096
"""The number of rows of scores that are assembled at a time: as many as a processor's cache holds."""
Reals = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Predictions(Tabular):
    """`scores[i, c]`: the score of class `classes[c]` for `item[i]`, a logit or log-probability; larger is likelier.

    Where a benchmark asks for numbers or for several tasks, `classes` are their columns and scores the predictions.
    """

    item: Strs
    split: Strs
    scores: npt.NDArray[np.float32]
    classes: tuple[str, ...]

    @staticmethod
    def of(
        benchmark: Benchmark, ids: Any, *, probabilities: Any = None, logits: Any = None, predictions: Any = None,
        classes: Any = None, ignore_extra: bool = False,
    ) -> "Predictions":
        """From arrays in memory: lists, numpy, torch, and columns of pandas, polars or pyarrow.

        `probabilities` or `logits` are items × classes; `predictions` are classes by name or by code, or the numbers
        where the benchmark asks for numbers or tasks. Columns of a data frame, or of a dict, are taken by their names.
        `classes` names the columns (and codes) of an array where their order is not `benchmark.names["label"]`, as
        `classes_` of a scikit-learn model. Ids are checked as in `load`.
        """
        from shiftbench.data.prediction_forms import predictions_of

        arguments = {"probabilities": probabilities, "logits": logits, "predictions": predictions}
        return predictions_of(benchmark, ids, arguments, classes, ignore_extra)

    def __repr__(self) -> str:
        splits = zip(*np.unique(self.split, return_counts=True), strict=True)
        counts = in_short((f"{split} {n:,}" for split, n in splits), 9)
        return f"Predictions({len(self):,} items; {counts or 'no split'}; classes: {in_short(self.classes)})"

    def _repr_html_(self) -> str:
        return str(notebook().html(self))

    def __len__(self) -> int:
        return len(self.item)

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Predictions) and self.classes == other.classes
                and np.array_equal(self.item, other.item) and np.array_equal(self.split, other.split)
                and np.array_equal(self.scores, other.scores, equal_nan=True))

    def to_arrow(self) -> pa.Table:
        """The columns of the file that `save` writes."""
        return pa.table({"item": self.item, "split": self.split, **{
            f"score:{name}": self.scores[:, code] for code, name in enumerate(self.classes)}})

    def save(self, path: Path | str) -> Path:
        """One file: columns item, split and one column of scores per class, `score:cat`.

        Scores are stored uncompressed: a dictionary or compression makes such numbers longer, not shorter. So two files
        of the same items differ only in the bytes of the scores, which lets `scoring.reading` read many of them fast.
        """
        return write_table(path, self.to_arrow(), compression={"item": "zstd", "split": "zstd"},
                           use_dictionary=["split"], write_statistics=False, store_schema=False)

    @staticmethod
    def load(
        path: Any, benchmark: Benchmark, *, ignore_splits: bool = False,
        columns: Mapping[str, str] | None = None, ignore_extra: bool = False, beside: Sequence[Benchmark] = (),
    ) -> "Predictions":
        """Read a parquet or CSV file of predictions, ours or any other model's, and match it to a benchmark by item id.

        Or a data frame, or a dict of columns. It has a column `item` (or `id`) and one of:
        - `prediction` (or `label`): the predicted class, by name or by code, or the number, where one is asked for;
          `confidence` beside it is the probability of that class, the rest of 1 is spread evenly over the others;
        - one column per class, named `cat`, `score:cat`, `logit:cat` or `prob:cat` (or with `_` for `:`);
        - one column `scores`, `logits` or `probabilities` that holds a list per row, in the order of the classes.
        Scores whose rows all lie in [0, 1] and sum to 1 are taken as probabilities, except those called logits. Where
        most rows do and some do not, and where columns called probabilities do not, the file is refused.

        Every id must be in the benchmark and occur once. A split is scored when all its items are there; a split of
        which some items are missing is an error, one that is missing altogether is left out. Where the file has a
        column `split` that says `train` of an item that the benchmark holds out, it is refused unless `ignore_splits`.
        `columns` says what the file calls a column, {"item": "img", "prediction": "pred"}; with `ignore_extra` ids that
        are not in the benchmark are counted in a warning and left out, and those in `beside` without a warning.
        """
        classes = benchmark.names["label"]
        table, items, rows = matched_table(
            path, benchmark, (*IDS, *CHOICES, SPLIT), (IDS[0], SPLIT, CHOICES[0], CONFIDENCE, LISTS[0], *classes),
            columns=columns, ignore_splits=ignore_splits, ignore_extra=ignore_extra, beside=beside)
        scores = scores_of_table(table, classes, table_name(path), numbers=not benchmark.target.has_classes)
        return Predictions(items, benchmark.split[rows], scores, classes)

    def take(self, rows: Ints) -> "Predictions":
        """The predictions with these numbers, in this order."""
        return replace(self, item=self.item[rows], split=self.split[rows], scores=self.scores[rows])

    def of_classes(self, classes: tuple[str, ...]) -> "Predictions":
        """The scores of these classes, in their order; others are left out."""
        if self.classes == classes:
            return self
        if not set(classes) <= set(self.classes):
            raise ShiftBenchError(f"Predictions: are of the classes {in_short(self.classes)}, but the benchmark's are "
                                  f"{in_short(classes)}. Predict with these labels.")
        order = [self.classes.index(name) for name in classes]
        return replace(self, scores=self.scores[:, order], classes=classes)

    @property
    def predicted(self) -> Ints:
        """The class of the largest score; of equal scores the first."""
        return np.asarray(self.scores.argmax(axis=1), np.int64)


def read_predictions(
    source: Any, benchmark: Benchmark, *, ignore_splits: bool = False,
    columns: Mapping[str, str] | None = None, ignore_extra: bool = False, beside: Sequence[Benchmark] = (),
) -> "Predictions | Answers":
    """Predictions of the kind that the benchmark asks for: scores of classes, numbers or tasks, or lists.

    Files, frames and objects are matched in the same way, by items and by the names of classes; `Predictions.load`
    describes it and the options. `beside` are benchmarks whose items may be predicted in the same file; they are left
    out without a warning.
    """
    from shiftbench.data.prediction_lists import Answers

    if isinstance(source, Path | str) or is_frame(source):
        reader = Answers if benchmark.target.lists else Predictions
        return reader.load(source, benchmark, ignore_splits=ignore_splits, columns=columns, ignore_extra=ignore_extra,
                           beside=beside)
    if not isinstance(source, Predictions | Answers):
        raise ShiftBenchError(f"{type(source).__name__} is neither a table of predictions nor the file of one. Give "
                              "arrays by name: score(benchmark, ids=…, logits=…).")
    where, predictions = type(source).__name__, source
    wanted = wanted_items(predictions.item, benchmark, where, ignore_extra, beside)
    if not wanted.all():
        predictions = predictions.take(np.flatnonzero(wanted))
    rows = match_items(predictions.item, benchmark, where)
    if not ignore_splits:
        refuse_trained(predictions.item, predictions.split, benchmark.split[rows], where)
    if isinstance(predictions, Predictions) and not benchmark.target.lists:
        predictions = predictions.of_classes(benchmark.names["label"])
    return replace(predictions, split=benchmark.split[rows])


def is_answers(file: object) -> bool:
    """Whether an argument of `score` is a file of annotators' answers: its name ends in .json."""
    return isinstance(file, str | Path) and Path(file).suffix.lower() == ".json"


def model_names(sources: "Sequence[Predictions | Answers | Path | str]") -> list[str]:
    """A name for each: the name of its file, with its folder where two files have the same name, as in runs.

    >>> model_names(["mine.csv", "runs/a/predictions.parquet", "runs/b/predictions.parquet"])
    ['mine', 'a/predictions', 'b/predictions']
    """
    paths = [Path(source) if isinstance(source, Path | str) else Path("predictions") for source in sources]
    names = [path.stem for path in paths]
    names = [f"{path.parent.name}/{name}" if names.count(name) > 1 and path.parent.name else name
             for path, name in zip(paths, names, strict=True)]
    return [f"{name} {number + 1}" if names.count(name) > 1 else name for number, name in enumerate(names)]


def matched_table(
    source: Any, benchmark: Benchmark, text: Sequence[str], roles: Sequence[str], *,
    columns: Mapping[str, str] | None, ignore_splits: bool, ignore_extra: bool, beside: Sequence[Benchmark],
) -> tuple[pa.Table, Strs, Ints]:
    """A table of predictions with its columns under our names, its items, and their rows in the benchmark.

    Columns named in `text` stay text. `columns` says what the table calls each of `roles`; the other options are those
    of `Predictions.load`.
    """
    theirs, where = dict(columns or {}), table_name(source)
    table = read_table(source, text=(*text, *(name for role, name in theirs.items() if role in text)))
    table = under_our_names(table, theirs, roles, where)
    id_column = next((name for name in IDS if name in table.column_names), None)
    if id_column is None:
        raise ShiftBenchError(f"{where}: has no column 'item'. Its columns: {', '.join(table.column_names)}. Say which "
                              "it is: --column item=NAME.")
    items = strings(where, table, id_column)
    wanted = wanted_items(items, benchmark, where, ignore_extra, beside)
    if not wanted.all():
        table, items = table.filter(pa.array(wanted)), items[wanted]
    rows = match_items(items, benchmark, where)
    if SPLIT in table.column_names and not ignore_splits:
        refuse_trained(items, strings(where, table, SPLIT, gap=""), benchmark.split[rows], where)
    return table, items, rows


def under_our_names(table: Any, theirs: Mapping[str, str], roles: Sequence[str], where: str) -> Any:
    """A table of predictions with its columns under our names: `theirs` is what it calls some of `roles`.

    Another column that has the name of one of these roles is left out.
    """
    for role in theirs:
        if role not in roles:
            raise unknown("column of predictions", role, roles, where)
    for name in theirs.values():
        if name not in table.column_names:
            raise unknown("column", name, table.column_names, where)
    kept = [name for name in table.column_names if name not in theirs and name not in theirs.values()]
    return table.select([*kept, *theirs.values()]).rename_columns([*kept, *theirs])


def wanted_items(
    items: Strs, benchmark: Benchmark, where: str, ignore_extra: bool, beside: Sequence[Benchmark] = ()
) -> Bools:
    """Which ids to keep: those of the benchmark and those of no benchmark, which `match_items` refuses.

    With `ignore_extra` the latter are counted in a warning and left out, unless the benchmark has none of the ids.
    """
    if not ignore_extra and not beside:
        return np.ones(len(items), np.bool_)
    inside: Bools = positions(items, benchmark.items) >= 0
    outside = ~inside
    for other in beside:
        outside &= positions(items, other.items) < 0
    if not ignore_extra or not inside.any():
        return inside | outside
    if outside.any():
        warnings.warn(f"{where}: {int(outside.sum()):,} of {len(inside):,} ids are not in the benchmark, the first is "
                      f"'{items[outside][0]}'; they are left out.", stacklevel=4)
    return inside


def match_items(items: Strs, benchmark: Benchmark, where: str) -> Ints:
    """The benchmark's rows of these ids; unknown, double and missing ids are errors."""
    rows = positions(items, benchmark.items)
    if (rows < 0).any():
        extra = items[rows < 0]
        raise ShiftBenchError(f"{where}: {len(extra)} ids are not in the benchmark, the first is '{extra[0]}'. "
                              "Predict the items that rows.parquet lists, or leave others out with --ignore-extra "
                              "(ignore_extra=True).")
    times = np.bincount(rows, minlength=len(benchmark))
    if (times > 1).any():
        double = benchmark.items[times > 1]
        raise ShiftBenchError(f"{where}: {len(double)} ids occur more than once, the first is '{double[0]}'. "
                              "Give one prediction per item.")
    for split in benchmark.splits:
        members = benchmark.rows(split)
        absent = members[times[members] == 0]
        if 0 < len(absent) < len(members):
            raise ShiftBenchError(f"{where}: {len(absent)} of the {len(members)} items of split '{split}' are missing, "
                                  f"the first is '{benchmark.items[absent[0]]}'. Predict all of them, or none.")
    if not len(items):
        raise ShiftBenchError(f"{where}: holds no predictions.")
    return rows


def trained(claimed: Strs, split: Strs) -> Bools:
    """Which items the predictions mark as trained on although the benchmark holds them out."""
    return np.isin(claimed, TRAINED) & np.isin(split, HELD_OUT)


def refuse_trained(items: Strs, claimed: Strs, split: Strs, where: str) -> None:
    """Raise an error for items that the predictions mark as `train` and the benchmark holds out.

    The model has seen them, so its score on them says nothing about new items. Other differences are allowed: marking
    an item of `train` as `test` claims less than the benchmark allows, and a data set may call `id_val` `val`.
    """
    seen = trained(claimed, split)
    if seen.any():
        first = int(seen.argmax())
        raise ShiftBenchError(
            f"{where}: column '{SPLIT}' says that the model was trained on {int(seen.sum())} items that the benchmark "
            f"holds out: '{items[first]}' is '{claimed[first]}' in the predictions and '{split[first]}' in the "
            "benchmark. Score on the benchmark that the model was trained on, or score with --ignore-splits "
            "(ignore_splits=True) if the column means something else.")


# The columns of a table

def scores_of_table(
    table: pa.Table, classes: tuple[str, ...], where: str, *, numbers: bool = False
) -> npt.NDArray[np.float32]:
    """The scores in a table whose columns have our names; with `numbers`, items × outputs."""
    from shiftbench.data.prediction_forms import scores_of_choices, scores_of_lists

    names = table.column_names
    columns = class_columns(names, classes)
    lists = next((name for name in LISTS if name in names), None)
    choice = next((name for name in CHOICES if name in names), None)
    if all(columns):
        scores = _stack(table, columns, where)
        if not numbers:
            mark = columns[0].removesuffix(classes[0])
            beside = _beside(table, columns, mark)
            scores = log_scores(scores, mark, lambda row: _item(table, row), where, beside=beside)
    elif numbers and len(classes) == 1 and CHOICES[0] in names:  # a `label` may be the truth
        scores = numbers_in(table, CHOICES[0], where)[:, None]
    elif lists is not None:
        scores = scores_of_lists(table, lists, len(classes), where)
        scores = scores if numbers else log_scores(scores, lists, lambda row: _item(table, row), where)
    elif choice is not None and not numbers:
        scores = scores_of_choices(table, choice, classes, where)
    else:
        missing = ", ".join(name for name, column in zip(classes, columns, strict=True) if not column)
        wanted = ("a column 'prediction', or a column of scores for every class" if not numbers else
                  "a column 'prediction' of numbers" if len(classes) == 1 else "a column of numbers for each output")
        raise ShiftBenchError(f"{where}: needs {wanted} (missing: {missing}). Its columns: {', '.join(names)}.")
    return scores.astype(np.float32, copy=False)


def is_choice(names: Sequence[str], classes: Sequence[str]) -> bool:
    """Whether a table with columns of these names has the predicted class of each item, and no score or probability."""
    scored = all(class_columns(names, classes)) or bool({CONFIDENCE, *LISTS}.intersection(names))
    return not scored and bool(set(CHOICES).intersection(names))


def class_columns(columns: Sequence[str], classes: Sequence[str]) -> list[str]:
    """For each class the column that has its name, alone or as score:NAME, logit:NAME or prob:NAME; "" for none."""
    marks = ("", *(f"{word}{mark}" for word in ("score", "logit", "prob") for mark in (":", "_")))
    return [next((f"{mark}{name}" for mark in marks if f"{mark}{name}" in columns), "") for name in classes]


def numbers_in(table: pa.Table, name: str, where: str) -> Floats:
    values = table[name].to_numpy() if pa.types.is_float32(table[name].type) else decimal(where, table, name)
    for row in np.flatnonzero(not_numbers(values))[:1]:
        raise ShiftBenchError(f"{where}: column '{name}' has no number in row {row + 1}. Give a score for every item.")
    return values


def _stack(table: pa.Table, columns: Sequence[str], where: str) -> Reals:
    """Columns of scores as one array, items × classes, rounded to the 32 bits that `Predictions` keeps.

    It is filled a block of rows at a time; filling it column by column would pass through memory once per class.
    """
    values = [numbers_in(table, name, where) for name in columns]
    scores = np.empty((len(table), len(columns)), np.float32)
    for start in range(0, len(table), BLOCK):
        scores[start:start + BLOCK] = np.stack([column[start:start + BLOCK] for column in values], axis=1)
    return scores


def _beside(table: pa.Table, columns: Sequence[str], mark: str) -> Floats | float:
    """The probability of an item's other classes, whose columns the table has although the benchmark lacks them."""
    others = [table[name] for name in table.column_names
              if mark.startswith("prob") and name.startswith(mark) and name not in columns]
    return sum((np.asarray(column.fill_null(0).to_numpy(), np.float64) for column in others
                if pa.types.is_floating(column.type) or pa.types.is_integer(column.type)), 0.0)


def _item(table: pa.Table, row: int) -> str:
    """The id of the item in a row; where the table has no column of ids, the row."""
    name = next((name for name in IDS if name in table.column_names), None)
    return f"row {row + 1}" if name is None else str(table[name][row].as_py())


def sum_to_one(values: Reals, beside: Floats | float = 0.0) -> Bools:
    """Which rows sum to 1, together with the probabilities `beside` them."""
    return np.asarray(np.abs(values.sum(axis=1, dtype=np.float64) + beside - 1) <= ROUNDING)


def log_scores(
    scores: Reals, title: str, item: Callable[[int], str], where: str,
    remedy: str = "Correct them, or name the columns logit:CLASS where they are logits.", beside: Floats | float = 0.0,
) -> Reals:
    """Log-probabilities where scores are probabilities; logits stay as they are.

    `title` is the name of the columns. Columns named probabilities must be probabilities, together with those `beside`
    them of classes that the benchmark lacks; columns named logits are logits. For other names the numbers decide: where
    most items have probabilities and some do not, neither reading would be right.
    """
    if title.startswith("logit"):
        return scores
    named = title.startswith("prob")
    if not named and (scores.min(initial=0) < 0 or scores.max(initial=0) > 1):
        return scores
    odd = (scores < BELOW).any(axis=1) | ~sum_to_one(scores, beside)
    if odd.any() and (named or 2 * odd.sum() < len(odd)):
        row = int(odd.argmax())
        values = np.append(scores[row], beside if isinstance(beside, float) else beside[row])
        fault = f"has {values.min():g} in it" if values.min() < BELOW else f"sums to {values.sum():.4g}"
        raise ShiftBenchError(f"{where}: {odd.sum():,} of {len(odd):,} items have no probabilities: the first, "
                              f"'{item(row)}', {fault}. Probabilities are at least 0 and sum to 1. {remedy}")
    if odd.any():
        return scores
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(scores.clip(0)))


def not_numbers(values: Reals) -> Bools:
    """Which scores are not 32-bit numbers; minus infinity is allowed, as the logarithm of 0."""
    with np.errstate(over="ignore"):
        return np.isnan(values) | np.isposinf(values.astype(np.float32, copy=False))
