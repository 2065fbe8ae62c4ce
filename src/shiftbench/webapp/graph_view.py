"""The meta-graph of a class, and the shift that a person makes by putting its subsets into train and test."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.metagraph.graph import MetaGraph, distance, distances, heaviest, layout, mean_distance, meta_graph
from shiftbench.metagraph.picture import DRAWN, sample_rows
from shiftbench.metagraph.subsets import SUBJECT, parse_subset, subset, subset_name
from shiftbench.shifts.shift import ambiguous, differences
from shiftbench.webapp.design_view import BY_HAND, commands_of, first_collection, outcome
from shiftbench.webapp.forms import Form, class_tags, label_values
from shiftbench.webapp.item_view import opened, pictures
from shiftbench.webapp.studio import Answer, Query, Studio, request

TERMS = ("on", "cls", "kinds", "threshold", "min_size")
"""Parameters of the graph itself; the page requests it again only when one of these changes."""
PUT = ("train", "test", "at", "n_train", "n_ood", "seed")
"""Parameters of the two sides that subsets are put on."""
EDGES = 2000
"""The strongest edges are drawn. A browser is too slow with more lines than that."""
LISTED = 2000
"""Subsets in the list beside the graph, largest first."""


class Terms(NamedTuple):
    """Which meta-graph a view is about."""

    on: str
    cls: str
    threshold: float
    min_size: int
    kinds: tuple[str, ...]

    @staticmethod
    def of(studio: Studio, query: Query, collection: Collection) -> "Terms":
        """From the address. Without kinds they are those of the shift `subset`: objects, where there are any."""
        kinds = tuple(query.names("kinds")) if "kinds" in query else (
            ("object",) if "object" in collection.tags.kinds else ())
        cls = query.text("cls") or next(iter(class_tags(studio, collection)), "")
        return Terms(first_collection(studio, query), cls, query.number("threshold", 0.1),
                     query.whole("min_size", 25, low=1), kinds)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of `subset` that give the same graph."""
        return {"threshold": self.threshold, "min_size": self.min_size, "kinds": list(self.kinds)}


class Laid(NamedTuple):
    """A meta-graph and where its largest subsets are drawn, in the unit square."""

    graph: MetaGraph
    drawn: MetaGraph
    points: Floats


def laid_out(studio: Studio, collection: Collection, terms: Terms) -> Laid:
    def compute() -> Laid:
        graph = meta_graph(collection, terms.cls, threshold=terms.threshold, min_size=terms.min_size,
                           kinds=terms.kinds)
        drawn = heaviest(graph, DRAWN)
        return Laid(graph, drawn, layout(drawn.weights))

    return studio.once(("meta-graph", collection.digest, *terms[1:]), compute)


def graph(studio: Studio, query: Query) -> Mapping[str, Any]:
    """Subsets with size, community and position; overlaps as edges, strongest first."""
    on = first_collection(studio, query)
    collection = studio.shelf.collection(on)
    terms = Terms.of(studio, query, collection)
    class_sizes = class_tags(studio, collection)
    if not class_sizes:
        raise ShiftBenchError(f"{on}: has no tags, so its classes have no subsets. The shift designer works with "
                              "its factors.")
    try:
        whole, drawn, points = laid_out(studio, collection, terms)
    except ShiftBenchError as problem:
        return {**_choices(studio, terms, class_sizes, collection), "problem": str(problem)}
    order = np.argsort(-whole.sizes, kind="stable")[:LISTED].tolist()
    positions = dict(zip(drawn.names, points.round(4).tolist(), strict=True))
    starts, ends = np.nonzero(np.triu(drawn.weights, 1))
    strongest = np.argsort(-drawn.weights[starts, ends], kind="stable")[:EDGES]
    rank = {name: number for number, name in enumerate(whole.names[node] for node in order)}
    return {
        **_choices(studio, terms, class_sizes, collection), "problem": "",
        "subsets": [{"name": whole.names[node], "size": int(whole.sizes[node]),
                     "community": int(whole.communities[node]), "at": positions.get(whole.names[node])}
                    for node in order],
        "edges": [[rank[drawn.names[a]], rank[drawn.names[b]], round(float(drawn.weights[a, b]), 6)]
                  for a, b in zip(starts[strongest].tolist(), ends[strongest].tolist(), strict=True)],
        "total": len(whole), "total_edges": whole.edges, "communities": int(whole.communities.max()) + 1,
        "note": _note(whole, drawn, len(starts)), "command": _command(studio, terms),
        "also": [*_also(query, terms), *opened(studio, on, query.text("item"))],
    }


