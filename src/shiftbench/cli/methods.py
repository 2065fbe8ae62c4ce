"""shiftbench methods"""

from typing import Annotated

import typer

from shiftbench.cli.output import Json, print_json, print_table


def methods(
    presets: Annotated[bool, typer.Option("--presets", help="List presets: names for settings of a run.")] = False,
    json: Json = False,
) -> None:
    """List every method with its family, what it needs and its hyperparameters; with --json also search spaces.

    shiftbench methods --presets
    """
    from shiftbench.core.plugins import load_installed
    from shiftbench.methods import METHODS, facts
    from shiftbench.methods.presets import PRESETS, preset_facts

    load_installed()
    listed = [preset_facts(name) for name in PRESETS] if presets else [facts(name) for name in sorted(METHODS)]
    if json:
        print_json(listed)
    elif presets:
        print_table("", ["preset", "method", "settings", "source", "what it is"], [
            [row["name"], row["method"], _pairs(row["settings"]), f"{row['paper']}: {row['source']}", row["summary"]]
            for row in listed])
    else:
        print_table("", ["method", "family", "needs", "parameters", "what it does"], [
            [row["name"], row["family"], row["needs"], _pairs(row["parameters"]), row["summary"]] for row in listed])


def _pairs(settings: dict[str, object]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items())
