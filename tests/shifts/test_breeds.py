"""The shift of BREEDS: superclasses meet in train and test, subclasses do not; on any collection with a hierarchy."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.checks import check
from shiftbench.data.collection import Collection, Tags
from shiftbench.hierarchies.superclasses import named_task
from shiftbench.readers import READERS
from shiftbench.shifts import Breeds
from shiftbench.worlds import WORLDS

SOURCE, TARGET = ("train", "id_val", "id_test"), ("val", "test", "target_train")
quick = settings(max_examples=20, deadline=None)


@pytest.fixture(scope="module")
def scenes():
    return WORLDS["scenes"](items=6000, seed=0, size=32)


def subclasses(benchmark, splits):
    return set(benchmark.extra["subclass"][np.isin(benchmark.split, splits)])


@pytest.mark.slow
@given(seed=st.integers(0, 1000), level=st.sampled_from([1, 2, 3]), split=st.sampled_from(["rand", "good", "bad"]),
       balanced=st.booleans(), groups=st.sampled_from(["subclass", "superclass"]))
@quick
def test_superclasses_meet_and_subclasses_do_not(scenes, seed, level, split, balanced, groups):
    """Every class is in every split, no subclass on both sides, a label is the class above, each domain has every
    class, and nothing makes the benchmark unfit."""
    shift = Breeds("breed", level=level, split=split, balanced=balanced, groups=groups)
    made = shift.build(scenes, seed)
    assert not subclasses(made, SOURCE) & subclasses(made, TARGET)
    assert set(made.splits) == {*SOURCE, *TARGET}
    for name in made.splits:
        assert set(made.label[made.rows(name)]) == set(range(len(made.names["label"])))
    table = {row["name"]: {side: {one["id"] for one in row[side]} for side in ("source", "target")}
             for row in made.card["superclasses"]}
    above = {row["id"]: row["name"] for row in made.card["superclasses"]}
    for leaf, code in set(zip(made.extra["subclass"].tolist(), made.label.tolist(), strict=True)):
        line = {leaf}
        while not line & above.keys():
            line = {parent for name in line for parent in scenes.parents[name]}
        assert above[(line & above.keys()).pop()] == made.names["label"][code]
        assert leaf in table[made.names["label"][code]]["source" if leaf in subclasses(made, SOURCE) else "target"]
    assert not [finding for finding in check(made) if finding.what == "empty cell"]
    assert made.digest == shift.build(scenes, seed).digest


@pytest.mark.slow
def test_sides_grow_apart_from_good_to_bad(scenes):
    """The card's distance is the mean separation: 0 for good, 1 for bad, and it rises with adversariality."""
    ends = ({"split": "good"}, {"adversariality": 0.5}, {"split": "bad"})
    good, half, bad = (Breeds("breed", level=2, subclasses=8, **terms).build(scenes).card["distance"] for terms in ends)
    assert good == 0 < half < bad == 1


@pytest.mark.parametrize("overlap", [0.0, 0.1, 0.25, 0.5])
def test_sides_may_overlap(scenes, overlap):
    """A share of every subclass stands on the other side, in every pair of splits; the distance falls with it, and none
    of it is the shift of before, bit for bit."""
    apart = Breeds("breed", split="bad").build(scenes)
    mild = Breeds("breed", split="bad", overlap=overlap).build(scenes)
    assert mild.card["distance"] == pytest.approx((1 - 2 * overlap) * apart.card["distance"])
    assert (mild.digest == apart.digest) == (overlap == 0)
    source = subclasses(apart, SOURCE)
    for inside, outside in zip(SOURCE, ("target_train", "val", "test"), strict=True):
        for name in np.unique(apart.extra["subclass"]):
            n_inside, n_outside = (int((mild.extra["subclass"][mild.rows(split)] == name).sum())
                                   for split in (inside, outside))
            own, other = (n_inside, n_outside) if name in source else (n_outside, n_inside)
            assert abs(other - overlap * (own + other)) <= 0.5
    with pytest.raises(ShiftBenchError, match=r"'overlap' is 0\.6, but it must be from 0"):
        Breeds("breed", overlap=0.6).build(scenes)


def test_without_a_split_there_is_no_shift(scenes):
    """The same subclasses before and after, no item in two splits, nothing to adapt with."""
    made = Breeds("breed", level=3, split="none").build(scenes)
    assert subclasses(made, ["train"]) == subclasses(made, ["test"])
    assert made.splits == ("train", "id_val", "id_test", "test")
    assert max(Counter(made.items.tolist()).values()) == 1


