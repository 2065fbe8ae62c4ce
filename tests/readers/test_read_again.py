"""Reading into a folder that holds a collection already."""

import json

import pytest

import shiftbench as sb
from shiftbench.data.collection import Collection


def table(place, rows):
    (place / "t.csv").write_text("id,y\n" + "".join(f"{k},{'ab'[k % 2]}\n" for k in range(rows)))


READ = ("read", "table", "t.csv", "--id", "id", "--label", "y", "--out", "c")


def test_the_same_content_is_not_written_again(shell, project):
    """Reading the same twice ends well, says so and leaves the folder alone."""
    table(project, 6)
    assert shell(*READ)[0] == 0
    before = (project / "c" / "collection.json").stat().st_mtime_ns
    code, _, said = shell(*READ)
    assert code == 0
    assert "holds this collection already" in said
    assert (project / "c" / "collection.json").stat().st_mtime_ns == before
    assert json.loads(shell(*READ, "--json")[1])["notes"]


def test_another_content_asks_for_overwrite(shell, project):
    """Other content is refused with both sizes, and takes the folder with --overwrite."""
    table(project, 6)
    shell(*READ)
    table(project, 8)
    code, _, said = shell(*READ)
    assert code == 1
    assert "6 items" in said
    assert "8 items" in said
    assert "--overwrite" in said
    assert len(Collection.load("c")) == 6
    assert shell(*READ, "--overwrite")[0] == 0
    assert len(Collection.load("c")) == 8


@pytest.mark.slow
def test_other_pixels_are_other_content(project):
    """A world of another size has the same annotations and other images: in Python it takes overwrite=True."""
    sb.read("world", "sprites", out="w", items=4, size=32)
    with pytest.raises(sb.ShiftBenchError, match="another collection"):
        sb.read("world", "sprites", out="w", items=4, size=64)
    sb.read("world", "sprites", out="w", items=4, size=64, overwrite=True)
    assert Collection.load("w").pixels.shape[1] == 64


def test_a_damaged_collection_is_replaced_only_when_asked(shell, project):
    """What cannot be loaded any more is called damaged."""
    table(project, 6)
    shell(*READ)
    (project / "c" / "items.parquet").write_bytes(b"no")
    code, _, said = shell(*READ)
    assert code == 1
    assert "damaged" in said
    assert shell(*READ, "--overwrite")[0] == 0
    assert len(Collection.load("c")) == 6
