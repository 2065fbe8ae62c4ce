"""The learning rate during a run: a function of the step, the same for every way of stepping."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods.method import Stage
from shiftbench.training.fast import Stacked
from shiftbench.training.lane import Lane, decaying, factors
from shiftbench.training.run import SCHEDULES, Run
from shiftbench.training.step import Plain
from tests.toys import CPU, Data, fitted, learn, toy_features, toy_rows, toy_run


def scheduled(schedule, **settings):
    return Run("", features="columns", schedule=schedule, **{"drop_every": 7, **settings})


@given(st.sampled_from(SCHEDULES), st.integers(1, 500), st.integers(0, 20), st.data())
def test_a_block_is_a_part_of_the_whole(schedule, steps, warmup, data):
    """Asked for in pieces, factors are those of all steps; after the warm-up they never rise, without one they begin at
    1."""
    first, run = data.draw(st.integers(0, steps - 1)), scheduled(schedule, warmup=warmup)
    whole = factors(run, 0, steps, steps)
    assert np.array_equal(whole[first:], factors(run, first, steps - first, steps))
    assert whole[0] == (0 if warmup else 1)
    assert (np.diff(whole[warmup:]) <= 0).all()
    assert whole[1:].min(initial=1) > 0


@pytest.mark.parametrize("schedule", ["cosine", "linear", "exponential"])
@pytest.mark.parametrize("warmup", [0, 6])
def test_schedules_are_those_of_torch(schedule, warmup):
    """Cosine, linear and exponential factors are what torch's own schedulers give, behind a linear warm-up."""
    steps, schedulers = 30, torch.optim.lr_scheduler
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    left = steps - warmup
    after = {"cosine": lambda: schedulers.CosineAnnealingLR(optimizer, left),
             "linear": lambda: schedulers.LinearLR(optimizer, 1.0, 0.0, left),
             "exponential": lambda: schedulers.StepLR(optimizer, 7, 0.96)}[schedule]()
    rates = []
    for _ in range(left):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        after.step()
    found = factors(scheduled(schedule, warmup=warmup), 0, steps, steps)
    np.testing.assert_allclose(found[:warmup], np.arange(warmup) / 6)
    if schedule == "exponential":  # drops count all steps, also those of the warm-up
        rates = 0.96 ** (np.arange(warmup, steps) // 7)
    np.testing.assert_allclose(found[warmup:], rates, atol=1e-9)


def test_an_exponential_schedule_needs_its_step():
    """Without a number of steps between drops, or with a factor above 1, it is refused; elsewhere both are idle."""
    for wrong in ({"drop_every": 0}, {"drop": 1.5}, {"drop": 0.0}):
        with pytest.raises(ShiftBenchError, match="drop_every"):
            scheduled("exponential", **wrong)
    assert set(scheduled("cosine").idle()) == {"drop_every"}


@pytest.mark.parametrize("way", [Stacked, Plain])
@pytest.mark.parametrize("longest", [0.01, 1e6])
def test_a_long_gradient_is_shortened(way, longest):
    """The step of plain gradient descent is never longer than lr · max_grad_norm; a large bound changes nothing."""
    _, benchmark = toy_rows()
    data = Data(benchmark, toy_features(benchmark), CPU)
    ends = []
    for bound in (0.0, longest):
        run = toy_run(benchmark, optimizer="sgd", momentum=0.0, lr=0.5, steps=1, model="linear", max_grad_norm=bound)
        lane = Lane(run, data, Stage(run.learner()), 0, None)
        before = [one.detach().clone() for one in lane.net.parameters()]
        way([lane]).advance(1)
        ends.append([one.detach() - old for one, old in zip(lane.net.parameters(), before, strict=True)])
    length = [float(torch.cat([one.flatten() for one in moved]).norm()) for moved in ends]
    if longest == 0.01:
        assert length[0] > 0.01
        assert length[1] == pytest.approx(0.5 * 0.01, rel=1e-3)
        torch.testing.assert_close(ends[1][0] / length[1], ends[0][0] / length[0], rtol=1e-3, atol=1e-5)
    else:
        assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


@pytest.mark.parametrize("way", [Stacked, Plain])
def test_biases_and_layer_norms_may_be_spared_from_decay(way):
    """With decay_all=False a step that has no gradient shrinks matrices by lr · decay and leaves biases alone."""
    _, benchmark = toy_rows()
    data = Data(benchmark, toy_features(benchmark), CPU)
    run = toy_run(benchmark, optimizer="adamw", lr=0.1, weight_decay=0.5, decay_all=False, steps=1, model="linear")
    all_of_it = toy_run(benchmark, optimizer="adamw", lr=0.1, weight_decay=0.5, steps=1, model="linear")
    moved = []
    for one in (run, all_of_it):
        lane = Lane(one, data, Stage(one.learner()), 0, None)
        lane.net.head.bias.data.fill_(1.0)
        way([lane]).advance(1)
        moved.append((lane.net.head.weight.detach().clone(), lane.net.head.bias.detach().clone()))
    assert torch.equal(moved[0][0], moved[1][0])
    torch.testing.assert_close(moved[0][1] - moved[1][1], torch.full_like(moved[0][1], 0.1 * 0.5))
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.BatchNorm1d(4))
    groups = {group["weight_decay"]: group["params"] for group in decaying(run, (net,))}
    assert [id(one) for one in groups[0.5]] == [id(net[0].weight), id(net[2].weight)]
    assert [id(one) for one in groups[0.0]] == [id(net[0].bias), id(net[1].weight), id(net[1].bias), id(net[2].bias)]


