"""shiftbench board FOLDER --benchmark BENCHMARK --out DIR"""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Methods, Names, Quiet, Seeds, Settings, print_json, print_table, say

NOTHING: dict[str, Any] = {"value": math.nan, "std": math.nan, "tied": False, "group": "", "n": 0, "behind": None}
"""The cell of a submission that has no such number."""


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
                          name=name or (), method=method or (), setting=setting or (), seed=seed or ())
    if json:
        from shiftbench.leaderboard.writing import plain

        print_json(plain(ranking))
        return
    if quiet:
        return
    from shiftbench.reporting.score_tables import probability
    from shiftbench.scoring.metrics import is_worst

    worst = is_worst(ranking.measure.metric)
    rows: list[list[object]] = []
    for listed in ranking.listed:
        cell = listed.cell("test", ranking.measure) or NOTHING
        entry, pair = listed.verified.entry, cell["behind"]
        rows.append([listed.rank or "–", "algorithms" if entry.algorithm else "beyond", entry.method,
                     cell["value"], cell["std"], pair.difference if pair else math.nan,
                     probability(pair.p) if pair else "–", "≈" if cell["tied"] and listed.rank else "",
                     *([cell["group"], cell["n"]] if worst else []),
                     len(listed.verified.predictions), " ".join(listed.verified.reasons)])
    named = ranking.benchmark.name + (f" to {ranking.folds[-1].name}, mean over folds" if ranking.folds else "")
    print_table(f"{named}: {ranking.measure} on test",
                ["rank", "table", "method", "mean", "std", "behind best", "p", "", *(["group", "n"] if worst else []),
                 "folds" if ranking.folds else "seeds", "why it does not count"], rows)
    say(f"wrote {out / 'index.html'}")
