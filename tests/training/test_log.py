"""The log of a run survives kills, and its copies in TensorBoard and MLflow never hold a point twice."""

import json
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_json
from shiftbench.scoring.listing import lines, points
from shiftbench.sweeps.log_mirror import SINKS, Mirror, TensorBoard, open_sinks, read_entry
from shiftbench.training.folder import Log, Point

# The log


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 30)), max_size=12).map(sorted),
       st.tuples(st.integers(0, 1), st.integers(0, 30)), st.integers(0, 40))
def test_a_cut_log_holds_what_came_before_the_checkpoint(tmp_path_factory, steps, where, torn):
    """Whole lines up to the checkpoint stay, a torn last one and all later ones go; a second cut changes nothing."""
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    log = Log(path)
    for stage, step in steps:
        log.write({"stage": stage, "step": step, "loss": step / 3})
    with path.open("a") as handle:
        handle.write(json.dumps({"stage": 0, "step": 1, "loss": 0.5})[:torn])
    assert [(line["stage"], line["step"]) for line in lines(path)] == steps
    for _ in range(2):
        log.cut(Point(stage=where[0], step=where[1]))
        assert [(line["stage"], line["step"]) for line in lines(path)] == [one for one in steps if one <= where]
    log.write({"stage": 1, "step": 31, "loss": 0.1})
    assert lines(path)[-1] == {"stage": 1, "step": 31, "loss": 0.1}
    assert [one.name for one in path.parent.iterdir()] == ["log.jsonl"]


def test_a_log_without_a_path_is_silent(tmp_path):
    """Training in memory writes nothing, and a log that is not there is empty."""
    Log(None).write({"stage": 0, "step": 1})
    Log(None).cut(Point())
    Log(tmp_path / "log.jsonl").cut(Point())
    assert lines(tmp_path / "log.jsonl") == []


# Copies


def run_folder(out: Path, name: str = "r1", seed: int = 0) -> Path:
    """A run that has begun: run.json, and nothing logged yet."""
    write_json(out / name / "run.json", {
        "benchmark": {"name": "cat-dog", "digest": "x", "path": None},
        "run": {"method": "irm", "params": {"penalty": 1.5}, "model": "mlp", "seed": seed, "lr": 0.1}})
    return out / name


def evaluate(folder: Path, *steps: int, stage: int = 0, seconds: float = 1.0) -> None:
    for step in steps:
        Log(folder / "log.jsonl").write({"stage": stage, "step": step, "loss": 1 / step, "split": "id_val",
                                         "id_val_accuracy": step / 100, "best_step": step, "seconds": step * seconds})


