"""shiftbench check BENCHMARK"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench.arrays import Strs
from shiftbench.benchmark import Benchmark
from shiftbench.checks import check as find_faults
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
    made = Benchmark.load(benchmark)
    findings = find_faults(made, _hashes(made, benchmark, collection))
    findings = [finding._replace(unfit=finding.unfit and finding.what not in (allow or [])) for finding in findings]
    if json:
        print_json({"fit": fit(findings), "findings": [finding._asdict() for finding in findings]})
    elif findings:
        print_table("", ["", "finding", "where", "detail"],
                    [("unfit" if finding.unfit else "note", *finding[1:]) for finding in findings])
    if not json:
        console().print(f"{made.name}: {'fit' if fit(findings) else 'unfit'}")
    if not fit(findings):
        raise typer.Exit(1)


def _hashes(made: Benchmark, folder: Path, override: Path | None) -> Strs | None:
    """A content hash per row, or None when there are no images to look at."""
    from shiftbench.pixels.decode import content_hashes
    from shiftbench.shifts.recipe import collection_of

    place = override or folder / str(made.card.get("collection", {}).get("path", ""))
    if override is None and not (place / "collection.json").exists():
        return None
    collection = collection_of(made, folder, override)
    if collection.pixels is None:
        return None
    return content_hashes(collection, collection.index(made.items))
