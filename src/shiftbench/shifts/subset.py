"""Train on some subsets, test on others: MetaShift's domain generalization."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Ints, Strs, Values, encode, uniform
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.metagraph.graph import (
    COMPARABLE,
    MetaGraph,
    distance,
    mean_distance,
    mean_embedding,
    merge_similar,
    merged_graph,
    meta_graph,
    nodes,
    nodes_if_any,
)
from shiftbench.metagraph.subsets import candidates, parse_subset, resolve, subset, subset_name, union
from shiftbench.shifts.shift import (
    SHIFTS,
    Names,
    against_expected,
    ambiguous,
    ambiguous_note,
    card,
    cell_names,
    check_sizes,
    deal,
    lacking_note,
    quota,
    remainder,
    spread,
)

Contexts = Mapping[str, tuple[str, ...]]
Merged = Mapping[str, Contexts]  # class -> name of a merged subset -> its contexts
Graphs = Mapping[str, MetaGraph]


@register(SHIFTS, "subset")
@dataclass(frozen=True)
class Subset(Lists):
    """Train on some subsets of each class, test on others (Liang & Zou, 2022, §4.1).

        test = ⋃ test subsets − ambiguous,   train = ⋃ train subsets − test − ambiguous

    `cat(sofa + bed)` is cat(sofa) ∪ cat(bed). The label of an item is the class of its subset. An item that carries the
    tags of two of the classes is ambiguous and dropped; one that lies in a training and a test subset is a test item.
    Both are counted on the card. `n_train` is split evenly over the classes and, as far as their sizes allow, over the
    contexts of a class; what training leaves of its subsets is shared by `id_val` and `id_test`.

    Our reading of the domains, on which the paper is silent: the k-th contexts of all classes together form domain k,
    so that each domain has every class. Groups are the subsets. The card's distance is that of class `moves`, or the
    mean over the tested classes.

    The paper's subsets are merged ones. With `merge`, a context stands for its whole community in the meta-graph of its
    class; `merged` gives the contexts of a merged subset by hand instead, as published lists do. Then `dog(shelf)` is
    the union of those contexts, and the card has two distances: `distances`, between mean embeddings in the graph of
    subsets (the paper's text), and `merged_distances`, the mean over pairs in the graph of merged subsets (the authors'
    code). Neither can be compared between collections of different sizes; `diffusion_distances` nearly can. A merged
    subset that is neither trained nor tested on only takes part in `merged_distances`; one without items is left out
    there, and named on the card.
    """

    train: tuple[str, ...]  # e.g. ["cat(sofa + bed)", "dog(cabinet + bed)"]
    test: tuple[str, ...]  # e.g. ["cat(shelf)", "dog(shelf)"]
    moves: str = ""  # the class whose distance is the shift's
    n_train: int = 0  # 0: three fifths of what there is
    n_ood: int = 0  # items of the test subsets that become val, for choosing among runs after the shift
    threshold: float = 0.1  # edges of the meta-graph under this overlap are dropped
    min_size: int = 25  # smallest subset in the meta-graph
    kinds: tuple[str, ...] = ("object",)  # kinds of contexts in the meta-graph; none: all
    merge: bool = False  # a context stands for its community
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # {"dog(shelf)": ("desk", "shelf", …), …}
    expected: Mapping[str, int] = field(default_factory=dict)  # published sizes of test subsets, kept on the card

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        check_sizes(self)
        train, test = _by_class(self.train, "train"), _by_class(self.test, "test")
        self._check_classes(train, test)
        dropped = ambiguous(collection, list(train))
        graphs = {cls: meta_graph(collection, cls, threshold=self.threshold, min_size=self.min_size, kinds=self.kinds)
                  for cls in train if cls in test or (self.merge and train[cls])}
        merged, absent = _with_items(collection, self._merged(graphs, train, test), train, test)
        tested = _members(collection, test, merged, dropped, seed)
        open_to_training = _members(collection, train, merged, dropped, seed)
        trained = open_to_training.only(~np.isin(open_to_training.row, tested.row))
        before, split_before = self._before(trained, seed)
        after, split_after = self._after(tested, seed)
        rows, split = after.join(before), np.concatenate([split_after, split_before])
        facts = self._distance_facts(collection, graphs, merged, train, test)
        facts |= self._merged_facts(collection, merged, train, test, dropped)
        facts |= {"sizes": against_expected(self.expected, Counter(tested.group.tolist()))} if self.expected else {}
        notes = [
            ambiguous_note(len(dropped)),
            f"{len(open_to_training.row) - len(trained.row)} training items are also test items and went to the test.",
            *(f"Class '{cls}' has no distance: a subset of it is not in the meta-graph (see min_size, kinds)."
              for cls, value in facts["distances"].items() if value is None),
            *lacking_note(_lacking(collection, merged)),
            *([f"{len(absent)} merged subsets that are neither trained nor tested on have no items here, so "
               f"merged_distances are measured without them: {', '.join(absent)}."] if absent else []),
        ]
        return Benchmark.of(
            collection, self, seed, rows.row, split, label=rows.label, domain=rows.domain, group=rows.group,
            card=card(collection, rows.row, split, notes, **facts))

    def _check_classes(self, train: Contexts, test: Contexts) -> None:
        for name in test:
            if name not in train:
                raise ShiftBenchError(f"Class '{name}' is tested but not trained on. Add '{name}(...)' to train.")
        if len(train) < 2:
            raise ShiftBenchError(f"Training has the one class '{next(iter(train))}'. Add subsets of a second one.")
        if self.moves and self.moves not in test:
            raise unknown("class", self.moves, test, "moves")

    def _merged(self, graphs: Graphs, train: Contexts, test: Contexts) -> Merged:
        """The merged subsets of each class: those given by hand and, with `merge`, the communities of its graph."""
        by_hand = {parse_subset(name): contexts for name, contexts in self.merged.items()}
        for cls, names in by_hand:
            if cls not in train or len(names) != 1:
                raise ShiftBenchError(f"merged names '{subset_name(cls, names)}'. A merged subset is called by one "
                                      f"context of a class that is trained on: {', '.join(train)}.")
        merged: dict[str, Contexts] = {}
        for cls in train:
            alone = {name: (name,) for name in (*train[cls], *test.get(cls, ()))}
            of_class = {names[0]: contexts for (owner, names), contexts in by_hand.items() if owner == cls}
            if self.merge and cls in graphs:
                large = [name for name in alone if name not in of_class and nodes_if_any(graphs[cls], name)]
                of_class = {**merge_similar(graphs[cls], large), **of_class}
            if of_class:
                merged[cls] = {**alone, **of_class}
        return merged

    def _after(self, tested: "_Members", seed: int) -> tuple["_Members", Strs]:
        """`val` evenly over the test subsets, the rest to `test`."""
        cell, names = encode(tested.group)
        available = np.bincount(cell, minlength=len(names))
        if self.n_ood > len(tested.row) // 2:
            raise ShiftBenchError(f"n_ood = {self.n_ood}, but the test subsets have {len(tested.row)} items in all, "
                                  "and half of them must stay for the test. Lower n_ood.")
        val = spread(self.n_ood, available)
        return tested.deal(cell, {"test": available - val, "val": val}, seed, names)

    def _before(self, trained: "_Members", seed: int) -> tuple["_Members", Strs]:
        """`train` evenly over classes and domains; the rest in halves to `id_val` and `id_test`."""
        y, y_names = encode(trained.label)
        d, d_names = encode(trained.domain)
        cell = y * len(d_names) + d
        available = np.bincount(cell, minlength=len(y_names) * len(d_names)).reshape(len(y_names), -1)
        if self.n_train:
            asked = quota(self.n_train, np.full(len(y_names), 1 / len(y_names)))
            for name, n, there in zip(y_names, asked, available.sum(axis=1), strict=True):
                if there < n:
                    raise ShiftBenchError(f"Class '{name}' has {there} training items, but n_train = {self.n_train} "
                                          f"asks for {n}. Lower n_train or add subsets of '{name}' to train.")
            # A fifth of each subset is kept for id_val and id_test where the class has enough without it.
            most = available * 4 // 5
            open_to = np.where(most.sum(axis=1, keepdims=True) >= asked[:, None], most, available)
            train = np.stack([spread(int(n), row) for n, row in zip(asked, open_to, strict=True)])
        else:
            train = available * 3 // 5
        return trained.deal(cell, remainder(available.ravel(), train.ravel()), seed, cell_names(y_names, d_names))

    def _distance_facts(
        self, collection: Collection, graphs: Graphs, merged: Merged, train: Contexts, test: Contexts
    ) -> dict[str, Any]:
        """The card's distances of training from test: in all, per class, per class by diffusion, per training subset.

        Those by diffusion can be compared between sizes of a collection. They are measured in the graph of the subsets
        that hold a share of their class, in place of a fixed number of items.
        """
        distances = _distances(graphs, merged, train, test)
        known = [value for value in distances.values() if value is not None]
        comparable = {}
        for cls in test:
            least = max(2, math.ceil(COMPARABLE * len(collection.with_tag(cls))))
            if candidates(collection, cls, kinds=self.kinds, min_size=least).names:
                comparable[cls] = meta_graph(collection, cls, threshold=self.threshold, min_size=least,
                                             kinds=self.kinds, scaling="diffusion")
        return {
            "distance": distances[self.moves] if self.moves else float(np.mean(known)) if known else None,
            "distances": distances,
            "diffusion_distances": {**dict.fromkeys(sorted(test)), **_distances(comparable, merged, train, test)},
            "subsets": {subset_name(cls, [name]): value for cls in sorted(test) for name in train[cls]
                        if (value := _distance(graphs[cls], merged.get(cls, {}), [name], test[cls])) is not None},
            "contexts": {"train": dict(train), "test": dict(test)},
        }

    def _merged_facts(
        self, collection: Collection, merged: Merged, train: Contexts, test: Contexts, dropped: Ints
    ) -> dict[str, Any]:
        """The card's entries about merged subsets: the contexts of those that are used, and for each tested class the
        mean distance of training from test subsets in the graph of all its merged subsets."""
        if not merged:
            return {}
        distances: dict[str, float | None] = {}
        for cls in sorted(cls for cls in test if merged.get(cls)):
            distances[cls] = None
            if train[cls] and test[cls]:
                graph = merged_graph(collection, cls, merged[cls], threshold=self.threshold, without=dropped)
                distances[cls] = mean_distance(graph, train[cls], test[cls])
        return {"merged_distances": distances, "merged": {
            subset_name(cls, [name]): list(contexts) for cls in merged for name, contexts in merged[cls].items()
            if name in train.get(cls, ()) or name in test.get(cls, ())}}


class _Members(NamedTuple):
    """Items of some subsets, sorted by item number, each once."""

    row: Values
    label: Values
    domain: Values
    group: Values

    def only(self, keep: Ints | Bools) -> "_Members":
        return _Members(*(column[keep] for column in self))

    def join(self, *others: "_Members") -> "_Members":
        return _Members(*map(np.concatenate, zip(self, *others, strict=True)))

    def deal(self, cell: Ints, wanted: Mapping[str, Ints], seed: int, names: Names) -> tuple["_Members", Strs]:
        """The items that are dealt, in that order, and their splits."""
        rows, split = deal(self.row, cell, wanted, seed, names)
        return self.only(np.searchsorted(self.row, rows)), split


def _by_class(names: Sequence[str], where: str) -> Contexts:
    """Class -> its contexts, in the order given. A class that is listed twice has the contexts of both."""
    contexts: dict[str, tuple[str, ...]] = {}
    for name in names:
        cls, more = parse_subset(name)
        contexts[cls] = (*contexts.get(cls, ()), *more)
    if not contexts:
        raise ShiftBenchError(f"'{where}' names no subset. Write for example ['cat(sofa)', 'dog(bed)'].")
    return contexts


def _members(collection: Collection, classes: Contexts, merged: Merged, dropped: Ints, seed: int) -> _Members:
    """Every item of the subsets; an item in two contexts of its class belongs to the one listed first."""
    n_domains = max(1, *(len(contexts) for contexts in classes.values()))
    contexts_of = {cls: contexts or ("",) for cls, contexts in classes.items()}  # no context: the whole class
    domains = np.asarray([" / ".join(dict.fromkeys(c[k % len(c)] or "all" for c in contexts_of.values()))
                          for k in range(n_domains)])
    subsets: list[_Members] = []
    for cls, contexts in contexts_of.items():
        used = dropped
        for first, context in enumerate(contexts):
            name = subset_name(cls, [context] if context else [])
            merged_contexts = merged.get(cls, {}).get(context, ())
            items = union(collection, cls, merged_contexts)[0] if merged_contexts else subset(collection, name)
            rows = np.setdiff1d(items, used)
            used = np.union1d(used, rows)
            # A class with fewer contexts than others spreads each over several domains, so that none lacks the class.
            numbers = np.arange(first, n_domains, len(contexts))
            domain = numbers[(uniform(seed, "domain", rows) * len(numbers)).astype(np.int64)]
            subsets.append(_Members(rows, np.full(len(rows), cls), domains[domain], np.full(len(rows), name)))
    members = subsets[0].join(*subsets[1:])
    return members.only(np.argsort(members.row, kind="stable"))


def _with_items(
    collection: Collection, merged: Merged, train: Contexts, test: Contexts
) -> tuple[Merged, list[str]]:
    """The merged subsets that have items, or that are trained or tested on; and the names of the others.

    A published list has more subsets than a task uses: they are nodes of the graph, and a collection may lack them.
    """
    kept: dict[str, Contexts] = {}
    absent: list[str] = []
    for cls, of_class in merged.items():
        used = {*train[cls], *test.get(cls, ())}
        empty = [name for name, contexts in of_class.items() if name not in used
                 and not any(len(subset(collection, subset_name(cls, [context]))) for context in contexts
                             if resolve(collection.tags, cls, context))]
        kept[cls] = {name: contexts for name, contexts in of_class.items() if name not in empty}
        absent += [subset_name(cls, [name]) for name in empty]
    return kept, sorted(absent)


def _lacking(collection: Collection, merged: Merged) -> list[str]:
    """The contexts of merged subsets that no item of the collection carries, as subsets."""
    return sorted({subset_name(cls, [context]) for cls, of_class in merged.items()
                   for contexts in of_class.values() for context in union(collection, cls, contexts)[1]})


def _distances(graphs: Graphs, merged: Merged, train: Contexts, test: Contexts) -> dict[str, float | None]:
    """For each tested class that has a graph, the distance of the union of its training subsets from its test."""
    return {cls: _distance(graphs[cls], merged.get(cls, {}), train[cls], test[cls])
            for cls in sorted(test) if cls in graphs}


def _distance(graph: MetaGraph, merged: Contexts, train: Sequence[str], test: Sequence[str]) -> float | None:
    """The distance between two unions of subsets; None where one of them is not in the graph.

    A merged subset counts by those of its contexts that are in the graph.
    """
    sides = [[context for name in names for context in
              [context for context in merged.get(name, ()) if nodes_if_any(graph, context)] or [name]]
             for names in (train, test)]
    known = all(sides) and all(nodes_if_any(graph, context) for context in (*sides[0], *sides[1]))
    return distance(graph, *sides) if known else None


# A ladder: training sets of one class at growing distance from a test subset.

class Rung(NamedTuple):
    """A training set: its subset, its distance to the test subset, its items outside the test subset."""

    subset: str
    distance: float
    items: int


def ladder(
    collection: Collection, test: str, k: int = 4, *, items: int = 100, contexts: int = 2, threshold: float = 0.1,
    min_size: int = 25, kinds: tuple[str, ...] = ("object",), merge: bool = False,
) -> list[Rung]:
    """Propose k training sets for the class of `test`, from near to far, as evenly spread as the graph allows.

    A training set is a union of `contexts` subsets of one community (the paper: two, `dog(cabinet + bed)`) with at
    least `items` items that are not in the test subset; with `merge`, a union of `contexts` whole communities,
    each called by its largest subset, and the test is the community of its subset (`merge = true` in a recipe). Of all
    of them, each rung takes the one whose distance is nearest to

        d_j = d_min + (d_max − d_min) j / (k − 1),   j = 0 … k − 1,

    with no context used twice.
    """
    if k < 1 or contexts < 1:
        raise ShiftBenchError(f"k = {k} and contexts = {contexts}, but a ladder has 1 training set or more, each of 1 "
                              "context or more.")
    cls, tested = parse_subset(test)
    graph = meta_graph(collection, cls, threshold=threshold, min_size=min_size, kinds=kinds)
    merged = merge_similar(graph, tested) if merge else {name: (name,) for name in (*graph.names, *tested)}
    inside = {name: sorted({node for context in merged[name] for node in nodes(graph, context)}) for name in merged}
    test_nodes = {node for name in tested for node in inside[name]}
    goal = mean_embedding(graph, [graph.names[node] for node in sorted(test_nodes)])
    test_items = np.unique(np.concatenate([union(collection, cls, merged[name])[0] for name in tested]))
    items_of = {name: np.setdiff1d(union(collection, cls, merged[name])[0], test_items)
                for name in merged if not test_nodes.intersection(inside[name])}
    choices: list[tuple[float, int, tuple[str, ...]]] = []
    for group in combinations(items_of, contexts):
        group_nodes = [node for name in group for node in inside[name]]
        if not merge and len({int(graph.communities[node]) for node in group_nodes}) > 1:
            continue
        n = len(np.unique(np.concatenate([items_of[name] for name in group])))
        if n >= items:
            middle = mean_embedding(graph, [graph.names[node] for node in group_nodes])
            choices.append((float(np.linalg.norm(middle - goal)), n, group))
    rungs: list[Rung] = []
    used: set[str] = set()
    choices.sort()
    for step in range(k):
        free = [choice for choice in choices if not used.intersection(choice[2])]
        if not free:
            raise ShiftBenchError(f"Class '{cls}' has {len(rungs)} training sets of {contexts} contexts with {items} "
                                  f"items outside '{test}', but k = {k} are asked for. Lower k, items or contexts.")
        wanted = choices[0][0] + (choices[-1][0] - choices[0][0]) * step / max(k - 1, 1)
        far, n, group = min(free, key=lambda choice: (abs(choice[0] - wanted), choice[2]))
        used.update(group)
        rungs.append(Rung(subset_name(cls, group), far, n))
    return sorted(rungs, key=lambda rung: rung.distance)
