"""Benchmarks in the layouts that other tools read."""

import os
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from PIL import Image

from shiftbench.core.arrays import Ints, Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_json, writing_folder
from shiftbench.core.registry import find
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark, table
from shiftbench.data.collection import Collection
from shiftbench.data.target import TOKEN_KINDS, TOKENS, kinds_of, tokens_of
from shiftbench.images.decode import images

MARKER = "export.json"


def export(
    benchmark: Benchmark, collection: Collection | None, out: Path | str, *, to: str = "folder", copy: bool = False
) -> Path:
    """Write a benchmark as `to` says into the folder `out`; an earlier export there is replaced in one step."""
    writer = find(EXPORTS, "export", to)
    with writing_folder(out, MARKER) as staging:
        writer(benchmark, collection, staging, copy)
        write_json(staging / MARKER, {"format": "shiftbench export", "to": to, "benchmark": benchmark.name,
                                    "digest": benchmark.digest, "card": benchmark.card})
    return Path(out)


def to_csv(benchmark: Benchmark, collection: Collection | None, folder: Path, copy: bool) -> None:
    """rows.csv: item, split, label, domain, group, further columns, and the image file where items have one.

    A target that is no class is in further columns, and there is no label; tokens are numbers with spaces between.
    """
    label = ("label",) if benchmark.target.has_classes else ()
    columns = table(benchmark, ("item", "split", *label, "domain", "group", *benchmark.extra))
    if benchmark.target.per_place:
        code, kind = tokens_of(benchmark.extra[TOKENS]), kinds_of(benchmark.extra[TOKEN_KINDS])
        for name, values in ((TOKENS, code), (TOKEN_KINDS, kind)):
            columns[name] = np.asarray([" ".join(map(str, row[there].tolist()))
                                        for row, there in zip(values, code >= 0, strict=True)])
    if collection is not None and collection.pixels is not None and collection.pixels.dtype.kind == "U":
        rows = collection.index(benchmark.items)
        columns["file"] = np.asarray([str(collection.path(row)) for row in rows])
    write_table(folder / "rows.csv", pa.table({name: pa.array(values) for name, values in columns.items()}))


def to_folder(benchmark: Benchmark, collection: Collection | None, out: Path, copy: bool) -> None:
    """MetaShift's layout: SPLIT/LABEL/GROUP/ITEM, an ImageFolder per split, and imageID_to_group as JSON and parquet.

    Image files are linked, or copied with `copy`; images kept in the collection are written as PNG.
    """
    if collection is None or collection.pixels is None:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no images at hand to fill folders with. Export it as "
                              "csv, or say with --collection where its collection is.")
    rows, words = collection.index(benchmark.items), table(benchmark)
    files = collection.pixels.dtype.kind == "U"
    names = _file_names(benchmark.items.tolist(), [
        Path(str(collection.pixels[row])).suffix if files else ".png" for row in rows], always=not files)
    for number, row in enumerate(rows):
        split, label, group = (str(words[column][number]) for column in ("split", "label", "group"))
        folder = out / split / _safe(label) / _safe(group)
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / names[number]
        if not files:
            Image.fromarray(images(collection, np.asarray([row]))[0]).save(target)
            continue
        source = collection.path(int(row))
        if not source.is_file():
            raise ShiftBenchError(f"{source}: the image of item '{benchmark.items[number]}' is not there.")
        if copy:
            shutil.copyfile(source, target)
        else:
            os.symlink(source, target)
    groups = _subsets(benchmark, collection)
    write_json(out / "imageID_to_group.json", groups)
    write_table(out / "imageID_to_group.parquet", pa.table({
        "item": pa.array(list(groups), pa.string()), "groups": pa.array(list(groups.values()), pa.list_(pa.string()))}))


def to_coco(benchmark: Benchmark, collection: Collection | None, out: Path, copy: bool) -> None:
    """instances_SPLIT.json per split: tags that are objects or stuff as categories, with their areas and boxes.

    An image keeps its file name and has `item`, `label`, `domain` and `group` beside. The area of a tag is shared
    evenly by its boxes, so that it sums to what it was; a tag without boxes is an annotation without a bbox.
    """
    if collection is None or not len(collection.tags.item):
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no tags at hand. Export it as csv, or say with "
                              "--collection where its collection is.")
    words, size, ids = table(benchmark), _sizes(collection), _whole_ids(benchmark.items)
    rows = collection.index(benchmark.items)
    files = collection.pixels if collection.pixels is not None and collection.pixels.dtype.kind == "U" else None
    categories, annotations = _coco_categories(collection), _coco_annotations(collection, size)
    for split in dict.fromkeys(words["split"].tolist()):
        images: list[dict[str, Any]] = []
        listed: list[dict[str, Any]] = []
        for number in np.flatnonzero(words["split"] == split).tolist():
            row = int(rows[number])
            name = {} if files is None else {"file_name": str(files[row])}
            images.append({"id": ids[number], "width": int(size[row, 0]), "height": int(size[row, 1])} | name | {
                key: str(words[key][number]) for key in ("item", "label", "domain", "group") if key in words})
            listed += [{"id": len(listed) + count, "image_id": ids[number]} | one
                       for count, one in enumerate(annotations(row), start=1)]
        write_json(out / f"instances_{split}.json", {"info": {"description": benchmark.name}, "images": images,
                                                     "annotations": listed, "categories": categories})


COCO_KINDS = ("object", "stuff")


