"""Verbs about data: fetch it, look at it, write it for other tools, and say which files may be used.

    shiftbench download NAME --root FOLDER
    shiftbench read FORMAT SOURCE… --out COLLECTION          (cli/read.py)
    shiftbench show COLLECTION|BENCHMARK|RUNS|RUN|HIERARCHY
    shiftbench export BENCHMARK|RUNS --to LAYOUT --out FOLDER
    shiftbench trust COLLECTION [--root FOLDER]
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.command import (
    Json,
    Origin,
    Plugins,
    Quiet,
    print_json,
    print_table,
    progress,
    say,
    say_titled,
    teller,
)
from shiftbench.cli.read import show_collection
from shiftbench.cli.shifts import show_benchmark, show_hierarchy
from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    from shiftbench.auditing.predicates import Predicate
    from shiftbench.downloads.data_sets import Source


def download(
    name: Annotated[list[str] | None, typer.Argument(
        help="Name of the data set, as --list shows it: wilds camelyon17, waterbirds, coco, dsprites, ….")] = None,
    root: Annotated[Path, typer.Option(help="Folder of all data sets; each gets a folder in it.")] = Path("data"),
    origin: Annotated[str | None, typer.Option(
        "--from", help="Folder or address of your own that has the files under the same names.")] = None,
    accept_licence: Annotated[bool, typer.Option(
        "--accept-licence", help="Accept the licence, which is shown; without it a terminal asks.")] = False,
    keep_archives: Annotated[bool, typer.Option("--keep-archives", help="Keep archives after unpacking.")] = False,
    check: Annotated[bool, typer.Option(
        "--check", help="Fetch nothing; read every file and list those that are missing, half-downloaded or altered. "
                        "The exit code is 1 if there are any.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List every data set: size, licence, checksums.")] = False,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fetch a published data set: from its makers or a mirror, resumed, checked and unpacked. --list shows them all.

    Proxies are taken from the environment (https_proxy, http_proxy, no_proxy).

    shiftbench download wilds camelyon17 --root data
    """
    from shiftbench.downloads.data_sets import SOURCES, find_source

    if list_:
        _list_sources(list(SOURCES.values()), json)
        return
    if not name:
        raise typer.BadParameter("Name a data set, or use --list.", param_hint="NAME")
    source = find_source(*name)
    if check:
        _compare(source, root, json, quiet)
    else:
        _download(source, root, origin, accept_licence, keep_archives, json, quiet)


def _download(
    source: "Source", root: Path, origin: str | None, accept_licence: bool, keep_archives: bool, json: bool, quiet: bool
) -> None:
    from shiftbench.downloads.fetching import Options, is_finished, licence_words
    from shiftbench.downloads.fetching import download as fetch

    asks = sys.stdin.isatty() and sys.stderr.isatty() and not json and not quiet
    if asks and not accept_licence and not source.login and not is_finished(source, root):
        typer.echo(f"{source.what}: {source.size_in_words}. {licence_words(source)}", err=True)
        accept_licence = typer.confirm("Do you accept it?", err=True)
    with progress(source.words, quiet or json, in_bytes=True) as advance:
        folder, fetched = fetch(source, root, accept_licence, Options(
            origin, keep_archives, advance, teller(silent=quiet or json)))
    command = source.read.format(root=root)
    if json:
        print_json({"name": source.words, "folder": str(folder), "fetched": fetched, "next": command})
    elif not quiet:
        say(f"{folder}: {source.what}{'' if fetched else ', as it was downloaded before; nothing was fetched'}")
        say(f"Licence: {source.licence.name}, {source.licence.url}", f"Cite: {source.citation}")
        say(f"Next: {command}" if command else "ShiftBench has no reader for it.")


def _compare(source: "Source", root: Path, json: bool, quiet: bool) -> None:
    from shiftbench.downloads.fetching import compare

    differences = compare(source, root)
    if json:
        print_json({"name": source.words, "root": str(root), "files": [
            {"path": path, "problem": problem} for path, problem in differences]})
    elif not quiet:
        if differences:
            print_table("", ["file", "problem"], differences)
        else:
            say(f"{root / source.folder}: every file of {source.words} is there as it was downloaded.")
    if differences:
        raise typer.Exit(1)


