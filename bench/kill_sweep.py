"""A sweep that is killed again and again, against the same sweep left alone.

A study of some fifty short runs is swept once undisturbed. Then it is swept anew, and at random moments a worker or
the driver gets SIGKILL (with --engine ray: a node of the cluster, or the driver); a dead driver is started again. At
the end every run must be done, its `done` put in place exactly once (the kernel tells us of every file that is, so
nothing is done twice unseen), its predictions the undisturbed sweep's byte for byte, its log the same but for seconds.

    python bench/kill_sweep.py [--engine local|ray] [--kills 20] [--seeds 2] [--steps 300] [--seed 0]
"""

import argparse
import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from victims import ENGINES, Engine

from shiftbench.core.arrays import child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.sweeps.status import status, summary
from shiftbench.sweeps.study import Study

STUDY = """
benchmarks = ["strong", "weak"]
collection = "toy"
seeds = {seeds}

[run]
model = "mlp"
features = "efficientnet-lite0@32"
steps = {steps}
eval_every = 50
batch_size = 16
lr = [1e-3, 3e-3]  # two heads that see the same batches are trained at once

[methods.irm]
[methods.group_dro]
[methods.coral]
[methods.cdann]

[[methods.erm]]
[[methods.erm]]
model = "small-cnn"
features = ""
steps = {few}
eval_every = 10
"""

