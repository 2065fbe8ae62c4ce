"""What an engine hands to a worker and gets back: a pack of runs, and how each of them ended."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.training.run import Outcome, Run

__all__ = ["Job", "Outcome", "do"]


class Job(NamedTuple):
    """A run and where its benchmark and collection are. Plain data: it goes to other processes and other machines."""

    benchmark: str
    collection: str
    settings: Mapping[str, Any]  # of the Run

    @property
    def run(self) -> Run:
        return Run.of(self.settings)


def do(
    pack: Sequence[Job], out: Path | str, device: str = "auto", checkpoint_seconds: float = 30.0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """Do the runs of a pack in this process; all are on one benchmark. One that fails is recorded, the others go on."""
    from shiftbench.training.folder import train_pack

    first = pack[0]
    return train_pack(
        Benchmark.load(first.benchmark), Collection.load(first.collection), [job.run for job in pack], out,
        device=device, benchmark_path=first.benchmark, collection_path=first.collection, progress=progress,
        checkpoint_seconds=checkpoint_seconds)
