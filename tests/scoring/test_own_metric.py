"""A user's own metric goes the whole way: weights of a sweep, scores, choices of runs, tables, report and board."""

import json

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN
from shiftbench.data.target import Target
from shiftbench.scoring import means, score
from shiftbench.scoring.metrics import METRICS, metric_of, own_metrics
from shiftbench.shifts.low_data import LowData
from shiftbench.worlds.sprites import sprites
from tests.leaderboard.test_boards import submit

FILE = '''
import numpy as np
import shiftbench as sb

@sb.register.metric("cost", words="cost of errors", better="lower", unit="number")
def cost(label, scores, weight=None):
    """An error on the first class costs ten, any other one."""
    return float(np.average((scores.argmax(axis=1) != label) * np.where(label == 0, 10.0, 1.0), weights=weight))

def brier_items(label, scores):
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(len(label)), label] -= 1
    return (shares ** 2).sum(axis=1)

@sb.register.metric("brier", words="Brier score", better="lower", unit="number", items=brier_items)
def brier(label, scores, weight=None):
    return float(np.average(brier_items(label, scores), weights=weight))
'''

STUDY = '''
benchmarks = ["b"]
collection = "c"
seeds = 2
[run]
model = "small-cnn"
steps = 4
eval_every = 2
batch_size = 8
select_on = "cost"
lr = [1e-3, 1e-2]
[methods.erm]
[methods.irm]
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The sprites world, a benchmark of it, a study and a file with two metrics."""
    monkeypatch.chdir(tmp_path)
    collection = sprites(300, seed=0, size=32)
    collection.save("c")
    benchmark = LowData("shape", "colour", ("blue",), n_low=8).build(collection)
    benchmark.save("b")
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "study.toml").write_text(STUDY)
    return benchmark


@pytest.mark.slow
@pytest.mark.usefixtures("few_replicates")
def test_a_metric_of_ones_own_goes_the_whole_way(shell, project, registry, tmp_path):
    """One file makes a sweep choose weights by it, and score, select, table, report and board show and rank by it."""
    own = ("--import", "mine.py")
    code, _, err = shell("sweep", "study.toml", "--out", "runs", "--device", "cpu", "--workers", "1", "--quiet", *own)
    assert code == 0, err
    folders = sorted(path for path in (tmp_path / "runs").iterdir() if (path / "done").exists())
    assert len(folders) == 8
    for folder in folders:
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        evaluated = [line for line in lines if "id_val_cost" in line]
        best = min(evaluated, key=lambda line: (line["id_val_cost"], line["id_val_loss"]))
        assert lines[-1]["best_step"] == best["step"]
    file = folders[0] / "predictions.parquet"
    code, out, err = shell("score", "b", file, "--metrics", "auc", "--json", *own)
    assert code == 0, err
    test = json.loads(out)["runs"][0]["splits"]["test"]
    assert test["cost"]["low"] < test["cost"]["value"] < test["cost"]["high"]
    assert test["worst_group_brier"]["value"] > test["brier"]["value"] > test["brier"]["low"] > 0
    assert 0 < test["auc"]["value"] < 1
    code, out, err = shell("select", "runs", "--target", "cost", "--json", *own)
    assert code == 0, err
    chosen = [one for one in json.loads(out)["choices"] if one["rule"] == "oracle"]
    assert len(chosen) == 4
    assert all(one["test"] == one["oracle"] <= one["blind"] for one in chosen)
    code, out, err = shell("table", "runs", "--metric", "cost", "--metric", "worst_group_brier", *own)
    assert code == 0, err
    assert "Cost of errors" in out
    assert "Worst-group Brier score" in out
    predictions = [Predictions.load(folder / "predictions.parquet", project) for folder in folders]
    for name, part in (("one", predictions[:3]), ("two", predictions[3:6])):
        submit(tmp_path / "subs", name, project, part, selected_on="id_val")
    code, out, err = shell("board", "subs", "--benchmark", "b", "--out", "site", "--metric", "cost", "--json", *own)
    assert code == 0, err
    entries = json.loads(out)["entries"]
    values = [entry["scores"]["test"]["cost"]["value"] for entry in entries]
    assert [entry["rank"] for entry in entries] == [1, 2], [entry["reasons"] for entry in entries]
    assert values == sorted(values)
    assert "cost of errors" in (tmp_path / "site" / "index.html").read_text()
    code, _, err = shell("report", "runs", "--out", "report.html", "--quiet", *own)
    assert code == 0, err
    assert "Cost of errors" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_a_bootstrap_of_means_counts_items_once_and_seeds_too(registry):
    """Runs of a method share the drawn items: with equal runs a mean is known as well as one of them, and no better."""
    benchmark = LowData("shape", "colour", ("blue",), n_low=8).build(sprites(300, seed=0, size=32))
    rng = np.random.default_rng(0)

    def guesses(noise):
        right = np.eye(len(benchmark.names["label"]))[benchmark.label]
        return Predictions(benchmark.items, benchmark.split, (right + noise).astype(np.float32),
                           benchmark.names["label"])

    noises = [rng.normal(size=(len(benchmark), len(benchmark.names["label"]))) for _ in range(3)]
    sb.register.metric("hits")(METRICS["accuracy"].function)

    def ends(runs):
        return [next(iter(means(benchmark, {"erm": runs}).where(split="test", metric=name, group="all")))
                for name in ("hits", "accuracy")]

    for runs in ([guesses(noises[0])], [guesses(noises[0])] * 3, [guesses(noise) for noise in noises]):
        ours, closed = ends(runs)
        assert ours["value"] == pytest.approx(closed["value"])
        assert (ours["low"], ours["high"]) == pytest.approx((closed["low"], closed["high"]), abs=0.03)
    alone = next(iter(score(benchmark, guesses(noises[0])).where(split="test", metric="hits")))
    assert alone["value"] == ends([guesses(noises[0])])[0]["value"]


def test_the_worst_group_and_the_bounds_follow_the_metric(registry):
    """Of a gain the worst group is the lowest and it may be negative; of a share of misses it is the highest."""
    benchmark = LowData("shape", "colour", ("blue",), n_low=8).build(sprites(300, seed=0, size=32))
    classes, rng = len(benchmark.names["label"]), np.random.default_rng(1)
    right = np.eye(classes)[benchmark.label]
    models = {name: [Predictions(benchmark.items, benchmark.split, (
        right * gain + rng.normal(size=right.shape)).astype(np.float32), benchmark.names["label"])]
        for name, gain in (("good", 2.0), ("poor", 0.2))}

    def misses(label, scores):
        return (scores.argmax(axis=1) != label).astype(np.float64)

    def profits(label, scores):
        return 1000 - 3000 * misses(label, scores)

    sb.register.metric("profit", unit="number", items=profits)(lambda *words: float(profits(*words[:2]).mean()))
    sb.register.metric("missed", better="lower", items=misses)(lambda *words: float(misses(*words[:2]).mean()))
    scores = means(benchmark, models).where(split="test", by="")
    for name in models:
        worst = {metric: next(iter(scores.where(method=name, stat=MEAN, metric=f"worst_group_{metric}")))
                 for metric in ("accuracy", "missed", "profit")}
        assert worst["missed"]["value"] == pytest.approx(1 - worst["accuracy"]["value"])
        assert worst["profit"]["value"] == pytest.approx(1000 - 3000 * worst["missed"]["value"])
        assert {row["group"] for row in worst.values()} == {worst["accuracy"]["group"]}
        assert all(row["low"] <= row["value"] <= row["high"] for row in worst.values())
    poor = next(iter(scores.where(method="poor", stat=MEAN, metric="profit", group=ALL)))
    assert poor["low"] < poor["value"] < min(0, poor["high"])
    behind = next(iter(scores.where(method="poor", stat=DIFFERENCE, metric="profit", group=ALL)))
    assert 1 < behind["low"] < behind["value"] < behind["high"]
    assert behind["p"] < 0.05


def test_a_metric_is_registered_with_what_is_known(registry):
    """Words, direction and unit are those given; the worst group's follows; a taken name or odd words are refused."""
    sb.register.metric("regret", better="lower", unit="number", items=lambda y, f: np.zeros(len(y)))(len)
    assert [metric.name for metric in own_metrics(Target())] == ["regret"]
    assert metric_of("worst_group_regret").words == "worst-group regret"
    assert metric_of("worst_group_regret").lower
    with pytest.raises(ShiftBenchError, match="taken"):
        sb.register.metric("accuracy")(len)
    for odd in ({"better": "more"}, {"unit": "percent"}, {"targets": "clas"}, {"targets": "boxes"},
                {"interval": "student"}):
        with pytest.raises(ShiftBenchError, match="etric 'odd'"):
            sb.register.metric("odd", **odd)(len)


@pytest.mark.parametrize(("content", "message"), [
    ("import nothing_of_this_name", "ModuleNotFoundError"), ("1 / 0", "ZeroDivisionError"), ("def", "SyntaxError"),
    ("import shiftbench as sb\nsb.register.metric('nll')(len)", "taken"),
])
def test_a_file_that_cannot_be_imported_is_one_message(shell, project, registry, tmp_path, content, message):
    """An error in the user's own file names the file, and nothing else is done."""
    (tmp_path / "bad.py").write_text(content)
    code, _, err = shell("score", "b", "none.csv", "--import", "bad.py")
    assert code == 1
    assert "bad.py" in err
    assert message in err
    assert shell("score", "b", "none.csv", "--import", "absent.py")[2] == (
        "shiftbench: absent.py: there is no such file.\n")
