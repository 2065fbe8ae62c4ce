"""shiftbench predict BENCHMARK|COLLECTION --model MODEL --out FILE"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, note, print_json, progress, say


def predict(
    source: Annotated[Path, typer.Argument(help="Folder of a benchmark or of a collection.")],
    model: Annotated[str, typer.Option(
        help="timm:NAME, torchvision:NAME, hf:FOLDER, hf-nli:FOLDER, openclip:MODEL/WEIGHTS, model.onnx, "
             "FILE.py:FUNCTION, or the folder of a finished run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .parquet or .csv.")] = Path(
        "predictions.parquet"),
    split: Annotated[str, typer.Option(help="Predict only these splits, separated by commas: test, or val,test.")] = "",
    label: Annotated[str, typer.Option(help="For a collection: the factor whose values are the labels.")] = "",
    map: Annotated[Path | None, typer.Option(
        help="File that maps the model's classes to labels: a .csv with columns class and label, or a .toml.")] = None,
    hierarchy: Annotated[Path | None, typer.Option(
        help="Hierarchy that puts classes below a label: see `shiftbench hierarchy`. Default: the collection's.")
    ] = None,
    classes: Annotated[Path | None, typer.Option(
        help="Names of the model's outputs in their order, where it has none: a line each, or .json.")] = None,
    allow_unmapped: Annotated[bool, typer.Option(
        "--allow-unmapped", help="Go on even if no class maps to a label; that label is never predicted.")] = False,
    map_out: Annotated[Path | None, typer.Option(help="Write the label of every class: .csv, to edit for --map.")
                       ] = None,
    prompt: Annotated[list[str] | None, typer.Option(
        help="Sentence with {} for the label, for openclip: and hf-nli:; may be repeated, they are averaged.")] = None,
    weights: Annotated[str, typer.Option(help="Weights of timm: and torchvision:, a file or none; default: the "
                                         "library's.")] = "",
    takes: Annotated[str, typer.Option(help="What a function receives: images, texts or columns.")] = "",
    size: Annotated[int, typer.Option(help="Pixels per side of images for a function or an open ONNX file.")] = 0,
    mean: Annotated[str, typer.Option(help="Mean of each channel, for an ONNX file: 0.485,0.456,0.406.")] = "",
    std: Annotated[str, typer.Option(help="Standard deviation per channel, for an ONNX file: 0.229,0.224,0.225.")] = "",
    outputs: Annotated[str, typer.Option(help="What a function or an ONNX file returns: logits or probabilities.")
                       ] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Items per batch.")] = 64,
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a finished model, and write its predictions for `score`, `gap`, `select`, `report` and `board`.

    The model's classes are mapped to the labels: by --map, by name, by synonyms, by the class hierarchy. If it is
    interrupted, start it again: it resumes.

    shiftbench predict benchmarks/cat-dog --model timm:resnet50.a1_in1k --hierarchy wordnet --out resnet50.parquet

    shiftbench predict benchmarks/cat-dog --model openclip:ViT-B-32/openai --prompt 'a photo of a {}'

    shiftbench predict benchmarks/cat-dog --model my_file.py:function --out mine.csv
    """
    notes: list[str] = []

    def hear(line: str) -> None:
        notes.append(line)
        if not quiet and not json:
            note(line)

    with progress(f"predicting with {model}", quiet or json) as advance:
        predictions = verbs.predict(
            source, model, out, collection=collection, split=split, label=label, classes=classes or (), map=map,
            hierarchy=hierarchy, allow_unmapped=allow_unmapped, map_out=map_out, prompt=prompt or (), weights=weights,
            takes=takes, size=size, mean=mean, std=std, outputs=outputs, batch_size=batch_size, device=device,
            overwrite=overwrite, progress=advance, say=hear)
    if json:
        print_json({"predictions": str(out), "items": len(predictions), "classes": list(predictions.classes),
                    "notes": notes})
    elif not quiet:
        say(f"wrote {out}: {len(predictions):,} items; next: shiftbench score {source} {out}")
