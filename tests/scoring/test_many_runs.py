"""Very many runs: listed by a look, read without parsing, scored in batches, and the numbers of the plain way."""

import json
import os
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shiftbench as sb
from bench.many_runs import BENCHMARKS, SEEDS, facts, make
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_json
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, COLUMNS, MEAN, RUN, Scores
from shiftbench.scoring import read_run, runs, runs_in, score, score_runs
from shiftbench.scoring.listing import contents, names_in
from shiftbench.scoring.reading import KNOWN, Reader, predictions_of
from shiftbench.scoring.select import chosen_means, select
from shiftbench.training.folder import sign
from shiftbench.training.run import Run
from tests.scoring.test_score import guesses, made, write_run
from tests.strategies import benchmarks, seeds

RUNS = 480


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of three methods, eight settings and five seeds on four benchmarks."""
    return make(tmp_path_factory.mktemp("many"), RUNS)


@pytest.fixture(scope="module")
def scores(folder):
    return score_runs(folder)


def assert_same(ours: Scores, theirs: Scores) -> None:
    """Equal rows in equal order. The ends of a worst group's interval are sought, and found up to 1e-5."""
    for name, kind in COLUMNS.items():
        if kind is float:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-4, err_msg=name)
        elif name != "benchmark":  # which the runs may know by another name
            assert ours[name].tolist() == theirs[name].tolist()


def plainly(folder, names, **options) -> Scores:
    """One run after the other."""
    found = []
    for name in names:
        run = read_run(folder / name)
        benchmark = Benchmark.load(run.benchmark_folder)
        predictions = Predictions.load(run.folder / "predictions.parquet", benchmark)
        found.append(score(benchmark, predictions, **run.head, **options))
    return Scores.join(found)


@pytest.mark.slow
def test_a_batch_gives_the_rows_of_the_plain_way(folder, scores):
    """Every row of a run is the plain way's, in its order, with its value and interval."""
    for name in sorted(os.listdir(folder))[::40]:
        assert_same(scores.where(run=name), plainly(folder, [name]))


