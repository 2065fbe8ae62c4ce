"""What predictions are worth on a benchmark, with intervals: one run, or the means of methods over their runs."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from shiftbench.arrays import Floats, Ints, positions
from shiftbench.benchmark import Benchmark
from shiftbench.errors import ShiftBenchError
from shiftbench.metrics import METRICS, tally
from shiftbench.predictions import Predictions
from shiftbench.registry import find
from shiftbench.scores import ALL, Scores
from shiftbench.stats import LEVEL, REPLICATES, accuracies, bootstrap, interval, macro_f1s

GAP = "id_test-test"
"""The split of a gap: in-distribution test minus test."""
MEAN = "mean of "
"""How the `run` of a mean over several runs begins: `mean of 3`. Its seed is -1."""
BEHIND = "_behind_best"
"""How the metric ends that says how far a method's mean is behind the best method's."""

Row = dict[str, Any]


def score(
    benchmark: Benchmark,
    predictions: Predictions,
    *,
    run: str = "",
    method: str = "",
    setting: str = "",
    seed: int = 0,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    metrics: Sequence[str] = (),
) -> Scores:
    """Every split that was predicted, with percentile bootstrap intervals over its items.

    Per split: `accuracy` of all items and of every group that has items, `worst_group_accuracy` (its group is the
    lowest, n that group's size), `macro_f1`; and, where both are there, `accuracy_gap` = id_test − test. Further
    `metrics` by name (`nll`, `auc`, …) are scored over all items. With 0 replicates there are no intervals.
    """
    head = {"run": run, "benchmark": benchmark.name, "method": method, "setting": setting, "seed": seed}
    judge = _Judge([head], [0], replicates, level, seed)
    rows = judge.every_split(benchmark, [predictions])
    for split, part in _parts(benchmark, predictions).items():
        label, table = benchmark.label[benchmark.rows(split)], predictions.scores[part]
        for name in metrics:
            metric = partial(find(METRICS, "metric", name), label, table)
            draws = bootstrap(metric, len(label), replicates=replicates, seed=seed, purpose=split)
            rows += judge.rows(split, ALL, len(label), name, _Estimate(np.asarray([metric()]), draws[:, None]))
    return Scores.of(rows)


def means(
    benchmark: Benchmark,
    runs: Mapping[str, Sequence[Predictions]],
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    seed: int = 0,
) -> Scores:
    """Each method's mean over its runs (seeds) on the same items, and how far it is behind the best method.

    Intervals resample the items, jointly for all runs, and the runs of each method (see `stats.accuracies`). The metric
    `accuracy_behind_best` is the best mean minus this one, paired by item: an interval that reaches 0 says that the two
    cannot be told apart. `worst_group_accuracy` is the mean of each run's worst; its group is the lowest on average.
    """
    heads = [{"run": f"{MEAN}{len(part)}", "benchmark": benchmark.name, "method": method, "seed": -1}
             for method, part in runs.items()]
    owner = [code for code, part in enumerate(runs.values()) for _ in part]
    judge = _Judge(heads, owner, replicates, level, seed)
    return Scores.of(judge.every_split(benchmark, [one for part in runs.values() for one in part]))


class _Estimate(NamedTuple):
    """One number per method, and its replicates."""

    value: Floats  # methods
    draws: Floats  # replicates × methods

    def __sub__(self, other: "_Estimate") -> "_Estimate":
        return _Estimate(self.value - other.value, self.draws - other.draws)

    def behind(self) -> "_Estimate":
        best = int(self.value.argmax())
        return _Estimate(self.value[best] - self.value, self.draws[:, [best]] - self.draws)


class _Judge(NamedTuple):
    """Whose runs are judged and how: run r belongs to the method of `heads[owner[r]]`."""

    heads: Sequence[Row]
    owner: Sequence[int]
    replicates: int
    level: float
    seed: int

    def every_split(self, benchmark: Benchmark, predictions: Sequence[Predictions]) -> list[Row]:
        """The rows of every split that all runs predict, and of the gap."""
        parts = [_parts(benchmark, one) for one in predictions]
        rows: list[Row] = []
        average: dict[str, _Estimate] = {}
        for split in benchmark.splits:
            if all(split in part for part in parts):
                predicted = np.stack([one.predicted[part[split]] for one, part in zip(predictions, parts, strict=True)])
                found, average[split] = self.one_split(benchmark, split, predicted)
                rows += found
        if "id_test" in average and "test" in average:
            n = len(benchmark.rows("test"))
            rows += self.rows(GAP, ALL, n, "accuracy_gap", average["id_test"] - average["test"])
        return rows

    def one_split(self, benchmark: Benchmark, split: str, predicted: Ints) -> tuple[list[Row], _Estimate]:
        """The rows of one split, and its average accuracy; `predicted` is runs × items."""
        chosen, names, classes = benchmark.rows(split), benchmark.names["group"], len(benchmark.names["label"])
        label, group = benchmark.label[chosen], benchmark.group[chosen]
        size = np.bincount(group, minlength=len(names))
        grouped = np.stack([tally(label, one, group, len(names), n_classes=classes).accuracy for one in predicted])
        f1 = np.asarray([tally(label, one, n_classes=classes).macro_f1[0] for one in predicted])
        draws = accuracies(predicted == label, group, len(names), method=self.owner, replicates=self.replicates,
                           seed=self.seed, purpose=split)
        f1_draws = macro_f1s(label, predicted, method=self.owner, replicates=self.replicates, seed=self.seed,
                             purpose=split)
        average = _Estimate(self.mean((predicted == label).mean(axis=1)), draws.average)
        worst = _Estimate(self.mean(np.nanmin(grouped, axis=1)), draws.worst)
        f1s = _Estimate(self.mean(f1), f1_draws)
        by_group = self.mean(grouped)
        lowest = np.nanargmin(by_group, axis=1)
        n = len(label)
        rows = self.rows(split, ALL, n, "accuracy", average)
        for code in np.flatnonzero(size):
            one = _Estimate(by_group[:, code], draws.by_group[:, :, code])
            rows += self.rows(split, names[code], int(size[code]), "accuracy", one)
            if len(self.heads) > 1:
                rows += self.rows(split, names[code], int(size[code]), "accuracy" + BEHIND, one.behind())
        for row, code in zip(self.rows(split, ALL, n, "worst_group_accuracy", worst), lowest, strict=True):
            rows.append({**row, "group": names[code], "n": int(size[code])})
        rows += self.rows(split, ALL, n, "macro_f1", f1s)
        if len(self.heads) > 1:
            for name, estimate in {"accuracy": average, "worst_group_accuracy": worst, "macro_f1": f1s}.items():
                rows += self.rows(split, ALL, n, name + BEHIND, estimate.behind())
        return rows, average

    def mean(self, values: Floats) -> Floats:
        """Runs (× groups) -> methods (× groups)."""
        mine = np.asarray(self.owner) == np.arange(len(self.heads))[:, None]
        return np.asarray((mine / mine.sum(axis=1, keepdims=True)) @ values)

    def rows(self, split: str, group: str, n: int, metric: str, estimate: _Estimate) -> list[Row]:
        """One row per method."""
        low, high = interval(estimate.draws, self.level)
        return [{**head, "split": split, "group": group, "n": n, "metric": metric, "value": float(value),
                 "low": float(least), "high": float(most)}
                for head, value, least, most in zip(self.heads, estimate.value, low, high, strict=True)]


def _parts(benchmark: Benchmark, predictions: Predictions) -> dict[str, Ints]:
    """Per split that was predicted, the rows of the predictions in the benchmark's order."""
    if predictions.classes != benchmark.names["label"]:
        raise ShiftBenchError(f"Predictions for the classes {', '.join(predictions.classes)} cannot be scored on "
                              f"benchmark '{benchmark.name}': its classes, in their order, are "
                              f"{', '.join(benchmark.names['label'])}.")
    place = positions(benchmark.items, predictions.item)
    strange = int(len(predictions) - len(np.unique(place[place >= 0])))
    if strange:
        raise ShiftBenchError(f"{strange} predictions are of items that are not in benchmark '{benchmark.name}'. "
                              "Predict the items that rows.parquet lists, each once.")
    parts = {split: place[benchmark.rows(split)] for split in benchmark.splits}
    for split, rows in parts.items():
        if (rows < 0).any() and (rows >= 0).any():
            raise ShiftBenchError(f"{int((rows < 0).sum())} of the {len(rows)} items of split '{split}' have no "
                                  "prediction. Predict all of them, or none.")
    return {split: rows for split, rows in parts.items() if (rows >= 0).all()}
