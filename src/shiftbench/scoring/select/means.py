"""What a rule is worth: choices averaged over seeds, then over benchmarks."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from shiftbench.data.scores import Measure
from shiftbench.scoring.intervals import LEVEL, seeds_half_width
from shiftbench.scoring.metrics import metric_of
from shiftbench.scoring.select.choose import Choice
from shiftbench.scoring.select.rules import LABELS


class Mean(NamedTuple):
    """Choices of a rule for one method, averaged over seeds and, without a `benchmark`, over benchmarks."""

    benchmark: str
    benchmarks: int
    method: str
    rule: str
    target: str
    seeds: int
    among: int
    labels: str
    by: str
    groups: tuple[str, ...]  # of a single benchmark, the worst group of every seed, where that is the target
    n: int  # the test items behind it; of several groups, those of the smallest
    test: float
    low: float
    high: float
    oracle: float
    blind: float
    regret: float
    regret_low: float
    regret_high: float

    @property
    def whose(self) -> str:
        """Which group a worst group's value is of, and how many items that has."""
        if len(self.groups) > 1:
            return f"{len(self.groups)} groups, n\u00a0≥\u00a0{self.n:,}"
        return f"{self.groups[0]}, n\u00a0=\u00a0{self.n:,}" if self.groups else ""


def over_seeds(choices: Iterable[Choice], level: float = LEVEL) -> list[Mean]:
    """Means of the value on test and of the regret over seeds, with intervals at the level of the scores' own.

    The half-width of a value on test is √(w² + s²): w the runs' mean half-width, since seeds share their test items,
    and s Student's of the seeds (`seeds_half_width`); its middle is the mean of theirs, which for a worst group need
    not be the value. A regret compares runs on the same items; its interval is of the seeds.
    """
    cells: dict[tuple[str, ...], list[Choice]] = {}
    for one in choices:
        cells.setdefault((one.benchmark, one.method, one.rule, one.target), []).append(one)
    means = []
    for (benchmark, method, rule, target), part in cells.items():
        test, oracle = np.asarray([one.test for one in part]), np.asarray([one.oracle for one in part])
        value, regret = float(test.mean()), float(np.abs(oracle - test).mean())
        low, high = (float(np.mean([getattr(one, end) for one in part])) for end in ("low", "high"))
        half = math.hypot((high - low) / 2, seeds_half_width(test, level))
        ends = (0.0, 1.0) if metric_of(Measure.parse(target).metric).unit == "share" else (-math.inf, math.inf)
        low, high = (float(np.clip((low + high) / 2 + side * half, *ends)) for side in (-1, 1))
        reach = seeds_half_width(oracle - test, level) if len(part) > 1 else math.nan
        means.append(Mean(
            benchmark, 1, method, rule, target, len(part), max(one.among for one in part), part[0].labels, part[0].by,
            tuple(dict.fromkeys(one.group for one in part if one.group)), min(one.n for one in part),
            value, low, high, float(oracle.mean()), float(np.mean([one.blind for one in part])),
            regret, float(np.maximum(0.0, regret - reach)), regret + reach))
    return means


def over_benchmarks(means: Iterable[Mean]) -> list[Mean]:
    """The plain mean over the benchmarks where a rule applies; its interval is cautious, as if all erred one way."""
    cells: dict[tuple[str, ...], list[Mean]] = {}
    for one in means:
        cells.setdefault((one.method, one.rule, one.target), []).append(one)
    numbers = ("test", "low", "high", "oracle", "blind", "regret", "regret_low", "regret_high")
    return [Mean(
        "", len(part), method, rule, target, max(one.seeds for one in part), max(one.among for one in part),
        max((one.labels for one in part), key=LABELS.index), "; ".join(dict.fromkeys(one.by for one in part)), (), 0,
        *(float(np.mean([getattr(one, name) for one in part])) for name in numbers))
        for (method, rule, target), part in cells.items()]
