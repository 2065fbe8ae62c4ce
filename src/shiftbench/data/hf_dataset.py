"""Data sets of Hugging Face: objects of `datasets`, folders that it saved, folders of parquet shards, names of its hub.

Folders are read with pyarrow alone; both kinds of file carry the features of their columns. `datasets` itself is
imported only for a name of the hub.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.core.files import check_regular, inside, parse_json, read_json
from shiftbench.core.table_formats import DAMAGED, check_width
from shiftbench.core.tables import FAULTS, no_doubles
from shiftbench.data.benchmark import UNLABELLED
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import folder_for, write_image
from shiftbench.data.item_table import table

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}(-[0-9a-f]+)?")
SPLIT_WORDS = ("train", "validation", "valid", "val", "dev", "test", "id_val", "id_test", "target_train", UNLABELLED)
OURS = {"validation": "val"}
"""Our names of the splits for which `datasets` has another name."""
ID, SPLIT = "(row)", "split"
BATCH = 256
"""The number of rows that are held in memory with their images."""
Batches = Callable[[], Iterator[pa.Table]]


class Shard(NamedTuple):
    """Rows of one split, read in batches, and the features of their columns as `datasets` writes them."""

    split: str
    where: str
    features: Mapping[str, Any]
    batches: Batches
    ours: bool = False
    """Whether it is an object of this process, whose image paths may be opened."""


def hf(
    source: Annotated[Any, "Folder that `datasets` saved, folder of parquet shards, or a name of the hub."],
    *,
    id: Annotated[str | None, "Column with the name of each item; default: SPLIT/ROW."] = None,
    label: Annotated[str, "Column to predict."] = "label",
    domain: Annotated[str | None, "Column that moves between train and test."] = None,
    split: Annotated[str | None, "Column with the split; default: the splits of the data set."] = None,
    image: Annotated[str | None, "Column of images, if there are several."] = None,
    images: Annotated[Path | str | None, "Folder to write the images into; default: into --out."] = None,
    text: Annotated[str | None, "Column with the text of each item."] = None,
    features: Annotated[str | Sequence[str], "Columns of numbers to train on, separated by commas."] = (),
    rename: Annotated[Mapping[str, str] | None, "What a split is called here: --rename dev=val."] = None,
    tags: Annotated[str | Sequence[str], "Columns of yes or no that become tags, separated by commas."] = (),
    tags_in: Annotated[str | None, "Column of lists of words: they become tags."] = None,
    missing: Annotated[str | Sequence[str], "Words that mean a missing value, separated by commas."] = (),
    config: Annotated[str | None, "Configuration of a data set on the hub."] = None,
    name: Annotated[str | None, "Name of the collection."] = None,
) -> Collection:
    """Data sets of Hugging Face: splits and columns become factors, class labels keep their names, images become files.

    The split `validation` is called `val`; `rename` names others. A label of -1 is none, which only rows of the split
    `unlabelled` may have. Images are written as files, their bytes as they are, by default with the collection. A
    column of lists of words is tags where `tags_in` names it, and several texts per item where `text` does; other lists
    and binary columns are left out with a warning. In Python the source may be a Dataset or a DatasetDict. Columns have
    the roles that a table gives them.

    shiftbench read hf beans --domain field --out collections/beans

    shiftbench read hf stanfordnlp/imdb --text text --rename unsupervised=unlabelled --out collections/imdb
    """
    called, shards = _source_shards(source, config)
    image_column, rows = _rows(called, shards, image, folder_for(images), (tags_in, text))
    columns = [column for column in (id, label, domain, split, text, tags_in) if column is not None]
    for column in columns:
        if column not in rows.column_names:
            raise unknown("column", column, rows.column_names, called)
    splits = set() if split is not None else {shard.split for shard in shards}
    renamed = {**{old: new for old, new in OURS.items() if old in splits}, **(rename or {})}
    if split is None and SPLIT in rows.column_names:
        split = SPLIT
    _labelled(called, rows, label, split, renamed)
    if id is None:
        rows = rows.append_column(ID, _numbers(shards, rows))
        id = ID
    name = name or (Path(called).name if isinstance(source, str | Path) else "dataset")
    return table(rows, called=called, id=id, label=label, domain=domain, split=split, image=image_column, text=text,
                 images=None if image_column is None else folder_for(images), features=features, rename=renamed,
                 tags=tags, tags_in=tags_in, missing=missing, name=name)


# Where the rows are

def _source_shards(source: Any, config: str | None) -> tuple[str, list[Shard]]:
    """The name of a data set in messages, and its shards."""
    if isinstance(source, Mapping) or hasattr(source, "with_format"):
        return type(source).__name__, _object_shards(source)
    if not isinstance(source, str | Path):
        raise ShiftBenchError(f"{type(source).__name__} is no data set of Hugging Face: give a Dataset, a DatasetDict, "
                              "a folder or a name of the hub. Other data sets: Collection.from_torch, from_frame.")
    path = Path(source)
    check_regular(path)
    if not path.exists():
        return str(source), _object_shards(_of_hub(str(source), config))
    if not path.is_dir():
        raise ShiftBenchError(f"{path}: is a file, but a data set is a folder. Read one file with: shiftbench read "
                              "table.")
    if (path / "dataset_dict.json").is_file():
        facts = read_json(path / "dataset_dict.json")
        splits = facts.get("splits") if isinstance(facts, dict) else None
        if not isinstance(splits, list) or not all(isinstance(split, str) for split in splits):
            raise ShiftBenchError(f"{path / 'dataset_dict.json'}: does not list the splits. Save the data set again.")
        return str(path), [shard for split in splits for shard in _saved_shards(inside(path, split), split)]
    if (path / "state.json").is_file():
        return str(path), _saved_shards(path, "")
    return str(path), _parquet_shards(path)


def _object_shards(source: Any) -> list[Shard]:
    """A Dataset, or several by the names of their splits."""
    sets = source if isinstance(source, Mapping) else {"": source}
    shards = []
    for split, dataset in sets.items():
        if not hasattr(dataset, "with_format") or getattr(dataset, "features", None) is None:
            raise ShiftBenchError(f"{type(source).__name__}['{split}'] is a {type(dataset).__name__}, not a Dataset "
                                  "that knows the features of its columns.")
        rows = dataset.with_format("arrow")
        shards.append(Shard(str(split), type(source).__name__, dataset.features.to_dict(),
                          lambda rows=rows: rows.iter(batch_size=BATCH), ours=True))  # type: ignore[misc]
    return shards


def _of_hub(name: str, config: str | None) -> Any:
    if not HUB_NAME.fullmatch(name):
        raise ShiftBenchError(f"{name}: no such folder.")
    try:
        from datasets import load_dataset
    except ModuleNotFoundError as problem:
        raise ShiftBenchError(f"{name}: no such folder. A data set of the hub needs `datasets`: "
                              "pip install 'shiftbench[hf]'") from problem
    try:
        return load_dataset(name, config)
    except Exception as problem:  # whatever the hub, the network and the builders raise
        raise ShiftBenchError(f"{name}: is no folder here, and the hub does not give it ({first_line(problem)}).") \
            from problem


def _saved_shards(folder: Path, split: str) -> list[Shard]:
    """A folder that Dataset.save_to_disk wrote: streams of Arrow, listed in state.json."""
    state = read_json(folder / "state.json")
    files = state.get("_data_files") if isinstance(state, dict) else None
    try:
        names = [str(file["filename"]) for file in files or ()]
    except (TypeError, KeyError) as problem:
        raise ShiftBenchError(f"{folder / 'state.json'}: does not list the files of data.") from problem
    return [_file(inside(folder, name), split, _arrow) for name in names]


def _parquet_shards(folder: Path) -> list[Shard]:
    """A folder of parquet files: SPLIT-00000-of-00002.parquet, SPLIT.parquet, or SPLIT/0000.parquet, also in data/."""
    files = sorted(path for path in folder.rglob("*.parquet") if path.is_file() and not path.name.startswith("."))
    if not files:
        raise ShiftBenchError(f"{folder}: holds no data set: neither what save_to_disk wrote (state.json or "
                              "dataset_dict.json) nor parquet files.")
    splits = [_split_of(file, folder) for file in files]
    for split in set(splits):
        folders = sorted({str(file.parent) for file, name in zip(files, splits, strict=True) if name == split})
        if len(folders) > 1:
            raise ShiftBenchError(f"{folder}: has parquet files of one split in {folders[0]} and in {folders[1]}. Name "
                                  "the folder of one data set.")
    if "" in splits and len(set(splits)) > 1:
        raise ShiftBenchError(f"{folder}: {files[splits.index('')].name} does not say its split, and others do. Name "
                              "files SPLIT-00000-of-00001.parquet.")
    rank = {name: number for number, name in enumerate(SPLIT_WORDS)}
    return [_file(file, split, _parquet) for split, file in sorted(
        zip(splits, files, strict=True), key=lambda pair: (rank.get(pair[0], len(rank)), pair))]


def _split_of(file: Path, folder: Path) -> str:
    if shard := SHARD.fullmatch(file.stem):
        return shard["split"]
    if file.stem.isdigit() and file.parent != folder:
        return file.parent.name
    return file.stem if file.stem in SPLIT_WORDS else ""


def _file(path: Path, split: str, opened: Callable[[Path], tuple[pa.Schema, Batches]]) -> Shard:
    check_regular(path)
    try:
        schema, batches = opened(path)
        check_width(path, len(schema))
        no_doubles(path, pa.schema(schema).empty_table())
    except ShiftBenchError:
        raise
    except (*DAMAGED, *FAULTS) as problem:
        raise _damaged(path, problem) from problem
    facts = parse_json((schema.metadata or {}).get(b"huggingface", b"{}").decode(errors="replace"), str(path))
    for key in ("info", "features"):
        facts = facts.get(key) if isinstance(facts, dict) else None
    return Shard(split, str(path), facts if isinstance(facts, dict) else {}, batches)


def _arrow(path: Path) -> tuple[pa.Schema, Batches]:
    def batches() -> Iterator[pa.Table]:
        with pa.memory_map(str(path)) as source:
            for batch in pa.ipc.open_stream(source):
                batch.validate(full=True)
                yield pa.Table.from_batches([batch])

    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_stream(source).schema, batches


def _parquet(path: Path) -> tuple[pa.Schema, Batches]:
    def batches() -> Iterator[pa.Table]:
        for batch in pq.ParquetFile(path).iter_batches(BATCH):
            yield pa.Table.from_batches([batch])

    return pq.ParquetFile(path).schema_arrow, batches


def _damaged(path: Path | str, problem: Exception) -> ShiftBenchError:
    return ShiftBenchError(f"{path}: not a readable file of a data set ({first_line(problem)}).")


# What the columns are

def _rows(
    called: str, shards: Sequence[Shard], image: str | None, folder: Path, lists: Sequence[str | None]
) -> tuple[str | None, pa.Table]:
    """The column of images, and all rows: classes by their names, images by their files, with their split."""
    image_column = _image_column(called, shards, image)
    tables, left_out = [], dict[str, str]()
    for shard in shards:
        start = 0
        try:
            for batch in shard.batches():
                rows = _named(shard, batch, start, image_column, folder, lists, left_out)
                tables.append(rows if not shard.split else _with_split(rows, shard.split))
                start += batch.num_rows
        except ShiftBenchError:
            raise
        except (*DAMAGED, *FAULTS) as problem:
            raise _damaged(shard.where, problem) from problem
    if left_out:
        columns = ", ".join(f"'{column}' ({feature})" for column, feature in left_out.items())
        warnings.warn(f"{called}: columns that hold no number or word per item are left out: {columns}. --tags-in and "
                      "--text take a column of lists of words.", stacklevel=4)
    try:
        return image_column, pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    except FAULTS as problem:
        raise ShiftBenchError(f"{called}: the columns of its splits differ ({first_line(problem)}).") from problem


def _image_column(called: str, shards: Sequence[Shard], image: str | None) -> str | None:
    columns = dict.fromkeys(column for shard in shards for column, feature in shard.features.items()
                            if isinstance(feature, Mapping) and feature.get("_type") == "Image")
    if image is not None or len(columns) < 2:
        return image if image is not None else next(iter(columns), None)
    raise ShiftBenchError(f"{called}: has images in the columns {', '.join(columns)}. Name that of the items with "
                          "`image`.")


def _named(
    shard: Shard, batch: pa.Table, start: int, image: str | None, folder: Path, lists: Sequence[str | None],
    left_out: dict[str, str],
) -> pa.Table:
    """A batch whose columns are numbers and words; those named in `lists` may be lists of words."""
    columns: dict[str, Any] = {}
    for column in batch.column_names:
        values, feature = batch[column].combine_chunks(), shard.features.get(column)
        names = _class_names(feature)
        where = f"{shard.where}{f', split {shard.split!r}' if shard.split else ''}, column '{column}'"
        if column == image:
            columns[column] = _files(values, folder, shard, where, start)
        elif names is not None and pa.types.is_integer(values.type):
            columns[column] = _classes(values, names, where, start)
        elif names is not None and column in lists:
            columns[column] = pa.ListArray.from_arrays(
                pc.cast(values.offsets, pa.int32()), _classes(values.values, names, where, start))
        elif _is_plain(values.type) or column in lists:
            columns[column] = values
        else:
            title = feature.get("_type") if isinstance(feature, Mapping) else ""
            left_out[column] = str(title) or str(values.type)
    return pa.table(columns)


def _is_plain(dtype: pa.DataType) -> bool:
    """Whether an item has one number or word of this type."""
    types = pa.types
    return not (types.is_nested(dtype) or types.is_binary(dtype) or types.is_large_binary(dtype)
                or isinstance(dtype, pa.ExtensionType))


def _class_names(feature: Any) -> list[str] | None:
    """The names of a ClassLabel, or of a list of them."""
    if not isinstance(feature, Mapping):
        return _class_names(feature[0]) if isinstance(feature, list) and len(feature) == 1 else None
    if feature.get("_type") in ("Sequence", "List", "LargeList"):
        return _class_names(feature.get("feature"))
    names = feature.get("names")
    return [str(name) for name in names] if feature.get("_type") == "ClassLabel" and isinstance(names, list) else None


def _classes(codes: pa.Array, names: Sequence[str], where: str, start: int) -> pa.Array:
    """Codes as names; -1 is none, as `datasets` has it."""
    odd = pc.fill_null(pc.or_(pc.less(codes, -1), pc.greater_equal(codes, len(names))), False)
    if pc.any(odd).as_py():
        row = int(pc.index(odd, True).as_py())
        raise ShiftBenchError(f"{where}: row {start + row} has the class {codes[row]}, but there are {len(names)} "
                              f"names: 0 to {len(names) - 1}, or -1 for none.")
    indices = pc.if_else(pc.equal(codes, -1), pa.scalar(None, codes.type), codes)
    return pa.array(names, pa.string()).take(indices)


def _files(values: pa.Array, folder: Path, shard: Shard, where: str, start: int) -> pa.Array:
    """The names of the files that images of a batch are written to, their bytes as they are."""
    if not pa.types.is_struct(values.type) or "bytes" not in {field.name for field in values.type}:
        raise ShiftBenchError(f"{where}: holds {values.type}, not images: an Image is its bytes and a path.")
    names = []
    for row, value in enumerate(values.to_pylist(), start=start):
        content, path = (value or {}).get("bytes"), (value or {}).get("path")
        if content is None and path and shard.ours:
            try:
                content = Path(path).read_bytes()
            except OSError as problem:
                raise ShiftBenchError(f"{where}: row {row}: {path} cannot be read ({problem.strerror}).") from problem
        if content is None:
            raise ShiftBenchError(f"{where}: row {row} has no image" + (
                f", only the path {path}. Save the data set with its images." if path else ". Drop the row."))
        names.append(write_image(folder, content, f"{where}, row {row}"))
    return pa.array(names, pa.string())


def _with_split(rows: pa.Table, split: str) -> pa.Table:
    """The rows with a column `split`; a column of theirs with this name becomes `split_column`."""
    if SPLIT in rows.column_names:
        rows = rows.rename_columns([f"{SPLIT}_column" if name == SPLIT else name for name in rows.column_names])
    return rows.append_column(SPLIT, pa.array([split] * rows.num_rows, pa.string()))


def _numbers(shards: Sequence[Shard], rows: pa.Table) -> pa.Array:
    """The id of each row: its number in its split, after the name of the split where there are several."""
    if SPLIT not in rows.column_names or not any(shard.split for shard in shards):
        return pa.array([str(row) for row in range(rows.num_rows)], pa.string())
    names, count = [], dict[str, int]()
    for split in rows[SPLIT].to_pylist():
        names.append(f"{split}/{count.setdefault(split, 0)}")
        count[split] += 1
    return pa.array(names, pa.string())


def _labelled(called: str, rows: pa.Table, label: str, split: str | None, rename: Mapping[str, str]) -> None:
    """Check that every row has a label, except those of splits without labels."""
    empty = np.asarray(pc.is_null(rows[label]))
    if split is not None:
        hidden = [word for word in pc.unique(rows[split]).to_pylist() if rename.get(word, word) == UNLABELLED]
        empty &= ~np.asarray(pc.is_in(rows[split].cast(pa.string()), pa.array(hidden, pa.string())))
    if not empty.any():
        return
    row = int(np.flatnonzero(empty)[0])
    word = "" if split is None else rows[split][row].as_py()
    remedy = (f"If the whole split '{word}' has none, say so: --rename {word}={UNLABELLED}." if word else
              "Drop those rows.")
    raise ShiftBenchError(f"{called}: {int(empty.sum()):,} rows have no label (-1 or nothing) in column '{label}', the "
                          f"first is row {row}{f', of split {word!r}' if word else ''}. {remedy}")
