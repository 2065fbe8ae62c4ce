"""Pascal VOC: an XML file per image in Annotations/, the images in JPEGImages/, lists of ids in ImageSets/Main/."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple
from xml.parsers import expat

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import check_regular
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import image_folder, paths_below
from shiftbench.readers.annotation_files import Name, box_tags, no_collection

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
    image_root = image_folder(images if images is not None else _images(root))
    return Collection(
        name or root.resolve().name or "voc", items, factors,
        tags=box_tags(item, np.arange(len(names)), names, _shares(corners, size[item]),
                      where=lambda row: str(files[item[row]])),
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
    check_regular(path)
    try:
        content = path.read_bytes()
        if len(content) > LARGEST_FILE:
            raise ShiftBenchError(f"{path}: has more than {LARGEST_FILE >> 20} MB. VOC has a small file per image.")
        parser.Parse(content, True)
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({problem.strerror}).") from problem
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


def _images(root: Path) -> Path | None:
    return root / "JPEGImages" if (root / "JPEGImages").is_dir() else None


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