@pytest.mark.slow
def test_every_finished_run_is_scored_once_and_every_setting_has_a_mean(folder, scores):
    """480 runs have their rows, and on each benchmark 24 settings a mean over five seeds."""
    average = scores.where(split="test", group=ALL, metric="accuracy")
    single, means = average.where(stat=RUN), average.where(stat=MEAN)
    assert sorted(single["run"].tolist()) == sorted(os.listdir(folder))
    assert set(means["runs"].tolist()) == {SEEDS}
    assert {name: int((means["benchmark"] == name).sum()) for name in BENCHMARKS} == dict.fromkeys(
        BENCHMARKS, RUNS // len(BENCHMARKS) // SEEDS)


@pytest.mark.slow
def test_more_settings_than_anyone_reads_have_no_means(folder, monkeypatch):
    """Above the limit single runs are scored and no means; the few that are then chosen have them."""
    monkeypatch.setattr(runs, "SETTINGS", 3)
    assert (score_runs(folder, replicates=0)["seed"] >= 0).all()
    name = sorted(os.listdir(folder))[0]
    assert (score_runs(folder, replicates=0, only=[name])["seed"] == -1).any()


def test_the_splits_that_draws_share_are_found_once(folder, monkeypatch):
    """Draws are compared row by row: once for a benchmark, and not again for each of its settings."""
    compared = []
    monkeypatch.setattr(runs, "shared_splits", lambda draws: compared.append(draws) or ("test",))
    few = [name for name in sorted(os.listdir(folder)) if read_run(folder / name).benchmark["name"] == BENCHMARKS[0]]
    scores = score_runs(folder, replicates=0, only=few[:12])
    assert len(set(scores.where(stat=MEAN)["label"].tolist())) > 3
    assert len(compared) == 1


@pytest.mark.slow
def test_a_run_is_scored_alone_as_among_others(folder, scores):
    """What a run scores, its interval too, does not depend on which runs lie beside it."""
    for name in sorted(os.listdir(folder))[:3]:
        assert_same(score_runs(folder, only=[name]).where(run=name), scores.where(run=name))


def test_the_folders_are_those_that_training_writes(folder, tmp_path):
    """The benchmark's shortcut writes run.json and predictions.parquet byte for byte as our own writers do."""
    for name in sorted(os.listdir(folder))[:5]:
        run = read_run(folder / name)
        benchmark = Benchmark.load(run.benchmark_folder)
        assert Run.of(run.settings).id == name
        write_json(tmp_path / "run.json", facts(Run.of(run.settings), benchmark, folder.parent))
        Predictions.load(run.folder / "predictions.parquet", benchmark).save(tmp_path / "predictions.parquet")
        (tmp_path / "checkpoint.safetensors").write_bytes((run.folder / "checkpoint.safetensors").read_bytes())
        sign(tmp_path, "predictions.parquet", "checkpoint.safetensors")
        for file in ("run.json", "predictions.parquet"):
            assert (tmp_path / file).read_bytes() == (run.folder / file).read_bytes()


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(benchmarks(), st.data())
def test_scores_are_the_plain_ways_whatever_was_predicted(tmp_path_factory, benchmark, data):
    """Any splits in any order, logits, probabilities or choices: every run has the rows of the plain way."""
    place = tmp_path_factory.mktemp("any")
    benchmark = Benchmark.load(benchmark.save(place / "toy"))
    predicted = {}
    for name in "abcde"[:data.draw(st.integers(2, 5))]:
        rng = np.random.default_rng(data.draw(seeds))
        splits = data.draw(st.lists(st.sampled_from(benchmark.splits), min_size=1, unique=True))
        rows = np.concatenate([benchmark.rows(split) for split in splits])
        rows = rng.permutation(rows) if data.draw(st.booleans()) else rows
        table = rng.normal(size=(len(rows), len(benchmark.names["label"]))).astype(np.float32)
        kind = data.draw(st.sampled_from(["logits", "probabilities", "choices", "ties", "ruled out"]))
        if kind == "probabilities":
            table = np.exp(table) / np.exp(table).sum(axis=1, keepdims=True)
        elif kind == "choices":
            table = np.where(table == table.max(axis=1, keepdims=True), 0, -np.inf).astype(np.float32)
        elif kind == "ties":
            table[:] = 3
        elif kind == "ruled out":
            table[rng.random(table.shape) < 0.2] = -np.inf
        predicted[name] = Predictions(benchmark.items[rows], benchmark.split[rows], table, benchmark.names["label"])
        write_run(place / "runs", name, benchmark, predicted[name])
    scores = score_runs(place / "runs")
    for name in predicted:
        assert_same(scores.where(run=name), plainly(place / "runs", [name]))


def test_a_file_of_another_kind_is_parsed_and_a_bad_one_refused(tmp_path):
    """A reader that knows the layout still reads compressed files and CSV, and still refuses what has no number."""
    benchmark = made()
    reader = Reader(benchmark)
    first = guesses(benchmark, 0)
    for number in range(2 * KNOWN):
        reader.read(guesses(benchmark, number).save(tmp_path / f"{number}.parquet"))
    assert len(reader.layouts) == KNOWN
    write_table(tmp_path / "old.parquet", pq.read_table(tmp_path / "0.parquet"))
    first.save(tmp_path / "first.csv")
    for name in ("0.parquet", "old.parquet", "first.csv"):
        assert predictions_of(benchmark, *reader.read(tmp_path / name)) == predictions_of(
            benchmark, *Reader(benchmark).read(tmp_path / "0.parquet")), name
    for wrong, what in ((np.nan, "no number"), (np.inf, "no number")):
        table = first.scores.copy()
        table[7, 1] = wrong
        bad = Predictions(first.item, first.split, table, first.classes).save(tmp_path / "bad.parquet")
        with pytest.raises(ShiftBenchError, match=what):
            reader.read(bad)
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "0.parquet").read_bytes()[:-9])
    with pytest.raises(ShiftBenchError, match=r"cut\.parquet: not a readable parquet table"):
        reader.read(tmp_path / "cut.parquet")
    with pytest.raises(ShiftBenchError, match=r"none\.parquet: no such file"):
        reader.read(tmp_path / "none.parquet")


@pytest.mark.parametrize("first", [0, 3, 5_000_000])
def test_files_are_read_whole_and_in_order(tmp_path, first):
    """Whatever their sizes, the contents of files come in the order of their names; None stands for one that is not."""
    rng = np.random.default_rng(first)
    sizes = [first, *rng.integers(0, 300_000, 20).tolist(), *rng.integers(0, 9, 180).tolist()]
    paths = [str(tmp_path / f"{number:03d}") for number in range(len(sizes))]
    wanted: list[bytes | None] = []
    for number, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        wanted.append(None if number % 50 == 7 else rng.bytes(size))
        if wanted[-1] is not None:
            (tmp_path / path).write_bytes(wanted[-1])
    assert list(contents(paths)) == wanted
    assert list(contents(paths[:10])) == wanted[:10]


