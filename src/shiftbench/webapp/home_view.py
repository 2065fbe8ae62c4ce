"""The first page: everything on the shelf, with a line about each thing."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.auditing.findings import Audit
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import read_json, read_toml, write_json
from shiftbench.data.scores import RUN
from shiftbench.sweeps.status import summary
from shiftbench.webapp.runs_view import states_of
from shiftbench.webapp.shelf import MARKERS, Thing
from shiftbench.webapp.studio import VIEWS, Action, Answer, Query, Studio

FOLDER, FORMAT = "views", "shiftbench view"
LONGEST, LONGEST_ROUTE = 80, 20_000
"""Characters of the name of a saved view, and of its address."""


def home(studio: Studio, query: Query) -> Mapping[str, Any]:
    """Every thing with its id, kind and a few facts, from the files that name them."""
    return {"folders": [str(folder) for folder in studio.shelf.folders], "edit": studio.edit,
            "note": studio.shelf.note, "views": kept_views(studio), "command": studio.command("home"),
            "things": [{"id": thing.id, "kind": thing.kind, "path": str(thing.path), "says": _says(thing)}
                       for thing in studio.shelf.things()]}


def _says(thing: Thing) -> str:
    """A line about a thing. A file is read again when it has changed."""
    try:
        if thing.kind == "runs":
            return summary(states_of(thing.path).values())
        file = thing.path / MARKERS.get(thing.kind, "")
        facts = os.stat(file)
        return _in_words(thing.kind, file, facts.st_mtime_ns, facts.st_size)
    except (ShiftBenchError, pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError):
        return "cannot be read"


@lru_cache(maxsize=1000)
def _in_words(kind: str, file: Path, *stamp: int) -> str:
    if kind == "collection":
        facts = read_json(file)
        return f"{facts['items']:,} items, {len(facts['factors'])} factors, {len(facts['tags'][0]):,} tags"
    if kind == "benchmark":
        facts = read_json(file)
        counts = {split: sum(groups.values()) for split, groups in facts["card"].get("counts", {}).items()}
        splits = ", ".join(f"{split} {n:,}" for split, n in counts.items()) or f"{facts['rows']:,} items"
        return f"{facts['card'].get('shift') or 'no shift'}: {splits}"
    if kind == "scores":
        table = pq.read_table(file, columns=["run", "stat"])
        runs = pc.count_distinct(table["run"].filter(pc.equal(table["stat"], RUN))).as_py()
        return f"{_many(runs, 'run')}, {_many(len(table), 'row')}"
    if kind == "audit":
        audit = Audit.load(file)
        return ", ".join([_many(len(audit.findings), "finding"), *(
            [f"{len(audit.undecided):,} undecided"] if audit.undecided else [])])
    if kind == "recipe":
        return ", ".join(read_toml(file)["shift"])
    return ""


def _many(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


# Views that were saved under a name

def kept_views(studio: Studio) -> list[dict[str, str]]:
    """The views that were saved below the studio's folder, by name."""
    views = []
    for file in sorted((studio.shelf.folders[0] / FOLDER).glob("*.json")):
        with suppress(ShiftBenchError, OSError, KeyError, TypeError):  # another program's file
            facts = read_json(file)
            if facts["format"] == FORMAT:
                views.append({"name": str(facts["name"]), "route": _checked_route(str(facts["route"]))})
    return views


def save_view(studio: Studio, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Save the state of a view under a name; the same name replaces it."""
    name, route = (str(facts.get(key, "")).strip() for key in ("name", "route"))
    file = re.sub(r"[^\w-]+", "-", name, flags=re.ASCII).strip("-")[:LONGEST]
    if not file or len(name) > LONGEST:
        raise ShiftBenchError(f"Give a name of 1 to {LONGEST} characters, with at least one plain letter or digit.")
    write_json(studio.folder_for(FOLDER) / f"{file}.json", {"format": FORMAT, "name": name,
                                                           "route": _checked_route(route)})
    return {"name": name}


def _checked_route(route: str) -> str:
    """The address of one of the studio's own views, which leads nowhere else."""
    if route.partition("?")[0] not in VIEWS or len(route) > LONGEST_ROUTE:
        raise unknown("view", route.partition("?")[0], VIEWS)
    return route


ANSWERS: dict[str, Answer] = {"home": home}
ACTIONS: dict[str, Action] = {"save-view": save_view}
