"""A hundred thousand small run folders: listed and scored, in time, memory and disk.

Runs of three methods, many settings and five seeds on four benchmarks of 200 items, 2 classes and 4 groups. A folder
holds what training leaves there, byte for byte; it is made without training, without syncing, and with a template for
what all runs share. The reference is the plain way, one run after the other: run.json, Predictions.load, judge.score.
It is timed on a sample and scaled; its numbers must be ours.

    python bench/many_runs.py [--runs 100000] [--sample 100] [--folder DIR]
"""

import argparse
import hashlib
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.core.arrays import Floats, child
from shiftbench.core.files import write_json, writing
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import Scores
from shiftbench.scoring import read_run, runs_in, score, score_runs
from shiftbench.scoring.reading import Layout, Reader
from shiftbench.training.folder import save_weights, sign
from shiftbench.training.run import Run

ITEMS, SEEDS = 200, 5
BENCHMARKS = ("hills", "lakes", "roads", "woods")
METHODS = ("erm", "group_dro", "irm")
SPLITS = {"train": 80, "id_val": 40, "id_test": 40, "test": 40}
LOG = [json.dumps({"stage": 0, "step": step, "loss": 0.1225103497505188, "split": "id_val", "id_val_accuracy": 0.975,
                   "id_val_worst_group": 0.9, "id_val_loss": 0.5841489434242249, "best_step": 50, "seconds": 0.388})
       for step in range(50, 301, 50)]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--runs", type=int, default=100_000)
    asked.add_argument("--sample", type=int, default=100, help="runs of the reference")
    asked.add_argument("--folder", type=Path, help="where to make the runs; default: the place for temporary files")
    given = asked.parse_args()
    place = Path(tempfile.mkdtemp(prefix="many-runs-", dir=given.folder))
    try:
        measure(place, given.runs, given.sample)
    finally:
        shutil.rmtree(place)


def measure(place: Path, runs: int, sample: int) -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before we begin")
    writing_rate = write_as_training_does(place / "synced", 200)
    clock = Clock()
    folder = make(place, runs)
    made = clock()
    names = sorted(os.listdir(folder))[:1000]
    files = [file.stat() for name in names for file in (folder / name).iterdir()]
    size, blocks = (sum(file.st_size for file in files), sum(file.st_blocks * 512 for file in files))
    clock()
    finished, unfinished = runs_in(folder)
    listed = clock()
    if (len(finished), unfinished) != (runs, 0):
        raise SystemExit(f"{len(finished)} runs found of {runs}")
    del finished
    table = score_runs(folder)
    scored = clock()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    chosen = [names[k] for k in child(0, "bench", "sample").choice(len(names), min(sample, len(names)), replace=False)]
    clock()
    plain = one_by_one(folder, chosen)
    reference, work = (seconds * runs / len(chosen) for seconds in clock())
    compare(table, plain)
    print(f"{runs:,} runs on {len(BENCHMARKS)} benchmarks of {ITEMS} items, {len(table):,} scores")
    print(f"made in {made[0]:.0f} s; a run has {len(files) / len(names):.0f} files of {size / len(names):,.0f} bytes, "
          f"which take {blocks / len(names):,.0f} on disk, and {os.stat(folder / names[0]).st_size:,} for the folder")
    print(f"written as training does, every file synced: {writing_rate:.0f} runs a second, one after the other")
    print(f"listed                      {listed[0]:8.1f} s   {listed[1]:8.1f} s of work")
    print(f"listed and scored           {scored[0]:8.1f} s   {scored[1]:8.1f} s of work   {peak:,.0f} MB at most")
    print(f"one run after the other     {reference:8.1f} s   {work:8.1f} s of work   {len(chosen)} runs timed, scaled")
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    print(f"ratio: {reference / scored[0]:.1f}")


class Clock:
    """Seconds since it was last asked, and those that cores worked for us: on a busy machine the first are others'."""

    def __init__(self) -> None:
        self.last = time.perf_counter(), time.process_time()

    def __call__(self) -> tuple[float, float]:
        before, self.last = self.last, (time.perf_counter(), time.process_time())
        return self.last[0] - before[0], self.last[1] - before[1]


def one_by_one(folder: Path, names: list[str]) -> Scores:
    """The plain way."""
    found = [read_run(folder / name) for name in names]
    benchmarks = {path.name: Benchmark.load(path) for path in (run.benchmark_folder for run in found[:50])}
    return Scores.join([
        score(benchmarks[run.benchmark["name"]],
              Predictions.load(run.folder / "predictions.parquet", benchmarks[run.benchmark["name"]]),
              run=run.folder.name, method=run.settings["method"], setting=run.setting, seed=run.settings["seed"])
        for run in found])


def compare(table: Scores, plain: Scores) -> None:
    """The same rows with the same numbers. The ends of a worst group's interval are sought, and found up to 1e-5."""
    keep = np.isin(table["run"], np.unique(plain["run"]))
    key = ("run", "split", "metric", "group", "n", "method", "setting", "seed")
    ours, theirs = ({tuple(row[name] for name in key): row for row in part} for part in (
        Scores({name: column[keep] for name, column in table.columns.items()}), plain))
    if ours.keys() != theirs.keys():
        raise SystemExit(f"rows differ: {sorted(ours.keys() ^ theirs.keys())[:5]}")
    for one, row in theirs.items():
        if not np.allclose(*([part[name] for name in ("value", "low", "high")] for part in (row, ours[one])),
                           rtol=0, atol=1e-4, equal_nan=True):
            raise SystemExit(f"the two ways disagree: {ours[one]} and {row}")


