"""Annotators and models side by side, for a terminal."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shiftbench.annotation.answers import is_answers, read_answers
from shiftbench.annotation.human import HUMAN, METRIC, METRICS
from shiftbench.annotation.key import find_key
from shiftbench.errors import printable
from shiftbench.reporting.tables import percent
from shiftbench.reporting.terminal import scores_table, versus_table
from shiftbench.scores import ALL, Scores
from shiftbench.stats import LEVEL, wilson

if TYPE_CHECKING:
    from rich.table import Table


def tables(scores: Scores, level: float = LEVEL) -> "list[Table]":
    """The usual table of whatever is no part of a study, then who is how good on pairs, then every pair."""
    study = np.isin(scores["metric"], METRICS)
    rest = Scores({name: values[~study] for name, values in scores.columns.items()})
    own = Scores({name: values[study] for name, values in scores.columns.items()})
    drawn = [scores_table(rest)] if len(rest) else []
    if (beside := versus_table(rest)) is not None:
        drawn.append(beside)
    return [*drawn, study_table(own, level), pairs_table(own)] if len(own) else drawn


def answer_notes(files: Sequence[Path], study: Path | None) -> tuple[str, ...]:
    """What to know of the answers among these files: what came twice, what is missing."""
    answers = [file for file in files if is_answers(file)]
    return read_answers(answers, find_key(study, answers)).notes if answers else ()


def study_table(scores: Scores, level: float = LEVEL) -> "Table":
    """A row per method and split; annotators also have the interval that takes every answer for independent."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Two superclasses at a time", title_justify="left")
    for name in ("who", "split", "metric"):
        drawn.add_column(name)
    for name in ("n", "%", "interval", "if independent"):
        drawn.add_column(name, justify="right")
    before = ""
    for row in scores.where(group=ALL):
        plain = ""
        if row["method"] == HUMAN and row["metric"] == METRIC and not math.isnan(row["low"]):
            low, high = wilson(row["value"], row["n"], level)
            plain = f"{percent(float(low))}–{percent(float(high))}"
        kappa = row["metric"] == "fleiss_kappa"
        shown = [f"{row[name]:.2f}" if kappa else percent(row[name]) for name in ("value", "low", "high")]
        ends = "" if math.isnan(row["low"]) else f"{shown[1]}{' to ' if row['low'] < 0 else '–'}{shown[2]}"
        drawn.add_row(Text(printable(row["method"]) if row["method"] != before else ""), Text(printable(row["split"])),
                      Text(printable(row["metric"]).replace("_", " ")), f"{row['n']:,}", Text(shown[0], "bold"),
                      Text(ends, "dim"), Text(plain, "dim"))
        before = row["method"]
    return drawn


def pairs_table(scores: Scores) -> "Table":
    """A row per pair, a column per method and split, the pairs with the lowest value first."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = {(row["group"], row["method"], row["split"]): row["value"] for row in scores
             if row["metric"] == METRIC and row["group"] != ALL}
    columns = list(dict.fromkeys((method, split) for _, method, split in found))
    pairs = sorted({pair for pair, _, _ in found}, key=lambda pair: (
        min((value for (name, _, _), value in found.items() if name == pair), default=1.0), pair))
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Pairwise accuracy, per cent", title_justify="left")
    drawn.add_column("pair")
    for method, split in columns:
        drawn.add_column(Text(f"{printable(method)}\n{printable(split)}"), justify="right")
    for pair in pairs:
        values = [percent(found[pair, *column]) if (pair, *column) in found else "–" for column in columns]
        drawn.add_row(Text(printable(pair)), *values)
    return drawn
