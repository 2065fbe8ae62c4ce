"""Data sets on this machine: fetched, unpacked and recorded, and compared with the record file by file.

A record ROOT/.downloads/NAME.json is begun before the first byte and finished after the last file. It holds path, size
and SHA-256 of every file, so that a folder can be checked long after its archive is gone.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from shiftbench.core.errors import Advance, Say, ShiftBenchError
from shiftbench.core.files import lock, read_json, write_json, writing
from shiftbench.downloads.archives import Damaged, Unpacked, unpack
from shiftbench.downloads.data_sets import SOURCES, File, Source
from shiftbench.downloads.transfer import BLOCK, difference, digest, received, transfer

RECORDS = ".downloads"
FORMAT = "shiftbench download"
VERSION = 1


@dataclass(frozen=True)
class Options:
    """How to fetch. `origin` is a folder or an address that has the files under the same names, None the published
    addresses; `say` is called with each problem on the way, `wait` pauses between attempts."""

    origin: str | None = None
    keep_archives: bool = False
    progress: Advance = lambda done, total: None
    say: Say = lambda line: None
    wait: Callable[[float], None] = time.sleep


class Difference(NamedTuple):
    """A file that is not as it should be: missing, half-downloaded, altered or not unpacked."""

    path: str
    what: str


def download(
    source: Source, root: Path | str, accept_licence: bool = False, options: Options | None = None
) -> tuple[Path, bool]:
    """The folder of a data set below `root`, and whether anything had to be fetched.

    Fetching needs the licence to be accepted; a finished folder is not fetched again.
    """
    base, options = Path(root), options or Options()
    if source.login and options.origin is None and not is_finished(source, base):
        raise ShiftBenchError(f"{source.words} cannot be fetched by a program: {source.login}.")
    if not accept_licence and not is_finished(source, base):
        raise ShiftBenchError(f"{source.words}: {licence_words(source)} Accept it with --accept-licence "
                              "(accept_licence=True in Python).")
    if options.origin is not None and not _is_address(options.origin) and not Path(options.origin).is_dir():
        raise ShiftBenchError(f"{options.origin}: neither a folder nor an address that begins with https:// or http://.")
    return base / source.folder, fetch_source(source, base, options)


def licence_words(source: Source) -> str:
    """What a user accepts, in one line."""
    licence = source.licence
    use = {"yes": "Commercial use is allowed.", "no": "Commercial use is not allowed.",
           "not said": "Whether commercial use is allowed is not said."}[licence.commercial]
    return f"Licence: {licence.name} ({licence.url}). {use}{' ' + licence.note if licence.note else ''}"


def is_finished(source: Source, root: Path) -> bool:
    """Whether every file of a finished download is there with its size."""
    record = read_record(source, root)
    return record is not None and record["finished"] and not compare_record(root, record, sizes_alone=True)


def fetch_source(source: Source, root: Path, options: Options) -> bool:
    """Fetch and unpack the files that are missing. False if none was."""
    with lock(_record_path(source, root).with_suffix(".lock")) as locked:
        if not locked:
            raise ShiftBenchError(f"{root}: another process is downloading {source.words} to it.")
        record = read_record(source, root)
        if record is not None and record["finished"]:
            _refuse_altered(source, root, record)
            if not compare_record(root, record, sizes_alone=True):
                return False
        elif record is None:
            _refuse_foreign(source, root)
        _check_space(source, root, options)
        facts = {"format": FORMAT, "version": VERSION, "source": source.words, "licence": source.licence.name}
        columns: dict[str, list[Any]] = {"paths": [], "sizes": [], "sha256": []}
        write_json(_record_path(source, root), {**facts, "finished": False, "addresses": {}, **columns})
        addresses: dict[str, str] = {}
        for file in source.files:
            addresses[file.path] = _fetch(file, root, options)
            for unpacked in _contents(file, root, options):
                for column, value in zip(columns.values(), unpacked, strict=True):
                    column.append(value)
        write_json(_record_path(source, root), {**facts, "finished": True, "addresses": addresses, **columns})
        for file in source.files:
            if file.unpack is not None and not options.keep_archives:
                (root / file.path).unlink(missing_ok=True)
    return True


def compare(source: Source, root: Path) -> list[Difference]:
    """Every file of a source that is missing, half-downloaded or altered; every byte is read."""
    record = read_record(source, root)
    if record is not None and record["finished"]:
        return compare_record(root, record)
    differences = []
    for file in source.files:
        path, arrived = root / file.path, received(root / file.path)
        if path.is_file():
            problem = difference(file, path) or ("is not unpacked yet" if file.unpack is not None else "")
            differences += [Difference(file.path, problem)] if problem else []
        elif arrived is not None:
            total = f"{arrived[1]:,}" if arrived[1] is not None else "an unknown number of"
            differences.append(Difference(file.path, f"half-downloaded: {arrived[0]:,} of {total} bytes"))
        else:
            differences.append(Difference(file.path, "missing"))
    return differences


def compare_record(root: Path, record: dict[str, Any], sizes_alone: bool = False) -> list[Difference]:
    """The files of a finished download that are not as they were recorded."""
    differences = []
    for name, size, sha256 in zip(record["paths"], record["sizes"], record["sha256"], strict=True):
        path = root / name
        if not path.is_file():
            differences.append(Difference(name, "missing"))
        elif path.stat().st_size != size:
            differences.append(Difference(name, f"altered: {path.stat().st_size:,} bytes instead of {size:,}"))
        elif not sizes_alone and digest(path) != sha256:
            differences.append(Difference(name, "altered: its content differs"))
    return differences


def read_record(source: Source, root: Path) -> dict[str, Any] | None:
    """The record of a download, None where there is none."""
    path = _record_path(source, root)
    if not path.is_file():
        return None
    record = read_json(path)
    columns = [record.get(name) for name in ("paths", "sizes", "sha256")] if isinstance(record, dict) else [None]
    if any(not isinstance(column, list) or len(column) != len(columns[0] or ()) for column in columns) or \
            (record.get("format"), record.get("version")) != (FORMAT, VERSION) or \
            not isinstance(record.get("finished"), bool) or not all(map(_is_relative, columns[0] or ())) or \
            not all(isinstance(size, int) for size in columns[1] or ()):
        raise ShiftBenchError(f"{path}: is not a record of a download. Delete it and run the command again.")
    return dict(record)


def _is_relative(name: object) -> bool:
    return isinstance(name, str) and not name.startswith("/") and ".." not in name.split("/") and "\0" not in name


def _record_path(source: Source, root: Path) -> Path:
    return root / RECORDS / f"{'-'.join(source.name)}.json"


def _refuse_altered(source: Source, root: Path, record: dict[str, Any]) -> None:
    """Files that a user changed are never overwritten."""
    altered = [file for file in compare_record(root, record, sizes_alone=True) if file.what != "missing"]
    if altered:
        raise ShiftBenchError(
            f"{root / altered[0].path}: {altered[0].what}, and {len(altered) - 1:,} more files of {source.words} are "
            f"altered. They are not overwritten: `shiftbench download {source.words} --root {root} --check` lists "
            "them; delete them, then download again.")


def _refuse_foreign(source: Source, root: Path) -> None:
    """A folder that another program filled is left alone."""
    folder = root / source.folder
    ours = {f"{file.path}{suffix}" for file in source.files for suffix in ("", ".part", ".part.json")}
    recorded = any(other.folder == source.folder and _record_path(other, root).is_file() for other in SOURCES.values())
    if recorded or not folder.is_dir():
        return
    for path in _below(folder):
        if path.relative_to(root).as_posix() not in ours:
            raise ShiftBenchError(f"{folder}: holds {path.name} already, and shiftbench did not download it. Read it "
                                  "as it is, or choose another --root.")


def _below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if not path.is_dir())


def _check_space(source: Source, root: Path, options: Options) -> None:
    """Refuse, before the first byte, what the disk cannot hold: bytes of archives still to fetch, and their files."""
    needed = 0
    for file in source.files:
        size, arrived = file.size or 0, received(root / file.path)
        present = size if (root / file.path).is_file() or _local(file, options) else arrived[0] if arrived else 0
        needed += max(0, size - present) + (size if file.unpack is not None and source.disk is None else 0)
    needed += source.disk or 0
    root.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(root).free
    if needed > free:
        raise ShiftBenchError(f"{root}: {source.words} needs {needed / 1e9:,.1f} GB to fetch and unpack, and "
                              f"{free / 1e9:,.1f} GB are free. Choose a --root on another disk.")


def _is_address(origin: str) -> bool:
    return origin.startswith(("http://", "https://"))


def _local(file: File, options: Options) -> Path | None:
    """The file in the user's folder, by its path or its bare name."""
    if options.origin is None or _is_address(options.origin):
        return None
    names = (file.path, Path(file.path).name)
    return next((Path(options.origin) / name for name in names if (Path(options.origin) / name).is_file()), None)


