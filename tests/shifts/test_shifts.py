"""Shifts draw the law they state, deal no item twice, and repeat under a seed."""

import os
import subprocess
import sys
from dataclasses import fields, replace
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import parse_changes
from shiftbench.data.benchmark import Benchmark, collection_folder
from shiftbench.data.collection import Collection
from shiftbench.metagraph.subsets import parse_subset, subset
from shiftbench.shifts import (
    IID,
    SHIFTS,
    Breeds,
    Context,
    Correlation,
    Given,
    LeaveOneDomainOut,
    LowData,
    Spurious,
    Subpopulation,
    Subset,
    Temporal,
    Unseen,
)
from shiftbench.shifts.recipe import Recipe, build
from shiftbench.shifts.shift import deal, largest, quota, spread
from shiftbench.shifts.subset import ladder
from shiftbench.worlds import WORLDS
from tests.strategies import seeds, toy

quick = settings(max_examples=25, deadline=None)
CAT_DOG = {"cat": "indoors", "dog": "outdoors"}
EXAMPLES = {
    "breeds": Breeds(tree={"soft": ("sofa", "bed"), "hard": ("shelf", "bench")}, level=0),
    "context": Context("class", "place == outdoors", train_on="easy"),
    "spurious": Spurious("class", "place", n_uncorrelated=20),
    "low_data": LowData("class", "place", ("outdoors",)),
    "unseen": Unseen("class", "place", ("outdoors",)),
    "leave_one_domain_out": LeaveOneDomainOut("class", "place", "outdoors"),
    "temporal": Temporal("class", "taken", test_from=2019),
    "iid": IID("class", held=0.2),
    "given": Given("class", "part", domain="place", rename={"tr": "train", "te": "test"}, ignore=("x",)),
    "subset": Subset(("cat(sofa + bed)", "dog(bench + boat)"), ("cat(shelf)", "dog(shelf)"), moves="dog", min_size=5),
    "correlation": Correlation("class", "place", rho=0.8, n_train=100, n_test=40, n_val=20),
    "subpopulation": Subpopulation("class", "place", CAT_DOG, p=0.1, n_train=100, n_test=40, n_val=20),
}


def with_part(collection):
    part = np.asarray(["tr", "te", "x"])[np.arange(len(collection)) % 3]
    taken = np.datetime_as_string(np.datetime64("2018-01-01") + 7 * np.arange(len(collection)) % 1000)
    return type(collection)(collection.name, collection.items,
                            {**collection.factors, "part": part, "taken": taken}, collection.tags)


@given(st.integers(0, 500), st.lists(st.floats(0.001, 1), min_size=1, max_size=8))
def test_quota_is_whole_and_within_one_of_the_exact_share(n, weights):
    """Largest remainder: sums to n, and no cell is off by one or more."""
    shares = np.asarray(weights) / np.sum(weights)
    places = quota(n, shares)
    assert places.sum() == n
    assert (abs(places - n * shares) < 1 + 1e-6).all()


@given(st.integers(0, 100), st.lists(st.integers(0, 30), min_size=1, max_size=6))
def test_spread_is_as_even_as_the_cells_allow(n, available):
    """Takes n or everything there is; a cell gets less than another only when it is used up."""
    taken = spread(n, np.asarray(available))
    assert taken.sum() == min(n, sum(available))
    assert (taken <= available).all()
    for one, left in zip(taken, np.asarray(available) - taken, strict=True):
        assert left == 0 or one >= taken.max() - 1


@given(seeds, st.integers(1, 20))
def test_dealing_more_to_a_later_split_moves_nothing(seed, more):
    """Each row is dealt at most once, and the first split keeps its items when the second one grows."""
    rows, cell = np.arange(100), np.arange(100) % 2
    test, names = np.asarray([10, 10]), ("a", "b")
    first, split = deal(rows, cell, {"test": test, "train": np.asarray([5, 5])}, seed, names)
    second, again = deal(rows, cell, {"test": test, "train": np.asarray([5 + more, 5])}, seed, names)
    assert len(set(second.tolist())) == len(second) == 30 + more
    assert set(first[split == "test"]) == set(second[again == "test"])
    assert set(first[split == "train"]) <= set(second[again == "train"])


def test_largest_is_the_last_that_fits():
    """Bisection ends on the border."""
    assert largest(lambda n: n <= 37, 100) == 37
    assert largest(lambda n: True, 100) == 100
    assert largest(lambda n: n == 0, 100) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHIFTS))
