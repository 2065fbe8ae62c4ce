"""shiftbench check BENCHMARK"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import verbs
from shiftbench.checks import fit
from shiftbench.cli.output import Json, console, print_json, print_table


def check(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark.")],
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now.")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="A finding to accept, e.g. --allow 'missing class'.")] = None,
    json: Json = False,
) -> None:
    """Is a benchmark fit? Leakage, empty cells, small splits, missing classes. Exit 1 when unfit.

    Where the collection and its images are at hand, the same content under two ids is a leak as well.
    """
    accepted = set(allow or [])
    findings = [finding._replace(unfit=finding.unfit and finding.what not in accepted)
                for finding in verbs.check(benchmark, collection)]
    if json:
        print_json({"fit": fit(findings), "findings": [finding._asdict() for finding in findings]})
    elif findings:
        print_table("", ["", "finding", "where", "detail"],
                    [("unfit" if finding.unfit else "note", *finding[1:]) for finding in findings])
    if not json:
        console().print(f"{benchmark}: {'fit' if fit(findings) else 'unfit'}")
    if not fit(findings):
        raise typer.Exit(1)

