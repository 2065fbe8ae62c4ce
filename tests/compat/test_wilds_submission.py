"""Predictions of runs as files for WILDS' leaderboard."""

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.leaderboard.submission import find_files, load
from shiftbench.scoring import runs_in

N = 60


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Camelyon17 in small, and two folds of PovertyMap, as `build wilds` makes them."""
    root, rng = tmp_path_factory.mktemp("submission"), np.random.default_rng(0)
    split = np.asarray(["train", "id_val", "val", "test"])[np.arange(N) // 15]
    tumor, slide = rng.integers(0, 2, N), np.arange(N) % 10
    scans = Collection("camelyon17", np.arange(N).astype(str), factors={
        "label": np.asarray(["tumor", "normal"])[tumor], "y": 1 - tumor, "hospital": np.arange(N) // 15, "slide": slide,
        "split": split, "feature:a": rng.normal(size=N) + tumor, "feature:b": rng.normal(size=N)})
    wealth = rng.normal(size=N)
    poverty = Collection("poverty", np.arange(N).astype(str), factors={
        "label": wealth, "y": wealth, "urban": np.asarray(["rural", "urban"])[slide % 2], "country": np.arange(N) // 5,
        "feature:a": wealth + rng.normal(size=N),
        **{f"split_{fold}": np.roll(split, at) for at, fold in enumerate("ABCDE")}})
    for world in (scans, poverty):
        world.save(root / world.name)
        sb.suite("wilds", root / world.name, root / "b", only=world.name)
    return root


def trained(place, runs, *benchmarks, seeds=(0,), method="erm"):
    for name in benchmarks:
        for seed in seeds:
            sb.train(place / "b" / name, method, model="linear", features="columns", steps=20, seed=seed, out=runs)


@pytest.mark.learning
def test_files_are_read_back_as_they_were_predicted(place, tmp_path):
    """Each split of each seed has a file whose name WILDS' evaluation looks for and whose lines are WILDS' numbers of
    the predicted classes; our board reads them as the same predictions. Missing seeds are warned of."""
    trained(place, tmp_path / "runs", "camelyon17", seeds=(0, 1))
    with pytest.warns(UserWarning, match="seed:9 is missing"):
        sb.export(tmp_path / "runs", tmp_path / "out", to="wilds-submission")
    folder = tmp_path / "out" / "camelyon17"
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        f"camelyon17_split:{split}_seed:{seed}_epoch:best_pred.csv" for split in ("id_val", "val", "test")
        for seed in (0, 1))
    benchmark = Benchmark.load(place / "b" / "camelyon17")
    parts = find_files(folder)
    for run in runs_in(tmp_path / "runs")[0]:
        own = run.predictions(benchmark)
        read = load(parts[run.settings["seed"]], benchmark)
        assert isinstance(own, Predictions)
        at = [own.item.tolist().index(item) for item in read.item.tolist()]
        assert np.array_equal(read.scores.argmax(1), own.scores[at].argmax(1))
    rows = benchmark.rows("test")
    lines = (folder / "camelyon17_split:test_seed:0_epoch:best_pred.csv").read_text().split()
    own = next(run for run in runs_in(tmp_path / "runs")[0] if run.settings["seed"] == 0).predictions(benchmark)
    at = [own.item.tolist().index(item) for item in benchmark.items[rows].tolist()]
    words = np.asarray(own.classes)[own.scores[at].argmax(1)]
    assert lines == [str(int(word == "tumor")) for word in words]


@pytest.mark.learning
def test_folds_are_replicates_and_lines_hold_numbers(place, tmp_path):
    """PovertyMap has a file per fold, with the predicted wealth of every item."""
    trained(place, tmp_path / "runs", "poverty-A", "poverty-C")
    with pytest.warns(UserWarning, match="fold:B, fold:D, fold:E is missing"):
        sb.export(tmp_path / "runs", tmp_path / "out", to="wilds-submission")
    file = tmp_path / "out" / "poverty" / "poverty_split:test_fold:C_epoch:best_pred.csv"
    assert len([float(line) for line in file.read_text().split()]) == 15


@pytest.mark.learning
def test_a_submission_is_of_one_setting(place, tmp_path):
    """Runs of two methods, a benchmark that is none of WILDS', and a folder without runs are told."""
    trained(place, tmp_path / "two", "camelyon17")
    trained(place, tmp_path / "two", "camelyon17", seeds=(1,), method="reweight")
    with pytest.raises(ShiftBenchError, match="differ in more than the seed"):
        sb.export(tmp_path / "two", tmp_path / "out", to="wilds-submission")
    assert not (tmp_path / "out").exists()
    (tmp_path / "none").mkdir()
    with pytest.raises(ShiftBenchError, match="nothing to submit"):
        sb.export(tmp_path / "none", tmp_path / "out", to="wilds-submission")
