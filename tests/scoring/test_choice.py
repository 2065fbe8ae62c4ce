"""Weights are chosen by the number that `score` writes: one scorer in the run and after it."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from shiftbench.compat.wilds import evaluate
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import read_predictions
from shiftbench.data.scores import ALL, Measure
from shiftbench.methods.presets import PUBLISHED, preset_settings
from shiftbench.models import build
from shiftbench.readers.wilds.comments import IDENTITIES
from shiftbench.readers.wilds.wheat import SESSIONS
from shiftbench.scoring import score
from shiftbench.scoring.intervals import CORRECTED, values_of
from shiftbench.shifts.splits import Given
from shiftbench.shifts.suites import WILDS
from shiftbench.training.batches import Data
from shiftbench.training.evaluate import evaluate as evaluate_split
from shiftbench.training.evaluate import rank
from shiftbench.training.loop import Fitting, learn, train
from shiftbench.training.run import SELECTIONS, Run
from tests.toys import CPU, FEATURES
from tests.training.test_tasks import code, molecules, squares  # noqa: F401

torch.set_num_threads(1)
N = 400


def table(kind: str) -> tuple[Collection, Benchmark]:
    """Feature columns, a target that follows from them, groups and groupings, some of which overlap."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 4))
    signal = x[:, 0] + 0.5 * x[:, 1] + rng.normal(size=N)
    raw = {"class": {"label": np.asarray(["no", "maybe", "yes"])[np.digitize(signal, [-0.5, 0.5])]},
           "number": {"y0": signal, "y1": 100 * signal + 7},
           "tasks": {f"y{k}": np.where(rng.random(N) < 0.2, np.nan, x[:, k] > 0.3) for k in range(3)}}[kind]
    hard = np.asarray(["hard_positive", "hard_negative", "easy", "easy"])[rng.integers(0, 4, N)]
    collection = Collection("table", np.asarray([f"i{k}" for k in range(N)]), factors={
        **{f"feature:x{k}": x[:, k] for k in range(4)}, **raw, "kind": hard,
        "male": rng.integers(0, 2, N), "female": rng.integers(0, 2, N), "user": rng.integers(0, 30, N),
        "region": np.asarray(["Asia", "Africa", "Other"])[rng.integers(0, 3, N)],
        "split": np.asarray(["train", "id_val", "val", "test"])[np.arange(N) % 4]})
    if kind != "class":
        return collection, Given("y*", domain="region", target=kind).build(collection)
    shift = Given(domain="region", score_by=("male+female,label", "region!Other", "user"), keep=("kind",),
                  headline="worst_group_accuracy[male+female,label]")
    return collection, shift.build(collection)


MODELS = {"class": {"model": "linear", "features": "columns"}, "number": {"model": "linear", "features": "columns"},
          "tasks": {"model": "linear", "features": "columns"}, "boxes": {"model": "faster-rcnn-small", "batch_size": 2},
          "tokens": {"model": "code-transformer"}, "molecules": {"model": "gin-small"}}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "select_on"), [
    *((kind, select_on) for kind in ("class", "number", "tasks") for select_on in SELECTIONS),
    ("boxes", "headline"), ("tokens", "headline"), ("tokens", "loss"), ("molecules", "headline"),
])
def test_the_number_in_the_log_is_the_one_that_score_writes(kind, select_on, tmp_path, request):
    """Of every kind of target and every metric: the line of the chosen step has the score of the run's predictions."""
    fixture = {"boxes": "squares", "tokens": "code", "molecules": "molecules"}.get(kind)
    collection, benchmark = request.getfixturevalue(fixture) if fixture else table(kind)
    steps, every = (2, 1) if kind == "boxes" else (40, 8)
    run = Run(benchmark.digest, steps=steps, eval_every=every, lr=0.03, select_on=select_on, **MODELS[kind])
    folder = train(benchmark, collection, run, tmp_path)
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    best = lines[-1]["best_step"] if select_on != "last" else steps
    line = next(line for line in lines if line["step"] == best)
    scores = score(benchmark, read_predictions(folder / "predictions.parquet", benchmark)).where(split="id_val")
    wholes = {str(Measure(row["metric"], row["by"])): row["value"] for row in scores
              if row["group"] == ALL or row["metric"].startswith("worst_")}
    wholes = {metric: value for metric, value in wholes.items() if CORRECTED not in metric and math.isfinite(value)}
    assert len(wholes) > 1
    logged = {key.removeprefix("id_val_"): value for key, value in line.items()
              if key.startswith("id_val_") and key != "id_val_loss"}
    assert logged == wholes
    if select_on == "headline":
        metric = f"id_val_{benchmark.headline}"
        assert line[metric] == max(other.get(metric, -1) for other in lines)


