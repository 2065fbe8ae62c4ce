"""Predictions from outside as finished runs in memory, which are compared, selected and reported like any other run.

A file, a frame or an object is of one model, unless columns `name`, `method`, `model`, `setting` or `seed` say which
model each row is of.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Strs, encode, in_short, positions
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import path_of
from shiftbench.core.tables import column_names, is_frame, read_table, strings, table_name
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import CHOICES, IDS, SPLIT, Predictions, model_names, read_predictions, trained
from shiftbench.data.scores import Scores, run_id
from shiftbench.scoring.intervals import LEVEL, REPLICATES
from shiftbench.scoring.judge import MODEL_COLUMNS, is_described, is_run, means, score
from shiftbench.scoring.listing import Finished, RunSource, is_run_folder, read_run, runs_in
from shiftbench.scoring.runs import labels, under_methods

TEXT = (*IDS, *CHOICES, SPLIT)
"""Columns of predictions that stay text: the id 000123 is not the number 123."""
Words = Mapping[str, Sequence[Any]]
"""What the user says of outside models: under name, method, setting and seed, a word for all or one for each."""


def outside_runs(
    sources: Sequence[Any], benchmarks: Sequence[Benchmark | None], words: Words, **reading: Any
) -> list[Finished]:
    """The models in files, frames and objects as runs, each on its benchmark: one for all, or one for each source.

    A source whose benchmark is None is left out; the folder of a finished run is that run. Words of the user win over
    columns. Without either, a file is a method of its own, by the file's name.
    """
    if len(benchmarks) not in (1, len(sources)):
        raise ShiftBenchError(f"{table_name(sources[0])}: predictions say nothing about their benchmark. Name one with "
                              f"--benchmark for all {len(sources)} files, or one for each; there are "
                              f"{len(benchmarks)}.")
    for key, values in words.items():
        if len(values) not in (1, len(sources)):
            raise ShiftBenchError(f"There are {len(values)} words for {key}, but {len(sources)} files of predictions. "
                                  f"Give one --{key} for all, or one for each in their order.")
    runs: dict[str, Finished] = {}
    for number, (title, source) in enumerate(zip(model_names(sources), sources, strict=True)):
        benchmark = benchmarks[0 if len(benchmarks) == 1 else number]
        if benchmark is None:
            continue
        if is_run(source):
            run = read_run(Path(source))
            if run.benchmark["digest"] != benchmark.digest:
                raise ShiftBenchError(f"{source}: is a run on benchmark '{run.benchmark['name']}', whose rows are not "
                                      f"those of '{benchmark.name}'. Score it on its own, or predict with it first.")
            runs[run.name] = run
            continue
        from_user = {key: values[0 if len(values) == 1 else number] for key, values in words.items()}
        for columns, predictions in _models(source, benchmark, reading):
            facts: dict[str, Any] = {**columns, **from_user}
            method = facts.get("method") or facts.get("model") or facts.get("name") or title
            seed = _whole(facts.get("seed", 0), f"{title}: seed")
            settings = {"method": str(method), "seed": seed, "benchmark": benchmark.digest,
                        **{key: str(facts[key]) for key in ("model", "setting") if facts.get(key)}}
            name = _safe(str(facts.get("name") or run_id(settings)))
            if name in runs:
                raise ShiftBenchError(
                    f"{title}: has the second model of method '{method}' with seed {seed} on "
                    f"'{benchmark.name}'. Tell them apart with --method, --setting, --seed or --name.")
            runs[name] = Finished(Path(name), settings, {"name": benchmark.name, "digest": benchmark.digest,
                                                         "path": None}, outside=predictions)
    return list(runs.values())


def _models(
    source: Any, benchmark: Benchmark, reading: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], Predictions | Answers]]:
    """The models of one source, each with what its columns say."""
    renamed = set((reading.get("columns") or {}).values())
    if not is_described(source, benchmark, renamed):
        yield {}, read_predictions(source, benchmark, **reading)
        return
    table, where = read_table(source, text=(*TEXT, *MODEL_COLUMNS)), table_name(source)
    others = {*benchmark.names["label"], *renamed}
    columns = [name for name in MODEL_COLUMNS if name in table.column_names and name not in others]
    codes = np.zeros(len(table), np.int64)
    for name in columns:
        code, values = encode(strings(where, table, name))
        codes = codes * len(values) + code
    predictions = table.drop_columns(columns)
    for model in dict.fromkeys(codes.tolist()):  # in the order in which the file has them
        rows = np.flatnonzero(codes == model)
        first: dict[str, Any] = {name: str(table[name][int(rows[0])].as_py()) for name in columns}
        if "seed" in first:
            first["seed"] = _whole(first["seed"], f"{where}: column 'seed'")
        model_name = ", ".join(f"{name} {value}" for name, value in first.items())
        try:
            yield first, read_predictions(predictions.take(pa.array(rows)), benchmark, **reading)
        except ShiftBenchError as problem:
            raise ShiftBenchError(f"{where} ({model_name}): {str(problem).removeprefix('Table: ')}") from problem


def _whole(seed: object, where: str) -> int:
    word = str(seed).removesuffix(".0")
    if not word.isdecimal():
        raise ShiftBenchError(f"{where} has '{seed}', which is no whole number from 0.")
    return int(word)


def _safe(name: str) -> str:
    """A name that a folder can have."""
    letters = (letter if letter.isprintable() and letter not in "/\\" else "-" for letter in name)
    return "".join(letters).lstrip(".") or "-"


def score_outside(
    benchmark: Benchmark, runs: Sequence[Finished], *, replicates: int = REPLICATES, level: float = LEVEL,
    by: Sequence[str] = (), metrics: Sequence[str] = (), collection: Any = None,
) -> Scores:
    """The scores that `score_runs` gives the same predictions in run folders: of each run, and of each method's mean
    over its seeds with how far it is behind the best. A single run has no mean."""
    grouped: dict[str, Any] = {"replicates": replicates, "level": level, "by": by, "collection": collection}
    predictions = [run.predictions(benchmark) for run in runs]
    parts = [score(benchmark, outputs, **run.head, metrics=metrics, **grouped)
             for run, outputs in zip(runs, predictions, strict=True)]
    if len(runs) > 1:
        methods: dict[str, list[Predictions | Answers]] = {}
        heads: dict[str, dict[str, Any]] = {}
        for label, run, outputs in zip(labels([run.settings for run in runs]), runs, predictions, strict=True):
            methods.setdefault(label, []).append(outputs)
            heads.setdefault(label, run.head)
        parts.append(under_methods(means(benchmark, methods, **grouped), heads))
    return Scores.join(parts)


def is_predictions(source: Any) -> bool:
    """Whether this is a table of predictions, not of scores: it has ids of items."""
    if isinstance(source, Predictions | Answers):
        return True
    if not is_frame(source) and not (isinstance(source, str | Path) and Path(source).is_file()):
        return False
    try:
        names = column_names(source)
    except ShiftBenchError:
        return False  # reading it as scores then says what is wrong with it
    return "metric" not in names and any(name in names for name in IDS)


def runs_or_scores(
    source: Any, benchmarks: Benchmark | Path | str | Sequence[Benchmark | Path | str], words: Words, **reading: Any
) -> Scores | RunSource:
    """What a verb that compares runs works on: a table of scores, or runs on disk and in memory.

    `source` is a table of scores, a folder of runs or of one run, predictions, or a list of predictions, runs and
    folders of runs, which are then compared with one another. `reading` are options of `read_predictions`.
    """
    members = list(source) if isinstance(source, list | tuple) else [source]
    if not members:
        raise ShiftBenchError("There are no runs, scores or predictions to compare. Name a folder of runs, or a file.")
    if len(members) == 1 and not is_predictions(members[0]) and not is_run_folder(members[0]):
        if words:
            raise _no_predictions(members)
        (only,) = members
        return (Scores.from_frame(only) if is_frame(only) else only if isinstance(only, Scores) else
                path_of(only, "scores, nor predictions, nor a folder of runs"))
    folders, files = _folders_and_files(members)
    if words and not files:
        raise _no_predictions(members)
    named = [benchmarks] if isinstance(benchmarks, str | Path | Benchmark) else benchmarks
    loaded = [member if isinstance(member, Benchmark) else Benchmark.load(member) for member in named if files]
    return [*folders, *(outside_runs(files, loaded, words, **reading) if files else [])]


def _folders_and_files(sources: Sequence[Any]) -> tuple[list[Path], list[Any]]:
    """Folders among the sources of runs, and files, frames and objects."""
    folders = [isinstance(source, str | Path) and Path(source).is_dir() for source in sources]
    return ([Path(source) for source, folder in zip(sources, folders, strict=True) if folder],
            [source for source, folder in zip(sources, folders, strict=True) if not folder])


def _no_predictions(sources: Sequence[Any]) -> ShiftBenchError:
    return ShiftBenchError(f"{in_short(map(table_name, sources))}: holds no predictions for name, method, setting and "
                           "seed to describe. Leave them out.")


def runs_on_folds(
    source: Any, folds: Sequence[Benchmark], words: Words, **reading: Any
) -> list[list[Finished]]:
    """The models of predictions, and the finished runs of folders, on each of several benchmarks.

    A file may predict the items of one of them, or of several.
    """
    folders, files = _folders_and_files(list(source) if isinstance(source, list | tuple) else [source])
    finished, _ = runs_in(folders)
    predicted = [_predicted_folds(file, folds, reading.get("columns") or {}) for file in files]
    runs = []
    for fold in folds:
        on_fold = [fold if any(other is fold for other in of_file) else None for of_file in predicted]
        others = [other for other in folds if other is not fold]
        runs.append([*(run for run in finished if run.benchmark["digest"] == fold.digest),
                     *(outside_runs(files, on_fold, words, **reading, beside=others) if files else [])])
    return runs


def _predicted_folds(source: Any, folds: Sequence[Benchmark], columns: Mapping[str, str]) -> list[Benchmark]:
    """The folds whose test a source predicts, without the folds that hold out what its column `split` calls trained.
    If none is left, all folds: reading them then raises an error that says what is wrong."""
    if len(folds) == 1:
        return list(folds)
    claimed: Strs | None = None
    if isinstance(source, Predictions | Answers):
        items, claimed = source.item, source.split
    else:
        table, where = read_table(source, text=(*TEXT, *columns.values())), table_name(source)
        item, split = (next((name for name in (columns.get(names[0]), *names) if name in table.column_names), None)
                       for names in (IDS, (SPLIT,)))
        if item is None:
            return list(folds)
        items = strings(where, table, item)
        claimed = None if split is None else strings(where, table, split, gap="")
    predicted = []
    for fold in folds:
        rows = positions(items, fold.items)
        in_fold, split = rows >= 0, fold.split[rows]
        if (in_fold & (split == "test")).any() and (claimed is None or not (in_fold & trained(claimed, split)).any()):
            predicted.append(fold)
    return predicted or list(folds)
