"""shiftbench build RECIPE|SUITE|BENCHMARK|--from AUDIT#N --out BENCHMARK"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftbench.cli.output import Json, Quiet, print_json, print_table, progress, say, say_titled
from shiftbench.core.errors import ShiftBenchError, unknown

if TYPE_CHECKING:
    from shiftbench.data.benchmark import Benchmark


def build(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the new benchmark.")],
    recipe: Annotated[Path | None, typer.Argument(help="A TOML file, or a suite by name: metashift/table1. With "
                                                  "--reference, the folder of a benchmark.")] = None,
    changes: Annotated[list[str] | None, typer.Option(
        "--set", help="Replace a setting, e.g. --set p=0.06; in a suite, for every benchmark.")] = None,
    collection: Annotated[Path | None, typer.Option(help="Collection that replaces the recipe's.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed that replaces the recipe's.")] = None,
    only: Annotated[str, typer.Option(
        help="Build only the benchmark of this name, else those whose names begin with it.")] = "",
    replicates: Annotated[int, typer.Option("--replicates", "--draws", min=0, help="Build every benchmark of a suite "
                                            "this many times, once per seed, with other low-data items.")] = 0,
    reference: Annotated[str, typer.Option(
        help="Make the in-distribution reference of a benchmark: test-to-test, mixed-to-test, train-to-train, average "
             "or random-split. With --set: moved=0.5, unseen=true, given=FACTOR.")] = "",
    source: Annotated[str, typer.Option("--from", help="Make the shift of a finding instead: a file of `audit` and the "
                                        "number of the finding, audit.json#3. Needs --collection.")] = "",
    label: Annotated[str, typer.Option(help="With --from: the factor to predict; default: the audit's.")] = "",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a benchmark: apply a shift to a collection. Or make all benchmarks of a paper's table.

    A recipe may stand for several benchmarks (leave_one_domain_out: one per domain); each gets a folder below --out.
    With --reference, make the benchmark without the shift, against which the cost of the shift is measured.
    With --from, train without the items of a context in which a model failed, and test on them beside others.

    shiftbench build examples/cat_dog_shelf.toml --out benchmarks/cat-dog

    shiftbench build metashift/table1 --collection collections/vg --out benchmarks/table1

    shiftbench build breeds --only living17 --collection /data/imagenet --out benchmarks

    shiftbench build fine_grained/dsprites/low_data --replicates 5 --collection collections/dsprites --out benchmarks

    shiftbench build benchmarks/cat-dog --reference mixed-to-test --out benchmarks/cat-dog-mixed

    shiftbench build --from 'audit.json#3' --collection collections/street --out benchmarks/night --set n_low=20
    """
    from shiftbench.core.parsing import parse_changes
    from shiftbench.shifts.recipe import Recipe, several
    from shiftbench.shifts.recipe import build as build_recipe
    from shiftbench.shifts.suites import SUITES

    replaced = parse_changes(changes or [])
    if source:
        if recipe is not None or reference or only or replicates:
            raise ShiftBenchError("--from makes one benchmark of a finding: leave out the recipe, --reference, --only "
                                  "and --replicates.")
        _show(_from_finding(source, out, replaced, collection, seed or 0, label), out, json, quiet)
        return
    if recipe is None:
        raise ShiftBenchError("There is nothing to build. Name a recipe, a suite, or a finding with --from.")
    if label:
        raise ShiftBenchError("--label is for --from. In a recipe: --set label=NAME.")
    if reference:
        _reference(recipe, reference, replaced, out, collection, seed or 0, json, quiet)
        return
    options = {"collection": str(collection) if collection else None, "seed": seed}
    replaced |= {key: value for key, value in options.items() if value is not None}
    is_suite = str(recipe) in SUITES
    if replicates and not is_suite:
        raise ShiftBenchError(f"--replicates is for a suite, and '{recipe}' is none. For a recipe of shift low_data or "
                              "spurious: --set draw=1.")
    plan = None if is_suite else Recipe.load(recipe, replaced)
    if plan is None or several(plan.shift):
        _suite(str(recipe), replaced, out, only, replicates, json, quiet)
        return
    if only:
        raise ShiftBenchError(f"--only is for a suite, and '{recipe}' is one benchmark. Leave it out.")
    _show(build_recipe(plan, out), out, json, quiet)


