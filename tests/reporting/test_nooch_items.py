"""Pictures of hard items: which are chosen, and where two criteria disagree."""

import dataclasses

import numpy as np

from shiftbench.data.collection import Collection
from shiftbench.reporting.sections.nooch_items import PER_STRIP, disagreements, example_figures, examples, pairs
from tests.scoring.test_kinds import bench


def two_criteria():
    """One task by CE and by gist on the same items; by gist some of the hard ones are easy."""
    ce = bench(600, 0, "ce-car", "ce")
    pixels = np.random.default_rng(0).integers(0, 255, (len(ce), 8, 8, 3), dtype=np.uint8)
    drawn = Collection("toy", np.sort(ce.items), pixels=pixels)
    card = {**ce.card, "positive": "car", "collection": {"name": "toy", "digest": drawn.digest}}
    ce = dataclasses.replace(ce, card=card)
    other = np.where(np.random.default_rng(1).random(len(ce)) < 0.3, "easy", ce.extra["kind"])
    gist = dataclasses.replace(ce, card={**card, "name": "gist-car", "criterion": {"name": "gist"}},
                               extra={**ce.extra, "kind": other})
    return ce, gist, drawn


def test_examples_are_a_few_items_of_each_side():
    """At most four test items of each hard side, of that kind, the same every time."""
    ce, _, _ = two_criteria()
    chosen = examples(ce)
    assert [one.kind for one in chosen] == ["hard_positive", "hard_negative"]
    for one in chosen:
        assert 0 < len(one.rows) <= PER_STRIP
        assert set(ce.split[one.rows]) == {"test"}
        assert set(ce.extra["kind"][one.rows]) == {one.kind}
    assert all(np.array_equal(one.rows, again.rows) for one, again in zip(chosen, examples(ce), strict=True))


def test_criteria_disagree_where_one_says_easy():
    """Items of a disagreement are hard by one benchmark and easy by the other; criteria that agree have none."""
    ce, gist, _ = two_criteria()
    found = disagreements(ce, gist)
    assert {one.benchmark.name for one in found} == {"ce-car"}  # by gist nothing is hard that is not by CE
    for one in found:
        assert (ce.extra["kind"][one.rows] == one.kind).all()
        assert (gist.extra["kind"][one.rows] == "easy").all()
    assert disagreements(ce, ce) == []
    assert [(one.name, other.name) for one, other in pairs([gist, ce])] == [("ce-car", "gist-car")]
    assert pairs([ce, dataclasses.replace(gist, card={**gist.card, "positive": "bus"})]) == []


def test_figures_have_pictures_and_losses():
    """Each picture stands with the losses of the methods on just that item; without pictures there is no figure."""
    ce, gist, drawn = two_criteria()
    values = np.random.default_rng(2).random(len(ce.rows("test")))
    found = example_figures([ce, gist], {drawn.digest: drawn}, lambda _: {"erm": values})
    assert [one["figure"] for one in found] == ["Figure 1", "Figures 2 and 8"]
    rows = ce.rows("test")
    for entry in (entry for one in found for strip in one["strips"] for entry in strip["entries"]):
        assert entry["source"].startswith("data:image/webp")
        (place,) = np.flatnonzero(ce.items[rows] == entry["item"])
        assert entry["losses"] == [("erm", f"{values[place]:.2f}")]
    assert example_figures([ce, gist], {}, lambda _: {}) == []
