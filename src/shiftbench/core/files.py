"""Files and folders: read with errors that name the file and the place, and written whole or not at all.

JSON and TOML may come from strangers, so they are parsed within limits that no file of ours comes near. Python's
parsers stop with three different exceptions at deep nesting and at long numbers, and what they let through may break
whatever comes after: a number of more than 64 bits fits into no array, half of a surrogate pair into no file.

A new file or folder is made in a staging folder `.staging-HOST-XXXXXXXX` beside it, on the same disk, and takes its
name in one step. The process that works in a staging folder holds a lock on it, which the system releases when the
process ends, however it ends. A staging folder without a lock is therefore what a killed process left, and the next
process of that machine that writes there deletes it. (Some network disks hide locks from other machines, so staging
folders of other machines are left alone.)
"""

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import tomllib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import date, time
from pathlib import Path
from time import sleep
from typing import Any, TypeVar

from shiftbench.core.errors import ShiftBenchError

T = TypeVar("T")

DEEPEST = 100
"""The levels of lists and objects within each other that a JSON or TOML file may have."""
_LONG_NUMBER = re.compile(r"[0-9]{19}")
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

PREFIX = f".staging-{hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]}-"
SYNC_THREADS = 32
OLD = "old"
"""The name in a staging folder for a folder that was moved aside, where two folders cannot swap names in one step."""


def read_text(path: Path | str) -> str:
    """The text of a file, which must be UTF-8."""
    check_regular(path)
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        raise ShiftBenchError(f"{path}: no such file.") from problem
    except IsADirectoryError as problem:
        raise ShiftBenchError(f"{path} is a folder; a file is needed.") from problem
    except (OSError, ValueError) as problem:
        raise ShiftBenchError(f"{path}: cannot be read as text ({problem}).") from problem


def read_json(path: Path | str) -> Any:
    """The content of a JSON file, or an error that names the file and the place."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str) -> Any:
    """The content of a JSON text; an error names `where`."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as problem:
        raise ShiftBenchError(f"{where}: not valid JSON, line {problem.lineno}: {problem.msg}.") from problem
    except (RecursionError, ValueError) as problem:
        raise _limit_error(problem, where) from problem
    suspicious = bool(_LONG_NUMBER.search(text) or _SURROGATE.search(text))
    if suspicious or text.count("[") + text.count("{") > DEEPEST:
        _check_limits(value, where, suspicious)
    return value


def read_toml(path: Path | str) -> dict[str, Any]:
    """The content of a TOML file, or an error that names the file and the place."""
    return parse_toml(read_text(path), str(path))


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The content of a TOML text; an error names `where`. Dates and times become ISO text."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ShiftBenchError(f"{where}: not valid TOML: {problem}.") from problem
    except (RecursionError, ValueError) as problem:
        raise _limit_error(problem, where) from problem
    _check_limits(tables, where)
    return {key: _without_dates(value) for key, value in tables.items()}


def parse_value(text: str, where: str) -> Any:
    """One value in TOML: 0.06, true, [1, 2], "text"; what is not valid TOML is text without quotes."""
    try:
        return text if "\n" in text else parse_toml(f"value = {text}", where)["value"]
    except ShiftBenchError as problem:
        if isinstance(problem.__cause__, tomllib.TOMLDecodeError):
            return text
        raise


def parse_changes(pairs: Sequence[str]) -> dict[str, Any]:
    """The `key=value` words of the command line; a value is TOML, or text where it is not valid TOML.

    >>> parse_changes(["p=0.06", "label=class", "classes=['cat', 'dog']"])
    {'p': 0.06, 'label': 'class', 'classes': ['cat', 'dog']}
    """
    changes: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ShiftBenchError(f"'{pair}' is not a setting. Write --set key=value.")
        changes[key.strip()] = parse_value(value, f"--set {key.strip()}")
    return changes


def to_toml(value: Any) -> str:
    """A value in TOML on one line, from which `parse_value` reads the same value.

    >>> to_toml({"cat": ("sofa", 'a "big" bed'), "two words": 0.5})
    '{cat = ["sofa", "a \\\\"big\\\\" bed"], "two words" = 0.5}'
    """
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub("[\x00-\x1f\x7f]", lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_key(key)} = {to_toml(content)}" for key, content in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    return repr(float(value)) if isinstance(value, float) else str(value)