def test_macro_f1_is_of_the_classes_in_the_truth():
    """A class that is only predicted is no term of the mean: 5/6, where counting it would give 5/9."""
    truth, said = np.asarray([0, 0, 1, 1, 2]), np.asarray([0, 2, 1, 1, 2])
    collection = Collection("five", np.asarray(list("abcde")))
    benchmark = Benchmark.of(collection, None, 0, np.arange(5), np.asarray(["val"] * 4 + ["train"]),
                             label=np.asarray(["x", "y", "z"])[truth], domain=np.zeros(5, np.int64))
    net = build("linear", 3, 3)
    net.load_state_dict({"head.weight": torch.eye(3), "head.bias": torch.zeros(3)})
    run = Run(benchmark.digest, model="linear", features=FEATURES)
    x = torch.eye(3)[said[["abcde".index(item) for item in benchmark.items]]]
    values = evaluate_split(run, Data(benchmark, x, CPU), net, "val")
    assert values["macro_f1"] == pytest.approx(5 / 6)
    assert values["accuracy"] == 0.75


def test_predictions_do_not_depend_on_which_rows_lie_beside(tmp_path):
    """A finished run predicts split by split, so that its scores are those it was chosen by to the last bit."""
    collection, benchmark = table("number")
    run = Run(benchmark.digest, model="linear", features="columns", steps=5, eval_every=5, select_on="headline")
    folder = train(benchmark, collection, run, tmp_path)
    order = np.random.default_rng(0).permutation(N)
    found = read_predictions(folder / "predictions.parquet", benchmark)
    mixed = replace(found, item=found.item[order], split=found.split[order], scores=found.scores[order])
    assert np.array_equal(found.item, benchmark.items)
    assert score(benchmark, mixed) == score(benchmark, found)


def test_a_headline_that_is_not_scored_is_told():
    """Before the first step, with what is scored; a split without such a group is told as well."""
    _, benchmark = table("class")
    for card in ({"headline": "worst_group_accuracy[region!Other]"}, {"headline": "acuracy"}):
        odd = replace(benchmark, card={**benchmark.card, "groupings": [], **card})
        one = Fitting(Run(odd.digest, model="linear", features=FEATURES, select_on="headline"),
                      Data(odd, torch.zeros(N, 4), CPU))
        learn([one])
        assert isinstance(one.problem, ShiftBenchError)
        assert card["headline"] in str(one.problem)
        assert "macro_f1" in str(one.problem)


def test_what_is_not_defined_ranks_last():
    """Numbers that do not vary have no r: any weights that have one are better, and the run goes on."""
    _, benchmark = table("number")
    data = Data(benchmark, torch.zeros(N, 4), CPU)
    still = rank(data, "headline", {"mse": 1.0, "loss": 1.0})
    assert still < rank(data, "headline", {"worst_group_r": -0.9, "loss": 9.0})
    assert rank(data, "headline", {"mse": 1.0, "loss": 0.5}) > still


# WILDS: what chooses is the package's own headline


def world(name: str, factors: dict[str, np.ndarray], **parts) -> tuple[Collection, Benchmark]:
    rng = np.random.default_rng(0)
    split = np.asarray(["train", "val", "test"])[rng.integers(0, 3, N)]
    known = {"y": rng.integers(0, 4, N)} if not parts and "label" not in factors else {}
    known = {**known, **({"label": np.asarray([f"class {y}" for y in known["y"]])} if known else {})}
    collection = Collection(name, np.asarray([f"i{k}" for k in range(N)]),
                            factors={**known, **factors, "split": split, "split_A": split}, **parts)
    return collection, WILDS["poverty-A" if name == "poverty" else name].build(collection)


