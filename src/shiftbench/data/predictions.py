"""Predictions: one row of class scores per item, from our training or from any other model."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, array_of, columns_of, in_short, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import writing
from shiftbench.core.later import notebook
from shiftbench.core.tables import Tabular, decimal, is_frame, read_table, strings, table_name, write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_arrays import (
    BELOW,
    ROUNDING,
    class_codes,
    class_columns,
    fault_of,
    scores_of_array,
    sum_to_one,
)

if TYPE_CHECKING:
    from shiftbench.data.prediction_lists import Answers

IDS = ("item", "id", "item_id")
SPLIT = "split"
TRAINED = ("train", "training")
"""The words by which a file of predictions marks items that its model was trained on."""
HELD_OUT = ("id_val", "val", "id_test", "test")
CHOICES = ("prediction", "label")
CONFIDENCE = "confidence"
LISTS = ("scores", "logits", "probabilities", "probs")
BLOCK = 4096
"""The number of rows of scores that are assembled at a time: as many as a processor's cache holds."""
Reals = npt.NDArray[np.floating]
PREDICTIONS = "predictions.parquet"
TARGET_RT = "target_rt.parquet"
"""The file in a run's folder with predictions on test after its last layer was retrained on the target."""


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
        kinds = {"probabilities": probabilities, "logits": logits, "predictions": predictions}
        argument, *more = [name for name, values in kinds.items() if values is not None] or ["", ""]
        if more:
            raise ShiftBenchError("Give exactly one of probabilities=, logits= and predictions=.")
        if benchmark.target.lists:
            raise ShiftBenchError(f"{argument}: benchmark '{benchmark.name}' asks for {benchmark.target.words}, a list "
                                  "per item. Give a file of predictions (docs/tasks.md).")
        items, (values, columns) = array_of(ids, "ids"), columns_of(kinds[argument], argument)
        if items.ndim != 1 or len(items) != len(values):
            raise ShiftBenchError(f"{argument}: has {len(values):,} rows, but ids has {len(items):,}. Give one row per "
                                  "id.")
        items = items.astype(np.str_)
        kept = wanted_items(items, benchmark, "ids", ignore_extra)
        items, values = items[kept], values[kept]
        rows = match_items(items, benchmark, "ids")
        scores = scores_of_array(argument, values, benchmark, classes, items, columns)
        return Predictions(items, benchmark.split[rows], scores.astype(np.float32, copy=False),
                           benchmark.names["label"])

    def __repr__(self) -> str:
        splits, counts = np.unique(self.split, return_counts=True)
        parts = in_short((f"{split} {n:,}" for split, n in zip(splits.tolist(), counts.tolist(), strict=True)), 9)
        return f"Predictions({len(self):,} items; {parts or 'no split'}; classes: {in_short(self.classes)})"

    def _repr_html_(self) -> str:
        return str(notebook().html(self))

    def __len__(self) -> int:
        return len(self.item)

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Predictions) and self.classes == other.classes
                and np.array_equal(self.item, other.item) and np.array_equal(self.split, other.split)
                and np.array_equal(self.scores, other.scores, equal_nan=True))

    __hash__ = None  # type: ignore[assignment]

    def to_arrow(self) -> pa.Table:
        """The columns of the file that `save` writes."""
        return pa.table({"item": self.item, "split": self.split, **{
            f"score:{name}": self.scores[:, code] for code, name in enumerate(self.classes)}})

    def save(self, path: Path | str) -> Path:
        """One file: columns item, split and one column of scores per class, `score:cat`.

        Scores are stored as they are: a dictionary or compression makes such numbers longer, not shorter. So two files
        of the same items differ only in the bytes of the scores, which lets `scoring.reading` read many of them fast.
        """
        table = self.to_arrow()
        if Path(path).suffix == ".csv":
            write_table(path, table)
            return Path(path)
        with writing(path) as hidden:
            pq.write_table(table, hidden, compression={"item": "zstd", "split": "zstd"}, use_dictionary=["split"],
                           write_statistics=False, store_schema=False)
        return Path(path)

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

        Every id must be in the benchmark and stand once. A split is scored when all its items are there; a split that
        is there in part is an error, one that is wholly absent is left out. Where the file has a column `split` that
        says `train` of an item that the benchmark holds out, it is refused unless `ignore_splits`. `columns` says what
        the file calls a column, {"item": "img", "prediction": "pred"}; with `ignore_extra` ids that are not in the
        benchmark are counted in a warning and left out, and those in `beside` without one.
        """
        roles = (IDS[0], SPLIT, CHOICES[0], CONFIDENCE, LISTS[0], *benchmark.names["label"])
        table, items = prediction_table(path, benchmark, (*IDS, *CHOICES, SPLIT), roles, columns, ignore_extra, beside)
        where, names = table_name(path), table.column_names
        rows = match_items(items, benchmark, where)
        if SPLIT in names and not ignore_splits:
            refuse_trained(items, strings(where, table, SPLIT, gap=""), benchmark.split[rows], where)
        classes = benchmark.names["label"]
        scores = scores_of_table(table, classes, where, numbers=not benchmark.target.has_classes)
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


def scores_of_table(
    table: pa.Table, classes: tuple[str, ...], where: str, *, numbers: bool = False
) -> npt.NDArray[np.float32]:
    """Scores, items × classes, from a table whose columns have our names; or `numbers`, items × outputs."""
    names = table.column_names
    named = class_columns(names, classes)
    listed = next((name for name in LISTS if name in names), None)
    chosen = next((name for name in CHOICES if name in names), None)
    if all(named) and numbers:
        scores: Reals = _table(table, named, where)
    elif numbers and len(classes) == 1 and CHOICES[0] in names:  # a `label` may be the truth
        scores = _numbers(table, CHOICES[0], where)[:, None]
    elif all(named):
        mark = named[0].removesuffix(classes[0])
        scores = _log(_table(table, named, where), mark, table, where, _beside(table, named, mark))
    elif listed is not None:
        scores = _lists(table, listed, len(classes), where)
        scores = scores if numbers else _log(scores, listed, table, where)
    elif chosen is not None and not numbers:
        sure = _confidence(table, len(classes), where)
        with np.errstate(divide="ignore"):
            rest = np.log((1 - sure) / max(len(classes) - 1, 1)).astype(np.float32)
            scores = np.repeat(rest[:, None], len(classes), axis=1)
            code = class_codes(strings(where, table, chosen), classes, where)
            scores[np.arange(len(code)), code] = np.log(sure)
    else:
        missing = ", ".join(name for name, column in zip(classes, named, strict=True) if not column)
        if numbers:
            one = "a column 'prediction' of numbers" if len(classes) == 1 else "a column of numbers for each output"
            raise ShiftBenchError(f"{where}: needs {one} (missing: {missing}). Its columns: {', '.join(names)}.")
        raise ShiftBenchError(f"{where}: needs a column 'prediction', or a column of scores for every class "
                              f"(missing: {missing}). Its columns: {', '.join(names)}.")
    return scores.astype(np.float32, copy=False)


def is_choice(names: Sequence[str], classes: Sequence[str]) -> bool:
    """Whether a table with columns of these names has the predicted class of each item, and no score or probability."""
    scored = all(class_columns(names, classes)) or bool({CONFIDENCE, *LISTS}.intersection(names))
    return not scored and bool(set(CHOICES).intersection(names))


def read_predictions(
    source: Any, benchmark: Benchmark, *, ignore_splits: bool = False,
    columns: Mapping[str, str] | None = None, ignore_extra: bool = False, beside: Sequence[Benchmark] = (),
) -> "Predictions | Answers":
    """Predictions as the benchmark asks for them: scores of classes, numbers or tasks, or lists.

    Files, frames and objects are matched alike, by items and by the names of classes; `Predictions.load` says how, and
    what the options mean. `columns` are those of files and frames. `beside` are benchmarks whose items may be
    predicted in the same file: they are left out without a word.
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
    kept = np.flatnonzero(wanted_items(predictions.item, benchmark, where, ignore_extra, beside))
    if len(kept) < len(predictions):
        predictions = predictions.take(kept)
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


