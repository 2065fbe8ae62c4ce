"""shiftbench study BENCHMARK --out DIR"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, progress, say


def study(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write: page/ to hand out, key.json to keep.")],
    partners: Annotated[int, typer.Option(help="Number of other superclasses that each one is paired with.")] = 3,
    examples: Annotated[int, typer.Option(help="Training images shown of each superclass.")] = 20,
    questions: Annotated[int, typer.Option(help="Images to sort per task, half of each superclass.")] = 12,
    condition: Annotated[list[str] | None, typer.Option(
        help="source (images from before the shift) or target; repeat it for both. Default: both.")] = None,
    size: Annotated[int, typer.Option(help="Pixels per side of an image.")] = 224,
    rescale: Annotated[int, typer.Option(help="Shorter side before the centre is cut out.")] = 256,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the pairs and images that are drawn.")] = 0,
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a human study: a web page on which people sort images into two superclasses whose names they do not see.

    Hand out the folder `page`; it works without a server and sends nothing. People save their answers as a file, which
    `shiftbench score` reads.

    shiftbench study benchmarks/breeds --out studies/breeds

    shiftbench score benchmarks/breeds my_model.csv answers/*.json --study studies/breeds
    """
    with progress("writing images", quiet or json) as advance:
        key = verbs.study(
            benchmark, out, collection=collection, progress=advance, partners=partners, examples=examples,
            questions=questions, conditions=condition or ["source", "target"], size=size, rescale=rescale, seed=seed)
    if json:
        print_json({"study": key.id, "benchmark": dict(key.benchmark), "tasks": len(key.tasks), "pairs": key.pairs,
                    "splits": key.splits, "page": str(out / "page" / "index.html"), "key": str(out / "key.json"),
                    "notes": list(key.notes)})
    elif not quiet:
        for note in key.notes:
            say(note)
        say(f"human study {key.id}: {len(key.tasks)} tasks on {len(key.pairs)} pairs of superclasses",
            f"hand out  {out / 'page'}  (open index.html; index.html#2/6 is the second of six parts)",
            f"keep      {out / 'key.json'}")
