"""Scores of last layers that were trained anew on the target (BREEDS' target-RT), beside those of their runs."""

from collections.abc import Sequence

import numpy as np

from shiftbench.arrays import Bools
from shiftbench.benchmark import Benchmark
from shiftbench.predictions import TARGET_RT, Predictions
from shiftbench.scores import Scores
from shiftbench.scoring.judge import score
from shiftbench.scoring.listing import Finished

METRIC = "target_rt_accuracy"
LEARNS = "target_train"


def score_retrained(benchmark: Benchmark, runs: Sequence[Finished], replicates: int, level: float) -> Scores:
    """`target_rt_accuracy` on test, of all items and of every group, for the runs that `retrain` has been at."""
    parts = []
    for run in runs if LEARNS in benchmark.splits else ():
        if (run.folder / TARGET_RT).is_file():
            found = score(benchmark, Predictions.load(run.folder / TARGET_RT, benchmark), run=run.folder.name,
                          method=str(run.settings["method"]), setting=run.setting, seed=int(run.settings["seed"]),
                          replicates=replicates, level=level)
            kept: Bools = found["metric"] == "accuracy"
            columns = {name: column[kept] for name, column in found.columns.items()}
            parts.append(Scores({**columns, "metric": np.full(int(kept.sum()), METRIC)}))
    return Scores.join(parts)
