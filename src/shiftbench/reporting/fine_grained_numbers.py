"""The numbers of a fine-grained study's figures: changes over the baseline, ranks, sorted means, the ablation.

Every interval is Student's over seeds. Runs of one collection with the same seed may share low-data items, so they are
averaged within a seed first; collections are independent of each other.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats
from shiftbench.reporting.fine_grained import FAMILIES, ONLY, Place, Study, family_of
from shiftbench.scoring.intervals import LEVEL, student

AXES = ("spurious", "low_data", "noise", "size")
"""What a change may be drawn against: N of the first two, p and n of the conditions."""


class Estimate(NamedTuple):
    """A mean over benchmarks with its interval over seeds; without a second seed the interval is NaN."""

    value: float
    low: float
    high: float
    seeds: int  # of the benchmark that has fewest
    benchmarks: int
    collections: int

    def above(self, than: float = 0.0) -> bool | None:
        """Whether it is more than a number; None where the interval holds both answers."""
        return True if self.low > than else False if self.high < than else None


def estimate(values: Floats, collections: Sequence[str], level: float = LEVEL) -> Estimate:
    """The mean of benchmarks × seeds over seeds, then over the benchmarks of a collection, then over collections.

        x̄ = 1/D Σ_d x̄_d,     Var(x̄) = 1/D² Σ_d s_d² / k_d,     s_d²: of the seeds' means over the benchmarks of d

    with degrees of freedom after Welch and Satterthwaite; for one collection this is Student's interval of k seeds. A
    benchmark that lacks seeds others have is centred on its own, and the fewest seeds of any of them are k.
    """
    kept = np.isfinite(values).any(axis=1)
    owner = np.asarray(collections, np.str_)[kept]
    parts = [_collection(values[kept][owner == name]) for name in dict.fromkeys(owner.tolist())]
    if not parts:
        return Estimate(math.nan, math.nan, math.nan, 0, 0, 0)
    middle, variance = float(np.mean([part[0] for part in parts])), np.asarray([part[1] for part in parts])
    k = np.asarray([part[2] for part in parts])
    half = math.nan
    if k.min() > 1:
        total = float(variance.sum())
        freedom = total**2 / float((variance**2 / (k - 1)).sum()) if total > 0 else float(k.min() - 1)
        half = float(student(freedom, level)) * math.sqrt(total) / len(parts)
    return Estimate(middle, middle - half, middle + half, int(k.min()), int(kept.sum()), len(parts))


def _collection(values: Floats) -> tuple[float, float, int]:
    """Mean, variance of the mean and number of seeds of one collection's benchmarks × seeds."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    means = np.where(known, values, 0).sum(axis=1) / count
    apart = np.where(known, values - means[:, None], 0).sum(axis=0)
    seeds = known.any(axis=0)
    apart = apart[seeds] / known.sum(axis=0)[seeds]
    k = int(count.min())
    variance = float((apart**2).sum()) / (int(seeds.sum()) - 1) / k if k > 1 else math.nan
    return float(means.mean()), variance, k


def leads(values: Floats, against: Floats) -> Floats:
    """For every seed, how far the method that is best on the other seeds is ahead of `against`.

    The best of many is also the luckiest, so the seed that a lead is measured on has no part in the choice. `values` is
    methods × seeds; NaN where a seed has nothing to choose by. The choices of two seeds share the others, so Student's
    interval over them is a little short: of 3 to 19 equal methods on 2 to 5 seeds it was above 0 in 3 to 7 % of
    simulated tables, where 2.5 % are meant and taking the best by its own mean gives 5 to 15 %.
    """
    ahead = values - against
    known = np.isfinite(ahead)
    filled = np.where(known, ahead, 0)
    others = known.sum(axis=1, keepdims=True) - known
    rest = (filled.sum(axis=1, keepdims=True) - filled) / np.maximum(others, 1)
    usable = known & (others > 0)
    chosen = np.where(usable, rest, -np.inf).argmax(axis=0)
    seeds = np.arange(values.shape[1])
    return np.where(usable.any(axis=0), ahead[chosen, seeds], np.nan)


class Line(NamedTuple):
    """Percentage change of a method over the baseline, against N, p or n."""

    method: str
    family: str
    points: Mapping[float, Estimate]
    best: bool  # the highest of its family on average over what is varied


def changes(study: Study, axis: str, level: float = LEVEL) -> list[Line]:
    """100 (m − b) / b of macro F1 on test, the mean over seeds and collections (Figures 3, 4, 6 and 7)."""
    rows = rows_by(study, axis)
    lines = []
    for method in study.methods[1:]:
        change = study.change(method)
        points = {x: estimate(change[mine], study.collections(mine), level) for x, mine in sorted(rows.items())}
        points = {x: point for x, point in points.items() if point.benchmarks}
        if points:
            lines.append(Line(method, family_of(method), points, False))
    best = {family: max((line for line in lines if line.family == family), default=None,
                        key=lambda line: (len(line.points), np.mean([one.value for one in line.points.values()])))
            for family in FAMILIES}
    return [line._replace(best=line is best[line.family]) for line in lines]


