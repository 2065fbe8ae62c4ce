"""The vocabulary of an audit: the predicates of all that is known about items.

Label and prediction, factors, numbers, dates, words of texts, missing values, tags and their areas, classes of a
hierarchy, communities of a meta-graph, clusters of features. What is left out is noted with its reason.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.auditing.clusters import add_clusters
from shiftbench.auditing.findings import count_items
from shiftbench.auditing.join import TableItems
from shiftbench.auditing.model_outputs import Column
from shiftbench.auditing.predicates import ALONE, COMMUNITY, Draft, Interval, Predicate, Predicates, intervals
from shiftbench.core.arrays import Bools, Floats, Ints, Values, Words, encode
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags
from shiftbench.data.questions import DATE, Dates, dates

PREDICTION, TEXT = "prediction", "text"
"""The columns of the predicted class and of the items' texts."""
BINS = 4
"""The quantile intervals of a column of numbers."""
MOST_DISTINCT, MOST_WORDS, MOST_TAGS, MOST_CLASSES = 10_000, 50, 60, 40
MOST_GRAPHS, MIN_SIZE = 5, 25
"""Meta-graphs whose communities are predicates, and the fewest items of their subsets."""
COMMON = 0.6
"""The share of texts from which on a word is taken for one that all texts have."""
STOP_WORDS = frozenset("""
about after again all also and any are because been before being but can could did does doing down for from had has have
having her here hers him his how into its just more most nor not now off once only other our out over own same she
should some such than that the their them then there these they this those through too under until very was were what
when where which while who whom why will with would you your""".split())  # noqa: SIM905
Parents = Mapping[str, Sequence[str]]


def predicates_of(
    items: Collection | TableItems, *, loss: Floats, explore: Bools, truth: Column | None = None, label: str = "label",
    predicted: Column | None = None, features: Floats | None = None, include: Sequence[str] = (),
    exclude: Sequence[str] = (), most_values: int = 20, least: int = 1,
) -> Predicates:
    """The predicates of the items of a collection, which have one `loss` each.

    `truth` is the value of the column `label` and `predicted` the predicted class, if items have them; `features` are
    embeddings of the items. Only losses of the items `explore` are looked at: for cut points of numbers, and to choose
    among more than `most_values` values.
    A predicted class stands alone: with what tells the label ("prediction is bus, without bus") it would be the error.
    """
    draft = Draft(loss, explore, least, include, exclude, most_values)
    truth, predicted = (None if column is None else coded(column) for column in (truth, predicted))
    if truth is not None and draft.wants(label):
        topic = Topic(label, "label", draft.code())
        add_column(draft, topic, truth)
        if isinstance(truth, Words):
            add_classes(draft, topic, truth, items.parents)
    if predicted is not None and draft.wants(PREDICTION):
        if isinstance(truth, Words) and len(truth.coded[1]) < 2:
            draft.leave_out(PREDICTION, "all items have the same label, so that the prediction is the error")
        else:
            add_column(draft, Topic(PREDICTION, "prediction", ALONE), predicted)
    for name in items.factors:
        if name not in (label, PREDICTION) and draft.wants(name):
            add_column(draft, Topic(name, "factor", draft.code()), items.factors[name])
    if isinstance(items, Collection):
        add_tags(draft, items)
        if isinstance(truth, Words) and len(items.tags.item):
            add_communities(draft, items, truth)
    if len(items.texts.item) and draft.wants(TEXT):
        add_words(draft, TEXT, items.texts.item, pa.array(items.texts.text, pa.string()))
    if features is not None:
        add_clusters(draft, features)
    return draft.finished()


# Columns

class Topic(NamedTuple):
    """What predicates are about: a column, their kind, and the code that keeps them from being combined."""

    name: str
    kind: str
    code: int


def coded(column: Column) -> Column:
    """A column with its words as codes: everything is a word but a number."""
    if isinstance(column, Words) or column.dtype.kind in "iuf":
        return column
    return Words.of_array(column if column.dtype.kind in "UO" else column.astype(np.str_))


