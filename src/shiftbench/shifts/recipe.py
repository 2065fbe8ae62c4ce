"""A recipe: which collection, which shift, under which conditions, which seed. TOML in, a benchmark out."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import read_toml, to_toml, toml_key
from shiftbench.core.registry import find, make
from shiftbench.data.benchmark import Benchmark, save_for
from shiftbench.data.collection import Collection
from shiftbench.shifts.conditions import CONDITIONS
from shiftbench.shifts.shift import SHIFTS, Shift, bare, under

TOP = ("collection", "seed")
KEYS = (*TOP, "shift", "condition")


@dataclass(frozen=True)
class Recipe:
    """The three facts that fix a benchmark; conditions are part of the shift."""

    collection: Path
    shift: Shift
    seed: int = 0

    @staticmethod
    def load(path: Path | str, changes: Mapping[str, Any] | None = None) -> "Recipe":
        """Read and check a recipe; `changes` are settings that replace those of the file.

            collection = "collections/scenes"
            seed = 0
            [shift.subpopulation]
            label = "class"
            p = 0.06
            [condition.noise]
            p = 0.1

        Conditions are applied after the shift, in the order of the file. A change is named as in the file (`seed`,
        `shift.subpopulation.p`, `condition.size.n`) or, for the shift, alone (`p`).
        A relative collection is looked for from the current folder, then from the recipe's.
        """
        raw = read_toml(path)
        for key in raw:
            if key not in KEYS:
                raise unknown("key", key, KEYS, str(path))
        tables = raw.get("shift")
        if not isinstance(tables, dict) or len(tables) != 1 or not isinstance(next(iter(tables.values())), dict):
            raise ShiftBenchError(f"{path}: needs exactly one table [shift.NAME]. Known shifts: {', '.join(SHIFTS)}.")
        name, settings = next(iter(tables.items()))
        find(SHIFTS, "shift", name)
        conditions = _conditions(raw.get("condition", {}), path)
        replaced = dict(changes or {})
        top: dict[str, Any] = {key: replaced.pop(key, raw.get(key)) for key in TOP if key in replaced or key in raw}
        shift = make_shift(name, settings, conditions, replaced, str(path))
        if not isinstance(top.get("collection"), str):
            raise ShiftBenchError(f"{path}: 'collection' is missing. Name the folder of a collection.")
        if type(top.get("seed", 0)) is not int or top.get("seed", 0) < 0:
            raise ShiftBenchError(f"{path}: 'seed' is {top['seed']!r}, but it must be a whole number of at least 0.")
        beside = Path(path).parent / top["collection"]
        here = Path(top["collection"])
        return Recipe(beside if not here.exists() and beside.exists() else here, shift, top.get("seed", 0))


def build(
    recipe: Path | str | Recipe, out: Path | str | None = None, changes: Mapping[str, Any] | None = None
) -> Benchmark:
    """Build a benchmark from a recipe and, where `out` is given, save it there."""
    plan = recipe if isinstance(recipe, Recipe) else Recipe.load(recipe, changes)
    benchmark = applied(plan.shift, Collection.load(plan.collection), plan.seed)
    return benchmark if out is None else save_for(benchmark, out, plan.collection)


def applied(shift: Shift, collection: Collection, seed: int) -> Benchmark:
    """What a shift makes of a collection; a user's shift may make something else, which is an error."""
    benchmark = shift.build(collection, seed)
    if not isinstance(benchmark, Benchmark):
        raise ShiftBenchError(f"Shift {shift!r} builds {type(benchmark).__name__}, but `build` must give a Benchmark: "
                              "return Benchmark.of(collection, self, seed, …).")
    return benchmark


def _conditions(tables: Any, path: Path | str) -> dict[str, dict[str, Any]]:
    """The tables [condition.NAME] of a recipe, checked to be tables of known conditions."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ShiftBenchError(f"{path}: conditions are tables [condition.NAME]. "
                              f"Known conditions: {', '.join(CONDITIONS)}.")
    for condition in tables:
        find(CONDITIONS, "condition", condition)
    return {condition: dict(table) for condition, table in tables.items()}


def changed(shift: Shift, changes: Mapping[str, Any], where: str) -> Shift:
    """The shift with other settings, named as in a recipe: `p`, `shift.subpopulation.p`, `condition.noise.p`."""
    return make_shift(*Tables.of(shift), changes, where)


class Tables(NamedTuple):
    """A shift as a recipe states it: its name, its settings, and those of its conditions."""

    name: str
    settings: dict[str, Any]
    conditions: dict[str, dict[str, Any]]

    @staticmethod
    def of(shift: Shift) -> "Tables":
        """The tables of a shift, with the settings that differ from their defaults."""
        inner, conditions = bare(shift)
        return Tables(str(getattr(inner, "name", "")), _settings(inner),
                      {str(getattr(condition, "name", "")): _settings(condition) for condition in conditions})


def to_text(shift: Shift, collection: Path | str, seed: int = 0) -> str:
    """The recipe of a shift as TOML: `Recipe.load` reads the same shift from it."""
    name, settings, conditions = Tables.of(shift)
    tables = {f"shift.{toml_key(name)}": settings,
              **{f"condition.{toml_key(condition)}": table for condition, table in conditions.items()}}
    lines = [f"collection = {to_toml(str(collection))}", f"seed = {seed}"]
    for head, table in tables.items():
        lines += ["", f"[{head}]", *(f"{toml_key(key)} = {to_toml(value)}" for key, value in table.items())]
    return "\n".join([*lines, ""])


def several(shift: Shift) -> bool:
    """Whether a shift stands for one benchmark per domain, of which `each` has the names."""
    return bool(getattr(bare(shift)[0], "several", False))


def each(shift: Shift, collection: Collection) -> dict[str, Shift]:
    """The shifts that one stands for, by the names of their folders; conditions are applied to each."""
    inner, conditions = bare(shift)
    return {name: under(member, conditions) for name, member in inner.each(collection).items()}


def _settings(thing: Any) -> dict[str, Any]:
    """Settings by name, without those that have their default."""
    return {field.name: getattr(thing, field.name) for field in fields(thing) if getattr(thing, field.name) != (
        field.default if field.default_factory is MISSING else field.default_factory())}


def make_shift(
    name: str, settings: dict[str, Any], conditions: dict[str, dict[str, Any]], changes: Mapping[str, Any], where: str
) -> Shift:
    """The shift of that name and its conditions, from their settings and from what replaces some of them."""
    cls = SHIFTS[name]
    for key, value in changes.items():
        if key.startswith("condition."):
            condition, _, setting = key.removeprefix("condition.").partition(".")
            known = find(CONDITIONS, "condition", condition)
            _assign(conditions.setdefault(condition, {}), setting, value, known, where)
        else:
            _assign(settings, key.removeprefix(f"shift.{name}.").removeprefix("shift."), value, cls, where)
    return under(make(cls, settings, f"{where} [shift.{name}]"), tuple(
        make(CONDITIONS[condition], table, f"{where} [condition.{condition}]")
        for condition, table in conditions.items()))


def _assign(settings: dict[str, Any], key: str, value: Any, cls: type, where: str) -> None:
    """Set `majority.cat` or `p` in the settings of a shift."""
    head, _, rest = key.partition(".")
    known = [field.name for field in fields(cls)]
    if head not in known:
        raise unknown("setting", head, known, f"{where}, --set")
    if rest:
        settings[head] = {**settings.get(head, {}), rest: value}
    else:
        settings[head] = value