def rows_by(study: Study, axis: str) -> dict[float, list[int]]:
    """The benchmarks at each N, p or n. Under noise, p = 0 is the same shift without the condition."""
    rows: dict[float, list[int]] = {}
    if axis not in ("noise", "size"):
        for row in study.where(shift=axis, condition=""):
            rows.setdefault(float(study.places[row].n), []).append(row)
        return rows
    for row in study.where(condition=axis):
        rows.setdefault(study.places[row].strength, []).append(row)
    if axis == "noise":
        noisy = {study.places[row].base for row in study.where(condition="noise")}
        plain = [row for row in study.where(condition="") if study.places[row].base in noisy]
        rows |= {0.0: plain} if plain else {}
    return rows


class Ranked(NamedTuple):
    """The ranks of a method under unseen data shift, 1 the best, one per benchmark and seed."""

    method: str
    family: str
    median: float
    ranks: tuple[tuple[str, int, float], ...]  # benchmark, seed, rank


def ranks(study: Study) -> list[Ranked]:
    """Rank the methods of every unseen benchmark and seed, and sort them by their median (Figure 5).

    Equal scores share the mean of their ranks. A method without a score somewhere has no rank there.
    """
    found: dict[str, list[tuple[str, int, float]]] = {}
    for row in study.where(shift="unseen", condition=""):
        for depth, seed in enumerate(study.seeds):
            scored = study.values[row, :, depth]
            here = np.flatnonzero(np.isfinite(scored))
            for at, rank in zip(here, placed(-scored[here]), strict=True):
                found.setdefault(study.methods[at], []).append((study.places[row].benchmark, seed, float(rank)))
    made = [Ranked(method, family_of(method), float(np.median([rank for *_, rank in listed])), tuple(listed))
            for method, listed in found.items()]
    return sorted(made, key=lambda one: (one.median, float(np.mean([rank for *_, rank in one.ranks])), one.method))


def placed(values: Floats) -> Floats:
    """Ranks from 1, the smallest first; equal values share the mean of theirs.

    >>> placed(np.asarray([0.2, 0.1, 0.2])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[group])


class Bar(NamedTuple):
    """A method's macro F1 on one benchmark: mean and interval, and the standard deviation over seeds."""

    method: str
    family: str
    mean: Estimate
    deviation: float  # NaN with one seed


class Panel(NamedTuple):
    """The methods of one benchmark from the best to the worst."""

    place: Place
    bars: tuple[Bar, ...]


def bars(study: Study, shift: str, level: float = LEVEL) -> list[Panel]:
    """Mean and standard deviation over seeds of every method on every benchmark of a shift (Figures 10 to 12)."""
    panels = []
    for row in study.where(shift=shift, condition=""):
        made = []
        for at, method in enumerate(study.methods):
            known = study.values[row, at][np.isfinite(study.values[row, at])]
            if len(known):
                deviation = float(known.std(ddof=1)) if len(known) > 1 else math.nan
                made.append(Bar(method, family_of(method), estimate(known[None], [""], level), deviation))
        if made:
            panels.append(Panel(study.places[row], tuple(sorted(made, key=lambda bar: (-bar.mean.value, bar.method)))))
    return panels


class Ablated(NamedTuple):
    """What each operation of RandAugment alone gives on one benchmark, in points from the mean of them all."""

    place: Place
    operations: Mapping[str, Estimate]
    baseline: Estimate


def ablation(study: Study, level: float = LEVEL) -> list[Ablated]:
    """100 (f_o − 1/O Σ f_o') of macro F1 with operation o, per seed, then the mean over seeds (Figure 8).

    A seed counts where every operation of the benchmark has a score. The paper's shift, the unseen one, comes first.
    """
    made = []
    for row, place in sorted(enumerate(study.places), key=lambda pair: pair[1].shift != "unseen"):
        here = np.flatnonzero(np.isfinite(study.ablation[row]).any(axis=1))
        if len(here) < 2:
            continue
        own = study.ablation[row, here]
        middle = own.mean(axis=0)  # NaN where an operation lacks the seed
        told = {study.operations[at].removeprefix(ONLY): estimate(100 * (line - middle)[None], [""], level)
                for at, line in zip(here, own, strict=True)}
        made.append(Ablated(place, told, estimate(100 * (study.values[row, 0] - middle)[None], [""], level)))
    return [one for one in made if any(told.benchmarks for told in one.operations.values())]
