"""Hard items of NOOCh as strips of pictures, each item with the losses of some methods.

By the CE criterion (Figure 1), where CE and gist disagree (Figures 2 and 8), and where two methods differ most (Figures
7 and 8).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints, child, positions
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import RUN, Scores
from shiftbench.reporting.pictures import pictures_of
from shiftbench.reporting.score_tables import Row, methods_in
from shiftbench.scoring.hard_items import EASY, HARD, SIDES, kinds_of
from shiftbench.scoring.metrics import losses
from shiftbench.scoring.reading import RunIndex

PER_STRIP, TOP = 4, 8
"""Items of a strip of examples, of which the paper shows one or two, and of a strip that compares two methods."""
TITLED = ("erm", "group_dro", "irm")
"""Methods whose losses are shown below the pictures of Figures 1, 2 and 8."""
CRITERIA = {"ce": "CE criterion", "gist": "Gist criterion", "factors": "Question about factors"}

Losses = Mapping[str, Floats]
"""Method -> its loss on every test item of a benchmark, in order."""


def criterion(benchmark: Benchmark) -> str:
    """How hard items were identified: CE criterion, Gist criterion, …"""
    name = str((benchmark.card.get("criterion") or {}).get("name") or "")
    if name.startswith("published "):
        word = name.removeprefix("published ")
        return f"Published {word.upper() if word.lower() == 'ce' else word} lists"
    return CRITERIA.get(name, name or "Hard and easy items")


# Figures 1, 2 and 8: hard items, and where the criteria disagree

class Example(NamedTuple):
    """Some test items of one kind, and the benchmark whose rows they are."""

    benchmark: Benchmark
    kind: str
    rows: Ints
    besides: str = ""  # the criterion by which they are easy


def example_figures(
    benchmarks: Sequence[Benchmark], images: Mapping[str, Collection], losses_on: Callable[[Benchmark], Losses]
) -> list[Row]:
    """Figure 1 of every benchmark by CE, 2 and 8 of every task with both criteria; none where there are no pictures."""
    pictured = [benchmark for benchmark in benchmarks if _collection(benchmark, images) is not None]
    by_ce = [benchmark for benchmark in pictured if criterion(benchmark) in ("CE criterion", "Published CE lists")]
    figures = [("Figure 1", benchmark.name, examples(benchmark)) for benchmark in by_ce]
    figures += [("Figures 2 and 8", f"{ce.name} and {gist.name}", disagreements(ce, gist))
                for ce, gist in pairs(pictured)]
    return [{"figure": figure, "name": name, "strips": [
        {"kind": _in_words(example.kind), "criterion": criterion(example.benchmark), "besides": example.besides,
         "entries": _entries(example.benchmark, example.rows, images, losses_on(example.benchmark))}
        for example in chosen]} for figure, name, chosen in figures if chosen]


def examples(benchmark: Benchmark) -> list[Example]:
    """A few hard positives and hard negatives of the test items, chosen at random but always the same (Figure 1)."""
    rows = benchmark.rows("test")
    kind = kinds_of(benchmark, rows)
    return [] if kind is None else [Example(benchmark, side, few) for side in SIDES
                                    if len(few := _few(rows[kind == side], benchmark.name, side))]


def disagreements(ce: Benchmark, gist: Benchmark) -> list[Example]:
    """Test items that are hard by either criterion and easy by the other (Figures 2 and 8)."""
    chosen = []
    for first, second in ((ce, gist), (gist, ce)):
        rows, others = first.rows("test"), second.rows("test")
        kind, theirs = kinds_of(first, rows), kinds_of(second, others)
        if kind is None or theirs is None:
            return []
        easy = np.isin(first.items[rows], second.items[others[theirs == EASY]])
        chosen += [Example(first, side, few, criterion(second)) for side in SIDES
                   if len(few := _few(rows[(kind == side) & easy], first.name, side))]
    return chosen


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


def _few(rows: Ints, *purpose: str) -> Ints:
    chosen = child(0, "report", "nooch", *purpose).permutation(len(rows))[:PER_STRIP]
    return rows[np.sort(chosen)]


# Figures 7 and 8: items on which one method beats another most

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
    loss: Losses
    strips: tuple[Strip, ...]

    def figure(self, images: Mapping[str, Collection]) -> Row:
        """The strips with pictures, where the collection is there."""
        seeds = max(self.seeds)
        return {"name": self.benchmark.name, "methods": self.methods,
                "seeds": f", mean over {seeds} seeds" if seeds > 1 else "",
                "strips": [{"kind": _in_words(strip.kind), "better": strip.better, "worse": strip.worse,
                            "entries": _entries(self.benchmark, strip.rows, images, {
                                name: self.loss[name] for name in (strip.better, strip.worse)})}
                           for strip in self.strips]}


def beaten(benchmark: Benchmark, loss: Losses, top: int = TOP) -> tuple[Strip, ...]:
    """The test items where one of two methods beats the other most.

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


# Losses of runs, and items with them

def mean_losses(index: RunIndex, shown: Scores, benchmark: Benchmark) -> dict[str, Floats]:
    """The losses of the methods of Figure 8 on the test items, or of the first three: means over seeds."""
    runs = runs_of(shown, benchmark)
    chosen = [name for name in TITLED if name in runs] or methods_in(runs)[:len(TITLED)]
    by_seed = {name: losses_of(index, benchmark, runs[name]) for name in chosen}
    return {name: np.mean(losses, axis=0) for name, losses in by_seed.items() if losses}


def runs_of(shown: Scores, benchmark: Benchmark) -> dict[str, list[str]]:
    """Method -> its runs in the report."""
    runs: dict[str, list[str]] = {}
    single = shown.where(stat=RUN, benchmark=benchmark.name)
    for method, run in sorted(set(zip(single.names.tolist(), single["run"].tolist(), strict=True))):
        runs.setdefault(method, []).append(run)
    return runs


def losses_of(index: RunIndex, benchmark: Benchmark, runs: Sequence[str]) -> list[Floats]:
    """The loss of every test item in every run that was made on just this benchmark and predicted its test."""
    by_run, rows = [], benchmark.rows("test")
    for name in runs:
        run = index.by_name.get(name)
        if run is None or str(run.benchmark["digest"]) != benchmark.digest:
            continue
        predictions = index.predictions(run, benchmark)
        if not isinstance(predictions, Predictions):
            continue
        at = positions(benchmark.items[rows], predictions.item)
        if len(rows) and (at >= 0).all():
            by_run.append(losses(benchmark.label[rows], predictions.scores[at]))
    return by_run


def _entries(benchmark: Benchmark, rows: Ints, images: Mapping[str, Collection], loss: Losses) -> list[Row]:
    """Items with their pictures, if the collection is available, and the loss of each method on them."""
    collection = _collection(benchmark, images)
    pictures = pictures_of(benchmark, collection, rows) if collection is not None else []
    places = np.searchsorted(benchmark.rows("test"), rows).tolist()
    return [{"item": str(benchmark.items[row]), "group": benchmark.names["group"][benchmark.group[row]],
             "source": pictures[number]["source"] if pictures else "",
             "losses": [(method, _two(float(values[places[number]]))) for method, values in loss.items()]}
            for number, row in enumerate(rows.tolist())]


def _collection(benchmark: Benchmark, images: Mapping[str, Collection]) -> Collection | None:
    return images.get(str((benchmark.card.get("collection") or {}).get("digest")))


def _in_words(kind: str) -> str:
    return kind.replace("_", " ")


def _two(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "∞"