def prediction_table(
    path: Any, benchmark: Benchmark, text: Sequence[str], roles: Sequence[str],
    columns: Mapping[str, str] | None, ignore_extra: bool, beside: Sequence[Benchmark] = (),
) -> tuple[pa.Table, Strs]:
    """A file of predictions with its columns under our names, and its items; columns named in `text` stay text.

    `columns` says what the file calls each of `roles`. A column that it calls so, and that is another, is left out.
    """
    theirs, where = dict(columns or {}), table_name(path)
    table = read_table(path, text=(*text, *(name for role, name in theirs.items() if role in text)))
    table = under_our_names(table, theirs, roles, where)
    id_column = next((name for name in IDS if name in table.column_names), None)
    if id_column is None:
        raise ShiftBenchError(f"{where}: has no column 'item'. Its columns: {', '.join(table.column_names)}. Say which "
                              "it is: --column item=NAME.")
    items = strings(where, table, id_column)
    wanted = wanted_items(items, benchmark, where, ignore_extra, beside)
    return (table, items) if wanted.all() else (table.filter(pa.array(wanted)), items[wanted])


def under_our_names(table: Any, theirs: Mapping[str, str], roles: Sequence[str], where: str) -> Any:
    """A table of predictions with its columns under our names: `theirs` is what it calls some of `roles`.

    A column that has the name of one of these roles, and is another, is left out.
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
    """Which ids to keep: those of the benchmark and, for `match_items` to refuse, those that nobody knows.

    With `ignore_extra` the latter are counted in a warning and left out, unless the benchmark has none of the ids.
    """
    if not ignore_extra and not beside:
        return np.ones(len(items), np.bool_)
    known: Bools = positions(items, benchmark.items) >= 0
    strange = ~known
    for other in beside:
        strange &= positions(items, other.items) < 0
    if not ignore_extra or not known.any():
        return known | strange
    if strange.any():
        warnings.warn(f"{where}: {int(strange.sum()):,} of {len(known):,} ids are not in the benchmark, the first is "
                      f"'{items[strange][0]}'; they are left out.", stacklevel=4)
    return known


def match_items(items: Strs, benchmark: Benchmark, where: str) -> Ints:
    """Rows of the benchmark by id; complains about unknown, double and missing ids."""
    rows = positions(items, benchmark.items)
    if (rows < 0).any():
        strange = items[rows < 0]
        raise ShiftBenchError(f"{where}: {len(strange)} ids are not in the benchmark, the first is '{strange[0]}'. "
                              "Predict the items that rows.parquet lists, or leave others out with --ignore-extra "
                              "(ignore_extra=True).")
    times = np.bincount(rows, minlength=len(benchmark))
    if (times > 1).any():
        double = benchmark.items[times > 1]
        raise ShiftBenchError(f"{where}: {len(double)} ids stand more than once, the first is '{double[0]}'. "
                              "Give one prediction per item.")
    for split in benchmark.splits:
        part = benchmark.rows(split)
        absent = part[times[part] == 0]
        if 0 < len(absent) < len(part):
            raise ShiftBenchError(f"{where}: {len(absent)} of the {len(part)} items of split '{split}' are missing, "
                                  f"the first is '{benchmark.items[absent[0]]}'. Predict all of them, or none.")
    if not len(items):
        raise ShiftBenchError(f"{where}: holds no predictions.")
    return rows


def trained(claimed: Strs, split: Strs) -> Bools:
    """Which items predictions mark as trained on, and the benchmark holds out."""
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


def _numbers(table: pa.Table, name: str, where: str) -> Floats:
    values = table[name].to_numpy() if pa.types.is_float32(table[name].type) else decimal(where, table, name)
    with np.errstate(over="ignore"):  # minus infinity is the logarithm of 0 and means never
        wrong = np.isnan(values) | np.isposinf(values.astype(np.float32, copy=False))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ShiftBenchError(f"{where}: column '{name}' has no number in row {row + 1}. Give a score for every item.")
    return values


def _table(table: pa.Table, columns: Sequence[str], where: str) -> Reals:
    """Columns of scores as one table, items × classes, a block of rows at a time.

    Filled column by column the table would be walked through once per class. A score of 64 bits is rounded to the 32
    that `Predictions` keeps.
    """
    values = [_numbers(table, name, where) for name in columns]
    scores = np.empty((len(table), len(columns)), np.float32)
    for start in range(0, len(table), BLOCK):
        scores[start:start + BLOCK] = np.stack([column[start:start + BLOCK] for column in values], axis=1)
    return scores


def _lists(table: pa.Table, name: str, n_classes: int, where: str) -> Floats:
    """A column with a list of scores per row."""
    column = table[name]
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or
            pa.types.is_fixed_size_list(column.type)):
        raise ShiftBenchError(f"{where}: column '{name}' must hold a list of {n_classes} numbers per row, but holds "
                              f"{column.type}.")
    many = np.asarray(pc.fill_null(pc.list_value_length(column), 0).to_numpy(), np.int64)
    for row in np.flatnonzero(many != n_classes)[:1]:
        raise ShiftBenchError(f"{where}: column '{name}' has {many[row]} scores in row {row + 1}, but there are "
                              f"{n_classes} classes.")
    return _numbers(pa.table({name: pc.list_flatten(column)}), name, where).reshape(-1, n_classes)


def _log(scores: Reals, word: str, table: pa.Table, where: str, beside: Floats | float = 0.0) -> Reals:
    """Probabilities become log-probabilities; logits stay.

    `word` is what the columns are called. Those called probabilities must be some; what an item's other classes have is
    `beside`. Those called logits are logits. Of others the numbers tell; where most items have probabilities and some
    have not, neither reading would be right.
    """
    if word.startswith("logit"):
        return scores
    called = word.startswith("prob")
    if not called and (scores.min(initial=0) < 0 or scores.max(initial=0) > 1):
        return scores
    odd = (scores < BELOW).any(axis=1) | ~sum_to_one(scores, beside)
    if odd.any() and (called or 2 * odd.sum() < len(odd)):
        row = int(odd.argmax())
        whole = np.append(scores[row], beside if isinstance(beside, float) else beside[row])
        raise ShiftBenchError(f"{where}: {odd.sum():,} of {len(odd):,} items have no probabilities: the first, "
                              f"'{_item(table, row)}', {fault_of(whole)}. Probabilities are at least 0 and sum to 1. "
                              "Correct them, or name the columns logit:CLASS where they are logits.")
    if odd.any():
        return scores
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(scores.clip(0)))


def _beside(table: pa.Table, named: Sequence[str], mark: str) -> Floats | float:
    """The probability of an item's other classes: the file has columns for them that nobody asks for."""
    others = [table[name] for name in table.column_names
              if mark.startswith("prob") and name.startswith(mark) and name not in named]
    return sum((np.asarray(column.fill_null(0).to_numpy(), np.float64) for column in others
                if pa.types.is_floating(column.type) or pa.types.is_integer(column.type)), 0.0)


