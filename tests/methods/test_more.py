"""More methods: each penalty and weight as the papers write it, in plain numpy, and the laws that tie it to ERM."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods import ERM, JTT, METHODS, Batch
from shiftbench.methods.alignment import mmd_penalty
from shiftbench.methods.eqrm import kernel_quantile, plain_quantile
from shiftbench.methods.irm import spread
from shiftbench.methods.method import Stage
from shiftbench.methods.reweight import balance
from tests.methods.test_methods import losses, number, parts, wide
from tests.toys import (
    check_a_pack,
    fitted,
    learn,
    method_of,
    net_of,
    ten_rows,
    toy_features,
    toy_rows,
    toy_run,
)

RISKS = st.lists(st.floats(0.01, 5), min_size=2, max_size=8).filter(lambda values: np.std(values) > 1e-2)


def of(name: str, step: int = 0, batch: Batch | None = None, **params) -> float:
    """The loss of a method on the ten rows."""
    _, rows, task = ten_rows()
    method = method_of(name, **params)
    torch.manual_seed(0)
    return number(method.loss(net_of(), batch or rows, method.state(task), step))


def items() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Logits, losses, labels, domains and groups of the ten rows."""
    _, batch, _ = ten_rows()
    logits = wide(net_of()(batch.x))
    label, domain, group = parts(batch)
    return logits, losses(logits, label), label, domain, group


def noisy():
    """The toy with one training label in five turned round, so that there is something to get wrong."""
    _, benchmark = toy_rows()
    label = benchmark.label.copy()
    turned = benchmark.rows("train")[::5]
    label[turned] = 1 - label[turned]
    return dataclasses.replace(benchmark, label=label), toy_features(benchmark)


# Numbers that differ within a pack


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params"), [
    ("vrex", [{"penalty": 0.5, "anneal": 0.25}, {"penalty": 20.0, "anneal": 0.4}]),
    ("mmd", [{"penalty": 0.1}, {"penalty": 5.0}]),
    ("dann", [{"penalty": 0.3}, {"penalty": 3.0}, {"width": 16}]),
    ("spectral_decoupling", [{"penalty": 0.001}, {"penalty": 1.0}]),
    ("eqrm", [{"burn_in": 0}, {"burn_in": 0.5, "quantile": 0.9}, {"burn_in": 0.3, "smooth": False}]),
    ("jtt", [{"first": 0.3}, {"first": 0.7, "upweight": 50.0}]),
    ("cvar_dro", [{"share": 0.5}, {"share": 0.03}]),
    ("focal", [{"gamma": 0.5}, {"gamma": 5.0}]),
    ("undersample", [{"exponent": 0.5}, {"exponent": 1.5}, {"exponent": 0.0}, {"by": "label"}]),
    ("group_dro", [{"adjustment": 1.0}, {"adjustment": 5.0, "step_size": 0.1}, {"hard": True}]),
    ("reweight", [{"exponent": 0.5}, {"by": "label"}, {"by": "domain"}]),
])
def test_numbers_differ_within_a_pack(name, params):
    """Runs with other hyperparameters, trained at once, each end with the weights they have alone, bit for bit."""
    check_a_pack(name, params, *noisy())


# V-REx


@pytest.mark.parametrize(("penalty", "step", "weight"), [(10.0, 0, 1.0), (10.0, 1, 10.0), (0.5, 3, 0.5)])
def test_vrex_is_risk_plus_the_variance_of_risks(penalty, step, weight):
    """R + w Var(R_e) with 1/m; w is min(1, beta) in a tenth of the ten steps, then beta, and divides above 1."""
    _, item, _, domain, _ = items()
    variance = np.var([item[domain == e].mean() for e in (0, 1)])
    expected = (item.mean() + weight * variance) / max(1, weight)
    assert of("vrex", step, penalty=penalty) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_vrex_with_one_domain_is_erm():
    """One domain's risk does not vary: ERM's trajectory bit for bit."""
    _, benchmark = toy_rows()
    one = dataclasses.replace(benchmark, domain=np.zeros_like(benchmark.domain))
    x = toy_features(benchmark)
    run = {"method": "vrex", "params": {"penalty": 1.0, "anneal": 0.1}, "batches": "plain"}
    assert torch.equal(learn(toy_run(one), one, x), learn(toy_run(one, **run), one, x))
    assert not torch.equal(learn(toy_run(benchmark), benchmark, x), learn(toy_run(benchmark, **run), benchmark, x))


def test_vrex_leaves_out_absent_domains():
    """A domain that the batch lacks has no risk of 0."""
    values = torch.tensor([1.0, 3.0, 5.0])
    assert number(spread(values, torch.tensor([0, 2, 2]), 4)) == pytest.approx(np.var([1.0, 4.0]))


# MMD


