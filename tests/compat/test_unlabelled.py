"""A benchmark with unlabelled rows is two data sets to a script, as in the package: labelled items, and the others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from shiftbench.compat.wilds import CombinatorialGrouper, get_dataset
from shiftbench.compat.wilds_metadata import DATASETS, UNLABELED_SPLITS
from shiftbench.data.collection import Collection
from shiftbench.readers.wilds import DATASETS as PUBLISHED
from shiftbench.shifts.splits import Given
from shiftbench.shifts.suites import WILDS, WITHOUT_LABELS
from tests.readers.test_wilds_unlabelled import EXPECTED, prepared
from tests.readers.wilds_files import read

UNLABELLED = [name for name, published in PUBLISHED.items() if published.unlabelled is not None]


def shift_of(name: str) -> Given:
    return WILDS["poverty-A" if name == "poverty" else name]


@pytest.fixture(scope="module", params=UNLABELLED)
def pair(request, tmp_path_factory) -> tuple[str, Collection, Collection]:
    """A data set read without and with its unlabelled items."""
    root: Path = tmp_path_factory.mktemp(request.param)
    prepared(root, request.param, images=False)
    alone, both = (read(root, request.param, unlabelled=more, images=False) for more in (False, True))
    return request.param, alone, both


@pytest.mark.parametrize("compat", ["wilds-2.0", None])
def test_unlabelled_items_change_nothing_of_the_labelled_data_set(pair, compat):
    """Names, splits, columns, numbers, labels and results are those of the collection without them."""
    name, alone, both = pair
    shift = shift_of(name)
    one = get_dataset(shift.build(alone), collection=alone, compat=compat)
    other = get_dataset(shift.build(both), collection=both, compat=compat)
    assert other.benchmark.items.tolist() == one.benchmark.items.tolist()
    assert (other.split_dict, other.split_names, other.metadata_fields, other.n_classes) == (
        one.split_dict, one.split_names, one.metadata_fields, one.n_classes)
    assert np.array_equal(other.metadata_array, one.metadata_array)
    assert np.array_equal(other.split_array, one.split_array)
    assert torch.equal(other.y_array, one.y_array)
    if compat is not None:
        assert other.metadata_fields == [*DATASETS[name].fields, "from_source_domain"]
        assert other.metadata_map == one.metadata_map
        guess = one.y_array.flip(0)
        assert other.eval(guess, other.y_array, other.metadata_array) == one.eval(guess, one.y_array,
                                                                                 one.metadata_array)


def test_every_unlabelled_split_has_the_package_s_name(pair):
    """All that a benchmark keeps as `unlabelled` has the name, number and word that the package has for it; nobody sees
    a label; and one grouper is made of both data sets, in which labelled items have their own numbers."""
    name, _, both = pair
    shift = replace(shift_of(name), rename=dict.fromkeys(WITHOUT_LABELS, "unlabelled"), ignore=("unused",))
    benchmark = shift.build(both)
    labelled, others = (get_dataset(benchmark, collection=both, compat="wilds-2.0", unlabeled=unlabeled)
                        for unlabeled in (False, True))
    present = [word for word in UNLABELED_SPLITS if word in EXPECTED[name]]
    assert others.split_dict == {word: 10 + list(UNLABELED_SPLITS).index(word) for word in present}
    assert others.split_names == {word: UNLABELED_SPLITS[word] for word in present}
    assert len(others) == len(EXPECTED[name])
    assert [int(code) for code in others.split_array] == [others.split_dict[word] for word in EXPECTED[name]]
    assert [len(others.get_subset(word)) for word in present] == [EXPECTED[name].count(word) for word in present]
    assert others.metadata_fields == labelled.metadata_fields
    y, source = (others.metadata_array[:, others.metadata_fields.index(field)] for field in ("y", "from_source_domain"))
    assert set(y.tolist()) == {-100}
    assert source.tolist() == [word == "train_unlabeled" for word in EXPECTED[name]]
    hidden = others._y
    assert bool(torch.isnan(hidden).all() if hidden.is_floating_point() else (hidden == -100).all())
    field = {"civilcomments": "male", "amazon": "user", "poverty": "country"}.get(name, labelled.metadata_fields[0])
    grouper = CombinatorialGrouper([labelled, others], [field], compat="wilds-2.0")
    place = labelled.metadata_fields.index(field)
    for data in (labelled, others):
        assert grouper.metadata_to_group(data.metadata_array).tolist() == data.metadata_array[:, place].tolist()


def test_what_the_package_says_of_items_that_nobody_described(pair):
    """CivilComments' identities are a value of their own, PovertyMap's urban is -100; other columns are as read."""
    name, _, both = pair
    benchmark = shift_of(name).build(both)
    data = get_dataset(benchmark, collection=both, compat="wilds-2.0", unlabeled=True)
    if name == "civilcomments":
        assert set(data.metadata_array[:, :15].unique().tolist()) == {2}
    elif name == "poverty":
        assert set(data.metadata_array[:, 0].tolist()) == {-100.0}
    elif name == "camelyon17":
        assert data.metadata_array.tolist() == [[2, 62, -100, 0], [2, 67, -100, 0]]


def test_numbers_that_are_not_there_do_not_hide_the_data_set(tmp_path):
    """PovertyMap with a gap among its labelled numbers too is PovertyMap; with other numbers it is not."""
    prepared(tmp_path, "poverty", images=False)
    both = read(tmp_path, "poverty", unlabelled=True, images=False)
    benchmark = shift_of("poverty").build(both)
    wealth = np.asarray(benchmark.extra["target"], np.float64).copy()
    wealth[0] = np.nan
    factors = {**both.factors, "y": both.factors["y"].copy()}
    factors["y"][both.index(benchmark.items[:1])] = np.nan
    gap = replace(benchmark, extra={**benchmark.extra, "target": wealth})
    assert get_dataset(gap, collection=replace(both, factors=factors), compat="wilds-2.0").metadata_fields[0] == "urban"
    doubled = replace(benchmark, extra={**benchmark.extra, "target": 2 * wealth})
    assert get_dataset(doubled, collection=both, compat="wilds-2.0").metadata_fields[0] == "domain"


def test_a_split_of_one_s_own_is_the_test_s(tmp_path):
    """Rows of `unlabelled` in a table that has no word of the package are test_unlabeled, beside those of target_train;
    a benchmark without either says what to build."""
    split = np.repeat(["train", "test", "target_train", "unlabelled"], [8, 4, 3, 5])
    world = Collection("pets", np.arange(20).astype(str), {
        "label": np.where(split == "unlabelled", "", np.asarray(["cat", "dog"])[np.arange(20) % 2]),
        "home": np.where(split == "unlabelled", "barn", "in"), "split": split},
        pixels=np.zeros((20, 8, 8, 3), np.uint8))
    benchmark = Given(domain="home").build(world)
    data = get_dataset(benchmark, collection=world, unlabeled=True)
    assert data.split_dict == {"test_unlabeled": 12}
    assert [int(y) for _, y, _ in data.get_subset("test_unlabeled", load_y=True)] == [0, 1, 0] + [-100] * 5
    labelled = get_dataset(benchmark, collection=world)
    assert (len(labelled), labelled.metadata_map["domain"]) == (15, ["in"])
    assert data.metadata_map["domain"] == ["in", "barn"]
    without = Given(domain="home", ignore=("target_train", "unlabelled")).build(world)
    with pytest.raises(ValueError, match=r"'unlabelled' or 'target_train'.*--unlabelled"):
        get_dataset(without, collection=world, unlabeled=True)
