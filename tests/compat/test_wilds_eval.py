"""`evaluate` gives what the package wilds 2.0.0 gives, key by key; and without its quirks what is right."""

import importlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from shiftbench.compat.grouper import Columns, CombinatorialGrouper
from shiftbench.compat.wilds_eval import evaluate
from shiftbench.compat.wilds_metadata import DATASETS
from shiftbench.core.errors import ShiftBenchError
from shiftbench.readers.wilds.comments import IDENTITIES
from shiftbench.readers.wilds.photos import HELD_OUT, fold_split
from tests.compat.wilds_inputs import RECORDED, Inputs, close, columns, inputs, ours, package, shown


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_recorded_values_are_met(name):
    """What the package gave once, in its order; a share to the last digit of its 32-bit floats."""
    found = shown(name, ours(name, inputs(name)))
    assert list(found) == list(RECORDED[name])
    assert found == close(name, RECORDED[name])


def odd() -> dict[str, tuple[str, Inputs]]:
    """Inputs at which the package does something of its own."""
    cases = {f"none {name}": (name, first(inputs(name), 0)) for name in DATASETS}
    cases |= {f"one {name}": (name, first(inputs(name), 1)) for name in DATASETS}
    poor, land, talk, code = (inputs(name) for name in ("poverty", "fmow", "civilcomments", "py150"))
    flat = np.where(poor.metadata[:, :1] == 1, np.float32(0.1), poor.predicted)
    cases["constant in one group"] = "poverty", poor._replace(predicted=flat)
    cases["constant everywhere"] = "poverty", poor._replace(predicted=np.zeros_like(poor.predicted))
    cases["not a number"] = "poverty", poor._replace(predicted=np.where(flat == flat[3], np.float32(np.nan), flat))
    cases["only Other"] = "fmow", land._replace(metadata=land.metadata * [0, 1, 1] + [1, 0, 0])
    cases["Other in a name, spaces"] = "fmow", land._replace(
        names={"region": ["Asia", "A sia", "Other place", "Europe"], "year": [1, 2, 3]})
    cases["identity never named"] = "civilcomments", talk._replace(
        metadata=talk.metadata * ([0] + [1] * 15), full=talk.full * ([0] + [1] * 15))
    cases["identity named elsewhere"] = "civilcomments", talk._replace(metadata=talk.metadata * ([0] + [1] * 15))
    cases["no class or method"] = "py150", code._replace(metadata=np.maximum(code.metadata, 2))
    cases["no from_source_domain"] = "py150", code._replace(metadata=code.metadata[:, :-1])
    return cases


def first(case: Inputs, n: int) -> Inputs:
    return case._replace(predicted=case.predicted[:n], label=case.label[:n], metadata=case.metadata[:n])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", sorted(odd()))
def test_the_package_does_the_same_at_the_edges(title):
    """The same keys and values, and an error where the package has one of some kind."""
    name, case = odd()[title]
    try:
        wanted = package(name, case)
    except (RuntimeError, IndexError, ValueError):
        with pytest.raises(ShiftBenchError):
            ours(name, case)
        return
    found = ours(name, case)
    assert list(found) == list(wanted)
    assert found == close(name, wanted)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", sorted(DATASETS))
def test_the_package_gives_the_same(name, seed):
    """Keys, their order, values and their types' meaning, on data with empty groups."""
    case = inputs(name, 40 + 17 * seed, seed)
    wanted = package(name, case)
    found = ours(name, case)
    assert list(found) == list(wanted)
    assert found == close(name, wanted)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_without_quirks_only_what_is_undefined_changes(name):
    """The same keys but for spaces; a group without items is NaN and a whole 0, every other value is the same."""
    quirky, clean = ours(name, inputs(name)), ours(name, inputs(name), None)
    assert {key.replace(" ", "") for key in clean} == {key.replace(" ", "") for key in quirky}
    for key, value in clean.items():
        old = quirky[key if key in quirky else key.replace(" ", "")]
        if key.startswith("count_"):
            assert isinstance(value, int)
            assert isinstance(old, float)
        elif math.isnan(value):
            assert old == 0
            assert clean[f"count_{key.removeprefix('detection_').partition('_')[2]}"] == 0
        elif name != "py150":
            assert value == pytest.approx(old, rel=2e-6)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_without_quirks_no_items_is_no_value(name):
    """Nothing to judge by is NaN wherever the package would say 0 or fail."""
    found = ours(name, first(inputs(name), 0), None)
    assert found
    assert all(value == 0 if key.startswith("count_") else math.isnan(value) for key, value in found.items())


