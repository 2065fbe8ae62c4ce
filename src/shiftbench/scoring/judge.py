"""What predictions are worth on a benchmark, with intervals: one run, or the means of methods over their runs."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import find
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import Grouping, groupings_of
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, Scores
from shiftbench.scoring.estimates import Estimate
from shiftbench.scoring.intervals import LEVEL, REPLICATES, bootstrap, interval
from shiftbench.scoring.metrics import METRICS
from shiftbench.scoring.rows import BEHIND, GAP, MEAN, Row, Rows, predicted_splits
from shiftbench.scoring.scorer import outputs_of, scorer
from shiftbench.scoring.targets import GAPS


def score(
    benchmark: Benchmark,
    predictions: Predictions | Answers,
    *,
    run: str = "",
    method: str = "",
    setting: str = "",
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
    beside those of the benchmark's card. Of each: `accuracy[region]` of every group, `worst_group_accuracy[region]`,
    `mean_group_accuracy[region]` and `tenth_percentile_accuracy[region]` (see `scoring.groups`).
    """
    if replicates < 0:
        raise ShiftBenchError(f"replicates is {replicates}, but must be at least 0; 0 turns intervals off.")
    head = {"run": run, "benchmark": benchmark.name, "digest": benchmark.short_digest, "method": method,
            "setting": setting, "seed": seed}
    table = Rows([head], [0], level if replicates else None)
    rows = _judged(benchmark, [predictions], table, _groupings(benchmark, by, collection))
    if metrics and isinstance(predictions, Predictions) and benchmark.target.kind == "class":
        scored = {row["metric"] for row in rows}
        more = [name for name in metrics if name not in scored]
        rows += _further(benchmark, predictions, table, more, replicates, level)
    return Scores.of(rows)


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

    `accuracy_behind_best` (and so on) is the best mean minus this one, paired by item. Its interval and its p-value,
    `p_accuracy_behind_best`, are corrected for all pairs of methods in this metric and split and, of single groups, for
    the number of groups (Bonferroni): in 19 of 20 benchmarks on which methods are equal no interval misses 0. One that
    reaches 0 says that the two cannot be told apart. For a worst group the interval is of the corrected values.
    """
    heads = [{"run": f"{MEAN}{len(part)}", "benchmark": benchmark.name, "digest": benchmark.short_digest,
              "method": method, "seed": -1} for method, part in runs.items()]
    owner = [code for code, part in enumerate(runs.values()) for _ in part]
    table = Rows(heads, owner, level if replicates else None)
    return Scores.of(_judged(benchmark, [one for part in runs.values() for one in part], table,
                             _groupings(benchmark, by, collection)))


def versus(benchmark: Benchmark, models: Mapping[str, Predictions | Answers], **options: Any) -> Scores:
    """How far each of several models is behind the best on the same items: the comparisons of `means`, a run each."""
    together = means(benchmark, {name: [one] for name, one in models.items()}, **options)
    return Scores.of({**row, "run": row["method"], "seed": 0} for row in together if row["metric"].endswith(BEHIND))


def _groupings(benchmark: Benchmark, by: Sequence[str], collection: Collection | None) -> tuple[Grouping, ...]:
    kind = benchmark.target.kind
    if kind != "class" and by:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for {kind}, not for classes, so that it is scored by "
                              "its own groups alone. Leave out `by`.")
    return groupings_of(benchmark, by, collection) if kind == "class" else ()


def _judged(
    benchmark: Benchmark, predictions: Sequence[Predictions | Answers], table: Rows, groupings: Sequence[Grouping]
) -> list[Row]:
    """The rows of every split that all runs predict, and of the gaps."""
    parts = [predicted_splits(benchmark, one) for one in predictions]
    rows: list[Row] = []
    wholes: dict[tuple[str, str], Estimate] = {}
    for split in benchmark.splits:
        if all(split in part for part in parts):
            outputs = [outputs_of(benchmark, one, part[split]) for one, part in zip(predictions, parts, strict=True)]
            measured = scorer(benchmark, split, groupings)(outputs, table.owner, table.level)
            rows += table.of(split, measured)
            wholes |= {(split, one.metric): one.estimate for one in measured if one.is_whole}
    for metric in GAPS:
        if ("id_test", metric) in wholes and ("test", metric) in wholes:
            rows += table.estimated(GAP, [ALL], [len(benchmark.rows("test"))], f"{metric}_gap",
                                    wholes["id_test", metric] - wholes["test", metric])
    return rows


def _further(
    benchmark: Benchmark, predictions: Predictions, table: Rows, metrics: Sequence[str], replicates: int, level: float
) -> list[Row]:
    """Metrics by name over all items of each split, with percentile bootstrap intervals."""
    rows: list[Row] = []
    seed = int(table.heads[0]["seed"])
    for split, part in predicted_splits(benchmark, predictions).items():
        label, scores = benchmark.label[benchmark.rows(split)], predictions.scores[part]
        for name in metrics:
            metric = partial(find(METRICS, "metric", name), label, scores)
            draws = bootstrap(metric, len(label), replicates=replicates, seed=seed, purpose=split)
            low, high = interval(draws[:, None], level)
            rows += table.rows(split, ALL, len(label), name, np.asarray([metric()]), low, high)
    return rows
