"""shiftbench report RUNS|SCORES|AUDIT --out report.html"""

from pathlib import Path
from typing import Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import IgnoreExtra, Methods, Names, Quiet, Seeds, Settings, noted, say


def report(
    source: Annotated[list[Path], typer.Argument(help="A folder of runs, a table of scores, a saved audit, or files "
                                                 "of predictions, with --benchmark.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML page to write.")] = Path("report.html"),
    benchmark: Annotated[list[Path] | None, typer.Option(
        help="Folder of a benchmark whose card the page shows; may be repeated.")] = None,
    rule: Annotated[str, typer.Option(help="Chooses among a method's settings: see `shiftbench select`.")] = "id",
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    compare: Annotated[str, typer.Option(help="Two methods, separated by a comma: show the hard items on which they "
                                         "differ most. Default: erm and the best one on hard items.")] = "",
    study: Annotated[Path | None, typer.Option(help="The study that was swept: report only its runs, and name those "
                                               "that are missing or left over.")] = None,
    figures: Annotated[Path | None, typer.Option(
        help="Folder for every figure as SVG and PNG, and for its table as CSV and LaTeX.")] = None,
    name: Names = None,
    method: Methods = None,
    setting: Settings = None,
    seed: Seeds = None,
    ignore_extra: IgnoreExtra = False,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page: cards of the shifts, tables with intervals, figures. It opens from disk.

    The page and the terminal name runs that failed, that are unfinished or that are damaged. The exit code is 1 if a
    run failed or is damaged.

    shiftbench report runs --out report.html

    shiftbench report runs --study study.toml --out report.html

    shiftbench report runs --figures figures

    shiftbench report erm.csv mine.csv --benchmark benchmarks/cat-dog

    shiftbench report audit.json --out audit.html
    """
    pair = [name.strip() for name in compare.split(",")] if compare else []
    absent: list[Any] = []
    with noted():
        verbs.report(source if len(source) > 1 else source[0], out, benchmarks=benchmark or (), rule=rule, title=title,
                     compare=pair, study=study, figures=figures, left_out=absent, name=name or (),
                     method=method or (), setting=setting or (), seed=seed or (), ignore_extra=ignore_extra)
    if not quiet:
        say(f"wrote {out}", *([f"wrote {figures}"] if figures else []))
    if any(run.state in ("failed", "unreadable") for run in absent):
        raise typer.Exit(1)
