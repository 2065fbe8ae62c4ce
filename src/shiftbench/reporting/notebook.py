"""Objects as a notebook shows them: the tables of the terminal as HTML, and scores as a figure."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import write_text
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN, Scores
from shiftbench.reporting.charts import Bar, Entry, Figure, Look, hundredths, looks_of, plain, rows, scale
from shiftbench.reporting.figures import to_svg
from shiftbench.reporting.score_tables import capital, methods_in
from shiftbench.reporting.terminal import (
    contents_table,
    counts_table,
    predictions_table,
    score_tables,
    selection_tables,
)
from shiftbench.scoring.metrics import in_unit, in_words, metric_of
from shiftbench.scoring.select import Selection

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("benchmark", "method", "group", "n", "value", "low", "high")


class Picture(NamedTuple):
    """A figure that a notebook shows inline."""

    figure: Figure

    def __repr__(self) -> str:
        return f"Picture('{self.figure.head}': {len(self.figure.panels)} panels)"

    def _repr_svg_(self) -> str:
        return to_svg(self.figure, most=2)  # the width of a notebook's page

    def save(self, path: Path | str) -> Path:
        """Write the figure as an SVG file."""
        write_text(path, to_svg(self.figure))
        return Path(path)


def html(thing: Scores | Benchmark | Collection | Predictions | Selection) -> str:
    """The tables that the terminal prints, as HTML; names are escaped."""
    return tables_html(score_tables(thing) if isinstance(thing, Scores) else [contents_table(thing)]
                       if isinstance(thing, Collection) else [predictions_table(thing)]
                       if isinstance(thing, Predictions) else selection_tables(thing)
                       if isinstance(thing, Selection) else [counts_table(thing)])


def tables_html(tables: "Iterable[Table]") -> str:
    """Tables as a terminal of 150 columns shows them."""
    from rich.console import Console

    console = Console(record=True, width=150, file=io.StringIO(), force_jupyter=False)
    for table in tables:
        console.print(table)
    return console.export_html(inline_styles=True, code_format='<pre style="line-height: 1.25">{code}</pre>')


def plot(scores: Scores, metric: str = "accuracy", split: str = "test") -> Picture:
    """A metric on a split, of all items and of every group, with intervals: a panel per benchmark and method.

    A method's mean over its seeds is drawn if the table has it, else each run.
    """
    if split not in scores["split"]:
        raise unknown("split", split, dict.fromkeys(scores["split"].tolist()))
    on_split = scores.where(split=split, by="")
    if metric not in on_split["metric"]:
        raise unknown("metric", metric, dict.fromkeys(on_split["metric"].tolist()), f"split '{split}'")
    measured = on_split.where(metric=metric)
    named = [{**row, "name": name} for name, row in zip(measured.names.tolist(), measured, strict=True)
             if row["stat"] != DIFFERENCE]
    means = {(row["benchmark"], row["name"]) for row in named if row["stat"] == MEAN}
    panels: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in named:
        if row["stat"] == MEAN or (row["benchmark"], row["name"]) not in means:
            panels.setdefault((row["benchmark"], row["name"], row["run"]), []).append(row)
    if not panels:
        raise ShiftBenchError(f"There is no {metric} on '{split}' to draw, only differences.")
    looks = looks_of(methods_in(name for _, name, _ in panels))
    share = metric_of(metric).unit == "share"
    ends = [row[key] for drawn in panels.values() for row in drawn for key in ("value", "low", "high")
            if row[key] == row[key]]
    axis = scale([0.0, 1.0], write=hundredths, ticks=3) if share else scale([0.0, *ends], write=plain, ticks=3)
    several = len({benchmark for benchmark, _, _ in panels}) > 1
    drawn = tuple(
        rows(f"{benchmark}: {name}" if several else name, [_row(row, looks[name]) for row in panel_rows], axis,
             width=440, left=150, right=60, height=22)
        for (benchmark, name, _), panel_rows in panels.items())
    head = f"{in_words(metric)} on {split}{', %' if share else ''}"
    numbers = tuple(tuple(row["name" if column == "method" else column] for column in COLUMNS)
                    for panel_rows in panels.values() for row in panel_rows)
    return Picture(Figure("scores", capital(head), "Lines on the bars are intervals.", drawn, COLUMNS,
                          numbers))


def _row(row: dict[str, Any], look: Look) -> Entry:
    cell = {key: row[key] for key in ("value", "low", "high")}
    number = in_unit(row["value"], {"unit": metric_of(row["metric"]).unit})
    bars = [Bar(cell)] if row["value"] == row["value"] else []
    name = "all items" if row["group"] == ALL else row["group"]
    return Entry(name, look, bars, title=f"{name}: {number}, n = {row['n']:,}", number=number)
