"""Training on what is no class, on feature columns and in batches of some domains."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.checks import check as findings
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.methods import METHODS
from shiftbench.shifts.splits import Given
from shiftbench.training.batches import Batches, Data
from shiftbench.training.evaluate import evaluate
from shiftbench.training.inputs import PADDING, Ragged
from shiftbench.training.loop import Fitting, learn, train
from shiftbench.training.run import Run
from tests.toys import CPU, FEATURES

N = 160


def table_of(kind: str, seed: int = 0) -> Collection:
    """Four feature columns; targets that are functions of them, or words."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 4)) * [1, 10, 0.1, 3] + [0, 100, 0, 0]
    raw = {"number": x[:, :1] + x[:, 1:2] / 10 - 10, "tasks": (x[:, :2] > [0, 100]).astype(float),
           "class": (x[:, :1] > 0).astype(float)}[kind]
    if kind == "tasks":
        raw[rng.random(raw.shape) < 0.3] = np.nan
    targets = {"label": np.where(raw[:, 0] > 0, "yes", "no")} if kind == "class" else {
        f"y{k}": raw[:, k] for k in range(raw.shape[1])}
    factors = {**{f"feature:x{k}": x[:, k] for k in range(4)}, **targets,
               "hospital": np.asarray([f"h{k}" for k in rng.integers(0, 8, N)]),
               "split": np.asarray(["train", "id_val", "test"])[np.repeat([0, 1, 2], [N // 2, N // 4, N // 4])]}
    return Collection("table", np.asarray([f"i{k}" for k in range(N)]), factors=factors)


def built(kind: str, seed: int = 0) -> tuple[Collection, Benchmark]:
    collection = table_of(kind, seed)
    label = "label" if kind == "class" else "y*"
    return collection, Given(label, domain="hospital", target=kind).build(collection)


@pytest.mark.learning
@pytest.mark.parametrize("kind", ["class", "number", "tasks"])
def test_a_head_learns_the_columns_of_a_table(kind, tmp_path):
    """Feature columns are standardised by the training rows, and any kind of target is learned from them."""
    collection, benchmark = built(kind)
    run = Run(benchmark.digest, model="linear", features="columns", steps=150, lr=0.05, eval_every=50)
    folder = train(benchmark, collection, run, tmp_path)
    found = Predictions.load(folder / "predictions.parquet", benchmark)
    test = benchmark.rows("test")
    said = found.scores[test]
    if kind == "class":
        assert (said.argmax(axis=1) == benchmark.label[test]).mean() > 0.9
    else:
        for column, name in enumerate(benchmark.target.columns):
            truth = benchmark.extra[name][test]
            known = ~np.isnan(truth)
            # The sign of a normal number and the number itself correlate by 0.8 where all is known.
            assert np.corrcoef(truth[known], said[known, column])[0, 1] > 0.6


@pytest.mark.learning
def test_numbers_come_back_in_their_own_units(tmp_path):
    """However large and far from 0 they are: predictions are about as far from the truth as their spread allows."""
    collection, _ = built("number")
    wide = replace(collection, factors={**collection.factors, "y0": 1e4 + 500 * collection.factors["y0"]})
    benchmark = Given("y*", domain="hospital", target="number").build(wide)
    run = Run(benchmark.digest, model="linear", features="columns", steps=300, lr=0.02)
    found = Predictions.load(train(benchmark, wide, run, tmp_path) / "predictions.parquet", benchmark)
    truth = benchmark.extra["y0"]
    assert np.abs(found.scores[:, 0] - truth).mean() < 0.2 * truth.std()


def test_columns_are_standardised_by_training_rows_alone():
    """What test rows look like changes nothing of what training rows become."""
    from shiftbench.training.inputs import inputs

    collection, benchmark = built("class")
    run = Run(benchmark.digest, model="linear", features="columns")
    x = inputs(benchmark, collection, run)[benchmark.rows("train")]
    assert torch.allclose(x.mean(dim=0), torch.zeros(4), atol=1e-5)
    assert torch.allclose(x.std(dim=0, unbiased=False), torch.ones(4), atol=1e-5)
    moved = {name: np.where(collection.factors["split"] == "test", values + 99, values)
             if name.startswith("feature:") else values for name, values in collection.factors.items()}
    other = Collection("table", collection.items, factors=moved)
    assert torch.equal(inputs(benchmark, other, run)[benchmark.rows("train")], x)


@pytest.mark.learning
@pytest.mark.parametrize("kind", ["number", "tasks"])
def test_every_method_that_says_so_learns_the_target(kind):
    """A method that lists a kind among its targets learns it; weights are chosen on the kind's own measure."""
    collection, benchmark = built(kind)
    x = torch.from_numpy(np.stack([collection.factors[f"feature:x{k}"] for k in range(4)], axis=1).astype(np.float32))
    data = Data(benchmark, (x - x.mean(dim=0)) / x.std(dim=0), CPU)
    able = [name for name, one in METHODS.items()
            if kind in one.targets and one.needs in ("", "features") and not one.model]
    assert {"erm", "coral", "irm", "group_dro"} <= set(able)
    light = {name: {"penalty": 0.01} for name in ("irm", "coral", "dann", "mmd", "vrex")}
    light |= {name: {"unlabelled": "id_val"} for name in able if METHODS[name]().unlabelled_split()}
    tried = [Fitting(Run(benchmark.digest, name, light.get(name, {}), "mlp", features=FEATURES, steps=60, lr=0.04,
                         batch_size=8, eval_every=20), data) for name in able]
    learn(tried)
    for one in tried:
        assert one.problem is None, (one.run.method, one.problem)
        found = evaluate(one.run, data, one.learned.net, "test")
        assert found["r" if kind == "number" else "mean_ap"] > 0.7, one.run.method


def test_a_number_may_be_chosen_by_its_worst_group():
    """`worst_group` is the lowest r of a group, of those that have more than one item."""
    _, benchmark = built("number")
    data = Data(benchmark, torch.randn(N, 4), CPU)
    one = Fitting(Run(benchmark.digest, model="linear", features=FEATURES, steps=5, select_on="worst_group"), data)
    learn([one])
    rows = benchmark.rows("test")
    found = evaluate(one.run, data, one.learned.net, "test")
    said = data.outputs(one.learned.net, rows)[:, 0].numpy()
    truth, group = benchmark.extra["y0"][rows], benchmark.group[rows]
    each = [np.corrcoef(truth[group == code], said[group == code])[0, 1] for code in np.unique(group)
            if (group == code).sum() > 1]
    assert found["worst_group_r"] == pytest.approx(min(each), abs=1e-5)


def test_weights_are_chosen_on_the_split_that_the_run_says(tmp_path):
    """`select_split = val` looks at items from after the shift, as WILDS does; a split that is not there is told."""
    collection, benchmark = built("class")
    split = np.where(benchmark.split == "id_val", np.where(np.arange(N) % 2, "val", "id_val"), benchmark.split)
    both = replace(benchmark, split=split)
    run = Run(both.digest, model="linear", features="columns", steps=20, eval_every=10, select_split="val")
    folder = train(both, collection, run, tmp_path)
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert {line["split"] for line in lines} == {"val"}
    with pytest.raises(ShiftBenchError, match="select_split=val, but benchmark 'given' has no items in it"):
        train(benchmark, collection, replace(run, benchmark=benchmark.digest), tmp_path)


def test_a_method_of_classes_refuses_numbers():
    """The error names the methods that can."""
    _, benchmark = built("number")
    one = Fitting(Run(benchmark.digest, "jtt", model="mlp", features=FEATURES), Data(benchmark, torch.randn(N, 4), CPU))
    learn([one])
    assert isinstance(one.problem, ShiftBenchError)
    assert "asks for numbers" in str(one.problem)
    assert "group_dro" in str(one.problem)


def test_a_model_of_classes_refuses_boxes():
    """The error names the models that can."""
    collection, _ = built("class")
    benchmark = Benchmark.of(collection, None, 0, np.arange(N), collection.factors["split"],
                             label=np.full(N, "box"), domain=collection.factors["hospital"],
                             extra={"boxes": np.full(N, "0 0 1 1")}, target=_boxes())
    one = Fitting(Run(benchmark.digest, model="small-cnn"), Data(benchmark, torch.zeros(N, 8, 8, 3).byte(), CPU))
    learn([one])
    assert "faster-rcnn" in str(one.problem)


def _boxes():
    from shiftbench.data.target import BoxTarget

    return BoxTarget(("boxes",))


def test_the_target_is_part_of_the_benchmark_on_disk(tmp_path):
    """A saved benchmark comes back with its target, its truth and its gaps."""
    _, benchmark = built("tasks")
    benchmark.save(tmp_path / "b")
    again = Benchmark.load(tmp_path / "b")
    assert again.target == benchmark.target
    assert again.names["label"] == ("y0", "y1")
    assert np.array_equal(again.extra["y1"], benchmark.extra["y1"], equal_nan=True)


@given(pools=st.integers(2, 9), at_once=st.integers(1, 12), size=st.integers(1, 5), step=st.integers(0, 1000))
def test_a_batch_of_some_domains_has_as_many_items_of_each(pools, at_once, size, step):
    """`domains_per_batch` domains, different ones, `batch_size` items each; a function of seed and step alone."""
    codes = np.repeat(np.arange(pools), 4)
    batches = Batches(codes, size, 0, at_once=at_once)
    batch = batches.block(step, 1)[0]
    assert len(batch) == len(batches)
    found, count = np.unique(codes[batch], return_counts=True)
    assert len(found) == min(at_once, pools)
    assert (count == size).all()
    assert np.array_equal(Batches(codes, size, 0, at_once=at_once).block(step, 2)[0], batch)


def test_all_domains_come_equally_often():
    """Which domains a batch takes is drawn alike."""
    codes = np.repeat(np.arange(10), [1, 2, 3, 4, 5, 6, 7, 8, 9, 100])
    index = Batches(codes, 2, 0, at_once=3).block(0, 2000)
    share = np.bincount(codes[index].ravel()) / index.size
    assert np.abs(share - 0.1).max() < 0.02


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_ragged_inputs_are_padded_behind_their_end(lengths, seed):
    """A taken item has its own lines, then padding up to the longest of the batch."""
    rng = np.random.default_rng(seed)
    values = torch.from_numpy(rng.integers(0, 9, (sum(lengths), 3)))
    start = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
    rows = torch.from_numpy(rng.integers(0, len(lengths), 4))
    taken = Ragged(values, start).take(rows)
    for row, found in zip(rows.tolist(), taken, strict=True):
        assert torch.equal(found[:lengths[row]], values[start[row]:start[row + 1]])
        assert (found[lengths[row]:] == PADDING).all()
    assert taken.shape[1] == max(lengths[row] for row in rows.tolist())


def test_anybodys_numbers_are_read(tmp_path):
    """A file of numbers has a column `prediction`; numbers from 0 to 1 stay what they are."""
    _, benchmark = built("number")
    said = np.linspace(0, 1, N)
    rows = "".join(f"{item},{value:.6f},x\n" for item, value in zip(benchmark.items, said, strict=True))
    (tmp_path / "mine.csv").write_text("item,prediction,label\n" + rows)
    found = Predictions.load(tmp_path / "mine.csv", benchmark)
    np.testing.assert_allclose(found.scores[:, 0], said, atol=1e-6)
    (tmp_path / "yours.csv").write_text("item,label\n" + "".join(f"{item},1.5\n" for item in benchmark.items))
    with pytest.raises(ShiftBenchError, match="needs a column 'prediction'"):
        Predictions.load(tmp_path / "yours.csv", benchmark)


def test_checks_look_at_the_target():
    """One number for all, or a task that is always yes, is told; a fit benchmark of numbers has no classes to miss."""
    _, benchmark = built("number")
    assert not [finding for finding in findings(benchmark) if finding.unfit]
    same = replace(benchmark, extra={"y0": np.ones(N)})
    assert {finding.what for finding in findings(same) if finding.unfit} == {"one answer"}
    _, benchmark = built("tasks")
    always = replace(benchmark, extra={**benchmark.extra, "y1": np.where(np.isnan(benchmark.extra["y1"]), np.nan, 1.0)})
    told = [finding for finding in findings(always) if finding.what == "one answer"]
    assert told
    assert not any(finding.unfit for finding in told)
