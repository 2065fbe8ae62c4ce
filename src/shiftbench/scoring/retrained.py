"""Scores of last layers that were trained anew on the target (BREEDS' target-RT), beside those of their runs."""

from collections.abc import Mapping, Sequence

from shiftbench.core.arrays import Bools
from shiftbench.data.benchmark import TARGET_TRAIN, Benchmark
from shiftbench.data.predictions import TARGET_RT, Predictions
from shiftbench.data.scores import DIFFERENCE, Scores
from shiftbench.scoring.judge import means, score
from shiftbench.scoring.listing import Finished, LeftOut, leaving_out

METRIC = "target_rt_accuracy"


def score_retrained(
    benchmark: Benchmark, runs: Sequence[Finished], replicates: int, level: float, left_out: LeftOut | None = None
) -> Scores:
    """`target_rt_accuracy` on test, of all items and of every group, for the runs that `retrain` has been at."""
    parts = []
    for run in runs if TARGET_TRAIN in benchmark.splits else ():
        if (run.folder / TARGET_RT).is_file():
            with leaving_out(run.folder.name, left_out):
                predictions = Predictions.load(run.checked(TARGET_RT), benchmark)
                parts.append(_renamed(score(benchmark, predictions, **run.head, replicates=replicates, level=level)))
    return Scores.join(parts)


def mean_retrained(
    benchmark: Benchmark, methods: Mapping[str, Sequence[tuple[Benchmark, Finished]]], replicates: int, level: float
) -> Scores:
    """Means over the runs of each method, those that `retrain` has been at, each read as its own benchmark says."""
    there = {label: [(own, run.folder / TARGET_RT) for own, run in runs if (run.folder / TARGET_RT).is_file()]
             for label, runs in methods.items()} if TARGET_TRAIN in benchmark.splits else {}
    read = {label: [Predictions.load(file, own) for own, file in files] for label, files in there.items() if files}
    return _renamed(means(benchmark, read, replicates=replicates, level=level)) if read else Scores.join([])


def _renamed(scores: Scores) -> Scores:
    kept: Bools = (scores["metric"] == "accuracy") & (scores["by"] == "") & (scores["stat"] != DIFFERENCE)
    return scores.take(kept).assign(metric=METRIC)
