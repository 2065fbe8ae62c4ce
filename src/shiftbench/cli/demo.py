"""shiftbench demo --out DIR"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench.cli.output import Quiet, console, progress, say


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for everything the demo makes.")] = Path("demo"),
    items: Annotated[int, typer.Option(help="Size of the world.")] = 12_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the world.")] = 0,
    workers: Annotated[int, typer.Option(help="Training processes; 0 means one per core.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Run the whole flow on the built-in world: draw, build, embed, train, score, report, audit.

    shiftbench demo --out demo

    It trains five methods with two learning rates and three seeds on four training sets at growing distance and three
    minority shares. The terminal shows MetaShift's Tables 1 and 2 and where ERM fails under the strongest shift.
    report.html has everything, also what every selection rule would choose. Nothing is downloaded.
    """
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.demonstration import demo as run_demo
    from shiftbench.reporting import as_table, distance_tables, share_tables, shown_scores

    shown = run_demo(out, items, seed, workers=workers, bar=lambda what: progress(what, quiet))
    if not quiet:
        benchmarks = [Benchmark.load(folder) for folder in shown.benchmarks]
        chosen = shown_scores(shown.scores, benchmarks)
        for table in (*distance_tables(chosen, benchmarks), *share_tables(chosen, benchmarks)):
            console().print(as_table(table))
        say("For each seed the tables use the learning rate with the higher accuracy on id_val. Other rules: "
            f"shiftbench select {out / 'scores.parquet'}")
        say("", f"Where ERM fails on {shown.benchmarks[-1].name}:", *shown.audit.sentences()[:3])
        say("", f"open {shown.page}, or look at everything: shiftbench studio {out}")
