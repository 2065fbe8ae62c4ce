"""Undersampling, Group DRO with its adjustment, and IRM by group: what Madras & Zemel (2021, §4) train with."""

import numpy as np
import pytest
import torch

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods import METHODS, Batch, alignment
from shiftbench.methods.irm import invariance
from shiftbench.methods.method import Environments, Stage
from shiftbench.training.lane import Lane
from shiftbench.training.run import Run
from tests.methods.test_methods import losses, number, parts, wide
from tests.toys import CPU, Data, learn, method_of, net_of, ten_rows, toy_features, toy_rows, toy_run


@pytest.mark.parametrize(("by", "column"), [("group", "group"), ("label", "label"), ("domain", "domain")])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_undersampling_draws_by_the_law(by, column, exponent):
    """A group of n items is drawn in proportion to n^(1 - a)."""
    _, benchmark = toy_rows()
    data = Data(benchmark, toy_features(benchmark), CPU)
    run = toy_run(benchmark, method="undersample", params={"by": by, "exponent": exponent})
    lane = Lane(run, data, Stage(run.learner()), 0, None)
    codes = data.pools(column)
    drawn = np.bincount(codes[lane.block(0, 2000)[0].ravel()])
    n = np.bincount(codes).astype(float)
    np.testing.assert_allclose(drawn / drawn.sum(), n ** (1 - exponent) / (n ** (1 - exponent)).sum(), atol=0.015)


@pytest.mark.slow
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


# Environments by group

BY_GROUP = sorted(name for name, cls in METHODS.items() if issubclass(cls, Environments))


def by_group(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The mean of each group's items."""
    return np.asarray([values[group == g].mean() for g in np.unique(group)])


def test_the_methods_that_take_groups():
    """IRM, V-REx, CORAL, MMD and DANN compare domains or groups; another word is refused."""
    assert BY_GROUP == ["coral", "dann", "irm", "mmd", "vrex"]
    for name in BY_GROUP:
        assert method_of(name).by == "domain"
        with pytest.raises(ShiftBenchError, match=f"{name}: by"):
            method_of(name, by="label")


@pytest.mark.parametrize("penalty", [0.5, 10_000.0])
def test_irm_by_group_is_noochs(penalty):
    """sum_e (R_e + lambda g_e^2) / max(1, lambda) over the m environments of the batch, divided by m; an environment
    of one item counts as any other."""
    _, batch, task = ten_rows()
    batch = batch._replace(group=torch.tensor([0, 1, 2, 0, 1, 2, 2, 0, 1, 0]))
    alone = batch._replace(group=torch.tensor([0, 1, 0, 0, 1, 0, 2, 0, 1, 0]))
    net, irm = net_of(), method_of("irm", by="group", unbiased=False, anneal=0.0, penalty=penalty)
    for one in (batch, alone):
        label, _, group = parts(one)
        logits, h = wide(net(one.x)), 1e-5
        slope = (losses((1 + h) * logits, label) - losses((1 - h) * logits, label)) / (2 * h)
        total = (by_group(losses(logits, label), group) + penalty * by_group(slope, group) ** 2).mean()
        assert number(irm.loss(net, one, irm.state(task), 5)) == pytest.approx(total / max(1, penalty), rel=1e-4)


@pytest.mark.parametrize("name", BY_GROUP)
def test_penalties_over_groups(name):
    """With `by = "group"` the risk is the mean of the groups' risks and the penalty compares groups."""
    _, batch, task = ten_rows()
    torch.manual_seed(0)
    net, method = net_of(), method_of(name, by="group", penalty=1.0)
    state = method.state(task)
    label, _, group = parts(batch)
    item, z = losses(wide(net(batch.x)), label), net.features(batch.x)
    risks = by_group(item, group)
    expected = {
        "irm": lambda: number(invariance(net(batch.x), batch, batch.group, 3)),
        "vrex": lambda: risks.var(),
        "coral": lambda: number(alignment.coral_penalty(z, batch.group, 3)),
        "mmd": lambda: number(alignment.mmd_penalty(z, batch.group, 3)),
        "dann": lambda: by_group(losses(wide(state.discriminator(z)), group), group).mean(),
    }[name]()
    assert number(method.loss(net, batch, state, 5)) == pytest.approx(risks.mean() + expected, rel=1e-4)


@pytest.mark.parametrize("name", BY_GROUP)
def test_groups_count_equally_whatever_their_share(name):
    """Every item of one group twice in the batch leaves the loss as it is; over domains it does not."""
    _, batch, task = ten_rows()
    order = torch.cat([torch.arange(10), (batch.group == 0).nonzero().flatten()])
    more = Batch(*(column[order] for column in batch[:5]))
    params = {"unbiased": False} if name == "irm" else {}
    net = net_of()
    for by, same in (("group", name != "coral"), ("domain", False)):  # CORAL's covariance has 1 / (n - 1)
        torch.manual_seed(0)
        method = method_of(name, by=by, **params)
        state = method.state(task)
        once, twice = (number(method.loss(net, one, state, 5)) for one in (batch, more))
        assert (twice == pytest.approx(once, rel=1e-5)) is same


@pytest.mark.parametrize("name", BY_GROUP)
def test_where_groups_are_domains_only_the_weights_differ(name):
    """On a batch with as many items of each, groups that are the domains give the loss of domains."""
    _, batch, task = ten_rows()
    rows = torch.tensor([0, 1, 2, 4, 5, 6, 7, 8])
    batch = batch._replace(**{field: getattr(batch, field)[rows] for field in ("x", "label", "domain", "index")},
                           group=batch.domain[rows])
    found = {}
    for by in ("domain", "group"):
        torch.manual_seed(0)
        method = method_of(name, by=by)
        found[by] = number(method.loss(net_of(), batch, method.state(task._replace(n_groups=2)), 5))
    assert found["group"] == pytest.approx(found["domain"], rel=1e-6)


@pytest.mark.parametrize("name", BY_GROUP)
def test_runs_from_before_keep_their_ids(name):
    """At its default `by` is no part of a run's facts; by group it is, and is another run."""
    _, benchmark = toy_rows()
    plain, other = (toy_run(benchmark, method=name, params=params) for params in ({"by": "domain"}, {"by": "group"}))
    assert "by" not in plain.to_json()["params"]
    assert plain.id == toy_run(benchmark, method=name).id != other.id
    assert other.to_json()["params"]["by"] == "group"
    assert Run.of(plain.to_json()) == plain