def is_known(values: Column) -> Bools:
    """Where a column has a value: no empty word, no NaN, no infinity."""
    if isinstance(values, Words):
        return np.asarray(values.codes != values.of_word(""), np.bool_)
    if values.dtype.kind == "f":
        return np.asarray(np.isfinite(values), np.bool_)
    return np.asarray(values != "", np.bool_) if values.dtype.kind in "UO" else np.ones(len(values), np.bool_)


def add_column(draft: Draft, topic: Topic, column: Column) -> None:
    """The predicates of one column: of numbers, dates, texts or values, whichever it holds."""
    values = coded(column)
    known = is_known(values)
    if not known.all():
        draft.add(Predicate.of(topic.name, kind="missing"), ~known, topic.code)
    if isinstance(values, Words):
        _add_word_column(draft, topic, values, known)
    else:
        _add_number_column(draft, topic, values, known)


def _add_word_column(draft: Draft, topic: Topic, column: Words, known: Bools) -> None:
    distinct = int(np.count_nonzero(column.sizes)) - (not known.all())  # the empty word is no value
    many = distinct > draft.most_values
    if distinct < 2:
        draft.leave_out(topic.name, "all items have the same value" if distinct else "no item has a value")
    elif many and (moments := as_dates(column, topic.name)) is not None:
        add_dates(draft, topic, moments, column.codes)
    elif many and topic.kind == "factor" and is_prose(_present(column)):
        add_words(draft, topic.name, np.flatnonzero(known), column.names.take(pa.array(column.codes[known])))
    elif distinct == np.count_nonzero(known):
        draft.leave_out(topic.name, "every item has a value of its own")
    elif distinct > MOST_DISTINCT:
        draft.leave_out(topic.name, f"it has {distinct:,} values, more than {MOST_DISTINCT:,}")
    else:
        add_values(draft, topic, *_without_gaps(column))


def _without_gaps(column: Words) -> tuple[Values, Sequence[str]]:
    """Codes and names of a column, where the empty word has the code -1."""
    codes, names = column.coded
    return (codes - np.int32(1), names[1:]) if names[0] == "" else (codes, names)


