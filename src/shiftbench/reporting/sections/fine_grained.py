"""The fine-grained analysis of Wiles et al. (2022): its figures, and its seven takeaways tested on the scores."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from shiftbench.methods.presets import NINETEEN
from shiftbench.reporting.charts import (
    Bar,
    Dot,
    Entry,
    Figure,
    Look,
    Panel,
    Scale,
    Series,
    legends,
    lines,
    rows,
    scale,
    shares,
    signed,
)
from shiftbench.reporting.page import Block, Chapter, Content, Results, shown_scores
from shiftbench.reporting.score_tables import capital
from shiftbench.reporting.sections.fine_grained_scores import (
    AXES,
    FAMILIES,
    METRICS,
    ONLY,
    Change,
    Estimate,
    FineGrainedScores,
    Place,
    changes,
    estimate,
    family_of,
    fine_grained_scores,
)
from shiftbench.reporting.sections.takeaways import SHIFT_WORDS, takeaways
from shiftbench.scoring.hard_items import midranks
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.rules import RULES

WHOSE = {"macro_f1": "as the text of the paper", "accuracy": "top-1, as the released code"}
FOOT = ("Student’s over seeds; seeds of one data set are averaged over its benchmarks first. ✓ the interval lies "
        "wholly where the paper’s claim puts it, ✗ wholly on the other side, ? neither. A takeaway agrees where all "
        "of its statements hold and does not where one fails. Each is judged for itself, so of many one may be wrong"
        " by chance.")
SHOWN = 6
"""Panels of sorted bars that are open on the page; the others are folded away."""
LINES = {
    "spurious": ("3", "N uncorrelated items", "N"), "low_data": ("4", "N items of the low-data region", "N"),
    "noise": ("6", "p, the share of wrong training labels", "p"),
    "size": ("7", "n training items in all", "n"),
}
BARS = {"unseen": "10", "spurious": "11", "low_data": "12"}
HEADS = {**SHIFT_WORDS, "noise": "label noise", "size": "data-set size"}
LOOKS = {family: Look(colour, number) for number, (family, colour) in enumerate(
    zip(FAMILIES, (3, 2, 4, 1, 0, 5), strict=True))}
"""A family has one colour and one marker; architectures are green, heuristic augmentations orange, as in the paper."""


# The numbers of the figures

class Ranked(NamedTuple):
    """The ranks of a method under unseen data shift, 1 the best, one per benchmark and seed."""

    method: str
    family: str
    median: float
    ranks: tuple[tuple[str, int, float], ...]  # benchmark, seed, rank


def ranks(scores: FineGrainedScores) -> list[Ranked]:
    """Rank the methods of every unseen benchmark and seed, and sort them by their median (Figure 5).

    Equal scores share the mean of their ranks. A method without a score somewhere has no rank there.
    """
    by_method: dict[str, list[tuple[str, int, float]]] = {}
    for row in scores.where(shift="unseen", condition=""):
        for depth, seed in enumerate(scores.seeds):
            scored = scores.values[row, :, depth]
            here = np.flatnonzero(np.isfinite(scored))
            for at, rank in zip(here, midranks(-scored[None, here])[0], strict=True):
                by_method.setdefault(scores.methods[at], []).append((scores.places[row].benchmark, seed, float(rank)))
    ranked = [Ranked(method, family_of(method), float(np.median([rank for *_, rank in ranks])), tuple(ranks))
              for method, ranks in by_method.items()]
    return sorted(ranked, key=lambda row: (row.median, float(np.mean([rank for *_, rank in row.ranks])), row.method))


class MeanScore(NamedTuple):
    """A method's score on one benchmark: mean and interval, and the standard deviation over seeds."""

    method: str
    family: str
    mean: Estimate
    deviation: float  # NaN with one seed


def bars(scores: FineGrainedScores, shift: str, level: float = LEVEL) -> dict[Place, list[MeanScore]]:
    """Mean and standard deviation over seeds of every method on every benchmark of a shift (Figures 10 to 12)."""
    panels = {}
    for row in scores.where(shift=shift, condition=""):
        mean_scores = []
        for at, method in enumerate(scores.methods):
            known = scores.values[row, at][np.isfinite(scores.values[row, at])]
            if len(known):
                deviation = float(known.std(ddof=1)) if len(known) > 1 else math.nan
                mean_scores.append(MeanScore(method, family_of(method), estimate(known[None], [""], level), deviation))
        if mean_scores:
            panels[scores.places[row]] = sorted(mean_scores, key=lambda bar: (-bar.mean.value, bar.method))
    return panels


