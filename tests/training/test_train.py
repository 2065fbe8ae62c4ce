"""Training: exact resume, early stop, the run folder, what the stage needs."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import shiftbench
from shiftbench.core.backend import choose_device
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.methods import ERM, METHODS
from shiftbench.methods.method import Stage
from shiftbench.models import build
from shiftbench.sweeps.local import CONTEXT
from shiftbench.training.batches import Data
from shiftbench.training.folder import is_done, load_run, read_point, save_weights
from shiftbench.training.loop import train
from tests.strategies import toy
from tests.toys import CPU, HEADS, learn, toy_features, toy_rows, toy_run


class Stop(Exception):
    """Stands for whatever ends a process."""


def stop_at(step: int):
    def progress(done: int, total: int) -> None:
        if done >= step:
            raise Stop
    return progress


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


# The loop


@pytest.mark.slow
@pytest.mark.parametrize("settings", [
    *({"method": name} for name in HEADS),
    {"optimizer": "sgd", "lr": 0.1, "weight_decay": 0.01}, {"optimizer": "adamw", "weight_decay": 0.1},
    {"patience": 2, "lr": 0.3, "steps": 30, "eval_every": 3},
    {"method": "irm", "params": {"anneal": 0.3, "penalty": 50.0}},
], ids=str)
def test_a_stopped_run_goes_on_exactly(settings, tmp_path):
    """Stopped after any step and started again, a run ends with the predictions and the log of an unbroken one."""
    _, benchmark = toy_rows()
    x, run = toy_features(benchmark), toy_run(benchmark, **{"steps": 12, "eval_every": 4, **settings})
    for folder in (tmp_path / "whole", tmp_path / "broken"):
        folder.mkdir()
    whole = learn(run, benchmark, x, tmp_path / "whole")
    for step in (3, 8):
        with pytest.raises(Stop):
            learn(run, benchmark, x, tmp_path / "broken", checkpoint_seconds=0, progress=stop_at(step))
        assert read_point(tmp_path / "broken" / "resume.safetensors", run.id).step == step - 1
    assert torch.equal(learn(run, benchmark, x, tmp_path / "broken", checkpoint_seconds=0), whole)
    logs = [[{key: value for key, value in line.items() if key != "seconds"} for line in lines(tmp_path / name)]
            for name in ("whole", "broken")]
    assert logs[0] == logs[1]


def test_an_image_run_goes_on_exactly(tmp_path):
    """Batch norm, augmentation and channels-last memory are all in the checkpoint."""
    collection, benchmark = toy_rows(80)
    run = toy_run(benchmark, model="small-cnn", features="", augment="color", steps=8, eval_every=4)
    whole = train(benchmark, collection, run, tmp_path / "whole", device="cpu")
    with pytest.raises(Stop):
        train(benchmark, collection, run, tmp_path / "broken", device="cpu", progress=stop_at(6), checkpoint_seconds=0)
    broken = train(benchmark, collection, run, tmp_path / "broken", device="cpu")
    assert Predictions.load(whole / "predictions.parquet", benchmark) == Predictions.load(
        broken / "predictions.parquet", benchmark)


def train_slowly(place, run, pause):
    """What the process to be killed does: it saves a checkpoint after every step, and waits."""
    torch.set_num_threads(1)
    train(Benchmark.load(place / "benchmark"), Collection.load(place / "collection"), run, place / "runs", device="cpu",
          checkpoint_seconds=0, progress=lambda done, total: time.sleep(pause))


@pytest.mark.slow
def test_a_killed_process_loses_nothing(tmp_path):
    """SIGKILL in the middle of training; the next process goes on and ends with an unbroken run's predictions."""
    collection, benchmark = toy_rows(120)
    collection.save(tmp_path / "collection")
    benchmark.save(tmp_path / "benchmark")
    benchmark = Benchmark.load(tmp_path / "benchmark")
    run = toy_run(benchmark, model="small-cnn", features="", method="group_dro", steps=30)
    process = CONTEXT.Process(target=train_slowly, args=(tmp_path, run, 0.1))
    process.start()
    resume = tmp_path / "runs" / run.id / "resume.safetensors"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (resume.is_file() and (read_point(resume, run.id).step >= 6)):
        time.sleep(0.02)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    point = read_point(resume, run.id)
    assert 6 <= point.step < 30
    assert not is_done(resume.parent)
    train_slowly(tmp_path, run, 0.0)  # in this process
    assert is_done(resume.parent)
    assert not resume.exists()
    whole = train(benchmark, collection, run, tmp_path / "whole", device="cpu")
    assert Predictions.load(resume.parent / "predictions.parquet", benchmark) == Predictions.load(
        whole / "predictions.parquet", benchmark)
    steps = [line["step"] for line in lines(resume.parent)]
    assert steps == [10, 20, 30]


