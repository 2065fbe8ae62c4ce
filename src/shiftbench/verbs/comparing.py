"""In-distribution settings of a benchmark, and what the shift costs against them."""

import os
from pathlib import Path
from typing import Any

from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.scores import Scores
from shiftbench.verbs.folders import Place, benchmark_of, collection_of


def setting(
    benchmark: Benchmark | Place, to: str, out: Place | None = None, *, seed: int = 0, given: str = "",
    collection: Collection | Place | None = None, **options: Any,
) -> Benchmark:
    """The benchmark of an in-distribution setting: setting("benchmarks/cat-dog", "mixed-to-test", "benchmarks/mixed").

    `given` is the factor with the split of that setting, where the data set has one. See docs/settings.md.
    """
    from shiftbench.shifts.settings import in_distribution

    images = collection_of(benchmark, collection) if given else None
    made = in_distribution(benchmark_of(benchmark), to, seed, given=given, collection=images, **options)
    if out is None:
        return made
    path = made.card.get("collection", {}).get("path")
    if collection is not None and not isinstance(collection, Collection):
        made.card["collection"]["path"] = os.path.relpath(collection, out)
    elif path and not isinstance(benchmark, Benchmark):
        made.card["collection"]["path"] = os.path.relpath(Path(benchmark) / path, out)
    made.save(out)
    return Benchmark.load(out)


def gap(*runs: Place, setting: str = "", level: float = 0.95) -> Scores:
    """What the shift costs each method: in distribution minus out of distribution, with an interval.

    `runs` are folders with runs on a benchmark and on what `setting` made of it: gap("runs", "runs-mixed").
    """
    from shiftbench.scoring.gap_runs import gaps_of

    return gaps_of(runs, setting=setting, level=level)
