"""shiftbench train BENCHMARK --method NAME --out RUNS"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, progress, say, teller


def train(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of runs; this run gets a folder in it.")],
    method: Annotated[str, typer.Option(help="A learning rule; see `shiftbench methods`.")] = "",
    preset: Annotated[list[str] | None, typer.Option(
        help="Named settings: resnet50, wilds-fmow; see `shiftbench methods --presets`. Your options win.")] = None,
    model: Annotated[str | None, typer.Option(
        help="mlp on features, resnet18 on images, text-bag on texts, or one of yours: timm:NAME, torchvision:NAME, "
             "hf:NAME_OR_FOLDER, FILE.py:FUNCTION, sklearn:CLASS.")] = None,
    features: Annotated[str | None, typer.Option(
        help="Inputs of linear and mlp: BACKBONE@SIZE, columns or sentences.")] = None,
    weights: Annotated[str | None, typer.Option(help="Initial weights: none, imagenet (pretrained), a "
                                                "file or a folder.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the optimizer.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run.")] = 0,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A setting, e.g. --set lr=0.01.")] = None,
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    strict: Annotated[bool, typer.Option("--strict", help="Refuse pretrained weights that have seen subclasses of the "
                                         "target (BREEDS).")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train one method on a benchmark. A finished run is not repeated, and an interrupted run resumes.

    shiftbench train benchmarks/cat-dog --method group_dro --set step_size=0.1 --seed 1 --out runs
    """
    from shiftbench.core.parsing import parse_changes
    from shiftbench.methods.presets import variant_of
    from shiftbench.training.run import split_settings

    if not method and not preset and not (model or "").startswith("sklearn:"):
        raise typer.BadParameter("Name a method with --method, or a preset with --preset.")
    if variant_of(method):
        raise typer.BadParameter(f"'{method}' is a preset: --preset {variant_of(method)}")
    options = {"model": model, "features": features, "weights": weights, "steps": steps, "seed": seed}
    params, settings = split_settings({**{key: value for key, value in options.items() if value is not None},
                                       **parse_changes(changes or [])})
    with progress(f"training {method or ', '.join(preset or ())}", quiet or json) as advance:
        folder = verbs.train(benchmark, method, out, preset=preset or (), collection=collection, device=device,
                             params=params, strict=strict, progress=advance, say=teller(quiet or json), **settings)
    if json:
        print_json({"run": str(folder)})
    elif not quiet:
        say(f"done: {folder}")
