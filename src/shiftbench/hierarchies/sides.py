"""Divide the subclasses of a superclass between source and target: at random, or by how related the sides should be.

Relatives are the members of a child group: the subclasses below one child of the first node under the superclass
(itself included) that has more than one child. The separation of the sides is the total variation distance of groups:

    separation = ½ Σ_g |share of g in source − share of g in target|     0: groups are halved, 1: none is on both sides
"""

from collections.abc import Sequence

import numpy as np

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
        emptier = 0 if filled[0] <= filled[1] else 1
        room = half - filled[emptier]
        sides[emptier][number].extend(group[:room])
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
    excess = np.asarray([len(source) - len(target) for source, target in zip(*sides, strict=True)])
    while excess.size and excess.max() >= 1 and excess.min() <= -1 and np.ptp(excess) >= 3:
        surplus, deficit = int(excess.argmax()), int(excess.argmin())
        swaps.append((surplus, deficit))
        excess[surplus] -= 2
        excess[deficit] += 2
    for surplus, deficit in swaps[: round(share * len(swaps))]:
        sides[1][surplus].append(sides[0][surplus].pop())
        sides[0][deficit].append(sides[1][deficit].pop())


# `compat="breeds"` chooses exactly the subclasses that BREEDS' public code chooses.
#
# That code draws from one legacy stream, RandomState(2), for all superclasses in the order of their ids, so that
# leaving one out changes those after it. Our own choice, above, has a stream for each superclass and halves groups
# without favouring the source.

SEED = 2


def published_groups(hierarchy: Hierarchy, node: int) -> Groups:
    """Child groups, largest first, ties by id; a subclass below two children is in both groups."""
    children = hierarchy.children(node)
    while len(children) == 1:
        children = hierarchy.children(int(children[0]))
    groups = [hierarchy.nodes[hierarchy.leaves_below(child)].tolist() for child in children.tolist()]
    return sorted(groups, key=len, reverse=True)


def published_sides(groups: Groups, half: int, split: str, stream: np.random.RandomState) -> tuple[Sides, bool]:
    """Source and target of one superclass, and whether they had to be repaired.

    The public code stops if its halves are unequal or share a subclass; here the shorter side is filled with unused
    subclasses, or the longer one is cut.
    """
    if split == "rand":
        pool = sorted(leaf for group in groups for leaf in group)
        chosen = stream.choice(pool, 2 * half, replace=False).tolist()
        sides = (chosen[:half], chosen[half:])
    else:
        sides = _bad(groups, half) if split == "bad" else _good(groups, half)
    return _repaired(sides, groups, half)


def _bad(groups: Groups, half: int) -> Sides:
    """Put whole groups on the side that has fewer subclasses; ties go to the source."""
    sides: Sides = ([], [])
    spare: list[str] = []
    for group in groups:
        emptier = 0 if len(sides[0]) <= len(sides[1]) else 1
        room = half - len(sides[emptier])
        if room > 0:
            sides[emptier].extend(group[:room])
            spare.extend(group[room:])
    for side in sides:  # both sides take from the front of `spare`: at most one side is short
        side.extend(spare[: half - len(side)])
    return sides


def _good(groups: Groups, half: int) -> Sides:
    """Halve each group, the first half for the source; a group of one goes to the source while there is room."""
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
