"""NOOCh (Madras and Zemel, 2021): the paper's tables and figures, and the items on which two methods differ most."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import unknown
from shiftbench.core.rng import child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import RUN, Scores
from shiftbench.reporting.drawing import Figure, Panel, pictures_of
from shiftbench.reporting.plots import Cell, Guide, Look, Scale, Spot, around, legends, looks_of, plain, scale, scatter
from shiftbench.reporting.results import Content, Results
from shiftbench.reporting.score_tables import Row, methods_in, with_interval
from shiftbench.reporting.sections.nooch_scores import (
    NEGATIVE,
    POSITIVE,
    SPLITS,
    Point,
    cells,
    criterion,
    harder,
    nooch_in,
    points,
    table,
    tasks,
)
from shiftbench.scoring.hard_items import EASY, HARD, SIDES, kinds_of
from shiftbench.scoring.metrics import losses
from shiftbench.scoring.reading import RunIndex

# Hard items of NOOCh as pictures: by the CE criterion (Figure 1), and where CE and gist disagree (Figures 2 and 8).

PER_STRIP = 4
"""Items of a strip: the paper shows one or two."""

Losses = Callable[[Benchmark], Mapping[str, Floats]]
"""Method -> its loss on every test item of a benchmark, as far as there are predictions."""


class Example(NamedTuple):
    """Some test items of one kind, and of which benchmark they are rows."""

    benchmark: Benchmark
    kind: str
    rows: Ints
    besides: str = ""  # the criterion by which they are easy


def examples(benchmark: Benchmark) -> list[Example]:
    """A few hard positives and hard negatives of the test items, chosen at random but always the same (Figure 1)."""
    rows = benchmark.rows("test")
    kind = kinds_of(benchmark, rows)
    return [] if kind is None else [Example(benchmark, side, few) for side in SIDES
                                    if len(few := _few(rows[kind == side], benchmark.name, side))]


def disagreements(one: Benchmark, other: Benchmark) -> list[Example]:
    """Test items that are hard by either criterion and easy by the other (Figures 2 and 8)."""
    listed = []
    for first, second in ((one, other), (other, one)):
        rows, others = first.rows("test"), second.rows("test")
        kind, theirs = kinds_of(first, rows), kinds_of(second, others)
        if kind is None or theirs is None:
            return []
        easy = np.isin(first.items[rows], second.items[others[theirs == EASY]])
        listed += [Example(first, side, few, criterion(second)) for side in SIDES
                   if len(few := _few(rows[(kind == side) & easy], first.name, side))]
    return listed


def pairs(benchmarks: Sequence[Benchmark]) -> list[tuple[Benchmark, Benchmark]]:
    """Benchmarks of one task by CE and by gist, ours or the published lists', on one collection."""
    by_task: dict[tuple[str, ...], dict[str, Benchmark]] = {}
    for benchmark in benchmarks:
        name = str((benchmark.card.get("criterion") or {}).get("name") or "").lower()
        if name.removeprefix("published ") in ("ce", "gist"):
            task = (str(benchmark.card.get("positive")), str((benchmark.card.get("collection") or {}).get("digest")),
                    name.partition(" ")[0] if name.startswith("published") else "")
            by_task.setdefault(task, {})[name.removeprefix("published ")] = benchmark
    return [(both["ce"], both["gist"]) for both in by_task.values() if len(both) == 2]


def figures(benchmarks: Sequence[Benchmark], images: Mapping[str, Collection], losses: Losses) -> list[Row]:
    """Figure 1 of every benchmark by CE, 2 and 8 of every task with both criteria; none where there are no pictures."""
    benchmarks = [one for one in benchmarks if _collection(one, images) is not None]
    by_ce = [one for one in benchmarks if criterion(one) in ("CE criterion", "Published CE lists")]
    listed = [("Figure 1", one.name, examples(one)) for one in by_ce]
    listed += [("Figures 2 and 8", f"{one.name} and {other.name}", disagreements(one, other))
               for one, other in pairs(benchmarks)]
    return [{"figure": figure, "name": name, "strips": [_example_strip(one, images, losses) for one in chosen]}
            for figure, name, chosen in listed if chosen]


