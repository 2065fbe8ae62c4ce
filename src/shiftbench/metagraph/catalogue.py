"""All classes of a collection at once: every candidate subset and every edge, in one pass over the items.

MetaShift keeps subsets of at least 25 items and classes of more than 5 subsets; on Visual Genome that made 12,868
subsets of 410 classes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.arrays import Bools, Ints
from shiftbench.collection import Collection, Tags
from shiftbench.errors import ShiftBenchError
from shiftbench.metagraph.contexts import Vocabulary, possible, spell, vocabulary
from shiftbench.metagraph.overlaps import Counts, Edges, Plan, add_sizes, edges, incidence, plan


class Catalogue(NamedTuple):
    """The meta-graphs of many classes as columns.

    Class k is `classes[k]`. Its subsets stand at `room.first[k]:room.first[k + 1]` of `room.context` (the tag) and
    `sizes` (the number of items), its edges at `edges.start[k]:edges.start[k + 1]`.
    """

    classes: tuple[str, ...]
    sizes: Ints
    room: Plan
    edges: Edges


def catalogue(
    collection: Collection,
    *,
    class_kind: str = "object",
    kinds: Sequence[str] = (),
    min_size: int = 25,
    more_than: int = 5,
    threshold: float = 0.1,
) -> Catalogue:
    """The meta-graph of every tag of one kind that has more than `more_than` subsets of at least `min_size` items."""
    tags, words = collection.tags, vocabulary(collection.tags)
    codes = np.asarray([code for code, kind in enumerate(tags.kinds) if kind == class_kind and not words.owner[code]],
                       np.int64)
    table = incidence(tags.item, tags.tag, len(collection), len(tags.names), codes)
    sizes: Counts = np.zeros((len(codes), len(tags.names)), np.int32)
    add_sizes(table, sizes)
    kept = kept_contexts(tags, words, codes, sizes, kinds, min_size)
    enough = kept.sum(axis=1) > more_than
    if not enough.any():
        raise ShiftBenchError(f"No tag of kind '{class_kind}' in '{collection.name}' has more than {more_than} "
                              f"contexts with at least {min_size} items each. Lower min_size, or name another kind of "
                              f"class: {', '.join(sorted(set(tags.kinds)))}.")
    codes, sizes, kept = codes[enough], sizes[enough], kept[enough]
    room = plan(kept)
    table = incidence(tags.item, tags.tag, len(collection), len(tags.names), codes)
    names = tuple(tags.names[code] if words.answers[tags.names[code]] == 1 else f"{class_kind}:{tags.names[code]}"
                  for code in codes.tolist())
    return Catalogue(names, sizes[kept].astype(np.int64), room, edges(table, room, threshold))


def kept_contexts(
    tags: Tags, words: Vocabulary, codes: Ints, sizes: Counts, kinds: Sequence[str], min_size: int,
) -> Bools:
    """Which tag is a context of which class: large enough with it, not the class itself, no other class's attribute."""
    plain, of_class = possible(tags, words, kinds)
    allowed: Bools = np.tile(plain, (len(codes), 1))
    for row, code in enumerate(codes.tolist()):
        own = words.owned.get(tags.names[code], [])
        allowed[row, own] = of_class[own]
        allowed[row, code] = False
    return allowed & (sizes >= max(min_size, 1))


def subsets_of(found: Catalogue, collection: Collection, k: int) -> tuple[str, ...]:
    """The contexts of class number k as they are written."""
    codes = found.room.context[found.room.first[k]:found.room.first[k + 1]].astype(np.int64)
    return spell(collection.tags, vocabulary(collection.tags), found.classes[k], codes)


def summary(found: Catalogue, collection: Collection) -> dict[str, Any]:
    """The paper's summary of a collection of subsets (section 3, statistics)."""
    words = vocabulary(collection.tags)
    contexts = {(collection.tags.kinds[code], words.word[code]) for code in np.unique(found.room.context).tolist()}
    return {
        "classes": len(found.classes),
        "subsets": len(found.sizes),
        "contexts": len(contexts),
        "mean_size": float(np.mean(found.sizes)),
        "median_size": float(np.median(found.sizes)),
        "edges": len(found.edges.weight),
    }
