"""Spurious correlation, low-data drift and unseen data shift by counts; label noise and size after any shift."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.checks import check, fit
from shiftbench.data.collection import Collection
from shiftbench.shifts import LowData, Noise, Size, Spurious, Subpopulation, Under, Unseen
from shiftbench.shifts.recipe import Recipe, build
from shiftbench.shifts.shift import pick
from shiftbench.shifts.suites import COUNTS, FINE_GRAINED, SETUPS, suite
from shiftbench.worlds.sprites import factors, order
from tests.strategies import seeds, toy

quick = settings(max_examples=20, deadline=None)


def grid(each: int = 40, shapes=("square", "ellipse", "heart"), colours=("red", "green", "blue")) -> Collection:
    """`each` items in every cell of shape × colour, with a number as a third factor."""
    n = each * len(shapes) * len(colours)
    place = np.random.default_rng(0).permutation(n) % (len(shapes) * len(colours))
    return Collection("grid", np.char.mod("g%05d", np.arange(n)), {
        "shape": np.asarray(shapes)[place // len(colours)], "colour": np.asarray(colours)[place % len(colours)],
        "step": np.arange(n) % 12 * 5, "split": np.where(place % len(colours) == 2, "test", "train")})


GRID = grid()
LOW = LowData("shape", "colour", ("blue",))
SPURIOUS = Spurious("shape", "colour")
KINDS = {
    "spurious": lambda n: replace(SPURIOUS, n_uncorrelated=max(n, 1)),
    "against": lambda n: replace(SPURIOUS, n_uncorrelated=max(n, 1), against=True),
    "low_data": lambda n: replace(LOW, n_low=n),
    "unseen": lambda n: Unseen("shape", "colour", ("blue",)),
    "at random": lambda n: replace(LOW, n_low=n, balanced=False),
}


def chosen(made: Benchmark, split: str = "train", part: str = "") -> set[str]:
    """The items of a split, or of a part of training."""
    rows = made.rows(split)
    return set(made.items[rows[made.extra["part"][rows] == part] if part else rows].tolist())


@pytest.mark.parametrize("kind", KINDS)
@given(n=st.integers(0, 60), seed=seeds)
@quick
def test_each_item_is_in_one_split_and_the_test_is_uniform(kind, n, seed):
    """No item twice, equal cells in test to within one item, N items in the part `few`, and nothing unfit."""
    made = KINDS[kind](n).build(GRID, seed)
    assert len(set(made.items.tolist())) == len(made)
    counts = list(made.counts()["test"].values())
    if kind != "at random":
        assert len(counts) == 9
        assert max(counts) - min(counts) <= 1
        assert {finding.what for finding in check(made) if finding.unfit} <= {"small split"}
    assert len(chosen(made, part="few")) == {"unseen": 0, "low_data": n, "at random": n}.get(kind, max(n, 1))


@pytest.mark.parametrize("kind", ["spurious", "against", "low_data", "at random"])
@given(n=st.integers(1, 40), more=st.integers(1, 20), seed=st.integers(0, 1000))
@quick
def test_more_low_items_are_added_to_the_same_ones_and_other_seeds_have_others(kind, n, more, seed):
    """The N items are among the N + more of the same seed, the test stays, and another seed has other low items."""
    one, other = (KINDS[kind](k).build(GRID, seed) for k in (n, n + more))
    assert chosen(one, part="few") < chosen(other, part="few")
    assert chosen(one, "test") == chosen(other, "test")
    others = [chosen(KINDS[kind](20).build(GRID, seed + k), part="few") for k in (0, 1)]
    assert others[0] != others[1]


@given(n=st.integers(1, 60), seed=seeds)
@quick
def test_spurious_trains_on_all_correlated_items_and_n_of_the_uniform_law(n, seed):
    """Every correlated item is somewhere; uncorrelated ones in training are in `few`, evenly over cells."""
    pairs = {"square": "red", "ellipse": "green", "heart": "blue"}
    made = replace(SPURIOUS, n_uncorrelated=n, pairs=pairs).build(GRID, seed)
    together = np.asarray([pairs[shape] == colour for shape, colour in
                           zip(GRID.factor("shape"), GRID.factor("colour"), strict=True)])
    assert set(GRID.items[together].tolist()) <= set(made.items.tolist())
    assert not chosen(made, part="main") & set(GRID.items[~together].tolist())
    few = made.group[np.isin(made.items, list(chosen(made, part="few")))]
    counts = np.bincount(few, minlength=9)
    assert counts.max() - counts.min() <= 1


def test_against_takes_no_item_that_agrees_with_the_correlation():
    """With `against`, each of the N items contradicts it."""
    made = replace(SPURIOUS, n_uncorrelated=12, against=True).build(GRID)
    few = np.isin(made.items, list(chosen(made, part="few")))
    assert (made.label[few] != made.domain[few]).all()  # both in the order of their names


@given(seed=seeds)
@quick
def test_unseen_is_low_data_without_items(seed):
    """The same rows but for nothing; no training or in-distribution item has the unseen value."""
    unseen = KINDS["unseen"](0).build(GRID, seed)
    assert unseen.digest == replace(LOW, n_low=0).build(GRID, seed).digest
    blue = set(GRID.items[GRID.factor("colour") == "blue"].tolist())
    for split in ("train", "id_val", "id_test"):
        assert not chosen(unseen, split) & blue
    assert chosen(unseen, "test") & blue


def cameras(each: int = 40) -> Collection:
    """The grid, with a toy per item: toys 0 to 5 were published for training, 6 to 9 for test."""
    made = grid(each)
    toy_of = np.random.default_rng(1).integers(0, 10, len(made))
    return replace(made, factors={**made.factors, "toy": toy_of, "source": np.where(toy_of < 6, "training", "testing")})


TOYS = cameras()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draw", [0, 3])
@given(n=st.integers(1, 20), n_ood=st.integers(0, 30), seed=seeds)
@quick
def test_items_kept_for_test_are_never_trained_on(kind, draw, n, n_ood, seed):
    """With test_where, test and val have items of the test toys alone, and all other splits none of them."""
    shift = replace(KINDS[kind](n), test_where={"source": ("testing",)}, n_ood=n_ood)
    made = (replace(shift, draw=draw) if kind != "unseen" else shift).build(TOYS, seed)
    toys = TOYS.factor("toy")[TOYS.index(made.items)]
    after = np.isin(made.split, ("test", "val"))
    assert set(toys[after].tolist()) <= {6, 7, 8, 9}
    assert set(toys[~after].tolist()) <= {0, 1, 2, 3, 4, 5}
    assert len(set(made.items.tolist())) == len(made)
    assert len(chosen(made, part="few")) == (0 if kind == "unseen" else n)
    assert any("for test alone (source = testing)" in note for note in made.card["notes"])
    if kind != "at random":
        counts = list(made.counts()["test"].values())
        assert max(counts) == min(counts)


@pytest.mark.parametrize(("where", "message"), [
    ({"source": ("testin",)}, "Did you mean 'testing'"),
    ({"source": ("testing", "training")}, "360 of 360 items"),
    ({"source": ("testing",), "toy": ("1",)}, "0 of 360 items"),
])
def test_items_kept_for_test_must_be_some(where, message):
    """A word that no item has, all items and no items are refused."""
    with pytest.raises(ShiftBenchError, match=message):
        replace(LOW, test_where=where).build(TOYS)


@pytest.mark.slow
def test_no_toy_of_smallnorb_is_trained_and_tested_on():
    """All 24,300 images of the published training toys and as many of the test toys: every suite keeps them apart."""
    info = np.stack(np.meshgrid(*map(np.arange, (5, 10, 6, 18, 9)), indexing="ij"), axis=-1).reshape(-1, 5)
    toys = np.asarray([4, 6, 7, 8, 9])
    names = np.asarray(["animal", "human", "airplane", "truck", "car"])
    whole = Collection("smallnorb", np.arange(len(info)).astype(np.str_), {
        "category": names[info[:, 0]], "instance": info[:, 1], "lighting": info[:, 2], "azimuth": 20 * info[:, 3],
        "source": np.where(np.isin(info[:, 1], toys), "training", "testing")})
    for kind in ("spurious", "low_data", "unseen", "noise", "size"):
        members = list(suite(f"fine_grained/smallnorb/{kind}"))
        for key, shift in dict([members[0], members[-1]]).items():
            made = shift.build(whole, 1)
            toy = 10 * info[whole.index(made.items), 0] + info[whole.index(made.items), 1]
            assert not set(toy[made.rows("test")]) & set(toy[made.split != "test"]), key
            assert len(made.rows("test")) == 2000
            assert len(made.rows("train")) > 900, key
            assert fit(check(made)), key


@given(n=st.integers(1, 40), drawn=st.floats(0.01, 1), seed=seeds)
@quick
def test_how_often_a_part_is_drawn_does_not_depend_on_how_many_items_it_has(n, drawn, seed):
    """Weights are 1 on average, the part `few` has the share `drawn` of them, and no item outside training has any."""
    made = replace(LOW, n_low=n, drawn=drawn).build(GRID, seed)
    train, weight, few = made.split == "train", made.extra["weight"], made.extra["part"] == "few"
    assert weight[train].mean() == pytest.approx(1)
    assert weight[few].sum() / weight.sum() == pytest.approx(drawn)
    assert not weight[~train].any()
    alike = replace(LOW, n_low=n, drawn=0).build(GRID, seed)
    assert (alike.extra["weight"] == (alike.split == "train")).all()
    assert (alike.items == made.items).all()


def test_correlated_items_of_the_uniform_part_are_drawn_for_both_reasons():
    """weight(i) / n = (1 − w) / |main| + w / N where an item of the N also agrees with the correlation."""
    made = replace(SPURIOUS, n_uncorrelated=9, drawn=0.3).build(GRID)
    train, few = made.split == "train", made.extra["part"] == "few"
    main = train & (made.label == made.domain)
    law = 0.7 * main / main.sum() + 0.3 * few / 9
    assert made.extra["weight"] / train.sum() == pytest.approx(law)


def test_values_are_named_by_word_or_by_place_in_their_own_order():
    """Numbers are ordered as numbers, so #11.. of 0, 5, … 55 are 50 and 55; places start at 1."""
    made = LowData("shape", "step", ("#11..", "0"), n_low=0, n_test=36).build(GRID)
    seen = {made.names["domain"][code] for code in np.unique(made.domain[made.rows("train")])}
    assert seen == {str(value) for value in range(5, 50, 5)}
    assert pick(["#2", "#1..2"], ("a", "b", "c"), "x").tolist() == [0, 1]


