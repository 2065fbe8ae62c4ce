"""`get_dataset` takes what the package takes for one data set alone: folds, schemes, seeds, channels, names."""

import numpy as np
import pytest

from shiftbench.compat.wilds import get_dataset
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.readers.wilds.photos import HELD_OUT, fold_split, mixed_fold
from shiftbench.shifts.suites import WILDS

COUNTRIES = np.asarray(sorted(name for group in HELD_OUT.values() for name in group))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two folds of a small PovertyMap, FMoW and MolPCBA as `read wilds` and `build wilds` leave them."""
    place = tmp_path_factory.mktemp("wilds")
    rng = np.random.default_rng(0)
    n = 5000
    country = COUNTRIES[rng.integers(0, len(COUNTRIES), n)]
    np.savez(place / "x.npz", x=np.ones((8, 2, 2), np.float32))
    wealth = rng.normal(size=n)
    folds = {f"split_{fold}": fold_split(country, fold) for fold in HELD_OUT}
    poverty = Collection("poverty", np.arange(n).astype(str), factors={
        "label": wealth, "y": wealth, "urban": np.asarray(["rural", "urban"])[rng.integers(0, 2, n)],
        "country": country, "split": folds["split_A"], **folds,
        **{f"split_mixed_to_test_{fold}": mixed_fold(country, fold) for fold in "AB"}},
        pixels=np.full(n, "x.npz"), root=place)
    m = 60
    words = np.asarray(["train", "id_val", "val", "test", "unused"])
    fmow = Collection("fmow", np.arange(m).astype(str), factors={
        "label": np.asarray(["park", "port"])[np.arange(m) % 2], "y": np.arange(m) % 2,
        "region": np.asarray(["Asia", "Africa"])[np.arange(m) % 2], "year": 2002 + np.arange(m) % 16,
        "split": words[np.arange(m) % 5], "split_mixed_to_test": words[(np.arange(m) // 5) % 5]})
    molecules = Collection("molpcba", np.arange(m).astype(str), factors={
        "y000": np.arange(m) % 2 * 1.0, "scaffold": np.arange(m) // 3, "split": words[[0, 2, 3]][np.arange(m) % 3]})
    for collection, names in ((poverty, ("poverty-A", "poverty-C")), (fmow, ("fmow",)), (molecules, ("molpcba",))):
        collection.save(place / "c" / collection.name)
        for name in names:
            WILDS[name].build(collection).save(place / "b" / name)
    return place


def opened(root, name, **options):
    collection = Collection.load(root / "c" / {"ogb-molpcba": "molpcba"}.get(name, name))
    return get_dataset(name, root_dir=root / "b", collection=collection, **options)


@pytest.mark.parametrize("fold", "ABCDE")
def test_a_fold_is_taken_by_its_letter(root, fold):
    """`fold="B"` has the package's countries, whether its benchmark was built or another fold's; A is the default."""
    data = opened(root, "poverty", fold=fold)
    following = "ABCDEA"["ABCDE".index(fold) + 1]
    for part, countries in (("val", HELD_OUT[following]), ("test", HELD_OUT[fold])):
        rows = data.benchmark.rows(part)
        seen = {data.benchmark.names["domain"][code] for code in data.benchmark.domain[rows]}
        assert seen == set(countries)
    if fold == "A":
        assert opened(root, "poverty").benchmark == data.benchmark


def test_a_scheme_is_the_factor_of_its_name(root):
    """`mixed-to-test` is the split that the reader drew as the package does; the official one has a second name."""
    data = opened(root, "poverty", fold="B", split_scheme="mixed-to-test")
    words = data.collection.factors["split_mixed_to_test_B"]
    assert set(data.benchmark.items[data.benchmark.rows("train")]) == set(data.collection.items[words == "train"])
    assert data.split_scheme == "mixed-to-test"
    mixed = opened(root, "fmow", split_scheme="mixed-to-test", seed=111)
    assert len(mixed) == int((mixed.collection.factors["split_mixed_to_test"] != "unused").sum())
    assert opened(root, "fmow", split_scheme="time_after_2016", seed=7).benchmark == opened(root, "fmow").benchmark
    assert opened(root, "poverty", split_scheme="countries").benchmark == opened(root, "poverty").benchmark


@pytest.mark.parametrize("name", ["poverty", "fmow"])
def test_val_may_be_the_in_distribution_one(root, name):
    """With `use_ood_val=False` `val` is id_val and `ood_val` the other, in subsets, names and the split array."""
    plain, other = opened(root, name), opened(root, name, use_ood_val=False)
    for theirs, ours in (("val", "id_val"), ("ood_val", "val"), ("test", "test")):
        rows = plain.get_subset(ours).indices
        assert np.array_equal(other.get_subset(theirs).indices, rows)
        assert np.array_equal(np.flatnonzero(other.split_array == other.split_dict[theirs]), rows)
    assert "id_val" not in other.split_dict
    assert "ID" in other.split_names["val"]


def test_the_light_at_night_may_be_left_out(root):
    """`no_nl=True` sets the last channel to 0 and no other."""
    bare, whole = (opened(root, "poverty", no_nl=no_nl)[0][0] for no_nl in (True, False))
    assert (whole == 1).all()
    assert (bare[:-1] == 1).all()
    assert (bare[-1] == 0).all()


def test_the_package_calls_the_molecules_by_another_name(root):
    """`ogb-molpcba` is the benchmark `molpcba`."""
    assert opened(root, "ogb-molpcba").benchmark.name == "molpcba"
    assert opened(root, "ogb-molpcba", split_scheme="scaffold").benchmark.target.kind == "tasks"


@pytest.mark.parametrize(("name", "options", "words"), [
    ("poverty", {"fold": "F"}, "No fold named 'F'"), ("fmow", {"fold": "A"}, "No option named 'fold'"),
    ("poverty", {"split_scheme": "time"}, "No split scheme named 'time'"),
    ("fmow", {"split_scheme": "mixed-to-test", "seed": 5}, "seed 111"),
    ("fmow", {"split_scheme": "test-to-test"}, "no factor 'split_test_to_test'"),
])
def test_what_the_package_does_not_take_is_told(root, name, options, words):
    """An option of another data set, a fold or scheme that is none, a draw that was not made."""
    with pytest.raises(ShiftBenchError, match=words):
        opened(root, name, **options)
