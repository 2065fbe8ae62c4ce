"""shiftbench show COLLECTION | BENCHMARK | RUNS | HIERARCHY"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench.cli.hierarchy import show_hierarchy
from shiftbench.cli.output import Json, print_json
from shiftbench.core.errors import ShiftBenchError


def show(
    folder: Annotated[Path, typer.Argument(help="Folder of a collection, a benchmark, runs or a class hierarchy.")],
    json: Json = False,
) -> None:
    """Show what a folder holds: a collection, a benchmark, runs or a class hierarchy.

    shiftbench show benchmarks/cat-dog
    """
    from shiftbench.cli.build import show_benchmark
    from shiftbench.cli.contents import collection_facts, show_collection, show_runs
    from shiftbench.data.benchmark import MARKER as BENCHMARK
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.collection import MARKER as COLLECTION
    from shiftbench.data.collection import Collection
    from shiftbench.hierarchies.cuts import facts as hierarchy_facts
    from shiftbench.hierarchies.sources import holds_hierarchy, open_hierarchy
    from shiftbench.sweeps.status import states, status

    if (folder / COLLECTION).exists():
        collection = Collection.load(folder)
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
