"""The vocabulary of an audit: predicates made of everything that is known about the items.

The label and the prediction, factors, numbers, dates, words of texts, missing values, and what `tag_predicates` makes
of tags and of a class hierarchy. What is left out is noted with its reason.
"""

import calendar
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.auditing.clusters import add_clusters
from shiftbench.auditing.cut_points import Interval, intervals
from shiftbench.auditing.findings import count_items
from shiftbench.auditing.predicates import (
    ALONE,
    Draft,
    Predicate,
    Predicates,
    add_classes,
    add_communities,
    add_tags,
    has_value,
    has_word,
    is_missing,
)
from shiftbench.auditing.table_items import Column, TableItems
from shiftbench.core.arrays import Bools, Floats, Ints, Values, Words
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.data.questions import DATE, Dates, dates

PREDICTION, TEXT = "prediction", "text"
"""The columns of the predicted class and of the items' texts."""
MOST_DISTINCT = 10_000
MOST_WORDS = 50
COMMON = 0.6
"""The share of texts from which on a word is taken for one that all texts have."""
STOP_WORDS = frozenset("""
about after again all also and any are because been before being but can could did does doing down for from had has have
having her here hers him his how into its just more most nor not now off once only other our out over own same she
should some such than that the their them then there these they this those through too under until very was were what
when where which while who whom why will with would you your""".split())  # noqa: SIM905


def predicates_of(
    items: Collection | TableItems, *, loss: Floats, explore: Bools, truth: Column | None = None, label: str = "label",
    predicted: Column | None = None, features: Floats | None = None, include: Sequence[str] = (),
    exclude: Sequence[str] = (), most_values: int = 20, bins: int = 4, least: int = 1,
) -> Predicates:
    """The predicates of the items of a collection, which have one `loss` each.

    `truth` is the value of the column `label` and `predicted` the predicted class, if items have them; `features` are
    embeddings of the items. Only losses of the items `explore` are looked at: for cut points of numbers, and to choose
    among more than `most_values` values.
    A predicted class stands alone: with what tells the label ("prediction is bus, without bus") it would be the error.
    """
    draft = Draft(loss, explore, least, include, exclude)
    truth, predicted = (None if column is None else coded(column) for column in (truth, predicted))
    if truth is not None and draft.wants(label):
        code = draft.code()
        add_column(draft, label, truth, kind="label", code=code, most=most_values, bins=bins)
        if isinstance(truth, Words):
            add_classes(draft, label, truth, items.parents, code)
    if predicted is not None and draft.wants(PREDICTION):
        if isinstance(truth, Words) and len(truth.coded[1]) < 2:
            draft.leave_out(PREDICTION, "all items have the same label, so that the prediction is the error")
        else:
            add_column(draft, PREDICTION, predicted, kind="prediction", code=ALONE, most=most_values, bins=bins)
    for name in items.factors:
        if name not in (label, PREDICTION) and draft.wants(name):
            add_column(draft, name, items.factors[name], most=most_values, bins=bins)
    if isinstance(items, Collection):
        add_tags(draft, items)
        if isinstance(truth, Words) and len(items.tags.item):
            add_communities(draft, items, truth)
    if len(items.texts.item) and draft.wants(TEXT):
        add_words(draft, TEXT, items.texts.item, pa.array(items.texts.text, pa.string()))
    if features is not None:
        add_clusters(draft, features)
    return draft.finished()


def coded(column: Column) -> Column:
    """A column with its words as codes: everything is a word but a number."""
    if isinstance(column, Words) or column.dtype.kind in "iuf":
        return column
    return Words.of_array(column if column.dtype.kind in "UO" else column.astype(np.str_))


def add_column(
    draft: Draft, name: str, column: Column, *, kind: str = "factor", code: int | None = None, most: int, bins: int
) -> None:
    """The predicates of one column: of numbers, dates, texts or values, whichever it holds."""
    values = coded(column)
    code = draft.code() if code is None else code
    known = is_known(values)
    if not known.all():
        draft.add(is_missing(name), ~known, code)
    if isinstance(values, Words):
        _add_word_column(draft, name, values, known, kind, code, most, bins)
    else:
        _add_number_column(draft, name, values, known, kind, code, most, bins)


