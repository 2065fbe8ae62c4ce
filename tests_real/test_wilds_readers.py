"""The ten readers beside the package wilds 2.0.0: both read the same generated files, and every item must agree."""

import importlib
import os
import re
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shiftbench.compat.wilds_metadata import DATASETS as KNOWN
from shiftbench.data.collection import Collection
from shiftbench.readers.wilds import DATASETS
from shiftbench.readers.wilds.comments import TOKENS, tokens
from shiftbench.readers.wilds.molecules import graph_lines
from shiftbench.readers.wilds.photos import HELD_OUT
from shiftbench.readers.wilds.wheat import SESSIONS, corners
from tests.readers.wilds_files import TEN, place_of, read, touch
from tests_real.wilds_data import WRITERS

pytestmark = [
    pytest.mark.skipif("SHIFTBENCH_WILDS" not in os.environ, reason="needs the package wilds: make test-real"),
    pytest.mark.filterwarnings("ignore"),  # the package's own, about the years that went by
]

CLASSES = {"iwildcam": "IWildCam", "camelyon17": "Camelyon17", "rxrx1": "RxRx1", "molpcba": "OGBPCBA", "fmow": "FMoW",
           "globalwheat": "GlobalWheat", "civilcomments": "CivilComments", "poverty": "PovertyMap", "amazon": "Amazon",
           "py150": "Py150"}
PLAIN = [name for name in TEN if name not in ("molpcba", "globalwheat", "py150")]  # one label per item
SETTINGS: list[tuple[str, dict[str, str], str]] = [
    *((name, {}, "split") for name in TEN),
    *((name, {"split_scheme": "mixed-to-test"}, "split_mixed_to_test") for name in ("camelyon17", "rxrx1", "fmow")),
    *(("poverty", {"fold": fold}, f"split_{fold}") for fold in HELD_OUT),
    *(("poverty", {"fold": fold, "split_scheme": "mixed-to-test"}, f"split_mixed_to_test_{fold}") for fold in HELD_OUT),
]
WHEAT = ("test-to-test", "mixed-to-test", "official_with_subsampled_test")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All ten data sets, with more items than the small ones that tests/readers/test_wilds.py reads."""
    folder = tmp_path_factory.mktemp("wilds")
    for seed, (name, write) in enumerate(WRITERS.items()):
        write(place_of(folder, name), np.random.default_rng(seed))
    return folder


@pytest.fixture(autouse=True)
def as_then(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the package takes for granted: pandas whose text is objects and whose arrays may be written to, torch that
    loads what OGB has just pickled, a collater of one argument, and a tokenizer from the network, asked for its size.
    """
    pandas = importlib.import_module("pandas")
    values, load = pandas.Series.values.fget, torch.load
    monkeypatch.setattr(pandas.Series, "values", property(lambda series: copy(values(series))))
    monkeypatch.setattr(torch, "load", lambda path, weights_only=False: load(path, weights_only=weights_only))
    monkeypatch.setattr("wilds.datasets.ogbmolpcba_dataset.PyGCollater", lambda **_: None)
    monkeypatch.setattr("wilds.datasets.py150_dataset.GPT2Tokenizer.from_pretrained", lambda name: range(50_001))
    with pandas.option_context("future.infer_string", False):
        yield


def package(root: Path, name: str, **options: str) -> Any:
    """The package's own data set, constructed from the files below `root`."""
    stem = "ogbmolpcba" if name == "molpcba" else name
    kind = getattr(importlib.import_module(f"wilds.datasets.{stem}_dataset"), f"{CLASSES[name]}Dataset")
    return kind(root_dir=str(root), download=False, **options)


def column(theirs: Any, field: str) -> list[Any]:
    """What a column of the package's metadata says of every item, in its names where it has some."""
    values = theirs.metadata_array[:, theirs.metadata_fields.index(field)].tolist()
    names = (theirs.metadata_map or {}).get(field)
    return values if names is None else [names[int(value)] for value in values]


def words(theirs: Any) -> list[str]:
    """The split of every item by its name; -1 is the package's mark of an item that no split has."""
    names = {code: name for name, code in theirs.split_dict.items()} | {-1: "unused"}
    return [names[int(code)] for code in theirs.split_array]


def images(theirs: Any, name: str) -> list[str]:
    """The files that the package opens, below the folder of the data set."""
    if name in ("fmow", "poverty"):  # it makes the name only when it opens the image
        rows = theirs.full_idxs if name == "fmow" else range(len(theirs))
        return [f"images/{'rgb_img' if name == 'fmow' else 'landsat_poverty_img'}_{row}."
                f"{'png' if name == 'fmow' else 'npz'}" for row in rows]
    if name == "globalwheat":
        return [f"images/{file}" for file in theirs._image_array]
    return [f"train/{file}" if name == "iwildcam" else str(file) for file in theirs._input_array]


