"""Subsets `class(context)`: how they are written, which items they hold, which of them a class has (MetaShift, step 1).

`dog(shelf)` holds the items that carry both tags, `dog(cabinet + bed)` is the union of two subsets, `dog` alone is the
whole class. A context is a tag of any kind.

Every tag is a context of every class but itself, with two exceptions. Tags of one class: `cat(black)` of kind attribute
says that the cat, and nothing else in the picture, is black; it is the context `black` of class cat and no context of
another class. And tags of kind subject: a class that is known from its own tags alone is no context, since an item
without it may still show it; all its tags `cat(…)`, of whatever kind, are its own. A context is spelled by its word
where that word means one tag, by kind and word (`attribute:glass`) where it means several, so that what is printed can
always be read back.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import listed
from shiftbench.data.collection import Collection, Tags

Codes = npt.NDArray[np.uint32]

ATTRIBUTE = "attribute"
SUBJECT = "subject"


class Vocabulary(NamedTuple):
    """Each tag's word, and the class that owns the tag; '' if no class does.

    `answers` counts the tags that a spelling means to any class; `owned` lists the own tags of each class.
    """

    owner: tuple[str, ...]
    word: tuple[str, ...]
    answers: Counter[str]
    owned: dict[str, list[int]]


def vocabulary(tags: Tags) -> Vocabulary:
    """The vocabulary of a collection's tags, made once and used for every class."""
    owner, word, owned = [], [], dict[str, list[int]]()
    subjects = _subjects(tags)
    for code, (name, kind) in enumerate(zip(tags.names, tags.kinds, strict=True)):
        cls, _, inner = name.partition("(")
        of_class = _is_own(name, kind, subjects)
        owner.append(cls if of_class else "")
        word.append(inner[:-1] if of_class else name)
        if of_class:
            owned.setdefault(cls, []).append(code)
    plain = [code for code, cls in enumerate(owner) if not cls]
    answers = Counter(name for name, kind in zip(tags.names, tags.kinds, strict=True) if kind != SUBJECT)
    answers.update(f"{tags.kinds[code]}:{word[code]}" for code in plain)
    return Vocabulary(tuple(owner), tuple(word), answers, owned)


def _subjects(tags: Tags) -> frozenset[str]:
    """Classes that are known from their own tags alone."""
    return frozenset(name for name, kind in zip(tags.names, tags.kinds, strict=True) if kind == SUBJECT)


def _is_own(name: str, kind: str, subjects: frozenset[str]) -> bool:
    """Whether a tag `class(word)` says something of that class alone."""
    cls, bracket, inner = name.partition("(")
    return (bool(cls and bracket) and inner.endswith(")") and len(inner) > 1
            and kind != SUBJECT and (kind == ATTRIBUTE or cls in subjects))


def allowed_contexts(tags: Tags, words: Vocabulary, kinds: Sequence[str] = ()) -> tuple[Bools, Bools]:
    """For each tag, whether it may be a context of every class, and of the class whose own it is."""
    for kind in kinds:
        if kind not in tags.kinds:
            raise unknown("kind", kind, set(tags.kinds), where="Contexts")
    wanted = np.asarray([kind in kinds if kinds else kind != SUBJECT for kind in tags.kinds], np.bool_)
    plain = np.asarray([not owner for owner in words.owner], np.bool_)
    return wanted & plain, wanted & ~plain


def contexts_of(tags: Tags, words: Vocabulary, cls: str, kinds: Sequence[str] = ()) -> Bools:
    """Whether each tag may be a context of this class."""
    codes = tags.codes(cls)
    allowed, of_class = allowed_contexts(tags, words, kinds)
    for name in {tags.names[code] for code in codes}:
        owned = words.owned.get(name, [])
        allowed[owned] = of_class[owned]
    allowed[codes] = False
    return allowed


