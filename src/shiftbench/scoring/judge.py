"""Score predictions on a benchmark, with intervals: one run, or the means of methods over their runs.

Predictions -> the outputs of every split, in the order of its items -> measurements (`scorer`), from the contribution
of each item -> rows of `Scores`. A batch of runs takes the same path, see `runs`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Strs, Values, positions
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import find
from shiftbench.core.tables import column_names, is_frame
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import OWN, Grouping, groupings_of
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions, refuse_trained
from shiftbench.data.scores import ALL, COLUMNS, DEFAULTS, DIFFERENCE, MEAN, Scores
from shiftbench.scoring.differences import compare
from shiftbench.scoring.intervals import LEVEL, REPLICATES, Measured
from shiftbench.scoring.metrics import METRICS, Metric, own_metrics
from shiftbench.scoring.scorer import Further, Outputs, Reals, Scorer, outputs_of, scorer

GAP = "id_test-test"
"""The split of a gap: in-distribution test minus test."""
Row = dict[str, Any]
MODEL_COLUMNS = ("name", "method", "model", "setting", "seed")
"""Columns that say which model a row of predictions is of."""


def score(
    benchmark: Benchmark,
    predictions: Predictions | Answers,
    *,
    run: str = "",
    method: str = "",
    model: str = "",
    setting: str = "",
    label: str = "",
    seed: int = 0,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    metrics: Sequence[str] = (),
    by: Sequence[str] = (),
    collection: Collection | None = None,
) -> Scores:
    """Every split that was predicted, each number with an interval over its items.

    Per split: `accuracy` of all items and of every group that has items; `worst_group_accuracy` (its group is the
    lowest, n that group's size) and `worst_class_accuracy` (its group is the class); `macro_f1`; if the scores are more
    than a choice, `nll` of all items and of every group, and `worst_group_nll`, the highest; and, if both splits are
    predicted, `accuracy_gap` = id_test − test. If rows have a `kind`, also the scores of hard and easy items of
    `hard_items`.

    A share has Wilson's interval, macro F1 the same to first order, a loss Student's. A worst group's value is the
    plain minimum, as every paper has it; its interval and `worst_group_accuracy_corrected` are for the truly worst
    group, without the downward bias of a minimum (see `worst`). Further `metrics` by name (`auc`, …) are
    scored over all items with percentile bootstrap intervals. With 0 replicates there are no intervals.

    `by` are further groupings by any columns, with a collection also by its factors (see `groupings`), beside those of
    the benchmark's card. Each has, with the grouping in the column `by`: `accuracy` of every group,
    `worst_group_accuracy`, `mean_group_accuracy` and `tenth_percentile_accuracy` (see `scorer`).
    """
    if replicates < 0:
        raise ShiftBenchError(f"replicates is {replicates}, but must be at least 0; 0 turns intervals off.")
    head = {"run": run, "benchmark": benchmark.name, "digest": benchmark.short_digest, "method": method,
            "model": model, "setting": setting, "label": label, "seed": seed}
    further = Further(_further_metrics(benchmark, metrics), replicates, seed)
    return _score_all(benchmark, [predictions], [head], [0], level if replicates else None,
                      _groupings(benchmark, by, collection), further)


def means(
    benchmark: Benchmark,
    runs: Mapping[str, Sequence[Predictions | Answers]],
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    by: Sequence[str] = (),
    collection: Collection | None = None,
) -> Scores:
    """Each method's mean over its runs (seeds) on the same items, and how far it is behind the best method.

    Intervals are about other items and other seeds: both parts are in them, each counted once, see
    `intervals`. `worst_group_accuracy` is the mean of each run's worst; its group is the lowest on average.

    A row of stat `difference` is the best mean minus this one, paired by item. Its interval and its p-value, in the
    column `p`, are corrected for all pairs of methods in this metric and split and, of single groups, for the
    number of groups (Bonferroni): in 19 of 20 benchmarks on which methods are equal no interval misses 0. If
    it reaches 0, the two do not differ significantly. A worst group's interval is that of the corrected values.
    """
    heads = [{"run": "", "stat": MEAN, "runs": len(seeds), "benchmark": benchmark.name,
              "digest": benchmark.short_digest, "method": method, "seed": -1} for method, seeds in runs.items()]
    owner = [code for code, seeds in enumerate(runs.values()) for _ in seeds]
    return _score_all(benchmark, [run for seeds in runs.values() for run in seeds], heads, owner,
                      level if replicates else None, _groupings(benchmark, by, collection))


def versus(benchmark: Benchmark, models: Mapping[str, Predictions | Answers], **options: Any) -> Scores:
    """How far each of several models is behind the best on the same items: the comparisons of `means`, a run each."""
    joint = means(benchmark, {name: [model] for name, model in models.items()}, **options)
    return Scores.of({**row, "run": row["method"], "seed": 0} for row in joint.where(stat=DIFFERENCE))


def score_models(
    benchmark: Benchmark, models: Mapping[str, Predictions | Answers], **options: Any
) -> Scores:
    """Scores of every model by name and, for several models, how far each is behind the best."""
    parts = [score(benchmark, model, run=name, method=name, **options) for name, model in models.items()]
    if len(models) > 1:
        parts.append(versus(benchmark, models, **{key: value for key, value in options.items() if key != "metrics"}))
    return Scores.join(parts)


def is_run(source: Any) -> bool:
    """Whether this is the folder of one finished run."""
    return isinstance(source, str | Path) and all((Path(source) / name).is_file() for name in ("done", "run.json"))


def is_described(source: Any, benchmark: Benchmark, taken: Iterable[str] = ()) -> bool:
    """Whether a file or frame is a run, or has columns that say which model each row is of; the columns `taken` mean
    something else."""
    if is_run(source):
        return True
    if not (isinstance(source, str | Path) or is_frame(source)):
        return False
    return bool(set(MODEL_COLUMNS) & set(column_names(source)) - {*benchmark.names["label"], *taken})


def _groupings(benchmark: Benchmark, by: Sequence[str], collection: Collection | None) -> tuple[Grouping, ...]:
    target = benchmark.target
    if not target.has_classes and by:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for {target.words}, not for a class, so it is scored "
                              "by its own groups alone. Leave out `by`.")
    asked = target.has_classes and (by or benchmark.card.get(OWN))
    return groupings_of(benchmark, by, collection) if asked else ()


def _further_metrics(benchmark: Benchmark, names: Sequence[str]) -> list[Metric]:
    """The metrics to score besides those of the target: the user's own, and named ones that are not always scored."""
    target = benchmark.target
    named = [find(METRICS, "metric", name) for name in names]
    for metric in named:
        if target.kind not in metric.targets:
            raise ShiftBenchError(f"Metric '{metric.name}' is not for benchmark '{benchmark.name}', which asks for "
                                  f"{target.words}.")
    further = [metric for metric in named if metric.function is not None and not metric.always]
    return list({metric.name: metric for metric in (*own_metrics(target), *further)}.values())


def _score_all(
    benchmark: Benchmark, predictions: Sequence[Predictions | Answers], heads: Sequence[Row], owner: Sequence[int],
    level: float | None, groupings: Sequence[Grouping], further: Further | None = None,
) -> Scores:
    """The scores of methods on every split that all runs predict, of the gaps, and how far each is behind the best.

    Run r belongs to the method of `heads[owner[r]]`. Without a level there are no intervals.
    """
    orders = [predicted_splits(benchmark, run) for run in predictions]
    splits = [split for split in benchmark.splits if all(split in order for order in orders)]
    # Splits are read one by one: outputs that are not in the benchmark's order are copied.
    outputs = ((split, [outputs_of(benchmark, run, order[split])
                        for run, order in zip(predictions, orders, strict=True)]) for split in splits)
    scorers = {split: scorer(benchmark, split, groupings, further) for split in splits}
    pieces = []
    for split, measured in measure(benchmark, scorers, outputs, owner, level).items():
        pieces.append(Piece.of_measured({split: measured}, heads, owner, level).by_cell())
        if len(heads) > 1:
            differences = (row for score in measured for row in behind(split, score, heads, owner, level))
            pieces.append(Piece.of(Scores.of(differences)))
    return together([piece for piece in pieces if piece.cells and piece.methods])


def measure(
    benchmark: Benchmark, scorers: Mapping[str, Scorer], outputs: Iterable[tuple[str, Sequence[Outputs] | Reals]],
    owner: Sequence[int], level: float | None,
) -> dict[str, list[Measured]]:
    """Measure the runs on each split, and the gaps from id_test to test; run r belongs to method `owner[r]`."""
    measured = {split: scorers[split](runs, owner, level) for split, runs in outputs}
    before, after = ({score.metric: score.estimate for score in measured.get(split, ())
                      if score.is_whole and not score.by}
                     for split in ("id_test", "test"))
    target = benchmark.target
    metrics = dict.fromkeys((target.metric, target.headline, *(metric.name for metric in own_metrics(target))))
    gaps = [Measured(f"{metric}_gap", [ALL], np.asarray([len(benchmark.rows("test"))]), before[metric] - after[metric])
            for metric in metrics if metric in before and metric in after]
    return {**measured, GAP: gaps}


def predicted_splits(benchmark: Benchmark, predictions: Predictions | Answers) -> dict[str, Ints]:
    """For every predicted split, the rows of its predictions in the benchmark's order."""
    if isinstance(predictions, Predictions) and predictions.classes != benchmark.names["label"]:
        raise ShiftBenchError(f"Predictions for the classes {', '.join(predictions.classes)} cannot be scored on "
                              f"benchmark '{benchmark.name}': its classes, in their order, are "
                              f"{', '.join(benchmark.names['label'])}.")
    position = positions(benchmark.items, predictions.item)
    foreign = int((np.bincount(position[position >= 0], minlength=len(predictions)) == 0).sum())
    if foreign:
        raise ShiftBenchError(f"{foreign} predictions are of items that are not in benchmark '{benchmark.name}'. "
                              "Predict the items that rows.parquet lists, each once.")
    predicted = np.flatnonzero(position >= 0)
    refuse_trained(benchmark.items[predicted], predictions.split[position[predicted]], benchmark.split[predicted],
                   "Predictions")
    by_split = {split: position[benchmark.rows(split)] for split in benchmark.splits}
    for split, rows in by_split.items():
        if (rows < 0).any() and (rows >= 0).any():
            raise ShiftBenchError(f"{int((rows < 0).sum())} of the {len(rows)} items of split '{split}' have no "
                                  "prediction. Predict all of them, or none.")
    return {split: rows for split, rows in by_split.items() if (rows >= 0).all()}


# Rows of scores, from what was measured

class Piece(NamedTuple):
    """Rows of a table as methods × cells: a column has one value per method, or per cell, or both."""

    methods: int
    cells: int
    columns: Mapping[str, Values]  # each can be broadcast to methods × cells

    @staticmethod
    def of(scores: Scores) -> "Piece":
        return Piece(len(scores), 1, {name: column[:, None] for name, column in scores.columns.items()})

    @staticmethod
    def of_measured(
        measured: Mapping[str, Sequence[Measured]], heads: Sequence[Row], owner: Sequence[int], level: float | None
    ) -> "Piece":
        """Measurements of methods, split by split; `heads` describes each method, and run r belongs to `owner[r]`.

        The row of a worst group names the group that is the worst on average, and n counts its items.
        """
        cells = [(split, group, int(n), score.metric, score.by) for split, scores in measured.items()
                 for score in scores
                 for group, n in ([("", 0)] if score.worst else zip(score.groups, score.n, strict=True))]
        group, n = (np.asarray([[cell[field] for cell in cells]]) for field in (1, 2))
        values, lows, highs = ([np.zeros((len(heads), 0))] for _ in range(3))
        worst: dict[int, tuple[Strs, Ints]] = {}  # cells in which each method has its own group
        at = 0
        for score in (score for scores in measured.values() for score in scores):
            if score.worst is not None:
                worst[at] = np.asarray(score.groups)[score.worst.code], score.worst.n
            value = score.estimate.value
            low, high = score.estimate.ends(owner, level) if level else (np.full_like(value, np.nan),) * 2
            values.append(value)
            lows.append(low)
            highs.append(high)
            at += value.shape[1]
        if worst:
            group = np.repeat(group.astype(np.result_type(group, *(names for names, _ in worst.values()))),
                              len(heads), axis=0)
            n = np.repeat(n, len(heads), axis=0)
            for cell, (names, sizes) in worst.items():
                group[:, cell], n[:, cell] = names, sizes
        return Piece(len(heads), len(cells), {
            **{name: np.asarray([[value]]) for name, value in DEFAULTS.items()},
            **{name: np.asarray([[head[name]] for head in heads]) for name in heads[0]},
            "split": np.asarray([[cell[0] for cell in cells]]), "group": group, "n": n,
            "metric": np.asarray([[cell[3] for cell in cells]]), "by": np.asarray([[cell[4] for cell in cells]]),
            "value": np.concatenate(values, axis=1), "low": np.concatenate(lows, axis=1),
            "high": np.concatenate(highs, axis=1),
        })

    def by_cell(self) -> "Piece":
        """The same rows, ordered cell by cell instead of method by method."""
        return Piece(self.cells, self.methods, {name: column.T for name, column in self.columns.items()})


def together(pieces: Sequence[Piece]) -> Scores:
    """The rows of all pieces. Every column is written once, into its final position, so gigabytes are not copied."""
    if not pieces:
        return Scores.of([])
    stop = np.cumsum([piece.methods * piece.cells for piece in pieces], dtype=np.int64).tolist()
    columns = {}
    for name in COLUMNS:
        parts = [piece.columns[name] for piece in pieces]
        columns[name] = np.empty(stop[-1], np.result_type(*{part.dtype for part in parts}))
        for piece, part, end in zip(pieces, parts, stop, strict=True):
            begin = end - piece.methods * piece.cells
            columns[name][begin:end].reshape(piece.methods, piece.cells)[...] = part
    return Scores(columns)


def behind(
    split: str, measured: Measured, heads: Sequence[Row], owner: Sequence[int], level: float | None
) -> Iterator[Row]:
    """How far each method is behind the best, if the metric allows a comparison: over all items, in the worst group,
    or in each group if `measured` has `start`."""
    items, worst, value = measured.items, measured.worst, measured.estimate.value
    if items is None or not np.isfinite(value).all():
        return
    if worst is not None and level is not None and not items.size:  # a group without an interval
        return
    n, groups = [measured.of or int(measured.n.sum())], [measured.groups[0] if worst is None else ALL]
    tables: Sequence[Values] = [items]
    corrected: dict[str, Floats] = {}
    if measured.start is not None:
        n, groups = measured.n.tolist(), list(measured.groups)
        tables = np.split(items, measured.start[1:], axis=1)
    elif worst is not None:
        corrected = {"centre": measured.estimate.centre[:, 0], "size": worst.fewest, "unsure": worst.unsure}
    widest = measured.estimate.most - measured.estimate.least  # the largest difference that the metric allows
    for index, table in enumerate(tables):
        best = int(value[:, index].argmax())
        low, high, p = np.zeros(len(heads)), np.zeros(len(heads)), np.ones(len(heads))
        if level is None:
            low, high, p = (np.full(len(heads), np.nan) for _ in range(3))
        else:
            pairs = compare(table, owner, against=best, level=level, looks=len(tables), **corrected)
            low[pairs.second], high[pairs.second] = pairs.low.clip(-widest, widest), pairs.high.clip(-widest, widest)
            p[pairs.second] = pairs.adjusted
        for method, head in enumerate(heads):
            yield {**head, "stat": DIFFERENCE, "split": split, "by": measured.by, "group": groups[index],
                   "n": n[index], "metric": measured.metric, "value": value[best, index] - value[method, index],
                   "low": low[method], "high": high[method], "p": p[method]}