class Ablated(NamedTuple):
    """What each operation of RandAugment alone gives on one benchmark, in points from the mean of them all."""

    place: Place
    operations: Mapping[str, Estimate]
    baseline: Estimate


def ablation(scores: FineGrainedScores, level: float = LEVEL) -> list[Ablated]:
    """100 (f_o − 1/O Σ f_o') of the metric with operation o, per seed, then the mean over seeds (Figure 8).

    A seed counts if every operation of the benchmark has a score. The unseen shift, which the paper has, comes first.
    """
    ablations = []
    for row, place in sorted(enumerate(scores.places), key=lambda pair: pair[1].shift != "unseen"):
        here = np.flatnonzero(np.isfinite(scores.ablation[row]).any(axis=1))
        if len(here) < 2:
            continue
        by_operation = scores.ablation[row, here]
        middle = by_operation.mean(axis=0)  # NaN where an operation lacks the seed
        operations = {scores.operations[at].removeprefix(ONLY): estimate(100 * (line - middle)[None], [""], level)
                      for at, line in zip(here, by_operation, strict=True)}
        baseline = estimate(100 * (scores.base[row] - middle)[None], [""], level)
        ablations.append(Ablated(place, operations, baseline))
    return [ablated for ablated in ablations if any(point.benchmarks for point in ablated.operations.values())]


# The chapter

def content(results: Results) -> Content | None:
    """Figures and takeaways by each metric; None where the scores hold no such study.

    Where the rule of the page is one of the paper's, each metric has the runs that its own rule chooses.
    """
    by_metric = {}
    for metric, rule in METRICS.items():
        differs = results.rule in METRICS.values() and results.rule != rule
        shown = shown_scores(results.runs, results.benchmarks, rule) if differs else results.shown
        scores = fine_grained_scores(shown, results.benchmarks, metric)
        if scores is not None:
            by_metric[metric] = scores
    if not by_metric:
        return None
    parts = [_part(scores, results) for scores in by_metric.values()]
    blocks: list[Block] = [("under", {"text": _what(next(iter(by_metric.values())))})]
    for number, part in enumerate(parts):
        anchor = f"fine-grained-{part['metric']}"
        head = f"By {part['words']}, {part['whose']}: the seven takeaways, put to these scores"
        of_metric: list[Block] = [
            ("under", {"text": "Where a method has several settings, runs are chosen by the rule "
                               f"“{part['rule']}”."}),
            ("takeaways", {"claims": part["takeaways"]}),
            ("foot", {"text": f"In brackets: {100 * results.level:g} % intervals, {FOOT}"}),
            *(("plot", {"figure": figure, "shown": SHOWN}) for figure in part["figures"])]
        blocks += [("folded", {"summary": Markup('<h3 class="sub" id="{}">{}</h3>').format(anchor, head),
                               "form": "metric", "blocks": of_metric})] if number else [
            ("sub", {"text": head, "anchor": anchor}), *of_metric]
    return {"chapters": [Chapter("fine-grained", "Fine-grained analysis", blocks)], "parts": parts,
            "figures": [figure for part in parts for figure in part["figures"]]}


def _what(scores: FineGrainedScores) -> str:
    """What was measured, in words."""
    benchmarks, seeds = len(scores.places), len(scores.seeds)
    scratch = ", and pretrained is compared with the same net from scratch" if scores.scratch is not None else ""
    others = f" Not among its nineteen methods, and left out here: {', '.join(scores.others)}." if scores.others else ""
    return (f"An experiment in the manner of Wiles et al. (2022): {len(scores.methods)} methods on {benchmarks} "
            f"benchmark{'s' if benchmarks > 1 else ''} of spurious correlation, low-data drift and unseen data shift, "
            f"{seeds} seed{'s' if seeds > 1 else ''}; the baseline is {scores.baseline}{scratch}. Figures have the "
            "numbers of the paper’s. The text of the paper scores by F1, its released code by top-1 accuracy: both are "
            f"here, one after the other.{others}")


