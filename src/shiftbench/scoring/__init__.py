"""Predictions -> Scores: average, every group, the worst group, and the gap from before the shift to after it.

Scores are recomputed from predictions, never trusted: a new metric needs no training.
"""

from shiftbench.scoring.judge import BEHIND, GAP, MEAN, means, score
from shiftbench.scoring.plain import to_json
from shiftbench.scoring.runs import Finished, benchmarks_of, read_run, runs_in, score_runs

__all__ = [
    "BEHIND", "GAP", "MEAN", "Finished", "benchmarks_of", "means", "read_run", "runs_in", "score", "score_runs",
    "to_json",
]
