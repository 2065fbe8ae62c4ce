"""The shift designer: any registered shift on a collection, built in memory while its settings change, and saved.

The meta-graph makes recipes too: what they build, their text, and how they are saved and built is the same here.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import msgspec

from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.files import inside, write_text
from shiftbench.core.registry import find, load_installed
from shiftbench.data.benchmark import MARKER
from shiftbench.data.checks import check, uses
from shiftbench.data.collection import Collection
from shiftbench.metagraph.subsets import parse_subset, subset_name
from shiftbench.scoring.differences import group_power
from shiftbench.shifts.conditions import CONDITIONS
from shiftbench.shifts.recipe import Recipe, Tables, applied, build, make_shift, several, to_text
from shiftbench.shifts.shift import SHIFTS, Shift
from shiftbench.shifts.suites import build_suite
from shiftbench.webapp.forms import Form, Input, checked, summary
from shiftbench.webapp.studio import Action, Answer, Query, Studio

FIRST = "correlation"
"""The shift that the designer opens with."""
BY_HAND = "subset"
"""The shift that the meta-graph makes."""
NAME = re.compile(r"\w[\w.()+ -]{0,79}")
"""The name of a recipe, which its file and the folder of its benchmark share."""
ACCURACY = 0.7
"""Accuracy of the weaker model, for which `power` says what differences can be seen; the default of the command."""


def design(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The form of a shift as it is filled in, and what it builds: counts, what is impossible, `check` and `power`."""
    load_installed()
    on, tables, first_seed = _start(studio, query)
    collection, name = studio.shelf.collection(on), tables.name
    cls = _settable(name)
    form = Form(studio, collection)
    entries = query.table("settings") if "settings" in query else tables.settings
    settings = form.start(cls, checked(form.inputs(cls, entries), entries, tables.settings),
                          needed=bool(query.text("recipe")))
    asked = query.tables("conditions") if "conditions" in query else tables.conditions
    conditions = {condition: values for condition, values in asked.items() if values is not None}
    seed = query.whole("seed", first_seed)
    fields = [_field(field, settings) for field in form.inputs(cls, settings)]
    built, text = outcome(studio, on, name, settings, conditions, seed)
    if built["problem"] and not {"settings", "conditions", "recipe"} & set(query):
        built = {"problem": "", "invitation": _invitation(name, fields, built["problem"])}
    proposed = Path(query.text("recipe")).stem or f"my-{name.replace('_', '-')}"
    return {
        "on": on, "collections": [thing.id for thing in studio.shelf.things("collection")],
        "recipe": query.text("recipe"), "shift": name, "shifts": _shifts(), "doc": summary(cls),
        "by_hand": _by_hand(name, settings), "items": len(collection), "seed": seed, "edit": studio.edit,
        "fields": fields,
        "conditions": [_condition(form, condition, conditions.get(condition))
                       for condition, cls in CONDITIONS.items() if is_dataclass(cls)],
        "settings": settings, "chosen": conditions, "built": built, "text": text,
        "proposed": proposed, "commands": commands_of(proposed),
    }


def _start(studio: Studio, query: Query) -> tuple[str, Tables, int]:
    """Where a design starts: the collection, and the tables and seed of a recipe if one is opened."""
    if not query.text("recipe"):
        return first_collection(studio, query), Tables(query.text("shift") or FIRST, {}, {}), 0
    path = studio.shelf.find("recipe", query.text("recipe")).path
    recipe = Recipe.load(path)
    on = studio.shelf.id_of("collection", recipe.collection)
    if not on:
        raise ShiftBenchError(f"{path}: its collection {recipe.collection} is not in the studio's folder.")
    tables = Tables.of(recipe.shift)
    if query.text("shift") not in ("", tables.name):
        tables = Tables(query.text("shift"), {}, {})
    return query.text("on") or on, tables, recipe.seed


def first_collection(studio: Studio, query: Query) -> str:
    """The id of the collection that a view is about: the one it names, else the first on the shelf."""
    things = studio.shelf.things("collection")
    if not query.text("on") and not things:
        raise ShiftBenchError("There is no collection in the studio's folder. Make one: shiftbench read --help")
    return query.text("on") or things[0].id


def _settable(name: str) -> Any:
    """The shift of this name, whose settings are the fields of a dataclass."""
    cls = find(SHIFTS, "shift", name)
    if not is_dataclass(cls):
        raise ShiftBenchError(f"Shift '{name}' is not a dataclass, so its settings are not known. Build it in Python.")
    return cls