def _part(scores: FineGrainedScores, results: Results) -> Content:
    """The content of the section by one metric."""
    marks = {True: "✓", False: "✗", None: "?"}
    rule = METRICS[scores.metric] if results.rule in METRICS.values() else results.rule
    return {"metric": scores.metric, "words": scores.words, "whose": WHOSE[scores.metric], "rule": RULES[rule].head,
            "figures": figures(scores, results.level),
            "takeaways": [{"claim": takeaway.claim, "verdict": takeaway.verdict, "parts": [
                {"text": evidence.text, "why": evidence.why, "mark": marks[evidence.holds]}
                for evidence in takeaway.parts]} for takeaway in takeaways(scores, results.level)]}


def figures(scores: FineGrainedScores, level: float) -> list[Figure]:
    """Every figure that applies, in the order of the page."""
    sure = f"{100 * level:g}"
    drawn = [figure for axis in AXES[:2] for figure in _changes(scores, axis, level)]
    drawn += _ranks(scores)
    drawn += [figure for axis in AXES[2:] for figure in _changes(scores, axis, level)]
    drawn += [figure for shift, number in BARS.items() for figure in _bars(
        scores, number, f"{capital(HEADS[shift])}: every method", shift, bars(scores, shift, level), level)]
    other_labels = {place: panel for place, panel in bars(scores, "unseen", level).items()
                    if _several_labels(scores, place)}
    drawn += _bars(scores, "9", "Unseen data shift with other labels: every method", "labels", other_labels, level)
    alone = ablation(scores, level)
    if alone:
        drawn.append(Figure(
            _file(scores, "8", "ablation"), f"Figure 8. RandAugment ablation: one operation at a time, {scores.words}",
            f"100 (f − f̄): {scores.words} on test with one operation of RandAugment or the identity, minus the mean "
            f"over all operations with the same seed, in points, mean over seeds. Line: Student’s {sure} % interval "
            f"over seeds, cut at the frame. Dashed: {scores.baseline}, without augmentation.{_lone(scores)}",
            _ablated(scores, alone), ("benchmark", "operation", "points", "low", "high", "seeds"),
            tuple((ablated.place.benchmark, name, *point[:3], point.seeds) for ablated in alone
                  for name, point in [*ablated.operations.items(), ("none", ablated.baseline)] if point.benchmarks)))
    return drawn


def _bars(scores: FineGrainedScores, number: str, head: str, what: str, panels: Mapping[Place, Sequence[MeanScore]],
          level: float) -> list[Figure]:
    """The methods of each benchmark from the best to the worst (Figures 9 to 12)."""
    return [Figure(
        _file(scores, number, what), f"Figure {number}. {head}, {scores.words}",
        f"{capital(scores.words)} on test in per cent, mean over seeds, sorted anew for every benchmark. Band and ±: "
        f"one standard deviation of single runs over seeds. Line: Student’s {100 * level:g} % interval of the mean "
        f"over seeds.{_lone(scores)}",
        tuple(_sorted_bars(panel, _named(scores, place)) for place, panel in panels.items()),
        ("benchmark", "method", "family", "value", "low", "high", "deviation", "seeds"),
        tuple((place.benchmark, bar.method, bar.family, *bar.mean[:3], bar.deviation, bar.mean.seeds)
              for place, panel in panels.items() for bar in panel))] if panels else []


def _changes(scores: FineGrainedScores, axis: str, level: float) -> list[Figure]:
    """Percentage change against N, p or n: the best of each family in full, the others pale (Figures 3, 4, 6 and 7)."""
    drawn = changes(scores, axis, level)
    if not drawn:
        return []
    number, words, unit = LINES[axis]
    y = _frame(drawn)
    points = [point for line in drawn for point in line.points.values()]
    far = " Pale triangles at the edge stand for values beyond it; their titles give the values." if any(
        not y.low <= point.value <= y.high for point in points) else ""
    uneven = " Some points rest on fewer data sets than others, as their titles say." if len(
        {point.benchmarks for point in points}) > 1 else ""
    return [Figure(
        _file(scores, number, axis),
        f"Figure {number}. {capital(HEADS[axis])}: change over {scores.baseline}, {scores.words}",
        f"100 (m − b) / b, with m the {scores.words} on test of a run and b that of {scores.baseline}{_own(scores)} "
        f"with the same seed; mean over seeds, then over data sets, at each {words}. Intervals: Student’s "
        f"{100 * level:g} % over these differences between seeds, cut at the frame. In full colour the method of each "
        f"family that is best on average over {unit}, the others pale.{far}{uneven}{_lone(scores)}",
        (change_lines(drawn, axis, 760, 150),),
        ("method", "family", unit, "change_percent", "low", "high", "seeds", "data_sets"),
        tuple((line.method, line.family, x, *point[:3], point.seeds, point.collections)
              for line in drawn for x, point in line.points.items()), narrow=(change_lines(drawn, axis, 380, 136),),
        legends=_families(line.family for line in drawn))]


