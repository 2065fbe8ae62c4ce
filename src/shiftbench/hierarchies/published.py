"""The choice of subclasses that BREEDS' public code makes, number for number: `compat="breeds"`.

One legacy stream, RandomState(2), is used up across the superclasses in the order of their ids, so that leaving one out
changes those after it. Ours (`splits.py`) has a stream for each and halves groups without serving the source first.
"""

import numpy as np

from shiftbench.hierarchies.hierarchy import Hierarchy
from shiftbench.hierarchies.splits import Groups, Sides

SEED = 2


def published_groups(hierarchy: Hierarchy, node: int) -> Groups:
    """Child groups by id, then the largest first; where a subclass is below two children it is in both."""
    children = hierarchy.children(node)
    while len(children) == 1:
        children = hierarchy.children(int(children[0]))
    groups = [hierarchy.nodes[hierarchy.leaves_below(child)].tolist() for child in children.tolist()]
    return sorted(groups, key=len, reverse=True)


def published_choice(leaves: list[str], n: int, stream: np.random.RandomState) -> list[str]:
    """Without a split: n subclasses of a superclass."""
    return [str(leaf) for leaf in stream.choice(np.asarray(leaves), n, replace=False)]


def published_sides(groups: Groups, half: int, split: str, stream: np.random.RandomState) -> tuple[Sides, bool]:
    """Source and target of one superclass, and whether they had to be repaired.

    The public code stops where its halves are unequal or share a subclass; here the shorter side is filled from what is
    left over, or the longer one is cut.
    """
    if split == "rand":
        pool = sorted(leaf for group in groups for leaf in group)
        chosen = published_choice(pool, 2 * half, stream)
        sides = (chosen[:half], chosen[half:])
    else:
        sides = _bad(groups, half) if split == "bad" else _good(groups, half)
    return _repaired(sides, groups, half)


def _bad(groups: Groups, half: int) -> Sides:
    """Whole groups to the side that has fewer, ties to the source."""
    sides: Sides = ([], [])
    spare: list[str] = []
    for group in groups:
        to = 0 if len(sides[0]) <= len(sides[1]) else 1
        room = half - len(sides[to])
        if room > 0:
            sides[to].extend(group[:room])
            spare.extend(group[room:])
    for side in sides:  # both from the front of what was spared: at most one of them lacks any
        side.extend(spare[: half - len(side)])
    return sides


def _good(groups: Groups, half: int) -> Sides:
    """Each group in two, the first part to the source; a group of one goes to the source while there is room."""
    sides: Sides = ([], [])
    for group in groups:
        room = [half - len(side) for side in sides]
        cut = min(1, room[0]) if len(group) == 1 else min(len(group) // 2, room[0])
        sides[0].extend(group[:cut])
        sides[1].extend(group[cut: cut + room[1]])
    return sides


def _repaired(sides: Sides, groups: Groups, half: int) -> tuple[Sides, bool]:
    source, target = sides
    if len(source) == len(target) == len({*source, *target}) / 2:
        return sides, False
    source = list(dict.fromkeys(source))
    target = [leaf for leaf in dict.fromkeys(target) if leaf not in source]
    left = [leaf for leaf in sorted({leaf for group in groups for leaf in group}) if leaf not in {*source, *target}]
    for side in (source, target):
        while len(side) < half and left:
            side.append(left.pop(0))
    while len(source) > len(target) + 1:
        target.append(source.pop())
    most = min(len(source), len(target))
    return (source[:most], target[:most]), True
