"""Score predictions on a benchmark, with intervals: one run, or the means of methods over their runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, positions
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import find
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import Grouping, groupings_of
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions, refuse_trained
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN, Scores
from shiftbench.scoring.estimates import Estimate, Measured, Worst
from shiftbench.scoring.intervals import LEVEL, REPLICATES, compare
from shiftbench.scoring.metrics import METRICS, Metric, own_metrics
from shiftbench.scoring.scorer import Further, Outputs, Reals, Scorer, outputs_of, scorer

GAP = "id_test-test"
"""The split of a gap: in-distribution test minus test."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """The methods whose runs are scored: run r belongs to the method of `heads[owner[r]]`; no level, no intervals."""

    heads: Sequence[Row]
    owner: Sequence[int]
    level: float | None

    def of(self, split: str, measured: Sequence[Measured]) -> list[Row]:
        """The rows of all measures on a split, then how far each method is behind the best."""
        rows: list[Row] = []
        for one in measured:
            numbers = (self.estimated(split, one.groups, one.n, one.metric, one.estimate) if one.worst is None
                       else self.worst(split, one.groups, one.metric, one.worst))
            rows += [{**row, "by": one.by} for row in numbers]
        for one in measured if len(self.heads) > 1 else ():
            rows += [{**row, "by": one.by} for row in self.compared(split, one)]
        return rows

    def compared(self, split: str, measured: Measured) -> list[Row]:
        """How far each method is behind the best, if the metric allows a comparison."""
        items, worst, value = measured.items, measured.worst, measured.estimate.value
        widest = measured.estimate.most - measured.estimate.least
        if items is None or not np.isfinite(value).all():
            return []
        if measured.start is not None:
            ends = np.append(measured.start[1:], items.shape[1])
            return [row for index, (begin, end) in enumerate(zip(measured.start, ends, strict=True))
                    for row in self.behind(split, measured.groups[index], int(measured.n[index]), measured.metric,
                                           items[:, begin:end], value[:, index], widest, looks=len(ends))]
        n = measured.of or int(measured.n.sum())
        if worst is None:
            return self.behind(split, measured.groups[0], n, measured.metric, items, value[:, 0], widest)
        if self.level is not None and not items.size:  # a group without an interval
            return []
        return self.behind(split, ALL, n, measured.metric, items, value[:, 0], widest,
                           centre=measured.estimate.centre[:, 0], size=worst.fewest, unsure=worst.unsure)

    def estimated(
        self, split: str, groups: Sequence[str], n: Sequence[int] | Ints, metric: str, estimate: Estimate
    ) -> list[Row]:
        """One row per group and method."""
        low, high = self.ends(estimate)
        return [row for index, group in enumerate(groups)
                for row in self.rows(split, group, int(n[index]), metric, estimate.value[:, index], low[:, index],
                                     high[:, index])]

    def worst(self, split: str, groups: Sequence[str], metric: str, worst: Worst) -> list[Row]:
        """One row per method; its group is the worst on average, and n that group's items."""
        low, high = self.ends(worst.estimate)
        rows = self.rows(split, "", 0, metric, worst.estimate.value[:, 0], low[:, 0], high[:, 0])
        return [{**row, "group": groups[code], "n": int(n)}
                for row, code, n in zip(rows, worst.code, worst.n, strict=True)]

    def behind(
        self, split: str, group: str, n: int, metric: str, items: Bools | Floats, value: Floats,
        widest: float, looks: int = 1, **corrected: Floats,
    ) -> list[Row]:
        """How far each method is behind the best, with p-values.

        `widest` is the largest difference that the metric allows, `looks` the number of groups compared this way.
        """
        best = int(value.argmax())
        low, high, p = np.zeros(len(value)), np.zeros(len(value)), np.ones(len(value))
        if self.level is None:
            low, high, p = (np.full(len(value), np.nan) for _ in range(3))
        else:
            pairs = compare(items, self.owner, against=best, level=self.level, looks=looks, **corrected)
            low[pairs.second], high[pairs.second] = pairs.low.clip(-widest, widest), pairs.high.clip(-widest, widest)
            p[pairs.second] = pairs.adjusted
        behind = self.rows(split, group, n, metric, value[best] - value, low, high)
        return [{**row, "stat": DIFFERENCE, "p": chance} for row, chance in zip(behind, p.tolist(), strict=True)]

    def ends(self, estimate: Estimate) -> tuple[Floats, Floats]:
        if self.level is None:
            return np.full_like(estimate.value, np.nan), np.full_like(estimate.value, np.nan)
        return estimate.ends(self.owner, self.level)

    def rows(
        self, split: str, group: str, n: int, metric: str, value: Floats, low: Floats, high: Floats
    ) -> list[Row]:
        """One row per method."""
        ends = zip(self.heads, value.tolist(), low.tolist(), high.tolist(), strict=True)
        return [{**head, "split": split, "by": "", "group": group, "n": n, "metric": metric, "value": value,
                 "low": least, "high": most} for head, value, least, most in ends]