def test_low_values_can_be_those_of_another_column():
    """`low_where` takes the values that items of a given split have, as WILDS' held-out hospitals."""
    by_split = LowData("shape", "colour", low_where={"split": ("test",)}).build(GRID, 3)
    assert by_split.digest == LOW.build(GRID, 3).digest
    both = Unseen("shape", "colour", unseen_where={"split": ("test",), "colour": ("red",)}).build(GRID)
    assert {both.names["domain"][code] for code in both.domain[both.rows("train")]} == {"green"}


def test_a_label_may_go_with_several_values_or_with_its_commonest():
    """Camelyon17's pairs are lists; iWildCam's are the value each class is most often seen with."""
    listed = Spurious("shape", "colour", 1, pairs={"#1": ("#1..2",)}, classes=("square", "heart")).build(GRID)
    main = listed.extra["part"] == "main"
    cells = {listed.names["group"][code] for code in np.unique(listed.group[main])}
    assert cells == {"heart, blue", "heart, green", "square, green"}
    colour = np.where((GRID.factor("shape") == "heart") & (np.arange(len(GRID)) % 3 > 0), "red", GRID.factor("colour"))
    skewed = Collection("s", GRID.items, {"shape": GRID.factor("shape"), "colour": colour})
    often = Spurious("shape", "colour", 1, pairing="commonest").build(skewed)
    hearts = (often.extra["part"] == "main") & (often.label == often.names["label"].index("heart"))
    assert {often.names["domain"][code] for code in np.unique(often.domain[hearts])} == {"red"}


