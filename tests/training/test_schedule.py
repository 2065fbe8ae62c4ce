"""The learning rate during a run: a function of the step, the same for every way of stepping."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.methods.method import Stage
from shiftbench.training.fast.stacked import Stacked
from shiftbench.training.lane import Lane
from shiftbench.training.run import SCHEDULES
from shiftbench.training.step import Plain, factors
from tests.toys import CPU, Data, fitted, learn, toy_features, toy_rows, toy_run


@given(st.sampled_from(SCHEDULES), st.integers(1, 500), st.data())
def test_a_block_is_a_part_of_the_whole(schedule, steps, data):
    """Asked for in pieces, factors are those of all steps; they begin at 1 and never rise."""
    first = data.draw(st.integers(0, steps - 1))
    whole = factors(schedule, 0, steps, steps)
    assert np.array_equal(whole[first:], factors(schedule, first, steps - first, steps))
    assert whole[0] == 1
    assert (np.diff(whole) <= 0).all()
    assert whole.min() > 0


@pytest.mark.parametrize(("schedule", "optimizer"), [("thirds", "sgd"), ("cosine", "adam"), ("thirds", "adamw")])
def test_stacked_and_eager_agree_and_differ_from_constant(schedule, optimizer):
    """Both ways of stepping follow the schedule; without it the weights are others."""
    _, benchmark = toy_rows()
    data = Data(benchmark, toy_features(benchmark), CPU)
    run = toy_run(benchmark, schedule=schedule, optimizer=optimizer, steps=9, weight_decay=0.01)
    ends = []
    for way in (Stacked, Plain):
        lane = Lane.enter(run, data, Stage(run.learner()), 0, None)
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
    lane, ours = (Lane.enter(run, data, Stage(run.learner()), 0, None) for _ in range(2))
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
