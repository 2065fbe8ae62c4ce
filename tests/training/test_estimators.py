"""Estimators of scikit-learn: a fit leaves a run like any other, and wrong input is one line."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import Predictions
from shiftbench.scoring.runs import score_runs


@pytest.fixture(scope="module")
def table():
    """Two columns of numbers, of which the first follows the label and the second the domain, and a factor of words."""
    rng, n = np.random.default_rng(0), 240
    label = rng.integers(0, 2, n)
    split = np.repeat(["train", "id_val", "test"], [120, 60, 60])
    domain = np.where(rng.random(n) < np.where(split == "test", 0.5, 0.9), label, 1 - label)
    words = {"label": np.asarray(["cat", "dog"])[label], "domain": np.asarray(["in", "out"])[domain]}
    factors = {"feature:a": rng.normal(size=n) + 1.5 * label, "feature:b": rng.normal(size=n) + 3.0 * domain,
               "place": words["domain"], "kind": words["label"]}
    collection = sb.Collection("table", np.asarray([f"i{k:03d}" for k in range(n)]), factors=factors)
    return collection, Benchmark.of(collection, None, 0, np.arange(n), split, **words)


def fitted(out, table, estimator, **options):
    return sb.fit(table[1], estimator, collection=table[0], out=out, **options)


def test_a_fit_is_a_run_like_any_other(table, tmp_path):
    """Its predictions are the estimator's own probabilities; score, select and report take its folder."""
    estimator = LogisticRegression()
    run = fitted(tmp_path, table, estimator)
    train, x = table[1].rows("train"), np.stack([table[0].factors["feature:a"], table[0].factors["feature:b"]], axis=1)
    own = LogisticRegression().fit(x[train], table[1].label[train])
    predictions = Predictions.load(run / "predictions.parquet", table[1])
    assert np.allclose(np.exp(predictions.scores), own.predict_proba(x), atol=1e-6)
    assert not hasattr(estimator, "coef_")
    assert set(score_runs(tmp_path).columns["model"]) == {"sklearn:LogisticRegression on columns"}
    assert sb.select(tmp_path)
    assert "LogisticRegression" in sb.report(tmp_path, tmp_path / "report.html").read_text()


def test_a_fit_is_not_repeated_and_its_settings_name_it(table, tmp_path):
    """Equal estimators are one run; another parameter or another seed is another, also of an estimator inside one."""
    same = {fitted(tmp_path, table, make_pipeline(StandardScaler(), LogisticRegression())) for _ in range(2)}
    assert len(same) == 1
    assert fitted(tmp_path, table, make_pipeline(StandardScaler(), LogisticRegression(C=0.5))) not in same
    assert fitted(tmp_path, table, make_pipeline(StandardScaler(), LogisticRegression()), seed=1) not in same


