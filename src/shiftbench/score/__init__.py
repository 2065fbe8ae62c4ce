"""Predictions -> Scores: average, every group, the worst group, and the gap from before the shift to after it.

Scores are recomputed from predictions, never trusted: a new metric needs no training.
"""

from shiftbench.score.judge import BEHIND, GAP, MEAN, means, score
from shiftbench.score.plain import to_json
from shiftbench.score.runs import Finished, runs_in, score_runs

__all__ = ["BEHIND", "GAP", "MEAN", "Finished", "means", "runs_in", "score", "score_runs", "to_json"]
