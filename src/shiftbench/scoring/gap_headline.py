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
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, Measure
from shiftbench.scoring.judge import means
from shiftbench.scoring.metrics import is_worst
from shiftbench.scoring.rows import Row


class Tested(NamedTuple):
    """Rows of a benchmark, and a method's runs that predict them."""

    benchmark: Benchmark
    rows: Ints
    runs: Sequence[Predictions | Answers]


def has_headline_of_groups(benchmark: Benchmark) -> bool:
    """Whether what ranks is over a grouping; else `gap` has it anyway."""
    return benchmark.target.has_classes and bool(benchmark.headline.by)


def headline_ends(inside: Tested, outside: Tested, average: bool, level: float) -> list[Row]:
    """In distribution, out of distribution, and their difference; nothing where a side has no such group."""
    measure = outside.benchmark.headline
    one, two = _value(inside, Measure("accuracy") if average else measure, level), _value(outside, measure, level)
    if one is None or two is None:
        return []
    difference = one["value"] - two["value"]
    low = difference - np.hypot(one["value"] - one["low"], two["high"] - two["value"])
    high = difference + np.hypot(one["high"] - one["value"], two["value"] - two["low"])
    low, high = (float(np.clip(end, -1, 1)) for end in (low, high))
    return [one, two, {**two, "value": difference, "low": low, "high": high}]


def _value(side: Tested, measure: Measure, level: float) -> Row | None:
    """The mean over runs with its interval, about other items and other seeds."""
    whole, rows = side.benchmark, side.rows
    some = Benchmark(whole.items[rows], np.full(len(rows), "test"), whole.label[rows], whole.domain[rows],
                     whole.group[rows], whole.names, whole.card,
                     {name: values[rows] for name, values in whole.extra.items()})
    runs = [Predictions(some.items, some.split, run.scores[positions(some.items, run.item)], run.classes)
            for run in side.runs if isinstance(run, Predictions)]
    scores = means(some, {"": runs}, level=level).where(split="test", **measure._asdict())
    kept = [row for row in scores if is_worst(measure.metric) or row["group"] == ALL]
    return {key: kept[0][key] for key in ("by", "group", "n", "metric", "value", "low", "high")} if kept else None
