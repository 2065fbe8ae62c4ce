"""Methods that learn from unlabelled items: their equations by hand, and that no label of such an item is ever read."""

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import TARGET_TRAIN, UNLABELLED, Benchmark, table
from shiftbench.data.collection import Collection
from shiftbench.methods import METHODS, alignment
from shiftbench.methods.method import Stage, Unlabelled
from shiftbench.methods.unlabelled import Student, dropped
from shiftbench.scoring import score
from shiftbench.shifts.splits import Given
from shiftbench.training.batches import Data
from shiftbench.training.evaluate import predict_all
from shiftbench.training.lane import Lane
from tests.methods.test_methods import losses, number, parts, softmax, wide
from tests.toys import CPU, check_a_pack, fitted, learn, method_of, net_of, ten_rows, toy_features, toy_rows, toy_run

OWN = ["afn", "noisy_student", "pseudo_label"]
ALIGN = ["coral", "dann", "mmd"]
ON_PIXELS = {"model": "pixel-mlp", "features": "", "augment": "standard", "steps": 3, "batch_size": 8}


def with_others():
    """Ten labelled rows and six unlabelled ones, of one known and one new domain."""
    _, batch, task = ten_rows()
    rng = np.random.default_rng(5)
    x, strong = (torch.from_numpy(rng.normal(size=(6, 5)).astype(np.float32) * 3) for _ in range(2))
    others = Unlabelled(x, strong, torch.tensor([0, 2, 2, 2, 0, 2]), torch.tensor([3, 0, 1, 5, 4, 2]), torch.rand(6, 1))
    return batch._replace(unlabelled=others, u=torch.rand(10, 1)), task._replace(n_all_domains=3)


def erm_risk(net, batch) -> float:
    return losses(wide(net(batch.x)), parts(batch)[0]).mean()


# Equations


@pytest.mark.parametrize("hard", [False, True])
def test_afn_lengthens_features(hard):
    """SAFN adds lambda r^2 for labelled and for unlabelled items; HAFN the squared distance of the mean norm from r.
    The gradient of SAFN on a feature is -2 r z / ||z|| / n: every feature grows."""
    batch, task = with_others()
    net, afn = net_of(), method_of("afn", penalty=0.3, size=2.0, hard=hard)
    norms = [np.linalg.norm(wide(net.features(x)), axis=1) for x in (batch.x, batch.unlabelled.x)]
    expected = sum((norm.mean() - 2.0) ** 2 for norm in norms) if hard else 2 * 2.0**2
    assert number(afn.loss(net, batch, afn.state(task), 0)) == pytest.approx(erm_risk(net, batch) + 0.3 * expected,
                                                                             rel=1e-5)
    z = torch.randn(4, 3, requires_grad=True)
    method_of("afn", size=2.0).growth(z).backward()
    torch.testing.assert_close(z.grad, -2 * 2.0 * (z / z.norm(dim=1, keepdim=True)).detach() / 4)


@pytest.mark.parametrize(("step", "ramp"), [(0, 0.0), (2, 0.5), (4, 1.0), (9, 1.0)])
def test_pseudo_labels_are_the_confident_predictions(step, ramp):
    """R + lambda min(1, t / (T_2 T)) times the mean over all unlabelled items of the loss of the sure ones."""
    batch, task = with_others()  # ten steps, of which T_2 = 0.4 raise lambda
    net, method = net_of(), method_of("pseudo_label", weight=2.0, threshold=0.5)
    logits = wide(net(batch.unlabelled.x))
    sure = softmax(logits).max(axis=1) >= 0.5
    assert 0 < sure.sum() < len(sure)
    expected = erm_risk(net, batch) + 2.0 * ramp * (losses(logits, logits.argmax(axis=1)) * sure).mean()
    assert number(method.loss(net, batch, method.state(task), step)) == pytest.approx(expected, rel=1e-5)


def test_fixmatch_takes_labels_from_the_weak_view():
    """R + lambda times the mean of CE(f(strong), argmax f(weak)) over items whose weak view is sure; the gradient goes
    through the strong view alone."""
    batch, task = with_others()
    net, method = net_of(), method_of("fixmatch", weight=0.5, threshold=0.5)
    weak, strong = wide(net(batch.unlabelled.x)), wide(net(batch.unlabelled.strong))
    sure = softmax(weak).max(axis=1) >= 0.5
    expected = erm_risk(net, batch) + 0.5 * (losses(strong, weak.argmax(axis=1)) * sure).mean()
    assert number(method.loss(net, batch, method.state(task), 0)) == pytest.approx(expected, rel=1e-5)
    x, again = batch.unlabelled.x.clone().requires_grad_(), batch.unlabelled.strong.clone().requires_grad_()
    views = batch._replace(unlabelled=batch.unlabelled._replace(x=x, strong=again))
    method.loss(net, views, method.state(task), 0).backward()
    assert x.grad is None
    assert bool(again.grad.any())


