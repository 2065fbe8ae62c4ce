"""Superclasses: the nodes of a level, or clusters of classes, each with its source and target subclasses."""

from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints, child, in_short
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import read_json
from shiftbench.core.registry import find
from shiftbench.hierarchies.hierarchy import Hierarchy
from shiftbench.hierarchies.sides import (
    SEED,
    Sides,
    by_chance,
    by_kinship,
    child_groups,
    published_groups,
    published_sides,
    separation,
)

SPLITS = ("rand", "good", "bad", "none")
COMPAT = ("", "breeds")
CLUSTERS = ("down-up", "up-down")


@dataclass(frozen=True)
class Superclasses:
    """Superclasses, sorted by id, and the ids of their source and target subclasses.

    `titles` maps ids to words, `separation` is the distance of source and target, `notes` tells what was adjusted.
    """

    nodes: tuple[str, ...]
    source: tuple[tuple[str, ...], ...]
    target: tuple[tuple[str, ...], ...]
    titles: dict[str, str] = field(default_factory=dict)
    separation: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def subclasses(self) -> tuple[str, ...]:
        """All subclasses: those of each source, then those of each target."""
        return tuple(dict.fromkeys(leaf for side in (*self.source, *self.target) for leaf in side))

    def title(self, node: str) -> str:
        return self.titles.get(node, node)

    def to_json(self) -> dict[str, Any]:
        """The superclasses as JSON. Without a split the target is an empty list, as in BREEDS' public code."""
        return {
            "superclasses": list(self.nodes), "source": [list(side) for side in self.source],
            "target": [list(side) for side in self.target] if any(self.target) else [],
            "names": {node: self.title(node) for node in (*self.nodes, *self.subclasses)},
            "separation": list(self.separation), "notes": list(self.notes),
        }


