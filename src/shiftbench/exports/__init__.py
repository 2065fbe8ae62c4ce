"""Benchmarks in the layouts that other tools read, each with a Croissant description of its files.

croissant.json describes an export as MLCommons' Croissant 1.0 has it, for search engines and loaders: files with their
SHA-256, a record set of the rows, one of the splits and, where columns hold codes, one of their names. Only facts that
are known are written: no invented date, address or licence.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftbench.core.files import file_digests, write_json, writing_folder
from shiftbench.core.registry import find
from shiftbench.data.benchmark import CODED, SPLITS, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.downloads.data_sets import SOURCES
from shiftbench.exports.coco_json import to_coco
from shiftbench.exports.image_layouts import to_domainbed, to_folder, to_torch, to_wilds
from shiftbench.exports.row_tables import DATA, ROWS, to_csv, to_hf

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
        _describe(staging, benchmark, schema, licence, citation)
    return Path(out)


# croissant.json

FILE = "croissant.json"
VERSION = "http://mlcommons.org/croissant/1.0"
CR = ("citeAs", "column", "extract", "field", "fileObject", "fileProperty", "fileSet", "format", "includes",
      "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated",
      "replace", "separator", "source", "subField", "transform")
CONTEXT = {
    "@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/", "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/", "conformsTo": "dct:conformsTo", **{word: f"cr:{word}" for word in CR},
    "data": {"@id": "cr:data", "@type": "@json"}, "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
}
"""The vocabulary of the specification, which defines the words below."""
KINDS = {".csv": "text/csv", ".json": "application/json", ".parquet": "application/x-parquet", ".md": "text/markdown",
         ".txt": "text/plain"}
"""Files that are listed one by one; all others are images."""
SHARDS, IMAGES = "shards", "images"


def _describe(folder: Path, benchmark: Benchmark, schema: pa.Schema, licence: str = "", citation: str = "") -> None:
    """Write croissant.json for the files of an export; `schema` is that of its table of rows."""
    origin = str(benchmark.card.get("collection", {}).get("name", ""))
    published = next((source for source in SOURCES.values() if source.name[-1] == origin), None)
    facts = {
        "license": licence or (published.licence.url if published else ""),
        "citeAs": citation or (published.citation if published else ""),
        "description": f"A benchmark of distribution shift: {benchmark.card.get('shift', 'shift')} on the collection "
                       f"'{origin}', {len(benchmark):,} rows. Digest {benchmark.digest}."}
    write_json(folder / FILE, {
        "@context": CONTEXT, "@type": "sc:Dataset", "name": benchmark.name, "conformsTo": VERSION, "version": "1.0.0",
        **{key: value for key, value in facts.items() if value},
        "distribution": _files(folder), "recordSet": _record_sets(folder, benchmark, schema)})


def _files(folder: Path) -> list[dict[str, Any]]:
    """Tables and lists with their digests; images as sets by their endings."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    described = [path for path in paths if Path(path).suffix in KINDS]
    digests = file_digests(folder, described)
    files: list[dict[str, Any]] = [
        {"@type": "cr:FileObject", "@id": path, "name": path, "contentUrl": path,
         "contentSize": f"{(folder / path).stat().st_size} B", "encodingFormat": KINDS[Path(path).suffix],
         "sha256": digests[path]} for path in described]
    if (folder / DATA).is_dir():
        files.append({"@type": "cr:FileSet", "@id": SHARDS, "name": SHARDS, "encodingFormat": KINDS[".parquet"],
                      "includes": f"{DATA}/*.parquet"})
    endings = sorted({Path(path).suffix for path in paths} - {*KINDS, ""})
    return files + [
        {"@type": "cr:FileSet", "@id": f"{IMAGES}{ending}", "name": f"{IMAGES}{ending}",
         "encodingFormat": f"image/{ending.removeprefix('.').replace('jpg', 'jpeg')}", "includes": f"**/*{ending}"}
        for ending in endings]


def _record_sets(folder: Path, benchmark: Benchmark, schema: pa.Schema) -> list[dict[str, Any]]:
    shards = (folder / DATA).is_dir()
    source: dict[str, Any] = {"fileSet": {"@id": SHARDS}} if shards else {"fileObject": {"@id": ROWS}}
    fields = [_field(column, source, shards) for column in schema]
    if shards:  # a split is the name of its file
        fields.append(_plain_field("rows", "split", "sc:Text") | {
            "source": {**source, "extract": {"fileProperty": "fullpath"},
                       "transform": {"regex": rf"^(?:.*/)?{DATA}/(.+)-\d{{5}}-of-\d{{5}}\.parquet$"}}})
    for field in fields:
        if field["name"] == "split":
            field["references"] = {"field": {"@id": "splits/name"}}
    splits = [split for split in SPLITS if (benchmark.split == split).any()]
    sets: list[dict[str, Any]] = [
        {"@type": "cr:RecordSet", "@id": "rows", "name": "rows", "field": fields},
        {"@type": "cr:RecordSet", "@id": "splits", "name": "splits", "dataType": "cr:Split",
         "key": {"@id": "splits/name"}, "field": [_plain_field("splits", "name", "sc:Text")],
         "data": [{"splits/name": split} for split in splits]}]
    return sets + [_names(column, benchmark.names[column]) for column in CODED
                   if shards and column in schema.names]


def _field(column: pa.Field, source: Mapping[str, Any], shards: bool) -> dict[str, Any]:
    """A column of the table of rows."""
    arrow = column.type
    extract: dict[str, Any] = {"source": {**source, "extract": {"column": column.name}}}
    if pa.types.is_struct(arrow):
        extract["source"]["transform"] = {"jsonPath": "bytes"}
        return _plain_field("rows", column.name, "sc:ImageObject") | extract
    if pa.types.is_list(arrow):
        return _plain_field("rows", column.name, "sc:Text") | extract | {"repeated": True}
    if shards and column.name in CODED:
        extract["references"] = {"field": {"@id": f"{column.name}s/code"}}
    data_type = ("sc:Boolean" if pa.types.is_boolean(arrow) else "sc:Integer" if pa.types.is_integer(arrow) else
                 "sc:Float" if pa.types.is_floating(arrow) else "sc:Text")
    return _plain_field("rows", column.name, data_type) | extract


def _plain_field(records: str, name: str, data_type: str) -> dict[str, Any]:
    return {"@type": "cr:Field", "@id": f"{records}/{name}", "name": name, "dataType": data_type}


def _names(column: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The names of the codes of a column."""
    records = f"{column}s"
    return {"@type": "cr:RecordSet", "@id": records, "name": records, "key": {"@id": f"{records}/code"},
            "field": [_plain_field(records, "code", "sc:Integer"), _plain_field(records, "name", "sc:Text")],
            "data": [{f"{records}/code": code, f"{records}/name": name} for code, name in zip(
                np.arange(len(names)).tolist(), names, strict=True)]}
