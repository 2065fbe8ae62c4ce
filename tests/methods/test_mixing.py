"""Methods that mix items of a batch: who may be mixed with whom, by how much, and what the loss then is."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shiftbench.core.arrays import uniform
from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods import Batch, Task
from shiftbench.methods.mixup import mixed_loss, partner, symmetric_beta
from shiftbench.methods.sagnet import recontented, restyled, style
from shiftbench.models import build
from shiftbench.models.image_nets import ByPlace
from shiftbench.models.names import image_models
from tests import toys
from tests.toys import (
    check_a_pack,
    learn,
    method_of,
    net_of,
    ten_rows,
    toy_features,
    toy_rows,
    toy_run,
)

SQUARES = st.integers(1, 12).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=n,
                                                        max_size=n))
BELOW_1 = float(np.nextafter(np.float32(1), np.float32(0)))


def drawn(purpose: str, n: int, seed: int = 0) -> torch.Tensor:
    u = uniform(seed, purpose, np.arange(n)).astype(np.float32)
    return torch.from_numpy(np.minimum(u, np.float32(BELOW_1)))


def partners_of(name: str, batch: Batch, monkeypatch: pytest.MonkeyPatch, **params) -> torch.Tensor:
    """Whom a method's loss mixes each item with."""
    seen = []

    def record(net, rows, other, share):
        seen.append(other)
        return mixed_loss(net, rows, other, share)

    method = method_of(name, **params)
    monkeypatch.setattr("shiftbench.methods.mixup.mixed_loss", record)
    method.loss(net_of(), batch, method.state(ten_rows()[2]), 0)
    return seen[0]


# Whom


@given(SQUARES, st.lists(st.floats(0, BELOW_1, width=32), min_size=12, max_size=12))
def test_a_partner_is_one_that_may_be(rows, u):
    """Whatever is drawn, the partner is eligible; where nobody is, it is the item itself."""
    eligible = torch.tensor(rows)
    found = partner(eligible, torch.tensor(u[:len(rows)]))
    for i, j in enumerate(found.tolist()):
        assert eligible[i, j] if eligible[i].any() else j == i


def test_partners_are_uniform():
    """Each eligible item is as likely, by the chi-square test; the largest draw below 1 gives the last of them."""
    eligible = torch.tensor([False, True, True, False, True, True, True, False])
    n = 7000
    found = partner(eligible.expand(n, 8), drawn("who", n))
    counts = torch.bincount(found, minlength=8)
    assert (counts > 0).tolist() == eligible.tolist()
    assert stats.chisquare(counts[eligible].numpy()).pvalue > 0.01
    for width in (1, 3, 5, 127, 1025):
        assert partner(torch.ones(1, width, dtype=torch.bool), torch.tensor([BELOW_1])).item() == width - 1


@pytest.mark.parametrize("seed", range(5))
def test_mixup_never_mixes_within_a_domain(seed, monkeypatch):
    """Every item's partner is of another domain."""
    _, batch, _ = ten_rows()
    found = partners_of("mixup", batch._replace(u=drawn("method", 30, seed).view(10, 3)), monkeypatch)
    assert (batch.domain[found] != batch.domain).all()


@pytest.mark.parametrize(("p_sel", "within"), [(1.0, "label"), (0.0, "domain")])
def test_lisa_mixes_within_a_label_or_within_a_domain(p_sel, within, monkeypatch):
    """A partner has the same label and another domain, or the reverse; an item without one stays as it is."""
    _, batch, _ = ten_rows()
    other = {"label": "domain", "domain": "label"}[within]
    same, apart = (getattr(batch, name)[:, None] == getattr(batch, name) for name in (within, other))
    legal = same & ~apart
    for seed in range(5):
        found = partners_of("lisa", batch._replace(u=drawn("method", 40, seed).view(10, 4)), monkeypatch, p_sel=p_sel)
        for i, j in enumerate(found.tolist()):
            assert legal[i, j] if legal[i].any() else j == i
    assert legal.any(dim=1).any()
    assert within == "domain" or not legal.any(dim=1).all()  # label 2 is in one domain only


