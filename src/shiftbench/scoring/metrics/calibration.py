"""Expected calibration error as a mean over items, and how far chance alone lifts it.

Our reading of "ECE" is the one that NOOCh cites (Guo et al., 2017): the predicted class's probability, also with two
classes, in 15 bins of equal width, each with its upper end:

    ECE = Σ_b n_b / n |accuracy of b − mean probability of b|.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.scoring.metrics.classification import Table

BINS = 15
SURE = 2.0
"""Standard errors from which on the side to which a bin errs is taken as known."""


class Calibration(NamedTuple):
    """ECE of each run as the mean over its items, and what its absolute values may owe to chance."""

    items: Floats  # runs × items: ± (probability − right), its bin's sign
    lifted: Floats  # runs


def calibration(hits: Bools, confidence: Floats, bins: int = BINS) -> Calibration:
    """Contributions of every item: their mean is ECE, their spread its error while no bin changes sides.

    An absolute value is never below 0: a model that is calibrated has an ECE above 0. With e_b the sum of a bin's
    deviations d and δ_b its expectation, |e_b| − |δ_b| is at most |e_b − δ_b|, whose mean is √(2/π) of its standard
    error. `lifted` sums that over the bins whose side is unknown, |e_b| ≤ 2 √Σd²: how much too high ECE may be.
    """
    runs, n = confidence.shape
    deviation = confidence - hits
    # A third of fifteen bins is an edge, and rounding must not decide on which side of it an item lies.
    place = np.clip(np.ceil(confidence * bins - 1e-9).astype(np.int64) - 1, 0, bins - 1)
    cell = place + np.arange(runs)[:, None] * bins
    total = np.bincount(cell.ravel(), deviation.ravel(), runs * bins)
    error = np.sqrt(np.bincount(cell.ravel(), (deviation**2).ravel(), runs * bins))
    items = deviation * np.where(total < 0, -1.0, 1.0)[cell]
    unsure = np.where(np.abs(total) <= SURE * error, error, 0.0).reshape(runs, bins).sum(axis=1)
    return Calibration(items, math.sqrt(2 / math.pi) * unsure / max(1, n))


def confidences(scores: npt.NDArray[np.floating]) -> Floats:
    """The predicted class's probability; `scores` is runs × classes × items."""
    shifted = np.asarray(scores - scores.max(axis=1, keepdims=True), np.float64)
    return np.asarray(1 / np.exp(shifted).sum(axis=1))


def ece(label: Ints, scores: Table, bins: int = BINS) -> float:
    """Expected calibration error. Lower is better; NaN without items.

    >>> round(ece(np.array([0, 1]), np.log([[0.75, 0.25], [0.75, 0.25]])), 6)
    0.25
    """
    if not len(label):
        return math.nan
    confidence = confidences(scores.T[None])
    return float(calibration((scores.argmax(axis=1) == label)[None], confidence, bins).items.mean())
