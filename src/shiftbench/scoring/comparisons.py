"""Models side by side: how far each is behind the best on the same items, from the rows of `means` and `versus`."""

from typing import Any, NamedTuple

from shiftbench.data.scores import ALL, DIFFERENCE, MEAN, Scores
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
    """All of them: over all items first, then groups with the strongest evidence first."""
    values: dict[tuple[Any, ...], float] = {}
    tables: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    names = scores.names.tolist()
    for name, row in sorted(zip(names, scores, strict=True), key=lambda pair: pair[1]["stat"] == MEAN):  # means win
        key = (row["benchmark"], row["split"], row["metric"], row["by"])
        if row["stat"] == DIFFERENCE:
            tables.setdefault((*key, row["group"]), {})[name] = row
        else:
            values[*key, ALL if is_worst(row["metric"]) else row["group"], name] = row["value"]
    listed = []
    for key, rows in tables.items():
        best = min(rows, key=lambda name: rows[name]["value"])
        for name, row in rows.items():
            if name != best and (*key, name) in values and (*key, best) in values:
                listed.append(Comparison(
                    **{column: row[column] for column in ("benchmark", "split", "metric", "by", "group", "n")},
                    best=best, other=name, best_value=values[*key, best], other_value=values[*key, name],
                    low=row["low"], high=row["high"], p=row["p"]))
    return sorted(listed, key=lambda one: (one.split != "test", one.split, one.group != ALL, bool(one.by),
                                           one.group == ALL and one.metric != "accuracy", one.p))
