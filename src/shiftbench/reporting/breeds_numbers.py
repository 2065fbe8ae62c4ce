"""How much of its source accuracy a model keeps on the target: relative accuracy, its frontier, and every class."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats
from shiftbench.core.rng import child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, Scores
from shiftbench.scoring import MEAN
from shiftbench.scoring.intervals import LEVEL, student, wilson

REPLICATES = 10_000
"""Draws behind an interval; each is two numbers, so they cost nothing."""

Cell = Mapping[str, Any]


class Relative(NamedTuple):
    """Target accuracy over source accuracy, with its interval."""

    value: float
    low: float
    high: float


class Classed(NamedTuple):
    """A superclass: accuracy before and after the shift, as cells of `pivot`."""

    name: str
    source: Cell
    target: Cell

    @property
    def drop(self) -> float:
        return float(self.source["value"] - self.target["value"])


def relative(source: Cell, target: Cell, level: float = LEVEL, *, purpose: str = "", replicates: int = REPLICATES
             ) -> Relative | None:
    """Relative accuracy and the percentiles of its draws; None where nothing is right on the source.

        ρ = target / source,   ρ* = target* / source*

    Source and target items are not the same, so the two are drawn apart: see `redraw`.
    """
    if not source["value"] > 0:
        return None
    below, above = (redraw(cell, level, child(0, "relative accuracy", side, purpose), replicates)
                    for side, cell in (("source", source), ("target", target)))
    ends = np.full(2, math.nan)
    if not (np.isnan(below).any() or np.isnan(above).any()):
        with np.errstate(divide="ignore"):
            drawn = np.where(below > 0, above / np.maximum(below, 1e-300), np.inf)
        ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return Relative(target["value"] / source["value"], float(ends[0]), float(ends[1]))


def redraw(cell: Cell, level: float, rng: np.random.Generator, replicates: int) -> Floats:
    """The accuracy on other items and, for a mean over seeds, with other seeds.

    One run: a bootstrap over its n items, which for a share is Binomial(n, p) / n; p is (hits + ½) / (n + 1), since
    a run that is always right has no wrong item to draw. A mean over seeds: a normal draw with its scored interval,
    which has items and seeds in it, each once (`intervals.parts`). Drawing three seeds again with replacement would not
    do: the result stays between the lowest and the highest, and covers three times in four.
    """
    if cell["runs"] == 1:
        n = int(cell["n"])
        return np.asarray(rng.binomial(n, (n * cell["value"] + 0.5) / (n + 1), replicates) / n)
    z = rng.standard_normal(replicates) / float(student(math.inf, level))
    width = np.where(z < 0, cell["value"] - cell["low"], cell["high"] - cell["value"])
    return np.asarray(np.clip(cell["value"] + z * width, 0.0, 1.0))


def frontier(xs: Sequence[float], ys: Sequence[float]) -> list[int]:
    """The Pareto frontier, from left to right: those that no other beats in one number without losing in the other.

    >>> frontier([0.9, 0.8, 0.7, 0.95], [0.7, 0.8, 0.75, 0.6])
    [1, 0, 3]
    """
    kept: list[int] = []
    for place in sorted(range(len(xs)), key=lambda one: (-xs[one], -ys[one])):
        if not kept or ys[place] > ys[kept[-1]]:
            kept.append(place)
    return kept[::-1]


def constant_drop(sources: Sequence[float], targets: Sequence[float]) -> tuple[int, float]:
    """The model that is weakest on the source, and the share of its accuracy that it keeps on the target.

    A model that loses the same share has target = share × source: the grey line of the paper's Figure 5, which takes
    AlexNet. Better models above it are more robust, and not only more accurate.
    """
    weakest = min(range(len(sources)), key=lambda one: sources[one])
    return weakest, targets[weakest] / sources[weakest] if sources[weakest] > 0 else math.nan


def by_class(scores: Scores, benchmark: Benchmark, level: float = LEVEL) -> Scores:
    """Accuracies of groups put together to accuracies of classes: the group of such a score is the class.

        a_y = Σ_g n_g a_g / Σ_g n_g   over the groups g of class y

    Of single runs, from which `pivot` makes means; intervals are Wilson's. A class is left out where a group of it has
    items of another class, or where a group of it has no score.
    """
    made: list[dict[str, Any]] = []
    single = ~((scores["seed"] == -1) & np.char.startswith(scores["run"], MEAN))
    keep = single & (scores["benchmark"] == benchmark.name) & (scores["metric"] == "accuracy") & (
        scores["group"] != ALL)
    some = Scores({name: values[keep] for name, values in scores.columns.items()})
    for split in sorted(set(some["split"].tolist())):
        rows = benchmark.rows(split)
        wanted = {str(name): set(np.unique(benchmark.group[rows[benchmark.label[rows] == code]]).tolist())
                  for code, name in enumerate(benchmark.names["label"])}
        owner = {benchmark.names["group"][code]: name for name, codes in wanted.items() for code in codes
                 if sum(code in other for other in wanted.values()) == 1}
        sums: dict[tuple[Any, ...], list[Any]] = {}
        for row in some.where(split=split):
            if row["group"] in owner:
                key = (row["run"], row["method"], row["setting"], row["seed"], owner[row["group"]])
                part = sums.setdefault(key, [0, 0, 0.0])
                part[0], part[1], part[2] = part[0] + 1, part[1] + row["n"], part[2] + row["n"] * row["value"]
        for (run, method, setting, seed, name), (groups, n, right) in sums.items():
            if groups == len(wanted[name]) and n:
                low, high = wilson(right / n, n, level)
                made.append({"run": run, "benchmark": benchmark.name, "digest": benchmark.short_digest,
                             "method": method, "setting": setting, "seed": seed, "split": split, "group": name, "n": n,
                             "metric": "accuracy", "value": right / n, "low": float(low), "high": float(high)})
    return Scores.of(made)
