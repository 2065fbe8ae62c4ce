"""Verbs about shifts: subsets and class hierarchies, benchmarks, what they are fit for and what they can show.

    shiftbench graph COLLECTION --class cat
    shiftbench hierarchy FILES|COLLECTION [--level L | --task living17]
    shiftbench build RECIPE|SUITE|BENCHMARK|--from AUDIT#N --out BENCHMARK
    shiftbench check BENCHMARK
    shiftbench power [BENCHMARK]
"""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.command import Json, Origin, Plugins, Quiet, print_json, print_table, progress, say, say_titled
from shiftbench.core.errors import ShiftBenchError, unknown

if TYPE_CHECKING:
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.collection import Collection
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.superclasses import Superclasses
    from shiftbench.metagraph.graph import MetaGraph


def graph(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    cls: Annotated[str, typer.Option("--class", help="The class whose subsets are shown, e.g. cat.")] = "",
    every: Annotated[bool, typer.Option(
        "--all", help="Summarise all classes, as the paper does; streams from disk.")] = False,
    threshold: Annotated[float, typer.Option(help="Edges with a smaller overlap are dropped (the paper: 0.1).")] = 0.1,
    min_size: Annotated[int, typer.Option(help="Smallest subset, in items.")] = 25,
    kinds: Annotated[list[str] | None, typer.Option("--kind", help="Contexts of this kind; may be repeated.")] = None,
    ontology: Annotated[bool, typer.Option(help="Use only places and attributes of the paper's lists.")] = False,
    scaling: Annotated[str, typer.Option(help="unit (the paper's), orthonormal (equation 2) or diffusion.")] = "unit",
    communities: Annotated[str, typer.Option(help="louvain, leiden or greedy.")] = "louvain",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the community search.")] = 0,
    origin: Annotated[str | None, typer.Option("--from", help="Show distances from this subset: 'dog(shelf)'.")] = None,
    rungs: Annotated[int, typer.Option(
        "--ladder", help="Propose this many training sets, from near to far from the subset of --from.")] = 0,
    items: Annotated[int, typer.Option(help="Minimum number of items of each training set of --ladder.")] = 100,
    merge: Annotated[bool, typer.Option(
        "--merge", help="Build --ladder from whole communities, for merge = true.")] = False,
    engine: Annotated[str, typer.Option(help="Where --all counts: local or ray.")] = "local",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write it: FILE.png, .html, or .json with all "
                                       "subsets and edges; --all and --ladder write .json only.")] = None,
    plugins: Plugins = None,
    json: Json = False,
) -> None:
    """Compute the meta-graph of a class: its subsets, their overlaps, communities and distances.

    shiftbench graph collections/scenes --class dog --from 'dog(shelf)' --out dog.png

    shiftbench graph collections/scenes --from 'dog(shelf)' --ladder 4

    shiftbench graph collections/scenes --all --json
    """
    from shiftbench.data.collection import Collection
    from shiftbench.metagraph.subsets import paper_contexts

    if out is not None and (every or rungs) and out.suffix != ".json":
        raise ShiftBenchError(f"{out}: --all and --ladder are written as .json. A picture is of one class: --class.")
    source = paper_contexts(Collection.load(collection)) if ontology else collection
    if every:
        _overview(source, threshold, min_size, tuple(kinds or ()), engine, out, json)
    elif rungs:
        if origin is None:
            raise typer.BadParameter("--ladder needs the test subset: --from 'dog(shelf)'.")
        training_sets = verbs.ladder(source, origin, rungs, items=items, threshold=threshold, min_size=min_size,
                                     kinds=tuple(kinds or ("object",)), merge=merge)
        if not _written({"test": origin, "rungs": [rung._asdict() for rung in training_sets]}, out, json):
            print_table(f"training sets for {origin}, from near to far", ["subset", "distance", "items"], training_sets)
    elif cls:
        if out is not None and out.suffix not in (".png", ".html", ".json"):
            raise ShiftBenchError(f"{out}: a graph is written as .png, .html or .json. Give one of these endings.")
        loaded = source if isinstance(source, Collection) else Collection.load(source)
        with progress(f"meta-graph of {cls}"):
            metagraph = verbs.graph(loaded, cls, threshold=threshold, min_size=min_size, kinds=tuple(kinds or ()),
                                    scaling=scaling, seed=seed, communities=communities)
        _one_class(metagraph, loaded, origin, out, json)
    else:
        raise typer.BadParameter("Name a class with --class, or say --all.")


def _written(facts: dict[str, Any], out: Path | None, json: bool) -> bool:
    """Write the facts of a graph to `out`, if given, and with `json` print them; return whether they were printed."""
    from shiftbench.core.files import write_json

    if out is not None:
        write_json(out, facts)
    if json:
        print_json(facts)
    return json


