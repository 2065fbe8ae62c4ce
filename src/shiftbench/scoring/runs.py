"""Scores of a runs folder: every finished run, and each method's mean over its seeds."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, encode
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import path_of
from shiftbench.data.benchmark import TARGET_TRAIN, Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import DIFFERENCE, Scores, label_of
from shiftbench.scoring.intervals import LEVEL, REPLICATES
from shiftbench.scoring.judge import means, score
from shiftbench.scoring.listing import Finished, LeftOut, leaving_out, written
from shiftbench.scoring.pieces import Piece, score_each, together
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.views import named
from shiftbench.shifts.replicates import replicate_of, same_rows, shared_splits

SETTINGS = 100
"""The most settings of a benchmark for which means are scored; nobody reads a larger table."""


def score_runs(
    folder: Path | str | RunIndex,
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    benchmarks: Sequence[Benchmark] = (),
    only: Sequence[str] | None = None,
    left_out: LeftOut | None = None,
) -> Scores:
    """Scores of every finished run of a folder, and of the means over the runs that differ only in their seed.

    `only` names the runs to take; default: all. A benchmark is taken by name from `benchmarks`, else from where the run
    found it; one that has changed since is an error. Draws of one benchmark share its name: each run is scored on its
    own, the means on the splits that all have. Unfinished runs are left out; `runs_in` counts them. Where runs of
    a benchmark have more than SETTINGS settings there are no means of them: choose some first. A run that cannot be
    read is an error; where `left_out` is given it is noted there with the reason, and the others are scored.
    """
    scores = together(list(_pieces(folder, replicates, level, benchmarks, only, left_out)))
    if not left_out:
        return scores
    # A file may turn out damaged after another file of its run was scored.
    return scores.take(~np.isin(scores["run"], list(left_out)))


def _pieces(
    source: Path | str | RunIndex, replicates: int, level: float, benchmarks: Sequence[Benchmark],
    only: Sequence[str] | None, left_out: LeftOut | None = None,
) -> Iterator[Piece]:
    index = source if isinstance(source, RunIndex) else RunIndex(source, only, left_out)
    folder, finished, unfinished = index.folder, index.runs, index.unfinished
    if not finished and not left_out:
        raise ShiftBenchError(f"{folder}: has no finished run" + (
            f" ({unfinished} failed or unfinished; shiftbench show {folder} says which). Start the same training again "
            "to finish." if unfinished else ". Train first, or name the folder that holds the runs."))
    known = {benchmark.digest: benchmark for benchmark in benchmarks}
    listed: dict[str, dict[str, list[Finished]]] = {}
    for run in finished:
        digest = str(run.benchmark["digest"])
        with leaving_out(run.folder.name, left_out):
            if digest not in known:
                known[digest] = benchmark_of_run(run, benchmarks, index)
            listed.setdefault(str(run.benchmark["name"]), {}).setdefault(digest, []).append(run)
    for name, draws in listed.items():
        check_draws([known[digest] for digest in draws], name, str(folder))
    for name, draws in listed.items():
        for digest, runs in draws.items():
            if not known[digest].target.has_classes:
                yield from _of_targets(index, known[digest], runs, name, replicates, level, left_out)
                continue
            yield from score_each(index.reader(known[digest]), runs, name, replicates, level, left_out)
            again = score_retrained(index, known[digest], runs, replicates, level, left_out)
            if len(again):
                yield Piece.of(again, name)
    if left_out and all(run.folder.name in left_out for run in finished):
        raise ShiftBenchError(f"{folder}: none of its {len(left_out)} finished runs can be read. The first: "
                              f"{next(iter(left_out.values()))}")
    for name, draws in listed.items():
        runs = [run for part in draws.values() for run in part if run.folder.name not in (left_out or ())]
        if runs and _few(runs):
            splits = shared_splits([known[digest] for digest in draws])
            methods: dict[str, list[Predictions | Answers]] = {}
            owners: dict[str, list[tuple[Benchmark, Finished]]] = {}
            heads: dict[str, dict[str, Any]] = {}
            for label, run in zip(labels([run.settings for run in runs]), runs, strict=True):
                heads.setdefault(label, run.head)
                digest = str(run.benchmark["digest"])
                if not known[digest].target.has_classes:
                    methods.setdefault(label, []).append(index.predictions(run, known[digest]))
                    continue
                owners.setdefault(label, []).append((known[digest], run))
                methods.setdefault(label, []).append(on_splits(index.predictions(run, known[digest]), splits))
            first = known[next(iter(draws))]
            yield Piece.of(under_methods(means(first, methods, replicates=replicates, level=level), heads), name)
            again = mean_retrained(index, first, owners, replicates, level)
            if len(again):
                yield Piece.of(under_methods(again, heads), name)


def under_methods(scores: Scores, heads: Mapping[str, Mapping[str, Any]]) -> Scores:
    """Move the label out of the method column of means, and fill in the method, model and setting of their runs."""
    codes, labels = encode(scores["method"])
    columns = {name: np.asarray([str(heads[label][name]) for label in labels])[codes]
               for name in ("method", "model", "setting")}
    label = np.where(scores["method"] == columns["method"], "", scores["method"])
    return scores.assign(**columns, label=label) if len(scores) else scores


def _of_targets(
    index: RunIndex, benchmark: Benchmark, runs: Sequence[Finished], name: str, replicates: int, level: float,
    left_out: LeftOut | None,
) -> Iterator[Piece]:
    """Scores of runs whose target is not a class."""
    for run in runs:
        with leaving_out(run.folder.name, left_out):
            yield Piece.of(score(benchmark, index.predictions(run, benchmark), **run.head, replicates=replicates,
                                 level=level), name)


def benchmark_of_run(
    run: Finished, benchmarks: Sequence[Benchmark] = (), index: RunIndex | None = None
) -> Benchmark:
    """The benchmark of a run: one of `benchmarks` with its name that is no replicate, else from where the run found it.
    """
    named = [one for one in benchmarks if one.name == run.benchmark["name"] and replicate_of(one.card) is None]
    load = Benchmark.load if index is None else index.benchmark
    benchmark = named[0] if named else load(run.benchmark_folder)
    if benchmark.digest != run.benchmark["digest"]:
        raise ShiftBenchError(f"{run.folder}: benchmark digest is {str(run.benchmark['digest'])[:8]}…, but "
                              f"{run.benchmark['path']} now has {benchmark.digest[:8]}…. The benchmark was rebuilt; "
                              "train again.")
    return benchmark


def _few(runs: Sequence[Finished]) -> bool:
    """Whether the runs have at most SETTINGS settings."""
    seen: set[str] = set()
    for run in runs:  # most often a few hundred tell
        seen.add(run.setting)
        if len(seen) > SETTINGS:
            return False
    return True


def labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A label for each run of a benchmark; only runs that differ in nothing but their seed share one.

    >>> labels([{"method": "irm", "seed": 0}, {"method": "dro", "eta": 0.1}, {"method": "dro", "eta": 1.0}])
    ['irm', 'dro (eta=0.1)', 'dro (eta=1.0)']
    """
    listed = [{key: written(value) for key, value in {**flat(one), "method": label_of(one)}.items()
               if key not in ("seed", "benchmark", "preset", "name")} for one in settings]
    rivals: dict[str, list[Mapping[str, str]]] = {}
    for one in listed:
        rivals.setdefault(one["method"], []).append(one)
    differing = {method: telling(runs) for method, runs in rivals.items()}
    names = []
    for one in listed:
        differences = ", ".join(f"{key}={one[key]}" for key in differing[one["method"]] if key in one)
        method = str(json.loads(one["method"]))
        names.append(f"{method} ({differences})" if differences else method)
    return names


