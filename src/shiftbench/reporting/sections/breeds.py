"""BREEDS (Santurkar, Tsipras and Mądry, 2021): a table per benchmark, and the paper's figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, Scores
from shiftbench.models.names import seen_note
from shiftbench.reporting.charts import (
    Bar,
    Entry,
    Figure,
    Guide,
    Look,
    Panel,
    Series,
    Spot,
    around,
    hundredths,
    legends,
    lines,
    looks_of,
    numbers,
    rows,
    scale,
    scatter,
    shares,
    steps,
)
from shiftbench.reporting.page import HUMAN, PAIRWISE, Block, Chapter, Content, Results
from shiftbench.reporting.score_tables import Row, column_of, methods_in, methods_table, seeds_in_words, with_interval
from shiftbench.reporting.sections.breeds_points import (
    SOURCE,
    TARGET,
    Pair,
    Point,
    by_model,
    by_superclass,
    constant_drop,
    families,
    frontier,
    points,
    split_of,
)
from shiftbench.reporting.sections.families import distance_of
from shiftbench.scoring.metrics import percent
from shiftbench.shifts.in_distribution import reference_facts

Tasks = list[tuple[Benchmark, list[Point]]]
QUANTITIES = {"source": "Source accuracy", "target": "Target accuracy", "rt": "Target-RT accuracy"}
ON_TARGET = {"target": ("target", "dot"), "rt": ("target-RT", "hollow-dot"),
             "whole": ("trained on the target", "pale-dot")}
"""Accuracies on the target: what figures call them, and how they are drawn."""
TABLE = {"source": ("Source", "id_test"), "target": ("Target", "test"), "rt": ("Target-RT", "last layer retrained"),
         "whole": ("Target-trained", "end to end"), "relative": ("Relative", "target / source"),
         "drop": ("Drop", "points lost")}
"""Columns of a benchmark's table: a field of a point, its head and the text under it."""
UNDER = ("After Santurkar, Tsipras and Mądry (2021): a model learns superclasses from some of their subclasses, the "
         "source, and is tested on others, the target. Figures have the numbers of the paper’s.")
FOOT = Markup("Relative accuracy: percentiles of 10,000 draws of target over source, for one run a bootstrap over "
              "items, for a mean over seeds draws from the intervals of the two means, which are over items and "
              "seeds. It takes source and target as independent: their items are not the same, and what a seed does "
              "to both is left out, which as a rule makes the interval too wide rather than too narrow.")
RETRAINED = Markup(" Target-RT: the last layer trained on target items that are in no other split, its learning rate "
                   "chosen on <code>val</code>; the paper chooses it on the test.")
RETRAIN = Markup(" <code>shiftbench retrain RUNS</code> adds target-RT.")
COLUMNS = ("benchmark", "model", "quantity", "value", "low", "high")


def content(results: Results) -> Content | None:
    """A table per benchmark and the paper's figures; None where no benchmark has a source and a target accuracy."""
    benchmarks = list({benchmark.name: benchmark for benchmark in results.benchmarks
                       if benchmark.card.get("shift") == "breeds"}.values())
    shown = by_model(results.scores, benchmarks, results.rule)
    references = {facts["shifted"]["name"]: benchmark for benchmark in benchmarks
                  if (facts := reference_facts(benchmark.card)) and facts["name"] == "test-to-test"}
    tasks = [(benchmark, models) for benchmark in benchmarks if not reference_facts(benchmark.card)
             and (models := points(shown, benchmark, results.level, references.get(benchmark.name)))]
    if not tasks:
        return None
    measured = [name for name in ON_TARGET if any(getattr(point, name) for _, models in tasks for point in models)]
    tables = [_table(benchmark, models, measured) for benchmark, models in tasks]
    figures = _figures(shown, results, tasks, measured)
    seen = _seen([benchmark for benchmark, _ in tasks], results)
    blocks: list[Block] = [("under", {"text": UNDER}), *([("notes", {"lines": seen})] if seen else [])]
    blocks += [("table", {"table": table, "form": "even models", "head": "Model", "keyed": False, "caption": Markup(
        "<b>{name}</b>: {about}; {n}. Per cent{seeds}; below each value its {level} % interval").format(
            **table, level=f"{100 * results.level:g}")}) for table in tables]
    blocks += [("foot", {"text": FOOT + (RETRAINED if "rt" in measured else RETRAIN)}),
               *(("plot", {"figure": figure}) for figure in figures)]
    return {"chapters": [Chapter("breeds", "Subpopulation shift (BREEDS)", blocks)], "tables": tables,
            "figures": figures}


