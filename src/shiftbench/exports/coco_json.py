"""Benchmarks as COCO's instances files."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from shiftbench.core.arrays import Ints, Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_json
from shiftbench.data.benchmark import Benchmark, table
from shiftbench.data.collection import Collection
from shiftbench.exports.row_tables import write_rows


def to_coco(benchmark: Benchmark, collection: Collection | None, out: Path, copy: bool) -> pa.Schema:
    """instances_SPLIT.json per split: tags that are objects or stuff as categories, with their areas and boxes.

    An image keeps its file name and also has `item`, `label`, `domain` and `group`. The area of a tag is shared
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
        written: list[dict[str, Any]] = []
        for number in np.flatnonzero(words["split"] == split).tolist():
            row = int(rows[number])
            name = {} if files is None else {"file_name": str(files[row])}
            images.append({"id": ids[number], "width": int(size[row, 0]), "height": int(size[row, 1])} | name | {
                key: str(words[key][number]) for key in ("item", "label", "domain", "group") if key in words})
            written += [{"id": len(written) + count, "image_id": ids[number]} | annotation
                        for count, annotation in enumerate(annotations(row), start=1)]
        write_json(out / f"instances_{split}.json", {"info": {"description": benchmark.name}, "images": images,
                                                     "annotations": written, "categories": categories})
    return write_rows(out, benchmark)


COCO_KINDS = ("object", "stuff")


def _coco_categories(collection: Collection) -> list[dict[str, Any]]:
    """A category per tag that is an object or stuff; its number is that of the tag, from 1."""
    tags = collection.tags
    if skipped := sorted(set(tags.kinds).difference(COCO_KINDS)):
        warnings.warn(f"COCO has objects and stuff: tags of kind {', '.join(skipped)} are left out.", stacklevel=5)
    categories: list[dict[str, Any]] = []
    for code, (name, kind) in enumerate(zip(tags.names, tags.kinds, strict=True)):
        if kind in COCO_KINDS:
            parents = collection.parents.get(name, ())
            categories.append({"id": code + 1, "name": name, "isthing": int(kind == "object")} | (
                {"supercategory": parents[0]} if parents else {}))
    return categories


def _coco_annotations(collection: Collection, size: Ints) -> Callable[[int], list[dict[str, Any]]]:
    """A function from an item's number to its annotations: one per box, or one for a tag without boxes."""
    tags = collection.tags
    order = np.argsort(tags.box_row, kind="stable")
    boxes, box_start = tags.boxes[order], np.searchsorted(tags.box_row[order], np.arange(len(tags.item) + 1))
    start = np.searchsorted(tags.item, np.arange(len(collection) + 1))

    def annotations(row: int) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        for pair in range(start[row], start[row + 1]):
            pixel_boxes = boxes[box_start[pair]:box_start[pair + 1]].astype(np.float64) * size[row][[0, 1, 0, 1]]
            area = float(tags.area[pair]) * float(size[row].prod()) / max(len(pixel_boxes), 1)
            if tags.kinds[tags.tag[pair]] in COCO_KINDS:
                entries += [{"category_id": int(tags.tag[pair]) + 1, "iscrowd": 0}
                            | ({} if np.isnan(area) else {"area": area}) | ({"bbox": box} if box else {})
                            for box in pixel_boxes.tolist() or [None]]
        return entries

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
        except (OSError, Image.DecompressionBombError) as problem:
            raise ShiftBenchError(f"{collection.path(row)}: cannot be read as an image.") from problem
    return np.asarray(sizes, np.int64).reshape(-1, 2)


def _whole_ids(items: Strs) -> list[int]:
    """COCO's ids are whole numbers: those of the items if they are whole numbers, else 1, 2, …"""
    plain = all(item.isascii() and item.isdigit() and len(item) < 19 and str(int(item)) == item for item in items)
    return [int(item) for item in items] if plain else list(range(1, len(items) + 1))