def _overview(
    collection: "Collection | Path", threshold: float, min_size: int, kinds: tuple[str, ...], engine: str,
    out: Path | None, json: bool,
) -> None:
    """All classes: the paper's summary and a line for each class."""
    from shiftbench.metagraph.catalogue import Terms, overview

    facts = overview(collection, Terms(kinds=kinds, min_size=min_size, threshold=threshold), engine=engine)
    if not _written(facts, out, json):
        rows = facts["per_class"]
        title = ", ".join(f"{key.replace('_', ' ')} {value:,.6g}" for key, value in facts.items() if key != "per_class")
        print_table(title, [key.replace("_", " ") for key in rows[0]] if rows else [],
                    [list(row.values()) for row in rows])


def _one_class(
    metagraph: "MetaGraph", collection: "Collection", origin: str | None, out: Path | None, json: bool
) -> None:
    """One class: a table, JSON, and a picture where asked."""
    from shiftbench.metagraph.graph import to_json
    from shiftbench.metagraph.picture import draw_html, draw_png

    facts = to_json(metagraph, origin)
    if out is not None and out.suffix == ".png":
        draw_png(metagraph, out)
    elif out is not None and out.suffix == ".html":
        with progress(f"page of {metagraph.cls}"):
            draw_html(metagraph, out, collection)
    if not _written(facts, out if out is not None and out.suffix == ".json" else None, json):
        distances = facts.get("distances") or {}
        print_table(f"{metagraph.cls}: {len(facts['subsets'])} subsets, {metagraph.edges} edges of overlap ≥ "
                    f"{metagraph.threshold}, {facts['communities']} communities",
                    ["subset", "items", "community", *(["distance"] if distances else [])],
                    [[subset["name"], subset["size"], subset["community"],
                      *([distances[subset["name"]]] if distances else [])] for subset in facts["subsets"]])


def hierarchy(
    source: Annotated[Path | None, typer.Argument(help="BREEDS' folder, WordNet's folder, a collection, or a file of "
                                                  "parents and children: .csv, .json, .txt.")] = None,
    level: Annotated[int | None, typer.Option(help="Superclasses are the nodes this far from the root.")] = None,
    task: Annotated[str, typer.Option(help="entity13, entity30, living17 or nonliving26.")] = "",
    cluster: Annotated[str, typer.Option(help="down-up or up-down: superclasses are clusters of Huh et al. (2016), "
                                         "--level steps below the root or above the classes.")] = "",
    root: Annotated[str, typer.Option(help="Only superclasses under this node.")] = "",
    subclasses: Annotated[int | None, typer.Option(
        help="Number of subclasses of each superclass, half on each side.")] = None,
    split: Annotated[str, typer.Option(help="rand, good, bad or none. Default: none with --level, rand with a task or "
                                       "--subclasses.")] = "",
    adversariality: Annotated[float | None, typer.Option(help="Split between good (0) and bad (1).")] = None,
    balanced: Annotated[bool | None, typer.Option(
        "--balanced/--unbalanced", help="Equally many subclasses in each superclass, or all of them. Default: balanced "
                                        "if there is a split.")] = None,
    compat: Annotated[str, typer.Option(help="breeds: choose as BREEDS' public code does.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the choice; not used with --compat.")] = 0,
    edits: Annotated[Path | None, typer.Option(help="TOML script of edits, applied first.")] = None,
    classes: Annotated[Path | None, typer.Option(help="File with an id per line: the classes to keep.")] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Refuse a hierarchy in which a node has two parents.")] = False,
    plugins: Plugins = None,
    json: Json = False,
) -> None:
    """Show a class hierarchy: its levels and cuts, or superclasses with their source and target subclasses.

    shiftbench hierarchy breeds/

    shiftbench hierarchy breeds/ --task living17 --split rand --compat breeds --json

    shiftbench hierarchy /usr/share/wordnet --level 5 --json

    shiftbench hierarchy /usr/share/wordnet --classes classes.txt --cluster down-up --level 5

    shiftbench hierarchy --task entity13
    """
    from shiftbench.hierarchies.hierarchy import facts

    opened = None if source is None else verbs.hierarchy(source, edits=edits, classes=classes, tree=tree)
    if opened is not None and level is None and not task:
        for value, name in ((split, "--split"), (subclasses, "--subclasses"), (compat, "--compat"), (root, "--root"),
                            (cluster, "--cluster"), (adversariality, "--adversariality")):
            if value or value == 0:
                raise ShiftBenchError(f"{name} needs a level or a task. The most balanced level is "
                                      f"{facts(opened)['proposed_level']}.")
        print_json(facts(opened)) if json else show_hierarchy(opened)
        return
    if opened is None and not task:
        raise typer.BadParameter("Name a hierarchy, or a task with --task.")
    if cluster and task:
        raise ShiftBenchError(f"Task '{task}' has its own superclasses. Leave --cluster or the task out.")
    is_split = bool(split or subclasses or task or adversariality is not None)
    cut = verbs.superclasses(
        opened, level=level, task=task, root=root, subclasses=subclasses, adversariality=adversariality,
        split=split or ("rand" if is_split else "none"), balanced=is_split if balanced is None else balanced,
        compat=compat, seed=seed, **({} if is_split else {"keep_shared": True}),
        **({"cluster": cluster} if cluster else {}))
    print_json(cut.to_json()) if json else _show_superclasses(cut)


