"""What lies on the shelf: every collection, benchmark, folder of runs, table of scores, audit and recipe of a folder.

A thing has an id, its path below the folder. A URL names things by their ids, which are looked up in the listing of
the folder: no path from a URL is ever opened.
"""

import os
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, TypeVar

from shiftbench.auditing.findings import FORMAT as AUDIT
from shiftbench.auditing.findings import Audit
from shiftbench.core.errors import ShiftBenchError, printable, unknown
from shiftbench.core.files import read_json
from shiftbench.data.benchmark import MARKER as BENCHMARK
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import MARKER as COLLECTION
from shiftbench.data.collection import Collection
from shiftbench.data.scores import VERSION_KEY
from shiftbench.sweeps.status import MARKS

T = TypeVar("T")

MARKERS = {"collection": COLLECTION, "benchmark": BENCHMARK}
"""The file that describes a folder; other things are files themselves."""
DEEPEST = 5
"""Levels of folders that are searched below the one that was named."""
MOST = 100_000
"""Entries after which the search stops and says so."""
FRESH = 1.0
"""Seconds for which a listing is reused: several requests of one page share it."""
KEPT = 4
"""Collections, benchmarks and audits that stay loaded, of each kind."""
SNIFFED = 4096
"""Bytes that tell an audit or a recipe from another file."""


class Memory:
    """Values by key. When they need more than `room`, the least recently used are dropped.

    The room is a number of values or, with a `size`, of bytes. With `alone`, a value that two requests
    ask for together is computed once; otherwise both may compute it, and neither waits.
    """

    def __init__(self, room: int, size: Callable[[Any], int] = lambda value: 1, *, alone: bool = False) -> None:
        self.room, self.used = room, 0
        self._size, self._alone = size, alone
        self._values: dict[Hashable, tuple[Hashable, Any]] = {}
        self._lock = RLock()

    def get(self, key: Hashable, compute: Callable[[], T], stamp: Hashable = None) -> T:
        """The value under a key, computed if it is not there or was computed under another `stamp`."""
        with self._lock:
            if key in self._values and self._values[key][0] == stamp:
                self._values[key] = self._values.pop(key)  # the most recently used goes last
                return self._values[key][1]  # type: ignore[no-any-return]
            if self._alone:
                return self._keep(key, stamp, compute())
        value = compute()
        with self._lock:
            return self._keep(key, stamp, value)

    def forget(self) -> None:
        """Compute everything anew from now on."""
        with self._lock:
            self._values.clear()
            self.used = 0

    def _keep(self, key: Hashable, stamp: Hashable, value: T) -> T:
        if key in self._values:
            self.used -= self._size(self._values.pop(key)[1])
        self._values[key] = (stamp, value)
        self.used += self._size(value)
        while self.used > self.room and len(self._values) > 1:
            self.used -= self._size(self._values.pop(next(iter(self._values)))[1])
        return value


class Thing(NamedTuple):
    """Something on the shelf: kind is collection, benchmark, runs, scores, audit or recipe."""

    id: str
    kind: str
    path: Path


