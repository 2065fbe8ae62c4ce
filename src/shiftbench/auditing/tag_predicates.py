"""Predicates of what items carry: tags and their areas, classes of a hierarchy, communities of a meta-graph."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from shiftbench.auditing.cut_points import Interval
from shiftbench.auditing.predicates import Draft, Predicate, has_tag, is_kind_of
from shiftbench.core.arrays import Ints, Values, Words, encode, in_short
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.data.tags import Tags

MOST_TAGS = 60
MOST_CLASSES = 40
MOST_GRAPHS, MIN_SIZE = 5, 25
"""Meta-graphs whose communities are predicates, and the fewest items of their subsets."""
COMMUNITY = "which:community="
"""How the column of a community begins; its tags follow, with + between them."""
Parents = Mapping[str, Sequence[str]]


def add_tags(draft: Draft, items: Collection) -> None:
    """Predicates of tags: that an item has it or not, and whether it covers much of the image or little.

    Of more than MOST_TAGS tags some are chosen, as among the values of a factor. A class of the hierarchy stands for
    all tags below it.
    """
    tags, words = items.tags, spelled(items.tags)
    wanted = np.asarray([draft.wants(f"has:{word}") for word in words], np.bool_)
    size = np.bincount(tags.tag, minlength=len(words))
    wanted &= (size >= draft.least) & (size <= len(items) - draft.least)
    kept, number = wanted[tags.tag], np.cumsum(wanted) - 1
    chosen = draft.choose(tags.item[kept], number[tags.tag[kept]], int(wanted.sum()), MOST_TAGS)
    if len(chosen) < wanted.sum():
        draft.notes.append(f"{len(chosen)} of {int(wanted.sum()):,} tags form groups: half the most frequent, half "
                           "those whose loss differs most.")
    for tag in np.flatnonzero(wanted)[chosen].tolist():
        rows, code = np.flatnonzero(tags.tag == tag), draft.code()
        _add(draft, words[tag], "tag", tags.item[rows], code)
        if draft.wants(f"area:{words[tag]}"):
            _add_areas(draft, words[tag], tags.item[rows], tags.area[rows].astype(np.float64), code)
    _add_tag_classes(draft, items)


def spelled(tags: Tags) -> list[str]:
    """Each tag by its name, with its kind where several kinds have the name: place:grass."""
    times = Counter(tags.names)
    return [name if times[name] == 1 else f"{kind}:{name}" for name, kind in zip(tags.names, tags.kinds, strict=True)]


def _add(draft: Draft, name: str, kind: str, item: Ints, code: int) -> None:
    mask = np.zeros(draft.n, np.bool_)
    mask[item] = True
    draft.add(has_tag(name, kind=kind), mask, code)
    draft.add(has_tag(name, yes=False, kind=kind), ~mask, code)


def _add_areas(draft: Draft, name: str, item: Ints, area: Values, code: int) -> None:
    """Whether a tag covers less than the median of its areas, or more; nothing where areas are unknown or all equal."""
    known = np.isfinite(area)
    if not known.any() or np.ptp(area[known]) == 0:
        return
    middle = float(f"{np.median(area[known]):.2g}")
    for half in (Interval(0.0, middle), Interval(middle, np.inf)):
        mask = np.zeros(draft.n, np.bool_)
        mask[item[half.holds(area)]] = True
        draft.add(covers(name, half), mask, code)


def covers(tag: str, area: Interval) -> Predicate:
    """That a tag covers a share of the image within an interval."""
    low, high = (f"{100 * end:.3g} %" for end in area)
    share = f"under {high}" if area.low <= 0 else f"at least {low}" if np.isposinf(area.high) else (
        f"{low} to under {high}")
    return Predicate(f"area:{tag}", share, "area", f"with {tag} on {share} of the image", *area)


def add_classes(draft: Draft, label: str, truth: Words, parents: Parents, code: int) -> None:
    """Predicates of the classes above the labels in a hierarchy: those that hold several labels, but not all."""
    codes, names = encode(truth)
    below = classes_above(names, parents, MOST_CLASSES, np.bincount(codes, minlength=len(names)))
    for name, labels in below.items():
        draft.add(is_kind_of(label, name), np.isin(codes, labels), code)


def _add_tag_classes(draft: Draft, items: Collection) -> None:
    tags = items.tags
    size = np.bincount(tags.tag, minlength=len(tags.names))
    for name, below in classes_above(tags.names, items.parents, MOST_CLASSES, size).items():
        if name not in tags.names and draft.wants(f"has:{name}"):
            _add(draft, name, "class", tags.item[np.isin(tags.tag, below)], draft.code())


def classes_above(names: Sequence[str], parents: Parents, most: int, size: Ints) -> dict[str, list[int]]:
    """The classes of a hierarchy that stand above several names, but not above all, and the numbers of these names.

    The `most` that are above most items, by `size` of each name. A cycle in the hierarchy does no harm.

    >>> classes_above(["cat", "dog", "car"], {"cat": ("animal",), "dog": ("animal",)}, 9, np.asarray([1, 2, 1]))
    {'animal': [0, 1]}
    """
    several = {node: numbers for node, numbers in names_below(names, parents).items() if 1 < len(numbers) < len(names)}
    largest = sorted(several, key=lambda node: (-int(size[several[node]].sum()), node))[:most]
    return {node: several[node] for node in largest}


def names_below(names: Sequence[str], parents: Parents) -> dict[str, list[int]]:
    """The numbers of the names that stand below each class of a hierarchy; classes above no name are left out."""
    below: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        above: set[str] = set()
        layer = {name}
        while layer:
            layer = {parent for child in layer for parent in parents.get(child, ())} - above - {name}
            above |= layer
        for node in sorted(above):
            below.setdefault(node, []).append(number)
    return below


# Communities of the meta-graph

def add_communities(draft: Draft, items: Collection, truth: Words) -> None:
    """Predicates of contexts that go together: any tag of one community of the meta-graph of a label that is a tag.

    Of the most frequent labels, MOST_GRAPHS at most. The column is a question about tags: which:community=bed+lamp.
    """
    codes, names = encode(truth)
    size = np.bincount(codes, minlength=len(names))
    labels = [names[code] for code in np.argsort(-size, kind="stable") if names[code] in items.tags.names]
    for label in labels[:MOST_GRAPHS]:
        for contexts in _communities(items, label, max(MIN_SIZE, draft.least)):
            column = f"{COMMUNITY}{'+'.join(contexts)}"
            if draft.wants(column):
                mask = items.factor(column) == "community"
                draft.add(Predicate(column, "community", "factor", with_any_of(contexts)), mask, draft.code())


def with_any_of(tags: Sequence[str]) -> str:
    """That an item has one of several tags, in words."""
    return f"with any of {in_short(tags, 4)}"


def _communities(items: Collection, label: str, least: int) -> list[list[str]]:
    """The communities of several contexts, by the names of their tags; none where a class has no context."""
    from shiftbench.metagraph.graph import meta_graph  # loads igraph

    try:
        graph = meta_graph(items, label, min_size=least)
    except ShiftBenchError:
        return []
    known = {name for name in items.tags.names if not set(name) & set("+|=")}
    groups = [[name for name in np.asarray(graph.names)[graph.communities == number].tolist() if name in known]
              for number in range(int(graph.communities.max(initial=-1)) + 1)]
    return [group for group in groups if len(group) > 1]
