"""The COCO reader: what it reads is what the files say, and what is wrong with a file is said."""

import json
import os
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.readers import READERS

REAL = Path(__file__).parents[3] / "shared" / "data" / "coco"
coco = READERS["coco"]

IMAGE = {"id": 7, "width": 100, "height": 50, "file_name": "7.jpg"}
DOG = {"id": 18, "name": "dog", "supercategory": "animal"}
SEEN = {"id": 1, "image_id": 7, "category_id": 18, "area": 500.0, "bbox": [10, 10, 50, 20], "iscrowd": 0,
        "segmentation": [[1, 2, 3.5, 4]]}


def written(path: Path, images=(IMAGE,), annotations=(SEEN,), categories=(DOG,), **more: object) -> Path:
    parts = {"images": images, "annotations": annotations, "categories": categories, **more}
    path.write_text(json.dumps({key: value for key, value in parts.items() if value is not None}))
    return path


words = st.sampled_from(["dog", "cat", "person", "grass", "sky-other", "tree"])


@st.composite
def data_sets(draw: st.DrawFn) -> list[dict]:
    """Up to three COCO files over the same images: things, stuff and captions in any of them, members in any order."""
    sizes = draw(st.dictionaries(st.integers(0, 10**9), st.tuples(st.integers(10, 50), st.integers(10, 50)), min_size=1,
                                 max_size=6))
    files = []
    for number in range(draw(st.integers(1, 3))):
        listed = draw(st.lists(st.sampled_from(sorted(sizes)), unique=True)) if number else sorted(sizes)
        names = draw(st.lists(words, unique=True, min_size=1))
        ids = draw(st.lists(st.integers(1, 200), unique=True, min_size=len(names), max_size=len(names)))
        categories = []
        for key, name in zip(ids, names, strict=True):
            categories.append({"id": key, "name": name} | draw(st.sampled_from([
                {}, {"supercategory": "living"}, {"supercategory": name}, {"isthing": 0}, {"isthing": 1}])))
        annotations = []
        for image in draw(st.lists(st.sampled_from(sorted(sizes)), max_size=8)):
            width, height = sizes[image]
            member = {"image_id": image}
            if draw(st.booleans()):
                member |= {"category_id": draw(st.sampled_from(ids)), "iscrowd": draw(st.integers(0, 1))}
                if draw(st.booleans()):
                    member["area"] = draw(st.floats(0, width * height))
                if draw(st.booleans()):
                    member["bbox"] = draw(st.tuples(*[st.floats(-5, 50)] * 2, *[st.floats(0, 50)] * 2))
            else:
                member["caption"] = draw(st.text(max_size=8))
            annotations.append(dict(draw(st.permutations(list(member.items())))))
        file = {"images": [{"id": key, "width": sizes[key][0], "height": sizes[key][1]} for key in listed],
                "annotations": annotations, "categories": categories}
        if draw(st.booleans()):
            file["info"] = draw(st.sampled_from([{"description": "A Stuff Dataset"}, {"description": 3}, "x", None]))
        files.append(dict(draw(st.permutations(list(file.items())))))
    return files


def truth(files: list[dict]) -> dict:
    """The same by plain loops over plain dictionaries."""
    sizes, areas, boxes, texts, parents = {}, defaultdict(list), defaultdict(list), defaultdict(list), {}
    for file in files:
        sizes |= {image["id"]: (image["width"], image["height"]) for image in file["images"]}
        parents |= {category["name"]: (category["supercategory"],) for category in file["categories"]
                    if category.get("supercategory", category["name"]) != category["name"]}
    for file in files:
        info = file.get("info")
        stuff = isinstance(info, dict) and "stuff" in str(info["description"]).lower()
        stuff = stuff or all(92 <= category["id"] <= 183 for category in file["categories"])
        named = {category["id"]: ("object" if category.get("isthing", 0 if stuff else 1) else "stuff", category["name"])
                 for category in file["categories"]}
        for member in file["annotations"]:
            width, height = sizes[member["image_id"]]
            if "caption" in member:
                texts[member["image_id"]].append(member["caption"])
                continue
            pair = member["image_id"], named[member["category_id"]]
            areas[pair] += [member["area"] / (width * height)] if "area" in member else []
            if "bbox" in member:
                x, y, w, h = member["bbox"]
                boxes[pair].append((x / width, y / height, w / width, h / height))
    return {"sizes": sizes, "boxes": dict(boxes), "texts": dict(texts), "parents": parents,
            "areas": {pair: sum(some) if some else float("nan") for pair, some in areas.items()}}


