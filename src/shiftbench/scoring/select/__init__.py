"""Model selection: choose among runs with different settings, as a pure function of the scores.

A rule gives every run one number, its criterion, and takes for each benchmark, method and seed the run where it is best
(per seed, as DomainBed and Wiles et al., 2022). The criteria differ in what they look at; a choice says whether that
was a label from after the shift. A rule that has nothing to look at chooses nothing and says why.
"""

from shiftbench.scoring.select.choose import (
    Choice,
    Mean,
    Refused,
    Selection,
    chosen,
    chosen_means,
    over_benchmarks,
    over_seeds,
    refuse_target,
    select,
    setting_of,
)
from shiftbench.scoring.select.rules import DEFAULT, INSTEAD, LABELS, RULES, TARGETS, Rule, Runs

__all__ = [
    "DEFAULT", "INSTEAD", "LABELS", "RULES", "TARGETS", "Choice", "Mean", "Refused", "Rule", "Runs", "Selection",
    "chosen", "chosen_means", "over_benchmarks", "over_seeds", "refuse_target", "select", "setting_of",
]
