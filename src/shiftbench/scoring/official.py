"""NOOCh's published lists as benchmarks: any model's predictions, scored on the authors' hard and easy images.

An image's id alone makes it hard, as in the authors' code. That code skips listed images that a model did not predict;
here a split must be predicted whole or not at all, so that the numbers are comparable with the published ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Bools, Strs, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import decimal, read_table, strings
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import CHOICES, IDS, Predictions, model_names, read_predictions, refuse_trained
from shiftbench.data.scores import Scores
from shiftbench.scoring.hard_items import COLUMN, EASY, SIDES
from shiftbench.scoring.judge import score
from shiftbench.shifts.challenge_sets import (
    CRITERIA,
    PHASES,
    HardIds,
    kinds_by_list,
    listed_tasks,
    read_lists,
    slug,
)

SPLIT = {"valid": "id_val", "test": "test"}
"""The authors' name of a split -> our name."""
SPLIT_WORDS = {"valid": "id_val", "validation": "id_val", "val": "id_val", "id_val": "id_val", "test": "test"}
TRUTH = "truth"
"""Column with the true label: `car` and `no car`, or 1 and 0. The lists give the label of hard images only."""
SINGLE = ("logit", "probability")
"""Columns with one number per image: the logit or probability that the class is present."""


def score_on_lists(
    first: Benchmark | Path | str, others: Sequence[Predictions | Answers | Path | str], folder: Path | str,
    task: str = "", *, ignore_splits: bool = False, **options: Any,
) -> Scores:
    """Score predictions on the published lists.

    `first` is a benchmark, or a file of predictions like the others: then the lists make a benchmark of each file's
    images.
    """
    if isinstance(first, Path | str) and not Path(first).exists():
        raise ShiftBenchError(f"{first}: there is no such file. With nooch (--nooch) the first name is a file of "
                              "predictions, or the folder of a benchmark.")
    benchmark, sources = None, others
    if isinstance(first, Path | str) and Path(first).is_file():
        sources = (first, *others)
    else:
        benchmark = first if isinstance(first, Benchmark) else Benchmark.load(first)
    if not sources:
        raise ShiftBenchError("There are no predictions to score. Name at least one file.")
    parts = []
    for name, source in zip(model_names(sources), sources, strict=True):
        pairs = (challenges(_file(source), folder, task, ignore_splits=ignore_splits) if benchmark is None
                 else _on_benchmark(source, benchmark, folder, task, ignore_splits))
        parts += [score(challenge, predictions, run=f"{name}, {challenge.name}", method=name, **options)
                  for challenge, predictions in pairs]
    return Scores.join(parts)


def _file(source: Predictions | Answers | Path | str) -> Path | str:
    if isinstance(source, Predictions | Answers):
        raise ShiftBenchError("Without a benchmark, name files of predictions to score on published lists.")
    return source


def _on_benchmark(
    source: Predictions | Answers | Path | str, benchmark: Benchmark, folder: Path | str, task: str,
    ignore_splits: bool,
) -> Iterator[tuple[Benchmark, Predictions | Answers]]:
    """Yield the benchmark with the published kinds, and the predictions on it, for every criterion."""
    if isinstance(source, Answers):
        raise ShiftBenchError("Published lists are of classes; these predictions are boxes or tokens.")
    by_criterion = list(on_lists(benchmark, folder, task))
    predictions = read_predictions(source, benchmark, ignore_splits=ignore_splits)
    positive = task.replace("_", " ") or str(benchmark.card.get("positive") or "")
    if isinstance(predictions, Predictions) and len(predictions.classes) == 2 and positive in predictions.classes:
        predictions = no_at_ties(predictions, positive)
    for challenge in by_criterion:
        yield challenge, predictions


def on_lists(benchmark: Benchmark, folder: Path | str, task: str = "") -> Iterator[Benchmark]:
    """Yield the benchmark with the published kinds, once per criterion for which the folder has lists of its task."""
    name = _task(folder, task or str(benchmark.card.get("positive") or ""))
    for criterion in _criteria(folder, name):
        kind, n_items, all_ids = np.full(len(benchmark), EASY, "U13"), 0, 0
        for phase in PHASES:
            ids = read_lists(folder, criterion, name, phase)
            listed = kinds_by_list(benchmark.items, ids)
            kind = np.where(listed != EASY, listed, kind)
            n_items, all_ids = n_items + int((listed != EASY).sum()), all_ids + len(ids.positive) + len(ids.negative)
        if not n_items:
            raise ShiftBenchError(f"{folder}: none of the {all_ids} listed images of '{name}' is an item of benchmark "
                                  f"'{benchmark.name}', whose items are named like '{benchmark.items[0]}'.")
        notes = [*benchmark.card.get("notes", ()), f"{all_ids - n_items} of {all_ids} listed images are no items here."]
        yield replace(benchmark, extra={**benchmark.extra, COLUMN: kind}, card={
            **benchmark.card, "name": _name(criterion, name), "criterion": {"name": f"published {criterion}"},
            "notes": notes})


