"""Scores of targets that are no classes: numbers, yes/no tasks, boxes and tokens, for one run or means over runs.

Each kind has its measures in a file of its own, `target_numbers` and so on. Rows are those of `judge`: over all, by
group, the worst group, the gap from id_test to test, and for several methods how far each is behind the best.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from shiftbench.answers import Answers
from shiftbench.arrays import Floats, Ints
from shiftbench.benchmark import Benchmark
from shiftbench.errors import ShiftBenchError
from shiftbench.predictions import Predictions
from shiftbench.scores import ALL, Scores
from shiftbench.scoring.estimates import Estimate
from shiftbench.scoring.rows import GAP, MEAN, Row, Rows, predicted_splits
from shiftbench.scoring.target_boxes import BY_DOMAIN, METRIC, measure_boxes
from shiftbench.scoring.target_measures import WORST, Measured, Part
from shiftbench.scoring.target_numbers import measure_numbers
from shiftbench.scoring.target_tasks import measure_tasks
from shiftbench.scoring.target_tokens import measure_tokens
from shiftbench.stats import LEVEL, REPLICATES
from shiftbench.target import BOXES, TOKEN_KINDS, TOKENS

HEADLINES = {
    "class": "accuracy", "number": WORST + "r", "tasks": "mean_ap", "boxes": BY_DOMAIN, "tokens": "accuracy",
}
"""By kind of target, the metric that ranks."""
RANKING = {
    "number": (WORST + "r", "r"), "tasks": ("mean_ap",), "boxes": (BY_DOMAIN, METRIC, WORST + METRIC),
    "tokens": ("accuracy", "overall_accuracy", WORST + "accuracy"),
}
"""Metrics by which methods may be ranked, higher better, those of all items and of the worst group; see HEADLINES."""
GAPS = ("r", WORST + "r", "mean_ap", METRIC, BY_DOMAIN, "accuracy")
"""Metrics of which the gap from id_test to test is told."""

Given = Predictions | Answers


def headline(benchmark: Benchmark) -> str:
    """The metric by which a benchmark's methods are ranked: its card's, else what its kind of target has."""
    return str(benchmark.card.get("headline") or HEADLINES[benchmark.target.kind])


def score_target(
    benchmark: Benchmark,
    predictions: Given,
    *,
    run: str = "",
    method: str = "",
    setting: str = "",
    seed: int = 0,
    replicates: int = REPLICATES,
    level: float = LEVEL,
) -> Scores:
    """Scores of one run on every split that it predicts; without replicates there are no intervals.

    Intervals are about other items, and need no resampling: see `target_estimates`.
    """
    head = {"run": run, "benchmark": benchmark.name, "method": method, "setting": setting, "seed": seed}
    return _judged(benchmark, [predictions], Rows([head], [0], level if replicates else None))


def mean_target(
    benchmark: Benchmark, runs: Mapping[str, Sequence[Given]], *, replicates: int = REPLICATES, level: float = LEVEL
) -> Scores:
    """Each method's mean over its runs, and how far it is behind the best: what `means` is for classes."""
    heads = [{"run": f"{MEAN}{len(part)}", "benchmark": benchmark.name, "method": method, "seed": -1}
             for method, part in runs.items()]
    owner = [code for code, part in enumerate(runs.values()) for _ in part]
    predictions = [one for part in runs.values() for one in part]
    return _judged(benchmark, predictions, Rows(heads, owner, level if replicates else None))


def _judged(benchmark: Benchmark, predictions: Sequence[Given], table: Rows) -> Scores:
    """The rows of every split that all runs predict, and of the gaps."""
    parts = [predicted_splits(benchmark, one) for one in predictions]
    rows: list[Row] = []
    seen: dict[tuple[str, str], Estimate] = {}
    for split in benchmark.splits:
        if not all(split in part for part in parts):
            continue
        for found in measure_target(benchmark, split, predictions, [part[split] for part in parts], table):
            rows += _written(table, split, found)
            if found.worst is not None or list(found.groups) == [ALL]:
                seen[split, found.metric] = found.estimate
    for metric in GAPS:
        if ("id_test", metric) in seen and ("test", metric) in seen:
            rows += table.estimated(GAP, [ALL], [len(benchmark.rows("test"))], f"{metric}_gap",
                                    seen["id_test", metric] - seen["test", metric])
    return Scores.of(rows)


def measure_target(
    benchmark: Benchmark, split: str, predictions: Sequence[Given], chosen: Sequence[Ints], table: Rows
) -> list[Measured]:
    """What the kind of target has to measure on a split; `chosen` are the rows of the predictions of each run."""
    part, kind, extra = Part.of(benchmark, split), benchmark.target.kind, benchmark.extra
    if kind in ("number", "tasks"):
        truth = np.stack([np.asarray(extra[name], np.float64)[part.rows] for name in benchmark.target.columns], axis=1)
        numbers = [_numbers(one)[rows] for one, rows in zip(predictions, chosen, strict=True)]
        measure = measure_numbers if kind == "number" else measure_tasks
        return measure(part, truth, numbers, table.owner, table.level)
    answers = [_answers(one).take(rows) for one, rows in zip(predictions, chosen, strict=True)]
    if kind == "boxes":
        return measure_boxes(part, extra[BOXES][part.rows], answers, table.owner, table.level)
    if kind == "tokens":
        kinds = extra[TOKEN_KINDS][part.rows] if TOKEN_KINDS in extra else None
        return measure_tokens(part, extra[TOKENS][part.rows], kinds, answers, table.owner, table.level)
    raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for classes; `score` is for those.")


def _written(table: Rows, split: str, found: Measured) -> list[Row]:
    """Its rows, and where there are several methods how far each is behind the best."""
    worst, items, value = found.worst, found.items, found.estimate.value[:, 0]
    if worst is None:
        rows = table.estimated(split, found.groups, found.n, found.metric, found.estimate)
    else:
        rows = table.worst(split, found.groups, found.metric, worst)
    if len(table.heads) == 1 or items is None or not np.isfinite(value).all():
        return rows
    if worst is None:
        return rows + table.behind(split, ALL, int(found.n[0]), found.metric, items, value)
    if table.level is not None and not items.size:  # a group without an interval
        return rows
    return rows + table.behind(split, ALL, int(found.n.sum()), found.metric, items, value,
                               centre=found.estimate.centre[:, 0], size=worst.fewest, unsure=worst.unsure)


def _numbers(predictions: Given) -> Floats:
    if isinstance(predictions, Answers):
        raise ShiftBenchError("These are boxes or tokens, but the benchmark asks for numbers. Give one row of scores "
                              "per item.")
    scores = np.asarray(predictions.scores, np.float64)
    if np.isnan(scores).any():
        raise ShiftBenchError(f"{int(np.isnan(scores).any(axis=1).sum())} predictions are not numbers (NaN). The model "
                              "that gave them has diverged.")
    return scores


def _answers(predictions: Given) -> Answers:
    if isinstance(predictions, Predictions):
        raise ShiftBenchError("These are scores of classes, but the benchmark asks for boxes or tokens: a list per "
                              "item.")
    return predictions
