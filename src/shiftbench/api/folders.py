"""Load objects from folders, so that a verb takes either."""

from collections.abc import Callable, Sequence
from pathlib import Path

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection

Place = Path | str
Advance = Callable[[int, int], None]


def places(folders: Place | Sequence[Place]) -> list[Place]:
    """A list of folders from one or several: a single string is a list of one, never of its letters."""
    return [folders] if isinstance(folders, str | Path) else list(folders)


def benchmark_of(source: Benchmark | Place) -> Benchmark:
    return source if isinstance(source, Benchmark) else Benchmark.load(source)


def loaded(source: Collection | Place) -> Collection:
    return source if isinstance(source, Collection) else Collection.load(source)


def collection_folder_of(benchmark: Benchmark | Place, override: Place | None) -> Path:
    """Where the collection of a saved benchmark is."""
    from shiftbench.shifts.recipe import collection_folder

    if isinstance(benchmark, Benchmark):
        if override is None:
            raise ShiftBenchError("A benchmark in memory does not know where its collection is. Give `collection`.")
        return Path(override)
    return collection_folder(Benchmark.load(benchmark), benchmark, override)


def collection_of(
    benchmark: Benchmark | Place, collection: Collection | Place | None, needed: bool = True
) -> Collection | None:
    """The collection of a benchmark; None where it cannot be found and is not needed."""
    if isinstance(collection, Collection):
        return collection
    try:
        return Collection.load(collection_folder_of(benchmark, collection))
    except ShiftBenchError:
        if needed or collection is not None:
            raise
        return None
