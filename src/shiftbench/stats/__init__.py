"""Intervals and tests: what a number is worth, whether two differ, and how many items it takes to see it."""

from shiftbench.stats.counts import fisher
from shiftbench.stats.many import benjamini_hochberg, holm
from shiftbench.stats.paired import Compared, compare, mcnemar
from shiftbench.stats.parts import Means, Seeds, means, over_runs, seeds, student
from shiftbench.stats.proportion import effective, wilson
from shiftbench.stats.replicates import LEVEL, REPLICATES, Cells, bootstrap, interval
from shiftbench.stats.resample import Accuracies, accuracies, macro_f1s
from shiftbench.stats.sample_size import Design, group_power, items_needed, power, smallest_difference
from shiftbench.stats.worst import Lowest, at_lowest, lowest, lowest_mean

__all__ = [
    "LEVEL", "REPLICATES", "Accuracies", "Cells", "Compared", "Design", "Lowest", "Means", "Seeds", "accuracies",
    "at_lowest", "benjamini_hochberg", "bootstrap", "compare", "effective", "fisher", "group_power", "holm", "interval",
    "items_needed", "lowest", "lowest_mean", "macro_f1s", "mcnemar", "means", "over_runs", "power", "seeds",
    "smallest_difference", "student", "wilson",
]
