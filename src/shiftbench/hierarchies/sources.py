"""Read hierarchies from BREEDS' files, WordNet, tables of parents and children, or a collection; and edit them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import path_of, read_json, read_text, read_toml
from shiftbench.core.tables import read_table
from shiftbench.data.collection import MARKER, Collection
from shiftbench.hierarchies.hierarchy import Hierarchy

# WordNet 3.0's noun database: the id n02084071 is the byte offset of that synset's line.

DATA = "data.noun"
VERSION = re.compile(r"WordNet (\d+\.\d+)")
KNOWN = ("02084071", "dog")
"""A synset whose offset differs between 3.0 and 3.1: it identifies the version of a file without its licence."""
ABOVE = ("@", "@i")  # hypernym, instance hypernym


def wordnet(folder: Path, classes: Iterable[str] | None = None) -> Hierarchy:
    """Read `data.noun`: synsets become nodes, hypernyms (of instances too, such as a person or a city) parents.

    Only version 3.0 is read: ImageNet's ids are its offsets, and in 3.1 the same number is another synset.
    """
    path = folder / DATA
    lines = read_text(path).splitlines()
    _check_version(path, lines)
    names: dict[str, str] = {}
    edges: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        if line.startswith(" ") or not line.strip():  # the licence
            continue
        try:
            node, words, parents = _synset(line)
        except (ValueError, IndexError) as problem:
            raise ShiftBenchError(f"{path}: line {number} is not a synset of WordNet's database. "
                                  "Copy the file again.") from problem
        names[node] = ", ".join(words)
        edges += [(parent, node) for parent in parents]
    for parent, child in edges:
        if parent not in names:
            raise ShiftBenchError(f"{path}: '{child}' is below '{parent}', which is not in the file; it is cut off. "
                                  "Copy the file again.")
    return Hierarchy.of(edges, leaves=classes, names=names, name=str(folder))


def _synset(line: str) -> tuple[str, list[str], list[str]]:
    """`offset file type n word id … p symbol offset type places … | gloss`; n is written in base 16."""
    fields = line.partition("|")[0].split()
    offset, n = fields[0], int(fields[3], 16)
    if len(offset) != 8 or fields[2] != "n" or n < 1:
        raise ValueError(line)
    words = [word.replace("_", " ") for word in fields[4: 4 + 2 * n: 2]]
    count, pointers = int(fields[4 + 2 * n]), fields[5 + 2 * n:]
    if len(words) != n or len(pointers) < 4 * count:
        raise ValueError(line)
    parents = [f"n{pointers[k + 1]}" for k in range(0, 4 * count, 4) if pointers[k] in ABOVE and pointers[k + 2] == "n"]
    return f"n{int(offset):08d}", words, parents


def _check_version(path: Path, lines: list[str]) -> None:
    licence = " ".join(line for line in lines[:60] if line.startswith(" "))
    stated = VERSION.search(licence)
    if stated:
        version = stated[1]
    else:
        is_3_0 = any(line.startswith(KNOWN[0]) and f" {KNOWN[1]} " in line for line in lines)
        version = "3.0" if is_3_0 else "unknown"
    if version != "3.0":
        raise ShiftBenchError(f"{path}: is WordNet {version}, but ImageNet's ids are offsets of WordNet 3.0 and mean "
                              "other synsets here. Give the database of 3.0 (Debian: package wordnet-base, folder "
                              "/usr/share/wordnet).")


EDGES, NAMES, CLASSES = "class_hierarchy.txt", "node_names.txt", "dataset_class_info.json"
ENTITY = "n00001740"
"""WordNet's root, from which BREEDS counts levels."""


def open_hierarchy(source: Path | str | Collection, classes: Iterable[str] | None = None) -> Hierarchy:
    """Read a hierarchy from a file, folder or collection; with `classes`, keep only these leaves and the nodes above.

    a folder with class_hierarchy.txt   BREEDS: edges, names and classes
    a folder with data.noun             WordNet 3.0
    a folder with collection.json, or a collection: its `parents`
    FILE.csv                            columns parent and child, optionally name (of the child)
    FILE.json                           {parent: [child, …]}, or a list of pairs [parent, child]
    FILE.txt                            a parent and a child per line
    """
    if isinstance(source, Collection):
        return from_parents(source.parents, source.name, classes)
    path = path_of(source, "a Collection nor the file or folder of a hierarchy")
    if not path.exists():
        raise ShiftBenchError(f"{path}: no such file or folder. {HOW}")
    if (path / EDGES).is_file():
        return breeds(path, classes)
    if (path / DATA).is_file():
        return wordnet(path, classes)
    if (path / MARKER).is_file():
        return from_parents(Collection.load(path).parents, str(path), classes)
    if path.is_file() and path.suffix in READ:
        edges, names = READ[path.suffix](path)
        return Hierarchy.of(edges, leaves=classes, names=names, name=str(path))
    raise ShiftBenchError(f"{path} holds no hierarchy. {HOW}")