def telling(runs: Sequence[Mapping[str, str]]) -> list[str]:
    """The keys whose value is not the same in all runs."""
    first = runs[0]
    differ = {key for one in runs for key, value in one.items() if first.get(key) != value}
    return sorted(differ | {key for key in first if any(key not in one for one in runs)})


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings under their innermost names: a method's own parameters need no prefix to be read."""
    inner: dict[str, Any] = {}
    for key, value in settings.items():
        inner |= flat(value) if isinstance(value, Mapping) else {key: value}
    return inner


# Runs on several replicates of one benchmark are compared on the splits that all replicates share.

def check_draws(benchmarks: Sequence[Benchmark], name: str, where: str) -> None:
    """Raise an error if benchmarks of one name are neither the same nor replicates with the same test."""
    draws = [replicate_of(one.card) for one in benchmarks]
    if len(benchmarks) > 1 and (None in draws or len(set(draws)) < len(draws)):
        raise ShiftBenchError(f"{where}: has runs on different benchmarks that are all named '{name}', so that scores "
                              "could not tell them apart. Keep their runs in folders of their own.")
    for one in benchmarks[1:]:
        # The parts that leave a domain out test on training items, which are other ones in every draw.
        if "left_out" not in one.card and not same_rows(benchmarks[0], one):
            raise ShiftBenchError(f"{where}: has runs on draws of '{name}' whose tests differ. Build them together, "
                                  "with --replicates, and train again.")


