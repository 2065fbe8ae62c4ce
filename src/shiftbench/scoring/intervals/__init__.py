"""Intervals and tests: what a number is worth, whether two differ, and how many items it takes to see it."""

from shiftbench.scoring.intervals.bootstraps import LEVEL, REPLICATES, Cells, bootstrap, interval
from shiftbench.scoring.intervals.many import benjamini_hochberg, holm
from shiftbench.scoring.intervals.means import Means, Seeds, means, over_runs, seeds, student
from shiftbench.scoring.intervals.paired import Compared, compare, mcnemar
from shiftbench.scoring.intervals.proportion import effective, wilson
from shiftbench.scoring.intervals.resample import Accuracies, accuracies, macro_f1s
from shiftbench.scoring.intervals.sample_size import Design, group_power, items_needed, power, smallest_difference
from shiftbench.scoring.intervals.worst import Lowest, at_lowest, lowest, lowest_mean

__all__ = [
    "LEVEL", "REPLICATES", "Accuracies", "Cells", "Compared", "Design", "Lowest", "Means", "Seeds", "accuracies",
    "at_lowest", "benjamini_hochberg", "bootstrap", "compare", "effective", "group_power", "holm", "interval",
    "items_needed", "lowest", "lowest_mean", "macro_f1s", "mcnemar", "means", "over_runs", "power", "seeds",
    "smallest_difference", "student", "wilson",
]
