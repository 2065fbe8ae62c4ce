"""How the subclasses of one superclass go to source and target: by chance, or by how related the two sides are to be.

The relatives are the child groups: the subclasses below each child of the first node under the superclass (itself
included) that has more than one child. How far apart the sides are is the total variation distance of their groups:

    separation = ½ Σ_g |share of g in source − share of g in target|          0: every group is halved, 1: none is
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.hierarchies.hierarchy import Hierarchy

Sides = tuple[list[str], list[str]]
Groups = list[list[str]]


def child_groups(hierarchy: Hierarchy, node: int, allowed: Sequence[str] | None = None) -> Groups:
    """The child groups of a superclass, the largest first, ties by the id of the child; each subclass is in one."""
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
    """`half` subclasses on each side, all choices alike."""
    chosen = rng.permutation(sorted(leaf for group in groups for leaf in group))[: 2 * half].tolist()
    return chosen[:half], chosen[half:]


def by_kinship(groups: Groups, half: int, adversariality: float, rng: np.random.Generator) -> Sides:
    """`half` subclasses on each side, from as many relatives on both (0, "good") to as few as there can be (1, "bad").

    The same subclasses take part whatever the adversariality. At 1 whole groups, the largest first, fill the side that
    has fewer; what no longer fits waits, and fills what is missing in the end. Going down to 0, subclasses trade places
    one pair at a time until every group is halved, so that the separation never rises on the way.
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
    """How far apart source and target are, from 0 to 1; 0 where a side is empty."""
    if not all(sides):
        return 0.0
    source, target = (np.asarray([len(set(group) & set(side)) for group in groups]) for side in sides)
    n, m = map(len, sides)
    return float(abs(source * m - target * n).sum() / (2 * n * m))  # whole numbers until here: 1 is 1


def _trade(sides: tuple[Groups, Groups], share: float) -> None:
    """Swap pairs between the sides, `share` of those after which no further swap halves a group better.

    A swap takes from each side a subclass of the group that has most more there than on the other, until no group
    differs by more than one; each swap lowers the separation.
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


# Where to cut a hierarchy: what each level would give as superclasses, and which level is the most balanced.

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
        enough = [cut for cut in known if cut.superclasses >= least]
        if enough:
            return max(enough, key=lambda cut: (round(cut.balance, 9), -cut.level))
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
