"""NOOCh (Madras and Zemel, 2021): the paper's tables and figures, and the items on which two methods differ most."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores
from shiftbench.reporting.charts import (
    Cell,
    Figure,
    Guide,
    Look,
    Panel,
    Scale,
    Spot,
    around,
    legends,
    looks_of,
    plain,
    scale,
    scatter,
)
from shiftbench.reporting.page import Block, Chapter, Content, Results
from shiftbench.reporting.score_tables import Row, methods_in, with_interval
from shiftbench.reporting.sections.nooch_items import compared, example_figures, mean_losses
from shiftbench.reporting.sections.nooch_scores import (
    NEGATIVE,
    POSITIVE,
    SPLITS,
    Point,
    criterion,
    harder,
    nooch_in,
    points,
    table,
    tasks,
)
from shiftbench.scoring.hard_items import EASY, HARD, SIDES

SHOWN = 4
"""Tables of single benchmarks that stand open on the page."""
UNDER = ("After Madras and Zemel (2021): a hard positive shows the object without its usual surroundings, a hard "
         "negative the surroundings without the object; every other item is easy. Tables and figures have the "
         "numbers of the paper’s.")
FOOT = ("AUC is higher better, all else lower. AUC on hard items sets hard positives against hard negatives; “hard "
        "+” and “hard −” are the two sides alone, which have a loss but no AUC. Its interval is DeLong’s on the "
        "scale of the logit. ECE: the predicted class’s probability in 15 bins of equal width; being a sum of "
        "absolute values it is above 0 even for a calibrated model, and its interval reaches down as far as chance "
        "may have lifted it. Worst group: over label × strongest cue, or, where hard items were told by a question, "
        "the worse of the two hard sides, as in Table 4.")
SIDE = {POSITIVE: "positives", NEGATIVE: "negatives"}


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


def _folded(tables: "list[Block]") -> "list[Block]":
    """The first tables, and the others folded away."""
    more = len(tables) - SHOWN
    return tables if more <= 0 else [
        *tables[:SHOWN], ("folded", {"summary": f"{more} more benchmarks", "blocks": tables[SHOWN:]})]


def _example(strip: Row) -> "Block":
    besides = f"; easy by the other ({strip['besides']})" if strip["besides"] else ""
    return "strip", {"entries": strip["entries"],
                     "caption": Markup("<b>{kind}s</b>, {criterion}{besides}").format(**strip | {"besides": besides})}


def _versus(strip: Row) -> "Block":
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
                [(title, point.name, f"{metric} {side}", cell["value"], cell["low"], cell["high"])
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
                table += [(title, point.name, name, cell["value"], cell["low"], cell["high"])
                          for point in tasks_ for name, cell in zip(names, point[1:], strict=True)]
    return [] if not panels else [_figure(
        "nooch-harder", "Figure 3. Hard items have a higher loss",
        f"A point is a task: the mean loss of {method} on all {' or '.join(SIDE.values())} and on hard ones, with the "
        f"latter’s {100 * level:g} % interval. Above the dashed line hard items are the harder.", looks, panels,
        table)]


def points_panel(dots: Sequence[Point], title: str, names: Sequence[str], looks: Mapping[str, Look], *,
                 most: float = math.inf, square: bool = False) -> Panel:
    """One number against another, with the line on which both are the same; `square` makes both axes the same."""
    across, up = [point.x for point in dots], [point.y for point in dots]
    x, y = _loss([*across, *up] if square else across, most), _loss([*across, *up] if square else up, most)
    spots = [Spot(point.x, point.y, looks[point.name],
                  f"{point.name}: {names[0]} {with_interval(point.x, _three, '')}, "
                  f"{names[1]} {with_interval(point.y, _three, '')}") for point in dots]
    return scatter(title, spots, x, y, (names[0], names[1]), [Guide("same", "both the same", 1.0)])


def _loss(cells: Sequence[Cell], most: float) -> Scale:
    return scale(around(cells), write=plain, least=0.0, most=most)


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
