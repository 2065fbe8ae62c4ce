"""shiftbench power [BENCHMARK]"""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftbench.cli.output import Json, print_json, print_table, say
from shiftbench.core.errors import ShiftBenchError


def power(
    benchmark: Annotated[Path | None, typer.Argument(help="Folder of a benchmark: what its groups can show.")] = None,
    difference: Annotated[float | None, typer.Option(help="Points of accuracy between two models, e.g. 2.")] = None,
    accuracy: Annotated[float, typer.Option(help="Accuracy of the weaker model, from 0 to 1.")] = 0.7,
    correlation: Annotated[float, typer.Option(
        help="Correlation of the two models' errors: 0 independent, 1 the same.")] = 0.5,
    disagreement: Annotated[float | None, typer.Option(
        help="Share of items that exactly one model gets right; replaces --correlation.")] = None,
    level: Annotated[float, typer.Option(help="Level of the test.")] = 0.95,
    power: Annotated[float, typer.Option(help="Probability of detecting the difference.")] = 0.8,
    comparisons: Annotated[int, typer.Option(help="Pairs of models, or groups, that are tested at once.")] = 1,
    split: Annotated[str, typer.Option(help="Split of the benchmark.")] = "test",
    json: Json = False,
) -> None:
    """Compute how many items a difference needs, or which difference a benchmark's groups can show.

    It covers two models on the same items (paired) and on different items. It does not cover seeds.

    shiftbench power --difference 2 --accuracy 0.8

    shiftbench power benchmarks/cat-dog --accuracy 0.8 --comparisons 10
    """
    from shiftbench.scoring.intervals.sample_size import group_power, items_needed

    known: dict[str, Any] = {"accuracy": accuracy, "correlation": correlation, "disagreement": disagreement,
                             "level": level, "comparisons": comparisons}
    share = None if difference is None else difference / 100
    if benchmark is None:
        if share is None:
            raise ShiftBenchError("Give --difference, in points, or a benchmark: shiftbench power --difference 2")
        needed = {kind: items_needed(share, power, paired=kind == "paired", **known)
                  for kind in ("paired", "unpaired")}
        if json:
            print_json({"difference": difference, "power": power, **known, "items_per_group": needed})
            return
        say(f"To see {difference:g} points with probability {power:g}, at an accuracy of {accuracy:g}:")
        print_table("", ["models are given", "items per group"],
                    [("the same items", needed["paired"]), ("different items, each", needed["unpaired"])])
        return
    rows = group_power(_sizes(benchmark, split), share, power, **known)
    if json:
        print_json({"benchmark": str(benchmark), "split": split, "difference": difference, "power": power, **known,
                    "groups": [{**row, "smallest": 100 * row["smallest"]} for row in rows]})
        return
    heads = ["group", "items", "smallest difference, points"]
    heads += [] if difference is None else [f"items for {difference:g} points", f"chance to see {difference:g} points"]
    print_table(f"{benchmark}, {split}: seen with probability {power:g} at an accuracy of {accuracy:g}", heads, [
        (row["group"], row["items"], _points(row["smallest"]),
         *(() if share is None else (row["needed"], f"{row['chance']:.2f}"))) for row in rows])


def _sizes(folder: Path, split: str) -> dict[str, int]:
    """Items of the whole split and of every group in it."""
    from shiftbench.core.errors import unknown
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.scores import ALL

    loaded = Benchmark.load(folder)
    if split not in loaded.splits:
        raise unknown("split", split, loaded.splits)
    return {ALL: len(loaded.rows(split)), **loaded.counts()[split]}


def _points(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}"