def _fetch(file: File, root: Path, options: Options) -> str:
    """Fetch one file, or find it in place or in the user's folder; returns where it came from."""
    target = root / file.path
    if target.is_file():
        problem = difference(file, target)
        if problem:
            raise ShiftBenchError(f"{target}: {problem}. It is not overwritten; move it away and run the command "
                                  "again.")
        return str(target)
    if options.origin is not None and not _is_address(options.origin):
        return _copy(file, target, options)
    urls = file.urls if options.origin is None else (f"{options.origin.rstrip('/')}/{quote(file.path)}",)
    return transfer(file, target, urls, options.progress, options.say, options.wait)


def _copy(file: File, target: Path, options: Options) -> str:
    path = _local(file, options)
    if path is None:
        raise ShiftBenchError(f"{options.origin}: has neither {file.path} nor {Path(file.path).name}.")
    problem = difference(file, path)
    if problem:
        raise ShiftBenchError(f"{path}: {problem}. Copy or download it again.")
    if file.unpack is None:
        total, done = path.stat().st_size, 0
        with path.open("rb") as source, writing(target) as hidden, hidden.open("wb") as handle:
            while block := source.read(BLOCK):
                handle.write(block)
                done += len(block)
                options.progress(done, total)
    return str(path)


def _contents(file: File, root: Path, options: Options) -> list[Unpacked]:
    """The files that a fetched file becomes: itself, or its contents."""
    target = root / file.path
    if file.unpack is None:
        return [Unpacked(file.path, target.stat().st_size, digest(target))]
    archive = target if target.is_file() else _local(file, options)
    assert archive is not None
    try:
        return unpack(archive, root, file.unpack, file.strip, options.progress)
    except Damaged as problem:
        if archive != target:
            raise
        target.unlink()
        raise ShiftBenchError(f"{problem} It is removed; run the command again to fetch it anew.") from problem