def test_empty_cells_need_a_test_drawn_at_random():
    """A uniform test over an empty cell is refused with the way out; at random it is drawn, and training is whole."""
    holes = Collection("h", GRID.items, {"shape": GRID.factor("shape"), "colour": np.where(
        GRID.factor("shape") == "heart", "red", GRID.factor("colour"))})
    with pytest.raises(ShiftBenchError, match="balanced = false"):
        LOW.build(holes)
    made = replace(LOW, balanced=False).build(holes, 1)
    assert len(chosen(made, part="few")) == 10
    assert len(made.rows("test")) == 72


SHIFTS_BEFORE = [LOW, SPURIOUS, Subpopulation("shape", "colour", {"square": "red", "heart": "blue"}, n_train=50,
                                              n_test=30, n_val=10)]


@pytest.mark.parametrize(("shift", "message"), [
    (replace(SPURIOUS, n_uncorrelated=0), "Give 1 or more"),
    (replace(SPURIOUS, pairing="odd"), "No pairing named 'odd'"),
    (replace(SPURIOUS, pairs={"square": "rad"}), "Did you mean 'red'"),
    (replace(SPURIOUS, drawn=1.5), "drawn = 1.5, but it is a share"),
    (replace(LOW, low=()), "names 0 of the 3 values"),
    (replace(LOW, low=("#1..",)), "names 3 of the 3 values"),
    (replace(LOW, low=("#2..4",)), "there are 3: blue, green, red"),
    (replace(LOW, low=("#3..2",)), "names values 3 to 2"),
    (replace(LOW, low_where={"split": ("tset",)}), "Did you mean 'test'"),
    (replace(LOW, n_low=1000), "are left after the test"),
    (replace(LOW, n_low=-1), "give 0 or more"),
    (replace(LOW, n_test=2), "A test uniform over 9 cells"),
    (Unseen("shape", "colour", ("blue",), n_test=5000), "Lower n_test"),
    (replace(LOW, n_low=0, n_test=315, n_ood=54), "Lower n_test, n_ood"),
    (replace(LOW, n_val=500), "Lower n_val"),
    (replace(LOW, values=("blue",)), "a shift needs two"),
    (Under(LOW, (Noise(1.2),)), "p = 1.2, but it is a share"),
    (Under(LOW, (Noise(0.1), Noise(0.1))), "label noise already"),
    (Under(LOW, (Size(100_000),)), "give a number from 1 to"),
    (Under(LOW, (Size(100, 0.5),)), "takes 50 items of the part 'few'"),
    (Under(SHIFTS_BEFORE[2], (Size(20, 0.1),)), "has no part 'few'"),
])
def test_requests_that_cannot_be_met_say_why(shift, message):
    """Each wrong parameter is answered with what is allowed."""
    with pytest.raises(ShiftBenchError, match=message):
        shift.build(GRID)


