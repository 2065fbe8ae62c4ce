"""rows.csv, the table that every export has besides its layout: what each row is, in words."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Strs, Values
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark, table
from shiftbench.data.collection import Collection
from shiftbench.data.target import TOKEN_KINDS, TOKENS, kinds_of, tokens_of

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