class Shelf:
    """The things below some folders, as they are now; each is loaded once until it changes."""

    def __init__(self, folders: Sequence[Path | str]) -> None:
        self.folders = [Path(folder).resolve() for folder in folders]
        for folder in self.folders:
            if not folder.is_dir():
                raise ShiftBenchError(f"{folder}: is no folder. Name one that holds collections, benchmarks or runs.")
        self._lock = RLock()
        self._listing: tuple[float, dict[tuple[str, str], Thing], str] = (-FRESH, {}, "")
        self._loaded = {kind: Memory(KEPT, alone=True) for kind in ("collection", "benchmark", "audit")}

    def things(self, kind: str = "") -> list[Thing]:
        """The things of one kind, or of all kinds, by id."""
        return [thing for thing in self._list().values() if kind in ("", thing.kind)]

    @property
    def note(self) -> str:
        """What the listing left out, and which folders are gone; "" if nothing."""
        self._list()
        return self._listing[2]

    def forget(self) -> None:
        """Look at the folders again at the next request: something was written."""
        with self._lock:
            self._listing = (-FRESH, {}, "")

    def find(self, kind: str, id: str) -> Thing:
        """The thing with this id; the error for an unknown one lists those that exist."""
        thing = self._list().get((kind, id))
        if thing is None:
            raise unknown(kind, id, [other.id for other in self.things(kind)], "the studio's folder")
        return thing

    def collection(self, id: str) -> Collection:
        return self._load("collection", id, Collection.load)

    def benchmark(self, id: str) -> Benchmark:
        return self._load("benchmark", id, Benchmark.load)

    def audit(self, id: str) -> Audit:
        return self._load("audit", id, Audit.load)

    def runs(self, id: str) -> Path:
        """A folder of runs."""
        return self.find("runs", id).path

    def id_of(self, kind: str, path: Path | str) -> str:
        """The id of the thing at a path, "" if it is not on the shelf: a benchmark's collection, a run's benchmark."""
        resolved = Path(path).resolve()
        return next((thing.id for thing in self.things(kind) if thing.path == resolved), "")

    def digests(self, kind: str) -> Iterator[tuple[Thing, str]]:
        """The collections, or benchmarks, that can be read, with their digests."""
        for thing in self.things(kind):
            with suppress(ShiftBenchError, OSError, KeyError, TypeError):  # the home page says that it cannot be read
                yield thing, str(read_json(thing.path / MARKERS[kind])["digest"])

    def _list(self) -> dict[tuple[str, str], Thing]:
        with self._lock:
            if time.monotonic() - self._listing[0] >= FRESH:
                gone = [str(folder) for folder in self.folders if not folder.is_dir()]
                if len(gone) == len(self.folders):
                    raise ShiftBenchError(f"{' and '.join(gone)}: gone. The studio continues when it is back.")
                listing = list(_things(self.folders))
                note = "" if len(listing) == 0 or listing[-1] is not None else (
                    f"The folder has more than {MOST:,} entries: not all were searched. Name a smaller folder.")
                note = " ".join([*(f"{folder} is gone." for folder in gone), *([note] if note else [])])
                things = sorted((thing for thing in listing if thing is not None), key=lambda thing: thing[:2])
                self._listing = (time.monotonic(), {(thing.kind, thing.id): thing for thing in things}, note)
            return self._listing[1]

    def _load(self, kind: str, id: str, load: Callable[[Path], T]) -> T:
        thing = self.find(kind, id)
        facts = os.stat(thing.path / MARKERS.get(kind, ""))
        return self._loaded[kind].get(id, lambda: load(thing.path), (facts.st_mtime_ns, facts.st_size, facts.st_ino))


def _things(folders: Sequence[Path]) -> Iterator[Thing | None]:
    """Everything below the folders; None at the end if there were too many entries."""
    left = MOST
    for folder in folders:
        prefix = f"{folder.name}/" if len(folders) > 1 else ""
        waiting = [(folder, 0)]
        while waiting:
            here, depth = waiting.pop()
            id = prefix + here.relative_to(folder).as_posix() if here != folder else prefix + folder.name
            try:
                with os.scandir(here) as listing:
                    entries = []
                    for entry in listing:
                        entries.append(entry)
                        left -= 1
                        if left < 0:
                            yield None
                            return
            except OSError:  # gone meanwhile, or not readable
                continue
            names = {entry.name for entry in entries}
            if COLLECTION in names:
                yield Thing(printable(id), "collection", here)
            elif BENCHMARK in names:
                yield Thing(printable(id), "benchmark", here)
            elif any(_holds_run(entry) for entry in entries):
                yield Thing(printable(id), "runs", here)
                yield from _files(entries, id if here != folder else prefix.rstrip("/"))
            else:
                yield from _files(entries, id if here != folder else prefix.rstrip("/"))
                if depth < DEEPEST:
                    waiting += [(here / entry.name, depth + 1) for entry in entries
                                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)]


def _holds_run(entry: "os.DirEntry[str]") -> bool:
    if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
        return False
    try:
        return not MARKS.isdisjoint(os.listdir(entry.path))
    except OSError:
        return False


def _files(entries: Sequence["os.DirEntry[str]"], above: str) -> Iterator[Thing]:
    """The audits, tables of scores and recipes among files."""
    for entry in entries:
        suffix = Path(entry.name).suffix
        if suffix not in (".json", ".parquet", ".toml") or not entry.is_file(follow_symlinks=False):
            continue
        kind = _kind(Path(entry.path), suffix)
        if kind:
            yield Thing(printable(f"{above}/{entry.name}".lstrip("/")), kind, Path(entry.path))


def _kind(path: Path, suffix: str) -> str:
    """What a file holds, by its first bytes or its schema; "" if it is nothing that the studio shows."""
    import pyarrow.parquet as pq

    try:
        if suffix == ".parquet":
            facts = pq.read_schema(path).metadata or {}
            return "scores" if VERSION_KEY in facts else "audit" if AUDIT.encode() in facts else ""
        with path.open("rb") as file:
            start = file.read(SNIFFED)
    except Exception:  # another program's file, whatever is wrong with it
        return ""
    if suffix == ".json":
        return "audit" if AUDIT.encode() in start else ""
    return "recipe" if b"[shift." in start else "study" if b"[methods" in start or b"[[methods" in start else ""
