"""shiftbench train BENCHMARK --method NAME --out RUNS"""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, progress, say, teller


def train(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark.")],
    method: Annotated[str, typer.Option(help="See `shiftbench methods`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of runs; this one gets a folder in it.")],
    model: Annotated[str | None, typer.Option(help="mlp on features, resnet18 on images, text-bag on texts.")] = None,
    features: Annotated[str | None, typer.Option(
        help="Inputs of linear and mlp: BACKBONE@SIZE, columns or sentences.")] = None,
    weights: Annotated[str | None, typer.Option(help="Initial weights: none, imagenet, a file or a folder.")] = None,
    preset: Annotated[str, typer.Option(
        help="Settings of a paper: metashift, wilds-fmow. Options that you give win.")] = "",
    steps: Annotated[int | None, typer.Option(help="Steps of the optimizer.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run.")] = 0,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A setting, e.g. --set lr=0.01.")] = None,
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train one method on a benchmark. A finished run is not repeated, and an interrupted run resumes.

    shiftbench train benchmarks/cat-dog --method group_dro --set step_size=0.1 --seed 1 --out runs
    """
    from shiftbench.shifts.recipe import parse_changes
    from shiftbench.training import Run
    from shiftbench.training.presets import preset_of

    named = {"model": model, "features": features, "weights": weights, "steps": steps, "seed": seed}
    told: dict[str, Any] = {**(preset_of(preset, method) if preset else {}),
                            **{key: value for key, value in named.items() if value is not None},
                            **parse_changes(changes or [])}
    of_run = {field.name for field in fields(Run)} - {"benchmark", "method", "params"}
    given = {key: value for key, value in told.items() if key in of_run}
    params = {key: value for key, value in told.items() if key not in of_run}
    with progress(f"training {method}", quiet or json) as advance:
        folder = verbs.train(benchmark, method, out, collection=collection, device=device, params=params,
                             progress=advance, say=teller(quiet or json), **given)
    if json:
        print_json({"run": str(folder)})
    elif not quiet:
        say(f"done: {folder}")
