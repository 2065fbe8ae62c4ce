"""Subsets: how they are written, which items they hold, which of them a class has."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags
from shiftbench.metagraph.catalogue import Terms, catalogue, summary
from shiftbench.metagraph.subsets import candidates, parse_subset, spell, subset, subset_name, vocabulary
from shiftbench.shifts.shift import differences
from tests.strategies import collections, seeds, toy

quick = settings(max_examples=40, deadline=None)

VOCABULARY = [("cat", "object"), ("dog", "object"), ("sofa", "object"), ("bed", "object"), ("glass", "object"),
              ("grass", "object"), ("grass", "place"), ("cat(black)", "attribute"), ("dog(black)", "attribute"),
              ("cat(glass)", "attribute"), ("spider (toy)", "object"), ("salt + pepper", "object")]


def tagged(seed: int = 0, n: int = 120) -> Collection:
    """Words of several kinds, attributes of classes, tags with brackets and a plus in their names."""
    rng = np.random.default_rng(seed)
    carried = rng.random((n, len(VOCABULARY))) < rng.uniform(0.1, 0.7, len(VOCABULARY))
    names = [name for name, _ in VOCABULARY]
    for code, (name, kind) in enumerate(VOCABULARY):
        if kind == "attribute":
            carried[:, code] &= carried[:, names.index(name.partition("(")[0])]
    order = rng.permutation(len(VOCABULARY))
    return Collection("tagged", np.arange(n).astype(str),
                      tags=Tags.of(*np.nonzero(carried[:, order]), [VOCABULARY[k][0] for k in order],
                                   [VOCABULARY[k][1] for k in order]))


letters = st.text("abc dé:+-", min_size=1, max_size=8).map(str.strip)
plain = letters.filter(lambda text: text and " + " not in f" {text} ")


@quick
@given(plain, st.lists(plain, max_size=4))
def test_names_are_read_back(cls, contexts):
    """`parse_subset` undoes `subset_name`."""
    assert parse_subset(subset_name(cls, contexts)) == (cls, tuple(contexts))


def test_brackets_may_stand_inside_names():
    """The last bracket closes the contexts, whatever brackets class and context have themselves."""
    assert parse_subset("spider (toy)(shelf)") == ("spider (toy)", ("shelf",))
    assert parse_subset("cat(spider (toy) + bed)") == ("cat", ("spider (toy)", "bed"))


@pytest.mark.parametrize("name", ["", "  ", "dog(", "dog)", "dog()", "(shelf)", "dog(bed + )", "dog((shelf)"])
def test_a_malformed_name_is_refused(name):
    """A name that is no subset's says how to write one."""
    with pytest.raises(ShiftBenchError, match="Write class"):
        parse_subset(name)


def test_a_union_holds_the_items_of_both():
    """dog(cabinet + bed) is dog(cabinet) ∪ dog(bed), dog(bed) is dog ∩ bed, dog is every dog."""
    c = toy(300)
    one, other = subset(c, "dog(sofa)"), subset(c, "dog(bed)")
    assert np.array_equal(subset(c, "dog(sofa + bed)"), np.union1d(one, other))
    assert np.array_equal(other, np.intersect1d(c.with_tag("dog"), c.with_tag("bed")))
    assert np.array_equal(subset(c, " dog "), c.with_tag("dog"))


def test_odd_tags_can_be_asked_for():
    """A class with brackets in its name is found whole, a context with a plus in its name before a union."""
    c = tagged()
    assert np.array_equal(subset(c, "spider (toy)"), c.with_tag("spider (toy)"))
    both = np.intersect1d(c.with_tag("cat"), c.with_tag("salt + pepper"))
    assert np.array_equal(subset(c, "cat(salt + pepper)"), both)


def test_a_context_may_be_an_attribute_of_the_class():
    """For class cat the context black is the tag cat(black), not that of dogs."""
    c = tagged()
    assert np.array_equal(subset(c, "cat(black)"), c.with_tag("cat(black)"))
    assert "dog(black)" not in candidates(c, "cat", min_size=1).names


def test_a_word_of_several_kinds_means_them_all_unless_its_kind_is_given():
    """cat(grass) is the union over kinds; cat(place:grass) and cat(attribute:glass) are single tags."""
    c = tagged()
    places = subset(c, "cat(place:grass)")
    assert np.array_equal(subset(c, "cat(grass)"), np.union1d(places, subset(c, "cat(object:grass)")))
    assert np.array_equal(subset(c, "cat(attribute:glass)"), c.with_tag("cat(glass)"))
    assert len(subset(c, "cat(glass)")) > len(subset(c, "cat(attribute:glass)"))


@quick
@given(seeds, st.sampled_from(["cat", "dog", "grass", "object:grass", "spider (toy)"]))
def test_every_candidate_can_be_asked_for_by_its_name(seed, cls):
    """The name, the size and the membership of a candidate are those of the subset of that name."""
    c = tagged(seed)
    found = candidates(c, cls, min_size=5)
    assert list(found.names) == sorted(set(found.names))
    item = np.repeat(found.items, np.diff(found.start))
    for place, name in enumerate(found.names):
        rows = subset(c, subset_name(cls, [name]))
        assert len(rows) == found.sizes[place] >= 5
        assert np.array_equal(item[found.context == place], rows)