def test_left_open_the_level_is_the_most_balanced(scenes):
    """The built-in world's classes, whose breeds are almost equally many."""
    made = Breeds("breed").build(scenes)
    assert made.names["label"] == tuple(sorted(set(scenes.factor("class").tolist())))
    assert len(subclasses(made, SOURCE)) == len(subclasses(made, TARGET)) == 2 * 14


def test_superclasses_may_be_clusters(scenes):
    """A step above the breeds are their classes, as at the most balanced level; two steps below the root are others."""
    climbed, classes = (Breeds("breed", **terms).build(scenes) for terms in ({"cluster": "up-down", "level": 1}, {}))
    assert climbed.names["label"] == classes.names["label"]
    assert subclasses(climbed, SOURCE) == subclasses(classes, SOURCE)
    cut = Breeds("breed", cluster="down-up", level=2, subclasses=8).build(scenes)
    assert cut.names["label"] == Breeds("breed", level=2, subclasses=8).build(scenes).names["label"]


def test_tags_are_classes_where_there_is_no_factor():
    """COCO's way: supercategories above tags; an item of two superclasses or of both sides is dropped and counted."""
    rng = np.random.default_rng(0)
    names = ("bear", "cat", "cow", "dog", "bus", "car", "train", "truck", "person")
    tag = rng.integers(0, 8, 400)
    both = np.arange(0, 400, 40)
    item = np.concatenate([np.arange(400), both, np.arange(400)])
    collection = Collection(
        "coco", np.arange(400).astype(str), tags=Tags.of(item, np.concatenate([tag, (tag[both] + 1) % 8,
                                                                              np.full(400, 8)]), names),
        parents={name: ("animal" if code < 4 else "vehicle",) for code, name in enumerate(names[:8])})
    made = Breeds(level=0).build(collection)
    assert made.names["label"] == ("animal", "vehicle")
    place = {one["id"]: (row["name"], side) for row in made.card["superclasses"] for side in ("source", "target")
             for one in row[side]}
    torn = {str(row) for row in both if place[names[tag[row]]] != place[names[(tag[row] + 1) % 8]]}
    assert 0 < len(torn) < len(both)
    assert set(collection.items) - set(made.items) == torn
    assert f"{len(torn)} items carry subclasses of two superclasses, or of both sides, and were dropped." in (
        made.card["notes"])
    for item, leaf in zip(made.items.tolist(), made.extra["subclass"].tolist(), strict=True):
        own = {names[tag[int(item)]], *([names[(tag[int(item)] + 1) % 8]] if int(item) % 40 == 0 else [])}
        assert leaf in own


def imagenet(folder, classes, train=5, val=2):
    """A folder as ImageNet is unpacked, with tiny images."""
    for split, n in (("train", train), ("val", val)):
        for cls in classes:
            (folder / split / cls).mkdir(parents=True)
            for k in range(n):
                Image.new("RGB", (4, 4)).save(folder / split / cls / f"{cls}_{k}.JPEG")
    (folder / "train" / classes[0] / "notes.txt").write_text("no image")
    return folder


def test_a_named_task_on_an_imagenet_folder_is_one_command(shell, tmp_path):
    """The rows are the paper's table: the data's own split is kept, and its validation images are tested on."""
    task = named_task("living17")
    imagenet(tmp_path / "in", [*task.subclasses, "n99999999"])
    code, out, _ = shell("build", "breeds", "--only", "living17", "--collection", str(tmp_path / "in"), "--out",
                         str(tmp_path / "b"), "--json")
    assert code == 0
    assert len(json.loads(out)) == 1
    assert shell("read", "imagenet", str(tmp_path / "in"), "--out", str(tmp_path / "c"), "-q")[0] == 0
    assert Collection.load(tmp_path / "c") == Collection.load(tmp_path / "b" / "collection")
    made = Benchmark.load(tmp_path / "b" / "living17")
    assert len(made.names["label"]) == 17
    assert made.names["domain"] == ("source 1", "source 2", "target 1", "target 2")
    assert subclasses(made, SOURCE) == {leaf for side in task.source for leaf in side}
    assert subclasses(made, TARGET) == {leaf for side in task.target for leaf in side}
    for split, part in (("train", "train"), ("id_val", "train"), ("target_train", "train"), ("val", "train"),
                        ("id_test", "val"), ("test", "val")):
        assert all(item.startswith(f"{part}/") for item in made.items[made.rows(split)])
    assert [len(made.rows(split)) for split in ("train", "id_val", "id_test", "test")] == [34 * 4, 34, 34 * 2, 34 * 2]
    assert made.card["superclasses"][0]["name"] == "salamander"
    assert "salamander" in shell("show", str(tmp_path / "b" / "living17"))[1]


