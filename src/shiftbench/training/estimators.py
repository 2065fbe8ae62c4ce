"""Estimators with scikit-learn's interface: fitted at once on the training rows, they leave a run like any other.

A run of an estimator has method `erm`, or `reweight`, whose weights are then the sample weights of the fit. The fitted
estimator itself is not stored, since that would be a pickle: its predictions are, and the settings that repeat it.
"""

import copy
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import shiftbench
from shiftbench.core.arrays import Floats, Ints, digest
from shiftbench.core.backend import load_torch
from shiftbench.core.errors import Advance, Say, ShiftBenchError, first_line, unknown
from shiftbench.core.files import file_digests, lock, write_json, write_text
from shiftbench.core.registry import listed, make
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.item_table import FEATURE
from shiftbench.data.item_table import features as feature_columns
from shiftbench.data.prediction_forms import scores_of_array
from shiftbench.data.predictions import PREDICTIONS, Predictions
from shiftbench.data.scores import run_id
from shiftbench.methods import METHODS
from shiftbench.methods.method import find_method
from shiftbench.models.names import COLUMNS, ESTIMATOR, SENTENCES
from shiftbench.training.run import run_facts, split_features, split_settings

FITTED = ("erm", "reweight")
"""The methods of a fit: with equal weights, or with those of groups, classes or domains."""
WEIGHTS = {"": ("erm", {}), "group": ("reweight", {"by": "group"}), "class": ("reweight", {"by": "label"}),
           "label": ("reweight", {"by": "label"}), "domain": ("reweight", {"by": "domain"})}
"""The names of sample weights, each as a method with its settings."""


def fit(
    benchmark: Benchmark, collection: Collection, estimator: Any, out: Path, *,
    benchmark_path: Path | None = None, features: str | Sequence[str] = COLUMNS, method: str = "erm",
    params: Mapping[str, Any] | None = None, name: str = "", seed: int = 0,
    progress: Advance | None = None, say: Say | None = None,
) -> Path:
    """Fit a copy of an estimator on the training rows, and write its predictions for every row; returns the run's
    folder.

    Where its `random_state` is not set, the seed takes its place. A finished run is not repeated.
    """
    check_estimator(estimator, benchmark)
    learner = make(METHODS[method], params or {}, f"method {method}")
    copied = _copied(estimator, seed)
    label = ESTIMATOR + type(estimator).__name__
    settings = {"benchmark": benchmark.digest, "method": method, "name": name or _name(estimator, learner),
                "params": vars(learner), "model": label,
                "features": ", ".join(listed(features)), "estimator": _described(copied), "seed": seed}
    folder = out / run_id(settings)
    with lock(folder / "lock") as free:
        if not free:
            raise ShiftBenchError(f"{folder}: another process is doing this run. Wait for it, or end it.")
        try:
            if not (folder / "done").is_file():
                started = time.monotonic()
                x = inputs_of(benchmark, collection, features, progress, say)
                weight = sample_weights(benchmark, learner, copied, label, say)
                _write(folder, benchmark, _fitted_scores(benchmark, copied, x, weight, label), {
                    **run_facts(folder.name, benchmark, benchmark_path, settings),
                    "versions": {"shiftbench": shiftbench.__version__, **_package(estimator)},
                    "seconds": round(time.monotonic() - started, 3)})
        finally:
            (folder / "lock").unlink(missing_ok=True)
            if not any(folder.iterdir()):  # what failed leaves nothing
                folder.rmdir()
    return folder


def _write(folder: Path, benchmark: Benchmark, scores: Floats, facts: Mapping[str, Any]) -> None:
    """Write what a finished run leaves; `done` last."""
    rows = np.sort(np.concatenate([benchmark.rows(split) for split in benchmark.splits]))
    Predictions(benchmark.items[rows], benchmark.split[rows], scores[rows].astype(np.float32),
                benchmark.names["label"]).save(folder / PREDICTIONS)
    write_json(folder / "run.json", {**facts, "files": file_digests(folder, [PREDICTIONS])})
    write_text(folder / "done", f"fitted on {len(benchmark.rows('train')):,} items\n")