def test_a_student_learns_the_teachers_labels_under_dropout():
    """R + mean CE of the unlabelled items with the teacher's labels; without dropout by hand, with it by the mask."""
    batch, task = with_others()
    net, label = net_of(), torch.tensor([0, 1, 2, 0, 1, 2])
    student = Student(dropout=0.0, label=label)
    state = student.state(task)
    own = losses(wide(net(batch.unlabelled.x)), label[batch.unlabelled.index].numpy()).mean()
    assert number(student.loss(net, batch, state, 0)) == pytest.approx(erm_risk(net, batch) + own, rel=1e-5)
    noisy = Student(dropout=0.5, label=label)
    z = [dropped(net.features(x), u[:, 0], 0.5) for x, u in ((batch.x, batch.u), batch.unlabelled[::4])]
    expected = [losses(wide(net.head(part)), codes).mean()
                for part, codes in zip(z, (parts(batch)[0], label[batch.unlabelled.index].numpy()), strict=True)]
    assert number(noisy.loss(net, batch, state, 0)) == pytest.approx(sum(expected), rel=1e-5)


def test_dropout_drops_a_share_and_keeps_the_mean():
    """Each feature is 0 with the given probability, independently of its neighbours, and the rest is scaled up."""
    u = torch.from_numpy(np.random.default_rng(0).random(4000, np.float32))
    z = dropped(torch.ones(4000, 32), u, 0.3)
    gone = (z == 0).double()
    assert gone.mean().item() == pytest.approx(0.3, abs=0.01)
    torch.testing.assert_close(gone.mean(dim=0), torch.full((32,), 0.3).double(), atol=0.04, rtol=0)
    assert torch.corrcoef(gone.T).fill_diagonal_(0).abs().max() < 0.08
    assert z[z > 0].unique().tolist() == pytest.approx([1 / 0.7])
    assert torch.equal(dropped(torch.ones(8, 4), u[:8], 0.0), torch.ones(8, 4))


@pytest.mark.parametrize("name", ALIGN)
def test_alignment_with_unlabelled_items(name):
    """The penalty is that of all items by their domains, the risk that of the labelled ones alone."""
    batch, task = with_others()
    torch.manual_seed(0)
    net, method = net_of(), method_of(name, penalty=1.0, unlabelled=TARGET_TRAIN)
    state = method.state(task)
    z = torch.cat([net.features(batch.x), net.features(batch.unlabelled.x)])
    codes = torch.cat([batch.domain, batch.unlabelled.domain])
    expected = {"coral": lambda: number(alignment.coral_penalty(z, codes, 3)),
                "mmd": lambda: number(alignment.mmd_penalty(z, codes, 3)),
                "dann": lambda: losses(wide(state.discriminator(z)), codes.numpy()).mean()}[name]()
    assert number(method.loss(net, batch, state, 5)) == pytest.approx(erm_risk(net, batch) + expected, rel=1e-4)
    with pytest.raises(ShiftBenchError, match=f"{name}: by=group needs the labels that unlabelled=target_train hides"):
        method_of(name, by="group", unlabelled=TARGET_TRAIN)


# How the items come


def test_unlabelled_items_come_beside_the_same_labelled_ones():
    """Labelled items and their draws are those of a run without unlabelled ones; the others are all of the split, and
    show neither label nor group. A domain that training lacks has a code behind the others."""
    collection, benchmark = toy_rows()
    new = np.where(np.arange(len(benchmark)) == benchmark.rows(TARGET_TRAIN)[0], 2, benchmark.domain)
    benchmark = dataclasses.replace(benchmark, domain=new, names={**benchmark.names, "domain": ("in", "out", "new")})
    data = Data(benchmark, torch.from_numpy(collection.pixels), CPU)
    plain, more = (toy_run(benchmark, method=name, **ON_PIXELS) for name in ("erm", "fixmatch"))
    one, two = (Lane(run, data, Stage(run.learner()), 0, None) for run in (plain, more))
    (index, u), (both, v) = one.block(2, 30), two.block(2, 30)
    assert np.array_equal(both[:, :8], index)
    assert np.array_equal(v[:, :8, :u.shape[2]], u)
    assert set(both[:, 8:].ravel() - len(data.train)) == set(range(len(benchmark.rows(TARGET_TRAIN))))
    batch = two.data.batch(torch.from_numpy(both[0]), two.net, "standard", torch.from_numpy(v[0]))
    same = one.data.batch(torch.from_numpy(index[0]), one.net, "standard", torch.from_numpy(u[0]))
    assert torch.equal(batch.x, same.x)
    assert not torch.equal(batch.unlabelled.x, batch.unlabelled.strong)
    rows = benchmark.rows(TARGET_TRAIN)[batch.unlabelled.index]
    assert np.array_equal(batch.unlabelled.domain, benchmark.domain[rows])
    assert two.data.task(4).n_all_domains == 3
    assert not two.data._codes[:, len(data.train):][[1, 3]].any()


