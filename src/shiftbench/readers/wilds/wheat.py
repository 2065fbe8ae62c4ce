"""GlobalWheat of WILDS: photos of wheat fields, with a box around every head of wheat."""

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints, Strs, Values, positions
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import filled, long_texts, read_table, strings, whole, within
from shiftbench.data.collection import Collection, Tags
from shiftbench.readers.wilds.metadata import needed, pictures

SIDE = 1024  # pixels per side of every image
HEAD = "wheat_head"
NUMBER = re.compile(r"-?\d+(\.\d*)?")
FIELDS = {
    "Arvalis": 12, "ETHZ": 1, "Inrae": 1, "NMBU": 2, "Rres": 1, "ULiège-GxABT": 1, "Utokyo": 3, "Ukyoto": 1,
    "NAU": 3, "ARC": 1, "UQ": 11, "Terraref": 2, "KSU": 4, "CIMMYT": 3, "Usask": 1,
}  # sessions per team, in the order in which the column `domain` counts them
SESSIONS = tuple(f"{team}_{number}" for team, count in FIELDS.items() for number in range(1, count + 1))
OFFICIAL = {"train": "official_train", "val": "official_val", "test": "official_test", "id_val": "fixed_train_val",
            "id_test": "fixed_train_test"}
OTHERS = {  # the other settings of WILDS, read where all their files are there
    "split_test_to_test": {"train": "fixed_test_train", "val": "official_val", "test": "fixed_test_test"},
    "split_mixed_to_test": {"train": "mixed_train_train", "val": "official_val", "test": "mixed_train_test"},
    "split_official_with_subsampled_test": {
        "train": "official_train", "val": "official_val", "test": "fixed_test_test"},
}


def globalwheat(folder: Path, images: bool = True) -> Collection:
    """Boxes are the boxes of the tag `wheat_head`; the domain is `session`; `heads` counts the boxes of an image.

    Factors `country`, `location` and `stage` belong to the session. `split` is the official one; `split_test_to_test`
    and `split_mixed_to_test` are WILDS' in-distribution settings, `unused` for the images they leave out;
    `split_official_with_subsampled_test` trains on the official train and tests where test-to-test does.
    """
    paths = needed(folder, *(f"{name}.csv" for name in OFFICIAL.values()), "metadata_domain.csv")
    tables = [_read_file(path) for path in paths[:-1]]
    items = np.concatenate([table[0] for table in tables])
    session = np.concatenate([table[1] for table in tables])
    text = np.concatenate([table[2] for table in tables])
    split = np.concatenate([np.full(len(table[0]), word, "U7") for word, table in zip(OFFICIAL, tables, strict=True)])
    row, box = _boxes(folder, items, text)
    area = box[:, 2:].clip(min=0).prod(axis=1)
    pixels, root = pictures(folder, [f"images/{name}" for name in items.tolist()], images)
    return Collection(
        name="globalwheat",
        items=items,
        factors={"heads": np.bincount(row, minlength=len(items)).astype(np.int64),
                 "session": np.asarray(SESSIONS, np.str_)[session], **_fields(paths[-1], session), "split": split,
                 **_others(folder, items)},
        tags=Tags.of(row, np.zeros(len(row), np.int64), (HEAD,), area=area, boxes=box),
        pixels=pixels, root=root)


def corners(collection: Collection) -> tuple[Ints, npt.NDArray[np.float32]]:
    """Item numbers and boxes (left, top, right, bottom) in pixels, as WILDS' metric takes them."""
    tags = collection.tags
    box = tags.boxes * np.float32(SIDE)
    return tags.item[tags.box_row], np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)


def _read_file(path: Path) -> tuple[Strs, Ints, Values]:
    columns = ("image_name", "BoxesString", "domain")
    table = read_table(path, columns, text=columns[:2])
    filled(path, table, columns, blank=True)
    session = whole(path, table, "domain")
    within(path, "domain", session, len(SESSIONS) - 1)
    return strings(path, table, "image_name"), session, long_texts(path, table, "BoxesString")


def _boxes(folder: Path, items: Strs, text: Values) -> tuple[Ints, Floats]:
    """Item and box (x, y, width, height as shares) of every head; `no_box` says that there is none.

    The file has left, top, right and bottom in pixels; fractions of a pixel are cut off, as in WILDS.
    """
    lists = [[] if line.strip() == "no_box" else line.split(";") for line in text.tolist()]
    row = np.repeat(np.arange(len(lists)), [len(boxes) for boxes in lists]).astype(np.int64)
    flat = [box.split() for boxes in lists for box in boxes]
    for number in (number for number, box in enumerate(flat) if len(box) != 4 or not all(map(NUMBER.fullmatch, box))):
        raise ShiftBenchError(f"{folder}: image '{items[row[number]]}' has the box '{' '.join(flat[number])}'. A box "
                              "is four numbers: left top right bottom.")
    sides = np.trunc(np.asarray(flat, np.float64).reshape(-1, 4))
    return row, np.concatenate([sides[:, :2], sides[:, 2:] - sides[:, :2]], axis=1) / SIDE


def _fields(path: Path, session: Ints) -> dict[str, Values]:
    """Country, location and stage of growth of each session."""
    columns = ("name", "country", "location", "development_stage")
    table = read_table(path, columns, text=columns, between=";")
    names, *facts = (strings(path, table, column, gap="") for column in columns)
    used = np.unique(session)
    position = positions(np.asarray(SESSIONS, np.str_)[used], names)
    for code in used[position < 0].tolist()[:1]:
        raise ShiftBenchError(f"{path}: has no session '{SESSIONS[code]}', which an image names.")
    row = np.zeros(len(SESSIONS), np.int64)
    row[used] = position
    return {name: values[row[session]] for name, values in zip(("country", "location", "stage"), facts, strict=True)}


def _others(folder: Path, items: Strs) -> dict[str, Values]:
    splits: dict[str, Values] = {}
    for name, files in OTHERS.items():
        if not all((folder / f"{file}.csv").is_file() for file in files.values()):
            continue
        values = np.full(len(items), "unused", "U7")
        for value, file in files.items():
            names = _read_file(folder / f"{file}.csv")[0]
            position = positions(names, items)
            for image in names[position < 0].tolist()[:1]:
                raise ShiftBenchError(f"{folder / f'{file}.csv'}: image '{image}' is in none of the official files.")
            values[position] = value
        splits[name] = values
    return splits