def predicted_splits(benchmark: Benchmark, predictions: Predictions | Answers) -> dict[str, Ints]:
    """For every predicted split, the rows of its predictions in the benchmark's order."""
    if isinstance(predictions, Predictions) and predictions.classes != benchmark.names["label"]:
        raise ShiftBenchError(f"Predictions for the classes {', '.join(predictions.classes)} cannot be scored on "
                              f"benchmark '{benchmark.name}': its classes, in their order, are "
                              f"{', '.join(benchmark.names['label'])}.")
    position = positions(benchmark.items, predictions.item)
    strange = int((np.bincount(position[position >= 0], minlength=len(predictions)) == 0).sum())
    if strange:
        raise ShiftBenchError(f"{strange} predictions are of items that are not in benchmark '{benchmark.name}'. "
                              "Predict the items that rows.parquet lists, each once.")
    there = np.flatnonzero(position >= 0)
    refuse_trained(benchmark.items[there], predictions.split[position[there]], benchmark.split[there], "Predictions")
    parts = {split: position[benchmark.rows(split)] for split in benchmark.splits}
    for split, rows in parts.items():
        if (rows < 0).any() and (rows >= 0).any():
            raise ShiftBenchError(f"{int((rows < 0).sum())} of the {len(rows)} items of split '{split}' have no "
                                  "prediction. Predict all of them, or none.")
    return {split: rows for split, rows in parts.items() if (rows >= 0).all()}


# Score predictions: one run, means over runs, and models side by side.

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
    lowest, n that group's size) and `worst_class_accuracy` (its group is the class); `macro_f1`; where the scores are
    more than a choice, `nll` of all and of every group and `worst_group_nll`, the highest; and, where both are there,
    `accuracy_gap` = id_test − test. Where rows have a `kind`, what `kinds.by_kind` says of hard and easy items.

    A share has Wilson's interval, macro F1 the same to first order, a loss Student's. A worst group's value is the
    plain minimum, as every paper has it; its interval and `worst_group_accuracy_corrected` are of the truly worst
    group, without the downward bias of a minimum (see `intervals.worst`). Further `metrics` by name (`auc`, …) are
    scored over all items with percentile bootstrap intervals. With 0 replicates there are no intervals.

    `by` are further groupings of any columns, the collection's factors among them where it is given (see `groupings`),
    beside those of the benchmark's card. Of each, with the grouping in the column `by`: `accuracy` of every group,
    `worst_group_accuracy`, `mean_group_accuracy` and `tenth_percentile_accuracy` (see `scoring.classes`).
    """
    if replicates < 0:
        raise ShiftBenchError(f"replicates is {replicates}, but must be at least 0; 0 turns intervals off.")
    head = {"run": run, "benchmark": benchmark.name, "digest": benchmark.short_digest, "method": method,
            "model": model, "setting": setting, "label": label, "seed": seed}
    table = Rows([head], [0], level if replicates else None)
    further = Further(_asked_for(benchmark, metrics), replicates, seed)
    return Scores.of(_judged(benchmark, [predictions], table, _groupings(benchmark, by, collection), further))


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

    Intervals are about other items and other seeds: both parts are in them, each counted once (see `intervals.parts`).
    `worst_group_accuracy` is the mean of each run's worst; its group is the lowest on average.

    A row of stat `difference` is the best mean minus this one, paired by item. Its interval and its p-value, in the
    column `p`, are corrected for all pairs of methods in this metric and split and, of single groups, for the
    number of groups (Bonferroni): in 19 of 20 benchmarks on which methods are equal no interval misses 0. If
    it reaches 0, the two do not differ significantly. A worst group's interval is that of the corrected values.
    """
    heads = [{"run": "", "stat": MEAN, "runs": len(part), "benchmark": benchmark.name,
              "digest": benchmark.short_digest, "method": method, "seed": -1} for method, part in runs.items()]
    owner = [code for code, part in enumerate(runs.values()) for _ in part]
    table = Rows(heads, owner, level if replicates else None)
    return Scores.of(_judged(benchmark, [one for part in runs.values() for one in part], table,
                             _groupings(benchmark, by, collection)))


