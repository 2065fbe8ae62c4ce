"""Metrics: plain functions of arrays, truth first; what is undefined is NaN.

Names follow scikit-learn: `error` and `nll` are better when lower, everything else when higher.
"""

from shiftbench.metrics.classification import METRICS, accuracy, auc, error, macro_f1, macro_recall, nll
from shiftbench.metrics.groups import by_group, worst
from shiftbench.metrics.tally import Tally, tally

__all__ = [
    "METRICS", "Tally", "accuracy", "auc", "by_group", "error", "macro_f1", "macro_recall", "nll", "tally", "worst",
]
