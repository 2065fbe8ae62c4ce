"""YOLO: a text file of boxes per image, a line `class x y width height` each, and a file that names the classes.

Folders called labels/ and images/ have the same tree: labels/train/1.txt belongs to images/train/1.jpg, and
train/labels/1.txt to train/images/1.jpg. An image without a text file has no objects.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.readers.annotation_files import Name, read_bytes
from shiftbench.readers.boxes import box_tags
from shiftbench.readers.image_folders import DEEPEST, ENDINGS, SPLIT_FOLDERS

NAMES = ("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names")
"""Files that may hold the names of the classes."""
SLACK = 0.01
"""How far a box may leave its image by rounding."""
_ITEM = re.compile(r"(\d+)\s*:\s*(.+)")


def yolo(
    source: Annotated[Path | str, "Folder that holds labels/ and images/."],
    *,
    names: Annotated[Path | str | None, "data.yaml, or a file with one class per line. Default: the reader looks for "
                     "it."] = None,
    name: Name | None = None,
) -> Collection:
    """YOLO's text files of boxes or outlines: classes become tags with areas and boxes.

    Items are the images and label files below the folder, by their path without labels/, images/ and the ending.
    A line of more than five values is an outline, whose own area counts. Factor `split` is the folder of an item
    where that is called train, val, test or the like, else the factor `folder` is.

    shiftbench read yolo coco128 --names coco128/data.yaml --out collections/coco128
    """
    root = Path(source)
    if not root.is_dir():
        raise ShiftBenchError(f"{root}: no such folder. Name the folder that holds labels/ and images/.")
    classes = _names(root, Path(names) if names is not None else None)
    labels, pictures = _files(root)
    if not labels:
        raise ShiftBenchError(f"{root}: holds no label files. They end in .txt, in a folder labels/ or beside the "
                              "images.")
    items = sorted({*labels, *pictures})
    row_of = {item: row for row, item in enumerate(items)}
    label_files = [(row_of[item], root / file) for item, file in labels.items()]
    item, line, values, sizes = _lines(label_files)
    code = _codes(label_files, item, line, values[:, 0], classes)
    number = np.asarray([row for row, _ in label_files], np.int64)
    folders = [item.rpartition("/")[0] for item in items]
    factors: dict[str, Values] = {}
    if any(folders):
        is_split = SPLIT_FOLDERS.issuperset(path.lower() for path in folders)
        factors["split" if is_split else "folder"] = np.asarray(folders, np.str_)
    pixels = None if not pictures else np.asarray([pictures.get(item, f"{item}.jpg") for item in items], np.str_)
    return Collection(
        name or root.resolve().name or "yolo", np.asarray(items, np.str_), factors,
        tags=box_tags(number[item], code, classes, values[:, 1:],
                      lambda row: f"{label_files[item[row]][1]}, line {line[row]}", sizes),
        pixels=pixels, root=None if pixels is None else root.resolve())


def _files(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Item -> label file and item -> image file, as paths below the folder."""
    labels: dict[str, str] = {}
    pictures: dict[str, str] = {}
    paths = sorted(_walk(root))
    separate = any("labels" in path.split("/")[:-1] for path in paths)
    for path in paths:
        folders, (stem, ending) = path.split("/")[:-1], os.path.splitext(path.rpartition("/")[2])
        if ending.lower() in ENDINGS:
            tree, files = "images", pictures
        elif ending.lower() == ".txt" and ("labels" in folders or not separate) and path not in NAMES:
            tree, files = "labels", labels
        else:
            continue
        if tree in folders:
            del folders[len(folders) - 1 - folders[::-1].index(tree)]
        item = "/".join((*folders, stem))
        if item in files:
            raise ShiftBenchError(f"{root / path}: would be the item '{item}', and so would {root / files[item]}. "
                                  "Rename one.")
        files[item] = path
    return labels, pictures


