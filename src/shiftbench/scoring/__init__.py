"""Predictions -> Scores: average, every group, the worst group, and the gap from before the shift to after it.

Scores are recomputed from predictions, never trusted: a new metric needs no training.
"""

from shiftbench.scoring.comparisons import Comparison, comparisons
from shiftbench.scoring.judge import means, score, versus
from shiftbench.scoring.listing import Finished, Names, benchmarks_of, names_in, read_run, runs_in
from shiftbench.scoring.named import named
from shiftbench.scoring.plain import to_json
from shiftbench.scoring.rows import GAP
from shiftbench.scoring.runs import score_runs, scored

__all__ = [
    "GAP", "Comparison", "Finished", "Names", "benchmarks_of", "comparisons", "means", "named",
    "names_in", "read_run", "runs_in", "score", "score_runs", "scored", "to_json", "versus",
]