def challenges(
    path: Path | str, folder: Path | str, task: str = "", *, ignore_splits: bool = False
) -> Iterator[tuple[Benchmark, Predictions]]:
    """Yield, for every criterion, the benchmark that the lists make of a file's images, and the file's predictions.

    `Predictions.load` reads the file, or it has a column `logit` or `probability` of the task's class. With a column
    `truth` every image counts, and images on no list are easy. Without it only hard images count, and their list gives
    the label. If a file has images of both splits, those on no list need a column `split` (valid, test).
    """
    name = _task(folder, task)
    table = read_table(path, text=(*IDS, *CHOICES, TRUTH, "split"))
    column = next((word for word in IDS if word in table.column_names), None)
    if column is None:
        raise ShiftBenchError(f"{path}: has no column 'item'. Its columns: {', '.join(table.column_names)}.")
    items = strings(path, table, column)
    for criterion in _criteria(folder, name):
        lists = {SPLIT[phase]: read_lists(folder, criterion, name, phase) for phase in PHASES}
        lists = {split: ids for split, ids in lists.items() if np.isin(items, np.concatenate(ids)).any()}
        if not lists:
            raise ShiftBenchError(f"{path}: none of its {len(items)} images is on a list of '{name}' in {folder}. Ids "
                                  "are those of COCO, such as 391895.")
        yield _challenge(path, table, items, lists, criterion, name, ignore_splits)


def _challenge(
    path: Path | str, table: pa.Table, items: Strs, lists: dict[str, HardIds], criterion: str, task: str,
    ignore_splits: bool,
) -> tuple[Benchmark, Predictions]:
    listed = np.concatenate([np.concatenate(ids) for ids in lists.values()])
    others = np.unique(items[~np.isin(items, listed)])
    all_items = np.concatenate([listed, others])
    kind = np.concatenate([np.repeat(SIDES, [len(ids.positive), len(ids.negative)]) for ids in lists.values()]
                          + [np.full(len(others), EASY)])
    split = np.concatenate([np.full(len(np.concatenate(ids)), name) for name, ids in lists.items()]
                           + [_splits(path, table, items, others, list(lists))])
    shows_class, n_contrary = kind == SIDES[0], 0
    if TRUTH in table.column_names:
        stated, position = _truth(path, strings(path, table, TRUTH), task), positions(all_items, items)
        truth = np.where(position >= 0, stated[position], shows_class)
        n_contrary, shows_class = int((truth != shows_class)[kind != EASY].sum()), truth
    else:
        split = np.where(kind == EASY, "train", split)  # their label is unknown: they are read, but not scored
    notes = [f"{n_contrary} listed images have another label than their list says."] if n_contrary else []
    whole = Benchmark.of(
        Collection("nooch", all_items), None, 0, np.arange(len(all_items)), split,
        label=np.where(shows_class, task, f"no {task}"), domain=np.where(kind == EASY, EASY, "hard"),
        extra={COLUMN: kind},
        card={"name": _name(criterion, task), "shift": "context", "positive": task, "notes": notes,
              "criterion": {"name": f"published {criterion}"}})
    if task not in whole.names["label"]:
        raise ShiftBenchError(f"{path}: none of its images shows '{task}', by the lists and by column '{TRUTH}'.")
    if "split" in table.column_names and not ignore_splits:
        claimed = strings(path, table, "split", gap="")
        refuse_trained(items, claimed, whole.split[positions(items, whole.items)], str(path))
    loaded = _one_column(path, table, items, whole, task) or Predictions.load(path, whole, ignore_splits=True)
    keep = loaded.split != "train"
    return whole, no_at_ties(
        Predictions(loaded.item[keep], loaded.split[keep], loaded.scores[keep], loaded.classes), task)


