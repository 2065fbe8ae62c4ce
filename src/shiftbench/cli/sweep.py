"""shiftbench sweep STUDY.toml --out RUNS"""

import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import (
    Json,
    Quiet,
    how_long,
    print_json,
    print_table,
    progress,
    say,
    sweep_progress,
    teller,
)
from shiftbench.core.errors import printable

if TYPE_CHECKING:
    from shiftbench.sweeps.estimate import Estimate
    from shiftbench.sweeps.study import Study
    from shiftbench.sweeps.study_benchmarks import Say
    from shiftbench.training.run import Outcome

MOST = 40
"""Most lines of a table; the rest is only counted."""


def sweep(
    study: Annotated[Path, typer.Argument(help="A TOML file: benchmarks, methods, settings, seeds.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of runs; each gets a folder in it.")],
    engine: Annotated[str, typer.Option(help="local: processes here. ray: a cluster, RAY_ADDRESS.")] = "local",
    workers: Annotated[int, typer.Option(help="Processes; 0 means one per GPU, else one per core.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the runs, time a warm-up, do nothing.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Also repeat runs that failed.")] = False,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Replace a setting: --set seeds=1.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds of training that a kill may cost.")] = 30.0,
    logs: Annotated[list[str] | None, typer.Option("--log", help="Also log to tensorboard or mlflow.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse pretrained weights that have seen subclasses of the "
                                         "target (BREEDS).")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train every run of a study. Start it again at any time: finished runs are not repeated, others resume.

    A study names benchmarks, methods and settings; **a list is a sweep**, in all combinations:

        benchmarks = ["benchmarks/*"]
        seeds = 5
        [run]
        model = "mlp"
        features = "efficientnet-lite0@96"
        lr = [1e-3, 1e-4]
        [methods.erm]
        [methods.irm]
        penalty = [1.0, 100.0]

    search = "domainbed" with draws = 20 draws settings from a paper's search space (also domainbed-small, subpopbench;
    wiles is a grid); penalty = {power = [10, -1, 5]} is a distribution of your own. See examples/studies. Where a
    search space names a setting, it wins over [run]. Settings of --set or pinned = ["lr"] stay; --dry-run lists them.

    A study can also build its own data below --out: suites = ["fine_grained/sprites/low_data"] on a world that a table
    [world] describes, or on collection = "FOLDER". See examples/fine_grained.

    import = ["my_methods.py"] loads methods, shifts, metrics or models of your own, here and in every worker.

    If a run fails, its reason is recorded and the others go on. The exit code is then 1; --retry-failed tries again.

    shiftbench sweep study.toml --out runs --dry-run

    shiftbench sweep study.toml --out runs --set seeds=1 --set irm.penalty=10.0

    shiftbench show runs; shiftbench report runs --out report.html
    """
    from shiftbench.core.parsing import parse_changes
    from shiftbench.sweeps.study import Study

    plan = Study.load(study, parse_changes(changes or []))
    if not (quiet or json):
        say(f"{study}: {plan.size_in_words()}", style="bold")
        for note in plan.search_notes():
            say(note)
    if dry_run:
        _dry_run(plan, study, out, workers, device, retry_failed, strict, json, quiet)
        return
    try:
        with progress("building benchmarks", quiet or json) as advance_building:
            plan.prepare(out, say=_making(quiet or json), progress=advance_building)
        with sweep_progress(quiet or json) as advance:
            ends = verbs.sweep(plan, out, engine=engine, workers=workers, device=device, retry_failed=retry_failed,
                               logs=logs or [], checkpoint_seconds=checkpoint_seconds, strict=strict,
                               progress=advance)
    except KeyboardInterrupt as stop:  # typer would exit silently
        sys.stderr.write(f"shiftbench: {printable(stop) or 'Stopped. Start the same again to go on.'}\n")
        raise typer.Exit(130) from None
    outcome = summary(ends)
    if json:
        print_json({"out": str(out), **outcome})
    elif not quiet:
        say(f"{out}: {outcome['done']:,} of {outcome['runs']:,} runs done, {outcome['failed']:,} failed")
        for note in outcome["notes"]:
            say(f"in {note['runs']:,} runs: {note['note']}")
        if outcome["reasons"]:
            print_table("", ["failed", "why", "for example"],
                        [[reason["runs"], reason["reason"], reason["example"]] for reason in outcome["reasons"]])
            say("try them again with --retry-failed")
        else:
            say(f"next: shiftbench report {out} --out report.html")
    if outcome["failed"]:
        raise typer.Exit(1)


def summary(ends: "Sequence[Outcome]") -> dict[str, Any]:
    """How many runs ended in which state, and why runs failed; reasons that differ only in numbers count as one."""
    reasons: dict[str, list[Outcome]] = {}
    for end in ends:
        if end.state == "failed":
            reasons.setdefault(re.sub(r"\d[\d.e+-]*", "N", end.reason), []).append(end)
    listed = sorted(reasons.values(), key=len, reverse=True)
    notes = Counter(note for end in ends for note in end.notes)
    return {"runs": len(ends), "done": sum(end.state == "done" for end in ends), "failed": sum(map(len, listed)),
            "reasons": [{"reason": alike[0].reason, "runs": len(alike), "example": alike[0].run} for alike in listed],
            "notes": [{"note": note, "runs": runs} for note, runs in notes.most_common()]}


def _making(silent: bool) -> "Say":
    """Words about what is being made."""
    tell = teller(silent)
    return lambda words: tell(f"{words} …")


def _dry_run(plan: "Study", study: Path, out: Path, workers: int, device: str, retry_failed: bool, strict: bool,
             json: bool, quiet: bool) -> None:
    from shiftbench.core.files import scratch
    from shiftbench.sweeps.estimate import estimate
    from shiftbench.sweeps.jobs import check_all_unseen

    with scratch() as folder:
        tell = _making(quiet or json)
        with progress("building benchmarks", quiet or json) as advance:
            plan.prepare(out, folder, tell, advance)
        jobs = plan.jobs(out, folder)
        if strict:
            check_all_unseen(jobs)
        tell("timing a warm-up of what is left, for two minutes or little more")
        with progress("warming up", quiet or json) as advance:
            estimated = estimate(jobs, out, workers=workers, device=device, retry_failed=retry_failed, progress=advance)
    if json:
        print_json({**_as_json(estimated), "search": plan.search_notes()})
    else:
        _print(estimated, study, quiet)
    if any(row.problem for row in estimated.rows):
        raise typer.Exit(1)


def _print(estimated: "Estimate", study: Path, quiet: bool) -> None:
    from shiftbench.sweeps.status import summary as standing

    if not quiet:
        say(f"{study}: {standing(count_all(estimated).elements())}", style="bold")
        _print_counts(estimated)
        if estimated.rows:
            columns = ["method", "model", "inputs", "batch", "runs", "at once", "ms a step", "s a run", "one worker"]
            _print_some("\nwarm-up", columns, [
                [row.shape.method, row.shape.model, row.shape.inputs, f"{row.shape.items:,} {row.shape.batches}",
                 row.runs, row.runs / row.packs, 1000 * row.cost.step * row.packs / row.runs if row.cost else math.nan,
                 row.seconds / row.runs if row.cost else math.nan, row.problem or how_long(row.seconds)]
                for row in estimated.rows])
    left = sum(row.runs for row in estimated.rows)
    say(*([""] if left else []), f"{left:,} runs left, about {how_long(estimated.seconds)} with {estimated.workers} "
        f"{'worker' if estimated.workers == 1 else 'workers'} on {estimated.device}" if left else
        "nothing is left to do", style="bold")
    if left and not quiet:
        if estimated.embedding:
            say(f"of this {how_long(estimated.embedding)} to compute features that are not cached yet")
        say(f"assumed: {'; '.join(estimated.assumed)}.")


def count_all(estimated: "Estimate") -> Counter[str]:
    """State -> runs."""
    return sum(estimated.counts.values(), Counter())


def _print_counts(estimated: "Estimate") -> None:
    """Runs per benchmark and method, `2 of 3` where 2 of 3 remain."""
    methods = list(dict.fromkeys(method for _, method in estimated.counts))
    rows = {benchmark: [_left(estimated.counts.get((benchmark, method), Counter())) for method in methods]
            for benchmark, _ in estimated.counts}
    if len(methods) <= 10:
        _print_some("", ["runs", *methods], [[name, *cells] for name, cells in rows.items()])
    else:
        _print_some("", ["benchmark", "method", "runs"], [
            [name, method, cell] for name, cells in rows.items() for method, cell in zip(methods, cells, strict=True)])


def _left(count: Counter[str]) -> str:
    done = count["done"] + count["failed"]
    return f"{count.total() - done:,} of {count.total():,}" if done else f"{count.total():,}"


def _print_some(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print_table(title, columns, rows[:MOST])
    if len(rows) > MOST:
        say(f"… and {len(rows) - MOST:,} more lines; --json has all")


def _as_json(estimated: "Estimate") -> dict[str, Any]:
    return {
        "runs": count_all(estimated).total(), "states": dict(count_all(estimated)),
        "left": sum(row.runs for row in estimated.rows),
        "seconds": estimated.seconds, "embedding_seconds": estimated.embedding, "start_seconds": estimated.start,
        "workers": estimated.workers, "device": estimated.device, "assumed": list(estimated.assumed),
        "counts": [{"benchmark": benchmark, "method": method, **count}
                   for (benchmark, method), count in estimated.counts.items()],
        "shapes": [{**row.shape._asdict(), "packs": row.packs, "runs": row.runs, "seconds": row.seconds,
                    "problem": row.problem, "cost": row.cost and {
                        "fixed": row.cost.fixed, "step": row.cost.step, "evaluation": row.cost.evaluation,
                        "measured": row.cost.like == row.shape}} for row in estimated.rows],
    }
