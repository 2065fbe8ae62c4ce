"""Compare: methods × benchmarks as `shiftbench table` has them, the figures of the report, and the items of a cell."""

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.auditing.model_outputs import LOSSES, losses_of
from shiftbench.core.arrays import Bools, Ints, Strs, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import read_json
from shiftbench.data.benchmark import MARKER as BENCHMARK
from shiftbench.data.benchmark import SPLITS, Benchmark
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import RUN, Measure, Scores
from shiftbench.reporting.charts import Figure, Panel, drawn
from shiftbench.reporting.comparison import (
    Line,
    difference_in_words,
    lines,
    mean_in_words,
    measure_in_words,
    note_in_words,
    number_in_words,
    p_in_words,
)
from shiftbench.reporting.page import SECTIONS, Source, results_of, shown_scores
from shiftbench.reporting.score_tables import column_of, methods_in
from shiftbench.reporting.sections.families import families
from shiftbench.scoring.listing import names_in
from shiftbench.scoring.metrics import METRICS, is_worst, metric_of
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.rules import DEFAULT, RULES, Runs
from shiftbench.scoring.runs import flat, read_chosen
from shiftbench.scoring.select import Choice, select
from shiftbench.sweeps.status import summary
from shiftbench.webapp.item_view import opened, pictures
from shiftbench.webapp.looks import sealed
from shiftbench.webapp.scored_sources import Scored, Unscored, scored
from shiftbench.webapp.shelf import Thing
from shiftbench.webapp.studio import Answer, Query, Studio, request

ITEMS = 60
"""Items of a cell at a time."""
MOVED = 60
"""Choices of another rule that are listed."""
STATE = ("on", "rule", "split", "metric", "against", "benchmark")


class Comparison(NamedTuple):
    """A source under a rule: the source with the means over the chosen runs, its scores, and the lines."""

    source: Source
    scores: Scores
    lines: Sequence[Line]