def no_at_ties(predictions: Predictions, task: str) -> Predictions:
    """The same predictions, changed so that two equal scores mean that the class is absent.

    The authors predict the class where the logit is above 0, and not at 0. Without this change the class whose name
    sorts first would win: `car` before `no car`, but `no tie` before `tie`. The class's score is lowered by the
    smallest possible step; images with equal scores stay equal.
    """
    scores, column = predictions.scores, predictions.classes.index(task)
    tied = np.flatnonzero(scores[:, 0] == scores[:, 1])
    if not len(tied):
        return predictions
    scores = scores.copy()
    value = scores[tied, column]
    scores[tied, column] = np.where(value == 0, -np.finfo(np.float32).tiny, np.nextafter(value, np.float32(-np.inf)))
    return replace(predictions, scores=scores)


def _one_column(path: Path | str, table: pa.Table, items: Strs, whole: Benchmark, task: str) -> Predictions | None:
    """Predictions from a single number per image; None if the table has neither column of `SINGLE`."""
    name = next((word for word in SINGLE if word in table.column_names), None)
    if name is None:
        return None
    value = decimal(path, table, name)
    wrong = np.isnan(value) | (((value < 0) | (value > 1)) if name == "probability" else np.isinf(value))
    if wrong.any():
        raise ShiftBenchError(f"{path}: column '{name}' has {value[wrong][0]} in row {int(np.argmax(wrong)) + 1}. Give "
                              f"every image a {'number from 0 to 1' if name == 'probability' else 'finite number'}.")
    if len(np.unique(items)) < len(items):
        names, times = np.unique(items, return_counts=True)
        raise ShiftBenchError(f"{path}: image {names[times > 1][0]} appears more than once. Give one number per image.")
    scores = np.zeros((len(items), 2))
    column = whole.names["label"].index(task)
    with np.errstate(divide="ignore"):
        scores[:, column] = value if name == "logit" else np.log(value)
        scores[:, 1 - column] = 0.0 if name == "logit" else np.log1p(-value)
    return Predictions(items, whole.split[positions(items, whole.items)], scores.astype(np.float32),
                       whole.names["label"])


def _splits(path: Path | str, table: pa.Table, items: Strs, others: Strs, with_lists: list[str]) -> Strs:
    """The split of images that are on no list: from the file's column, else the last split that has lists."""
    if "split" in table.column_names:
        words = strings(path, table, "split", gap="")[positions(others, items)]
        for word in np.unique(words).tolist():
            if word not in SPLIT_WORDS:
                raise unknown("split", word, SPLIT_WORDS, str(path))
        return np.asarray([SPLIT_WORDS[word] for word in words.tolist()], np.str_)
    if TRUTH in table.column_names and len(others) and len(with_lists) > 1:
        raise ShiftBenchError(f"{path}: has images of both lists, valid and test, and {len(others)} on neither. Say in "
                              "a column 'split' which of the two each image belongs to.")
    return np.full(len(others), with_lists[-1])


def _truth(path: Path | str, words: Strs, task: str) -> Bools:
    yes, no = (task, slug(task), "1", "True", "true"), (f"no {task}", f"no {slug(task)}", "0", "False", "false")
    for word in words[~np.isin(words, (*yes, *no))][:1].tolist():
        raise unknown("truth", word, (task, f"no {task}", "1", "0"), str(path))
    return np.isin(words, yes)


def _task(folder: Path | str, task: str) -> str:
    """The task under its name in the lists' folder; without a name, the folder's only task."""
    tasks = listed_tasks(folder)
    if not tasks:
        raise ShiftBenchError(f"{folder}: has no files nooch_ids_CE_TASK_hard_positive_test.npy and the like. Give the "
                              "folder of the published lists.")
    if not task and len(tasks) == 1:
        return tasks[0].replace("_", " ")
    if not task:
        raise ShiftBenchError(f"{folder}: has lists of {', '.join(tasks)}. Name the one that was predicted: --task.")
    if slug(task) not in tasks:
        raise unknown("task", task, tasks, str(folder))
    return task.replace("_", " ")


def _criteria(folder: Path | str, task: str) -> list[str]:
    return [word for word in CRITERIA if any(Path(folder).glob(f"nooch_ids_{word}_{slug(task)}_*.npy"))]


def _name(criterion: str, task: str) -> str:
    return f"nooch-{criterion.lower()}-{slug(task)}"
