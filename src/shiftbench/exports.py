"""Benchmarks in the layouts that other tools read."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from PIL import Image

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


EXPORTS: dict[str, Callable[[Benchmark, Collection | None, Path, bool], None]] = {"folder": to_folder, "csv": to_csv}