def _add_word_column(
    draft: Draft, name: str, column: Words, known: Bools, kind: str, code: int, most: int, bins: int
) -> None:
    empty = column.of_word("")
    many = int(np.count_nonzero(column.sizes)) - int(empty >= 0 and column.sizes[empty] > 0)
    n_known = len(column) - (int(column.sizes[empty]) if empty >= 0 else 0)
    if many < 2:
        draft.leave_out(name, "all items have the same value" if many else "no item has a value")
    elif many > most and (moments := as_dates(column, name)) is not None:
        add_dates(draft, name, moments, column.codes, code, most=most, bins=bins)
    elif many > most and kind == "factor" and is_prose(_present(column)):
        add_words(draft, name, np.flatnonzero(known), column.names.take(pa.array(column.codes[known])))
    elif many == n_known:
        draft.leave_out(name, "every item has a value of its own")
    elif many > MOST_DISTINCT:
        draft.leave_out(name, f"it has {many:,} values, more than {MOST_DISTINCT:,}")
    else:
        codes, names = column.coded
        if names[0] == "":
            codes, names = codes - np.int32(1), names[1:]
        add_values(draft, name, codes, names, kind, code, most)


def _present(column: Words) -> list[str]:
    """The words of a column, sorted, but not the empty one; where there are very many, some of them."""
    numbers = np.flatnonzero(column.sizes)
    numbers = numbers[::max(1, len(numbers) // MOST_DISTINCT)]
    return sorted(word for word in column.names.take(pa.array(numbers)).to_pylist() if word)


def _add_number_column(
    draft: Draft, name: str, values: Values, known: Bools, kind: str, code: int, most: int, bins: int
) -> None:
    distinct, codes = np.unique(values[known], return_inverse=True)
    few = len(distinct) <= most
    if len(distinct) < 2:
        draft.leave_out(name, "all items have the same value" if len(distinct) else "no item has a value")
    elif values.dtype.kind != "f" and len(distinct) == len(values) > np.ptp(distinct) // 2:
        draft.leave_out(name, "it numbers the items")
    else:
        if few:
            every = np.full(len(values), -1, np.int32)
            every[known] = codes
            add_values(draft, name, every, [f"{value:.12g}" for value in distinct.tolist()], kind, code, most)
        add_numbers(draft, name, values.astype(np.float64), code, bins=0 if few else bins,
                    kind="number" if kind == "factor" else kind)


def is_known(values: Column) -> Bools:
    """Where a column has a value: no empty word, no NaN, no infinity."""
    if isinstance(values, Words):
        return np.asarray(values.codes != values.of_word(""), np.bool_)
    if values.dtype.kind == "f":
        return np.asarray(np.isfinite(values), np.bool_)
    return np.asarray(values != "", np.bool_) if values.dtype.kind in "UO" else np.ones(len(values), np.bool_)


def add_values(
    draft: Draft, name: str, codes: Values, names: Sequence[str], kind: str, code: int, most: int,
    words: Sequence[str] = (),
) -> None:
    """A predicate per value. `codes` are -1 where an item has none; `words` say each value in a sentence.

    Of more than `most` values, those with enough items are chosen from: the others could form no group.
    """
    from shiftbench.auditing.bit_sets import bits_of_codes  # loads numba

    chosen: Ints = np.arange(len(names))
    if len(names) > most:
        size = np.bincount(codes[codes >= 0], minlength=len(names))
        large = draft.are_large(size)
        known = np.flatnonzero((codes >= 0) & large[codes])
        number = np.cumsum(large) - 1
        chosen = np.flatnonzero(large)[draft.choose(known, number[codes[known]], int(large.sum()), most)]
        draft.notes.append(_chosen_note(name, len(names), len(chosen), int(large.sum()), draft.least,
                                        int(size.sum() - size[chosen].sum())))
        number = np.full(len(names) + 1, -1, np.int32)  # the last stands for code -1
        number[chosen] = np.arange(len(chosen))
        codes = number[codes]
    for value, bits in zip(chosen.tolist(), bits_of_codes(codes, len(chosen)), strict=True):
        draft.add_bits(has_value(name, names[value], kind, words[value] if words else ""), bits, code)


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


def add_numbers(
    draft: Draft, name: str, x: Floats, code: int, *, bins: int, kind: str = "number", days: bool = False,
    words: str = "",
) -> None:
    """A predicate per interval of a column of numbers, which sentences call `words`. Days are shown as dates."""
    for interval in intervals(x, draft.loss, draft.explore, bins=bins, least=draft.least, rounded=not days):
        draft.add(lies_in(name, interval, kind, days=days, words=words), interval.holds(x), code)


def lies_in(column: str, interval: Interval, kind: str = "number", *, days: bool = False, words: str = "") -> Predicate:
    """That the number or day of an item is in an interval."""
    show = _day if days else "{:.12g}".format
    value = interval.words(show(interval.low), show(interval.high), days)
    return Predicate(column, value, kind, f"{words or column} is {value}", *interval)


# Dates

MONTHS = dict(zip((f"{month:02}" for month in range(1, 13)), calendar.month_name[1:], strict=True))
DAY = 86_400_000_000


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


def add_dates(
    draft: Draft, name: str, distinct: Dates, item: Values, code: int, *, most: int, bins: int
) -> None:
    """Predicates of dates: from when to when, in which year, in which month and at which hours.

    `item` is the number of each item's date among the distinct ones.
    """
    day = np.where(distinct.known, distinct.moment // DAY, np.nan)
    add_numbers(draft, name, day[item], code, bins=bins, kind="date", days=True)
    texts = distinct.text.astype("U13").tolist()
    for unit, start, stop in (("year", 0, 4), ("month", 5, 7)):
        codes, names = Words.of_array(np.asarray([text[start:stop] for text in texts])).take(item).coded
        if names[0] == "":
            codes, names = codes - np.int32(1), names[1:]
        if len(names) > 1:
            own = code if unit == "year" else draft.code()
            add_values(draft, f"{unit}:{name}", codes, names, "date", own, most,
                       [f"{unit} of {name} is {MONTHS.get(value, value)}" for value in names])
    hour = np.asarray([float(text[11:13] or "nan") for text in texts])[item]
    if len(np.unique(hour[np.isfinite(hour)])) > 1:
        add_numbers(draft, f"hour:{name}", hour, draft.code(), bins=bins, kind="date", words=f"hour of {name}")


def _day(number: float) -> str:
    return str(np.datetime64(int(number), "D")) if np.isfinite(number) else ""


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
    coded = pc.list_flatten(lists).dictionary_encode()
    words = coded.dictionary.to_pylist()
    row = np.asarray(pc.list_parent_indices(lists), np.int64)
    pairs = np.unique(item[row] * max(len(words), 1) + coded.indices.to_numpy())
    who, word = pairs // max(len(words), 1), pairs % max(len(words), 1)
    size = np.bincount(word, minlength=len(words))
    many = len(np.unique(item))
    good = np.asarray([len(text) > 2 and text not in STOP_WORDS for text in words], np.bool_)
    good &= (size >= draft.least) & (size <= COMMON * many)
    kept = good[word]
    number = np.cumsum(good) - 1
    chosen = draft.choose(who[kept], number[word[kept]], int(good.sum()), MOST_WORDS)
    if len(chosen) < good.sum():
        draft.notes.append(f"'{name}': {len(chosen)} of {int(good.sum()):,} words form groups, half the most frequent, "
                           "half those whose loss differs most.")
    has_text = np.zeros(draft.n, np.bool_)
    has_text[item] = True
    for code in np.flatnonzero(good)[chosen].tolist():
        mask = np.zeros(draft.n, np.bool_)
        mask[who[word == code]] = True
        column = draft.code()
        draft.add(has_word(name, words[code]), mask, column)
        draft.add(has_word(name, words[code], yes=False), has_text & ~mask, column)
