"""Embedding: once per item, keyed by what it depends on, never wrong after a crash."""

import json
import sys

import numpy as np
import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.training.inputs import embed

module = sys.modules["shiftbench.training.inputs"]  # the function of the same name hides it


@pytest.fixture
def collection():
    pixels = np.random.default_rng(0).integers(0, 256, (30, 16, 16, 3), dtype=np.uint8)
    return Collection("toy", np.asarray([f"i{k}" for k in range(30)]), pixels=pixels)


@pytest.fixture
def counted(monkeypatch):
    """How many images are decoded."""
    seen = []

    def images(collection, rows, size=None):
        seen.extend(np.asarray(rows).tolist())
        return real(collection, rows, size)

    real = module.images
    monkeypatch.setattr(module, "images", images)
    return seen


def small(collection, rows, **options):
    return embed(collection, np.asarray(rows), "small-cnn", 16, weights="none", device="cpu", **options)


def test_features_are_those_of_the_net(collection):
    """Embedding gives the features of the net in evaluation, in the order of the rows, doubles included."""
    import torch

    from shiftbench.models import build

    found = small(collection, [3, 1, 3])
    net = build("small-cnn", 1).eval()
    x = (torch.from_numpy(collection.pixels[[3, 1, 3]]).permute(0, 3, 1, 2).float() - 127.5) / 127.5
    with torch.inference_mode():
        np.testing.assert_allclose(found, net.features(x).numpy(), rtol=1e-3, atol=1e-5)
    assert found.dtype == np.float32
    assert np.array_equal(found[0], found[2])


def test_only_what_is_missing_is_computed(collection, counted, tmp_path):
    """Each item is embedded once, whatever is asked in which order."""
    first = small(collection, [1, 2, 3], folder=tmp_path)
    again = small(collection, [3, 4, 1], folder=tmp_path)
    assert sorted(counted) == [1, 2, 3, 4]
    assert np.array_equal(again[[0, 2]], first[[2, 0]])
    np.testing.assert_allclose(again, small(collection, [3, 4, 1]), rtol=1e-4, atol=1e-6)


def test_a_crash_leaves_nothing_wrong(collection, counted, tmp_path, monkeypatch):
    """When computing stops half way, what was finished is kept and only the rest is computed next time."""
    monkeypatch.setattr(module, "PIXELS_AT_ONCE", 256 * 8)
    monkeypatch.setattr(module, "CHUNK", 8)

    class Crash(Exception):
        pass

    def crash(done, total):
        if done >= 16:
            raise Crash

    with pytest.raises(Crash):
        small(collection, range(30), folder=tmp_path, progress=crash)
    assert len(counted) == 16
    steps = []
    found = small(collection, range(30), folder=tmp_path, progress=lambda done, total: steps.append((done, total)))
    assert sorted(counted) == list(range(30))
    assert steps[-1] == (14, 14)
    np.testing.assert_allclose(found, small(collection, range(30)), rtol=1e-4, atol=1e-6)


def test_data_without_its_mark_is_computed_again(collection, counted, tmp_path):
    """A row whose features were being written when the power went has no mark, and so is not believed."""
    small(collection, range(5), folder=tmp_path)
    place = next((tmp_path / "features").iterdir())
    table = np.load(place / "features.npy", mmap_mode="r+")
    present = np.load(place / "present.npy", mmap_mode="r+")
    table[2], present[2] = np.nan, False
    table.flush()
    present.flush()
    assert np.isfinite(small(collection, range(5), folder=tmp_path)).all()
    assert sorted(counted) == [0, 1, 2, 2, 3, 4]


@pytest.mark.slow
def test_the_key_tells_what_features_depend_on(collection, tmp_path):
    """Another size, other weights or other items have a folder of their own; features.json says which is which."""
    small(collection, [0], folder=tmp_path)
    embed(collection, np.asarray([0]), "small-cnn", 12, tmp_path, weights="none", device="cpu")
    embed(collection, np.asarray([0]), "efficientnet-lite0", 16, tmp_path, device="cpu")
    small(Collection("other", np.asarray(["x"]), pixels=collection.pixels[:1]), [0], folder=tmp_path)
    folders = sorted((tmp_path / "features").iterdir())
    assert len(folders) == 4
    facts = [json.loads((folder / "features.json").read_text()) for folder in folders]
    assert {(one["backbone"], one["size"], one["width"]) for one in facts} == {
        ("small-cnn", 16, 128), ("small-cnn", 12, 128), ("efficientnet-lite0", 16, 1280)}
    assert not [path for path in folders if path.name.startswith(".")]


def test_a_damaged_cache_says_which_folder_to_delete(collection, tmp_path):
    """A cut or foreign file is an error that names the folder."""
    small(collection, [0], folder=tmp_path)
    place = next((tmp_path / "features").iterdir())
    (place / "features.npy").write_bytes((place / "features.npy").read_bytes()[:500])
    with pytest.raises(ShiftBenchError, match=r"damaged .*Delete the folder"):
        small(collection, [0], folder=tmp_path)
    np.save(place / "features.npy", np.zeros((3, 2), np.float32))
    with pytest.raises(ShiftBenchError, match=r"of shape \(3, 2\)"):
        small(collection, [0], folder=tmp_path)


def test_wrong_requests_are_told(collection, tmp_path):
    """A head cannot embed, an unknown backbone suggests, a collection without images says so."""
    with pytest.raises(ShiftBenchError, match="takes features, but features are made of images"):
        embed(collection, np.asarray([0]), "linear")
    with pytest.raises(ShiftBenchError, match="Did you mean 'efficientnet-lite0'"):
        embed(collection, np.asarray([0]), "efficientnet-lite")
    with pytest.raises(ShiftBenchError, match="has no images"):
        small(Collection("bare", np.asarray(["x"])), [0])
    (tmp_path / "features").write_text("in the way")
    with pytest.raises(ShiftBenchError, match="cannot be written"):
        small(collection, [0], folder=tmp_path)


def test_a_cache_that_may_not_be_written_is_read(collection, tmp_path, no_rights):
    """What is there is taken; what is not there is asked of its owner; what may not be read is not called damaged."""
    there = small(collection, [0, 1], folder=tmp_path)
    place = next((tmp_path / "features").iterdir())
    for path in (*place.iterdir(), place):
        path.chmod(path.stat().st_mode & ~0o222)
    assert np.array_equal(small(collection, [1, 0], folder=tmp_path), there[::-1])
    with pytest.raises(ShiftBenchError, match=r"lacks 1 items that are needed, and you have no right to write"):
        small(collection, [0, 2], folder=tmp_path)
    (place / "features.npy").chmod(0)
    with pytest.raises(ShiftBenchError, match=r"features\.npy: cannot be read \(Permission denied\)"):
        small(collection, [0], folder=tmp_path)
    assert place.is_dir()
    place.chmod(0o755)
