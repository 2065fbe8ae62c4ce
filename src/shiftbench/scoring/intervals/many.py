"""Many tests at once: p-values made larger so that chance alone does not find something."""

import numpy as np

from shiftbench.core.arrays import Floats


def holm(p: Floats) -> Floats:
    """Holm's step-down correction: refuse where it is below α, and any false refusal has probability α at most.

    The i-th smallest of m is multiplied by m − i + 1, and is never below a smaller one's. Holds under any dependence.

    >>> holm(np.asarray([0.04, 0.01, 0.03])).round(3).tolist()
    [0.06, 0.03, 0.06]
    """
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _back(np.minimum(steps, 1.0), order)


def benjamini_hochberg(p: Floats) -> Floats:
    """Benjamini and Hochberg's step-up correction: of what is refused below α, a share of α is false on average.

    The i-th smallest of m is multiplied by m / i, and is never above a larger one's. Holds for tests that are
    independent or positively dependent.
    """
    order = np.argsort(p, kind="stable")
    steps = p[order] * len(p) / np.arange(1, len(p) + 1)
    return _back(np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0), order)


def _back(values: Floats, order: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Floats:
    placed = np.empty_like(values)
    placed[order] = values
    return placed