def _also(query: Query, terms: Terms) -> list[str]:
    """What the page asks next: the same graph without its sides, the sides, and items of what is chosen."""
    here = {**query, "on": terms.on, "cls": terms.cls}
    chosen = subset_name(terms.cls, [query.text("at")] if query.text("at") else [])
    return [request("graph", **{key: query.text(key) for key in TERMS}), request("look", on=terms.on),
            request("sides", **{key: here.get(key, "") for key in (*TERMS, *PUT)}),
            request("samples", on=terms.on, subset=chosen)]


def _choices(studio: Studio, terms: Terms, class_sizes: Mapping[str, int], collection: Collection) -> dict[str, Any]:
    """The choices, and what is chosen."""
    kinds = sorted(set(collection.tags.kinds) - {SUBJECT})
    return {"on": terms.on, "collections": [thing.id for thing in studio.shelf.things("collection")],
            "cls": terms.cls, "classes": _classes(studio, terms, class_sizes, collection), "all_kinds": kinds,
            "edit": studio.edit, **terms.settings}


def _classes(studio: Studio, terms: Terms, class_sizes: Mapping[str, int], collection: Collection) -> list[list[Any]]:
    """Classes with as many items as a subset needs, and the chosen one: values of a label, then other tags, by size."""
    values = label_values(Form(studio, collection))
    large = sorted({(name, n) for name, n in class_sizes.items() if n >= terms.min_size} | {
        (terms.cls, class_sizes.get(terms.cls, 0))}, key=lambda pair: (-pair[1], pair[0]))
    return [["classes", [pair for pair in large if pair[0] in values]],
            ["other tags", [pair for pair in large if pair[0] not in values]]]


def _note(whole: MetaGraph, drawn: MetaGraph, edges: int) -> str:
    notes = []
    if len(whole) > len(drawn):
        notes.append(f"The {len(drawn)} largest of {len(whole):,} subsets are drawn.")
    if edges > EDGES:
        notes.append(f"The {EDGES:,} strongest of {edges:,} overlaps are drawn.")
    if len(whole) > LISTED:
        notes.append(f"The {LISTED:,} largest are listed.")
    return " ".join(notes)


def _command(studio: Studio, terms: Terms, origin: str = "") -> str:
    words = ["shiftbench", "graph", str(studio.shelf.find("collection", terms.on).path), "--class", terms.cls,
             *([] if terms.threshold == 0.1 else ["--threshold", f"{terms.threshold:g}"]),
             *([] if terms.min_size == 25 else ["--min-size", str(terms.min_size)]),
             *(word for kind in terms.kinds for word in ("--kind", kind)), *(["--from", origin] if origin else [])]
    return shlex.join(words)


def sides(studio: Studio, query: Query) -> Mapping[str, Any]:
    """Subsets put into train and test: their distances, items, leakage and tags, and what the recipe builds."""
    collection = studio.shelf.collection(first_collection(studio, query))
    terms = Terms.of(studio, query, collection)
    train, test = (_by_class(query.names(side)) for side in ("train", "test"))
    origin = test.get(terms.cls) or ([query.text("at")] if query.text("at") else [])
    try:
        whole = laid_out(studio, collection, terms).graph
        far = dict(zip(whole.names, distances(whole, origin).tolist(), strict=True)) if origin else {}
        problem = ""
    except ShiftBenchError as error:
        far, problem = {}, str(error)
    answer = {
        "cls": terms.cls, "from": subset_name(terms.cls, origin) if far else "", "distances": far, "problem": problem,
        "command": _command(studio, terms, subset_name(terms.cls, origin) if far else ""),
        "sides_command": studio.command("sides", **query),
        "classes": [_side(studio, collection, terms._replace(cls=cls), train.get(cls), test.get(cls))
                    for cls in dict.fromkeys((*train, *test))],
    }
    return answer | _together(studio, query, collection, terms, train, test) if train or test else answer