def show_hierarchy(hierarchy: "Hierarchy") -> None:
    """Levels, sizes, leaves, nodes with several parents, and the level to cut at."""
    from shiftbench.hierarchies.hierarchy import facts

    summary = facts(hierarchy)
    roots, several = len(summary["roots"]), len(summary["several_parents"])
    shape = f"{several:,} nodes with several parents" if several else "a tree" if roots == 1 else f"{roots} trees"
    say(f"{summary['name']}  {summary['nodes']:,} nodes, {summary['leaves']:,} leaves, {shape}", style="bold")
    if summary["missing"]:
        say(f"{len(summary['missing']):,} classes have no node: {', '.join(summary['missing'][:5])} …"
            if len(summary["missing"]) > 5 else f"no node for: {', '.join(summary['missing'])}")
    if not summary["tree"]:
        nodes = [f"{node} {hierarchy.title(node)}" if hierarchy.title(node) != node else node
                 for node in summary["several_parents"][:5]]
        say(f"several parents: {', '.join(nodes)}"
            f"{' …' if len(summary['several_parents']) > 5 else ''}")
    print_table("", ["level", "nodes", "leaves", "superclasses", "smallest", "median", "largest", "balance"],
                [[f"{value:g}" if key == "median" else value for key, value in level.items()]
                 for level in summary["levels"]])
    if summary["proposed_level"] is not None:
        say("", f"The most balanced superclasses are at level {summary['proposed_level']}: "
            f"--level {summary['proposed_level']}")


def _show_superclasses(cut: "Superclasses") -> None:
    def titles(side: tuple[str, ...]) -> str:
        return ", ".join(cut.title(node) for node in side[:20]) + (" …" if len(side) > 20 else "")

    split = any(cut.target)
    rows = [[node, cut.title(node), titles(source), *([titles(target)] if split else [])]
            for node, source, target in zip(cut.nodes, cut.source, cut.target, strict=True)]
    print_table(f"{len(cut)} superclasses, {len(cut.subclasses):,} subclasses",
                ["id", "superclass", *(["source", "target"] if split else ["subclasses"])], rows)
    for note in cut.notes:
        say(note)


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
    plugins: Plugins = None,
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
    from shiftbench.core.files import parse_changes
    from shiftbench.shifts.recipe import Recipe, several
    from shiftbench.shifts.recipe import build as build_recipe
    from shiftbench.shifts.suites import SUITES

    replaced = parse_changes(changes or [])
    if source:
        if recipe is not None or reference or only or replicates:
            raise ShiftBenchError("--from makes one benchmark of a finding: leave out the recipe, --reference, --only "
                                  "and --replicates.")
        file, mark, number = source.rpartition("#")
        if not mark or not re.fullmatch("[1-9][0-9]{0,8}", number):
            raise ShiftBenchError(f"--from '{source}' names no finding. Write --from audit.json#3.")
        if collection is None:
            raise ShiftBenchError("--from needs the collection that was audited. Name its folder with --collection.")
        _show(verbs.build(file, out, replaced, collection=collection, seed=seed or 0, finding=int(number),
                          label=label), out, json, quiet)
        return
    if recipe is None:
        raise ShiftBenchError("There is nothing to build. Name a recipe, a suite, or a finding with --from.")
    if label:
        raise ShiftBenchError("--label is for --from. In a recipe: --set label=NAME.")
    if reference:
        _check_settings(replaced, {"moved": float, "unseen": bool, "given": str})
        _show(verbs.reference(recipe, reference, out, seed=seed or 0, collection=collection, **replaced), out, json,
              quiet)
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


def _check_settings(changes: dict[str, Any], types: dict[str, type]) -> None:
    """What --set says with --reference."""
    for key, value in changes.items():
        if key not in types:
            raise unknown("setting", key, types, "--reference")
        if not isinstance(value, types[key]):
            raise ShiftBenchError(f"--reference: '{key}' is {value!r}, but it must be of type {types[key].__name__}.")


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
            [folder.name, len(benchmark.rows("train")), len(benchmark.rows("test")),
             float("nan") if benchmark.card["distance"] is None else float(benchmark.card["distance"])]
            for folder, benchmark in benchmarks.items()])


