"""Finished runs are read as they were left, or not at all; a report goes on without the others and says so."""

import json

import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.scoring import read_run, score_runs
from shiftbench.training.folder import fail
from shiftbench.training.loop import train
from tests.toys import toy_rows, toy_run


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two methods with two seeds each, in the folder `runs` of the current folder, and the benchmark `b`."""
    monkeypatch.chdir(tmp_path)
    collection, benchmark = toy_rows(80)
    collection.save("toy")
    benchmark.save("b")
    for method in ("erm", "group_dro"):
        for seed in (0, 1):
            run = toy_run(benchmark, method=method, seed=seed, model="small-cnn", features="", steps=2, eval_every=2)
            train(benchmark, Collection.load("toy"), run, "runs", device="cpu", benchmark_path="b")
    return tmp_path / "runs"


def of_method(runs, method):
    return [folder for folder in sorted(runs.iterdir())
            if json.loads((folder / "run.json").read_text())["run"]["method"] == method]


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(bytes(content))


def test_flipped_bits_in_predictions_are_noticed(runs):
    """Bits of scores, ids or anything else: scores, selection and means name the file."""
    file = of_method(runs, "erm")[0] / "predictions.parquet"
    for place in (5, 700, file.stat().st_size // 2, -600, -9):
        flip(file, place)
        with pytest.raises(ShiftBenchError, match=r"predictions\.parquet: does not match its digest in run\.json"):
            score_runs("runs")
        with pytest.raises(ShiftBenchError, match="does not match its digest"):
            sb.select("runs", "id")
        flip(file, place)
    assert len(score_runs("runs"))


def test_another_method_in_run_json_is_noticed(runs):
    """The settings in run.json are those of the run's id, and the benchmark is the one it was trained on."""
    file = of_method(runs, "erm")[0] / "run.json"
    sound = file.read_text()
    for old, new in (('"erm"', '"irm"'), ('"steps": 2', '"steps": 7'), ('"lr": 0.02', '"lr": 0.2')):
        assert sound.count(old) == 1
        file.write_text(sound.replace(old, new))
        with pytest.raises(ShiftBenchError, match=r"run\.json: was changed after the run began"):
            score_runs("runs")
    facts = json.loads(sound)
    facts["benchmark"]["digest"] = "0" * 64
    file.write_text(json.dumps(facts))
    with pytest.raises(ShiftBenchError, match=r"run\.json: was changed after the run began"):
        score_runs("runs")


def test_runs_of_older_versions_have_no_digests_and_are_scored(runs):
    """What an older version left is read as before."""
    before = score_runs("runs")
    for folder in runs.iterdir():
        facts = json.loads((folder / "run.json").read_text())
        del facts["files"], facts["id"]
        (folder / "run.json").write_text(json.dumps(facts))
    assert score_runs("runs") == before


@pytest.mark.slow
def test_a_report_names_what_it_lacks(runs, shell):
    """Failed methods and damaged files: the page is written without them and names them, the exit code is 1."""
    assert shell("report", "runs")[0] == 0
    assert "Runs that are not on this page" not in (runs.parent / "report.html").read_text()
    for folder in of_method(runs, "group_dro"):
        (folder / "done").unlink()
        fail(folder, "The loss is <b>nan</b>.")
    first, second = of_method(runs, "erm")
    (runs / "lost").mkdir()
    fail(runs / "lost", "No such benchmark.")
    (first / "predictions.parquet").write_bytes(b"PAR1 and nothing else")
    code, out, err = shell("report", "runs")
    assert (code, out) == (1, "wrote report.html\n")
    assert err.count("\n") == 1
    assert "missing from the report: 4 runs: 3 failed, 1 unreadable" in err
    page = (runs.parent / "report.html").read_text()
    assert "The loss is &lt;b&gt;nan&lt;/b&gt;." in page
    assert all(name in page for name in ("lost", first.name, "predictions.parquet: does not match its digest"))
    (second / "run.json").write_text("{")
    code, _, err = shell("report", "runs")
    assert code == 1
    assert "none of its 2 finished runs can be read" in err


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["run.json", "predictions.parquet", "benchmark"])
def test_one_bad_run_does_not_stop_the_others(runs, damage):
    """Whatever file of one run is bad, the others are scored as if it were not there, and Python warns."""
    bad, good = of_method(runs, "erm")
    if damage == "benchmark":
        facts = json.loads((bad / "run.json").read_text())
        facts |= {"benchmark": {"name": "gone", "digest": "1" * 64, "path": "nowhere"}}
        facts["run"].pop("benchmark")
        del facts["id"]
        (bad / "run.json").write_text(json.dumps(facts))
    else:
        (bad / damage).write_bytes(b"\0" * 50)
    with pytest.warns(UserWarning, match=rf"missing from the report: 1 run: 1 unreadable: {bad.name}"):
        sb.report("runs", "r.html")
    left_out = {}
    scores = score_runs("runs", left_out=left_out)
    assert list(left_out) == [bad.name]
    assert scores == score_runs("runs", only=[folder.name for folder in runs.iterdir() if folder != bad])
    assert good.name in scores["run"]


def test_a_damaged_last_layer_and_checkpoint_are_noticed(runs):
    """What `retrain` starts from is what training left."""
    folder = of_method(runs, "erm")[0]
    assert read_run(folder).files.keys() == {"predictions.parquet", "checkpoint.safetensors"}
    flip(folder / "checkpoint.safetensors", -5)
    with pytest.raises(ShiftBenchError, match=r"checkpoint\.safetensors: does not match its digest"):
        read_run(folder).checked("checkpoint.safetensors")
