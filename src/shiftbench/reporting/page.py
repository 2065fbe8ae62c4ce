"""The page: scores and benchmarks in, one HTML file and the files of its figures out."""

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench import __version__
from shiftbench.core.files import write_json, write_text, writing_folder
from shiftbench.core.registry import load_installed
from shiftbench.data.benchmark import SPLITS, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.scores import MEAN, RUN, Measure, Scores
from shiftbench.reporting.drawing import Figure, css, drawn, to_svg, write_png
from shiftbench.reporting.results import Results, of_runs, shown_scores
from shiftbench.reporting.score_tables import (
    Row,
    breakable,
    column_of,
    enumeration,
    in_unit,
    methods_in,
    percent,
    pivot,
    probability,
    to_csv,
    to_latex,
)
from shiftbench.reporting.sections import SECTIONS
from shiftbench.reporting.sections.families import best_in_words, families, family_table, findings
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.metrics import in_words, is_worst, metric_of
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.select import DEFAULT
from shiftbench.sweeps.status import Status
from shiftbench.sweeps.status import summary as summary_of

ACCURACY = Measure("accuracy")
FOLDER = Path(__file__).parent
LISTED = 200
"""The most absent runs that the page names."""
INDEX = "figures.json"
"""The file that lists the figures of a folder and describes them."""


def report(
    scores: Scores,
    benchmarks: Sequence[Benchmark],
    out: Path | str,
    *,
    collections: Sequence[Collection | None] | None = None,
    title: str = "shiftbench report",
    level: float = LEVEL,
    rule: str = DEFAULT,
    index: RunIndex | None = None,
    compare: Sequence[str] = (),
    absent: Sequence[Status] = (),
    figures: Path | str | None = None,
) -> Path:
    """Write one self-contained HTML page: findings, the sections that apply, a card per benchmark.

    Where methods have several settings the tables show the runs that `rule` chooses, which may use no target label, and
    a section sets all rules side by side. Pictures come from the collection whose digest the card names. `level` is
    the level of the scores' intervals. `index` has the runs behind the scores: with it, benchmarks with hard items show
    those on which the two methods of `compare` differ most. `absent` are the runs that the scores lack. `figures` is a
    folder for every figure as SVG and PNG, and for its table as CSV and LaTeX.
    """
    results = results_of(scores, benchmarks, collections or (), level, rule, index, compare)
    sections = []
    load_installed()
    for section in SECTIONS.values():
        content = section.content(results)
        if content is not None:
            sections.append((section, content))
    order = results.benchmarks
    by_name = {section.name: content for section, content in sections}
    text = environment().get_template("page.html").render(
        title=title, version=__version__, level=f"{100 * level:g}", methods=results.methods,
        overview=_overview(results), findings=_findings(results.shown, order),
        kinds={benchmark.target.kind for benchmark in order},
        links=[link for section, content in sections
               for link in content.get("links", [(section.anchor, section.head)])],
        sections=[section for section, _ in sections], selection=by_name.get("selection"), content=by_name,
        absent=_absent(absent))
    if figures is not None:
        write_figures([figure for _, content in sections for figure in content["figures"]], figures)
    return write_text(out, text)