def on_splits(predictions: Predictions | Answers, splits: Collection[str]) -> Predictions | Answers:
    """The predictions on these splits only; a list per item stays whole."""
    if not isinstance(predictions, Predictions):
        return predictions
    kept = np.isin(predictions.split, list(splits))
    return predictions if kept.all() else Predictions(
        predictions.item[kept], predictions.split[kept], predictions.scores[kept], predictions.classes)


def read_chosen(
    folder: Path | str | RunIndex, runs: Sequence[str], draws: Sequence[Benchmark]
) -> list[Predictions | Answers]:
    """The predictions of runs of a folder on one benchmark or its draws, on the splits that all draws share."""
    splits, known, index = shared_splits(list(draws)), {one.digest: one for one in draws}, RunIndex.of(folder)
    listed = [index.run(name) for name in runs]
    return [on_splits(index.predictions(run, known.get(str(run.benchmark["digest"]), draws[0])), splits)
            for run in listed]


# Scores of last layers that were trained anew on the target (BREEDS' target-RT), beside those of their runs.

RETRAINED = "target_rt_accuracy"


def score_retrained(
    index: RunIndex, benchmark: Benchmark, runs: Sequence[Finished], replicates: int, level: float,
    left_out: LeftOut | None = None,
) -> Scores:
    """`target_rt_accuracy` on test, of all items and of every group, for the runs that `retrain` has retrained."""
    parts = []
    for run in runs if TARGET_TRAIN in benchmark.splits else ():
        with leaving_out(run.folder.name, left_out):
            predictions = index.retrained(run, benchmark)
            if predictions is not None:
                parts.append(_renamed(score(benchmark, predictions, **run.head, replicates=replicates, level=level)))
    return Scores.join(parts)


def mean_retrained(
    index: RunIndex, benchmark: Benchmark, methods: Mapping[str, Sequence[tuple[Benchmark, Finished]]],
    replicates: int, level: float,
) -> Scores:
    """Means over each method's retrained runs, each run read with its own benchmark."""
    read = {label: [predictions for own, run in runs if (predictions := index.retrained(run, own)) is not None]
            for label, runs in methods.items()} if TARGET_TRAIN in benchmark.splits else {}
    there = {label: listed for label, listed in read.items() if listed}
    return _renamed(means(benchmark, there, replicates=replicates, level=level)) if there else Scores.join([])


def _renamed(scores: Scores) -> Scores:
    kept: Bools = (scores["metric"] == "accuracy") & (scores["by"] == "") & (scores["stat"] != DIFFERENCE)
    return scores.take(kept).assign(metric=RETRAINED)


# Scores and the benchmarks that they are about

Place = Path | str


def scores_of(
    source: Scores | Place | RunIndex, benchmarks: Benchmark | Place | Sequence[Benchmark | Place] = (),
    left_out: LeftOut | None = None,
) -> tuple[Scores, list[tuple[Benchmark, Benchmark | Path]]]:
    """The scores of a table or of a folder of runs, and the benchmarks they are about with their folders, if any.

    Benchmarks are those given and, for runs, those that they were trained on; scores find theirs by its digest. A run
    that cannot be read is an error, or is noted in `left_out` with the reason.
    """
    members = [benchmarks] if isinstance(benchmarks, str | Path | Benchmark) else benchmarks
    folders = dict.fromkeys(Path(one) for one in members if not isinstance(one, Benchmark))
    pairs: list[tuple[Benchmark, Benchmark | Path]] = [
        *((one, one) for one in members if isinstance(one, Benchmark)),
        *((Benchmark.load(folder), folder) for folder in folders)]
    if isinstance(source, Scores):
        scores = source
    elif isinstance(source, RunIndex) or path_of(source, "scores nor the folder of a run, nor one of runs").is_dir():
        index = RunIndex.of(source)
        scores = score_runs(index, benchmarks=[benchmark for benchmark, _ in pairs], left_out=left_out)
        known = {benchmark.digest for benchmark, _ in pairs}
        pairs += [(index.benchmark(folder), folder)
                  for folder in index.benchmark_folders(set(scores["run"].tolist()), known)]
    else:
        scores = Scores.load(source)
    return scores, [(benchmark, home) for loaded, home in pairs for benchmark in named([loaded], scores)]
