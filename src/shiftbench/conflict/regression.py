"""From steps to effects: a regression of loss drops on the make-up of batches, and its bootstrap intervals."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints, child
from shiftbench.scoring.intervals import LEVEL, REPLICATES
from shiftbench.training.batches import Batches

STRETCH = 10
"""Consecutive steps that share an intercept."""
ENOUGH = 5
"""From this many repeats on, whole repeats are resampled."""


class Effects(NamedTuple):
    """`value[i, j]`: by how much a step on training subset i alone lowers the loss of evaluation subset j."""

    value: Floats  # training × evaluation
    replicates: Floats  # replicates × training × evaluation
    resampled: str  # "repeats" or "stretches"
    units: int  # how many of them there are


class _Sums(NamedTuple):
    """The sums that the regression needs for a unit, unit first: it depends on the steps only through them."""

    n: Floats
    share: Floats  # Σ s
    drop: Floats  # Σ d
    square: Floats  # Σ (s − s̄)(s − s̄)ᵀ, means by stretch
    product: Floats  # Σ (s − s̄)(d − d̄)ᵀ


def effects(
    share: Sequence[Floats], drop: Sequence[Floats], *, replicates: int = REPLICATES, seed: int = 0
) -> Effects:
    """Regress drops on shares over all steps t of all repeats; one pair of arrays (steps × subsets) per repeat.

        d_tj = a_pj + Σ_i s_ti γ_ij + ε_tj,        value_ij = γ_ij + mean_t d_tj − Σ_i' mean_t s_ti' γ_i'j

    d_tj is the drop of evaluation subset j's loss at step t, s_ti the share of training subset i in the batch, p the
    stretch of STRETCH steps that t lies in. The paper says "linear regression" and no more. Our reading: since shares
    sum to 1, an intercept and a coefficient for every subset cannot be told apart, so γ alone says only which subsets
    do more than others. We want the sign of the effect itself, and add the mean drop back: value_ij is the drop that a
    batch of subset i alone would bring. The intercepts a_pj by stretch take up that losses fall fast at first and
    slowly later, which has nothing to do with the batches and would be the largest part of ε.

    What is resampled. Steps of one repeat follow each other on one path: their errors go together, and a bootstrap of
    single steps would be too sure. From ENOUGH repeats on, whole repeats are drawn with replacement (each has a start
    and batches of its own), so the interval holds for a new training. With fewer, stretches are drawn within each
    repeat, and the interval holds for these starts only; it is a little wide, as stretches also differ by their time.
    Training items and evaluation items are the same throughout: the interval says nothing about other items.
    """
    by_repeat = [_sums(*pair) for pair in zip(share, drop, strict=True)]
    total = _Sums(*(np.concatenate([values.sum(axis=0, keepdims=True) for values in field])
                    for field in zip(*by_repeat, strict=True)))
    rng = child(seed, "bootstrap", "conflicts")
    whole_repeats = len(share) >= ENOUGH
    units = total if whole_repeats else _Sums(*(np.concatenate(field) for field in zip(*by_repeat, strict=True)))
    owner = np.zeros(len(share), np.int64) if whole_repeats else np.repeat(np.arange(len(share)),
                                                                   [len(sums.n) for sums in by_repeat])
    value = _solve(total, np.ones((1, len(share))))[0]
    return Effects(value, _solve(units, _weights(rng, owner, replicates)), "repeats" if whole_repeats else "stretches",
                   len(units.n))


def expanded(units: int, level: float = LEVEL) -> float:
    """The level at which a percentile interval of few resampled units covers what it should (Hesterberg, 2015).

        α' / 2 = Φ(−√(n / (n − 1)) t_{n−1, 1−α/2})

    n units drawn from themselves vary only √((n − 1) / n) as much as they should, with normal tails for Student's.
    """
    from scipy.stats import norm, t

    if units < 2:
        return level
    return float(1 - 2 * norm.cdf(-np.sqrt(units / (units - 1)) * t.ppf((1 + level) / 2, units - 1)))


def _sums(share: Floats, drop: Floats) -> _Sums:
    """Sums of one repeat by stretch."""
    starts = np.arange(0, len(share), STRETCH)
    n = np.diff(np.append(starts, len(share))).astype(np.float64)
    of_share, of_drop = np.add.reduceat(share, starts), np.add.reduceat(drop, starts)
    s = share - np.repeat(of_share / n[:, None], n.astype(np.int64), axis=0)
    d = drop - np.repeat(of_drop / n[:, None], n.astype(np.int64), axis=0)
    stretches = [slice(first, first + STRETCH) for first in starts.tolist()]
    return _Sums(n, of_share, of_drop, np.stack([s[stretch].T @ s[stretch] for stretch in stretches]),
                 np.stack([s[stretch].T @ d[stretch] for stretch in stretches]))


def _weights(rng: np.random.Generator, owner: Ints, replicates: int) -> Floats:
    """Replicates × units: how often each is drawn, as many from each owner as it has."""
    counts = np.bincount(owner)
    return np.concatenate([rng.multinomial(k, np.full(k, 1 / k), size=replicates) for k in counts], axis=1).astype(
        np.float64)


def _solve(units: _Sums, weight: Floats) -> Floats:
    """Values for each row of weights: rows × training × evaluation."""
    n, share, drop, square, product = (np.tensordot(weight, field, axes=1) for field in units)
    m = share.shape[1]
    # Shares sum to 1, so `square` is singular along (1, …, 1); with that direction filled in, the solution is the one
    # whose γ sum to 0. A millionth of ridge carries replicates in which a subset hardly occurs.
    scale = np.trace(square, axis1=1, axis2=2)[:, None, None] / m
    gamma = np.linalg.solve(square + scale * (np.full((m, m), 1 / m) + 1e-6 * np.eye(m)), product)
    offset = (drop - np.einsum("ri,rij->rj", share, gamma)) / n[:, None]
    return np.asarray(gamma + offset[:, None, :])


# What batches are made of: how many items of each training subset, and which


CONCENTRATION = 3.0
"""Concentration of the Dirichlet law of `varied`: a batch is as uneven as one of 1 + CONCENTRATION equal subsets."""


def batches(code: Ints, makeup: str, size: int, steps: int, seed: int) -> Ints:
    """Numbers of training items, steps × size; `code` is the subset of each item, ascending.

    `plain` (the paper): all items in random order, again and again. The share s_i of a subset then varies from batch to
    batch by chance alone, with variance (1/m)(1 − 1/m) / B for m subsets and B items.

    `varied`: s ~ Dirichlet(A/m, …, A/m) with A = CONCENTRATION, then B items by these shares, drawn with replacement.

        Var s_i = (1/m)(1 − 1/m) (B + A) / (B (1 + A))

    The expected step is the same, so for a small lr the path is the same too, but the regressor has (B + A) / (1 + A)
    times the variance, 17 times at B = 64: the same precision in fewer steps.
    """
    n = int(code.max()) + 1
    if makeup == "plain":
        return Batches(np.zeros(len(code), np.int64), size, seed).block(0, steps)
    rng = child(seed, "makeup")
    counts = rng.multinomial(size, rng.dirichlet(np.full(n, CONCENTRATION / n), size=steps))
    subset = np.repeat(np.tile(np.arange(n), steps), counts.ravel()).reshape(steps, size)
    start, sizes = np.searchsorted(code, np.arange(n)), np.bincount(code)
    return np.asarray(start[subset] + (rng.random(subset.shape) * sizes[subset]).astype(np.int64))


def shares(batch: Ints, code: Ints) -> Floats:
    """Steps × subsets: the share of each subset in each batch."""
    n, (steps, size) = int(code.max()) + 1, batch.shape
    cell = np.arange(steps)[:, None] * n + code[batch]
    return np.asarray(np.bincount(cell.ravel(), minlength=steps * n).reshape(steps, n) / size)