def spell(tags: Tags, words: Vocabulary, cls: str, codes: Ints) -> tuple[str, ...]:
    """The spelling of each context of a class: the shortest that is unique to this tag."""
    classes = {tags.names[code] for code in tags.codes(cls)}
    answers = Counter(
        spelling for name in classes for code in words.owned.get(name, [])
        for spelling in (words.word[code], f"{tags.kinds[code]}:{words.word[code]}"))
    spelled = []
    for code in codes.tolist():
        name, kind, word = tags.names[code], tags.kinds[code], words.word[code]
        options = (word, f"{kind}:{word}") if words.owner[code] in classes or not words.owner[code] else ()
        spelled.append(next((text for text in options if words.answers[text] + answers[text] == 1), name))
    return tuple(spelled)


def resolve(tags: Tags, cls: str, context: str) -> list[int]:
    """The tags that a context's spelling means for a class; empty when there is none."""
    classes, subjects = {tags.names[code] for code in tags.codes(cls)}, _subjects(tags)
    wanted_kind, _, word = context.partition(":")
    spelled, of_kind = {f"{name}({context})" for name in classes}, {f"{name}({word})" for name in classes}
    return [code for code, (name, kind) in enumerate(zip(tags.names, tags.kinds, strict=True))
            if (name == context and kind != SUBJECT)
            or (wanted_kind and name == word and kind == wanted_kind != SUBJECT)
            or ((name in spelled or (name in of_kind and kind == wanted_kind)) and _is_own(name, kind, subjects))]


def no_context(tags: Tags, cls: str, context: str) -> ShiftBenchError:
    """The error for a context that is not there, with the nearest one that is."""
    hint = f" A union is written with spaces: {cls}({context.replace('+', ' + ')})." if "+" in context else ""
    words = vocabulary(tags)
    known = spell(tags, words, cls, np.flatnonzero(contexts_of(tags, words, cls)))
    return ShiftBenchError(f"{unknown('context', context, known, where=f'Class {cls!r}')}{hint}")


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


