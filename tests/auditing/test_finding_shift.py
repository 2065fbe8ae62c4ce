"""A finding becomes a benchmark: training lacks the context, and the test sets it against others like it."""

import math

import numpy as np
import pytest

from shiftbench.auditing.finding_shift import build_finding
from shiftbench.auditing.findings import Audit, Finding
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark, check_origin
from shiftbench.data.collection import Collection

NIGHT = Predicate("light", "night", "factor", "light is night")
OSLO = Predicate("city", "Oslo", "factor", "city is Oslo")
CAT = Predicate("class", "cat", "label", "class is cat")
SAID = Predicate("prediction", "dog", "prediction", "prediction is dog")


@pytest.fixture
def collection() -> Collection:
    rng = np.random.default_rng(0)
    n = 3000
    return Collection("street", np.arange(n).astype(str), {
        "class": rng.choice(["cat", "cow", "dog"], n), "light": rng.choice(["day", "night"], n, p=[0.7, 0.3]),
        "city": rng.choice(["Oslo", "Rome"], n)})


def audit(*contexts: tuple[Predicate, ...]) -> Audit:
    numbers = [math.nan] * 13
    return Audit(tuple(Finding(members, 9, 9, 18, *numbers) for members in contexts), (),
                 {"loss": "error", "label": "class"})


def values(benchmark: Benchmark, collection: Collection, split: str, factor: str) -> np.ndarray:
    return collection.factor(factor)[collection.index(benchmark.items[benchmark.rows(split)])]


def context(benchmark: Benchmark, collection: Collection, split: str) -> np.ndarray:
    return ((values(benchmark, collection, split, "light") == "night")
            & (values(benchmark, collection, split, "city") == "Oslo"))


def test_training_has_no_item_of_the_context_and_the_test_as_many_as_others(collection):
    """Of every label the test has as many items in the context as outside of it."""
    benchmark = build_finding(audit((OSLO,), (NIGHT, OSLO)), 2, collection)
    assert not context(benchmark, collection, "train").any()
    inside, label = context(benchmark, collection, "test"), values(benchmark, collection, "test", "class")
    counts = [((label == name) & (inside == side)).sum() for name in ("cat", "cow", "dog") for side in (True, False)]
    assert min(counts) > 20
    assert max(counts) - min(counts) <= 1
    assert benchmark.names["domain"] == ("elsewhere", "inside")
    assert benchmark.card["finding"]["context"] == "light is night and city is Oslo"


def test_with_n_low_training_has_a_few(collection):
    """Settings of the shift are those of a recipe."""
    benchmark = build_finding(audit((NIGHT, OSLO)), 1, collection, changes={"n_low": 12})
    assert context(benchmark, collection, "train").sum() == 12
    assert benchmark.card["shift"] == "low_data"
    with pytest.raises(ShiftBenchError, match="No setting named 'n_lo'"):
        build_finding(audit((NIGHT, OSLO)), 1, collection, changes={"n_lo": 12})


def test_a_context_of_one_label_is_a_correlation(collection):
    """Cats at night: training has cats by day alone, all but the few that are asked for, and dogs by day and night."""
    benchmark = build_finding(audit((CAT, NIGHT)), 1, collection, changes={"n_uncorrelated": 5})
    night, label = (values(benchmark, collection, "train", factor) for factor in ("light", "class"))
    assert ((label == "cat") & (night == "night")).sum() == 5
    assert ((label == "dog") & (night == "night")).sum() > 50
    assert benchmark.card["shift"] == "spurious"


def test_the_benchmark_goes_with_the_collection_as_it_is(collection, tmp_path):
    """The context is in the rows, so that the collection needs no new factor; it can be saved and loaded."""
    benchmark = build_finding(audit((NIGHT,)), 1, collection, seed=3)
    check_origin(benchmark, collection)
    benchmark.save(tmp_path / "night")
    assert Benchmark.load(tmp_path / "night") == benchmark
    assert build_finding(audit((NIGHT,)), 1, collection, seed=3).digest == benchmark.digest


def test_labels_without_a_match_are_left_out_and_named(collection):
    """Cows are never seen at night: a test of matched items has none, one at random has."""
    light = np.where(collection.factors["class"] == "cow", "day", collection.factors["light"])
    indoors = Collection("street", collection.items, {**collection.factors, "light": light})
    benchmark = build_finding(audit((NIGHT,)), 1, indoors)
    assert benchmark.names["label"] == ("cat", "dog")
    assert any("left out: cow" in note for note in benchmark.card["notes"])
    assert "cow" in build_finding(audit((NIGHT,)), 1, indoors, changes={"balanced": False}).names["label"]
    assert build_finding(audit((CAT, NIGHT)), 1, indoors).names["label"] == ("cat", "dog")
    with pytest.raises(ShiftBenchError, match="'n_low' is 'x'"):
        build_finding(audit((NIGHT,)), 1, indoors, changes={"n_low": "x"})
    with pytest.raises(ShiftBenchError, match="Ask for fewer"):
        build_finding(audit((NIGHT,)), 1, indoors, changes={"n_low": 2000})


def test_a_column_that_the_collection_lacks_is_never_taken_for_the_label(collection):
    """It is named with the context; the label itself may have another name in the collection."""
    town = Predicate("town", "cat", "factor", "town is cat")
    with pytest.raises(ShiftBenchError, match=r"Context 'light is night and town is cat': No column named 'town'"):
        build_finding(audit((NIGHT, town)), 1, collection)
    renamed = Collection("street", collection.items, {
        "species" if name == "class" else name: values for name, values in collection.factors.items()})
    ours, theirs = (build_finding(audit((CAT, NIGHT)), 1, one, label=label)
                    for one, label in ((collection, ""), (renamed, "species")))
    assert np.array_equal(ours.items, theirs.items)


def test_what_is_no_shift_is_refused(collection):
    """A finding that is not there, one about the label alone, and one about what a model says."""
    for members, number, message in (((NIGHT,), 2, "no finding 2"), ((CAT,), 1, "the label alone"),
                                     ((SAID, NIGHT), 1, "what the model says")):
        with pytest.raises(ShiftBenchError, match=message):
            build_finding(audit(members), number, collection)
