"""shiftbench export BENCHMARK|RUNS --to LAYOUT --out DIR"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Quiet, say


def export(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark; of runs for wilds-submission.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")],
    to: Annotated[str, typer.Option(help="folder (SPLIT/LABEL/GROUP/ITEM), torch (SPLIT/LABEL/ITEM), domainbed "
                                    "(DOMAIN/LABEL/ITEM), wilds (as iWildCam), hf (parquet shards), csv, coco or "
                                    "wilds-submission.")] = "folder",
    copy: Annotated[bool, typer.Option("--copy", help="Copy image files instead of linking them.")] = False,
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now.")] = None,
    licence: Annotated[str, typer.Option(help="Address of the licence, for croissant.json.")] = "",
    citation: Annotated[str, typer.Option(help="What to cite, for croissant.json.")] = "",
    quiet: Quiet = False,
) -> None:
    """Write a benchmark in a layout that other tools read, with a Croissant description (croissant.json).

    shiftbench export benchmarks/cat-dog --to folder --out cat-dog

    shiftbench export benchmarks/cat-dog --to hf --out cat-dog-hf

    wilds-submission writes the predictions of finished runs as WILDS' leaderboard takes them.
    """
    verbs.export(benchmark, out, to=to, copy=copy, collection=collection, licence=licence,
                 citation=citation)
    if not quiet:
        say(f"wrote {out}")
