"""The interface of the package `wilds` on benchmarks whose target is no class, and the package's keys of its ten."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from shiftbench.compat import run_script
from shiftbench.compat.domainbed import dataset_class
from shiftbench.compat.wilds import CombinatorialGrouper, get_dataset, get_eval_loader, get_train_loader, wilds_modules
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.readers.wilds.molecules import ATOM_SIZES, BOND_SIZES, graph_lines
from shiftbench.scoring import score
from shiftbench.shifts.splits import Given
from tests.metagraph.test_picture_lines import written

torch.set_num_threads(1)
KINDS = ("number", "tasks", "boxes", "tokens")
N = 24
SPLIT = np.repeat(["train", "val", "test"], [12, 4, 8])
HOME = np.asarray(["left", "right", "far"])[[*([0, 1] * 6), *([0, 1] * 2), *([1, 2] * 4)]]


def satellites(place):
    """Images of two channels in .npz files; wealth is a number."""
    rng = np.random.default_rng(0)
    for k in range(N):
        np.savez(place / f"{k}.npz", x=rng.normal(size=(2, 3, 4)).astype(np.float32))
    world = Collection("satellites", np.asarray([f"p{k:02}" for k in range(N)]), factors={
        "wealth": rng.normal(size=N), "home": HOME, "split": SPLIT},
        pixels=np.asarray([f"{k}.npz" for k in range(N)]), root=place)
    return world, Given("wealth", domain="home", target="number").build(world)


def molecules(place):
    """Molecules of two to five atoms in OGB's files; two tasks with gaps."""
    rng = np.random.default_rng(0)
    listed = []
    for _ in range(N):
        atoms = [[int(rng.integers(size)) for size in ATOM_SIZES] for _ in range(rng.integers(2, 6))]
        listed.append((atoms, [([k, k + 1], [int(rng.integers(size)) for size in BOND_SIZES])
                               for k in range(len(atoms) - 1)]))
    found = written(place, listed)
    truth = rng.integers(0, 2, (N, 2)).astype(float)
    truth[rng.random(truth.shape) < 0.2] = np.nan
    world = Collection("molecules", found.items, factors={
        "y0": truth[:, 0], "y1": truth[:, 1], "atoms": found.factors["atoms"], "bonds": found.factors["bonds"],
        "home": HOME, "split": SPLIT}, texts=Texts(np.arange(N), np.asarray(["CCO"] * N, np.object_)), root=place)
    return world, Given("y?", domain="home", target="tasks").build(world)


def squares(place):
    """Image files of two sizes, with no box, one or two."""
    item = np.repeat(np.arange(N), np.arange(N) % 3)
    corner = np.random.default_rng(0).integers(0, 4, (len(item), 2)) / 8
    for k in range(N):
        Image.new("RGB", (64, 32) if k % 2 else (16, 16), (k, 0, 0)).save(place / f"{k}.png")
    world = Collection("squares", np.asarray([f"s{k:02}" for k in range(N)]), factors={"home": HOME, "split": SPLIT},
                       tags=Tags.of(item, np.zeros(len(item), np.int64), ("square",),
                                    boxes=np.concatenate([corner, np.full_like(corner, 0.5)], axis=1)),
                       pixels=np.asarray([f"{k}.png" for k in range(N)]), root=place)
    return world, Given("square", domain="home", target="boxes").build(world)


def code(place):
    """Rows of six tokens; a seventh of the kinds is masked."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 8, (N, 6))
    kinds[kinds == 7] = -100
    lines = [" ".join(map(str, line)) for pair in zip(rng.integers(0, 9, (N, 6)), kinds, strict=True) for line in pair]
    world = Collection("code", np.asarray([f"f{k:02}" for k in range(N)]), factors={"home": HOME, "split": SPLIT},
                       texts=Texts(np.repeat(np.arange(N), 2), np.asarray(lines, np.object_)))
    return world, Given(domain="home", target="tokens").build(world)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """A tiny collection and benchmark of each kind; group `far` is in test alone, and has no item of train."""
    return {kind: make(tmp_path_factory.mktemp(kind)) for kind, make in zip(
        KINDS, (satellites, molecules, squares, code), strict=True)}


def data_of(worlds, kind, **options):
    world, benchmark = worlds[kind]
    return get_dataset(benchmark, collection=world, **options)


def ours(benchmark, predictions, split="test"):
    """Our own scores of a split, by metric and group."""
    return {(row["metric"], row["group"]): row["value"] for row in score(benchmark, predictions, replicates=0)
            if row["split"] == split}


@pytest.mark.parametrize(("kind", "facts"), [
    ("number", (None, 1, False, False)), ("tasks", (2, 2, True, False)), ("boxes", (1, None, False, True)),
    ("tokens", (9, None, True, False)),
])
def test_the_data_set_says_what_kind_it_is(worlds, kind, facts):
    """Sizes and flags are those that the package's data set of the kind has, and no column holds a truth as words."""
    data = data_of(worlds, kind)
    assert (data.n_classes, data.y_size, data.is_classification, data.is_detection) == facts
    assert data.metadata_fields[:2] == ["domain", "group"]
    assert data.metadata_fields[-1] == "from_source_domain"
    assert data.metadata_array.shape == (N, len(data.metadata_fields))
    assert not {"boxes", "tokens", "kinds", "wealth", "y0"} & set(data.metadata_fields)
    assert len(data) == len(data.y_array) == N


