"""shiftbench gap RUNS..."""

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
    print_json,
    print_table,
    say,
)


def gap(
    runs: Annotated[list[Path], typer.Argument(
        help="Folders of runs on a benchmark and on its references, or files of predictions.")],
    reference: Annotated[str, typer.Option(help="Only this reference: mixed-to-test, …")] = "",
    benchmark: Annotated[list[Path] | None, typer.Option(
        help="Benchmark of files of predictions: one for all, or one per file.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write the scores: .parquet or .csv.")] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    name: Names = None,
    method: Methods = None,
    setting: Settings = None,
    seed: Seeds = None,
    ignore_extra: IgnoreExtra = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure what the shift costs each method: in distribution minus out of distribution, with an interval.

    shiftbench gap runs runs-mixed

    shiftbench gap out.csv in.csv --benchmark bench --benchmark bench-mixed --method mine
    """
    from shiftbench.scoring.metrics import in_words, is_worst
    from shiftbench.scoring.views import to_json

    scores = verbs.gap(*runs, reference=reference, level=level, benchmarks=benchmark or (), name=name or (),
                       method=method or (), setting=setting or (), seed=seed or (), ignore_extra=ignore_extra)
    if out is not None:
        scores.save(out)
    if json:
        print_json(to_json(scores, level=level))
        return
    listed, names = list(scores), scores.names.tolist()
    rows = []
    for before, after, both, name in zip(listed[::3], listed[1::3], listed[2::3], names[::3], strict=True):
        # The name of a metric is short enough; over a grouping, words are shorter.
        metric = in_words(after["metric"], after["by"]) if after["by"] else after["metric"]
        rows.append([both["benchmark"], both["split"], name, both["runs"], metric, both["n"], before["value"],
                     after["value"], both["value"], f"{both['low']:.3f} to {both['high']:.3f}"])
    if not quiet:
        print_table("", ["benchmark", "reference", "method", "runs", "metric", "items", "in", "out", "gap",
                         f"{level:.0%} interval"], rows)
        if any(is_worst(row["metric"]) for row in listed):
            say("For a worst group, the items are those of the worst group out of distribution.")
