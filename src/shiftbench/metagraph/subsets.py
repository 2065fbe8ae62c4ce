"""Subsets `class(context)`: how they are written, which items they hold, which of them a class has (MetaShift, step 1).

`dog(shelf)` holds the items that carry both tags, `dog(cabinet + bed)` is the union of two subsets, `dog` alone is the
whole class. A context is a tag of any kind; `contexts.py` says how contexts are spelled. An attribute of the class is
the tag `dog(black)` of kind attribute, which says that the dog, and nothing else in the picture, is black.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import listed
from shiftbench.data.collection import Collection
from shiftbench.metagraph.contexts import ATTRIBUTE, contexts_of, no_context, resolve, spell, vocabulary

Codes = npt.NDArray[np.uint32]


class Candidates(NamedTuple):
    """The candidate subsets of one class: context `names[c]` holds `sizes[c]` items.

    Membership is kept by item: item number `items[i]` lies in the contexts `context[start[i]:start[i + 1]]`, ascending.
    """

    cls: str
    names: tuple[str, ...]
    sizes: Ints
    items: Ints
    start: Ints
    context: Codes


def parse(name: str) -> tuple[str, tuple[str, ...]]:
    """The class and the contexts of a subset's name; no context means the whole class.

    >>> parse("dog(cabinet + bed)")
    ('dog', ('cabinet', 'bed'))
    >>> parse("dog")
    ('dog', ())
    """
    text = name.strip()
    depth, opening = 0, len(text)
    while opening > 0:  # back to the bracket that the last one closes: class and context may hold brackets of their own
        opening -= 1
        depth += {")": 1, "(": -1}.get(text[opening], 0)
        if depth == 0:
            break
    closed = text.endswith(")")
    cls = text[:opening].strip() if closed else text
    contexts = tuple(part.strip() for part in text[opening + 1:-1].split(" + ")) if closed else ()
    if not cls or not all(contexts) or (closed and depth != 0) or cls.count("(") != cls.count(")"):
        raise ShiftBenchError(f"'{name}' is not the name of a subset. Write class(context), as dog(shelf), a union as "
                              "dog(cabinet + bed), or the class alone.")
    return cls, contexts


def written(cls: str, contexts: Iterable[str]) -> str:
    """The name of a subset, the reverse of `parse`.

    >>> written("dog", ["cabinet", "bed"])
    'dog(cabinet + bed)'
    """
    inside = " + ".join(contexts)
    return f"{cls}({inside})" if inside else cls


def subset(collection: Collection, name: str) -> Ints:
    """The numbers of the items of a subset, sorted; none when the context is known but never seen with the class."""
    tags = collection.tags
    cls, contexts = parse(name)
    kinds = {kind for tag, kind in zip(tags.names, tags.kinds, strict=True) if tag == name.strip()}
    if kinds - {ATTRIBUTE}:
        cls, contexts = name.strip(), ()  # a class, maybe with brackets in its own name
    members = collection.with_tag(cls)
    if not contexts:
        return members
    codes = resolve(tags, cls, " + ".join(contexts))  # a tag with a plus in its own name comes before a union
    if not codes:
        for context in contexts:
            found = resolve(tags, cls, context)
            if not found:
                raise no_context(tags, cls, context)
            codes += found
    wanted: Bools = np.zeros(len(tags.names), np.bool_)
    wanted[codes] = True
    carrying: Bools = np.zeros(len(collection), np.bool_)
    carrying[tags.item[wanted[tags.tag]]] = True
    return members[carrying[members]]


def candidates(collection: Collection, cls: str, *, kinds: Sequence[str] = (), min_size: int = 25) -> Candidates:
    """Every subset `cls(context)` of at least `min_size` items, contexts in alphabetical order.

    `kinds` limits the contexts to tags of these kinds; () means all. The order is that of the names and not of the
    tags' codes, so that reading the same annotations in another order gives the same candidates.
    """
    tags, words = collection.tags, vocabulary(collection.tags)
    allowed = contexts_of(tags, words, cls, listed(kinds, ","))
    items = collection.with_tag(cls)
    rank: Ints = np.full(len(collection), -1)
    rank[items] = np.arange(len(items))
    row = rank[tags.item]
    row, code = row[row >= 0], tags.tag[row >= 0]
    sizes = np.bincount(code, minlength=len(tags.names)).astype(np.int64)
    codes = np.flatnonzero(allowed & (sizes >= max(min_size, 1)))
    names = spell(tags, words, cls, codes)
    order = np.argsort(np.asarray(names, np.str_), kind="stable")
    local: Ints = np.full(len(tags.names), -1)
    local[codes[order]] = np.arange(len(codes))
    kept = local[code] >= 0
    row, context = row[kept], local[code[kept]]
    by_item = np.lexsort((context, row))
    return Candidates(
        cls=cls,
        names=tuple(names[place] for place in order),
        sizes=sizes[codes[order]],
        items=items,
        start=np.searchsorted(row, np.arange(len(items) + 1)).astype(np.int64),
        context=context[by_item].astype(np.uint32),
    )
