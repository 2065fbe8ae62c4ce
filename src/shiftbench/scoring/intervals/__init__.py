"""Intervals and tests: how sure a number is, whether two differ, and how many items it takes to see it."""

from shiftbench.scoring.intervals.differences import (
    Compared,
    Design,
    compare,
    group_power,
    items_needed,
    mcnemar,
    power,
    smallest_difference,
)
from shiftbench.scoring.intervals.estimates import (
    LEVEL,
    REPLICATES,
    Means,
    Seeds,
    bootstrap,
    effective,
    interval,
    over_runs,
    seeds,
    seeds_half_width,
    student,
    take_apart,
    wilson,
)
from shiftbench.scoring.intervals.worst import Lowest, at_lowest, lowest, lowest_mean

__all__ = [
    "LEVEL", "REPLICATES", "Compared", "Design", "Lowest", "Means", "Seeds", "at_lowest", "bootstrap", "compare",
    "effective", "group_power", "interval", "items_needed", "lowest", "lowest_mean", "mcnemar", "over_runs",
    "power", "seeds", "seeds_half_width", "smallest_difference", "student", "take_apart", "wilson",
]
