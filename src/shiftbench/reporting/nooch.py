"""What the scores of out-of-context benchmarks say of every method: hard and easy items side by side (NOOCh)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores
from shiftbench.reporting.tables import Row, methods_in, pivot
from shiftbench.reporting.words import seeds_in_words
from shiftbench.scoring.hard_items import EASY, HARD, SIDES, kinds_of

POSITIVE, NEGATIVE = SIDES
SPLITS = ("test", "id_test")
"""Where a set of items is looked for; the easy ones are in id_test where test is of hard ones alone."""
CRITERIA = {"ce": "CE criterion", "gist": "Gist criterion", "factors": "Question about factors"}


class Column(NamedTuple):
    """One number of every method: which it is, and what stands above it."""

    block: str
    head: str
    metric: str
    group: str


COLUMNS = (
    Column("AUC", "hard", "auc", HARD), Column("AUC", "easy", "auc", EASY),
    Column("NLL", "hard +", "nll", POSITIVE), Column("NLL", "hard −", "nll", NEGATIVE),
    Column("NLL", "easy", "nll", EASY),
    Column("ECE", "hard", "ece", HARD), Column("ECE", "easy", "ece", EASY),
    Column("Error", "hard", "error", HARD), Column("Error", "easy", "error", EASY),
)
WORST = (Column("Worst group", "error", "worst_group_accuracy", ""),
         Column("Worst group", "NLL", "worst_group_nll", ""))
"""Over the environments, label × strongest cue."""
WORSE = (Column("Worse hard side", "error", "worst_hard_error", ""),
         Column("Worse hard side", "NLL", "worst_hard_nll", ""))
"""The paper's Table 4, of Waterbirds: there the two hard sides are the two groups of birds out of their place."""

Cells = Mapping[str, Row]


class Point(NamedTuple):
    """A method, or a task, with a number across and a number up."""

    name: str
    x: Row
    y: Row


