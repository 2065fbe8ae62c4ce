"""shiftbench hardest RUNS"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, print_json, print_table


def hardest(
    source: Annotated[Path, typer.Argument(help="Folder of runs on benchmarks of shift context, or scores.")],
    n: Annotated[int, typer.Option("--n", min=1, help="How many tasks to take.")] = 12,
    method: Annotated[str, typer.Option(help="The method whose losses are compared.")] = "erm",
    split: Annotated[str, typer.Option(help="The split whose items are compared.")] = "test",
    json: Json = False,
) -> None:
    """Rank tasks by how much more a method loses on their hard items than on all items: how NOOCh chose its twelve.

    shiftbench hardest runs --n 12
    """
    found = verbs.hardest(source, n, method=method, split=split)
    if json:
        print_json([one._asdict() for one in found])
    else:
        print_table("", ["task", "loss on hard", "on all", "difference"],
                    [[one.task, one.hard, one.all, one.gap] for one in found])