def test_lisa_chooses_its_strategy_with_probability_p_sel(monkeypatch):
    """Of many items that have both kinds of partner, the share mixed within the label is p_sel."""
    n = 2000
    codes = torch.arange(n)
    batch = Batch(torch.zeros(n, 5), codes % 2, codes // 2 % 2, codes % 4, codes, u=drawn("method", 4 * n).view(n, 4))
    found = partners_of("lisa", batch, monkeypatch, p_sel=0.3)
    same = batch.label[found] == batch.label
    assert ((batch.domain[found] == batch.domain) != same).all()
    assert stats.binomtest(int(same.sum()), n, 0.3).pvalue > 0.01


# By how much


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5, 1.0, 2.0, 30.0])
def test_shares_have_the_beta_law(alpha):
    """By the test of Kolmogorov and Smirnov, folded at 1/2 where 32 bits are dense, and 1/2 is the median."""
    n = 20_000
    share = symmetric_beta(drawn("u", n), drawn("v", n), alpha).double().numpy()
    assert ((share >= 0) & (share <= 1)).all()
    assert stats.binomtest(int((share < 0.5).sum()), n).pvalue > 0.01
    low, high = share[share < 0.5], 1 - share[share > 0.5]
    assert stats.kstest(low, lambda t: 2 * stats.beta.cdf(t, alpha, alpha)).pvalue > 0.01
    if alpha >= 0.5:  # for less, many shares are nearer to 1 than 32 bits can tell
        assert stats.kstest(high, lambda t: 2 * stats.beta.cdf(t, alpha, alpha)).pvalue > 0.01


def test_shares_are_numbers_at_the_ends():
    """No draw of [0, 1), and no alpha from 1e-4 to 1e4, gives anything but a number from 0 to 1."""
    ends = torch.tensor([0.0, 1e-38, 1e-7, 0.25, 0.5, 0.75, BELOW_1])
    u, v = (part.flatten() for part in torch.meshgrid(ends, ends, indexing="ij"))
    for alpha in (1e-4, 0.01, 0.2, 1.0, 100.0, 1e4):
        share = symmetric_beta(u, v, alpha)
        assert ((share >= 0) & (share <= 1)).all(), alpha
    vanishing = symmetric_beta(drawn("u", 1000), drawn("v", 1000), 1e-5)
    assert ((vanishing == 0) | (vanishing == 1)).float().mean() > 0.98  # one item or the other


# The loss


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mixed_loss_is_the_papers_formula(weighted):
    """mean of lambda l(f(m), y_i) + (1 - lambda) l(f(m), y_j), each label with its item's weight."""
    _, batch, _ = ten_rows()
    net, other, share = net_of(), torch.tensor([1, 0, 4, 5, 6, 7, 8, 9, 2, 2]), drawn("share", 10)
    weight = torch.linspace(0.5, 3, 10) if weighted else torch.ones(10)
    own = 1 - share
    logits = net(own[:, None] * batch.x + share[:, None] * batch.x[other])
    surprise = -torch.log_softmax(logits, dim=1)
    rows = torch.arange(10)
    expected = (own * weight * surprise[rows, batch.label]
                + share * weight[other] * surprise[rows, batch.label[other]]).mean()
    found = mixed_loss(net, batch._replace(weight=weight if weighted else None), other, share)
    torch.testing.assert_close(found, expected)


