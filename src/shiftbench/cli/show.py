"""shiftbench show COLLECTION | BENCHMARK | RUNS | RUN | HIERARCHY"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftbench.cli.hierarchy import show_hierarchy
from shiftbench.cli.output import Json, print_json
from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    from shiftbench.data.collection import Collection


def show(
    folder: Annotated[Path, typer.Argument(help="Folder of a collection, a benchmark, runs, a run or a class "
                                                 "hierarchy.")],
    where: Annotated[str, typer.Option(help="Count only items that fulfil predicates (collection or run): a JSON "
                                            "list, as in the studio's addresses.")] = "",
    data: Annotated[Path | None, typer.Option(help="Benchmark of a run. Default: where the run found it.")] = None,
    against: Annotated[Path | None, typer.Option(help="Another run, to compare the first with.")] = None,
    json: Json = False,
) -> None:
    """Show what a folder holds: a collection, a benchmark, runs, a run or a class hierarchy.

    For a run it prints what the studio's Failures page shows, on the items that are not sealed: loss inside and outside
    of the filter, confusion, calibration, and the sizes of the embedding maps.

    shiftbench show benchmarks/cat-dog
    """
    from shiftbench.cli.build import show_benchmark
    from shiftbench.cli.contents import run_facts, show_collection, show_run, show_runs
    from shiftbench.data.benchmark import MARKER as BENCHMARK
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.collection import MARKER as COLLECTION
    from shiftbench.data.collection import Collection
    from shiftbench.data.collection_contents import collection_facts
    from shiftbench.hierarchies.cuts import facts as hierarchy_facts
    from shiftbench.hierarchies.sources import holds_hierarchy, open_hierarchy
    from shiftbench.sweeps.status import states, status

    of_run = (folder / "run.json").exists()
    if where and not of_run and not (folder / COLLECTION).exists():
        raise ShiftBenchError(f"{folder}: has no {COLLECTION} and is no run. --where chooses among their items.")
    if (data or against) and not of_run:
        raise ShiftBenchError(f"{folder}: is no run. --data and --against are for the folder of one run.")
    if of_run:
        facts = run_facts(folder, data, against, where)
        print_json(facts) if json else show_run(facts)
    elif (folder / COLLECTION).exists():
        collection = _filtered(Collection.load(folder), where)
        print_json(collection_facts(collection)) if json else show_collection(collection)
    elif (folder / BENCHMARK).exists():
        benchmark = Benchmark.load(folder)
        facts = {"name": benchmark.name, "digest": benchmark.digest, "rows": len(benchmark), **benchmark.card}
        print_json(facts) if json else show_benchmark(benchmark)
    elif holds_hierarchy(folder):
        tree = open_hierarchy(folder)
        print_json(hierarchy_facts(tree)) if json else show_hierarchy(tree)
    elif folder.is_dir() and (runs := states(folder)):
        print_json([run._asdict() for run in status(folder)]) if json else show_runs(folder, runs)
    else:
        there = "is not there" if not folder.exists() else f"has no {COLLECTION}, no {BENCHMARK} and no runs"
        raise ShiftBenchError(f"{folder} {there}. Name the folder of a collection, a benchmark or runs.")


def _filtered(collection: "Collection", where: str) -> "Collection":
    """The items that fulfil all predicates."""
    import numpy as np

    from shiftbench.auditing.contexts import inside
    from shiftbench.webapp.query import Query

    predicates = Query({"where": where}).where()
    return collection.take(np.flatnonzero(inside(predicates, collection))) if predicates else collection
