"""Weight files: the same tensors are the same bytes, any tool reads them, and a disk without room is one line."""

import os
import resource
from contextlib import contextmanager

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models import build
from shiftbench.models.net import read_weights, tensors_digest
from shiftbench.training.folder import save_weights
from shiftbench.training.loop import train
from tests.toys import toy_rows, toy_run

TENSORS = {
    "z": torch.arange(6.0).reshape(2, 3), "a": torch.tensor(3), "m": torch.ones(3, dtype=torch.bool),
    "half": torch.full((5,), 0.5, dtype=torch.bfloat16), "none": torch.zeros(0, 4),
    "turned": torch.arange(6.0).reshape(2, 3).T,
}
FACTS = {"run": "r", "model": "m", "point": '{"step": 3}', "x": "1", "y": "ä"}


@contextmanager
def small_files(most):
    """No file of this process may grow beyond so many bytes: what a full disk does, without a disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_the_same_weights_are_the_same_bytes(tmp_path):
    """Twenty files of the same tensors and words are equal, whatever the order they are given in."""
    for number in range(20):
        turn = -1 if number % 2 else 1
        save_weights(tmp_path / str(number), dict(list(TENSORS.items())[::turn]), **dict(list(FACTS.items())[::turn]))
    assert len({(tmp_path / str(number)).read_bytes() for number in range(20)}) == 1


def test_other_tools_read_what_we_write(tmp_path):
    """Every tensor comes back from the safetensors package with its type and shape, and every word."""
    save_weights(tmp_path / "w.safetensors", TENSORS, **FACTS)
    back = load_file(tmp_path / "w.safetensors")
    assert back.keys() == TENSORS.keys()
    for key, value in TENSORS.items():
        assert back[key].dtype == value.dtype
        assert torch.equal(back[key], value)
    with safe_open(tmp_path / "w.safetensors", framework="pt") as file:
        assert file.metadata() == FACTS


def test_weights_may_be_read_by_whoever_may_read_the_rest(tmp_path):
    """The mode of a weight file is what the umask says, as for every other file."""
    old = os.umask(0o027)
    try:
        save_weights(tmp_path / "w.safetensors", TENSORS)
    finally:
        os.umask(old)
    assert (tmp_path / "w.safetensors").stat().st_mode & 0o777 == 0o640


def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path):
    """Weights that have no room: one message that names the file, the old file whole, nothing beside it."""
    file = tmp_path / "w.safetensors"
    save_weights(file, TENSORS)
    old = file.read_bytes()
    with small_files(50_000), pytest.raises(ShiftBenchError, match=r"w\.safetensors: cannot be written \(File too"):
        save_weights(file, {"large": torch.zeros(100_000)})
    assert file.read_bytes() == old
    assert list(tmp_path.iterdir()) == [file]


def test_a_weight_file_is_known_by_its_tensors(tmp_path):
    """A run that began from a file finds itself done when the file is written again by any tool, and refuses others."""
    collection, benchmark = toy_rows(60)
    file = tmp_path / "start.safetensors"
    run = toy_run(benchmark, model="small-cnn", features="", weights=str(file), steps=2, eval_every=2)
    net = build("small-cnn", 2, 16, seed=5)
    save_file(net.state_dict(), file, metadata={"a": "1", "b": "2"})
    before = tensors_digest(read_weights(file))
    folder = train(benchmark, collection, run, tmp_path / "runs", device="cpu")
    done = (folder / "predictions.parquet").stat().st_mtime_ns
    save_file(net.state_dict(), file, metadata={"another": "word"})
    assert tensors_digest(read_weights(file)) == before
    train(benchmark, collection, run, tmp_path / "runs", device="cpu")
    assert (folder / "predictions.parquet").stat().st_mtime_ns == done
    net.head.weight.data += 1
    save_file(net.state_dict(), file)
    with pytest.raises(ShiftBenchError, match=r"the weight file .* has changed"):
        train(benchmark, collection, run, tmp_path / "runs", device="cpu")
