"""Do two benchmarks put the methods in the same order? Rank correlations, and how much seeds alone take from them."""

import math
from collections.abc import Sequence

import numpy as np

from shiftbench.core.arrays import Floats
from shiftbench.reporting.fine_grained import FEWEST, Study
from shiftbench.reporting.fine_grained_numbers import Estimate, estimate, placed
from shiftbench.scoring.intervals import LEVEL


def agreement(study: Study, pairs: Sequence[tuple[int, int]], level: float = LEVEL) -> tuple[Estimate, Estimate]:
    """Spearman's ρ of the methods' scores between the two benchmarks of each pair, and how far seeds are above it.

        across_s = ρ(A_s, B_s),     lost_s = mean over s' ≠ s of ½ (ρ(A_s, A_s') + ρ(B_s, B_s'))  −  across_s

    Single runs are noisy, so ρ is below 1 even between seeds of one benchmark; only what is lost beyond that tells of
    the benchmarks. Both are per seed; the interval of ρ is cut at −1 and 1. Pairs of seeds overlap, so the interval of
    `lost` is a guide, not exact.
    """
    across, lost = (np.full((len(pairs), len(study.seeds)), np.nan) for _ in range(2))
    for at, (one, other) in enumerate(pairs):
        a, b = study.values[one].T, study.values[other].T
        for seed in range(len(study.seeds)):
            across[at, seed] = correlation(a[seed], b[seed])
            within = [correlation(side[seed], side[again]) for side in (a, b)
                      for again in range(len(study.seeds)) if again != seed]
            known = [value for value in within if math.isfinite(value)]
            lost[at, seed] = np.mean(known) - across[at, seed] if known else math.nan
    collections = study.collections([one for one, _ in pairs])
    found = estimate(across, collections, level)
    return found._replace(low=max(-1.0, found.low), high=min(1.0, found.high)) if found.seeds > 1 else found, estimate(
        lost, collections, level)


def correlation(one: Floats, other: Floats) -> float:
    """Spearman's ρ over the methods that both have; NaN with fewer than FEWEST, or where both put all of them level.

    Where one alone does, its order says nothing of the other's: 0.

    >>> correlation(np.asarray([1.0, 2, 3, 4]), np.asarray([10.0, 30, 20, 40])).__round__(2)
    0.8
    """
    both = np.isfinite(one) & np.isfinite(other)
    if both.sum() < FEWEST:
        return math.nan
    a, b = (ranks - ranks.mean() for ranks in (placed(one[both]), placed(other[both])))
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0 else 0.0 if a.any() or b.any() else math.nan