HOW = (f"A hierarchy is a folder with {EDGES} (BREEDS), with {DATA} (WordNet 3.0) or with {MARKER}, or a file of "
       "parents and children: .csv, .json or .txt.")


def holds_hierarchy(path: Path) -> bool:
    """Whether a path looks like a hierarchy rather than another folder or file of ShiftBench."""
    return (path / EDGES).is_file() or (path / DATA).is_file() or (path.is_file() and path.suffix in READ)


def from_parents(
    parents: Mapping[str, Iterable[str]], name: str, classes: Iterable[str] | None = None
) -> Hierarchy:
    """Make a hierarchy from a collection's `parents`: each name with the names above it."""
    if not parents:
        raise ShiftBenchError(f"{name}: this collection has no class hierarchy of its own. Give one: a file of parents "
                              "and children, BREEDS' files or WordNet.")
    edges = [(parent, child) for child, above in parents.items() for parent in above]
    return Hierarchy.of(edges, leaves=classes, name=name)


def breeds(folder: Path, classes: Iterable[str] | None = None) -> Hierarchy:
    """Read the three files of BREEDS: one edge per line; one id with its names per line; the data set's classes."""
    edges, _ = _text(folder / EDGES)
    names: dict[str, str] = {}
    if (folder / NAMES).is_file():
        for number, line in enumerate(_lines(folder / NAMES), 1):
            node, tab, words = line.partition("\t")
            if not tab:
                raise ShiftBenchError(f"{folder / NAMES}: line {number} is {line!r}, but it must be an id, a tab and "
                                      "names.")
            names[node.strip()] = words.strip()
    if (folder / CLASSES).is_file():
        all_classes = read_classes(folder / CLASSES)
        names = {str(node): str(words) for _, node, words in read_json(folder / CLASSES)} | names
        classes = all_classes if classes is None else classes
    hierarchy = Hierarchy.of(edges, leaves=classes, names=names, name=str(folder))
    return hierarchy.under(ENTITY) if ENTITY in hierarchy.nodes and len(hierarchy.roots) > 1 else hierarchy


def read_classes(path: Path | str) -> list[str]:
    """Read ids of classes from a file: one per line, or BREEDS' list of [number, id, names]."""
    if Path(path).suffix != ".json":
        return [line.split()[0] for line in _lines(Path(path))]
    rows = read_json(path)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise ShiftBenchError(f"{path}: must be a list of [number, id, names].")
    return [str(node) for _, node, _ in rows]


Edges = list[tuple[str, str]]


def _csv(path: Path) -> tuple[Edges, dict[str, str]]:
    table = read_table(path, ["parent", "child"], text=["parent", "child", "name"])
    rows = {name: table[name].to_pylist() for name in table.column_names if name in ("parent", "child", "name")}
    for number, pair in enumerate(zip(rows["parent"], rows["child"], strict=True), 2):
        if not all(pair):
            raise ShiftBenchError(f"{path}: line {number} lacks its parent or its child.")
    names = {child: word for child, word in zip(rows["child"], rows.get("name", rows["child"]), strict=True) if word}
    return list(zip(rows["parent"], rows["child"], strict=True)), names


def _json(path: Path) -> tuple[Edges, dict[str, str]]:
    raw = read_json(path)
    pairs: list[Any] = []
    if isinstance(raw, dict) and all(isinstance(children, list) for children in raw.values()):
        pairs = [(parent, child) for parent, children in raw.items() for child in children]
    elif isinstance(raw, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in raw):
        pairs = [(parent, child) for parent, child in raw]
    if not pairs or not all(isinstance(word, str) and word for pair in pairs for word in pair):
        raise ShiftBenchError(f"{path}: must be {{parent: [child, …]}} or a list of pairs [parent, child], all of them "
                              "text and none empty.")
    return pairs, {}


