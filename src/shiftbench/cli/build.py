"""shiftbench build RECIPE.toml --out BENCHMARK"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import verbs
from shiftbench.cli.output import Json, Quiet, print_json
from shiftbench.cli.show import show_benchmark


def build(
    recipe: Annotated[Path, typer.Argument(help="TOML file: collection, seed and one table [shift.NAME].")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the new benchmark.")],
    changes: Annotated[list[str] | None, typer.Option("--set", help="Replace a setting, e.g. --set p=0.06.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a benchmark: apply a shift to a collection.

    shiftbench build examples/cat_dog_shelf.toml --out benchmarks/cat-dog
    """
    from shiftbench.shifts.recipe import parse_changes

    benchmark = verbs.build(recipe, out, parse_changes(changes or []))
    if json:
        print_json({"benchmark": str(out), "digest": benchmark.digest, "rows": len(benchmark), "card": benchmark.card})
    elif not quiet:
        show_benchmark(benchmark)
