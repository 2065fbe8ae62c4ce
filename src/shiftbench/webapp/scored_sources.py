"""Scores for a view: a table on disk, or a folder of runs that is scored once, in a thread, and then kept."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.data.benchmark import MARKER, Benchmark
from shiftbench.data.scores import Scores
from shiftbench.reporting.page import Source, open_source
from shiftbench.scoring.listing import runs_in
from shiftbench.webapp.runs_view import changed, states_of
from shiftbench.webapp.shelf import Thing
from shiftbench.webapp.studio import Studio

KEPT = 2
"""Sources that stay in memory: each may hold the predictions of all its runs."""
PATIENCE = 0.4
"""Seconds that a request waits before it answers that the runs are being scored."""


class Scored(NamedTuple):
    """A source, a stamp of the files it was read from, and the benchmarks on the shelf that it was read with."""

    id: str
    source: Source
    stamp: tuple[Any, ...]
    benchmarks: tuple[Path, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """What everything that is computed from it is kept under."""
        return self.id, self.stamp


class Unscored(Exception):
    """The scores are being computed; the message says for how long, and the page asks again."""


class Work:
    """The scoring of one source: its last result, and the thread that works now."""

    def __init__(self) -> None:
        self.scored: Scored | None = None
        self.problem: tuple[tuple[Any, ...], str] | None = None
        self.thread: Thread | None = None
        self.began = 0.0

    def start(self, stamp: tuple[Any, ...], compute: Callable[[], Scored]) -> None:
        def work() -> None:
            try:
                self.scored = compute()
            except ShiftBenchError as problem:
                self.problem = (stamp, str(problem))
            except Exception as problem:  # the page must report it, whatever it is
                self.problem = (stamp, f"The runs cannot be scored ({type(problem).__name__}: {first_line(problem)}).")

        self.began = time.monotonic()
        self.thread = Thread(target=work, daemon=True)
        self.thread.start()


_LOCK = Lock()
_works: WeakKeyDictionary[Studio, dict[str, Work]] = WeakKeyDictionary()


def scored(studio: Studio, thing: Thing) -> Scored:
    """The scores of a table or a folder of runs as it is now; `Unscored` where they take longer than a moment.

    While the runs of a sweep end one by one, the last scores are returned until the next are ready.
    """
    stamp, n = _stamp(studio, thing)
    with _LOCK:
        works = _works.setdefault(studio, {})
        work = works.pop(thing.id, None) or Work()
        works[thing.id] = work
        for old in list(works)[:-KEPT]:
            del works[old]
        idle = work.thread is None or not work.thread.is_alive()
        fresh = work.scored is not None and work.scored.stamp == stamp
        if idle and not fresh and (work.problem is None or work.problem[0] != stamp):
            work.start(stamp, lambda: _compute(studio, thing, stamp))
    if work.thread is not None and (work.scored is None or work.scored.stamp != stamp):
        work.thread.join(PATIENCE if work.scored is None else 0.0)
    if work.scored is not None and (work.problem is None or work.problem[0] != stamp):
        return work.scored
    if work.problem is not None and work.problem[0] == stamp:
        raise ShiftBenchError(work.problem[1])
    raise Unscored(f"Scoring {n:,} runs of {thing.id}, once: {time.monotonic() - work.began:.0f} s so far."
                   if n else f"Reading {thing.id}.")


def _stamp(studio: Studio, thing: Thing) -> tuple[tuple[Any, ...], int]:
    """What the scores depend on, and the number of their runs."""
    things = studio.shelf.things("benchmark")
    benchmarks = tuple((benchmark.id, changed(benchmark.path / MARKER)) for benchmark in things)
    if thing.kind == "scores":
        facts = os.stat(thing.path)
        return (facts.st_mtime_ns, facts.st_size, benchmarks), 0
    done = tuple(run for run, state in states_of(thing.path).items() if state == "done")
    return (hash(done), len(done), benchmarks), len(done)


def _compute(studio: Studio, thing: Thing, stamp: tuple[Any, ...]) -> Scored:
    """Scores are read with the benchmarks on the shelf that they are about; runs find their own, if these are there."""
    if thing.kind == "scores":
        scores = Scores.load(thing.path)
        benchmarks = _on_shelf(studio, set(scores["digest"].tolist()))
        return Scored(thing.id, open_source(scores, [benchmark for benchmark, _ in benchmarks]), stamp, tuple(
            path for _, path in benchmarks))
    lost = {str(run.benchmark["digest"]) for run in runs_in(thing.path, left_out={})[0]
            if not run.benchmark["path"] or not run.benchmark_folder.is_dir()}
    benchmarks = _on_shelf(studio, lost)
    return Scored(thing.id, open_source(thing.path, [path for _, path in benchmarks], tolerant=True), stamp, tuple(
        path for _, path in benchmarks))


def _on_shelf(studio: Studio, digests: set[str]) -> Sequence[tuple[Benchmark, Path]]:
    """The benchmarks on the shelf with these digests, whole or short, each once."""
    by_digest: dict[str, tuple[Benchmark, Path]] = {}
    for thing, digest in studio.shelf.digests("benchmark"):
        if digest not in by_digest and any(wanted and digest.startswith(wanted) for wanted in digests):
            with suppress(ShiftBenchError, OSError, KeyError, TypeError):  # the home page says that it cannot be read
                by_digest[digest] = (Benchmark.load(thing.path), thing.path)
    return list(by_digest.values())
