"""What the page shows of a fine-grained study, and the same figures as files that stand alone."""

from collections.abc import Sequence
from typing import Any

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores
from shiftbench.reporting.fine_grained import Place, Study, study
from shiftbench.reporting.fine_grained_figures import ablated, lines, panel, ranked
from shiftbench.reporting.fine_grained_numbers import AXES, ablation, bars, changes, ranks
from shiftbench.reporting.fine_grained_takeaways import SHIFT_WORDS, takeaways
from shiftbench.reporting.selection import shown_scores
from shiftbench.reporting.standalone import in_rows, standalone
from shiftbench.reporting.tables import Row
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.select import DEFAULT

WIDE, NARROW = (760, 150), (380, 136)
"""Width of a figure and the room for names at its right, on a desk and on a telephone."""
SHOWN = 6
"""Panels of sorted bars that are open on the page; the others are folded away."""
LINES = {
    "spurious": ("3", "N uncorrelated items", "N"), "low_data": ("4", "N items of the low-data region", "N"),
    "noise": ("6", "p, the share of wrong training labels", "p"),
    "size": ("7", "n training items in all", "n"),
}
BARS = {"unseen": "10", "spurious": "11", "low_data": "12"}
HEADS = {**SHIFT_WORDS, "noise": "label noise", "size": "data-set size"}


def section(scores: Scores, benchmarks: Sequence[Benchmark], level: float = LEVEL) -> Row | None:
    """All that the page's section needs, from chosen scores; None where the table holds no such study."""
    found = study(scores, benchmarks)
    if found is None:
        return None
    told = takeaways(found, level)
    return {"baseline": found.baseline, "methods": len(found.methods), "benchmarks": len(found.places),
            "seeds": len(found.seeds), "others": found.others, "figures": _figures(found, level), "shown": SHOWN,
            "takeaways": [{"number": one.number, "claim": one.claim, "verdict": one.verdict, "parts": [
                {"text": part.text, "why": part.why, "mark": {True: "✓", False: "✗", None: "?"}[part.holds]}
                for part in one.parts]} for one in told]}


def figures(scores: Scores, benchmarks: Sequence[Benchmark], *, level: float = LEVEL, rule: str = DEFAULT
            ) -> dict[str, str]:
    """Each figure of the study as the text of an SVG file that carries its own colours, light and dark, by name.

    Names: figure-3-spurious, figure-4-low_data, figure-5-unseen, figure-6-noise, figure-7-size, figure-8-ablation,
    figure-10-unseen, figure-11-spurious, figure-12-low_data; those that the scores have nothing for are missing.
    """
    found = study(shown_scores(scores, benchmarks, rule), benchmarks)
    return {} if found is None else {
        one["name"]: standalone("fine_grained_svg.html", one["head"], one["definition"],
                                in_rows(one["forms"][:1] or one["panels"])) for one in _figures(found, level)}


def _figures(found: Study, level: float) -> list[Row]:
    """Every figure there is, in the order of the page: name, head, definition, forms or panels."""
    sure = f"{100 * level:g}"
    made: list[Row] = []
    for axis in AXES[:2]:
        made += _change(found, axis, level)
    ranking = ranks(found)
    if ranking:
        made.append({
            "name": "figure-5-unseen", "head": "Figure 5. Unseen data shift: ranks",
            "definition": "For each benchmark and seed the methods are ranked by macro F1 on test, 1 the best; equal "
                          "scores share the mean of their ranks. A dot is one benchmark and seed, the black bar the "
                          f"median, by which the rows are sorted. {_dots(ranking)}",
            "forms": [ranked(ranking, WIDE[0]) | {"form": "wide"}, ranked(ranking, NARROW[0]) | {"form": "narrow"}],
            "panels": []})
    for axis in AXES[2:]:
        made += _change(found, axis, level)
    for shift, number in BARS.items():
        panels = bars(found, shift, level)
        if panels:
            made.append({
                "name": f"figure-{number}-{shift}", "head": f"Figure {number}. {_upper(HEADS[shift])}: every method",
                "definition": "Macro F1 on test in per cent, mean over seeds, sorted anew for every benchmark. Band "
                              "and ±: one standard deviation of single runs over seeds. Line: Student’s "
                              f"{sure} % interval of the mean over seeds.{_lone(found)}",
                "forms": [], "panels": [panel(one, _named(found, one.place)) for one in panels]})
    alone = ablation(found, level)
    if alone:
        made.append({
            "name": "figure-8-ablation", "head": "Figure 8. RandAugment ablation: one operation at a time",
            "definition": "100 (f − f̄): macro F1 on test with one operation of RandAugment or the identity, minus the "
                          "mean over all operations with the same seed, in points, mean over seeds. Line: Student’s "
                          f"{sure} % interval over seeds, cut at the frame. Dashed: {found.baseline}, without "
                          f"augmentation.{_lone(found)}",
            "forms": [], "panels": ablated(alone, [_named(found, one.place) for one in alone])})
    return made


def _change(found: Study, axis: str, level: float) -> list[Row]:
    drawn = changes(found, axis, level)
    if not drawn:
        return []
    number, words, unit = LINES[axis]
    counts = {point.benchmarks for line in drawn for point in line.points.values()}
    log = axis != "noise"
    wide = lines(drawn, *WIDE, unit, words, log)
    beyond = any(point["out"] for line in wide["lines"] for point in line["points"])
    far = " Pale triangles at the edge stand for values beyond it, which their titles tell." if beyond else ""
    uneven = " Some points rest on fewer data sets than others; their titles tell." if len(counts) > 1 else ""
    return [{
        "name": f"figure-{number}-{axis}",
        "head": f"Figure {number}. {_upper(HEADS[axis])}: change over {found.baseline}",
        "definition": f"100 (m − b) / b, with m the macro F1 on test of a run and b that of {found.baseline} with the "
                      f"same seed; mean over seeds, then over data sets, at each {words}. Intervals: Student’s "
                      f"{100 * level:g} % over these differences between seeds, cut at the frame. In full colour the "
                      f"method of each family that is best on average over {unit}, the others pale.{far}{uneven}"
                      f"{_lone(found)}",
        "forms": [wide | {"form": "wide"}, lines(drawn, *NARROW, unit, words, log) | {"form": "narrow"}],
        "panels": []}]


def _dots(ranking: Sequence[Any]) -> str:
    counts = sorted({len(one.ranks) for one in ranking})
    return f"{counts[0]} dots per method." if len(counts) == 1 else (
        f"{counts[0]} to {counts[-1]} dots per method: where one has no score, the others are ranked without it.")


def _lone(found: Study) -> str:
    return "" if len(found.seeds) > 1 else " There is one seed, so there are no intervals."


def _named(found: Study, place: Place) -> str:
    """A panel's head: the benchmark, and what is predicted where a collection has several such tasks."""
    pairs = {(one.label, one.factor) for one in found.places if one.collection == place.collection}
    return f"{place.benchmark} ({place.label} by {place.factor})" if len(pairs) > 1 else place.benchmark


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
