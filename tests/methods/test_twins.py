"""Methods that keep a second set of weights: the biased twin of LfF, and the mean of SWA."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods.lff import generalised, relative_difficulty
from shiftbench.methods.swa import slashed
from tests.toys import (
    check_a_pack,
    fitted,
    fitted_pack,
    learn,
    method_of,
    net_of,
    ten_rows,
    toy_features,
    toy_rows,
    toy_run,
)

LOSSES = st.lists(st.floats(0, 50, width=32), min_size=1, max_size=6).map(torch.tensor)


def stop_at(step: int):
    def stop(done: int, total: int) -> None:
        if done >= step:
            raise KeyboardInterrupt

    return stop


# In packs, and over a kill


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params"), [
    ("lff", [{"q": 0.1}, {"q": 0.9}, {}]),
    ("swa", [{"start": 0.5, "every": 1}, {"start": 0.25, "every": 5}, {"every": 3}]),
])
def test_numbers_differ_within_a_pack(name, params):
    """Runs with other hyperparameters, trained at once, each end with the weights they have alone, bit for bit."""
    _, benchmark = toy_rows()
    check_a_pack(name, params, benchmark, toy_features(benchmark))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "small-cnn"])
@pytest.mark.parametrize("name", ["lff", "swa"])
def test_the_second_weights_survive_a_kill(name, model, tmp_path):
    """On features and on images, a run that was stopped and goes on ends as if it had not been."""
    collection, benchmark = toy_rows(80)
    x = toy_features(benchmark) if model == "mlp" else torch.from_numpy(collection.pixels)
    more = {} if model == "mlp" else {"features": "", "model": model}
    params = {"start": 0.25, "every": 3} if name == "swa" else {}
    run = toy_run(benchmark, method=name, params=params, steps=12, eval_every=4, **more)
    with pytest.raises(KeyboardInterrupt):
        learn(run, benchmark, x, tmp_path, checkpoint_seconds=0, progress=stop_at(7))
    assert (tmp_path / "resume.safetensors").is_file()
    assert torch.equal(learn(run, benchmark, x, tmp_path), learn(run, benchmark, x))


# LfF


@given(LOSSES)
def test_equal_losses_weigh_one_half(losses):
    """W = 1/2 wherever both nets find an item equally hard, however hard; where both are sure it has no weight."""
    weight = relative_difficulty(losses, losses)
    assert torch.equal(weight, torch.where(losses > 1e-38, 0.5, weight))
    assert ((weight >= 0) & (weight <= 0.5)).all()


@given(st.floats(0.01, 20), st.floats(0.01, 20))
def test_weights_of_the_nets_changed_about_add_up_to_one(one, two):
    """W is the biased net's part of both losses, near 1 for what only it finds hard."""
    a, b = torch.tensor(one), torch.tensor(two)
    assert float(relative_difficulty(a, b)) == pytest.approx(one / (one + two), rel=1e-5)
    assert float(relative_difficulty(a, b) + relative_difficulty(b, a)) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
def test_generalised_cross_entropy_listens_to_what_is_known(q):
    """It is (1 - p^q) / q, its gradient that of the cross-entropy times p^q, and nothing breaks where p is 0."""
    losses = torch.tensor([0.0, 0.3, 2.0, 9.0, 500.0], requires_grad=True)
    p = np.exp(-losses.detach().double().numpy())
    found = generalised(losses, q)
    np.testing.assert_allclose(found.detach().numpy(), (1 - p**q) / q, rtol=1e-5, atol=1e-6)
    found.sum().backward()
    np.testing.assert_allclose(losses.grad.numpy(), p**q, rtol=1e-4, atol=1e-30)


def test_lff_loss_is_the_papers():
    """mean of W CE(f) plus mean of the twin's generalised cross-entropy, in plain numpy."""
    _, batch, task = ten_rows()
    net, lff = net_of(), method_of("lff", q=0.7)
    state = lff.state(task)
    own, biased = (-F.log_softmax(one(batch.x), dim=1)[torch.arange(10), batch.label].detach().double().numpy()
                   for one in (net, state.twin))
    expected = (biased / (biased + own) * own + (1 - np.exp(-biased) ** 0.7) / 0.7).mean()
    assert float(lff.loss(net, batch, state, 0).detach()) == pytest.approx(expected, rel=1e-5)