def _present(column: Words) -> list[str]:
    """The words of a column, sorted, but not the empty one; where there are very many, some of them."""
    numbers = np.flatnonzero(column.sizes)
    numbers = numbers[::max(1, len(numbers) // MOST_DISTINCT)]
    return sorted(word for word in column.names.take(pa.array(numbers)).to_pylist() if word)


def _add_number_column(draft: Draft, topic: Topic, values: Values, known: Bools) -> None:
    distinct, number = np.unique(values[known], return_inverse=True)
    if len(distinct) < 2:
        draft.leave_out(topic.name, "all items have the same value" if len(distinct) else "no item has a value")
    elif values.dtype.kind != "f" and len(distinct) == len(values) > np.ptp(distinct) // 2:
        draft.leave_out(topic.name, "it numbers the items")
    else:
        few = len(distinct) <= draft.most_values
        if few:
            codes = np.full(len(values), -1, np.int32)
            codes[known] = number
            add_values(draft, topic, codes, [f"{value:.12g}" for value in distinct.tolist()])
        topic = topic._replace(kind="number") if topic.kind == "factor" else topic
        add_numbers(draft, topic, values.astype(np.float64), bins=0 if few else BINS)


def add_values(draft: Draft, topic: Topic, codes: Values, names: Sequence[str]) -> None:
    """A predicate per value; codes are -1 where an item has none.

    Of more than `most_values`, those with enough items are chosen from: the others could form no group.
    """
    from shiftbench.auditing.bit_sets import bits_of_codes  # loads numba

    chosen: Ints = np.arange(len(names))
    if len(names) > draft.most_values:
        item = np.flatnonzero(codes >= 0)
        size = np.bincount(codes[item], minlength=len(names))
        large = np.minimum(size, draft.n - size) >= draft.least
        chosen = draft.choose(item, codes[item], large, draft.most_values)
        draft.notes.append(_chosen_note(topic.name, len(names), len(chosen), int(large.sum()), draft.least,
                                        int(size.sum() - size[chosen].sum())))
        number = np.full(len(names) + 1, -1, np.int32)  # the last stands for code -1
        number[chosen] = np.arange(len(chosen))
        codes = number[codes]
    for value, bits in zip(chosen.tolist(), bits_of_codes(codes, len(chosen)), strict=True):
        draft.add_bits(Predicate.of(topic.name, names[value], topic.kind), bits, topic.code)


def _chosen_note(name: str, values: int, chosen: int, large: int, least: int, others: int) -> str:
    """Which of many values form groups, and how many items are in none of these."""
    if not chosen:
        return f"'{name}' has {values:,} values, none of which has the {count_items(least)} of a group."
    forms = "1 forms a group" if chosen == 1 else f"{chosen:,} form groups"
    enough = f"with {count_items(least)} or more"
    which = f"those {enough}" if chosen == large else (
        f"half the most frequent of the {large:,} {enough}, half those whose loss differs most")
    rest = f" {others:,} items have another{'' if chosen == large else ' (--most-values)'}." if others else ""
    return f"'{name}' has {values:,} values, of which {forms}: {which}.{rest}"


def add_numbers(draft: Draft, topic: Topic, x: Floats, *, bins: int = BINS, days: bool = False) -> None:
    """A predicate per interval of a column of numbers. The ends of intervals of days are days of items."""
    for interval in intervals(x, draft.loss, draft.explore, bins=bins, least=draft.least, rounded=not days):
        draft.add(Predicate.of(topic.name, interval, topic.kind), interval.holds(x), topic.code)


# Dates

DAY = 86_400_000_000
"""Microseconds, in which moments are counted."""


def as_dates(column: Words, name: str) -> Dates | None:
    """The words of a column, in the order of its names, if all of them are dates; None where some are not."""
    present = np.flatnonzero(column.sizes)
    first = column.names.take(pa.array(present[:100]))
    if not pc.all(pc.match_substring_regex(first.filter(pc.not_equal(first, "")), DATE)).as_py():
        return None
    words = np.full(len(column.names), "", np.object_)
    words[present] = column.names.take(pa.array(present)).to_pylist()
    try:
        return dates(words.astype(np.str_), name)
    except ShiftBenchError:
        return None


def add_dates(draft: Draft, topic: Topic, distinct: Dates, item: Values) -> None:
    """Predicates of dates: from when to when, in which year, in which month and at which hours.

    `item` is the number of each item's date among the distinct ones.
    """
    topic, name = topic._replace(kind="date"), topic.name
    day = np.where(distinct.known, distinct.moment // DAY, np.nan)
    add_numbers(draft, topic, day[item], days=True)
    texts = distinct.text.astype("U13").tolist()
    for unit, start, stop in (("year", 0, 4), ("month", 5, 7)):
        codes, names = _without_gaps(Words.of_array(np.asarray([text[start:stop] for text in texts])).take(item))
        if len(names) > 1:
            code = topic.code if unit == "year" else draft.code()
            add_values(draft, Topic(f"{unit}:{name}", "date", code), codes, names)
    hour = np.asarray([float(text[11:13] or "nan") for text in texts])[item]
    if len(np.unique(hour[np.isfinite(hour)])) > 1:
        add_numbers(draft, Topic(f"hour:{name}", "date", draft.code()), hour)


# Words of texts

def is_prose(names: Sequence[str]) -> bool:
    """Whether the values of a column are texts: of more than three words on average."""
    sample = names[::max(1, len(names) // 1000)]
    return sum(len(text.split()) for text in sample) > 3 * len(sample)


def add_words(draft: Draft, name: str, item: Ints, texts: pa.Array) -> None:
    """Predicates about words: whether the text of an item has one. Row r says that `item[r]` has the text `texts[r]`.

    Words of fewer than three letters, words without a meaning of their own and words that most texts have are no
    predicates.
    """
    plain = pc.replace_substring_regex(pc.utf8_lower(texts), r"[^\p{L}\p{N}]+", " ")
    lists = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(plain))
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    encoded = pc.list_flatten(lists).dictionary_encode()
    words = encoded.dictionary.to_pylist()
    row = np.asarray(pc.list_parent_indices(lists), np.int64)
    pairs = np.unique(item[row] * max(len(words), 1) + encoded.indices.to_numpy())
    who, word = pairs // max(len(words), 1), pairs % max(len(words), 1)
    size = np.bincount(word, minlength=len(words))
    able = np.asarray([len(text) > 2 and text not in STOP_WORDS for text in words], np.bool_)
    able &= (size >= draft.least) & (size <= COMMON * len(np.unique(item)))
    chosen = draft.choose(who, word, able, MOST_WORDS)
    if len(chosen) < able.sum():
        draft.notes.append(f"'{name}': {len(chosen)} of {int(able.sum()):,} words form groups, half the most frequent, "
                           "half those whose loss differs most.")
    has_text = draft.mask(item)
    for number in chosen.tolist():
        mask, code = draft.mask(who[word == number]), draft.code()
        draft.add(Predicate.of(name, words[number], "word"), mask, code)
        draft.add(Predicate.of(name, words[number], "no word"), has_text & ~mask, code)


# Tags and their areas

def add_tags(draft: Draft, items: Collection) -> None:
    """Predicates of tags: that an item has it or not, and whether it covers much of the image or little.

    Of more than MOST_TAGS tags some are chosen, as among the values of a factor. A class of the hierarchy stands for
    all tags below it.
    """
    tags, words = items.tags, spelled(items.tags)
    size = np.bincount(tags.tag, minlength=len(words))
    able = np.asarray([draft.wants(f"has:{word}") for word in words], np.bool_)
    able &= (size >= draft.least) & (size <= len(items) - draft.least)
    chosen = draft.choose(tags.item, tags.tag, able, MOST_TAGS)
    if len(chosen) < able.sum():
        draft.notes.append(f"{len(chosen)} of {int(able.sum()):,} tags form groups: half the most frequent, half "
                           "those whose loss differs most.")
    for tag in chosen.tolist():
        rows, code = np.flatnonzero(tags.tag == tag), draft.code()
        _add_tag(draft, words[tag], "tag", tags.item[rows], code)
        if draft.wants(f"area:{words[tag]}"):
            _add_areas(draft, words[tag], tags.item[rows], tags.area[rows].astype(np.float64), code)
    for name, below in classes_above(tags.names, items.parents, MOST_CLASSES, size).items():
        if name not in tags.names and draft.wants(f"has:{name}"):
            _add_tag(draft, name, "class", tags.item[np.isin(tags.tag, below)], draft.code())


def spelled(tags: Tags) -> list[str]:
    """Each tag by its name, with its kind where several kinds have the name: place:grass."""
    times = Counter(tags.names)
    return [name if times[name] == 1 else f"{kind}:{name}" for name, kind in zip(tags.names, tags.kinds, strict=True)]


def _add_tag(draft: Draft, name: str, kind: str, item: Ints, code: int) -> None:
    mask = draft.mask(item)
    draft.add(Predicate.of(f"has:{name}", "yes", kind), mask, code)
    draft.add(Predicate.of(f"has:{name}", "no", kind), ~mask, code)


def _add_areas(draft: Draft, name: str, item: Ints, area: Values, code: int) -> None:
    """Whether a tag covers less than the median of its areas, or more; nothing where areas are unknown or all equal."""
    known = np.isfinite(area)
    if not known.any() or np.ptp(area[known]) == 0:
        return
    middle = float(f"{np.median(area[known]):.2g}")
    for half in (Interval(0.0, middle), Interval(middle, np.inf)):
        draft.add(Predicate.of(f"area:{name}", half, "area"), draft.mask(item[half.holds(area)]), code)


# Classes of a hierarchy

def add_classes(draft: Draft, topic: Topic, truth: Words, parents: Parents) -> None:
    """Predicates of the classes above the labels in a hierarchy: those that hold several labels, but not all."""
    codes, names = encode(truth)
    below = classes_above(names, parents, MOST_CLASSES, np.bincount(codes, minlength=len(names)))
    for name, labels in below.items():
        draft.add(Predicate.of(topic.name, name, "class"), np.isin(codes, labels), topic.code)


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
                draft.add(Predicate.of(column, "community"), items.factor(column) == "community", draft.code())


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
