"""Annotators' answers: read the files that the page saves, and check them against the key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, Ints, Strs, encode
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import read_json
from shiftbench.human.pages import Key, pair_of

FORMAT = "shiftbench answers"
VERSION = 1
HEAD = {"study": str, "annotator": str, "session": str, "saved": str, "check": int, "tasks": list}


@dataclass(frozen=True, eq=False)
class Answers:
    """One row per image that an annotator sorted. `missing` counts images of tasks begun that were left unsorted."""

    annotator: Strs
    task: Strs
    pair: Strs
    split: Strs
    image: Strs
    chosen: Ints  # group 0 or 1
    right: Bools
    missing: Mapping[str, int]  # by split
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.right)

    @property
    def question(self) -> Ints:
        """A code per task and image: the same for all annotators who were asked the same."""
        return encode(np.char.add(np.char.add(self.task, " "), self.image))[0]


@dataclass(frozen=True)
class Sheet:
    """One annotator's answers to one task, and the file they are from."""

    file: Path
    session: str
    saved: str
    chosen: Mapping[str, int]


def read_answers(paths: Sequence[Path | str], key: Key) -> Answers:
    """Read all files of a human study. Foreign files are refused; repeated answers count once and are noted."""
    if not paths:
        raise ShiftBenchError("There are no answers to read. Name the files that the page saved.")
    sheets: dict[tuple[str, str], Sheet] = {}
    notes: list[str] = []
    for path in paths:
        annotator, answers = _read(Path(path), key)
        for task, sheet in answers.items():
            before = sheets.get((annotator, task))
            if before is not None:
                sheet = _choose(before, sheet, annotator, task, notes)
            sheets[annotator, task] = sheet
    columns: dict[str, list[Any]] = {name: [] for name in ("annotator", "task", "pair", "split", "image", "chosen",
                                                            "right")}
    missing = dict.fromkeys(key.splits.values(), 0)
    for (annotator, task), sheet in sorted(sheets.items()):
        asked = key.by_id[task]
        missing[asked["split"]] += len(asked["questions"]) - len(sheet.chosen)
        for image, chosen in sorted(sheet.chosen.items()):
            row = (annotator, task, pair_name(pair_of(asked)), asked["split"], image, chosen,
                   chosen == asked["questions"][image]["group"])
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    if not columns["right"]:
        raise ShiftBenchError(f"{paths[0]}: no image was sorted in the {len(paths)} files given. There is nothing to "
                              "score.")
    texts = {name: np.asarray(columns[name], np.str_) for name in ("annotator", "task", "pair", "split", "image")}
    unsorted = sum(missing.values())
    if unsorted:
        notes.append(f"{unsorted} of {unsorted + len(columns['right'])} images in tasks that were begun are unsorted; "
                     "they count as missing, not as wrong.")
    return Answers(**texts, chosen=np.asarray(columns["chosen"], np.int64), missing=missing,
                   right=np.asarray(columns["right"], np.bool_), notes=tuple(dict.fromkeys(notes)))


def pair_name(pair: tuple[str, str]) -> str:
    """The name of a pair of superclasses in tables: `cat / dog`."""
    return " / ".join(pair)


def checksum(study: str, annotator: str, tasks: Sequence[tuple[str, Sequence[tuple[str, int]]]]) -> int:
    """The FNV-1a hash of the answers, as the page computes it. It detects accidental edits, not forgery."""
    answers = "".join(f"\n{task}:" + ",".join(f"{image}={group}" for image, group in chosen) for task, chosen in tasks)
    value = 0x811C9DC5
    for byte in f"{study}\n{annotator}{answers}".encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _read(path: Path, key: Key) -> tuple[str, dict[str, Sheet]]:
    facts = read_json(path)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ShiftBenchError(f"{path}: not a file of answers. The page of a human study saves them as answers-….json.")
    if facts.get("version") != VERSION:
        raise ShiftBenchError(f"{path}: answers in format {facts.get('version')}, this version reads {VERSION}.")
    for name, expected in HEAD.items():
        if not isinstance(facts.get(name), expected):
            raise ShiftBenchError(f"{path}: '{name}' is missing or not what it should be; the file was changed. Save "
                                  "it from the page again.")
    if facts["study"] != key.id:
        raise ShiftBenchError(f"{path}: answers to human study {facts['study']}, but the key is of {key.id}. Give "
                              "the human study whose page they were saved from.")
    annotator = " ".join(facts["annotator"].split())
    if not annotator:
        raise ShiftBenchError(f"{path}: has no annotator's name. Without one, two people look like one.")
    sheets: dict[str, Sheet] = {}
    chosen_by_task = []
    for entry in facts["tasks"]:
        task, chosen = _entry(entry, key, path)
        if task in sheets:
            raise ShiftBenchError(f"{path}: has task '{task}' twice, but the page saves each once; the file was "
                                  "changed.")
        sheets[task] = Sheet(path, facts["session"], facts["saved"], dict(chosen))
        chosen_by_task.append((task, chosen))
    if checksum(key.id, facts["annotator"], chosen_by_task) != facts["check"]:
        raise ShiftBenchError(f"{path}: the answers do not match the file's own check; they were changed after the "
                              "page saved them. Save them from the page again.")
    return annotator, sheets


def _entry(entry: Any, key: Key, path: Path) -> tuple[str, list[tuple[str, int]]]:
    """Check one task of a file: every image is known, appears once, and is in group 0 or 1."""
    task = entry.get("task") if isinstance(entry, dict) else None
    if not isinstance(task, str) or not isinstance(entry.get("answers"), list):
        raise ShiftBenchError(f"{path}: a task has no 'task' or no 'answers'; the file was changed.")
    if task not in key.by_id:
        raise unknown("task", task, key.by_id, str(path))
    asked = key.by_id[task]["questions"]
    chosen: list[tuple[str, int]] = []
    for answer in entry["answers"]:
        image, group = (answer.get("image"), answer.get("group")) if isinstance(answer, dict) else (None, None)
        if not isinstance(image, str) or image not in asked:
            raise ShiftBenchError(f"{path}: task '{task}' does not ask for image {image!r}; the file was changed.")
        if group not in (0, 1) or isinstance(group, bool):
            raise ShiftBenchError(f"{path}: task '{task}', image {image}: the group is {group!r}, but must be 0 or 1.")
        chosen.append((image, int(group)))
    if len(dict(chosen)) < len(chosen):
        raise ShiftBenchError(f"{path}: task '{task}' has an image twice; the file was changed.")
    return task, chosen


def _choose(before: Sheet, sheet: Sheet, annotator: str, task: str, notes: list[str]) -> Sheet:
    """Choose between two sheets of one annotator and task: the later one of a session; otherwise they must be equal."""
    if before.chosen == sheet.chosen:
        notes.append(f"{sheet.file.name} repeats answers of {before.file.name}; they count once.")
        return before
    if before.session != sheet.session:
        raise ShiftBenchError(f"{sheet.file}: '{annotator}' answers task '{task}' differently in {before.file}, in "
                              "another session. If these are two people, give each their own name; else leave one file "
                              "out.")
    late, early = (sheet, before) if sheet.saved >= before.saved else (before, sheet)
    notes.append(f"{late.file.name} was saved later than {early.file.name} in the same session; its answers count.")
    return late
