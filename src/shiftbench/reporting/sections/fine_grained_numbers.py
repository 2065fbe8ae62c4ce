"""The numbers of the figures of Wiles et al. (2022), with their intervals over seeds.

They are changes over the baseline, ranks, sorted means, the ablation and rank correlations. Every interval is Student's
over seeds. Runs of one collection with the same seed may share low-data items, so they are averaged within a seed
first; collections are independent of each other.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats
from shiftbench.reporting.sections.fine_grained_scores import (
    FAMILIES,
    FEWEST,
    ONLY,
    FineGrainedScores,
    Place,
    family_of,
)
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
        """Whether the mean is above a number; None where the interval contains it or is NaN."""
        return True if self.low > than else False if self.high < than else None


def estimate(values: Floats, collections: Sequence[str], level: float = LEVEL) -> Estimate:
    """The mean of benchmarks × seeds over seeds, then over the benchmarks of a collection, then over collections.

        x̄ = 1/D Σ_d x̄_d,     Var(x̄) = 1/D² Σ_d s_d² / k_d,     s_d²: of the seeds' means over the benchmarks of d

    with degrees of freedom after Welch and Satterthwaite; for one collection this is Student's interval of k seeds. A
    benchmark that lacks seeds others have is centred on its own, and the fewest seeds of any of them are k.
    """
    kept = np.isfinite(values).any(axis=1)
    owner = np.asarray(collections, np.str_)[kept]
    summaries = [_collection(values[kept][owner == name]) for name in dict.fromkeys(owner.tolist())]
    if not summaries:
        return Estimate(math.nan, math.nan, math.nan, 0, 0, 0)
    middle = float(np.mean([summary[0] for summary in summaries]))
    variance = np.asarray([summary[1] for summary in summaries])
    k = np.asarray([summary[2] for summary in summaries])
    half = math.nan
    if k.min() > 1:
        total = float(variance.sum())
        freedom = total**2 / float((variance**2 / (k - 1)).sum()) if total > 0 else float(k.min() - 1)
        half = float(student(freedom, level)) * math.sqrt(total) / len(summaries)
    return Estimate(middle, middle - half, middle + half, int(k.min()), int(kept.sum()), len(summaries))


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


class Change(NamedTuple):
    """Percentage change of a method over the baseline, against N, p or n."""

    method: str
    family: str
    points: Mapping[float, Estimate]
    best: bool  # the highest of its family on average over what is varied


def changes(scores: FineGrainedScores, axis: str, level: float = LEVEL) -> list[Change]:
    """100 (m − b) / b of the metric on test, the mean over seeds and collections (Figures 3, 4, 6 and 7)."""
    rows = rows_by(scores, axis)
    lines = []
    for method in scores.methods[1:]:
        change = scores.change(method)
        points = {x: estimate(change[numbers], scores.collections(numbers), level)
                  for x, numbers in sorted(rows.items())}
        points = {x: point for x, point in points.items() if point.benchmarks}
        if points:
            lines.append(Change(method, family_of(method), points, False))
    best = {family: max((line for line in lines if line.family == family), default=None,
                        key=lambda line: (len(line.points), np.mean([point.value for point in line.points.values()])))
            for family in FAMILIES}
    return [line._replace(best=line is best[line.family]) for line in lines]


def rows_by(scores: FineGrainedScores, axis: str) -> dict[float, list[int]]:
    """The benchmarks at each N, p or n. Under noise, p = 0 is the same shift without the condition."""
    rows: dict[float, list[int]] = {}
    if axis not in ("noise", "size"):
        for row in scores.where(shift=axis, condition=""):
            rows.setdefault(float(scores.places[row].n), []).append(row)
        return rows
    for row in scores.where(condition=axis):
        rows.setdefault(scores.places[row].strength, []).append(row)
    if axis == "noise":
        noisy = {scores.places[row].base for row in scores.where(condition="noise")}
        plain = [row for row in scores.where(condition="") if scores.places[row].base in noisy]
        rows |= {0.0: plain} if plain else {}
    return rows


class Ranked(NamedTuple):
    """The ranks of a method under unseen data shift, 1 the best, one per benchmark and seed."""

    method: str
    family: str
    median: float
    ranks: tuple[tuple[str, int, float], ...]  # benchmark, seed, rank


def ranks(scores: FineGrainedScores) -> list[Ranked]:
    """Rank the methods of every unseen benchmark and seed, and sort them by their median (Figure 5).

    Equal scores share the mean of their ranks. A method without a score somewhere has no rank there.
    """
    by_method: dict[str, list[tuple[str, int, float]]] = {}
    for row in scores.where(shift="unseen", condition=""):
        for depth, seed in enumerate(scores.seeds):
            scored = scores.values[row, :, depth]
            here = np.flatnonzero(np.isfinite(scored))
            for at, rank in zip(here, placed(-scored[here]), strict=True):
                by_method.setdefault(scores.methods[at], []).append((scores.places[row].benchmark, seed, float(rank)))
    ranked = [Ranked(method, family_of(method), float(np.median([rank for *_, rank in ranks])), tuple(ranks))
              for method, ranks in by_method.items()]
    return sorted(ranked, key=lambda row: (row.median, float(np.mean([rank for *_, rank in row.ranks])), row.method))


def placed(values: Floats) -> Floats:
    """Ranks from 1, the smallest first; equal values share the mean of theirs.

    >>> placed(np.asarray([0.2, 0.1, 0.2])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[group])


