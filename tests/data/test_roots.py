"""A collection from elsewhere takes no file of this machine before somebody says so; one's own always does."""

import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.images.decode import images


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Images in photos/, a collection of them in c/, a benchmark in b/; the notes of this user are here too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SHIFTBENCH_ROOTS", raising=False)
    (tmp_path / "photos").mkdir()
    for shade in range(4):
        Image.new("RGB", (4, 4), (shade, 0, 0)).save(tmp_path / "photos" / f"{shade}.png")
    (tmp_path / "secret.png").write_bytes(b"a private key")
    collection = Collection("c", np.asarray(list("abcd")), pixels=np.asarray([f"{k}.png" for k in range(4)]),
                            root=tmp_path / "photos")
    collection.save(tmp_path / "c")
    benchmark = Benchmark.of(collection, None, 0, np.arange(4), np.full(4, "test"), label=np.full(4, "x"),
                             domain=np.full(4, "y"))
    benchmark.save(tmp_path / "b")
    return tmp_path


def elsewhere(monkeypatch, place):
    """As if another user, or a machine to which the folders were copied, looked at them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "other"))


def test_our_own_collections_need_no_word(place, shell):
    """Saved and read by the same user, loaded, selected from, saved again: its files are there."""
    loaded = Collection.load(place / "c")
    assert images(loaded, np.arange(4))[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    loaded.save(place / "again")
    shutil.copytree(place / "again", place / "copy")
    assert images(Collection.load(place / "copy"), np.arange(4)).shape == (4, 4, 4, 3)
    code, _, err = shell("export", place / "b", "--collection", place / "c", "--copy", "--out", place / "out")
    assert (code, err) == (0, "")
    assert len(list((place / "out").rglob("*.png"))) == 4


def test_a_root_that_no_folder_can_have_is_one_line(place):
    """A NUL is in no name of a folder."""
    marker = place / "c" / "collection.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"root": "a\0b"}))
    with pytest.raises(ShiftBenchError, match="'root' is not the name of a folder"):
        Collection.load(place / "c")


@pytest.mark.parametrize("root", ["/", "parent", None])
def test_a_strangers_root_is_not_believed(place, shell, monkeypatch, root):
    """A collection whose root was set to `/`, to a folder above or to nothing: export --copy takes no file of it."""
    marker = place / "c" / "collection.json"
    facts = json.loads(marker.read_text())
    facts["root"] = str(place) if root == "parent" else root
    marker.write_text(json.dumps(facts))
    monkeypatch.chdir(place / "photos")
    for copy in (["--copy"], []):
        code, _, err = shell("export", place / "b", "--collection", place / "c", *copy, "--out", place / "out")
        assert (code, err.count("\n")) == (1, 1)
        assert "it was not made here" in err
        assert not (place / "out").exists()
    stolen = Collection.load(place / "c")
    with pytest.raises(ShiftBenchError, match="it was not made here"):
        stolen.path(0)
    stolen.save(place / "laundered")  # saving it again is no confirmation
    with pytest.raises(ShiftBenchError, match="it was not made here"):
        Collection.load(place / "laundered").path(0)


def test_a_collection_from_elsewhere_is_confirmed_once(place, shell, monkeypatch):
    """`trust` lets it take files from where it says, or from where they lie here; annotations need no word."""
    elsewhere(monkeypatch, place)
    loaded = Collection.load(place / "c")
    assert len(loaded) == 4
    with pytest.raises(ShiftBenchError, match=r"shiftbench trust .*c --root FOLDER"):
        images(loaded, np.arange(4))
    assert shell("trust", place / "c")[0] == 0
    assert images(Collection.load(place / "c"), np.arange(4))[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    os.rename(place / "photos", place / "moved")
    assert shell("trust", place / "c")[0] == 1
    assert sb.trust(place / "c", place / "moved") == (place / "moved").resolve()
    assert images(Collection.load(place / "c"), np.arange(4))[:, 0, 0, 0].tolist() == [0, 1, 2, 3]


def test_shared_folders_and_inner_ones_need_no_word(place, monkeypatch):
    """SHIFTBENCH_ROOTS allows what lies below a folder; files within the collection's own folder are its own."""
    elsewhere(monkeypatch, place)
    monkeypatch.setenv("SHIFTBENCH_ROOTS", f"/nowhere:{place}/photos")
    assert not Collection.load(place / "c").foreign
    monkeypatch.setenv("SHIFTBENCH_ROOTS", f"{place}/photos/deeper")
    assert Collection.load(place / "c").foreign
    monkeypatch.delenv("SHIFTBENCH_ROOTS")
    os.rename(place / "photos", place / "c" / "photos")
    marker = place / "c" / "collection.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "root": str(place / "c" / "photos")}))
    assert images(Collection.load(place / "c"), np.arange(4)).shape == (4, 4, 4, 3)


def test_without_a_place_for_notes_one_is_told(place, monkeypatch):
    """A home that cannot be written: `trust` says what to set instead."""
    (place / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "file"))
    with pytest.raises(ShiftBenchError, match="Set SHIFTBENCH_ROOTS="):
        sb.trust(place / "c")
