"""Predictions -> Scores: average, every group, the worst group, and the gap from before the shift to after it.

Scores are recomputed from predictions, never trusted: a new metric needs no training.
"""

from shiftbench.scoring.judge import GAP, means, score, score_models, versus
from shiftbench.scoring.listing import Finished, Names, names_in, read_run, runs_in
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.runs import score_runs
from shiftbench.scoring.views import Comparison, comparisons, named, to_json

__all__ = [
    "GAP", "Comparison", "Finished", "Names", "RunIndex", "comparisons", "means", "named",
    "names_in", "read_run", "runs_in", "score", "score_models", "score_runs", "to_json", "versus",
]