@pytest.mark.slow
@given(data_sets())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_data_set_is_read_as_it_was_written(tmp_path, files):
    """Images, areas, boxes, kinds, captions and parents are those that plain loops find, in any number of files."""
    paths = [tmp_path / f"{number}.json" for number in range(len(files))]
    for path, file in zip(paths, files, strict=True):
        path.write_text(json.dumps(file))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read, wanted = coco(*paths, unannotated=True), truth(files)
    ids = sorted(wanted["sizes"])
    assert read.items.tolist() == [str(key) for key in ids]
    sizes = zip(read.factors["width"], read.factors["height"], strict=True)
    assert list(sizes) == [wanted["sizes"][key] for key in ids]
    tags = read.tags
    pairs = [(ids[item], (tags.kinds[tag], tags.names[tag])) for item, tag in zip(tags.item, tags.tag, strict=True)]
    assert sorted(pairs) == sorted(wanted["areas"])
    assert pairs == sorted(pairs)
    assert np.allclose(tags.area, [wanted["areas"][pair] for pair in pairs], rtol=1e-6, equal_nan=True)
    found = defaultdict(list)
    for row, box in zip(tags.box_row.tolist(), tags.boxes.tolist(), strict=True):
        found[pairs[row]].append(box)
    assert found.keys() == wanted["boxes"].keys()
    assert all(np.allclose(found[pair], wanted["boxes"][pair], rtol=1e-6) for pair in found)
    texts = defaultdict(list)
    for item, text in zip(read.texts.item.tolist(), read.texts.text.tolist(), strict=True):
        texts[ids[item]].append(text)
    assert texts == wanted["texts"]
    assert read.parents == wanted["parents"]
    assert set(read.factors["source"]) <= {path.stem for path in paths}


