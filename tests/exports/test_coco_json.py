"""What is exported is read back."""

import json

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
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


def _tags(collection, row):
    tags = collection.tags
    return {tags.names[tags.tag[pair]]: (round(float(tags.area[pair]), 4), sorted(
        np.round(tags.boxes[tags.box_row == pair], 4).tolist()))
        for pair in np.flatnonzero(tags.item == row) if tags.kinds[tags.tag[pair]] in ("object", "stuff")}
