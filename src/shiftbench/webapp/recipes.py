"""Recipes that a person makes in a view: what they build, their text, and how they are saved and built."""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.files import inside, write_text
from shiftbench.core.registry import find
from shiftbench.data.benchmark import MARKER, Benchmark
from shiftbench.data.checks import check, uses
from shiftbench.data.collection import Collection
from shiftbench.scoring.intervals import group_power
from shiftbench.shifts.conditions import CONDITIONS
from shiftbench.shifts.recipe import Recipe, Tables, applied, build, make_shift, several, to_text
from shiftbench.shifts.shift import SHIFTS, Shift
from shiftbench.shifts.suites import build_suite
from shiftbench.webapp.forms import Form, checked
from shiftbench.webapp.studio import Action, Query, Studio

NAME = re.compile(r"\w[\w.()+ -]{0,79}")
"""The name of a recipe, which its file and the folder of its benchmark share."""
ACCURACY = 0.7
"""Accuracy of the weaker model, for which `power` says what differences can be seen; the default of the command."""


class Plan(NamedTuple):
    """A recipe before it is a file."""

    on: str  # id of the collection
    shift: Shift
    seed: int = 0


def plan(on: str, name: str, settings: Mapping[str, Any], conditions: Mapping[str, Any], seed: int = 0) -> Plan:
    """A recipe from the settings of a page, checked as those of a file are."""
    find(SHIFTS, "shift", name)
    for condition, values in conditions.items():
        find(CONDITIONS, "condition", condition)
        if not isinstance(values, dict):
            raise ShiftBenchError(f"The settings of condition '{condition}' are not a table.")
    if not is_dataclass(SHIFTS[name]):
        raise ShiftBenchError(f"Shift '{name}' is not a dataclass, so its settings are not known. Build it in Python.")
    tables = {condition: dict(values) for condition, values in conditions.items()}
    return Plan(on, make_shift(name, dict(settings), tables, {}, "The recipe"), seed)


def first_collection(studio: Studio, query: Query) -> str:
    """The id of the collection that a view is about: the one it names, else the first on the shelf."""
    things = studio.shelf.things("collection")
    if not query.text("on") and not things:
        raise ShiftBenchError("There is no collection in the studio's folder. Make one: shiftbench read --help")
    return query.text("on") or things[0].id


def outcome(collection: Collection, plan: Plan) -> dict[str, Any]:
    """What a recipe builds, in memory: rows per split and group, notes, what `check` and `power` say. Or why not."""
    try:
        if several(plan.shift):
            return {"problem": "", "several": True, "note": "This recipe stands for several benchmarks: name the value "
                    "to test on to see one of them, or save it and build them all."}
        benchmark = applied(plan.shift, collection, plan.seed)
    except ShiftBenchError as problem:
        return {"problem": str(problem)}
    except Exception as problem:  # a shift of the user's own, whatever it raises while its settings change
        return {"problem": f"The shift fails with these settings ({type(problem).__name__}: {first_line(problem)})."}
    return {"problem": "", **described(benchmark)}


def described(benchmark: Benchmark) -> dict[str, Any]:
    """A benchmark in the words of `build`, `check` and `power`. Image files are not looked at."""
    counts, findings = benchmark.counts(), check(benchmark)
    groups = [name for name in benchmark.names["group"] if any(name in split for split in counts.values())]
    tested = "test" if "test" in counts else next(iter(counts), "")
    return {
        "digest": benchmark.digest, "rows": len(benchmark), "splits": list(counts), "groups": groups,
        "counts": {split: [groups_of.get(name, 0) for name in groups] for split, groups_of in counts.items()},
        "notes": list(benchmark.card.get("notes", [])), "distance": benchmark.card.get("distance"),
        "distances": dict(benchmark.card.get("distances", {})),
        "differences": list(benchmark.card.get("explanation", [])),
        "findings": [finding._asdict() for finding in findings], "uses": uses(benchmark, findings),
        "power": group_power({"all": len(benchmark.rows(tested)), **counts[tested]}, accuracy=ACCURACY) if tested else
        [], "tested": tested, "accuracy": ACCURACY,
    }


def text(studio: Studio, plan: Plan) -> str:
    """The recipe as TOML, to copy: the collection's path is absolute, so it can be built from anywhere."""
    return to_text(plan.shift, studio.shelf.find("collection", plan.on).path, plan.seed)


