"""What can go wrong in a run, with the real thing: it is recorded with its reason, and the other runs go on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.sweeps.jobs import Job
from shiftbench.sweeps.local import run_packs
from shiftbench.sweeps.status import status
from tests.toys import toy_rows

SETTINGS = {"model": "small-cnn", "steps": 4, "eval_every": 2, "batch_size": 8}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A collection whose images are files, a benchmark on its first half and one on its second."""
    place = tmp_path_factory.mktemp("toy")
    collection, benchmark = toy_rows(80)
    (place / "images").mkdir()
    names = [f"{item}.png" for item in collection.items]
    for name, pixels in zip(names, collection.pixels, strict=True):
        Image.fromarray(pixels).save(place / "images" / name)
    files = Collection("files", collection.items, pixels=np.asarray(names), root=str(place / "images"))
    files.save(place / "collection")
    words = {name: np.asarray(benchmark.names[name])[getattr(benchmark, name)] for name in ("label", "domain")}
    split = np.resize(["train", "train", "id_val", "test"], 40)
    for name, rows in (("first", np.arange(40)), ("second", np.arange(40, 80))):
        part = {key: value[rows] for key, value in words.items()}
        Benchmark.of(files, None, 0, rows, split, **part).save(place / name)
    return place


def job(toy: Path, benchmark: str, **settings) -> Job:
    digest = Benchmark.load(toy / benchmark).digest
    return Job(str(toy / benchmark), str(toy / "collection"), {**SETTINGS, "benchmark": digest, **settings})


def reason(out: Path, end) -> str:
    return json.loads((out / end.run / "failed.json").read_text())["reason"]


@pytest.mark.slow
def test_what_breaks_a_run_is_recorded_and_the_others_go_on(toy, tmp_path):
    """An image that cannot be read, a benchmark that is not there, a loss that is no number and a batch beyond all
    memory fail; their neighbours are done. Failed runs are found, and tried again when asked."""
    first, second = job(toy, "first"), job(toy, "second")
    lost = job(toy, "first", seed=1)._replace(benchmark=str(toy / "nowhere"))
    diverges = job(toy, "second", optimizer="sgd", lr=1e30)
    huge = job(toy, "second", batch_size=10**12)
    packs = [[first], [lost], [diverges, huge, second]]
    image = toy / "images" / "i005.png"
    whole = image.read_bytes()
    image.write_bytes(whole[:60])
    ends = run_packs(packs, tmp_path, workers=1, device="cpu")
    image.write_bytes(whole)
    assert [end.state for end in ends] == ["failed", "failed", "failed", "failed", "done"]
    parts = ["i005.png: the image of item 'i005' cannot be read", "nowhere: no such folder", "the loss is",
             "MemoryError"]
    for end, part in zip(ends, parts, strict=False):
        assert part in end.reason
        assert reason(tmp_path, end) == end.reason
    assert run_packs(packs, tmp_path, device="cpu") == [end._replace(seconds=0.0) for end in ends]
    told = status(tmp_path, [job for pack in packs for job in pack])
    assert [(one.state, one.reason) for one in told] == [(end.state, end.reason) for end in ends]
    (mended,) = run_packs([[first]], tmp_path, workers=1, device="cpu", retry_failed=True)
    assert mended.state == "done"
    assert not (tmp_path / mended.run / "failed.json").exists()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_that_runs_out_of_memory_is_a_reason(toy, tmp_path):
    """The run that was too large fails, the next one gets a fresh process and is done."""
    huge = job(toy, "second", model="resnet18", size=1024, batch_size=4096)
    ends = run_packs([[huge], [job(toy, "second")]], tmp_path, workers=1, device="cuda")
    assert [end.state for end in ends] == ["failed", "done"]
    assert "OutOfMemoryError" in reason(tmp_path, ends[0])


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place],
                                      capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.slow
def test_a_full_disk_is_a_reason(toy, small_disk):
    """Where the weights have no room the run fails and says so; where nothing has room, not even the record of it, the
    sweep still tells. With room again, a second start does what was not recorded."""
    jobs = [job(toy, "second", seed=seed) for seed in (0, 1)]
    filler = small_disk / "filler"
    rest = filler.open("wb")
    fill(rest, leave=40_000)  # for run.json and failed.json, but not for the weights
    (end,) = run_packs([jobs[:1]], small_disk / "runs", workers=1, device="cpu")
    assert end.state == "failed"
    assert "No space left" in reason(small_disk / "runs", end)
    fill(rest, leave=0)
    ends = run_packs([jobs], small_disk / "runs", workers=1, device="cpu")
    assert [one.state for one in ends] == ["failed", "failed"]
    assert "No space left" in ends[1].reason
    assert not (small_disk / "runs" / ends[1].run / "failed.json").exists()
    rest.close()
    filler.unlink()
    ends = run_packs([jobs], small_disk / "runs", workers=1, device="cpu")
    assert [one.state for one in ends] == ["failed", "done"]


def fill(file, leave: int) -> None:
    """Write until only so many bytes are free."""
    while (free := (room := os.statvfs(file.fileno())).f_bavail * room.f_frsize) > leave:
        file.write(b"x" * min(free - leave, room.f_frsize))
        file.flush()
        if free - leave < room.f_frsize:
            break


FATAL = """
import json, os, signal, sys
from dataclasses import dataclass
from shiftbench.methods import ERM, METHODS
from shiftbench.core.registry import register
from shiftbench.sweeps.local import run_packs
from shiftbench.sweeps.jobs import Job

@register(METHODS, "fatal")
@dataclass(frozen=True)
class Fatal(ERM):
    def loss(self, net, batch, state, step):
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    packs = [[Job(*job) for job in pack] for pack in json.loads(sys.argv[1])]
    print(json.dumps(run_packs(packs, sys.argv[2], workers=1, device="cpu", retries=1)))
"""


@pytest.mark.slow
def test_a_run_that_takes_its_process_down_is_found_out(toy, tmp_path):
    """Killed again and again, as by the kernel when memory runs out, a run is tried alone and then recorded as failed;
    its neighbour in the pack is done. A method that a script registers is known to the workers."""
    script = tmp_path / "fatal.py"
    script.write_text(FATAL)
    pack = [job(toy, "second", method="fatal"), job(toy, "second")]
    done = subprocess.run([sys.executable, script, json.dumps([pack]), tmp_path / "runs"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    (fatal, fatal_state, why, *_), (_, state, *_) = json.loads(done.stdout)
    assert (fatal_state, state) == ("failed", "done")
    assert why == ("Its process died 3 times without getting further: killed by SIGKILL, out of memory? "
                   "Lower batch_size or the number of workers.")
    assert json.loads((tmp_path / "runs" / fatal / "failed.json").read_text())["reason"] == why