@dataclass(frozen=True)
class Twice(ERM):
    """Trains, then trains again with the items it got wrong weighing more."""

    upweight: float = 5.0
    name = "twice"

    def fit(self):
        first = yield Stage(ERM(), share=0.3)
        return (yield Stage(self, weights=torch.where(first.wrong("train"), self.upweight, 1.0)))


@pytest.mark.parametrize("calls", [3, 9, 20])
def test_a_method_of_two_stages_goes_on_in_its_stage(calls, tmp_path, monkeypatch):
    """A two-stage method is composition; stopped in the first or the second stage, it ends as an unbroken one."""
    monkeypatch.setitem(METHODS, "twice", Twice)
    _, benchmark = toy_rows()
    x, run = toy_features(benchmark), toy_run(benchmark, method="twice", steps=20)
    x[:, 0] *= 0.2  # hard enough that the first stage gets some wrong
    whole = learn(run, benchmark, x)
    assert not torch.equal(whole, learn(toy_run(benchmark, steps=20), benchmark, x))
    seen = []

    def progress(done, total):
        seen.append((done, total))
        if len(seen) == calls:
            raise Stop

    with pytest.raises(Stop):
        learn(run, benchmark, x, tmp_path, checkpoint_seconds=0, progress=progress)
    assert (tmp_path / "stage-0.safetensors").exists() == (calls > 6)
    assert torch.equal(learn(run, benchmark, x, tmp_path, checkpoint_seconds=0), whole)
    assert [(line["stage"], line["step"]) for line in lines(tmp_path)] == [(0, 6), (1, 10), (1, 20)]


@pytest.mark.slow
def test_early_stop_keeps_the_best_weights(tmp_path):
    """Training stops after `patience` evaluations without a better one; what is kept is the best evaluation's net."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark) * 0.3
    run = toy_run(benchmark, steps=400, eval_every=5, patience=3, lr=0.1, select_on="loss")
    kept = learn(run, benchmark, x, tmp_path)
    log = lines(tmp_path)
    best = min(log, key=lambda line: line["id_val_loss"])["step"]
    assert log[-1]["step"] == best + 15 < 400
    assert log[-1]["best_step"] == best
    last = learn(toy_run(benchmark, steps=best, eval_every=5, lr=0.1, select_on="last"), benchmark, x)
    assert torch.equal(kept, last)


@pytest.mark.parametrize("select_on", ["accuracy", "worst_group", "loss"])
def test_selection_follows_its_measure(select_on, tmp_path):
    """The kept step has the best value of the chosen measure in the log; of equal ones, the smaller loss."""
    _, benchmark = toy_rows()
    learn(toy_run(benchmark, steps=60, eval_every=3, lr=0.2, select_on=select_on), benchmark,
          toy_features(benchmark) * 0.3, tmp_path)
    log = lines(tmp_path)
    metric = {"worst_group": "worst_group_accuracy"}.get(select_on, select_on)
    value = {line["step"]: (line[f"id_val_{metric}"] * (-1 if select_on == "loss" else 1), -line["id_val_loss"])
             for line in log}
    assert log[-1]["best_step"] == max(value, key=value.__getitem__)


def test_a_loss_that_is_no_number_ends_the_run():
    """The error names the method, the step and the value, and says what to do."""
    _, benchmark = toy_rows()
    run = toy_run(benchmark, optimizer="sgd", lr=1e30, method="coral")
    with pytest.raises(ShiftBenchError, match=r"coral: the loss is (nan|inf) at step [2-9]\. Lower lr"):
        learn(run, benchmark, toy_features(benchmark))


@pytest.mark.slow
def test_training_sees_only_training_items():
    """Labels and features of other splits may change without moving a weight, but for the choice among evaluations."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    run = toy_run(benchmark, method="cdann", select_on="last")
    other, scrambled = benchmark.split != "train", x.clone()
    scrambled[torch.from_numpy(other)] += 100
    changed = dataclasses.replace(benchmark, label=np.where(other, 1 - benchmark.label, benchmark.label))
    kept = torch.from_numpy(~other)
    assert torch.equal(learn(run, benchmark, x)[kept], learn(run, changed, scrambled)[kept])


