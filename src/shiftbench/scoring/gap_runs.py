"""Gaps of runs folders: every benchmark that was trained on, against its in-distribution references."""

from collections.abc import Sequence
from pathlib import Path

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import Scores
from shiftbench.scoring.gaps import SAME_RUN, Side, gap
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.listing import Finished, runs_in
from shiftbench.scoring.runs import labels
from shiftbench.shifts.in_distribution import REFERENCES, legal


def gaps_of(folders: Sequence[Path | str], *, setting: str = "", level: float = LEVEL) -> Scores:
    """Every gap that the finished runs of some folders tell, or those of one reference.

    Runs on a reference are compared with runs on the benchmark it was made of that have the same method and the same
    settings in everything but their seed. Runs on a reference tell train-to-train where it has an id_test, and average
    where its groups are subpopulations.
    """
    runs = [run for folder in folders for run in runs_in(folder)[0]]
    known: dict[str, Benchmark] = {}
    listed: dict[str, dict[str, list[Finished]]] = {}
    for run in runs:
        digest = str(run.benchmark["digest"])
        if digest not in known:
            known[digest] = _benchmark_of(run)
        listed.setdefault(digest, {}).setdefault(run.setting, []).append(run)
    shown = dict(zip((run.folder for run in runs), labels([run.settings for run in runs]), strict=True))
    parts: list[tuple[tuple[str, int, str], Scores]] = []
    for digest, own in listed.items():
        made = known[digest]
        for wanted, reference in _comparisons(made, known, setting):
            others = listed[reference]
            for method in [one for one in own if one in others]:
                inside = None if wanted in SAME_RUN else Side(made, _read(own[method], made))
                outside = Side(known[reference], _read(others[method], known[reference]))
                head, label = own[method][0].head, shown[own[method][0].folder]
                found = gap(outside, inside, setting=wanted, method=head["method"], level=level).assign(
                    label="" if label == head["method"] else label, model=head["model"], setting=head["setting"])
                parts.append(((outside.benchmark.name, REFERENCES.index(wanted), label), found))
    if not parts:
        where = ", ".join(map(str, folders))
        raise ShiftBenchError(
            f"{where}: {len(runs)} finished runs tell no gap{f' to reference {setting}' if setting else ''}. It takes "
            "runs on a benchmark and, with the same method and settings, runs on what `shiftbench setting` made of it; "
            "or a benchmark with an id_test and a test.")
    return Scores.join([part for _, part in sorted(parts, key=lambda one: one[0])])


def _comparisons(made: Benchmark, known: dict[str, Benchmark], only: str) -> list[tuple[str, str]]:
    """Setting and digest of the reference of every gap that runs on a benchmark can tell."""
    told = made.card.get("setting", {})
    if told and told["name"] not in SAME_RUN:
        reference = str(told["reference"]["digest"])
        found = [(str(told["name"]), reference)] if reference in known else []
    else:
        found = [("train-to-train", made.digest)] if {"id_test", "test"} <= set(made.splits) else []
        if not legal(made, unseen=told.get("name") == "average" or only == "average")["average"]:
            found.append(("average", made.digest))
    return [one for one in found if only in ("", one[0])]


def _benchmark_of(run: Finished) -> Benchmark:
    found = Benchmark.load(run.benchmark_folder)
    if found.digest != run.benchmark["digest"]:
        raise ShiftBenchError(f"{run.folder}: benchmark digest is {str(run.benchmark['digest'])[:8]}…, but "
                              f"{run.benchmark['path']} now has {found.digest[:8]}…. The benchmark was rebuilt; train "
                              "again.")
    return found


def _read(runs: Sequence[Finished], benchmark: Benchmark) -> list[Predictions | Answers]:
    return [run.predictions(benchmark) for run in runs]