def test_a_row_counts_in_every_identity_it_names():
    """CivilComments' groups overlap, and who is not named makes no group."""
    metadata = np.zeros((3, 16), np.int64)
    metadata[0, :2] = metadata[1, 0] = 1
    metadata[2, -1] = 1
    found = evaluate("civilcomments", np.array([0, 1, 1]), metadata[:, -1], metadata, compat=None)
    assert (found["count_y:0_male:1"], found["count_y:0_female:1"], found["count_y:0_white:1"]) == (2, 1, 0)
    assert (found["acc_y:0_male:1"], found["acc_y:0_female:1"]) == (0.5, 1)
    assert sum(key.startswith("acc_y:") for key in found) == 16
    assert "acc_y:0_male:0" not in found
    assert found["acc_wg"] == 0.5


def test_an_empty_group_of_civilcomments_is_the_worst_only_in_the_package():
    """A perfect model on a slice without white has 0 in the package and 1 in truth."""
    metadata = np.ones((4, 16), np.int64)
    metadata[:, -1] = [0, 1, 0, 1]
    metadata[:, IDENTITIES.index("white")] = 0
    quirky, clean = (evaluate("civilcomments", metadata[:, -1], metadata[:, -1], metadata, compat=compat)
                     for compat in ("wilds-2.0", None))
    assert (quirky["acc_wg"], quirky["acc_y:0_white:1"], quirky["count_y:0_white:1"]) == (0, 0, 0)
    assert clean["acc_wg"] == 1
    assert math.isnan(clean["acc_y:0_white:1"])


def test_the_package_leaves_out_an_identity_that_the_whole_data_lacks():
    """Sizes come from the whole data: an identity that is nowhere 1 has no key, and no empty group to be the worst."""
    metadata = np.ones((4, 16), np.int64)
    metadata[:, -1] = [0, 1, 0, 1]
    metadata[:, 0] = 0
    found = evaluate("civilcomments", metadata[:, -1], metadata[:, -1], metadata, full_metadata=metadata)
    assert "acc_y:0_male:1" not in found
    assert found["acc_wg"] == found["acc_y:0_female:1"] == 1


def test_the_package_has_a_zero_for_nothing():
    """iWildCam without items is 0 throughout; molpcba without a task of both labels, and Py150 cut short, raise."""
    nothing = first(inputs("iwildcam"), 0)
    assert ours("iwildcam", nothing) == {"acc_avg": 0, "recall-macro_all": 0, "F1-macro_all": 0}
    with pytest.raises(ShiftBenchError, match="no task"):
        ours("ogb-molpcba", first(inputs("ogb-molpcba"), 1))
    case = inputs("py150")
    with pytest.raises(ShiftBenchError, match="from_source_domain"):
        ours("py150", case._replace(metadata=case.metadata[:, :-1]))


def test_the_package_passes_over_a_group_without_correlation():
    """Constant predictions in one group make its r NaN and the other group the worst."""
    case = inputs("poverty")
    flat = np.where(case.metadata[:, :1] == 1, np.float32(0.1), case.predicted)
    found = ours("poverty", case._replace(predicted=flat))
    assert math.isnan(found["r_urban:1"])
    assert found["r_wg"] == found["r_urban:0"]
    with pytest.raises(ShiftBenchError, match="do not vary"):
        ours("poverty", case._replace(predicted=np.zeros_like(flat)))


def test_other_is_no_region_to_be_worst():
    """With only Other left the package says 0 at accuracy 1; a name that contains the word is a region all the same."""
    metadata = np.array([[5, 14, 0], [5, 15, 1]])
    assert evaluate("fmow", metadata[:, 2], metadata[:, 2], metadata)["acc_worst_region"] == 0
    assert math.isnan(evaluate("fmow", metadata[:, 2], metadata[:, 2], metadata, compat=None)["acc_worst_region"])
    names = {"region": ["Asia", "Other islands"], "year": range(2002, 2018)}
    rows = np.array([[0, 1, 0], [1, 1, 1]])
    for compat, wanted in (("wilds-2.0", 1), (None, 0)):
        found = evaluate("fmow", np.array([0, 0]), rows[:, 2], rows, metadata_map=names, compat=compat)
        assert found["acc_worst_region"] == wanted