@quick
@given(seeds)
def test_candidates_do_not_depend_on_the_order_of_the_vocabulary(seed):
    """The same annotations under other codes give the same candidates."""
    c, rng = tagged(3), np.random.default_rng(seed)
    order = rng.permutation(len(c.tags.names))
    place = np.argsort(order)
    again = Collection("again", c.items, tags=Tags.of(c.tags.item, place[c.tags.tag], [c.tags.names[k] for k in order],
                                                      [c.tags.kinds[k] for k in order]))
    one, other = candidates(c, "cat"), candidates(again, "cat")
    assert one.names == other.names
    assert all(np.array_equal(a, b) for a, b in zip(one[2:], other[2:], strict=True))


def test_kinds_limit_the_contexts():
    """Only tags of the asked kinds become contexts; the class is never its own."""
    c = tagged()
    assert candidates(c, "cat", kinds=["place"], min_size=1).names == ("place:grass",)
    assert set(candidates(c, "cat", kinds=["attribute"], min_size=1).names) == {"black", "attribute:glass"}
    assert not {"cat", "grass"} & set(candidates(c, "grass", min_size=1).names) - {"cat"}


def test_messages_name_the_nearest():
    """An unknown context, class or kind is answered with the nearest known one."""
    c = toy()
    with pytest.raises(ShiftBenchError, match=r"No context named 'shelv'\. Did you mean 'shelf'\?"):
        subset(c, "dog(shelv)")
    with pytest.raises(ShiftBenchError, match=r"No tag named 'dgo'\. Did you mean 'dog'\?"):
        subset(c, "dgo(shelf)")
    with pytest.raises(ShiftBenchError, match=r"written with spaces: dog\(sofa \+ bed\)"):
        subset(c, "dog(sofa+bed)")
    with pytest.raises(ShiftBenchError, match=r"Did you mean 'object'\?"):
        candidates(c, "dog", kinds=["objects"])


def test_a_context_never_seen_with_the_class_gives_no_items():
    """A known tag that no item of the class carries is an empty subset, not an error."""
    c = Collection("two", np.asarray(["a", "b"]), tags=Tags.of([0, 1], [0, 1], ["cat", "sofa"]))
    assert len(subset(c, "cat(sofa)")) == 0


@quick
@given(seeds)
def test_the_catalogue_has_the_candidates_of_every_class(seed):
    """All classes in one pass give the same names and sizes as one class at a time."""
    c = tagged(seed)
    found = catalogue(c, Terms(min_size=8, more_than=0))
    for k, cls in enumerate(found.classes):
        alone = candidates(c, cls, min_size=8)
        here = slice(found.first[k], found.first[k + 1])
        assert found.items[k] == len(c.with_tag(cls))
        names = spell(c.tags, vocabulary(c.tags), cls, found.context[here])
        assert dict(zip(names, found.sizes[here], strict=True)) == dict(zip(alone.names, alone.sizes, strict=True))


@pytest.mark.slow
def test_the_summary_is_the_papers():
    """Classes, subsets, distinct contexts, mean and median size; cat(black) and dog(black) are one context."""
    c = tagged()
    found = catalogue(c, Terms(min_size=1, more_than=0, kinds=("attribute",)))
    said = summary(found, c.tags)
    assert said["classes"] == 2
    assert said["subsets"] == 3
    assert said["contexts"] == 2
    sizes = [len(c.with_tag(tag)) for tag in ("cat(black)", "dog(black)", "cat(glass)")]
    assert (said["mean_size"], said["median_size"]) == (np.mean(sizes), np.median(sizes))
    with pytest.raises(ShiftBenchError, match="Lower min_size"):
        catalogue(c, Terms(min_size=1000))
    with pytest.raises(ShiftBenchError, match="between 0 and 1"):
        Terms(threshold=1.5)


@quick
@given(collections(), seeds)
def test_differences_are_shares_and_lifts(collection, seed):
    """Shares are plain shares of items, the largest gaps come first, and the lift is smoothed and finite."""
    rng = np.random.default_rng(seed)
    side = rng.integers(0, 2, len(collection))
    train, test = np.flatnonzero(side == 0), np.flatnonzero(side == 1)
    said = differences(collection, train, test, top=3)
    gaps = [abs(row["test"] - row["train"]) for row in said]
    assert (np.diff(gaps) < 1e-9).all()
    assert len(said) <= 3
    for row in said:
        code = list(zip(collection.tags.names, collection.tags.kinds, strict=True)).index((row["tag"], row["kind"]))
        holders = collection.tags.item[collection.tags.tag == code]
        n_train, n_test = len(np.intersect1d(train, holders)), len(np.intersect1d(test, holders))
        assert row["train"] == n_train / max(len(train), 1)
        assert row["test"] == n_test / max(len(test), 1)
        assert row["lift"] == pytest.approx((n_test + 1) / (len(test) + 2) / ((n_train + 1) / (len(train) + 2)))


def test_the_tag_that_was_moved_is_named_first():
    """Between items with and without a boat, the boat differs most."""
    c = toy()
    boats = c.with_tag("boat")
    said = differences(c, np.setdiff1d(np.arange(len(c)), boats), boats)
    assert said[0]["tag"] == "boat"
    assert (said[0]["train"], said[0]["test"]) == (0.0, 1.0)
    assert said[0]["lift"] > 10