def test_missing_classes_are_all_listed(tmp_path):
    """One message names every class that the folder lacks, by id and by name."""
    task = named_task("living17")
    made = READERS["imagenet"](imagenet(tmp_path / "in", task.subclasses[3:], 2, 1))
    with pytest.raises(ShiftBenchError) as problem:
        Breeds("wnid", "living17", given="split").build(made)
    assert "lacks 3 of the 68" in str(problem.value)
    for node in task.subclasses[:3]:
        assert f"{node} ({task.title(node)})" in str(problem.value)


@pytest.mark.parametrize(("make", "said"), [
    (lambda root: None, "no such folder"),
    (lambda root: (root / "n01").mkdir(parents=True), "has no folder train/"),
    (lambda root: (root / "train").mkdir(parents=True), "has no folders of classes"),
    (lambda root: (root / "train" / "n01").mkdir(parents=True), "holds no images"),
])
def test_a_folder_that_is_not_imagenet_is_told(tmp_path, make, said):
    """What is missing, and how it should look."""
    make(tmp_path / "in")
    with pytest.raises(ShiftBenchError, match=said):
        READERS["imagenet"](tmp_path / "in")


TREE = {"top": ("pets", "cars"), "pets": ("cat", "dog"), "cars": ("bus", "van"), "odd": ("x",)}


@pytest.mark.parametrize(("terms", "said"), [
    ({"label": "class", "tree": TREE, "level": 5}, "the nearest is"),
    ({"label": "class", "tree": TREE, "level": 1, "root": "pets"}, "nothing to tell apart"),
    ({"label": "class", "tree": TREE, "root": "top"}, "needs a level as well"),
    ({"label": "class", "tree": TREE, "cluster": "up-down"}, "needs a level and goes with no task"),
    ({"label": "class", "tree": TREE, "level": 1, "groups": "breed"}, "No kind of group named 'breed'"),
    ({"label": "class", "tree": TREE, "level": 1, "held": 0.5}, "must leave items to train on"),
    ({"label": "class", "tree": TREE, "level": 1, "given": "class"}, "Factor 'class': No split named"),
    ({"label": "class", "tree": TREE, "hierarchy": "x"}, "Leave one of the two out"),
    ({"label": "class", "level": 1}, "has no class hierarchy of its own"),
    ({"level": 1, "tree": TREE}, "has no tags"),
    ({"label": "class", "tree": {"a": ("b", "c")}, "level": 0}, "none of the 4 classes"),
    ({"label": "few", "tree": TREE, "level": 1}, r"Fewer than 3 items have the subclasses van \(1\)"),
    ({"label": "class", "task": "living17", "edits": "e.toml"}, "no hierarchy to edit"),
])
def test_a_shift_that_cannot_be_built_says_why(terms, said):
    """One message with the way out."""
    names = np.asarray(["cat", "dog", "bus", "van"])
    few = np.asarray(["cat", "dog", "bus"])[np.arange(40) % 3]
    few[0] = "van"
    collection = Collection("toy", np.arange(40).astype(str), {"class": names[np.arange(40) % 4],
                                                               "few": few.astype("U3")})
    with pytest.raises(ShiftBenchError, match=said):
        Breeds(**terms).build(collection)


def test_a_recipe_may_hold_the_tree_and_name_the_edits(tmp_path, monkeypatch):
    """A grouping written by hand, after a script has changed it, from TOML to a saved benchmark."""
    monkeypatch.chdir(tmp_path)
    names = np.asarray(["cat", "dog", "bus", "van"])
    Collection("toy", np.arange(200).astype(str), {"class": names[np.arange(200) % 4]}).save("c")
    (tmp_path / "edits.toml").write_text('[[edit]]\ncollapse = "small"\n')
    (tmp_path / "recipe.toml").write_text(
        'collection = "c"\n[shift.breeds]\nlabel = "class"\nlevel = 1\nedits = "edits.toml"\n[shift.breeds.tree]\n'
        'top = ["pets", "cars"]\npets = ["cat", "dog"]\ncars = ["small", "bus"]\nsmall = ["van"]\n')
    made = sb.build("recipe.toml", out="b")
    assert made.names["label"] == ("cars", "pets")
    assert made.card["hierarchy"]["nodes"] == 7
    assert Benchmark.load("b") == made