def parse_subset(name: str) -> tuple[str, tuple[str, ...]]:
    """The class and the contexts of a subset's name; no context means the whole class.

    >>> parse_subset("dog(cabinet + bed)")
    ('dog', ('cabinet', 'bed'))
    >>> parse_subset("dog")
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


def subset_name(cls: str, contexts: Iterable[str]) -> str:
    """The name of a subset, the reverse of `parse_subset`.

    >>> subset_name("dog", ["cabinet", "bed"])
    'dog(cabinet + bed)'
    """
    inside = " + ".join(contexts)
    return f"{cls}({inside})" if inside else cls


def subset(collection: Collection, name: str) -> Ints:
    """The numbers of the items of a subset, sorted; none when the context is known but never seen with the class."""
    tags = collection.tags
    cls, contexts = parse_subset(name)
    subjects = _subjects(tags)
    if any(tag == name.strip() and not _is_own(tag, kind, subjects)
           for tag, kind in zip(tags.names, tags.kinds, strict=True)):
        cls, contexts = name.strip(), ()  # a class, maybe with brackets in its own name
    members = collection.with_tag(cls)
    if not contexts:
        return members
    codes = resolve(tags, cls, " + ".join(contexts))  # a tag with a plus in its own name comes before a union
    if not codes:
        for context in contexts:
            matches = resolve(tags, cls, context)
            if not matches:
                raise no_context(tags, cls, context)
            codes += matches
    wanted: Bools = np.zeros(len(tags.names), np.bool_)
    wanted[codes] = True
    carrying: Bools = np.zeros(len(collection), np.bool_)
    carrying[tags.item[wanted[tags.tag]]] = True
    return members[carrying[members]]


def union(collection: Collection, cls: str, contexts: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """The items of a merged subset, sorted, and those of its contexts that no item of the collection carries.

    A published list of contexts may name some that a smaller collection lacks; where it has none of them, the first is
    an error.
    """
    lacking = tuple(context for context in contexts if not resolve(collection.tags, cls, context))
    rows = [subset(collection, subset_name(cls, [context])) for context in contexts if context not in lacking]
    if not rows:
        raise no_context(collection.tags, cls, contexts[0])
    return np.unique(np.concatenate(rows)), lacking


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
        names=tuple(names[number] for number in order),
        sizes=sizes[codes[order]],
        items=items,
        start=np.searchsorted(row, np.arange(len(items) + 1)).astype(np.int64),
        context=context[by_item].astype(np.uint32),
    )


# MetaShift's contexts beyond objects: general ones (appendix A.1.1) and attributes (A.1.2), as the paper lists them.
#
# `paper_contexts` keeps the places, weather words and attributes that the paper uses; objects stay as they are.

GENERAL = {
    "indoor/outdoor": ("indoors", "outdoors"),
    "weather": ("clear", "overcast", "cloudless", "cloudy", "sunny", "foggy", "rainy"),
    "room": ("bedroom", "kitchen", "bathroom", "living room"),
    "place": (
        "road", "sidewalk", "field", "beach", "park", "grass", "farm", "ocean", "pavement", "lake", "street",
        "train station", "hotel room", "church", "restaurant", "forest", "path", "display", "store", "river", "yard",
        "snow", "airport", "parking lot"),
}
"""The 37 general contexts."""

ATTRIBUTES = {
    "darkness": ("dark", "bright"), "dryness": ("wet", "dry"), "colorful": ("colorful", "shiny"),
    "leaf": ("leafy", "bare"), "emotion": ("happy", "calm"), "sports": ("baseball", "tennis"),
    "flatness": ("flat", "curved"), "lightness": ("light", "heavy"), "gender": ("male", "female"),
    "width": ("wide", "narrow"), "depth": ("deep", "shallow"), "hardness": ("hard", "soft"),
    "cleanliness": ("clean", "dirty"), "switch": ("on", "off"), "thickness": ("thin", "thick"),
    "openness": ("open", "closed"), "height": ("tall", "short"), "length": ("long", "short"),
    "fullness": ("full", "empty"), "age": ("young", "old"), "size": ("large", "small"),
    "pattern": ("checkered", "striped", "dress", "dotted"),
    "shape": ("round", "rectangular", "triangular", "square"),
    "activity": (
        "waiting", "staring", "drinking", "playing", "eating", "cooking", "resting", "sleeping", "posing", "talking",
        "looking down", "looking up", "driving", "reading", "brushing teeth", "flying", "surfing", "skiing", "hanging"),
    "pose": ("walking", "standing", "lying", "sitting", "running", "jumping", "crouching", "bending", "smiling",
             "grazing"),
    "material": ("wood", "plastic", "metal", "glass", "leather", "porcelain", "concrete", "paper", "stone", "brick"),
    "color": (
        "white", "red", "black", "green", "silver", "gold", "khaki", "gray", "dark", "pink", "dark blue", "dark brown",
        "blue", "yellow", "tan", "brown", "orange", "purple", "beige", "blond", "brunette", "maroon", "light blue",
        "light brown"),
}
"""The 114 object attributes by what they describe, less a second leather; `dark` and `short` stand under two heads."""

_GENERAL = frozenset(word for words in GENERAL.values() for word in words)
_ATTRIBUTES = frozenset(word for words in ATTRIBUTES.values() for word in words)


def paper_contexts(collection: Collection) -> Collection:
    """The collection without the places, weather words and attributes that the paper does not use as contexts."""
    tags = collection.tags
    keep = np.asarray([_in_paper(name, kind) for name, kind in zip(tags.names, tags.kinds, strict=True)], np.bool_)
    rows = keep[tags.tag]
    boxed = rows[tags.box_row] if len(tags.box_row) else np.zeros(0, np.bool_)
    number = np.cumsum(rows) - 1
    kept = Tags(
        item=tags.item[rows], tag=(np.cumsum(keep) - 1)[tags.tag[rows]], area=tags.area[rows],
        names=tuple(name for name, stays in zip(tags.names, keep, strict=True) if stays),
        kinds=tuple(kind for kind, stays in zip(tags.kinds, keep, strict=True) if stays),
        box_row=number[tags.box_row[boxed]], boxes=tags.boxes[boxed],
    )
    return replace(collection, tags=kept)


def _in_paper(name: str, kind: str) -> bool:
    if kind in ("place", "weather"):
        return name in _GENERAL
    return (kind != "attribute" and kind not in ATTRIBUTES) or name.partition("(")[2].removesuffix(")") in _ATTRIBUTES