def _list_sources(sources: "list[Source]", json: bool) -> None:
    if json:
        print_json([source.to_json() for source in sources])
        return
    print_table("", ["name", "size", "licence", "commercial use", "checksums", "what it is"], [
        [source.words, source.size_in_words, source.licence.name, source.licence.commercial,
         source.checksums, source.what + (" (needs a login)" if source.login else "")] for source in sources])


def show(
    folder: Annotated[Path, typer.Argument(help="Folder of a collection, a benchmark, runs, a run or a class "
                                                 "hierarchy.")],
    where: Annotated[str, typer.Option(help="Count only items that fulfil predicates (collection or run): a JSON "
                                            "list, as in the studio's addresses.")] = "",
    data: Annotated[Path | None, typer.Option(help="Benchmark of a run. Default: where the run found it.")] = None,
    against: Annotated[Path | None, typer.Option(help="Another run, to compare the first with.")] = None,
    plugins: Plugins = None,
    json: Json = False,
) -> None:
    """Show what a folder holds: a collection, a benchmark, runs, a run or a class hierarchy.

    For a run it prints what the studio's Failures page shows, on the items that are not sealed: loss inside and outside
    of the filter, confusion, calibration, and the sizes of the embedding maps.

    shiftbench show benchmarks/cat-dog
    """
    from shiftbench.data.benchmark import MARKER as BENCHMARK
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.collection import MARKER as COLLECTION
    from shiftbench.data.collection import Collection
    from shiftbench.hierarchies.hierarchy import facts as hierarchy_facts
    from shiftbench.hierarchies.sources import holds_hierarchy, open_hierarchy
    from shiftbench.reporting.terminal import collection_facts
    from shiftbench.sweeps.status import states, status

    is_run = (folder / "run.json").exists()
    if where and not is_run and not (folder / COLLECTION).exists():
        raise ShiftBenchError(f"{folder}: has no {COLLECTION} and is no run. --where chooses among their items.")
    if (data or against) and not is_run:
        raise ShiftBenchError(f"{folder}: is no run. --data and --against are for the folder of one run.")
    if is_run:
        from shiftbench.webapp.failures_view import map_counts, numbers_inside
        from shiftbench.webapp.outcomes import outcomes_in

        outcomes = outcomes_in(folder, data, against)
        facts = {**numbers_inside(outcomes, _where(where)), "maps": map_counts(outcomes)}
        print_json(facts) if json else _show_run(facts)
    elif (folder / COLLECTION).exists():
        collection = Collection.load(folder)
        if predicates := _where(where) if where else ():
            from shiftbench.auditing.contexts import inside

            collection = collection.take(inside(predicates, collection).nonzero()[0])
        print_json(collection_facts(collection)) if json else show_collection(collection)
    elif (folder / BENCHMARK).exists():
        benchmark = Benchmark.load(folder)
        facts = {"name": benchmark.name, "digest": benchmark.digest, "rows": len(benchmark), **benchmark.card}
        print_json(facts) if json else show_benchmark(benchmark)
    elif holds_hierarchy(folder):
        tree = open_hierarchy(folder)
        print_json(hierarchy_facts(tree)) if json else show_hierarchy(tree)
    elif folder.is_dir() and (runs := states(folder)):
        print_json([run._asdict() for run in status(folder)]) if json else _show_runs(folder, runs)
    else:
        problem = f"has no {COLLECTION}, no {BENCHMARK} and no runs" if folder.exists() else "is not there"
        raise ShiftBenchError(f"{folder} {problem}. Name the folder of a collection, a benchmark or runs.")


def _where(predicates: str) -> "tuple[Predicate, ...]":
    """The predicates of --where."""
    from shiftbench.webapp.studio import Query

    return Query({"where": predicates}).where()


