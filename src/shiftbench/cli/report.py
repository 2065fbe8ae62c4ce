"""shiftbench report RUNS|SCORES --out report.html"""

from pathlib import Path
from typing import Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Quiet, noted, say


def report(
    source: Annotated[Path, typer.Argument(help="A folder of runs, or a table of scores.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML page to write.")] = Path("report.html"),
    benchmark: Annotated[list[Path] | None, typer.Option(
        help="Folder of a benchmark whose card the page shows; may be repeated.")] = None,
    rule: Annotated[str, typer.Option(help="Chooses among a method's settings: see `shiftbench select`.")] = "id",
    title: Annotated[str, typer.Option(help="Title of the page.")] = "shiftbench report",
    compare: Annotated[str, typer.Option(help="Two methods, by commas: show the hard items on which they differ most; "
                                         "default: erm and the best one on hard items.")] = "",
    study: Annotated[Path | None, typer.Option(help="The study that was swept: its runs alone, and what is missing or "
                                               "left over.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page: cards of the shifts, tables with intervals, figures. It opens from disk.

    The page and the terminal name runs that failed, that are unfinished or that are damaged. The exit code is 1 if a
    run failed or is damaged.

    shiftbench report runs --out report.html

    shiftbench report runs --study study.toml --out report.html
    """
    pair = [name.strip() for name in compare.split(",")] if compare else []
    absent: list[Any] = []
    with noted():
        verbs.report(source, out, benchmarks=benchmark or (), rule=rule, title=title, compare=pair, study=study,
                     left_out=absent)
    if not quiet:
        say(f"wrote {out}")
    if any(one.state in ("failed", "unreadable") for one in absent):
        raise typer.Exit(1)
