"""shiftbench graph COLLECTION --class cat"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, print_json, print_table, progress
from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    from shiftbench.data.collection import Collection


def graph(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    cls: Annotated[str, typer.Option("--class", help="The class whose subsets are shown, e.g. cat.")] = "",
    every: Annotated[bool, typer.Option(
        "--all", help="Summarise all classes, as the paper does; streams from disk.")] = False,
    threshold: Annotated[float, typer.Option(help="Edges with a smaller overlap are dropped (the paper: 0.1).")] = 0.1,
    min_size: Annotated[int, typer.Option(help="Smallest subset, in items.")] = 25,
    kinds: Annotated[list[str] | None, typer.Option("--kind", help="Contexts of this kind; may be repeated.")] = None,
    ontology: Annotated[bool, typer.Option(help="Use only places and attributes of the paper's lists.")] = False,
    scaling: Annotated[str, typer.Option(help="unit (the paper's), orthonormal (equation 2) or diffusion.")] = "unit",
    communities: Annotated[str, typer.Option(help="louvain, leiden or greedy.")] = "louvain",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the community search.")] = 0,
    origin: Annotated[str | None, typer.Option("--from", help="Show distances from this subset: 'dog(shelf)'.")] = None,
    rungs: Annotated[int, typer.Option(
        "--ladder", help="Propose this many training sets, from near to far from the subset of --from.")] = 0,
    items: Annotated[int, typer.Option(help="Minimum number of items of each training set of --ladder.")] = 100,
    merge: Annotated[bool, typer.Option(
        "--merge", help="Build --ladder from whole communities, for merge = true.")] = False,
    engine: Annotated[str, typer.Option(help="Where --all counts: local or ray.")] = "local",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write it: FILE.png, .html, or .json with all "
                                       "subsets and edges; --all and --ladder write .json only.")] = None,
    json: Json = False,
) -> None:
    """Compute the meta-graph of a class: its subsets, their overlaps, communities and distances.

    shiftbench graph collections/scenes --class dog --from 'dog(shelf)' --out dog.png

    shiftbench graph collections/scenes --from 'dog(shelf)' --ladder 4

    shiftbench graph collections/scenes --all --json
    """
    from shiftbench.data.collection import Collection
    from shiftbench.metagraph.subsets import paper_contexts

    if out is not None and (every or rungs) and out.suffix != ".json":
        raise ShiftBenchError(f"{out}: --all and --ladder are written as .json. A picture is of one class: --class.")
    if every:
        source = paper_contexts(Collection.load(collection)) if ontology else collection
        _overview(source, threshold, min_size, tuple(kinds or ()), engine, out, json)
    elif rungs:
        _ladder(collection, origin, rungs, items, threshold, min_size, tuple(kinds or ("object",)), merge, out, json)
    elif cls:
        loaded = paper_contexts(Collection.load(collection)) if ontology else Collection.load(collection)
        with progress(f"meta-graph of {cls}"):
            metagraph = verbs.graph(loaded, cls, threshold=threshold, min_size=min_size, kinds=tuple(kinds or ()),
                               scaling=scaling, seed=seed, communities=communities)
        _one(metagraph, loaded, origin, out, json)
    else:
        raise typer.BadParameter("Name a class with --class, or say --all.")


def _one(metagraph: Any, collection: "Collection", origin: str | None, out: Path | None, json: bool) -> None:
    """One class: a table, JSON, and a picture where asked."""
    from shiftbench.core.files import write_json
    from shiftbench.metagraph.graph import to_json
    from shiftbench.metagraph.graph_page import draw_html
    from shiftbench.metagraph.picture import draw_png

    facts = to_json(metagraph, origin)
    if out is not None and out.suffix == ".json":
        write_json(out, facts)
    elif out is not None and out.suffix == ".png":
        draw_png(metagraph, out)
    elif out is not None and out.suffix == ".html":
        with progress(f"page of {metagraph.cls}"):
            draw_html(metagraph, out, collection)
    elif out is not None:
        raise ShiftBenchError(f"{out}: a graph is written as .png, .html or .json. Give one of these endings.")
    if json:
        print_json(facts)
        return
    far = facts.get("distances") or {}
    print_table(f"{metagraph.cls}: {len(facts['subsets'])} subsets, {metagraph.edges} edges of overlap ≥ "
                f"{metagraph.threshold}, {facts['communities']} communities",
                ["subset", "items", "community", *(["distance"] if far else [])],
                [[subset["name"], subset["size"], subset["community"], *([far[subset["name"]]] if far else [])]
                 for subset in facts["subsets"]])


def _overview(
    collection: "Collection | Path", threshold: float, min_size: int, kinds: tuple[str, ...], engine: str,
    out: Path | None, json: bool,
) -> None:
    """All classes: the paper's summary and a line for each class."""
    from shiftbench.core.files import write_json
    from shiftbench.metagraph.catalogue import Terms
    from shiftbench.metagraph.stream import overview

    facts = overview(collection, Terms(kinds=kinds, min_size=min_size, threshold=threshold), engine=engine)
    if out is not None:
        write_json(out, facts)
    if json:
        print_json(facts)
        return
    rows = facts["per_class"]
    whole = ", ".join(f"{key.replace('_', ' ')} {value:,.6g}" for key, value in facts.items() if key != "per_class")
    print_table(whole, [key.replace("_", " ") for key in rows[0]] if rows else [], [list(row.values()) for row in rows])


def _ladder(
    collection: Path, origin: str | None, rungs: int, items: int, threshold: float, min_size: int,
    kinds: tuple[str, ...], merge: bool, out: Path | None, json: bool,
) -> None:
    """Training sets at growing distance from a test subset."""
    from shiftbench.core.files import write_json

    if origin is None:
        raise typer.BadParameter("--ladder needs the test subset: --from 'dog(shelf)'.")
    training_sets = verbs.ladder(collection, origin, rungs, items=items, threshold=threshold, min_size=min_size,
                                 kinds=kinds, merge=merge)
    facts = {"test": origin, "rungs": [rung._asdict() for rung in training_sets]}
    if out is not None:
        write_json(out, facts)
    if json:
        print_json(facts)
        return
    print_table(f"training sets for {origin}, from near to far", ["subset", "distance", "items"], training_sets)
