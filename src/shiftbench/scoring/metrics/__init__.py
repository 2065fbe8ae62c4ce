"""Metrics: plain functions of arrays, truth first; what is undefined is NaN.

Names follow scikit-learn: `error` and `nll` are better when lower, everything else when higher.
"""

from shiftbench.scoring.metrics.classification import (
    METRICS,
    Table,
    accuracy,
    auc,
    error,
    has_probabilities,
    losses,
    macro_f1,
    macro_recall,
    nll,
)
from shiftbench.scoring.metrics.groups import by_group, worst
from shiftbench.scoring.metrics.items import f1_items
from shiftbench.scoring.metrics.tally import Tally, tally

LOWER_IS_BETTER = (
    "accuracy_gap", "ece", "error", "mse", "nll", "worst_group_mse", "worst_group_nll", "worst_hard_error",
    "worst_hard_nll",
)
"""Of all that is scored; everything else is better when higher."""

__all__ = [
    "LOWER_IS_BETTER", "METRICS", "Table", "Tally", "accuracy", "auc", "by_group", "error", "f1_items",
    "has_probabilities", "losses", "macro_f1", "macro_recall", "nll", "tally", "worst",
]