def test_no_class_or_method_token_is_a_whole_zero():
    """Py150's headline without such a token is the integer 0 in the package, NaN here."""
    metadata = np.array([[3, 2, 5, 1]])
    label = np.array([[7.0, 8.0]])
    quirky, clean = (evaluate("py150", np.array([[7, 0]]), label, metadata, compat=compat)
                     for compat in ("wilds-2.0", None))
    assert quirky["acc"] == 0
    assert isinstance(quirky["acc"], int)
    assert quirky["Acc (Overall)"] == clean["Acc (Overall)"] == 0.5
    assert math.isnan(clean["acc"])


def test_a_masked_token_is_wrong_only_in_the_package():
    """A class token without a label counts as wrong there, and is left out here."""
    metadata, label = np.array([[3, 0, 0, 1]]), np.array([[7.0, math.nan]])
    assert evaluate("py150", np.array([[7, 0]]), label, metadata)["acc"] == 0.5
    assert evaluate("py150", np.array([[7, 0]]), label, metadata, compat=None)["acc"] == 1
    assert evaluate("py150", np.array([[7, 0]]), label, metadata[:, :-1], compat=None)["acc"] == 1


def test_the_worst_error_is_the_largest_and_one_item_has_no_correlation():
    """PovertyMap: mse_wg is a maximum, r_wg a minimum; a lone rural place raises in the package alone."""
    metadata = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]])
    label, predicted = np.array([[1.0], [2.0], [3.0], [0.0]]), np.array([[1.0], [2.0], [4.0], [5.0]])
    found = evaluate("poverty", predicted, label, metadata, compat=None)
    assert found["mse_wg"] == found["mse_urban:1"] == 25
    assert math.isnan(found["r_urban:1"])
    assert found["r_wg"] == pytest.approx(np.corrcoef(label[:3, 0], predicted[:3, 0])[0, 1])
    with pytest.raises(ShiftBenchError, match="one item"):
        evaluate("poverty", predicted, label, metadata)


def test_a_model_that_has_diverged_has_no_worst_group():
    """Without quirks a NaN prediction is not passed over."""
    case = inputs("poverty")
    given = case.predicted.copy()
    given[0] = math.nan
    found = ours("poverty", case._replace(predicted=given), None)
    assert all(math.isnan(found[key]) for key in ("mse_avg", "mse_wg", "r_all", "r_wg"))


def test_published_sizes_and_names_hold_without_the_whole_data():
    """Four arguments are enough: Camelyon17 has 50 slides, fMoW 6 regions and 16 years, GlobalWheat 47 sessions."""
    y = np.array([0, 1])
    slides = evaluate("camelyon17", y, y, np.array([[0, 3, 0], [1, 7, 1]]))
    assert sum(key.startswith("count_slide:") for key in slides) == 50
    land = evaluate("fmow", y, y, np.array([[0, 14, 0], [2, 15, 1]]))
    assert [key for key in land if key.startswith("acc_region")] == [
        f"acc_region:{name}" for name in ("Asia", "Europe", "Africa", "Americas", "Oceania", "Other")]
    assert (land["count_year:2016"], land["count_year:2017"], land["count_year:2002"]) == (1, 1, 0)
    box = np.array([[0.0, 0.0, 5.0, 5.0]])
    wheat = evaluate("globalwheat", [{"boxes": box, "scores": np.ones(1)}], [{"boxes": box}], np.array([[46, 0, 0, 0]]))
    assert sum(key.startswith("count_session:") for key in wheat) == 47
    assert wheat["count_session:Usask_1"] == wheat["detection_acc_avg_dom"] == 1


def test_boxes_may_come_in_an_array():
    """Boxes of images are as good in an array of objects as in a list, whatever the truth is in."""
    truth = [{"boxes": np.array([[0.0, 0.0, 5.0, 5.0]])}] * 2
    boxes = np.array([{**image, "scores": np.ones(1)} for image in truth], dtype=object)
    metadata = np.zeros((2, 4))
    found = evaluate("globalwheat", boxes, truth, metadata)
    assert found["detection_acc_avg"] == 1
    for given, label in ((list(boxes), truth), (boxes, np.array(truth, dtype=object))):
        np.testing.assert_equal(evaluate("globalwheat", given, label, metadata), found)
    with pytest.raises(ShiftBenchError, match=r'as many of each. Give {"boxes", "scores"} of every image.'):
        evaluate("globalwheat", boxes[:1], truth, metadata)