def versus(benchmark: Benchmark, models: Mapping[str, Predictions | Answers], **options: Any) -> Scores:
    """How far each of several models is behind the best on the same items: the comparisons of `means`, a run each."""
    together = means(benchmark, {name: [one] for name, one in models.items()}, **options)
    return Scores.of({**row, "run": row["method"], "seed": 0} for row in together.where(stat=DIFFERENCE))


def score_models(
    benchmark: Benchmark, models: Mapping[str, Predictions | Answers], **options: Any
) -> Scores:
    """Scores of every model by name, and of several also how far each is behind the best."""
    parts = [score(benchmark, model, run=name, method=name, **options) for name, model in models.items()]
    if len(models) > 1:
        parts.append(versus(benchmark, models, **{key: value for key, value in options.items() if key != "metrics"}))
    return Scores.join(parts)


def _groupings(benchmark: Benchmark, by: Sequence[str], collection: Collection | None) -> tuple[Grouping, ...]:
    target = benchmark.target
    if not target.has_classes and by:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for {target.words}, not for a class, so that it is "
                              "scored by its own groups alone. Leave out `by`.")
    return groupings_of(benchmark, by, collection) if target.has_classes else ()


def _asked_for(benchmark: Benchmark, names: Sequence[str]) -> list[Metric]:
    """The metrics to score besides those of the target: the user's own, and those named that are not scored anyway."""
    target = benchmark.target
    named = [find(METRICS, "metric", name) for name in names]
    for metric in named:
        if target.kind not in metric.targets:
            raise ShiftBenchError(f"Metric '{metric.name}' is not for benchmark '{benchmark.name}', which asks for "
                                  f"{target.words}.")
    further = [metric for metric in named if metric.function is not None and not metric.always]
    return list({metric.name: metric for metric in (*own_metrics(target), *further)}.values())


def measure(
    benchmark: Benchmark, scorers: Mapping[str, Scorer], outputs: Iterable[tuple[str, Sequence[Outputs] | Reals]],
    owner: Sequence[int], level: float | None,
) -> dict[str, list[Measured]]:
    """Measure the runs on each split, and the gaps from id_test to test; run r belongs to method `owner[r]`."""
    measured = {split: scorers[split](runs, owner, level) for split, runs in outputs}
    before, after = ({one.metric: one.estimate for one in measured.get(split, ()) if one.is_whole and not one.by}
                     for split in ("id_test", "test"))
    target = benchmark.target
    metrics = dict.fromkeys((target.metric, target.headline, *(metric.name for metric in own_metrics(target))))
    gaps = [Measured(f"{metric}_gap", [ALL], np.asarray([len(benchmark.rows("test"))]), before[metric] - after[metric])
            for metric in metrics if metric in before and metric in after]
    return {**measured, GAP: gaps}


def _judged(
    benchmark: Benchmark, predictions: Sequence[Predictions | Answers], table: Rows, groupings: Sequence[Grouping],
    further: Further | None = None,
) -> list[Row]:
    """The rows of every split that all runs predict, and of the gaps."""
    orders = [predicted_splits(benchmark, run) for run in predictions]
    splits = [split for split in benchmark.splits if all(split in order for order in orders)]
    # Splits are read one by one: outputs that are not in the benchmark's order are copied.
    outputs = ((split, [outputs_of(benchmark, run, order[split])
                        for run, order in zip(predictions, orders, strict=True)]) for split in splits)
    scorers = {split: scorer(benchmark, split, groupings, further) for split in splits}
    measured = measure(benchmark, scorers, outputs, table.owner, table.level)
    return [row for split, part in measured.items() for row in table.of(split, part)]
