"""A table for a paper: means with intervals, differences and p-values."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shiftbench.errors import ShiftBenchError
from shiftbench.registry import listed
from shiftbench.scores import Scores
from shiftbench.verbs.folders import Place
from shiftbench.verbs.judging import runs_of, scores_of

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
    from shiftbench.files import writing
    from shiftbench.reporting import shown_scores
    from shiftbench.reporting.comparison import lines
    from shiftbench.reporting.comparison_formats import writer
    from shiftbench.reporting.selection import REMEDY
    from shiftbench.selection import chosen_means

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
