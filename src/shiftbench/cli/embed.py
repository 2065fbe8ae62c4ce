"""shiftbench embed BENCHMARK --model NAME"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, progress, say


def embed(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark.")],
    model: Annotated[str, typer.Option(
        help="Backbone; the weights of the default come with the package.")] = "efficientnet-lite0",
    size: Annotated[int, typer.Option(help="Pixels per side that the backbone sees.")] = 224,
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute the features of every item once, for training heads. It resumes when interrupted.

    shiftbench embed benchmarks/cat-dog --model efficientnet-lite0 --size 128
    """
    with progress(f"embedding with {model}", quiet or json) as advance:
        folder = verbs.embed(benchmark, model, size, collection, advance)
    if json:
        print_json({"features": str(folder), "model": model, "size": size})
    elif not quiet:
        say(f"features in {folder}; train on them with --model linear --features {model}@{size}")
