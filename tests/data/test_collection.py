"""Collections: saving, tags as factors, errors at the door."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags
from tests.strategies import collections


@pytest.mark.slow
@given(collections())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_load_gives_back_what_save_wrote(tmp_path, collection):
    """load(save(x)) == x, every column with its type."""
    loaded = Collection.load(collection.save(tmp_path / "c"))
    assert loaded == collection
    for name, values in collection.factors.items():
        assert np.array_equal(loaded.factors[name], values)
        assert loaded.factors[name].dtype.kind == values.dtype.kind
    assert np.array_equal(loaded.tags.boxes, collection.tags.boxes)
    assert np.array_equal(loaded.texts.text, collection.texts.text)
    assert loaded.parents == collection.parents


@given(collections())
def test_tags_become_factors(collection):
    """has:TAG is yes exactly for the items with the tag, and area:TAG sums what is known of its area."""
    tags = collection.tags
    for name in set(tags.names):
        rows = np.isin(tags.tag, [code for code, word in enumerate(tags.names) if word == name])
        carrying = set(tags.item[rows].tolist())
        assert {k for k, word in enumerate(collection.factor(f"has:{name}")) if word == "yes"} == carrying
        share = collection.factor(f"area:{name}")
        assert (share[[k for k in range(len(collection)) if k not in carrying]] == 0).all()


def test_instances_of_one_tag_are_merged():
    """Two dogs in one image are one tag with both areas and both boxes; the order of rows does not matter."""
    names, none = ["cat", "dog"], [np.nan] * 4
    one = Tags.of([1, 0, 0], [0, 1, 1], names, "object", [0.2, 0.1, 0.3], [[0, 0, 1, 1], [0, 0, 2, 2], none])
    other = Tags.of([0, 0, 1], [1, 1, 0], names, "object", [0.3, 0.1, 0.2], [none, [0, 0, 2, 2], [0, 0, 1, 1]])
    assert one.item.tolist() == [0, 1]
    assert np.allclose(one.area, [0.4, 0.2])
    assert one.boxes.tolist() == [[0, 0, 2, 2], [0, 0, 1, 1]]
    assert one.box_row.tolist() == [0, 1]
    assert np.array_equal(one.area, other.area)
    assert np.array_equal(one.boxes, other.boxes)


def test_a_tag_of_two_kinds_is_found_by_word_and_by_kind():
    """`grass` is both, `place:grass` is one."""
    tags = Tags.of([0, 1], [0, 1], ["grass", "grass"], ["object", "place"])
    assert tags.codes("grass").tolist() == [0, 1]
    assert tags.codes("place:grass").tolist() == [1]


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Collection("c", np.asarray(["a", "a"])), "'a' is listed more than once"),
    (lambda: Collection("c", np.asarray(["a"]), {"f": np.asarray([1, 2])}), "factor 'f' has 2 values for 1 items"),
    (lambda: Collection("c", np.asarray(["a"]), tags=Tags.of([3], [0], ["x"])), "outside 0..0"),
    (lambda: Collection("c", np.asarray(["a"]), pixels=np.zeros((2, 4, 4, 3), np.uint8)), "2 images for 1 items"),
    (lambda: Tags.of([0], [0], ["x"], "object", [-1.0]), "negative or infinite"),
    (lambda: Tags.of([0], [5], ["x"]), "outside 0..0"),
    (lambda: Tags.of([], [], ["x", "x"]), "listed twice"),
    (lambda: Collection("c", np.asarray(["a"]), {"shape": np.asarray([1])}).factor("shap"), "Did you mean 'shape'"),
    (lambda: Collection("c", np.asarray(["a"]), tags=Tags.of([0], [0], ["sofa"])).factor("has:sofe"), "mean 'sofa'"),
    (lambda: Collection("c", np.asarray(["a"])).index(np.asarray(["a", "b"])), "has no item 'b'"),
    (lambda: Collection.load("nowhere"), "no such folder"),
])
def test_bad_collections_are_refused_with_one_clear_message(make, message):
    """What is wrong and where."""
    with pytest.raises(ShiftBenchError, match=message):
        make()


def test_a_collection_of_another_format_is_refused(tmp_path):
    """A folder of a newer version says so, and a folder of something else says that."""
    folder = Collection("c", np.asarray(["a"])).save(tmp_path / "c")
    marker = folder / "collection.json"
    marker.write_text(marker.read_text().replace('"version": 1', '"version": 99'))
    with pytest.raises(ShiftBenchError, match="written in format 99"):
        Collection.load(folder)
    marker.write_text('{"format": "other"}')
    with pytest.raises(ShiftBenchError, match="does not describe a collection"):
        Collection.load(folder)


def test_image_paths_cannot_leave_their_root(tmp_path):
    """A file name in a hostile annotation cannot reach outside the image folder."""
    names = np.asarray(["ok.png", "../../etc/passwd"])
    collection = Collection("c", np.asarray(["a", "b"]), pixels=names, root=tmp_path)
    assert collection.path(0) == (tmp_path / "ok.png").resolve()
    with pytest.raises(ShiftBenchError, match="leads out"):
        collection.path(1)


def test_a_question_may_name_several_tags():
    """which: gives the one choice an item has, `none` or `several` otherwise, and a choice may stand for more tags."""
    tags = Tags.of([0, 1, 2, 2], [0, 1, 0, 1], ["sofa", "car", "bus"])
    collection = Collection("c", np.asarray(["a", "b", "c", "d"]), tags=tags)
    assert collection.factor("which:sofa|car").tolist() == ["sofa", "car", "several", "none"]
    assert collection.factor("which:home=sofa|street=car+bus").tolist() == ["home", "street", "several", "none"]
    with pytest.raises(ShiftBenchError, match="Did you mean 'sofa'"):
        collection.factor("which:sofas|car")


def test_a_name_of_the_hierarchy_stands_for_the_tags_below_it():
    """`vehicle` is every car and bus, however deep; a tag that is also a parent stands for itself and its children."""
    tags = Tags.of([0, 1, 2, 3], [0, 1, 2, 3], ["car", "bus", "sofa", "road vehicle"])
    parents = {"car": ("road vehicle",), "bus": ("road vehicle",), "road vehicle": ("vehicle",), "sofa": ("furniture",)}
    collection = Collection("c", np.asarray(["a", "b", "c", "d"]), tags=tags, parents=parents)
    assert collection.with_tag("vehicle").tolist() == [0, 1, 3]
    assert collection.with_tag("road vehicle").tolist() == [0, 1, 3]
    areas = Tags.of([0, 0, 1], [0, 1, 1], ["car", "bus"], "object", [0.1, 0.2, 0.3])
    measured = Collection("c", np.asarray(["a", "b"]), tags=areas, parents=parents)
    assert np.allclose(measured.factor("area:vehicle"), [0.3, 0.3])
    assert collection.factor("has:furniture").tolist() == ["no", "no", "yes", "no"]
    loop = Collection("c", np.asarray(["a"]), tags=Tags.of([0], [0], ["x"]), parents={"x": ("y",), "y": ("x",)})
    assert loop.with_tag("y").tolist() == [0]
