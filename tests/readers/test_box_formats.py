"""YOLO, Pascal VOC, Open Images and LVIS: the same boxes are the same tags, areas and boxes in every format."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.readers import READERS
from tests.readers import box_files
from tests.readers.box_files import HEIGHT, WIDTH, WORDS, Boxes, some_boxes

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(form: str, root: Path, boxes: Boxes) -> Collection:
    if form == "yolo":
        return READERS["yolo"](box_files.yolo(root, boxes))
    if form == "voc":
        return READERS["voc"](box_files.voc(root, boxes))
    if form == "open_images":
        files, classes = box_files.open_images(root, boxes)
        return READERS["open_images"](*files, classes=classes)
    root.mkdir()
    with pytest.warns(UserWarning, match="is an LVIS file: in each image its annotators looked for some categories"):
        return READERS["coco"](box_files.lvis(root / "lvis_v1_train.json", boxes))


def contents(collection: Collection) -> dict:
    """Item number and tag -> area and boxes in pixels."""
    tags = collection.tags
    pairs = [(int(collection.items[item].rpartition("/")[2]), tags.names[tag])
             for item, tag in zip(tags.item, tags.tag, strict=True)]
    boxes = np.round(tags.boxes * [WIDTH, HEIGHT, WIDTH, HEIGHT], 2).tolist()
    return {pair: (round(float(area), 4), sorted(box for row, box in zip(tags.box_row, boxes, strict=True) if row == n))
            for n, (pair, area) in enumerate(zip(pairs, tags.area, strict=True))}


def expected(boxes: Boxes) -> dict:
    pairs: dict = {}
    for n, rows in enumerate(boxes):
        for word, *box in rows:
            pairs.setdefault((n, WORDS[word]), []).append([float(side) for side in box])
    return {pair: (pytest.approx(sum(w * h for _, _, w, h in rows) / WIDTH / HEIGHT, abs=2e-4), sorted(rows))
            for pair, rows in pairs.items()}


@pytest.mark.parametrize("form", ["yolo", "voc", "open_images", "lvis"])
def test_boxes_are_tags_with_areas(tmp_path: Path, form: str) -> None:
    """Classes are tags by their names, an area is the share of all boxes of the class, boxes are where they were."""
    boxes = some_boxes()
    one = read(form, tmp_path / "in", boxes)
    assert contents(one) == expected(boxes)
    assert len(one) == len(boxes) - (form == "open_images")  # it lists boxes, not images
    if form != "lvis":
        assert {int(item.rpartition("/")[2]) % 2: split for item, split in zip(
            one.items.tolist(), one.factors["split"].tolist(), strict=True)} == {0: "train", 1: "val"}
    if form in ("yolo", "voc"):
        assert all(one.path(row).is_file() for row in range(len(one)))
    assert Collection.load(one.save(tmp_path / "c")).digest == one.digest


@pytest.mark.slow
@few
@given(data=st.data(), form=st.sampled_from(["yolo", "voc", "open_images", "lvis"]))
def test_whatever_boxes_are_written_come_back(tmp_path_factory, data: st.DataObject, form: str) -> None:
    """Any boxes inside their images, one class twice in an image too."""
    box = st.tuples(st.integers(0, 2), st.integers(0, 100), st.integers(0, 50), st.integers(1, 100), st.integers(1, 50))
    boxes = data.draw(st.lists(st.lists(box, min_size=1, max_size=3), min_size=2, max_size=5))
    assert contents(read(form, tmp_path_factory.mktemp("in") / form, boxes)) == expected(boxes)


@pytest.mark.parametrize("names", [
    "names: [cat, driver's seat, 'fire hydrant']\nnc: 3\n",
    "names:\n- cat # a pet\n- driver's seat\n- \"fire hydrant\"\n",
    "nc: 3\nnames: {0: cat, 1: driver's seat, 2: fire hydrant}\n",
    "names:\n  2: fire hydrant\n  0: cat\n  1: driver's seat\n",
    "names: ['cat',\n  \"driver's seat\",\n  'fire hydrant',\n]\nval: x\n",
])
def test_the_names_of_data_yaml(tmp_path: Path, names: str) -> None:
    """Lists and mappings, in a line or in lines, with quotes and comments, as data.yaml is written."""
    boxes = some_boxes()
    assert contents(READERS["yolo"](box_files.yolo(tmp_path / "in", boxes, names))) == expected(boxes)


def test_yolo_in_folders_per_split_beside_images_and_with_outlines(tmp_path: Path) -> None:
    """train/labels and train/images, or text beside images, are found too; an outline has its own area."""
    (tmp_path / "a" / "train" / "labels").mkdir(parents=True)
    (tmp_path / "a" / "train" / "labels" / "1.txt").write_text("0 0.1 0.1 0.5 0.1 0.1 0.5\n")
    (tmp_path / "classes.txt").write_text("cat\n")
    one = READERS["yolo"](tmp_path / "a", names=tmp_path / "classes.txt")
    assert (one.items.tolist(), one.factors["split"].tolist(), one.pixels) == (["train/1"], ["train"], None)
    assert one.tags.area.tolist() == pytest.approx([0.08])
    assert one.tags.boxes[0].tolist() == pytest.approx([0.1, 0.1, 0.4, 0.4])
    box_files.picture(tmp_path / "b" / "1.png")
    (tmp_path / "b" / "1.txt").write_text("0 .5 .5 1 1\n\n")
    (tmp_path / "b" / "classes.txt").write_text("dog\n")
    two = READERS["yolo"](tmp_path / "b")
    assert (two.items.tolist(), two.pixels.tolist(), two.tags.names) == (["1"], ["1.png"], ("dog",))


@pytest.mark.parametrize(("line", "message"), [
    ("0 .5 .5 .1", r"1.txt, line 2: has 4 values"), ("0 .5 .5 .1 .1 .9", "line 2: has 6 values"),
    ("0 .5 .5 .1 x", "line 2: 'x' is not a number"), ("0 .5 nan .1 .1", "line 2: 'nan' is not a number"),
    ("7 .5 .5 .1 .1", "line 2: the class is 7, and there are names for 0 to 2"),
    ("0 .5 .5 3 .1", "line 2: the box leaves"),
    ("0.5 .5 .5 .1 .1", "line 2: the class is 0.5"), ("0 .5 .5 -.1 .1", "line 2: the box leaves"),
    ("0 .1 .1 .2 .2 x .3", "line 2: 'x' is not a number"),
])
def test_a_wrong_line_of_yolo_is_named(tmp_path: Path, line: str, message: str) -> None:
    """File, line and what is wrong with it."""
    root = box_files.yolo(tmp_path, some_boxes())
    (root / "labels" / "val" / "1.txt").write_text(f"0 .5 .5 .1 .1\n{line}\n")
    with pytest.raises(ShiftBenchError, match=message):
        READERS["yolo"](root)


@pytest.mark.parametrize(("names", "message"), [
    ("nc: 3\n", "has no entry `names`"), ("names:\n  0: a\n  2: b\n", "must number its 2 classes 0 to 1"),
    ("names: [a, b\n", "does not end"), ("names: []\n", "names no classes"), ("names:\nnc: 2\n", "names no classes"),
])
def test_wrong_names_of_yolo(tmp_path: Path, names: str, message: str) -> None:
    """A file of names that says no or half a list is one line."""
    with pytest.raises(ShiftBenchError, match=message):
        READERS["yolo"](box_files.yolo(tmp_path, some_boxes(), names))


@pytest.mark.parametrize(("old", "new", "message"), [
    ("<annotation>", '<!DOCTYPE a [<!ENTITY x "y">]><annotation>', "1.xml, line 1: declares a document type"),
    ("<xmin>", "<xmin>a", "line 1: the object has no number xmin, but 'a"),
    ("<width>200</width>", "", "no number width"), ("<width>200", "<width>0", "the image is 0 × 100 pixels"),
    ("</annotation>", "", "not a readable XML file"), ("<name>", "<nom>", "not a readable XML file"),
    ("<filename>1.png", "<filename>../../x.png", "leads out of its folder"), ("<xmax>", "<xmax>9999999", "the box is"),
    ("<folder>", "<a>" * 30 + "</a>" * 30 + "<folder>", "nested more than 20 deep"),
])
def test_a_wrong_file_of_voc_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Entities, missing numbers, half a file, names that lead out: one line with the file."""
    root = box_files.voc(tmp_path, some_boxes())
    path = root / "Annotations" / "1.xml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ShiftBenchError, match=message):
        READERS["voc"](root)