def _example_strip(example: Example, images: Mapping[str, Collection], losses: Losses) -> Row:
    benchmark = example.benchmark
    collection = _collection(benchmark, images)
    pictures = pictures_of(benchmark, collection, example.rows) if collection is not None else []
    place = np.searchsorted(benchmark.rows("test"), example.rows)
    own = losses(benchmark)
    entries = [{"item": str(benchmark.items[row]), "group": benchmark.names["group"][benchmark.group[row]],
                "source": pictures[number]["source"] if pictures else "",
                "losses": [(method, f"{values[place[number]]:.2f}") for method, values in own.items()]}
               for number, row in enumerate(example.rows.tolist())]
    return {"kind": example.kind.replace("_", " "), "criterion": criterion(benchmark), "besides": example.besides,
            "entries": entries}


def _collection(benchmark: Benchmark, images: Mapping[str, Collection]) -> Collection | None:
    return images.get(str((benchmark.card.get("collection") or {}).get("digest")))


def _few(rows: Ints, *purpose: str) -> Ints:
    chosen = child(0, "report", "nooch", *purpose).permutation(len(rows))[:PER_STRIP]
    return rows[np.sort(chosen)]


# NOOCh (Madras and Zemel, 2021): the paper's tables and figures, and the items on which two methods differ most.

BASELINE = "erm"
TOP = 8
"""Items that a strip shows."""
TITLED = (BASELINE, "group_dro", "irm")
"""Methods whose losses stand below the pictures of Figures 1, 2 and 8."""
SHOWN = 4
"""Tables of single benchmarks that stand open on the page."""
SIDE = {POSITIVE: "positives", NEGATIVE: "negatives"}


# Items on which one method beats another most, with both losses (Figures 7 and 8)

class Strip(NamedTuple):
    """Test items of one kind on which `better` has the smaller loss, the largest difference first."""

    kind: str
    better: str
    worse: str
    rows: Ints  # of the benchmark
    loss: Floats  # items × (better, worse)


class Compared(NamedTuple):
    """The items on which two methods differ most, each way and kind by kind."""

    benchmark: Benchmark
    methods: tuple[str, str]
    seeds: tuple[int, int]
    strips: tuple[Strip, ...]


def beaten(benchmark: Benchmark, loss: Mapping[str, Floats], top: int = TOP) -> tuple[Strip, ...]:
    """The test items where one of two methods beats the other most; `loss[method]` is of every test item in order.

    Only items on which it is better count; ties go to the first item.
    """
    rows = benchmark.rows("test")
    kind = kinds_of(benchmark, rows)
    if kind is None:
        return ()
    first, second = loss
    strips = []
    for better, worse in ((first, second), (second, first)):
        gain = loss[worse] - loss[better]
        for name in (*SIDES, HARD):
            gained = np.flatnonzero((kind == name) & (gain > 0))
            order = gained[np.argsort(-gain[gained], kind="stable")][:top]
            if len(order):
                strips.append(Strip(name, better, worse, rows[order],
                                    np.stack([loss[better][order], loss[worse][order]], axis=1)))
    return tuple(strips)


def compared(
    index: RunIndex, shown: Scores, benchmarks: Sequence[Benchmark], pair: Sequence[str] = (), top: int = TOP
) -> list[Compared]:
    """Two methods on every benchmark with hard items, on the runs that the page shows; losses are means over seeds.

    Without a pair, the baseline `erm` (else the first method) and whichever other has the largest AUC on hard items.
    """
    pairs = []
    for benchmark in benchmarks:
        runs = _runs(shown, benchmark)
        for name in pair:
            if name not in runs:
                raise unknown("method", name, methods_in(runs), f"Runs on '{benchmark.name}'")
        loss = {name: _losses(index, benchmark, runs[name]) for name in tuple(pair) or _usual(shown, benchmark, runs)}
        if len(loss) == 2 and all(loss.values()):
            first, second = loss
            strips = beaten(benchmark, {name: np.mean(listed, axis=0) for name, listed in loss.items()}, top)
            pairs.append(Compared(benchmark, (first, second), (len(loss[first]), len(loss[second])), strips))
    return pairs


def _runs(shown: Scores, benchmark: Benchmark) -> dict[str, list[str]]:
    """Method -> its runs in the report."""
    runs: dict[str, list[str]] = {}
    single = shown.where(stat=RUN, benchmark=benchmark.name)
    for method, run in sorted(set(zip(single.names.tolist(), single["run"].tolist(), strict=True))):
        runs.setdefault(method, []).append(run)
    return runs


