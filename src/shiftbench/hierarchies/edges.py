"""Hierarchies in files: BREEDS' three, parent–child tables (CSV, text), JSON; and a collection's own parents."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shiftbench.collection import MARKER, Collection
from shiftbench.errors import ShiftBenchError
from shiftbench.files import read_json, read_table, read_text
from shiftbench.hierarchies.hierarchy import Hierarchy
from shiftbench.hierarchies.wordnet import DATA, wordnet

EDGES, NAMES, CLASSES = "class_hierarchy.txt", "node_names.txt", "dataset_class_info.json"
ENTITY = "n00001740"
"""WordNet's root, from which the levels of BREEDS are counted."""


def open_hierarchy(source: Path | str | Collection, classes: Iterable[str] | None = None) -> Hierarchy:
    """Read a hierarchy from whatever holds one; with `classes`, only these leaves and what is above them is kept.

    a folder with class_hierarchy.txt   BREEDS: edges, names and classes
    a folder with data.noun             WordNet 3.0
    a folder with collection.json, or a collection: its `parents`
    FILE.csv                            columns parent and child, maybe name (of the child)
    FILE.json                           {parent: [child, …]}, or a list of pairs [parent, child]
    FILE.txt                            a parent and a child per line
    """
    if isinstance(source, Collection):
        return from_parents(source.parents, source.name, classes)
    path = Path(source)
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
    """Whether a path looks like a hierarchy rather than like anything else of ours."""
    return (path / EDGES).is_file() or (path / DATA).is_file() or (path.is_file() and path.suffix in READ)


def from_parents(
    parents: Mapping[str, Iterable[str]], name: str, classes: Iterable[str] | None = None
) -> Hierarchy:
    """From names and the names above them, as a collection holds them."""
    if not parents:
        raise ShiftBenchError(f"{name}: this collection has no class hierarchy of its own. Give one: a file of parents "
                              "and children, BREEDS' files or WordNet.")
    edges = [(above, child) for child, all_above in parents.items() for above in all_above]
    return Hierarchy.of(edges, leaves=classes, name=name)


def breeds(folder: Path, classes: Iterable[str] | None = None) -> Hierarchy:
    """The three files of BREEDS: an edge per line, an id and its names per line, and the classes of the data set."""
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
        own = read_classes(folder / CLASSES)
        names = {str(node): str(words) for _, node, words in read_json(folder / CLASSES)} | names
        classes = own if classes is None else classes
    made = Hierarchy.of(edges, leaves=classes, names=names, name=str(folder))
    return made.under(ENTITY) if ENTITY in made.nodes and len(made.roots) > 1 else made


def read_classes(path: Path | str) -> list[str]:
    """Ids of classes from a file: one per line, or BREEDS' list of [number, id, names]."""
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
    if not pairs or not all(isinstance(word, str) for pair in pairs for word in pair):
        raise ShiftBenchError(f"{path}: must be {{parent: [child, …]}} or a list of pairs [parent, child], all of them "
                              "text.")
    return pairs, {}


def _text(path: Path) -> tuple[Edges, dict[str, str]]:
    edges: Edges = []
    for number, line in enumerate(_lines(path), 1):
        words = line.split("\t") if "\t" in line else line.split()
        if len(words) != 2:
            raise ShiftBenchError(f"{path}: line {number} is {line!r}, but it must be a parent and a child.")
        edges.append((words[0].strip(), words[1].strip()))
    return edges, {}


def _lines(path: Path) -> list[str]:
    return [line for line in read_text(path).splitlines() if line.strip()]


READ = {".csv": _csv, ".json": _json, ".txt": _text}
