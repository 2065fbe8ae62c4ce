"""Scores of a runs folder: every finished run, and each method's mean over its seeds.

Runs of one benchmark are read in batches, and each batch is scored at once. A batch is a `Piece` of the table, in which
nothing repeats; the pieces make up a table of millions of rows. Runs on several replicates of a benchmark are compared
on the splits that all replicates share. Last layers that were retrained on the target (BREEDS' target-RT) are scored
beside their runs.
"""

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Ints, encode
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import path_of
from shiftbench.data.benchmark import TARGET_TRAIN, Benchmark
from shiftbench.data.groupings import groupings_of
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import DIFFERENCE, Scores, label_of
from shiftbench.scoring.intervals import LEVEL, REPLICATES
from shiftbench.scoring.judge import Piece, means, measure, score, together
from shiftbench.scoring.listing import Finished, LeftOut, RunSource, leaving_out, written
from shiftbench.scoring.reading import Order, Reader, RunIndex, Table, predictions_of
from shiftbench.scoring.scorer import scorer
from shiftbench.shifts.low_data import replicate_of, same_rows, shared_splits

SETTINGS = 100
"""The most settings of a benchmark for which means are scored; nobody reads a larger table."""


def score_runs(
    source: RunSource | RunIndex,
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    benchmarks: Sequence[Benchmark] = (),
    only: Sequence[str] | None = None,
    left_out: LeftOut | None = None,
) -> Scores:
    """Scores of every finished run of a source, and of the means over the runs that differ only in their seed.

    `only` names the runs to score; default: all. A benchmark is found by name in `benchmarks`, else at the run's path;
    one that has changed since is an error. Draws of one benchmark share its name: each run is scored on its own draw,
    the means on the splits that all draws share. Unfinished runs are left out; `runs_in` counts them. There are no
    means if the runs of a benchmark have more than SETTINGS settings: choose some first. A run that cannot be read is
    an error, unless `left_out` is passed: then the run and the reason are recorded there, and the others are scored.
    """
    scores = together(list(_pieces(source, replicates, level, benchmarks, only, left_out)))
    if not left_out:
        return scores
    # A file may turn out damaged after another file of its run was scored.
    return scores.take(~np.isin(scores["run"], list(left_out)))


def _pieces(
    source: RunSource | RunIndex, replicates: int, level: float, benchmarks: Sequence[Benchmark],
    only: Sequence[str] | None, left_out: LeftOut | None = None,
) -> Iterator[Piece]:
    index = source if isinstance(source, RunIndex) else RunIndex(source, only, left_out)
    if not index.runs and not left_out:
        raise ShiftBenchError(f"{index.where}: no finished run is in there" + (
            f" ({index.unfinished} failed or unfinished; shiftbench show DIR says which). Start the same training "
            "again to finish." if index.unfinished else ". Train first, or name the folder that holds the runs."))
    by_digest = {benchmark.digest: benchmark for benchmark in benchmarks}
    by_name: dict[str, dict[str, list[Finished]]] = {}  # name of a benchmark -> digest of a draw -> runs
    for run in index.runs:
        digest = str(run.benchmark["digest"])
        with leaving_out(run.name, left_out):
            if digest not in by_digest:
                by_digest[digest] = benchmark_of_run(run, benchmarks, index)
            by_name.setdefault(str(run.benchmark["name"]), {}).setdefault(digest, []).append(run)
    for name, draws in by_name.items():
        check_draws([by_digest[digest] for digest in draws], name, index.where)
    for name, draws in by_name.items():
        for digest, runs in draws.items():
            benchmark = by_digest[digest]
            if benchmark.target.has_classes:
                yield from score_each(index.reader(benchmark), runs, name, replicates, level, left_out)
                if TARGET_TRAIN in benchmark.splits:
                    alone = _scored_alone(index.retrained, benchmark, runs, replicates, level, left_out)
                    yield from (Piece.of(_under_name(name, _renamed(scores))) for scores in alone)
            else:
                alone = _scored_alone(index.predictions, benchmark, runs, replicates, level, left_out)
                yield from (Piece.of(_under_name(name, scores)) for scores in alone)
    if left_out and all(run.name in left_out for run in index.runs):
        raise ShiftBenchError(f"{index.where}: none of its {len(left_out)} finished runs can be read. The first: "
                              f"{next(iter(left_out.values()))}")
    for name, draws in by_name.items():
        runs = [run for on_draw in draws.values() for run in on_draw if run.name not in (left_out or ())]
        if runs and _few(runs):
            yield from _means(index, name, runs, [by_digest[digest] for digest in draws], replicates, level)


