"""What the page shows of out-of-context benchmarks, and the same figures as files that stand alone."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.scores import Scores
from shiftbench.reporting.breeds_figures import legend, looks_of
from shiftbench.reporting.nooch import (
    NEGATIVE,
    POSITIVE,
    SPLITS,
    criterion,
    harder,
    nooch_in,
    points,
    table,
    tasks,
)
from shiftbench.reporting.nooch_figures import Figure, scatter
from shiftbench.reporting.nooch_items import BASELINE, Compared, Strip
from shiftbench.reporting.pictures import pictures_of
from shiftbench.reporting.selection import shown_scores
from shiftbench.reporting.standalone import in_rows, standalone
from shiftbench.reporting.tables import Row, methods_in
from shiftbench.scoring.hard_items import EASY, HARD
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.select import DEFAULT

WIDE, NARROW = 1120, 360
SHOWN = 4
"""Tables of single benchmarks that stand open on the page."""
SAME = {"name": "both the same", "sign": "same", "colour": "", "shape": 0}
SIDE = {POSITIVE: "positives", NEGATIVE: "negatives"}


def section(
    shown: Scores, benchmarks: Sequence[Benchmark], level: float = LEVEL, *, compared: Sequence[Compared] = (),
    images: Mapping[str, Collection] | None = None,
) -> Row | None:
    """All that the page's section needs; None where no benchmark with hard items has scores."""
    mine = nooch_in(benchmarks)
    if not mine:
        return None
    shown = _held_out(shown, mine)
    tables = [made for one in mine if (made := table(shown, one))]
    if not tables:
        return None
    scored = {made["name"] for made in tables}
    families = _families([one for one in mine if one.name in scored])
    return {"tables": tables, "shown": SHOWN,
            "tasks": [tasks(shown, members) for members in families if len(members) > 1],
            "figures": _figures(shown, families, level),
            "compared": [_compared(one, images or {}) for one in compared if one.strips]}


def nooch_figures(
    scores: Scores, benchmarks: Sequence[Benchmark], *, level: float = LEVEL, rule: str = DEFAULT
) -> dict[str, str]:
    """Each figure as the text of an SVG file that carries its own colours, light and dark, by name.

    Names: nooch-harder, nooch-auc, nooch-nll, nooch-ece; those that the scores have nothing for are missing.
    """
    shown = _held_out(shown_scores(scores, benchmarks, rule), nooch_in(benchmarks))
    mine = [one for one in nooch_in(benchmarks) if table(shown, one)]
    return {one["name"]: _alone(one) for one in _figures(shown, _families(mine), level)}


def _held_out(scores: Scores, benchmarks: Sequence[Benchmark]) -> Scores:
    """The rows that the section looks at, again and again: a small part of a large table."""
    keep = np.isin(scores["benchmark"], [one.name for one in benchmarks]) & np.isin(scores["split"], SPLITS)
    return Scores({name: values[keep] for name, values in scores.columns.items()})


def _families(benchmarks: Sequence[Benchmark]) -> list[list[Benchmark]]:
    """Benchmarks whose hard items were told in one way: the tasks of one suite."""
    found: dict[str, list[Benchmark]] = {}
    for one in benchmarks:
        found.setdefault(criterion(one), []).append(one)
    return list(found.values())


def _figures(shown: Scores, families: Sequence[Sequence[Benchmark]], level: float) -> list[Row]:
    """Every figure there is, in the order of the paper: name, head, definition, legends and panels."""
    sure = f"{100 * level:g}"
    made = _harder(shown, families, sure)
    kinds = (
        ("nooch-auc", "Figure 4. AUC on hard and easy items", (("easy items", "hard items"),),
         ((("auc", EASY), ("auc", HARD)),), "Higher is better on both"),
        ("nooch-nll", "Figure 5. NLL on hard positives, hard negatives and easy items",
         (("hard negatives", "hard positives"), ("easy items", "hard positives"), ("easy items", "hard negatives")),
         ((("nll", NEGATIVE), ("nll", POSITIVE)), (("nll", EASY), ("nll", POSITIVE)),
          (("nll", EASY), ("nll", NEGATIVE))),
         "Lower is better on both"),
        ("nooch-ece", "Figure 6. Calibration error on hard and easy items", (("easy items", "hard items"),),
         ((("ece", EASY), ("ece", HARD)),), "Lower is better on both"))
    for name, head, words, pairs, better in kinds:
        found = [(f"{criterion(members[0])}{_of(members)}", axes, points(shown, members, *pair))
                 for members in families for axes, pair in zip(words, pairs, strict=True)]
        found = [one for one in found if one[2]]
        looks = looks_of(methods_in(point.name for _, _, listed in found for point in listed))
        metric = name.removeprefix("nooch-").upper()
        panels = [scatter(listed, title, (f"{metric}, {axes[0]}", f"{metric}, {axes[1]}"), looks,
                          share=metric != "NLL") for title, axes, listed in found]
        if panels:
            made.append(_figure(
                name, head, f"A point is a method{', averaged over the tasks' if _several(families) else ''}, its "
                f"lines the {sure} % intervals{' (the mean of the tasks’)' if _several(families) else ''}. {better}; "
                "on the dashed line both are the same.", list(looks), looks, panels))
    return made