def _name(estimator: Any, learner: Any) -> str:
    """The name of an estimator in tables: its class, or that of a pipeline's last step, and what its weights go by."""
    steps = getattr(estimator, "steps", None)
    name = type(steps[-1][1] if steps else estimator).__name__
    return f"{name}, weights by {learner.by}" if learner.name == "reweight" else name


# The estimator

def fit_settings(method: str, settings: Mapping[str, Any], say: Say | None = None) -> dict[str, Any]:
    """What `fit` takes, from the settings of a run whose model is an estimator's name.

    Settings that do not belong to the method go to the estimator. Those for nets alone, such as `steps`, have no
    effect, and `say` gets a line about each.
    """
    cls = find_method(method)
    if method not in FITTED:
        raise ShiftBenchError(f"Method '{method}' trains a net step by step, but an estimator is fitted at once. "
                              f"Methods for estimators: {', '.join(FITTED)}.")
    remaining = dict(settings)
    model, features, seed = remaining.pop("model"), remaining.pop("features", COLUMNS), remaining.pop("seed", 0)
    params = {field.name: remaining.pop(field.name) for field in fields(cls) if field.name in remaining}
    estimator, idle = named_estimator(model, *split_settings(remaining))
    if say is not None:
        for key in idle:
            say(f"{model}: {key}={remaining[key]} has no effect: the model is fitted at once.")
    return {"estimator": estimator, "method": method, "params": params, "seed": seed,
            "features": listed(features, ",") if "," in features else features}


def named_estimator(name: str, params: Mapping[str, Any], of_run: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """An estimator of scikit-learn by its class, sklearn:HistGradientBoostingClassifier, with its parameters. Settings
    of a run that the estimator has are parameters too; the names of the others are returned beside it."""
    package(name)
    try:
        estimator = _class(name.removeprefix(ESTIMATOR))()
    except TypeError as problem:
        raise ShiftBenchError(f"Model '{name}' cannot be made by its name alone ({first_line(problem)}). Make it in "
                              "Python, and call sb.fit.") from problem
    accepted = estimator.get_params(deep=False)
    for key in params:
        if key not in accepted:
            raise unknown("parameter", key, accepted, name)
    shared = {key: value for key, value in of_run.items() if key in accepted}
    return estimator.set_params(**params, **shared), [key for key in of_run if key not in shared]


FAMILIES = ("ensemble", "linear_model", "svm", "tree", "neighbors", "naive_bayes", "neural_network",
            "discriminant_analysis", "gaussian_process", "dummy", "kernel_ridge", "isotonic", "cross_decomposition",
            "semi_supervised", "calibration", "multiclass")
"""The modules of scikit-learn with classifiers and regressors: its own search of the whole package takes seconds."""


def _class(name: str) -> Any:
    classes: dict[str, Any] = {}
    for family in FAMILIES:
        classes |= {key: cls for key, cls in vars(import_module(f"sklearn.{family}")).items()
                    if isinstance(cls, type) and hasattr(cls, "fit") and hasattr(cls, "predict")}
        if name in classes:
            return classes[name]
    near = get_close_matches(name, classes, n=5, cutoff=0.5)
    raise ShiftBenchError(f"scikit-learn has no classifier or regressor named '{name}'. " + (
        f"Nearest: {', '.join(near)}." if near else f"It has {len(classes)}, such as {', '.join(list(classes)[:5])}."))


def package(name: str) -> None:
    try:
        import sklearn  # noqa: F401
    except ModuleNotFoundError as problem:
        raise ShiftBenchError(f"Model '{name}' needs the package scikit-learn, which is not installed. Install it "
                              "with: pip install scikit-learn") from problem


def check_estimator(estimator: Any, benchmark: Benchmark) -> None:
    """Refuse what cannot be fitted, and a regressor where classes are asked for."""
    name = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
    if isinstance(estimator, type):
        raise ShiftBenchError(f"estimator: {name} is a class. Pass an object of it: {name}().")
    if not callable(getattr(estimator, "fit", None)) or not callable(getattr(estimator, "predict", None)):
        raise ShiftBenchError(f"estimator: {name} has no fit and predict, as estimators of scikit-learn have. A module "
                              "of torch is trained by sb.train(…, model=MODULE).")
    target = benchmark.target
    if target.kind not in ("class", "number"):
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for {target.words}, which estimators cannot learn "
                              "here. Predict them yourself, and give the predictions to sb.score.")
    if hasattr(estimator, "__sklearn_tags__"):
        from sklearn.base import is_classifier, is_regressor

        wrong = is_regressor(estimator) if target.has_classes else is_classifier(estimator)
        if wrong:
            raise ShiftBenchError(f"estimator: {name} is a {'regressor' if target.has_classes else 'classifier'}, but "
                                  f"benchmark '{benchmark.name}' asks for {target.words}.")