@pytest.mark.parametrize(("file", "text", "message"), [
    ("ImageSets/Main/val.txt", "0\n", "lists '0', which the list of train has too"),
    ("ImageSets/Main/val.txt", "\udcff", "is not UTF-8 text"),
    ("Annotations/1.xml", "<annotation><size><width>9</width><height>9</height></size><object></object></annotation>",
     "the object has no number"),
    ("Annotations/1.xml", "<annotation><size><width>9</width><height>9</height></size><object><bndbox><xmin>1</xmin>"
     "<ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object></annotation>", "the object has no name"),
    ("Annotations/1.xml", " " * (1 << 24) + " ", "VOC has a small file per image"),
])
def test_a_wrong_list_or_object_of_voc_is_named(tmp_path: Path, file: str, text: str, message: str) -> None:
    """An image in two lists, an object without a name, a file that is far too large."""
    root = box_files.voc(tmp_path, some_boxes())
    (root / file).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ShiftBenchError, match=message):
        READERS["voc"](root)


@pytest.mark.parametrize(("reader", "files", "message"), [
    ("yolo", {}, "has none of data.yaml"), ("yolo", {"classes.txt": "cat\n"}, "holds no label files"),
    ("yolo", {"classes.txt": "\udcff"}, "is not UTF-8 text"),
    ("yolo", {"classes.txt": "cat\n", "labels/x/a.txt": "", "x/labels/a.txt": ""}, "the item 'x/a', and so would"),
    ("voc", {"notes.md": ""}, "holds no XML files"),
])
def test_a_folder_of_another_layout_is_refused(tmp_path: Path, reader: str, files: dict, message: str) -> None:
    """What is missing in it, or there twice, is said."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ShiftBenchError, match=message):
        READERS[reader](tmp_path)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("/m/", "/n/", r"row \d has LabelName '/n/.*does not describe"), (",1,0.", ",1,-99.", "csv: row 0: the box is"),
    ("XMin", "Left", "No column named 'XMin'"), (",1,0.", ",1,x0.", "column 'XMin' is not all numbers"),
])
def test_a_wrong_table_of_open_images_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    """A class without a description, a box outside all proportion, a column that is not there."""
    files, classes = box_files.open_images(tmp_path / "in", some_boxes())
    files[1].write_text(files[1].read_text().replace(old, new))
    with pytest.raises(ShiftBenchError, match=message):
        READERS["open_images"](*files, classes=classes)


def test_lvis_images_lie_where_coco_has_them(tmp_path: Path) -> None:
    """LVIS names an image by COCO's address: its last folder and its name lead to the file."""
    for n in range(6):
        box_files.picture(tmp_path / "train2017" / f"{n}.png")
    with pytest.warns(UserWarning, match="LVIS"):
        one = sb.read("coco", box_files.lvis(tmp_path / "lvis.json", some_boxes()), images=tmp_path)
    assert one.pixels.tolist() == [f"train2017/{n}.png" for n in range(6)]


@pytest.mark.parametrize("words", [
    ("yolo", "yolo", "--names", "yolo/data.yaml"), ("voc", "voc"),
    ("open_images", "oi/train-annotations-bbox.csv", "--classes", "oi/classes.csv"),
])
def test_the_commands_read(tmp_path: Path, shell, monkeypatch, words: tuple) -> None:
    """Each format has its command, and a folder that is not there is one line."""
    monkeypatch.chdir(tmp_path)
    for form, folder in (("yolo", "yolo"), ("voc", "voc"), ("open_images", "oi")):
        getattr(box_files, form)(Path(folder), some_boxes())
    assert shell("read", *words, "--out", "c", "-q") == (0, "", "")
    code, _, err = shell("read", words[0], "nowhere", *words[2:], "--out", "d")
    assert (code, err.count("\n")) == (1, 1)
