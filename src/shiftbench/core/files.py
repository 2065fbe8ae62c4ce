"""Files of ours, written whole or not at all, and reading that says what is wrong with a file.

What is new is made in a staging folder and takes its place in one step. A staging folder `.staging-HOST-XXXXXXXX` lies
beside what it is for, on the same disk. The process that works in it holds a lock on it, which the system lets go of
when the process ends, however it ends: so a folder that nobody holds is what a killed process left, and the next one of
that machine that writes there clears it away. (Some network disks keep a lock from other machines, so folders of other
machines are left alone.)
"""

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import shutil
import socket
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.parsing import parse_json, parse_toml

T = TypeVar("T")

PREFIX = f".staging-{hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]}-"
AT_ONCE = 32
"""Files of a folder that are synced at the same time."""
OLD = "old"
"""In a staging folder: what had to be moved aside, where two folders cannot change places in one step."""


@contextmanager
def writing(path: Path | str) -> Iterator[Path]:
    """A temporary name for a file; when the block ends well, the file takes its place in one step."""
    target = Path(path)
    if target.is_dir():
        raise ShiftBenchError(f"{target} is a folder, but a file is to be written there. Choose another name.")
    with _said(target), staging(target.parent) as folder:
        hidden = folder / target.name
        yield hidden
        _sync(hidden)
        hidden.replace(target)


@contextmanager
def writing_folder(path: Path | str, marker: str) -> Iterator[Path]:
    """A temporary folder that takes the place of `path` when the block ends well.

    An existing folder is replaced only when it holds `marker`, the file by which we know our own; anything else a user
    keeps there is never deleted. A reader sees the old folder or the new one, at no moment none.
    """
    target = Path(path)
    if target.exists() and not (target / marker).is_file() and (not target.is_dir() or any(target.iterdir())):
        raise ShiftBenchError(f"{target} exists and has no {marker}: it is not ours to replace. Choose another folder.")
    with _said(target), staging(target.parent) as folder:
        hidden = folder / target.name
        hidden.mkdir()
        yield hidden
        with ThreadPoolExecutor(AT_ONCE) as pool:  # a disk writes what many threads wait for in one go
            for _ in pool.map(_sync, [part for part in hidden.rglob("*") if part.is_file() and not part.is_symlink()]):
                pass
        if not target.exists():
            hidden.rename(target)
        elif not _exchanged(hidden, target):
            _replace(hidden, target)


@contextmanager
def making_folder(path: Path | str) -> Iterator[Path]:
    """A temporary folder that becomes `path` when the block ends well, unless another process was first.

    For what is computed and the same whoever computes it.
    """
    target = Path(path)
    with _said(target), staging(target.parent) as folder:
        hidden = folder / target.name
        hidden.mkdir()
        yield hidden
        try:
            hidden.rename(target)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of this machine for as long as the block lasts, below TMPDIR."""
    top = Path(tempfile.gettempdir()) / f"shiftbench-scratch-{os.getuid()}"
    try:
        top.mkdir(mode=0o700, exist_ok=True)
        foreign = top.stat().st_uid != os.getuid() or top.is_symlink()
    except OSError as problem:
        raise ShiftBenchError(f"{top}: cannot make the folder ({problem.strerror}).") from problem
    if foreign:
        raise ShiftBenchError(f"{top}: belongs to somebody else. Set TMPDIR to a folder of yours.")
    with staging(top) as folder:
        yield folder


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A folder below `parent` that this process holds and that is gone when the block ends."""
    parent.mkdir(parents=True, exist_ok=True)
    clear(parent)
    while True:
        folder = parent / f"{PREFIX}{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        handle = os.open(folder, os.O_RDONLY)
        with suppress(OSError):  # a network disk may have no locks: then nobody can take this folder for a dead one's
            fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():  # else another process took it for a dead one's before we held it
            break
        os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def clear(parent: Path) -> None:
    """Remove the staging folders below `parent` that no process holds."""
    left: list[str] = []
    with suppress(OSError), os.scandir(parent) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for path in left:
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _finish(Path(path))
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


def _finish(folder: Path) -> None:
    """A process that was killed after it moved the old folder aside had the new one ready: put it there."""
    for old in (folder / OLD).iterdir() if (folder / OLD).is_dir() else ():
        target = folder.parent / old.name
        if not target.exists():
            (folder / old.name).rename(target)


def _replace(new: Path, target: Path) -> None:
    """In two steps; whoever is killed between them is helped by `_finish`."""
    old = new.parent / OLD / target.name
    old.parent.mkdir()
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise


def _exchanged(one: Path, other: Path) -> bool:
    """Let two names change places in one step; False where the system or the disk cannot."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None)  # Linux
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return swap is not None and swap(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def path_of(source: Any, kinds: str) -> Path:
    """The path that a user named. What is none is an error that names its type and what it should have been:
    `kinds` is "a Benchmark nor the folder of one".
    """
    if not isinstance(source, str | os.PathLike):
        raise ShiftBenchError(f"{type(source).__name__} is neither {kinds}.")
    return Path(source)


def check_regular(path: Path | str) -> None:
    """A pipe, a socket or a device is not read: it may never end. What is not there is said by whoever opens it."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ShiftBenchError(f"{path} is a pipe or a device, not a file. Write its content to a file first.")


def _sync(file: Path) -> None:
    with file.open("rb") as handle:
        os.fsync(handle.fileno())


@contextmanager
def _said(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise ShiftBenchError(f"{target}: cannot be written ({problem.strerror or problem}).") from problem


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


def write_text(path: Path | str, text: str) -> Path:
    """Write a text file; it appears whole or not at all."""
    with writing(path) as hidden:
        hidden.write_text(text, encoding="utf-8")
    return Path(path)


def copy_file(source: Path | str, path: Path | str) -> Path:
    """Copy a file; the copy appears whole or not at all."""
    with writing(path) as hidden:
        shutil.copyfile(source, hidden)
    return Path(path)


def write_json(path: Path | str, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, sort_keys=False) + "\n")


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
    digests = {}
    for name in sorted(names):
        try:
            with (folder / name).open("rb") as handle:
                digests[name] = hashlib.file_digest(handle, "sha256").hexdigest()
        except OSError as problem:
            raise ShiftBenchError(f"{folder / name}: cannot be read ({problem.strerror}).") from problem
    return digests


def check_digests(folder: Path, marker: str, expected: Any, what: str) -> None:
    """The tables of a folder are those that its marker was written for, or an error names the one that is not."""
    if not _has_shape(expected, {str: str}) or any("/" in name for name in expected):
        raise ShiftBenchError(f"{folder / marker}: 'files' must give a digest for each file. Make the {what} again.")
    for name, digest in file_digests(folder, expected).items():
        if expected[name] != digest:
            raise ShiftBenchError(f"{folder / name}: does not match its digest in {marker}; the {what} was changed or "
                                  f"damaged after it was written. Make the {what} again.")


def read_folder(folder: Path, marker: str, read: Callable[[Path], T]) -> T:
    """What `read` gives of a folder of ours. If another process replaces the folder meanwhile, it is read once more:
    what comes of it is never half of the one and half of the other."""
    for _ in range(2):
        before = _stamp(folder, marker)
        try:
            content = read(folder)
        except ShiftBenchError:
            if _stamp(folder, marker) == before:
                raise
        else:
            if _stamp(folder, marker) == before:
                return content
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
