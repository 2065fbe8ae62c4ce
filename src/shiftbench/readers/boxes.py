"""Objects in boxes as Pascal VOC and Open Images publish them.

VOC has an XML file per image in Annotations/, the images in JPEGImages/ and lists of ids in ImageSets/Main/. Open
Images has CSV files of boxes, a row per box, and a file of class descriptions.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from xml.parsers import expat

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Strs, Values, encode
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import check_regular
from shiftbench.core.tables import decimal, filled, read_table, strings
from shiftbench.data.collection import Collection, Tags
from shiftbench.data.image_files import image_folder, paths_below
from shiftbench.readers.annotation_files import LARGEST, Images, Name, no_collection, read_bytes, source_files


def box_tags(
    item: Ints, word: Ints, words: Sequence[str], boxes: Floats, where: Callable[[int], str],
    area: Floats | None = None,
) -> Tags:
    """Tags with areas from one row per box: row r says that item `item[r]` shows `words[word[r]]` in `boxes[r]`.

    A box is (x, y, width, height) as shares of the image, and its area is its width × height unless `area` has it.
    The vocabulary is in the order of names. `where(r)` names the place of row r in an error.
    """
    for row in np.flatnonzero(~((np.abs(boxes) <= LARGEST).all(axis=1) & (boxes[:, 2:] >= 0).all(axis=1)))[:1]:
        x, y, width, height = boxes[row].tolist()
        raise ShiftBenchError(f"{where(int(row))}: the box is {width:.4g} × {height:.4g} of the image at ({x:.4g}, "
                              f"{y:.4g}). Sides are positive, and at most {LARGEST} times those of the image.")
    names = sorted(set(words))
    code_of = {name: code for code, name in enumerate(names)}
    code = np.asarray([code_of[name] for name in words], np.int64)[word] if len(words) else word
    return Tags.of(item, code, names, "object", boxes[:, 2] * boxes[:, 3] if area is None else area, boxes)


# Pascal VOC

SPLITS = ("train", "val", "test")
SIDES = ("xmin", "ymin", "xmax", "ymax")
DEEPEST, LARGEST_FILE = 20, 1 << 24
_FIELDS = {("annotation", "filename"), ("annotation", "size", "width"), ("annotation", "size", "height"),
           ("annotation", "object", "name"), *(("annotation", "object", "bndbox", side) for side in SIDES)}


def voc(
    source: Annotated[Path | str, "Folder that holds Annotations/, or the XML files themselves."],
    *,
    images: Annotated[Path | str | None, "Folder of the images; default: JPEGImages/ if it is there."] = None,
    name: Name | None = None,
) -> Collection:
    """Pascal VOC's XML files, an image each: classes become tags with areas and boxes.

    An item is the name of an XML file. Classes become tags with the shares of their boxes; difficult and truncated
    objects count, parts of a person do not. Pixels are counted from 1 and the last one belongs to the box, as in VOC.
    Factors: `width`, `height`, and `split` where ImageSets/Main has lists train, val and test (`none` for other items).

    shiftbench read voc VOCdevkit/VOC2012 --out collections/voc
    """
    root = Path(source)
    folder = root / "Annotations" if (root / "Annotations").is_dir() else root
    if not folder.is_dir():
        raise ShiftBenchError(f"{root}: no such folder. Name the folder that holds Annotations/.")
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".xml" and path.name[0] != ".")
    if not files:
        raise ShiftBenchError(f"{folder}: holds no XML files. VOC has one per image.")
    with no_collection():
        parsed = [_parse(path) for path in files]
    item: Ints = np.repeat(np.arange(len(parsed)), [len(image.names) for image in parsed])
    names = [word for image in parsed for word in image.names]
    size = np.asarray([(image.width, image.height) for image in parsed], np.int64).reshape(-1, 2)
    corners = np.asarray([box for image in parsed for box in image.boxes], np.float64).reshape(-1, 4)
    items = np.asarray([path.stem for path in files], np.str_)
    factors: dict[str, Values] = {"width": size[:, 0], "height": size[:, 1]} | _splits(root, items)
    beside = root / "JPEGImages"
    image_root = image_folder(images if images is not None else beside if beside.is_dir() else None)
    return Collection(
        name or root.resolve().name or "voc", items, factors,
        tags=box_tags(item, np.arange(len(names)), names, _shares(corners, size[item]),
                      lambda row: str(files[item[row]])),
        pixels=None if image_root is None else paths_below(image_root, [image.file for image in parsed]),
        root=image_root)


class _Annotation(NamedTuple):
    """The image and the objects of an XML file."""

    file: str
    width: int
    height: int
    names: list[str]
    boxes: list[list[float]]


def _parse(path: Path) -> _Annotation:
    """Read an XML file; one that declares a document type, and with it perhaps entities, is refused."""
    objects: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    trail: list[str] = []
    text: list[str] = []

    def start(tag: str, _: Any) -> None:
        trail.append(tag)
        text.clear()
        if len(trail) > DEEPEST:
            raise ShiftBenchError(f"{path}, line {parser.CurrentLineNumber}: nested more than {DEEPEST} deep.")
        if trail == ["annotation", "object"]:
            objects.append({"line": str(parser.CurrentLineNumber)})

    def end(tag: str) -> None:
        if tuple(trail) in _FIELDS:
            (objects[-1] if trail[1] == "object" else fields)[tag] = "".join(text).strip()
        trail.pop()
        text.clear()

    def refuse(*_: Any) -> None:
        raise ShiftBenchError(f"{path}, line {parser.CurrentLineNumber}: declares a document type, which no VOC file "
                              "does. Remove it.")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text.append, refuse
    content = read_bytes(path)
    if len(content) > LARGEST_FILE:
        raise ShiftBenchError(f"{path}: has more than {LARGEST_FILE >> 20} MB. VOC has a small file per image.")
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, LookupError, ValueError) as problem:
        raise ShiftBenchError(f"{path}: not a readable XML file ({problem}).") from problem
    boxes = [[_number(path, entry, side) for side in SIDES] for entry in objects]
    width, height = (_number(path, fields, side) for side in ("width", "height"))
    if not (1 <= width <= 1 << 31 and 1 <= height <= 1 << 31):
        raise ShiftBenchError(f"{path}: the image is {width:g} × {height:g} pixels.")
    for entry in objects:
        if not entry.get("name"):
            raise ShiftBenchError(f"{path}, line {entry['line']}: the object has no name.")
    return _Annotation(fields.get("filename") or f"{path.stem}.jpg", int(width), int(height),
                       [entry["name"] for entry in objects], boxes)


def _number(path: Path, fields: dict[str, str], key: str) -> float:
    try:
        value = float(fields[key])
    except (KeyError, ValueError):
        value = np.nan
    if not np.isfinite(value):
        line = f", line {fields['line']}: the object" if "line" in fields else ": the image"
        raise ShiftBenchError(f"{path}{line} has no number {key}" + (
            f", but '{fields[key][:40]}'." if key in fields else "."))
    return value


def _shares(corners: Floats, size: Ints) -> Floats:
    """x, y, width, height as shares of the image: the pixels xmin to xmax, the first of which is 1."""
    low, high = corners[:, :2] - 1, corners[:, 2:]
    return np.concatenate([low / size, (high - low) / size], axis=1)


def _splits(root: Path, items: Strs) -> dict[str, Values]:
    """The factor `split` by the lists of ids, where there are any."""
    splits = np.full(len(items), "none", "<U5")
    lists = [(split, root / "ImageSets" / "Main" / f"{split}.txt") for split in SPLITS]
    if not any(path.is_file() for _, path in lists):
        return {}
    for split, path in lists:
        if path.is_file():
            check_regular(path)
            try:
                ids = [line.split()[0] for line in path.read_text("utf-8").splitlines() if line.strip()]
            except UnicodeDecodeError as problem:
                raise ShiftBenchError(f"{path}: is not UTF-8 text.") from problem
            rows = np.flatnonzero(np.isin(items, np.asarray(ids, np.str_)))
            for row in rows[splits[rows] != "none"][:1]:
                raise ShiftBenchError(f"{path}: lists '{items[row]}', which the list of {splits[row]} has too.")
            splits[rows] = split
    return {"split": splits}


# Open Images

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
    name_of = _class_names(Path(classes))
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
                      lambda row: f"{files[file[row]]}: row {row - start[file[row]]}"),
        pixels=None if root is None else _pixels(root, items, split), root=root)


def _split(path: Path) -> str:
    return path.name.partition("-annotations")[0].removeprefix("oidv6-").removeprefix("oidv7-").partition(".")[0]


def _boxes(path: Path, table: object) -> Floats:
    """x, y, width, height of every row."""
    left, right, top, bottom = (decimal(path, table, side) for side in COLUMNS[2:])
    return np.stack([left, top, right - left, bottom - top], axis=1)


def _class_names(path: Path) -> dict[str, str]:
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
