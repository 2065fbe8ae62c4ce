"""What a classifier of many classes is worth where only two are asked for: pairwise accuracy (BREEDS, A.7.2)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.scoring.metrics.classification import Table


class Pairwise(NamedTuple):
    """`wins[a, b]`: items of class a with a higher score for a than for b, a tie counts half; `size[a]`: its items."""

    wins: Floats
    size: Floats

    def accuracy(self, balanced: bool = False) -> Floats:
        """Class × class: the share of the two classes' items that are right when only these two are asked for.

            A[a, b] = (wins[a, b] + wins[b, a]) / (size[a] + size[b])

        `balanced` counts both classes alike whatever their sizes, as a task does that asks for equally many of each:
        A[a, b] = (wins[a, b] / size[a] + wins[b, a] / size[b]) / 2. NaN on the diagonal and where a class is empty.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            if balanced:
                share = self.wins / self.size[:, None]
                table = (share + share.T) / 2
            else:
                table = (self.wins + self.wins.T) / (self.size[:, None] + self.size)
        empty = self.size == 0
        table[empty | empty[:, None]] = math.nan
        np.fill_diagonal(table, math.nan)
        return np.asarray(table)


class PairMean(NamedTuple):
    """A mean over pairs of classes, its variance through the items, and how many comparisons it is made of."""

    value: float
    variance: float
    n: int


def pairwise(label: Ints, scores: Table, weight: Floats | None = None) -> Pairwise:
    """All pairs of classes at once: each item's own score against every other class's."""
    n_classes = scores.shape[1]
    wins = np.zeros((n_classes, n_classes))
    np.add.at(wins, label, _beats(label, scores) * (1.0 if weight is None else weight[:, None]))
    np.fill_diagonal(wins, 0.0)
    return Pairwise(wins, np.bincount(label, weight, n_classes).astype(np.float64))


def pairwise_accuracy(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Mean of the pairwise accuracy over all pairs of classes that have items. Higher is better.

    The paper estimates it from random pairs; here every pair counts once. With two classes it is accuracy.
    """
    table = pairwise(label, scores, weight).accuracy()
    return float(np.nanmean(table)) if not np.isnan(table).all() else math.nan


def over_pairs(label: Ints, scores: Table, pairs: Sequence[tuple[int, int]], *, balanced: bool = False) -> PairMean:
    """Mean of the pairwise accuracy over these pairs, each once.

    An item takes part in every pair of its class, so its parts are summed before their spread is taken:

        mean = Σ_i c_i,   Var = Σ_a n_a / (n_a − 1) Σ_{i in a} (c_i − mean over a)².
    """
    n_classes = scores.shape[1]
    chosen = np.zeros((n_classes, n_classes))
    for a, b in pairs:
        chosen[a, b] = chosen[b, a] = 1.0
    size = np.bincount(label, minlength=n_classes).astype(np.float64)
    chosen[size == 0] = chosen[:, size == 0] = 0.0
    if not chosen.any():
        return PairMean(math.nan, math.nan, 0)
    worth = chosen / (2 * size[:, None] if balanced else size[:, None] + size).clip(1) / (chosen.sum() / 2)
    each = (_beats(label, scores) * worth[label]).sum(axis=1)
    centre = np.bincount(label, each, n_classes) / size.clip(1)
    spread = np.bincount(label, (each - centre[label]) ** 2, n_classes)
    return PairMean(float(each.sum()), float((spread * size / (size - 1).clip(1)).sum()),
                    int((chosen.sum(axis=1) * size).sum()))


def _beats(label: Ints, scores: Table) -> Floats:
    """Items × classes: 1 where the item's own class has the higher score, ½ where both have the same."""
    own = scores[np.arange(len(label)), label][:, None]
    return np.asarray((own > scores) + 0.5 * (own == scores), np.float64)