def test_codes_are_those_of_training(tmp_path):
    """Domains and groups that only the test has are no part of the task; label counts are the training items'."""
    _, benchmark = toy_rows()
    only_test = dataclasses.replace(
        benchmark, domain=np.where(benchmark.split == "test", 0, benchmark.domain + 1),
        names={**benchmark.names, "domain": ("new", "in", "out")})
    data = Data(only_test, toy_features(benchmark), CPU)
    task = data.task(5)
    assert (task.n_classes, task.n_domains, task.n_features) == (2, 2, 5)
    assert int(task.label_counts.sum()) == len(data.train) == int(task.group_counts.sum())
    rows = data.train
    assert task.label_counts[1, 0] == ((only_test.domain[rows] == 2) & (only_test.label[rows] == 0)).sum()


def test_bad_data_is_told():
    """No training rows, too few inputs, and features that are no numbers are errors."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    with pytest.raises(ShiftBenchError, match="no rows in split 'train'"):
        Data(dataclasses.replace(benchmark, split=np.full(len(benchmark), "test")), x, CPU)
    with pytest.raises(ShiftBenchError, match="3 inputs for the 240 rows"):
        Data(benchmark, x[:3], CPU)
    x[5, 2] = torch.nan
    with pytest.raises(ShiftBenchError, match=f"features of item '{benchmark.items[5]}' are not finite"):
        Data(benchmark, x, CPU)


def test_devices_by_name():
    """`auto` always finds one; a GPU that is not there and a word that is none are errors."""
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ShiftBenchError, match="No device named 'gpu'"):
        choose_device("gpu")
    with pytest.raises(ShiftBenchError, match="is not here"):
        choose_device("cuda:99")


# The run folder


def test_a_finished_run_is_found_not_repeated(tmp_path):
    """The folder holds what the design lists, predictions for every row, and a second start changes nothing in it."""
    collection, benchmark = toy_rows()
    run = toy_run(benchmark, model="small-cnn", features="", steps=30)
    calls = []
    folder = train(benchmark, collection, run, tmp_path, device="cpu", progress=lambda *at: calls.append(at),
                   benchmark_path="benchmarks/toy")
    assert folder == tmp_path / run.id
    assert calls[-1] == (30, 30)
    assert {path.name for path in folder.iterdir()} == {"run.json", "log.jsonl", "checkpoint.safetensors",
                                                        "predictions.parquet", "done"}
    facts = json.loads((folder / "run.json").read_text())
    assert facts["benchmark"] == {"name": benchmark.name, "digest": benchmark.digest, "path": "benchmarks/toy"}
    assert load_run(folder) == run
    predictions = Predictions.load(folder / "predictions.parquet", benchmark)
    assert np.array_equal(predictions.item, benchmark.items)
    test = benchmark.rows("test")
    assert (predictions.predicted[test] == benchmark.label[test]).mean() > 0.9
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert train(benchmark, collection, run, tmp_path, device="cpu") == folder
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_the_checkpoint_is_a_weight_file(tmp_path):
    """The weights a run leaves, loaded into a fresh net, predict what it predicted."""
    collection, benchmark = toy_rows(80)
    run = toy_run(benchmark, model="small-cnn", features="", steps=10)
    folder = train(benchmark, collection, run, tmp_path, device="cpu")
    net = build("small-cnn", 2, weights=str(folder / "checkpoint.safetensors"), seed=9)
    data = Data(benchmark, torch.from_numpy(collection.pixels), CPU)
    logits = data.outputs(net.to(memory_format=torch.channels_last), np.arange(80)).numpy()
    np.testing.assert_allclose(logits, Predictions.load(folder / "predictions.parquet", benchmark).scores, rtol=1e-5)


def test_heads_are_trained_on_cached_features(tmp_path):
    """With an embedding named, features are computed once below the collection's folder and a head learns on them."""
    collection, benchmark = toy_rows(80)
    for name in ("erm", "group_dro"):
        run = toy_run(benchmark, method=name, model="linear", lr=0.01)
        folder = train(benchmark, collection.lying_in(tmp_path / "c"), run, tmp_path / "runs", device="cpu")
        test = benchmark.rows("test")
        predicted = Predictions.load(folder / "predictions.parquet", benchmark).predicted
        assert (predicted[test] == benchmark.label[test]).mean() > 0.8
    assert len(list((tmp_path / "c" / "features").iterdir())) == 1


