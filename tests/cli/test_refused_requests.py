"""Requests that cannot be met, and places that cannot be written: one line that says so, before anything is lost."""

import base64
import hashlib
import re

import numpy as np
import pytest
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.images import decode as rooms
from tests.toys import toy_rows


def test_sizes_batches_and_replicates_out_of_range_are_one_line(project, shell):
    """`embed --size 0`, a batch beyond all memory, a negative number of replicates."""
    collection, benchmark = toy_rows(40)
    collection.save("small")
    folder = benchmark.save("b")
    for size in ("0", "-3", "5000"):
        code, _, err = shell("embed", folder, "--collection", "small", "--size", size)
        assert (code, err.count("\n")) == (1, 1)
        assert "8 to 1024 pixels" in err
    code, _, err = shell("train", folder, "--collection", "small", "--method", "erm", "--model", "small-cnn", "--out",
                         "runs", "--set", "batch_size=1000000000000", "--set", "steps=1", "--device", "cpu", "--quiet")
    assert (code, err.count("\n")) == (1, 1)
    assert "batch_size, which is 1,000,000,000,000" in err
    assert shell("score", folder, "p.csv", "--replicates", "-1")[0] == 2
    with pytest.raises(ShiftBenchError, match="replicates is -1, but must be at least 0"):
        sb.score(benchmark, sb.Predictions(benchmark.items, benchmark.split, np.zeros((40, 2), np.float32),
                                           benchmark.names["label"]), replicates=-1)


def test_images_without_room_are_one_line(monkeypatch):
    """Images beyond half of the memory that TMPDIR cannot hold are refused before the first is read, not by SIGBUS."""
    monkeypatch.setattr(rooms, "SHARE", 0.0)
    table = rooms.room((3, 4), np.dtype(np.float32))
    table[:] = 1
    assert table.sum() == 12
    with pytest.raises(ShiftBenchError, match=r"images take .* GB, which the folder for temporary files"):
        rooms.room((10**9, 10**6), np.dtype(np.uint8))


@pytest.mark.parametrize("copy", [True, False])
def test_no_item_takes_the_file_of_another(tmp_path, copy):
    """Items `a` and `a.png` with image files of one ending are two files of an export."""
    (tmp_path / "images").mkdir()
    for shade, name in enumerate(("1.png", "2.png", "3.png", "4.png")):
        Image.new("RGB", (4, 4), (shade, 0, 0)).save(tmp_path / "images" / name)
    items = np.asarray(["a", "a.png", "b.png", "c"])
    collection = Collection("two", items, pixels=np.asarray(["1.png", "2.png", "3.png", "4.png"]),
                            root=tmp_path / "images")
    benchmark = Benchmark.of(collection, None, 0, np.arange(4), np.full(4, "test"), label=np.full(4, "x"),
                             domain=np.full(4, "y"))
    out = sb.export(benchmark, tmp_path / "out", copy=copy, collection=collection)
    files = sorted(path for path in out.rglob("*.png"))
    assert len({path.name for path in files}) == 4
    assert sorted(Image.open(path).getpixel((0, 0))[0] for path in files) == [0, 1, 2, 3]
    assert "b.png" in {path.name for path in files}


def test_a_folder_that_is_not_ours_to_write_stops_a_fetch(tmp_path, no_rights):
    """`fetch` without the right to write names the folder, not the store and its keys."""
    pytest.importorskip("fsspec")
    for name in ("run.json", "predictions.parquet", "done"):
        path = tmp_path / "store" / "a" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (tmp_path / "mine").mkdir(mode=0o555)
    with pytest.raises(ShiftBenchError, match=r"mine/a: cannot be written \(Permission denied\)"):
        sb.fetch(f"file://{tmp_path}/store", tmp_path / "mine")


@pytest.mark.slow
def test_the_graph_page_runs_its_own_script_alone(project, shell):
    """Its content policy loads nothing from anywhere and allows one script, by its digest."""
    assert shell("graph", "toy", "--class", "cat", "--out", "g.html")[0] == 0
    page = (project / "g.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert page.index("Content-Security-Policy") < page.index("<style")
