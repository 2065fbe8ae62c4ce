"""shiftbench pretrain COLLECTION --label FACTOR --out FOLDER"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, progress, say


def pretrain(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection with images.")],
    label: Annotated[str, typer.Option(help="The factor to predict, e.g. class or shape.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder; weights.safetensors will be in it.")],
    model: Annotated[str, typer.Option(help="A model that takes images.")] = "resnet18",
    steps: Annotated[int, typer.Option(help="Steps of the optimizer.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the run.")] = 0,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A setting, e.g. --set lr=0.01.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on one collection and keep its weights, to start from on another. It resumes when interrupted.

    shiftbench pretrain collections/scenes --label class --model resnet18 --out pretrained/scenes

    shiftbench train benchmarks/low-10 --preset pretrained --model resnet18 \
        --weights pretrained/scenes/weights.safetensors --out runs
    """
    from shiftbench.core.parsing import parse_changes

    with progress(f"pretraining {model}", quiet or json) as advance:
        file = verbs.pretrain(collection, label, out, model=model, seed=seed, device=device, progress=advance,
                              steps=steps, **parse_changes(changes or []))
    if json:
        print_json({"weights": str(file), "model": model, "label": label})
    elif not quiet:
        say(f"weights in {file}; start from them with --preset pretrained --model {model} --weights {file}")
