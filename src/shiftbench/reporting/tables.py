"""Scores as tables of methods × shifts: plain data that the page and the terminal both print."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, Scores
from shiftbench.scoring import BEHIND, MEAN
from shiftbench.scoring.metrics import metric_of

Row = dict[str, Any]


def pivot(scores: Scores, metric: str, split: str = "test", group: str | None = ALL) -> list[Row]:
    """One row per method: {"method": …, "cells": {benchmark: cell}}.

    A cell holds value, low, high, n, group, runs (how many the mean is over), best (the best of its benchmark) and tied
    (not the best, but not distinguishable from it). Means over seeds are taken as scored where the scores have them;
    else they are made from single runs, see `_mean`. The group of a worst group's or class's score is its answer, so
    any matches.
    """
    some = scores.where(split=split, metric=metric)
    if group is not None and not metric.startswith("worst_"):
        some = some.where(group=group)
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in some:
        cells.setdefault((row["method"] or row["run"] or "model", row["benchmark"]), []).append(row)
    behind = {(row["method"], row["benchmark"]): row for row in scores.where(split=split, metric=metric + BEHIND)
              if metric.startswith("worst_") or row["group"] == group}
    means = {key: _mean(rows) for key, rows in cells.items()}
    # Where a benchmark has means as scored, single runs of a method with several settings are no row of their own.
    scored = {benchmark for (_, benchmark), cell in means.items() if cell["scored"]}
    means = {key: cell for key, cell in means.items() if cell["scored"] or key[1] not in scored}
    for benchmark in {benchmark for _, benchmark in means}:
        column = {method: cell for (method, name), cell in means.items() if name == benchmark}
        _mark(column, {method: behind.get((method, benchmark)) for method in column}, metric_of(metric).lower)
    return [{"method": method, "cells": {name: cell for (other, name), cell in means.items() if other == method}}
            for method in methods_in(method for method, _ in means)]


def methods_in(names: Iterable[str]) -> list[str]:
    """Each method once, the baseline `erm` first, the others by name."""
    return sorted(set(names), key=lambda name: (name != "erm", name))


def _mean(rows: Sequence[Row]) -> Row:
    """One cell from the rows of a method on a benchmark.

    Without a mean as scored, the interval is put together from the runs': a half-width √(w² + s²) with w the runs' mean
    half-width, since they share their items, and s = 1.96 standard errors of the mean over runs.
    """
    scored = [row for row in rows if row["seed"] == -1 and row["run"].startswith(MEAN)]
    if scored or len(rows) == 1:
        row = (scored or rows)[0]
        kept = {key: row[key] for key in ("value", "low", "high", "n", "group")}
        return {**kept, "runs": int(row["run"].removeprefix(MEAN)) if scored else 1, "scored": bool(scored)}
    k, value = len(rows), sum(row["value"] for row in rows) / len(rows)
    seeds = 1.96 * math.sqrt(sum((row["value"] - value) ** 2 for row in rows) / (k - 1) / k)
    items = sum(row["high"] - row["low"] for row in rows) / k / 2
    half = math.hypot(items, seeds)
    lowest = min(rows, key=lambda row: row["value"])
    return {"value": value, "low": value - half, "high": value + half, "n": lowest["n"], "group": lowest["group"],
            "runs": k, "scored": False}


def _mark(column: Mapping[str, Row], behind: Mapping[str, Row | None], lower: bool) -> None:
    """Mark the best cell of a column and those that cannot be told from it.

    The judge is the paired interval of the difference where it was scored, which is corrected for all pairs of methods
    of the column (see `scoring.means`); else whether the two intervals overlap, which is the more cautious.
    """
    known = {method: cell for method, cell in column.items() if not math.isnan(cell["value"])}
    best = (min if lower else max)(known, key=lambda method: known[method]["value"]) if len(known) > 1 else None
    for method, cell in column.items():
        cell |= {"best": method == best, "tied": False}
        if best is None or method == best or method not in known:
            continue
        difference, top = behind[method], known[best]
        if difference is not None:
            cell["tied"] = not difference["low"] > 0  # an unknown interval tells nothing apart
        else:
            cell["tied"] = not (cell["low"] > top["high"] if lower else top["low"] > cell["high"])


class Family(NamedTuple):
    """Benchmarks that are one experiment: the same shift at growing strength."""

    kind: str  # "distance": a ladder; "share": subpopulation shifts; "other": what is neither, together
    title: str
    members: tuple[Benchmark, ...]  # from the mildest to the hardest


def families(benchmarks: Sequence[Benchmark]) -> list[Family]:
    """Sort benchmarks into ladders (same shift and classes, other distance), mixtures (parameter p) and the rest."""
    found: dict[tuple[str, ...], list[Benchmark]] = {}
    for benchmark in benchmarks:
        card, ladder = benchmark.card, _distance(benchmark) is not None
        kind = "share" if _share(benchmark) is not None else "distance" if ladder else "other"
        key = (kind, str(card.get("shift")), str(card.get("collection")), str(benchmark.names["label"]),
               str(card.get("params", {}).get("test", "")))
        found.setdefault(key, []).append(benchmark)
    made, rest = [], []
    for (kind, *_), members in found.items():
        if kind == "other" or len(members) == 1:
            rest += members
            continue
        order = sorted(members, key=lambda b: -(_share(b) or 0.0) if kind == "share" else _distance(b) or 0.0)
        made.append(Family(kind, classes(order[0]), tuple(order)))
    made.sort(key=lambda family: ("distance", "share").index(family.kind))
    return [*made, Family("other", "Other shifts" if made else "All shifts", tuple(rest))] if rest else made


def family_table(scores: Scores, family: Family) -> Row:
    """A family's table: {"title", "kind", "columns", "rows"}; a row's cells stand in the order of the columns.

    A ladder has one column per training set (MetaShift's Table 1: accuracy on the test subset of the class that moves),
    the others have the average and the worst group for each (its Table 2). A column: block (what it measures), head,
    under, benchmark, x (distance or share), metric.
    """
    blocks = [("accuracy", ALL, "Average accuracy"), ("worst_group_accuracy", ALL, "Worst-group accuracy")]
    if family.kind == "distance":
        group = moved_group(family.members)
        blocks = [("accuracy", group, "Average accuracy" if group == ALL else f"Accuracy on {group}")]
    columns, cells = [], []
    for metric, group, block in blocks:
        rows = {row["method"]: row["cells"] for row in pivot(scores, metric, group=group)}
        for benchmark in family.members:
            x = _distance(benchmark) if family.kind == "distance" else _share(benchmark)
            columns.append({"block": block, "head": _head(benchmark, family.kind), "benchmark": benchmark.name, "x": x,
                            "under": benchmark.name if family.kind != "other" else str(benchmark.card.get("shift", "")),
                            "metric": metric})
            cells.append({method: row.get(benchmark.name) for method, row in rows.items()})
    methods = methods_in(method for column in cells for method, cell in column.items() if cell)
    return {"title": family.title, "kind": family.kind, "columns": columns,
            "rows": [{"method": method, "cells": [column.get(method) for column in cells]} for method in methods]}


def moved_group(ladder: Sequence[Benchmark]) -> str:
    """The test group of the class whose training items move, where a ladder has one such class and group."""
    classes = {str(benchmark.card.get("params", {}).get("moves") or "") for benchmark in ladder}
    groups: set[str] = set()
    for benchmark in ladder:
        rows = benchmark.rows("test")
        own = [code for code, name in enumerate(benchmark.names["label"]) if name in classes]
        codes = benchmark.group[rows[np.isin(benchmark.label[rows], own)]]
        groups |= {benchmark.names["group"][code] for code in codes}
    return groups.pop() if len(classes) == 1 and len(groups) == 1 else ALL


def distance_tables(scores: Scores, benchmarks: Sequence[Benchmark]) -> list[Row]:
    """A table per ladder: test accuracy of each method as the distance grows (MetaShift's Table 1)."""
    return [family_table(scores, family) for family in families(benchmarks) if family.kind == "distance"]


def share_tables(scores: Scores, benchmarks: Sequence[Benchmark]) -> list[Row]:
    """A table per subpopulation shift: average and worst-group accuracy as the minority's share p falls."""
    return [family_table(scores, family) for family in families(benchmarks) if family.kind == "share"]


def classes(benchmark: Benchmark) -> str:
    """The task in words: `cat vs. dog`, or how many classes there are."""
    names = benchmark.names["label"]
    return " vs. ".join(names) if len(names) <= 3 else f"{len(names)} classes"


def percent(value: float, digits: int = 1) -> str:
    """How a share is written.

    >>> percent(0.8234), percent(0.12, 0), percent(-0.072), percent(math.nan)
    ('82.3', '12', '−7.2', '–')
    """
    return f"{round(100 * value, digits) + 0.0:.{digits}f}".replace("-", "−") if math.isfinite(value) else "–"


def _share(benchmark: Benchmark) -> float | None:
    return _number(benchmark.card.get("params", {}).get("p"))


def _distance(benchmark: Benchmark) -> float | None:
    return _number(benchmark.card.get("distance"))


def _number(value: Any) -> float | None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if right else None


def _head(benchmark: Benchmark, kind: str) -> str:
    share, distance = _share(benchmark), _distance(benchmark)
    if kind == "share" and share is not None:
        return f"p = {100 * share:.3g}\u00a0%"
    return f"d = {distance:.2f}" if kind == "distance" and distance is not None else benchmark.name
