"""What lies on the shelf: every collection, benchmark, folder of runs, table of scores, audit and recipe of a folder.

A thing has an id, its path below the folder. A URL names things by their ids, which are looked up in the listing of
the folder: no path from a URL is ever opened.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import RLock
from typing import NamedTuple, TypeVar

from shiftbench.auditing.findings import FORMAT as AUDIT
from shiftbench.auditing.findings import Audit
from shiftbench.core.errors import ShiftBenchError, printable, unknown
from shiftbench.data.benchmark import MARKER as BENCHMARK
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import MARKER as COLLECTION
from shiftbench.data.collection import Collection
from shiftbench.data.scores import VERSION_KEY, Scores
from shiftbench.sweeps.status import MARKS
from shiftbench.webapp.memory import Memory

T = TypeVar("T")

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
        self._loaded = {kind: Memory(KEPT, alone=True) for kind in ("collection", "benchmark", "scores", "audit")}

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
        return self._load("collection", id, COLLECTION, Collection.load)

    def benchmark(self, id: str) -> Benchmark:
        return self._load("benchmark", id, BENCHMARK, Benchmark.load)

    def scores(self, id: str) -> Scores:
        return self._load("scores", id, "", Scores.load)

    def audit(self, id: str) -> Audit:
        return self._load("audit", id, "", Audit.load)

    def runs(self, id: str) -> Path:
        """A folder of runs."""
        return self.find("runs", id).path

    def id_of(self, kind: str, path: Path | str) -> str:
        """The id of the thing at a path, "" if it is not on the shelf: a benchmark's collection, a run's benchmark."""
        resolved = Path(path).resolve()
        return next((thing.id for thing in self.things(kind) if thing.path == resolved), "")

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

    def _load(self, kind: str, id: str, marker: str, load: Callable[[Path], T]) -> T:
        thing = self.find(kind, id)
        facts = os.stat(thing.path / marker if marker else thing.path)
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