def test_images_are_mixed_like_features():
    """One share per image, the same for all its pixels."""
    net = build("small-cnn", 2, seed=0)
    x = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    code = torch.arange(2)
    batch = Batch(x, code, code, code, code)
    seen = []
    net.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    mixed_loss(net, batch, 1 - code, torch.tensor([0.25, 1.0]))
    torch.testing.assert_close(seen[0], torch.stack([0.75 * x[0] + 0.25 * x[1], x[0]]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixup", "lisa"])
def test_nothing_to_mix_is_erm(name):
    """With one domain MixUp, and LISA within labels, has ERM's trajectory, up to the rounding of one that mixes; with
    two it has not."""
    _, benchmark = toy_rows()
    one = dataclasses.replace(benchmark, domain=np.zeros_like(benchmark.domain))
    x = toy_features(benchmark)
    run = {"method": name, "params": {"p_sel": 1.0} if name == "lisa" else {}, "batches": "plain"}
    torch.testing.assert_close(learn(toy_run(one, **run), one, x), learn(toy_run(one), one, x), rtol=1e-3, atol=1e-3)
    apart = learn(toy_run(benchmark, **run), benchmark, x) - learn(toy_run(benchmark), benchmark, x)
    assert apart.abs().max() > 0.1


def test_share_zero_is_erm():
    """lambda = 1 leaves each item as it is, to the last bit, whoever the partner would be."""
    _, batch, _ = ten_rows()
    net, erm = net_of(), method_of("erm")
    found = mixed_loss(net, batch, torch.arange(10).flip(0), torch.zeros(10))
    assert torch.equal(found, erm.loss(net, batch, torch.nn.Module(), 0))
    assert not torch.equal(found, mixed_loss(net, batch, torch.arange(10).flip(0), torch.full((10,), 0.3)))


@pytest.mark.parametrize(("name", "params", "message"), [
    ("mixup", {"alpha": 0.0}, "'alpha' is 0"), ("lisa", {"alpha": -1.0}, "'alpha' is -1"),
    ("lisa", {"p_sel": 1.2}, "'p_sel' is 1.2")])
def test_what_is_no_law_is_refused(name, params, message):
    """alpha is above 0, and p_sel a probability."""
    with pytest.raises(ShiftBenchError, match=message):
        method_of(name, **params)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params"), [
    ("mixup", [{"alpha": 0.1}, {"alpha": 8.0}, {}]),
    ("lisa", [{"alpha": 0.5}, {"p_sel": 0.9}, {"p_sel": 0.0, "alpha": 5.0}]),
])
def test_numbers_differ_within_a_pack(name, params):
    """Runs with other hyperparameters, trained at once, each end with the weights they have alone, bit for bit."""
    _, benchmark = toy_rows()
    check_a_pack(name, params, benchmark, toy_features(benchmark))


# SagNet


def sagnet_parts(**params):
    """SagNet on eight images of 32 px: method, net, batch with draws, state."""
    sagnet = method_of("sagnet", **params)

    def made(seed: int):
        torch.manual_seed(seed)
        return sagnet.net(build("small-cnn", 3, seed=seed))

    net, code = made(0), torch.arange(8)
    x = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    batch = toys.with_draws(Batch(x, code % 3, code % 2, code % 2, code), sagnet)
    state = sagnet.state(Task(3, 2, 2, net.width, torch.ones(2, 3), torch.ones(2), 10, lambda: made(5)))
    return sagnet, net, batch, state


def some_maps(seed: int = 0) -> torch.Tensor:
    noise = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(seed))
    return noise * torch.linspace(0.5, 4, 20).view(5, 4, 1, 1) + torch.linspace(-2, 2, 20).view(5, 4, 1, 1)


def test_mixing_with_oneself_changes_nothing():
    """With itself as partner, or all of its own style, an item's maps stay what they are."""
    maps, own = some_maps(), torch.arange(5)
    for found in (restyled(maps, own, drawn("a", 5)), restyled(maps, own.flip(0), torch.ones(5)),
                  recontented(maps, own)):
        torch.testing.assert_close(found, maps, rtol=1e-4, atol=1e-5)