def change_lines(drawn: Sequence[Change], axis: str, width: float, room: float) -> Panel:
    """The figure of `_changes` at one width."""
    _, words, unit = LINES[axis]
    xs = sorted({x for line in drawn for x in line.points})
    series = [Series(line.method, LOOKS[line.family], [
        (x, point._asdict(), f"{_full(line.method)}, {unit} = {_short(x)}: {_change(point)}")
        for x, point in line.points.items()], "line" if line.best else "pale-line", _full(line.method))
        for line in drawn]
    log, pad = axis != "noise", 0.04 * (xs[-1] - xs[0])
    ends = (xs[0] / 1.25, xs[-1] * 1.25) if log else (xs[0] - pad, xs[-1] + pad)
    across = Scale(*ends, tuple((x, _short(x)) for x in xs), log)
    return lines("", series, across, _frame(drawn), (words, "change, %"), width=width, height=380, room=room,
                 level=(0.0, "before", ""))


def _frame(drawn: Sequence[Change]) -> Scale:
    """An axis from the lowest to the highest full point; values far beyond it are cut off.

    Pale points count up to one span away, ends of intervals (wide with few seeds) up to a third of it.
    """
    full = [point for line in drawn if line.best for point in line.points.values()]
    low, high = min(-0.5, *(point.value for point in full)), max(0.5, *(point.value for point in full))
    span = high - low
    near = [point.value for line in drawn for point in line.points.values() if low - span <= point.value <= high + span]
    ends = [end for point in full for end in (point.low, point.high) if low - span / 3 <= end <= high + span / 3]
    return scale([low, high, *near, *ends], write=signed, ticks=7)


def _ranks(scores: FineGrainedScores) -> list[Figure]:
    """A row per method sorted by its median rank, a dot per benchmark and seed (Figure 5)."""
    ranking = ranks(scores)
    if not ranking:
        return []
    counts = sorted({len(ranked.ranks) for ranked in ranking})
    dots = f"{counts[0]} dots per method." if len(counts) == 1 else (
        f"{counts[0]} to {counts[-1]} dots per method: where one has no score, the others are ranked without it.")
    most = max([2.0, float(len(ranking)), *(rank for ranked in ranking for *_, rank in ranked.ranks)])
    ticks = [tick for tick in range(1, int(most) + 1) if tick == 1 or tick % (5 if most > 10 else 2) == 0]
    x = Scale(0.7, most + 0.3, tuple((float(tick), str(tick)) for tick in ticks))
    entries = [Entry(ranked.method, LOOKS[ranked.family], median=ranked.median,
                   title=f"{_full(ranked.method)}: median rank {ranked.median:g} of {len(ranked.ranks)}",
                   dots=[Dot(rank, f"{_full(ranked.method)}, {benchmark}, seed {seed}: rank {rank:g}")
                         for benchmark, seed, rank in ranked.ranks]) for ranked in ranking]
    wide, narrow = (rows("", entries, x, width=width, left=150, height=22, x_name="rank, 1 is best", coloured=True,
                         spread=3) for width in (760, 380))
    return [Figure(
        _file(scores, "5", "unseen"), f"Figure 5. Unseen data shift: ranks, {scores.words}",
        f"For each benchmark and seed the methods are ranked by {scores.words} on test, 1 the best; equal scores share "
        "the mean of their ranks. A dot is one benchmark and seed, the black bar the median, by which the rows are "
        "sorted. "
        f"{dots}", (wide,), ("method", "family", "benchmark", "seed", "rank"),
        tuple((ranked.method, ranked.family, *rank) for ranked in ranking for rank in ranked.ranks), narrow=(narrow,),
        legends=_families(ranked.family for ranked in ranking))]


