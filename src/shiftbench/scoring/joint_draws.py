"""Runs on several draws of one benchmark: what they have in common is what they can be compared on."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.scoring.listing import read_run
from shiftbench.shifts.replicates import replicate_of, same_rows, shared_splits


def check_draws(benchmarks: Sequence[Benchmark], name: str, where: str) -> None:
    """Fail where benchmarks that runs know by one name are neither one nor draws of one with the same test."""
    draws = [replicate_of(one.card) for one in benchmarks]
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


def read_chosen(folder: Path | str, runs: Sequence[str], draws: Sequence[Benchmark]) -> list[Predictions | Answers]:
    """The predictions of runs of a folder on one benchmark or its draws, on the splits that all draws share."""
    splits, known = shared_splits(list(draws)), {one.digest: one for one in draws}
    found: list[Predictions | Answers] = []
    for run in runs:
        place = Path(folder) / run
        finished = read_run(place)
        read = finished.predictions(known.get(str(finished.benchmark["digest"]), draws[0]))
        found.append(on_splits(read, splits) if isinstance(read, Predictions) else read)
    return found
