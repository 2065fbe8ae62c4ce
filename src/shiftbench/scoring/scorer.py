"""The scorer: what predictions are worth on a split. Every number of a run is made here.

`score` writes it down with intervals; training asks it without them, at every evaluation, to choose among weights.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import Grouping
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.target import BOXES, TOKEN_KINDS, TOKENS
from shiftbench.scoring.classes import Split, measure_classes
from shiftbench.scoring.measured import Measured
from shiftbench.scoring.target_boxes import box_lists, measure_boxes
from shiftbench.scoring.target_measures import Part
from shiftbench.scoring.target_numbers import measure_numbers
from shiftbench.scoring.target_tasks import measure_tasks
from shiftbench.scoring.target_tokens import Places, measure_tokens

Outputs = npt.NDArray[np.floating] | Answers
"""What a model gives for a split's items, in their order: scores, items × outputs, or a list per item."""
Scorer = Callable[[Sequence[Outputs], Sequence[int], float | None], list[Measured]]
"""The outputs of each run, the method of each run, and the level of intervals; without a level there are none."""


def scorer(benchmark: Benchmark, split: str, groupings: Sequence[Grouping] = ()) -> Scorer:
    """The scorer of a split, its truth prepared: made once, it judges any number of runs.

    `groupings` are those to score by besides the benchmark's groups, for classes alone.
    """
    kind, extra = benchmark.target.kind, benchmark.extra
    if kind == "class":
        return partial(measure_classes, Split.of(benchmark, split, groupings))
    part = Part.of(benchmark, split)
    if kind in ("number", "tasks"):
        truth = np.stack([np.asarray(extra[name], np.float64)[part.rows] for name in benchmark.target.columns], axis=1)
        return partial(measure_numbers if kind == "number" else measure_tasks, part, truth)
    if kind == "boxes":
        return partial(measure_boxes, part, box_lists(extra[BOXES][part.rows]))
    kinds = extra[TOKEN_KINDS][part.rows] if TOKEN_KINDS in extra else None
    return partial(measure_tokens, part, Places.of(extra[TOKENS][part.rows], kinds))


def outputs_of(benchmark: Benchmark, predictions: Predictions | Answers, rows: Ints) -> Outputs:
    """Some rows of predictions as a scorer of the benchmark takes them."""
    kind = benchmark.target.kind
    if kind in ("boxes", "tokens"):
        if isinstance(predictions, Predictions):
            raise ShiftBenchError("These are scores of classes, but the benchmark asks for boxes or tokens: a list per "
                                  "item.")
        return predictions.take(rows)
    if isinstance(predictions, Answers):
        asked = "classes" if kind == "class" else "numbers"
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for {asked}, but these predictions are boxes or "
                              "tokens. Give one row of scores per item.")
    first, n = int(rows[0]) if len(rows) else 0, len(rows)
    in_a_row = np.array_equal(rows, np.arange(first, first + n))
    scores = predictions.scores[first:first + n] if in_a_row else predictions.scores[rows]  # a slice is no copy
    if kind != "class" and (wrong := np.isnan(scores).any(axis=1)).any():
        raise ShiftBenchError(f"{int(wrong.sum())} predictions are not numbers (NaN). The model that gave them has "
                              "diverged.")
    return scores
