"""Which label of a benchmark each class of a model counts for: by name, synonym, class hierarchy, or the user's map.

An ImageNet class counts for the superclass that holds it. A class that fits no label, or several, counts for none: it
is listed, never guessed.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Floats, Ints, in_short
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import path_of, read_json, read_text, read_toml
from shiftbench.core.tables import is_frame, read_table, strings, table_name, write_table
from shiftbench.hierarchies.hierarchy import Hierarchy

MAP, NAME, SYNONYM, HIERARCHY, POSITION = "map", "name", "synonym", "hierarchy", "position"
"""How the label of a class was determined."""


class ClassMap(NamedTuple):
    """Per class of the model, the code of the label that it counts for, or -1, and how that was determined."""

    classes: tuple[str, ...]
    labels: tuple[str, ...]
    code: Ints
    how: tuple[str, ...]

    @property
    def unmapped_labels(self) -> list[str]:
        """Labels that no class counts for."""
        return [label for code, label in enumerate(self.labels) if code not in set(self.code.tolist())]

    @property
    def unmapped_classes(self) -> list[str]:
        """Classes that count for no label."""
        return [name for name, code in zip(self.classes, self.code.tolist(), strict=True) if code < 0]

    def sum(self, log_probabilities: Floats) -> Floats:
        """Log-probabilities of labels, N × labels: those of a label's classes are added up as probabilities.

        A label without a class has probability 0. What other classes have is left out, so a row need not sum to 1.
        """
        scores = np.full((len(log_probabilities), len(self.labels)), -np.inf)
        for label in range(len(self.labels)):
            members = np.flatnonzero(self.code == label)
            if len(members) == 1:
                scores[:, label] = log_probabilities[:, members[0]]
            elif len(members):
                scores[:, label] = np.logaddexp.reduce(log_probabilities[:, members], axis=1)
        return scores

    def notes(self) -> list[str]:
        """What a user should know about the map, as lines."""
        if set(self.how) == {POSITION}:
            return [f"the model names no classes: its outputs are taken as {in_short(self.labels)}, in this order"]
        lines = [f"{len(self.classes) - len(self.unmapped_classes):,} of the model's {len(self.classes):,} classes "
                 f"count for {len(self.labels) - len(self.unmapped_labels):,} of {len(self.labels):,} labels"]
        if self.unmapped_classes:
            lines.append(f"classes that count for no label: {in_short(self.unmapped_classes, 12)}")
        if self.unmapped_labels:
            lines.append(f"labels that no class counts for: {in_short(self.unmapped_labels, 12)}")
        return lines

    def save(self, path: Path | str) -> None:
        """Write a table with columns class, label and how: `--map` takes it, edited or not."""
        label = [self.labels[code] if code >= 0 else "" for code in self.code.tolist()]
        write_table(path, pa.table({"class": list(self.classes), "label": label, "how": list(self.how)}))


def map_classes(
    classes: Sequence[str], labels: Sequence[str], *, model: str, class_map: Mapping[str, str] | None = None,
    hierarchy: Hierarchy | None = None, allow_unmapped: bool = False,
) -> ClassMap:
    """The label of each class: what `class_map` says wins; then equal names; then synonyms; then the hierarchy.

    Names are compared without case, `_` and `-`. Commas separate the synonyms of a class ("tench, Tinca tinca"). A name
    that two classes have says nothing about either: `class_map` may give their numbers. It maps a class to "" to
    leave it out. A label without a class is an error unless `allow_unmapped`.
    """
    code, how = _mapped(classes, labels, class_map or {})
    names = [_normalised(name) for name in classes]
    by_name = _unique({label: [_normalised(label)] for label in labels})
    nodes = _nodes(hierarchy, [[_normalised(synonym) for synonym in name.split(",")] for name in classes])
    holders = _holders(hierarchy, labels)
    for number, name in enumerate(classes):
        if how[number] or names.count(names[number]) > 1:
            continue
        synonyms = [synonym for synonym in map(_normalised, name.split(",")) if synonym in by_name]
        if names[number] in by_name:
            code[number], how[number] = labels.index(by_name[names[number]]), NAME
        elif len({by_name[synonym] for synonym in synonyms}) == 1:
            code[number], how[number] = labels.index(by_name[synonyms[0]]), SYNONYM
        elif (label := _lowest(holders, nodes[number])) >= 0:
            code[number], how[number] = label, HIERARCHY
    table = ClassMap(tuple(classes), tuple(labels), code, tuple(how))
    if table.unmapped_labels and (not allow_unmapped or len(table.unmapped_labels) == len(labels)):
        raise ShiftBenchError(
            f"{model}: no class of the model counts for {in_short(table.unmapped_labels)}. Its classes: "
            f"{in_short(classes)}. Say which do with --map FILE (columns class and label), give a class tree with "
            "--hierarchy, or go without these labels with --allow-unmapped.")
    return table


def by_position(n_outputs: int, labels: Sequence[str], model: str) -> ClassMap:
    """The map of a model whose outputs have no names: they are the labels, in their order."""
    if n_outputs != len(labels):
        raise ShiftBenchError(f"{model}: has {n_outputs} outputs without names, but there are {len(labels)} labels "
                              f"({in_short(labels)}). Name its classes with --classes FILE, one name per line.")
    return ClassMap(tuple(labels), tuple(labels), np.arange(n_outputs), (POSITION,) * n_outputs)


def read_map(path: Any) -> dict[str, str]:
    """The label of each class, from a table with columns class and label, or from TOML lines `class = "label"`.

    The table is a file or a data frame.
    """
    file = table_name(path)
    if not is_frame(path) and path_of(path, "a map of classes to labels nor the table of one").suffix == ".toml":
        facts = read_toml(path)
        for name, label in facts.items():
            if not isinstance(label, str):
                raise ShiftBenchError(f"{file}: '{name}' must be a label in quotation marks, as in \"tabby cat\" = "
                                      "\"cat\".")
        return facts
    table = read_table(path, text=("class", "label"))
    for column in ("class", "label"):
        if column not in table.column_names:
            raise ShiftBenchError(f"{file}: has no column '{column}'. A map has the columns class and label.")
    names, labels = strings(file, table, "class").tolist(), strings(file, table, "label", gap="").tolist()
    for name in names:
        if names.count(name) > 1 and len({label for other, label in zip(names, labels, strict=True)
                                          if other == name}) > 1:
            raise ShiftBenchError(f"{file}: class '{name}' has more than one label. Name classes that share a name by "
                                  "their numbers, from 0.")
    return dict(zip(names, labels, strict=True))


def read_class_names(path: Path | str) -> tuple[str, ...]:
    """The names of a model's outputs in their order: a line each, or a JSON list, or a JSON object by number."""
    file = Path(path)
    if file.suffix != ".json":
        return tuple(line.strip() for line in read_text(file).splitlines() if line.strip())
    names = class_list(read_json(file))
    if names is None:
        raise ShiftBenchError(f"{file}: must be a list of the names of classes, or an object with their numbers.")
    return names