@pytest.mark.parametrize(("schedule", "optimizer"), [("thirds", "sgd"), ("cosine", "adam"), ("thirds", "adamw")])
def test_stacked_and_eager_agree_and_differ_from_constant(schedule, optimizer):
    """Both ways of stepping follow the schedule; without it the weights are others."""
    _, benchmark = toy_rows()
    data = Data(benchmark, toy_features(benchmark), CPU)
    run = toy_run(benchmark, schedule=schedule, optimizer=optimizer, steps=9, weight_decay=0.01)
    ends = []
    for way in (Stacked, Plain):
        lane = Lane(run, data, Stage(run.learner()), 0, None)
        way([lane]).advance(9)
        ends.append(lane.net.head.weight.detach().clone())
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-4, atol=1e-6)
    plain = fitted(toy_run(benchmark, optimizer=optimizer, steps=9, weight_decay=0.01, select_on="last"), benchmark,
                   toy_features(benchmark)).learned.net.head.weight
    assert not torch.allclose(plain, ends[0], rtol=1e-3)


def test_plain_gradient_descent_by_hand():
    """Without momentum a step of SGD is minus the rate of that step times the gradient."""
    _, benchmark = toy_rows()
    data = Data(benchmark, toy_features(benchmark), CPU)
    run = toy_run(benchmark, schedule="thirds", optimizer="sgd", momentum=0.0, steps=6, lr=0.5, model="linear")
    lane, ours = (Lane(run, data, Stage(run.learner()), 0, None) for _ in range(2))
    Stacked([lane]).advance(6)
    index = torch.from_numpy(ours.block(0, 6)[0])
    for t, rate in enumerate((0.5, 0.5, 0.05, 0.05, 0.005, 0.005)):
        loss = torch.nn.functional.cross_entropy(ours.net(data.batch(index[t], ours.net).x),
                                                 data.batch(index[t], ours.net).label)
        for parameter, slope in zip(ours.net.parameters(), torch.autograd.grad(loss, ours.net.parameters()),
                                    strict=True):
            parameter.data -= rate * slope
    torch.testing.assert_close(lane.net.head.weight, ours.net.head.weight, rtol=1e-4, atol=1e-6)


def test_a_stopped_run_goes_on_at_its_rate(tmp_path):
    """Stopped within a third and started again, a run ends as one that never stopped."""
    _, benchmark = toy_rows()
    x, run = toy_features(benchmark), toy_run(benchmark, schedule="thirds", steps=30)
    whole = learn(run, benchmark, x)

    class Stop(Exception):
        pass

    def stop(done, total):
        if done >= 14:
            raise Stop

    with pytest.raises(Stop):
        learn(run, benchmark, x, tmp_path, progress=stop, checkpoint_seconds=0)
    assert torch.equal(whole, learn(run, benchmark, x, tmp_path))