def make(place: Path, runs: int) -> Path:
    """Benchmarks and finished runs on them; gives the runs folder."""
    folder = place / "runs"
    folder.mkdir(parents=True)
    known = []
    for name in BENCHMARKS:
        known.append(Benchmark.load(rows(name).save(place / "benchmarks" / name)))
    templates = [template(place / "template", benchmark) for benchmark in known]
    for number, (run, logits) in enumerate(settings(known, runs)):
        write(folder / run.id, run, known[number % len(known)], logits, *templates[number % len(known)], place)
    shutil.rmtree(place / "template")
    return folder


def rows(name: str) -> Benchmark:
    """Two classes in two places, aligned in nine of ten training items and in half of the test's."""
    rng = child(0, "bench", "many runs", name)
    split = np.repeat(list(SPLITS), list(SPLITS.values()))
    label = np.arange(ITEMS) % 2
    aligned = rng.random(ITEMS) < np.where(split == "test", 0.5, 0.8)
    words = {"class": np.asarray(["cat", "dog"])[label],
             "place": np.asarray(["indoors", "outdoors"])[np.where(aligned, label, 1 - label)]}
    collection = Collection(name, np.asarray([f"{name}-{k:06d}" for k in range(ITEMS)]), words)
    return Benchmark.of(collection, None, 0, np.arange(ITEMS), split, label=words["class"], domain=words["place"])


def settings(known: list[Benchmark], runs: int) -> Iterator[tuple[Run, Floats]]:
    """Runs in an order in which benchmark, seed and method change fast and settings slowly, and what they predict."""
    rng = child(0, "bench", "many runs", "scores")
    for number in range(runs):
        rest, which = divmod(number, len(known))
        rest, seed = divmod(rest, SEEDS)
        setting, method = divmod(rest, len(METHODS))
        label = known[which].label
        yield Run(benchmark=known[which].digest, method=METHODS[method], model="linear",
                  features="efficientnet-lite0@128", lr=1e-4 * 1.001 ** setting, seed=seed), (
            rng.normal(size=(2, ITEMS)) + 1.5 * (label == np.arange(2)[:, None])).astype(np.float32)


def template(place: Path, benchmark: Benchmark) -> tuple[Layout, bytes]:
    """What the predictions of every run on a benchmark share, and a checkpoint of a linear head."""
    import torch

    empty = Predictions(benchmark.items, benchmark.split, np.full((ITEMS, 2), -1, np.float32), benchmark.names["label"])
    reader = Reader(benchmark)
    reader.read(empty.save(place / "predictions.parquet"))
    save_weights(place / "checkpoint.safetensors", {"head.weight": torch.zeros(2, 1280), "head.bias": torch.zeros(2)},
                 run="0" * 16, model="linear")
    return reader.layouts[0], (place / "checkpoint.safetensors").read_bytes()


def write(
    folder: Path, run: Run, benchmark: Benchmark, logits: Floats, layout: Layout, weights: bytes, place: Path
) -> None:
    """The files of a finished run."""
    os.mkdir(folder)
    left = {"predictions.parquet": layout.filled(logits),
            "checkpoint.safetensors": weights.replace(b"0" * 16, run.id.encode(), 1)}
    known = facts(run, benchmark, place) | {
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(left.items())}}
    for name, content in {
        **left,
        "run.json": (json.dumps(known, indent=1, ensure_ascii=False) + "\n").encode(),
        "log.jsonl": "".join(f"{line}\n" for line in LOG).encode(),
        "done": b"300 steps, weights of step 300\n",
    }.items():
        with open(folder / name, "wb", buffering=0) as file:
            file.write(content)


def facts(run: Run, benchmark: Benchmark, place: Path) -> dict[str, Any]:
    return {
        "format": "shiftbench run", "version": 1, "id": run.id,
        "benchmark": {"name": benchmark.name, "digest": benchmark.digest,
                      "path": str(place / "benchmarks" / benchmark.name)},
        "run": run.to_json(), "weights_digest": None,
        "versions": {"shiftbench": "0.1.0", "python": "3.11.7", "torch": "2.15.0", "numpy": "2.4.6"},
        "device": "cpu", "threads": 1,
    }


def write_as_training_does(folder: Path, runs: int) -> float:
    """Finished runs a second where every file is synced and renamed, as it is outside of this benchmark."""
    import torch

    known = [rows(BENCHMARKS[0])]
    made = list(settings(known, runs))
    weights = {"head.weight": torch.zeros(2, 1280), "head.bias": torch.zeros(2)}
    clock = Clock()
    for run, logits in made:
        place = folder / run.id
        write_json(place / "run.json", facts(run, known[0], folder))
        for line in LOG:
            with (place / "log.jsonl").open("a", encoding="utf-8") as log:
                log.write(f"{line}\n")
        Predictions(known[0].items, known[0].split, logits.T, known[0].names["label"]).save(
            place / "predictions.parquet")
        save_weights(place / "checkpoint.safetensors", weights, run=run.id, model="linear")
        sign(place, "predictions.parquet", "checkpoint.safetensors")
        with writing(place / "done") as hidden:
            hidden.write_text("300 steps, weights of step 300\n", encoding="utf-8")
    return runs / clock()[0]


if __name__ == "__main__":
    main()
