"""The numbers of BREEDS: source, target and target-RT accuracy of every model, and how much of the first it keeps.

A point is a method with one model: `resnet18` is one, and so is each model that the runs of `erm` were made with.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, RUN, Scores
from shiftbench.reporting.charts import Cell
from shiftbench.reporting.page import of_runs, shown_scores
from shiftbench.reporting.score_tables import Row, column_of, methods_in
from shiftbench.reporting.sections.families import distance_of
from shiftbench.scoring import GAP
from shiftbench.scoring.intervals import LEVEL, student, wilson
from shiftbench.scoring.rules import DEFAULT

SOURCE, TARGET = "id_test", "test"
RT = "target_rt_accuracy"
HEAD = ("run", "method", "model", "setting", "label", "seed")
"""The columns of a table of scores that identify a run."""
SPLITS = ("none", "good", "rand", "bad")
REPLICATES = 10_000
"""Draws behind an interval; each is two numbers, so they cost nothing."""


class Point(NamedTuple):
    """One model on one benchmark: cells of `pivot`."""

    name: str
    source: Row
    target: Row
    rt: Row | None  # None where its last layer was not trained on the target
    relative: Row | None  # target over source accuracy; None where source accuracy is 0
    drop: Row | None
    whole: Row | None = None  # target accuracy of the same model, trained end to end on the target


class Pair(NamedTuple):
    """A superclass or a model: accuracy before and after the shift, or before and after training on the target."""

    name: str
    before: Cell
    after: Cell

    @property
    def drop(self) -> float:
        return float(self.before["value"] - self.after["value"])


# The scores of a point

def by_model(scores: Scores, benchmarks: Sequence[Benchmark], rule: str = DEFAULT) -> Scores:
    """The scores to show, with one label (one point) per model where a method has several models on a benchmark.

    Runs of a preset are runs of a method of their own. A mean is that of the runs which have its setting.

    A point with one setting has the mean over its seeds; where it has several settings, the rule chooses one.
    """
    rows = of_runs(scores.take(np.isin(scores["benchmark"], [benchmark.name for benchmark in benchmarks])))
    single = rows.where(stat=RUN)
    names = dict(zip(zip(single["method"].tolist(), single["setting"].tolist(), strict=True), single.names.tolist(),
                     strict=True))
    columns = [rows[name].tolist() for name in ("benchmark", "method", "model", "setting", "stat", "label")]
    keys = [(benchmark, name if stat == RUN else names.get((method, setting), method), model, setting, stat, label)
            for name, (benchmark, method, model, setting, stat, label)
            in zip(rows.names.tolist(), zip(*columns, strict=True), strict=True)]
    settings: dict[tuple[str, str, str], set[str]] = {}
    for benchmark, method, model, setting, stat, _ in dict.fromkeys(keys):
        if stat == RUN:
            settings.setdefault((benchmark, method, model), set()).add(setting)
    nets = Counter((benchmark, method) for benchmark, method, _ in settings)
    several = {method for (_, method), n in nets.items() if n > 1}
    of_point = [method not in several or stat == RUN or settings.get((benchmark, method, model)) == {setting}
                for benchmark, method, model, setting, stat, _ in keys]
    labels = [f"{method}, {model}" if method in several else label for _, method, model, _, _, label in keys]
    return shown_scores(rows.assign(label=np.asarray(labels, np.str_)).take(np.asarray(of_point, np.bool_)),
                        benchmarks, rule)


def points(shown: Scores, benchmark: Benchmark, level: float = LEVEL, reference: Benchmark | None = None
           ) -> list[Point]:
    """Every model of a benchmark that has a source and a target accuracy, in the order of the page.

    Runs on its reference test-to-test are those of models that were trained end to end on the target.
    """
    rows = shown.where(benchmark=benchmark.name)
    whole = {} if reference is None else column_of(shown.where(benchmark=reference.name), reference.name, "accuracy",
                                                   TARGET, level=level)
    source, target, rt, drop = (column_of(rows, benchmark.name, metric, split, level=level) for metric, split in (
        ("accuracy", SOURCE), ("accuracy", TARGET), (RT, TARGET), ("accuracy_gap", GAP)))
    return [Point(name, source[name], target[name], rt.get(name),
                  relative(source[name], target[name], level, purpose=f"{benchmark.name} {name}"), drop.get(name),
                  whole.get(name))
            for name in methods_in(source) if name in target]


# Numbers

def relative(source: Cell, target: Cell, level: float = LEVEL, *, purpose: str = "", replicates: int = REPLICATES
             ) -> Row | None:
    """A cell of relative accuracy and the percentiles of its draws; None where nothing is right on the source.

        ρ = target / source,   ρ* = target* / source*

    Source and target items are not the same, so the two are drawn apart: see `redraw`.
    """
    if not source["value"] > 0:
        return None
    below, above = (redraw(cell, level, child(0, "relative accuracy", side, purpose), replicates)
                    for side, cell in (("source", source), ("target", target)))
    ends = np.full(2, math.nan)
    if not (np.isnan(below).any() or np.isnan(above).any()):
        with np.errstate(divide="ignore"):
            drawn = np.where(below > 0, above / np.maximum(below, 1e-300), np.inf)
        ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return {"value": target["value"] / source["value"], "low": float(ends[0]), "high": float(ends[1]), "best": False,
            "tied": False, "runs": target["runs"]}


def redraw(cell: Cell, level: float, rng: np.random.Generator, replicates: int) -> Floats:
    """The accuracy on other items and, for a mean over seeds, with other seeds.

    One run: a bootstrap over its n items, which for a share is Binomial(n, p) / n; p is (hits + ½) / (n + 1), since
    a run that is always right has no wrong item to draw. A mean over seeds: a normal draw with its scored interval,
    which has items and seeds in it, each once (`intervals`). Drawing three seeds again with replacement would not
    do: the result stays between the lowest and the highest, and covers three times in four.
    """
    if cell["runs"] == 1:
        n = int(cell["n"])
        return np.asarray(rng.binomial(n, (n * cell["value"] + 0.5) / (n + 1), replicates) / n)
    z = rng.standard_normal(replicates) / float(student(math.inf, level))
    width = np.where(z < 0, cell["value"] - cell["low"], cell["high"] - cell["value"])
    return np.asarray(np.clip(cell["value"] + z * width, 0.0, 1.0))


def frontier(xs: Sequence[float], ys: Sequence[float]) -> list[int]:
    """The Pareto frontier, from left to right: those that no other beats in one number without losing in the other.

    >>> frontier([0.9, 0.8, 0.7, 0.95], [0.7, 0.8, 0.75, 0.6])
    [1, 0, 3]
    """
    kept: list[int] = []
    for point in sorted(range(len(xs)), key=lambda point: (-xs[point], -ys[point])):
        if not kept or ys[point] > ys[kept[-1]]:
            kept.append(point)
    return kept[::-1]


def constant_drop(sources: Sequence[float], targets: Sequence[float]) -> tuple[int, float]:
    """The model that is weakest on the source, and the share of its accuracy that it keeps on the target.

    A model that loses the same share has target = share × source: the grey line of the paper's Figure 5, which takes
    AlexNet. Better models above it are more robust, and not only more accurate.
    """
    weakest = min(range(len(sources)), key=lambda point: sources[point])
    return weakest, targets[weakest] / sources[weakest] if sources[weakest] > 0 else math.nan


def by_class(scores: Scores, benchmark: Benchmark, level: float = LEVEL) -> Scores:
    """Combine accuracies of groups into accuracies of classes; the group of such a score is the class.

        a_y = Σ_g n_g a_g / Σ_g n_g   over the groups g of class y

    The scores are of single runs, from which `pivot` makes means; intervals are Wilson's. A class is left out where one
    of its groups has items of another class or has no score.
    """
    means: list[dict[str, Any]] = []
    scored = scores.where(stat=RUN, benchmark=benchmark.name, metric="accuracy", by="")
    scored = scored.take(scored["group"] != ALL)
    for split in sorted(set(scored["split"].tolist())):
        rows = benchmark.rows(split)
        wanted = {str(name): set(np.unique(benchmark.group[rows[benchmark.label[rows] == code]]).tolist())
                  for code, name in enumerate(benchmark.names["label"])}
        owner = {benchmark.names["group"][code]: name for name, codes in wanted.items() for code in codes
                 if sum(code in other for other in wanted.values()) == 1}
        sums: dict[tuple[Any, ...], list[tuple[int, float]]] = {}
        for row in scored.where(split=split):
            if row["group"] in owner:
                key = (*(row[column] for column in HEAD), owner[row["group"]])
                sums.setdefault(key, []).append((row["n"], row["n"] * row["value"]))
        for (*head, name), parts in sums.items():
            n, right = map(sum, zip(*parts, strict=True))
            if len(parts) == len(wanted[name]) and n:
                low, high = wilson(right / n, n, level)
                means.append({**dict(zip(HEAD, head, strict=True)), "benchmark": benchmark.name,
                              "digest": benchmark.short_digest, "split": split, "group": name, "n": n,
                              "metric": "accuracy", "value": right / n, "low": float(low), "high": float(high)})
    return Scores.of(means)


def by_superclass(shown: Scores, benchmark: Benchmark, method: str, level: float = LEVEL) -> list[Pair]:
    """Source and target accuracy of every superclass by one model, the largest drop first."""
    classes = by_class(shown.take(shown.names == method), benchmark, level)
    pairs = []
    for name in benchmark.names["label"]:
        sides = [column_of(classes, benchmark.name, "accuracy", split, name, level=level).get(method)
                 for split in (SOURCE, TARGET)]
        if sides[0] and sides[1]:
            pairs.append(Pair(name, sides[0], sides[1]))
    return sorted(pairs, key=lambda row: -row.drop)


def families(benchmarks: Sequence[Benchmark]) -> list[list[Benchmark]]:
    """Benchmarks that differ in how source and target were split and in nothing else, from near to far."""
    alike: dict[str, list[Benchmark]] = {}
    for benchmark in benchmarks:
        params = {key: value for key, value in (benchmark.card.get("params") or {}).items()
                  if key not in ("split", "adversariality")}
        key = repr((benchmark.names["label"], sorted(params.items(), key=str), benchmark.card.get("collection")))
        alike.setdefault(key, []).append(benchmark)
    return [sorted(members, key=_order) for members in alike.values() if len(members) > 1]


def split_of(benchmark: Benchmark) -> str:
    """How the subclasses of a benchmark were split, as a word or a number."""
    params: Mapping[str, Any] = benchmark.card.get("params") or {}
    graded = params.get("adversariality")
    return str(params.get("split", "")) if graded is None else f"{graded:g}"


def _order(benchmark: Benchmark) -> tuple[float, int, str]:
    word = split_of(benchmark)
    return distance_of(benchmark) or 0.0, SPLITS.index(word) if word in SPLITS else len(SPLITS), benchmark.name
