"""NOOCh's challenge sets: its tasks, and the published lists of image ids, one per criterion, task, kind and split.

    nooch_ids_{CE|gist}_{task}_{hard_positive|hard_negative}_{valid|test}.npy

Everything else of a split is easy. The files hold ids only, no labels.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Strs
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.data.collection import Collection
from shiftbench.shifts.cues import Judged, by_areas, carrying, yes_or_no

if TYPE_CHECKING:
    from shiftbench.shifts.out_of_context import Context

TASKS = {
    "car": "road",
    "bowl": "dining table",
    "boat": "sea",
    "fire hydrant": "pavement",
    "airplane": "sky-other",
    "cow": "grass",
    "backpack": "person",
    "cup": "dining table",
    "surfboard": "sea",
    "tie": "person",
    "sports ball": "playingfield",
    "kite": "sky-other",
}
"""The twelve tasks (Madras & Zemel, 2021, §3.2): label -> strongest cue, whose presence makes the environments, in the
words of COCO and COCO-Stuff. A task may have further cues, which `cues` finds."""

SIZES = {
    "car": (740, 465, 1539, 949),
    "bowl": (452, 533, 944, 1084),
    "boat": (163, 362, 361, 756),
    "fire hydrant": (107, 776, 189, 1577),
    "airplane": (121, 1818, 258, 3622),
    "cow": (100, 1238, 194, 2360),
    "backpack": (292, 3223, 607, 6413),
    "cup": (345, 3408, 743, 6852),
    "surfboard": (75, 1981, 147, 4011),
    "tie": (67, 3158, 136, 6347),
    "sports ball": (61, 3273, 151, 6574),
    "kite": (22, 3338, 55, 6725),
}
"""Images on the published lists, by either criterion: hard positives and negatives of validation, then of test."""

WORLD_TASKS = {
    "bus": "street",
    "elephant": "savanna",
    "horse": "farm",
    "giraffe": "savanna",
    "bear": "forest",
    "clock": "street",
}
"""The like on the built-in world of scenes, where the cues are places."""


def slug(task: str) -> str:
    """A task as file names say it.

    >>> slug("fire hydrant")
    'fire_hydrant'
    """
    return task.replace(" ", "_")


CRITERIA = ("CE", "gist")
PHASES = ("valid", "test")
SIDES = ("hard_positive", "hard_negative")
SPLIT_IDS = {"train_ids": "train", "valid_ids": "id_val", "test_ids": "test"}
_NAME = re.compile(r"nooch_ids_(CE|gist)_(.+)_(hard_positive|hard_negative)_(valid|test)\.npy")


class HardIds(NamedTuple):
    """The ids of one challenge set, in the order of the files."""

    positive: Strs
    negative: Strs


def read_lists(folder: Path | str, criterion: str, task: str, phase: str) -> HardIds:
    """One challenge set: read_lists("nooch", "CE", "fire hydrant", "test"). `ce` means CE."""
    positive, negative = (_read(_file(folder, criterion, task, side, phase)) for side in SIDES)
    both = np.intersect1d(positive, negative)
    if both.size:
        raise ShiftBenchError(f"{folder}: image {both[0]} is a hard positive and a hard negative of '{task}' in "
                              f"{phase}. One of the two lists was changed; copy both again.")
    return HardIds(positive, negative)


def read_splits(path: Path | str) -> dict[str, Strs]:
    """The ids of the split that the lists belong to: cocostuff_split_image_ids.npz as published, by our words."""
    file = Path(path)
    try:
        with np.load(file, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile) or not set(SPLIT_IDS) <= set(archive.files):
                raise ShiftBenchError(f"{file}: has no {', '.join(SPLIT_IDS)}. Give cocostuff_split_image_ids.npz.")
            ids = {ours: _checked(file, archive[theirs]) for theirs, ours in SPLIT_IDS.items()}
    except ShiftBenchError:
        raise
    except Exception as problem:  # whatever a damaged archive makes zipfile and numpy stumble over
        raise ShiftBenchError(f"{file}: not readable as numpy's npz ({first_line(problem)}).") from problem
    names, times = np.unique(np.concatenate(list(ids.values())), return_counts=True)
    for name in names[times > 1][:1]:
        raise ShiftBenchError(f"{file}: image {name} is in two splits. Copy the file again.")
    return ids


def listed_tasks(folder: Path | str) -> tuple[str, ...]:
    """The tasks that a folder has lists of, as file names say them."""
    names = [_NAME.fullmatch(path.name) for path in sorted(Path(folder).glob("nooch_ids_*.npy"))]
    return tuple(sorted({name[2] for name in names if name}))


def kinds_by_list(items: Strs, ids: HardIds) -> Strs:
    """The kind of each item: its list's, else easy. Ids that are no item here are passed over, as the authors do."""
    return np.where(np.isin(items, ids.positive), SIDES[0], np.where(np.isin(items, ids.negative), SIDES[1], "easy"))


