"""shiftbench fetch URL --out RUNS"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, say


def fetch(
    url: Annotated[str, typer.Argument(
        help="Store into which a sweep on Ray wrote its runs: s3://…, gs://…, file:///….")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of runs on this machine.")],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Copy finished runs from a store to a folder, to show, score and report them. Weights stay in the store.

    shiftbench fetch s3://bucket/runs --out runs
    """
    done = verbs.fetch(url, out)
    if json:
        print_json({"out": str(out), "runs": done})
    elif not quiet:
        say(f"{out}: {len(done):,} finished runs")
