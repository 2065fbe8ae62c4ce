"""The tables of papers as suites, on the built-in world; exports for other tools."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import read_table
from shiftbench.data.checks import check
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import groupings_of
from shiftbench.exports import export
from shiftbench.metagraph.subsets import parse_subset, subset
from shiftbench.methods.presets import PRESETS
from shiftbench.readers.wilds import DATASETS
from shiftbench.shifts import Subset
from shiftbench.shifts.metashift_tables import ANIMALS, TASKS
from shiftbench.shifts.suites import SUITES, WITHOUT_LABELS, suite
from shiftbench.training.run import Run
from shiftbench.worlds import WORLDS
from tests.readers.test_wilds_unlabelled import EXPECTED, prepared
from tests.readers.wilds_files import read
from tests.strategies import toy

UNLABELLED = [name for name, published in DATASETS.items() if published.unlabelled is not None]

WORLD = sorted(name for name in SUITES if "/world/" in name)


@pytest.fixture(scope="module")
def scenes():
    """A world large enough for every twin."""
    return WORLDS["scenes"](items=12_000, seed=0, size=32)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLD)
def test_every_table_has_a_twin_on_the_world(name, scenes):
    """Each benchmark of the suite builds, keeps its splits apart, and misses only the classes it does not test."""
    for key, shift in suite(name):
        made = shift.build(scenes, 0)
        unfit = {finding.what for finding in check(made) if finding.unfit}
        assert unfit <= {"missing class"}, (key, unfit)
        if isinstance(shift, Subset):
            assert made.card["distance"] > 0
            assert len(made.rows("train")) == shift.n_train


def test_twins_have_the_rungs_of_the_papers_tables():
    """The world's suites have the same benchmarks as those for photos."""
    for name in WORLD:
        twin = [key for key, _ in suite(name.replace("/world", ""))]
        assert [key for key, _ in suite(name)] == twin
    assert len(list(suite("metashift/table1"))) == 4 * len(TASKS) == 16
    assert [key for key, _ in suite("metashift/table1", "bus")] == [f"bus-truck-{k}" for k in (1, 2, 3, 4)]
    with pytest.raises(ShiftBenchError, match="no benchmark that begins with 'cow'"):
        list(suite("metashift/table1", "cow"))


@pytest.mark.parametrize("name", UNLABELLED)
def test_wilds_adapts_to_what_the_paper_adapts_to(name, tmp_path, shell):
    """Built by the suite from a collection with unlabelled items, a benchmark has those of the test domains as
    `unlabelled`, or further ones where there are none, and no others; --set names others."""
    prepared(tmp_path, name, images=False)
    read(tmp_path, name, unlabelled=True, images=False).save(tmp_path / "c")
    words = ["build", "wilds", "--collection", tmp_path / "c", "--out", tmp_path / "b", "--only",
             "poverty-A" if name == "poverty" else name]
    code, _, problem = shell(*words)
    assert code == 0, problem
    built = sb.Benchmark.load(tmp_path / "b" / words[-1])
    chosen = "extra_unlabeled" if name in ("iwildcam", "civilcomments") else "test_unlabeled"
    assert len(built.rows("unlabelled")) == EXPECTED[name].count(chosen) > 0
    assert {split for split in built.split.tolist() if split.endswith("unlabeled")} == set()
    groupings_of(built)  # can be scored
    other = next(word for word in ("val_unlabeled", "extra_unlabeled") if word in EXPECTED[name])
    left = [word for word in WITHOUT_LABELS if word != other]
    code, _, problem = shell(*words, "--set", f'rename={{{other}="unlabelled"}}', "--set",
                             f"ignore={[*left, 'unused']}")
    assert code == 0, problem
    again = sb.Benchmark.load(tmp_path / "b" / words[-1])
    assert len(again.rows("unlabelled")) == EXPECTED[name].count(other)
    assert again.items[again.split != "unlabelled"].tolist() == built.items[built.split != "unlabelled"].tolist()


def test_a_number_may_be_unknown_of_unlabelled_items_alone():
    """A target of numbers has gaps where nothing is labelled; a gap of a training item is still refused by name."""
    split = np.asarray(["train", "train", "test", "unlabelled"])
    world = Collection("land", np.asarray(list("abcd")), {
        "wealth": np.asarray([1.0, 2.0, 3.0, np.nan]), "split": split})
    built = sb.Given("wealth", target="number").build(world)
    assert np.isnan(built.extra["wealth"]).tolist() == [False, False, False, True]
    gap = Collection("land", world.items, {"wealth": np.asarray([1.0, np.nan, 3.0, np.nan]), "split": split})
    with pytest.raises(ShiftBenchError, match="item 'b' is nan"):
        sb.Given("wealth", target="number").build(gap)


@pytest.mark.slow
def test_ladders_of_the_twins_rise(scenes):
    """Each rung is farther from the test subset than the one before, by the paper's distance and by diffusion."""
    rungs: dict[str, list[tuple[float, float]]] = {}
    for key, shift in suite("metashift/world/table1"):
        card = shift.build(scenes, 0).card
        rungs.setdefault(key[:-2], []).append((card["distance"], card["diffusion_distances"][shift.moves]))
    assert len(rungs) == len(TASKS)
    for task, distances in rungs.items():
        for column in zip(*distances, strict=True):
            assert list(column) == sorted(set(column)), task