def _together(
    studio: Studio, query: Query, collection: Collection, terms: Terms, train: Mapping[str, list[str]],
    test: Mapping[str, list[str]],
) -> dict[str, Any]:
    """Both sides as wholes, the recipe, and what it builds; or why it cannot be built yet."""
    on_train, on_test = (_union(collection, side) for side in (train, test))
    settings = {"train": _names(train), "test": _names(test), **terms.settings,
                "n_train": query.whole("n_train", 0), "n_ood": query.whole("n_ood", 0)}
    facts: dict[str, Any] = {
        "items": {"train": len(on_train), "test": len(on_test), "both": len(np.intersect1d(on_train, on_test)),
                  "ambiguous": len(np.intersect1d(ambiguous(collection, list(dict.fromkeys((*train, *test)))),
                                                  np.union1d(on_train, on_test)))},
        "differences": differences(collection, np.setdiff1d(on_train, on_test), on_test)
        if len(on_train) and len(on_test) else [],
        "settings": settings, "seed": query.whole("seed", 0),
    }
    built, recipe = outcome(studio, terms.on, BY_HAND, settings, {}, query.whole("seed", 0))
    facts |= {"built": built, "recipe": recipe}
    return facts | ({"commands": commands_of("my-subsets")} if recipe else {})


def _side(
    studio: Studio, collection: Collection, terms: Terms, train: Sequence[str] | None, test: Sequence[str] | None
) -> dict[str, Any]:
    """One class: its training against its test subsets. An empty list is the whole class, None is nothing."""
    rows = [_union(collection, {} if contexts is None else {terms.cls: contexts}) for contexts in (train, test)]
    far: dict[str, Any] = {"distance": None, "mean_distance": None}
    if train and test:
        try:
            whole = laid_out(studio, collection, terms).graph
            far = {"distance": distance(whole, train, test), "mean_distance": mean_distance(whole, train, test)}
        except ShiftBenchError as problem:
            far["why"] = str(problem)
    return {"cls": terms.cls, "train": list(train or ()), "test": list(test or ()), "train_items": len(rows[0]),
            "test_items": len(rows[1]), "both": len(np.intersect1d(rows[0], rows[1])), **far}


def _by_class(names: Sequence[str]) -> dict[str, list[str]]:
    """Class -> its contexts, each once, in the order in which they were chosen."""
    contexts: dict[str, list[str]] = {}
    for name in names:
        cls, inside = parse_subset(name)
        contexts[cls] = list(dict.fromkeys((*contexts.get(cls, ()), *inside)))
    return contexts


def _names(side: Mapping[str, Sequence[str]]) -> list[str]:
    return [subset_name(cls, contexts) for cls, contexts in side.items()]


def _union(collection: Collection, side: Mapping[str, Sequence[str]]) -> Ints:
    """The items of one side, each once."""
    rows = [subset(collection, subset_name(cls, [context] if context else []))
            for cls, contexts in side.items() for context in contexts or [""]]
    return np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.int64)


def samples(studio: Studio, query: Query) -> Mapping[str, Any]:
    """Sample items of a subset, with pictures if there are any."""
    collection = studio.shelf.collection(query.text("on"))
    name = query.text("subset")
    rows = sample_rows(collection, name, 0)
    if not len(rows):
        rows = subset(collection, name)[:8]
    return {"subset": name, "items": [{"row": int(row), "id": str(collection.items[row])} for row in rows.tolist()],
            "also": pictures(studio, query.text("on"), rows.tolist())}


ANSWERS: dict[str, Answer] = {"graph": graph, "sides": sides, "samples": samples}
