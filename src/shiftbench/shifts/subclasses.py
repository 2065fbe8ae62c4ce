"""Superclasses whose subclasses differ between train and test: BREEDS."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Ints, Strs, in_short, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.hierarchies.hierarchy import Hierarchy, best_cut
from shiftbench.hierarchies.sources import edited, from_parents, open_hierarchy
from shiftbench.hierarchies.superclasses import Superclasses, named_task, superclasses
from shiftbench.shifts.shift import SHIFTS, card, deal, file_name, together

TRAINED, TESTED = ("train",), ("val", "valid", "validation", "test")
"""The words for a split of the data's own."""
GROUPS = ("subclass", "superclass")


@register(SHIFTS, "breeds")
@dataclass(frozen=True)
class Breeds(Lists):
    """Train on some subclasses of every superclass, test on others (Santurkar et al., 2021, Algorithm 1).

        y(i) = the superclass above the class c(i) of item i
        train = {i : c(i) ∈ source(y(i))},   test = {i : c(i) ∈ target(y(i))},   source(y) ∩ target(y) = ∅

    `train`, `id_val` and `id_test` are items of source subclasses; `target_train`, `val` and `test` of target ones.
    Which subclasses go where is said in `hierarchies.superclasses`; with split "none" both sides have the same, and
    there is no shift. A `task` by name is the paper's own, and needs no hierarchy.

    With `overlap` w the shift is milder, as footnote 2 suggests: a share w of every subclass's items stands on the
    other side, so that the sides have the same subclasses in other proportions, (1 − w) S + w T against
    (1 − w) T + w S, and their separation is 1 − 2 w of what it is apart.

    Our reading of the domains, on which the paper is silent: the k-th source subclasses of all superclasses together
    form domain `source k`, so that each domain has every class; so too `target k`. Groups are the subclasses, or the
    superclasses on each side, whose accuracies the paper draws per class.
    """

    label: str = ""  # factor that holds the classes; without one the tags do, and ambiguous items are dropped
    task: str = ""  # entity13, entity30, living17 or nonliving26; in place of root, level and subclasses
    hierarchy: str = file_name()  # file or folder; default: the collection's own hierarchy
    tree: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # or written here: parent -> children
    edits: str = file_name()  # script of edits, applied first
    root: str = ""  # superclasses under this node alone
    level: int | None = None  # longest path from the hierarchy's root; default: the most balanced level
    cluster: str = ""  # down-up or up-down: clusters of Huh et al. instead of the level's nodes
    subclasses: int | None = None  # per superclass; default: as many as the smallest allows
    split: str = "rand"  # rand, good, bad or none
    adversariality: float | None = None  # from 0, good, to 1, bad
    balanced: bool = True  # equally many subclasses in every superclass
    compat: str = ""  # breeds: the choice of the public code
    given: str = ""  # factor that says train or val, if the data have their own split
    held: float = 0.2  # share of a subclass's items in each held-out split that is drawn
    groups: str = "subclass"  # or superclass
    overlap: float = 0.0  # share of each subclass's items that stand on the other side, from 0 to 0.5

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        if self.groups not in GROUPS:
            raise unknown("kind of group", self.groups, GROUPS)
        if not 0 < self.held < 0.5:
            raise ShiftBenchError(f"breeds: 'held' is {self.held}, but two such shares must leave items to train on.")
        if not 0 <= self.overlap <= 0.5:
            raise ShiftBenchError(f"breeds: 'overlap' is {self.overlap}, but it must be from 0, no subclass on both "
                                  "sides, to 0.5, as many of each on both.")
        names = _known_classes(collection, self.label)
        hierarchy, ids, notes = self._hierarchy(collection, names)
        chosen = self._superclasses(hierarchy, seed)
        if len(chosen) < 2:
            raise ShiftBenchError(f"The one superclass '{chosen.title(chosen.nodes[0])}' is left: there is nothing to "
                                  "tell apart. Choose fewer subclasses, another level or another root.")
        _check_missing(chosen, ids.values(), collection.name)
        table = Subclasses.of(chosen)
        leaf, dropped = _subclass_of(collection, self.label, ids, chosen.subclasses, table)
        if dropped:
            notes.append(f"{dropped} items carry subclasses of two superclasses, or of both sides, and were dropped.")
        rows, split = _deal(collection, leaf, table, self.given, self.held, self.overlap, seed)
        leaf = leaf[rows]
        titles, words = (np.asarray(_titles(chosen, nodes)) for nodes in (chosen.nodes, chosen.subclasses))
        label, side = titles[table.superclass[leaf]], table.word[leaf]
        group = _join(label, ": ", words[leaf]) if self.groups == "subclass" else _join(label, ", ", side)
        return Benchmark.of(
            collection, self, seed, rows, split, label=label, group=group,
            domain=_join(side, " ", table.domain[leaf].astype(np.str_)),
            extra={"subclass": np.asarray(chosen.subclasses)[leaf]},
            card=card(
                collection, rows, split, notes=[*notes, *chosen.notes],
                distance=((1 - 2 * self.overlap) * float(np.mean(chosen.separation))
                          if chosen.separation and any(chosen.target) else None),
                superclasses=_table(chosen, titles.tolist()),
                hierarchy=None if hierarchy is None else {
                    "name": hierarchy.name, "nodes": len(hierarchy), "digest": hierarchy.digest},
            ),
        )

    def _hierarchy(self, collection: Collection, names: Strs) -> tuple[Hierarchy | None, dict[str, str], list[str]]:
        """The hierarchy over the collection's classes, and for each class its node.

        A named task needs none, and with compat it keeps all its classes, for each of them moves the authors' draws.
        """
        if self.tree and self.hierarchy:
            raise ShiftBenchError("breeds: 'tree' and 'hierarchy' are both given. Leave one of the two out.")
        if self.task and not self.tree and not self.hierarchy:
            if self.edits:
                raise ShiftBenchError(f"breeds: the built-in task '{self.task}' has no hierarchy to edit. Give one.")
            return None, {name: name for name in names.tolist()}, []
        if self.tree:
            whole = Hierarchy.of([(above, child) for above, below in self.tree.items() for child in below], name="tree")
        elif self.hierarchy:
            whole = open_hierarchy(self.hierarchy)
        else:
            whole = from_parents(collection.parents, collection.name)
        if self.edits:
            whole = edited(whole, self.edits)
        ids = whole.find_all(names.tolist())
        if not ids:
            raise ShiftBenchError(f"breeds: none of the {len(names)} classes of '{collection.name}' "
                                  f"({in_short(names.tolist(), 5)}) is a node of {whole.name} "
                                  f"({in_short(whole.nodes.tolist(), 5)}). "
                                  f"Do '{self.label or 'tags'}' hold the classes?")
        strange = sorted(set(names.tolist()) - ids.keys()) if self.label else []
        notes = [f"{len(strange)} classes of the collection are not in the hierarchy and are left out: "
                 f"{in_short(strange, 5)}."] if strange else []
        return (whole if self.compat else whole.only(ids.values())), ids, notes

    def _superclasses(self, hierarchy: Hierarchy | None, seed: int) -> Superclasses:
        if self.cluster and (self.task or self.level is None):
            raise ShiftBenchError(f"breeds: cluster = '{self.cluster}' needs a level and goes with no task.")
        if self.task:
            return named_task(self.task, hierarchy, self.split, adversariality=self.adversariality, seed=seed,
                              compat=self.compat)
        assert hierarchy is not None
        level = self.level
        if level is None:
            if self.root:
                raise ShiftBenchError(f"breeds: root = '{self.root}' needs a level as well; levels are counted from "
                                      "the root of the whole hierarchy.")
            level = best_cut(hierarchy).level
        return superclasses(hierarchy, level, self.root, self.subclasses, self.split, balanced=self.balanced,
                            adversariality=self.adversariality, seed=seed, compat=self.compat, cluster=self.cluster)