@pytest.mark.slow
def test_only_the_dog_moves_in_the_ten_animal_task(scenes):
    """Every rung of table 3 trains on the same cats and has all ten classes; the dogs differ."""
    made = [shift.build(scenes, 0) for _, shift in suite("metashift/world/table3")]
    assert made[0].names["label"] == tuple(sorted((*ANIMALS, "cat", "dog")))
    train = [{name: set(one.items[one.rows("train")][one.label[one.rows("train")] == code])
              for code, name in enumerate(one.names["label"])} for one in made]
    for name in made[0].names["label"]:
        if name != "dog":
            assert train[0][name] == train[3][name], name
    assert len(train[0]["dog"] & train[3]["dog"]) < 0.1 * len(train[0]["dog"])


@pytest.mark.slow
def test_a_suite_is_built_and_trained_from_the_shell(shell, scenes, tmp_path):
    """One command builds a table, another trains on it; a preset is overridden by what is said on the line."""
    scenes.save(tmp_path / "scenes")
    code, out, err = shell("build", "metashift/world/table2", "--collection", tmp_path / "scenes", "--out",
                           tmp_path / "t2", "--json")
    assert code == 0, err
    assert [one["card"]["params"]["p"] for one in json.loads(out)] == [0.12, 0.06, 0.01]
    code, out, err = shell("train", tmp_path / "t2" / "minority-6", "--method", "irm", "--preset", "metashift",
                           "--model", "small-cnn", "--weights", "none", "--steps", 4, "--set", "size=32",
                           "--out", tmp_path / "r", "--json")
    assert code == 0, err
    run = json.loads((tmp_path / "r" / json.loads(out)["run"].split("/")[-1] / "run.json").read_text())["run"]
    assert (run["model"], run["lr"], run["steps"], run["batches"]) == ("small-cnn", 5e-5, 4, "domain_label")


def test_presets_are_legal_runs():
    """Every protocol is a complete set of settings."""
    for preset in PRESETS.values():
        if not preset.method:
            assert Run.of({"benchmark": "x", **preset.settings}).lr == preset.settings["lr"]


def test_a_suite_needs_a_collection_and_a_known_name(shell, tmp_path):
    """What is missing is named."""
    assert "needs a collection" in shell("build", "metashift/table1", "--out", tmp_path / "x")[2]
    assert "no such file" in shell("build", "metashift/tabel1", "--out", tmp_path / "x")[2]


@pytest.fixture(scope="module")
def small():
    shift = Subset(("cat(sofa + bed)", "dog(cabinet + bed)"), ("cat(shelf)", "dog(shelf)"), n_train=20)
    collection = WORLDS["scenes"](items=800, seed=3, size=32)
    return collection, shift.build(collection, 0)


@pytest.mark.slow
def test_folder_export_is_an_image_folder_with_the_same_pixels(small, tmp_path):
    """SPLIT/LABEL/GROUP/ITEM.png holds each item once with its own picture, and the groups of every item are listed."""
    collection, made = small
    export(made, collection, tmp_path / "x", to="folder")
    files = sorted((tmp_path / "x").glob("*/*/*/*.png"))
    assert sorted(path.stem for path in files) == sorted(made.items)
    for path in files[::37]:
        row = int(np.flatnonzero(made.items == path.stem)[0])
        assert path.parts[-4:-1] == (made.split[row], made.names["label"][made.label[row]],
                                     made.names["group"][made.group[row]])
        assert np.array_equal(np.asarray(Image.open(path)), collection.pixels[collection.index([path.stem])[0]])
    listed = json.loads((tmp_path / "x" / "imageID_to_group.json").read_text())
    assert listed == {row["item"]: row["groups"] for row in
                      pq.read_table(tmp_path / "x" / "imageID_to_group.parquet").to_pylist()}
    for item, groups in list(listed.items())[::20]:
        for group in groups:
            assert collection.index([item])[0] in subset(collection, group), (item, group, parse_subset(group))


def test_folder_export_links_or_copies_files(small, tmp_path):
    """Image files are linked, or copied when asked, under names that cannot leave the folder."""
    _, _ = small
    (tmp_path / "images").mkdir()
    base = toy(200)
    names = np.asarray([f"images/{k}.png" for k in range(200)])
    for name in names:
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    items = np.asarray([f"../{k}" for k in range(200)])
    collection = sb.Collection("files", items, base.factors, base.tags, pixels=names, root=tmp_path)
    made = sb.Correlation("class", "place", rho=0.5).build(collection, 0)
    export(made, collection, tmp_path / "linked")
    export(made, collection, tmp_path / "copied", copy=True)
    linked = list((tmp_path / "linked").glob("*/*/*/*.png"))
    assert len(linked) == len(made) == len(list((tmp_path / "copied").glob("*/*/*/*.png")))
    assert linked[0].is_symlink()
    assert not next((tmp_path / "copied").glob("*/*/*/*.png")).is_symlink()


def test_csv_export_and_wrong_layouts(small, tmp_path):
    """rows.csv holds every row; an unknown layout suggests the nearest; folders need images."""
    _, made = small
    export(made, None, tmp_path / "c", to="csv")
    assert read_table(tmp_path / "c" / "rows.csv")["item"].to_pylist() == made.items.tolist()
    with pytest.raises(ShiftBenchError, match="Did you mean 'folder'"):
        export(made, None, tmp_path / "d", to="folders")
    with pytest.raises(ShiftBenchError, match="no images at hand"):
        export(made, None, tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_a_name_means_itself_before_it_means_a_beginning():
    """`low-10` is one benchmark, although low-100 begins so; `low` is all of them."""
    assert [name for name, _ in suite("fine_grained/sprites/low_data", "low-10")] == ["low-10"]
    assert [name for name, _ in suite("fine_grained/sprites/low_data", "low")] == [
        "low-1", "low-10", "low-100", "low-1000"]
    with pytest.raises(ShiftBenchError, match="no benchmark that begins with 'lov'"):
        list(suite("fine_grained/sprites/low_data", "lov"))