def _copied(estimator: Any, seed: int) -> Any:
    """An unfitted copy that draws from the seed."""
    if not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    from sklearn.base import clone

    copied = clone(estimator)
    unset = {key: seed for key, value in copied.get_params(deep=True).items()
             if key.rpartition("__")[2] == "random_state" and value is None}
    return copied.set_params(**unset) if unset else copied


def _described(estimator: Any) -> dict[str, Any]:
    """The parameters of an estimator and of those inside it, as plain values that are equal for equal estimators."""
    if not hasattr(estimator, "get_params"):
        return {"repr": _text(estimator)}
    return {key: _plain_value(value) for key, value in sorted(estimator.get_params(deep=True).items())}


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain_value(element) for element in value]
    if isinstance(value, Mapping):
        return {str(key): _plain_value(element) for key, element in value.items()}
    if isinstance(value, np.ndarray):
        return f"array {digest({'values': value})[:12]}"
    return type(value).__name__ if hasattr(value, "get_params") else _text(value)


def _text(value: Any) -> str:
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _package(estimator: Any) -> dict[str, str]:
    """The library that the estimator comes from, with its version."""
    top = type(estimator).__module__.partition(".")[0]
    try:
        return {top: version({"sklearn": "scikit-learn"}.get(top, top))}
    except ImportError:  # a user's own class belongs to no package
        return {}


# What it is fitted on

def inputs_of(
    benchmark: Benchmark, collection: Collection, features: str | Sequence[str],
    progress: Advance | None = None, say: Say | None = None,
) -> Any:
    """One row per row of the benchmark.

    `columns` are the collection's feature columns, as they are. A list of names is a data frame of these factors, for
    a pipeline that encodes them. BACKBONE@SIZE and `sentences` are cached features, as for linear and mlp.
    """
    rows = collection.index(benchmark.items)
    if features == COLUMNS:
        names, values = feature_columns(collection)
        if not names:
            raise ShiftBenchError(f"Collection '{collection.name}' has no columns of features. Name them when it is "
                                  "read (--features age,dose), or name factors: features=['age', 'hospital'].")
        return values[rows]
    if isinstance(features, str) and features not in collection.factors:
        if features != SENTENCES:
            split_features(features)  # which checks the name before torch is loaded
        load_torch()
        from shiftbench.training.inputs import backbone_features, sentence_features

        if features == SENTENCES:
            return sentence_features(benchmark, collection, rows)
        return backbone_features(collection, rows, features, progress, say)
    return _frame(benchmark, collection, rows, listed(features))