def test_mmd_is_the_kernels_sum():
    """mean k(a, a') + mean k(b, b') - 2 mean k(a, b), seven kernels added, averaged over the pairs of three domains."""
    z = torch.randn(10, 4, generator=torch.Generator().manual_seed(3))
    domain = torch.tensor([0, 1, 2, 0, 1, 2, 2, 0, 1, 1])
    x = wide(z)
    square = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    k = sum(np.exp(-(10.0**power) * square) for power in range(-3, 4))
    own = [domain.numpy() == e for e in range(3)]
    pairs = [k[own[a]][:, own[a]].mean() + k[own[b]][:, own[b]].mean() - 2 * k[own[a]][:, own[b]].mean()
             for a, b in ((0, 1), (0, 2), (1, 2))]
    assert number(mmd_penalty(z, domain, 5)) == pytest.approx(np.mean(pairs), rel=1e-4)


@given(st.integers(0, 99), st.integers(1, 8), st.floats(-50, 50))
def test_mmd_of_equal_domains_is_zero_and_grows_as_they_part(seed, rows, place):
    """0 between a sample and its copy, wherever they lie; more the further the copy is moved."""
    z = torch.randn(rows, 4, generator=torch.Generator().manual_seed(seed)) + place
    domain = torch.arange(2 * rows) // rows
    found = [number(mmd_penalty(torch.cat([z, z.flip(0) + shift]), domain, 2)) for shift in (0.0, 0.5, 1.0, 3.0, 9.0)]
    assert found[0] == pytest.approx(0, abs=0.02)  # the narrowest kernel sees rounding times 1000
    assert found == sorted(found)


def test_mmd_is_computed_in_32_bits():
    """Where products are made in 16 bits, the discrepancy still is what it is without."""
    z = torch.randn(10, 4, generator=torch.Generator().manual_seed(3))
    plain = mmd_penalty(z, torch.arange(10) % 2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(mmd_penalty(z, torch.arange(10) % 2, 2), plain)


def test_mmd_loss_adds_the_weighted_discrepancy():
    """loss = R + gamma * discrepancy of the net's features."""
    _, batch, _ = ten_rows()
    apart = number(mmd_penalty(net_of().features(batch.x), batch.domain, 2))
    assert of("mmd", penalty=3.0) == pytest.approx(items()[1].mean() + 3 * apart, rel=1e-5)


# DANN


def test_dann_loss_is_risk_plus_discriminator_loss():
    """R + mean_i CE(D(z_i), d_i), with D computed here by hand."""
    _, batch, task = ten_rows()
    net, dann = net_of(), method_of("dann", width=6, depth=1)
    torch.manual_seed(0)
    first, _, last = dann.state(task).discriminator
    hidden = np.maximum(wide(net.features(batch.x)) @ wide(first.weight).T + wide(first.bias), 0)
    guess = losses(hidden @ wide(last.weight).T + wide(last.bias), parts(batch)[1])
    assert of("dann", width=6, depth=1) == pytest.approx(items()[1].mean() + guess.mean(), rel=1e-5)


def test_dann_reverses_the_gradient_for_the_net_alone():
    """The features get -lambda times the discriminator's gradient; the discriminator gets its own, unscaled."""
    _, batch, task = ten_rows()

    def gradients(penalty):
        net, dann = net_of(), method_of("dann", penalty=penalty)
        torch.manual_seed(0)
        state = dann.state(task)
        dann.loss(net, batch, state, 0).backward()
        return net.features[0].weight.grad.double(), state.discriminator[0].weight.grad

    (none, d0), (one, d1), (three, d3) = (gradients(penalty) for penalty in (0.0, 1.0, 3.0))
    torch.testing.assert_close(three - none, 3 * (one - none), rtol=1e-3, atol=1e-6)
    assert (one - none).abs().max() > 1e-4
    assert torch.equal(d0, d1)
    assert torch.equal(d0, d3)


@pytest.mark.parametrize("name", ["mmd", "dann"])
def test_fixed_features_are_refused(name):
    """On the linear model, whose features are fixed, an aligning method would be ERM under another name."""
    _, benchmark = toy_rows()
    with pytest.raises(ShiftBenchError, match=r"it would be ERM. Choose mlp"):
        toy_run(benchmark, method=name, model="linear")


# Spectral decoupling


def test_spectral_decoupling_adds_the_mean_square_of_logits():
    """R + lambda mean l^2; that lambda = 0 is ERM bit for bit is held over all methods with a penalty."""
    logits, item, *_ = items()
    expected = item.mean() + 0.3 * (logits**2).mean()
    assert of("spectral_decoupling", penalty=0.3) == pytest.approx(expected, rel=1e-5)


# EQRM


def kernel_root(risks: np.ndarray, alpha: float) -> float:
    h = 1.06 * np.std(risks, ddof=1) * len(risks) ** -0.2
    return brentq(lambda t: norm.cdf((t - risks) / h).mean() - alpha, risks.min() - 20 * h, risks.max() + 20 * h,
                  xtol=1e-12)


@given(RISKS, st.floats(0.02, 0.98))
def test_eqrm_finds_the_quantile(values, alpha):
    """Both quantiles are numpy's and a root finder's, with domains that the batch lacks left out."""
    risks = np.asarray(values)
    with_absent = torch.tensor([9.0, *values, 0.0])
    present = torch.tensor([False, *[True] * len(values), False])
    assert number(plain_quantile(with_absent, present, alpha)) == pytest.approx(np.quantile(risks, alpha), abs=1e-4)
    assert number(kernel_quantile(with_absent, present, alpha)) == pytest.approx(kernel_root(risks, alpha), abs=1e-3)


@given(RISKS)
def test_eqrm_at_quantile_one_is_the_largest_risk(values):
    """alpha = 1 of the plain quantile is the maximum, alpha = 0 the minimum."""
    risks, present = torch.tensor(values), torch.ones(len(values), dtype=torch.bool)
    assert number(plain_quantile(risks, present, 1.0)) == pytest.approx(max(values), rel=1e-5)
    assert number(plain_quantile(risks, present, 0.0)) == pytest.approx(min(values), rel=1e-5)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9, 0.99])