def _coco_categories(collection: Collection) -> list[dict[str, Any]]:
    """A category per tag that is an object or stuff; its number is that of the tag, from 1."""
    tags = collection.tags
    if left := sorted(set(tags.kinds).difference(COCO_KINDS)):
        warnings.warn(f"COCO has objects and stuff: tags of kind {', '.join(left)} are left out.", stacklevel=5)
    categories: list[dict[str, Any]] = []
    for code, (name, kind) in enumerate(zip(tags.names, tags.kinds, strict=True)):
        if kind in COCO_KINDS:
            above = collection.parents.get(name, ())
            categories.append({"id": code + 1, "name": name, "isthing": int(kind == "object")} | (
                {"supercategory": above[0]} if above else {}))
    return categories


def _coco_annotations(collection: Collection, size: Ints) -> Callable[[int], list[dict[str, Any]]]:
    """What the annotations of an item are, by its number: one per box, or one of a tag without boxes."""
    tags = collection.tags
    order = np.argsort(tags.box_row, kind="stable")
    boxes, box_start = tags.boxes[order], np.searchsorted(tags.box_row[order], np.arange(len(tags.item) + 1))
    start = np.searchsorted(tags.item, np.arange(len(collection) + 1))

    def annotations(row: int) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        for pair in range(start[row], start[row + 1]):
            own = boxes[box_start[pair]:box_start[pair + 1]].astype(np.float64) * size[row][[0, 1, 0, 1]]
            area = float(tags.area[pair]) * float(size[row].prod()) / max(len(own), 1)
            if tags.kinds[tags.tag[pair]] in COCO_KINDS:
                listed += [{"category_id": int(tags.tag[pair]) + 1, "iscrowd": 0}
                           | ({} if np.isnan(area) else {"area": area}) | ({"bbox": box} if box else {})
                           for box in own.tolist() or [None]]
        return listed

    return annotations


def _sizes(collection: Collection) -> Ints:
    """Width and height of every image in pixels: factors, or those of the images themselves."""
    if {"width", "height"} <= set(collection.factors):
        return np.stack([np.asarray(collection.factors[side], np.int64) for side in ("width", "height")], axis=1)
    if collection.pixels is None:
        raise ShiftBenchError(f"Collection '{collection.name}' has neither images nor factors `width` and `height`, "
                              "and COCO's boxes are in pixels. Read it with its images.")
    if collection.pixels.dtype.kind != "U":
        return np.tile(np.asarray(collection.pixels.shape[2:0:-1], np.int64), (len(collection), 1))
    sizes = []
    for row in range(len(collection)):
        try:
            with Image.open(collection.path(row)) as image:
                sizes.append(image.size)
        except OSError as problem:
            raise ShiftBenchError(f"{collection.path(row)}: cannot be read as an image.") from problem
    return np.asarray(sizes, np.int64).reshape(-1, 2)


def _whole_ids(items: Strs) -> list[int]:
    """COCO's ids are whole numbers: the items' own where they are such, else 1, 2, …"""
    plain = all(item.isascii() and item.isdigit() and len(item) < 19 and str(int(item)) == item for item in items)
    return [int(item) for item in items] if plain else list(range(1, len(items) + 1))


def _subsets(benchmark: Benchmark, collection: Collection) -> dict[str, list[str]]:
    """Every subset `label(context)` an item lies in, its own group first."""
    rows, words, tags = collection.index(benchmark.items), table(benchmark), collection.tags
    start = np.searchsorted(tags.item, np.arange(len(collection) + 1))
    subsets: dict[str, list[str]] = {}
    for number, row in enumerate(rows):
        label, carried = str(words["label"][number]), tags.tag[start[row]:start[row + 1]]
        contexts = [f"{label}({tags.names[code]})" for code in carried
                    if tags.kinds[code] != "attribute" and tags.names[code] != label]
        subsets[str(benchmark.items[number])] = list(dict.fromkeys([str(words["group"][number]), *contexts]))
    return subsets


def _file_names(items: Sequence[str], endings: Sequence[str], *, always: bool) -> list[str]:
    """A file name for every item, none twice: the item with the ending of its image, which is not said twice unless
    another item would have the same name.

    >>> _file_names(["a", "b.png"], [".png", ".png"], always=False)
    ['a.png', 'b.png']
    >>> _file_names(["a", "a.png", "b.png"], [".png", ".png", ".png"], always=False)
    ['a.png', 'a.png.png', 'b.png']
    """
    whole = [_safe(item) + ending for item, ending in zip(items, endings, strict=True)]
    names = [name if always or not item.lower().endswith(ending.lower()) else _safe(item)
             for name, item, ending in zip(whole, items, endings, strict=True)]
    count = Counter(names)
    names = [one if count[name] > 1 else name for name, one in zip(names, whole, strict=True)]
    double = [name for name, n in Counter(names).items() if n > 1]
    if double:
        raise ShiftBenchError(f"Two items would both be the file '{double[0]}'. Export the benchmark as csv instead.")
    return names


def _safe(name: str) -> str:
    """A name that is one path part on every system: dog(shelf) stays, a/b becomes a%2Fb, `..` becomes %2E%2E."""
    part = quote(name, safe="()+ ,=&@'")
    return part.replace(".", "%2E") if part.strip(". ") == "" else part


EXPORTS: dict[str, Callable[[Benchmark, Collection | None, Path, bool], None]] = {
    "folder": to_folder, "csv": to_csv, "coco": to_coco}