def test_without_a_validation_split_the_last_weights_stay(tmp_path):
    """No id_val and no val: nothing to choose by, the log has the training loss alone."""
    _, benchmark = toy_rows()
    bare = dataclasses.replace(benchmark, split=np.where(benchmark.split == "id_val", "test", benchmark.split))
    x = toy_features(bare)
    last = learn(toy_run(bare, select_on="last"), bare, x)
    assert torch.equal(learn(toy_run(bare, patience=1), bare, x, tmp_path), last)
    assert "split" not in lines(tmp_path)[0]


def test_changed_benchmarks_weights_and_folders_are_told(tmp_path):
    """A rebuilt benchmark, a weight file with other content and a foreign checkpoint are errors with a way out."""
    collection, benchmark = toy_rows(80)
    with pytest.raises(ShiftBenchError, match="The benchmark was rebuilt"):
        train(toy_rows(80, seed=1)[1], collection, toy_run(benchmark), tmp_path)
    weights = tmp_path / "w.safetensors"
    save_weights(weights, build("small-cnn", 2, seed=3).state_dict())
    run = toy_run(benchmark, model="small-cnn", features="", steps=2, weights=str(weights))
    folder = train(benchmark, collection, run, tmp_path, device="cpu")
    save_weights(weights, build("small-cnn", 2, seed=4).state_dict())
    with pytest.raises(ShiftBenchError, match="has changed since this run"):
        train(benchmark, collection, run, tmp_path, device="cpu")
    other = toy_run(benchmark, model="small-cnn", features="", steps=2, seed=5)
    (tmp_path / other.id).mkdir()
    (tmp_path / other.id / "resume.safetensors").write_bytes((folder / "checkpoint.safetensors").read_bytes())
    with pytest.raises(ShiftBenchError, match="not a readable checkpoint"):
        train(benchmark, collection, other, tmp_path, device="cpu")


def test_a_torn_log_line_is_dropped(tmp_path):
    """A process that died while writing its log leaves no half line behind."""
    _, benchmark = toy_rows()
    (tmp_path / "log.jsonl").write_text('{"stage": 0, "step": 10}\n{"stage": 0, "st')
    learn(toy_run(benchmark, steps=20), benchmark, toy_features(benchmark), tmp_path)
    assert [line["step"] for line in lines(tmp_path)] == [10, 20]
    assert "loss" in lines(tmp_path)[0]


def test_training_writes_nothing_without_a_folder(tmp_path, monkeypatch):
    """Training in memory leaves no file."""
    monkeypatch.chdir(tmp_path)
    _, benchmark = toy_rows()
    run = toy_run(benchmark, steps=5)
    learn(run, benchmark, toy_features(benchmark), checkpoint_seconds=0)
    assert not list(tmp_path.iterdir())


# What the stage needs


@pytest.mark.slow
def test_the_stage_imports_on_a_bare_gpu_machine():
    """Training needs numpy, pyarrow, pillow and torch: none of the parsers, graphs, compilers and screens."""
    script = """
import sys
for name in ("msgspec", "igraph", "numba", "typer", "rich", "matplotlib", "scipy", "jinja2", "torchvision"):
    sys.modules[name] = None
import shiftbench.training, shiftbench.methods, shiftbench.models
shiftbench.models.build("efficientnet-lite0", 2, weights="imagenet")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_without_torch_it_says_what_to_install(tmp_path):
    """Methods and settings are known without torch; the first use of any part that trains names the extra."""
    toy(60).save(tmp_path / "toy")
    script = """
import sys
sys.modules["torch"] = None
import shiftbench as sb
import shiftbench.methods, shiftbench.training, shiftbench.models, shiftbench.images.augment
from shiftbench.core.errors import ShiftBenchError

def build():
    from shiftbench.models import build

for use in (build, lambda: shiftbench.methods.METHODS["erm"]().state(None),
            lambda: shiftbench.images.augment._yiq("cpu"),
            lambda: sb.pretrain("toy", "class", "out", model="small-cnn")):
    try:
        use()
    except ShiftBenchError as problem:
        print(problem)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(Path(shiftbench.__file__).parent.parent)})
    assert done.stdout.count('pip install "shiftbench[train]"') == 4, done.stderr