def test_amazon_has_other_groups_in_other_split_schemes():
    """By user the percentile is asked for; by category or year the worst group."""
    case = inputs("amazon")
    found = evaluate("amazon", case.predicted, case.label, case.metadata, split_scheme="category_subpopulation")
    assert {"acc_category:0", "acc_category:2", "acc_wg"} <= set(found)
    assert "10th_percentile_acc" not in found
    assert "acc_year:3" in evaluate("amazon", case.predicted, case.label, case.metadata, split_scheme="time")


def test_tensors_and_logits_are_taken():
    """Tensors are known by what they can do, and prediction_fn turns what the model gives into classes."""
    torch = pytest.importorskip("torch")
    case = inputs("rxrx1")
    logits = torch.nn.functional.one_hot(torch.from_numpy(case.predicted), 5).float().requires_grad_()
    found = evaluate("rxrx1", logits, torch.from_numpy(case.label), torch.from_numpy(case.metadata),
                     metadata_map=case.names, full_metadata=torch.from_numpy(case.full),
                     prediction_fn=lambda given: given.argmax(1))
    assert found == ours("rxrx1", case)


def test_requests_that_cannot_be_met_are_named():
    """An unknown data set or mode, arrays that do not fit, a prediction_fn where raw output is judged."""
    case = inputs("camelyon17")
    with pytest.raises(ShiftBenchError, match="Did you mean 'camelyon17'"):
        evaluate("camelyon", case.predicted, case.label, case.metadata)
    with pytest.raises(ShiftBenchError, match=r"wilds-2\.0"):
        ours("camelyon17", case, "wilds-1.0")
    with pytest.raises(ShiftBenchError, match="as many of each"):
        ours("camelyon17", case._replace(label=case.label[1:]))
    with pytest.raises(ShiftBenchError, match="shape"):
        ours("camelyon17", case._replace(label=case.label[:, None]))
    with pytest.raises(ShiftBenchError, match="prediction_fn"):
        evaluate("poverty", case.predicted, case.label, case.metadata, prediction_fn=abs)


def test_the_first_column_varies_fastest_whatever_the_order_asked_for():
    """Ids follow the columns of the data; our names do too, the package's follow the request and are wrong."""
    rows = np.array([[country, time, 0] for time in range(3) for country in range(2)])
    data = Columns(["country", "time", "y"], rows, {"country": ["Mali", "Togo"], "time": [2001, 2002, 2003]})
    for fields in (["country", "time"], ["time", "country"]):
        grouper = CombinatorialGrouper(data, fields)
        assert grouper.n_groups == 6
        assert grouper.metadata_to_group(rows).tolist() == [0, 1, 2, 3, 4, 5]
        assert grouper.group_str(1) == "time = 2001, country = Togo"
        assert grouper.group_field_str(4) == "time:2003_country:Mali"
    plain = data._replace(metadata_map=None)
    assert CombinatorialGrouper(plain, ["country", "time"], compat="wilds-2.0").group_str(4) == "time = 2, country = 0"
    assert CombinatorialGrouper(plain, ["time", "country"], compat="wilds-2.0").group_str(4) == "country = 2, time = 0"
    with pytest.raises(IndexError):
        CombinatorialGrouper(data, ["time", "country"], compat="wilds-2.0").group_str(4)


def test_empty_combinations_keep_their_number():
    """A size is one more than the largest value of the whole data, and of all data sets that are grouped together."""
    one, two = Columns(["a", "b"], np.array([[0, 2]])), Columns(["a", "b"], np.array([[3, 0]]))
    grouper = CombinatorialGrouper([one, two], ["a", "b"])
    assert grouper.cardinality.tolist() == [4, 3]
    group, counts = grouper.metadata_to_group(np.array([[3, 0], [0, 2]]), return_counts=True)
    assert group.tolist() == [3, 8]
    assert counts.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0]
    alone = CombinatorialGrouper(one, None)
    assert (alone.n_groups, alone.group_str(0), alone.metadata_to_group(np.ones((2, 2))).tolist()) == (1, "all", [0, 0])


