"""A benchmark of each of the ten beside the package's own data set: rows, names, numbers, results and their text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shiftbench.compat.wilds import get_dataset
from shiftbench.readers.wilds import DATASETS
from shiftbench.shifts.suites import WILDS
from tests.readers.wilds_files import TEN, read, touch
from tests_real.test_wilds_readers import as_then, images, package, pytestmark, root  # noqa: F401

FIRST = {"poverty": "poverty-A"}
FACTS = ("dataset_name", "split_scheme", "split_dict", "split_names", "metadata_fields", "n_classes", "y_size",
         "is_classification", "is_detection", "original_resolution")
IMAGES = ("iwildcam", "camelyon17", "rxrx1", "fmow", "poverty", "globalwheat")


def guesses(name: str, y: Any) -> Any:
    """Predictions of the kind that `eval` takes, drawn at random."""
    rng = np.random.default_rng(3)
    if name == "globalwheat":
        return [{"boxes": one["boxes"].float() + int(rng.integers(0, 2)) * 400,
                 "scores": torch.full((len(one["boxes"]),), 0.9)} for one in y]
    if name in ("poverty", "molpcba"):
        return torch.from_numpy(rng.normal(size=y.shape).astype(np.float32))
    moved = torch.from_numpy(rng.permutation(y.numpy()))
    return torch.where(torch.from_numpy(rng.random(y.shape) < 0.6), y, moved)


def renumbered(metadata: Any, theirs: Any, ours: Any) -> Any:
    """Regions of FMoW in the published order: the package numbers them as they first appear, also in images that no
    split has; in the published file that is the order that we have."""
    at = theirs.metadata_fields.index("region")
    metadata = metadata.clone()
    metadata[:, at] = torch.tensor([ours.metadata_map["region"].index(theirs.metadata_map["region"][code])
                                    for code in metadata[:, at].tolist()])
    return metadata


@pytest.mark.parametrize("name", TEN)
def test_the_data_set_is_the_package_s(root: Path, name: str) -> None:  # noqa: F811
    """Splits in order and in words, columns, their names, sizes, and of every split y, metadata, results and text."""
    theirs = package(root, name)
    if name in IMAGES:
        touch(root / DATASETS[name].folders[0], images(theirs, name))
    world = read(root, name, images=name in IMAGES)
    ours = get_dataset(WILDS[FIRST.get(name, name)].build(world), collection=world, compat="wilds-2.0")
    for fact in FACTS:
        assert getattr(ours, fact) == getattr(theirs, fact), fact
    assert list(ours.split_dict) == list(theirs.split_dict)
    assert (ours.metadata_map is None) == (theirs.metadata_map is None)
    for field, names in (theirs.metadata_map or {}).items():
        order = sorted if (name, field) == ("fmow", "region") else list
        assert order(ours.metadata_map[field]) == order(names), field
    for split in theirs.split_dict:
        rows = np.flatnonzero(np.asarray(theirs.split_array) == theirs.split_dict[split])
        own, mine = theirs.metadata_array[rows], ours.get_subset(split)
        shown = renumbered(own, theirs, ours) if name == "fmow" else own
        assert mine.metadata_array.dtype == shown.dtype
        assert torch.equal(mine.metadata_array, shown), split
        y = [theirs.y_array[row] for row in rows] if name == "globalwheat" else theirs.y_array[rows]
        if name != "globalwheat":
            assert torch.equal(torch.nan_to_num(mine.y_array.float(), nan=-7), torch.nan_to_num(y.float(), nan=-7))
        predicted = guesses(name, y)
        results, text = ours.eval(predicted, y, mine.metadata_array)
        wanted, words = theirs.eval(predicted, y, own)
        lines = sorted if name == "fmow" else list
        assert lines(results) == lines(wanted)
        assert results == pytest.approx(wanted, rel=2e-6, abs=0, nan_ok=True)
        assert lines(text.splitlines()) == lines(words.splitlines())
