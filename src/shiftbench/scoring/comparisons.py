"""Models side by side: how far each is behind the best on the same items, from the rows of `means` and `versus`."""

from typing import Any, NamedTuple

from shiftbench.data.groupings import untitled
from shiftbench.data.scores import ALL, Scores
from shiftbench.scoring.rows import BEHIND, P


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
    """All of them: over all items first, then groups with the strongest evidence first."""
    values: dict[tuple[Any, ...], dict[str, Any]] = {}
    behind: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    p: dict[tuple[Any, ...], float] = {}
    for row in scores:
        key = (row["benchmark"], row["split"], row["metric"], row["group"])
        if not row["metric"].endswith(BEHIND):
            worst = row["metric"].startswith("worst_")
            values.setdefault((*key[:3], ALL if worst else row["group"], row["method"]), row)
        elif row["metric"].startswith(P):
            p[*key[:2], row["metric"].removeprefix(P), row["group"], row["method"]] = row["value"]
        else:
            behind.setdefault(key, {})[row["method"]] = row
    found = []
    for (benchmark, split, metric, group), rows in behind.items():
        best = min(rows, key=lambda name: rows[name]["value"])
        name, by = untitled(metric.removesuffix(BEHIND))
        for method, row in rows.items():
            mine = values.get((benchmark, split, metric.removesuffix(BEHIND), group, method))
            top = values.get((benchmark, split, metric.removesuffix(BEHIND), group, best))
            if method != best and mine is not None and top is not None:
                found.append(Comparison(benchmark, split, name, by, group, row["n"], best, method, top["value"],
                                        mine["value"], row["low"], row["high"],
                                        p.get((benchmark, split, metric, group, method), float("nan"))))
    return sorted(found, key=lambda one: (one.split != "test", one.split, one.group != ALL, bool(one.by),
                                        one.group == ALL and one.metric != "accuracy", one.p))