def _text(path: Path) -> tuple[Edges, dict[str, str]]:
    edges: Edges = []
    for number, line in enumerate(_lines(path), 1):
        words = line.split("\t") if "\t" in line else line.split()
        if len(words) != 2 or not all(map(str.strip, words)):
            raise ShiftBenchError(f"{path}: line {number} is {line!r}, but it must be a parent and a child.")
        edges.append((words[0].strip(), words[1].strip()))
    return edges, {}


def _lines(path: Path) -> list[str]:
    return [line for line in read_text(path).splitlines() if line.strip()]


READ = {".csv": _csv, ".json": _json, ".txt": _text}


# Edits: a script of the four edits in BREEDS' appendix A.4, applied in order and checked.

VERBS: dict[str, tuple[str, ...]] = {"collapse": (), "insert": ("above",), "delete": (), "add": ("under",)}
OPTIONAL = {"insert": ("name",)}


def edited(hierarchy: Hierarchy, script: Path | str | Sequence[Mapping[str, Any]], *, tree: bool = False) -> Hierarchy:
    """Apply a script (a file or a list of edits) and check the result: no cycle, no orphan and, if asked, a tree.

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
    above: dict[str, set[str]] = {node: set() for node in hierarchy.nodes.tolist()}
    for parent, child in hierarchy.edges():
        above[child].add(parent)
    names, roots = dict(hierarchy.names), {node for node in above if not above[node]}
    for number, edit in enumerate(steps, 1):
        _apply(above, names, roots, edit, f"{where}, edit {number}")
    orphans = sorted(node for node, parents in above.items() if not parents and node not in roots)
    if orphans:
        more = f" and {len(orphans) - 1} more" if len(orphans) > 1 else ""
        raise ShiftBenchError(f"{where}: '{orphans[0]}'{more} would have no parent left. Delete it too, or give it "
                              "one with add and under.")
    several = sorted(node for node, parents in above.items() if len(parents) > 1)
    if tree and several:
        raise ShiftBenchError(f"{where}: the result is not a tree: '{several[0]}' has the parents "
                              f"{', '.join(sorted(above[several[0]]))}"
                              f"{f', and {len(several) - 1} more nodes have several' if len(several) > 1 else ''}.")
    leaves = [node for node in hierarchy.nodes[hierarchy.is_leaf].tolist() if node in above]
    if not leaves:
        raise ShiftBenchError(f"{where}: no class would be left. Delete fewer nodes.")
    return Hierarchy.of([(parent, node) for node, parents in above.items() for parent in parents], leaves=leaves,
                        names=names, name=hierarchy.name)


def _apply(above: dict[str, set[str]], names: dict[str, str], roots: set[str], edit: Any, where: str) -> None:
    """Apply one edit to the parents of every node, `above`, and to the names and the roots."""
    def find(node: str) -> str:
        named = [node] if node in above else [key for key in above if names.get(key, "").split(",")[0] == node]
        if len(named) != 1:
            raise unknown("node", node, above, where)
        return named[0]

    verb, node, values = _parsed(edit, where)
    if verb == "insert":
        below = find(values["above"])
        if node in above:
            raise ShiftBenchError(f"{where}: there is a node '{node}' already. Choose another id for the new one.")
        above[node], above[below] = above[below], {node}
        if below in roots:
            roots.symmetric_difference_update({below, node})
        if "name" in values:
            names[node] = values["name"]
        return
    node = find(node)
    if verb == "add":
        under = find(values["under"])
        reached = {under}
        while more := set[str]().union(*(above[parent] for parent in reached)) - reached:
            reached |= more
        if node in reached:
            raise ShiftBenchError(f"{where}: '{under}' is below '{node}', so this edge would close a cycle.")
        above[node].add(under)
        roots.discard(node)
        return
    children = [child for child, parents in above.items() if node in parents]
    if verb == "collapse" and node in roots and len(children) > 1:
        raise ShiftBenchError(f"{where}: '{node}' is a root; collapsing it would leave its {len(children)} "
                              "children without one. Collapse nodes that have a parent.")
    parents = above.pop(node)
    for child in children:
        above[child].remove(node)
        if verb == "collapse":
            above[child] |= parents
            if node in roots and not above[child]:
                roots.add(child)
    roots.discard(node)


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