@pytest.mark.parametrize("name", [*OWN, *ALIGN, "fixmatch"])
def test_labels_of_unlabelled_items_are_never_read(name):
    """Other labels of the unlabelled split leave every prediction as it is, to the byte."""
    collection, benchmark = toy_rows()
    settings = ON_PIXELS if name == "fixmatch" else {"steps": 6}
    x = torch.from_numpy(collection.pixels) if name == "fixmatch" else toy_features(benchmark)
    there = benchmark.split == TARGET_TRAIN
    other = dataclasses.replace(benchmark, label=np.where(there, 1 - benchmark.label, benchmark.label),
                                group=np.where(there, 0, benchmark.group))
    params = {"unlabelled": TARGET_TRAIN, **({"threshold": 0.0} if "threshold" in METHODS[name].__dataclass_fields__
                                             else {})}
    ends = [learn(toy_run(one, method=name, params=params, **settings), one, x) for one in (benchmark, other)]
    assert torch.equal(*ends)
    erm = toy_run(benchmark, batches=METHODS[name].batches, **settings)
    assert not torch.equal(ends[0], learn(erm, benchmark, x))


@pytest.mark.parametrize("name", ["pseudo_label", "fixmatch"])
def test_a_threshold_above_one_is_erm(name):
    """No prediction is sure enough, so that training is ERM's, bit for bit."""
    collection, benchmark = toy_rows()
    settings = ON_PIXELS if name == "fixmatch" else {"steps": 6}
    x = torch.from_numpy(collection.pixels) if name == "fixmatch" else toy_features(benchmark)
    run = toy_run(benchmark, method=name, params={"threshold": 1.01}, **settings)
    assert torch.equal(learn(run, benchmark, x), learn(toy_run(benchmark, **settings), benchmark, x))


@pytest.mark.slow
def test_runs_with_unlabelled_items_train_at_once():
    """Packs of runs end with the weights that each has alone."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    check_a_pack("pseudo_label", [{"weight": 0.5}, {"threshold": 0.5}], benchmark, x)
    check_a_pack("dann", [{"unlabelled": TARGET_TRAIN}, {"unlabelled": TARGET_TRAIN, "penalty": 0.1}], benchmark, x)


def test_a_student_resumes_from_its_teacher(tmp_path):
    """A run that finds its teacher's weights in the folder goes on with the student, to the same end."""
    _, benchmark = toy_rows()
    x, run = toy_features(benchmark), toy_run(benchmark, method="noisy_student", steps=6)
    first = learn(run, benchmark, x, tmp_path)
    assert (tmp_path / "stage-0.safetensors").is_file()
    assert torch.equal(first, learn(run, benchmark, x, tmp_path))
    assert torch.equal(first, learn(run, benchmark, x))


def test_a_benchmark_without_unlabelled_items_is_refused():
    """One line names the split and those that there are."""
    _, benchmark = toy_rows()
    with pytest.raises(ShiftBenchError, match=r"unlabelled items of split 'val', but .* has none. Its splits"):
        fitted(toy_run(benchmark, method="afn", params={"unlabelled": "val"}), benchmark, toy_features(benchmark))