class MeanScore(NamedTuple):
    """A method's score on one benchmark: mean and interval, and the standard deviation over seeds."""

    method: str
    family: str
    mean: Estimate
    deviation: float  # NaN with one seed


class Sorted(NamedTuple):
    """The methods of one benchmark from the best to the worst."""

    place: Place
    bars: tuple[MeanScore, ...]


def bars(scores: FineGrainedScores, shift: str, level: float = LEVEL) -> list[Sorted]:
    """Mean and standard deviation over seeds of every method on every benchmark of a shift (Figures 10 to 12)."""
    panels = []
    for row in scores.where(shift=shift, condition=""):
        mean_scores = []
        for at, method in enumerate(scores.methods):
            known = scores.values[row, at][np.isfinite(scores.values[row, at])]
            if len(known):
                deviation = float(known.std(ddof=1)) if len(known) > 1 else math.nan
                mean_scores.append(MeanScore(method, family_of(method), estimate(known[None], [""], level), deviation))
        if mean_scores:
            mean_scores.sort(key=lambda bar: (-bar.mean.value, bar.method))
            panels.append(Sorted(scores.places[row], tuple(mean_scores)))
    return panels


class Ablated(NamedTuple):
    """What each operation of RandAugment alone gives on one benchmark, in points from the mean of them all."""

    place: Place
    operations: Mapping[str, Estimate]
    baseline: Estimate


def ablation(scores: FineGrainedScores, level: float = LEVEL) -> list[Ablated]:
    """100 (f_o − 1/O Σ f_o') of the metric with operation o, per seed, then the mean over seeds (Figure 8).

    A seed counts if every operation of the benchmark has a score. The unseen shift, which the paper has, comes first.
    """
    ablations = []
    for row, place in sorted(enumerate(scores.places), key=lambda pair: pair[1].shift != "unseen"):
        here = np.flatnonzero(np.isfinite(scores.ablation[row]).any(axis=1))
        if len(here) < 2:
            continue
        by_operation = scores.ablation[row, here]
        middle = by_operation.mean(axis=0)  # NaN where an operation lacks the seed
        operations = {scores.operations[at].removeprefix(ONLY): estimate(100 * (line - middle)[None], [""], level)
                      for at, line in zip(here, by_operation, strict=True)}
        baseline = estimate(100 * (scores.base[row] - middle)[None], [""], level)
        ablations.append(Ablated(place, operations, baseline))
    return [ablated for ablated in ablations if any(point.benchmarks for point in ablated.operations.values())]


# Do two benchmarks put the methods in the same order?

def agreement(
    scores: FineGrainedScores, pairs: Sequence[tuple[int, int]], level: float = LEVEL
) -> tuple[Estimate, Estimate]:
    """Spearman's ρ of the methods' scores between the two benchmarks of each pair, and how far seeds are above it.

        across_s = ρ(A_s, B_s),     lost_s = mean over s' ≠ s of ½ (ρ(A_s, A_s') + ρ(B_s, B_s'))  −  across_s

    Single runs are noisy, so ρ is below 1 even between seeds of one benchmark; only what is lost beyond that is due to
    the benchmarks. Both are per seed; the interval of ρ is cut at −1 and 1. Pairs of seeds overlap, so the interval of
    `lost` is a guide, not exact.
    """
    across, lost = (np.full((len(pairs), len(scores.seeds)), np.nan) for _ in range(2))
    for at, (first, second) in enumerate(pairs):
        a, b = scores.values[first].T, scores.values[second].T
        for seed in range(len(scores.seeds)):
            across[at, seed] = correlation(a[seed], b[seed])
            within = [correlation(side[seed], side[again]) for side in (a, b)
                      for again in range(len(scores.seeds)) if again != seed]
            known = [value for value in within if math.isfinite(value)]
            lost[at, seed] = np.mean(known) - across[at, seed] if known else math.nan
    collections = scores.collections([first for first, _ in pairs])
    rho = estimate(across, collections, level)
    return rho._replace(low=max(-1.0, rho.low), high=min(1.0, rho.high)) if rho.seeds > 1 else rho, estimate(
        lost, collections, level)


def correlation(first: Floats, second: Floats) -> float:
    """Spearman's ρ over the methods that both have; NaN with fewer than FEWEST, or where both sides are constant.

    Where only one side is constant, ρ is 0.

    >>> correlation(np.asarray([1.0, 2, 3, 4]), np.asarray([10.0, 30, 20, 40])).__round__(2)
    0.8
    """
    both = np.isfinite(first) & np.isfinite(second)
    if both.sum() < FEWEST:
        return math.nan
    a, b = (ranks - ranks.mean() for ranks in (placed(first[both]), placed(second[both])))
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0 else 0.0 if a.any() or b.any() else math.nan