def test_eqrm_gradient_is_the_quantiles(alpha):
    """The slope by each risk is that of the root itself, by finite differences; all of them add up to 1."""
    values, h = np.asarray([0.3, 0.9, 1.0, 2.2]), 1e-5
    risks = torch.tensor(values, requires_grad=True)
    kernel_quantile(risks, torch.ones(4, dtype=torch.bool), alpha).backward()
    slopes = [(kernel_root(values + h * unit, alpha) - kernel_root(values - h * unit, alpha)) / (2 * h)
              for unit in np.eye(4)]
    np.testing.assert_allclose(risks.grad.numpy(), slopes, rtol=1e-3, atol=1e-5)
    assert sum(slopes) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("smooth", [True, False])
def test_eqrm_is_erm_until_burn_in(smooth):
    """Before `burn_in` the loss is the mean, and the trajectory ERM's bit for bit; from there it is the quantile."""
    _, item, _, domain, _ = items()
    risks = np.asarray([item[domain == e].mean() for e in (0, 1)])
    high = kernel_root(risks, 0.8) if smooth else np.quantile(risks, 0.8)
    settings = {"quantile": 0.8, "burn_in": 0.7, "smooth": smooth}
    assert of("eqrm", 6, **settings) == pytest.approx(item.mean(), rel=1e-5)
    assert of("eqrm", 7, **settings) == pytest.approx(high, rel=1e-4)
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    for burn_in, same in ((1.0, True), (0.75, False)):
        run = toy_run(benchmark, method="eqrm", params=settings | {"burn_in": burn_in}, select_on="last")
        assert torch.equal(learn(dataclasses.replace(run, method="erm", params={}, batches="domain"), benchmark, x),
                           learn(run, benchmark, x)) is same