def _show_run(facts: Mapping[str, Any]) -> None:
    percent = facts["unit"] == "share"

    def number(value: float | None) -> str:
        return "–" if value is None or value != value else f"{100 * value:.1f}" if percent else f"{value:.3g}"

    say_titled(facts["name"], f"{facts['n']:,} of {facts['n_open']:,} open items")
    print_table("", ["", f"{facts['words']}{' in %' if percent else ''}", "low", "high"],
                [[side, *map(number, facts[side])] for side in ("inside", "outside", "difference") if facts[side]])
    if facts["pairs"]:
        print_table("\nItems that a run gets right", list(facts["pairs"]), [list(facts["pairs"].values())])
    if (table := facts["confusion"]) is not None:
        others = [f"{table['others']} others"] if table["others"] else []
        names = [row["value"] for row in table["rows"]] + others
        print_table("\nConfusion: labels down, predictions across", ["", *names],
                    [[name, *cells] for name, cells in zip(names, table["cells"], strict=True)])
    if facts["calibration"] is not None:
        print_table("\nCalibration", ["side", "confidence", "right", "low", "high", "items"],
                    [[side, *(f"{100 * bin[name]:.1f}" for name in ("confidence", "right", "low", "high")), bin["n"]]
                     for side, bins in facts["calibration"].items() for bin in bins])
    if facts["maps"]:
        print_table("\nEmbedding maps", ["features", "open items", "failing"],
                    [[name, sizes["n"], sizes["fail"]] for name, sizes in facts["maps"].items()])


def _show_runs(folder: Path, runs: Mapping[str, str]) -> None:
    """How many runs are in each state, the failed ones with their reasons, then the others, done ones last."""
    from shiftbench.sweeps.status import STATES, describe, summary

    say_titled(folder, summary(runs.values()))
    failed = [run for run, state in runs.items() if state == "failed"]
    others = sorted((run for run in runs if runs[run] != "failed"), key=lambda run: STATES.index(runs[run]))
    for names, most, columns in ((failed, 20, ("run", "benchmark", "method", "seed", "reason")),
                                  (others, 40, ("run", "state", "benchmark", "method", "model", "seed", "seconds"))):
        if names:
            rows = [describe(folder / run, runs[run])._asdict() for run in names[:most]]
            print_table("\nfailed" if names is failed else "", columns,
                        [[row[column] for column in columns] for row in rows])
        if len(names) > most:
            say(f"… and {len(names) - most:,} more; --json lists all")
    if failed:
        say("", "To try the failed ones again, start the sweep with --retry-failed.")


def export(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark; of runs for wilds-submission.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")],
    to: Annotated[str, typer.Option(help="folder (SPLIT/LABEL/GROUP/ITEM), torch (SPLIT/LABEL/ITEM), domainbed "
                                    "(DOMAIN/LABEL/ITEM), wilds (as iWildCam), hf (parquet shards), csv, coco or "
                                    "wilds-submission.")] = "folder",
    copy: Annotated[bool, typer.Option("--copy", help="Copy image files instead of linking them.")] = False,
    collection: Origin = None,
    licence: Annotated[str, typer.Option(help="Address of the licence, for croissant.json.")] = "",
    citation: Annotated[str, typer.Option(help="What to cite, for croissant.json.")] = "",
    plugins: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Write a benchmark in a layout that other tools read, with a Croissant description (croissant.json).

    shiftbench export benchmarks/cat-dog --to folder --out cat-dog

    shiftbench export benchmarks/cat-dog --to hf --out cat-dog-hf

    wilds-submission writes the predictions of finished runs as WILDS' leaderboard takes them.
    """
    verbs.export(benchmark, out, to=to, copy=copy, collection=collection, licence=licence,
                 citation=citation)
    if not quiet:
        say(f"wrote {out}")


def trust(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection that was made elsewhere.")],
    root: Annotated[Path | None, typer.Option(help="Folder of its images on this machine; default: the folder "
                                              "that it names.")] = None,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Allow a collection that was made elsewhere to use image files of this machine.

    A collection names the folder of its images. One from a stranger could name any folder of yours, and an export would
    copy files from there. Collections that you read on this machine need no permission.

    shiftbench trust collections/coco --root /data/coco
    """
    folder = verbs.trust(collection, root)
    if json:
        print_json({"collection": str(collection), "root": str(folder)})
    elif not quiet:
        say(f"{collection}: files are taken from {folder}")
