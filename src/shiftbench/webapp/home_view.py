"""The first page: everything on the shelf, with what a line says of it."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import read_json, write_json
from shiftbench.data.benchmark import MARKER as BENCHMARK
from shiftbench.data.collection import MARKER as COLLECTION
from shiftbench.webapp.page_files import VIEWS
from shiftbench.webapp.query import Query
from shiftbench.webapp.shelf import Thing
from shiftbench.webapp.studio import Action, Answer, Studio

FOLDER, FORMAT = "views", "shiftbench view"
LONGEST, LONGEST_ROUTE = 80, 20_000
"""Letters of the name of a kept view, and of its address."""


def home(studio: Studio, query: Query) -> Mapping[str, Any]:
    """Every thing with its id, kind and a few facts. Nothing is loaded but the small file that names each."""
    return {"folders": [str(folder) for folder in studio.shelf.folders], "edit": studio.edit,
            "note": studio.shelf.note, "views": kept_views(studio),
            "things": [{"id": thing.id, "kind": thing.kind, "path": str(thing.path), **_facts(thing)}
                       for thing in studio.shelf.things()]}


def _facts(thing: Thing) -> dict[str, Any]:
    try:
        if thing.kind == "collection":
            facts = read_json(thing.path / COLLECTION)
            return {"says": f"{len(facts['factors'])} factors, {len(facts['tags'])} tags"}
        if thing.kind == "benchmark":
            facts = read_json(thing.path / BENCHMARK)
            splits = facts["card"].get("splits", {})
            return {"says": ", ".join(f"{name} {n:,}" for name, n in splits.items() if isinstance(n, int))}
        if thing.kind in ("scores", "audit", "recipe"):
            return {"says": f"{thing.path.stat().st_size:,} bytes"}
    except (ShiftBenchError, OSError, KeyError, TypeError, AttributeError):
        return {"says": "cannot be read"}
    return {"says": ""}


# Views that were kept under a name

def kept_views(studio: Studio) -> list[dict[str, str]]:
    """The views that somebody kept below the studio's folder, by name."""
    views = []
    for file in sorted((studio.shelf.folders[0] / FOLDER).glob("*.json")):
        with suppress(ShiftBenchError, OSError, KeyError, TypeError):  # a file of somebody else's
            facts = read_json(file)
            if facts["format"] == FORMAT:
                views.append({"name": str(facts["name"]), "route": _checked_route(str(facts["route"]))})
    return views


def save_view(studio: Studio, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keep the state of a view under a name; the same name replaces it."""
    name, route = (str(facts.get(key, "")).strip() for key in ("name", "route"))
    file = re.sub(r"[^\w-]+", "-", name, flags=re.ASCII).strip("-")[:LONGEST]
    if not file or len(name) > LONGEST:
        raise ShiftBenchError(f"Give a name of 1 to {LONGEST} characters, some of which are plain letters or digits.")
    write_json(studio.folder_for(FOLDER) / f"{file}.json", {"format": FORMAT, "name": name,
                                                           "route": _checked_route(route)})
    return {"name": name}


def _checked_route(route: str) -> str:
    """The address of a view below the studio's own: it leads nowhere else."""
    if route.partition("?")[0] not in VIEWS or len(route) > LONGEST_ROUTE:
        raise unknown("view", route.partition("?")[0], VIEWS)
    return route


ANSWERS: dict[str, Answer] = {"home": home}
ACTIONS: dict[str, Action] = {"save-view": save_view}