def _frame(benchmark: Benchmark, collection: Collection, rows: Ints, names: Sequence[str]) -> Any:
    try:
        import pandas as pd
    except ModuleNotFoundError as problem:
        raise ShiftBenchError(f"features: the factors {', '.join(names)} become a data frame, which needs the package "
                              "pandas. Install it with: pip install pandas") from problem
    columns = {}
    label = np.asarray(benchmark.names["label"], np.str_)[benchmark.label] if benchmark.target.has_classes else None
    for name in names:
        key = name if name in collection.factors else FEATURE + name
        if key not in collection.factors:
            raise unknown("factor", name, [factor.removeprefix(FEATURE) for factor in collection.factors], "features")
        columns[name] = collection.factors[key][rows]
        if label is not None and np.array_equal(columns[name].astype(np.str_), label):
            raise ShiftBenchError(f"features: factor '{name}' is what benchmark '{benchmark.name}' asks for. Leave it "
                                  "out.")
    return pd.DataFrame(columns)


def sample_weights(benchmark: Benchmark, learner: Any, estimator: Any, label: str,
                   say: Say | None) -> dict[str, Floats]:
    """The weights of the training items, under the name that the estimator's `fit` has for them; none where all are
    equal. They are n_g^(-a), those of method `reweight`, times the benchmark's column `weight`, with mean 1."""
    train = benchmark.rows("train")
    weight = np.ones(len(train))
    if hasattr(learner, "by"):
        _, code, count = np.unique(getattr(benchmark, learner.by)[train], return_inverse=True, return_counts=True)
        weight = count[code].astype(np.float64) ** -learner.exponent
    if "weight" in benchmark.extra:
        weight = weight * np.asarray(benchmark.extra["weight"], np.float64)[train]
    if not len(train) or np.ptp(weight) == 0:
        return {}
    name = _weight_name(estimator)
    if name:
        return {name: weight / weight.mean()}
    if hasattr(learner, "by"):
        raise ShiftBenchError(f"Model '{label}' takes no sample weights, so weights by {learner.by} have no effect. "
                              "Choose an estimator whose fit has sample_weight, or fit it without weights.")
    if say is not None:
        say(f"{label}: takes no sample weights, so the benchmark's column 'weight' has no effect.")
    return {}


def _weight_name(estimator: Any) -> str:
    """The name of the weights in `fit`; a pipeline passes them to its last step by that step's name. Empty: none."""
    from sklearn.utils.validation import has_fit_parameter

    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        inner = _weight_name(last)
        return f"{name}__{inner}" if inner else ""
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else ""


def _fitted_scores(benchmark: Benchmark, estimator: Any, x: Any, weight: Mapping[str, Floats], label: str) -> Any:
    """Fit, and return the scores of every row: log-probabilities, the classes where an estimator has no probabilities,
    or numbers."""
    train, target = benchmark.rows("train"), benchmark.target
    if not len(train):
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no rows in split 'train' to learn from.")
    y = benchmark.label if target.has_classes else target.numbers(benchmark.extra, np.arange(len(benchmark)))
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    try:
        estimator.fit(_take(x, train), y[train], **weight)
        if not target.has_classes or not hasattr(estimator, "predict_proba"):
            argument, values = "predictions", np.asarray(estimator.predict(x))
        else:
            argument, probabilities = "probabilities", np.asarray(estimator.predict_proba(x))
            values = np.zeros((len(benchmark), len(benchmark.names["label"])))
            values[:, np.asarray(estimator.classes_, np.int64)] = probabilities  # training may lack a class
    except Exception as problem:  # an estimator may raise anything, and the user should see which one failed
        raise ShiftBenchError(f"Model '{label}' fails on {len(train):,} training items ({type(problem).__name__}: "
                              f"{first_line(problem)}).") from problem
    if argument == "predictions" and target.has_classes:
        values = np.asarray(benchmark.names["label"], np.str_)[values.astype(np.int64)]
    return scores_of_array(argument, values, benchmark, None, benchmark.items)


def _take(x: Any, rows: Ints) -> Any:
    return x.iloc[rows] if hasattr(x, "iloc") else x[rows]
