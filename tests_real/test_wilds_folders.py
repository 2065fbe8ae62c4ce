"""Folders in the package's layout: our reader of WILDS 2's items without labels beside the package's own data sets, on
the same generated files; and our export, which the package opens.

Camelyon17's class insists on the published number of patches, so that it opens no smaller folder.
"""

import importlib
import os
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.readers.wilds import DATASETS, PREFIX
from tests.exports.test_layouts import pets
from tests.readers.test_wilds_unlabelled import prepared
from tests.readers.wilds_files import read

pytestmark = [
    pytest.mark.skipif("SHIFTBENCH_WILDS" not in os.environ, reason="needs the package wilds: make test-real"),
    pytest.mark.filterwarnings("ignore"),  # the package's own, about the years that went by
]

CLASSES = {"iwildcam": "IWildCam", "civilcomments": "CivilComments", "poverty": "PovertyMap", "fmow": "FMoW",
           "amazon": "Amazon"}
SAME = {"iwildcam": ("location", "sequence", "year", "hour", "second"), "poverty": ("country",), "fmow": (),
        "civilcomments": (), "amazon": ("user", "category")}
"""Columns of the package's metadata that the files say."""


@pytest.fixture(autouse=True)
def as_then(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the package takes for granted: pandas whose text is objects and whose arrays may be written to."""
    pandas = importlib.import_module("pandas")
    values = pandas.Series.values.fget
    monkeypatch.setattr(pandas.Series, "values", property(lambda series: copy(values(series))))
    with pandas.option_context("future.infer_string", False):
        yield


def package(root: Path, name: str) -> Any:
    kind = importlib.import_module(f"wilds.datasets.unlabeled.{name}_unlabeled_dataset")
    return getattr(kind, f"{CLASSES[name]}UnlabeledDataset")(root_dir=str(root), download=False)


@pytest.mark.parametrize("name", CLASSES)
def test_items_without_labels_are_the_package_s(name: str, tmp_path: Path) -> None:
    """The same number of items in the same order, of the same splits, metadata, texts and files."""
    prepared(tmp_path, name)
    if name in ("fmow", "amazon"):  # the archive is the labelled one's, unpacked under another name
        place = tmp_path / f"{name}_unlabeled_v1.0"
        place.symlink_to(tmp_path / DATASETS[name].folders[0])
        (place / "RELEASE_v1.0.txt").touch()
    theirs, ours = package(tmp_path, name), read(tmp_path, name, unlabelled=True, images=name != "civilcomments")
    rows = [row for row, item in enumerate(ours.items.tolist()) if item.startswith(PREFIX)]
    words = {code: word for word, code in theirs.split_dict.items()}
    own = [at for at, code in enumerate(theirs.split_array) if int(code) in words]  # Amazon has the labelled ones too
    assert [words[int(theirs.split_array[at])] for at in own] == ours.factors["split"][rows].tolist()
    for field in SAME[name]:
        values = theirs.metadata_array[own, theirs.metadata_fields.index(field)].tolist()
        names = (theirs.metadata_map or {}).get(field)
        assert ours.factors[field][rows].tolist() == (
            [int(value) for value in values] if names is None else [names[int(value)] for value in values]), field
    if len(ours.texts.item):
        assert [str(ours.texts.text[list(ours.texts.item).index(row)]) for row in rows] == [
            theirs.get_input(at) for at in own]
    if name == "iwildcam":
        assert [ours.path(row).name for row in rows] == list(theirs._input_array)
    if name == "fmow":
        assert [int(item.removeprefix(PREFIX)) for item in ours.items[rows].tolist()] == theirs.full_idxs.tolist()


def test_the_package_opens_an_export(tmp_path: Path) -> None:
    """IWildCamDataset has the splits, labels and domains of the benchmark, and its pictures."""
    collection = pets()
    bench = sb.Given().build(collection)
    sb.export(bench, tmp_path / "out", to="wilds", collection=collection)
    kind = importlib.import_module("wilds.datasets.iwildcam_dataset").IWildCamDataset
    theirs = kind(root_dir=str(tmp_path / "out"), download=False)
    for split in ("train", "val", "test"):
        rows, subset = bench.rows(split), theirs.get_subset(split)
        assert subset.y_array.tolist() == bench.label[rows].tolist()
        assert subset.metadata_array[:, 0].tolist() == bench.domain[rows].tolist()
        picture = np.asarray(subset[0][0].convert("RGB"))
        assert np.array_equal(picture, collection.pixels[collection.index(bench.items[rows[:1]])[0]])
