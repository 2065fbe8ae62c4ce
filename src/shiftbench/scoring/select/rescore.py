"""Means over chosen runs, scored from their predictions: what a table of single runs cannot give."""

from collections.abc import Iterable
from pathlib import Path

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores
from shiftbench.scoring import means
from shiftbench.scoring.intervals import LEVEL, REPLICATES
from shiftbench.scoring.joint_draws import read_chosen
from shiftbench.scoring.select.choose import ALLOW, refuse_target, select, setting_of
from shiftbench.scoring.select.rules import DEFAULT, TARGETS
from shiftbench.scoring.select.runs import Runs


def chosen_means(
    folder: Path | str, scores: Scores, benchmarks: Iterable[Benchmark], rule: str = DEFAULT, *,
    replicates: int = REPLICATES, level: float = LEVEL, remedy: str = ALLOW,
) -> Scores:
    """Each method's mean over the runs that a rule chooses in a runs folder, methods paired by item.

    Of the benchmarks given, those on which a method has several settings. Join the result to the scores: a report takes
    these means and their paired differences, where it would else put intervals together from those of single runs.
    """
    draws: dict[str, dict[str, Benchmark]] = {}
    for benchmark in benchmarks:
        draws.setdefault(benchmark.name, {})[benchmark.digest] = benchmark
    known = {name: next(iter(alike.values())) for name, alike in draws.items()}
    wanted = Runs(scores).several & known.keys()
    choices = select(scores, [rule], targets=TARGETS[:1], benchmarks=known.values()).choices
    refuse_target((one for one in choices if one.benchmark in wanted), remedy=remedy)
    parts = []
    for name in sorted(wanted):
        runs: dict[str, list[str]] = {}
        for one in choices:
            if one.benchmark == name:
                runs.setdefault(one.method, []).append(one.run)
        if runs:
            read = {method: read_chosen(folder, listed, list(draws[name].values())) for method, listed in runs.items()}
            parts.append(means(known[name], read, replicates=replicates, level=level).assign(setting=setting_of(rule)))
    return Scores.join(parts)