@given(seed=st.integers(0, 1000))
@settings(max_examples=8)
def test_every_shift_keeps_splits_apart_and_repeats_under_a_seed(name, seed):
    """No item in two splits, the same seed gives the same digest, and the card says which shift it was."""
    collection = with_part(toy(600))
    made = EXAMPLES[name].build(collection, seed)
    assert len(set(made.items.tolist())) == len(made)
    assert made.digest == EXAMPLES[name].build(collection, seed).digest
    assert made.card["shift"] == name
    assert {"train", "test"} <= set(made.splits)
    with TemporaryDirectory() as folder:
        assert Benchmark.load(made.save(f"{folder}/b")) == made
    if name != "given":
        assert made.digest != EXAMPLES[name].build(collection, seed + 1).digest


@given(st.floats(0, 1), st.integers(0, 50))
@quick
def test_correlation_draws_the_law_it_states(rho, seed):
    """Training cells follow p_train to within one item, test is uniform to within one item."""
    made = Correlation("class", "place", rho, n_train=60, n_test=40, n_val=10).build(toy(800), seed)
    for split, strength, n in (("train", rho, 60), ("id_val", rho, 10), ("test", 0, 40)):
        rows = made.rows(split)
        counts = np.zeros((2, 2))
        np.add.at(counts, (made.label[rows], made.domain[rows]), 1)
        law = strength * np.eye(2) / 2 + (1 - strength) / 4
        assert (abs(counts - n * law) < 1 + 1e-6).all()


@given(st.floats(0, 0.5), st.integers(0, 50))
@quick
def test_subpopulation_keeps_total_and_test_whatever_the_share(p, seed):
    """n_train items in every case, minority share p to within one item per group, the same test items for every p."""
    collection = toy(800)
    made = Subpopulation("class", "place", CAT_DOG, p, n_train=80, n_test=60, n_val=20).build(collection, seed)
    even = Subpopulation("class", "place", CAT_DOG, 0.5, n_train=80, n_test=60, n_val=20).build(collection, seed)
    counts = made.counts()
    assert len(made.rows("train")) == 80
    minority = counts["train"].get("cat, outdoors", 0) + counts["train"].get("dog, indoors", 0)
    assert abs(minority - 80 * p) <= 2
    assert set(counts["test"].values()) == {15}
    assert made.items[made.rows("test")].tolist() == even.items[even.rows("test")].tolist()


def test_sizes_left_open_use_what_there_is():
    """Without sizes the smallest cell is used up, not exceeded."""
    made = Subpopulation("class", "place", CAT_DOG).build(toy(800))
    assert len(made.rows("train")) > 200
    assert set(made.splits) == {"train", "id_val", "id_test", "test"}


def test_subset_drops_the_ambiguous_and_gives_the_test_its_items():
    """Train and test are the stated unions less the ambiguous, test wins items in both, and the card counts both."""
    collection = toy(600)
    shift = EXAMPLES["subset"]
    made = shift.build(collection)
    tag = {name: set(collection.items[collection.with_tag(name)]) for name in collection.tags.names}
    both = tag["cat"] & tag["dog"]
    test = ((tag["cat"] | tag["dog"]) & tag["shelf"]) - both
    train = ((tag["cat"] & (tag["sofa"] | tag["bed"])) | (tag["dog"] & (tag["bench"] | tag["boat"]))) - both
    assert set(made.items[made.rows("test")]) == test
    assert set(made.items) - test == train - test
    assert made.card["notes"] == [
        f"{len(both)} items carry the tags of two of the classes and were dropped.",
        f"{len(train & test)} training items are also test items and went to the test.",
    ]
    for item, label in zip(made.items, made.label, strict=True):
        assert item in tag[made.names["label"][label]]
    assert made.names["domain"] == ("bed / boat", "shelf", "sofa / bench")
    assert made.card["distance"] == made.card["distances"]["dog"] > 0


def test_subset_splits_the_total_evenly():
    """n_train is kept exactly and shared evenly by classes."""
    made = Subset(("cat(sofa + bed)", "dog(bench + boat)"), ("cat(shelf)", "dog(shelf)"), n_train=101).build(toy(600))
    labels = np.bincount(made.label[made.rows("train")])
    assert labels.tolist() == [51, 50]


def test_small_subsets_are_not_used_up_by_training():
    """With items to spare, every training subset has items in id_val and id_test too."""
    made = Subset(("cat(sofa + bed)", "dog(bench + boat)"), ("cat(shelf)", "dog(shelf)"), n_train=150).build(toy(1200))
    assert set(made.counts()["train"]) == set(made.counts()["id_val"]) == set(made.counts()["id_test"])
    assert len(made.rows("train")) == 150


def test_a_class_with_fewer_contexts_is_in_every_domain():
    """cat(sofa) meets dog(bench) in one domain and dog(boat) in the other."""
    made = Subset(("cat(sofa)", "dog(bench + boat)"), ("cat(shelf)", "dog(shelf)")).build(toy(600))
    rows = made.rows("train")
    codes = zip(made.label[rows], made.domain[rows], strict=True)
    cells = {(made.names["label"][y], made.names["domain"][d]) for y, d in codes}
    assert cells == {(y, d) for y in ("cat", "dog") for d in ("sofa / bench", "sofa / boat")}


