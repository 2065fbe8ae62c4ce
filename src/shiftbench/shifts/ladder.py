"""A ladder: training sets of one class at growing distance from a test subset."""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError
from shiftbench.metagraph.graph import meta_graph, nodes, place
from shiftbench.metagraph.subsets import parse, subset, written


class Rung(NamedTuple):
    """A training set: its subset, its distance to the test subset, its items outside the test subset."""

    subset: str
    distance: float
    items: int


def ladder(
    collection: Collection, test: str, k: int = 4, *, items: int = 100, contexts: int = 2, threshold: float = 0.1,
    min_size: int = 25, kinds: tuple[str, ...] = ("object",),
) -> list[Rung]:
    """Propose k training sets for the class of `test`, from near to far, as evenly spread as the graph allows.

    A training set is a union of `contexts` subsets of one community (the paper: two, `dog(cabinet + bed)`) with at
    least `items` items that are not in the test subset. Of all of them, each rung takes the one whose distance is
    nearest to

        d_j = d_min + (d_max − d_min) j / (k − 1),   j = 0 … k − 1,

    with no context used twice.
    """
    cls, tested = parse(test)
    graph = meta_graph(collection, cls, threshold=threshold, min_size=min_size, kinds=kinds)
    goal = place(graph, tested)
    own = {node for context in tested for node in nodes(graph, context)}
    taken = subset(collection, test)
    held = {node: np.setdiff1d(subset(collection, written(cls, [name])), taken)
            for node, name in enumerate(graph.names) if node not in own}
    found: list[tuple[float, int, tuple[int, ...]]] = []
    for group in combinations(held, contexts):
        if len({int(graph.communities[node]) for node in group}) > 1:
            continue
        there = len(np.unique(np.concatenate([held[node] for node in group])))
        if there >= items:
            middle = place(graph, [graph.names[node] for node in group])
            found.append((float(np.linalg.norm(middle - goal)), there, group))
    rungs: list[Rung] = []
    used: set[int] = set()
    far = sorted(found)
    for step in range(k):
        free = [one for one in far if not used.intersection(one[2])]
        if not free:
            raise ShiftBenchError(f"Class '{cls}' has {len(rungs)} training sets of {contexts} contexts with {items} "
                                  f"items outside '{test}', but k = {k} are asked for. Lower k, items or contexts.")
        target = far[0][0] + (far[-1][0] - far[0][0]) * step / max(k - 1, 1)
        distance, there, group = min(free, key=lambda one: (abs(one[0] - target), one[2]))
        used.update(group)
        rungs.append(Rung(written(cls, [graph.names[node] for node in group]), distance, there))
    return sorted(rungs, key=lambda rung: rung.distance)
