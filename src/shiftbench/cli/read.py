"""shiftbench read FORMAT SOURCE... --out COLLECTION"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import verbs
from shiftbench.cli.output import Json, Quiet, print_json, progress
from shiftbench.cli.show import show_collection
from shiftbench.collection import Collection

read = typer.Typer(no_args_is_help=True, help="Make a collection: read annotations, or draw a built-in world.")

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the new collection.")]


@read.command("world")
def read_world(
    world: Annotated[str, typer.Argument(help="Name of the world: scenes.")],
    out: Out,
    items: Annotated[int, typer.Option(help="How many items to draw.")] = 6000,
    seed: Annotated[int, typer.Option(help="Item i of a seed is the same whatever else is drawn.")] = 0,
    size: Annotated[int, typer.Option(help="Pixels per side, 32 to 256.")] = 64,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw a built-in world: no download, and the truth about every picture is known.

    shiftbench read world scenes --items 6000 --seed 0 --out collections/scenes
    """
    with progress(f"drawing {world}", quiet or json) as advance:
        collection = verbs.read("world", world, out=out, items=items, seed=seed, size=size, progress=advance)
    finish(collection, out, json, quiet)


def finish(collection: Collection, out: Path, json: bool, quiet: bool) -> None:
    """Say what was read."""
    if json:
        print_json({"collection": str(out), "items": len(collection), "digest": collection.digest})
    elif not quiet:
        show_collection(collection)
