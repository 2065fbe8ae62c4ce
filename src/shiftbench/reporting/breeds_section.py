"""What the page shows of BREEDS' benchmarks, and the same figures as files that stand alone."""

import math
from collections.abc import Sequence

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores
from shiftbench.reporting.breeds import (
    HUMAN,
    PAIRWISE,
    SOURCE,
    TARGET,
    Point,
    breeds_in,
    by_model,
    families,
    points,
    separation,
    split_of,
)
from shiftbench.reporting.breeds_figures import Figure, bars, legend, looks_of, pareto, scatter, steps
from shiftbench.reporting.breeds_numbers import Classed, by_class, constant_drop
from shiftbench.reporting.standalone import in_rows, standalone
from shiftbench.reporting.tables import Row, methods_in, percent, pivot
from shiftbench.reporting.words import seeds_in_words
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.select import DEFAULT

WIDE, NARROW = 1120, 360
SAME = {"name": "identity", "sign": "same", "colour": "", "shape": 0}
DROP = {"name": "constant drop", "sign": "drop", "colour": "", "shape": 0}
HOLLOW = {"name": "target-RT", "sign": "hollow", "colour": "--c: var(--m0)", "shape": 0}


def section(scores: Scores, benchmarks: Sequence[Benchmark], level: float = LEVEL, rule: str = DEFAULT) -> Row | None:
    """All that the page's section needs, from all scores; None where no benchmark of the shift has any."""
    found = _found(scores, benchmarks, level, rule)
    if not found:
        return None
    shown, tasks = found
    humans = any(PAIRWISE in scores.where(benchmark=one.name, method=HUMAN)["metric"] for one, _ in tasks)
    return {"tables": [_table(one, listed) for one, listed in tasks], "figures": _figures(shown, scores, tasks, level),
            "retrained": any(point.rt for _, listed in tasks for point in listed), "humans": humans}


def breeds_figures(scores: Scores, benchmarks: Sequence[Benchmark], *, level: float = LEVEL, rule: str = DEFAULT
                   ) -> dict[str, str]:
    """Each figure as the text of an SVG file that carries its own colours, light and dark, by name.

    Names: breeds-source-target, breeds-relative, breeds-classes, breeds-splits, breeds-humans; those that the scores
    have nothing for are missing.
    """
    found = _found(scores, benchmarks, level, rule)
    return {one["name"]: _alone(one) for one in _figures(found[0], scores, found[1], level)} if found else {}


Tasks = list[tuple[Benchmark, list[Point]]]


def _found(scores: Scores, benchmarks: Sequence[Benchmark], level: float, rule: str) -> tuple[Scores, Tasks] | None:
    mine = list({one.name: one for one in breeds_in(benchmarks)}.values())
    if not mine:
        return None
    shown = by_model(scores, mine, rule)
    tasks = [(one, listed) for one in mine if (listed := points(shown, one, level))]
    return (shown, tasks) if tasks else None


def _table(benchmark: Benchmark, listed: Sequence[Point]) -> Row:
    superclasses = benchmark.card.get("superclasses") or []
    sides = [sorted({len(one.get(side) or []) for one in superclasses}) for side in ("source", "target")]
    counted = " and ".join(f"{_few(side)} {word}" for side, word in zip(sides, ("source", "target"), strict=True)
                           if side)
    apart = separation(benchmark)
    about = [f"{len(benchmark.names['label'])} superclasses"]
    about += [f"each {counted} subclasses"] if counted else []
    about += [f"split {split_of(benchmark)}"] if split_of(benchmark) else []
    about += [f"separation {apart:.2f}"] if apart is not None else []
    weakest, kept = constant_drop([one.source["value"] for one in listed], [one.target["value"] for one in listed])
    rows = [{"name": one.name, "source": one.source, "target": one.target, "rt": one.rt, "drop": one.drop,
             "relative": one.relative and {**one.relative._asdict(), "best": False, "tied": False}} for one in listed]
    return {"name": benchmark.name, "about": ", ".join(about), "rows": rows,
            "seeds": seeds_in_words({one.name: {one.target["runs"]} for one in listed}),
            "n": f"{listed[0].source['n']:,} source and {listed[0].target['n']:,} target items",
            "kept": f"{listed[weakest].name} keeps {percent(kept)} %" if math.isfinite(kept) else ""}


