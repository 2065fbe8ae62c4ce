"""Training conflicts: the regression and its intervals, the sign of a planted conflict, order, files and messages."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import shiftbench as sb
from shiftbench.conflict import Settings
from shiftbench.conflict.heatmap import order
from shiftbench.conflict.matrix import IN, LEFT_OUT, OUT, Side, rows_left_out, sides
from shiftbench.conflict.measure import ByActivations, ByWeights, centred, measure, record
from shiftbench.conflict.regression import STRETCH, batches, effects, expanded, shares
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import read_json
from shiftbench.core.tables import read_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection, Tags
from shiftbench.metagraph.subsets import parse_subset
from shiftbench.models import build
from shiftbench.scoring.intervals import interval
from shiftbench.shifts import Recipe
from shiftbench.training.batches import Data
from tests.toys import CPU, FEATURES, toy_rows

PLACES = {"cat(sofa)": 0, "dog(sofa)": 0, "cat(tree)": 1, "dog(boat)": 2, "cat(easy)": 3, "dog(easy)": 4}
"""Which feature a subset of the toy is large in: cats and dogs on the sofa look alike."""


def toy(n: int = 40, width: int = 10) -> tuple[Benchmark, torch.Tensor]:
    """n items of each subset in train, half as many in id_test and, under the same names, in test."""
    rng = np.random.default_rng(0)
    groups = np.repeat(list(PLACES), 2 * n)
    split = np.tile(np.repeat(["train", "id_test", "test"], [n, n // 2, n // 2]), len(PLACES))
    label = np.asarray([name[:3] for name in groups])
    items = Collection("toy", np.asarray([f"i{k:04d}" for k in range(len(groups))]))
    made = Benchmark.of(items, None, 0, np.arange(len(groups)), split, label=label, domain=split, group=groups)
    x = rng.normal(size=(len(made), width)) * 0.3
    name = np.asarray(made.names["group"])[made.group]
    far = np.asarray([8.0 if "easy" in word else 2.0 for word in name])
    x[np.arange(len(made)), [PLACES[word] for word in name]] += far
    return made, torch.from_numpy(x.astype(np.float32))


def measured(**changes):
    """The conflicts of the toy."""
    benchmark, x = toy()
    wanted = Settings(**{"model": "linear", "features": FEATURES, "steps": 80, "repeats": 5, "lr": 0.02, **changes})
    train, evaluation = sides(benchmark, wanted.train_items, wanted.eval_items, wanted.seed)
    return measure(Data(benchmark, centred(x, benchmark, train), CPU), train, evaluation, wanted)


# The sign


@pytest.mark.learning
@pytest.mark.parametrize("changes", [
    {}, {"makeup": "plain", "steps": 200}, {"model": "mlp", "lr": 0.05}, {"repeats": 1, "steps": 450}], ids=str)
def test_a_planted_conflict_has_a_negative_sign(changes):
    """A cat and a dog in the same place hurt each other, surely so; every subset helps itself; both kinds agree."""
    found = measured(**changes)
    for kind in (IN, OUT):
        for one, other in (("cat(sofa)", "dog(sofa)"), ("dog(sofa)", "cat(sofa)")):
            assert found.at(one, other, kind)["high"] < 0
            assert found.at(one, one, kind)["low"] > 0
    assert {found.strongest()[0]["train"], found.strongest()[0]["evaluation"]} == {"cat(sofa)", "dog(sofa)"}
    assert np.abs(found.effect.value).max() == pytest.approx(1)
    assert (found.effect.low <= found.effect.value).all()
    assert (found.effect.value <= found.effect.high).all()


@pytest.mark.learning
def test_easy_subsets_contribute_little():
    """Subsets that are learned at once and look like no other are named, and they are right nearly always."""
    found = measured(steps=200)
    assert set(found.little) == {"cat(easy)", "dog(easy)"}
    facts = {part["name"]: part for part in found.to_json()["subsets"]}
    assert min(facts["cat(easy)"]["accuracy"], facts["dog(easy)"]["accuracy"]) > 0.95 > facts["cat(sofa)"]["accuracy"]


@pytest.mark.learning
def test_a_subset_left_out_is_evaluated_and_not_trained_on():
    """The paper's check whether a subset is too easy: it is no row any more, and its accuracy is that of unseen items.

    An easy cat, far out in a direction that no other cat shares, is at chance without training on it. A cat with a tree
    and an easy background is in the group of the tree, and is left out with the others.
    """
    wanted = Settings(model="linear", features=FEATURES, steps=80, repeats=5, lr=0.02, leave_out="cat(easy)")
    benchmark, x = toy()
    group = np.asarray(benchmark.names["group"])[benchmark.group]
    both = benchmark.rows("train")[group[benchmark.rows("train")] == "cat(tree)"][:3]
    tags = [[name[:3], name[4:-1], *(["easy"] if row in both else [])] for row, name in enumerate(group)]
    names = sorted({word for own in tags for word in own})
    row, code = zip(*((row, names.index(word)) for row, own in enumerate(tags) for word in set(own)), strict=True)
    collection = Collection("toy", benchmark.items, tags=Tags.of(np.asarray(row), np.asarray(code), names,
                                                                 ["object"] * len(names)))
    train, evaluation = sides(benchmark, 50, 0, 0, rows_left_out(benchmark, collection, wanted.leave_out))
    assert "cat(easy)" not in train.names
    assert not np.isin(both, train.row).any()
    own = evaluation.code == evaluation.names.index("cat(easy)", evaluation.kind.tolist().index(LEFT_OUT))
    assert set(benchmark.split[evaluation.row[own]]) == {"train", "id_test"}
    assert set(both) < set(evaluation.row[own])
    assert not np.intersect1d(train.row, evaluation.row).size
    found = measure(Data(benchmark, centred(x, benchmark, train), CPU), train, evaluation, wanted)
    (left,) = found.to_json()["left_out"]
    assert (left["name"], left["items"]) == ("cat(easy)", int(own.sum()))
    assert left["low"] < left["accuracy"] < left["high"]
    inside = {part["name"]: part["accuracy"] for part in measured().to_json()["subsets"]}
    assert left["accuracy"] < 0.9 < inside["cat(easy)"]
    assert found.to_json()["order"][LEFT_OUT] == ["cat(easy)"]


@pytest.mark.learning
def test_effects_are_inner_products_of_gradients():
    """While a linear net hardly moves, the effect of i on j is lr ⟨g_i, g_j⟩, g the gradient of a subset's loss."""
    benchmark, x = toy()
    wanted = Settings(model="linear", features=FEATURES, steps=200, repeats=2, lr=1e-4, skip=0)
    train, evaluation = sides(benchmark, 0, 0, 0)
    inputs = centred(x, benchmark, train)
    data = Data(benchmark, inputs, CPU)
    expected = np.mean([_products(benchmark, inputs, train, evaluation, wanted.run("", repeat).seed)
                        for repeat in range(2)], axis=0) * wanted.lr
    records = [record(data, train, evaluation, wanted, repeat) for repeat in range(2)]
    found = effects([one.share for one in records], [one.drop for one in records]).value
    clear = np.abs(expected) > 0.05 * np.abs(expected).max()
    assert (np.sign(found) == np.sign(expected))[clear].all()
    assert found == pytest.approx(expected, abs=0.05 * np.abs(expected).max())
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.995


