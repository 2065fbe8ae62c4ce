"""shiftbench hierarchy FILES|COLLECTION [--level L | --task living17]"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, print_json, print_table, say
from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.superclasses import Superclasses


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
    json: Json = False,
) -> None:
    """Show a class hierarchy: its levels and cuts, or superclasses with their source and target subclasses.

    shiftbench hierarchy breeds/

    shiftbench hierarchy breeds/ --task living17 --split rand --compat breeds --json

    shiftbench hierarchy /usr/share/wordnet --level 5 --json

    shiftbench hierarchy /usr/share/wordnet --classes classes.txt --cluster down-up --level 5

    shiftbench hierarchy --task entity13
    """
    from shiftbench.hierarchies.cuts import facts

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
    asked = bool(split or subclasses or task or adversariality is not None)
    cut = verbs.superclasses(
        opened, level=level, task=task, root=root, subclasses=subclasses, split=split or ("rand" if asked else "none"),
        adversariality=adversariality, balanced=asked if balanced is None else balanced, compat=compat, seed=seed,
        **({} if asked else {"keep_shared": True}), **({"cluster": cluster} if cluster else {}))
    print_json(cut.to_json()) if json else _show_superclasses(cut)


def show_hierarchy(hierarchy: "Hierarchy") -> None:
    """Levels, sizes, leaves, nodes with several parents, and the level to cut at."""
    from shiftbench.hierarchies.cuts import facts

    known = facts(hierarchy)
    roots, several = len(known["roots"]), len(known["several_parents"])
    shape = f"{several:,} nodes with several parents" if several else "a tree" if roots == 1 else f"{roots} trees"
    say(f"{known['name']}  {known['nodes']:,} nodes, {known['leaves']:,} leaves, {shape}", style="bold")
    if known["missing"]:
        say(f"{len(known['missing']):,} classes have no node: {', '.join(known['missing'][:5])} …"
            if len(known["missing"]) > 5 else f"no node for: {', '.join(known['missing'])}")
    if not known["tree"]:
        listed = [f"{node} {hierarchy.title(node)}" if hierarchy.title(node) != node else node
                  for node in known["several_parents"][:5]]
        say(f"several parents: {', '.join(listed)}"
            f"{' …' if len(known['several_parents']) > 5 else ''}")
    print_table("", ["level", "nodes", "leaves", "superclasses", "smallest", "median", "largest", "balance"],
                [[f"{value:g}" if key == "median" else value for key, value in row.items()] for row in known["levels"]])
    if known["proposed_level"] is not None:
        say("", f"The most balanced superclasses are at level {known['proposed_level']}: "
            f"--level {known['proposed_level']}")


def _show_superclasses(cut: "Superclasses") -> None:
    def words(side: tuple[str, ...]) -> str:
        return ", ".join(cut.title(node) for node in side[:20]) + (" …" if len(side) > 20 else "")

    split = any(cut.target)
    rows = [[node, cut.title(node), words(source), *([words(target)] if split else [])]
            for node, source, target in zip(cut.nodes, cut.source, cut.target, strict=True)]
    print_table(f"{len(cut)} superclasses, {len(cut.subclasses):,} subclasses",
                ["id", "superclass", *(["source", "target"] if split else ["subclasses"])], rows)
    for note in cut.notes:
        say(note)
