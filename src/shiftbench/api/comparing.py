"""In-distribution settings of a benchmark, and what the shift costs against them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftbench.api.folders import Place, benchmark_of, collection_of
from shiftbench.api.judging import runs_of, scores_of
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import listed
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.scores import Scores


def setting(
    benchmark: Benchmark | Place, to: str, out: Place | None = None, *, seed: int = 0, given: str = "",
    collection: Collection | Place | None = None, **options: Any,
) -> Benchmark:
    """The benchmark of an in-distribution setting: setting("benchmarks/cat-dog", "mixed-to-test", "benchmarks/mixed").

    `given` is the factor with the split of that setting, where the data set has one. See docs/settings.md.
    """
    from shiftbench.shifts.in_distribution import in_distribution

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


# A table for a paper: means with intervals, differences and p-values.

if TYPE_CHECKING:
    from shiftbench.reporting.comparison import Line
    from shiftbench.sweeps.study import Study


def table(
    source: Scores | Place, out: Place | None = None, *, format: str = "", metrics: str | Sequence[str] = (),
    split: str = "test", against: str = "", benchmarks: Place | Sequence[Place] = (), rule: str = "id",
    study: "Study | Place | None" = None,
) -> "list[Line]":
    """Every method's mean with its interval, and its difference to the best method with a p-value.

    `source` is a folder of runs, where differences are paired by item and over seeds, or a table of scores. `against`
    names the method to compare with instead of the best. Where a method has several settings, `rule` chooses.
    `study` keeps the runs of that study. `out` is written as `format`: csv, md or latex, or what its ending says.
    """
    from shiftbench.core.files import writing
    from shiftbench.reporting import shown_scores
    from shiftbench.reporting.comparison import lines, writer
    from shiftbench.reporting.results import REMEDY
    from shiftbench.scoring.select import chosen_means

    write = writer(format, out)
    folder = None if isinstance(source, Scores) or not Path(source).is_dir() else Path(source)
    if study is not None and folder is None:
        raise ShiftBenchError("A study says which runs belong to it, and scores do not: name a folder of runs.")
    only = None if folder is None else runs_of(folder, study)[0]
    scores, folders = scores_of(source, benchmarks, only)
    known = [one for one, _ in folders]
    if folder is not None:
        scores = Scores.join([scores, chosen_means(folder, scores, known, rule, remedy=REMEDY)])
    found = lines(shown_scores(scores, known, rule), known, listed(metrics, ","), split=split, against=against,
                  folder=folder)
    if out is not None:
        with writing(out) as hidden:
            hidden.write_text(write(found), encoding="utf-8")
    return found