def _check_missing(chosen: Superclasses, there: Any, name: str) -> None:
    missing = sorted(set(chosen.subclasses) - set(there))
    if missing:
        nodes = ", ".join(f"{node} ({chosen.title(node)})" if chosen.title(node) != node else node for node in missing)
        raise ShiftBenchError(f"Collection '{name}' lacks {len(missing)} of the {len(chosen.subclasses)} subclasses: "
                              f"{nodes}. Add their items, or cut a hierarchy of the classes that are there.")


def _titles(chosen: Superclasses, nodes: tuple[str, ...]) -> list[str]:
    """A word for every node, with its id where two have the same: ImageNet has two cranes."""
    words = [chosen.title(node) for node in nodes]
    times = Counter(words)
    return [word if times[word] == 1 else f"{word} ({node})" for word, node in zip(words, nodes, strict=True)]


def _table(chosen: Superclasses, titles: list[str]) -> list[dict[str, Any]]:
    """For the card: every superclass with the subclasses of its two sides, as in Tables 8 to 11."""
    def nodes(side: tuple[str, ...]) -> list[dict[str, str]]:
        return [{"id": node, "name": chosen.title(node)} for node in side]

    return [{"id": node, "name": title, "source": nodes(source), "target": nodes(target)}
            for node, title, source, target in zip(chosen.nodes, titles, chosen.source, chosen.target, strict=True)]