@pytest.mark.parametrize(("shift", "message"), [
    (Subset(("cat(sofa)", "dog(bed)"), ("cow(shelf)",)), "'cow' is tested but not trained on"),
    (Subset(("cat(sofa)",), ("cat(shelf)",)), "one class 'cat'"),
    (Subset(("cat(sofa)", "dog(bad)"), ("dog(shelf)",)), "Did you mean 'bed'"),
    (Subset(("cat(sofa)", "dog(bed)"), ("dog(shelf)",), n_train=5000), "asks for 2500. Lower n_train"),
    (Subset(("cat(sofa)", "dog(bed)"), ("dog(shelf)",), moves="cow"), "No class named 'cow'"),
    (Subset((), ("dog(shelf)",)), "'train' names no subset"),
    (Correlation("class", "place", rho=1.5), "rho = 1.5, but it is a share"),
    (Correlation("klass", "place"), "Did you mean 'class'"),
    (Correlation("class", "place", classes=("cow",)), "No class named 'cow'"),
    (Correlation("class", "place", pairs={"cat": "indoor"}), "Did you mean 'indoors'"),
    (Correlation("class", "place", n_train=10_000), "Lower the sizes"),
    (Correlation("class", "class"), "too few to train and test on"),
    (Subpopulation("class", "place", {"cat": "indoor", "dog": "outdoors"}), "Did you mean 'indoors'"),
    (Subpopulation("class", "place", {"cat": "indoors"}), "a shift needs two"),
    (Given("class", "place"), "No split named 'indoors'"),
    (Given("class", "place", ignore=("indoors", "outdoors")), "leaves no items"),
])
def test_requests_that_cannot_be_met_say_why(shift, message):
    """Each wrong parameter is answered with what is allowed."""
    with pytest.raises(ShiftBenchError, match=message):
        shift.build(toy(300))


@pytest.mark.parametrize("shift", [
    Subset(("cat(sofa)", "dog(bed)"), ("dog(shelf)",)), Correlation("class", "place"),
    Subpopulation("class", "place", CAT_DOG), LowData("class", "place", ("outdoors",)),
    Unseen("class", "place", ("outdoors",)), Spurious("class", "place"),
], ids=lambda shift: shift.name)
def test_a_number_of_items_below_zero_is_refused(shift):
    """Whichever size of a shift it is: taken for a number, it would deal one split the items of another."""
    for setting in fields(shift):
        if setting.name.startswith("n_"):
            with pytest.raises(ShiftBenchError, match=rf"{setting.name} = -1, but .*[Gg]ive [01] or more"):
                replace(shift, **{setting.name: -1}).build(toy(300))


RECIPE = """
collection = "toy"
seed = 3
[shift.subpopulation]
label = "class"
factor = "place"
majority = {cat = "indoors", dog = "outdoors"}
p = 0.06
n_train = 80
n_test = 40
n_val = 20
"""


def test_a_recipe_builds_and_remembers_its_collection(tmp_path):
    """The settings reach the shift, --set replaces one, and the collection is found again from the benchmark."""
    toy(500).save(tmp_path / "toy")
    (tmp_path / "r.toml").write_text(RECIPE)
    made = build(tmp_path / "r.toml", tmp_path / "b", parse_changes(["p=0.5", "seed=4", "majority.cat=outdoors"]))
    assert made.card["params"]["p"] == 0.5
    assert made.card["params"]["majority"] == {"cat": "outdoors", "dog": "outdoors"}
    assert made.card["seed"] == 4
    assert Collection.load(collection_folder(made)) == toy(500)
    toy(400).save(tmp_path / "toy")
    with pytest.raises(ShiftBenchError, match="The collection was changed"):
        collection_folder(made)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("seed", "sed", "No key named 'sed'. Did you mean 'seed'"),
    ("shift.subpopulation", "shift.subpopulatin", "Did you mean 'subpopulation'"),
    ("n_train", "n_tran", "Did you mean 'n_train'"),
    ("0.06", "'six'", "'p' is 'six', but it must be of type float"),
    ("seed = 3", "seed = 'x'", "must be a whole number"),
    ('collection = "toy"', "", "'collection' is missing"),
    ('label = "class"', "", "'label' is missing"),
    ("[shift.subpopulation]", "[shiftsubpopulation]", "No key named"),
    ("seed = 3", "seed = [", "not valid TOML"),
])
def test_bad_recipes_are_explained(tmp_path, old, new, message):
    """Unknown keys suggest the nearest, wrong types say what is wanted; the file is named."""
    (tmp_path / "r.toml").write_text(RECIPE.replace(old, new))
    with pytest.raises(ShiftBenchError, match=message):
        Recipe.load(tmp_path / "r.toml")


