"""What the scores of BREEDS' benchmarks say of every model: source, target and target-RT accuracy, side by side.

A point is a method with one model: `resnet18` is one, and so is each model that the runs of `erm` were made with.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, Scores
from shiftbench.reporting.breeds_numbers import Relative, relative
from shiftbench.reporting.selection import shown_scores
from shiftbench.reporting.tables import Row, methods_in, pivot
from shiftbench.scoring import GAP, MEAN
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.select import DEFAULT

SHIFT = "breeds"
SOURCE, TARGET = "id_test", "test"
RT = "target_rt_accuracy"
MODEL = ("model", "features", "weights")
"""Settings that make another model, and so a point of its own; among others a rule chooses."""
HUMAN, PAIRWISE = "human", "pairwise_accuracy"
ANNOTATED = (PAIRWISE, f"{PAIRWISE}_gap", "answered", "agreement", "fleiss_kappa")
"""What a study of annotators adds to a table of scores: of people and of models, but of no run that could be chosen."""
SPLITS = ("none", "good", "rand", "bad")


class Point(NamedTuple):
    """One model on one benchmark: cells of `pivot`."""

    name: str
    source: Row
    target: Row
    rt: Row | None  # None where its last layer was not trained on the target
    relative: Relative | None  # None where it is never right on the source
    drop: Row | None


class Family(NamedTuple):
    """Benchmarks that differ in how source and target were split and in nothing else, from near to far."""

    members: tuple[Benchmark, ...]

    @property
    def title(self) -> str:
        return ", ".join(one.name for one in self.members)


def breeds_in(benchmarks: Sequence[Benchmark]) -> list[Benchmark]:
    """The benchmarks of shift `breeds`."""
    return [one for one in benchmarks if one.card.get("shift") == SHIFT]


def of_runs(scores: Scores) -> Scores:
    """The scores without those of a study of annotators."""
    return _rows(scores, ~np.isin(scores["metric"], ANNOTATED))


def by_model(scores: Scores, benchmarks: Sequence[Benchmark], rule: str = DEFAULT) -> Scores:
    """The scores to show, with methods renamed to points.

    A run's row has a hash for a setting, the mean over its seeds a name: `erm (model="mlp")`. A setting has the name
    whose means are those of its runs on every split. Points still with several settings are left to the rule.
    """
    names = {one.name for one in benchmarks}
    mine = of_runs(_rows(scores, np.isin(scores["benchmark"], sorted(names))))
    is_mean = (mine["seed"] == -1) & np.char.startswith(mine["run"], MEAN)
    label = _labels(_rows(mine, ~is_mean), _rows(mine, is_mean))
    split_up = {method for (_, method, _), name in label.items() if _model(name)[0]}
    if not split_up:
        return shown_scores(mine, benchmarks, rule)
    renamed: dict[tuple[str, str, str, bool], str] = {}  # "" for a mean that is not the mean of a point
    keys = list(zip(*(mine[name].tolist() for name in ("benchmark", "method", "setting")), is_mean.tolist(),
                    strict=True))
    for key in set(keys):
        benchmark, method, setting, mean = key
        base = method.partition(" (")[0]
        if base not in split_up:
            renamed[key] = method
        elif mean:
            model, others = _model(method)
            renamed[key] = _called(base, model) if model and not others else ""
        else:
            renamed[key] = _called(method, _model(label.get((benchmark, method, setting), ""))[0])
    words = np.asarray([renamed[key] for key in keys], np.str_)
    return shown_scores(_rows(Scores({**mine.columns, "method": words}), words != ""), benchmarks, rule)


def points(shown: Scores, benchmark: Benchmark, level: float = LEVEL) -> list[Point]:
    """Every model of a benchmark that has a source and a target accuracy, in the order of the page."""
    mine = shown.where(benchmark=benchmark.name)
    source, target, rt, drop = (
        {row["method"]: row["cells"][benchmark.name] for row in pivot(mine, metric, split)}
        for metric, split in (("accuracy", SOURCE), ("accuracy", TARGET), (RT, TARGET), ("accuracy_gap", GAP)))
    return [Point(name, source[name], target[name], rt.get(name),
                  relative(source[name], target[name], level, purpose=f"{benchmark.name} {name}"), drop.get(name))
            for name in methods_in(source) if name in target]


def families(benchmarks: Sequence[Benchmark]) -> list[Family]:
    """Those of two benchmarks or more, each in the order of its separation."""
    found: dict[str, list[Benchmark]] = {}
    for one in benchmarks:
        params = {key: value for key, value in (one.card.get("params") or {}).items()
                  if key not in ("split", "adversariality")}
        found.setdefault(repr((one.names["label"], sorted(params.items(), key=str), one.card.get("collection"))),
                         []).append(one)
    return [Family(tuple(sorted(members, key=_order))) for members in found.values() if len(members) > 1]


def split_of(benchmark: Benchmark) -> str:
    """How its subclasses were split, in a word or as a number."""
    params: Mapping[str, Any] = benchmark.card.get("params") or {}
    graded = params.get("adversariality")
    return str(params.get("split", "")) if graded is None else f"{graded:g}"


def separation(benchmark: Benchmark) -> float | None:
    value = benchmark.card.get("distance")
    return float(value) if isinstance(value, int | float) else None


def _order(benchmark: Benchmark) -> tuple[float, int, str]:
    word = split_of(benchmark)
    return separation(benchmark) or 0.0, SPLITS.index(word) if word in SPLITS else len(SPLITS), benchmark.name


def _labels(single: Scores, means: Scores) -> dict[tuple[str, str, str], str]:
    """(benchmark, method, setting) -> what its mean over seeds is called."""
    runs: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in single.where(metric="accuracy", group=ALL):
        runs.setdefault((row["benchmark"], row["method"], row["setting"]), {}).setdefault(
            row["split"], []).append(row["value"])
    called: dict[str, dict[str, dict[str, float]]] = {}
    for row in means.where(metric="accuracy", group=ALL):
        called.setdefault(row["benchmark"], {}).setdefault(row["method"], {})[row["split"]] = row["value"]
    found: dict[tuple[str, str, str], str] = {}
    for key, values in runs.items():
        free = called.get(key[0], {})
        for name, wanted in free.items():
            if name.startswith(f"{key[1]} (") and all(
                    split in values and abs(float(np.mean(values[split])) - value) < 1e-9
                    for split, value in wanted.items()):
                found[key] = name
                del free[name]
                break
    return found


def _model(label: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of a label's settings, the values of those that make a model, and the names of the others.

    >>> _model('erm (features="lite@64", lr=0.1, model="mlp")')
    (('mlp', 'lite@64'), ('lr',))
    """
    told = dict(re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|[^,]+?)(?=, \w+=|\)$)', label.partition(" (")[2]))
    values = tuple(told[key].strip('"') for key in MODEL if key in told and told[key] != '""')
    return values, tuple(key for key in told if key not in MODEL)


def _called(method: str, model: Sequence[str]) -> str:
    """
    >>> _called("erm", ("mlp", "lite@64"))
    'erm, mlp on lite@64'
    """
    return f"{method}, {' on '.join(model)}" if model else method


def _rows(scores: Scores, keep: Bools) -> Scores:
    return Scores({name: values[keep] for name, values in scores.columns.items()})