def _from_finding(
    source: str, out: Path, changes: dict[str, Any], collection: Path | None, seed: int, label: str
) -> "Benchmark":
    """The shift of a finding, by the file of an audit and the number of the finding."""
    from shiftbench.api import build

    file, mark, number = source.rpartition("#")
    if not mark or not re.fullmatch("[1-9][0-9]{0,8}", number):
        raise ShiftBenchError(f"--from '{source}' names no finding. Write --from audit.json#3.")
    if collection is None:
        raise ShiftBenchError("--from needs the collection that was audited. Name its folder with --collection.")
    return build(file, out, changes, collection=collection, seed=seed, finding=int(number), label=label)


def _reference(
    benchmark: Path, name: str, changes: dict[str, Any], out: Path, collection: Path | None, seed: int, json: bool,
    quiet: bool,
) -> None:
    """The in-distribution reference of a benchmark."""
    from shiftbench.api import reference

    known = {"moved": float, "unseen": bool, "given": str}
    for key, value in changes.items():
        if key not in known:
            raise unknown("setting", key, known, "--reference")
        if not isinstance(value, known[key]):
            raise ShiftBenchError(f"--reference: '{key}' is {value!r}, but it must be of type {known[key].__name__}.")
    _show(reference(benchmark, name, out, seed=seed, collection=collection, **changes), out, json, quiet)


def _show(benchmark: "Benchmark", out: Path, json: bool, quiet: bool) -> None:
    if json:
        print_json(_facts(out, benchmark))
    elif not quiet:
        show_benchmark(benchmark)


def _facts(folder: Path, benchmark: "Benchmark") -> dict[str, Any]:
    return {"benchmark": str(folder), "digest": benchmark.digest, "rows": len(benchmark), "card": benchmark.card}


def _suite(name: str, changes: dict[str, Any], out: Path, only: str, replicates: int, json: bool, quiet: bool) -> None:
    """All benchmarks of a paper's table, or of a recipe that stands for several, each in a folder below `out`."""
    from shiftbench.shifts.suites import build_suite

    collection, seed = changes.pop("collection", None), changes.pop("seed", None)
    if collection is None and not Path(name).is_file():
        raise ShiftBenchError(f"Suite '{name}' needs a collection. Name its folder with --collection.")
    if type(seed) is not int and seed is not None:
        raise ShiftBenchError(f"Suite '{name}': 'seed' is {seed!r}, but it must be a whole number of at least 0.")
    with progress(f"building {name}", quiet or json) as advance:
        benchmarks = build_suite(name, collection, out, seed=seed, only=only, replicates=replicates,
                                 changes=changes, progress=advance)
    if json:
        print_json([_facts(folder, benchmark) for folder, benchmark in benchmarks.items()])
    elif not quiet:
        print_table("", ["benchmark", "train", "test", "distance"], [
            [folder.name, len(built.rows("train")), len(built.rows("test")),
             float("nan") if built.card["distance"] is None else float(built.card["distance"])]
            for folder, built in benchmarks.items()])


def show_benchmark(benchmark: "Benchmark") -> None:
    card = benchmark.card
    params = ", ".join(f"{key} = {value}" for key, value in card.get("params", {}).items() if value not in ("", [], {}))
    say_titled(benchmark.name, f"{card.get('shift')}({params})")
    say(f"seed {card.get('seed')}, {len(benchmark):,} rows, digest {benchmark.digest[:16]}")
    if card.get("distance") is not None:
        distances = ", ".join(f"{name} {value:.3f}" for name, value in (card.get("subsets") or {}).items())
        say(f"distance {card['distance']:.3f}" + (f" ({distances})" if distances else ""))
    counts, splits = benchmark.counts(), benchmark.splits
    groups = [name for name in benchmark.names["group"] if any(name in sizes for sizes in counts.values())]
    print_table("", ["group", *splits],
                [[name, *(counts[split].get(name, 0) for split in splits)] for name in groups[:40]])
    if len(groups) > 40:
        say(f"… and {len(groups) - 40} more groups")
    if card.get("explanation"):
        print_table("\nwhat differs most", ["tag", "kind", "train", "test", "lift"],
                    [[tag[key] for key in ("tag", "kind", "train", "test", "lift")] for tag in card["explanation"]])
    if card.get("cues"):
        print_table("\ncontext cues", ["tag", "kind", "A(C, Y)"],
                    [[cue["tag"], cue["kind"], float(cue["strength"])] for cue in card["cues"]])
    if card.get("superclasses"):
        print_table("\nsuperclasses", ["superclass", "source", "target"], [
            [row["name"], *(", ".join(subclass["name"] for subclass in row[side]) or "the same"
                            for side in ("source", "target"))]
            for row in card["superclasses"]])
    for note in card.get("notes", []):
        say(note)