def benchmark_of_run(run: Finished, benchmarks: Sequence[Benchmark], index: RunIndex) -> Benchmark:
    """The benchmark of a run: one of `benchmarks` that has its name and is no replicate, else from the run's path."""
    candidates = [benchmark for benchmark in benchmarks
                  if benchmark.name == run.benchmark["name"] and replicate_of(benchmark.card) is None]
    benchmark = candidates[0] if candidates else index.benchmark(run.benchmark_folder)
    if benchmark.digest != run.benchmark["digest"]:
        raise ShiftBenchError(f"{run.folder}: benchmark digest is {str(run.benchmark['digest'])[:8]}…, but "
                              f"{run.benchmark['path']} now has {benchmark.digest[:8]}…. The benchmark was rebuilt; "
                              "train again.")
    return benchmark


def _scored_alone(
    read: Callable[[Finished, Benchmark], Predictions | Answers | None], benchmark: Benchmark,
    runs: Sequence[Finished], replicates: int, level: float, left_out: LeftOut | None,
) -> Iterator[Scores]:
    """The scores of runs one by one, from what `read` returns for each; runs for which it returns None have none."""
    for run in runs:
        with leaving_out(run.name, left_out):
            predictions = read(run, benchmark)
            if predictions is not None:
                yield score(benchmark, predictions, **run.head, replicates=replicates, level=level)


def _means(
    index: RunIndex, name: str, runs: Sequence[Finished], draws: Sequence[Benchmark], replicates: int, level: float
) -> Iterator[Piece]:
    """The means over runs that differ only in their seed, on the splits that all draws of their benchmark share."""
    by_label: dict[str, list[Finished]] = {}
    for label, run in zip(labels([run.settings for run in runs]), runs, strict=True):
        by_label.setdefault(label, []).append(run)
    heads = {label: alike[0].head for label, alike in by_label.items()}
    names = [run.name for run in runs]
    by_run = dict(zip(names, read_chosen(index, names, draws), strict=True))
    methods = {label: [by_run[run.name] for run in alike] for label, alike in by_label.items()}
    scores = means(draws[0], methods, replicates=replicates, level=level)
    yield Piece.of(_under_name(name, under_methods(scores, heads)))
    if TARGET_TRAIN in draws[0].splits:
        by_digest = {draw.digest: draw for draw in draws}
        read = {label: [predictions for run in alike if (
            predictions := index.retrained(run, by_digest[str(run.benchmark["digest"])])) is not None]
            for label, alike in by_label.items()}
        retrained = {label: predictions for label, predictions in read.items() if predictions}
        if retrained:
            scores = _renamed(means(draws[0], retrained, replicates=replicates, level=level))
            yield Piece.of(_under_name(name, under_methods(scores, heads)))


def _few(runs: Sequence[Finished]) -> bool:
    """Whether the runs have at most SETTINGS settings."""
    seen: set[str] = set()
    for run in runs:  # mostly, a few hundred runs decide
        seen.add(run.setting)
        if len(seen) > SETTINGS:
            return False
    return True


def under_methods(scores: Scores, heads: Mapping[str, Mapping[str, Any]]) -> Scores:
    """Move the label out of the method column of means, and fill in the method, model and setting of their runs."""
    codes, labels = encode(scores["method"])
    columns = {name: np.asarray([str(heads[label][name]) for label in labels])[codes]
               for name in ("method", "model", "setting")}
    label = np.where(scores["method"] == columns["method"], "", scores["method"])
    return scores.assign(**columns, label=label) if len(scores) else scores


def _under_name(name: str, scores: Scores) -> Scores:
    """Scores under the name by which runs know their benchmark, whatever its folder is called now."""
    return scores.assign(benchmark=name)


def named(benchmarks: Sequence[Benchmark], scores: Scores) -> list[Benchmark]:
    """The benchmarks under the names that the scores have for them, found by digest.

    A benchmark whose digest is not in the scores keeps its name, unless the scores have another digest under that name:
    then it was rebuilt, and its card would explain numbers that are not about it. Scores of older tables, without
    digests, are matched by name.
    """
    pairs = dict.fromkeys(zip(scores["benchmark"].tolist(), scores["digest"].tolist(), strict=True))
    renamed: list[Benchmark] = []
    for benchmark in benchmarks:
        names = [name for name, digest in pairs if digest == benchmark.short_digest]
        others = [digest for name, digest in pairs if name == benchmark.name and digest]
        if not names and others:
            raise ShiftBenchError(f"The scores of '{benchmark.name}' were made on other rows ({others[0]}) than the "
                                  f"benchmark given now ({benchmark.short_digest}): it was built again. Score again, "
                                  "or give the benchmark that was scored.")
        renamed += [benchmark if name == benchmark.name else replace(benchmark, card={**benchmark.card, "name": name})
                    for name in names or [benchmark.name]]
    return renamed


