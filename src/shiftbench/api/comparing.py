"""What the shift costs, against an in-distribution reference; and tables for a paper."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shiftbench.api.folders import Place
from shiftbench.api.judging import runs_of, scores_of
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import listed
from shiftbench.data.scores import Scores


def gap(*runs: Place, reference: str = "", level: float = 0.95) -> Scores:
    """What the shift costs each method: in distribution minus out of distribution, with an interval.

    `runs` are folders with runs on a benchmark and on what `reference` made of it: gap("runs", "runs-mixed").
    """
    from shiftbench.scoring.gaps import gaps_of

    return gaps_of(runs, reference=reference, level=level)


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
    from shiftbench.scoring import RunIndex
    from shiftbench.scoring.select import chosen_means

    write = writer(format, out)
    folder = None if isinstance(source, Scores) or not Path(source).is_dir() else Path(source)
    if study is not None and folder is None:
        raise ShiftBenchError("A study says which runs belong to it, and scores do not: name a folder of runs.")
    index = None if folder is None else RunIndex(folder, runs_of(folder, study)[0])
    scores, folders = scores_of(source if index is None else index, benchmarks)
    known = [benchmark for benchmark, _ in folders]
    if index is not None:
        scores = Scores.join([scores, chosen_means(index, scores, known, rule, remedy=REMEDY)])
    rows = lines(shown_scores(scores, known, rule), known, listed(metrics, ","), split=split, against=against,
                 folder=index)
    if out is not None:
        with writing(out) as hidden:
            hidden.write_text(write(rows), encoding="utf-8")
    return rows
