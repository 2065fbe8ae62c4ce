"""shiftbench audit PREDICTIONS --data TABLE|COLLECTION|BENCHMARK"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, note, noted, pairs, print_json, print_table, progress, say
from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    from shiftbench.auditing.findings import Audit, Finding


def audit(
    predictions: Annotated[Path, typer.Argument(help="Parquet or CSV file of predictions, or the folder of a run.")],
    data: Annotated[Path, typer.Option(help="What is known about the items: a table, or the folder of a collection or "
                                       "a benchmark.")],
    label: Annotated[str, typer.Option(help="Column of the truth, in the data or in the predictions. Default: the "
                                       "benchmark's label, or a column label, true or truth.")] = "",
    loss: Annotated[str, typer.Option(help="Loss of an item: error, nll, squared, absolute, or a metric of your own "
                                      "that has `items` (--import).")] = "error",
    against: Annotated[Path | None, typer.Option(help="Predictions of an old model: find contexts that got worse or "
                                                 "better.")] = None,
    depth: Annotated[int, typer.Option(
        min=1, help="Maximum number of predicates of a context; above 3 the search is a beam.")] = 3,
    least: Annotated[int, typer.Option(
        min=0, help="Minimum number of items of a context; 0 means 20, or 0.5 % of all items.")] = 0,
    confirm: Annotated[float, typer.Option(help="Share of the items that contexts are tested on.")] = 0.5,
    fdr: Annotated[float, typer.Option(help="Share of false findings that is allowed, on average.")] = 0.1,
    dependence: Annotated[str, typer.Option(help="Dependence between contexts that the rate holds under: prds "
                                            "(positive), or any, which is stricter.")] = "prds",
    better: Annotated[bool, typer.Option("--better", help="Also find contexts that are better than the rest.")] = False,
    cluster: Annotated[str, typer.Option(help="Column of items that belong together, as frames of a video.")] = "",
    include: Annotated[list[str] | None, typer.Option(help="Use this column only, or 'has:*' for tags; may be "
                                                      "repeated.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave this column out; may be repeated.")] = None,
    most_values: Annotated[int, typer.Option(min=2, help="Maximum number of values of a column to group by.")] = 20,
    features: Annotated[Path | None, typer.Option(help="Embeddings of the items, whose clusters form groups: a table "
                                                  "by id, or the folder that `embed` wrote.")] = None,
    flips: Annotated[list[str] | None, typer.Option(help="Error rate of an annotation, light=night=0.08, or a table "
                                                    "of checked items with columns seen and true, "
                                                    "light=night=checked.csv; may be repeated.")] = None,
    split: Annotated[str, typer.Option(help="Split to audit, or all. Default: test, where there are splits.")] = "",
    id: Annotated[str, typer.Option(help="Column of the ids. Default: item, id or item_id.")] = "",
    column: Annotated[list[str] | None, typer.Option(help="What the file of predictions calls a column of ours: "
                                                     "--column prediction=pred.")] = None,
    unsealed: Annotated[bool, typer.Option("--unsealed", help="Leave out the items that the studio keeps to confirm "
                                           "findings made by hand.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the parts that the items are split into.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write the audit: .html, .json or "
                                             ".parquet.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Add the findings to this .toml file of contexts, which `gate` "
                                              "tests.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the contexts in which a model fails, from its predictions and a table of metadata.

    It searches contexts on one half of the items and tests them on the other: what it reports holds there, with an
    interval. If it finds nothing, it says how large a failure it could have found.

    shiftbench audit predictions.csv --data metadata.csv --label species

    shiftbench audit predictions.csv --data metadata.csv --out audit.html --exclude file_name

    shiftbench audit new.csv --data benchmarks/cat-dog --against old.csv

    shiftbench audit predictions.parquet --data frames.parquet --loss nll --cluster video --fdr 0.05
    """
    with progress("searching", quiet or json) as advance, noted():
        report = verbs.audit(
            predictions, data, label=label, loss=loss, against=against, depth=depth, least=least, confirm=confirm,
            fdr=fdr, dependence=dependence, better=better, cluster=cluster, include=include or (),
            exclude=exclude or (), most_values=most_values, features=features,
            flips=_flips(flips or []), split=split, id=id,
            columns=pairs(column or [], "--column", "prediction=pred"), unsealed=unsealed, seed=seed,
            out=out, keep=keep, progress=advance)
    if json:
        print_json(_plain(report))
        return
    for line in report.card["notes"]:
        note(line)
    if not quiet:
        say(*report.sentences())
        if report.findings:
            print_table("\nFindings", *_table(report))
    for file in (out, keep):
        if file is not None:
            say(f"Wrote {file}.")


def _flips(words: list[str]) -> dict[str, Any]:
    """Rates by annotation; what is no number after the last = is the file of a checked sample."""
    flips: dict[str, Any] = {}
    for word in words:
        name, _, value = word.rpartition("=")
        if not name:
            raise ShiftBenchError(f"--flips '{word}' is not of the form NAME=NUMBER or NAME=FILE. Write --flips "
                                  "light=night=0.08.")
        try:
            flips[name] = float(value)
        except ValueError:
            flips[name] = Path(value)
    return flips


def _table(report: "Audit") -> tuple[list[str], list[list[object]]]:
    scale, unit = (100.0, " in %") if report.card["unit"] == "share" else (1.0, "")
    columns = ["#", "context", "items", f"loss{unit}", "interval", "elsewhere", "difference", "interval", "ratio", "q"]
    return columns, [[number, finding.context, finding.n, *_numbers(finding, scale)]
                     for number, finding in enumerate(report.findings, 1)]


def _numbers(finding: "Finding", scale: float) -> list[object]:
    def show(value: float, form: str = ".3g") -> str:
        digits = f"{abs(value):{form.lstrip('+')}}"
        sign = "−" if value < 0 else form[:form.startswith("+")]
        return "–" if math.isnan(value) else f"{sign}{digits}"

    def ends(low: float, high: float) -> str:
        return f"{show(scale * low)} to {show(scale * high)}"

    return [show(scale * finding.loss), ends(finding.low, finding.high), show(scale * finding.rest),
            show(scale * finding.difference, "+.3g"), ends(finding.difference_low, finding.difference_high),
            show(finding.ratio), show(finding.q, ".2g")]


def _plain(report: "Audit") -> dict[str, Any]:
    rows = report.to_arrow().to_pylist()
    return {"sentences": report.sentences(), "findings": [row for row in rows if row["confirmed"]],
            "undecided": [row for row in rows if not row["confirmed"]], "card": dict(report.card)}