def _walk(root: Path) -> Iterator[str]:
    """All files below a folder, hidden ones left out; links to folders are not followed."""
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".")]
        below = os.path.relpath(folder, root).replace(os.sep, "/")
        if below.count("/") > DEEPEST:
            raise ShiftBenchError(f"{folder}: more than {DEEPEST} folders deep.")
        for file in files:
            if not file.startswith("."):
                path = file if below == "." else f"{below}/{file}"
                try:
                    path.encode()
                except UnicodeEncodeError as problem:
                    raise ShiftBenchError(f"{os.fsencode(path)!r}: its name is not UTF-8. Rename it.") from problem
                yield path


def _lines(files: Sequence[tuple[int, Path]]) -> tuple[Ints, Ints, Floats, Floats]:
    """File, line, (class, x, y, width, height) with x and y of the corner, and area of every line of all files."""
    file: list[int] = []
    line: list[int] = []
    tokens: list[bytes] = []
    outlines: dict[int, list[bytes]] = {}

    def where(row: int) -> str:
        return f"{files[file[row]][1]}, line {line[row]}"

    for number, (_, path) in enumerate(files):
        for line_number, text in enumerate(read_bytes(path).splitlines(), start=1):
            fields = text.split()
            if not fields:
                continue
            if len(fields) > 6 and len(fields) % 2:
                outlines[len(file)] = fields
                fields = [fields[0], b"0", b"0", b"0", b"0"]
            if len(fields) != 5:
                raise ShiftBenchError(f"{path}, line {line_number}: has {len(fields)} values. A box is `class x y "
                                      "width height`, an outline `class x1 y1 x2 y2 x3 y3 …`.")
            file.append(number)
            line.append(line_number)
            tokens += fields
    values = _numbers(tokens, where, 5).reshape(-1, 5)
    corner = np.column_stack([values[:, 0], values[:, 1:3] - values[:, 3:] / 2, values[:, 3:]])
    area = values[:, 3] * values[:, 4]
    for row, fields in outlines.items():
        points = _numbers(fields[1:], where, len(fields), row).reshape(-1, 2)
        low, high = points.min(axis=0), points.max(axis=0)
        x, y = points.T
        corner[row, 1:] = *low, *(high - low)
        area[row] = abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    ends = corner[:, 1:3] + corner[:, 3:]
    outside = np.concatenate([corner[:, 1:3] < -SLACK, ends > 1 + SLACK, corner[:, 3:] < 0], axis=1)
    for row in np.flatnonzero(outside.any(axis=1))[:1]:
        raise ShiftBenchError(f"{where(int(row))}: the box leaves its image. Values are shares "
                              "of the image, 0 to 1: the centre of the box, its width and its height.")
    return np.asarray(file, np.int64), np.asarray(line, np.int64), corner, area


def _numbers(tokens: Sequence[bytes], where: Callable[[int], str], per_row: int, first: int = 0) -> Floats:
    """Parse tokens as finite numbers, `per_row` to a row, from row `first` on; `where(row)` names a row in an error."""
    try:
        values = np.asarray(tokens, np.bytes_).astype(np.float64) if tokens else np.zeros(0)
    except ValueError:
        values = np.asarray([_number(token) for token in tokens])
    for row in np.flatnonzero(~np.isfinite(values))[:1]:
        token = tokens[row][:40].decode(errors="replace")
        raise ShiftBenchError(f"{where(first + int(row) // per_row)}: {token!r} is not a number.")
    return values


def _number(token: bytes) -> float:
    try:
        return float(token)
    except ValueError:
        return np.nan


def _codes(files: Sequence[tuple[int, Path]], file: Ints, line: Ints, codes: Floats, classes: Sequence[str]) -> Ints:
    for row in np.flatnonzero((codes != np.floor(codes)) | (codes < 0) | (codes >= len(classes)))[:1]:
        raise ShiftBenchError(f"{files[file[row]][1]}, line {line[row]}: the class is {codes[row]:g}, and there are "
                              f"names for 0 to {len(classes) - 1}.")
    return codes.astype(np.int64)


