"""Benchmarks in the layouts that other tools read, each with a Croissant description of its files."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from shiftbench.core.files import write_json, writing_folder
from shiftbench.core.registry import find
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.exports.coco_json import to_coco
from shiftbench.exports.croissant import describe
from shiftbench.exports.image_layouts import to_domainbed, to_folder, to_torch, to_wilds
from shiftbench.exports.parquet_shards import to_hf
from shiftbench.exports.row_files import to_csv

MARKER = "export.json"

EXPORTS: dict[str, Callable[[Benchmark, Collection | None, Path, bool], pa.Schema]] = {
    "folder": to_folder, "csv": to_csv, "coco": to_coco, "hf": to_hf, "torch": to_torch, "domainbed": to_domainbed,
    "wilds": to_wilds}
"""Each writes a folder and returns the schema of its table of rows: rows.csv, or parquet shards."""


def export(
    benchmark: Benchmark, collection: Collection | None, out: Path | str, *, to: str = "folder", copy: bool = False,
    licence: str = "", citation: str = "",
) -> Path:
    """Write a benchmark as `to` says into the folder `out`; an earlier export there is replaced in one step.

    croissant.json describes the files; `licence` (an address) and `citation` go into it, by default those of the data
    set that `shiftbench download` knows by the name of the collection.
    """
    writer = find(EXPORTS, "export", to)
    with writing_folder(out, MARKER) as staging:
        schema = writer(benchmark, collection, staging, copy)
        write_json(staging / MARKER, {"format": "shiftbench export", "to": to, "benchmark": benchmark.name,
                                    "digest": benchmark.digest, "card": benchmark.card})
        describe(staging, benchmark, schema, licence, citation)
    return Path(out)
