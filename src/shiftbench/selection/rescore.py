"""Means over chosen runs, scored from their predictions: what a table of single runs cannot give."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from shiftbench.benchmark import Benchmark
from shiftbench.predictions import Predictions
from shiftbench.scores import Scores
from shiftbench.scoring import means
from shiftbench.selection.choose import refuse_target, select, setting_of
from shiftbench.selection.rules import DEFAULT, TARGETS
from shiftbench.selection.runs import Runs
from shiftbench.stats import LEVEL, REPLICATES


def chosen_means(
    folder: Path | str, scores: Scores, benchmarks: Iterable[Benchmark], rule: str = DEFAULT, *,
    replicates: int = REPLICATES, level: float = LEVEL,
) -> Scores:
    """Each method's mean over the runs that a rule chooses in a runs folder, methods paired by item.

    Of the benchmarks given, those on which a method has several settings. Join the result to the scores: a report takes
    these means and their paired differences, where it would else put intervals together from those of single runs.
    """
    known = {benchmark.name: benchmark for benchmark in benchmarks}
    wanted = Runs(scores).several & known.keys()
    choices = select(scores, [rule], targets=TARGETS[:1], benchmarks=known.values()).choices
    refuse_target(one for one in choices if one.benchmark in wanted)
    parts = []
    for name in sorted(wanted):
        runs: dict[str, list[Predictions]] = {}
        for one in choices:
            if one.benchmark == name:
                path = Path(folder) / one.run / "predictions.parquet"
                runs.setdefault(one.method, []).append(Predictions.load(path, known[name]))
        if runs:
            made = means(known[name], runs, replicates=replicates, level=level)
            parts.append(Scores({**made.columns, "setting": np.full(len(made), setting_of(rule))}))
    return Scores.join(parts)
