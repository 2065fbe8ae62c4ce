"""Verbs that share results: a page, the studio in a browser, a leaderboard, a human study; and the demo.

    shiftbench report RUNS|SCORES|AUDIT --out report.html
    shiftbench studio [FOLDER…]
    shiftbench board FOLDER --benchmark BENCHMARK --out FOLDER
    shiftbench study BENCHMARK --out FOLDER
    shiftbench demo --out FOLDER
"""

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.command import (
    IgnoreExtra,
    Json,
    Methods,
    Names,
    Origin,
    Plugins,
    Quiet,
    Seeds,
    Settings,
    console,
    noted,
    print_json,
    progress,
    say,
)


def report(
    source: Annotated[list[Path], typer.Argument(help="A folder of runs, a table of scores, a saved audit, or files "
                                                 "of predictions, with --benchmark.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML page to write.")] = Path("report.html"),
    benchmark: Annotated[list[Path] | None, typer.Option(
        help="Folder of a benchmark whose card the page shows; may be repeated.")] = None,
    rule: Annotated[str, typer.Option(help="Chooses among a method's settings: see `shiftbench select`.")] = "id",
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    compare: Annotated[str, typer.Option(help="Two methods, separated by a comma: show the hard items on which they "
                                         "differ most. Default: erm and the best one on hard items.")] = "",
    study: Annotated[Path | None, typer.Option(help="The study that was swept: report only its runs, and name those "
                                               "that are missing or left over.")] = None,
    figures: Annotated[Path | None, typer.Option(
        help="Folder for every figure as SVG and PNG, and for its table as CSV and LaTeX.")] = None,
    name: Names = None,
    method: Methods = None,
    setting: Settings = None,
    seed: Seeds = None,
    ignore_extra: IgnoreExtra = False,
    plugins: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page: cards of the shifts, tables with intervals, figures. It opens from disk.

    The page and the terminal name runs that failed, that are unfinished or that are damaged. The exit code is 1 if a
    run failed or is damaged.

    shiftbench report runs --out report.html

    shiftbench report runs --study study.toml --out report.html

    shiftbench report runs --figures figures

    shiftbench report erm.csv mine.csv --benchmark benchmarks/cat-dog

    shiftbench report audit.json --out audit.html
    """
    absent: list[Any] = []
    with noted():
        verbs.report(source if len(source) > 1 else source[0], out, benchmarks=benchmark or (), rule=rule, title=title,
                     compare=compare, study=study, figures=figures, left_out=absent, name=name or (),
                     method=method or (), setting=setting or (), seed=seed or (), ignore_extra=ignore_extra)
    if not quiet:
        say(f"wrote {out}", *([f"wrote {figures}"] if figures else []))
    if any(run.state in ("failed", "unreadable") for run in absent):
        raise typer.Exit(1)


def studio(
    folder: Annotated[list[Path] | None, typer.Argument(
        help="Folders that hold collections, benchmarks, runs, scores or audits; default: this one.")] = None,
    edit: Annotated[bool, typer.Option(
        "--edit", help="Let the page save recipes, benchmarks, audits and views below the first folder.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen at; one that other machines reach needs --token.")] = (
        "127.0.0.1"),
    token: Annotated[str, typer.Option(help="Word that the address must carry; default: a random one.")] = "",
    open: Annotated[bool, typer.Option("--open", help="Open the page in a browser of this machine.")] = False,
    request: Annotated[str, typer.Option(
        "--print", metavar="REQUEST", help="Print the answer of a view as JSON and serve nothing. The page shows the "
        "request beside numbers that no other command prints.")] = "",
    plugins: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Look at the data, the graph, the shift, the runs and the failures in a browser. Nothing leaves this machine.

    The command prints the address, and the ssh line that makes it work from another machine. Ctrl-C or SIGTERM stops
    it, with exit code 0.

    shiftbench studio demo

    shiftbench studio demo --edit --port 8000

    shiftbench studio demo --print 'cross?on=collections/scenes-0&a=class&b=light'
    """
    from shiftbench.webapp.launch import answer, start

    if request:
        print_json(answer(folder or [Path()], request))
        return
    # Set before anybody has the address, since a background shell ignores these signals. The handlers only record them:
    # one that raised, or took a lock, would do so at an arbitrary point of the program.
    signals: list[int] = []
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda number, frame: signals.append(number))
    with start(folder or [Path()], edit=edit, port=port, host=host, token=token) as running:
        say(running.url)  # alone in its line, for scripts
        if not quiet:
            say(f"from another machine: {running.tunnel}", "stop with Ctrl-C")
        if open:
            import webbrowser

            webbrowser.open(running.url)
        running.wait(signals)


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
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a leaderboard without a server: verify every submission, recompute its numbers, write a page and tables.

    shiftbench board submissions --benchmark benchmarks/cat-dog --out board

    shiftbench board a0.csv a1.csv --method forest --seed 0 --seed 1 --benchmark benchmarks/cat-dog --out board
    """
    from shiftbench.leaderboard.writing import board_table, plain

    ranking = verbs.board(folder if len(folder) > 1 else folder[0], benchmark if len(benchmark) > 1 else benchmark[0],
                          out, metric=metric, seeds=seeds, title=title, name=name or (), method=method or (),
                          setting=setting or (), seed=seed or (), ignore_extra=ignore_extra)
    if json:
        print_json(plain(ranking))
    elif not quiet:
        console().print(board_table(ranking))
        say(f"wrote {out / 'index.html'}")


def study(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write: page/ to hand out, key.json to keep.")],
    partners: Annotated[int, typer.Option(help="Number of other superclasses that each one is paired with.")] = 3,
    examples: Annotated[int, typer.Option(help="Training images shown of each superclass.")] = 20,
    questions: Annotated[int, typer.Option(help="Images to sort per task, half of each superclass.")] = 12,
    condition: Annotated[list[str] | None, typer.Option(
        help="source (images from before the shift) or target; repeat it for both. Default: both.")] = None,
    size: Annotated[int, typer.Option(help="Pixels per side of an image.")] = 224,
    rescale: Annotated[int, typer.Option(help="Shorter side before the centre is cut out.")] = 256,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the pairs and images that are drawn.")] = 0,
    collection: Origin = None,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a human study: a web page on which people sort images into two superclasses whose names they do not see.

    Hand out the folder `page`; it works without a server and sends nothing. People save their answers as a file, which
    `shiftbench score` reads.

    shiftbench study benchmarks/breeds --out studies/breeds

    shiftbench score benchmarks/breeds my_model.csv answers/*.json --study studies/breeds
    """
    with progress("writing images", quiet or json) as advance:
        key = verbs.study(
            benchmark, out, collection=collection, progress=advance, partners=partners, examples=examples,
            questions=questions, conditions=condition or ["source", "target"], size=size, rescale=rescale, seed=seed)
    if json:
        print_json({"study": key.id, "benchmark": dict(key.benchmark), "tasks": len(key.tasks), "pairs": key.pairs,
                    "splits": key.splits, "page": str(out / "page" / "index.html"), "key": str(out / "key.json"),
                    "notes": list(key.notes)})
    elif not quiet:
        for note in key.notes:
            say(note)
        say(f"human study {key.id}: {len(key.tasks)} tasks on {len(key.pairs)} pairs of superclasses",
            f"hand out  {out / 'page'}  (open index.html; index.html#2/6 is the second of six parts)",
            f"keep      {out / 'key.json'}")


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

    outcome = run_demo(out, items, seed, workers=workers, bar=lambda what: progress(what, quiet))
    if not quiet:
        benchmarks = [Benchmark.load(folder) for folder in outcome.benchmarks]
        chosen = shown_scores(outcome.scores, benchmarks)
        for table in (*distance_tables(chosen, benchmarks), *share_tables(chosen, benchmarks)):
            console().print(as_table(table))
        say("For each seed the tables use the learning rate with the higher accuracy on id_val. Other rules: "
            f"shiftbench select {out / 'scores.parquet'}")
        say("", f"Where ERM fails on {outcome.benchmarks[-1].name}:", *outcome.audit.sentences()[:3])
        say("", f"open {outcome.page}, or look at everything: shiftbench studio {out}")
