"""shiftbench conflicts BENCHMARK --out DIR"""

from pathlib import Path
from typing import Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, print_table, progress, say


def conflicts(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark whose groups are subsets.")],
    out: Annotated[Path, typer.Option(
        "--out", "-o", help="Folder for the matrix, the heatmap and the strongest conflicts.")],
    model: Annotated[str, typer.Option(help="linear or mlp on features; small-cnn, resnet18 on images.")] = "mlp",
    features: Annotated[str, typer.Option(help="Backbone and size for linear and mlp.")] = "",
    weights: Annotated[str, typer.Option(help="Initial weights of an image model: none, imagenet or a file.")] = "none",
    steps: Annotated[int, typer.Option(help="Steps per repeat; each step is evaluated.")] = 300,
    repeats: Annotated[int, typer.Option(help="Repeats from new initial weights; intervals need 5 or more.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of starts, batches and resampling.")] = 0,
    leave_out: Annotated[list[str] | None, typer.Option(
        help="Leave this subset out of training and test on it: is it too easy? May be repeated.")] = None,
    makeup: Annotated[str, typer.Option(help="Batches: varied (more precise) or plain (the paper).")] = "varied",
    changes: Annotated[list[str] | None, typer.Option("--set", help="Another setting, e.g. --set lr=0.01.")] = None,
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure training conflicts: how a step on each training subset changes the loss on every evaluation subset.

    Writes matrix.parquet, heatmap.png and conflicts.json. Further settings: lr, batch_size, skip, size, train_items,
    eval_items.

    shiftbench conflicts benchmarks/animals --features efficientnet-lite0@128 --out conflicts
    """
    from shiftbench.core.parsing import parse_changes

    settings: dict[str, Any] = {"model": model, "features": features, "weights": weights, "steps": steps,
                                "repeats": repeats, "seed": seed, "makeup": makeup,
                                "leave_out": tuple(leave_out or ()), **parse_changes(changes or [])}
    with progress(f"training {model}", quiet or json) as advance:
        matrix = verbs.conflicts(benchmark, out, collection=collection, device=device, progress=advance, **settings)
    facts = matrix.to_json()
    if json:
        print_json(facts)
    elif not quiet:
        cells = facts["cells"]
        say(f"{benchmark}: of {cells['all']:,} pairs {cells['helping']:,} help, {cells['conflicting']:,} "
            f"conflict, {cells['undecided']:,} are undecided. The strongest conflicts:")
        print_table("",
                    ["training on", "hurts", "", "effect", "low", "high"],
                    [list(cell.values()) for cell in facts["conflicts"]])
        say(f"little contribution: {', '.join(matrix.little) or 'none'}")
        if facts["left_out"]:
            print_table("left out of training", ["subset", "items", "accuracy", "low", "high"],
                        [list(row.values()) for row in facts["left_out"]])
        say(f"heatmap, matrix and settings in {out}")