def test_what_an_estimator_draws_comes_from_the_seed(table, tmp_path):
    """Two fits with one seed agree to the bit."""
    forest = RandomForestClassifier(n_estimators=5)
    one, other = (fitted(tmp_path / name, table, forest, seed=3) / "predictions.parquet" for name in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()
    assert json.loads((one.parent / "run.json").read_text())["run"]["estimator"]["random_state"] == 3


@pytest.mark.parametrize("estimator", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_weights_by_group_are_sample_weights(table, tmp_path, estimator):
    """Each group has the same mass: the worst group gains, and the run's method is reweight."""
    plain, weighed = (fitted(tmp_path, table, estimator, weights=weights) for weights in ("", "group"))
    assert json.loads((weighed / "run.json").read_text())["run"]["method"] == "reweight"
    worst = [sb.score(table[1], run / "predictions.parquet").where(split="id_val", metric="worst_group_accuracy", by="")
             for run in (plain, weighed)]
    assert worst[1].columns["value"][0] > worst[0].columns["value"][0]


def test_factors_reach_a_pipeline_as_a_data_frame(table, tmp_path):
    """A pipeline of the user's encodes words and numbers by their names."""
    encode = make_column_transformer((OneHotEncoder(), ["place"]), (StandardScaler(), ["a"]))
    run = fitted(tmp_path, table, make_pipeline(encode, LogisticRegression()), features=["place", "a"])
    assert json.loads((run / "run.json").read_text())["run"]["features"] == "place, a"


def test_an_estimator_without_probabilities_predicts_classes(table, tmp_path):
    """Its scores are 0 and minus infinity, the logarithms of certainty."""
    scores = Predictions.load(fitted(tmp_path, table, LinearSVC()) / "predictions.parquet", table[1]).scores
    assert set(np.unique(scores).tolist()) == {0.0, -np.inf}


def test_a_class_that_training_lacks_has_probability_zero(table, tmp_path):
    """The columns are those of the benchmark, not of the estimator."""
    collection, benchmark = table
    names = {**benchmark.names, "label": ("ant", *benchmark.names["label"])}
    wider = replace(benchmark, label=benchmark.label + 1, names=names)
    run = sb.fit(wider, LogisticRegression(), collection=collection, out=tmp_path)
    scores = Predictions.load(run / "predictions.parquet", wider).scores
    assert np.isneginf(scores[:, 0]).all()
    assert np.isfinite(scores[:, 1:]).all()


def test_the_command_line_fits_an_estimator_by_its_name(table, tmp_path):
    """--set gives the estimator's parameters and the method's."""
    table[0].save(tmp_path / "table")
    sb.train(table[1], out=tmp_path / "runs", collection=table[0], model="sklearn:LogisticRegression")
    folder = next((tmp_path / "runs" / "benchmarks").iterdir())
    result = CliRunner().invoke(app, ["train", str(folder), "--model", "sklearn:HistGradientBoostingClassifier",
                                      "--collection", str(tmp_path / "table"), "--out", str(tmp_path / "runs"),
                                      "--set", "max_iter=3", "--method", "reweight", "--set", "by=label", "--json"])
    assert result.exit_code == 0, result.output
    run = json.loads((tmp_path / json.loads(result.stdout)["run"] / "run.json").read_text())["run"]
    assert (run["estimator"]["max_iter"], run["params"]["by"], run["method"]) == (3, "label", "reweight")


def test_settings_of_nets_have_no_effect_on_an_estimator_unless_it_has_them(table, tmp_path):
    """`steps` is told to have none; `batch_size` is the estimator's, where it has one."""
    lines = []
    run = sb.train(table[1], out=tmp_path, collection=table[0], model="sklearn:MLPClassifier", batch_size=40, steps=9,
                   tol=1.0, say=lines.append)
    assert lines == ["sklearn:MLPClassifier: steps=9 has no effect: the model is fitted at once."]
    assert json.loads((run / "run.json").read_text())["run"]["estimator"]["batch_size"] == 40


@pytest.mark.parametrize(("estimator", "options", "words"), [
    (LogisticRegression, {}, r"estimator: LogisticRegression is a class. Pass an object of it: LogisticRegression\(\)"),
    (object(), {}, "estimator: object has no fit and predict"),
    (LinearRegression(), {}, "estimator: LinearRegression is a regressor, but benchmark .* asks for a class"),
    (LogisticRegression(C=-1), {}, "Model 'sklearn:LogisticRegression' fails on 120 training items .*'C' parameter"),
    (LogisticRegression(), {"features": ["place"]}, "fails on 120 training items .*could not convert string to float"),
    (LogisticRegression(), {"features": ["kind"]}, "factor 'kind' is what benchmark .* asks for"),
    (LogisticRegression(), {"features": ["plac"]}, "No factor named 'plac'. Did you mean 'place'"),
    (LogisticRegression(), {"features": "nonsense"}, "No features named 'nonsense'"),
    (LogisticRegression(), {"weights": "grup"}, "No weights named 'grup'. Did you mean 'group'"),
    (KNeighborsClassifier(), {"weights": "group"}, "takes no sample weights, so weights by group have no effect"),
])
def test_what_cannot_be_fitted_is_one_clear_line(table, tmp_path, estimator, options, words):
    """The line names what the user passed; nothing is left behind."""
    with pytest.raises(ShiftBenchError, match=words):
        fitted(tmp_path, table, estimator, **options)
    assert not [path for path in tmp_path.iterdir() if path.name not in ("benchmarks", "collections")]


@pytest.mark.parametrize(("settings", "words"), [
    ({"model": "sklearn:RandomForest"}, "no classifier or regressor named 'RandomForest'. Nearest: RandomForest"),
    ({"model": "sklearn:LogisticRegression", "max_itr": 3}, "No parameter named 'max_itr'. Did you mean 'max_iter'"),
    ({"model": "sklearn:LogisticRegression", "method": "irm"}, "Method 'irm' trains a net step by step"),
    ({"model": "sklearn:LogisticRegression", "preset": "resnet50"}, "a preset has settings of nets"),
])
def test_a_name_that_scikit_learn_does_not_have_is_answered_with_the_nearest(table, tmp_path, settings, words):
    """One line for classes, parameters and methods."""
    with pytest.raises(ShiftBenchError, match=words):
        sb.train(table[1], out=tmp_path, collection=table[0], **settings)


def test_tables_name_the_estimator(table, tmp_path):
    """Two estimators of one method are two rows: by their class and weights, or by the name that they are given."""
    fitted(tmp_path, table, LogisticRegression())
    fitted(tmp_path, table, make_pipeline(StandardScaler(), LogisticRegression()), weights="group")
    fitted(tmp_path, table, RandomForestClassifier(5), name="forest")
    names = {"LogisticRegression", "LogisticRegression, weights by group", "forest"}
    assert set(score_runs(tmp_path).names.tolist()) >= names
    assert {line.method for line in sb.table(tmp_path, metrics="accuracy")} == names
