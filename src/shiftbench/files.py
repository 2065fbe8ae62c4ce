"""Files that are never half-written, and reading that says what is wrong with a file.

Everything is written under a temporary name, synced and renamed: a reader never sees half a file, and a killed process
leaves the old one in place.
"""

import fcntl
import json
import os
import shutil
import tomllib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from shiftbench.errors import ShiftBenchError


@contextmanager
def writing(path: Path | str) -> Iterator[Path]:
    """A temporary name beside `path`; when the block ends well, the file takes its place in one step."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ShiftBenchError(f"{target}: cannot make its folder ({problem.strerror}).") from problem
    if target.is_dir():
        raise ShiftBenchError(f"{target} is a folder, but a file is to be written there. Choose another name.")
    hidden = target.parent / f".{target.stem}-{uuid.uuid4().hex[:8]}{target.suffix}"
    try:
        yield hidden
        with hidden.open("rb") as handle:
            os.fsync(handle.fileno())
        hidden.replace(target)
    except OSError as problem:
        raise ShiftBenchError(f"{target}: cannot be written ({problem.strerror}).") from problem
    finally:
        hidden.unlink(missing_ok=True)


@contextmanager
def writing_folder(path: Path | str, marker: str) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its place when the block ends well.

    An existing folder is replaced only when it holds `marker`, the file by which we know our own; anything else a user
    keeps there is never deleted.
    """
    target = Path(path)
    if target.exists() and not (target / marker).is_file() and (not target.is_dir() or any(target.iterdir())):
        raise ShiftBenchError(f"{target} exists and has no {marker}: it is not ours to replace. Choose another folder.")
    hidden = target.parent / f".{target.name}-{uuid.uuid4().hex[:8]}"
    try:
        hidden.mkdir(parents=True)
    except OSError as problem:
        raise ShiftBenchError(f"{target}: cannot make the folder ({problem.strerror}).") from problem
    old = hidden.with_name(hidden.name + "-old")
    try:
        yield hidden
        for part in hidden.rglob("*"):
            if part.is_file():
                with part.open("rb") as handle:
                    os.fsync(handle.fileno())
        if target.exists():
            target.rename(old)
        hidden.rename(target)
    except OSError as problem:
        raise ShiftBenchError(f"{target}: cannot be written ({problem.strerror}).") from problem
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def lock(path: Path | str) -> Iterator[bool]:
    """True while this process alone holds `path`; False where another process does. A killed process lets go."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def write_json(path: Path | str, value: Any) -> None:
    with writing(path) as hidden:
        hidden.write_text(json.dumps(value, indent=1, ensure_ascii=False, sort_keys=False) + "\n", encoding="utf-8")


def read_json(path: Path | str) -> Any:
    """The content of a JSON file, or an error that names the file and the place."""
    try:
        return json.loads(_text(Path(path)))
    except json.JSONDecodeError as problem:
        raise ShiftBenchError(f"{path}: not valid JSON, line {problem.lineno}: {problem.msg}.") from problem


def read_toml(path: Path | str) -> dict[str, Any]:
    """The content of a TOML file, or an error that names the file and the place."""
    try:
        return tomllib.loads(_text(Path(path)))
    except tomllib.TOMLDecodeError as problem:
        raise ShiftBenchError(f"{path}: not valid TOML: {problem}.") from problem


def write_table(path: Path | str, table: pa.Table) -> None:
    """Write a parquet file, or a CSV file where the name ends so."""
    with writing(path) as hidden:
        if Path(path).suffix == ".csv":
            from pyarrow import csv

            csv.write_csv(table, hidden)
        else:
            pq.write_table(table, hidden, compression="zstd")


def no_doubles(file: Path, table: pa.Table) -> None:
    """Two columns of one name: which of them is meant nobody can tell."""
    double = next((name for name in table.column_names if table.column_names.count(name) > 1), None)
    if double is not None:
        raise ShiftBenchError(f"{file}: has more than one column '{double}'. Give each column a name of its own.")


def read_table(path: Path | str, columns: Sequence[str] = (), text: Sequence[str] = ()) -> pa.Table:
    """Read a parquet or CSV file and check that it has `columns`.

    Columns named in `text` stay text in a CSV file, so that the id 000123 does not become the number 123.
    """
    file = Path(path)
    if not file.is_file():
        raise ShiftBenchError(f"{file}: no such file." if not file.exists() else f"{file} is a folder, not a table.")
    try:
        if file.suffix == ".csv":
            from pyarrow import csv

            as_text = csv.ConvertOptions(column_types=dict.fromkeys(text, pa.string()))
            table = csv.read_csv(file, convert_options=as_text)
        else:
            table = pq.read_table(file)
    except (pa.ArrowException, OSError) as problem:
        kind = "CSV" if file.suffix == ".csv" else "parquet"
        raise ShiftBenchError(f"{file}: not a readable {kind} table ({str(problem).splitlines()[0]}).") from problem
    no_doubles(file, table)
    for name in columns:
        if name not in table.column_names:
            raise ShiftBenchError(f"{file}: has no column '{name}'. Its columns: {', '.join(table.column_names)}.")
    return table


def read_marker(folder: Path, marker: str, what: str, version: int, shape: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON file by which we know a folder of ours, or an error that says what the folder is not.

    `shape` says what must be in it: a key and a type, `[type]` for a list of it, `{str: type}` for an object of it.
    """
    if not folder.is_dir():
        raise ShiftBenchError(f"{folder}: no such folder. A {what} is a folder that holds {marker}.")
    if not (folder / marker).is_file():
        raise ShiftBenchError(f"{folder} has no {marker}, so it is not a {what}.")
    facts = read_json(folder / marker)
    if not isinstance(facts, dict) or facts.get("format") != f"shiftbench {what}":
        raise ShiftBenchError(f"{folder / marker}: does not describe a {what}.")
    if facts.get("version") != version:
        raise ShiftBenchError(f"{folder}: written in format {facts.get('version')}, this version reads {version}. "
                              f"Make the {what} again.")
    for key, kind in shape.items():
        if key not in facts or not _has_shape(facts[key], kind):
            raise ShiftBenchError(f"{folder / marker}: '{key}' is missing or not what it should be; the file was "
                                  f"changed. Make the {what} again.")
    return facts


def _has_shape(value: Any, kind: Any) -> bool:
    if isinstance(kind, list):
        return isinstance(value, list) and all(_has_shape(part, kind[0]) for part in value)
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(_has_shape(part, kind[str]) for part in value.values())
    return isinstance(value, kind)


def write_rows(table: Any, rows: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> None:
    """Write rows of a memory-mapped file through the file: on a full disk the map itself would end the process."""
    try:
        with open(table.filename, "r+b") as file:
            for row, value in zip(rows.tolist(), values, strict=True):
                file.seek(table.offset + row * table[0].nbytes)
                file.write(value.tobytes())
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        raise ShiftBenchError(f"{table.filename}: cannot be written ({problem.strerror}).") from problem


def inside(root: Path | str, relative: str) -> Path:
    """`root / relative`, or an error when that would lead out of `root`."""
    base = Path(root).resolve()
    full = (base / relative).resolve()
    if not full.is_relative_to(base):
        raise ShiftBenchError(f"'{relative}' leads out of its folder {base}. Paths must stay inside it.")
    return full


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        raise ShiftBenchError(f"{path}: no such file.") from problem
    except IsADirectoryError as problem:
        raise ShiftBenchError(f"{path} is a folder; a file is needed.") from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise ShiftBenchError(f"{path}: cannot be read as text ({problem}).") from problem