def test_folders_are_listed_by_what_they_hold(tmp_path):
    """`done` wins over failed.json, that over run.json; hidden folders and folders of other things are no runs."""
    for name, files in {"a": ["run.json", "done"], "b": ["run.json", "failed.json"], "c": ["run.json", "lock"],
                        "d": ["run.json", "failed.json", "done"], "e": ["failed.json", "lock"], "f": ["lock"],
                        ".g": ["run.json", "done"], "benchmarks": ["toy.json"]}.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_text(json.dumps({
                "run": {"method": "erm", "seed": 0}, "benchmark": {"name": "toy", "digest": "", "path": None}}))
    (tmp_path / "report.html").touch()
    assert names_in(tmp_path) == (["a", "d"], ["b", "e"], ["c"])
    finished, unfinished = runs_in(tmp_path)
    assert ([run.folder.name for run in finished], unfinished) == (["a", "d"], 3)
    assert names_in(tmp_path, only=["d", "c", "nothing"]) == (["d"], [], ["c"])
    (tmp_path / "a" / "run.json").unlink()
    assert [run.folder.name for run in runs_in(tmp_path)[0]] == ["d"]
    with pytest.raises(ShiftBenchError, match=r"a/run\.json: no such file"):
        read_run(tmp_path / "a")


@given(st.lists(st.fixed_dictionaries(
    {"method": st.sampled_from(["a", "b"]), "seed": st.integers(0, 3)}, optional={
        "lr": st.sampled_from([1, 2, None]), "params": st.dictionaries(st.sampled_from("xy"), st.integers(0, 1))}),
    max_size=12))
def test_labels_name_what_tells_runs_of_a_method_apart(listed):
    """A setting is in a name exactly where the runs of that method do not all have it with one value."""
    def flat(one):
        return {**{key: value for key, value in one.items() if key not in ("seed", "params")}, **one.get("params", {})}

    for one, name in zip(listed, runs.labels(listed), strict=True):
        rivals = [flat(other) for other in listed if other["method"] == one["method"]]
        told = [f"{key}={json.dumps(value)}" for key, value in sorted(flat(one).items())
                if any(key not in other or other[key] != value for other in rivals)]
        assert name == (f"{one['method']} ({', '.join(told)})" if told else one["method"])


def test_a_preset_stands_in_the_label(tmp_path):
    """The method is the learning rule; what is shown, chosen and named in options is the preset."""
    plain, folder = made(), tmp_path / "runs"
    benchmark = replace(plain, split=np.where(plain.split == "id_test", "id_val", plain.split))
    benchmark.save(tmp_path / "toy")
    for seed in range(2):
        write_run(folder, f"a{seed}", benchmark, guesses(benchmark, seed), seed=seed, lr=0.1)
        for lr in (0.1, 0.2):
            write_run(folder, f"b{lr}-{seed}", benchmark, guesses(benchmark, 7 + seed, 0.7 + lr), seed=seed, lr=lr,
                      preset="resnet50")
    scores = score_runs(folder, replicates=30)
    single, mean = (scores.where(split="test", group=ALL, metric="accuracy", stat=stat) for stat in (RUN, MEAN))
    assert set(scores["method"].tolist()) == {"erm"}
    assert single["label"].tolist() == ["", "", *["resnet50"] * 4]
    assert mean["label"].tolist() == ["", "resnet50 (lr=0.1)", "resnet50 (lr=0.2)"]
    assert {choice.method for choice in select(scores, ["id"]).choices} == {"erm", "resnet50"}
    over = chosen_means(folder, scores, [benchmark], "id").where(stat=MEAN, split="test", metric="accuracy", group=ALL)
    assert list(zip(over["method"].tolist(), over["label"].tolist(), strict=True)) == [("erm", ""), ("erm", "resnet50")]
    lines = {line.method: line for line in sb.table(folder, against="resnet50", metrics="accuracy")}
    assert {name: (line.mean, line.reference) for name, line in lines.items()} == {
        name: (value, other) for name, value, other in zip(
            ("erm", "resnet50"), over["value"].tolist(), ("resnet50", ""), strict=True)}


def test_the_hardest_tasks_are_those_of_the_name_shown():
    """`hardest` takes the runs that are shown under a name: a preset's where it is one, else the plain method's."""
    rows = [{"run": f"{task} {label}", "benchmark": task, "method": "erm", "label": label, "seed": 0, "split": "test",
             "group": group, "n": 9, "metric": "nll", "value": loss * times, "low": 0, "high": 9}
            for task, label, loss in (("cup", "", 1), ("bus", "", 2), ("cup", "resnet50", 4), ("bus", "resnet50", 3))
            for group, times in (("hard", 2), ("all", 1))]
    assert [[task.task for task in sb.hardest(Scores.of(rows), method=name)] for name in ("erm", "resnet50")] == [
        ["bus", "cup"], ["cup", "bus"]]
