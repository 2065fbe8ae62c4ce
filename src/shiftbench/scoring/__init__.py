"""Predictions -> Scores: average, every group, the worst group, and the gap from before the shift to after it.

Scores are recomputed from predictions, never trusted: a new metric needs no training.
"""

from shiftbench.scoring.judge import GAP, means, score, score_models, versus
from shiftbench.scoring.listing import Finished, Names, names_in, read_run, runs_in
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.runs import named, score_runs

__all__ = [
    "GAP", "Finished", "Names", "RunIndex", "means", "named", "names_in", "read_run", "runs_in", "score",
    "score_models", "score_runs", "versus",
]
