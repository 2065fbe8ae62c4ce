"""The features that the runs of a sweep need: which are missing, and computing them once, before workers ask."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.sweeps.work import Job
from shiftbench.training.run import COLUMNS, SENTENCES, split_features


class Wanted(NamedTuple):
    """Features of items of one collection: `rows` are all that runs ask for, `missing` those not in the cache."""

    collection: str
    features: str
    rows: Ints
    missing: Ints


def wanted(jobs: Sequence[Job]) -> list[Wanted]:
    """What the runs on features need, one entry per collection and embedding."""
    asked: dict[tuple[str, str], dict[str, None]] = {}
    for job in jobs:
        if job.settings.get("features") and job.settings["features"] not in (COLUMNS, SENTENCES):
            asked.setdefault((job.collection, str(job.settings["features"])), {})[job.benchmark] = None
    found = []
    for (folder, features), benchmarks in asked.items():
        collection = Collection.load(folder)
        rows = np.unique(np.concatenate([collection.index(Benchmark.load(one).items) for one in benchmarks]))
        present = _present(Path(folder), features, len(collection))
        found.append(Wanted(folder, features, rows, rows[~present[rows]]))
    return found


def embed_missing(
    jobs: Sequence[Job], device: str = "auto", progress: Callable[[int, int], None] | None = None
) -> None:
    """Compute and cache what is missing. Where that fails nothing is lost: the runs that need it fail by themselves."""
    for want in wanted(jobs):
        if len(want.missing):
            from shiftbench.training.features import embed

            backbone, size = split_features(want.features)
            with suppress(ShiftBenchError):
                embed(Collection.load(want.collection), want.missing, backbone, size, folder=want.collection,
                      progress=progress, device=device)


def _present(folder: Path, features: str, n: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which items have these features, as far as can be told without the backbone's weights."""
    backbone, size = split_features(features)
    for file in (folder / "features").glob(f"{backbone}@{size}-*/present.npy"):
        with suppress(OSError, ValueError, EOFError):
            marks = np.load(file, allow_pickle=False)
            if marks.shape == (n,) and marks.dtype == np.bool_:
                return np.asarray(marks)
    return np.zeros(n, np.bool_)
