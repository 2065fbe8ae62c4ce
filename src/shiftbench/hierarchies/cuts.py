"""Where to cut a hierarchy: what each level would give as superclasses, and which level is the most balanced."""

from typing import Any, NamedTuple

import numpy as np

from shiftbench.errors import ShiftBenchError
from shiftbench.hierarchies.hierarchy import Hierarchy


class Cut(NamedTuple):
    """One level: its nodes, those that could be superclasses (two leaves or more), and how even they are.

        balance = (share of all leaves that they reach) · H(p) / ln k,   p the shares of the k superclasses

    1 is: every leaf is in one of k equally large superclasses.
    """

    level: int
    nodes: int
    leaves: int  # nodes that are leaves themselves
    superclasses: int
    smallest: int  # leaves of a superclass
    median: float
    largest: int
    balance: float


def cuts(hierarchy: Hierarchy) -> list[Cut]:
    """Every level from the root down."""
    return [_cut(hierarchy, level) for level in range(int(hierarchy.levels.max()) + 1)]


def best_cut(hierarchy: Hierarchy) -> Cut:
    """The most balanced level; the upper one of two alike. Levels with two superclasses count when all have no more."""
    known = cuts(hierarchy)
    for least in (3, 2):
        found = [cut for cut in known if cut.superclasses >= least]
        if found:
            return max(found, key=lambda cut: (round(cut.balance, 9), -cut.level))
    raise ShiftBenchError(f"{hierarchy.name}: no level has two nodes with two classes each; there is nothing to cut. "
                          "A superclass needs a class to train on and another to test on.")


def facts(hierarchy: Hierarchy) -> dict[str, Any]:
    """What `shiftbench show` says of a hierarchy."""
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