def same(ours: Sequence[Any] | np.ndarray, theirs: Sequence[Any]) -> None:
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("name", PLAIN)
def test_labels_and_metadata_are_those_of_the_package(root: Path, name: str) -> None:
    """As many items, the same label of each, and the same value in every column that the package calls metadata."""
    theirs, ours = package(root, name), read(root, name, images=False)
    assert len(ours) == len(theirs) > 150
    y = np.asarray(ours.factors["y"])
    same(y.astype(np.float32) if name == "poverty" else y, theirs.y_array.reshape(-1).tolist())
    fields = theirs.metadata_fields[:-1]  # the last says which splits are of the source
    assert tuple(fields) == tuple(KNOWN[name].fields)
    for field, names in KNOWN[name].names.items():
        assert set(names) == set(theirs.metadata_map[field])
    for field in fields:
        factor = "label" if (name, field) == ("amazon", "y") else field  # the package says stars there
        found = ours.factors[factor]
        same((found == "urban").astype(float) if field == "urban" else found, column(theirs, field))


@pytest.mark.parametrize(("name", "options", "factor"), SETTINGS)
def test_splits_are_those_of_the_package(root: Path, name: str, options: dict[str, str], factor: str) -> None:
    """Every item is in the split where the package has it, in the official setting and in those in distribution."""
    theirs = words(package(root, name, **options))
    same(read(root, name, images=False).factors[factor], theirs)
    assert {"train", "val", "test"} <= set(theirs)


@pytest.mark.parametrize("name", ["iwildcam", "camelyon17", "rxrx1", "fmow", "poverty", "globalwheat"])
def test_images_are_those_that_the_package_opens(root: Path, name: str) -> None:
    """Each item's image is the file that the package opens for it."""
    place = root / DATASETS[name].folders[0]
    files = images(package(root, name), name)
    touch(place, files)
    ours = read(root, name)
    assert [str(ours.path(row).relative_to(place.resolve())) for row in range(len(ours))] == files


@pytest.mark.parametrize("name", ["civilcomments", "amazon"])
def test_texts_are_those_of_the_package(root: Path, name: str) -> None:
    """Texts are the package's letter by letter: quotes, line breaks, spaces, and words that look like nothing."""
    theirs, ours = package(root, name), read(root, name)
    assert ours.texts.text.tolist() == [theirs.get_input(row) for row in range(len(theirs))]
    same(ours.texts.item, range(len(theirs)))


def wheat_boxes(ours: Collection, theirs: Any) -> None:
    """Boxes in pixels and metadata of every image that the package's setting has."""
    item, box = corners(ours)
    rows = ours.index(np.asarray(theirs._image_array))
    for row, y in zip(rows.tolist(), theirs.y_array, strict=True):
        same(box[item == row], y["boxes"].numpy())
    same(ours.factors["heads"][rows], [len(y["labels"]) for y in theirs.y_array])
    for field in theirs.metadata_fields[:-1]:
        same(ours.factors[field][rows], column(theirs, field))


def test_boxes_of_globalwheat_are_those_of_the_package(root: Path) -> None:
    """Boxes, sessions and what belongs to them agree in all four settings, and so do the splits of each."""
    ours, theirs = read(root, "globalwheat", images=False), package(root, "globalwheat")
    assert ours.items.tolist() == theirs._image_array
    assert tuple(theirs.metadata_map["session"]) == SESSIONS
    wheat_boxes(ours, theirs)
    for scheme in WHEAT:
        theirs = package(root, "globalwheat", split_scheme=scheme)
        wheat_boxes(ours, theirs)
        told = dict(zip(theirs._image_array, words(theirs), strict=True))
        wanted = [told.get(item, "unused") for item in ours.items.tolist()]
        same(ours.factors[f"split_{scheme.replace('-', '_')}"], wanted)


def test_molecules_are_those_of_the_package(root: Path) -> None:
    """All 128 assays, the scaffold and the graph of every molecule are what OGB's reader makes of the files."""
    theirs, ours = package(root, "molpcba"), read(root, "molpcba")
    same(np.stack([ours.factors[f"y{task:03}"] for task in range(theirs.y_size)], axis=1), theirs.y_array.numpy())
    assert f"y{theirs.y_size:03}" not in ours.factors
    same(ours.factors["scaffold"], column(theirs, "scaffold"))
    lines, start = graph_lines(ours, np.arange(len(ours)))
    for row in range(len(theirs)):
        graph, mine = theirs.get_input(row), lines[start[row]:start[row + 1]]
        same(mine[mine[:, 0] == 0, 1:], graph.x.numpy())
        edges = mine[mine[:, 0] == 1]
        same(edges[:, 1:3], graph.edge_index.T.numpy())
        same(edges[:, 3:6], graph.edge_attr.numpy())


def test_tokens_of_py150_are_those_of_the_package(root: Path) -> None:
    """Tokens, the next token of each, its kind and the repository agree; a masked token has no label."""
    theirs, ours = package(root, "py150"), read(root, "py150")
    code, kind = tokens(ours)
    same(code[:, :-1], theirs._input_array.numpy())
    same(np.where(kind == TOKENS["masked"], np.nan, code)[:, 1:], theirs.y_array.numpy())
    same(ours.factors["repo_id"], column(theirs, "repo"))
    fields = [field for field in theirs.metadata_fields if re.fullmatch(r"tok_\d+_type", field)]
    same(kind[:, 1:], np.stack([column(theirs, field) for field in fields], axis=1))
    assert theirs._TYPE2ID == TOKENS
