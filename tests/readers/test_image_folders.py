"""Images in folders: what the folders are called is what is read, at any depth."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import table
from shiftbench.exports import export
from shiftbench.readers import READERS
from shiftbench.worlds import WORLDS

read = READERS["folder"]
few = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
parts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="/"),
                min_size=1, max_size=6).filter(lambda word: not word.startswith("."))


def written(root: Path, folders: list[tuple[str, ...]], images: int = 2) -> Path:
    """Tiny images in folders."""
    for number, path in enumerate(folders):
        root.joinpath(*path).mkdir(parents=True, exist_ok=True)
        for image in range(images):
            Image.new("RGB", (2, 2), (number, image, 0)).save(root.joinpath(*path, f"{number}-{image}.png"))
    return root


@pytest.mark.parametrize(("folders", "levels", "columns"), [
    ([("cat",), ("dog",)], "", {"label": ["cat", "dog"]}),
    ([("train", "cat"), ("valid", "cat")], "", {"split": ["train", "valid"], "label": ["cat", "cat"]}),
    ([("photo", "cat"), ("sketch", "dog")], "domain,label", {"domain": ["photo", "sketch"], "label": ["cat", "dog"]}),
    ([("a", "images", "x"), ("b", "images", "y")], ["label", "-", "site"], {"label": ["a", "b"], "site": ["x", "y"]}),
])
def test_each_level_of_folders_is_a_factor(tmp_path: Path, folders: list, levels: object, columns: dict) -> None:
    """One level is the label, split folders are known by their names, other levels have the names they are given."""
    read_in = read(written(tmp_path / "in", folders, images=1), levels=levels)
    assert {name: values.tolist() for name, values in read_in.factors.items()} == columns
    assert read_in.items.tolist() == ["/".join((*path, f"{n}-0.png")) for n, path in enumerate(folders)]
    assert read_in.name == "in"
    assert all(read_in.path(row).is_file() for row in range(len(read_in)))


@pytest.mark.slow
@few
@given(depth=st.integers(1, 4), data=st.data())
def test_whatever_folders_are_called_comes_back(tmp_path_factory, depth: int, data: st.DataObject) -> None:
    """Any tree of one depth is read as it was written: an item per image, a factor per level."""
    folders = data.draw(st.sets(st.tuples(*[parts] * depth), min_size=1, max_size=6))
    root = written(tmp_path_factory.mktemp("tree") / "in", sorted(folders))
    made = read(root, levels=[f"level{n}" for n in range(depth)])
    rows = zip(*(made.factors[f"level{n}"].tolist() for n in range(depth)), strict=True)
    assert sorted(rows) == sorted(path for path in folders for _ in range(2))
    assert [item.rsplit("/", 1)[0] for item in made.items.tolist()] == ["/".join(path) for path in sorted(
        folders) for _ in range(2)]


def test_an_export_to_folders_is_read_back(tmp_path: Path) -> None:
    """What `export --to folder` writes, `read folder` reads: split, label and group of every item are the same."""
    collection = WORLDS["scenes"](items=500, seed=3, size=32)
    benchmark = sb.Subset(("cat(sofa + bed)", "dog(cabinet + bed)"), ("cat(shelf)", "dog(shelf)"), n_train=12).build(
        collection, 0)
    export(benchmark, collection, tmp_path / "out", to="folder")
    with pytest.warns(UserWarning, match=r"5 files and folders .* are left out; the first is croissant.json"):
        again = read(tmp_path / "out", levels="split,label,group")
    rows = {Path(item).stem: row for item, *row in zip(again.items.tolist(), *again.factors.values(), strict=True)}
    columns = table(benchmark)
    assert list(again.factors) == ["split", "label", "group"]
    assert rows == {item: row for item, *row in zip(benchmark.items.tolist(), *(
        map(str, columns[name]) for name in ("split", "label", "group")), strict=True)}


def test_what_is_no_image_is_counted(tmp_path: Path) -> None:
    """Files that are no images, and images at another depth, are left out with a warning; hidden files without."""
    root = written(tmp_path, [("cat",), ("dog", "deeper")], images=1)
    (root / "cat" / "notes.txt").write_text("x")
    (root / "cat" / ".DS_Store").write_text("x")
    Image.new("RGB", (2, 2)).save(root / "cover.png")
    with pytest.warns(UserWarning, match="3 files and folders .* 1 folder deep .label/IMAGE.*first is cat/notes.txt"):
        assert read(root).items.tolist() == ["cat/0-0.png"]


@pytest.mark.parametrize(("folders", "levels", "message"), [
    ([("photo", "cat")], "", "lie 2 folders deep, and it is not clear .*--levels domain,label"),
    ([()], "", "holds no folders of images"),
    ([("a", "b")], "label,label", "each has a name of its own"),
    ([("a", "b")], "label", r"holds no images 1 folder deep \(label/IMAGE\)"),
    ([("a", "b")], ["x"] * 17, "at most 16"),
])
def test_folders_that_cannot_be_read(tmp_path: Path, folders: list, levels: object, message: str) -> None:
    """A depth that nobody named, no images, or levels that are not there: one line that says what to do."""
    with pytest.raises(ShiftBenchError, match=message):
        read(written(tmp_path, folders), levels=levels)


def test_links_that_lead_round_end(tmp_path: Path) -> None:
    """A folder that links to itself is read to the depth of the levels and no further."""
    written(tmp_path, [("cat",)], images=1)
    os.symlink(tmp_path, tmp_path / "cat" / "round")
    with pytest.warns(UserWarning, match="first is cat/round"):
        assert read(tmp_path).items.tolist() == ["cat/0-0.png"]


def test_the_command_reads_folders(tmp_path: Path, shell) -> None:
    """`read folder --levels` writes the collection; a folder that is not there is one line."""
    written(tmp_path / "in", [("photo", "cat"), ("sketch", "dog")])
    assert shell("read", "folder", tmp_path / "in", "--levels", "domain,label", "--out", tmp_path / "c", "-q")[0] == 0
    assert sb.Collection.load(tmp_path / "c").factors["domain"].tolist() == ["photo"] * 2 + ["sketch"] * 2
    code, _, err = shell("read", "folder", tmp_path / "no", "--out", tmp_path / "d")
    assert (code, err.count("\n")) == (1, 1)