@cache
def environment(*folders: Path) -> Any:
    """The templates of a page, from `folders` first, then ours; names are escaped. They are compiled once."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(loader=FileSystemLoader([*folders, FOLDER, FOLDER / "sections"]), autoescape=True,
                            undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    templates.filters |= {"percent": percent, "in_unit": in_unit, "breakable": breakable, "probability": probability,
                          "drawn": drawn}
    templates.globals["style"] = css() + (FOLDER / "style.css").read_text(encoding="utf-8")
    return templates


def results_of(
    scores: Scores, benchmarks: Sequence[Benchmark], collections: Sequence[Collection | None] = (),
    level: float = LEVEL, rule: str = DEFAULT, index: RunIndex | None = None, compare: Sequence[str] = (),
) -> Results:
    """The input of the sections of a page: chosen scores, benchmarks and methods in the order of the page."""
    runs = of_runs(scores)
    shown = shown_scores(runs, benchmarks, rule)
    by_name = {name: _unknown(name) for name in sorted(set(shown["benchmark"].tolist()))}
    by_name |= {benchmark.name: benchmark for benchmark in benchmarks
                if benchmark.name in by_name or "left_out" not in benchmark.card}
    order = [benchmark for family in families(list(by_name.values())) for benchmark in family.members]
    measures = sorted({ACCURACY, *(benchmark.headline for benchmark in order)})
    methods = methods_in(row["method"] for metric, by in measures
                         for split in SPLITS for row in pivot(shown, metric, split, by=by))
    others = [name for name in methods_in(runs.names.tolist()) if name not in methods]
    return Results(scores, runs, shown, order, benchmarks, methods, [*methods, *others], level, rule,
                   {collection.digest: collection for collection in collections if collection is not None}, index,
                   compare)


def _unknown(name: str) -> Benchmark:
    """A placeholder for a benchmark that has scores but was not given: its numbers are shown, its card is empty."""
    none, texts = np.zeros(0, np.int64), np.zeros(0, np.str_)
    return Benchmark(texts, texts, none, none, none, {"label": (), "domain": (), "group": ()},
                     {"name": name, "notes": ["The benchmark was not given to the report, so its card is empty."]})


def _absent(runs: Sequence[Status]) -> Row | None:
    """The runs that failed, have not ended or are left over, and how many of each."""
    if not runs:
        return None
    return {"summary": summary_of(run.state for run in runs), "runs": runs[:LISTED], "more": max(0, len(runs) - LISTED)}


# Sentences at the top

def _overview(results: Results) -> str:
    """Counts of what was measured."""
    scores, benchmarks = results.runs, results.benchmarks
    names = {benchmark.name for benchmark in benchmarks}
    single, means = scores.where(stat=RUN), scores.where(stat=MEAN)
    pairs = set(zip(single["benchmark"].tolist(), single["run"].tolist(), strict=True))
    counts = dict(zip(zip(means["benchmark"].tolist(), means.names.tolist(), strict=True), means["runs"].tolist(),
                      strict=True))
    runs = sum(benchmark in names for benchmark, _ in pairs) or sum(counts.values())
    sources = sorted({str((b.card.get("collection") or {}).get("name", "")) for b in benchmarks} - {""})
    origin = f" made from the collection{'s' if len(sources) > 1 else ''} {enumeration(sources)}" if sources else ""
    measured = f"{_many(len(results.shown_methods), 'method')} in {_many(runs, 'run')}" if results.shown_methods else \
        "No method yet"
    return f"{measured} on {_many(len(benchmarks), 'benchmark')}{origin}."


def _many(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _findings(shown: Scores, benchmarks: Sequence[Benchmark]) -> list[tuple[str, str]]:
    """Title and sentence of every family, then of the benchmarks that are not ranked by average accuracy."""
    by_accuracy = {member.name for member in benchmarks if member.target.has_classes and member.headline == ACCURACY}
    lines = [line for family in families(benchmarks) for line in findings(family_table(shown, family._replace(
        members=tuple(member for member in family.members if member.name in by_accuracy))))]
    for benchmark in benchmarks:
        if benchmark.name in by_accuracy:
            continue
        metric, by = benchmark.headline
        column = column_of(shown, benchmark.name, metric, by=by)
        if not column:
            continue
        method, first = next(iter(column.items()))
        per = "\u00a0%" if metric_of(metric).unit == "share" else ""
        whose = f": “{first['group']}”, n\u00a0=\u00a0{first['n']:,}" if is_worst(metric) else ""
        lines.append((f"{benchmark.name}.", f"{method} has {in_unit(first['value'], first)}{per} on test in what ranks "
                      f"here ({in_words(metric, by)}{whose})."
                      + best_in_words([{"method": name, "cells": [cell]} for name, cell in column.items()], 0, "by it",
                                      per)))
    return lines


# Figures as files

def write_figures(figures: Sequence[Figure], folder: Path | str) -> Path:
    """Every figure as NAME.svg and NAME.png, its table as NAME.csv and NAME.tex, and an index; all or nothing."""
    index, names = [], set[str]()
    with writing_folder(folder, INDEX) as hidden:
        for figure in figures:
            name = re.sub(r"[^\w.-]+", "-", figure.name).strip("-.")[:100] or "figure"
            numbered = (f"{name}-{number}" for number in count(2))
            name = next(candidate for candidate in chain([name], numbered) if candidate not in names)
            names.add(name)
            (hidden / f"{name}.svg").write_text(to_svg(figure), encoding="utf-8")
            write_png(figure, hidden / f"{name}.png")
            (hidden / f"{name}.csv").write_text(to_csv(figure.columns, figure.rows), encoding="utf-8")
            (hidden / f"{name}.tex").write_text(to_latex(figure.columns, figure.rows, figure.head), encoding="utf-8")
            index.append({"name": name, "head": figure.head, "definition": figure.definition})
        write_json(hidden / INDEX, {"format": "shiftbench figures", "version": 1, "figures": index})
    return Path(folder)
