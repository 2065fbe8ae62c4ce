"""What every item contributes to a metric that is no plain mean over items."""

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.scoring.metrics.tally import tally


def f1_items(label: Ints, predicted: Ints, n_classes: int) -> Floats:
    """Runs × items: contributions whose mean over the items is macro F1, and whose spread is its error to first order.

    With F_c = 2 h_c / d_c, h_c the hits and d_c the items of class c plus those given c, C classes in the truth:

        c_i = F + (n / C) (2 · 1[ŷ_i = y_i] / d_y − F_y / d_y − F_ŷ / d_ŷ),    F = mean of F_c.

    A class that is given but absent from the truth has no term. `predicted` is runs × items.
    """
    runs, n = predicted.shape
    run = np.repeat(np.arange(runs), n)
    truth = np.tile(label, runs)
    counts = tally(truth, predicted.ravel(), run, runs, n_classes=n_classes)
    classes = np.unique(label)
    both = (counts.truth + counts.predicted).reshape(runs, len(classes))
    f1 = 2 * counts.hits.reshape(runs, len(classes)) / both
    per_item, penalty = np.zeros((runs, n_classes)), np.zeros((runs, n_classes))
    per_item[:, classes], penalty[:, classes] = 2 / both, f1 / both
    given = np.take_along_axis(penalty, predicted, axis=1)
    each = (predicted == label) * per_item[:, label] - penalty[:, label] - given
    return np.asarray(f1.mean(axis=1, keepdims=True) + each * (n / len(classes)))