def test_swapping_styles_swaps_means_and_deviations():
    """All of another's style is its channel means and deviations on one's own content; content randomisation is the
    same seen from the other side; in between they go straight from one to the other."""
    maps, other, a = some_maps(), torch.tensor([3, 4, 0, 1, 2]), drawn("a", 5)
    mean, deviation = (part.squeeze() for part in style(maps))
    np.testing.assert_allclose(deviation.numpy(), maps.flatten(2).numpy().std(axis=2), rtol=1e-4)
    swapped = restyled(maps, other, torch.zeros(5))
    new = [part.squeeze() for part in style(swapped)]
    torch.testing.assert_close(new[0], mean[other], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(new[1], deviation[other], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(recontented(maps, other.argsort())[other], swapped)
    between = [part.squeeze() for part in style(restyled(maps, other, a))]
    weight = a[:, None]
    torch.testing.assert_close(between[0], weight * mean + (1 - weight) * mean[other], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(between[1], weight * deviation + (1 - weight) * deviation[other], rtol=1e-3, atol=1e-5)


def test_style_is_measured_in_32_bits():
    """Maps of 16 bits have the style of the same numbers in 32; a map of one place, or of one value, is no trouble."""
    maps = some_maps().bfloat16()
    for one, two in zip(style(maps), style(maps.float()), strict=True):
        assert torch.equal(one, two)
    for flat in (torch.full((3, 2, 4, 4), 7.0), torch.randn(3, 2, 1, 1)):
        flat.requires_grad_()
        restyled(flat, torch.tensor([1, 2, 0]), torch.rand(3)).sum().backward()
        assert flat.grad.isfinite().all()


def test_the_adversary_pulls_at_style_alone():
    """By each map, whatever is asked of the swapped maps has a gradient of a shift and a scale of each channel: none in
    any other direction, and so none by the content that was lent."""
    maps = some_maps().requires_grad_()
    asked = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(8))
    (recontented(maps, torch.tensor([1, 2, 3, 4, 0])) * asked).sum().backward()
    found = maps.grad.flatten(2).double()
    mean, deviation = style(maps.detach())
    content = ((maps.detach() - mean) / deviation).flatten(2).double()
    rest = found - found.mean(dim=2, keepdim=True)
    rest = rest - (rest * content).sum(dim=2, keepdim=True) / (content**2).sum(dim=2, keepdim=True) * content
    assert found.abs().max() > 0.1
    assert rest.abs().max() < 1e-5


def test_sagnet_gradients_go_where_they_should():
    """The style predictor is moved by its own loss alone, whatever lambda is; the content predictor not by the
    adversary; the maps by content loss plus lambda times the adversary; nothing of the style loss reaches them."""

    def gradients(penalty):
        sagnet, net, batch, state = sagnet_parts(penalty=penalty)
        sagnet.loss(net.double(), batch._replace(x=batch.x.double()), state.double(), 0).backward()
        groups = (net.features.body, net.features.predictor, net.head, state.style)
        return [torch.cat([part.grad.flatten() for part in group.parameters()]) for group in groups]

    none, one, three = (gradients(penalty) for penalty in (0.0, 1.0, 3.0))
    for part in (1, 2, 3):
        assert none[part].abs().max() > 0
        assert torch.equal(none[part], one[part])
        assert torch.equal(none[part], three[part])
    assert (one[0] - none[0]).abs().max() > 1e-6
    torch.testing.assert_close(three[0] - none[0], 3 * (one[0] - none[0]), rtol=1e-4, atol=1e-7)
    _, net, batch, _ = sagnet_parts(penalty=0.0)
    first, _, a = batch.u.double().unbind(dim=1)
    other = partner(~torch.eye(8, dtype=torch.bool), first.float())
    maps = net.double().maps(batch.x.double())
    torch.nn.functional.cross_entropy(net.head(net.pool(restyled(maps, other, a.float()))), batch.label).backward()
    alone = torch.cat([part.grad.flatten() for part in net.features.body.parameters()])
    torch.testing.assert_close(alone, none[0], rtol=1e-6, atol=1e-9)


def test_sagnet_loss_is_the_three_losses():
    """Content, style and lambda times the cross-entropy against the uniform law, each place computed by hand."""
    sagnet, net, batch, state = sagnet_parts(penalty=2.0)
    first, second, a = batch.u.unbind(dim=1)
    others = ~torch.eye(8, dtype=torch.bool)
    maps = net.maps(batch.x)
    rows = torch.arange(8)

    def predicted(predictor, head, maps):
        hidden = maps.permute(0, 2, 3, 1)
        for layer in predictor[1:-1:2]:
            hidden = torch.relu(hidden @ layer.weight.T + layer.bias)
        return torch.log_softmax((hidden @ head.weight.T + head.bias).mean(dim=(1, 2)), dim=1)

    content = predicted(net.features.predictor, net.head, restyled(maps, partner(others, first), a))
    guess = predicted(*state.style, recontented(maps, partner(others, second)))
    expected = -(content[rows, batch.label].mean() + guess[rows, batch.label].mean() + 2 * guess.mean())
    torch.testing.assert_close(sagnet.loss(net, batch, state, 0), expected)


@pytest.mark.slow
@pytest.mark.parametrize("model", sorted(name for name, net in image_models().items() if net.has_maps and name not in (
    "resnet34", "resnet101")))  # built of the blocks of resnet18 and resnet50
def test_the_content_predictor_predicts(model):
    """On every model with maps the net stays a Net: features = pool(maps), a linear head on 64 of them, the body's
    scale of pixels, and the second predictor starts from other numbers."""
    body = build(model, 3, 64, seed=0)
    torch.manual_seed(0)
    net = method_of("sagnet").net(body).eval()
    assert isinstance(net, ByPlace)
    assert (net.name, net.mean, net.std, net.takes) == (model, body.mean, body.std, "images")
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(net.features(x), net.pool(net.maps(x)))
        torch.testing.assert_close(net(x), net.head(net.features(x)))
    assert net.width == net.head.in_features == 64
    assert type(net) is type(method_of("sagnet").net(build(model, 3, 64)))  # one class per model


@pytest.mark.learning
def test_sagnet_trains_and_resumes(tmp_path):
    """On images it learns, and lambda matters; stopped half-way it ends as if it had not been."""
    collection, benchmark = toy_rows(80)
    x = torch.from_numpy(collection.pixels)
    run = toy_run(benchmark, method="sagnet", model="small-cnn", features="", steps=12, eval_every=4, lr=0.005)
    whole = learn(run, benchmark, x)
    assert (whole.argmax(dim=1).numpy() == benchmark.label).mean() > 0.9

    def stop(done: int, total: int) -> None:
        if done >= 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(run, benchmark, x, tmp_path, checkpoint_seconds=0, progress=stop)
    assert (tmp_path / "resume.safetensors").is_file()
    assert torch.equal(learn(run, benchmark, x, tmp_path), whole)
    other = dataclasses.replace(run, params={"penalty": 0.1})
    assert not torch.equal(learn(other, benchmark, x), whole)


def test_sagnet_needs_maps():
    """Heads on cached features, and nets without places, are refused with the models that fit."""
    _, benchmark = toy_rows(80)
    for settings in ({}, {"model": "pixel-mlp", "features": ""}):
        with pytest.raises(ShiftBenchError, match=r"method 'sagnet' needs images and maps .*small-cnn"):
            toy_run(benchmark, method="sagnet", **settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixup", "lisa"])
def test_mixing_resumes_exactly(name, tmp_path):
    """A run that was stopped and goes on draws what it would have drawn."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    run = toy_run(benchmark, method=name, steps=30)

    def stop(done: int, total: int) -> None:
        if done >= 17:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(run, benchmark, x, tmp_path, checkpoint_seconds=0, progress=stop)
    assert (tmp_path / "resume.safetensors").is_file()
    assert torch.equal(learn(run, benchmark, x, tmp_path), learn(run, benchmark, x))