def _sorted_bars(panel: Sequence[MeanScore], title: str) -> Panel:
    """The methods of one benchmark from 0 to 1, with the deviation as a band and the interval as a line."""
    entries = []
    for bar in panel:
        mean, several = bar.mean, bar.mean.seeds > 1
        spread = f" ± {100 * bar.deviation:.1f}" if several else ""
        whole = (f"standard deviation {100 * bar.deviation:.1f}, interval {100 * mean.low:.1f} to "
                 f"{100 * mean.high:.1f} over {mean.seeds} seeds" if several else "one seed, no interval")
        entries.append(Entry(
            bar.method, LOOKS[bar.family], (Bar(mean._asdict(), band=(
                mean.value - bar.deviation, mean.value + bar.deviation) if several else None),),
            title=f"{_full(bar.method)}: {100 * mean.value:.1f}, {whole}", number=f"{100 * mean.value:.1f}{spread}"))
    return rows(title, entries, shares(ticks=3), left=130, right=78, height=17)


def _ablated(scores: FineGrainedScores, alone: Sequence[Ablated]) -> tuple[Panel, ...]:
    """A panel per benchmark: points from the mean of all operations, in one order and on one axis for all panels."""
    points = [point for ablated in alone for point in (*ablated.operations.values(), ablated.baseline)]
    ends = [abs(end) for point in points for end in point[:3] if math.isfinite(end)]
    values = [abs(point.value) for ablated in alone for point in ablated.operations.values() if point.benchmarks]
    far = min(max(ends, default=1.0), 2.5 * max(values, default=1.0)) or 1.0
    x = scale([-far, far], write=signed, least=-far, most=far, ticks=4)
    operations = [{name: point for name, point in ablated.operations.items() if point.benchmarks} for ablated in alone]
    order = sorted({name for estimates in operations for name in estimates}, key=lambda name: (
        -sum(estimates[name].value for estimates in operations if name in estimates), name))
    panels = []
    for ablated, estimates in zip(alone, operations, strict=True):
        entries = [Entry(name, LOOKS["heuristic augmentation"], (Bar(point._asdict()),), title=f"{ONLY}{name}: "
                       f"{_points(point)}", number=f"{point.value:+.1f}".replace("-", "−"))
                   for name in order if (point := estimates.get(name))]
        baseline = ablated.baseline
        panels.append(rows(_named(scores, ablated.place), entries, x, left=124, right=62, height=17, level=(
            baseline.value, f"without augmentation: {_points(baseline)}") if baseline.benchmarks else None))
    return tuple(panels)


def _families(there: Any) -> tuple[Panel, ...]:
    names = set(there)
    return legends([(family, look) for family, look in LOOKS.items() if family in names])


def _file(scores: FineGrainedScores, number: str, what: str) -> str:
    """The name of a figure's file; that of the metric is in it, except of the paper's."""
    metric = "" if scores.metric == next(iter(METRICS)) else f"{scores.metric}-"
    return f"fine-grained-{metric}{number}-{what}"


def _own(scores: FineGrainedScores) -> str:
    return " (of pretrained: the same net from scratch)" if scores.scratch is not None else ""


def _lone(scores: FineGrainedScores) -> str:
    return "" if len(scores.seeds) > 1 else " There is one seed, so there are no intervals."


def _named(scores: FineGrainedScores, place: Place) -> str:
    """A panel's head: the benchmark, and what is predicted where a collection has several such tasks."""
    return f"{place.benchmark} ({place.label} by {place.factor})" if _several_labels(scores, place) else place.benchmark


def _several_labels(scores: FineGrainedScores, place: Place) -> bool:
    """Whether the collection of a benchmark has several pairs of label and factor (B.3)."""
    return len({(other.label, other.factor) for other in scores.places if other.collection == place.collection}) > 1


def _short(x: float) -> str:
    """
    >>> _short(100000.0), _short(0.1), _short(1000.0)
    ('100,000', '0.1', '1,000')
    """
    return f"{x:,.0f}" if float(x).is_integer() else f"{x:g}"


def _full(method: str) -> str:
    """A method with its name in the paper, where the names differ."""
    paper = NINETEEN.get(method, method)
    return method if paper.lower().replace("-", "_") == method else f"{method} (in the paper: {paper})"


def _change(point: Estimate) -> str:
    sets = f"{point.collections} data set{'s' if point.collections > 1 else ''}"
    return f"{_decimal(point.value)} % ({_interval(point)}; {sets})"


def _points(point: Estimate) -> str:
    return f"{_decimal(point.value)} points ({_interval(point)})"


def _interval(point: Estimate) -> str:
    return f"{_decimal(point.low)} to {_decimal(point.high)} over {point.seeds} seeds" if point.seeds > 1 \
        else "one seed, no interval"


def _decimal(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")
