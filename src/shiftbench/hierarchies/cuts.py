"""Divide the subclasses of a superclass between source and target: at random, or by how related the sides shall be.

Relatives are the members of a child group: the subclasses below one child of the first node under the superclass
(itself included) that has more than one child. The separation of the sides is the total variation distance of groups:

    separation = ½ Σ_g |share of g in source − share of g in target|     0: groups are halved, 1: none is on both sides
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.hierarchies.hierarchy import Hierarchy

Sides = tuple[list[str], list[str]]
Groups = list[list[str]]


def child_groups(hierarchy: Hierarchy, node: int, allowed: Sequence[str] | None = None) -> Groups:
    """The child groups of a superclass, largest first, ties by the child's id; each subclass is in exactly one."""
    while len(hierarchy.children(node)) == 1 and not hierarchy.is_leaf[node]:
        node = int(hierarchy.children(node)[0])
    below = [hierarchy.nodes[hierarchy.leaves_below(child)].tolist() for child in hierarchy.children(node).tolist()]
    if hierarchy.is_leaf[node]:
        below.insert(0, [str(hierarchy.nodes[node])])
    left = {leaf for group in below for leaf in group}
    left = left if allowed is None else left & set(allowed)
    groups: Groups = []
    for group in sorted(below, key=len, reverse=True):  # in a DAG a subclass may be below two children
        groups.append([leaf for leaf in group if leaf in left])
        left.difference_update(group)
    return sorted((group for group in groups if group), key=len, reverse=True)


def by_chance(groups: Groups, half: int, rng: np.random.Generator) -> Sides:
    """Draw `half` subclasses for each side; all choices are equally likely."""
    chosen = rng.permutation(sorted(leaf for group in groups for leaf in group))[: 2 * half].tolist()
    return chosen[:half], chosen[half:]


def by_kinship(groups: Groups, half: int, adversariality: float, rng: np.random.Generator) -> Sides:
    """Put `half` subclasses on each side, from closest relatives across sides (0, "good") to most distant (1, "bad").

    The adversariality does not change which subclasses are used. At 1, whole groups, largest first, fill the side that
    has fewer subclasses; the members that do not fit fill the gaps at the end. Towards 0, pairs of subclasses swap
    sides one by one until every group is halved, so that the separation never rises.
    """
    drawn = [(-len(group), float(rng.random()), rng.permutation(sorted(group)).tolist()) for group in groups]
    shuffled: Groups = [group for _, _, group in sorted(drawn)]
    sides: tuple[Groups, Groups] = ([[] for _ in groups], [[] for _ in groups])  # a side holds a part of each group
    spare: list[tuple[int, str]] = []
    for number, group in enumerate(shuffled):
        filled = [sum(map(len, side)) for side in sides]
        to = 0 if filled[0] <= filled[1] else 1
        room = half - filled[to]
        sides[to][number].extend(group[:room])
        spare += [(number, leaf) for leaf in group[room:]]
    for side in sides:
        while sum(map(len, side)) < half and spare:
            number, leaf = spare.pop(0)
            side[number].append(leaf)
    _trade(sides, 1 - adversariality)
    return [leaf for group in sides[0] for leaf in group], [leaf for group in sides[1] for leaf in group]


def separation(groups: Groups, sides: Sides) -> float:
    """The distance between source and target, from 0 to 1; 0 if a side is empty."""
    if not all(sides):
        return 0.0
    source, target = (np.asarray([len(set(group) & set(side)) for group in groups]) for side in sides)
    n, m = map(len, sides)
    return float(abs(source * m - target * n).sum() / (2 * n * m))  # the sums are whole numbers, so that 1 is exact


def _trade(sides: tuple[Groups, Groups], share: float) -> None:
    """Swap pairs between the sides: the first `share` of the swaps that lead to the most evenly halved groups.

    Each swap takes, from each side, a subclass of the group with the largest surplus on that side, and lowers the
    separation. Swaps end when none makes the groups more even.
    """
    swaps: list[tuple[int, int]] = []
    excess = np.asarray([len(one) - len(other) for one, other in zip(*sides, strict=True)])
    while excess.size and excess.max() >= 1 and excess.min() <= -1 and np.ptp(excess) >= 3:
        here, there = int(excess.argmax()), int(excess.argmin())
        swaps.append((here, there))
        excess[here] -= 2
        excess[there] += 2
    for here, there in swaps[: round(share * len(swaps))]:
        sides[1][here].append(sides[0][here].pop())
        sides[0][there].append(sides[1][there].pop())


# Where to cut a hierarchy: the superclasses that each level would give, and the most balanced level.

class Cut(NamedTuple):
    """One level: its nodes, those that can be superclasses (two leaves or more), and how even their sizes are.

        balance = (share of all leaves that superclasses reach) · H(p) / ln k,   p the shares of the k superclasses

    A balance of 1 means that every leaf is in one of k equally large superclasses.
    """

    level: int
    nodes: int
    leaves: int  # the number of nodes that are leaves
    superclasses: int
    smallest: int  # leaves of the smallest superclass
    median: float
    largest: int
    balance: float


