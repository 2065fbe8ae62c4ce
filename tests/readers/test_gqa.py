"""The GQA reader: scene graphs and Visual Genome's own files, read as plain loops read them."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.metagraph.subsets import candidates, subset
from shiftbench.readers import READERS

gqa = READERS["gqa"]
in_folder = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

CAT = {"name": "cat", "x": 10, "y": 5, "w": 20, "h": 10, "attributes": ["black"], "relations": [{"object": "2"}]}
SCENE = {"width": 100, "height": 50, "location": "indoors", "weather": None, "objects": {"1": CAT}}

words = st.sampled_from(["cat", "dog", "sofa", "tree"])
attributes = st.lists(st.sampled_from(["black", "wet", " large"]), max_size=3)
sides = st.integers(1, 40)
corners = st.integers(-50, 60)


@st.composite
def scenes(draw: st.DrawFn) -> dict[str, dict]:
    """Images with objects, some of which leave them."""
    found = {}
    for key in draw(st.lists(st.integers(1, 10**7).map(str) | st.just("n12"), unique=True, max_size=5)):
        objects = {}
        for place in draw(st.lists(st.integers(1, 10**6).map(str), unique=True, max_size=6)):
            thing = {"name": draw(words), "x": draw(corners), "y": draw(corners), "w": draw(st.integers(0, 60)),
                     "h": draw(st.integers(0, 60)), "relations": [{"object": "7", "name": "near"}]}
            objects[place] = thing | draw(st.fixed_dictionaries({}, optional={"attributes": attributes}))
        around = {"location": st.sampled_from(["indoors", "beach", None]), "weather": st.just("rainy")}
        found[key] = {"width": draw(sides), "height": draw(sides), "objects": objects,
                      **draw(st.fixed_dictionaries({}, optional=around))}
    return found


def covered(thing: dict, width: int, height: int) -> tuple[float, ...]:
    """The part of a box inside its image, by hand."""
    left, top = min(max(thing["x"], 0), width), min(max(thing["y"], 0), height)
    right, low = min(max(thing["x"] + thing["w"], 0), width), min(max(thing["y"] + thing["h"], 0), height)
    return left / width, top / height, (right - left) / width, (low - top) / height


def truth(images: dict[str, dict]) -> tuple[dict, dict]:
    """Area of every (image, kind, word), and its boxes."""
    areas, boxes = defaultdict(float), defaultdict(list)
    for key, scene in images.items():
        for kind, word in (("place", scene.get("location")), ("weather", scene.get("weather"))):
            if word:
                areas[key, kind, word] = float("nan")
        for thing in scene["objects"].values():
            box = covered(thing, scene["width"], scene["height"])
            for name in thing.get("names", [thing.get("name")]):
                areas[key, "object", name] += box[2] * box[3]
                boxes[key, "object", name].append(box)
                for attribute in dict.fromkeys(thing.get("attributes", ())):
                    areas[key, "attribute", f"{name}({attribute.strip()})"] += box[2] * box[3]
    return dict(areas), dict(boxes)


def same(read, images: dict[str, dict]) -> None:
    areas, boxes = truth(images)
    tags, ids = read.tags, read.items.tolist()
    assert ids == sorted(images, key=lambda key: (not key.isdigit(), int(key) if key.isdigit() else 0))
    rows = [(ids[item], tags.kinds[tag], tags.names[tag]) for item, tag in zip(tags.item, tags.tag, strict=True)]
    assert sorted(rows) == sorted(areas)
    assert np.allclose(tags.area, [areas[row] for row in rows], atol=1e-6, equal_nan=True)
    found = defaultdict(list)
    for row, box in zip(tags.box_row.tolist(), tags.boxes.tolist(), strict=True):
        found[rows[row]].append(box)
    assert found.keys() == boxes.keys()
    assert all(np.allclose(sorted(found[row]), sorted(boxes[row]), atol=1e-6) for row in found)


@pytest.mark.slow
@given(scenes(), st.data())
@in_folder
def test_scene_graphs_are_read_as_they_were_written(tmp_path, images, data):
    """Objects, attributes, places, weather, areas and boxes come out, in one file or in two."""
    second = data.draw(st.sets(st.sampled_from(sorted(images)))) if images else set()
    train, val = tmp_path / "train_sceneGraphs.json", tmp_path / "val_sceneGraphs.json"
    train.write_text(json.dumps({key: scene for key, scene in images.items() if key not in second}))
    val.write_text(json.dumps({key: scene for key, scene in images.items() if key in second}))
    read = gqa(train, val)
    same(read, images)
    assert read.factors["source"].tolist() == ["val" if key in second else "train" for key in read.items.tolist()]
    assert [*zip(read.factors["width"], read.factors["height"], strict=True)] == [
        (images[key]["width"], images[key]["height"]) for key in read.items.tolist()]
    train.write_text(json.dumps(images))
    same(gqa(train, val), images)


@pytest.mark.slow
@given(scenes(), st.permutations(["objects", "attributes", "image_data"]))
@in_folder
def test_visual_genome_says_the_same_in_its_own_files(tmp_path, images, order):
    """An object that objects.json and attributes.json both list counts once; sizes come from image_data.json."""
    images = {key: scene for key, scene in images.items() if key.isdigit()}
    listed = {"objects": [], "attributes": [], "image_data": []}
    plain = {}
    for key, scene in images.items():
        things = [{"object_id": int(place), "names": [thing["name"]], **{side: thing[side] for side in "xywh"}}
                  for place, thing in scene["objects"].items()]
        named = [{**thing, "attributes": original.get("attributes", [])}
                 for thing, original in zip(things, scene["objects"].values(), strict=True)]
        listed["objects"].append({"image_id": int(key), "objects": things})
        listed["attributes"].append({"image_id": int(key), "attributes": named})
        size = {side: scene[side] for side in ("width", "height")}
        listed["image_data"].append({"image_id": int(key), **size, "url": "x"})
        plain[key] = {side: scene[side] for side in ("width", "height", "objects")}
    for name, content in listed.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    same(gqa(*(tmp_path / f"{name}.json" for name in order)), plain)
    blind = gqa(tmp_path / "objects.json", tmp_path / "attributes.json")
    assert np.isnan(blind.tags.area).all()
    assert (len(blind.tags.boxes), "width" in blind.factors) == (0, not images)


def test_attributes_and_places_are_contexts_of_a_class(tmp_path):
    """cat(black), cat(indoors) and cat(sofa) are subsets of the class cat; black is a context of no other class."""
    sofa = {**CAT, "name": "sofa", "attributes": []}
    path = tmp_path / "x.json"
    path.write_text(json.dumps({str(k): {**SCENE, "objects": {"1": CAT, "2": sofa}} for k in range(30)}))
    read = gqa(path)
    assert candidates(read, "cat").names == ("black", "indoors", "sofa")
    assert candidates(read, "sofa").names == ("cat", "indoors")
    assert len(subset(read, "cat(black)")) == 30


@pytest.mark.parametrize(("content", "message"), [
    ({"7": {**SCENE, "width": 0}}, "7.width: Expected int >= 1"),
    ({"6": SCENE, "7": {**SCENE, "width": "wide"}}, "7.width: Expected int, got str"),
    ({"7": {"width": 3, "height": 3}}, "7: Object missing required field objects"),
    ({"7": {**SCENE, "objects": {"1": {**CAT, "w": -1}}}}, r"7.objects\[...\].w: Expected float >= 0"),
    ({"7": {**SCENE, "objects": {"1": {**CAT, "name": " "}}}}, "7.objects.1 has no name"),
    ({"7": {**SCENE, "objects": {"1": {**CAT, "x": float("nan")}}}}, "NaN and Infinity are not numbers"),
    ({"images": [], "annotations": []}, "images: Expected object, got array"),
    ([{"image_id": 7, "relationships": []}], "image 7 has no objects, no attributes and no size"),
    ([{"image_id": 7, "objects": []}, {"image_id": "8"}], r"\[1\].image_id: Expected int, got str"),
    ([{"image_id": 7, "objects": [{"names": ["cat"]}]}], r"\[0\].objects\[0\]: Object missing required field x"),
    ([{"image_id": 7, "width": 3, "height": 3}, {"image_id": 7, "width": 4, "height": 3}], "image 7 is 4 × 3, but in"),
    (7, "Expected array, got int"),
])
def test_what_is_wrong_is_said_with_file_and_place(tmp_path, content, message):
    """One message names the file, the image and the field."""
    path = tmp_path / "scenes.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ShiftBenchError, match=rf"scenes.json: .*{message}"):
        gqa(path)


def test_two_files_must_agree_on_an_image(tmp_path):
    """The same image in two sizes is an error that names both files, and a file cut off says where."""
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps({"7": SCENE}))
    other.write_text(json.dumps({"7": {**SCENE, "width": 99}}))
    with pytest.raises(ShiftBenchError, match=r"other.json: image 7 is 99 × 50, but in .*one.json it is 100 × 50"):
        gqa(one, other)
    text = one.read_text()
    for size in range(1, len(text)):
        other.write_text(text[:size])
        with pytest.raises(ShiftBenchError, match=rf"other.json: cut off at byte {size}, line 1,"):
            gqa(other)


def test_images_are_named_by_their_ids(tmp_path):
    """ID.jpg below the folder; an id that would lead elsewhere is refused."""
    path: Path = tmp_path / "x.json"
    path.write_text(json.dumps({"7": SCENE}))
    assert gqa(path, images=tmp_path, name="mine").path(0) == (tmp_path / "7.jpg").resolve()
    path.write_text(json.dumps({"../7": SCENE}))
    with pytest.raises(ShiftBenchError, match="leads out"):
        gqa(path, images=tmp_path)
