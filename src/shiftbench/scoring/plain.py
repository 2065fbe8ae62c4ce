"""Scores as nested plain data, for `--json` and for other tools."""

import math
from typing import Any

from shiftbench.data.groupings import untitled
from shiftbench.data.scores import ALL, Scores
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.rows import GAP


def to_json(scores: Scores, *, level: float = LEVEL) -> dict[str, Any]:
    """Runs, in them splits, in them the average, the worst group and every group; what is not a number is null.

    What is over a grouping of its own stands in the split's `groupings`, by what that is called.
    """
    runs: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in scores:
        key = {name: row[name] for name in ("run", "benchmark", "method", "seed")}
        run = runs.setdefault(tuple(key.values()), {**key, "splits": {}})
        entry: dict[str, Any] = {name: row[name] if math.isfinite(row[name]) else None
                                 for name in ("value", "low", "high")}
        entry["n"] = row["n"]
        if row["split"] == GAP:
            run[row["metric"]] = entry
            continue
        split = run["splits"].setdefault(row["split"], {"groups": {}})
        metric, said = untitled(row["metric"])
        if said:
            split = split.setdefault("groupings", {}).setdefault(said, {"groups": {}})
        if metric.startswith("worst_"):
            split[metric] = {"group": row["group"], **entry}
        elif row["group"] == ALL:
            split[metric] = entry
        else:
            split["groups"].setdefault(row["group"], {})[metric] = entry
    kind = "Wilson, Student; worst groups corrected; AUC: DeLong on the logit scale"
    return {"interval": {"kind": kind, "level": level}, "runs": list(runs.values())}
