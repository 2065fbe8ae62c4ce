"""Runs on several draws of one benchmark: what they have in common is what they can be compared on."""

from collections.abc import Collection, Sequence

import numpy as np

from shiftbench.benchmark import Benchmark
from shiftbench.errors import ShiftBenchError
from shiftbench.predictions import Predictions
from shiftbench.shifts.draws import draw_of, same_rows


def check_draws(benchmarks: Sequence[Benchmark], name: str, where: str) -> None:
    """Fail where benchmarks that runs know by one name are neither one nor draws of one with the same test."""
    draws = [draw_of(one.card) for one in benchmarks]
    if len(benchmarks) > 1 and (None in draws or len(set(draws)) < len(draws)):
        raise ShiftBenchError(f"{where}: has runs on different benchmarks that are all named '{name}', so that scores "
                              "could not tell them apart. Keep their runs in folders of their own.")
    for one in benchmarks[1:]:
        # The parts that leave a domain out test on training items, which are other ones in every draw.
        if "left_out" not in one.card and not same_rows(benchmarks[0], one):
            raise ShiftBenchError(f"{where}: has runs on draws of '{name}' whose tests differ. Build them together, "
                                  "with --draws, and train again.")


def on_splits(predictions: Predictions, splits: Collection[str]) -> Predictions:
    """The predictions on some splits alone."""
    kept = np.isin(predictions.split, list(splits))
    return predictions if kept.all() else Predictions(
        predictions.item[kept], predictions.split[kept], predictions.scores[kept], predictions.classes)