def _products(benchmark, x, train: Side, evaluation: Side, seed: int):
    net = build("linear", 2, x.shape[1], seed=seed)

    def gradients(side: Side):
        rows = []
        for code in range(len(side.names)):
            mine = side.row[side.code == code]
            loss = F.cross_entropy(net(x[torch.from_numpy(mine)]), torch.from_numpy(benchmark.label[mine]))
            rows.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(net.parameters()))]))
        return torch.stack(rows).double().numpy()

    return gradients(train) @ gradients(evaluation).T


def test_a_record_is_what_plain_gradient_descent_does():
    """Shares and drops are those of a from-scratch logistic regression that takes the same steps."""
    benchmark, x = toy()
    wanted = Settings(model="linear", features=FEATURES, steps=12, skip=0.25, lr=0.05, train_items=10, eval_items=7)
    train, evaluation = sides(benchmark, 10, 7, 0)
    assert set(train.sizes) == {10}
    assert set(evaluation.sizes) == {7}
    seed = wanted.run("", 0).seed
    drawn = train.row[batches(train.code, "varied", 64, 12, seed)]
    net = build("linear", 2, x.shape[1], seed=seed)
    weight, bias = (part.detach().double().numpy() for part in (net.head.weight, net.head.bias))
    points, truth = x.double().numpy(), np.eye(2)[benchmark.label]
    losses, groups = [], []

    def chances(rows):
        odds = np.exp(points[rows] @ weight.T + bias)
        return odds / odds.sum(axis=1, keepdims=True)

    for step in range(13):
        item = -np.log((chances(evaluation.row) * truth[evaluation.row]).sum(axis=1))
        losses.append(np.bincount(evaluation.code, item) / 7)
        if step < 12:
            rows = drawn[step]
            slope = (chances(rows) - truth[rows]) / 64
            weight, bias = weight - 0.05 * slope.T @ points[rows], bias - 0.05 * slope.sum(axis=0)
            groups.append([(benchmark.group[rows] == benchmark.names["group"].index(name)).mean()
                           for name in train.names])
    found = record(Data(benchmark, x, CPU), train, evaluation, wanted, 0)
    assert found.drop == pytest.approx(-np.diff(losses, axis=0)[3:], abs=1e-6)
    assert found.share == pytest.approx(np.asarray(groups)[3:])
    right = (chances(evaluation.row).argmax(axis=1) == benchmark.label[evaluation.row])
    assert found.accuracy == pytest.approx(np.bincount(evaluation.code, right) / 7)


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_a_head_moves_the_same_by_weights_and_by_activations(model):
    """Keeping every item's activations in place of the first layer changes no number beyond rounding."""
    benchmark, x = toy()
    wanted = Settings(model=model, features=FEATURES, steps=30, lr=0.05)
    train, evaluation = sides(benchmark, 20, 20, 0)
    data, run = Data(benchmark, centred(x, benchmark, train), CPU), wanted.run("", 0)
    drawn = batches(train.code, "varied", 64, 30, 0)
    ways = [way(data, train, evaluation, run) for way in (ByWeights, ByActivations)]
    before = ways[0].logits()
    for batch in drawn:
        for way in ways:
            way.step(torch.from_numpy(batch), torch.from_numpy(benchmark.label[train.row[batch]]))
    after = [way.logits() for way in ways]
    torch.testing.assert_close(*after, rtol=1e-4, atol=1e-4)
    assert (after[0] - before).abs().max() > 1


