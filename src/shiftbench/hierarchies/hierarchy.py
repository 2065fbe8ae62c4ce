"""A class hierarchy: nodes, edges from parent to child, and which nodes are classes of a data set.

Below it, where to cut it into superclasses: its levels, of which the most balanced is proposed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Ints, Strs, digest, in_short, positions
from shiftbench.core.errors import ShiftBenchError, unknown


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Nodes, sorted by id, and edges, as sorted pairs of node numbers; a node may have several parents.

        level(n) = 0 for a root,   1 + max over parents p of level(p) elsewhere      (the longest path)

    A leaf is a class of the data: a node without children or, if leaves were named, a named node. Every other node has
    a leaf below it. `names` maps ids to words, with commas between synonyms; `missing` lists named classes that have
    no node.
    """

    nodes: Strs
    parent: Ints
    child: Ints
    is_leaf: Bools
    names: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    name: str = "hierarchy"

    def __repr__(self) -> str:
        words = in_short((self.names.get(node, node) for node in self.nodes[self.roots].tolist()), 3)
        return (f"Hierarchy('{self.name}': {len(self.nodes):,} nodes, {int(self.is_leaf.sum()):,} leaves; roots: "
                f"{words}; {len(self.missing):,} classes missing)")

    @staticmethod
    def of(
        edges: Iterable[Sequence[str]], *, leaves: Iterable[str] | None = None, names: Mapping[str, str] | None = None,
        name: str = "hierarchy",
    ) -> "Hierarchy":
        """Make a hierarchy from pairs (parent, child). With `leaves`, keep only these and the nodes above them."""
        pairs = np.asarray(sorted({(str(above), str(below)) for above, below in edges}), np.str_).reshape(-1, 2)
        if not len(pairs):
            raise ShiftBenchError(f"{name}: has no edges. A hierarchy needs at least one parent with a child.")
        nodes, codes = np.unique(pairs, return_inverse=True)
        parent, child = codes.reshape(-1, 2).T.astype(np.int64)
        is_leaf = np.bincount(parent, minlength=len(nodes)) == 0
        missing: tuple[str, ...] = ()
        if leaves is not None:
            wanted = np.asarray(sorted(set(leaves)), np.str_)
            position = positions(wanted, nodes)
            missing = tuple(wanted[position < 0].tolist())
            is_leaf = np.zeros(len(nodes), np.bool_)
            is_leaf[position[position >= 0]] = True
            if not is_leaf.any():
                raise ShiftBenchError(f"{name}: none of the {len(wanted)} classes ({in_short(wanted.tolist(), 5)}) is "
                                      f"a node. Its nodes are like {in_short(nodes.tolist(), 5)}.")
        hierarchy = Hierarchy(nodes, parent, child, is_leaf, dict(names or {}), missing, name)
        if (hierarchy.levels < 0).any():
            raise ShiftBenchError(f"{name}: has a cycle, {' → '.join(_cycle(hierarchy))}. Remove one of these edges.")
        return hierarchy if leaves is None else hierarchy._kept(hierarchy._has_leaf())

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def levels(self) -> Ints:
        """The longest path from a root to each node, found layer by layer; -1 for nodes in or below a cycle."""
        waiting = np.bincount(self.child, minlength=len(self))
        level = np.full(len(self), -1, np.int64)
        layer, depth = np.flatnonzero(waiting == 0), 0
        while layer.size:
            level[layer] = depth
            below, times = np.unique(_take(self._down, layer), return_counts=True)
            waiting[below] -= times
            layer, depth = below[waiting[below] == 0], depth + 1
        return level

    @cached_property
    def roots(self) -> Ints:
        return np.flatnonzero(np.bincount(self.child, minlength=len(self)) == 0)

    @cached_property
    def several_parents(self) -> Ints:
        """Nodes with more than one parent; if there are none, the hierarchy is a tree or a forest."""
        return np.flatnonzero(np.bincount(self.child, minlength=len(self)) > 1)

    @cached_property
    def sizes(self) -> Ints:
        """The number of leaves that each node reaches; a leaf reaches itself."""
        return np.diff(self._reach[0])

    def leaves_below(self, node: int) -> Ints:
        """The leaves that a node reaches, sorted; a leaf reaches itself."""
        start, leaf = self._reach
        return leaf[start[node]: start[node + 1]]

    def children(self, node: int) -> Ints:
        start, below = self._down
        return below[start[node]: start[node + 1]]

    def parents(self, node: int) -> Ints:
        start, above = self._up
        return above[start[node]: start[node + 1]]

    def below(self, node: int) -> Ints:
        """The node and all nodes under it, sorted."""
        seen = np.zeros(len(self), np.bool_)
        layer = np.asarray([node], np.int64)
        while layer.size:
            seen[layer] = True
            layer = np.unique(_take(self._down, layer))
            layer = layer[~seen[layer]]
        return np.flatnonzero(seen)

    def at(self, level: int, root: str = "") -> Ints:
        """The nodes of a level, sorted; with `root`, those under it. Levels count from the hierarchy's own root."""
        allowed = self.below(self.code(root)) if root else np.arange(len(self))
        codes: Ints = allowed[self.levels[allowed] == level]
        if not codes.size:
            present = np.unique(self.levels[allowed])
            nearest = present[np.argmin(abs(present - level))]
            under = f" under '{root}'" if root else ""
            raise ShiftBenchError(f"{self.name}: level {level} has no nodes{under}. Levels there: {present[0]} to "
                                  f"{present[-1]}; the nearest is {nearest}.")
        return codes

    def code(self, node: str) -> int:
        """The number of the node with this id, or with this name if just one node has it."""
        code = int(np.searchsorted(self.nodes, node))
        if code < len(self) and self.nodes[code] == node:
            return code
        named = [key for key, words in self.names.items() if node in (words, words.split(",")[0])]
        codes = positions(np.asarray(named, np.str_), self.nodes) if named else np.zeros(0, np.int64)
        codes = codes[codes >= 0]
        if len(codes) == 1:
            return int(codes[0])
        if len(codes):
            raise ShiftBenchError(f"{self.name}: {len(codes)} nodes are called '{node}' "
                                  f"({in_short(self.nodes[codes].tolist(), 5)}). Name one by its id.")
        raise unknown("node", node, {*self.nodes.tolist(), *map(self.title, self.nodes.tolist())}, self.name)

    def find_all(self, words: Iterable[str]) -> dict[str, str]:
        """Map each word to its node's id, if it is an id or a synonym of just one node. Other words are left out."""
        ids = set(self.nodes.tolist())
        called: dict[str, list[str]] = {}
        for node in self.nodes.tolist():
            for synonym in dict.fromkeys(part.strip() for part in self.names.get(node, "").split(",")):
                called.setdefault(synonym, []).append(node)
        return {word: word if word in ids else called[word][0] for word in words
                if word in ids or len(called.get(word, ())) == 1}

    def title(self, node: str) -> str:
        """The word for a node: the first of its names, or its id."""
        return self.names.get(node, node).split(",")[0].strip() or node

    def edges(self) -> list[tuple[str, str]]:
        """Pairs (parent, child) of ids."""
        return list(zip(self.nodes[self.parent].tolist(), self.nodes[self.child].tolist(), strict=True))

    def under(self, root: str) -> "Hierarchy":
        """The part of the hierarchy below a node, which becomes the only root."""
        keep = np.zeros(len(self), np.bool_)
        keep[self.below(self.code(root))] = True
        return self._kept(keep)

    def only(self, leaves: Iterable[str]) -> "Hierarchy":
        """The part of the hierarchy above these classes."""
        return Hierarchy.of(self.edges(), leaves=leaves, names=self.names, name=self.name)

    @cached_property
    def digest(self) -> str:
        """A digest of nodes, edges and leaves, but not of names."""
        return digest({"nodes": self.nodes, "parent": self.parent, "child": self.child, "leaf": self.is_leaf})

    def _kept(self, keep: Bools) -> "Hierarchy":
        number = np.cumsum(keep) - 1
        edge = keep[self.parent] & keep[self.child]
        return replace(self, nodes=self.nodes[keep], parent=number[self.parent[edge]], child=number[self.child[edge]],
                       is_leaf=self.is_leaf[keep])

    def _has_leaf(self) -> Bools:
        keep = self.is_leaf.copy()
        layer = np.flatnonzero(keep)
        while layer.size:
            above = np.unique(_take(self._up, layer))
            layer = above[~keep[above]]
            keep[layer] = True
        return keep

    @cached_property
    def _down(self) -> tuple[Ints, Ints]:
        return _spans(self.parent, self.child, len(self))

    @cached_property
    def _up(self) -> tuple[Ints, Ints]:
        return _spans(self.child, self.parent, len(self))

    @cached_property
    def _reach(self) -> tuple[Ints, Ints]:
        """The leaves of every node: climb from all leaves at once, keeping each pair (node, leaf) once per step."""
        n = len(self)
        leaf = np.flatnonzero(self.is_leaf)
        layer = leaf * n + leaf
        layers = [layer]
        while layer.size:
            node, below = layer // n, layer % n
            times = np.diff(self._up[0])[node]
            layer = np.unique(_take(self._up, node) * n + np.repeat(below, times))
            layers.append(layer)
        pairs = np.unique(np.concatenate(layers))
        return _spans(pairs // n, pairs % n, n)


def _spans(of: Ints, values: Ints, n: int) -> tuple[Ints, Ints]:
    """Order values by their owner: those of owner k are `values[start[k]:start[k + 1]]`, sorted."""
    order = np.lexsort((values, of))
    start = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=n))]).astype(np.int64)
    return start, values[order]


def _take(spans: tuple[Ints, Ints], owners: Ints) -> Ints:
    """The values of several owners, one after the other."""
    start, values = spans
    times = start[owners + 1] - start[owners]
    first = np.repeat(start[owners] - np.concatenate([[0], np.cumsum(times)[:-1]]), times) if len(owners) else times
    return values[first + np.arange(int(times.sum()))]


def _cycle(hierarchy: Hierarchy) -> list[str]:
    """One cycle, with its first node repeated at the end: climb from any node that has no level."""
    stuck = hierarchy.levels < 0
    node, path = int(np.flatnonzero(stuck)[0]), []
    while node not in path:
        path.append(node)
        above = hierarchy.parents(node)
        node = int(above[stuck[above]][0])
    ring = [*path[path.index(node):], node][::-1]
    return [str(hierarchy.nodes[code]) for code in (ring if len(ring) < 12 else [*ring[:10], ring[-1]])]


# Where to cut: every level, and how even its superclasses are.

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
