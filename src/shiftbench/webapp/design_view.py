"""The shift designer: any registered shift on a collection, built in memory while its settings change."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import find, load_installed
from shiftbench.data.collection import Collection
from shiftbench.metagraph.subsets import parse_subset, subset_name
from shiftbench.shifts.conditions import CONDITIONS
from shiftbench.shifts.recipe import Recipe, Tables
from shiftbench.shifts.shift import SHIFTS
from shiftbench.webapp import recipes
from shiftbench.webapp.forms import Form, Input, checked, summary
from shiftbench.webapp.studio import Answer, Query, Studio

FIRST = "correlation"
"""The shift that the designer opens with."""
BY_HAND = "subset"
"""The shift that the meta-graph makes."""


class Opened(NamedTuple):
    """Where a design starts: the collection, and the tables and seed of a recipe if one is opened."""

    on: str
    tables: Tables
    seed: int

    @staticmethod
    def of(studio: Studio, query: Query) -> "Opened":
        if not query.text("recipe"):
            return Opened(recipes.first_collection(studio, query), Tables(query.text("shift") or FIRST, {}, {}), 0)
        path = studio.shelf.find("recipe", query.text("recipe")).path
        recipe = Recipe.load(path)
        on = studio.shelf.id_of("collection", recipe.collection)
        if not on:
            raise ShiftBenchError(f"{path}: its collection {recipe.collection} is not in the studio's folder.")
        tables = Tables.of(recipe.shift)
        if query.text("shift") not in ("", tables.name):
            tables = Tables(query.text("shift"), {}, {})
        return Opened(query.text("on") or on, tables, recipe.seed)


def design(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The form of a shift as it is filled in, and what it builds: counts, what is impossible, `check` and `power`."""
    load_installed()
    start = Opened.of(studio, query)
    collection = studio.shelf.collection(start.on)
    name = start.tables.name
    cls: Any = find(SHIFTS, "shift", name)
    if not hasattr(cls, "__dataclass_fields__"):
        raise ShiftBenchError(f"Shift '{name}' is not a dataclass, so its settings are not known. Build it in Python.")
    form = Form(studio, collection)
    entries = query.table("settings") if "settings" in query else start.tables.settings
    settings = form.start(cls, checked(form.inputs(cls, entries), entries, start.tables.settings),
                          needed=bool(query.text("recipe")))
    asked = query.tables("conditions") if "conditions" in query else start.tables.conditions
    conditions = {condition: values for condition, values in asked.items() if values is not None}
    seed = query.whole("seed", start.seed)
    fields = [_field(field, settings) for field in form.inputs(cls, settings)]
    outcome = _built(studio, collection, start.on, name, settings, conditions, seed)
    if outcome["built"]["problem"] and not {"settings", "conditions", "recipe"} & set(query):
        outcome["built"] = {"problem": "", "invitation": _invitation(name, fields, outcome["built"]["problem"])}
    proposed = Path(query.text("recipe")).stem or f"my-{name.replace('_', '-')}"
    return {
        "on": start.on, "collections": [thing.id for thing in studio.shelf.things("collection")],
        "recipe": query.text("recipe"), "shift": name, "shifts": _shifts(), "doc": summary(cls),
        "by_hand": _by_hand(name, settings), "items": len(collection), "seed": seed, "edit": studio.edit,
        "fields": fields,
        "conditions": [_condition(form, condition, conditions.get(condition))
                       for condition, cls in CONDITIONS.items() if is_dataclass(cls)],
        "settings": settings, "chosen": conditions, **outcome,
        "proposed": proposed, "commands": recipes.commands_of(proposed),
    }


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


def _built(
    studio: Studio, collection: Collection, on: str, name: str, settings: Mapping[str, Any],
    conditions: Mapping[str, Any], seed: int,
) -> dict[str, Any]:
    """What the settings build and the text of the recipe; or the sentence that says why they build nothing."""
    try:
        plan = recipes.plan(on, name, settings, conditions, seed)
    except ShiftBenchError as problem:
        return {"built": {"problem": str(problem)}, "text": ""}
    return {"built": recipes.outcome(collection, plan), "text": recipes.text(studio, plan)}


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


ANSWERS: dict[str, Answer] = {"design": design}
