"""Where to cut a hierarchy into superclasses: at a level, of which the most balanced is proposed, or into clusters.

The clusters of leaves are those of Huh, Agrawal and Efros (2016), with which BREEDS compares its superclasses.
"""

from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.hierarchies.hierarchy import Hierarchy

CLUSTERS = ("down-up", "up-down")


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
    for least in (3, 2):
        enough = [cut for cut in cuts(hierarchy) if cut.superclasses >= least]
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
    eligible = nodes[hierarchy.sizes[nodes] >= 2]
    sizes = hierarchy.sizes[eligible]
    if not len(eligible):
        return Cut(level, len(nodes), int(hierarchy.is_leaf[nodes].sum()), 0, 0, 0.0, 0, 0.0)
    share = sizes / sizes.sum()
    evenness = float(-(share * np.log(share)).sum() / np.log(len(eligible))) if len(eligible) > 1 else 0.0
    covered = len(np.unique(np.concatenate([hierarchy.leaves_below(node) for node in eligible.tolist()])))
    return Cut(level, len(nodes), int(hierarchy.is_leaf[nodes].sum()), len(eligible), int(sizes.min()),
               float(np.median(sizes)), int(sizes.max()), evenness * covered / int(hierarchy.is_leaf.sum()))


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
    node_of = leaves
    if cluster == "down-up":
        depth = _depth(above)
        while (depth[node_of] > level).any():
            node_of = np.where(depth[node_of] > level, above[node_of], node_of)
    else:
        for _ in range(level):
            node_of = _outermost(above, above[node_of])
    names = hierarchy.nodes[leaves]
    return {int(node): names[node_of == node].tolist() for node in np.unique(node_of)}


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