def _item(table: pa.Table, row: int) -> str:
    """The id of the item in a row; where the table has no column of ids, the row."""
    name = next((name for name in IDS if name in table.column_names), None)
    return f"row {row + 1}" if name is None else str(table[name][row].as_py())


def _confidence(table: pa.Table, n_classes: int, where: str) -> Floats:
    """The probability of the predicted class; 1 if the file has none, or one that is not possible.

    The likeliest of K classes has at least 1 / K. With two classes the rest is the other's; with more it is spread
    evenly, which only the log-loss of wrong predictions rests on.
    """
    sure = np.ones(table.num_rows)
    if CONFIDENCE not in table.column_names:
        return sure
    values = _numbers(table, CONFIDENCE, where).astype(np.float64)
    for row in np.flatnonzero((values < 1 / n_classes - ROUNDING) | (values > 1 + 1e-6))[:1]:
        warnings.warn(f"{where}: column '{CONFIDENCE}' is not used: row {row + 1} has {values[row]:g}, but the "
                      f"likeliest of {n_classes} classes has a probability from {1 / n_classes:.3g} to 1.",
                      stacklevel=4)
        return sure
    if n_classes > 2:
        warnings.warn(f"{where}: has the confidence of the predicted class alone; the rest of 1 is spread evenly over "
                      f"the other {n_classes - 1} classes, on which the log-loss of wrong predictions rests.",
                      stacklevel=4)
    # A hair above 1 / K, so that the predicted class stays the likeliest.
    return np.clip(values, min(1 / n_classes + 1e-6, 1), 1)