Place = Path | str
SOURCES = "scores nor the folder of a run, nor one of runs"


def scores_of(
    source: Scores | RunSource | RunIndex, benchmarks: Benchmark | Place | Sequence[Benchmark | Place] = (),
    left_out: LeftOut | None = None,
) -> tuple[Scores, list[tuple[Benchmark, Benchmark | Path]]]:
    """The scores of a table or of runs, and the benchmarks they are about with their folders, if any.

    Benchmarks are those passed and, for runs, those that they were trained on; scores find theirs by digest. A run that
    cannot be read is an error, or is recorded in `left_out` with the reason.
    """
    members = [benchmarks] if isinstance(benchmarks, str | Path | Benchmark) else benchmarks
    folders = dict.fromkeys(Path(member) for member in members if not isinstance(member, Benchmark))
    pairs: list[tuple[Benchmark, Benchmark | Path]] = [
        *((member, member) for member in members if isinstance(member, Benchmark)),
        *((Benchmark.load(folder), folder) for folder in folders)]
    if isinstance(source, Scores):
        scores = source
    elif isinstance(source, RunIndex | list | tuple) or path_of(source, SOURCES).is_dir():
        index = RunIndex.of(source)
        scores = score_runs(index, benchmarks=[benchmark for benchmark, _ in pairs], left_out=left_out)
        digests = {benchmark.digest for benchmark, _ in pairs}
        pairs += [(index.benchmark(folder), folder)
                  for folder in index.benchmark_folders(set(scores["run"].tolist()), digests)]
    else:
        scores = Scores.load(source)
    return scores, [(benchmark, home) for loaded, home in pairs for benchmark in named([loaded], scores)]


# Labels of runs

def labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A label for each run of a benchmark; only runs that differ in nothing but their seed share one.

    >>> labels([{"method": "irm", "seed": 0}, {"method": "dro", "eta": 0.1}, {"method": "dro", "eta": 1.0}])
    ['irm', 'dro (eta=0.1)', 'dro (eta=1.0)']
    """
    texts = [{key: written(value) for key, value in {**flat(run), "method": label_of(run)}.items()
              if key not in ("seed", "benchmark", "preset", "name")} for run in settings]
    rivals: dict[str, list[Mapping[str, str]]] = {}
    for text in texts:
        rivals.setdefault(text["method"], []).append(text)
    differing = {method: telling(runs) for method, runs in rivals.items()}
    names = []
    for text in texts:
        differences = ", ".join(f"{key}={text[key]}" for key in differing[text["method"]] if key in text)
        method = str(json.loads(text["method"]))
        names.append(f"{method} ({differences})" if differences else method)
    return names


def telling(runs: Sequence[Mapping[str, str]]) -> list[str]:
    """The keys whose value is not the same in all runs."""
    first = runs[0]
    differ = {key for run in runs for key, value in run.items() if first.get(key) != value}
    return sorted(differ | {key for key in first if any(key not in run for run in runs)})


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings under their innermost names: a method's own parameters need no prefix to be read."""
    inner: dict[str, Any] = {}
    for key, value in settings.items():
        inner |= flat(value) if isinstance(value, Mapping) else {key: value}
    return inner


# Batches of runs

BATCH = 4096
"""Runs scored at once: the more, the more of them share the law of a worst group."""
HELD = 4_000_000
"""Scores held at once in a batch."""


class Pack(NamedTuple):
    """Runs that predict the same splits, and what was read of each."""

    finite: bool  # whether every score is
    runs: list[Finished]
    scores: list[Table]
    orders: list[Order]


