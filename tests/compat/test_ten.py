"""WILDS' ten as the package has them: the same keys, the same numbers."""

import numpy as np
import pytest
import torch

from shiftbench.compat.wilds import evaluate, get_dataset
from shiftbench.compat.wilds_metadata import DATASETS as KNOWN
from shiftbench.data.collection import Collection
from shiftbench.shifts.splits import Given
from shiftbench.shifts.suites import suite
from tests.readers.wilds_files import TEN, place_of, read

HEADLINE = {"iwildcam": "F1-macro_all", "camelyon17": "acc_avg", "rxrx1": "acc_avg", "molpcba": "ap",
            "globalwheat": "detection_acc_avg_dom", "civilcomments": "acc_wg", "fmow": "acc_worst_region",
            "poverty": "r_wg", "amazon": "10th_percentile_acc", "py150": "acc"}


def package_metadata(name, world):
    """The package's metadata of a whole collection, column by column, and the names that only the data have."""
    column = dict(world.factors)
    names = {}
    if name == "fmow":
        regions = KNOWN[name].names["region"]
        column |= {"region": np.asarray([regions.index(word) for word in column["region"]]),
                   "year": column["year"] - 2002}
    elif name == "poverty":
        column["urban"] = (column["urban"] == "urban").astype(int)
    elif name == "amazon":
        places = ("train", "val", "id_val", "test", "id_test")
        order = np.argsort([places.index(word) for word in column["split"]])
        names["user"] = list(dict.fromkeys(column["user"][order].tolist()))
        column["user"] = np.asarray([names["user"].index(word) for word in column["user"]])
    elif name == "globalwheat":
        known = KNOWN[name].names["session"]
        column["session"] = np.asarray([known.index(word) for word in column["session"]])
    elif name == "rxrx1":
        names["cell_type"] = list(dict.fromkeys(column["cell_type"].tolist()))
        column["cell_type"] = np.asarray([names["cell_type"].index(word) for word in column["cell_type"]])
    else:
        column["repo"] = column.get("repo_id")
    fields = KNOWN["ogb-molpcba" if name == "molpcba" else name].fields
    kept = [np.asarray(column[field]) for field in fields]
    return np.stack([one if one.dtype.kind in "iuf" else np.zeros(len(one)) for one in kept], axis=1), names


@pytest.mark.parametrize("name", TEN)
def test_the_ten_have_the_packages_own_keys(name, tmp_path):
    """On `build wilds` with compat, `eval` is `evaluate` of the package's metadata, and y are the package's numbers."""
    place_of(tmp_path, name, images=False)
    world = read(tmp_path, name, images=name == "globalwheat")
    if name == "globalwheat":
        world = Collection(world.name, world.items, factors=world.factors, tags=world.tags,
                           pixels=np.zeros((len(world), 8, 8, 3), np.uint8))
    benchmark = next(suite("wilds", name))[1].build(world)
    data = get_dataset(benchmark, collection=world, compat="wilds-2.0")
    item = world.index(benchmark.items)
    full, names = package_metadata(name, world)
    metadata, whole, rng = full[item], full, np.random.default_rng(0)
    if name == "globalwheat":
        guess = [{"boxes": one["boxes"] + 1, "scores": torch.ones(len(one["boxes"]))} for one in data.y_array]
    elif name in ("poverty", "molpcba"):
        guess = rng.normal(size=data.y_array.shape).astype(np.float32)
    elif name == "py150":
        guess = np.where(rng.random((len(data), 2)) < 0.5, data.y_array, 1)
        kinds = np.asarray([[int(word) for word in line.split()[1:]] for line in world.texts.text[1::2]])
        metadata, whole = np.concatenate([metadata, kinds[item], np.ones((len(item), 1), int)], axis=1), None
    else:
        assert np.array_equal(data.y_array, world.factors["y"][item])
        assert data.n_classes == (KNOWN[name].n_classes or world.factors["y"].max() + 1)
        guess = rng.permutation(data.y_array.numpy())
    found, told = data.eval(guess, data.y_array, data.metadata_array)
    wanted = evaluate("ogb-molpcba" if name == "molpcba" else name, guess, data.y_array, metadata,
                      metadata_map=names, full_metadata=whole)
    assert found == wanted
    assert list(found) == list(wanted)
    assert HEADLINE[name] in found
    assert f"{found[HEADLINE[name]]:.3f}" in told
    known = KNOWN["ogb-molpcba" if name == "molpcba" else name]
    assert list(data.split_dict) == list(known.splits)
    assert data.split_names == known.splits
    assert data.original_resolution == known.resolution
    kinds = [f"tok_{at}_type" for at in range(2)] if name == "py150" else []
    assert data.metadata_fields == [*known.fields, *kinds, "from_source_domain"]
    assert data.metadata_array[:, -1].tolist() == np.isin(benchmark.split, known.source).astype(int).tolist()
    if name not in ("molpcba", "py150"):
        asked = get_dataset(benchmark, collection=world, compat="wilds-2.0", groupby_fields=["domain"])
        assert any("_domain:" in key for key in asked.eval(guess, asked.y_array, asked.metadata_array)[0])


@pytest.mark.parametrize(("name", "asks", "key"), [
    ("camelyon17", Given("hospital", domain="slide"), "acc_slide"),
    ("poverty", Given("year", domain="country", target="number"), "r_urban"),
])
def test_another_question_to_one_of_the_ten_is_judged_as_any_other(name, asks, key, tmp_path):
    """A benchmark of Camelyon17 that asks for the hospital has its own groups, not the package's slides; and so on."""
    place_of(tmp_path, name, images=False)
    world = read(tmp_path, name, images=False)
    data = get_dataset(asks.build(world), collection=world, compat="wilds-2.0")
    found, _ = data.eval(data.y_array, data.y_array, data.metadata_array)
    assert not any(one.startswith(key) for one in found)
    assert any("_group:" in one for one in found)