def _harder(shown: Scores, families: Sequence[Sequence[Benchmark]], sure: str) -> list[Row]:
    """Figure 3: whether the hard items are harder, task by task."""
    names = [one.name for members in families for one in members]
    methods = methods_in(shown["method"].tolist())
    method = BASELINE if BASELINE in methods else next(iter(methods), "")
    looks = looks_of(names)
    panels = []
    for members in families:
        for side, word in SIDE.items():
            listed = harder(shown, members, side, method)
            if listed:
                panels.append(scatter(listed, f"{criterion(members[0])}: {word}",
                                      (f"NLL, all {word}", f"NLL, hard {word}"), looks, square=True))
    return [] if not panels else [_figure(
        "nooch-harder", "Figure 3. Hard items have a higher loss",
        f"A point is a task: the mean loss of {method} on all {' or '.join(SIDE.values())} and on hard ones, with the "
        f"latter’s {sure} % interval. Above the dashed line hard items are the harder.", names, looks, panels)]


def _several(families: Sequence[Sequence[Benchmark]]) -> bool:
    return any(len(members) > 1 for members in families)


def _of(members: Sequence[Benchmark]) -> str:
    return f", {len(members)} tasks" if len(members) > 1 else f": {members[0].name}"


def _figure(name: str, head: str, definition: str, names: Sequence[str], looks: dict[str, Figure],
            panels: Sequence[Figure]) -> Row:
    more = [SAME] if any(panel["same"] for panel in panels) else []
    keys = [legend(names, looks, width, more) for width in (WIDE, NARROW)]
    return {"name": name, "head": head, "definition": definition, "panels": list(panels),
            "legends": [key | {"form": form} for key, form in zip(keys, ("wide", "narrow"), strict=True)]}


def _alone(one: Row) -> str:
    """One figure as a file: its legend, as wide as its panels, then these in rows of three."""
    rows = in_rows(one["panels"])
    legends = one["legends"][:1] if len(rows[0]) == 3 else one["legends"][1:]
    return standalone("nooch_svg.html", one["head"], one["definition"], [legends, *rows])


def _compared(one: Compared, images: Mapping[str, Collection]) -> Row:
    """Both ways of a comparison, kind by kind, with pictures where the collection is there."""
    digest = str((one.benchmark.card.get("collection") or {}).get("digest"))
    seeds = max(one.seeds)
    return {"name": one.benchmark.name, "methods": one.methods,
            "seeds": f", mean over {seeds} seeds" if seeds > 1 else "",
            "strips": [_strip(one.benchmark, strip, images.get(digest)) for strip in one.strips]}


def _strip(benchmark: Benchmark, strip: Strip, collection: Collection | None) -> Row:
    pictures = pictures_of(benchmark, collection, strip.rows) if collection is not None else []
    items = [{"item": str(benchmark.items[row]), "label": benchmark.names["label"][benchmark.label[row]],
              "group": benchmark.names["group"][benchmark.group[row]], "better": _loss(better), "worse": _loss(worse),
              "source": pictures[place]["source"] if pictures else ""}
             for place, (row, (better, worse)) in enumerate(zip(strip.rows.tolist(), strip.loss.tolist(), strict=True))]
    return {"kind": strip.kind.replace("_", " "), "better": strip.better, "worse": strip.worse, "entries": items}


def _loss(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "∞"