def test_batches_reach_the_evaluation_through_weights_alone():
    """A net with batch norm that takes steps of no length keeps its losses, whatever its batches are made of."""
    collection, benchmark = toy_rows(120)
    wanted = Settings(model="small-cnn", steps=6, lr=1e-12, batch_size=8)
    train, evaluation = sides(benchmark, 20, 10, 0)
    data = Data(benchmark, torch.from_numpy(collection.pixels), CPU)
    assert np.abs(record(data, train, evaluation, wanted, 0).drop).max() < 1e-6
    assert np.abs(record(data, train, evaluation, replace(wanted, lr=0.1), 0).drop).max() > 1e-3


# The regression


@given(st.integers(2, 7), st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**16))
@settings(max_examples=30)
def test_regression_recovers_effects_under_any_drift(m, k, repeats, seed):
    """Without noise the effects come out exactly, though losses fall at a pace that changes with time."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(m, k))
    share = [rng.dirichlet(np.ones(m), size=5 * STRETCH + 3) for _ in range(repeats)]
    share = [part / part.sum(axis=1, keepdims=True) for part in share]
    drift = [np.repeat(rng.normal(size=(6, k)) * 10, STRETCH, axis=0)[:5 * STRETCH + 3] for _ in share]
    drift = [part - np.concatenate(drift).mean(axis=0) for part in drift]
    drop = [one @ truth + other for one, other in zip(share, drift, strict=True)]
    found = effects(share, drop, replicates=3)
    assert found.value == pytest.approx(truth, abs=1e-3)
    assert found.replicates.shape == (3, m, k)


@pytest.mark.parametrize("repeats", [5, 8, 12])
def test_intervals_over_repeats_cover_what_they_should(repeats):
    """Where each repeat has effects of its own and errors go together in time, 95 % intervals hold the mean effect.

    Plain percentile intervals of so few repeats hold it in 84 to 90 % of the cells.
    """
    rng = np.random.default_rng(repeats)
    m, k, steps = 4, 250, 100
    share = [rng.dirichlet(np.full(m, 0.5), size=steps) for _ in range(repeats)]
    drop = []
    for part in share:
        own = rng.normal(size=(m, k))  # the truth is 0
        noise = np.cumsum(rng.normal(size=(steps, k)), axis=0) * 0.2
        drop.append(part @ own + noise)
    found = effects(share, drop, replicates=1000)
    low, high = interval(found.replicates, expanded(found.units))
    assert found.resampled == "repeats"
    assert 0.9 < np.mean((low < 0) & (high > 0)) < 0.98


def test_intervals_within_a_repeat_are_not_too_narrow():
    """With one repeat, stretches are resampled: errors that go together for some steps do not make it too sure."""
    rng = np.random.default_rng(0)
    m, k, steps = 4, 250, 300
    share = rng.dirichlet(np.full(m, 0.5), size=steps)
    noise = np.repeat(rng.normal(size=(steps // 5, k)), 5, axis=0) + rng.normal(size=(steps, k))
    found = effects([share], [noise], replicates=1000)
    low, high = interval(found.replicates, expanded(found.units))
    assert (found.resampled, found.units) == ("stretches", 30)
    assert np.mean((low < 0) & (high > 0)) > 0.92


def test_an_expanded_level_tends_to_the_level():
    """Few units widen the interval, many leave it as it is."""
    levels = [expanded(n) for n in (5, 8, 20, 10_000)]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] > 0.99
    assert levels[-1] == pytest.approx(0.95, abs=1e-4)


# Batches, sides and order


@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.integers(1, 20), st.sampled_from(["varied", "plain"]))
@settings(max_examples=30)
def test_batches_hold_training_items(sizes, size, kind):
    """Every number is a training item's, shares count them, and the same seed draws the same batches."""
    code = np.repeat(np.arange(len(sizes)), sizes)
    drawn = batches(code, kind, size, 30, 5)
    assert drawn.shape == (30, size)
    assert drawn.min() >= 0
    assert drawn.max() < len(code)
    counted = shares(drawn, code)
    assert counted.sum(axis=1) == pytest.approx(1)
    assert counted[7] == pytest.approx(np.bincount(code[drawn[7]], minlength=len(sizes)) / size)
    assert (drawn == batches(code, kind, size, 30, 5)).all()


