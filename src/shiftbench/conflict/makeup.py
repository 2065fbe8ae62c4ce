"""What batches are made of: how many items of each training subset, and which."""

import numpy as np

from shiftbench.arrays import Floats, Ints
from shiftbench.rng import child
from shiftbench.training.batches import Batches

CONCENTRATION = 3.0
"""Of the Dirichlet law of `varied`: a batch is as uneven as one dealt by 1 + CONCENTRATION subsets in equal parts."""


def batches(code: Ints, kind: str, size: int, steps: int, seed: int) -> Ints:
    """Numbers of training items, steps × size; `code` is the subset of each item, ascending.

    `plain` (the paper): all items in random order, again and again. The share s_i of a subset then varies from batch to
    batch by chance alone, with variance (1/m)(1 − 1/m) / B for m subsets and B items.

    `varied`: s ~ Dirichlet(A/m, …, A/m) with A = CONCENTRATION, then B items by these shares, drawn with replacement.

        Var s_i = (1/m)(1 − 1/m) (B + A) / (B (1 + A))

    The expected step is the same, so for a small lr the path is the same too, but the regressor has (B + A) / (1 + A)
    times the variance, 17 times at B = 64: the same precision in fewer steps.
    """
    n = int(code.max()) + 1
    if kind == "plain":
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
