"""shiftbench gate NEW [--against OLD] --data TABLE|COLLECTION|BENCHMARK"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, note, pairs, print_json, print_table, rates, say


def gate(
    new: Annotated[Path, typer.Argument(help="Predictions of the new model: a parquet or CSV file, or the folder of a "
                                        "run.")],
    data: Annotated[Path, typer.Option(help="What is known about the items: a table, or the folder of a collection or "
                                       "a benchmark.")],
    against: Annotated[Path | None, typer.Option(help="Predictions of the old model, on the same items.")] = None,
    budget: Annotated[float, typer.Option(help="Points by which the loss may rise in a context; for a loss that is no "
                                          "share, in its own unit.")] = 1.0,
    floor: Annotated[list[str] | None, typer.Option(
        help="Least value of a metric, or the largest if lower is better: --floor worst_group_accuracy=0.8, or "
             "--floor 'worst_group_accuracy[region]=0.7'; may be repeated.")] = None,
    contexts: Annotated[Path | None, typer.Option(help="TOML file of contexts that `audit --keep` wrote.")] = None,
    unsure: Annotated[str, typer.Option(
        help="What a check with too few items counts as: fail, warn or pass.")] = "fail",
    level: Annotated[float, typer.Option(help="Probability with which all intervals hold at once.")] = 0.95,
    loss: Annotated[str, typer.Option(help="Loss of an item; default: that of the contexts, else error.")] = "",
    label: Annotated[str, typer.Option(help="Column of the truth, in the data or in the predictions.")] = "",
    cluster: Annotated[str, typer.Option(help="Column of items that belong together, as frames of a video.")] = "",
    split: Annotated[str, typer.Option(help="Split to test on, or all. Default: test, where there are splits.")] = "",
    id: Annotated[str, typer.Option(help="Column of the ids. Default: item, id or item_id.")] = "",
    column: Annotated[list[str] | None, typer.Option(help="What the files of predictions call a column of ours: "
                                                     "--column prediction=pred.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML, a test case per check.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Write a Markdown table for a pull request.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say whether a new model may be released: exit code 0 if every check passes, else 1.

    A check passes only if the data show that the loss in a context did not rise by more than the budget, or that a
    metric lies above its floor. "No significant difference" is not enough; with too few items, --unsure decides.

    shiftbench gate new.csv --against old.csv --data metadata.csv --contexts saved.toml --budget 1.0

    shiftbench gate new.csv --data benchmarks/cat-dog --floor worst_group_accuracy=0.8 --junit gate.xml

    shiftbench gate new.csv --against old.csv --data frames.csv --cluster video --unsure warn --summary gate.md
    """
    outcome = verbs.gate(
        new, data, against=against, budget=budget,
        floors=rates(floor or [], "--floor", "accuracy=0.8"), contexts=contexts, unsure=unsure,
        level=level, loss=loss, label=label, split=split, id=id, cluster=cluster,
        columns=pairs(column or [], "--column", "prediction=pred"), junit=junit, summary=summary)
    if json:
        print_json({"passed": outcome.passed, "outcome": outcome.outcome, "unsure": outcome.unsure,
                    "level": outcome.level, "checks": outcome.to_arrow().to_pylist(), "notes": list(outcome.notes),
                    "search": outcome.search})
    else:
        for line in outcome.notes:
            note(line)
        if not quiet:
            say(outcome.headline())
            print_table("", ["", "check", ""], [[check.verdict, check.name, check.sentence()]
                                                for check in outcome.checks])
            say(*outcome.scope())
    if not outcome.passed:
        raise typer.Exit(1)
