"""shiftbench table RUNS|SCORES --format latex"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import IgnoreExtra, Json, Methods, Names, Quiet, Seeds, Settings, print_json, say


def table(
    source: Annotated[list[Path], typer.Argument(help="A folder of runs, a table of scores, or files of "
                                                 "predictions, with --benchmark.")],
    format: Annotated[str, typer.Option(help="md, csv or latex. Default: by the ending of --out, else md.")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: print it.")] = None,
    metric: Annotated[list[str] | None, typer.Option(
        help="A metric, e.g. macro_f1; may be repeated. Default: accuracy and worst_group_accuracy.")] = None,
    split: Annotated[str, typer.Option(help="The split whose items count.")] = "test",
    against: Annotated[str, typer.Option(help="Compare with this method, e.g. erm. Default: with the best.")] = "",
    benchmark: Annotated[list[Path] | None, typer.Option(
        help="Folder of a benchmark that the runs or scores do not find themselves; may be repeated.")] = None,
    rule: Annotated[str, typer.Option(help="Chooses among a method's settings: see `shiftbench select`.")] = "id",
    study: Annotated[Path | None, typer.Option(help="The study that was swept: use only its runs.")] = None,
    name: Names = None,
    method: Methods = None,
    setting: Settings = None,
    seed: Seeds = None,
    ignore_extra: IgnoreExtra = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a paper's table: means with intervals and p-values, as CSV, Markdown or LaTeX.

    From runs, methods are compared on the same items and over their seeds; from scores alone, by their intervals.
    p-values are corrected for all comparisons of a column.

    shiftbench table runs --format latex --out table.tex

    shiftbench table runs --against erm --metric accuracy --metric macro_f1

    shiftbench table scores.parquet --format csv

    shiftbench table runs mine.csv --benchmark benchmarks/cat-dog
    """
    from shiftbench.reporting.comparison import writer

    write = writer(format, out)
    lines = verbs.table(source if len(source) > 1 else source[0], out, format=format, metrics=metric or (), split=split,
                        against=against, benchmarks=benchmark or (), rule=rule, study=study, name=name or (),
                        method=method or (), setting=setting or (), seed=seed or (), ignore_extra=ignore_extra)
    if json:
        print_json([line._asdict() for line in lines])
    elif out is None:
        say(*write(lines).splitlines())
    elif not quiet:
        say(f"wrote {out}")