def test_one_seen_value_is_noted():
    """The paper wants two seen values; with one the card says so."""
    assert "nothing in it shows" in Unseen("shape", "colour", ("red", "blue")).build(GRID).card["notes"][-1]
    assert len(KINDS["unseen"](0).build(GRID).card["notes"]) == 2


def test_items_with_the_tags_of_two_classes_are_dropped():
    """On a collection of tags, as in the other shifts."""
    collection = toy(600)
    made = LowData("class", "place", ("outdoors",)).build(collection)
    tag = {name: set(collection.items[collection.with_tag(name)]) for name in ("cat", "dog")}
    assert not set(made.items) & (tag["cat"] & tag["dog"])


def test_the_sprites_suites_build_on_the_world_as_it_is_drawn_by_default():
    """Every benchmark of every family has its N, p or n, on 6,000 items of the built-in world."""
    number = order(0)[:6000]
    small = Collection("sprites", np.char.mod("sprite-%07d", number), factors(number))
    for kind in ("spurious", "low_data", "unseen", "noise", "size"):
        for key, shift in suite(f"fine_grained/sprites/{kind}"):
            made = shift.build(small, 1)
            dial = float(key.partition("-")[2] or 0)
            few = len(chosen(made, part="few"))
            wanted = {"spurious": dial, "low_data": dial, "unseen": 0, "noise": 10, "size": max(1, dial / 100)}[kind]
            assert few == wanted, key
            if kind == "size":
                assert len(made.rows("train")) == dial
            if kind == "noise":
                assert made.card["conditions"] == [{"name": "noise", "p": dial / 100}]


def test_table_2_has_six_data_sets_and_five_families():
    """Names are as the data sets', N runs as in the authors' code, and A_c has the size the table gives."""
    assert set(SETUPS) == {"dsprites", "mpi3d", "shapes3d", "smallnorb", "camelyon17", "iwildcam", "sprites"}
    assert len([name for name in FINE_GRAINED if not name.endswith("/swapped")]) == 5 * len(SETUPS)
    assert [key for key, _ in suite("fine_grained/dsprites/low_data")] == [f"low-{n}" for n in COUNTS]
    for name, values, low in (("mpi3d", tuple(dict(SETUPS["mpi3d"].spurious.pairs).values()), 4),
                              ("shapes3d", tuple(f"0.{k}" for k in range(10)), 8),
                              ("smallnorb", tuple(map(str, range(18))), 14), ("camelyon17", tuple("01234"), 2)):
        assert len(pick(SETUPS[name].low_data.low, values, "a")) == low, name


def test_the_recipe_of_the_page_builds(tmp_path, monkeypatch):
    """The recipe that docs/fine_grained.md prints is read as it stands, and training has its fifty items."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "fine_grained.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    rng = np.random.default_rng(0)
    factors = {"diagnosis": rng.choice(["healthy", "ill"], 1200), "scanner": rng.choice(["A", "B", "C"], 1200)}
    Collection("hospital", np.asarray([f"i{row:04}" for row in range(1200)]), factors).save("collections/hospital")
    Path("low.toml").write_text(recipe, encoding="utf-8")
    benchmark = build(Recipe.load("low.toml"))
    scanner = np.asarray(benchmark.names["domain"])[benchmark.domain[benchmark.rows("train")]]
    assert np.isin(scanner, ["B", "C"]).sum() == 50
