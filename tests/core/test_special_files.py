"""Pipes, links and names that are no text: followed where that is safe, refused at once where it is not."""

import os

import numpy as np
import pytest
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.images.decode import content_hashes, images
from shiftbench.models.net import read_weights
from shiftbench.scoring.listing import read_bytes


@pytest.mark.parametrize("words", [
    ("read", "coco", "pipe.json"), ("read", "gqa", "pipe.json"), ("read", "metashift", "pipe.pkl"),
    ("read", "table", "pipe.csv", "--id", "a", "--label", "b"), ("read", "factors", "pipe.npz", "--kind", "dsprites"),
    ("read", "factors", "pipe.npz", "--kind", "mpi3d"), ("read", "factors", "pipe.npz", "--kind", "shapes3d"),
    ("build", "pipe.toml"), ("report", "pipe.csv"), ("sweep", "pipe.toml")], ids=" ".join)
def test_a_pipe_is_refused_and_not_waited_for(project, shell, words):
    """Whatever reads a file: a pipe that nobody writes to ends with one line."""
    os.mkfifo(next(word for word in words if word.startswith("pipe")))
    code, _, err = shell(*words, "--out", "o")
    assert (code, err.count("\n")) == (1, 1)
    assert "is a pipe or a device, not a file" in err


def test_a_pipe_among_images_runs_and_weights_is_no_file(tmp_path):
    """An image, a file of a run or weights that are a pipe do not hang their reader."""
    for name in ("a.png", "predictions.parquet", "w.safetensors"):
        os.mkfifo(tmp_path / name)
    collection = Collection("c", np.asarray(["a"]), pixels=np.asarray(["a.png"]), root=tmp_path)
    for read in (lambda: images(collection, np.asarray([0]), 8), lambda: content_hashes(collection, np.asarray([0])),
                 lambda: read_weights(tmp_path / "w.safetensors")):
        with pytest.raises(ShiftBenchError, match=r"is a pipe or a device|no such weight file"):
            read()
    assert not read_bytes(str(tmp_path / "predictions.parquet"))


def folders(root, **classes):
    """train/ with a folder of one red and one green image for each class."""
    for cls, shade in classes.items():
        (root / cls).mkdir(parents=True)
        for name, red in (("x.png", shade), ("y.png", shade + 1)):
            Image.new("RGB", (4, 4), (red, 0, 0)).save(root / cls / name)


def test_linked_folders_and_images_are_read(tmp_path):
    """A subset of ImageNet made of links to folders and to files: every item has its image."""
    folders(tmp_path / "all", n1=10, n2=20)
    folders(tmp_path / "subset" / "train", n0=0)
    (tmp_path / "subset" / "train" / "n1").symlink_to("../../all/n1")
    (tmp_path / "subset" / "train" / "n0" / "z.png").symlink_to(tmp_path / "all" / "n2" / "x.png")
    sb.read("imagenet", tmp_path / "subset", out=tmp_path / "c")
    collection = Collection.load(tmp_path / "c")
    assert collection.items.tolist() == [f"train/{name}" for name in ("n0/x.png", "n0/y.png", "n0/z.png", "n1/x.png",
                                                                      "n1/y.png")]
    assert collection.factor("wnid").tolist() == ["n0"] * 3 + ["n1"] * 2
    assert images(collection, np.arange(5))[:, 0, 0, 0].tolist() == [0, 1, 20, 10, 11]
    assert collection.root == tmp_path.resolve()
    (tmp_path / "subset" / "train" / "n1").unlink()
    (tmp_path / "subset" / "train" / "n0" / "z.png").unlink()
    plain = sb.read("imagenet", tmp_path / "subset")
    assert plain.root == (tmp_path / "subset").resolve()
    assert plain.pixels.tolist() == plain.items.tolist()


@pytest.mark.parametrize("fault", ["loop", "image loop", "bytes", "folder bytes", "pipe"])
def test_what_cannot_be_read_as_imagenet_is_one_line(tmp_path, shell, fault):
    """Links round in a circle, names that are no UTF-8, pipes."""
    train = tmp_path / "train"
    folders(train, n0=0)
    if fault == "loop":
        (train / "n1").symlink_to("n1")
    elif fault == "image loop":
        (train / "n0" / "z.png").symlink_to("z.png")
    elif fault == "bytes":
        os.rename(train / "n0" / "x.png", os.fsencode(train / "n0") + b"/caf\xe9.png")
    elif fault == "folder bytes":
        os.rename(train / "n0", os.fsencode(train) + b"/caf\xe9")
    else:
        os.mkfifo(train / "n0" / "z.png")
    code, _, err = shell("read", "imagenet", tmp_path, "--out", tmp_path / "c")
    assert (code, err.count("\n")) == (1, 1)
    assert "n1: cannot be read" in err if fault == "loop" else True