def test_a_path_that_no_system_has_is_explained(tmp_path):
    """TOML can write a NUL; a collection or a script of edits so named is told in one line."""
    (tmp_path / "r.toml").write_text(RECIPE.replace('"toy"', r'"a\u0000b"'))
    with pytest.raises(ShiftBenchError, match="no such folder"):
        build(tmp_path / "r.toml")
    with pytest.raises(ShiftBenchError, match="cannot be read as text"):
        Breeds(tree={"pet": ("cat", "dog")}, edits="\0").build(toy(40))


def test_an_unknown_setting_on_the_command_line_is_explained(tmp_path):
    """--set with a wrong name suggests the nearest; without an equals sign it says how to write it."""
    (tmp_path / "r.toml").write_text(RECIPE)
    with pytest.raises(ShiftBenchError, match="Did you mean 'n_test'"):
        Recipe.load(tmp_path / "r.toml", {"n_tests": 1})
    with pytest.raises(ShiftBenchError, match="Write --set key=value"):
        parse_changes(["p"])


@pytest.mark.slow
def test_the_digest_is_the_same_in_another_process(tmp_path):
    """Rows do not depend on the order of sets or dictionaries: another hash seed, the same digest."""
    toy(500).save(tmp_path / "toy")
    (tmp_path / "r.toml").write_text(RECIPE)
    here = [build(tmp_path / "r.toml").digest, EXAMPLES["subset"].build(toy(500), 1).digest]
    script = (f"from shiftbench.shifts import build; from tests.shifts.test_shifts import EXAMPLES, toy;"
              f"print(build({str(tmp_path / 'r.toml')!r}).digest, EXAMPLES['subset'].build(toy(500), 1).digest)")
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                           env={**os.environ, "PYTHONHASHSEED": "1"})
    assert there.stdout.split() == here


def test_other_classes_are_trained_on_and_not_tested():
    """`others` adds n_others items of each further class to train, the rest to id_val and id_test, none to test."""
    collection = toy(600)
    third = np.where(np.arange(600) % 3 == 0, "cow", collection.factor("class"))
    cows = type(collection)("c", collection.items, {"kind": third, "place": collection.factor("place")})
    shift = Subpopulation("kind", "place", CAT_DOG, 0.2, n_train=60, n_test=40, n_val=20, others=("cow",), n_others=50)
    counts = shift.build(cows, 0).counts()
    assert sum(n for group, n in counts["train"].items() if group.startswith("cow")) == 50
    assert sum(n for part in counts.values() for group, n in part.items() if group.startswith("cow")) == 200
    assert not any(group.startswith("cow") for group in counts["test"])


def test_factor_values_can_be_chosen():
    """Items whose factor has another value are left out."""
    collection = toy(600)
    place = np.where(np.arange(600) % 5 == 0, "none", collection.factor("place"))
    odd = type(collection)("c", collection.items, {"class": collection.factor("class"), "place": place})
    made = Correlation("class", "place", values=("indoors", "outdoors")).build(odd, 0)
    assert made.names["domain"] == ("indoors", "outdoors")


@pytest.mark.slow
def test_a_ladder_climbs_and_uses_each_context_once():
    """k training sets, distances growing and spread over the range, enough items outside the test subset."""
    scenes = WORLDS["scenes"](items=3000, seed=1)
    rungs = ladder(scenes, "dog(shelf)", 3, items=60)
    far = [rung.distance for rung in rungs]
    assert len(rungs) == 3
    assert far == sorted(far)
    assert far[1] - far[0] > 0.2 * (far[2] - far[0])
    test = set(subset(scenes, "dog(shelf)").tolist())
    contexts = []
    for rung in rungs:
        assert rung.items == len(set(subset(scenes, rung.subset).tolist()) - test) >= 60
        contexts += parse_subset(rung.subset)[1]
    assert len(contexts) == len(set(contexts)) == 6
    with pytest.raises(ShiftBenchError, match="Lower k, items or contexts"):
        ladder(scenes, "dog(shelf)", 50, items=60)


@pytest.mark.parametrize("wrong", [{"k": 0}, {"contexts": 0}, {"contexts": -1}], ids=str)
def test_a_ladder_has_rungs_and_each_has_contexts(wrong):
    """No training set, or one of no context, is refused in one line."""
    with pytest.raises(ShiftBenchError, match="1 training set or more, each of 1 context or more"):
        ladder(toy(600), "dog(shelf)", **{"k": 2, **wrong})