def test_varied_batches_vary_as_stated():
    """All subsets come equally often, and the variance of their shares is (B + A) / (1 + A) times that of chance."""
    m, size = 10, 64
    code = np.repeat(np.arange(m), 20)
    varied, plain = (shares(batches(code, kind, size, 4000, 1), code) for kind in ("varied", "plain"))
    assert varied.mean(axis=0) == pytest.approx(1 / m, abs=0.01)
    chance = (1 / m) * (1 - 1 / m) / size
    assert varied.var(axis=0).mean() == pytest.approx(chance * (size + 3) / 4, rel=0.1)
    assert plain.var(axis=0).mean() < 1.1 * chance


def test_rows_and_columns_are_ordered_by_class_then_by_likeness():
    """Shuffled indoor and outdoor subsets stand together class by class, in one direction, diagonal on the diagonal."""
    rng = np.random.default_rng(3)
    cell = rng.permutation(np.repeat(np.arange(4), 4))
    kind, label = cell // 2, np.asarray(["cat", "dog"])[cell % 2]
    names = tuple(f"{word}({place})" for place, word in enumerate(label))
    sign = np.where(kind[:, None] == kind, 1, -0.2) * np.where(label[:, None] == label, 1, -1)
    value = np.concatenate([sign, sign], axis=1) + rng.normal(size=(16, 32)) * 0.05
    empty = np.zeros(0, np.int64)
    train = Side(names, label, np.full(16, ""), empty, empty)
    evaluation = Side(names * 2, np.tile(label, 2), np.repeat([IN, OUT], 16), empty, empty)
    rows, columns = order(value, train, evaluation)
    assert sorted(rows) == list(range(16))
    assert sorted(columns) == list(range(32))
    assert (columns[:16] == rows).all()
    for places in (rows, columns[16:] - 16):
        assert "".join(label[places]) == "cat" * 8 + "dog" * 8
        first = kind[places[0]]
        assert (kind[places] == np.tile(np.repeat([first, 1 - first], 4), 2)).all()
        assert first == kind[rows[0]]


def test_the_seed_decides():
    """The same seed gives the same matrix, another seed another one."""
    one, same, other = (measured(steps=20, seed=seed) for seed in (0, 0, 1))
    assert (one.effect.value == same.effect.value).all()
    assert (one.effect.low == same.effect.low).all()
    assert one.at("cat(sofa)", "dog(sofa)")["value"] != other.at("cat(sofa)", "dog(sofa)")["value"]


# The command


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with cats and dogs of the built-in world: at home, on the street and by the water."""
    folder = tmp_path_factory.mktemp("world")
    sb.read("world", "scenes", items=2400, size=64, out=folder / "scenes")
    (folder / "recipe.toml").write_text("""