def prepare(place: Path, seeds: int, steps: int) -> Path:
    """Two small benchmarks on one toy collection, and a study: five methods on features, one of them on images too."""
    rng, n = child(0, "bench", "kill"), 200
    label = rng.integers(0, 2, n)
    pixels = rng.integers(0, 90, (n, 16, 16, 3), dtype=np.uint8)
    pixels[label == 1, :8] += 120  # class 1 is bright above
    toy = Collection("toy", np.asarray([f"i{k:03d}" for k in range(n)]), pixels=pixels)
    toy.save(place / "toy")
    split = np.repeat(["train", "id_val", "test"], [n // 2, n // 4, n // 4])
    for name, share in (("strong", 0.95), ("weak", 0.75)):
        agree = rng.random(n) < np.where(split == "test", 0.5, share)
        domain = np.where(agree, label, 1 - label)
        Benchmark.of(toy, None, 0, np.arange(n), split, label=np.asarray(["cat", "dog"])[label],
                     domain=np.asarray(["in", "out"])[domain]).save(place / name)
    study = place / "study.toml"
    study.write_text(STUDY.format(seeds=seeds, steps=steps, few=max(10, steps // 5)))
    return study


class Watch:
    """What appears in the run folders, told by the kernel (inotify): nothing is missed between two looks."""

    MOVED_TO, CREATE, OVERFLOW = 0x80, 0x100, 0x4000

    def __init__(self, folders: list[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.run = {}
        for folder in folders:
            folder.mkdir(parents=True)
            number = libc.inotify_add_watch(self.file, os.fsencode(folder), self.MOVED_TO | self.CREATE)
            if number < 0:
                raise OSError(ctypes.get_errno(), f"inotify cannot watch {folder}")
            self.run[number] = folder.name
        self.done: Counter[str] = Counter()  # run -> how often it was finished
        self.last = 0.0  # when something appeared

    def look(self) -> None:
        while True:
            try:
                events = os.read(self.file, 1 << 16)
            except BlockingIOError:
                return
            self.last = time.monotonic()
            while events:
                number, mask, _, length = struct.unpack_from("iIII", events)
                name, events = events[16:16 + length].rstrip(b"\0"), events[16 + length:]
                if mask & self.OVERFLOW:
                    raise SystemExit("the kernel's queue of events ran over, so the count would not be honest")
                self.done[self.run[number]] += name == b"done"


class Sweep:
    """The command, its process and what its runs leave."""

    def __init__(self, study: Path, out: Path, name: str, engine: Engine) -> None:
        self.watch = Watch([out / job.run.id for job in Study.load(study).jobs(out)])
        self.out, self.said = out, out.with_suffix(".txt")
        self.command = [sys.executable, "-m", "shiftbench", "sweep", str(study), "--out", str(out), "--engine", name,
                        "--workers", "2", "--checkpoint-seconds", "0.3", "--quiet"]
        self.engine, self.env = engine, {**os.environ, **engine.env}
        self.start()

    def start(self) -> None:
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(self.command, stdout=said, stderr=said, env=self.env)
        self.began = time.monotonic()

    def wait(self, until: Callable[[], bool]) -> bool:
        """Look on until something is so; False where the sweep ended before."""
        while not until():
            if self.process.poll() is not None:
                if self.process.returncode:
                    sys.stderr.write(self.said.read_text(errors="replace")[-4000:])
                    raise SystemExit(f"the sweep ended by itself with exit code {self.process.returncode}")
                self.watch.look()
                return False
            self.watch.look()
            time.sleep(0.01)
        return True

    def works_since(self, moment: float) -> Callable[[], bool]:
        """Whether runs have got further since then, and not by workers of a driver that is dead."""
        return lambda: self.watch.last > moment and bool(self.engine.targets(self.process.pid))


def disturb(sweep: Sweep, kills: int, span: float, seed: int) -> Counter[str]:
    """Kill something `kills` times, each up to `span` seconds after work goes on, or at any moment of a start."""
    rng = child(seed, "bench", "kill", "moments")
    killed: Counter[str] = Counter()
    while killed.total() < kills:
        if rng.random() < 0.8 and not sweep.wait(sweep.works_since(time.monotonic())):
            break
        moment = time.monotonic() + rng.random() * span
        if not sweep.wait(lambda moment=moment: time.monotonic() >= moment):  # type: ignore[misc]
            break
        targets = sweep.engine.targets(sweep.process.pid)
        if targets and rng.random() < 0.65:
            name, kill = targets[int(rng.integers(len(targets)))]
            killed[name] += kill()
        else:
            sweep.process.kill()
            sweep.process.wait()
            sweep.start()
            killed["driver"] += 1
    sweep.wait(lambda: False)
    return killed


def differences(one: Path, other: Path) -> list[str]:
    """What is not the same in two folders of a run."""
    found = []
    if not (one / "predictions.parquet").exists() or not (other / "predictions.parquet").exists():
        return ["no predictions"]
    if (one / "predictions.parquet").read_bytes() != (other / "predictions.parquet").read_bytes():
        found.append("predictions")
    logs = [[{key: value for key, value in json.loads(line).items() if key != "seconds"}
             for line in (folder / "log.jsonl").read_text().splitlines()] for folder in (one, other)]
    return found + ["log"] * (logs[0] != logs[1])


def main() -> None:
    words = argparse.ArgumentParser(description="Kill a sweep at random moments and see whether anything is lost.")
    words.add_argument("--engine", choices=sorted(ENGINES), default="local")
    words.add_argument("--kills", type=int, default=20)
    words.add_argument("--seeds", type=int, default=2, help="seeds of the study: 24 runs each")
    words.add_argument("--steps", type=int, default=300, help="steps of a run on features")
    words.add_argument("--seed", type=int, default=0, help="of the moments and the victims")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(not compare(Path(folder), given))


def compare(place: Path, given: argparse.Namespace) -> bool:
    """Sweep twice, once with kills; say what happened, and whether all is well."""
    study = prepare(place, given.seeds, given.steps)
    engine = ENGINES[given.engine]()
    alone = Sweep(study, place / "alone", given.engine, engine)
    alone.wait(alone.works_since(0.0))
    began = time.monotonic()
    alone.wait(lambda: False)
    span = time.monotonic() - began
    print(f"undisturbed  {summary(one.state for one in status(alone.out))}, {span:.1f} s of work", flush=True)
    began = time.monotonic()
    killed = Sweep(study, place / "killed", given.engine, engine)
    try:
        kills = disturb(killed, given.kills, span / given.kills, given.seed)
    finally:
        killed.process.kill()
    took = time.monotonic() - began
    engine.close()
    found = {one.run: one for one in status(killed.out)}
    print(f"killed       {summary(one.state for one in found.values())}, {took:.1f} s; SIGKILL to "
          + ", ".join(f"{count} × {name}" for name, count in sorted(kills.items())))
    runs = killed.watch.run.values()
    lost = [run for run in runs if run not in found or found[run].state != "done"]
    double = [run for sweep in (alone, killed) for run, times in sweep.watch.done.items() if times > 1]
    different = {run: what for run in runs if (what := differences(alone.out / run, killed.out / run))}
    for run in lost:
        print(f"lost         {found.get(run, run)}")
    for run, what in different.items():
        print(f"different    {run}: {', '.join(what)}")
    print(f"the same     {len(runs) - len(different)} of {len(runs)}: predictions byte for byte, log but for seconds")
    if kills.total() < given.kills:
        print(f"only {kills.total()} of {given.kills} kills before the end: give more --steps")
    print(f"lost: {len(lost)} double: {len(double)}")
    return not (lost or double or different or kills.total() < given.kills)


if __name__ == "__main__":
    main()
