"""All classes of a collection at once: every candidate subset and every edge, in one pass over the items.

MetaShift keeps subsets of at least 25 items and classes of more than 5 subsets; on Visual Genome that made 12,868
subsets of 410 classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.data.tags import Tags
from shiftbench.metagraph.overlaps import (
    Counts,
    Edges,
    Plan,
    Runs,
    add_sizes,
    counting_order,
    edges,
    incidence,
    joined,
    mirrored,
    offsets,
    plan,
    runs_of,
)
from shiftbench.metagraph.subsets import SUBJECT, Vocabulary, allowed_contexts, vocabulary


@dataclass(frozen=True)
class Terms:
    """When a tag is a class, when it makes a subset of one, and when two subsets are joined by an edge.

    A class is a tag of kind `class_kind` ('': objects and subjects) with more than `more_than` subsets; a
    subset has at least `min_size` items and a context of one of `kinds`, () meaning all; an edge is an overlap of at
    least `threshold`.
    """

    class_kind: str = ""
    kinds: tuple[str, ...] = ()
    min_size: int = 25
    more_than: int = 5
    threshold: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ShiftBenchError(f"The threshold of a meta-graph is an overlap between 0 and 1, not {self.threshold}.")


class Catalogue(NamedTuple):
    """The meta-graphs of many classes as columns.

    Class k is `classes[k]` with `items[k]` items. Its subsets stand at `first[k]:first[k + 1]` of `context` (the tag)
    and `sizes` (the number of items), its edges at `edges.start[k]:edges.start[k + 1]`.
    """

    classes: tuple[str, ...]
    items: Ints
    first: Ints
    context: Ints
    sizes: Ints
    edges: Edges


class Draft(NamedTuple):
    """A catalogue before its edges are known: the order and the plan of counting, and which classes will be in it."""

    order: Ints
    room: Plan
    classes: Ints
    items: Ints


def catalogue(collection: Collection, terms: Terms | None = None) -> Catalogue:
    """The meta-graph of every class of a collection in memory; `stream.py` does the same from disk."""
    terms, tags = terms or Terms(), collection.tags
    classes = may_be_classes(tags, terms)
    order = counting_order(classes, len(tags.names), np.bincount(tags.tag, minlength=len(tags.names)))
    table = incidence(runs_of(tags.item), tags.tag, order)
    sizes: Counts = np.zeros((len(classes), len(order)), np.int32)
    add_sizes(table, sizes)
    outline = draft(collection.name, tags, terms, order, mirrored(sizes))
    return finished(tags, terms, outline, edges(table, outline.room, terms.threshold))


def may_be_classes(tags: Tags, terms: Terms) -> Ints:
    """The tags of the asked kind, without attributes of classes."""
    if terms.class_kind and terms.class_kind not in tags.kinds:
        raise unknown("kind", terms.class_kind, set(tags.kinds), where="Classes")
    kinds = (terms.class_kind,) if terms.class_kind else ("object", SUBJECT)
    owner = vocabulary(tags).owner
    return np.asarray([code for code, kind in enumerate(tags.kinds) if kind in kinds and not owner[code]],
                      np.int64)


def draft(name: str, tags: Tags, terms: Terms, order: Ints, sizes: Counts) -> Draft:
    """Choose classes and subsets by their sizes and plan the counting of overlaps."""
    classes = order[:len(sizes)]
    kept = kept_contexts(tags, vocabulary(tags), order, sizes, terms)
    enough = kept.sum(axis=1) > terms.more_than
    if not enough.any():
        of_kind = f" of kind '{terms.class_kind}'" if terms.class_kind else ""
        if not tags.names:
            raise ShiftBenchError(f"Collection '{name}' has no tags, and a meta-graph is made of tags. Read it from "
                                  "annotations of what is in each image: coco, gqa or metashift.")
        others = sorted(set(tags.kinds) - {terms.class_kind})
        also = f", or name another kind of class: {', '.join(others)}" if others else ""
        raise ShiftBenchError(f"No tag{of_kind} in '{name}' has more than {terms.more_than} contexts with at least "
                              f"{terms.min_size} items each. Lower min_size{also}.")
    kept &= enough[:, None]
    rows = np.flatnonzero(enough)[np.argsort(classes[enough])]
    return Draft(order, plan(sizes, kept, terms.threshold), rows, sizes[rows, rows].astype(np.int64))


def finished(tags: Tags, terms: Terms, draft: Draft, runs: Sequence[Runs]) -> Catalogue:
    """The catalogue: tags by their codes, classes and contexts in the order of the codes."""
    codes, words = draft.order[draft.classes], vocabulary(tags)
    held = np.empty((len(codes), len(draft.order)), np.int32)
    held[:, draft.order] = draft.room.held[draft.classes]
    names = tuple(tags.names[code] if words.answers[tags.names[code]] == 1 else f"{tags.kinds[code]}:{tags.names[code]}"
                  for code in codes.tolist())
    return Catalogue(names, draft.items, offsets(np.count_nonzero(held, axis=1)), np.nonzero(held)[1],
                     held[held > 0].astype(np.int64), joined(runs, draft.order, codes))


def kept_contexts(tags: Tags, words: Vocabulary, order: Ints, sizes: Counts, terms: Terms) -> Bools:
    """Which tag is a context of which class: large enough with it, not the class itself, no other class's attribute."""
    plain, of_class = allowed_contexts(tags, words, terms.kinds)
    rank: Ints = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    kept = sizes >= max(terms.min_size, 1)
    large = kept.copy() if words.owned else kept
    kept &= plain[order]
    for row, code in enumerate(order[:len(sizes)].tolist()):
        own = words.owned.get(tags.names[code], [])
        kept[row, rank[own]] = large[row, rank[own]] & of_class[own]
        kept[row, row] = False
    return kept


def summary(graphs: Catalogue, tags: Tags) -> dict[str, Any]:
    """The paper's summary of a collection of subsets (section 3, statistics)."""
    words = vocabulary(tags)
    contexts = {(tags.kinds[code], words.word[code]) for code in np.unique(graphs.context).tolist()}
    return {
        "classes": len(graphs.classes),
        "subsets": len(graphs.sizes),
        "contexts": len(contexts),
        "mean_size": float(np.mean(graphs.sizes)),
        "median_size": float(np.median(graphs.sizes)),
        "edges": len(graphs.edges.weight),
    }
