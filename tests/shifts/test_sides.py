"""Leave-one-domain-out and temporal shifts keep every item, on the side that the data say."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts import LeaveOneDomainOut, Temporal, Unseen
from shiftbench.shifts.conditions import Noise
from shiftbench.shifts.recipe import each, several
from shiftbench.shifts.shift import Under, ambiguous
from tests.strategies import toy

quick = settings(max_examples=25, deadline=None)
CITIES = ("Berlin", "Hamburg", "Köln", "New York")
shares = st.floats(0, 0.45)
MANY = 2400
"""Items of which even the smallest domain and the first year leave some of both classes, whatever is held out."""


def cities(n: int = 600, seed: int = 0, undated: float = 0.1) -> Collection:
    """The toy in four cities of unequal size, over six years, some items without a date, a number per item."""
    plain, rng = toy(n, seed), np.random.default_rng([seed, 1])
    day = np.datetime_as_string(np.datetime64("2014-01-01") + rng.integers(0, 2190, n))
    return Collection("cities", plain.items, {
        **plain.factors, "city": rng.choice(CITIES, n, p=[0.5, 0.3, 0.15, 0.05]),
        "taken": np.where(rng.random(n) < undated, "", day), "year": np.asarray([int(word[:4]) for word in day]),
        "wealth": rng.normal(size=n)}, plain.tags)


def unambiguous(collection: Collection) -> set[str]:
    return {*collection.items.tolist()} - {*collection.items[ambiguous(collection, ["cat", "dog"])].tolist()}


def values(collection: Collection, factor: str, made: Benchmark, *splits: str) -> np.ndarray:
    """A factor of the items of some splits."""
    return collection.factor(factor)[collection.index(made.items[np.isin(made.split, splits)])]


@given(st.sampled_from(CITIES), shares, st.floats(0, 0.9), st.integers(0, 1000))
@quick
def test_a_left_out_domain_is_tested_whole(city, held, ood, seed):
    """Test and its val are all items of the domain, and only these; all others are train, id_val and id_test."""
    collection = cities(MANY)
    made = LeaveOneDomainOut("class", "city", city, held=held, ood=ood).build(collection, seed)
    assert {*made.items.tolist()} == unambiguous(collection)
    assert {*values(collection, "city", made, "test", "val")} == {city}
    assert {*values(collection, "city", made, "train", "id_val", "id_test")} == {*CITIES} - {city}
    inside = int(np.isin(made.split, ("train", "id_val", "id_test")).sum())
    for part in ("id_val", "id_test"):
        assert abs(len(made.rows(part)) - held * inside) <= 4 * np.sqrt(inside) / 2 + 1
    assert made.names["domain"] == tuple(sorted(CITIES))
    assert ("val" in made.splits) == (len(made.rows("val")) > 0)


@given(shares, shares, st.integers(0, 1000))
@quick
def test_more_held_out_moves_nobody(one, other, seed):
    """With a larger share what was held out stays where it was."""
    collection = cities()
    small, large = (LeaveOneDomainOut("class", "city", "Köln", held=held).build(collection, seed)
                    for held in sorted((one, other)))
    for part in ("id_val", "id_test"):
        assert {*small.items[small.rows(part)]} <= {*large.items[large.rows(part)]}


def test_one_benchmark_per_domain():
    """Without `test` a shift stands for one per domain, in which the same items are held out; `val` is never tested."""
    collection = cities()
    shift = LeaveOneDomainOut("class", "city", val="New York")
    assert several(shift)
    family = each(shift, collection)
    assert list(family) == ["city-Berlin", "city-Hamburg", "city-Köln"]
    made = {name: one.build(collection, 3) for name, one in family.items()}
    held = {}
    for one in made.values():
        assert {*values(collection, "city", one, "val")} == {"New York"}
        for item, split in zip(one.items.tolist(), one.split.tolist(), strict=True):
            if split in ("train", "id_val", "id_test"):
                assert held.setdefault(item, split) == split
    with pytest.raises(ShiftBenchError, match="stands for 4 benchmarks"):
        shift.build(collection)
    under = Under(LeaveOneDomainOut("class", "city"), (Noise(0.2),))
    assert all(isinstance(one, Under) and not several(one) for one in each(under, collection).values())


@given(st.integers(2015, 2019), shares, st.floats(0, 0.9), st.integers(0, 1000))
@quick
def test_time_parts_train_from_test(year, held, ood, seed):
    """Every dated item is in, all of training is before the date, all of the test is not."""
    collection = cities(MANY)
    made = Temporal("class", "taken", test_from=year, held=held, ood=ood).build(collection, seed)
    dated = {*collection.items[collection.factor("taken") != ""].tolist()} & unambiguous(collection)
    assert {*made.items.tolist()} == dated
    assert (values(collection, "taken", made, "train", "id_val", "id_test") < f"{year}-01-01").all()
    assert (values(collection, "taken", made, "test", "val") >= f"{year}-01-01").all()
    assert {*made.names["domain"]} == {str(year) for year in range(2014, 2020)}


@given(st.floats(0.05, 0.7), st.integers(0, 20))
@quick
def test_the_latest_share_is_tested(share, seed):
    """Without a date the share of test is exact but for ties, which stay together."""
    collection = cities(seed=seed)
    for factor in ("taken", "year"):
        made = Temporal("class", factor, test=share, held=0, domain="city").build(collection, seed)
        train, test = (values(collection, factor, made, part) for part in ("train", "test"))
        assert max(train) < min(test)
        exact = round(share * len(made))
        assert len(test) >= exact
        assert (test > min(test)).sum() < max(exact, 1)


def test_validation_lies_between_training_and_test():
    """As in FMoW: train before 2016, val before 2018, test after; the card has the periods."""
    collection = cities()
    made = Temporal("class", "taken", test_from="2018", val_from="2016-07").build(collection)
    assert (values(collection, "taken", made, "train", "id_val", "id_test") < "2016-07").all()
    between = values(collection, "taken", made, "val")
    assert ((between >= "2016-07") & (between < "2018")).all()
    assert made.card["periods"]["val"] == [min(between), max(between)]
    assert any("have no date in 'taken'" in note for note in made.card["notes"])
    assert any(note.startswith("Train from 2014") for note in made.card["notes"])


def test_seasons_and_bins_are_domains():
    """A season, a year or a bin of numbers can be left out."""
    collection = cities()
    made = LeaveOneDomainOut("class", "season:taken", "winter").build(collection)
    assert {*values(collection, "season:taken", made, "test")} == {"winter"}
    assert len(each(LeaveOneDomainOut("class", "bins:wealth:-1,1"), collection)) == 3
    assert each(LeaveOneDomainOut("class", "year:taken"), collection)["year-taken-2014"].test == ("2014",)


@pytest.mark.parametrize("shift", [LeaveOneDomainOut("wealth", "city", "Köln", target="number"),
                                   Temporal("wealth", "taken", target="number")])
def test_other_targets_shift_too(shift):
    """Numbers are predicted across domains and times as classes are."""
    made = shift.build(cities())
    assert made.target.kind == "number"
    assert {"train", "id_val", "id_test", "test"} <= set(made.splits)


def test_unseen_says_how_many_items_it_leaves():
    """The card of `unseen` counts what a uniform test leaves; leaving the domain out tests all of it."""
    collection = cities()
    there = len(unambiguous(collection) & {*collection.items[collection.factor("city") == "Berlin"].tolist()})
    some = Unseen("class", "city", ("Berlin",)).build(collection)
    used = int((values(collection, "city", some, "test") == "Berlin").sum())
    assert 0 < used < there / 4
    said = next(note for note in some.card["notes"] if "unseen value" in note)
    assert f"{used} are tested: leave_one_domain_out tests all." in said
    assert len(LeaveOneDomainOut("class", "city", "Berlin").build(collection).rows("test")) == there


def test_lost_classes_are_on_the_card():
    """A class that training does not have is tested all the same, and said."""
    plain = cities()
    label = np.where(plain.factor("city") == "Köln", "bird", plain.factor("class"))
    made = LeaveOneDomainOut("class", "city", "Köln").build(Collection(
        "c", plain.items, {**plain.factors, "class": label}))
    assert "Class 'bird' is tested, but training has none of it." in made.card["notes"]


@pytest.mark.parametrize(("shift", "message"), [
    (LeaveOneDomainOut("class", "city", "Cologne"), "No value named 'Cologne'"),
    (LeaveOneDomainOut("class", "city", CITIES), "'train' has no items"),
    (LeaveOneDomainOut("class", "city", "Köln", val="Köln"), "in 'test' and in 'val'"),
    (LeaveOneDomainOut("class", "city", "Köln", held=0.5), "'held' is 0.5"),
    (LeaveOneDomainOut("class", "city", "Köln", ood=1), "'ood' is 1"),
    (LeaveOneDomainOut("class", "city", "Köln", classes=("cat",)), "'train' has a single class"),
    (LeaveOneDomainOut("wealth", "city", "Köln", target="number", classes=("cat",)), "'classes' keeps values"),
    (LeaveOneDomainOut("class", "has:zebra", "yes"), "zebra"),
    (Temporal("class", "city"), "which is no date"),
    (Temporal("class", "taken", test_from="soon"), "test_from = 'soon' is no date"),
    (Temporal("class", "taken", test_from=2031), "no item is on the side of test"),
    (Temporal("class", "taken", test_from=1990), "no item is on the side of train"),
    (Temporal("class", "taken", test_from=2016, val_from=2017), "comes after the first date"),
    (Temporal("class", "taken", test=1.0), "'test' is 1.0"),
])
def test_what_cannot_be_built_says_why(shift, message):
    """One line with the setting and what to do."""
    with pytest.raises(ShiftBenchError) as problem:
        shift.build(cities())
    assert message in str(problem.value)


def test_one_domain_cannot_be_left_out():
    """A factor with one value has no other domain to train on."""
    plain = cities()
    with pytest.raises(ShiftBenchError, match="leave one out"):
        LeaveOneDomainOut("class", "one", "a").build(Collection(
            "c", plain.items, {**plain.factors, "one": np.full(len(plain), "a")}))


def test_recipes_build_all_domains_or_one(shell, tmp_path):
    """`build` makes a folder per domain, or one benchmark where `test` names it; dates of TOML are dates."""
    cities().save(tmp_path / "cities")
    recipe = tmp_path / "cities.toml"
    recipe.write_text('collection = "cities"\nseed = 4\n[shift.leave_one_domain_out]\nlabel = "class"\n'
                      'domain = "city"\n')
    code, out, err = shell("build", recipe, "--out", tmp_path / "all", "--json")
    assert (code, err) == (0, "")
    assert [one["card"]["params"]["test"] for one in json.loads(out)] == [[city] for city in CITIES]
    made = Benchmark.load(tmp_path / "all" / "city-Hamburg")
    assert (made.name, made.card["seed"]) == ("city-Hamburg", 4)
    assert made.digest == LeaveOneDomainOut("class", "city", "Hamburg").build(cities(), 4).digest
    assert shell("build", recipe, "--out", tmp_path / "few", "--only", "city-H", "--quiet")[0] == 0
    assert [path.name for path in (tmp_path / "few").iterdir()] == ["city-Hamburg"]
    assert shell("build", recipe, "--out", tmp_path / "one", "--set", "test=Hamburg", "--quiet")[0] == 0
    assert Benchmark.load(tmp_path / "one").digest == made.digest
    code, _, err = shell("build", recipe, "--out", tmp_path / "x", "--set", "test=Hamburg", "--only", "city-H")
    assert code == 1
    assert "--only is for a suite" in err
    folders = sb.suite(recipe, None, tmp_path / "python", only="city-Köln", changes={"held": 0.2})
    assert Benchmark.load(folders[0]).card["params"]["held"] == 0.2
    with pytest.raises(ShiftBenchError, match="stands for 4 benchmarks"):
        sb.build(recipe)
    dated = tmp_path / "dated.toml"
    dated.write_text('collection = "cities"\n[shift.temporal]\nlabel = "class"\ndate = "taken"\n'
                     'test_from = 2018-06-01\n')
    assert sb.build(dated).card["params"]["test_from"] == "2018-06-01"
    assert sb.build(dated, changes={"test_from": 2018}).card["params"]["test_from"] == 2018
    with pytest.raises(ShiftBenchError, match="stands for one benchmark"):
        sb.suite(dated, None, tmp_path / "y")


def test_places_of_numbered_classes_follow_their_values():
    """`#3` is the third class by value, where classes are numbers, as in every other shift: 9 comes before 10."""
    n = 60
    c = Collection("numbered", np.arange(n).astype(str), {
        "level": np.asarray([1, 9, 10])[np.arange(n) % 3], "site": np.asarray(["a", "b"])[np.arange(n) % 2]})
    built = LeaveOneDomainOut("level", "site", test="b", classes=("#2..3",)).build(c)
    assert set(built.names["label"]) == {"9", "10"}
