"""Vectors of an item's captions: kept, repaired, and never believed without their mark."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import lock
from shiftbench.data.collection import Collection, Texts
from shiftbench.text import embed_texts
from shiftbench.text import vectors as module

pytest.importorskip("tokenizers", reason='needs pip install "shiftbench[text]"')

from tests.text.test_text import minilm as minilm
from tests.text.test_text import needs_minilm
from tests.text.test_text import small as small


class Counted:
    """An encoder whose vectors are told by the text alone, and that remembers what it was asked."""

    key, width = "counted", 5

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, texts):
        self.seen += texts
        return np.asarray([self.one(text) for text in texts], np.float32).reshape(len(texts), self.width)

    def one(self, text):
        return np.frombuffer(hashlib.sha256(text.encode()).digest()[:self.width], np.uint8) / 255


def captioned(*texts: tuple[int, object], items: int = 10) -> Collection:
    rows, words = np.asarray([row for row, _ in texts], np.int64), np.asarray([word for _, word in texts], np.object_)
    return Collection("toy", np.asarray([f"i{k}" for k in range(items)]), texts=Texts(rows, words))


MANY = tuple((k % 10, f"caption {k % 37}") for k in range(70))
"""70 captions of 10 items, 37 texts in all."""


def by_hand(collection: Collection) -> dict[int, np.ndarray]:
    said: dict[int, list] = {}
    for item, text in zip(*collection.texts, strict=True):
        said.setdefault(int(item), []).append(Counted().one(text))
    return {item: np.mean(vectors, axis=0) for item, vectors in said.items()}


def test_an_item_has_the_mean_of_its_captions(monkeypatch):
    """Each item gets the mean over its captions, a text said twice counts twice, each text is encoded once."""
    monkeypatch.setattr(module, "CHUNK", 16)
    asked = Counted()
    collection = captioned(*MANY, (3, "caption 1"), (3, "caption 1"))
    rows, vectors = embed_texts(collection, asked)
    expected = by_hand(collection)
    assert rows.tolist() == sorted(expected)
    np.testing.assert_allclose(vectors, [expected[row] for row in rows.tolist()], rtol=1e-6)
    assert sorted(asked.seen) == sorted({text for _, text in MANY})
    assert vectors.dtype == np.float32


def test_an_item_without_captions_is_absent(tmp_path):
    """No vector is made up: such an item is not listed, and blank or missing captions are none."""
    collection = captioned((7, "b"), (2, "a"), (4, " \n"), (5, ""), (6, None), (2, "  "))
    for folder in (None, tmp_path):
        rows, vectors = embed_texts(collection, Counted(), folder)
        assert rows.tolist() == [2, 7]
        np.testing.assert_allclose(vectors, [Counted().one("a"), Counted().one("b")], rtol=1e-6)
    for none in (captioned(), captioned((1, ""))):
        with pytest.raises(ShiftBenchError, match=r"'toy' has no captions.*captions_"):
            embed_texts(none, Counted())
    with pytest.raises(ShiftBenchError, match="half a character"):
        embed_texts(captioned((1, "\ud800")), Counted())


def test_vectors_are_kept_and_a_changed_caption_is_done_again(tmp_path):
    """What is there is not computed again; one changed, added or lost caption concerns its own item alone."""
    first, again, third = Counted(), Counted(), Counted()
    collection = captioned((0, "a"), (0, "b"), (1, "c"), (2, "d"))
    kept_before = embed_texts(collection, first, tmp_path)
    assert sorted(first.seen) == ["a", "b", "c", "d"]
    shuffled = captioned((2, "d"), (0, "b"), (1, "c"), (0, "a"))
    for one, other in zip(kept_before, embed_texts(shuffled, again, tmp_path), strict=True):
        assert np.array_equal(one, other)
    assert again.seen == []
    rows, vectors = embed_texts(captioned((0, "a"), (1, "C"), (2, "d"), (3, "e")), third, tmp_path)
    assert sorted(third.seen) == ["C", "a", "e"]
    np.testing.assert_allclose(vectors, [Counted().one(text) for text in "aCde"], rtol=1e-6)
    assert rows.tolist() == [0, 1, 2, 3]
    rows, _ = embed_texts(captioned((2, "d")), third, tmp_path)  # the others' vectors are on disk, but not theirs now
    assert rows.tolist() == [2]


KILLED = """
import os, signal, sys
from tests.text import test_caption_vectors as t
t.module.CHUNK = 16
def die(done, total):
    if done >= 32: os.kill(os.getpid(), signal.SIGKILL)
