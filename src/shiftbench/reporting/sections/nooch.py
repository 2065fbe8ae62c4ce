"""NOOCh (Madras and Zemel, 2021): the paper's tables and figures, and the items on which two methods differ most."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from shiftbench.core.errors import unknown
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores
from shiftbench.reporting.charts import (
    Figure,
    Guide,
    Look,
    Panel,
    Spot,
    around,
    legends,
    looks_of,
    numbers,
    plain,
    scale,
    scatter,
)
from shiftbench.reporting.page import Block, Chapter, Content, Results
from shiftbench.reporting.score_tables import Row, column_of, methods_in, methods_table, with_interval
from shiftbench.reporting.sections.nooch_items import (
    TOP,
    Compared,
    beaten,
    criterion,
    example_figures,
    losses_of,
    mean_losses,
    runs_of,
)
from shiftbench.scoring.hard_items import EASY, HARD, SIDES, kinds_of
from shiftbench.scoring.metrics import is_worst
from shiftbench.scoring.reading import RunIndex

SHOWN = 4
"""Tables of single benchmarks that stand open on the page."""
UNDER = ("After Madras and Zemel (2021): a hard positive shows the object without its usual surroundings, a hard "
         "negative the surroundings without the object; every other item is easy. Tables and figures have the "
         "numbers of the paper’s.")
FOOT = ("AUC is higher better, all else lower. AUC on hard items sets hard positives against hard negatives; “hard "
        "+” and “hard −” are the two sides alone, which have a loss but no AUC. Its interval is DeLong’s on the "
        "scale of the logit. ECE: the predicted class’s probability in 15 bins of equal width; being a sum of "
        "absolute values it is above 0 even for a calibrated model, and its interval reaches down as far as chance "
        "may have lifted it. Worst group: over label × strongest cue, or, where a question about factors told which "
        "items are hard, the worse of the two hard sides, as in Table 4.")
POSITIVE, NEGATIVE = SIDES
SPLITS = ("test", "id_test")
"""Splits to search for a set of items; easy items are in id_test where test has only hard ones."""
AVERAGE = "Average"
"""The last row of a table of tasks."""


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
SIDE = {POSITIVE: "positives", NEGATIVE: "negatives"}


class Point(NamedTuple):
    """A method, or a task, with a number across and a number up."""

    name: str
    x: Row
    y: Row


def content(results: Results) -> Content | None:
    """Tables, figures and the items on which two methods differ; None where no benchmark has scores of hard items."""
    benchmarks = nooch_in(results.benchmarks)
    names = [benchmark.name for benchmark in benchmarks]
    keep = np.isin(results.shown["benchmark"], names) & np.isin(results.shown["split"], SPLITS)
    shown = results.shown.take(keep)  # a small part of a large table, which is read many times
    tables = [numbers for benchmark in benchmarks if (numbers := table(shown, benchmark))]
    if not tables:
        return None
    scored = {numbers["name"] for numbers in tables}
    suites: dict[str, list[Benchmark]] = {}
    for benchmark in benchmarks:
        if benchmark.name in scored:
            suites.setdefault(criterion(benchmark), []).append(benchmark)
    groups = list(suites.values())
    pairs = compared(results.index, results.shown, benchmarks, results.compare) if results.index else []
    figures = [*_harder(shown, groups, results.level), *_figures(shown, groups, results.level)]
    examples = example_figures(benchmarks, results.images, lambda benchmark: {} if results.index is None else
                               mean_losses(results.index, results.shown, benchmark))
    differences = [pair.figure(results.images) for pair in pairs if pair.strips]
    suite_tables = [tasks(shown, members) for members in groups if len(members) > 1]
    blocks: list[Block] = [("under", {"text": UNDER})]
    blocks += [("table", {"table": suite, "head": "Task", "keyed": False, "caption": Markup(
        "<b>AUC on hard items</b>, {criterion}: hard positives against hard negatives, task by task (as in Tables 2 "
        "and 3); below each value its {level} % interval").format(**suite, level=f"{100 * results.level:g}")})
        for suite in suite_tables]
    blocks += _folded([("table", {"table": table, "form": "even tight", "keyed": False, "caption": Markup(
        "<b>{name}</b>, {criterion}. Test: {sizes}{seeds}").format(**table)}) for table in tables])
    blocks += [("foot", {"text": FOOT}), *(("plot", {"figure": figure}) for figure in figures)]
    blocks += [("sub", {"text": "Figures 1, 2 and 8. Hard items, and where the criteria disagree"})] if examples else []
    blocks += [("folded", {"summary": f"{example['figure']}: {example['name']}", "open": example is examples[0],
                           "blocks": list(map(_example, example["strips"]))}) for example in examples]
    blocks += [("sub", {"text": "Figures 7 and 8. Where two methods differ most"})] if differences else []
    blocks += [("folded", {
        "summary": f"{pair['name']}: {' and '.join(pair['methods'])}", "open": number < SHOWN, "blocks": [
            ("under", {"text": f"Hard test items with the largest difference in loss (NLL{pair['seeds']}), the largest "
                               "first."}), *map(_versus, pair["strips"])]}) for number, pair in enumerate(differences)]
    return {"chapters": [Chapter("nooch", "Out-of-context challenge (NOOCh)", blocks)], "figures": figures,
            "compared": differences}


def _folded(tables: list[Block]) -> list[Block]:
    """The first tables, and the others folded away."""
    more = len(tables) - SHOWN
    return tables if more <= 0 else [
        *tables[:SHOWN], ("folded", {"summary": f"{more} more benchmarks", "blocks": tables[SHOWN:]})]


def _example(strip: Row) -> Block:
    besides = f"; easy by the other ({strip['besides']})" if strip["besides"] else ""
    return "strip", {"entries": strip["entries"],
                     "caption": Markup("<b>{kind}s</b>, {criterion}{besides}").format(**strip | {"besides": besides})}


def _versus(strip: Row) -> Block:
    kinds = f"{strip['kind']} items" if strip["kind"] == "hard" else f"{strip['kind']}s"
    return "strip", {"entries": strip["entries"], "bold": True,
                     "caption": Markup("<b>{better}</b> better than {worse}, {kinds}").format(**strip, kinds=kinds)}


def _figures(shown: Scores, suites: Sequence[Sequence[Benchmark]], level: float) -> list[Figure]:
    """Hard against easy items, by AUC, NLL and calibration error (Figures 4 to 6)."""
    several = any(len(members) > 1 for members in suites)
    drawn = []
    for metric, head, axes, better in (
        ("auc", "Figure 4. AUC on hard and easy items", ((EASY, HARD),), "Higher is better on both"),
        ("nll", "Figure 5. NLL on hard positives, hard negatives and easy items",
         ((NEGATIVE, POSITIVE), (EASY, POSITIVE), (EASY, NEGATIVE)), "Lower is better on both"),
        ("ece", "Figure 6. Calibration error on hard and easy items", ((EASY, HARD),), "Lower is better on both"),
    ):
        panels = [(f"{criterion(members[0])}{_tasks_in_words(members)}", across, up, dots) for members in suites
                  for across, up in axes if (dots := points(shown, members, (metric, across), (metric, up)))]
        looks = looks_of(methods_in(point.name for *_, dots in panels for point in dots))
        if panels:
            drawn.append(_figure(
                f"nooch-{metric}", head,
                f"A point is a method{', averaged over the tasks' if several else ''}, its lines the {100 * level:g} % "
                f"intervals{' (the mean of the tasks’)' if several else ''}. {better}; on the dashed line both are the "
                "same.", looks,
                [points_panel(dots, title, tuple(f"{metric.upper()}, {_items(side)}" for side in (across, up)), looks,
                              most=math.inf if metric == "nll" else 1.0) for title, across, up, dots in panels],
                [(title, point.name, f"{metric} {side}", *numbers(cell))
                 for title, across, up, dots in panels for point in dots
                 for side, cell in ((across, point.x), (up, point.y))]))
    return drawn


def _harder(shown: Scores, suites: Sequence[Sequence[Benchmark]], level: float) -> list[Figure]:
    """Figure 3: whether the hard items are harder, task by task."""
    method = next(iter(methods_in(shown.names.tolist())), "")
    looks = looks_of(benchmark.name for members in suites for benchmark in members)
    panels, table = [], []
    for members in suites:
        for side, word in SIDE.items():
            tasks_ = harder(shown, members, side, method)
            if tasks_:
                title = f"{criterion(members[0])}: {word}"
                names = f"NLL, all {word}", f"NLL, hard {word}"
                panels.append(points_panel(tasks_, title, names, looks, square=True))
                table += [(title, point.name, name, *numbers(cell))
                          for point in tasks_ for name, cell in zip(names, point[1:], strict=True)]
    return [] if not panels else [_figure(
        "nooch-harder", "Figure 3. Hard items have a higher loss",
        f"A point is a task: the mean loss of {method} on all {' or '.join(SIDE.values())} and on hard ones, with the "
        f"latter’s {100 * level:g} % interval. Above the dashed line hard items are the harder.", looks, panels,
        table)]


def points_panel(dots: Sequence[Point], title: str, names: Sequence[str], looks: Mapping[str, Look], *,
                 most: float = math.inf, square: bool = False) -> Panel:
    """One number against another, with the line on which both are the same; `square` makes both axes the same."""
    sides = [point.x for point in dots], [point.y for point in dots]
    x, y = (scale(around([*sides[0], *sides[1]] if square else side), write=plain, least=0.0, most=most)
            for side in sides)
    spots = [Spot(point.x, point.y, looks[point.name],
                  f"{point.name}: {names[0]} {with_interval(point.x, _three, '')}, "
                  f"{names[1]} {with_interval(point.y, _three, '')}") for point in dots]
    return scatter(title, spots, x, y, (names[0], names[1]), [Guide("same", "both the same", 1.0)])


def _three(value: float) -> str:
    return f"{value:.3f}"


def _items(side: str) -> str:
    return f"{side.replace('_', ' ')}s" if side in SIDES else f"{side} items"


def _tasks_in_words(members: Sequence[Benchmark]) -> str:
    return f", {len(members)} tasks" if len(members) > 1 else f": {members[0].name}"


def _figure(name: str, head: str, definition: str, looks: Mapping[str, Look], panels: Sequence[Panel],
            table: Sequence[tuple[Any, ...]]) -> Figure:
    return Figure(name, head, definition, tuple(panels), ("panel", "name", "quantity", "value", "low", "high"),
                  tuple(table), legends=legends([*looks.items(), ("both the same", "same")]))


# The scores of every method on hard and easy items, side by side

def nooch_in(benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """The benchmarks whose rows say which are hard, each name once."""
    return list({benchmark.name: benchmark for benchmark in benchmarks
                 if kinds_of(benchmark, np.arange(len(benchmark))) is not None}.values())


def cells(scores: Scores, benchmark: Benchmark, metric: str, group: str) -> dict[str, Row]:
    """Method -> cell of `pivot` on the first split that has it; a worst group's accuracy becomes its error."""
    rows = scores.where(benchmark=benchmark.name)
    for split in SPLITS:
        scored = {name: cell for name, cell in column_of(rows, benchmark.name, metric, split, group or None).items()
                  if cell["n"]}
        if scored:
            errors = {name: {"value": 1 - cell["value"], "low": 1 - cell["high"], "high": 1 - cell["low"]}
                      for name, cell in scored.items()} if metric == "worst_group_accuracy" else {}
            return {name: {**cell, **errors.get(name, {}), "unit": "number"} for name, cell in scored.items()}
    return {}