@pytest.mark.slow
@given(data_sets())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_items_are_the_images_that_somebody_annotated(tmp_path, files):
    """Items are what a file with categories and without captions alone lists or annotates, with all that is theirs."""
    paths = [tmp_path / f"{number}.json" for number in range(len(files))]
    judging, judged = [], set()
    for path, file in zip(paths, files, strict=True):
        path.write_text(json.dumps(file))
        boxed = {member["image_id"] for member in file["annotations"] if "category_id" in member}
        judging.append(bool(boxed) or not file["annotations"])
        judged |= boxed | {image["id"] for image in file["images"] if judging[-1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every, read = coco(*paths, unannotated=True), coco(*paths)
    kept = [str(key) for key in sorted(judged)] if any(judging) else every.items.tolist()
    assert read.items.tolist() == kept
    assert every.take(every.index(read.items)) == read
    assert {(read.items[item], read.tags.names[tag]) for item, tag in zip(read.tags.item, read.tags.tag, strict=True)
            } == {(every.items[item], every.tags.names[tag]) for item, tag in zip(
                every.tags.item, every.tags.tag, strict=True) if every.items[item] in kept}


def test_images_with_captions_alone_are_left_out_and_counted(tmp_path, shell):
    """Captions of 40 images beside instances of 9 give 9 items and a note, not 31 more without a dog."""
    photos = [changed(IMAGE, id=key, file_name=f"{key}.jpg") for key in range(40)]
    things = written(tmp_path / "instances_v.json", photos[:9], [changed(SEEN, image_id=key) for key in range(5)])
    words = written(tmp_path / "captions_v.json", photos, [{"image_id": key, "caption": "a dog"} for key in range(40)],
                    None)
    with pytest.warns(UserWarning, match="31 of 40 images are listed by no instances or stuff file"):
        read = coco(things, words)
    assert (len(read), len(read.texts.text)) == (9, 9)
    assert read.factor("has:dog").tolist().count("no") == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(coco(things, words, unannotated=True)) == 40
        assert len(coco(words)) == 40
    code, out, err = shell("read", "coco", things, words, "--out", tmp_path / "c", "--json")
    assert (code, json.loads(out)["items"]) == (0, 9)
    assert "31 of 40" in json.loads(out)["notes"][0]
    assert "note: 31 of 40" in err
    assert json.loads(shell("read", "coco", things, words, "--unannotated", "--out", tmp_path / "d", "--json")[1])[
        "items"] == 40


def test_an_item_that_one_of_two_vocabularies_covers_is_counted(tmp_path):
    """Stuff of two images beside things of one: of the other nobody said which things are in it."""
    two = [IMAGE, changed(IMAGE, id=8)]
    stuff = written(tmp_path / "stuff_v.json", two, [], [{"id": 124, "name": "grass"}])
    things = written(tmp_path / "instances_v.json")
    with pytest.warns(UserWarning, match="1 of 2 items are in no file with the categories of instances_v"):
        assert len(coco(things, stuff)) == 2
    more = written(tmp_path / "instances_w.json", [two[1]], [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coco(things, more, stuff)


@given(data_sets())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_the_files_tells_nothing(tmp_path, files):
    """Items and tags are the same whichever file comes first."""
    for number, file in enumerate(files):
        (tmp_path / f"{number}.json").write_text(json.dumps({**file, "images": files[0]["images"]}))
    paths = [tmp_path / f"{number}.json" for number in range(len(files))]
    one, other = coco(*paths), coco(*reversed(paths))
    assert np.array_equal(one.items, other.items)
    assert (one.tags.names, one.tags.kinds, one.parents) == (other.tags.names, other.tags.kinds, other.parents)
    assert np.array_equal(one.tags.item, other.tags.item)
    assert np.array_equal(one.tags.tag, other.tags.tag)
    assert np.allclose(one.tags.area, other.tags.area, equal_nan=True)


def changed(part: dict, **values: object) -> dict:
    return {key: value for key, value in {**part, **values}.items() if value is not ...}


def one(**values: object) -> dict:
    """A file with one annotation that differs."""
    return {"annotations": [changed(SEEN, **values)]}


WRONG = {
    "unknown category": ({"annotations": [SEEN, changed(SEEN, category_id=99)]}, r"s\[1\] has category_id 99"),
    "no categories": ({"categories": None}, r"s\[0\] has category_id 18, which is not among the 0 categories"),
    "unknown image": ({"annotations": [SEEN, SEEN, changed(SEEN, image_id=8)]}, r"s\[2\] has image_id 8, which no "),
    "negative area": (one(area=-1), r"annotations\[0\].area: Expected float >= 0"),
    "huge area": ({"annotations": [SEEN, changed(SEEN, area=1e30)]}, r"s\[1\].area is more than 10 times the size of"),
    "area beyond numbers": (one(area=10**400), r"annotations\[0\].area: Number out of range"),
    "NaN area": (one(area=float("nan")), r"at byte \d+, line 1: NaN and Infinity are not numbers in JSON"),
    "area in words": (one(area="big"), r"annotations\[0\].area: Expected float, got str"),
    "no area": (one(area=None), r"annotations\[0\].area: Expected float, got null"),
    "huge box": (one(bbox=[0, 0, 1e300, 1]), r"annotations\[0\].bbox is more than 10 times the size of image 7"),
    "far box": (one(bbox=[-1e9, 0, 1, 1]), r"annotations\[0\].bbox is more than 10 times the size of image 7"),
    "negative box": (one(bbox=[0, 0, -5, 1]), r"annotations\[0\].bbox\[2\]: Expected float >= 0"),
    "short box": (one(bbox=[0, 0, 5]), r"annotations\[0\].bbox: Expected array of length 4"),
    "no image id": (one(image_id=...), r"annotations\[0\]: Object missing required field image_id"),
    "half an image id": (one(image_id=7.5), r"annotations\[0\].image_id: Expected int, got float"),
    "neither": (one(category_id=...), r"annotations\[0\] has neither a category_id nor a caption"),
    "id in words": ({"images": [changed(IMAGE, id="7")]}, r"images\[0\].id: Expected int, got str"),
    "huge id": ({"images": [changed(IMAGE, id=2**70)]}, r"images\[0\].id: "),
    "no width": ({"images": [IMAGE, changed(IMAGE, width=...)]}, r"images\[1\]: Object missing required field width"),
    "zero height": ({"images": [changed(IMAGE, height=0)]}, r"images\[0\].height: Expected int >= 1"),
    "two sizes": ({"images": [IMAGE, changed(IMAGE, width=99)]}, r"image 7 is 99 × 50, but in .* it is 100 × 50"),
    "two names": ({"categories": [DOG, changed(DOG, name="cat")]}, r"categories\[1\] has id 18, which is the id of 'd"),
    "not a list": ({"annotations": {"a": 1}}, "annotations: Expected array, got object"),
    "images not a list": ({"images": 3}, "images: Expected array, got int"),
}


@pytest.mark.parametrize("what", sorted(WRONG))
def test_what_is_wrong_is_said_with_file_and_place(tmp_path, what):
    """One message names the file and the annotation, image or category."""
    parts, message = WRONG[what]
    path = written(tmp_path / "instances.json", **parts)
    with pytest.raises(ShiftBenchError, match=message) as problem:
        coco(path)
    assert "instances.json" in str(problem.value)


def test_a_file_cut_off_anywhere_is_refused(tmp_path):
    """Whatever byte a copy stopped at, the message names the file, the byte and the line."""
    path = written(tmp_path / "part.json", annotations=[SEEN, changed(SEEN, caption='a "dog" },{')], info={"a": [1]})
    text = path.read_text().replace(", ", ",\n")
    for size in range(1, len(text)):
        path.write_text(text[:size])
        line = text[:size].count("\n") + 1
        with pytest.raises(ShiftBenchError, match=rf"part.json: cut off at byte {size}, line {line},"):
            coco(path)
    path.write_text(text)
    assert len(coco(path)) == 1


@pytest.mark.parametrize(("text", "message"), [
    ("", "is empty"), ("  \n", "is empty"), ("[1, 2]", "Expected object, got array"), ("{}", "neither 'images' nor"),
    ('{"images": [],, "annotations": []}', "not valid JSON at byte 14, line 1"),
    ('{"images": [], "annotations": []]}', "not valid JSON"), ('{"images": [], "annotations": []} x', "not valid JSON"),
    ('{"images": [], "info": ' + "[" * 100_000, "nested too deeply"),
    ("\x80\x04\x95", "not valid JSON at byte 0"),
])
def test_what_is_no_coco_file_is_refused(tmp_path, text, message):
    """Empty files, other JSON, broken JSON and binary files are told apart."""
    path = tmp_path / "x.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ShiftBenchError, match=message):
        coco(path)


def test_a_second_list_of_annotations_is_refused(tmp_path):
    """A file with the key twice is refused in one line; the word elsewhere, as text or further inside, is none."""
    path = written(tmp_path / "x.json")
    text = path.read_text()
    for more in ('"annotations": []', '"annotations"\n :\t[]'):
        path.write_text(text.rstrip()[:-1] + f", {more}}}")
        with pytest.raises(ShiftBenchError, match=r"x\.json: has 'annotations' twice\. Join the two"):
            coco(path)
    more = ', "note": "annotations", "more": {"annotations": [1]}, "\\"a": ["annotations"]}'
    path.write_text(text.rstrip()[:-1] + more)
    assert len(coco(path).items) == 1


def test_files_that_are_not_there_are_refused(tmp_path):
    """No file, a folder, no such file and the same file twice are four different messages."""
    path = written(tmp_path / "x.json")
    for sources, message in (((), "at least one file"), ((tmp_path,), "is a folder"), ((tmp_path / "y",), "No such"),
                             ((path, tmp_path / "." / "x.json"), "is given twice")):
        with pytest.raises(ShiftBenchError, match=message):
            coco(*sources)


def test_images_lie_below_their_folder(tmp_path):
    """File names become pixels below the folder, or below the folder of their source where it has one."""
    path = written(tmp_path / "instances_val2017.json")
    read = coco(path, images=tmp_path, name="mine")
    assert (read.name, read.pixels.tolist(), read.path(0)) == ("mine", ["7.jpg"], (tmp_path / "7.jpg").resolve())
    (tmp_path / "val2017").mkdir()
    assert coco(path, images=tmp_path).path(0) == (tmp_path / "val2017" / "7.jpg").resolve()
    assert coco(path).pixels is None
    with pytest.raises(ShiftBenchError, match="no such folder"):
        coco(path, images=tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["../7.jpg", "/etc/passwd", "a/../../7.jpg", "..\\7.jpg", "7\0.jpg", ""])
def test_an_image_cannot_lie_elsewhere(tmp_path, name):
    """A file name that leads out of the folder, or is none, is refused before anything is read there."""
    path = written(tmp_path / "x.json", images=[changed(IMAGE, file_name=name)])
    with pytest.raises(ShiftBenchError, match=r"leads out|not the name|no file_name"):
        coco(path, images=tmp_path)


def test_a_collection_from_coco_is_saved_and_found_again(tmp_path):
    """What was read survives the way to the disk: tags, boxes, texts, parents and factors."""
    stuff = written(tmp_path / "stuff_val.json", annotations=[{"image_id": 7, "category_id": 124, "area": 2500}],
                    categories=[{"id": 124, "name": "grass", "supercategory": "plant"}])
    captions = written(tmp_path / "captions_val.json", None, [{"image_id": 7, "caption": "a dog"}], None)
    read = coco(written(tmp_path / "instances_val.json"), stuff, captions)
    loaded = Collection.load(read.save(tmp_path / "c"))
    assert loaded == read
    assert loaded.factor("area:grass").tolist() == [0.5]
    assert loaded.factor("area:object:dog").tolist() == pytest.approx([0.1])
    assert (loaded.tags.names, loaded.tags.kinds) == (("dog", "grass"), ("object", "stuff"))
    assert (loaded.texts.text.tolist(), loaded.factors["source"].tolist()) == (["a dog"], ["val"])
    assert loaded.parents == {"dog": ("animal",), "grass": ("plant",)}


@pytest.mark.real
@pytest.mark.skipif(not REAL.is_dir(), reason="the published sample is not beside the checkout")
def test_the_published_sample_is_read_as_plain_loops_read_it():
    """Counts and areas of COCO's own files: 159 images, 1,363 annotations, 795 captions."""
    names = ["instances_train2017.json", "captions_train2017.json", "instances_val2017.json", "captions_val2017.json"]
    files = [json.loads((REAL / name).read_text()) for name in names]
    read = coco(*(os.path.join(REAL, name) for name in names))
    assert (len(read), len(read.tags.boxes), len(read.texts.text), len(read.tags.names)) == (159, 1363, 795, 80)
    assert np.unique(read.factors["source"], return_counts=True)[1].tolist() == [80, 79]
    sizes = {image["id"]: image["width"] * image["height"] for file in files for image in file["images"]}
    named = {category["id"]: category["name"] for category in files[0]["categories"]}
    areas = defaultdict(float)
    for file in (files[0], files[2]):
        for member in file["annotations"]:
            areas[named[member["category_id"]], str(member["image_id"])] += member["area"] / sizes[member["image_id"]]
    assert len(areas) == len(read.tags.item)
    for (name, image), area in areas.items():
        assert read.factor(f"area:{name}")[read.index(np.asarray([image]))[0]] == pytest.approx(area, rel=1e-6)
    assert read.parents["dog"] == ("animal",)
    assert "person" not in read.parents
