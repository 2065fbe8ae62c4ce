"""Estimates as rows of scores: whose they are, their ends, and how far each method is behind the best."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, positions
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions, refuse_trained
from shiftbench.data.scores import ALL, DIFFERENCE
from shiftbench.scoring.estimates import Estimate, Measured, Worst
from shiftbench.scoring.intervals import compare

GAP = "id_test-test"
"""The split of a gap: in-distribution test minus test."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """Whose runs are judged and how: run r is of the method of `heads[owner[r]]`; without a level, no intervals."""

    heads: Sequence[Row]
    owner: Sequence[int]
    level: float | None

    def of(self, split: str, measured: Sequence[Measured]) -> list[Row]:
        """All that was measured on a split, then how far each method is behind the best."""
        rows: list[Row] = []
        for one in measured:
            numbers = (self.estimated(split, one.groups, one.n, one.metric, one.estimate) if one.worst is None
                       else self.worst(split, one.groups, one.metric, one.worst))
            rows += [{**row, "by": one.by} for row in numbers]
        for one in measured if len(self.heads) > 1 else ():
            rows += [{**row, "by": one.by} for row in self.compared(split, one)]
        return rows

    def compared(self, split: str, measured: Measured) -> list[Row]:
        """How far each method is behind the best, where that can be told of a metric."""
        items, worst, value = measured.items, measured.worst, measured.estimate.value
        if items is None or not np.isfinite(value).all():
            return []
        if measured.start is not None:
            ends = np.append(measured.start[1:], items.shape[1])
            return [row for place, (begin, end) in enumerate(zip(measured.start, ends, strict=True))
                    for row in self.behind(split, measured.groups[place], int(measured.n[place]), measured.metric,
                                           items[:, begin:end], value[:, place], looks=len(ends))]
        n = measured.of or int(measured.n.sum())
        if worst is None:
            return self.behind(split, measured.groups[0], n, measured.metric, items, value[:, 0])
        if self.level is not None and not items.size:  # a group without an interval
            return []
        return self.behind(split, ALL, n, measured.metric, items, value[:, 0],
                           centre=measured.estimate.centre[:, 0], size=worst.fewest, unsure=worst.unsure)

    def estimated(
        self, split: str, groups: Sequence[str], n: Sequence[int] | Ints, metric: str, estimate: Estimate
    ) -> list[Row]:
        """One row per group and method."""
        low, high = self.ends(estimate)
        return [row for place, group in enumerate(groups)
                for row in self.rows(split, group, int(n[place]), metric, estimate.value[:, place], low[:, place],
                                     high[:, place])]

    def worst(self, split: str, groups: Sequence[str], metric: str, worst: Worst) -> list[Row]:
        """One row per method; its group is the worst on average, and n that group's items."""
        low, high = self.ends(worst.estimate)
        made = self.rows(split, "", 0, metric, worst.estimate.value[:, 0], low[:, 0], high[:, 0])
        return [{**row, "group": groups[code], "n": int(n)}
                for row, code, n in zip(made, worst.code, worst.n, strict=True)]

    def behind(
        self, split: str, group: str, n: int, metric: str, items: Bools | Floats, value: Floats,
        looks: int = 1, **corrected: Floats,
    ) -> list[Row]:
        """How far each method is behind the best, with the p-value of that; `looks` groups are compared like this."""
        best = int(value.argmax())
        low, high, p = np.zeros(len(value)), np.zeros(len(value)), np.ones(len(value))
        if self.level is None:
            low, high, p = (np.full(len(value), np.nan) for _ in range(3))
        else:
            found = compare(items, self.owner, against=best, level=self.level, looks=looks, **corrected)
            low[found.second], high[found.second] = found.low.clip(-1, 1), found.high.clip(-1, 1)
            p[found.second] = found.adjusted
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
    """Per split that was predicted, the rows of the predictions in the benchmark's order."""
    if isinstance(predictions, Predictions) and predictions.classes != benchmark.names["label"]:
        raise ShiftBenchError(f"Predictions for the classes {', '.join(predictions.classes)} cannot be scored on "
                              f"benchmark '{benchmark.name}': its classes, in their order, are "
                              f"{', '.join(benchmark.names['label'])}.")
    place = positions(benchmark.items, predictions.item)
    strange = int(len(predictions) - len(np.unique(place[place >= 0])))
    if strange:
        raise ShiftBenchError(f"{strange} predictions are of items that are not in benchmark '{benchmark.name}'. "
                              "Predict the items that rows.parquet lists, each once.")
    there = np.flatnonzero(place >= 0)
    refuse_trained(benchmark.items[there], predictions.split[place[there]], benchmark.split[there], "Predictions")
    parts = {split: place[benchmark.rows(split)] for split in benchmark.splits}
    for split, rows in parts.items():
        if (rows < 0).any() and (rows >= 0).any():
            raise ShiftBenchError(f"{int((rows < 0).sum())} of the {len(rows)} items of split '{split}' have no "
                                  "prediction. Predict all of them, or none.")
    return {split: rows for split, rows in parts.items() if (rows >= 0).all()}
