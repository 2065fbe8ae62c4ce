"""Scores as nested plain data, for `--json` and for other tools."""

import math
from typing import Any

from shiftbench.data.scores import ALL, DIFFERENCE, Scores
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.metrics import is_worst
from shiftbench.scoring.rows import GAP


def to_json(scores: Scores, *, level: float = LEVEL) -> dict[str, Any]:
    """Runs and means, in them splits, in them the average, the worst group and every group; NaN is null.

    What is over a further grouping stands in the split's `groupings`, by the name of that. How far a model is behind
    the best has the name of its metric with `_behind_best`, and its p-value.
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