def _by_hand(name: str, settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """The two sides of the shift that the meta-graph makes, subset by subset; nothing for another shift."""
    if name != BY_HAND:
        return {}
    try:
        sides = {side: [parse_subset(str(word)) for word in settings.get(side, ())] for side in ("train", "test")}
    except ShiftBenchError:
        return {}
    return {side: [subset_name(cls, [context]) for cls, contexts in names for context in contexts]
            for side, names in sides.items()}


def _invitation(name: str, fields: Sequence[Mapping[str, Any]], problem: str) -> str:
    """What to choose, for a person who has chosen nothing yet and whose first choices build nothing."""
    missing = [field for field in fields if field["required"] and field["value"] in (None, "", [], {})]
    if not missing:
        return f"Choose other settings to see what this shift builds. The first ones build nothing: {problem}"
    names = " and ".join(f"‘{field['name']}’{f' ({doc})' if (doc := field['doc']) else ''}" for field in missing)
    by_hand = " The meta-graph puts subsets on both sides by clicks." if name == BY_HAND else ""
    return f"Choose {names} to see what this shift builds.{by_hand}"


def _field(field: Input, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**asdict(field), "value": settings.get(field.name, field.default), "set": field.name in settings}


def _condition(form: Form, name: str, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    cls: Any = CONDITIONS[name]
    fields = [_field(field, settings or {}) for field in form.inputs(cls, settings or {})]
    return {"name": name, "doc": summary(cls), "on": settings is not None, "fields": fields}


def _shifts() -> list[list[str]]:
    """Every registered shift and the first line of its docstring."""
    return [[name, summary(shift).partition("\n")[0]] for name, shift in SHIFTS.items() if is_dataclass(shift)]


# What a recipe builds

def planned(name: str, settings: Mapping[str, Any], conditions: Mapping[str, Any]) -> Shift:
    """The shift that the settings of a page make, checked as those of a file are."""
    for condition, values in conditions.items():
        find(CONDITIONS, "condition", condition)
        if not isinstance(values, dict):
            raise ShiftBenchError(f"The settings of condition '{condition}' are not a table.")
    tables = {condition: dict(values) for condition, values in conditions.items()}
    return make_shift(name, dict(settings), tables, {}, "The recipe")


def outcome(
    studio: Studio, on: str, name: str, settings: Mapping[str, Any], conditions: Mapping[str, Any], seed: int
) -> tuple[dict[str, Any], str]:
    """What the settings build, in memory, and the recipe as TOML, to copy; or why they build nothing.

    The collection's path is absolute, so the recipe can be built from anywhere.
    """
    try:
        shift = planned(name, settings, conditions)
    except ShiftBenchError as problem:
        return {"problem": str(problem)}, ""
    text = to_text(shift, studio.shelf.find("collection", on).path, seed)
    return {"problem": "", **_facts(shift, studio.shelf.collection(on), seed)}, text


def _facts(shift: Shift, collection: Collection, seed: int) -> dict[str, Any]:
    """A benchmark in the words of `build`, `check` and `power`: rows per split and group, notes. Or why there is none.

    Image files are not looked at.
    """
    try:
        if several(shift):
            return {"several": True, "note": "This recipe stands for several benchmarks: name the value to test on to "
                    "see one of them, or save it and build them all."}
        benchmark = applied(shift, collection, seed)
    except ShiftBenchError as problem:
        return {"problem": str(problem)}
    except Exception as problem:  # a shift of the user's own, whatever it raises while its settings change
        return {"problem": f"The shift fails with these settings ({type(problem).__name__}: {first_line(problem)})."}
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
    inputs = Form(studio, studio.shelf.collection(asked.on)).inputs(_settable(asked.shift), asked.settings)
    settings = checked(inputs, asked.settings, opened.settings if opened and opened.name == asked.shift else {})
    shift = planned(asked.shift, settings, asked.conditions)
    collection_path = os.path.relpath(studio.shelf.find("collection", asked.on).path, path.parent)
    write_text(path, to_text(shift, collection_path, asked.seed))
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


ANSWERS: dict[str, Answer] = {"design": design}
ACTIONS: dict[str, Action] = {"save_recipe": save_recipe, "build_recipe": build_recipe}
