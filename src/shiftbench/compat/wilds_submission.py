"""The predictions of runs as files that WILDS' leaderboard takes: one per data set, split and replicate.

    camelyon17/camelyon17_split:test_seed:0_epoch:best_pred.csv

A line is an item, in the order of the split: a class as WILDS numbers it, or the numbers that the data set asks for,
with commas between. PovertyMap's replicates are folds. GlobalWheat's files are pickles, and Py150's hold rows of
tokens: our own `shiftbench board` takes both as tables.
"""

import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from shiftbench.compat.wilds_metadata import DATASETS, NAMES
from shiftbench.core.arrays import positions
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_json, writing_folder
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import Predictions
from shiftbench.exports import MARKER
from shiftbench.leaderboard.submission import Y, fold_of
from shiftbench.scoring.listing import Finished, runs_in

SEEDS = {"camelyon17": 10, "civilcomments": 5}
"""Seeds that the leaderboard wants, where they are not three."""
FOLDS = "ABCDE"


def write_submission(runs: Path | str, out: Path | str) -> Path:
    """Write the finished runs of a folder as a submission; those of one data set must be of one setting."""
    finished, _ = runs_in(runs)
    if not finished:
        raise ShiftBenchError(f"{runs}: no run is finished, so there is nothing to submit.")
    written: dict[str, dict[str, Finished]] = {}
    with writing_folder(out, MARKER) as staging:
        for run in finished:
            benchmark = Benchmark.load(run.benchmark_folder)
            name = dataset_of(benchmark)
            replicate = f"fold:{fold_of(benchmark)}" if name == "poverty" else f"seed:{run.settings['seed']}"
            others = written.setdefault(name, {})
            if replicate in others or any(other.setting != run.setting for other in others.values()):
                raise ShiftBenchError(f"{run.folder}: {name} {replicate} is there twice, or runs of {name} differ in "
                                      "more than the seed. A submission has one setting: choose it, for example with "
                                      "`shiftbench select`, and keep its runs alone in a folder.")
            others[replicate] = run
            for split, lines in _lines(run, benchmark):
                file = staging / name / f"{name}_split:{split}_{replicate}_epoch:best_pred.csv"
                file.parent.mkdir(exist_ok=True)
                file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        for name, replicates in written.items():
            wanted = wanted_of(name)
            if missing := [replicate for replicate in wanted if replicate not in replicates]:
                warnings.warn(f"{name}: the leaderboard wants {', '.join(wanted)}; {', '.join(missing)} is missing.",
                              stacklevel=2)
        write_json(staging / MARKER, {"format": "shiftbench export", "to": "wilds-submission", "runs": {
            name: {replicate: run.folder.name for replicate, run in runs_of.items()}
            for name, runs_of in written.items()}})
    return Path(out)


def dataset_of(benchmark: Benchmark) -> str:
    """The package's name of the data set that a benchmark is."""
    collection = str((benchmark.card.get("collection") or {}).get("name", ""))
    name = NAMES.get(collection, collection)
    if name not in DATASETS or benchmark.target.lists or (benchmark.target.has_classes and Y not in benchmark.extra):
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' is none of WILDS' whose files are lines of numbers: "
                              f"{', '.join(known for known in DATASETS if known not in ('globalwheat', 'py150'))}, as "
                              "`shiftbench build wilds` makes them.")
    return name


def wanted_of(name: str) -> list[str]:
    """The replicates that the leaderboard asks for."""
    return [f"fold:{fold}" for fold in FOLDS] if name == "poverty" else [
        f"seed:{seed}" for seed in range(SEEDS.get(name, 3))]


def _lines(run: Finished, benchmark: Benchmark) -> Iterable[tuple[str, list[str]]]:
    """The lines of every split but train."""
    predictions = run.predictions(benchmark)
    assert isinstance(predictions, Predictions)
    for split in benchmark.splits:
        rows = benchmark.rows(split)
        predicted = np.flatnonzero(predictions.split == split)
        order = positions(benchmark.items[rows], predictions.item[predicted])
        if split in ("train", "target_train") or not len(predicted):
            continue
        if (order < 0).any():
            raise ShiftBenchError(f"{run.folder}: not every item of '{split}' has a prediction.")
        scores = predictions.scores[predicted[order]]
        if benchmark.target.has_classes:
            number = np.zeros(len(benchmark.names["label"]), np.int64)
            number[benchmark.label] = np.asarray(benchmark.extra[Y], np.int64)
            yield split, number[scores.argmax(axis=1)].astype(np.str_).tolist()
        else:
            yield split, [",".join(repr(float(value)) for value in line) for line in scores]
