"""shiftbench retrain RUNS"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, print_table, progress, say
from shiftbench.core.errors import ShiftBenchError


def retrain(
    runs: Annotated[Path, typer.Argument(help="Folder of finished runs on benchmarks with target_train.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps per learning rate; BREEDS uses 40,000.")] = 40_000,
    rates: Annotated[str, typer.Option(
        help="Learning rates, separated by commas; default: the thirteen of BREEDS.")] = "",
    collection: Annotated[Path | None, typer.Option(help="Where their collection is now.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Retrain the last layer of every finished run on the target, to see what its representation is worth (target-RT).

    We choose the learning rate on `val`; the paper chose it on test. Scores and reports then have
    `target_rt_accuracy`.

    shiftbench retrain runs --steps 4000
    """
    chosen = _rates(rates) if rates else None
    with progress("retraining", quiet or json) as advance:
        outcomes = verbs.retrain(runs, steps=steps, rates=chosen, collection=collection, device=device,
                                 progress=advance)
    if json:
        print_json([{"run": run, **outcome._asdict()} for run, outcome in outcomes.items()])
    elif not quiet:
        print_table("", ["run", "learning rate", "accuracy on val"],
                    [[run, f"{outcome.lr:g}", outcome.accuracy] for run, outcome in outcomes.items()])
        say(f"{len(outcomes)} last layers retrained; `shiftbench report {runs}` shows them.")


def _rates(text: str) -> list[float]:
    try:
        rates = [float(word) for word in text.split(",")]
    except ValueError:
        rates = []
    if not rates or not all(0 < rate < float("inf") for rate in rates):
        raise ShiftBenchError(f"--rates '{text}': write learning rates above 0 with commas between: --rates 0.1,0.5,1.")
    return rates