def compare(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The tables of every measure, and what changed since another rule chose."""
    thing, choices = _thing(studio, query)
    head = {"on": thing.id, "kind": thing.kind, "choices": choices}
    try:
        read = scored(studio, thing)
    except Unscored as progress:
        return {**head, "scoring": str(progress)}
    rule, before = query.text("rule") or DEFAULT, query.text("before")
    comparison = _comparison(studio, read, query, rule)
    studio.books.look(f"compare {thing.id}", {name: query.text(name) for name in STATE[1:]} | {"rule": rule})
    earlier = {_key(line): line for line in _comparison(studio, read, query, before).lines} if before else {}
    order = [benchmark.name for family in families(comparison.source.benchmarks) for benchmark in family.members]
    several = sorted(Runs(read.source.scores).several)
    names = sorted({line.benchmark for line in comparison.lines}, key=lambda name: _rank(order, name))
    only = _name_of(studio, query.text("benchmark"))
    state = {name: query.text(name) for name in STATE} | {"on": thing.id, "rule": rule, "benchmark": only}
    return {**head, "asked": state, "rule": rule, "before": before, **_choices(read.source.scores, query),
            "tables": _tables(comparison, only, order, earlier), "benchmarks": names, "benchmark": only,
            "nothing": "" if only in ("", *names) else f"Nothing in {thing.id} is about the benchmark '{only}'.",
            "methods": methods_in(line.method for line in comparison.lines), "note": note_in_words(comparison.lines),
            "rules": _rules(studio, read, several), "several": several,
            "moved": _moved(studio, comparison.source, rule, before) if before and several else None,
            "absent": summary(run.state for run in read.source.absent) if read.source.absent else "",
            "command": _command(thing, read, query, rule),
            "also": [request("figures", **state), *_open_cell(studio, comparison.source, query, state)]}


def _open_cell(studio: Studio, source: Source, query: Query, state: Mapping[str, str]) -> list[str]:
    """What the page asks for the cell that an address opens: its items, and the panel of one."""
    if len(at := query.names("at")) != 3:
        return []
    cell = dict(zip(("benchmark", "method", "measure"), at, strict=True))
    benchmark = next((benchmark for benchmark in source.benchmarks if benchmark.name == at[0]), None)
    on = "" if benchmark is None else _collection(studio, benchmark, benchmark.items[:0])[0]
    return [request("cell", **{**state, **cell, "outcome": query.text("outcome"), "page": query.text("items")}),
            *opened(studio, on, query.text("item"))]


def _thing(studio: Studio, query: Query) -> tuple[Thing, list[list[str]]]:
    """The scores or runs that are compared: those that are named, else the first on the shelf."""
    things = [*studio.shelf.things("scores"), *studio.shelf.things("runs")]
    if not things:
        raise ShiftBenchError("There are no runs and no scores below the studio's folder yet. Train, or score.")
    named = query.text("on") or things[0].id
    thing = next((choice for choice in things if choice.id == named), None)
    if thing is None:
        raise unknown("runs or scores", named, [choice.id for choice in things], "the studio's folder")
    return thing, [[choice.id, f"{choice.id} ({choice.kind})"] for choice in things]


def _name_of(studio: Studio, asked: str) -> str:
    """The name of a benchmark in scores; other pages name it by its id on the shelf."""
    thing = next((thing for thing in studio.shelf.things("benchmark") if thing.id == asked), None)
    return asked if thing is None else str(read_json(thing.path / BENCHMARK)["name"])


def _comparison(studio: Studio, read: Scored, query: Query, rule: str) -> Comparison:
    """The lines of `shiftbench table` under a rule, kept in memory because the means take a while."""
    split, metric, against = query.text("split") or "test", query.text("metric"), query.text("against")

    def choose() -> tuple[Source, Scores]:
        source = read.source.chosen_by(rule)
        return source, shown_scores(source.scores, source.benchmarks, rule)

    source, scores = studio.once(("chosen", *read.key, rule), choose)
    table_lines = studio.once(("lines", *read.key, rule, split, metric, against), lambda: lines(
        scores, source.benchmarks, [metric] if metric else (), split=split, against=against, folder=source.runs))
    return Comparison(source, scores, table_lines)


def _key(line: Line) -> tuple[str, ...]:
    return line.benchmark, line.metric, line.grouping, line.method


def _rank(order: Sequence[str], name: str) -> tuple[int, str]:
    return (order.index(name) if name in order else len(order), name)


def _choices(scores: Scores, query: Query) -> dict[str, Any]:
    """The splits, and the measures on the one that is shown."""
    splits = set(scores["split"].tolist())
    split = query.text("split") or "test"
    on = scores.where(split=split)
    pairs = set(zip(on["metric"].tolist(), on["by"].tolist(), strict=True))
    return {"split": split, "splits": [name for name in SPLITS if name in splits],
            "metric": query.text("metric"), "against": query.text("against"),
            "metrics": [[str(Measure(*pair)), measure_in_words(*pair)] for pair in sorted(pairs) if pair[0] in METRICS]}


def _tables(comparison: Comparison, only: str, order: Sequence[str], before: Mapping[tuple[str, ...], Line]
            ) -> list[dict[str, Any]]:
    """Methods × benchmarks for every measure; ties and worst groups are those of the report."""
    tables = []
    for measure in dict.fromkeys(Measure(line.metric, line.grouping) for line in comparison.lines):
        lines = [line for line in comparison.lines
                 if (line.metric, line.grouping) == measure and only in ("", line.benchmark)]
        names = sorted({line.benchmark for line in lines}, key=lambda name: _rank(order, name))
        cells = {name: column_of(comparison.scores.where(benchmark=name), name, measure.metric, lines[0].split,
                                 by=measure.by) for name in names}
        by_cell = {(line.method, line.benchmark): line for line in lines}
        tables.append({
            "measure": str(measure), "head": measure_in_words(*measure), "lower": metric_of(measure.metric).lower,
            "benchmarks": names, "rows": [{"method": method, "cells": [
                _cell(by_cell.get((method, name)), cells[name].get(method), before) for name in names]}
                for method in methods_in(line.method for line in lines)]})
    return [table for table in tables if table["benchmarks"]]


def _cell(line: Line | None, cell: Mapping[str, Any] | None, before: Mapping[tuple[str, ...], Line]
          ) -> dict[str, Any] | None:
    if line is None or cell is None:
        return None
    other = before.get(_key(line))
    mean, _, interval = mean_in_words(line).partition(" ")
    if other is None:
        moved = "new" if before else ""
    else:
        same = number_in_words(other.mean, line.metric) == mean
        moved = "" if same else number_in_words(line.mean - other.mean, line.metric, "+")
    return {"mean": mean, "interval": interval, "value": line.mean, "low": line.low, "high": line.high,
            "best": cell["best"], "tied": cell["tied"], "runs": line.runs, "n": line.n,
            "group": cell["group"] if is_worst(line.metric) else "", "reference": line.reference,
            "difference": difference_in_words(line), "p": p_in_words(line), "by": line.by,
            "moved": moved, "was": "" if other is None else mean_in_words(other)}


def _command(thing: Thing, read: Scored, query: Query, rule: str) -> str:
    words = ["shiftbench", "table", str(thing.path)]
    for name in ("split", "metric", "against"):
        words += [f"--{name}", query.text(name)] if query.text(name) else []
    words += ["--rule", rule] if rule != DEFAULT else []
    return shlex.join([*words, *(word for path in read.benchmarks for word in ("--benchmark", str(path)))])


# Rules

def _rules(studio: Studio, read: Scored, several: Sequence[str]) -> list[dict[str, Any]]:
    """Every rule: what it uses, and why it is refused or chooses nothing, if so."""
    if not several:
        return []
    selection = studio.once(("rules", *read.key), lambda: select(
        read.source.scores, benchmarks=read.source.benchmarks, targets=("accuracy",)))
    rules = []
    for name, rule in RULES.items():
        choices = [choice for choice in selection.choices if choice.rule == name and choice.benchmark in several]
        why = ("needs labels of the target" if any(choice.labels == "target" for choice in choices) else
               "needs labels from after the shift" if any(choice.labels == "unknown" for choice in choices) else
               "" if choices else
               next((refusal.why for refusal in selection.refused if refusal.rule == name), "chooses nothing"))
        rules.append({"name": name, "head": rule.head, "uses": rule.uses, "why": why})
    return rules


def _moved(studio: Studio, source: Source, rule: str, before: str) -> dict[str, Any]:
    """The methods and seeds for which two rules choose different runs, and the settings that differ."""
    old, new = ({(choice.benchmark, choice.method, choice.seed): choice for choice in select(
        source.scores, [name], targets=("accuracy",), benchmarks=source.benchmarks).choices} for name in (before, rule))
    moved = [(old[key], choice) for key, choice in new.items() if key in old and old[key].run != choice.run]
    try:
        index = _index(studio, source, [choice.run for pair in moved[:MOVED] for choice in pair])
    except ShiftBenchError:  # then the answer names the runs only
        index = None
    return {"before": RULES[before].head, "of": len(new), "moved": len(moved), "choices": [
        {"benchmark": choice.benchmark, "method": choice.method, "seed": choice.seed, "from": earlier.run,
         "to": choice.run, "settings": _differing(index, earlier, choice)} for earlier, choice in moved[:MOVED]]}


def _differing(index: RunIndex | None, earlier: Choice, later: Choice) -> str:
    """`lr 0.001 → 0.003`: the settings in which two runs differ; "" where the runs are not at hand."""
    if index is None:
        return ""
    first, second = (flat(index.run(choice.run).settings) for choice in (earlier, later))
    return ", ".join(f"{name} {first.get(name, '–')} → {second.get(name, '–')}"
                     for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name))


# The report's figures

def figures(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The figures of the report's sections that apply: ladders, shares, regrets; groups of the benchmark chosen."""
    thing, _ = _thing(studio, query)
    try:
        read = scored(studio, thing)
    except Unscored as progress:
        return {"scoring": str(progress)}
    rule, only = query.text("rule") or DEFAULT, _name_of(studio, query.text("benchmark"))

    def content() -> list[tuple[str, Figure]]:
        source = read.source.chosen_by(rule)
        results = results_of(source.scores, source.benchmarks, rule=rule, index=source.runs)
        sections = [section for section in SECTIONS.values() if section.function is None]
        contents = [(section.name, section.content(results)) for section in sections]
        return [(name, figure) for name, facts in contents if facts is not None for figure in facts["figures"]]

    named_figures = studio.once(("figures", *read.key, rule), content)
    chosen = [figure for name, figure in named_figures  # those of a card are named after its benchmark
              if (figure.name.partition("-")[2] == only if name == "cards" else not only)]
    return {"figures": [_figure(figure) for figure in chosen],
            "command": shlex.join(["shiftbench", "report", str(thing.path), "--out", "report.html", "--figures",
                                   "figures", *(["--rule", rule] if rule != DEFAULT else [])])}


def _figure(figure: Figure) -> dict[str, Any]:
    return {"name": figure.name, "head": figure.head, "definition": figure.definition,
            **{slot: [_panel(panel) for panel in getattr(figure, slot)] for slot in ("panels", "narrow", "legends")},
            "columns": figure.columns, "rows": figure.rows}


def _panel(panel: Panel) -> dict[str, Any]:
    return {"width": panel.width, "height": panel.height, "title": panel.title, "svg": drawn(panel)}


# The items of a cell

def cell(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The items behind a cell: how many of the chosen runs got each right. Sealed items are left out, and counted."""
    thing, _ = _thing(studio, query)
    try:
        read = scored(studio, thing)
    except Unscored as progress:
        return {"scoring": str(progress)}
    name, method, split = query.text("benchmark"), query.text("method"), query.text("split") or "test"
    measure = Measure.parse(query.text("measure") or "accuracy")
    comparison = _comparison(studio, read, query, query.text("rule") or DEFAULT)
    draws = [benchmark for benchmark in comparison.source.benchmarks if benchmark.name == name]
    single = comparison.scores.where(benchmark=name, stat=RUN)
    runs = list(dict.fromkeys(single["run"][single.names == method].tolist()))
    if not draws or not runs:
        raise ShiftBenchError(f"'{method}' on '{name}': the benchmark or the runs behind this cell are not below the "
                              "studio's folder, so its items cannot be shown.")
    if not draws[0].target.has_classes:
        raise ShiftBenchError(f"'{name}' has no classes to be right or wrong about; its items are in the audit.")
    index = _index(studio, comparison.source, runs)
    predictions = [table for table in read_chosen(index, runs, draws) if isinstance(table, Predictions)]
    group = ""
    if is_worst(measure.metric) and not measure.by:
        group = str(column_of(comparison.scores.where(benchmark=name), name, measure.metric, split)[method]["group"])
    studio.books.look(f"compare {thing.id}", {"cell": [name, method, split, str(measure)], "runs": runs})
    return {"benchmark": name, "method": method, "split": split, "group": group, "runs": runs,
            "folder": studio.shelf.id_of("runs", index.run(runs[0]).folder.parent),
            "command": studio.command("cell", **query),
            **_items(studio, draws[0], predictions, split, group, query)}


def _index(studio: Studio, source: Source, runs: Sequence[str]) -> RunIndex:
    """The runs behind scores: those of the source, else of the first folder on the shelf that holds them all."""
    if source.runs is not None:
        return source.runs
    for thing in studio.shelf.things("runs"):
        if len(names_in(thing.path, runs).done) == len(set(runs)):
            return RunIndex(thing.path, runs)
    raise ShiftBenchError("The runs behind these scores are not below the studio's folder: their predictions, and so "
                          "the items of this cell, cannot be shown.")


def _items(studio: Studio, benchmark: Benchmark, predictions: Sequence[Predictions], split: str, group: str,
           query: Query) -> dict[str, Any]:
    rows = benchmark.rows(split)
    for column in ("group", "label"):  # the worst group, or the worst class
        if group in benchmark.names[column]:
            rows = rows[getattr(benchmark, column)[rows] == benchmark.names[column].index(group)]
            break
    hidden = sealed(benchmark.items[rows])
    n, rows = len(rows), rows[~hidden]
    asked, wrong, votes = _outcomes(benchmark, rows, predictions)
    masks = {"wrong": wrong == asked, "mixed": (wrong > 0) & (wrong < asked), "right": wrong == 0}
    outcome = query.text("outcome") if query.text("outcome") in masks else "wrong" if masks["wrong"].any() else "mixed"
    chosen = np.flatnonzero(masks[outcome] & (asked > 0))
    page = query.whole("page", 0, high=max(0, (len(chosen) - 1) // ITEMS))
    page_rows = chosen[page * ITEMS:(page + 1) * ITEMS]
    on, collection_rows = _collection(studio, benchmark, benchmark.items[rows[page_rows]])
    return {"also": pictures(studio, on, collection_rows), "n": n, "sealed": int(hidden.sum()), "outcome": outcome,
            "on": on, "page": page,
            "pages": max(1, math.ceil(len(chosen) / ITEMS)), "total": len(chosen),
            "counts": {name: int((mask & (asked > 0)).sum()) for name, mask in masks.items()},
            "right": int((asked - wrong).sum()), "predictions": int(asked.sum()),
            "items": [_entry(benchmark, int(rows[at]), int(collection_row), int(wrong[at]), int(asked[at]), votes[at])
                      for at, collection_row in zip(page_rows.tolist(), collection_rows, strict=True)]}


def _outcomes(benchmark: Benchmark, rows: Ints, predictions: Iterable[Predictions]) -> tuple[Ints, Ints, list[Ints]]:
    """Of each row: how many runs predict it, how many are wrong, and how many say each class."""
    asked, wrong = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    votes = np.zeros((len(rows), len(benchmark.names["label"])), np.int64)
    for predicted in predictions:
        at = positions(benchmark.items[rows], predicted.item)
        present: Bools = at >= 0
        outputs = predicted.scores[at[present]]
        asked[present] += 1
        wrong[present] += losses_of(outputs, benchmark.label[rows[present]], LOSSES["error"]).astype(np.int64)
        votes[np.flatnonzero(present), outputs.argmax(axis=1)] += 1
    return asked, wrong, list(votes)


def _entry(benchmark: Benchmark, row: int, collection_row: int, wrong: int, asked: int, votes: Ints) -> dict[str, Any]:
    names, label = benchmark.names["label"], int(benchmark.label[row])
    others = [f"{names[code]}{f' {n}/{asked}' if n < asked else ''}"
              for code, n in sorted(enumerate(votes.tolist()), key=lambda pair: -pair[1]) if n and code != label]
    return {"row": collection_row, "id": str(benchmark.items[row]), "label": names[label],
            "mark": "bad" if wrong else "good",
            "group": benchmark.names["group"][int(benchmark.group[row])],
            "says": ", ".join(others) or names[label], "note": f"→ {', '.join(others)}" if others else ""}


def _collection(studio: Studio, benchmark: Benchmark, items: Strs) -> tuple[str, list[int]]:
    """The collection on the shelf that holds the items, and their rows in it; "" if it is not there."""
    digest = (benchmark.card.get("collection") or {}).get("digest")
    on = next((thing.id for thing, own in studio.shelf.digests("collection") if own == digest), "")
    return on, studio.shelf.collection(on).index(items).tolist() if on else [-1] * len(items)


ANSWERS: dict[str, Answer] = {"compare": compare, "figures": figures, "cell": cell}
