"""Folders become objects: how a verb takes either."""

from collections.abc import Callable, Sequence
from pathlib import Path

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection

Place = Path | str
Advance = Callable[[int, int], None]


def places(given: Place | Sequence[Place]) -> list[Place]:
    """Folders where several may be given: one alone is a list of one, and never its letters."""
    return [given] if isinstance(given, str | Path) else list(given)


def benchmark_of(given: Benchmark | Place) -> Benchmark:
    return given if isinstance(given, Benchmark) else Benchmark.load(given)


def loaded(given: Collection | Place) -> Collection:
    return given if isinstance(given, Collection) else Collection.load(given)


def collection_folder_of(benchmark: Benchmark | Place, override: Place | None) -> Path:
    """Where the collection of a saved benchmark is."""
    from shiftbench.shifts.recipe import collection_folder

    if isinstance(benchmark, Benchmark):
        if override is None:
            raise ShiftBenchError("A benchmark in memory does not know where its collection is. Give `collection`.")
        return Path(override)
    return collection_folder(Benchmark.load(benchmark), benchmark, override)


def collection_of(
    benchmark: Benchmark | Place, given: Collection | Place | None, needed: bool = True
) -> Collection | None:
    """The collection itself; None where it is not to be had and not needed."""
    if isinstance(given, Collection):
        return given
    try:
        return Collection.load(collection_folder_of(benchmark, given))
    except ShiftBenchError:
        if needed or given is not None:
            raise
        return None