def test_numbers(worlds):
    """x is the array of the file and y the number, which stands in the metadata too; r and mse are our own scores."""
    world, benchmark = worlds["number"]
    data = data_of(worlds, "number")
    test = data.get_subset("test", transform=lambda x: x * 2)
    for row, item in enumerate(benchmark.items[benchmark.rows("test")].tolist()):
        at = world.items.tolist().index(item)
        x, y, metadata = test[row]
        assert (x.dtype, x.shape, y.dtype) == (torch.float32, (2, 3, 4), torch.float32)
        assert np.array_equal(x, 2 * np.load(world.path(at))["x"])
        assert y.item() == np.float32(world.factors["wealth"][at])
        assert metadata[data.metadata_fields.index("y")] == world.factors["wealth"][at]
    guess = np.random.default_rng(1).normal(size=(N, 1)).astype(np.float32)
    found, told = test.eval(guess[benchmark.rows("test")], test.y_array, test.metadata_array)
    wanted = ours(benchmark, Predictions(benchmark.items, benchmark.split, guess, benchmark.names["label"]))
    assert found["r_all"] == pytest.approx(wanted["r", "all"], abs=1e-6)
    assert found["mse_avg"] == pytest.approx(wanted["mse", "all"], rel=1e-6)
    for group in ("right", "far"):
        assert found[f"r_group:{group}"] == pytest.approx(wanted["r", group], abs=1e-6)
        assert found[f"count_group:{group}"] == 4
        assert f"r_group:{group}: {found[f'r_group:{group}']:.3f}  [n =      4]" in told
    assert found["r_wg"] == min(found["r_group:right"], found["r_group:far"])
    assert found["mse_wg"] == max(found["mse_group:right"], found["mse_group:far"])
    assert math.isnan(found["r_group:left"])
    assert "r_group:left" not in told
    quirky, _ = data_of(worlds, "number", compat="wilds-2.0").eval(
        guess[benchmark.rows("test")], test.y_array, test.metadata_array)
    assert (quirky["r_group:left"], quirky["count_group:left"]) == (0, 0)


def test_several_numbers(worlds):
    """With several outputs y has a column each, r is their mean, and the metadata has no y."""
    world, _ = worlds["number"]
    rng = np.random.default_rng(5)
    both = Collection(world.name, world.items, factors={**world.factors, "wealth2": rng.normal(size=N)},
                      pixels=world.pixels, root=world.root)
    data = get_dataset(Given("wealth*", domain="home", target="number").build(both), collection=both)
    assert (data.y_array.shape, data.y_size) == ((N, 2), 2)
    assert "y" not in data.metadata_fields
    assert data.metadata_array.dtype == torch.int64
    guess = rng.normal(size=(N, 2))
    each = [np.corrcoef(guess[:, at], data.y_array[:, at])[0, 1] for at in (0, 1)]
    assert data.eval(guess, data.y_array, data.metadata_array)[0]["r_all"] == pytest.approx(np.mean(each))


def test_tasks_on_molecules(worlds):
    """x is the molecule's lines, padded in a batch; y has NaN where there is no label; ap is our own score."""
    world, benchmark = worlds["tasks"]
    data = data_of(worlds, "tasks")
    values, start = graph_lines(world, world.index(benchmark.items))
    for row in range(N):
        x, y, _ = data[row]
        assert x.dtype == torch.int64
        assert np.array_equal(x, values[start[row]:start[row + 1]])
        assert np.array_equal(y, np.asarray([benchmark.extra[name][row] for name in ("y0", "y1")]), equal_nan=True)
    x, y, metadata = next(iter(get_eval_loader("standard", data, 7)))
    assert x.shape == (7, np.diff(start)[:7].max(), 10)
    for row, lines in enumerate(x):
        long = start[row + 1] - start[row]
        assert np.array_equal(lines[:long], values[start[row]:start[row + 1]])
        assert (lines[long:] == -1).all()
    assert (y.shape, metadata.shape) == ((7, 2), (7, len(data.metadata_fields)))
    guess = np.random.default_rng(1).normal(size=(N, 2)).astype(np.float32)
    test = data.get_subset("test")
    found, told = data.eval(guess[test.indices], test.y_array, test.metadata_array)
    wanted = ours(benchmark, Predictions(benchmark.items, benchmark.split, guess, benchmark.names["label"]))
    assert found == {"ap": pytest.approx(wanted["mean_ap", "all"])}
    assert told == f"ap: {found['ap']:.3f}\n"