def told(name: str, out: Path) -> dict[str, list[tuple[int, float]]]:
    """What a sink holds of run r1: name -> (step, value), as its own package reads it."""
    if name == "tensorboard":
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        read = EventAccumulator(str(out / "tensorboard" / "cat-dog" / "irm" / "r1"), size_guidance={"scalars": 0})
        read.Reload()
        return {tag: [(one.step, round(one.value, 5)) for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{out.resolve() / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name(out.name).experiment_id],
                                "tags.`shiftbench.run` = 'r1'")
    return {key: [(one.step, round(one.value, 5)) for one in client.get_metric_history(run.info.run_id, key)]
            for key in run.data.metrics}


def expected(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for line in lines(folder / "log.jsonl"):
        for key, value in points(line):
            found.setdefault(key, []).append((line["step"], round(value, 5)))
    return found


@pytest.fixture(params=sorted(SINKS))
def sink(request, monkeypatch):
    """The name of a sink whose package is installed."""
    pytest.importorskip({"tensorboard": "tensorboard", "mlflow": "mlflow"}[request.param])
    if request.param == "mlflow":
        pytest.importorskip("sqlalchemy")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return request.param


@pytest.mark.slow
def test_a_copy_holds_each_point_once(sink, tmp_path, monkeypatch):
    """However a run is stopped, cut, resumed and copied again, by this process or another: the copy is the log."""
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "runs"
    folder = run_folder(out)
    (first,) = open_sinks([sink], out)
    evaluate(folder, 10, 20, 30)
    for _ in range(2):
        first.copy(read_entry(folder))
        assert told(sink, out) == expected(folder)
    whole = expected(folder)
    Log(folder / "log.jsonl").cut(Point(step=10))  # resumed from a checkpoint after step 10
    first.copy(read_entry(folder))
    assert told(sink, out) == whole  # the points that come again are kept, not doubled
    evaluate(folder, 20, 30, seconds=3.0)
    (second,) = open_sinks([sink], out)  # another process
    second.copy(read_entry(folder))
    assert told(sink, out) == expected(folder) == whole
    evaluate(folder, 40)
    evaluate(folder, 10, 20, stage=1)
    (folder / "done").touch()
    second.copy(read_entry(folder))
    assert told(sink, out) == expected(folder)
    assert {"loss", "id_val_accuracy", "stage1/loss"} <= told(sink, out).keys()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]  # nothing beside the runs


@pytest.mark.slow
def test_a_metric_over_a_grouping_is_copied(sink, tmp_path):
    """`worst_group_accuracy[region!Other]` reaches every sink, in the letters that its names may have."""
    folder = run_folder(tmp_path / "runs")
    metric = "val_worst_group_accuracy[male+female,label]"
    Log(folder / "log.jsonl").write({"stage": 0, "step": 10, "loss": 1.0, metric: 0.25, "seconds": 1.0})
    (one,) = open_sinks([sink], tmp_path / "runs")
    one.copy(read_entry(folder))
    name = metric if sink == "tensorboard" else "val_worst_group_accuracy male female label"
    assert told(sink, tmp_path / "runs")[name] == [(10, 0.25)]


def test_half_a_record_is_mended(tmp_path):
    """A copy that was killed while it wrote is made whole, by bytes: the file is a function of the log."""
    pytest.importorskip("tensorboard")
    folder = run_folder(tmp_path)
    evaluate(folder, 10, 20, 30)
    TensorBoard(tmp_path).copy(read_entry(folder))
    (file,) = (tmp_path / "tensorboard").rglob("events*")
    whole = file.read_bytes()
    for broken in (whole[:-7], b"", b"rubbish" + whole, whole[:100] + b"?" + whole[101:]):
        file.write_bytes(broken)
        TensorBoard(tmp_path).copy(read_entry(folder))
        assert file.read_bytes() == whole


@pytest.mark.slow
def test_mlflow_knows_the_run(tmp_path):
    """Settings are parameters, and the end of a run is the end of MLflow's."""
    pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    from mlflow import MlflowClient

    out = tmp_path / "runs"
    (sink,) = open_sinks(["mlflow"], out)
    for name, mark, seed in (("r1", "done", 0), ("r2", "failed.json", 1), ("r3", "lock", 2)):
        folder = run_folder(out, name, seed)
        evaluate(folder, 10)
        (folder / mark).touch()
        sink.copy(read_entry(folder))
    client = MlflowClient(sink.uri)
    runs = {run.data.tags["shiftbench.run"]: run for run in client.search_runs([sink.experiment])}
    assert {name: run.info.status for name, run in runs.items()} == {
        "r1": "FINISHED", "r2": "FAILED", "r3": "RUNNING"}
    assert runs["r2"].data.params == {"method": "irm", "penalty": "1.5", "model": "mlp", "seed": "1", "lr": "0.1"}
    assert runs["r1"].info.run_name == "irm on cat-dog, seed 0"


def test_a_mirror_follows_runs_as_they_go(tmp_path):
    """While the block lasts, lines appear in the copy; when it ends, all of them are there."""
    pytest.importorskip("tensorboard")
    folder = run_folder(tmp_path)
    run_folder(tmp_path, "r2")
    with Mirror(tmp_path, ["tensorboard"], ["r1", "r2", "never"], seconds=0.01) as mirror:
        evaluate(folder, 10)
        deadline = time.monotonic() + 30
        seen: dict[str, list[tuple[int, float]]] = {}
        while "loss" not in seen and time.monotonic() < deadline:
            time.sleep(0.05)
            if list((tmp_path / "tensorboard").rglob("events*")):  # it is there before its first point is
                seen = told("tensorboard", tmp_path)
        assert seen["loss"] == [(10, 0.1)]
        evaluate(folder, 20, 30)
        (folder / "done").touch()
    assert told("tensorboard", tmp_path) == expected(folder)
    assert mirror.problem == ""
    assert "r1" not in mirror.open


def test_a_sink_that_fails_stops_nothing(tmp_path):
    """The problem is told, and what was missed is copied when the sink is back."""
    pytest.importorskip("tensorboard")
    folder = run_folder(tmp_path)
    evaluate(folder, 10)
    (tmp_path / "tensorboard").write_text("in the way")
    with (pytest.warns(RuntimeWarning, match="Not all logs could be copied, from run r1: "),
          Mirror(tmp_path, ["tensorboard"], ["r1"], seconds=0.01) as mirror):
        pass
    assert mirror.problem.startswith("r1: ")
    (tmp_path / "tensorboard").unlink()
    mirror.look()
    assert mirror.problem == ""
    assert told("tensorboard", tmp_path) == expected(folder)


def test_without_sinks_nothing_is_watched(tmp_path):
    """No thread, no folder, no package."""
    with Mirror(tmp_path, [], ["r1"]) as mirror:
        assert not mirror._thread.is_alive()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_log_is_refused(tmp_path):
    """With the nearest name."""
    with pytest.raises(ShiftBenchError, match=r"No log named 'tensorbord'\. Did you mean 'tensorboard'"):
        open_sinks(["tensorbord"], tmp_path)


@pytest.mark.parametrize("name", sorted(SINKS))
def test_a_missing_package_is_one_message_that_names_the_extra(name, tmp_path, monkeypatch):
    """In a Python without the package: what is missing and how to get it, before anything is trained."""
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ShiftBenchError, match=rf"needs the package {name}.*pip install 'shiftbench\[{name}\]'"):
        Mirror(tmp_path, [name], ["r1"])