def score_each(
    reader: Reader, runs: Sequence[Finished], name: str, replicates: int, level: float, left_out: LeftOut | None = None
) -> Iterator[Piece]:
    """The scores of runs on the reader's benchmark, which they call `name`, a few runs at a time and in their order."""
    benchmark = reader.benchmark
    groupings = groupings_of(benchmark)
    scorers = {split: scorer(benchmark, split, groupings) for split in benchmark.splits}
    size = min(BATCH, max(1, HELD // (len(benchmark) * len(benchmark.names["label"]))))

    def score_pack(pack: Pack) -> Piece:
        if not pack.finite:  # classes were ruled out: whether a loss is defined differs between runs
            runs_read = zip(pack.runs, pack.scores, pack.orders, strict=True)
            alone = [_score_alone(benchmark, *run, replicates, level) for run in runs_read]
            return Piece.of(_under_name(name, Scores.join(alone)))
        scores, position = _stack(pack)
        outputs = ((split, scores[:, :, position[benchmark.rows(split)]].transpose(0, 2, 1))
                   for split in pack.orders[0].splits)
        used_level = level if replicates else None
        with np.errstate(invalid="ignore"):  # ends that are not known
            measured = measure(benchmark, scorers, outputs, range(len(pack.runs)), used_level)
        heads = [{**run.head, "benchmark": name, "digest": benchmark.short_digest} for run in pack.runs]
        return Piece.of_measured(measured, heads, range(len(heads)), used_level)

    if len(runs) <= size:
        yield from map(score_pack, _packs(reader, runs, size, left_out))
        return
    with ThreadPoolExecutor(_cores()) as pool:
        pending: deque[Future[Piece]] = deque()
        for pack in _packs(reader, runs, size, left_out):
            pending.append(pool.submit(score_pack, pack))
            if len(pending) > _cores():
                yield pending.popleft().result()
        for future in pending:
            yield future.result()


def _packs(reader: Reader, runs: Sequence[Finished], size: int, left_out: LeftOut | None) -> Iterator[Pack]:
    """Runs in their order, `size` at a time; those that predict other splits go into other packs."""
    waiting: dict[tuple[tuple[str, ...], bool], Pack] = {}
    for run, scores, order in reader.read_each(runs, left_out):
        finite = bool(scores.min(initial=0) > -np.inf)
        pack = waiting.setdefault((order.splits, finite), Pack(finite, [], [], []))
        pack.runs.append(run)
        pack.scores.append(scores)
        pack.orders.append(order)
        if len(pack.runs) == size:
            yield waiting.pop((order.splits, finite))
    yield from waiting.values()


def _stack(pack: Pack) -> tuple[Table, Ints]:
    """Runs × classes × items, and the position of every row of the benchmark among the items."""
    first = pack.orders[0]
    if all(order is first for order in pack.orders):
        return np.stack(pack.scores), first.row
    rows = np.flatnonzero(first.row >= 0)
    position = np.full(len(first.row), -1)
    position[rows] = np.arange(len(rows))
    pairs = zip(pack.scores, pack.orders, strict=True)
    return np.stack([scores[:, order.row[rows]] for scores, order in pairs]), position


def _score_alone(
    benchmark: Benchmark, run: Finished, scores: Table, order: Order, replicates: int, level: float
) -> Scores:
    return score(benchmark, predictions_of(benchmark, scores, order), **run.head, replicates=replicates, level=level)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Replicates of a benchmark

def check_draws(benchmarks: Sequence[Benchmark], name: str, where: str) -> None:
    """Raise an error if benchmarks of one name are neither the same nor replicates with the same test."""
    draws = [replicate_of(benchmark.card) for benchmark in benchmarks]
    if len(benchmarks) > 1 and (None in draws or len(set(draws)) < len(draws)):
        raise ShiftBenchError(f"{where}: has runs on different benchmarks that are all named '{name}', so that scores "
                              "could not tell them apart. Keep their runs in folders of their own.")
    for benchmark in benchmarks[1:]:
        # Parts that leave a domain out test on training items, which differ from draw to draw.
        if "left_out" not in benchmark.card and not same_rows(benchmarks[0], benchmark):
            raise ShiftBenchError(f"{where}: has runs on replicates of '{name}' whose tests differ. Build them "
                                  "together, with --replicates, and train again.")


def read_chosen(
    source: RunSource | RunIndex, names: Iterable[str], draws: Sequence[Benchmark]
) -> list[Predictions | Answers]:
    """The predictions of runs on one benchmark or its draws, on the splits that all draws share; lists stay whole."""
    index, splits, by_digest = RunIndex.of(source), list(shared_splits(draws)), {draw.digest: draw for draw in draws}
    shared = []
    for run in map(index.run, names):
        predictions = index.predictions(run, by_digest.get(str(run.benchmark["digest"]), draws[0]))
        kept = np.isin(predictions.split, splits)
        shared.append(predictions if isinstance(predictions, Answers) or kept.all() else Predictions(
            predictions.item[kept], predictions.split[kept], predictions.scores[kept], predictions.classes))
    return shared


# Retrained last layers

RETRAINED = "target_rt_accuracy"


def _renamed(scores: Scores) -> Scores:
    """The accuracy of retrained last layers, of all items and of every group, under its own name."""
    kept: Bools = (scores["metric"] == "accuracy") & (scores["by"] == "") & (scores["stat"] != DIFFERENCE)
    return scores.take(kept).assign(metric=RETRAINED)
