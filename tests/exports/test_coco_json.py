"""What is exported is read back."""

import json

import numpy as np
import pytest
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.exports import export
from shiftbench.worlds import WORLDS


def test_a_benchmark_in_coco_is_read_back(tmp_path):
    """Each split is an instances file; together they have every item's objects with the same areas and boxes."""
    collection = WORLDS["scenes"](items=500, seed=3, size=32)
    made = sb.Subset(("cat(sofa + bed)", "dog(cabinet + bed)"), ("cat(shelf)", "dog(shelf)"), n_train=12).build(
        collection, 0)
    with pytest.warns(UserWarning, match="tags of kind .*attribute.* are left out"):
        export(made, collection, tmp_path / "out", to="coco")
    files = sorted((tmp_path / "out").glob("instances_*.json"))
    assert [path.stem.removeprefix("instances_") for path in files] == sorted(set(made.split.tolist()))
    listed = {image["id"]: image for path in files for image in json.loads(path.read_text())["images"]}
    again = sb.read("coco", *files)
    assert sorted(image["item"] for image in listed.values()) == sorted(made.items.tolist())
    for number, item in enumerate(again.items.tolist()):
        row = collection.index(np.asarray([listed[int(item)]["item"]]))[0]
        assert _tags(again, number) == _tags(collection, row)
    with pytest.raises(ShiftBenchError, match="has no tags at hand"):
        export(made, None, tmp_path / "none", to="coco")


def test_an_image_without_a_size_is_one_line(tmp_path):
    """A file that is no image, and one that is made to fill a memory, is named."""
    collection = sb.Collection("one", np.asarray(["a", "b"]), {"y": np.asarray(["x", "y"])},
                               sb.Tags.of([0, 1], [0, 0], ("cat",)), pixels=np.asarray(["a.png", "a.png"]),
                               root=tmp_path)
    rows, split, labels = np.arange(2), np.asarray(["train", "test"]), np.asarray(["x", "y"])
    made = Benchmark.of(collection, None, 0, rows, split, label=labels, domain=labels)
    Image.new("1", (30_000, 30_000)).save(tmp_path / "a.png")
    for _ in range(2):
        with pytest.raises(ShiftBenchError, match=r"a\.png: cannot be read as an image"):
            export(made, collection, tmp_path / "out", to="coco")
        (tmp_path / "a.png").write_text("no image")


def _tags(collection, row):
    tags = collection.tags
    return {tags.names[tags.tag[pair]]: (round(float(tags.area[pair]), 4), sorted(
        np.round(tags.boxes[tags.box_row == pair], 4).tolist()))
        for pair in np.flatnonzero(tags.item == row) if tags.kinds[tags.tag[pair]] in ("object", "stuff")}
