"""shiftbench graph COLLECTION --class cat"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import verbs
from shiftbench.cli.output import Json, print_json, print_table
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError


def graph(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    cls: Annotated[str, typer.Option("--class", help="The class whose subsets are shown, e.g. cat.")],
    threshold: Annotated[float, typer.Option(help="Edges with a smaller overlap are dropped (the paper: 0.1).")] = 0.1,
    min_size: Annotated[int, typer.Option(help="Smallest subset, in items.")] = 25,
    kinds: Annotated[list[str] | None, typer.Option("--kind", help="Contexts of this kind; may be repeated.")] = None,
    scaling: Annotated[str, typer.Option(help="unit (the paper's numbers) or orthonormal (equation 2).")] = "unit",
    seed: Annotated[int, typer.Option(help="Seed of the community search.")] = 0,
    origin: Annotated[str | None, typer.Option("--from", help="Distances from this subset: 'dog(shelf)'.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also draw it: FILE.png, .html or .json.")] = None,
    json: Json = False,
) -> None:
    """The meta-graph of a class: its subsets, how they overlap, their communities and distances.

    shiftbench graph collections/scenes --class dog --from 'dog(shelf)' --out dog.png
    """
    from shiftbench.files import write_json
    from shiftbench.metagraph.draw import draw_html, draw_png
    from shiftbench.metagraph.graph import to_json

    loaded = Collection.load(collection)
    made = verbs.graph(loaded, cls, threshold=threshold, min_size=min_size, kinds=tuple(kinds or ()), scaling=scaling,
                       seed=seed)
    facts = to_json(made, origin)
    if out is not None and out.suffix == ".json":
        write_json(out, facts)
    elif out is not None and out.suffix == ".png":
        draw_png(made, out)
    elif out is not None and out.suffix == ".html":
        draw_html(made, out, loaded)
    elif out is not None:
        raise ShiftBenchError(f"{out}: a graph is written as .png, .html or .json. Give one of these endings.")
    if json:
        print_json(facts)
        return
    far = facts.get("distances") or {}
    print_table(f"{cls}: {len(facts['subsets'])} subsets, {facts['edges']} edges of overlap ≥ {threshold}, "
                f"{facts['communities']} communities",
                ["subset", "items", "community", *(["distance"] if far else [])],
                [[part["name"], part["size"], part["community"], *([far[part["name"]]] if far else [])]
                 for part in facts["subsets"]])