def superclasses(
    hierarchy: Hierarchy, level: int, root: str = "", subclasses: int | None = None, split: str = "rand", *,
    adversariality: float | None = None, balanced: bool = True, seed: int = 0, compat: str = "",
    keep_shared: bool = False, cluster: str = "",
) -> Superclasses:
    """Divide the leaves of a level's nodes (under `root`) between source and target; nodes with too few are left out.

    If balanced, each superclass gets `subclasses` leaves, half on each side (default: as many as the level's smallest
    node allows). If not, each keeps all its leaves, and `subclasses` is the minimum. `split` is rand, good (source and
    target are relatives), bad (they are not) or none (all are source); an `adversariality` from 0 to 1 lies between
    good and bad. With compat="breeds" the choice is that of BREEDS' public code, and `seed` is not used.

    A subclass below two superclasses has an ambiguous label. It belongs to neither (our reading of the paper); with
    `keep_shared` it stays in both, to inspect a level.

    With `cluster` the superclasses are those of Huh et al. (`clusters`) in place of a level's nodes; no two of them
    share a subclass.
    """
    _check(split, adversariality, compat, cluster)
    notes: list[str] = []
    leaves_of = clusters(hierarchy, cluster, level, root) if cluster else {
        int(node): hierarchy.nodes[hierarchy.leaves_below(int(node))].tolist() for node in hierarchy.at(level, root)}
    if not compat and not keep_shared:
        leaves_of, notes = _apart(leaves_of)
    least = _least(leaves_of, subclasses, split, balanced, notes)
    kept = np.asarray([node for node in leaves_of if len(leaves_of[node]) >= least], np.int64)
    if not kept.size:
        raise _too_few(hierarchy, leaves_of, least, level, root)
    if len(kept) < len(leaves_of):
        nodes_or_clusters = "clusters" if cluster else "nodes"
        notes.append(f"{len(leaves_of) - len(kept)} of the {len(leaves_of)} {nodes_or_clusters} of level {level} have "
                     f"fewer than {least} subclasses and are left out.")
    sides: list[Sides] = []
    separations: list[float] = []
    stream = np.random.RandomState(SEED)
    for node in kept.tolist():
        identifier, leaves = str(hierarchy.nodes[node]), leaves_of[node]
        rng = child(seed, "breeds", identifier)
        n = least if balanced else len(leaves)
        groups = published_groups(hierarchy, node) if compat else child_groups(hierarchy, node, leaves)
        if split != "none" and n % 2:
            notes.append(f"'{hierarchy.title(identifier)}' has {n} subclasses; one is left out so that both sides have "
                         f"{n // 2}.")
        if split == "none":
            pair: Sides = (stream.choice(leaves, n, replace=False).tolist() if compat else
                           sorted(rng.permutation(leaves)[:n].tolist()), [])
        elif compat:
            pair, repaired = published_sides(groups, n // 2, split, stream)
            if repaired:
                notes.append(f"'{hierarchy.title(identifier)}': the public code's halves are unequal or share a "
                             f"subclass; repaired to {len(pair[0])} on each side.")
        elif split == "rand" and adversariality is None:
            pair = by_chance(groups, n // 2, rng)
        else:
            pair = by_kinship(groups, n // 2, {"good": 0.0, "bad": 1.0}.get(split, adversariality or 0.0), rng)
        sides.append(pair)
        separations.append(separation(groups, pair))
    nodes = tuple(str(hierarchy.nodes[node]) for node in kept)
    cut = Superclasses(nodes, tuple(tuple(source) for source, _ in sides), tuple(tuple(target) for _, target in sides),
                       separation=tuple(separations), notes=tuple(notes))
    return replace(cut, titles={node: hierarchy.title(node) for node in (*nodes, *cut.subclasses)})


def _check(split: str, adversariality: float | None, compat: str, cluster: str) -> None:
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    if compat not in COMPAT:
        raise unknown("compat", compat, ("breeds",))
    if cluster and compat:
        raise ShiftBenchError(f"cluster = '{cluster}' does not go with compat = '{compat}': the public code of BREEDS "
                              "cuts only at levels. Leave one of the two out.")
    if adversariality is None:
        return
    if not 0 <= adversariality <= 1:
        raise ShiftBenchError(f"adversariality is {adversariality}, but it must lie between 0 (good) and 1 (bad).")
    if split != "rand" or compat:
        setting = f"split = '{split}'" if split != "rand" else f"compat = '{compat}'"
        raise ShiftBenchError(f"adversariality = {adversariality} goes with neither a named split nor compat, but "
                              f"{setting} is given. Leave one of the two out.")


def clusters(hierarchy: Hierarchy, cluster: str, level: int, root: str = "") -> dict[int, list[str]]:
    """Cluster the leaves of a hierarchy by node, as Huh, Agrawal and Efros (2016) do, with whose clusters BREEDS
    compares its superclasses; every leaf is in exactly one.

        down-up   the ancestor that is `level` steps below the root; a leaf that is nearer to the root stays alone
        up-down   the ancestor `level` steps above the leaf; then clusters within other clusters join them, each time

    Of a node's parents only the first counts, in the alphabetical order of their names, as in the authors' code. The
    words are theirs: down-up moves a cut from the deepest leaves up to the root, and up-down fixes a height. With
    `root`, only the clusters whose nodes are under it.
    """
    if cluster not in CLUSTERS:
        raise unknown("cluster", cluster, CLUSTERS)
    if level < 0:
        raise ShiftBenchError(f"{hierarchy.name}: level = {level}, but clusters are 0 or more steps away.")
    above = _first_parents(hierarchy)
    leaves = np.flatnonzero(hierarchy.is_leaf)
    node_of = leaves
    if cluster == "down-up":
        depth = _depth(above)
        while (depth[node_of] > level).any():
            node_of = np.where(depth[node_of] > level, above[node_of], node_of)
    else:
        for _ in range(level):
            node_of = _outermost(above, above[node_of])
    names = hierarchy.nodes[leaves]
    under = hierarchy.below(hierarchy.code(root)) if root else np.arange(len(hierarchy))
    kept = np.intersect1d(node_of, under)
    if not len(kept):
        raise ShiftBenchError(f"{hierarchy.name}: no cluster of {cluster}, level {level}, is under '{root}'. Choose "
                              "another level.")
    return {int(node): names[node_of == node].tolist() for node in kept}


def _first_parents(hierarchy: Hierarchy) -> Ints:
    """The first parent of every node by name, then by id; a root is its own."""
    order = sorted(range(len(hierarchy)), key=lambda node: (hierarchy.title(str(hierarchy.nodes[node])).lower(), node))
    rank = np.argsort(order)
    first = np.full(len(hierarchy), len(hierarchy))
    np.minimum.at(first, hierarchy.child, rank[hierarchy.parent])
    return np.where(first < len(hierarchy), np.append(order, 0)[first], np.arange(len(hierarchy)))


def _depth(above: Ints) -> Ints:
    """The steps from every node to its root along first parents."""
    depth, parent = np.zeros_like(above), above
    node = np.arange(len(above))
    while (parent != node).any():
        depth += parent != node
        node, parent = parent, above[parent]
    return depth


def _outermost(above: Ints, at: Ints) -> Ints:
    """For every node of `at`, the one nearest to the root that is on its way there and in `at` as well."""
    is_cluster = np.zeros(len(above), np.bool_)
    is_cluster[at] = True
    outer, node = at, at
    while (above[node] != node).any():
        node = above[node]
        outer = np.where(is_cluster[node], node, outer)
    return outer


def _apart(leaves_of: dict[int, list[str]]) -> tuple[dict[int, list[str]], list[str]]:
    """Remove subclasses that are below two superclasses from both."""
    every = np.asarray([leaf for leaves in leaves_of.values() for leaf in leaves], np.str_)
    names, times = np.unique(every, return_counts=True)
    shared = set(names[times > 1].tolist())
    if not shared:
        return leaves_of, []
    count = "1 subclass is" if len(shared) == 1 else f"{len(shared)} subclasses are"
    note = f"{count} below two superclasses and left out: {in_short(sorted(shared), 5)}."
    return {node: [leaf for leaf in leaves if leaf not in shared] for node, leaves in leaves_of.items()}, [note]


def _least(
    leaves_of: dict[int, list[str]], asked: int | None, split: str, balanced: bool, notes: list[str]
) -> int:
    """The number of subclasses that a superclass needs; an even number if they are halved."""
    sides = 1 if split == "none" else 2
    if asked is None:
        smallest = min((len(leaves) for leaves in leaves_of.values() if leaves), default=0)
        return max(2, smallest - smallest % 2) if balanced else sides
    if asked < sides:
        raise ShiftBenchError(f"subclasses = {asked}, but a superclass needs at least {sides}"
                              f"{', one on each side' if sides == 2 else ''}.")
    if asked % sides and balanced:
        notes.append(f"{asked} subclasses cannot be halved; {asked - 1} are used.")
        return asked - 1
    return asked


def _too_few(
    hierarchy: Hierarchy, leaves_of: dict[int, list[str]], least: int, level: int, root: str
) -> ShiftBenchError:
    sizes = sorted((len(leaves) for leaves in leaves_of.values()), reverse=True)
    under = f" under '{root}'" if root else ""
    near = sizes[1] if len(sizes) > 1 else sizes[0]
    remedy = (f"With subclasses = {near - near % 2} there are {sum(size >= near for size in sizes)} superclasses."
            if near >= 2 else "Choose a level nearer to the root.")
    return ShiftBenchError(f"{hierarchy.name}: no node of level {level}{under} has {least} subclasses; the largest has "
                           f"{sizes[0]}. {remedy}")


# BREEDS' four named tasks: cuts (Table 2) and the subclasses of the random split (Tables 8 to 11).

class Task(NamedTuple):
    """Where a task cuts the authors' hierarchy, and how many subclasses a superclass has."""

    root: str
    level: int
    subclasses: int


TASKS = {
    "entity13": Task("n00001740", 3, 20),
    "entity30": Task("n00001740", 4, 8),
    "living17": Task("n00004258", 5, 4),
    "nonliving26": Task("n00021939", 5, 4),
}


def named_task(
    name: str, hierarchy: Hierarchy | None = None, split: str = "rand", *, adversariality: float | None = None,
    seed: int = 0, compat: str = "", level: int | None = None, root: str = "", subclasses: int | None = None,
    balanced: bool = True,
) -> Superclasses:
    """A task by name: the task's cut of a hierarchy or, without one, the random split in the paper's tables.

    A task has its own `level`, `root` and `subclasses`, and is balanced: others are refused.
    """
    fixed = {"level": level, "root": root, "subclasses": subclasses}
    conflicts = [key for key, value in fixed.items() if value not in (None, "")]
    if conflicts:
        raise ShiftBenchError(f"Task '{name}' has its own {' and '.join(conflicts)}. Leave them or the task out.")
    task = find(TASKS, "task", name.lower().replace("-", "").replace("_", ""))
    if hierarchy is not None:
        return superclasses(hierarchy, task.level, task.root, task.subclasses, split, adversariality=adversariality,
                            seed=seed, compat=compat)
    if split != "rand" or adversariality is not None:
        asked = f"split '{split}'" if split != "rand" else f"adversariality {adversariality}"
        raise ShiftBenchError(f"Task '{name}': {asked} needs the hierarchy. Give the folder of BREEDS' files; only "
                              "the random split is built in.")
    return _tables()[next(key for key in TASKS if TASKS[key] is task)]


@cache
def _tables() -> dict[str, Superclasses]:
    """The wnids of Tables 8 to 11, in the order of the tables."""
    raw = read_json(str(files(__package__) / "tasks.json"))
    names = raw["names"]
    return {
        task: Superclasses(
            tuple(row["superclass"] for row in rows), tuple(tuple(row["source"]) for row in rows),
            tuple(tuple(row["target"]) for row in rows),
            titles={node: names[node] for row in rows for node in (row["superclass"], *row["source"], *row["target"])})
        for task, rows in raw["tasks"].items()
    }
