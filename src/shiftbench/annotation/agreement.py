"""How far annotators agree with each other, whoever is right."""

import math
from typing import NamedTuple

import numpy as np

from shiftbench.arrays import Floats, Ints
from shiftbench.rng import child
from shiftbench.stats import LEVEL, REPLICATES, interval


class Agreement(NamedTuple):
    """Raw agreement and kappa with their intervals, over `n` images that two annotators or more have sorted."""

    n: int
    raw: tuple[float, float, float]
    kappa: tuple[float, float, float]


def fleiss_kappa(counts: Ints) -> float:
    """Agreement beyond chance (Fleiss, 1971); `counts[i, j]` annotators gave item i category j.

        P_i = Σ_j n_ij (n_ij − 1) / (n_i (n_i − 1)),    p_j = Σ_i n_ij / Σ_i n_i
        κ = (mean P_i − Σ_j p_j²) / (1 − Σ_j p_j²)

    Items need not all have the same number of annotators; those with fewer than two say nothing and are left out. NaN
    where only one category was ever given: then chance alone agrees.
    """
    seen = counts[counts.sum(axis=1) > 1]
    if not len(seen):
        return math.nan
    chance = float(((seen.sum(axis=0) / seen.sum()) ** 2).sum())
    return (float(_agreeing(seen).mean()) - chance) / (1 - chance) if chance < 1 else math.nan


def agreement(
    counts: Ints, task: Ints, *, level: float = LEVEL, replicates: int = REPLICATES, seed: int = 0
) -> Agreement:
    """Agreement over the images of several tasks; `counts` is images × 2, `task` the task of each image.

    The two groups of one task have nothing to do with those of another, so chance is reckoned within each task and
    averaged over images: with one task this is Fleiss' kappa, and it does not matter which group comes first. Intervals
    are percentiles of a bootstrap over tasks, NaN with one task.
    """
    some = counts.sum(axis=1) > 1
    counts, task = counts[some], np.unique(task[some], return_inverse=True)[1]
    if not len(counts):
        return Agreement(0, (math.nan,) * 3, (math.nan,) * 3)
    n = np.bincount(task).astype(np.float64)
    raw = np.bincount(task, _agreeing(counts)).astype(np.float64)
    given = np.stack([np.bincount(task, counts[:, side]) for side in range(counts.shape[1])], axis=1)
    chance = n * ((given / given.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
    values = _both(np.ones((1, len(n))), n, raw, chance)[0]
    times = child(seed, "annotation", "agreement").multinomial(
        len(n), np.full(len(n), 1 / len(n)), size=replicates if len(n) > 1 else 0)
    low, high = interval(_both(times.astype(np.float64), n, raw, chance), level)
    first, second = ((float(values[one]), float(low[one]), float(high[one])) for one in (0, 1))
    return Agreement(len(counts), first, second)


def _both(weight: Floats, n: Floats, raw: Floats, chance: Floats) -> Floats:
    """Raw agreement and kappa for each row of weights over tasks."""
    with np.errstate(invalid="ignore", divide="ignore"):
        observed, expected = (weight @ raw) / (weight @ n), (weight @ chance) / (weight @ n)
        return np.stack([observed, np.where(expected < 1, (observed - expected) / (1 - expected), np.nan)], axis=1)


def _agreeing(counts: Ints) -> Floats:
    """Per item the share of pairs of its annotators who agree."""
    each = counts.sum(axis=1)
    return np.asarray((counts * (counts - 1)).sum(axis=1) / (each * (each - 1)))