t.embed_texts(t.captioned(*t.MANY), t.Counted(), sys.argv[1], die)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_nothing_wrong(tmp_path, monkeypatch):
    """After kill -9 what was finished is kept, the rest is computed, and the result is the same."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL
    monkeypatch.setattr(module, "CHUNK", 16)
    asked, steps = Counted(), []
    rows, vectors = embed_texts(captioned(*MANY), asked, tmp_path, lambda *step: steps.append(step))
    whole = embed_texts(captioned(*MANY), Counted())
    assert np.array_equal(rows, whole[0])
    assert np.array_equal(vectors, whole[1])
    assert 0 < len(asked.seen) < len(set(MANY))
    assert steps[-1][0] == steps[-1][1] <= 70 - 32


def test_a_vector_without_its_mark_is_not_believed(tmp_path):
    """A row that was being written when the power went is computed again."""
    embed_texts(captioned((0, "a"), (1, "b")), Counted(), tmp_path)
    place = next((tmp_path / "texts").iterdir())
    vectors, marks = (np.load(place / name, mmap_mode="r+") for name in ("vectors.npy", "marks.npy"))
    vectors[1], marks[1] = np.nan, 0
    vectors.flush()
    marks.flush()
    asked = Counted()
    assert np.isfinite(embed_texts(captioned((0, "a"), (1, "b")), asked, tmp_path)[1]).all()
    assert asked.seen == ["b"]


def test_another_encoder_or_other_items_have_their_own_folder(tmp_path, small):
    """Vectors of two encoders, or of two collections, never meet."""
    embed_texts(captioned((0, "a")), Counted(), tmp_path)
    embed_texts(captioned((0, "a")), small, tmp_path)
    embed_texts(captioned((0, "a"), items=3), Counted(), tmp_path)
    places = list((tmp_path / "texts").iterdir())
    assert len(places) == 3
    facts = [json.loads((place / "vectors.json").read_text()) for place in places]
    assert {(one["encoder"], one["width"]) for one in facts} == {("counted", 5), (small.key, 24)}


def test_two_processes_do_not_do_the_same_work(tmp_path, monkeypatch):
    """While another holds the vectors one waits, and then finds them done."""
    monkeypatch.setattr("shiftbench.core.files.WAIT", 0.01)
    embed_texts(captioned((0, "a")), Counted(), tmp_path)
    asked, found = Counted(), []
    second = threading.Thread(target=lambda: found.append(embed_texts(captioned((0, "a")), asked, tmp_path)))
    with lock(next((tmp_path / "texts").iterdir()) / "lock") as alone:
        assert alone
        second.start()
        second.join(0.1)
        assert not found
    second.join(20)
    assert found[0][0].tolist() == [0]
    assert asked.seen == []


def test_damaged_vectors_say_which_folder_to_delete(tmp_path):
    """A cut or foreign file, or a file in the way, is an error that names the place."""
    collection = captioned((0, "a"))
    embed_texts(collection, Counted(), tmp_path)
    place = next((tmp_path / "texts").iterdir())
    os.truncate(place / "vectors.npy", 130)
    with pytest.raises(ShiftBenchError, match=r"damaged .*Delete the folder"):
        embed_texts(collection, Counted(), tmp_path)
    np.save(place / "vectors.npy", np.zeros((3, 2), np.float32))
    with pytest.raises(ShiftBenchError, match=r"of shape \(3, 2\), not \(10, 5\)"):
        embed_texts(collection, Counted(), tmp_path)
    shutil.rmtree(tmp_path / "texts")
    (tmp_path / "texts").write_text("in the way")
    with pytest.raises(ShiftBenchError, match="cannot be written"):
        embed_texts(collection, Counted(), tmp_path)


def test_vectors_that_may_not_be_written_are_read(tmp_path, no_rights):
    """Vectors of a folder without the right to write are taken; a caption that has none yet is one line."""
    vectors = embed_texts(captioned((0, "a")), Counted(), tmp_path)[1]
    place = next((tmp_path / "texts").iterdir())
    for path in (*place.iterdir(), place):
        path.chmod(path.stat().st_mode & ~0o222)
    asked = Counted()
    assert np.array_equal(embed_texts(captioned((0, "a")), asked, tmp_path)[1], vectors)
    with pytest.raises(ShiftBenchError, match="lacks 1 items that are needed, and you have no right to write"):
        embed_texts(captioned((0, "b")), asked, tmp_path)
    assert asked.seen == []
    place.chmod(0o755)


@needs_minilm
def test_captions_place_an_item_by_its_gist(minilm, tmp_path):
    """With the real encoder, an item is nearest to the one whose captions tell of the same scene."""
    _, (ride, stable, dinner) = embed_texts(captioned(
        (0, "A man riding a horse along the beach."), (0, "A horse with its rider near the sea."),
        (1, "Two horses eat hay in a barn."), (1, "A farmer feeds his ponies."),
        (2, "A table set with pasta and wine."), (2, "People having dinner at a restaurant.")), minilm, tmp_path)
    assert ride @ stable > max(ride @ dinner, stable @ dinner) + 0.1