def cuts(hierarchy: Hierarchy) -> list[Cut]:
    """Every level from the root down."""
    return [_cut(hierarchy, level) for level in range(int(hierarchy.levels.max()) + 1)]


def best_cut(hierarchy: Hierarchy) -> Cut:
    """The most balanced level, the upper one of equals. It has three superclasses or more if any level does."""
    known = cuts(hierarchy)
    for least in (3, 2):
        enough = [cut for cut in known if cut.superclasses >= least]
        if enough:
            return max(enough, key=lambda cut: (round(cut.balance, 9), -cut.level))
    raise ShiftBenchError(f"{hierarchy.name}: no level has two nodes with two classes each; there is nothing to cut. "
                          "A superclass needs a class to train on and another to test on.")


def facts(hierarchy: Hierarchy) -> dict[str, Any]:
    """The facts about a hierarchy that `shiftbench show` prints."""
    several = hierarchy.nodes[hierarchy.several_parents].tolist()
    try:
        proposed: int | None = best_cut(hierarchy).level
    except ShiftBenchError:
        proposed = None
    return {
        "name": hierarchy.name, "nodes": len(hierarchy), "edges": len(hierarchy.parent),
        "leaves": int(hierarchy.is_leaf.sum()), "missing": list(hierarchy.missing), "digest": hierarchy.digest,
        "roots": hierarchy.nodes[hierarchy.roots].tolist(), "tree": not several, "several_parents": several,
        "levels": [cut._asdict() for cut in cuts(hierarchy)], "proposed_level": proposed,
    }


def _cut(hierarchy: Hierarchy, level: int) -> Cut:
    nodes = np.flatnonzero(hierarchy.levels == level)
    sizes = hierarchy.sizes[nodes]
    able = nodes[sizes >= 2]
    own = hierarchy.sizes[able]
    if not len(able):
        return Cut(level, len(nodes), int(hierarchy.is_leaf[nodes].sum()), 0, 0, 0.0, 0, 0.0)
    share = own / own.sum()
    even = float(-(share * np.log(share)).sum() / np.log(len(able))) if len(able) > 1 else 0.0
    covered = len(np.unique(np.concatenate([hierarchy.leaves_below(node) for node in able.tolist()])))
    return Cut(level, len(nodes), int(hierarchy.is_leaf[nodes].sum()), len(able), int(own.min()), float(np.median(own)),
               int(own.max()), even * covered / int(hierarchy.is_leaf.sum()))


# Clusters of leaves: the superclasses of Huh, Agrawal and Efros (2016), with which BREEDS compares its own.

CLUSTERS = ("down-up", "up-down")


def clusters(hierarchy: Hierarchy, cluster: str, level: int) -> dict[int, list[str]]:
    """Cluster the leaves of a hierarchy as Huh et al. do, by node; every leaf is in exactly one cluster.

        down-up   the ancestor that is `level` steps below the root; a leaf that is nearer to the root stays alone
        up-down   the ancestor `level` steps above the leaf; then clusters within other clusters join them, each time

    Of a node's parents only the first counts, in the alphabetical order of their names, as in the authors' code. The
    words are theirs: down-up moves a cut from the deepest leaves up to the root, and up-down fixes a height.
    """
    if cluster not in CLUSTERS:
        raise unknown("cluster", cluster, CLUSTERS)
    if level < 0:
        raise ShiftBenchError(f"{hierarchy.name}: level = {level}, but clusters are 0 or more steps away.")
    above = _first_parents(hierarchy)
    leaves = np.flatnonzero(hierarchy.is_leaf)
    at = leaves
    if cluster == "down-up":
        depth = _depth(above)
        while (depth[at] > level).any():
            at = np.where(depth[at] > level, above[at], at)
    else:
        for _ in range(level):
            at = _outermost(above, above[at])
    names = hierarchy.nodes[leaves]
    return {int(node): names[at == node].tolist() for node in np.unique(at)}


def _first_parents(hierarchy: Hierarchy) -> Ints:
    """The first parent of every node by name, then by id; a root is its own."""
    order = sorted(range(len(hierarchy)), key=lambda node: (hierarchy.title(str(hierarchy.nodes[node])).lower(), node))
    rank = np.argsort(order)
    first = np.full(len(hierarchy), len(hierarchy))
    np.minimum.at(first, hierarchy.child, rank[hierarchy.parent])
    return np.where(first < len(hierarchy), np.append(order, 0)[first], np.arange(len(hierarchy)))


def _depth(above: Ints) -> Ints:
    """The steps from every node to its root along first parents."""
    depth, at = np.zeros_like(above), above
    node = np.arange(len(above))
    while (at != node).any():
        depth += at != node
        node, at = at, above[at]
    return depth


def _outermost(above: Ints, at: Ints) -> Ints:
    """For every node of `at`, the one nearest to the root that is on its way there and in `at` as well."""
    there = np.zeros(len(above), np.bool_)
    there[at] = True
    outer, here = at, at
    while (above[here] != here).any():
        here = above[here]
        outer = np.where(there[here], here, outer)
    return outer
