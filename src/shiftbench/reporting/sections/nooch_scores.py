"""The numbers of NOOCh (Madras and Zemel, 2021): the scores of every method on hard and easy items, side by side."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores
from shiftbench.reporting.score_tables import Row, column_of, methods_in, methods_table
from shiftbench.scoring.hard_items import EASY, HARD, SIDES, kinds_of
from shiftbench.scoring.metrics import is_worst

BASELINE = "erm"
POSITIVE, NEGATIVE = SIDES
SPLITS = ("test", "id_test")
"""Splits to search for a set of items; easy items are in id_test where test has only hard ones."""
AVERAGE = "Average"
"""The last row of a table of tasks."""
CRITERIA = {"ce": "CE criterion", "gist": "Gist criterion", "factors": "Question about factors"}


class Column(NamedTuple):
    """One number of every method: its metric and group, and the heads above it."""

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

class Point(NamedTuple):
    """A method, or a task, with a number across and a number up."""

    name: str
    x: Row
    y: Row


def applies(benchmark: Benchmark) -> bool:
    """Whether its rows say which are hard."""
    return kinds_of(benchmark, np.arange(len(benchmark))) is not None


def nooch_in(benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """The benchmarks that mark their hard rows, each name once."""
    return list({benchmark.name: benchmark for benchmark in benchmarks if applies(benchmark)}.values())


def criterion(benchmark: Benchmark) -> str:
    """How hard items were identified: CE criterion, Gist criterion, …"""
    name = str((benchmark.card.get("criterion") or {}).get("name") or "")
    if name.startswith("published "):
        word = name.removeprefix("published ")
        return f"Published {word.upper() if word.lower() == 'ce' else word} lists"
    return CRITERIA.get(name, name or "Hard and easy items")


def is_question(benchmark: Benchmark) -> bool:
    return (benchmark.card.get("criterion") or {}).get("name") == "factors"


def cells(scores: Scores, benchmark: Benchmark, metric: str, group: str) -> dict[str, Row]:
    """Method -> cell of `pivot` on the first split that has it; a worst group's accuracy becomes its error."""
    rows = scores.where(benchmark=benchmark.name)
    for split in SPLITS:
        scored = {name: cell for name, cell in column_of(rows, benchmark.name, metric, split, group or None).items()
                  if cell["n"]}
        if scored:
            flip = metric == "worst_group_accuracy"
            return {name: {**(_error(cell) if flip else cell), "unit": "number"} for name, cell in scored.items()}
    return {}


def table(scores: Scores, benchmark: Benchmark) -> Row | None:
    """Methods × numbers of one benchmark; None where none has a score of hard or easy items."""
    columns = [({**column._asdict(), "worst": is_worst(column.metric)}, by_method)
               for column in (*COLUMNS, *(WORSE if is_question(benchmark) else WORST))
               if (by_method := cells(scores, benchmark, column.metric, column.group))]
    if not any(column["metric"] in ("auc", "nll", "error") for column, _ in columns):
        return None
    return {**methods_table(columns), "name": benchmark.name, "criterion": criterion(benchmark),
            "sizes": sizes(benchmark)}


def sizes(benchmark: Benchmark) -> str:
    """How many items of each kind there are, in words."""
    names = {POSITIVE: "hard positives", NEGATIVE: "hard negatives", HARD: "hard items", EASY: "easy items"}
    phrases = []
    for name, word in names.items():
        counts = [int(np.sum(kinds_of(benchmark, benchmark.rows(split)) == name)) for split in SPLITS]
        first = next((at for at, n in enumerate(counts) if n), None)
        if first is not None:
            phrases.append(f"{counts[first]:,} {word}{'' if not first else f' ({SPLITS[first]})'}")
    return ", ".join(phrases)


def tasks(scores: Scores, benchmarks: Sequence[Benchmark]) -> Row:
    """AUC on hard items: a row per task and one for their average, a column per method (Tables 2 and 3)."""
    tasks = {benchmark.name: row for benchmark in benchmarks if (row := cells(scores, benchmark, "auc", HARD))}
    methods = methods_in(method for row in tasks.values() for method in row)
    average = {method: mean([row[method] for row in tasks.values()]) for method in methods
               if all(method in row for row in tasks.values())}
    rows = {**tasks, AVERAGE: average}
    columns = [({"head": method}, {name: row.get(method) for name, row in rows.items()}) for method in methods]
    return {**methods_table(columns, list(rows)), "criterion": criterion(benchmarks[0])}


def mean(task_cells: Sequence[Row]) -> Row:
    """The plain mean over tasks; its interval is the mean of their intervals, which assumes fully correlated errors."""
    means = {key: float(np.mean([cell[key] for cell in task_cells])) for key in ("value", "low", "high")}
    return {**means, "best": False, "tied": False, "n": sum(cell["n"] for cell in task_cells), "unit": "number"}


def points(
    scores: Scores, benchmarks: Sequence[Benchmark], across: tuple[str, str], up: tuple[str, str]
) -> list[Point]:
    """Every method's average over the tasks, for those that have both numbers on all of them; each is metric, group."""
    sides = [[cells(scores, benchmark, *what) for benchmark in benchmarks] for what in (across, up)]
    both = [(x, y) for x, y in zip(*sides, strict=True) if x and y]
    if not both:
        return []
    averages = []
    for method in methods_in(name for x, _ in both for name in x):
        if all(method in x and method in y for x, y in both):
            point = Point(method, mean([x[method] for x, _ in both]), mean([y[method] for _, y in both]))
            if math.isfinite(point.x["value"]) and math.isfinite(point.y["value"]):
                averages.append(point)
    return averages


def harder(scores: Scores, benchmarks: Sequence[Benchmark], side: str, method: str) -> list[Point]:
    """Every task: a method's loss on all items of a label against that on its hard ones (Figure 3)."""
    losses = []
    for benchmark in benchmarks:
        hard, usual = cells(scores, benchmark, "nll", side).get(method), _of_label(scores, benchmark, side, method)
        if hard and usual is not None and math.isfinite(hard["value"]):
            none = {"low": math.nan, "high": math.nan, "n": hard["n"]}
            losses.append(Point(benchmark.name, {"value": usual, **none}, hard))
    return losses


def _of_label(scores: Scores, benchmark: Benchmark, side: str, method: str) -> float | None:
    """The mean loss on all test items that have the label of a hard side, from the losses of their groups."""
    rows = benchmark.rows("test")
    kind = kinds_of(benchmark, rows)
    if kind is None or not (kind == side).any() or not (kind == EASY).any():
        return None  # a test split of only hard items has nothing to compare with
    alike = rows[benchmark.label[rows] == benchmark.label[rows[kind == side]][0]]
    codes, n = np.unique(benchmark.group[alike], return_counts=True)
    if np.isin(benchmark.group[np.setdiff1d(rows, alike)], codes).any():
        return None  # a group with both labels has one loss for both
    losses = [cells(scores, benchmark, "nll", benchmark.names["group"][code]).get(method) for code in codes]
    return None if None in losses else float(np.average([cell["value"] for cell in losses if cell], weights=n))


def _error(cell: Mapping[str, Any]) -> Row:
    return {**cell, "value": 1 - cell["value"], "low": 1 - cell["high"], "high": 1 - cell["low"]}