def test_rows_without_a_label_make_no_class(tmp_path):
    """Items of split `unlabelled`, whatever stands in their label, add no class; they are saved with an empty label,
    learnt from by their inputs and domains, and neither predicted nor scored."""
    collection, _ = toy_rows(120)
    split = np.where(np.arange(120) < 60, "train", np.where(np.arange(120) < 90, "test", "test_unlabeled"))
    rng = np.random.default_rng(0)
    label = np.where(split == "test_unlabeled", "", np.asarray(["cat", "dog"])[rng.integers(0, 2, 120)])
    place = np.where(split == "train", "in", "out")
    collection = dataclasses.replace(collection, factors={"label": label, "split": split, "place": place})
    built = Given(domain="place", rename={"test_unlabeled": UNLABELLED}).build(collection)
    built.save(tmp_path / "b")
    benchmark = Benchmark.load(tmp_path / "b")
    assert benchmark == built
    assert benchmark.names["label"] == ("cat", "dog")
    assert benchmark.splits == ("train", "test")
    assert set(table(benchmark)["label"][benchmark.rows(UNLABELLED)].tolist()) == {""}
    x = torch.from_numpy(rng.normal(size=(120, 8)).astype(np.float32))
    run = toy_run(benchmark, method="dann", params={"unlabelled": UNLABELLED}, steps=3)
    one = fitted(run, benchmark, x)
    predictions = predict_all(run, one.data, one.learned.net)
    assert set(predictions.split.tolist()) == {"train", "test"}
    assert set(score(benchmark, predictions)["split"].tolist()) <= {"train", "test"}
    with pytest.raises(ShiftBenchError, match="Every item is unlabelled"):
        Given(domain="place", rename=dict.fromkeys(("train", "test", "test_unlabeled"), UNLABELLED)).build(collection)


@cache
def accuracy_on_a_moved_target(far: int, method: str, unlabelled: str = "") -> float:
    _, benchmark = toy_rows(960)
    x = toy_features(benchmark)
    moved = np.isin(benchmark.split, ("test", TARGET_TRAIN))
    x[:, 0] /= 1 + far
    x[:, 1] = 0.3 * torch.randn(len(x), generator=torch.Generator().manual_seed(0))
    x[torch.from_numpy(moved), far] += 12.0 if far else 2.0
    benchmark = dataclasses.replace(benchmark, domain=moved.astype(np.int64),
                                    names={**benchmark.names, "domain": ("source", "target")})
    params = {"unlabelled": unlabelled} if unlabelled else {}
    run = toy_run(benchmark, method=method, params=params, steps=100, lr=0.01, select_on="last", batch_size=32,
                  eval_every=100)
    logits = learn(run, benchmark, x)
    return float((logits.argmax(dim=1).numpy() == benchmark.label)[benchmark.rows("test")].mean())


@pytest.mark.learning
@pytest.mark.parametrize(("name", "far"), [("coral", 1), ("dann", 1), ("mmd", 1), ("afn", 1), ("noisy_student", 0),
                                           ("pseudo_label", 0)])
def test_unlabelled_items_of_a_moved_target_help(name, far):
    """Where the target is moved, along the feature of the classes or far along another, unlabelled items raise the
    accuracy on the target by a margin; AFN, whose remedy is another, loses little."""
    plain = accuracy_on_a_moved_target(far, "erm")
    assert plain < 0.85
    assert accuracy_on_a_moved_target(far, name, TARGET_TRAIN) >= plain + (-0.03 if name == "afn" else 0.03)


@pytest.mark.learning
def test_fixmatch_keeps_what_sixteen_labels_teach():
    """Checkerboards of two sizes under noise: strong views, which turn and recolour them, cost the target nothing."""
    rng = np.random.default_rng(0)
    label, k = rng.integers(0, 2, 240), np.arange(16)
    size, phase = np.where(label == 1, 2, 4)[:, None], rng.integers(0, 8, (2, 240, 1))
    down, across = (((k + one) // size) % 2 for one in phase)
    pixels = rng.integers(0, 135, (240, 16, 16)) + 120 * (down[:, :, None] ^ across[:, None, :])
    split = np.where(np.arange(240) < 16, "train", np.where(np.arange(240) < 140, TARGET_TRAIN, "test"))
    collection = Collection("boards", np.char.mod("i%03d", np.arange(240)),
                            pixels=np.repeat(pixels[..., None], 3, axis=3).astype(np.uint8))
    benchmark = Benchmark.of(collection, None, 0, np.arange(240), split, label=np.asarray(["cat", "dog"])[label],
                             domain=np.where(split == "train", "in", "out"))
    x = torch.from_numpy(collection.pixels[collection.index(benchmark.items)])
    settings = {"model": "small-cnn", "features": "", "augment": "standard", "steps": 60, "lr": 3e-3,
                "select_on": "last"}
    rows = benchmark.rows("test")
    share = {name: float((learn(toy_run(benchmark, method=name, **settings), benchmark, x).argmax(dim=1).numpy()
                          == benchmark.label)[rows].mean()) for name in ("erm", "fixmatch")}
    assert share["fixmatch"] >= max(0.85, share["erm"] - 0.02), share
