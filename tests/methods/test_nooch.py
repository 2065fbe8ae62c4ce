"""Undersampling, and Group DRO with its adjustment: what Madras & Zemel (2021, §4) train with."""

import numpy as np
import pytest
import torch

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods.method import Stage
from shiftbench.training.lane import Lane
from tests.methods.test_methods import losses, number, parts, wide
from tests.toys import CPU, Data, learn, method_of, net_of, ten_rows, toy_features, toy_rows, toy_run


@pytest.mark.parametrize(("by", "column"), [("group", "group"), ("label", "label"), ("domain", "domain")])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_undersampling_draws_by_the_law(by, column, exponent):
    """A group of n items is drawn in proportion to n^(1 - a)."""
    _, benchmark = toy_rows()
    data = Data(benchmark, toy_features(benchmark), CPU)
    run = toy_run(benchmark, method="undersample", params={"by": by, "exponent": exponent})
    lane = Lane.enter(run, data, Stage(run.learner()), 0, None)
    codes = data.codes(column)
    drawn = np.bincount(codes[lane.block(0, 2000)[0].ravel()])
    n = np.bincount(codes).astype(float)
    np.testing.assert_allclose(drawn / drawn.sum(), n ** (1 - exponent) / (n ** (1 - exponent)).sum(), atol=0.015)


def test_undersampling_without_an_exponent_is_erm():
    """a = 0 is ERM bit for bit; a = 1 is not."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    plain = learn(toy_run(benchmark), benchmark, x)
    for exponent, same in ((0.0, True), (1.0, False)):
        run = toy_run(benchmark, method="undersample", params={"exponent": exponent})
        assert torch.equal(plain, learn(run, benchmark, x)) is same
    with pytest.raises(ShiftBenchError, match="undersample: by"):
        method_of("undersample", by="grup")


def test_hard_group_dro_is_the_largest_adjusted_risk():
    """The loss is the risk of the group with the largest R_g + K / sqrt(n_g): a large K chooses the smallest group."""
    _, batch, task = ten_rows()
    net = net_of()
    label, _, group = parts(batch)
    item = losses(wide(net(batch.x)), label)
    risks = np.asarray([item[group == g].mean() for g in range(3)])
    rarity = task.group_counts.double().rsqrt().numpy()
    for adjustment in (0.0, 1.0, 100.0):
        method = method_of("group_dro", hard=True, adjustment=adjustment)
        best = (risks + adjustment * rarity).argmax()
        assert number(method.loss(net, batch, method.state(task), 0)) == pytest.approx(risks[best], rel=1e-5)


def test_the_adjustment_moves_weight_to_small_groups():
    """With K the smallest group gains against the largest, by exp(eta K (1/sqrt(n_s) - 1/sqrt(n_l))) in one step."""
    _, batch, task = ten_rows()
    net, ratio = net_of(), {}
    small, large = int(task.group_counts.argmin()), int(task.group_counts.argmax())
    for adjustment in (0.0, 2.0):
        method = method_of("group_dro", adjustment=adjustment, step_size=0.5)
        state = method.state(task)
        method.loss(net, batch, state, 0)
        ratio[adjustment] = number(state.q[small] / state.q[large])
    rarity = task.group_counts.double().rsqrt()
    gain = float(torch.exp(0.5 * 2 * (rarity[small] - rarity[large])))
    assert ratio[2.0] / ratio[0.0] == pytest.approx(gain, rel=1e-4)