def toml_key(name: str) -> str:
    """A key in TOML: bare where TOML allows it, else in quotes."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else to_toml(name)


def _without_dates(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_dates(content) for key, content in value.items()}
    if isinstance(value, list):
        return [_without_dates(content) for content in value]
    return value.isoformat() if isinstance(value, date | time) else value


def _check_limits(tree: Any, where: str, values: bool = True) -> None:
    """Check a parsed file level by level: its depth and, with `values`, its numbers and texts."""
    level = [tree]
    for _ in range(DEEPEST + 1):
        below: list[Any] = []
        for node in level:
            children = [*node.values()] if isinstance(node, dict) else node if isinstance(node, list) else [node]
            for value in (*children, *(node if isinstance(node, dict) else ())) if values else ():
                if isinstance(value, int) and not -(2**63) <= value < 2**63:
                    raise _limit_error(ValueError(), where)
                if isinstance(value, str) and _HALF_PAIR.search(value):
                    raise ShiftBenchError(f"{where}: the text '{value[:40]}' holds half of a surrogate pair, which is "
                                          "no character. Correct it.")
            below += [child for child in children if isinstance(child, list | dict)]
        if not below:
            return
        level = below
    raise _limit_error(RecursionError(), where)


def _limit_error(problem: Exception, where: str) -> ShiftBenchError:
    """What Python's parsers mean by a RecursionError, and by a ValueError that is no mistake in the syntax."""
    if isinstance(problem, RecursionError):
        return ShiftBenchError(f"{where}: nested more than {DEEPEST} levels deep. No file that we read needs that.")
    return ShiftBenchError(f"{where}: holds a whole number of more than 64 bits. Write a smaller one, or a text.")


def path_of(source: Any, kinds: str) -> Path:
    """The path that a user gave; anything else is an error with `kinds`: "a Benchmark nor the folder of one"."""
    if not isinstance(source, str | os.PathLike):
        raise ShiftBenchError(f"{type(source).__name__} is neither {kinds}.")
    return Path(source)


def check_regular(path: Path | str) -> None:
    """Refuse a pipe, a socket or a device, which may never end. Whoever opens a missing file reports it."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # a path with a NUL is none
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ShiftBenchError(f"{path} is a pipe or a device, not a file. Write its content to a file first.")


def inside(root: Path | str, relative: str) -> Path:
    """`root / relative`, or an error when that would lead out of `root`."""
    if "\0" in relative:
        raise ShiftBenchError(f"'{relative}' is not the name of a file.")
    base = Path(os.path.realpath(root))
    full = Path(os.path.realpath(base / relative))  # a link to itself is itself, where Path.resolve raises
    if not full.is_relative_to(base):
        raise ShiftBenchError(f"'{relative}' leads out of its folder {base}. Paths must stay inside it.")
    return full


def read_folder(folder: Path, marker: str, read: Callable[[Path], T]) -> T:
    """Read a folder of ours with `read`, and once more if another process replaces it meanwhile.

    So the result is never a mixture of the old and the new folder.
    """
    for _ in range(2):
        before = _stamp(folder, marker)
        try:
            content = read(folder)
            if _stamp(folder, marker) == before:
                return content
        except ShiftBenchError:
            if _stamp(folder, marker) == before:
                raise
    raise ShiftBenchError(f"{folder}: another process replaced it while it was read, twice. Try again when that "
                          "process has ended.")


def _stamp(folder: Path, marker: str) -> tuple[int, ...]:
    """Numbers that change when a folder is replaced."""
    stamp: tuple[int, ...] = ()
    for path in (folder, folder / marker):
        with suppress(OSError, ValueError):
            facts = path.stat()
            stamp += (facts.st_dev, facts.st_ino, facts.st_ctime_ns if path.name == marker else 0)
    return stamp


def read_marker(folder: Path, marker: str, what: str, version: int, shape: Mapping[str, Any]) -> dict[str, Any]:
    """The facts in `marker`, the JSON file that marks a folder of ours; an error if the folder is no `what`.

    `shape` gives the type of every required key: `[type]` is a list, `{str: type}` an object with any keys,
    `{"name": type}` an object that has this key.
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
    for key, expected in shape.items():
        if key not in facts or not _has_shape(facts[key], expected):
            raise ShiftBenchError(f"{folder / marker}: '{key}' is missing or not what it should be; the file was "
                                  f"changed. Make the {what} again.")
    return facts


def check_parts(where: str, facts: Mapping[str, Any], shape: Mapping[str, Any]) -> None:
    """Check the shape of those keys that an object has; see `read_marker`."""
    for key, expected in shape.items():
        if key in facts and not _has_shape(facts[key], expected):
            raise ShiftBenchError(f"{where}: '{key}' is not what it should be; the file was changed. Make it again.")


