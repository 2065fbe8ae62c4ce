"""What killed processes leave is cleared away, what living ones do is left alone, and no reader finds nothing."""

import subprocess
import sys

import pytest

from shiftbench.core import files
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import PREFIX, making_folder, read_folder, scratch, writing, writing_folder
from shiftbench.data.collection import MARKER, Collection

KILLED = """
import os, signal, sys
from shiftbench.core.files import scratch, writing, writing_folder

for start in range(15):
    if not os.fork():
        where = (lambda: writing(sys.argv[1] + "/file"), lambda: writing_folder(sys.argv[1] + "/folder", "marker"),
                 scratch)[start % 3]()
        with where as hidden:
            if start % 3:
                (hidden / "part").write_text("half")
            else:
                hidden.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
"""


def left_in(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(PREFIX)]


def test_what_killed_processes_left_is_cleared_by_the_next(tmp_path, monkeypatch):
    """Fifteen starts killed in the middle leave one staging folder in each place, and the next start none."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "out").mkdir()
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "out"], check=True)
    assert len(left_in(tmp_path / "out")) == 1  # each start cleared what the one before had left
    (tmp_path / "out" / f"{PREFIX}notes").write_text("a file of somebody's")
    with writing(tmp_path / "out" / "other") as hidden:
        hidden.write_text("new")
    with scratch() as place:
        assert left_in(place.parent) == [place.name]
    assert not left_in(place.parent)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"{PREFIX}notes", "other"]


def test_living_writers_are_left_alone(tmp_path):
    """Two that write beside each other, and one inside the folder of the other, both end well."""
    with writing_folder(tmp_path / "folder", "marker") as outer:
        (outer / "part").write_text("1")
        with writing(tmp_path / "file") as hidden, writing(outer / "marker") as inner:
            hidden.write_text("2")
            inner.write_text("3")
        assert (outer / "part").read_text() == "1"
    assert [(tmp_path / name).read_text() for name in ("folder/part", "folder/marker", "file")] == ["1", "3", "2"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder", "marker", "part"]


@pytest.mark.parametrize("can", [True, False])
def test_a_folder_is_replaced_with_and_without_the_one_step(tmp_path, monkeypatch, can):
    """Where a disk cannot exchange two folders, the old one is moved aside; either way only the new one is left."""
    if not can:
        monkeypatch.setattr(files, "_swap", lambda first, second: False)
    for word in ("old", "new"):
        with writing_folder(tmp_path / "folder", "marker") as place:
            (place / "marker").write_text(word)
            (place / word).touch()
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["marker", "new"]
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_a_process_killed_between_two_steps_loses_nothing(tmp_path):
    """The old folder was moved aside and the new one not yet put there: the next start puts it there."""
    left = tmp_path / f"{PREFIX}0123abcd"
    for place, word in ((left / "old" / "folder", "old"), (left / "folder", "new")):
        place.mkdir(parents=True)
        (place / "marker").write_text(word)
    with writing(tmp_path / "file") as hidden:
        hidden.touch()
    assert (tmp_path / "folder" / "marker").read_text() == "new"
    assert not left.exists()


def test_who_is_first_has_made_it(tmp_path):
    """A folder that another process made meanwhile stays as it is."""
    with making_folder(tmp_path / "cache") as mine:
        (mine / "x").write_text("mine")
        with making_folder(tmp_path / "cache") as other:
            (other / "x").write_text("theirs")
    assert (tmp_path / "cache" / "x").read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [tmp_path / "cache"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    """A file where a folder should be."""
    (tmp_path / "file").touch()
    with pytest.raises(ShiftBenchError, match=r"x: cannot be written \("), writing(tmp_path / "file" / "x"):
        pass


@pytest.mark.parametrize("times", [1, 2])
def test_a_folder_that_is_replaced_while_it_is_read_is_never_a_mixture(tmp_path, times):
    """Replaced once, it is read again and is the new one; replaced twice, the reader gives up in one line."""
    place, new, reads = tmp_path / "c", Collection("new", ["x", "y", "z"]), []
    Collection("old", ["a", "b"]).save(place)

    def read(folder):
        marker = (folder / MARKER).read_text()
        if len(reads) < times:  # another process, between two files of the folder
            new.save(place)
        reads.append(marker)
        return Collection._read(folder).items.tolist(), marker

    if times == 2:
        with pytest.raises(ShiftBenchError, match="another process replaced it while it was read, twice"):
            read_folder(place, MARKER, read)
        return
    items, marker = read_folder(place, MARKER, read)
    assert items == ["x", "y", "z"]
    assert '"name": "new"' in marker