def test_neither_net_moves_the_others_loss():
    """f's gradient is that of the weighted cross-entropy with W a number; the twin's is that of its own loss, whatever
    f is: nothing of the debiased loss reaches it."""
    _, batch, task = ten_rows()
    lff = method_of("lff")
    found = []
    for seed in (1, 7):
        net, state = net_of(seed=seed), lff.state(task)
        lff.loss(net, batch, state, 0).backward()
        found.append([part.grad.clone() for part in state.twin.parameters()])
        ours = [part.grad.clone() for part in net.parameters()]
        net.zero_grad()
        state.zero_grad()
        own, biased = (F.cross_entropy(one(batch.x), batch.label, reduction="none") for one in (net, state.twin))
        weight = torch.tensor((biased / (biased + own)).tolist())
        (weight * own).mean().backward()
        generalised(biased, 0.7).mean().backward()
        for one, other in zip(ours, [part.grad for part in net.parameters()], strict=True):
            torch.testing.assert_close(one, other)
        for one, other in zip(found[-1], [part.grad for part in state.twin.parameters()], strict=True):
            torch.testing.assert_close(one, other)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_the_twin_starts_elsewhere_and_ends_biased():
    """The twin is no copy of the net; where nine of ten items follow the domain, it gives the tenth a larger loss than
    the net does."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    x[:, 0] -= 3.0 * torch.from_numpy(benchmark.label) - 1.5  # the label is hard to see, the domain easy
    run = toy_run(benchmark, method="lff", steps=60, select_on="last")
    one = fitted(run, benchmark, x)
    twin = one.learned.state.twin
    assert not any(torch.equal(a, b) for a, b in zip(twin.parameters(), one.learned.net.parameters(), strict=True))
    rows = benchmark.rows("train")
    rows = rows[benchmark.domain[rows] != benchmark.label[rows]]
    label = torch.from_numpy(benchmark.label[rows])
    biased, own = (F.cross_entropy(one.data.outputs(net, rows), label) for net in (twin, one.learned.net))
    assert biased > own


def test_lff_refuses_what_is_no_exponent():
    """q is above 0 and at most 1."""
    for q in (0.0, 1.5):
        with pytest.raises(ShiftBenchError, match="'q' is"):
            method_of("lff", q=q)


# SWA


def mean_of(rows: list[list[float]], **params) -> torch.Tensor:
    """SWA's mean over a sequence of head biases: one per loss, and the last for the net that training leaves."""
    _, batch, task = ten_rows()
    swa, net = method_of("swa", **params), net_of()
    state = swa.state(task._replace(steps=len(rows) - 1))
    for step, values in enumerate(rows):
        with torch.no_grad():
            net.head.bias.copy_(torch.tensor(values))
        if step < len(rows) - 1:
            swa.loss(net, batch, state, step)

    class Learned:
        def __init__(self):
            self.net, self.state, self.taken = net, state, {}

        def take(self, weights):
            self.taken.update(weights)

    stages = swa.fit()
    assert next(stages).select_on == "last"
    learned = Learned()
    with pytest.raises(StopIteration) as end:
        stages.send(learned)
    assert end.value.value is learned
    assert set(learned.taken) == {name for name, _ in net.named_parameters()}
    return learned.taken["head.bias"]


@pytest.mark.parametrize(("start", "every", "steps"), [
    (0.0, 1, range(11)), (0.5, 1, range(5, 11)), (0.5, 2, (6, 8, 10)), (0.45, 5, (5, 10)), (0.75, 10, (10,)),
    (1.0, 1, (10,)), (0.0, 3, (1, 4, 7, 10))])
def test_swa_is_the_mean_of_its_row_of_weights(start, every, steps):
    """Every k-th weights counted back from the last, from the share `start` of the steps on."""
    rows = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32)
    found = mean_of(rows.tolist(), start=start, every=every)
    np.testing.assert_allclose(found.numpy(), rows[list(steps)].mean(axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3), st.integers(1, 4))
def test_the_mean_of_constant_weights_is_those_weights(bias, every):
    """To the last bit."""
    assert mean_of([bias] * 9, start=0.0, every=every).tolist() == bias


@pytest.mark.slow
def test_swa_averages_erms_trajectory():
    """Trained, it is the mean of what ERM's weights are after 30, 32, … 40 steps, whatever `select_on` says."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    run = toy_run(benchmark, method="swa", params={"start": 0.75, "every": 2}, steps=40, patience=1)
    found = fitted(run, benchmark, x).learned
    runs = [toy_run(benchmark, steps=steps, select_on="last") for steps in range(30, 41, 2)]
    ends = [one.learned.net.state_dict() for one in fitted_pack(runs, benchmark, x)]
    assert found.step == 40
    for name, value in found.net.state_dict().items():
        torch.testing.assert_close(value, torch.stack([end[name] for end in ends]).mean(dim=0), rtol=1e-4, atol=1e-5)


def test_swa_measures_batch_norms_anew():
    """On images the averaged net's batch norms have the statistics of training items under its own weights, not the
    running ones of the last step."""
    collection, benchmark = toy_rows(80)
    x = torch.from_numpy(collection.pixels)
    run = toy_run(benchmark, method="swa", params={"start": 0.25, "every": 1}, model="small-cnn", features="", steps=8,
                  lr=0.05, augment="none")
    one = fitted(run, benchmark, x)
    net, data = one.learned.net, one.data
    first = net.features[0](data.sample(benchmark.rows("train"), net))
    norm = net.norms()[0]
    torch.testing.assert_close(norm.running_mean, first.mean(dim=(0, 2, 3)), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(norm.running_var, first.transpose(0, 1).flatten(1).var(dim=1), rtol=1e-3, atol=1e-4)
    weights = {name: getattr(one.learned.state, slashed(name)) for name, _ in net.named_parameters()}
    assert all(torch.equal(part, weights[name]) for name, part in net.named_parameters())


@pytest.mark.parametrize("params", [{"start": 1.5}, {"start": -0.1}, {"every": 0}])
def test_swa_refuses_what_is_no_row(params):
    """`start` is a share, `every` at least 1."""
    with pytest.raises(ShiftBenchError, match=f"'{next(iter(params))}' is"):
        method_of("swa", **params)