def _show(benchmark: "Benchmark", out: Path, json: bool, quiet: bool) -> None:
    if json:
        print_json(_facts(out, benchmark))
    elif not quiet:
        show_benchmark(benchmark)


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


def _facts(folder: Path, benchmark: "Benchmark") -> dict[str, Any]:
    return {"benchmark": str(folder), "digest": benchmark.digest, "rows": len(benchmark), "card": benchmark.card}


def check(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark, or of a collection.")],
    collection: Origin = None,
    allow: Annotated[list[str] | None, typer.Option(help="A finding to accept, e.g. --allow 'missing class'.")] = None,
    references: Annotated[bool, typer.Option("--references", help="List which in-distribution references can be built "
                                             "from the benchmark, and why the others cannot.")] = False,
    plugins: Plugins = None,
    json: Json = False,
) -> None:
    """Check what a benchmark is fit for: training, selection, scoring. The exit code is 1 if it is unfit.

    It finds leakage, empty cells, small splits and missing classes. If it can open the collection, it also lists
    missing image files and images that have two ids. A benchmark that has only test items is fit for scoring. For a
    collection, it checks only the image files.

    shiftbench check benchmarks/cat-dog --allow "missing class"

    shiftbench check benchmarks/cat-dog --references
    """
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.checks import VERBS, fit, uses
    from shiftbench.data.collection import MARKER as COLLECTION

    if references:
        _references(Benchmark.load(benchmark), json)
        return
    accepted = set(allow or [])
    findings = [finding._replace(unfit=finding.unfit and finding.what not in accepted)
                for finding in verbs.check(benchmark, collection)]
    reasons = {} if (benchmark / COLLECTION).is_file() else uses(Benchmark.load(benchmark), findings)
    if json:
        print_json({"fit": fit(findings), "fit_for": [purpose for purpose, reason in reasons.items() if not reason],
                    "findings": [finding._asdict() for finding in findings]})
    elif findings:
        print_table("", ["", "finding", "where", "detail"],
                    [("unfit" if finding.unfit else "note", *finding[1:4]) for finding in findings])
    if not json:
        say(f"{benchmark}: {'fit' if fit(findings) else 'unfit'}")
        if reasons:
            print_table("", ["for", "", "with"], [
                (purpose, f"no: {reason}" if reason else "yes", ", ".join(VERBS[purpose]))
                for purpose, reason in reasons.items()])
    if not fit(findings):
        raise typer.Exit(1)


def _references(benchmark: "Benchmark", json: bool) -> None:
    from shiftbench.shifts.in_distribution import kind_of, legal

    kind, reasons = kind_of(benchmark), legal(benchmark)
    if json:
        print_json({"benchmark": benchmark.name, "kind": kind, "references": reasons})
    else:
        print_table(f"{benchmark.name}: {kind}", ["reference", "legal", "why not"],
                    [[name, "no" if reason else "yes", reason] for name, reason in reasons.items()])


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
    plugins: Plugins = None,
    json: Json = False,
) -> None:
    """Compute how many items a difference needs, or which difference a benchmark's groups can show.

    It covers two models on the same items (paired) and on different items. It does not cover seeds.

    shiftbench power --difference 2 --accuracy 0.8

    shiftbench power benchmarks/cat-dog --accuracy 0.8 --comparisons 10
    """
    from shiftbench.scoring.differences import Design

    assumed: dict[str, Any] = {"accuracy": accuracy, "correlation": correlation, "disagreement": disagreement,
                               "level": level, "comparisons": comparisons}
    share = None if difference is None else difference / 100
    if benchmark is None:
        if share is None:
            raise ShiftBenchError("Give --difference, in points, or a benchmark: shiftbench power --difference 2")
        needed = {design: Design(paired=design == "paired", **assumed).items_needed(share, power)
                  for design in ("paired", "unpaired")}
        if json:
            print_json({"difference": difference, "power": power, **assumed, "items_per_group": needed})
            return
        say(f"To see {difference:g} points with probability {power:g}, at an accuracy of {accuracy:g}:")
        print_table("", ["models are given", "items per group"],
                    [("the same items", needed["paired"]), ("different items, each", needed["unpaired"])])
        return
    rows = verbs.power(benchmark, share, split=split, power=power, **assumed)
    if json:
        print_json({"benchmark": str(benchmark), "split": split, "difference": difference, "power": power, **assumed,
                    "groups": [{**row, "smallest": 100 * row["smallest"]} for row in rows]})
        return
    columns = ["group", "items", "smallest difference, points"]
    if difference is not None:
        columns += [f"items for {difference:g} points", f"chance to see {difference:g} points"]
    print_table(f"{benchmark}, {split}: seen with probability {power:g} at an accuracy of {accuracy:g}", columns, [
        (row["group"], row["items"], _points(row["smallest"]),
         *(() if share is None else (row["needed"], f"{row['chance']:.2f}"))) for row in rows])


def _points(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}"
