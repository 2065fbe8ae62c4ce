"""A string where a list is meant is that one word, or words with commas between, and never its letters."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import get_args, get_origin

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import make
from shiftbench.data.benchmark import Benchmark
from shiftbench.metagraph.catalogue import Terms, catalogue
from shiftbench.shifts import SHIFTS
from tests.strategies import toy

WORDS = [(name, field.name) for name, cls in SHIFTS.items() for field in fields(cls)
         if get_origin(field.type) is tuple and get_args(field.type)[0] is str]
WHERE = [(name, field.name) for name, cls in SHIFTS.items() for field in fields(cls)
         if get_origin(field.type) is Mapping and get_origin(get_args(field.type)[1]) is tuple]


def settings(name, **given):
    """Settings of a shift: a word for each that has no default, and those that are given."""
    needed = {field.name: {"x": "y"} if get_origin(field.type) is Mapping else "x" for field in fields(SHIFTS[name])
              if field.default is MISSING and field.default_factory is MISSING}
    return {**needed, **given}


@pytest.mark.parametrize(("name", "field"), WORDS)
def test_every_list_of_words_of_every_shift_takes_one_word(name, field):
    """In Python and in a recipe, `west` is the list of `west`."""
    given = settings(name, **{field: "west"})
    for shift in (SHIFTS[name](**given), make(SHIFTS[name], given, "recipe")):
        assert getattr(shift, field) == ("west",)


@pytest.mark.parametrize(("name", "field"), WHERE)
def test_every_choice_of_items_takes_one_word(name, field):
    """{"split": "test"} names one value, not four letters."""
    shift = SHIFTS[name](**settings(name, **{field: {"split": "test", "site": ("a", "b")}}))
    assert getattr(shift, field) == {"split": ("test",), "site": ("a", "b")}


def test_a_shift_of_one_word_is_that_of_a_list():
    """The same benchmark comes out."""
    data = toy(600)
    one, other = (sb.Unseen("class", "place", unseen=word).build(data) for word in ("outdoors", ("outdoors",)))
    assert one.digest == other.digest


def benchmark() -> Benchmark:
    n = 60
    label = np.arange(n) % 2
    return Benchmark(np.char.mod("i%d", np.arange(n)), np.full(n, "test"), label, label, label,
                     {"label": ("a", "b"), "domain": ("a", "b"), "group": ("a", "b")},
                     extra={"gender": np.where(np.arange(n) % 3, "f", "m")})


def test_verbs_take_one_word_for_a_list(tmp_path):
    """by="gender", metrics="auc,ece", benchmarks="b" and compare="erm,irm" are what they seem."""
    made = benchmark()
    scores = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    predictions = sb.Predictions(made.items, made.split, scores, made.names["label"])
    one = sb.score(made, predictions, by="gender", metrics="auc, error", replicates=50)
    other = sb.score(made, predictions, by=["gender"], metrics=["auc", "error"], replicates=50)
    assert one["value"].tolist() == other["value"].tolist()
    assert {"auc", "error"} <= set(one["metric"])
    assert "gender" in set(one["by"])
    cells = sb.score(made, predictions, by="gender,label", replicates=0)
    assert "gender,label" in set(cells["by"])
    made.save(tmp_path / "b")
    assert sb.report(one, tmp_path / "r.html", benchmarks=tmp_path / "b").is_file()
    assert sb.report(one, tmp_path / "s.html", benchmarks=str(tmp_path / "b")).is_file()
    with pytest.raises(ShiftBenchError, match="compare names 1 methods"):
        sb.report(one, tmp_path / "t.html", compare="erm")
    with pytest.raises(ShiftBenchError, match="report on a folder of runs"):
        sb.report(one, tmp_path / "t.html", compare="erm,irm")


def test_kinds_of_contexts_may_be_one_word():
    """graph(…, kinds="object") is the graph of that kind."""
    data = toy(600)
    assert sb.graph(data, "dog", kinds="object").names == sb.graph(data, "dog", kinds=["object"]).names


def test_a_collection_without_tags_has_no_graph_and_is_told_why():
    """No list of kinds that is empty: there is nothing to name."""
    bare = sb.Collection("bare", np.asarray(["a", "b"]))
    with pytest.raises(ShiftBenchError, match="'bare' has no tags, and a meta-graph is made of tags"):
        catalogue(bare, Terms())
    with pytest.raises(ShiftBenchError) as told:
        catalogue(toy(60), Terms(min_size=1000))
    assert ": ." not in str(told.value)