def _join(one: Strs, between: str, other: Strs) -> Strs:
    return np.char.add(np.char.add(one, between), other)


class Subclasses(NamedTuple):
    """For every subclass: its superclass, its domain's number from 1, and whether it is of the source, the target or
    both."""

    superclass: Ints
    domain: Ints
    source: Bools
    target: Bools
    names: tuple[str, ...]

    @property
    def word(self) -> Strs:
        return np.where(self.source, "source", "target")

    @staticmethod
    def of(chosen: Superclasses) -> "Subclasses":
        """Where one superclass has more subclasses than another, several of its own share a domain."""
        n = len(chosen.subclasses)
        number = {node: code for code, node in enumerate(chosen.subclasses)}
        table = Subclasses(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_), np.zeros(n, np.bool_),
                           tuple(chosen.title(node) for node in chosen.subclasses))
        both = not any(chosen.target)
        for sides, flag in ((chosen.source, table.source), (chosen.target, table.target)):
            fewest = max(1, min(map(len, sides)))
            for code, side in enumerate(sides):
                for rank, node in enumerate(side):
                    table.superclass[number[node]] = code
                    table.domain[number[node]] = rank % fewest + 1
                    flag[number[node]] = True
        return table._replace(target=table.source) if both else table


def _known_classes(collection: Collection, label: str) -> Strs:
    """The classes a collection has: the values of a factor, or its tags."""
    if label:
        return np.unique(collection.factor(label).astype(np.str_))
    if not len(collection.tags.tag):
        raise ShiftBenchError(f"Collection '{collection.name}' has no tags. Name the factor that holds its classes "
                              f"with 'label'; its factors: {', '.join(collection.factors) or 'none'}.")
    return np.asarray(sorted(collection.tags.names), np.str_)