def _usual(shown: Scores, benchmark: Benchmark, runs: Mapping[str, object]) -> tuple[str, ...]:
    hard = {name: cell["value"] for name, cell in cells(shown, benchmark, "auc", HARD).items()
            if name in runs and not np.isnan(cell["value"])}
    first = BASELINE if BASELINE in runs else next(iter(methods_in(runs)), "")
    others = [name for name in methods_in(hard) if name != first]
    return (first, max(others, key=lambda name: hard[name])) if others else ()


def _losses(index: RunIndex, benchmark: Benchmark, runs: Sequence[str]) -> list[Floats]:
    """The loss of every test item in every run that was made on just this benchmark and predicted its test."""
    listed, rows = [], benchmark.rows("test")
    for run in runs:
        own = index.by_name.get(run)
        if own is None or str(own.benchmark["digest"]) != benchmark.digest:
            continue
        read = index.predictions(own, benchmark)
        if not isinstance(read, Predictions):
            continue
        order = np.argsort(read.item)
        there = np.isin(benchmark.items[rows], read.item)
        if there.all() and len(rows):
            at = order[np.searchsorted(read.item, benchmark.items[rows], sorter=order)]
            listed.append(losses(benchmark.label[rows], read.scores[at]))
    return listed


# The section

def content(results: Results) -> Content | None:
    """Tables, figures and the items on which two methods differ; None where no benchmark has scores of hard items."""
    own = nooch_in(results.benchmarks)
    names = [benchmark.name for benchmark in own]
    keep = np.isin(results.shown["benchmark"], names) & np.isin(results.shown["split"], SPLITS)
    shown = results.shown.take(keep)  # a small part of a large table, which is looked at again and again
    tables = [numbers for benchmark in own if (numbers := table(shown, benchmark))]
    if not tables:
        return None
    scored = {numbers["name"] for numbers in tables}
    suites: dict[str, list[Benchmark]] = {}
    for benchmark in own:
        if benchmark.name in scored:
            suites.setdefault(criterion(benchmark), []).append(benchmark)
    listed = list(suites.values())
    pairs = compared(results.index, results.shown, own, results.compare) if results.index else []

    def of_methods(benchmark: Benchmark) -> dict[str, Floats]:
        return {} if results.index is None else _mean_losses(results.index, results.shown, benchmark)

    return {"tables": tables, "shown": SHOWN,
            "tasks": [tasks(shown, members) for members in listed if len(members) > 1],
            "figures": [*_harder(shown, listed, results.level), *_figures(shown, listed, results.level)],
            "examples": figures(own, results.images, of_methods),
            "compared": [_compared(pair, results.images) for pair in pairs if pair.strips]}


def _mean_losses(index: RunIndex, shown: Scores, benchmark: Benchmark) -> dict[str, Floats]:
    """The losses of the methods of Figure 8 on the test items, or of the first three: means over seeds."""
    runs = _runs(shown, benchmark)
    chosen = [name for name in TITLED if name in runs] or list(methods_in(runs))[:len(TITLED)]
    listed = {name: _losses(index, benchmark, runs[name]) for name in chosen}
    return {name: np.mean(own, axis=0) for name, own in listed.items() if own}


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
        panels = [(f"{criterion(members[0])}{_of(members)}", across, up, listed) for members in suites
                  for across, up in axes if (listed := points(shown, members, (metric, across), (metric, up)))]
        looks = looks_of(methods_in(point.name for *_, listed in panels for point in listed))
        if panels:
            drawn.append(_figure(
                f"nooch-{metric}", head,
                f"A point is a method{', averaged over the tasks' if several else ''}, its lines the {100 * level:g} % "
                f"intervals{' (the mean of the tasks’)' if several else ''}. {better}; on the dashed line both are the "
                "same.", looks,
                [points_panel(listed, title, tuple(f"{metric.upper()}, {_items(side)}" for side in (across, up)), looks,
                              most=math.inf if metric == "nll" else 1.0) for title, across, up, listed in panels],
                [(title, point.name, f"{metric} {side}", cell["value"], cell["low"], cell["high"])
                 for title, across, up, listed in panels for point in listed
                 for side, cell in ((across, point.x), (up, point.y))]))
    return drawn