def commands_of(name: str, folder: Path = Path()) -> dict[str, str]:
    """The commands that build a recipe of this name in a folder, once it is a file there, and that check the result."""
    recipe, out = str(folder / "recipes" / f"{name}.toml"), str(folder / "benchmarks" / name)
    return {"file": recipe, "build": shlex.join(["shiftbench", "build", recipe, "--out", out]),
            "check": shlex.join(["shiftbench", "check", out]), "power": shlex.join(["shiftbench", "power", out])}


def save_recipe(studio: Studio, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Save a recipe below the studio's folder. One of that name is replaced only if the request says so."""
    asked = _read(facts, Saving)
    path = _free(studio, "recipes", f"{_named(asked.name)}.toml", asked.replace)
    opened = Tables.of(Recipe.load(studio.shelf.find("recipe", asked.recipe).path).shift) if asked.recipe else None
    cls = find(SHIFTS, "shift", asked.shift)
    collection = studio.shelf.collection(asked.on)
    settings = checked(Form(studio, collection).inputs(cls, asked.settings), asked.settings,
                       opened.settings if opened and opened.name == asked.shift else {})
    recipe = plan(asked.on, asked.shift, settings, asked.conditions, asked.seed)
    collection_path = os.path.relpath(studio.shelf.find("collection", asked.on).path, path.parent)
    write_text(path, to_text(recipe.shift, collection_path, recipe.seed))
    Recipe.load(path)  # what was written can be read
    studio.shelf.forget()
    return {"recipe": studio.shelf.id_of("recipe", path), "path": str(path), "text": path.read_text(encoding="utf-8"),
            "commands": commands_of(asked.name, studio.shelf.folders[0])}


def build_recipe(studio: Studio, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Build a recipe of the shelf into benchmarks/NAME, as `shiftbench build` does."""
    asked = _read(facts, Building)
    recipe = studio.shelf.find("recipe", asked.recipe).path
    out = _free(studio, "benchmarks", _named(recipe.stem), asked.replace)
    loaded = Recipe.load(recipe)
    if not studio.shelf.id_of("collection", loaded.collection):
        raise ShiftBenchError(f"{recipe}: its collection {loaded.collection} is not in the studio's folder.")
    benchmarks = build_suite(recipe, None, out) if several(loaded.shift) else {out: build(loaded, out)}
    studio.shelf.forget()
    return {"benchmarks": [{"id": studio.shelf.id_of("benchmark", folder), "path": str(folder),
                            "digest": benchmark.digest, "rows": len(benchmark)}
                           for folder, benchmark in benchmarks.items()],
            "commands": commands_of(recipe.stem, studio.shelf.folders[0])}


class Saving(msgspec.Struct):
    """What the page sends to save a recipe."""

    name: str
    on: str
    shift: str
    settings: dict[str, Any]
    conditions: dict[str, dict[str, Any]] = {}
    seed: int = 0
    replace: bool = False
    recipe: str = ""  # the one that was opened: the files it names stay


class Building(msgspec.Struct):
    """What the page sends to build one."""

    recipe: str
    replace: bool = False


def _read(facts: Mapping[str, Any], shape: type[Any]) -> Any:
    try:
        return msgspec.convert(facts, shape)
    except msgspec.ValidationError as problem:
        raise ShiftBenchError(f"The request is not complete ({problem}). Load the page again.") from problem


def _named(name: str) -> str:
    if not NAME.fullmatch(name) or name.endswith((" ", ".")):
        raise ShiftBenchError("A recipe's name has at most 80 letters, digits and . _ - + ( ), and begins with a "
                              "letter or a digit. Choose such a name.")
    return name


def _free(studio: Studio, kind: str, name: str, replace: bool) -> Path:
    """The path of a thing of this name below the studio's folder. One that exists is an error without `replace`."""
    folder = studio.folder_for(kind)
    path = inside(folder.parent, f"{kind}/{name}")
    if path != folder / name:
        raise ShiftBenchError(f"{kind}/{name} is a link, and the studio writes only below its folder. Choose another "
                              "name.")
    if path.exists() and not replace:
        raise ShiftBenchError(f"{kind}/{name} exists already. Agree to replace it, or choose another name.")
    if kind == "benchmarks" and path.exists() and not (path / MARKER).is_file() and any(path.iterdir()):
        raise ShiftBenchError(f"{kind}/{name} is not a benchmark, so it is not replaced. Choose another name.")
    return path


ACTIONS: dict[str, Action] = {"save_recipe": save_recipe, "build_recipe": build_recipe}