def wilds_world(name: str) -> tuple[Collection, Benchmark, dict[str, np.ndarray], dict[str, object]]:
    """A small data set with the columns of one of the ten, the package's metadata and the names that only data have."""
    rng = np.random.default_rng(1)
    regions = np.asarray(["Asia", "Europe", "Africa", "Americas", "Oceania", "Other"])
    codes = {column: rng.integers(0, many, N) for column, many in {
        **dict.fromkeys(IDENTITIES, 2), "region": 6, "year": 16, "user": 25, "location": 9, "hospital": 5, "slide": 20,
        "cell_type": 4, "experiment": 7, "urban": 2, "session": 6, "repo": 8, "scaffold": 30, "country": 5}.items()}
    user = np.asarray([f"user {number:02}" for number in codes["user"]])
    factors = {
        "iwildcam": {"location": codes["location"]},
        "camelyon17": {"hospital": codes["hospital"], "slide": codes["slide"]},
        "rxrx1": {"experiment": codes["experiment"], "cell_type": np.asarray(
            ["HEPG2", "HUVEC", "RPE", "U2OS"])[codes["cell_type"]]},
        "civilcomments": {"label": np.asarray(["civil", "toxic"])[codes["urban"]], "y": codes["urban"],
                          **{name: codes[name] for name in IDENTITIES}},
        "fmow": {"region": regions[codes["region"]], "year": 2002 + codes["year"]}, "amazon": {"user": user},
        "poverty": {"label": rng.normal(size=N), "y": np.zeros(N), "country": codes["country"].astype(str),
                    "urban": np.asarray(["rural", "urban"])[codes["urban"]]},
        "molpcba": {f"y{k:03}": np.where(rng.random(N) < 0.3, np.nan, rng.integers(0, 2, N)) for k in range(4)} | {
            "label": np.zeros(N), "scaffold": codes["scaffold"]},
        "globalwheat": {"session": np.asarray(SESSIONS)[codes["session"]]},
        "py150": {"repo": codes["repo"].astype(str)},
    }[name]
    parts: dict[str, object] = {}
    if name == "globalwheat":
        corner = rng.random((N, 2)) / 2
        parts["tags"] = Tags.of(np.arange(N), np.zeros(N, np.int64), ("wheat_head",),
                                boxes=np.concatenate([corner, np.full((N, 2), 0.3)], axis=1))
    if name == "py150":
        lines = [" ".join(map(str, line)) for pair in zip(rng.integers(0, 9, (N, 6)), rng.integers(0, 7, (N, 6)),
                                                          strict=True) for line in pair]
        parts["texts"] = Texts(np.repeat(np.arange(N), 2), np.asarray(lines, np.object_))
    collection, benchmark = world(name, factors, **parts)
    return collection, benchmark, codes, {"user": np.unique(user).tolist()}


