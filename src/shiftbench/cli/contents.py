"""The contents of a collection or a folder of runs, as facts and as tables on a terminal."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.cli.output import print_table, say, say_titled
from shiftbench.core.arrays import encode
from shiftbench.data.collection import Collection
from shiftbench.sweeps.status import STATES, describe, summary


def collection_facts(collection: Collection) -> dict[str, Any]:
    """Counts of everything in a collection."""
    tags = collection.tags
    times = np.bincount(tags.tag, minlength=len(tags.names))
    kinds = sorted(set(tags.kinds))
    return {
        "name": collection.name, "items": len(collection), "digest": collection.digest,
        "images": "none" if collection.pixels is None else "files" if collection.pixels.dtype.kind == "U"
        else "×".join(map(str, collection.pixels.shape[1:3])),
        "texts": len(collection.texts.item), "boxes": len(tags.boxes),
        "factors": {name: _values(values) for name, values in collection.factors.items()},
        "tags": {kind: {tags.names[code]: int(times[code]) for code in np.argsort(-times, kind="stable")
                        if tags.kinds[code] == kind} for kind in kinds},
        "parents": len(collection.parents),
    }


def _values(values: Any) -> dict[str, Any]:
    """How often each value occurs; for numbers with many values, their range and how many are missing."""
    if values.dtype.kind == "f" or (values.dtype.kind in "iu" and len(np.unique(values)) > 50):
        known = values[~np.isnan(values)]
        lacking = {"missing": len(values) - len(known)} if len(known) < len(values) else {}
        return {"least": known.min().item(), "most": known.max().item(), **lacking} if len(known) else lacking
    codes, names = encode(values)
    return dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))


def show_collection(collection: Collection) -> None:
    facts = collection_facts(collection)
    say_titled(facts["name"], f"{facts['items']:,} items, images {facts['images']}, {facts['texts']:,} texts, "
               f"{facts['boxes']:,} boxes, {facts['parents']:,} names in the hierarchy")
    rows: list[tuple[str, str, int, str]] = []
    for name, values in facts["factors"].items():
        own = collection.factors[name]
        many = len(np.unique(own[~np.isnan(own)])) if own.dtype.kind in "fiu" else len(values)
        rows.append((name, "factor", many, _most(values)))
    for kind, names in facts["tags"].items():
        rows.append((kind, "tags", len(names), _most(names)))
    print_table("", ["name", "is", "values", "how many items"], rows)


def _most(values: dict[str, Any]) -> str:
    shown = [f"{name} {n:,.6g}" if isinstance(n, float) else f"{name} {n:,}" for name, n in list(values.items())[:8]]
    return ", ".join(shown) + (" …" if len(values) > 8 else "")


def show_runs(folder: Path, runs: Mapping[str, str]) -> None:
    """How many runs are in each state, the failed ones with their reasons, then the others, done ones last."""
    say_titled(folder, summary(runs.values()))
    failed = [run for run, state in runs.items() if state == "failed"]
    others = sorted((run for run in runs if runs[run] != "failed"), key=lambda run: STATES.index(runs[run]))
    for listed, most, columns in ((failed, 20, ("run", "benchmark", "method", "seed", "reason")),
                                  (others, 40, ("run", "state", "benchmark", "method", "model", "seed", "seconds"))):
        if listed:
            rows = [describe(folder / run, runs[run])._asdict() for run in listed[:most]]
            print_table("\nfailed" if listed is failed else "", columns,
                        [[row[column] for column in columns] for row in rows])
        if len(listed) > most:
            say(f"… and {len(listed) - most:,} more; --json lists all")
    if failed:
        say("", "To try the failed ones again, start the sweep with --retry-failed.")