def _has_shape(value: Any, shape: Any) -> bool:
    if isinstance(shape, list):
        return isinstance(value, list) and all(_has_shape(element, shape[0]) for element in value)
    if isinstance(shape, dict) and str not in shape:
        return isinstance(value, dict) and all(key in value and _has_shape(value[key], shape[key]) for key in shape)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(_has_shape(element, shape[str]) for element in value.values())
    return isinstance(value, shape)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, which takes a few percent of the time to read it as a table."""
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({problem.strerror}).") from problem


def file_digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: file_digest(folder / name) for name in sorted(names)}


def check_digests(folder: Path, marker: str, expected: Any, what: str) -> None:
    """Check the files of a folder against the digests in its marker; an error names the first that differs."""
    if not _has_shape(expected, {str: str}) or any("/" in name for name in expected):
        raise ShiftBenchError(f"{folder / marker}: 'files' must give a digest for each file. Make the {what} again.")
    for name, digest in file_digests(folder, expected).items():
        if expected[name] != digest:
            raise ShiftBenchError(f"{folder / name}: does not match its digest in {marker}; the {what} was changed or "
                                  f"damaged after it was written. Make the {what} again.")


def write_text(path: Path | str, text: str) -> Path:
    """Write a text file; it appears whole or not at all."""
    with writing(path) as staged:
        staged.write_text(text, encoding="utf-8")
    return Path(path)


def write_json(path: Path | str, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def copy_file(source: Path | str, path: Path | str) -> Path:
    """Copy a file; the copy appears whole or not at all."""
    with writing(path) as staged:
        shutil.copyfile(source, staged)
    return Path(path)


@contextmanager
def writing(path: Path | str) -> Iterator[Path]:
    """A temporary path for a file, which replaces `path` in one step when the block ends without an error."""
    target = Path(path)
    if target.is_dir():
        raise ShiftBenchError(f"{target} is a folder, but a file is to be written there. Choose another name.")
    with _write_errors(target), staging(target.parent) as folder:
        staged = folder / target.name
        yield staged
        _sync(staged)
        staged.replace(target)


@contextmanager
def writing_folder(path: Path | str, marker: str) -> Iterator[Path]:
    """A temporary folder that replaces `path` when the block ends without an error.

    An existing folder is replaced only if it holds `marker`, which marks our own folders; what a user keeps there is
    never deleted. A reader sees the old folder or the new one at any moment.
    """
    target = Path(path)
    if target.exists() and not (target / marker).is_file() and (not target.is_dir() or any(target.iterdir())):
        raise ShiftBenchError(f"{target} exists and has no {marker}: it is not ours to replace. Choose another folder.")
    with _write_errors(target), staging(target.parent) as folder:
        staged = folder / target.name
        staged.mkdir()
        yield staged
        with ThreadPoolExecutor(SYNC_THREADS) as pool:  # a disk serves many waiting threads in one go
            list(pool.map(_sync, [file for file in staged.rglob("*") if file.is_file() and not file.is_symlink()]))
        if not target.exists():
            staged.rename(target)
        elif not _swap(staged, target):
            _replace(staged, target)


@contextmanager
def making_folder(path: Path | str) -> Iterator[Path]:
    """A temporary folder that becomes `path` when the block ends without an error, unless another process was first.

    For results that are the same in every process.
    """
    target = Path(path)
    with _write_errors(target), staging(target.parent) as folder:
        staged = folder / target.name
        staged.mkdir()
        yield staged
        try:
            staged.rename(target)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder below TMPDIR, which is deleted at the end of the block."""
    top = Path(tempfile.gettempdir()) / f"shiftbench-scratch-{os.getuid()}"
    try:
        top.mkdir(mode=0o700, exist_ok=True)
        foreign = top.stat().st_uid != os.getuid() or top.is_symlink()
    except OSError as problem:
        raise ShiftBenchError(f"{top}: cannot make the folder ({problem.strerror}).") from problem
    if foreign:
        raise ShiftBenchError(f"{top}: belongs to another user. Set TMPDIR to a folder of yours.")
    with staging(top) as folder:
        yield folder


@contextmanager
def lock(path: Path | str) -> Iterator[bool]:
    """True while this process alone holds the lock `path`, False if another process does; a killed process lets go."""
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


WAIT = 0.2
"""Seconds between two tries to get a lock."""


@contextmanager
def locked(path: Path | str) -> Iterator[None]:
    """The lock `path`, once no other process holds it: what that one makes need not be made again."""
    while True:
        with lock(path) as free:
            if free:
                yield
                return
        sleep(WAIT)


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A folder below `parent` that this process locks, and deletes at the end of the block."""
    parent.mkdir(parents=True, exist_ok=True)
    clear(parent)
    while True:
        folder = parent / f"{PREFIX}{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        handle = os.open(folder, os.O_RDONLY)
        with suppress(OSError):  # a network disk may have no locks; then no process deletes the folder of another
            fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():  # else another process took it for an abandoned one before we locked it
            break
        os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def clear(parent: Path) -> None:
    """Delete the staging folders below `parent` that no process has locked."""
    paths: list[str] = []
    with suppress(OSError), os.scandir(parent) as entries:
        paths = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for path in paths:
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _finish(Path(path))
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


def _finish(folder: Path) -> None:
    """Put the new folder into place for a process that was killed after it had moved the old one aside."""
    for old in (folder / OLD).iterdir() if (folder / OLD).is_dir() else ():
        target = folder.parent / old.name
        if not target.exists():
            (folder / old.name).rename(target)


def _replace(new: Path, target: Path) -> None:
    """Replace a folder in two steps; `_finish` completes them for a process that is killed in between."""
    old = new.parent / OLD / target.name
    old.parent.mkdir()
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise


def _swap(first: Path, second: Path) -> bool:
    """Swap two names in one step; False where the system or the disk cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)  # Linux
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(first), here, os.fsencode(second), exchange) == 0


def _sync(file: Path) -> None:
    with file.open("rb") as handle:
        os.fsync(handle.fileno())


@contextmanager
def _write_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise ShiftBenchError(f"{target}: cannot be written ({problem.strerror or problem}).") from problem
