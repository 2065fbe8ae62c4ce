"""Images of items, as data inside a page."""

import base64
import io
from typing import Any

import numpy as np

from shiftbench.core.arrays import Ints, child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection

PER_CELL, CLASSES, SIZE = 5, 4, 128
"""Images per class and split, classes shown, and the largest side of an image."""


def samples(benchmark: Benchmark, collection: Collection) -> list[dict[str, Any]]:
    """For each class, the pictures of a few training and test items: {"label", "train": [picture…], "test": […]}.

    The choice depends on the benchmark alone, so the page is the same each time. Classes that are in both splits come
    first; only the first CLASSES are shown.
    """
    names = benchmark.names["label"]
    rows = {split: benchmark.rows(split) for split in ("train", "test")}
    times = np.stack([np.bincount(benchmark.label[in_split], minlength=len(names)) for in_split in rows.values()])
    order = sorted(np.flatnonzero(times.sum(axis=0)), key=lambda code: (times[:, code].min() == 0, code))[:CLASSES]
    classes = [{"label": names[code], **{
        split: pictures_of(benchmark, collection,
                           _few(in_split[benchmark.label[in_split] == code], f"{split} {names[code]}"))
        for split, in_split in rows.items()}} for code in sorted(order)]
    return [pair for pair in classes if pair["train"] or pair["test"]]


def _few(rows: Ints, purpose: str) -> Ints:
    chosen = child(0, "report", "pictures", purpose).permutation(len(rows))[:PER_CELL]
    return rows[np.sort(chosen)]


def pictures_of(benchmark: Benchmark, collection: Collection, rows: Ints) -> list[dict[str, str]]:
    """The pictures of these rows; none where the collection has no pixels, or has arrays of many channels (.npz)."""
    if not len(rows) or collection.pixels is None:
        return []
    sources = thumbnails(collection, collection.index(benchmark.items[rows]))
    group = [benchmark.names["group"][code] for code in benchmark.group[rows]]
    return [{"item": str(item), "group": name, "source": source}
            for item, name, source in zip(benchmark.items[rows], group, sources, strict=False)]


def thumbnails(collection: Collection, rows: Ints) -> list[str]:
    """Small images of these items of a collection, as sources of <img>; none where it has none to show."""
    from shiftbench.images.decode import images

    if not len(rows) or collection.pixels is None:
        return []
    drawn = collection.pixels.dtype.kind != "U"
    if not drawn and str(collection.pixels[0]).endswith(".npz"):
        return []
    small = drawn and max(collection.pixels.shape[1:3]) <= SIZE
    return [_inline(picture) for picture in images(collection, rows, None if small else SIZE)]


def _inline(picture: Any) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "WEBP", quality=88, method=4)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