def test_eqrm_survives_one_domain_and_equal_risks():
    """Where risks do not differ the quantile is the risk, and its slopes add up to 1."""
    for values, present in (([2.0], [True]), ([2.0, 2.0, 2.0], [True] * 3), ([0.0, 2.0], [False, True])):
        risks = torch.tensor(values, requires_grad=True)
        high = kernel_quantile(risks, torch.tensor(present), 0.75)
        high.backward()
        assert number(high) == pytest.approx(2.0, abs=1e-4)
        assert number(risks.grad.sum()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("params", [{"quantile": 1.0}, {"quantile": 1.5, "smooth": False}, {"quantile": -0.1}])
def test_eqrm_refuses_what_is_no_quantile(params):
    """A kernel's quantile lies strictly between 0 and 1; the plain one may be either."""
    with pytest.raises(ShiftBenchError, match="'quantile' is"):
        method_of("eqrm", **params)


# JTT


def test_jtt_upweights_exactly_the_first_models_errors():
    """Stage 1 is ERM for half of the steps; in stage 2 its errors weigh lambda, all other training items 1."""
    benchmark, x = noisy()
    stages = JTT(upweight=7.0).fit()
    asked = next(stages)
    assert asked == Stage(ERM(), share=0.5)
    first = fitted(toy_run(benchmark, steps=20), benchmark, x).learned
    second = stages.send(first)
    train = benchmark.rows("train")
    wrong = first.logits("train").argmax(dim=1).numpy() != benchmark.label[train]
    assert 0 < wrong.sum() < len(train) / 2
    np.testing.assert_array_equal(second.weights.numpy(), np.where(wrong, 7.0, 1.0))
    assert second == Stage(JTT(upweight=7.0), second.weights)


@pytest.mark.slow
def test_jtt_is_erm_where_errors_weigh_as_much():
    """With lambda = 1 the second model is ERM's bit for bit, whatever the first got wrong; with more it is not."""
    benchmark, x = noisy()
    plain = learn(toy_run(benchmark), benchmark, x)
    for upweight, same in ((1.0, True), (20.0, False)):
        run = toy_run(benchmark, method="jtt", params={"upweight": upweight})
        assert torch.equal(plain, learn(run, benchmark, x)) is same


def test_jtt_needs_a_first_model():
    """A share of no steps is none."""
    with pytest.raises(ShiftBenchError, match="above 0"):
        method_of("jtt", first=0.0)


# CVaR-DRO, focal loss, reweighting


@pytest.mark.parametrize("share", [0.01, 0.1, 0.25, 0.5, 1.0])
def test_cvar_is_its_dual(share):
    """The mean of the alpha n largest losses is min over eta of eta + mean (l - eta)+ / alpha, reached at a loss."""
    item = items()[1]
    dual = min(eta + np.maximum(item - eta, 0).mean() / share for eta in item)
    expected = dual if share >= 0.1 else item.max()
    assert of("cvar_dro", share=share) == pytest.approx(expected, rel=1e-5)


def test_cvar_of_everything_is_erm():
    """alpha = 1 is the mean; a smaller share is never less."""
    found = [of("cvar_dro", share=share) for share in (1.0, 0.7, 0.3, 0.1)]
    assert found[0] == pytest.approx(of("erm"), rel=1e-6)
    assert found == sorted(found)
    with pytest.raises(ShiftBenchError, match="'share' is 0"):
        method_of("cvar_dro", share=0.0)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_is_the_papers_formula(gamma):
    """mean of -(1 - p)^gamma log p; gamma = 0 is ERM to the last bit."""
    item = items()[1]
    assert of("focal", gamma=gamma) == pytest.approx(((1 - np.exp(-item)) ** gamma * item).mean(), rel=1e-5)
    if gamma == 0:
        assert of("focal", gamma=gamma) == of("erm")


def test_focal_has_finite_slopes_where_all_is_right():
    """An item that is right beyond doubt gives no NaN at gamma below 1."""
    _, batch, _ = ten_rows()
    net = net_of()
    with torch.no_grad():
        net.head.bias += torch.tensor([500.0, 0.0, 0.0])
    method_of("focal", gamma=0.5).loss(net, batch._replace(label=batch.label * 0), torch.nn.Module(), 0).backward()
    assert all(parameter.grad.isfinite().all() for parameter in net.parameters())


@pytest.mark.parametrize("by", ["group", "label", "domain"])
def test_reweighting_is_the_mean_over_groups(by):
    """With exponent 1 the loss over all training items is the mean of the groups' risks; with 0 it is ERM's."""
    _, item, label, domain, group = items()
    codes = {"group": group, "label": label, "domain": domain}[by]
    expected = np.mean([item[codes == code].mean() for code in np.unique(codes)])
    assert of("reweight", by=by) == pytest.approx(expected, rel=1e-5)
    assert of("reweight", by=by, exponent=0.0) == of("erm")


@given(st.lists(st.integers(0, 500), min_size=1, max_size=6).filter(sum), st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_weights_have_mean_one(counts, exponent):
    """Over the training items the weights have mean 1, rarer groups have larger ones, and absent groups none."""
    n = np.asarray(counts)
    weights = balance(torch.tensor(counts), exponent).double().numpy()
    assert (weights * n).sum() / n.sum() == pytest.approx(1, rel=1e-5)
    assert (weights[n == 0] == 0).all()
    order = np.argsort(n[n > 0], kind="stable")
    assert (np.diff(weights[n > 0][order]) <= 1e-6).all()


def test_unknown_kind_of_group_is_refused():
    """Reweighting's `by` is group, label or domain."""
    with pytest.raises(ShiftBenchError, match="No kind of group named 'clas'"):
        method_of("reweight", by="clas")


@pytest.mark.slow
def test_none_is_erm_by_another_name():
    """On a toy with errors to make, every method ends with other weights than ERM on its kind of batches."""
    benchmark, x = noisy()
    settings = {"eqrm": {"burn_in": 0.2}, "jtt": {"first": 0.5}}
    for name in ("vrex", "mmd", "dann", "spectral_decoupling", "eqrm", "jtt", "cvar_dro", "focal", "reweight"):
        run = toy_run(benchmark, method=name, params=settings.get(name, {}), steps=15, select_on="last")
        plain = dataclasses.replace(run, method="erm", params={}, batches=METHODS[name].batches)
        assert not torch.equal(learn(run, benchmark, x), learn(plain, benchmark, x)), name