def _seen(benchmarks: Sequence[Benchmark], results: Results) -> list[str]:
    """What the runs' pretrained weights have seen of the targets, one sentence each."""
    by_digest = {benchmark.digest: benchmark for benchmark in benchmarks}
    runs = results.index.runs if results.index else ()
    notes = [seen_note(run.settings, by_digest[digest]) for run in runs
             if (digest := str(run.benchmark["digest"])) in by_digest]
    return sorted(set(filter(None, notes)))


def _table(benchmark: Benchmark, models: Sequence[Point], measured: Sequence[str]) -> Row:
    superclasses = benchmark.card.get("superclasses") or []
    sides = [sorted({len(superclass.get(side) or []) for superclass in superclasses}) for side in ("source", "target")]
    counted = " and ".join(f"{_few(side)} {word}" for side, word in zip(sides, ("source", "target"), strict=True)
                           if side)
    apart = distance_of(benchmark)
    about = [f"{len(benchmark.names['label'])} superclasses"]
    about += [f"each {counted} subclasses"] if counted else []
    about += [f"split {split_of(benchmark)}"] if split_of(benchmark) else []
    about += [f"separation {apart:.2f}"] if apart is not None else []
    table = methods_table([({"head": head, "under": under}, {point.name: getattr(point, name) for point in models})
                           for name, (head, under) in TABLE.items() if name != "whole" or "whole" in measured])
    return {**table, "name": benchmark.name, "about": ", ".join(about),
            "seeds": seeds_in_words({point.name: {point.target["runs"]} for point in models}),
            "n": f"{models[0].source['n']:,} source and {models[0].target['n']:,} target items"}