collection = "scenes"
[shift.subset]
train = ["cat(bed + sofa + bike + boat)", "dog(bed + sofa + bike + boat)"]
test = ["cat(lamp)", "dog(lamp)"]
""")
    sb.build(folder / "recipe.toml", folder / "animals")
    return folder


@pytest.mark.slow
def test_indoor_cats_and_dogs_conflict(shell, world, monkeypatch):
    """On the built-in world the command finds the paper's conflict zone, and writes its three files."""
    monkeypatch.chdir(world)
    words = ["conflicts", "animals", "--features", "efficientnet-lite0@64", "--steps", 100, "--repeats", 5, "-o", "c"]
    code, out, err = shell(*words)
    assert code == 0, err
    assert "hurts" in out
    table = read_table("c/matrix.parquet").to_pydict()
    assert set(table) >= {"train", "evaluation", "kind", "value", "low", "high"}
    keys = zip(table["train"], table["evaluation"], table["kind"], strict=True)
    cells = dict(zip(keys, table["value"], strict=True))
    assert len(cells) == 8 * 8 + 8 * 2
    assert max(map(abs, cells.values())) == pytest.approx(1)

    def mean(of, on):
        return np.mean([cells[one, other, IN] for one in of for other in on])

    home = {word: [f"{word}(bed)", f"{word}(sofa)"] for word in ("cat", "dog")}
    away = {word: [f"{word}(bike)", f"{word}(boat)"] for word in ("cat", "dog")}
    for one, other in (("cat", "dog"), ("dog", "cat")):
        assert mean(home[one], home[other]) < min(0, mean(home[one], away[other]))
        assert mean(home[one], home[one]) > 0
    facts = read_json("c/conflicts.json")
    assert facts["settings"]["steps"] == 100
    assert sorted(facts["order"]["train"]) == sorted(set(table["train"]))
    assert facts["order"][OUT] == ["cat(lamp)", "dog(lamp)"]
    assert all(cell["high"] < 0 for cell in facts["conflicts"])
    assert (world / "c" / "heatmap.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = shell(*words, "--json")
    assert json.loads(out) == facts


@pytest.mark.slow
def test_conflicts_of_a_network_on_images(world):
    """A convolutional net is measured on the images themselves; the verb can be called again and again."""
    for _ in range(2):
        found = sb.conflicts(world / "animals", model="small-cnn", steps=30, repeats=2, train_items=8, eval_items=4,
                             batch_size=8, size=32, device="cpu")
    assert found.effect.value.shape == (8, 10)
    assert np.isfinite(found.effect.value).all()
    assert found.resampled == "stretches"
    assert found.settings.lr == 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("words", "message"), [
    (["--features", "efficientnet-lite0@64", "--set", "lr=1e30"], "Lower lr"),
    (["--features", "efficientnet-lite0@64", "--steps", "3", "--repeats", "2"], "it takes 32 at least"),
    (["--features", "efficientnet-lite0@64", "--repeats", "0"], "'repeats' is 0"),
    (["--features", "efficientnet-lite0@64", "--set", "skip=1"], "'skip' is 1.0"),
    (["--features", "efficientnet-lite0@64", "--makeup", "even"], "No make-up named 'even'"),
    (["--features", "efficientnet-lite0@64", "--set", "stepps=3"], "Did you mean 'steps'"),
    (["--features", "efficientnet-lite0@64", "--leave-out", "dog(bde)"], "Did you mean 'dog(bed)'"),
    (["--model", "mlp"], "works on cached features"),
    (["--model", "mpl"], "Did you mean 'mlp'"),
])
def test_what_cannot_be_measured_is_one_message(shell, world, monkeypatch, words, message):
    """Exit 1, one line that says what to do, nothing written."""
    monkeypatch.chdir(world)
    code, out, err = shell("conflicts", "animals", "--out", "nothing", "--quiet", *words)  # no line of progress
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (world / "nothing").exists()


def test_the_example_has_the_size_of_the_papers_figure():
    """26 training subsets and 22 others, as in MetaShift's Figure 9."""
    shift = Recipe.load(Path(__file__).parents[2] / "examples" / "cat_dog_conflicts.toml").shift
    assert [sum(len(parse_subset(name)[1]) for name in names) for names in (shift.train, shift.test)] == [26, 22]


def test_one_subset_or_no_held_out_rows_are_refused():
    """A matrix needs two training subsets and something to evaluate."""
    benchmark, _ = toy()
    for keep, message in ((np.asarray(benchmark.names["group"])[benchmark.group] == "cat(sofa)", "at least 2"),
                          (benchmark.split == "train", "only training rows")):
        part = Benchmark(benchmark.items[keep], benchmark.split[keep], benchmark.label[keep], benchmark.domain[keep],
                         benchmark.group[keep], benchmark.names)
        with pytest.raises(ShiftBenchError, match=message):
            sides(part, 50, 50, 0)