def test_boxes(worlds):
    """Boxes are in pixels of their own image, whatever its size; detection accuracies are our own scores."""
    world, benchmark = worlds["boxes"]
    data = data_of(worlds, "boxes")
    tags, share = world.tags, []
    for (x, y, _), item in zip(data, world.index(benchmark.items), strict=True):
        assert (y["boxes"].dtype, y["labels"].dtype) == (torch.float32, torch.int64)
        left, top, width, height = tags.boxes[tags.item[tags.box_row] == item].T
        share.append(np.stack([left, top, left + width, top + height], axis=1))
        assert np.array_equal(y["boxes"], share[-1] * [*x.size, *x.size])
        assert y["labels"].tolist() == [1] * (item % 3)
    moved = [(one + np.float32(0.05) * (k % 4)).clip(0, 1) for k, one in enumerate(share)]
    scores = [np.full(len(one), 0.9, np.float32) for one in moved]
    sizes = [np.asarray([*x.size, *x.size], np.float32) for x, _, _ in data]
    guess = [{"boxes": torch.from_numpy(one * size), "scores": torch.from_numpy(sure)}
             for one, size, sure in zip(moved, sizes, scores, strict=True)]
    answers = Answers.of(benchmark.items, benchmark.split, {"boxes": [one.ravel() for one in moved], "scores": scores})
    wanted = ours(benchmark, answers)
    test = data.get_subset("test")
    found, _ = data.eval([guess[at] for at in test.indices], test.y_array, test.metadata_array)
    assert 0 < found["detection_acc_avg"] < 1
    assert found["detection_acc_avg"] == pytest.approx(wanted["detection_accuracy", "all"])
    assert found["detection_acc_group:far"] == pytest.approx(wanted["detection_accuracy", "far"])
    assert found["detection_acc_avg_dom"] == pytest.approx(wanted["detection_accuracy_by_domain", "all"])
    assert math.isnan(found["detection_acc_group:left"])


def test_images_of_a_batch_are_stacked_where_they_can_be(worlds):
    """With boxes y stays a list; x is a tensor once all images have one shape."""
    whole = data_of(worlds, "boxes").get_subset("val")
    x, y, metadata = next(iter(get_eval_loader("standard", whole, 4)))
    assert [one.size for one in x] == [whole[k][0].size for k in range(4)]
    assert [one.keys() for one in y] == [{"boxes", "labels"}] * 4
    small = data_of(worlds, "boxes").get_subset("val", transform=lambda x: torch.zeros(3, 8, 8))
    assert next(iter(get_eval_loader("standard", small, 4)))[0].shape == (4, 3, 8, 8)
    assert len(metadata) == 4


def test_tokens(worlds):
    """y is the token that x has next, NaN where it is masked; kinds are in the metadata; shares are our own scores."""
    _, benchmark = worlds["tokens"]
    data = data_of(worlds, "tokens")
    kinds = data.metadata_array[:, data.metadata_fields.index("tok_0_type"):-1]
    assert data.metadata_fields[-6:-1] == [f"tok_{place}_type" for place in range(5)]
    for row in range(N):
        x, y, _ = data[row]
        assert (x.shape, x.dtype, y.dtype) == ((5,), torch.int64, torch.float32)
        asked = ~y.isnan()
        assert torch.equal(asked, kinds[row] >= 0)
        assert torch.equal(y[:-1][asked[:-1]], x[1:][asked[:-1]].float())
    guess = np.random.default_rng(1).integers(0, 9, (N, 5))
    guess[:, :3] = data.y_array[:, :3].nan_to_num().long()
    wanted = ours(benchmark, Answers.of(benchmark.items, benchmark.split, {"tokens": list(guess.astype(np.int32))}))
    test = data.get_subset("test")
    logits = torch.nn.functional.one_hot(torch.from_numpy(guess[test.indices]), 9).float()
    found, told = data.eval(logits, test.y_array, test.metadata_array, prediction_fn=lambda x: x.argmax(-1))
    assert found["acc"] == found["Acc (Class-Method)"] == pytest.approx(wanted["accuracy", "all"])
    assert found["Acc (Overall)"] == pytest.approx(wanted["overall_accuracy", "all"])
    assert found["Acc (keyword)"] == pytest.approx(wanted["keyword_accuracy", "all"])
    assert told.startswith(f"acc: {found['acc']:.3f}\n")


