"""Methods: one contract for all of the table, the laws that tie them to ERM, and losses as the papers write them."""

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch

from shiftbench.core.arrays import child
from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods import METHODS, RUN_SPACE, Batch, facts
from shiftbench.methods.alignment import coral_penalty, prior_weights, reverse
from shiftbench.methods.irm import invariance
from shiftbench.methods.method import means_by
from shiftbench.training.run import Run
from tests.toys import (
    HEADS,
    learn,
    learn_pack,
    method_of,
    net_of,
    ten_rows,
    toy_features,
    toy_rows,
    toy_run,
    with_draws,
)

NAMES = HEADS
LINEAR = ("erm", "group_dro", "irm", "jtt", "reweight")
"""One of each kind that a linear model allows: no penalty, weights that move, a penalty, two stages, drawn batches."""
SHORT = {"steps": 12, "eval_every": 4}


def softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def losses(logits: np.ndarray, label: np.ndarray) -> np.ndarray:
    return -np.log(softmax(logits)[np.arange(len(label)), label])


def parts(batch: Batch) -> tuple[np.ndarray, ...]:
    return tuple(codes.numpy() for codes in (batch.label, batch.domain, batch.group))


def number(tensor: torch.Tensor) -> float:
    return tensor.detach().item()


def wide(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy().astype(np.float64)


# The contract


@pytest.mark.learning
@pytest.mark.parametrize(("name", "model"), [
    *((name, "mlp") for name in NAMES), *((name, "linear") for name in LINEAR)])
def test_learns_a_separable_toy(name, model):
    """Every method gets nine of ten test items right where the classes lie apart; IRM and V-REx with a mild penalty."""
    _, benchmark = toy_rows()
    params = {"penalty": 1.0} if name in ("irm", "vrex") else {}
    run = toy_run(benchmark, method=name, model=model, params=params, steps=60, eval_every=20, lr=0.05)
    logits = learn(run, benchmark, toy_features(benchmark))
    test = benchmark.rows("test")
    assert (logits[test].argmax(dim=1).numpy() == benchmark.label[test]).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_repeats_under_a_seed(name):
    """The same seed gives the same logits bit for bit, whatever was drawn before; another seed gives others."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    first, another = learn_pack([toy_run(benchmark, method=name, seed=seed, **SHORT) for seed in (0, 1)], benchmark, x)
    before = torch.rand(3)
    assert torch.equal(first, learn(toy_run(benchmark, method=name, **SHORT), benchmark, x))
    assert not torch.equal(first, another)
    assert not torch.equal(before, torch.rand(3))  # and the stream outside went on undisturbed


@pytest.mark.parametrize("rows", [[0, 3, 7], [1], [1, 4, 8, 6]], ids=["one domain", "one row", "a group missing"])
@pytest.mark.parametrize("name", NAMES)
def test_survives_a_batch_that_lacks_a_group(name, rows):
    """A batch without some group, some domain, or with a single row gives a finite loss and finite gradients."""
    _, batch, task = ten_rows()
    method, net = method_of(name), net_of()
    state = method.state(task)
    part = with_draws(Batch(*(column[rows] for column in batch[:5])), method)
    loss = method.loss(net, part, state, step=0)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(parameter.grad).all() for parameter in net.parameters() if parameter.grad is not None)
    assert all(torch.isfinite(value).all() for value in state.state_dict().values())


@pytest.mark.parametrize("name", NAMES)
def test_restores_from_its_state(name):
    """Net and state of step 3, put into fresh ones, go on exactly as the old ones do."""
    _, batch, task = ten_rows()
    method = method_of(name)
    batch = with_draws(batch, method)

    def go(net, state, first, last):
        trained = torch.optim.SGD([*net.parameters(), *state.parameters()], 0.1)
        for step in range(first, last):
            trained.zero_grad()
            method.loss(net, batch, state, step).backward()
            trained.step()

    net, state = net_of(), method.state(task)
    go(net, state, 0, 3)
    fresh, memory = net_of(), method.state(task)
    fresh.load_state_dict(net.state_dict())
    memory.load_state_dict(state.state_dict())
    go(net, state, 3, 6)
    go(fresh, memory, 3, 6)
    for old, new in ((net, fresh), (state, memory)):
        assert all(torch.equal(old.state_dict()[key], value) for key, value in new.state_dict().items())


@pytest.mark.parametrize("name", NAMES)
def test_heavier_items_weigh_more(name):
    """A weight of 2 for every item doubles the gradient of the risk; weights of 1 change nothing."""
    _, batch, task = ten_rows()
    method, net = method_of(name, **({"penalty": 0.0} if "penalty" in facts(name)["parameters"] else {})), net_of()
    batch = with_draws(batch, method)

    def gradient(weight):
        net.zero_grad()
        torch.manual_seed(0)
        method.loss(net, batch._replace(weight=weight), method.state(task), 0).backward()
        return net.head.weight.grad.clone()

    assert torch.equal(gradient(None), gradient(torch.ones(10)))
    # Group DRO's q looks at the weighted risks, so there only the direction is sure.
    if name != "group_dro":
        torch.testing.assert_close(gradient(torch.full((10,), 2.0)), 2 * gradient(None))


@pytest.mark.parametrize("name", NAMES)
def test_search_space_draws_legal_settings(name):
    """Whatever its laws draw makes a legal method, and each law is about a field it has."""
    for seed in range(20):
        rng = child(seed, name)
        drawn = {key: law.draw(rng) for key, law in METHODS[name].space.items()}
        run = Run("0" * 64, method=name, params=drawn, model="mlp", features="efficientnet-lite0@32",
                  **{key: law.draw(rng) for key, law in RUN_SPACE.items()})
        assert {key: run.params[key] for key in drawn} == drawn
    listed = facts(name)
    assert listed["family"]
    assert listed["summary"].endswith((".", ")."))
    assert set(listed["space"]) <= set(listed["parameters"])


# The laws


@cache
def erm_of(batches: str) -> torch.Tensor:
    _, benchmark = toy_rows()
    return learn(toy_run(benchmark, batches=batches, **SHORT), benchmark, toy_features(benchmark))


@pytest.mark.slow
@pytest.mark.parametrize("batches", ["plain", "domain", "group"])
@pytest.mark.parametrize("name", [name for name in NAMES if "penalty" in facts(name)["parameters"]])
def test_penalty_zero_is_erm(name, batches):
    """With penalty 0 every penalised method has ERM's trajectory bit for bit on the same batches."""
    _, benchmark = toy_rows()
    params = [{}, {"penalty": 0.0}, *([{"penalty": 0.0, "anneal": 0.5}] if name == "irm" else [])]
    runs = [toy_run(benchmark, method=name, params=one, batches=batches, **SHORT) for one in params]
    default, *zero = learn_pack(runs, benchmark, toy_features(benchmark))
    assert all(torch.equal(erm_of(batches), logits) for logits in zero)
    assert not torch.equal(erm_of(batches), default)


@pytest.mark.slow
@pytest.mark.parametrize("params", [{}, {"by": "domain"}, {"step_size": 5.0}])
def test_one_group_makes_group_dro_erm(params):
    """With one group, or one domain, there is nothing to weigh: Group DRO has ERM's trajectory bit for bit."""
    _, benchmark = toy_rows()
    one = dataclasses.replace(benchmark, group=np.zeros_like(benchmark.group), domain=np.zeros_like(benchmark.domain))
    x = toy_features(benchmark)
    settings = {"batches": "plain", "batch_size": 20, **SHORT}
    assert torch.equal(learn(toy_run(one, **settings), one, x),
                       learn(toy_run(one, method="group_dro", params=params, **settings), one, x))
    assert not torch.equal(learn(toy_run(benchmark, **settings), benchmark, x),
                           learn(toy_run(benchmark, method="group_dro", params=params, **settings), benchmark, x))


@pytest.mark.parametrize("name", ["coral", "cdann"])
def test_linear_features_cannot_be_aligned(name):
    """On the linear model, whose features are fixed, an aligning method would be ERM under another name: refused."""
    _, benchmark = toy_rows()
    with pytest.raises(ShiftBenchError, match=r"it would be ERM. Choose mlp"):
        toy_run(benchmark, method=name, model="linear")


def test_identical_domains_are_at_distance_zero():
    """CORAL's discrepancy is 0 between a domain and its copy, whatever the order of their rows."""
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    both = torch.cat([z, z.flip(0)])
    assert number(coral_penalty(both, torch.arange(12) // 6, 2)) == pytest.approx(0, abs=1e-6)


# The papers' formulas, in plain numpy, on ten fixed rows


def test_erm_is_the_mean_cross_entropy():
    """ERM's loss is 1/n sum of -log p(y)."""
    _, batch, task = ten_rows()
    net, erm = net_of(), method_of("erm")
    label, _, _ = parts(batch)
    assert number(erm.loss(net, batch, erm.state(task), 0)) == pytest.approx(losses(wide(net(batch.x)), label).mean())


def test_irm_penalty_is_the_product_of_half_batch_slopes():
    """D_e multiplies the slopes d/dw CE(w l, y) at w = 1 of a domain's even and odd rows, by finite differences."""
    _, batch, _ = ten_rows()
    logits = net_of()(batch.x)
    label, domain, _ = parts(batch)
    numbers, h = wide(logits), 1e-5
    slope = (losses((1 + h) * numbers, label) - losses((1 - h) * numbers, label)) / (2 * h)
    halves = [slope[domain == e][0::2].mean() * slope[domain == e][1::2].mean() for e in (0, 1)]
    squares = [slope[domain == e].mean() ** 2 for e in (0, 1)]
    assert number(invariance(logits, batch, batch.domain, 2)) == pytest.approx(np.mean(halves), rel=1e-4)
    biased = number(invariance(logits, batch, batch.domain, 2, unbiased=False))
    assert biased == pytest.approx(np.mean(squares), rel=1e-4)


def test_irm_gradient_agrees_with_a_second_derivative():
    """The closed form has the gradient that differentiating twice through a dummy scale gives."""
    _, batch, _ = ten_rows()
    net = net_of()
    invariance(net(batch.x), batch, batch.domain, 2).backward()
    ours = net.head.weight.grad.clone()
    net.zero_grad()
    logits, total = net(batch.x), 0.0
    for e in (0, 1):
        rows = (batch.domain == e).nonzero().squeeze(1)
        slopes = []
        for half in (rows[0::2], rows[1::2]):
            w = torch.tensor(1.0, requires_grad=True)
            risk = torch.nn.functional.cross_entropy(w * logits[half], batch.label[half])
            slopes.append(torch.autograd.grad(risk, w, create_graph=True)[0])
        total = total + slopes[0] * slopes[1] / 2
    total.backward()
    torch.testing.assert_close(ours, net.head.weight.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("penalty", "step", "weight"), [(100.0, 29, 1.0), (100.0, 30, 100.0), (0.5, 3, 0.5)])
def test_irm_anneals(penalty, step, weight):
    """The weight is min(1, lambda) in a tenth of the run's steps, then lambda; above 1 it divides the whole loss."""
    _, batch, task = ten_rows()
    task = task._replace(steps=300)
    net, irm = net_of(), method_of("irm", penalty=penalty)
    label, _, _ = parts(batch)
    risk = losses(wide(net(batch.x)), label).mean()
    expected = (risk + weight * number(invariance(net(batch.x), batch, batch.domain, 2))) / max(1.0, weight)
    assert number(irm.loss(net, batch, irm.state(task), step)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("by", ["group", "domain"])
def test_group_dro_follows_algorithm_1(by):
    """q <- q exp(eta R) / sum, then the loss is sum q R with the new q; three steps of it."""
    _, batch, task = ten_rows()
    net, dro = net_of(), method_of("group_dro", step_size=0.5, by=by)
    state = dro.state(task)
    label, domain, group = parts(batch)
    codes = group if by == "group" else domain
    item = losses(wide(net(batch.x)), label)
    risk = np.asarray([item[codes == g].mean() for g in range(codes.max() + 1)])
    q = np.full(len(risk), 1 / len(risk))
    for step in range(3):
        q = q * np.exp(0.5 * risk)
        q /= q.sum()
        assert number(dro.loss(net, batch, state, step)) == pytest.approx(q @ risk, rel=1e-5)
        np.testing.assert_allclose(state.q.numpy(), q, rtol=1e-5)


def test_group_dro_absent_group_has_no_risk():
    """A group that the batch lacks counts with risk 0, so its weight falls."""
    _, batch, task = ten_rows()
    dro = method_of("group_dro", step_size=1.0)
    state = dro.state(task)
    without = Batch(*(column[batch.group != 1] for column in batch[:5]))
    dro.loss(net_of(), without, state, 0)
    assert state.q[1] == state.q.min()
    assert number(state.q[1]) < 1 / 3
    assert number(state.q.sum()) == pytest.approx(1)


def test_group_dro_does_not_overflow():
    """Risks of thousands leave q a distribution."""
    _, batch, task = ten_rows()
    dro = method_of("group_dro", step_size=0.1)
    state = dro.state(task)
    loss = dro.loss(net_of(), batch._replace(x=batch.x * 1e6), state, 0)
    assert torch.isfinite(loss)
    assert number(state.q.sum()) == pytest.approx(1)


def test_coral_is_the_distance_of_means_and_covariances():
    """|| mu_a - mu_b ||^2 / d + || C_a - C_b ||_F^2 / d^2, averaged over the pairs of three domains."""
    z = torch.randn(10, 4, generator=torch.Generator().manual_seed(3))
    domain = torch.tensor([0, 1, 2, 0, 1, 2, 2, 0, 1, 1])
    means = [wide(z[domain == e]).mean(axis=0) for e in range(3)]
    covariances = [np.cov(wide(z[domain == e]), rowvar=False) for e in range(3)]
    pairs = [((means[a] - means[b]) ** 2).mean() + ((covariances[a] - covariances[b]) ** 2).mean()
             for a, b in ((0, 1), (0, 2), (1, 2))]
    assert number(coral_penalty(z, domain, 3)) == pytest.approx(np.mean(pairs), rel=1e-5)
    alone = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1, 2])  # a domain of one row is left out
    two = ((wide(z[:5]).mean(0) - wide(z[5:9]).mean(0)) ** 2).mean() + (
        (np.cov(wide(z[:5]), rowvar=False) - np.cov(wide(z[5:9]), rowvar=False)) ** 2).mean()
    assert number(coral_penalty(z, alone, 4)) == pytest.approx(two, rel=1e-5)


def test_coral_loss_adds_the_weighted_discrepancy():
    """loss = R + gamma * discrepancy of the net's features."""
    _, batch, task = ten_rows()
    net, coral = net_of(), method_of("coral", penalty=3.0)
    label, _, _ = parts(batch)
    apart = number(coral_penalty(net.features(batch.x), batch.domain, 2))
    expected = losses(wide(net(batch.x)), label).mean() + 3 * apart
    assert number(coral.loss(net, batch, coral.state(task), 0)) == pytest.approx(expected, rel=1e-5)


def test_cdann_weights_give_every_domain_a_uniform_prior():
    """Summed over a domain's items, b is the same for each label it has, and 1 on average; an absent label has none."""
    counts = torch.tensor([[8, 2, 0], [1, 1, 6]])
    b = prior_weights(counts)
    mass = (b * counts).numpy()
    np.testing.assert_allclose(mass[0], [5, 5, 0])
    np.testing.assert_allclose(mass[1], [8 / 3] * 3, rtol=1e-6)


def test_cdann_loss_is_risk_plus_weighted_discriminator_loss():
    """R + mean_i b_i CE(D(z_i + e_{y_i}), d_i), with D and e computed here by hand."""
    _, batch, task = ten_rows()
    net, cdann = net_of(), method_of("cdann", width=6, depth=1)
    torch.manual_seed(0)
    state = cdann.state(task)
    label, domain, _ = parts(batch)
    z = wide(net.features(batch.x)) + wide(state.label_vector.weight)[label]
    first, _, last = state.discriminator
    hidden = np.maximum(z @ wide(first.weight).T + wide(first.bias), 0)
    guess = losses(hidden @ wide(last.weight).T + wide(last.bias), domain)
    share = task.label_counts.numpy() / task.label_counts.numpy().sum(axis=1, keepdims=True)
    labels = (task.label_counts.numpy() > 0).sum(axis=1)
    b = 1 / (labels[domain] * share[domain, label])
    expected = losses(wide(net(batch.x)), label).mean() + (b * guess).mean()
    assert number(cdann.loss(net, batch, state, 0)) == pytest.approx(expected, rel=1e-5)


def test_cdann_reverses_the_gradient_for_the_net_alone():
    """The features get -lambda times the discriminator's gradient; the discriminator gets its own, unscaled."""
    _, batch, task = ten_rows()

    def gradients(penalty):
        net, cdann = net_of(), method_of("cdann", penalty=penalty)
        torch.manual_seed(0)
        state = cdann.state(task)
        cdann.loss(net, batch, state, 0).backward()
        return net.features[0].weight.grad.double(), state.discriminator[0].weight.grad.double()

    (none, d0), (one, d1), (three, d3) = (gradients(penalty) for penalty in (0.0, 1.0, 3.0))
    torch.testing.assert_close(three - none, 3 * (one - none), rtol=1e-3, atol=1e-6)
    assert (one - none).abs().max() > 1e-4
    assert torch.equal(d0, d1)
    assert torch.equal(d0, d3)
    z = torch.ones(3, requires_grad=True)
    (reverse(z, 0.5) * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert z.grad.tolist() == [-0.5, -1.0, -1.5]


def test_means_by_code():
    """The mean per code, 0 for a code that is absent."""
    means, count = means_by(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([2, 0, 2]), 4)
    assert means.tolist() == [3.0, 0.0, 3.0, 0.0]
    assert count.tolist() == [1, 0, 2, 0]


def test_unknown_kind_of_group_is_refused():
    """Group DRO's `by` is group or domain."""
    with pytest.raises(ShiftBenchError, match="No kind of group named 'clas'"):
        method_of("group_dro", by="clas")