def nooch_in(benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """The benchmarks whose rows say which are hard, each name once."""
    named = {one.name: one for one in benchmarks if kinds_of(one, np.arange(len(one))) is not None}
    return list(named.values())


def criterion(benchmark: Benchmark) -> str:
    """How its hard items were told: CE criterion, Gist criterion, …"""
    name = str((benchmark.card.get("criterion") or {}).get("name") or "")
    if name.startswith("published "):
        word = name.removeprefix("published ")
        return f"Published {word.upper() if word.lower() == 'ce' else word} lists"
    return CRITERIA.get(name, name or "Hard and easy items")


def is_question(benchmark: Benchmark) -> bool:
    return (benchmark.card.get("criterion") or {}).get("name") == "factors"


def cells(scores: Scores, benchmark: Benchmark, metric: str, group: str) -> dict[str, Row]:
    """Method -> cell of `pivot` on the first split that has it; a worst group's accuracy becomes its error."""
    mine = scores.where(benchmark=benchmark.name)
    for split in SPLITS:
        found = {row["method"]: row["cells"][benchmark.name] for row in pivot(mine, metric, split, group or None)}
        known = {name: cell for name, cell in found.items() if cell["n"]}
        if known:
            flip = metric == "worst_group_accuracy"
            return {name: _error(cell) for name, cell in known.items()} if flip else known
    return {}


def table(scores: Scores, benchmark: Benchmark) -> Row | None:
    """Methods × numbers of one benchmark; None where none has a score of hard or easy items."""
    columns, found = [], []
    for column in (*COLUMNS, *(WORSE if is_question(benchmark) else WORST)):
        one = cells(scores, benchmark, column.metric, column.group)
        if one:
            columns.append(column)
            found.append(one)
    if not any(column.metric in ("auc", "nll", "error") for column in columns):
        return None
    names = [column.block for column in columns]
    methods = methods_in(method for one in found for method in one)
    return {"name": benchmark.name, "criterion": criterion(benchmark), "columns": columns,
            "blocks": [(name, names.count(name)) for name in dict.fromkeys(names)],
            "rows": [{"method": method, "cells": [one.get(method) for one in found]} for method in methods],
            "seeds": seeds_in_words({method: {one[method]["runs"] for one in found if method in one}
                                     for method in methods}), "sizes": sizes(benchmark)}


def sizes(benchmark: Benchmark) -> str:
    """How many items of each kind the numbers are of, in words."""
    words = {POSITIVE: "hard positives", NEGATIVE: "hard negatives", HARD: "hard items", EASY: "easy items"}
    told = []
    for name, word in words.items():
        counts = [int(np.sum(kinds_of(benchmark, benchmark.rows(split)) == name)) for split in SPLITS]
        place = next((at for at, n in enumerate(counts) if n), None)
        if place is not None:
            told.append(f"{counts[place]:,} {word}{'' if not place else f' ({SPLITS[place]})'}")
    return ", ".join(told)


def tasks(scores: Scores, benchmarks: Sequence[Benchmark]) -> Row:
    """AUC on hard items of every task and method, and its average (Tables 2 and 3)."""
    rows = [(one.name, cells(scores, one, "auc", HARD)) for one in benchmarks]
    rows = [(name, row) for name, row in rows if row]
    methods = methods_in(method for _, row in rows for method in row)
    return {"criterion": criterion(benchmarks[0]), "methods": methods,
            "rows": [(name, [row.get(method) for method in methods]) for name, row in rows],
            "average": [mean([row[method] for _, row in rows]) if all(method in row for _, row in rows) else None
                        for method in methods]}


def mean(found: Sequence[Row]) -> Row:
    """The plain mean over tasks; its interval is the mean of theirs, as wide as if all erred one way."""
    made = {key: float(np.mean([cell[key] for cell in found])) for key in ("value", "low", "high")}
    return {**made, "best": False, "tied": False, "n": sum(cell["n"] for cell in found)}


def points(
    scores: Scores, benchmarks: Sequence[Benchmark], across: tuple[str, str], up: tuple[str, str]
) -> list[Point]:
    """Every method's average over the tasks, for those that have both numbers on all of them; each is metric, group."""
    sides = [[cells(scores, one, *what) for one in benchmarks] for what in (across, up)]
    both = [(x, y) for x, y in zip(*sides, strict=True) if x and y]
    if not both:
        return []
    made = []
    for method in methods_in(name for x, _ in both for name in x):
        if all(method in x and method in y for x, y in both):
            point = Point(method, mean([x[method] for x, _ in both]), mean([y[method] for _, y in both]))
            if math.isfinite(point.x["value"]) and math.isfinite(point.y["value"]):
                made.append(point)
    return made


def harder(scores: Scores, benchmarks: Sequence[Benchmark], side: str, method: str) -> list[Point]:
    """Every task: a method's loss on all items of a label against that on its hard ones (Figure 3)."""
    made = []
    for one in benchmarks:
        hard, usual = cells(scores, one, "nll", side).get(method), _of_label(scores, one, side, method)
        if hard and usual is not None and math.isfinite(hard["value"]):
            none = {"low": math.nan, "high": math.nan, "n": hard["n"]}
            made.append(Point(one.name, {"value": usual, **none}, hard))
    return made


def _of_label(scores: Scores, benchmark: Benchmark, side: str, method: str) -> float | None:
    """The mean loss on all test items whose label is that of a hard side, from those of their groups."""
    rows = benchmark.rows("test")
    kind = kinds_of(benchmark, rows)
    if kind is None or not (kind == side).any() or not (kind == EASY).any():
        return None  # a test of hard items alone has nothing to set them against
    mine = rows[benchmark.label[rows] == benchmark.label[rows[kind == side]][0]]
    codes, n = np.unique(benchmark.group[mine], return_counts=True)
    if np.isin(benchmark.group[np.setdiff1d(rows, mine)], codes).any():
        return None  # a group with both labels has one loss for both
    found = [cells(scores, benchmark, "nll", benchmark.names["group"][code]).get(method) for code in codes]
    return None if None in found else float(np.average([cell["value"] for cell in found if cell], weights=n))


def _error(cell: Mapping[str, Any]) -> Row:
    return {**cell, "value": 1 - cell["value"], "low": 1 - cell["high"], "high": 1 - cell["low"]}