# The names of the classes.


def _names(root: Path, file: Path | None) -> list[str]:
    path = file or next((root / name for name in NAMES if (root / name).is_file()), None)
    if path is None or not path.is_file():
        where = f"{path}: no such file" if path is not None else f"{root}: has none of {', '.join(NAMES)}"
        raise ShiftBenchError(f"{where}. Name the file of class names with --names: data.yaml, or a class per line.")
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as problem:
        raise ShiftBenchError(f"{path}: is not UTF-8 text.") from problem
    yaml = path.suffix.lower() in (".yaml", ".yml")
    names = _yaml_names(path, lines) if yaml else [line.strip() for line in lines if line.strip()]
    if not names or not all(names):
        raise ShiftBenchError(f"{path}: names no classes, or one without a name." + (
            " `names` is a list, or a mapping of numbers 0, 1, … to names." if yaml else ""))
    return names


def _yaml_names(path: Path, lines: Sequence[str]) -> list[str]:
    """The entry `names` of data.yaml: [a, b], {0: a, 1: b}, a list of lines `- a`, or of lines `0: a`.

    That is all of YAML that these files use; no other entry is read.
    """
    start = next((row for row, line in enumerate(lines) if re.match(r"names\s*:", line)), None)
    if start is None:
        raise ShiftBenchError(f"{path}: has no entry `names`.")
    first = _uncommented(lines[start].partition(":")[2])
    block = [first] if first else []
    for line in lines[start + 1:]:
        text = _uncommented(line)
        if text and not line.startswith((" ", "\t", "-", "]", "}")):
            break
        block += [text] if text else []
    if first[:1] in ("[", "{"):
        inline = " ".join(block)
        if inline[-1:] != {"[": "]", "{": "}"}[first[0]]:
            raise ShiftBenchError(f"{path}, line {start + 1}: the list of names does not end.")
        entries = _entries(inline[1:-1])
    else:
        entries = [entry.removeprefix("-").strip() for entry in block]
    pairs = [match for entry in entries if (match := _ITEM.fullmatch(entry))]
    if first[:1] == "[" or (block and block[0].startswith("-")) or not pairs:
        return [_unquoted(entry) for entry in entries]
    name_of = {int(match[1][:9]): _unquoted(match[2].strip()) for match in pairs}
    if len(pairs) < len(entries) or sorted(name_of) != list(range(len(entries))):
        raise ShiftBenchError(f"{path}: `names` must number its {len(entries)} classes 0 to {len(entries) - 1}.")
    return [name_of[code] for code in range(len(entries))]


def _plain(text: str) -> Iterator[int]:
    """The positions of the characters outside quotes; an apostrophe within a word is not a quote."""
    quote = before = ""
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and before in ("", *",[{:-"):
            quote = character
        else:
            yield index
        before = before if character.isspace() else character


def _uncommented(text: str) -> str:
    """A line of YAML without its comment, which begins with a # after a blank.

    >>> _uncommented("- driver's seat # of a car"), _uncommented("0: 'c # d'"), _uncommented("a#b")
    ("- driver's seat", "0: 'c # d'", 'a#b')
    """
    ends = (index for index in _plain(text) if text[index] == "#" and (not index or text[index - 1].isspace()))
    return text[:next(ends, len(text))].strip()


def _entries(text: str) -> list[str]:
    """The entries of a list in one line, separated by commas.

    >>> _entries("driver's seat, 'a, b', c,")
    ["driver's seat", "'a, b'", 'c']
    """
    cuts = [-1, *(index for index in _plain(text) if text[index] == ","), len(text)]
    entries = [text[start + 1:end].strip() for start, end in pairwise(cuts)]
    return entries if entries[-1] else entries[:-1]


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word
