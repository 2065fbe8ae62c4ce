"""What a collection, a benchmark, a class hierarchy, runs and a run hold: tables on a terminal."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftbench.cli.output import print_table, say, say_titled

if TYPE_CHECKING:
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.collection import Collection
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.superclasses import Superclasses


def show_collection(collection: "Collection") -> None:
    from shiftbench.reporting.terminal import COLUMNS, collection_facts, contents_rows, contents_title

    facts = collection_facts(collection)
    say_titled(facts["name"], contents_title(facts))
    print_table("", COLUMNS, contents_rows(collection, facts))


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


def show_superclasses(cut: "Superclasses") -> None:
    def titles(side: tuple[str, ...]) -> str:
        return ", ".join(cut.title(node) for node in side[:20]) + (" …" if len(side) > 20 else "")

    split = any(cut.target)
    rows = [[node, cut.title(node), titles(source), *([titles(target)] if split else [])]
            for node, source, target in zip(cut.nodes, cut.source, cut.target, strict=True)]
    print_table(f"{len(cut)} superclasses, {len(cut.subclasses):,} subclasses",
                ["id", "superclass", *(["source", "target"] if split else ["subclasses"])], rows)
    for note in cut.notes:
        say(note)


def show_runs(folder: Path, runs: Mapping[str, str]) -> None:
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


def show_run(facts: Mapping[str, Any]) -> None:
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
