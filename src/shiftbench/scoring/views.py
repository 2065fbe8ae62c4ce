"""A table of scores in other forms: models side by side, nested plain data, and its benchmarks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN, Scores
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.judge import GAP
from shiftbench.scoring.metrics import is_worst


class Comparison(NamedTuple):
    """Two models on the same items of a split or of a group; `p` is corrected for how many are compared."""

    benchmark: str
    split: str
    metric: str
    by: str  # the grouping, "" for the benchmark's own groups
    group: str
    n: int
    best: str
    other: str
    best_value: float
    other_value: float
    low: float
    high: float
    p: float

    @property
    def difference(self) -> float:
        return self.best_value - self.other_value


def comparisons(scores: Scores) -> list[Comparison]:
    """All comparisons: over all items first, then groups with the strongest evidence first."""
    values: dict[tuple[Any, ...], float] = {}
    tables: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    names = scores.names.tolist()
    for name, row in sorted(zip(names, scores, strict=True), key=lambda pair: pair[1]["stat"] == MEAN):  # means win
        key = (row["benchmark"], row["split"], row["metric"], row["by"])
        if row["stat"] == DIFFERENCE:
            tables.setdefault((*key, row["group"]), {})[name] = row
        else:
            values[*key, ALL if is_worst(row["metric"]) else row["group"], name] = row["value"]
    pairs = []
    for key, rows in tables.items():
        best = min(rows, key=lambda name: rows[name]["value"])
        for name, row in rows.items():
            if name != best and (*key, name) in values and (*key, best) in values:
                pairs.append(Comparison(
                    **{column: row[column] for column in ("benchmark", "split", "metric", "by", "group", "n")},
                    best=best, other=name, best_value=values[*key, best], other_value=values[*key, name],
                    low=row["low"], high=row["high"], p=row["p"]))
    return sorted(pairs, key=lambda pair: (pair.split != "test", pair.split, pair.group != ALL, bool(pair.by),
                                           pair.group == ALL and pair.metric != "accuracy", pair.p))


def to_json(scores: Scores, *, level: float = LEVEL) -> dict[str, Any]:
    """Runs and means, each with its splits, each with its average, its worst group and every group; NaN is null.

    Scores over a further grouping are in the split's `groupings`, under its name. How far a model is behind the best is
    under the name of the metric with `_behind_best`, with its p-value.
    """
    runs: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in scores:
        key = {name: row[name] for name in ("run", "benchmark", "method", "label", "seed", "runs")}
        run = runs.setdefault(tuple(key.values()), {**key, "splits": {}})
        behind = row["stat"] == DIFFERENCE
        entry: dict[str, Any] = {name: row[name] if math.isfinite(row[name]) else None
                                 for name in ("value", "low", "high", *(["p"] if behind else []))}
        entry["n"] = row["n"]
        if row["split"] == GAP:
            run[row["metric"]] = entry
            continue
        split = run["splits"].setdefault(row["split"], {"groups": {}})
        metric = row["metric"] + ("_behind_best" if behind else "")
        if row["by"]:
            split = split.setdefault("groupings", {}).setdefault(row["by"], {"groups": {}})
        if is_worst(row["metric"]):
            split[metric] = {"group": row["group"], **entry}
        elif row["group"] == ALL:
            split[metric] = entry
        else:
            split["groups"].setdefault(row["group"], {})[metric] = entry
    kind = "Wilson, Student; worst groups corrected; AUC: DeLong on the logit scale"
    return {"interval": {"kind": kind, "level": level}, "runs": list(runs.values())}


def named(benchmarks: Sequence[Benchmark], scores: Scores) -> list[Benchmark]:
    """The benchmarks under the names that the scores have for them, found by digest.

    A benchmark whose digest is not in the scores keeps its name, unless the scores have another digest under that name:
    then it was rebuilt, and its card would explain numbers that are not about it. Scores of older tables, without
    digests, are matched by name.
    """
    pairs = dict.fromkeys(zip(scores["benchmark"].tolist(), scores["digest"].tolist(), strict=True))
    renamed: list[Benchmark] = []
    for benchmark in benchmarks:
        names = [name for name, digest in pairs if digest == benchmark.short_digest]
        others = [digest for name, digest in pairs if name == benchmark.name and digest]
        if not names and others:
            raise ShiftBenchError(f"The scores of '{benchmark.name}' were made on other rows ({others[0]}) than the "
                                  f"benchmark given now ({benchmark.short_digest}): it was built again. Score again, "
                                  "or give the benchmark that was scored.")
        renamed += [benchmark if name == benchmark.name else replace(benchmark, card={**benchmark.card, "name": name})
                    for name in names or [benchmark.name]]
    return renamed
