"""shiftbench check BENCHMARK"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, print_json, print_table, say

if TYPE_CHECKING:
    from shiftbench.data.benchmark import Benchmark


def check(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark, or of a collection.")],
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now.")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="A finding to accept, e.g. --allow 'missing class'.")] = None,
    references: Annotated[bool, typer.Option("--references", help="List which in-distribution references can be built "
                                             "from the benchmark, and why the others cannot.")] = False,
    json: Json = False,
) -> None:
    """Check what a benchmark is fit for: training, selection, scoring. The exit code is 1 if it is unfit.

    It finds leakage, empty cells, small splits and missing classes. If it can open the collection, it also lists
    missing image files and images that have two ids. A benchmark that has only test items is fit for scoring. For a
    collection, it checks only the image files.

    shiftbench check benchmarks/cat-dog --allow "missing class"

    shiftbench check benchmarks/cat-dog --references
    """
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.checks import VERBS, fit, uses
    from shiftbench.data.collection import MARKER as COLLECTION

    if references:
        _references(Benchmark.load(benchmark), json)
        return
    accepted = set(allow or [])
    findings = [finding._replace(unfit=finding.unfit and finding.what not in accepted)
                for finding in verbs.check(benchmark, collection)]
    reasons = {} if (benchmark / COLLECTION).is_file() else uses(Benchmark.load(benchmark), findings)
    if json:
        print_json({"fit": fit(findings), "fit_for": [purpose for purpose, reason in reasons.items() if not reason],
                    "findings": [finding._asdict() for finding in findings]})
    elif findings:
        print_table("", ["", "finding", "where", "detail"],
                    [("unfit" if finding.unfit else "note", *finding[1:4]) for finding in findings])
    if not json:
        say(f"{benchmark}: {'fit' if fit(findings) else 'unfit'}")
        if reasons:
            print_table("", ["for", "", "with"], [
                (purpose, f"no: {reason}" if reason else "yes", ", ".join(VERBS[purpose]))
                for purpose, reason in reasons.items()])
    if not fit(findings):
        raise typer.Exit(1)


def _references(benchmark: "Benchmark", json: bool) -> None:
    from shiftbench.shifts.in_distribution import kind_of, legal

    kind, reasons = kind_of(benchmark), legal(benchmark)
    if json:
        print_json({"benchmark": benchmark.name, "kind": kind, "references": reasons})
    else:
        print_table(f"{benchmark.name}: {kind}", ["reference", "legal", "why not"],
                    [[name, "no" if reason else "yes", reason] for name, reason in reasons.items()])
