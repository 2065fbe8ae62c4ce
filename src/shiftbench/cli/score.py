"""shiftbench score BENCHMARK PREDICTIONS..."""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import (
    IgnoreExtra,
    Json,
    Methods,
    Names,
    Quiet,
    Seeds,
    Settings,
    console,
    noted,
    pairs,
    print_json,
    say,
)


def score(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark; not needed with --nooch.")],
    predictions: Annotated[list[Path] | None, typer.Argument(help="Parquet or CSV files with a column of item ids, and "
                                                            "JSON files of annotators' answers.")] = None,
    by: Annotated[list[str] | None, typer.Option(
        help="Score by further groups, from any columns: region, or urban,label, or "
                                                 "male+female,label, or region!Other; may be repeated.")] = None,
    metrics: Annotated[str, typer.Option(
        help="Further metrics, separated by commas: auc, macro_recall, or one of your own (--import).")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write the scores: .parquet or .csv.")] = None,
    replicates: Annotated[int, typer.Option(
        min=0, help="Bootstrap replicates for metrics without a formula; 0 turns all "
                                              "intervals off.")] = 1000,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    study: Annotated[Path | None, typer.Option(
        help="Folder of the human study that the annotators answered; default: the one "
                                               "beside the answers.")] = None,
    nooch: Annotated[Path | None, typer.Option(
        help="Folder of NOOCh's published lists, which say which images are hard.")] = None,
    task: Annotated[str, typer.Option(help="Class of the lists, if the folder has lists of several classes.")] = "",
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now, for columns of --by.")] = None,
    ignore_splits: Annotated[bool, typer.Option("--ignore-splits", help="Score even if the predictions call items "
                                                "'train' that the benchmark holds out.")] = False,
    column: Annotated[list[str] | None, typer.Option(help="What the file calls a column of ours: --column item=img "
                                                     "--column prediction=pred; or confidence.")] = None,
    ignore_extra: IgnoreExtra = False,
    name: Names = None,
    method: Methods = None,
    setting: Settings = None,
    seed: Seeds = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score any model's predictions: on average, in every group and in the worst group, each with an interval.

    A file has a column `item` and either `prediction`, maybe with `confidence`, or one column of scores per class.
    With columns `method`, `model`, `setting` or `seed` it may hold several models.

    shiftbench score benchmarks/cat-dog my_model.csv --json

    shiftbench score benchmarks/mine other.csv --column item=img --column prediction=pred --ignore-extra

    shiftbench score benchmarks/mine a0.csv a1.csv --method forest --seed 0 --seed 1

    shiftbench score benchmarks/fmow my_model.csv --by region!Other --by region,year

    shiftbench score benchmarks/cat-dog my_model.csv --import my_metrics.py --metrics auc,cost

    shiftbench score benchmarks/breeds my_model.csv answers/*.json --study studies/breeds

    shiftbench score my_model.csv --nooch nooch --task "fire hydrant"
    """
    from shiftbench.data.predictions import is_answers
    from shiftbench.reporting.terminal import score_tables
    from shiftbench.scoring import to_json

    files = predictions or []
    with noted():
        scores = verbs.score(benchmark, *files, replicates=replicates, level=level, study=study, nooch=nooch,
                             task=task, by=by or (), metrics=metrics, collection=collection,
                             ignore_splits=ignore_splits, columns=pairs(column or [], "--column", "item=img"),
                             ignore_extra=ignore_extra, name=name or (), method=method or (), setting=setting or (),
                             seed=seed or ())
    if out is not None:
        scores.save(out)
    if json:
        print_json(to_json(scores, level=level))
    elif not quiet:
        answers = [file for file in files if is_answers(file)]
        if answers or study is not None:
            from shiftbench.human.people import answer_notes, tables

            shown, notes = tables(scores, level), answer_notes(answers, study)
        else:
            shown, notes = score_tables(scores), ()
        for table in shown:
            console().print(table)
        say(*notes)
