"""Edit a hierarchy with a script of the four edits in BREEDS' appendix A.4, applied in order and checked.

    tree = true                                   # the result must be a tree

    [[edit]]
    collapse = "covering"                         # its parents become the parents of its children
    [[edit]]
    insert = "garments"                           # a new node, between a node and all its parents
    above = "garment"
    name = "garments of all kinds"                # may be left out
    [[edit]]
    delete = "commodity"                          # with all its edges; its children need another parent
    [[edit]]
    add = "umbrella"                              # an edge to a parent
    under = "accessory"
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.toml import read_toml
from shiftbench.hierarchies.hierarchy import Hierarchy

VERBS: dict[str, tuple[str, ...]] = {"collapse": (), "insert": ("above",), "delete": (), "add": ("under",)}
OPTIONAL = {"insert": ("name",)}


def edited(hierarchy: Hierarchy, script: Path | str | Sequence[Mapping[str, Any]], *, tree: bool = False) -> Hierarchy:
    """Apply a script (a file or a list of edits) and check the result: no cycle, no orphan and, if asked, a tree.

    Leaves that are not deleted stay leaves; a node with no leaf left below it is removed.
    """
    where, steps = "edits", [] if isinstance(script, Path | str) else script
    if isinstance(script, Path | str):
        where, raw = str(script), read_toml(script)
        for key in raw:
            if key not in ("edit", "tree"):
                raise unknown("key", key, ("edit", "tree"), where)
        if not isinstance(raw.get("tree", False), bool) or not isinstance(raw.get("edit", []), list):
            raise ShiftBenchError(f"{where}: needs tables [[edit]], optionally with tree = true before them.")
        steps, tree = raw.get("edit", []), tree or bool(raw.get("tree", False))
    graph = _Graph(hierarchy)
    for number, edit in enumerate(steps, 1):
        _apply(graph, edit, f"{where}, edit {number}")
    return graph.finished(tree, where)


class _Graph:
    """A mutable hierarchy: the parents and the children of every node, in the order in which they were added."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.base = hierarchy
        self.up: dict[str, dict[str, None]] = {node: {} for node in hierarchy.nodes.tolist()}
        self.down: dict[str, dict[str, None]] = {node: {} for node in hierarchy.nodes.tolist()}
        self.names = dict(hierarchy.names)
        self.roots = set(hierarchy.nodes[hierarchy.roots].tolist())
        for above, below in hierarchy.edges():
            self.join(above, below)

    def join(self, above: str, below: str) -> None:
        self.up[below][above] = None
        self.down[above][below] = None

    def remove(self, node: str) -> tuple[list[str], list[str]]:
        """Remove a node and its edges, and return its former parents and children."""
        above, below = list(self.up.pop(node)), list(self.down.pop(node))
        for parent in above:
            del self.down[parent][node]
        for child in below:
            del self.up[child][node]
        return above, below

    def reaches(self, node: str, other: str) -> bool:
        seen, todo = {node}, [node]
        while todo:
            todo = [child for parent in todo for child in self.down[parent] if child not in seen]
            seen.update(todo)
        return other in seen

    def find(self, node: str, where: str) -> str:
        if node in self.up:
            return node
        named = [key for key in self.up if self.names.get(key, "").split(",")[0] == node]
        if len(named) == 1:
            return named[0]
        raise unknown("node", node, self.up, where)

    def finished(self, tree: bool, where: str) -> Hierarchy:
        orphans = sorted(node for node, above in self.up.items() if not above and node not in self.roots)
        if orphans:
            more = f" and {len(orphans) - 1} more" if len(orphans) > 1 else ""
            raise ShiftBenchError(f"{where}: '{orphans[0]}'{more} would have no parent left. Delete it too, or give it "
                                  "one with add and under.")
        several = sorted(node for node, above in self.up.items() if len(above) > 1)
        if tree and several:
            raise ShiftBenchError(f"{where}: the result is not a tree: '{several[0]}' has the parents "
                                  f"{', '.join(sorted(self.up[several[0]]))}"
                                  f"{f', and {len(several) - 1} more nodes have several' if len(several) > 1 else ''}.")
        leaves = [node for node in self.base.nodes[self.base.is_leaf].tolist() if node in self.up]
        edges = [(above, node) for node, parents in self.up.items() for above in parents]
        return Hierarchy.of(edges, leaves=leaves, names=self.names, name=self.base.name)


def _apply(graph: _Graph, edit: Any, where: str) -> None:
    verb, node, values = _parsed(edit, where)
    if verb == "insert":
        below = graph.find(values["above"], where)
        if node in graph.up:
            raise ShiftBenchError(f"{where}: there is a node '{node}' already. Choose another id for the new one.")
        above = list(graph.up[below])
        graph.up[node], graph.down[node] = {}, {}
        for parent in above:
            del graph.down[parent][below], graph.up[below][parent]
            graph.join(parent, node)
        graph.join(node, below)
        if below in graph.roots:
            graph.roots = (graph.roots - {below}) | {node}
        if "name" in values:
            graph.names[node] = values["name"]
        return
    node = graph.find(node, where)
    if verb == "add":
        under = graph.find(values["under"], where)
        if graph.reaches(node, under):
            raise ShiftBenchError(f"{where}: '{under}' is below '{node}', so this edge would close a cycle.")
        graph.join(under, node)
        graph.roots.discard(node)
        return
    if verb == "collapse" and node in graph.roots and len(graph.down[node]) > 1:
        raise ShiftBenchError(f"{where}: '{node}' is a root; collapsing it would leave its {len(graph.down[node])} "
                              "children without one. Collapse nodes that have a parent.")
    was_root = node in graph.roots
    above, children = graph.remove(node)
    graph.roots.discard(node)
    if verb == "collapse":
        if was_root:
            graph.roots.update(child for child in children if not graph.up[child])
        for parent in above:
            for child in children:
                graph.join(parent, child)


def _parsed(edit: Any, where: str) -> tuple[str, str, dict[str, str]]:
    """The verb of an edit, its node, and its other values."""
    if not isinstance(edit, Mapping) or not all(isinstance(value, str) and value for value in edit.values()):
        raise ShiftBenchError(f"{where}: an edit is a table whose values are ids of nodes.")
    verbs = [key for key in edit if key in VERBS]
    if len(verbs) != 1:
        raise ShiftBenchError(f"{where}: needs just one of {', '.join(VERBS)}, but has "
                              f"{' and '.join(verbs) if verbs else ', '.join(edit) or 'nothing'}.")
    verb = verbs[0]
    for key in VERBS[verb]:
        if key not in edit:
            raise ShiftBenchError(f"{where}: '{verb}' needs '{key}' as well.")
    allowed = (verb, *VERBS[verb], *OPTIONAL.get(verb, ()))
    for key in edit:
        if key not in allowed:
            raise unknown("key", key, allowed, where)
    return verb, edit[verb], {key: value for key, value in edit.items() if key != verb}
