"""The gap of a headline that is over a grouping: the worst region of FMoW, the user of Amazon at the tenth percentile.

    average      accuracy of test − headline of test            (so CivilComments and Amazon in the paper)
    any other    headline in distribution − headline out of distribution

The two sides are taken as if they had no items in common, so that an interval is rather too wide: what they share makes
the difference surer.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints, positions
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import untitled
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL
from shiftbench.scoring.judge import means
from shiftbench.scoring.rows import Row


class Tested(NamedTuple):
    """Rows of a benchmark, and a method's runs that predict them."""

    benchmark: Benchmark
    rows: Ints
    runs: Sequence[Predictions | Answers]


def has_headline_of_groups(benchmark: Benchmark) -> bool:
    """Whether what ranks is over a grouping; else `gap` has it anyway."""
    return benchmark.target.has_classes and bool(untitled(str(benchmark.card.get("headline") or ""))[1])


def headline_ends(inside: Tested, outside: Tested, average: bool, level: float) -> list[Row]:
    """In distribution, out of distribution, and their difference; nothing where a side has no such group."""
    metric = str(outside.benchmark.card["headline"])
    one, two = _value(inside, "accuracy" if average else metric, level), _value(outside, metric, level)
    if one is None or two is None:
        return []
    difference = one["value"] - two["value"]
    low = difference - np.hypot(one["value"] - one["low"], two["high"] - two["value"])
    high = difference + np.hypot(one["high"] - one["value"], two["value"] - two["low"])
    return [one, two, {"group": two["group"], "n": two["n"], "metric": metric, "value": difference,
                       "low": float(np.clip(low, -1, 1)), "high": float(np.clip(high, -1, 1))}]


def _value(side: Tested, metric: str, level: float) -> Row | None:
    """The mean over runs with its interval, about other items and other seeds."""
    whole, rows = side.benchmark, side.rows
    some = Benchmark(whole.items[rows], np.full(len(rows), "test"), whole.label[rows], whole.domain[rows],
                     whole.group[rows], whole.names, whole.card,
                     {name: values[rows] for name, values in whole.extra.items()})
    runs = [Predictions(some.items, some.split, run.scores[positions(some.items, run.item)], run.classes)
            for run in side.runs if isinstance(run, Predictions)]
    found = means(some, {"": runs}, level=level).where(split="test", metric=metric)
    kept = [row for row in found if metric.startswith("worst_") or row["group"] == ALL]
    return {key: kept[0][key] for key in ("group", "n", "metric", "value", "low", "high")} if kept else None