def _few(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _figures(shown: Scores, results: Results, tasks: Tasks, measured: Sequence[str]) -> list[Figure]:
    """Every figure that applies, in the order of the page."""
    names = methods_in(point.name for _, models in tasks for point in models)
    looks, sure = looks_of(names), f"{100 * results.level:g}"
    key = list(looks.items())
    more = " Hollow: the same model with its last layer trained on the target." if "rt" in measured else ""
    more += " Pale: the same model trained end to end on the target." if "whole" in measured else ""
    drawn = [Figure(
        "breeds-source-target", "Figure 5. Source against target accuracy",
        f"A point is a model, its lines the {sure} % intervals. Dashed: no drop. Grey: every model loses the share "
        f"that the one weakest on the source loses; above it a model is more robust and not only more accurate.{more}",
        tuple(source_against_target(models, benchmark.name, looks) for benchmark, models in tasks), COLUMNS,
        _accuracies(tasks, ("source", *ON_TARGET)),
        legends=legends([*key, ("identity", "same"), ("constant drop", "drop"),
                         *(ON_TARGET[name] for name in measured[1:])]))]
    robust = [(benchmark, kept) for benchmark, models in tasks
              if (kept := [point for point in models if point.relative])]
    drawn += [
        Figure("breeds-relative", "Figure 6. Relative accuracy against source accuracy",
               f"Relative accuracy is target over source accuracy. Dashed: the Pareto frontier, models that no other "
               f"beats in both. Lines: {sure} % intervals, of relative accuracy by a bootstrap.",
               tuple(_pareto(models, benchmark.name, looks) for benchmark, models in robust), COLUMNS,
               _accuracies(robust, ("source", "relative")), legends=legends([*key, ("Pareto frontier", "same")])),
        _retrained(tasks, looks, sure), _classes(shown, tasks, looks, results.level)]
    drawn += [_splits(members, tasks, looks, "" if not number else f"-{number + 1}")
              for number, members in enumerate(families([benchmark for benchmark, _ in tasks]))]
    drawn += [_humans(results.scores, tasks, sure), _over_pairs(results.scores, tasks, sure)]
    return [figure for figure in drawn if figure.panels]


def _accuracies(tasks: Tasks, names: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    """The table of a figure: these fields of every point that has them."""
    return tuple((benchmark.name, point.name, name, *numbers(cell)) for benchmark, models in tasks for point in models
                 for name in names if (cell := getattr(point, name)))


def source_against_target(models: Sequence[Point], title: str, looks: Mapping[str, Look]) -> Panel:
    """Target accuracy against source accuracy, before and after training on the target (Figure 5)."""
    weakest, kept = constant_drop([point.source["value"] for point in models],
                                  [point.target["value"] for point in models])
    spots = [Spot(point.source, cell, looks[point.name],
                  f"{point.name}: source {with_interval(point.source)}, {word} {with_interval(cell)}", style)
             for name, (word, style) in reversed(ON_TARGET.items()) for point in models
             if (cell := getattr(point, name))]
    x, y = shares(spot.x for spot in spots), shares([*(spot.y for spot in spots), *(spot.x for spot in spots)])
    drop = f"constant drop: what {models[weakest].name} keeps, {percent(kept)} % of its source accuracy"
    return scatter(title, spots, x, y, ("source accuracy, %", "target accuracy, %"), [
        Guide("same", "identity: no drop", 1.0), Guide("drop", drop, kept)])


def _pareto(models: Sequence[Point], title: str, looks: Mapping[str, Look]) -> Panel:
    """Relative accuracy against source accuracy, with the Pareto frontier dashed (Figure 6)."""
    cells = [point.relative for point in models if point.relative]
    best = frontier([point.source["value"] for point in models], [cell["value"] for cell in cells])
    x, y = shares(point.source for point in models), scale(around(cells), write=hundredths, least=0.0)
    edge = [(models[number].source["value"], cells[number]["value"]) for number in best]
    edge = [(x.low, edge[0][1]), *edge, (edge[-1][0], y.low)]  # a model inside is dominated
    spots = [Spot(point.source, cell, looks[point.name],
                  f"{point.name}: source {with_interval(point.source)}, relative "
                  f"{with_interval(cell)}{', on the frontier' if number in best else ''}")
             for number, (point, cell) in enumerate(zip(models, cells, strict=True))]
    return scatter(title, spots, x, y, ("source accuracy, %", "relative accuracy, %"),
                   [Guide("same", "Pareto frontier", points=tuple(edge))])


def _retrained(tasks: Tasks, looks: Mapping[str, Look], sure: str) -> Figure:
    """Target accuracy before and after the last layer was trained on the target, the highest first (Figure 21)."""
    retrained = [(benchmark, sorted((Pair(point.name, point.target, point.rt) for point in models if point.rt),
                                    key=lambda pair: -pair.after["value"])) for benchmark, models in tasks]
    panels = [_bars(pairs, benchmark.name, looks, ("target", "target-RT")) for benchmark, pairs in retrained if pairs]
    return Figure(
        "breeds-retrained", "Figure 21. Target accuracy after the last layer was trained on the target",
        f"Accuracy on the target, of the model as it was trained on the source (pale) and with its last layer trained "
        f"on the target (full). Lines: {sure} % intervals.", tuple(panels), COLUMNS,
        tuple((benchmark.name, pair.name, name, *numbers(cell)) for benchmark, pairs in retrained for pair in pairs
              for name, cell in (("target", pair.before), ("rt", pair.after))))


def _classes(shown: Scores, tasks: Tasks, looks: Mapping[str, Look], level: float) -> Figure:
    panels, table = [], []
    for benchmark, models in tasks:
        best = max(models, key=lambda point: point.source["value"])
        classes = by_superclass(shown, benchmark, best.name, level)
        if classes:
            panels.append(_bars(classes, f"{benchmark.name}: {best.name}", looks[best.name]))
            table += _sides(benchmark.name, best.name, classes)
    return Figure(
        "breeds-classes", "Figures 16 to 18. Every superclass",
        "Accuracy on the source (pale) and on the target (full) of the items of each superclass, for the model that is "
        f"best on the source, in the order of the drop. Lines: {100 * level:g} % intervals.", tuple(panels),
        ("benchmark", "model", "superclass", "split", "value", "low", "high", "n"), tuple(table))


def _bars(
    pairs: Sequence[Pair], title: str, looks: Look | Mapping[str, Look], sides: tuple[str, str] = ("source", "target")
) -> Panel:
    """Two bars per row, before pale and after full, with their intervals; one look for all, or one per name."""
    before, after = sides
    entries = [Entry(pair.name, looks if isinstance(looks, Look) else looks[pair.name],
                     (Bar(pair.before, "pale-bar"), Bar(pair.after)),
                     title=f"{pair.name}: {before} {with_interval(pair.before)}, {after} {with_interval(pair.after)}",
                     number=f"{percent(pair.before['value'])} → {percent(pair.after['value'])}") for pair in pairs]
    return rows(title, entries, shares(ticks=3), right=88, height=30)


def _sides(benchmark: str, model: str, pairs: Sequence[Pair]) -> list[tuple[Any, ...]]:
    return [(benchmark, model, pair.name, split, *numbers(cell), cell["n"]) for pair in pairs
            for split, cell in ((SOURCE, pair.before), (TARGET, pair.after))]


def _splits(members: Sequence[Benchmark], tasks: Tasks, looks: Mapping[str, Look], more: str) -> Figure:
    """Figure 20: a panel per measure, all on one axis."""
    by_name = {benchmark.name: {point.name: point for point in models} for benchmark, models in tasks}
    splits = [split_of(benchmark) for benchmark in members]
    cells = {quantity: {name: [getattr(by_name[benchmark.name].get(name), quantity, None) for benchmark in members]
                        for name in looks} for quantity in QUANTITIES}
    y = shares(cell for curves in cells.values() for row in curves.values() for cell in row if cell)
    unders = ["" if distance_of(benchmark) is None else f"{distance_of(benchmark):.2f}" for benchmark in members]
    panels = [lines(QUANTITIES[quantity], [Series(name, looks[name], [
        (float(step), cell, f"{name}, {splits[step]}: {with_interval(cell)}")
        for step, cell in enumerate(row) if cell], title=name) for name, row in curves.items() if any(row)],
        steps(splits), y, ("", ""), unders=unders)
        for quantity, curves in cells.items() if any(any(row) for row in curves.values())]
    return Figure(
        f"breeds-splits{more}", "Figure 20. Easier and harder splits of the same superclasses",
        f"{', '.join(benchmark.name for benchmark in members)}: source and target subclasses of the same superclasses, "
        "split in other ways, evenly spaced in the order of their separation (the number below: how far the two sides "
        "share no relatives, 0 to 1).", tuple(panels),
        ("benchmark", "split", "separation", "model", "quantity", "value", "low", "high"),
        tuple((benchmark.name, split_of(benchmark), distance_of(benchmark), name, quantity, *numbers(cell))
              for quantity, curves in cells.items() for name, row in curves.items()
              for benchmark, cell in zip(members, row, strict=True) if cell), legends=legends(list(looks.items())))


def _humans(scores: Scores, tasks: Tasks, sure: str) -> Figure:
    """Annotators and models on pairs of superclasses, where a human study was scored (Figure 4)."""
    panels, table = [], []
    for benchmark, _ in tasks:
        sides = [column_of(scores, benchmark.name, PAIRWISE, split) for split in (SOURCE, TARGET)]
        both = [name for name in sides[0] if name in sides[1]]
        if HUMAN in both:
            order = [HUMAN, *sorted((name for name in both if name != HUMAN),
                                    key=lambda model: -sides[0][model]["value"])]
            pairs = [Pair(name, sides[0][name], sides[1][name]) for name in order]
            panels.append(_bars(pairs, benchmark.name, Look(1)))
            table += [(row[0], *row[2:]) for row in _sides(benchmark.name, "", pairs)]
    return Figure(
        "breeds-humans", "Figure 4. Annotators and models on pairs of superclasses",
        "Share of items assigned to the right one of two superclasses, source (pale) and target (full). Annotators "
        f"were shown source images of both and no names; a model takes the one it scores higher. Lines: "
        f"{sure} % intervals.", tuple(panels), ("benchmark", "who", "split", "value", "low", "high", "n"),
        tuple(table))


def _over_pairs(scores: Scores, tasks: Tasks, sure: str) -> Figure:
    """How annotators' accuracy is distributed over pairs of superclasses, one curve per benchmark (Figure 15)."""
    pairs = scores.where(method=HUMAN, metric=PAIRWISE)
    pairs = pairs.take(pairs["group"] != ALL)
    looks = looks_of(benchmark.name for benchmark, _ in tasks if benchmark.name in pairs["benchmark"])
    ordered = {(split, name): sorted(pairs.where(benchmark=name, split=split),
                                     key=lambda row: (row["value"], row["group"]))
               for split in (SOURCE, TARGET) for name in looks}
    x, y = shares(), shares(row for ranked in ordered.values() for row in ranked)
    panels = []
    for title, split in (("Source, no shift", SOURCE), ("Target", TARGET)):
        curves = [Series(name, looks[name], [
            ((number + 0.5) / len(ranked), row, f"{name}, {row['group']}: {with_interval(row)}")
            for number, row in enumerate(ranked)], title=name) for name in looks if (ranked := ordered[split, name])]
        if curves:
            panels.append(lines(title, curves, x, y, ("pairs, % from the hardest on", "annotators' accuracy, %")))
    return Figure(
        "breeds-pairs", "Figure 15. Annotators over pairs of superclasses",
        "Every point is a pair of superclasses, from the hardest to the easiest, and its height the share of images "
        f"that annotators assigned to the right one of the two. Lines: {sure} % intervals.", tuple(panels),
        ("benchmark", "pair", "split", "value", "low", "high", "n"),
        tuple((name, row["group"], split, *numbers(row), row["n"])
              for (split, name), ranked in ordered.items() for row in ranked),
        legends=legends(list(looks.items())))