def _subclass_of(
    collection: Collection, label: str, ids: Mapping[str, str], subclasses: Sequence[str], table: Subclasses
) -> tuple[Ints, int]:
    """For every item the number of its subclass, -1 where it has none, and how many are ambiguous and so have none.

    An item with several tags is ambiguous when they are of two superclasses or of both sides; else the first counts.
    """
    wanted = np.asarray(subclasses, np.str_)

    def numbers(words: Sequence[str]) -> Ints:
        return positions(np.asarray([ids.get(word, "\0") for word in words], np.str_), wanted)

    if label:
        values, codes = np.unique(collection.factor(label).astype(np.str_), return_inverse=True)
        return numbers(values.tolist())[codes], 0
    tags = collection.tags
    number = numbers(tags.names)[tags.tag]
    rows = np.flatnonzero(number >= 0)
    rows = rows[np.lexsort((-number[rows], tags.item[rows]))]
    item, subclass = tags.item[rows], number[rows]
    cells = np.unique(item * (2 * len(wanted)) + table.superclass[subclass] * 2 + table.source[subclass])
    times = np.bincount(cells // (2 * len(wanted)), minlength=len(collection))
    leaf = np.full(len(collection), -1, np.int64)
    leaf[item] = subclass  # of one item the last is written last, and that is its first
    leaf[times > 1] = -1
    return leaf, int((times > 1).sum())


def _deal(
    collection: Collection, leaf: Ints, table: Subclasses, split_factor: str, held: float, overlap: float, seed: int
) -> tuple[Ints, Strs]:
    """Rows and their splits. If the data have a split, items are held out only from its training items.

    A share `held` of every subclass goes to each held-out split, one item at least.
    """
    rows = np.flatnonzero(leaf >= 0)
    both, names = bool((table.source & table.target).any()), table.names
    if not split_factor:
        n = np.bincount(leaf[rows], minlength=len(names))
        _enough(n, 4 if both else 3, names, "items")
        out = np.maximum(1, (n * held).astype(np.int64))
        return deal(rows, leaf[rows], _wanted(n, out, out, table, overlap), seed, names)
    word = collection.factor(split_factor).astype(np.str_)[rows]
    for strange in np.setdiff1d(word, (*TRAINED, *TESTED))[:1]:
        raise unknown("split", str(strange), (*TRAINED, *TESTED), f"Factor '{split_factor}'")
    before, after = rows[np.isin(word, TRAINED)], rows[~np.isin(word, TRAINED)]
    n, n_after = (np.bincount(leaf[pool], minlength=len(names)) for pool in (before, after))
    _enough(n, 2, names, "training items")
    _enough(n_after, 2 if both else 1, names, "validation items")
    out, none = np.maximum(1, (n * held).astype(np.int64)), np.zeros_like(n)
    return together(deal(before, leaf[before], _wanted(n, out, none, table, overlap), seed, names),
                    deal(after, leaf[after], _wanted(n_after, none, n_after, table, overlap), seed, names))


def _wanted(n: Ints, val: Ints, test: Ints, table: Subclasses, overlap: float) -> dict[str, Ints]:
    """How many of each subclass go to each split. Where source and target are the same, their test items are halved
    when they come from one pool of test items, and there is nothing to adapt with."""
    if (table.source & table.target).any():
        out = np.where(test == n, test // 2, test)
        inside = np.where(test == n, test - test // 2, test)
        return {"test": out, "id_test": inside, "id_val": val, "train": np.maximum(0, n - out - inside - val)}
    wanted: dict[str, Ints] = {}
    for at_source, at_target, total in (("id_test", "test", test), ("id_val", "val", val),
                                        ("train", "target_train", n - val - test)):
        moved = np.rint(overlap * total).astype(np.int64)
        wanted |= {at_target: np.where(table.target, total - moved, moved),
                   at_source: np.where(table.source, total - moved, moved)}
    return {name: wanted[name] for name in ("test", "val", "id_test", "id_val", "train", "target_train")}


def _enough(n: Ints, least: int, names: Sequence[str], what: str) -> None:
    few = np.flatnonzero(n < least)
    if few.size:
        subclasses = in_short((f"{names[code]} ({n[code]})" for code in few.tolist()), 20)
        raise ShiftBenchError(f"Fewer than {least} {what} have the subclasses {subclasses}. Add items, or leave these "
                              "classes out of the hierarchy.")
