"""Families of shifts: the same shift at growing distance or falling share; all other benchmarks are side by side.

After MetaShift (Liang and Zou, 2022): its Table 1 and Figure 4 are a ladder of distances, its Table 2 shares of the
minority in training.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, Measure, Scores
from shiftbench.reporting.charts import (
    Dot,
    Entry,
    Figure,
    Look,
    Scale,
    Series,
    hundredths,
    legends,
    lines,
    looks_of,
    numbers,
    rows,
    scale,
)
from shiftbench.reporting.score_tables import Row, column_of, enumeration, methods_table, pivot, with_interval
from shiftbench.scoring.metrics import in_unit, in_words, is_worst, metric_of, percent

if TYPE_CHECKING:
    from shiftbench.reporting.page import Block, Chapter, Content, Results

ACCURACY = Measure("accuracy")
MOST = 6
"""Benchmarks outside every family that get a sentence of their own."""
BEFORE = " before the shift"


class Family(NamedTuple):
    """Benchmarks that are one experiment: the same shift at growing strength."""

    kind: str  # "distance": a ladder; "share": subpopulation shifts; "other": all that are neither
    title: str
    members: tuple[Benchmark, ...]  # from the mildest to the hardest


def families(benchmarks: Sequence[Benchmark]) -> list[Family]:
    """Sort benchmarks into ladders (same shift and classes, other distance), mixtures (parameter p) and the rest."""
    alike: dict[tuple[str, ...], list[Benchmark]] = {}
    for benchmark in benchmarks:
        card, ladder = benchmark.card, distance_of(benchmark) is not None
        kind = "share" if _share(benchmark) is not None else "distance" if ladder else "other"
        key = (kind, str(card.get("shift")), str(card.get("collection")), str(benchmark.names["label"]),
               str(card.get("params", {}).get("test", "")))
        alike.setdefault(key, []).append(benchmark)
    series, others = [], []
    for (kind, *_), members in alike.items():
        if kind == "other" or len(members) == 1:
            others += members
            continue
        order = sorted(members, key=lambda b: -(_share(b) or 0.0) if kind == "share" else distance_of(b) or 0.0)
        series.append(Family(kind, order[0].target.task(order[0].names["label"]), tuple(order)))
    series.sort(key=lambda family: ("distance", "share").index(family.kind))
    return [*series, Family("other", "Other shifts" if series else "All shifts", tuple(others))] if others else series


def family_table(scores: Scores, family: Family) -> Row:
    """A family's table, as `methods_table` makes it, with its "title" and "kind".

    A ladder has one column per training set (MetaShift's Table 1: accuracy on the test subset of the class that moves),
    the others have the average and the worst group for each (its Table 2). A column: block (what it measures), head,
    under, benchmark, x (distance or share), metric.
    """
    blocks = [("accuracy", ALL, "Average accuracy"), ("worst_group_accuracy", ALL, "Worst-group accuracy")]
    if family.kind == "distance":
        group = moved_group(family.members)
        blocks = [("accuracy", group, "Average accuracy" if group == ALL else f"Accuracy on {group}")]
    columns: list[tuple[Row, dict[str, Row | None]]] = []
    for metric, group, block in blocks:
        by_method = {row["method"]: row["cells"] for row in pivot(scores, metric, group=group)}
        for benchmark in family.members:
            x = distance_of(benchmark) if family.kind == "distance" else _share(benchmark)
            under = benchmark.name if family.kind != "other" else str(benchmark.card.get("shift", ""))
            head = {"block": block, "head": _head(benchmark, family.kind), "under": under, "worst": is_worst(metric),
                    "benchmark": benchmark.name, "x": x, "metric": metric}
            columns.append((head, {method: cells.get(benchmark.name) for method, cells in by_method.items()}))
    return {"title": family.title, "kind": family.kind, **methods_table(columns)}


def moved_group(ladder: Sequence[Benchmark]) -> str:
    """The test group of the class whose training items move, where a ladder has one such class and group."""
    moving = {str(benchmark.card.get("params", {}).get("moves") or "") for benchmark in ladder}
    groups: set[str] = set()
    for benchmark in ladder:
        test = benchmark.rows("test")
        moving_codes = [code for code, name in enumerate(benchmark.names["label"]) if name in moving]
        codes = benchmark.group[test[np.isin(benchmark.label[test], moving_codes)]]
        groups |= {benchmark.names["group"][code] for code in codes}
    return groups.pop() if len(moving) == 1 and len(groups) == 1 else ALL


def distance_tables(scores: Scores, benchmarks: Sequence[Benchmark]) -> list[Row]:
    """A table per ladder: test accuracy of each method as the distance grows (MetaShift's Table 1)."""
    return [family_table(scores, family) for family in families(benchmarks) if family.kind == "distance"]


def share_tables(scores: Scores, benchmarks: Sequence[Benchmark]) -> list[Row]:
    """A table per subpopulation shift: average and worst-group accuracy as the minority's share p falls."""
    return [family_table(scores, family) for family in families(benchmarks) if family.kind == "share"]


def _share(benchmark: Benchmark) -> float | None:
    return number_of(benchmark.card.get("params", {}).get("p"))


def distance_of(benchmark: Benchmark) -> float | None:
    """How far training and test are apart, where the card says it."""
    return number_of(benchmark.card.get("distance"))


def number_of(value: Any) -> float | None:
    """A number of a card; None where it is none, or not finite."""
    right = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if right else None


def _head(benchmark: Benchmark, kind: str) -> str:
    share, distance = _share(benchmark), distance_of(benchmark)
    if kind == "share" and share is not None:
        return f"p = {100 * share:.3g}\u00a0%"
    return f"d = {distance:.2f}" if kind == "distance" and distance is not None else benchmark.name


# Content of the page

def content(results: "Results") -> "Content | None":
    """A chapter per family of two benchmarks or more: its table, and a figure if it is a ladder or has shares."""
    own = [family._replace(members=tuple(member for member in family.members if member.target.has_classes))
           for family in families(results.benchmarks)]
    own = [family for family in own if len(family.members) > 1]
    figures, chapters = [], []
    for number, family in enumerate(own):
        table = family_table(results.shown, family)
        drawn = _figures(results, family, table, [other.kind for other in own[:number]].count(family.kind))
        figures += drawn
        chapters.append(_chapter(f"f{number + 1}", family, table, drawn, results.level))
    return {"chapters": chapters, "figures": figures} if chapters else None


def _chapter(anchor: str, family: Family, table: Row, figures: Sequence[Figure], level: float) -> "Chapter":
    from shiftbench.reporting.page import Chapter

    tests = [benchmark.items[benchmark.rows("test")] for benchmark in family.members]
    same = all(np.array_equal(tests[0], items) for items in tests)
    head, link, text = {
        "distance": (f"{family.title}: accuracy as the shift grows", f"Accuracy against distance: {family.title}",
                     "The test items stay the same while the training items move away from them." if same else
                     "Training and test items move apart; each benchmark has test items of its own."),
        "share": (f"{family.title}: when a group is rare in training", f"Subpopulation shift: {family.title}",
                  "p is the share of the minority groups in training; in test all groups weigh the same. The average "
                  "hides what the worst group shows."),
        "other": (family.title, family.title, "Accuracy after the shift, on average and in the worst group."),
    }[family.kind]
    blocks: list[Block] = [("under", {"text": text})]
    blocks += [("plot", {"figure": figure, "head": False, "more": " The table below holds every number."})
               for figure in figures]
    if table["rows"]:
        what = f"{table['blocks'][0][0]}, per cent" if len(table["blocks"]) == 1 else "Per cent of test items"
        blocks += [("table", {"table": table, "caption": f"{what}{table['seeds']}; below each value its "
                              f"{100 * level:g} % interval"}),
                   ("foot", {"text": "Shaded: the best of its column. ≈ does not differ significantly from the best "
                             f"on these items and seeds. {_sizes(table)}"})]
    return Chapter(anchor, head, blocks, link)


def _figures(results: "Results", family: Family, table: Row, before: int) -> list[Figure]:
    """The figure of a family; `before` counts the families of its kind that came first."""
    if not any(cell for row in table["rows"] for cell in row["cells"]):
        return []
    more, looks = f"-{before + 1}" if before else "", looks_of(results.methods)
    if family.kind == "distance":
        return [_ladder(results.shown, table, family.members, looks, more)]
    return [_shares(table, looks, more)] if family.kind == "share" else []


def _sizes(table: Row) -> str:
    """How many test items the numbers are based on."""
    cells = [(column["metric"], cell) for row in table["rows"]
             for column, cell in zip(table["columns"], row["cells"], strict=True) if cell]
    sizes = {metric: sorted({cell["n"] for name, cell in cells if name == metric}) for metric, _ in cells}
    counts = {metric: f"{n[0]:,}" if len(n) == 1 else f"{n[0]:,} to {n[-1]:,}" for metric, n in sizes.items() if n}
    worst = f", {counts['worst_group_accuracy']} in the worst group" if "worst_group_accuracy" in counts else ""
    return f"Test items: {counts['accuracy']}{worst}." if "accuracy" in counts else ""


def _ladder(shown: Scores, table: Row, members: Sequence[Benchmark], looks: dict[str, Look], more: str) -> Figure:
    """Accuracy against distance: a line per method, the first method before the shift, and chance."""
    xs, first = [column["x"] for column in table["columns"]], table["rows"][0]["method"]
    start = [column_of(shown, benchmark.name, "accuracy", "id_test").get(first) for benchmark in members]
    chance = 1 / len(members[0].names["label"])
    ends = [end for row in table["rows"] for cell in row["cells"] if cell
            for end in (cell["value"], cell["low"]) if math.isfinite(end)]
    ends += [cell["value"] for cell in start if cell]
    y = scale([max(0.0, min(ends) - 0.02), 1.0], write=hundredths, least=0.0, most=1.0, ticks=7)
    pad = (max(xs) - min(xs)) * 0.06 or 0.1
    x = Scale(min(xs) - pad, max(xs) + pad, tuple((distance, f"{distance:.2f}") for distance in sorted(set(xs))))
    series = [Series(row["method"], looks.get(row["method"], Look()), [
        (distance, cell, f"{row['method']}, distance {distance:.2f}: {with_interval(cell)}")
        for distance, cell in zip(xs, row["cells"], strict=True) if cell and math.isfinite(cell["value"])])
        for row in table["rows"]]
    panels = []
    for width, room, after in ((760, 150, BEFORE), (380, 92, ", before")):
        before = Series(f"{first}{after}", Look(), [
            (distance, cell, "") for distance, cell in zip(xs, start, strict=True) if cell], "before")
        panels.append(lines("", [*series, before], x, y, ("distance between training and test", "accuracy, %"),
                            width=width, height=380, room=room, level=(chance, "chance", "chance")))
    table_rows = [(row["method"], column["benchmark"], column["x"], "test", *numbers(cell), cell["n"])
                  for row in table["rows"] for column, cell in zip(table["columns"], row["cells"], strict=True) if cell]
    table_rows += [(first, benchmark.name, distance, "id_test", *numbers(cell), cell["n"])
                   for benchmark, distance, cell in zip(members, xs, start, strict=True) if cell]
    return Figure(
        f"accuracy-by-distance{more}", f"{table['title']}: {table['columns'][0]['block'].lower()} against distance",
        "Test accuracy in per cent against the distance between training and test, one line per method with intervals.",
        tuple(panels[:1]), ("method", "benchmark", "distance", "split", "value", "low", "high", "n"), tuple(table_rows),
        narrow=tuple(panels[1:]))


def _shares(table: Row, looks: dict[str, Look], more: str) -> Figure:
    """Average and worst group of every method, a panel per share, all on one axis."""
    half = len(table["columns"]) // 2
    ends = [end for row in table["rows"] for cell in row["cells"] if cell
            for end in (cell["low"], cell["value"]) if math.isfinite(end)]
    x = scale([max(0.0, min(ends, default=0.0) - 0.02), 1.0], write=hundredths, least=0.0, most=1.0)
    panels, table_rows = [], []
    for number, column in enumerate(table["columns"][:half]):
        drawn = []
        for row in table["rows"]:
            average, worst = row["cells"][number], row["cells"][number + half]
            if average and worst:
                tooltip = f"{row['method']}: average {with_interval(average)}, worst group {with_interval(worst)} " \
                        f"({worst['group']}, n = {worst['n']:,})"
                ends = [end for end in (worst["low"], worst["high"]) if math.isfinite(end)]
                drawn.append(Entry(row["method"], looks.get(row["method"], Look()), title=tooltip, dots=(
                    Dot(average["value"], tooltip, style="hollow-dot"), Dot(worst["value"], tooltip)),
                    bridge=(worst["value"], average["value"]), extent=(ends[0], ends[1]) if ends else None))
                table_rows += [(row["method"], column["benchmark"], column["x"], name, *numbers(cell), cell["n"],
                                cell["group"])
                               for name, cell in (("accuracy", average), ("worst_group_accuracy", worst))]
        panels.append(rows(column["head"], drawn, x, left=96, height=25))
    return Figure(
        f"worst-group-by-share{more}", f"{table['title']}: average and worst group by the minority's share",
        "Full: worst group with its interval. Hollow: average. Per cent of test items.", tuple(panels),
        ("method", "benchmark", "share", "metric", "value", "low", "high", "n", "group"), tuple(table_rows),
        legends=legends([("worst group, with its interval", Look(1)), ("average", "hollow-dot")]))


# What the numbers say, in a sentence

def findings(shown: Scores, benchmarks: Sequence[Benchmark]) -> list[tuple[str, str]]:
    """Title and sentence of every family, then of the benchmarks that are not ranked by average accuracy."""
    by_accuracy = {member.name for member in benchmarks if member.target.has_classes and member.headline == ACCURACY}
    lines = [line for family in families(benchmarks) for line in _of_family(family_table(shown, family._replace(
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


def _of_family(table: Row) -> list[tuple[str, str]]:
    """Title and sentence: what a family's table shows about its first method and the best one at the hardest shift."""
    entries, columns = table["rows"], table["columns"]
    if not entries:
        return []
    first = entries[0]
    if table["kind"] == "other":
        half = len(columns) // 2
        return [line for number in range(min(half, MOST)) for line in _plain(entries, columns, number, number + half)]
    if table["kind"] == "distance":
        near, far = first["cells"][0], first["cells"][-1]
        if not near or not far:
            return []
        moved = "falls" if far["high"] < near["low"] else "goes"
        return [(f"{table['title']}, farther away.",
                 f"As the distance grows from {columns[0]['x']:.2f} to {columns[-1]['x']:.2f}, {first['method']} "
                 f"{moved} from {percent(near['value'])}\u00a0% to {percent(far['value'])}\u00a0% "
                 f"({columns[0]['block'].lower()})."
                 + best_in_words(entries, len(columns) - 1, "there"))]
    last = len(columns) - 1
    share = columns[last]["head"].removeprefix("p = ")
    return [(f"{table['title']}, rare groups.", f"With a minority share of {share}: {text}")
            for _, text in _plain(entries, columns, last // 2, last)]


def _plain(entries: Sequence[Row], columns: Sequence[Row], number: int, other: int) -> list[tuple[str, str]]:
    """One benchmark: average and worst group of the first method, and the method with the best worst group."""
    average, worst = entries[0]["cells"][number], entries[0]["cells"][other]
    if not average or not worst:
        return []
    return [(f"{columns[number]['benchmark']}.",
             f"{entries[0]['method']} has {percent(average['value'])}\u00a0% on average and "
             f"{percent(worst['value'])}\u00a0% in its worst group “{worst['group']}” (n\u00a0=\u00a0{worst['n']:,})."
             + best_in_words(entries, other, "for the worst group"))]


def best_in_words(entries: Sequence[Row], column: int, where: str, per: str = "\u00a0%") -> str:
    """Which method is ahead of which others in a column; empty where there is nothing to compare."""
    scored = [(row["method"], row["cells"][column]) for row in entries if row["cells"][column]]
    best = next((pair for pair in scored if pair[1]["best"]), None)
    tied = [method for method, cell in scored if cell["tied"]]
    if best is None:
        return f" The {len(scored)} methods do not differ significantly {where}." if tied else ""
    sentence = f" {best[0]} is {'ahead' if tied else 'best'} {where} with {in_unit(best[1]['value'], best[1])}{per}"
    if not tied:
        return sentence + ", significantly ahead of every other method."
    beaten = [method for method, cell in scored if not cell["tied"] and method != best[0]]
    return f"{sentence}: significantly ahead of {enumeration(beaten)}, but not of {enumeration(tied)}."
