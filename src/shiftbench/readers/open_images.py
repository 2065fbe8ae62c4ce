"""Open Images: CSV files of boxes, a row per box, and a file of class descriptions."""

from pathlib import Path
from typing import Annotated

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Strs, encode
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import decimal, filled, read_table, strings
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import image_folder, paths_below
from shiftbench.readers.annotation_files import Images, Name, box_tags, source_files

COLUMNS = ("ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax")


def open_images(
    *sources: Annotated[Path | str, "Files of boxes: validation-annotations-bbox.csv."],
    classes: Annotated[Path | str, "class-descriptions-boxable.csv."],
    images: Images = None,
    name: Name = "open_images",
) -> Collection:
    """Open Images' tables of boxes: classes become tags with areas and boxes.

    Items are the images that have a box. Boxes of groups and of depictions count. Factor `split`: the word before
    `-annotations` in the name of the first file that has the image. An image is ID.jpg in the folder of the images, or
    in the folder of its split in it.

    shiftbench read open_images validation-annotations-bbox.csv --classes class-descriptions-boxable.csv --out oi
    """
    root = image_folder(images)
    files = source_files(sources, "open_images")
    name_of = _classes(Path(classes))
    tables = [read_table(path, COLUMNS, text=COLUMNS[:2], every=False) for path in files]
    pairs = list(zip(files, tables, strict=True))
    for path, table in pairs:
        filled(path, table, COLUMNS)
    ids = np.concatenate([strings(path, table, "ImageID") for path, table in pairs])
    label = np.concatenate([strings(path, table, "LabelName") for path, table in pairs])
    boxes = np.concatenate([_boxes(path, table) for path, table in pairs])
    file: Ints = np.repeat(np.arange(len(files)), [len(table) for table in tables])
    start: Ints = np.cumsum([0, *(len(table) for table in tables)])
    code, labels = encode(label)
    for missing in [number for number, word in enumerate(labels) if word not in name_of][:1]:
        row = int(np.flatnonzero(code == missing)[0])
        raise ShiftBenchError(f"{files[file[row]]}: row {row - start[file[row]]} has LabelName '{labels[missing]}', "
                              f"which {classes} does not describe.")
    item, items = encode(ids)
    first = np.unique(item, return_index=True)[1]
    split = np.asarray([_split(path) for path in files], np.str_)[file[first]]
    return Collection(
        name, np.asarray(items, np.str_), {"split": split},
        tags=box_tags(item, code, [name_of[word] for word in labels], boxes,
                      where=lambda row: f"{files[file[row]]}: row {row - start[file[row]]}"),
        pixels=None if root is None else _pixels(root, items, split), root=root)


def _split(path: Path) -> str:
    return path.name.partition("-annotations")[0].removeprefix("oidv6-").removeprefix("oidv7-").partition(".")[0]


def _boxes(path: Path, table: object) -> Floats:
    """x, y, width, height of every row."""
    left, right, top, bottom = (decimal(path, table, side) for side in COLUMNS[2:])
    return np.stack([left, top, right - left, bottom - top], axis=1)


def _classes(path: Path) -> dict[str, str]:
    """Code -> name. Most versions of the file have no header: what is read as one is their first row."""
    table = read_table(path)
    if table.num_columns != 2:
        raise ShiftBenchError(f"{path}: has {table.num_columns} columns. A file of class descriptions has two, a code "
                              "and a name.")
    header = table.column_names
    pairs = dict(zip(strings(path, table, header[0]).tolist(), strings(path, table, header[1]).tolist(), strict=True))
    return pairs if header[0] == "LabelName" else {header[0]: header[1]} | pairs


def _pixels(root: Path, items: tuple[str, ...], split: Strs) -> Strs:
    has_folder = {folder: (root / folder).is_dir() for folder in set(split.tolist())}
    return paths_below(root, [f"{folder}/{item}.jpg" if has_folder[folder] else f"{item}.jpg"
                              for item, folder in zip(items, split.tolist(), strict=True)])