def _file(folder: Path | str, criterion: str, task: str, side: str, phase: str) -> Path:
    named = next((word for word in CRITERIA if word.lower() == criterion.lower()), None)
    if named is None:
        raise unknown("criterion of lists", criterion, CRITERIA)
    if phase not in PHASES:
        raise unknown("split of lists", phase, PHASES)
    short = slug(task)
    if not short or "/" in short or "\\" in short or "\0" in short:
        raise ShiftBenchError(f"'{task}' is no name of a task. Give the name of a class, such as 'fire hydrant'.")
    path = Path(folder) / f"nooch_ids_{named}_{short}_{side}_{phase}.npy"
    if not path.is_file():
        if not Path(folder).is_dir():
            raise ShiftBenchError(f"{folder}: no such folder. Give the folder of the files nooch_ids_*.npy.")
        tasks = listed_tasks(folder)
        if short not in tasks:
            raise unknown("task", short, tasks, str(folder))
        raise ShiftBenchError(f"{path}: no such file. A challenge set is two lists, of hard positives and negatives.")
    return path


def _read(path: Path) -> Strs:
    try:
        ids = np.load(path, allow_pickle=False)
    except Exception as problem:  # numpy lets through what its parser of headers stumbles over
        raise ShiftBenchError(f"{path}: not a list of ids in numpy's format ({first_line(problem)}). Copy it "
                              "again; files of Python objects are never opened.") from problem
    return _checked(path, ids)


def _checked(path: Path, ids: Any) -> Strs:
    if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iuU":
        shape = getattr(ids, "shape", "")
        raise ShiftBenchError(f"{path}: holds {getattr(ids, 'dtype', type(ids).__name__)} of shape {shape}, but a list "
                              "of ids is one row of whole numbers.")
    if ids.dtype.kind == "i" and (ids < 0).any():
        raise ShiftBenchError(f"{path}: has the id {ids.min()}. Ids are 0 or more.")
    names: Strs = ids.astype(np.str_)
    values, times = np.unique(names, return_counts=True)
    for name in values[times > 1][:1]:
        raise ShiftBenchError(f"{path}: lists image {name} more than once. Copy the file again.")
    return names


def by_lists(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """The published lists say what is hard in validation and test. They are silent on training, where CE is ours."""
    ce: Judged | None = None
    try:
        ce = by_areas(shift, collection, split)
        notes = list(ce.notes)
    except ShiftBenchError as problem:
        if shift.cue:
            raise
        notes = [f"No environments: {problem}"]
    carried = carrying(collection, shift.label) if ce is None else ce.label == shift.label
    if ce and shift.criterion == "ce":
        kind = ce.kind
    else:
        kind = np.full(len(split), "easy", "U13")
        notes.append("The lists are silent on training, so all its rows are easy.")
    absent = 0
    for name, phase in (("id_val", "valid"), ("test", "test")):
        ids = read_lists(shift.lists, shift.criterion, shift.label, phase)
        sizes = SIZES.get(shift.label, ())[2 * (phase == "test"):][:2]
        if sizes and sizes != (len(ids.positive), len(ids.negative)):
            notes.append(f"The lists for {phase} have {len(ids.positive)} hard positives and {len(ids.negative)} hard "
                         f"negatives; the published ones have {sizes[0]} and {sizes[1]}.")
        by_list = kinds_by_list(collection.items, ids)
        for row in np.flatnonzero((by_list != "easy") & (split != name))[:1]:
            raise ShiftBenchError(f"{shift.lists}: image {collection.items[row]} is listed for {phase}, but it is not "
                                  "in that split. Name the lists' own: split = 'cocostuff_split_image_ids.npz'.")
        kind = np.where(split == name, by_list, kind)
        absent += sum(map(len, ids)) - int((by_list != "easy").sum())
    odd = int((((kind == "hard_positive") & ~carried) | ((kind == "hard_negative") & carried)).sum())
    notes += [f"{absent} listed images are not in the collection."] if absent else []
    notes += [f"{odd} listed images have another label than their list says."] if odd else []
    return Judged(yes_or_no(shift.label, carried), ce.domain if ce else np.where(kind == "easy", "easy", "hard"), kind,
                  {**(ce.facts if ce else {}), "positive": shift.label,
                   "criterion": {"name": f"published {shift.criterion}"}}, notes)
