"""shiftbench score BENCHMARK PREDICTIONS..."""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import verbs
from shiftbench.cli.output import Json, Quiet, console, print_json


def score(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark.")],
    predictions: Annotated[list[Path], typer.Argument(help="Parquet or CSV files with a column of item ids, and JSON "
                                                     "files of annotators' answers.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write them: .parquet or .csv.")] = None,
    replicates: Annotated[int, typer.Option(help="0: no intervals; else of metrics without a formula.")] = 1000,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    study: Annotated[Path | None, typer.Option(help="Folder of the study that was answered; without it, one beside the "
                                               "answers.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score any model's predictions: average, per group and worst group, each with an interval.

    A file has a column `item` and either `prediction` or one column of scores per class.

    shiftbench score benchmarks/cat-dog my_model.csv --json

    shiftbench score benchmarks/breeds my_model.csv answers/*.json --study studies/breeds
    """
    from shiftbench.annotation.terminal import answer_notes, tables
    from shiftbench.scoring import to_json

    scores = verbs.score(benchmark, *predictions, replicates=replicates, level=level, study=study)
    if out is not None:
        scores.save(out)
    if json:
        print_json(to_json(scores, level=level))
    elif not quiet:
        for table in tables(scores, level):
            console().print(table)
        for note in answer_notes(predictions, study):
            console().print(note, markup=False)
