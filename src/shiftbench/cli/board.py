"""shiftbench board FOLDER --benchmark BENCHMARK --out DIR"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import (
    IgnoreExtra,
    Json,
    Methods,
    Names,
    Quiet,
    Seeds,
    Settings,
    console,
    print_json,
    say,
)


def board(
    folder: Annotated[list[Path], typer.Argument(help="Folder of submissions, each a folder with submission.toml; or "
                                                 "a folder of runs, or files of predictions.")],
    benchmark: Annotated[
        list[Path], typer.Option("--benchmark", "-b", help="Folder of the benchmark they predict; repeat for folds.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for index.html, board.json, board.csv.")],
    metric: Annotated[
        str, typer.Option(help="Metric that ranks, on test; default: the benchmark's headline.")] = "",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds required; default: WILDS' number for its data, else 3.")] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    name: Names = None,
    method: Methods = None,
    setting: Settings = None,
    seed: Seeds = None,
    ignore_extra: IgnoreExtra = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a leaderboard without a server: verify every submission, recompute its numbers, write a page and tables.

    shiftbench board submissions --benchmark benchmarks/cat-dog --out board

    shiftbench board a0.csv a1.csv --method forest --seed 0 --seed 1 --benchmark benchmarks/cat-dog --out board
    """
    chosen = benchmark if len(benchmark) > 1 else benchmark[0]
    source = folder if len(folder) > 1 else folder[0]
    ranking = verbs.board(source, chosen, out, metric=metric, seeds=seeds, title=title,
                          name=name or (), method=method or (), setting=setting or (), seed=seed or (),
                          ignore_extra=ignore_extra)
    if json:
        from shiftbench.leaderboard.writing import plain

        print_json(plain(ranking))
        return
    if quiet:
        return
    from shiftbench.leaderboard.writing import board_table

    console().print(board_table(ranking))
    say(f"wrote {out / 'index.html'}")
