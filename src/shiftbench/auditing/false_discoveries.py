"""Which of many contexts may be reported: the false discovery rate of a list from which nested contexts are removed.

m contexts are tested, context j with p-value p_j. Contexts lie within each other ("night in Oslo" within "night"), and
a report shows the widest ones and folds the others below them. Benjamini and Hochberg's procedure (1995) controls the
share of false discoveries among all rejections, not among those that are left when some are folded away. Focused BH
(Katsevich, Sabatti and Bogomolov, 2023) counts what is left:

    t* = max {t : m t / |F(R_t)| ≤ q},    R_t = {j : p_j ≤ t}

and under dependence it needs |F| not to fall when p-values fall. "The widest" does not have that property (a wide
context that joins R folds many), so we count something smaller that has it. Every context belongs to one tree, whose
root is a candidate that holds all its items and lies within no other; trees are fixed before p-values are seen. G(R) is
the number of trees with a rejection. Contexts are folded within their tree alone, so every such tree still shows one:
|F(R)| ≥ G(R). With

    t* = max {t : m t / G(R_t) ≤ q},

    FDR = E[ |F ∩ nulls| / |F| ] ≤ Σ_null E[ 1{p_j ≤ t*} / G ] ≤ (q / m) Σ_null E[ 1{p_j ≤ t*} / t* ] ≤ q,

where the last step holds for p-values that are independent or positively dependent (PRDS; Benjamini and Yekutieli,
2001), since t* does not rise in any p_j. The same bound holds for every list between F and R. Under any dependence it
holds with q / (1 + 1/2 + … + 1/m) in place of q.
"""

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.core.errors import unknown

DEPENDENCE = ("prds", "any")


def trees(within: Bools) -> Ints:
    """The root of each context: of the widest ones that hold it, the first.

    `within[i, j]` says that context i lies within j, a strict partial order; contexts come best first.

    >>> trees(np.asarray([[0, 0, 0], [0, 0, 0], [1, 1, 0]], bool)).tolist()
    [0, 1, 0]
    """
    widest = ~within.any(axis=1)
    holds = (within | np.eye(len(within), dtype=np.bool_)) & widest
    return np.asarray(holds.argmax(axis=1), np.int64)


def check_dependence(dependence: str) -> None:
    """Refuse a dependence that has no law here."""
    if dependence not in DEPENDENCE:
        raise unknown("dependence", dependence, DEPENDENCE)


def harmonic(m: int) -> float:
    """1 + 1/2 + … + 1/m, the price of an unknown dependence."""
    return float((1 / np.arange(1, m + 1)).sum()) if m else 1.0


def q_values(p: Floats, root: Ints, dependence: str = "prds") -> Floats:
    """The smallest q at which each context is rejected: min over t ≥ p_j of m t / G(R_t), 1 at most.

    Where every context is its own root, these are Benjamini and Hochberg's adjusted p-values.
    """
    check_dependence(dependence)
    m = len(p)
    if not m:
        return np.zeros(0)
    order = np.argsort(p, kind="stable")
    first = np.zeros(m, np.bool_)
    first[np.unique(root[order], return_index=True)[1]] = True
    rate = m * p[order] / np.cumsum(first) * (harmonic(m) if dependence == "any" else 1.0)
    last = np.searchsorted(p[order], p[order], side="right") - 1  # ties enter together
    q = np.empty(m)
    q[order] = np.minimum.accumulate(rate[last][::-1])[::-1]
    return np.minimum(q, 1.0)


def miss(rejected: Bools, root: Ints, fdr: float, dependence: str = "prds") -> float:
    """The share of misses at which intervals are made, so that of those reported a share of `fdr` at most misses.

    Benjamini and Yekutieli's intervals (2005) for R of m selected parameters have level 1 − R q / m. We take G for R:
    then the false coverage rate holds for those shown as well as for all that are rejected.
    """
    m = max(1, len(rejected))
    count = max(1, len(np.unique(root[rejected])))
    return count * fdr / m / (harmonic(m) if dependence == "any" else 1.0)