def _few(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _figures(shown: Scores, scores: Scores, tasks: Tasks, level: float) -> list[Row]:
    """Every figure there is, in the order of the page: name, head, definition, legends and panels."""
    names = methods_in(point.name for _, listed in tasks for point in listed)
    looks = looks_of(names)
    sure, retrained = f"{100 * level:g}", any(point.rt for _, listed in tasks for point in listed)
    rt = " Hollow: the same model with its last layer trained on the target." if retrained else ""
    made = [_figure(
        "breeds-source-target", "Figure 5. Source against target accuracy",
        f"A point is a model, its lines the {sure} % intervals. Dashed: no drop. Grey: every model loses the share "
        f"that the one weakest on the source loses; above it a model is more robust and not only more accurate.{rt}",
        names, looks, [scatter(listed, one.name, looks) for one, listed in tasks],
        [SAME, DROP, *([HOLLOW] if retrained else [])])]
    some = [(one, listed) for one, listed in tasks if any(point.relative for point in listed)]
    if some:
        made.append(_figure(
            "breeds-relative", "Figure 6. Relative accuracy against source accuracy",
            f"Relative accuracy is target over source accuracy. Dashed: the Pareto frontier, models that no other "
            f"beats in both. Lines: {sure} % intervals, of relative accuracy by a bootstrap.", names, looks,
            [pareto(listed, one.name, looks) for one, listed in some], [SAME | {"name": "Pareto frontier"}]))
    made += _classes(shown, tasks, looks, level)
    for place, family in enumerate(families([one for one, _ in tasks])):
        made += _splits(family.members, tasks, names, looks, "" if not place else f"-{place + 1}")
    made += _humans(scores, tasks, sure)
    return made


def _classes(shown: Scores, tasks: Tasks, looks: dict[str, Figure], level: float) -> list[Row]:
    panels = []
    for benchmark, listed in tasks:
        best = max(listed, key=lambda one: one.source["value"])
        rows = classes(shown, benchmark, best.name, level)
        if rows:
            panels.append(bars(rows, f"{benchmark.name}: {best.name}", looks[best.name]["colour"]))
    return [] if not panels else [_figure(
        "breeds-classes", "Figures 16 to 18. Every superclass",
        "Accuracy on the source (pale) and on the target (full) of the items of each superclass, for the model that is "
        f"best on the source, in the order of the drop. Lines: {100 * level:g} % intervals.", [], {}, panels)]


def classes(shown: Scores, benchmark: Benchmark, method: str, level: float = LEVEL) -> list[Classed]:
    """Source and target accuracy of every superclass by one model, the largest drop first."""
    found = by_class(shown.where(method=method), benchmark, level)
    rows = []
    for name in benchmark.names["label"]:
        cells = [row["cells"][benchmark.name] for split in (SOURCE, TARGET)
                 for row in pivot(found, "accuracy", split, name)]
        if len(cells) == 2:
            rows.append(Classed(name, cells[0], cells[1]))
    return sorted(rows, key=lambda row: -row.drop)


def _splits(members: Sequence[Benchmark], tasks: Tasks, names: Sequence[str], looks: dict[str, Figure], more: str
            ) -> list[Row]:
    """Figure 20: a panel per measure, all on one axis."""
    listed = {one.name: {point.name: point for point in found} for one, found in tasks}
    ticks = [(split_of(one), "" if separation(one) is None else f"{separation(one):.2f}") for one in members]
    kinds = [("Source accuracy", "source"), ("Target accuracy", "target"), ("Target-RT accuracy", "rt")]
    rows = {head: {name: [getattr(listed[one.name].get(name), kind, None) for one in members] for name in names
                   if any(getattr(listed[one.name].get(name), kind, None) for one in members)} for head, kind in kinds}
    within = [end for found in rows.values() for cells in found.values() for cell in cells if cell
              for end in (cell["value"], cell["low"], cell["high"]) if math.isfinite(end)]
    panels = [steps(found, ticks, head, within, looks) for head, found in rows.items() if found]
    return [_figure(
        f"breeds-splits{more}", "Figure 20. Easier and harder splits of the same superclasses",
        f"{', '.join(one.name for one in members)}: source and target subclasses of the same superclasses, split in "
        "other ways, evenly spaced in the order of their separation (the number below: how far the two sides share "
        "no relatives, 0 to 1).", names, looks, panels)]


def _humans(scores: Scores, tasks: Tasks, sure: str) -> list[Row]:
    """Annotators and models on pairs of superclasses, where a study of annotators was scored (Figure 4)."""
    panels = []
    for benchmark, _ in tasks:
        mine = scores.where(benchmark=benchmark.name, metric=PAIRWISE)
        sides = [{row["method"]: row["cells"][benchmark.name] for row in pivot(mine, PAIRWISE, split)}
                 for split in (SOURCE, TARGET)]
        both = [name for name in sides[0] if name in sides[1]]
        if HUMAN in both:
            order = [HUMAN, *sorted((name for name in both if name != HUMAN), key=lambda one: -sides[0][one]["value"])]
            panels.append(bars([Classed(name, sides[0][name], sides[1][name]) for name in order], benchmark.name,
                               "--c: var(--m1)"))
    return [] if not panels else [_figure(
        "breeds-humans", "Figure 4. Annotators and models on pairs of superclasses",
        "Share of items assigned to the right one of two superclasses, source (pale) and target (full). Annotators "
        f"were shown source images of both and no names; a model takes the one it scores higher. Lines: "
        f"{sure} % intervals.", [], {}, panels)]


def _figure(name: str, head: str, definition: str, names: Sequence[str], looks: dict[str, Figure],
            panels: Sequence[Figure], more: Sequence[Figure] = ()) -> Row:
    keys = [legend(names, looks, width, more) for width in (WIDE, NARROW)] if names else []
    return {"name": name, "head": head, "definition": definition, "panels": list(panels),
            "legends": [key | {"form": form} for key, form in zip(keys, ("wide", "narrow"), strict=False)]}


def _alone(one: Row) -> str:
    """One figure as a file: its legend, as wide as its panels, then these in rows of three."""
    rows = in_rows(one["panels"])
    legends = one["legends"][:1] if len(rows[0]) == 3 else one["legends"][1:]
    return standalone("breeds_svg.html", one["head"], one["definition"], [legends, *rows] if legends else rows)