def table(scores: Scores, benchmark: Benchmark) -> Row | None:
    """Methods × numbers of one benchmark; None where none has a score of hard or easy items."""
    by_question = (benchmark.card.get("criterion") or {}).get("name") == "factors"
    columns = [({**column._asdict(), "worst": is_worst(column.metric)}, by_method)
               for column in (*COLUMNS, *(WORSE if by_question else WORST))
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


# Two methods item by item

def compared(
    index: RunIndex, shown: Scores, benchmarks: Sequence[Benchmark], pair: Sequence[str] = (), top: int = TOP
) -> list[Compared]:
    """Two methods on every benchmark with hard items, on the runs that the page shows; losses are means over seeds.

    Without a pair, the baseline and whichever other method has the largest AUC on hard items.
    """
    comparisons = []
    for benchmark in benchmarks:
        runs = runs_of(shown, benchmark)
        for name in pair:
            if name not in runs:
                raise unknown("method", name, methods_in(runs), f"Runs on '{benchmark.name}'")
        loss = {name: losses_of(index, benchmark, runs[name]) for name in tuple(pair) or _usual(shown, benchmark, runs)}
        if len(loss) == 2 and all(loss.values()):
            first, second = loss
            means = {name: np.mean(by_seed, axis=0) for name, by_seed in loss.items()}
            comparisons.append(Compared(benchmark, (first, second), (len(loss[first]), len(loss[second])), means,
                                        beaten(benchmark, means, top)))
    return comparisons


def _usual(shown: Scores, benchmark: Benchmark, runs: Mapping[str, object]) -> tuple[str, ...]:
    hard = {name: cell["value"] for name, cell in cells(shown, benchmark, "auc", HARD).items()
            if name in runs and not np.isnan(cell["value"])}
    first = next(iter(methods_in(runs)), "")
    others = [name for name in methods_in(hard) if name != first]
    return (first, max(others, key=lambda name: hard[name])) if others else ()
