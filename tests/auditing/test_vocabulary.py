"""Predicates say what is known about items, of all kinds, and leave nothing out without a note."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.auditing.predicates import ALONE, cut_points, intervals, packed, quantile_cuts, unpacked
from shiftbench.auditing.search import search
from shiftbench.auditing.vocabulary import predicates_of
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags, Texts
from tests.strategies import collections, seeds, toy

N = 400
RNG = np.random.default_rng(0)
LOSS = (RNG.random(N) < 0.3).astype(float)
EXPLORE = np.arange(N) % 2 == 0
IDS = np.asarray([f"i{k}" for k in range(N)])


def vocabulary(loss=LOSS, explore=EXPLORE, truth=None, predicted=None, least=5, parts=None, options=None, **factors):
    items = Collection("toy", IDS, {name: np.asarray(values) for name, values in factors.items()}, **(parts or {}))
    return predicates_of(items, loss=loss, explore=explore, truth=truth, predicted=predicted, least=least,
                         **(options or {}))


def said(predicates):
    return {one.words: predicates.mask(number) for number, one in enumerate(predicates.list)}


@given(st.lists(st.booleans(), max_size=200), seeds)
def test_bits_hold_what_was_packed(truths, seed):
    """Packing and unpacking give the truths back, and the bits beyond the end are 0."""
    mask = np.asarray(truths, np.bool_)
    bits = packed(mask)
    assert len(bits) == -(-len(mask) // 64)
    assert (unpacked(bits, len(mask)) == mask).all()
    assert sum(int(word).bit_count() for word in bits) == mask.sum()


@settings(deadline=None, max_examples=40)
@given(collections(), seeds)
def test_any_collection_has_a_vocabulary(items, seed):
    """Whatever a collection holds: each set has enough items inside and outside, and no two sets are equal."""
    rng = np.random.default_rng(seed)
    n = len(items)
    predicates = predicates_of(items, loss=rng.normal(size=n), explore=rng.random(n) < 0.5, least=2,
                               truth=items.factors["word"], predicted=rng.permutation(items.factors["word"]))
    masks = [predicates.mask(number) for number in range(len(predicates))]
    assert all(2 <= mask.sum() <= n - 2 for mask in masks)
    assert len({mask.tobytes() for mask in masks}) == len(masks)
    rows = rng.permutation(n)[:n // 2]
    taken = predicates.take(rows)
    assert all((taken.mask(number) == mask[rows]).all() for number, mask in enumerate(masks))


def test_values_and_gaps_of_a_factor_are_predicates():
    """A predicate per value, and one for the items without a value; all of one column are never combined."""
    city = np.asarray(["Oslo", "Rome", ""])[np.arange(N) % 3]
    predicates = vocabulary(city=city)
    assert set(said(predicates)) == {"city is Oslo", "city is Rome", "city is missing"}
    assert (said(predicates)["city is missing"] == (city == "")).all()
    assert len(set(predicates.column.tolist())) == 1


def test_numbers_are_cut_by_quantiles_and_by_the_loss_of_exploring_items():
    """The cut point lies where the loss of the exploring items changes; losses of the others do not move it."""
    age = np.arange(N)[RNG.permutation(N)] * 1.5
    loss = (age >= 450).astype(float)
    other = np.where(EXPLORE, loss, RNG.permutation(loss))
    for known in (loss, other):
        words = set(said(vocabulary(loss=known, age=age)))
        assert {"age is 450 or more", "age is under 450", "age is under 150"} <= words


def test_a_cut_point_of_noise_is_rare():
    """Pure noise has a cut of gain 4 now and then, but never more cuts than are allowed, and each within the data."""
    x = RNG.normal(size=300)
    for seed in range(20):
        cuts = cut_points(x, np.random.default_rng(seed).random(300), most=3, least=10)
        assert len(cuts) <= 3
        assert all(min((x < cut).sum(), (x >= cut).sum()) >= 10 for cut in cuts)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.integers(2, 6), seeds)
def test_intervals_between_cuts_cover_every_number_once(numbers, bins, seed):
    """Quantile bins are a partition, of equal sizes where no numbers are equal."""
    x = np.asarray(numbers)
    cuts = quantile_cuts(x, bins)
    counts = np.bincount(np.searchsorted(cuts, x, side="right"), minlength=len(cuts) + 1)
    assert (np.diff(cuts) > 0).all()
    assert (counts > 0).all()
    if len(set(numbers)) == len(numbers) and len(numbers) % bins == 0:
        assert np.ptp(counts) == 0
    loss = np.random.default_rng(seed).random(len(x))
    every = intervals(x, loss, np.ones(len(x), np.bool_), bins=bins, least=1)
    assert all(one.holds(x).any() for one in every)


def test_dates_have_days_years_months_and_hours():
    """A column of dates is asked from when to when, and for its year, month and hour."""
    days = np.datetime64("2019-01-01T00:30") + np.arange(N) * np.timedelta64(49, "h")
    words = said(vocabulary(taken=np.datetime_as_string(days)))
    assert (words["year of taken is 2020"] == (days.astype("M8[Y]") == np.datetime64("2020"))).all()
    assert {"month of taken is March", "taken is before 2019-07-24"} <= set(words)
    assert any(word.startswith("hour of taken is under ") for word in words)


@pytest.mark.parametrize(("values", "reason"), [
    (np.full(N, "x"), "all items have the same value"),
    (np.full(N, 3.5), "all items have the same value"),
    (np.full(N, ""), "no item has a value"),
    (np.full(N, np.nan), "no item has a value"),
    (IDS, "every item has a value of its own"),
    (np.arange(N) + 7, "it numbers the items"),
])
def test_columns_that_say_nothing_are_noted(values, reason):
    """Constant columns, empty ones and ids are left out, and the note says why."""
    predicates = vocabulary(column=values)
    assert len(predicates) == 0
    assert f"'column' is left out: {reason}." in predicates.notes


def test_ten_thousand_values_are_too_many():
    """A column with more values than 10,000 is left out; one with more than the cap keeps the frequent and the bad."""
    n = 24_000
    codes = np.arange(n) % 12_000
    items = Collection("big", np.arange(n).astype(str), {"user": codes.astype(str), "shop": (codes % 300).astype(str)})
    loss = (codes % 300 == 277).astype(float)
    predicates = predicates_of(items, loss=loss, explore=np.arange(n) % 2 == 1, least=5)
    assert "'user' is left out: it has 12,000 values, more than 10,000." in predicates.notes
    assert any("'shop' has 300 values, of which 20 form groups" in note for note in predicates.notes)
    assert "shop is 277" in said(predicates)
    assert len(predicates) == 20


def test_values_with_too_few_items_are_not_said_to_form_groups():
    """Of many values, those with enough items are chosen from; one note says which form groups, and none denies it."""
    shop = np.concatenate([np.repeat(np.arange(30), 10), np.repeat(np.arange(30, 60), 2)]).astype(str)
    loss, explore = np.zeros(len(shop)), np.arange(len(shop)) % 2 == 0
    items = Collection("shops", np.arange(len(shop)).astype(str), {"shop": shop})
    notes = [predicates_of(items, loss=loss, explore=explore, least=least).notes for least in (5, 11, 1)]
    assert notes == [
        ("'shop' has 60 values, of which 20 form groups: half the most frequent of the 30 with 5 items or more, half "
         "those whose loss differs most. 160 items have another (--most-values).",),
        ("'shop' has 60 values, none of which has the 11 items of a group.",),
        ("'shop' has 60 values, of which 20 form groups: half the most frequent of the 60 with 1 item or more, half "
         "those whose loss differs most. 160 items have another (--most-values).",)]
    few = predicates_of(items, loss=loss, explore=explore, least=5, most_values=40)
    assert few.notes == ("'shop' has 60 values, of which 30 form groups: those with 5 items or more. 60 items have "
                         "another.",)
    assert len(few) == 30


def test_a_prediction_stands_alone_and_copies_of_the_label_are_left_out():
    """With what tells the label a prediction would be the error by definition; a copy of the label says nothing new."""
    truth = np.asarray(["cat", "dog"])[np.arange(N) % 2]
    light = RNG.choice(["day", "night"], N)
    predicates = vocabulary(truth=truth, predicted=RNG.permutation(truth), light=light, copy=truth)
    codes = dict(zip((one.column for one in predicates.list), predicates.column.tolist(), strict=True))
    assert set(codes) == {"label", "prediction", "light"}
    assert codes["prediction"] == ALONE
    assert len({*codes.values()}) == 3
    assert any("copy is cat" in note for note in predicates.notes)
    slices = search(predicates, LOSS, depth=2, least=5, gain=-np.inf)
    pairs = slices.members[slices.members[:, 1] >= 0]
    alone = [number for number, one in enumerate(predicates.list) if one.kind == "prediction"]
    assert len(pairs)
    assert not np.isin(pairs, alone).any()


def test_tags_areas_and_classes_are_predicates():
    """An item has a tag or not, covers much or little, and a class of the hierarchy stands for the tags below it."""
    items = toy()
    labels = items.factors["class"]
    hierarchy = {"sofa": ("furniture",), "bed": ("furniture",), "cat": ("pet",), "dog": ("pet",), "cow": ("farm",)}
    truth = np.where(np.arange(len(items)) % 5 == 0, "cow", labels)
    tags = items.tags
    shares = np.linspace(0, 1, len(tags.tag))
    known = Collection("toy", items.items, {}, Tags.of(tags.item, tags.tag, tags.names, tags.kinds, area=shares),
                       parents=hierarchy)
    loss = np.zeros(len(items))
    words = said(predicates_of(known, loss=loss, explore=loss == 0, truth=truth, least=5))
    sofa = np.isin(np.arange(len(items)), items.with_tag("sofa"))
    assert (words["with sofa"] == sofa).all()
    assert (words["without sofa"] == ~sofa).all()
    assert (words["with furniture"] == (sofa | np.isin(np.arange(len(items)), items.with_tag("bed")))).all()
    assert (words["label is a kind of pet"] == (truth != "cow")).all()
    small, large = (next(words[word] for word in words if word.startswith(f"with sofa on {size}"))
                    for size in ("under", "at least"))
    assert (small | large == sofa).all()
    assert not (small & large).any()


def test_contexts_of_one_community_are_a_predicate():
    """Tags that meet in the pictures of a class form a community; the predicate is a question that collections answer.
    """
    rng = np.random.default_rng(1)
    indoors = rng.random(N) < 0.5
    names = ("cat", "bed", "lamp", "tree", "lawn")
    carried = np.column_stack([np.ones(N), *(rng.random(N) < np.where(side, 0.8, 0.02)
                                             for side in (indoors, indoors, ~indoors, ~indoors))]).astype(bool)
    item, tag = np.nonzero(carried)
    known = Collection("toy", IDS, {}, Tags.of(item, tag, names))
    truth = np.where(np.arange(N) % 4, "cat", "dog")
    predicates = predicates_of(known, loss=LOSS, explore=EXPLORE, truth=truth, least=5)
    groups = [one for one in predicates.list if one.column.startswith("which:")]
    assert {one.words for one in groups} == {"with any of bed, lamp", "with any of lawn, tree"}
    for one in groups:
        wanted = carried[:, [1, 2] if "bed" in one.words else [3, 4]].any(axis=1)
        assert (said(predicates)[one.words] == wanted).all()
        assert ((known.factor(one.column) == one.value) == wanted).all()


def test_words_of_texts_are_predicates():
    """Content words of a collection's texts and of a wordy column are predicates; words that all texts have are not."""
    extra = np.asarray(["refund", "thanks", "hello"])[np.arange(N) % 3]
    texts = np.asarray([f"The parcel {k} came with a {word}" for k, word in enumerate(extra)], np.object_)
    for predicates in (vocabulary(parts={"texts": Texts(np.arange(N), texts)}), vocabulary(text=texts)):
        words = said(predicates)
        assert (words["text has the word “refund”"] == (extra == "refund")).all()
        assert (words["text has no word “refund”"] == (extra != "refund")).all()
        assert not any("parcel" in word or "“with”" in word for word in words)


def test_columns_are_included_and_excluded_by_name():
    """Names may have *; a name that no column has is an error that suggests one."""
    columns = {"light": RNG.choice(["day", "night"], N), "line": RNG.choice(["a", "b"], N), "age": RNG.normal(size=N)}
    assert {one.column for one in vocabulary(**columns, options={"include": ["li*"]}).list} == {"light", "line"}
    assert {one.column for one in vocabulary(**columns, options={"exclude": ["age"]}).list} == {"light", "line"}
    with pytest.raises(ShiftBenchError, match="Did you mean 'light'"):
        vocabulary(**columns, options={"exclude": ["ligth"]})