def class_list(value: Any) -> tuple[str, ...] | None:
    """The names of classes in a JSON list, or in an object by number; None where it is neither."""
    if isinstance(value, dict) and all(key.isdecimal() for key in value):
        value = [value[key] for key in sorted(value, key=int)]
    return tuple(value) if isinstance(value, list) and all(isinstance(name, str) for name in value) else None


def _normalised(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()


def _unique(names_of: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """From name to owner, without the names that several have."""
    owners: dict[str, set[str]] = {}
    for owner, names in names_of.items():
        for name in names:
            owners.setdefault(name, set()).add(owner)
    return {name: next(iter(sharing)) for name, sharing in owners.items() if len(sharing) == 1}


def _mapped(classes: Sequence[str], labels: Sequence[str], class_map: Mapping[str, str]) -> tuple[Ints, list[str]]:
    code, how = np.full(len(classes), -1, np.int64), [""] * len(classes)
    by_name = _unique({label: [label, _normalised(label)] for label in labels})
    numbers: dict[str, list[int]] = {}
    for number, name in enumerate(classes):
        for synonym in dict.fromkeys((_normalised(name), *map(_normalised, name.split(",")))):
            numbers.setdefault(synonym, []).append(number)
    for name, label in class_map.items():
        exact = [number for number, other in enumerate(classes) if other == name] or numbers.get(_normalised(name), [])
        if not exact and name.isdecimal() and int(name) < len(classes):
            exact = [int(name)]
        if not exact:
            raise unknown("class of the model", name, classes, "map")
        if len(exact) > 1:
            raise ShiftBenchError(f"map: the model has {len(exact)} classes '{name}', of the numbers "
                                  f"{in_short(exact)}. Give their numbers in place of the name.")
        owner = label if label in labels else by_name.get(_normalised(label))
        if label and owner is None:
            raise unknown("label", label, labels, "map")
        code[exact[0]] = labels.index(owner) if label and owner is not None else -1
        how[exact[0]] = MAP
    return code, how


def _nodes(hierarchy: Hierarchy | None, synonyms: Sequence[Sequence[str]]) -> list[int | None]:
    """The node of each class: the only one that has all its synonyms, or else any of them."""
    if hierarchy is None:
        return [None] * len(synonyms)
    nodes_of: dict[str, set[int]] = {}
    for code, node in enumerate(hierarchy.nodes.tolist()):
        for name in (node, *hierarchy.names.get(node, "").split(",")):
            nodes_of.setdefault(_normalised(name), set()).add(code)
    nodes: list[int | None] = []
    for names in synonyms:
        sets = [nodes_of[name] for name in names if name in nodes_of]
        common = set.intersection(*sets) if sets else set()
        candidates = common or set().union(*sets)
        nodes.append(next(iter(candidates)) if len(candidates) == 1 else None)
    return nodes


def _holders(hierarchy: Hierarchy | None, labels: Sequence[str]) -> dict[int, frozenset[int]]:
    """By code of a label that is a node, the nodes below it and itself."""
    if hierarchy is None:
        return {}
    nodes = _nodes(hierarchy, [[_normalised(label)] for label in labels])
    return {code: frozenset(hierarchy.below(node).tolist()) for code, node in enumerate(nodes) if node is not None}


def _lowest(holders: Mapping[int, frozenset[int]], node: int | None) -> int:
    """The label that holds a node; of nested ones the lowest, -1 where none does or several that are not nested."""
    above = [code for code, below in holders.items() if node in below]
    lowest = [code for code in above if all(holders[code] <= holders[other] for other in above)]
    return lowest[0] if len(lowest) == 1 else -1