def package_headline(name: str, benchmark: Benchmark, codes: dict[str, np.ndarray], names: dict[str, object],
                     outputs: object) -> float:
    """The headline of the package's `eval` on `val`, from metadata as it has them."""
    rows = benchmark.rows("val")
    item = np.asarray([int(word[1:]) for word in benchmark.items[rows]])
    fields = {"iwildcam": ("location",), "camelyon17": ("hospital", "slide"), "rxrx1": ("cell_type",),
              "civilcomments": IDENTITIES, "fmow": ("region", "year"), "amazon": ("user",), "poverty": ("urban",),
              "molpcba": ("scaffold",), "globalwheat": ("session",), "py150": ("repo",)}[name]
    metadata = np.stack([codes[field][item] for field in fields], axis=1)
    key = {"iwildcam": "F1-macro_all", "camelyon17": "acc_avg", "rxrx1": "acc_avg", "molpcba": "ap",
           "globalwheat": "detection_acc_avg_dom", "civilcomments": "acc_wg", "fmow": "acc_worst_region",
           "poverty": "r_wg", "amazon": "10th_percentile_acc", "py150": "acc"}[name]
    data = Data(benchmark, torch.zeros(len(benchmark), 6), CPU)
    if name == "globalwheat":
        truth, predicted = ([{"boxes": torch.from_numpy(np.array(boxes))} for boxes in lists] for lists in (
            true_boxes(benchmark, rows), outputs.lists("boxes")))
        for one, scores in zip(predicted, outputs.lists("scores"), strict=True):
            one["scores"] = torch.from_numpy(np.array(scores))
        return evaluate(name, predicted, truth, metadata, fields, compat=None)[key]
    if name == "py150":
        from shiftbench.data.target import kinds_of, tokens_of

        truth = tokens_of(benchmark.extra["tokens"])[rows, 1:]
        kinds = kinds_of(benchmark.extra["kinds"])[rows, 1:]
        whole = np.concatenate([metadata, kinds, np.ones((len(rows), 1), int)], axis=1)
        return evaluate(name, np.stack(outputs.lists("tokens")), truth.astype(float), whole, compat=None)[key]
    if name in ("molpcba", "poverty"):
        truth = np.stack([benchmark.extra[column][rows] for column in benchmark.target.columns], axis=1)
        return evaluate("ogb-molpcba" if name == "molpcba" else name, outputs, truth, metadata, fields,
                        compat=None)[key]
    assert data.has_classes
    label = benchmark.label[rows]
    return evaluate(name, outputs.argmax(axis=1), label, np.column_stack([metadata, label]), (*fields, "y"),
                    {"user": names["user"]} if name == "amazon" else None, compat=None)[key]


def true_boxes(benchmark: Benchmark, rows: np.ndarray) -> list[np.ndarray]:
    return [np.asarray([[float(side) for side in box.split()] for box in text.split(";")], np.float32)
            for text in benchmark.extra["boxes"][rows]]


def guesses(benchmark: Benchmark, rows: np.ndarray, seed: int) -> object:
    """What some model says of these rows: right more often than not."""
    rng = np.random.default_rng(seed)
    kind, n = benchmark.target.kind, len(rows)
    if kind == "boxes":
        boxes = [boxes + 0.1 * rng.random() for boxes in true_boxes(benchmark, rows)]
        return Answers.of(benchmark.items[rows], benchmark.split[rows],
                          {"boxes": boxes, "scores": [np.full(len(one), 0.9) for one in boxes]})
    if kind == "tokens":
        from shiftbench.data.target import tokens_of

        truth = tokens_of(benchmark.extra["tokens"])[rows, 1:]
        return Answers.of(benchmark.items[rows], benchmark.split[rows], {"tokens": list(
            np.where(rng.random(truth.shape) < 0.6, truth, rng.integers(0, 9, truth.shape)))})
    if kind == "class":
        return (np.eye(len(benchmark.names["label"]))[benchmark.label[rows]] + rng.normal(
            size=(n, len(benchmark.names["label"])))).astype(np.float32)
    truth = np.stack([benchmark.extra[column][rows] for column in benchmark.target.columns], axis=1)
    return (np.nan_to_num(truth) + rng.normal(size=truth.shape)).astype(np.float32)


@pytest.mark.parametrize("name", PUBLISHED)
def test_wilds_weights_are_chosen_by_the_packages_headline(name):
    """A preset's run ranks weights on `val` by the number that the package's `eval` puts first."""
    _, benchmark, codes, names = wilds_world(name)
    preset, rows = preset_settings(f"wilds-{name}", "erm"), benchmark.rows("val")
    assert (preset["select_on"], preset["select_split"]) == ("headline", "val")
    data = Data(benchmark, torch.zeros(len(benchmark), 6), CPU)
    for seed in range(3):
        outputs = guesses(benchmark, rows, seed)
        values = values_of(data.scorer("val")([outputs], [0], None))
        assert rank(data, preset["select_on"], values)[0] == pytest.approx(
            package_headline(name, benchmark, codes, names, outputs), abs=1e-9)
        plain, own = (rank(data, select_on, values)[0] for select_on in ("accuracy", "headline"))
        assert (plain == own) == (name in ("camelyon17", "rxrx1", "molpcba", "py150"))
