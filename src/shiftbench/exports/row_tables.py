"""Benchmarks as tables of rows: rows.csv, which every export has besides its layout, and parquet shards.

rows.csv says in words what each row is. Shards, data/SPLIT-00000-of-00001.parquet, have the features of `datasets`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftbench.core.arrays import Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_text
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import CODED, SPLITS, UNLABELLED, Benchmark, table
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import png
from shiftbench.data.item_table import FEATURE
from shiftbench.data.target import TOKEN_KINDS, TOKENS, kinds_of, tokens_of
from shiftbench.images.decode import images

ROWS = "rows.csv"


def row_columns(benchmark: Benchmark) -> dict[str, Values]:
    """item, split, label, domain, group and further columns.

    A target that is not a class is in further columns, and there is no label; tokens are numbers separated by spaces.
    """
    label = ("label",) if benchmark.target.has_classes else ()
    columns = table(benchmark, ("item", "split", *label, "domain", "group", *benchmark.extra))
    if benchmark.target.per_place:
        code, kind = tokens_of(benchmark.extra[TOKENS]), kinds_of(benchmark.extra[TOKEN_KINDS])
        for name, values in ((TOKENS, code), (TOKEN_KINDS, kind)):
            columns[name] = np.asarray([" ".join(map(str, row[present].tolist()))
                                        for row, present in zip(values, code >= 0, strict=True)])
    return columns


def write_rows(
    folder: Path, benchmark: Benchmark, files: Strs | None = None, more: Mapping[str, Values] | None = None
) -> pa.Schema:
    """Write rows.csv; `files` are the images of the rows. Returns its schema."""
    columns = {**row_columns(benchmark), **(more or {}), **({} if files is None else {"file": files})}
    rows = pa.table({name: pa.array(values) for name, values in columns.items()})
    write_table(folder / ROWS, rows)
    return rows.schema


def to_csv(benchmark: Benchmark, collection: Collection | None, folder: Path, copy: bool) -> pa.Schema:
    """rows.csv: item, split, label, domain, group, further columns, and the image file where items have one."""
    files = None
    if collection is not None and collection.pixels is not None and collection.pixels.dtype.kind == "U":
        files = np.asarray([str(collection.path(row)) for row in collection.index(benchmark.items)], np.str_)
    return write_rows(folder, benchmark, files)


# Parquet shards

DATA = "data"
BATCH = 256
"""Rows that are in memory with their images."""
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
VALUES = {"double": "float64", "float": "float32", "halffloat": "float16"}
"""How `datasets` names a type of Arrow, where the names differ."""


def to_hf(benchmark: Benchmark, collection: Collection | None, out: Path, copy: bool) -> pa.Schema:
    """A file per split that `datasets.load_dataset(out)` reads, and README.md, which tells the hub so.

    Label, domain and group are ClassLabels (-1 where a row has no label); the image is an Image with the bytes of its
    file, or PNG where the collection has pixels; text, tags and the other factors of the collection are columns too.
    """
    if collection is None:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no collection at hand, with its images, texts, tags "
                              "and factors. Export it as csv, or say with --collection where its collection is.")
    rows = collection.index(benchmark.items)
    columns = _columns(benchmark, collection, rows)
    with_images = collection.pixels is not None
    fields = [pa.field(name, values.type) for name, values in columns.items()]
    if with_images:
        fields.append(pa.field("image", IMAGE))
    features = {field.name: _feature(field, benchmark) for field in fields}
    schema = pa.schema(fields, {"huggingface": json.dumps({"info": {"features": features}})})
    (out / DATA).mkdir()
    splits = [split for split in SPLITS if (benchmark.split == split).any()]
    for split in splits:
        chosen = benchmark.rows(split)
        with pq.ParquetWriter(out / DATA / f"{split}-00000-of-00001.parquet", schema, compression="zstd") as file:
            for start in range(0, len(chosen), BATCH):
                batch = chosen[start:start + BATCH]
                values = [column.take(pa.array(batch)) for column in columns.values()]
                if with_images:
                    values.append(pa.array(list(_images(collection, rows[batch])), IMAGE))
                file.write_table(pa.Table.from_arrays(values, schema=schema))
    files = "".join(f"  - split: {split}\n    path: {DATA}/{split}-*.parquet\n" for split in splits)
    write_text(out / "README.md", f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}---\n"
                                  f"# {benchmark.name}\n\nA benchmark of shiftbench; export.json has its card.\n")
    return schema


def _columns(benchmark: Benchmark, collection: Collection, rows: Ints) -> dict[str, pa.Array]:
    """All columns but the images: what the benchmark says, then what its collection adds."""
    columns: dict[str, pa.Array] = {}
    for name, values in row_columns(benchmark).items():
        if name in CODED:
            codes = getattr(benchmark, name)
            columns[name] = pa.array(np.where(benchmark.split == UNLABELLED, -1, codes) if name == "label" else codes)
        elif name != "split":
            columns[name] = pa.array(values)
    used = {*columns, "split", "label", "image", "text", "texts", "tags"}
    for name, values in collection.factors.items():
        bare = name.removeprefix(FEATURE)
        if bare not in used:
            columns[bare] = pa.array(values[rows])
            used.add(bare)
    columns |= _lists(collection, rows)
    return columns


def _lists(collection: Collection, rows: Ints) -> dict[str, pa.Array]:
    """The texts of the rows (a string each if no item has several) and the names of their tags."""
    lists: dict[str, pa.Array] = {}
    texts, tags = collection.texts, collection.tags
    if len(texts.item):
        every = _grouped(texts.item, texts.text, len(collection))
        single = max(map(len, every)) == 1
        lists["text" if single else "texts"] = pa.array(
            ["".join(every[row]) for row in rows] if single else [every[row] for row in rows],
            pa.string() if single else pa.list_(pa.string()))
    if len(tags.item):
        every = _grouped(tags.item, np.asarray(tags.names, np.object_)[tags.tag], len(collection))
        lists["tags"] = pa.array([list(dict.fromkeys(every[row])) for row in rows], pa.list_(pa.string()))
    return lists


def _grouped(item: Ints, words: Any, n: int) -> list[list[str]]:
    lists: list[list[str]] = [[] for _ in range(n)]
    for row, word in zip(item.tolist(), words.tolist(), strict=True):
        lists[row].append(str(word))
    return lists


def _feature(field: pa.Field, benchmark: Benchmark) -> Mapping[str, Any]:
    """A column as `datasets` describes it."""
    if field.name in CODED:
        return {"_type": "ClassLabel", "names": list(benchmark.names[field.name])}
    if field.type == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(field.type):
        return {"_type": "Sequence", "feature": {"_type": "Value", "dtype": "string"}}
    return {"_type": "Value", "dtype": VALUES.get(str(field.type), str(field.type))}


def _images(collection: Collection, rows: Ints) -> Iterator[dict[str, Any]]:
    """The images of items as `datasets` keeps them."""
    pixels = collection.pixels
    assert pixels is not None
    if pixels.dtype.kind != "U":
        for picture in images(collection, rows):
            yield {"bytes": png(picture), "path": None}
        return
    for row in rows.tolist():
        path = collection.path(row)
        if path.suffix == ".npz":
            raise ShiftBenchError(f"{path}: the image of item '{collection.items[row]}' is an array of any number of "
                                  "channels, which no Image holds. Export the benchmark as csv.")
        try:
            yield {"bytes": path.read_bytes(), "path": path.name}
        except OSError as problem:
            raise ShiftBenchError(f"{path}: the image of item '{collection.items[row]}' cannot be read "
                                  f"({problem.strerror}).") from problem
