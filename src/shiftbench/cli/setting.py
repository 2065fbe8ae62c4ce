"""shiftbench setting BENCHMARK --to NAME --out BENCHMARK"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, print_table
from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    from shiftbench.data.benchmark import Benchmark


def setting(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark: the reference, out of distribution.")],
    to: Annotated[str | None, typer.Option(help="test-to-test, mixed-to-test, train-to-train, average or "
                                           "random-split; default: list which of them are legal.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the new benchmark.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of what is drawn.")] = 0,
    moved: Annotated[float, typer.Option(help="Share of test that goes to training, at most.")] = 0.5,
    given: Annotated[str, typer.Option(help="The factor with the split of the setting, where the data set has one: "
                                       "split_mixed_to_test.")] = "",
    unseen: Annotated[bool, typer.Option(
        "--unseen", help="With average: include groups that are not in training.")] = False,
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now; for --given.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make the in-distribution setting of a benchmark, against which its shift is measured; or list the legal settings.

    shiftbench setting benchmarks/cat-dog

    shiftbench setting benchmarks/cat-dog --to mixed-to-test --out benchmarks/cat-dog-mixed
    """
    from shiftbench.cli.build import show_benchmark
    from shiftbench.data.benchmark import Benchmark

    if to is None:
        _list(Benchmark.load(benchmark), unseen, json, quiet)
        return
    if out is None:
        raise ShiftBenchError("Name the folder of the new benchmark with --out.")
    made = verbs.setting(benchmark, to, out, seed=seed, moved=moved, given=given, unseen=unseen, collection=collection)
    if json:
        print_json({"benchmark": str(out), "digest": made.digest, "rows": len(made), "card": made.card})
    elif not quiet:
        show_benchmark(made)


def _list(benchmark: "Benchmark", unseen: bool, json: bool, quiet: bool) -> None:
    from shiftbench.shifts.in_distribution import kind_of, legal

    kind, found = kind_of(benchmark), legal(benchmark, unseen=unseen)
    if json:
        print_json({"benchmark": benchmark.name, "kind": kind, "settings": found})
    elif not quiet:
        print_table(f"{benchmark.name}: {kind}", ["setting", "legal", "why not"],
                    [[name, "no" if reason else "yes", reason] for name, reason in found.items()])