def test_a_value_that_the_whole_data_lacks_is_named():
    """The package lets it fall on another group; we say which column has it."""
    data = Columns(["a", "b"], np.array([[1, 1]]))
    with pytest.raises(ShiftBenchError, match="Column 'a' has the value 2"):
        CombinatorialGrouper(data, ["a", "b"]).metadata_to_group(np.array([[2, 0]]))
    silent = CombinatorialGrouper(data, ["a", "b"], compat="wilds-2.0")
    assert silent.metadata_to_group(np.array([[2, 0]])).tolist() == [2]
    with pytest.raises(ShiftBenchError, match="'b' has the value -1"):
        CombinatorialGrouper(data._replace(metadata_array=np.array([[1, -1]])), ["a", "b"])
    with pytest.raises(ShiftBenchError, match="No column named 'c'"):
        CombinatorialGrouper(data, ["c"])
    with pytest.raises(ShiftBenchError, match="names only 1 value"):
        CombinatorialGrouper(data._replace(metadata_map={"a": ["x"]}), ["a"]).group_str(1)


def test_groups_of_tensors_are_tensors():
    """A training script gets long tensors, counts as 32-bit floats as in the package."""
    torch = pytest.importorskip("torch")
    rows = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    group, counts = CombinatorialGrouper(Columns(["a", "b"], rows), ["a", "b"]).metadata_to_group(rows, True)
    assert (group.dtype, counts.dtype) == (torch.int64, torch.float32)
    assert (group.tolist(), counts.tolist()) == ([2, 3], [0, 0, 1, 1])


def test_names_that_differ_by_a_space_stay_apart():
    """In the package the later one takes the key, though both count for the worst."""
    rows = np.array([[0, 0, 0], [1, 0, 1]])
    names = {"region": ["A B", "AB"], "year": range(2002, 2018)}
    given = np.array([0, 0])
    quirky, clean = (evaluate("fmow", given, rows[:, 2], rows, metadata_map=names, compat=compat)
                     for compat in ("wilds-2.0", None))
    assert quirky["acc_region:AB"] == clean["acc_region:AB"] == 0
    assert clean["acc_region:A B"] == 1
    assert "acc_region:A B" not in quirky


def test_folds_rotate():
    """A fold chooses models on the countries that the next one tests on, and the five test on all 23 once."""
    countries = np.asarray([country for group in HELD_OUT.values() for country in group])
    assert len(set(countries)) == len(countries) == 23
    for fold, following in zip("ABCDE", "BCDEA", strict=True):
        words, after = fold_split(countries, fold), fold_split(countries, following)
        assert set(words) == {"id_val", "val", "test"}  # 23 rows: all others are set aside
        assert np.array_equal(words == "val", after == "test")


def test_evaluating_needs_no_torch():
    """Importing and calling `evaluate` on arrays loads neither torch nor the package."""
    script = ("import sys, numpy as np; from shiftbench.compat.wilds_eval import evaluate;"
              "y = np.array([0, 1]); evaluate('iwildcam', y, y, np.zeros((2, 9)));"
              "assert not {'torch', 'wilds', 'sklearn', 'scipy'} & set(sys.modules)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("fields", [["a", "b"], ["c", "a"], ["b"], ["c", "b", "a"], None])
def test_the_package_groups_the_same(fields):
    """Ids and counts in any order of fields; names too, wrong ones included, where its quirks are asked for."""
    try:
        torch = importlib.import_module("torch")
        theirs = importlib.import_module("wilds.common.grouper").CombinatorialGrouper
    except ImportError as missing:
        if "SHIFTBENCH_WILDS" in os.environ:
            raise
        pytest.skip(f"the package wilds cannot be imported: {missing}")
    rows = torch.from_numpy(columns(60, [3, 2, 4], 5))
    data = Columns(["a", "b", "c"], rows, {"other": ["x"]})
    wanted, found = theirs(data, fields), CombinatorialGrouper(data, fields, compat="wilds-2.0")
    assert found.n_groups == wanted.n_groups
    for mine, given in zip(found.metadata_to_group(rows, True), wanted.metadata_to_group(rows, True), strict=True):
        assert mine.dtype == given.dtype
        assert mine.tolist() == given.tolist()
    for group in range(found.n_groups):
        assert found.group_str(group) == wanted.group_str(group)
        assert found.group_field_str(group) == wanted.group_field_str(group)