def _harder(shown: Scores, suites: Sequence[Sequence[Benchmark]], level: float) -> list[Figure]:
    """Figure 3: whether the hard items are harder, task by task."""
    methods = methods_in(shown.names.tolist())
    method = BASELINE if BASELINE in methods else next(iter(methods), "")
    looks = looks_of(benchmark.name for members in suites for benchmark in members)
    panels, listed = [], []
    for members in suites:
        for side, word in SIDE.items():
            tasks_ = harder(shown, members, side, method)
            if tasks_:
                title = f"{criterion(members[0])}: {word}"
                names = f"NLL, all {word}", f"NLL, hard {word}"
                panels.append(points_panel(tasks_, title, names, looks, square=True))
                listed += [(title, point.name, name, cell["value"], cell["low"], cell["high"])
                           for point in tasks_ for name, cell in zip(names, point[1:], strict=True)]
    return [] if not panels else [_figure(
        "nooch-harder", "Figure 3. Hard items have a higher loss",
        f"A point is a task: the mean loss of {method} on all {' or '.join(SIDE.values())} and on hard ones, with the "
        f"latter’s {100 * level:g} % interval. Above the dashed line hard items are the harder.", looks, panels,
        listed)]


def points_panel(listed: Sequence[Point], title: str, names: Sequence[str], looks: Mapping[str, Look], *,
                 most: float = math.inf, square: bool = False) -> Panel:
    """One number against another, with the line on which both are the same; `square` makes both axes the same."""
    across, up = [point.x for point in listed], [point.y for point in listed]
    x, y = _loss([*across, *up] if square else across, most), _loss([*across, *up] if square else up, most)
    spots = [Spot(point.x, point.y, looks[point.name],
                  f"{point.name}: {names[0]} {with_interval(point.x, _three, '')}, "
                  f"{names[1]} {with_interval(point.y, _three, '')}") for point in listed]
    return scatter(title, spots, x, y, (names[0], names[1]), [Guide("same", "both the same", 1.0)])


def _loss(cells: Sequence[Cell], most: float) -> Scale:
    return scale(around(cells), write=plain, least=0.0, most=most)


def _three(value: float) -> str:
    return f"{value:.3f}"


def _items(side: str) -> str:
    return f"{side.replace('_', ' ')}s" if side in SIDES else f"{side} items"


def _of(members: Sequence[Benchmark]) -> str:
    return f", {len(members)} tasks" if len(members) > 1 else f": {members[0].name}"


def _figure(name: str, head: str, definition: str, looks: Mapping[str, Look], panels: Sequence[Panel],
            listed: Sequence[tuple[Any, ...]]) -> Figure:
    return Figure(name, head, definition, tuple(panels), ("panel", "name", "quantity", "value", "low", "high"),
                  tuple(listed), legends=legends([*looks.items(), ("both the same", "same")]))


def _compared(pair: Compared, images: Mapping[str, Collection]) -> Row:
    """Both ways of a comparison, kind by kind, with pictures where the collection is there."""
    digest, seeds = str((pair.benchmark.card.get("collection") or {}).get("digest")), max(pair.seeds)
    return {"name": pair.benchmark.name, "methods": pair.methods,
            "seeds": f", mean over {seeds} seeds" if seeds > 1 else "",
            "strips": [_strip(pair.benchmark, strip, images.get(digest)) for strip in pair.strips]}


def _strip(benchmark: Benchmark, strip: Strip, collection: Collection | None) -> Row:
    pictures = pictures_of(benchmark, collection, strip.rows) if collection is not None else []
    items = [{"item": str(benchmark.items[row]), "label": benchmark.names["label"][benchmark.label[row]],
              "group": benchmark.names["group"][benchmark.group[row]], "better": _two(better), "worse": _two(worse),
              "source": pictures[number]["source"] if pictures else ""}
             for number, (row, (better, worse)) in enumerate(
                 zip(strip.rows.tolist(), strip.loss.tolist(), strict=True))]
    return {"kind": strip.kind.replace("_", " "), "better": strip.better, "worse": strip.worse, "entries": items}


def _two(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "∞"
