"""shiftbench score BENCHMARK PREDICTIONS..."""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import verbs
from shiftbench.cli.output import Json, Quiet, console, print_json


def score(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark.")],
    predictions: Annotated[list[Path], typer.Argument(help="Parquet or CSV files with a column of item ids.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write them: .parquet or .csv.")] = None,
    replicates: Annotated[int, typer.Option(help="0: no intervals; else of metrics without a formula.")] = 1000,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score any model's predictions: average, per group and worst group, each with an interval.

    A file has a column `item` and either `prediction` or one column of scores per class.

    shiftbench score benchmarks/cat-dog my_model.csv --json
    """
    from shiftbench.reporting import scores_table
    from shiftbench.scoring import to_json

    scores = verbs.score(benchmark, *predictions, replicates=replicates, level=level)
    if out is not None:
        scores.save(out)
    if json:
        print_json(to_json(scores, level=level))
    elif not quiet:
        console().print(scores_table(scores))