def test_rows_of_tokens_may_end_early():
    """Behind the end of a row x is 0 and nothing is asked for."""
    texts = Texts(np.asarray([0, 0, 1, 1]), np.asarray(["3 4 5", "0 1 2", "6 7 8", "0 0 -100"], np.object_))
    world = Collection("code", np.asarray(["a", "b"]), factors={"split": np.asarray(["train", "test"])}, texts=texts)
    made = Given(target="tokens").build(world)
    made.extra["tokens"][1] = made.extra["tokens"][1][:2]
    data = get_dataset(made, collection=world)
    assert data[1][0].tolist() == [6, 7]
    assert np.array_equal(data[1][1], [7, np.nan], equal_nan=True)
    made.extra["tokens"][1] = made.extra["tokens"][1][:1]
    assert get_dataset(made, collection=world)[1][0].tolist() == [6, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_loaders_give_every_kind(worlds, kind):
    """Evaluation gives every row once and in order, training as many, and the group loader equal shares of groups."""
    data = data_of(worlds, kind)
    train = copy.deepcopy(data.get_subset("train"))  # as a worker process has it
    grouper = CombinatorialGrouper(data, ["home"])
    batches = list(get_eval_loader("standard", train, 5))
    assert torch.equal(torch.cat([metadata for *_, metadata in batches]), train.metadata_array)
    assert [len(x) for x, *_ in batches] == [len(y) for _, y, _ in batches] == [5, 5, 2]
    if kind != "boxes":
        assert torch.equal(torch.cat([y for _, y, _ in batches]).nan_to_num(-9), train.y_array.nan_to_num(-9))
    for options in ({}, {"uniform_over_groups": True, "grouper": grouper}):
        assert sum(len(y) for _, y, _ in get_train_loader("standard", train, 5, **options)) == 12
    for _, y, metadata in get_train_loader("group", train, 4, grouper=grouper, n_groups_per_batch=2):
        assert len(y) == 4
        assert grouper.metadata_to_group(metadata).unique(return_counts=True)[1].tolist() == [2, 2]


def test_a_script_for_numbers_runs_unchanged(worlds, tmp_path, monkeypatch, capsys):
    """A regression written for the package learns on a saved benchmark whose target is a number."""
    world, benchmark = worlds["number"]
    world.save(tmp_path / "collection")
    source = {**benchmark.card["collection"], "path": "../collection"}
    replace(benchmark, card={**benchmark.card, "collection": source}).save(tmp_path / "poor")
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom wilds import get_dataset\n"
        "from wilds.common.data_loaders import get_eval_loader, get_train_loader\n"
        "data = get_dataset(dataset='poverty', download=True)\n"
        "net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(data.y_size))\n"
        "for x, y, _ in get_train_loader('standard', data.get_subset('train'), 4):\n"
        "    torch.nn.functional.mse_loss(net(x), y).backward()\n"
        "test = [(net(x), y, m) for x, y, m in get_eval_loader('standard', data.get_subset('test'), 4)]\n"
        "print(sorted(key for key in data.eval(*map(torch.cat, zip(*test)))[0] if ':' not in key))\n")
    monkeypatch.setattr("shiftbench.compat.wilds.USED", {})
    run_script(script, [], wilds_modules({"poverty": tmp_path / "poor"}))
    assert capsys.readouterr().out == "['mse_avg', 'mse_wg', 'r_all', 'r_wg']\n"


def test_what_cannot_be_met_is_said(worlds):
    """No prediction_fn where none is taken, no groupings but of classes, shapes that fit, images for boxes, classes
    for DomainBed."""
    number, boxes = data_of(worlds, "number"), data_of(worlds, "boxes")
    world, benchmark = worlds["boxes"]
    bare = Collection(world.name, world.items, factors=world.factors, tags=world.tags)
    for call, words in {
        lambda: number.eval(number.y_array, number.y_array, number.metadata_array, prediction_fn=abs): "prediction_fn",
        lambda: number.eval(number.y_array[:, 0], number.y_array, number.metadata_array): "in their shape",
        lambda: boxes.eval([], boxes.y_array, boxes.metadata_array): "of every image",
        lambda: data_of(worlds, "tasks", groupings=["home,label"]): "groupings` are for classes",
        lambda: data_of(worlds, "number", groupby_fields=["y"]): "No column named 'y'",
        lambda: get_dataset(benchmark, collection=bare).y_array[0]: "not known in pixels",
        lambda: dataset_class(benchmark, collection=world): "asks for boxes, but DomainBed's algorithms learn classes",
    }.items():
        with pytest.raises(ShiftBenchError, match=words):
            call()
