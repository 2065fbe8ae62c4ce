"""Files of ours, written whole or not at all (see `staging`), and reading that says what is wrong with a file."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.parsing import parse_json, parse_toml
from shiftbench.core.staging import check_regular as check_regular
from shiftbench.core.staging import writing as writing
from shiftbench.core.staging import writing_folder as writing_folder
from shiftbench.core.tables import first_line
from shiftbench.core.tables import no_doubles as no_doubles
from shiftbench.core.tables import read_table as read_table
from shiftbench.core.tables import write_table as write_table

T = TypeVar("T")


@contextmanager
def lock(path: Path | str) -> Iterator[bool]:
    """True while this process alone holds `path`; False where another process does. A killed process lets go."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be written ({problem.strerror}).") from problem
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(handle)


def write_json(path: Path | str, value: Any) -> None:
    with writing(path) as hidden:
        hidden.write_text(json.dumps(value, indent=1, ensure_ascii=False, sort_keys=False) + "\n", encoding="utf-8")


def read_json(path: Path | str) -> Any:
    """The content of a JSON file, or an error that names the file and the place."""
    return parse_json(read_text(path), str(path))


def read_toml(path: Path | str) -> dict[str, Any]:
    """The content of a TOML file, or an error that names the file and the place."""
    return parse_toml(read_text(path), str(path))


def read_marker(folder: Path, marker: str, what: str, version: int, shape: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON file by which we know a folder of ours, or an error that says what the folder is not.

    `shape` says what must be in it: a key and a type, `[type]` for a list of it, `{str: type}` for an object of it,
    `{"name": type}` for an object that has that key.
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


def check_parts(where: str, facts: Mapping[str, Any], shape: Mapping[str, Any]) -> None:
    """What is there of an object has the shape it should have; see `read_marker`."""
    for key, kind in shape.items():
        if key in facts and not _has_shape(facts[key], kind):
            raise ShiftBenchError(f"{where}: '{key}' is not what it should be; the file was changed. Make it again.")


def file_digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of files of a folder: a few percent of the time it takes to read them as tables."""
    found = {}
    for name in sorted(names):
        try:
            with (folder / name).open("rb") as handle:
                found[name] = hashlib.file_digest(handle, "sha256").hexdigest()
        except OSError as problem:
            raise ShiftBenchError(f"{folder / name}: cannot be read ({problem.strerror}).") from problem
    return found


def check_digests(folder: Path, marker: str, said: Any, what: str) -> None:
    """The tables of a folder are those that its marker was written for, or an error names the one that is not."""
    if not _has_shape(said, {str: str}) or any("/" in name for name in said):
        raise ShiftBenchError(f"{folder / marker}: 'files' must give a digest for each file. Make the {what} again.")
    for name, found in file_digests(folder, said).items():
        if said[name] != found:
            raise ShiftBenchError(f"{folder / name}: does not match its digest in {marker}; the {what} was changed or "
                                  f"damaged after it was written. Make the {what} again.")


def read_folder(folder: Path, marker: str, read: Callable[[Path], T]) -> T:
    """What `read` gives of a folder of ours. If another process replaces the folder meanwhile, it is read once more:
    what comes of it is never half of the one and half of the other."""
    for _ in range(2):
        before = _stamp(folder, marker)
        try:
            found = read(folder)
        except ShiftBenchError:
            if _stamp(folder, marker) == before:
                raise
        else:
            if _stamp(folder, marker) == before:
                return found
    raise ShiftBenchError(f"{folder}: another process replaced it while it was read, twice. Try again when that "
                          "process has ended.")


def _stamp(folder: Path, marker: str) -> tuple[int, ...]:
    """Numbers that are others once a folder has been replaced."""
    stamp: tuple[int, ...] = ()
    for path in (folder, folder / marker):
        try:
            facts = path.stat()
        except OSError:
            continue
        stamp += (facts.st_dev, facts.st_ino, facts.st_ctime_ns if path.name == marker else 0)
    return stamp


def _has_shape(value: Any, kind: Any) -> bool:
    if isinstance(kind, list):
        return isinstance(value, list) and all(_has_shape(part, kind[0]) for part in value)
    if isinstance(kind, dict) and str not in kind:
        return isinstance(value, dict) and all(key in value and _has_shape(value[key], kind[key]) for key in kind)
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(_has_shape(part, kind[str]) for part in value.values())
    return isinstance(value, kind)


def kept_rows(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
    """A table of a cache, mapped for reading: `write_rows` writes it. What cannot be read says whose fault that is."""
    folder = path.parent
    try:
        table = np.lib.format.open_memmap(path, "r")
    except FileNotFoundError as problem:
        raise ShiftBenchError(f"{folder}: has no {path.name}. Delete this folder; what it keeps is computed "
                              "again.") from problem
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({problem.strerror}). Ask its owner for the right to read "
                              "it.") from problem
    except Exception as problem:  # see `read_array`
        raise ShiftBenchError(f"{folder}: {path.name} is damaged ({first_line(problem)}). Delete this folder; what it "
                              "keeps is computed again.") from problem
    if table.shape != shape or table.dtype != dtype:
        raise ShiftBenchError(f"{path}: has {table.dtype} of shape {table.shape}, not {shape}. Delete the folder "
                              f"{folder}; what it keeps is computed again.")
    return table


def may_write(path: Path | str) -> bool:
    """Whether this process may change a file, asked of the system by opening it."""
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        return False
    return True


def check_writable(table: Any, missing: int) -> None:
    """Say before hours of work that their outcome cannot be kept."""
    if missing and not may_write(table.filename):
        raise ShiftBenchError(f"{table.filename}: lacks {missing:,} items that are needed, and you have no right to "
                              "write it. Ask its owner to compute them, or make a copy of the collection's folder.")


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
    if "\0" in relative:
        raise ShiftBenchError(f"'{relative}' is not the name of a file.")
    base = Path(os.path.realpath(root))
    full = Path(os.path.realpath(base / relative))  # a link to itself is itself, where Path.resolve raises
    if not full.is_relative_to(base):
        raise ShiftBenchError(f"'{relative}' leads out of its folder {base}. Paths must stay inside it.")
    return full


def read_text(path: Path | str) -> str:
    """The text of a file, which must be UTF-8."""
    check_regular(path)
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        raise ShiftBenchError(f"{path}: no such file.") from problem
    except IsADirectoryError as problem:
        raise ShiftBenchError(f"{path} is a folder; a file is needed.") from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise ShiftBenchError(f"{path}: cannot be read as text ({problem}).") from problem


def read_array(path: Path | str) -> npt.NDArray[Any]:
    """An array of numpy's format, mapped for reading. Nothing is unpickled, and no more is read than the file holds.

    numpy's parser of headers raises whatever Python's own parser does, from SyntaxError to MemoryError.
    """
    try:
        return np.lib.format.open_memmap(path, "r")
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({problem.strerror or first_line(problem)}).") from problem
    except Exception as problem:
        raise ShiftBenchError(f"{path}: not an array in numpy's format, or a damaged one ({first_line(problem)}). Copy "
                              "or make it again; files of Python objects are never opened.") from problem
