"""The settings that a study tries a method with: fixed values, lists combined each with each, and laws to draw from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from itertools import product
from math import prod
from typing import Any, get_type_hints

from shiftbench.core.arrays import child
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.methods import METHODS
from shiftbench.methods.space import Choice, Drawn, Grid, Law, law
from shiftbench.models.names import CATALOGUE
from shiftbench.training.run import FEATURES, IN_EPOCHS, Run

ELSEWHERE = {"seed": "seeds = [0, 1] at the top", "benchmark": "benchmarks = [\"FOLDER\"] at the top",
             "method": "a table [methods.NAME]", "params": "each one in the table [methods.NAME]",
             "preset": "preset = \"NAME\" at the top, or in a table [methods.NAME]"}
"""Fields of a Run that a study writes in other places."""

Layer = Mapping[str, Any]
"""Setting -> value, Grid, Law or Drawn."""


@cache
def run_fields() -> tuple[str, ...]:
    """The fields of a Run that settings may name."""
    return tuple(field.name for field in fields(Run) if field.name not in ELSEWHERE)


def layer(table: Mapping[str, Any], method: str, where: str) -> Layer:
    """A table of a file, checked: each key is a field of the method or of a run; a list is a grid, a table is a law."""
    of_method = [field.name for field in fields(METHODS[method])] if method else []
    hints = {**get_type_hints(Run), **(get_type_hints(METHODS[method]) if method else {})}
    checked: dict[str, Any] = {}
    for key, value in table.items():
        if key not in of_method and key not in run_fields():
            if key in ELSEWHERE:
                raise ShiftBenchError(f"{where}: '{key}' belongs elsewhere in a study: {ELSEWHERE[key]}.")
            raise unknown("setting", key, [*of_method, *run_fields()], where)
        if isinstance(value, dict):
            checked[key] = law(value, hints[key] is int, f"{where} {key}")
            if hints[key] not in (int, float) and not isinstance(checked[key], Choice):
                raise ShiftBenchError(f"{where}: '{key}' is not a number, so only {{choice = [...]}} can draw it.")
        elif isinstance(value, list):
            if not value:
                raise ShiftBenchError(f"{where}: '{key}' is an empty list, so there would be no run. Give it a value.")
            checked[key] = Grid(tuple(value))
        else:
            checked[key] = value
    return checked


@dataclass(frozen=True)
class Block:
    """A method with its settings: `fixed` have one value, `grid` several, `laws` a value in draw 0 and a law."""

    method: str
    variant: str  # preset of one method, or empty
    fixed: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]
    laws: Mapping[str, Drawn]

    @staticmethod
    def of(method: str, variant: str, layers: Sequence[Layer]) -> "Block":
        """The first layer that has a setting decides it. A law's draw 0 is the value that would hold without the law.

        Steps and epochs are one setting (`IN_EPOCHS`): the steps of a layer hide the epochs of those below it.
        """
        for in_epochs, in_steps in IN_EPOCHS.items():
            first = next((number for number, layer in enumerate(layers) if in_steps in layer), len(layers))
            layers = [layer if number <= first else {key: value for key, value in layer.items() if key != in_epochs}
                      for number, layer in enumerate(layers)]
        fixed: dict[str, Any] = {}
        grid: dict[str, tuple[Any, ...]] = {}
        laws: dict[str, Drawn] = {}
        for key in dict.fromkeys(key for layer in layers for key in layer):
            entry, *below = [layer[key] for layer in layers if key in layer]
            if isinstance(entry, Grid):
                grid[key] = entry.values
            elif isinstance(entry, Drawn):
                laws[key] = entry
            elif isinstance(entry, Law):
                laws[key] = Drawn(_without_law(method, key, below), entry)
            else:
                fixed[key] = entry
        return Block(method, variant, fixed, grid, laws)

    def size(self, draws: int) -> int:
        return prod(map(len, self.grid.values())) * (draws if self.laws else 1)

    def settings(self, draws: int, seed: int, where: str) -> Iterator[dict[str, Any]]:
        """The settings of a Run, whole and checked, for every point of the grid and every draw."""
        stream = self.variant or self.method
        for point in product(*self.grid.values()):
            for draw in range(draws if self.laws else 1):
                drawn = {key: entry.law.draw(child(seed, "draw", stream, str(draw), key)) if draw else entry.default
                         for key, entry in self.laws.items()}
                yield self._complete({**self.fixed, **dict(zip(self.grid, point, strict=True)), **drawn}, where)

    def _complete(self, settings: Mapping[str, Any], where: str) -> dict[str, Any]:
        """All fields of the Run, except those that a study adds: benchmark and seed."""
        method = self.method
        params = {field.name: settings[field.name] for field in fields(METHODS[method]) if field.name in settings}
        of_run = {key: value for key, value in settings.items() if key not in params}
        model = CATALOGUE.get(of_run["model"]) if isinstance(of_run["model"], str) else None
        if model and model.takes == "features":
            of_run.setdefault("features", FEATURES)
        try:
            run = Run.of({**of_run, "benchmark": "", "method": method, "preset": self.variant, "params": params})
        except ShiftBenchError as problem:
            raise ShiftBenchError(f"{where}, method '{method}': {problem} Settings in [methods.{method}] win over "
                                  "[run].") from problem
        return {key: value for key, value in run.to_json().items() if key not in ("benchmark", "seed")}


def _without_law(method: str, key: str, below: Sequence[Any]) -> Any:
    """The first single value below a law, else the default of the field."""
    for entry in below:
        if isinstance(entry, Drawn):
            return entry.default
        if not isinstance(entry, Grid | Law):
            return entry
    field = next(field for field in (*fields(METHODS[method]), *fields(Run)) if field.name == key)
    assert field.default is not MISSING
    return field.default
