"""Methods of several stages, and one that adapts: what they learn from, what they leave alone, what they minimise."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.methods import METHODS, Batch, Task
from shiftbench.methods.beta_vae import VALUES, normal, parts
from shiftbench.methods.dfr import _LastLayer
from shiftbench.methods.stargan import convincing, drawn, normalised, plain, telling
from shiftbench.models import build
from shiftbench.models.translator import Discriminator, Generator, blocks_for
from shiftbench.training.data import Data
from shiftbench.training.evaluate import predict_all
from shiftbench.training.lane import Lane
from shiftbench.training.loop import Fitting
from shiftbench.training.step import Plain
from tests.toys import CPU, fitted, learn, toy_features, toy_rows, toy_run


class Stop(Exception):
    """Stands for whatever ends a process."""


def stop_after(calls: int):
    left = iter(range(calls - 1))

    def progress(done: int, total: int) -> None:
        if next(left, None) is None:
            raise Stop
    return progress


def squares(n: int = 96, side: int = 16, seed: int = 0) -> tuple[torch.Tensor, Benchmark]:
    """A dark square somewhere: its size is the label, the colour around it, red or blue, the domain."""
    rng = np.random.default_rng(seed)
    label, domain = rng.integers(0, 2, n), rng.integers(0, 2, n)
    pixels = rng.integers(0, 20, (n, side, side, 3), dtype=np.uint8)
    pixels[np.arange(n), :, :, 2 * domain] += 220
    for one, size in zip(pixels, np.where(label, 10, 6), strict=True):
        y, x = rng.integers(0, side - size, 2)
        one[y:y + size, x:x + size] = 10
    collection = Collection("squares", np.asarray([f"i{k:03d}" for k in range(n)]))
    split = np.asarray(["train", "id_val", "test"])[np.repeat([0, 1, 2], [n // 2, n // 4, n - n // 2 - n // 4])]
    words = {"label": np.asarray(["small", "large"])[label], "domain": np.asarray(["red", "very blue"])[domain]}
    return torch.from_numpy(pixels), Benchmark.of(collection, None, seed, np.arange(n), split, **words)


def image_run(benchmark, **more):
    return toy_run(benchmark, **{"model": "small-cnn", "features": "", "steps": 3, "eval_every": 3, "batch_size": 8,
                                 **more})


STAGED = {"dfr": {}, "beta_vae": {"model": "beta-vae", "params": {"latent": 3}, "lr": 1e-3, "batch_size": 2},
          "stargan": {"params": {"width": 2}}}


@pytest.mark.parametrize("calls", [2, 5], ids=["first stage", "second stage"])
@pytest.mark.parametrize("name", STAGED)
def test_goes_on_in_its_stage(name, calls, tmp_path):
    """Stopped in either stage and started again, a run ends bit for bit as an unbroken one."""
    x, benchmark = squares(48)
    run = image_run(benchmark, method=name, **STAGED[name])
    whole = learn(run, benchmark, x)
    with pytest.raises(Stop):
        learn(run, benchmark, x, tmp_path, checkpoint_seconds=0, progress=stop_after(calls))
    assert (tmp_path / "stage-0.safetensors").exists() == (calls > 3)
    assert torch.equal(learn(run, benchmark, x, tmp_path, checkpoint_seconds=0), whole)


# BN-Adapt


def trained_net(seed: int = 0):
    """A net whose norms have seen something."""
    net = build("small-cnn", 2, seed=seed)
    torch.manual_seed(seed)
    with torch.no_grad():
        for _ in range(3):
            net.train()(torch.randn(16, 3, 32, 32))
    return net.eval()


def test_adapted_norms_change_and_weights_do_not():
    """The first norm has 10/11 of its old statistics and 1/11 of its inputs'; no other tensor but norms' changes."""
    net, x = trained_net(), torch.rand(20, 3, 32, 32) * 3
    adapted = METHODS["bn_adapt"]().adapted(copy.deepcopy(net), x)
    with torch.no_grad():
        var, mean = torch.var_mean(net.features[0](x), dim=(0, 2, 3), correction=0)
    for old, new, target in ((net.norms()[0].running_mean, adapted.norms()[0].running_mean, mean),
                             (net.norms()[0].running_var, adapted.norms()[0].running_var, var)):
        torch.testing.assert_close(new, old * 10 / 11 + target / 11)
    changed = {key for key, value in net.state_dict().items() if not torch.equal(value, adapted.state_dict()[key])}
    assert changed == {key for key in net.state_dict() if key.endswith(("running_mean", "running_var"))}
    assert not any(module._forward_pre_hooks for module in adapted.modules())


def test_adapting_fully_or_never():
    """With r = 0 the net predicts as one in training mode does; with r without end it predicts as before."""
    net, x = trained_net(), torch.rand(20, 3, 32, 32) * 3
    with torch.no_grad():
        own, batch = net(x), copy.deepcopy(net).train()(x)
        fully, never = (METHODS["bn_adapt"](ratio=r).adapted(copy.deepcopy(net), x)(x) for r in (0.0, 1e9))
    torch.testing.assert_close(fully, batch, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(never, own, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(fully, own, atol=1e-2)


def test_each_domain_is_adapted_to_alone():
    """Train is predicted as by ERM; what a test domain gets depends on its own inputs and on no label."""
    x, benchmark = squares(80)
    run = image_run(benchmark, method="bn_adapt")
    one = fitted(run, benchmark, x)
    erm = fitted(dataclasses.replace(run, method="erm", params={}), benchmark, x)
    logits = torch.from_numpy(predict_all(run, one.data, one.learned.net).scores)
    plain_ones = erm.learned.logits
    assert torch.equal(logits[benchmark.rows("train")], plain_ones("train"))
    assert not torch.allclose(logits[benchmark.rows("test")], plain_ones("test"))
    test = benchmark.rows("test")
    other = test[benchmark.domain[test] == 1]
    brighter = x.clone()
    brighter[other] += 5
    relabelled = dataclasses.replace(benchmark, label=np.where(benchmark.split == "test", 0, benchmark.label))
    moved = torch.from_numpy(predict_all(run, Data(relabelled, brighter, CPU), one.learned.net).scores)
    same = np.setdiff1d(np.arange(80), other)
    assert torch.equal(moved[same], logits[same])
    assert not torch.equal(moved[other], logits[other])


def test_a_net_without_batch_norms_is_told():
    """Before the first step, with the names of models that have some."""
    x, benchmark = squares(24)
    with pytest.raises(ShiftBenchError, match=r"'pixel-mlp' has no batch norms to adapt. .*: .*resnet18, .*small-cnn"):
        learn(image_run(benchmark, method="bn_adapt", model="pixel-mlp"), benchmark, x)


# DFR


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_the_last_layer_learns_from_held_out_items(model, tmp_path):
    """Features are ERM's bit for bit, the head is not; the second stage's items are those of id_val alone."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    run = toy_run(benchmark, method="dfr", model=model, select_on="last")
    erm = fitted(dataclasses.replace(run, method="erm", params={}), benchmark, x).learned.net
    dfr = fitted(run, benchmark, x).learned.net
    assert all(torch.equal(old, new) for old, new in zip(erm.features.parameters(), dfr.features.parameters(),
                                                         strict=True))
    assert not torch.equal(erm.head.weight, dfr.head.weight)
    lane = second_lane(run, benchmark, x)
    assert np.array_equal(lane.data.train, benchmark.rows("id_val"))
    assert lane.steps == run.steps


def second_lane(run, benchmark, x) -> Lane:
    """The second stage of a run whose first is taken as it starts."""
    one = Fitting(run, Data(benchmark, x, CPU))
    one.take(one.next_lane())
    return one.next_lane()


def test_groups_weigh_alike():
    """Over all held-out items the loss is the mean of the groups' risks plus lambda |W| of standardised features."""
    _, benchmark = toy_rows()
    lane = second_lane(toy_run(benchmark, method="dfr", params={"l1": 0.5}), benchmark, toy_features(benchmark))
    batch = lane.data.batch(torch.arange(len(lane.data.train)), lane.net)
    with torch.no_grad():
        found = lane.stage.method.loss(lane.net, batch, lane.parts.state, 0)
        z = lane.net.features(batch.x)
        losses = F.cross_entropy(lane.net.head(z), batch.label, reduction="none")
        risks = [losses[batch.group == g].mean() for g in batch.group.unique()]
        penalty = (lane.net.head.weight * z.std(dim=0, correction=0)).abs().sum()
    assert len(risks) == 4
    torch.testing.assert_close(found, torch.stack(risks).mean() + 0.5 * penalty)


@given(st.lists(st.floats(0.1, 10), min_size=5, max_size=5))
@settings(max_examples=15, deadline=None)
def test_the_penalty_knows_no_units(scales):
    """Features in other units, with weights that undo it, cost the same."""
    scale = torch.tensor(scales)
    net, other = (build("linear", 3, 5, seed=1) for _ in range(2))
    with torch.no_grad():
        other.head.weight /= scale
    x, code = torch.randn(12, 5), torch.arange(12) % 3
    task = Task(3, 1, 3, 5, torch.ones(1, 3), torch.bincount(code))
    method = _LastLayer(2.0)
    loss, moved = (method.loss(one, Batch(z, code, code * 0, code, code), method.state(task), 0)
                   for one, z in ((net, x), (other, x * scale)))
    torch.testing.assert_close(loss, moved, rtol=1e-3, atol=1e-3)


@pytest.mark.learning
def test_a_large_penalty_empties_the_head():
    """lambda drives the weights of the last layer, and of it alone, to almost nothing."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    weak, strong = (fitted(toy_run(benchmark, method="dfr", params={"l1": l1}), benchmark, x).learned.net
                    for l1 in (0.0, 10.0))
    assert strong.head.weight.abs().mean() < 0.2 * weak.head.weight.abs().mean()
    assert torch.equal(weak.features[0].weight, strong.features[0].weight)


# The beta-VAE


def test_divergence_is_one():
    """KL is at least 0, 0 at the prior, and the closed form of torch's distributions."""
    torch.manual_seed(0)
    mean, log_variance = torch.randn(2, 50, 3)
    mean[0], log_variance[0] = 0, 0
    x, u = torch.zeros(50, 3, 64, 64), torch.rand(50, 3)
    found = parts(lambda _: (mean, log_variance), lambda z: z.new_zeros(50, 3, 64, 64), x, u).divergence
    laws = torch.distributions
    want = laws.kl_divergence(laws.Normal(mean, (log_variance / 2).exp()), laws.Normal(0.0, 1.0)).sum(dim=1)
    torch.testing.assert_close(found, want)
    assert found[0] == 0
    assert (found[1:] > 0).all()


def test_normal_numbers():
    """From an even grid of uniforms come numbers with the moments of a standard normal law, the ends included."""
    z = normal(torch.arange(100_000) / 100_000)
    assert torch.isfinite(z).all()
    assert [float(z.mean()), float(z.var()), float((z**4).mean())] == pytest.approx([0, 1, 3], abs=0.02)


class TinyDecoder(torch.nn.Module):
    """Two numbers decide, softly, how bright the upper and the lower half of the image are."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        rows = (torch.arange(64) < 32).float()
        logits = 0.05 * (z[:, :1] * rows + z[:, 1:] * (1 - rows)) + 0.02 * z[:, :1] ** 2
        return logits[:, None, :, None].expand(-1, 3, -1, 64)


@given(st.integers(0, 10**6), st.floats(-2, 2), st.floats(-4, 1))
@settings(max_examples=10, deadline=None)
def test_the_bound_is_a_bound(seed, centre, log_variance):
    """For any q, the mean of log p(x|z) - KL is at most log p(x), which is found by integration over the prior."""
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.choice([-1.0, 1.0], (3, 64, 64), p=[0.48, 0.52])).float()
    grid = torch.linspace(-6, 6, 61)
    z = torch.cartesian_prod(grid, grid)
    decoder, bright = TinyDecoder(), (x + 1) / 2
    logits = decoder(z)[:, 0, [0, -1], 0]  # one value per half decides the likelihood of the half
    n = VALUES / 2
    ones = torch.stack([bright[:, :32].sum(), bright[:, 32:].sum()])
    joint = (ones * F.logsigmoid(logits) + (n - ones) * F.logsigmoid(-logits)).double().sum(dim=1)
    prior = -(z.double() ** 2).sum(dim=1) / 2 - np.log(2 * np.pi)
    evidence = torch.logsumexp(joint + prior, dim=0) + 2 * np.log(0.2)
    mean = torch.full((1, 2), centre)
    encoder = lambda images: (mean.expand(len(images), 2), torch.full((len(images), 2), log_variance))  # noqa: E731
    u = torch.from_numpy(rng.random((256, 2), np.float32))
    found = parts(encoder, decoder, x.expand(256, -1, -1, -1), u)
    bound = found.likelihood.double() - found.divergence
    assert float(bound.mean()) <= float(evidence) + 4 * float(bound.std()) / 16 + 0.01


def test_the_second_stage_leaves_the_code_alone():
    """The encoder learns without labels in the first stage and is bit for bit the same after the second."""
    x, benchmark = squares(48)
    run = image_run(benchmark, method="beta_vae", **STAGED["beta_vae"], select_on="last", weight_decay=0.1)
    one = Fitting(run, Data(benchmark, x, CPU))
    first = one.next_lane()
    start = copy.deepcopy(first.net.state_dict())
    Plain([first]).advance(3)
    moved = {key for key, value in first.net.state_dict().items() if not torch.equal(value, start[key])}
    assert moved == {key for key in start if key.startswith("features.encoder.")}
    assert any(name.startswith("decoder.") for name, _ in first.parts.state.named_parameters())
    one.take(first)
    second = one.next_lane()
    before = copy.deepcopy(second.net.state_dict())
    assert all(torch.equal(before[key], first.net.state_dict()[key]) for key in before)
    Plain([second]).advance(3)
    moved = {key for key, value in second.net.state_dict().items() if not torch.equal(value, before[key])}
    assert moved == {key for key in before if not key.startswith("features.encoder.")}


@pytest.mark.learning
def test_beta_presses_the_code():
    """A large beta makes KL small within a few steps; labels have no part in it."""
    torch.manual_seed(0)
    x, u, code = torch.rand(2, 3, 64, 64) * 2 - 1, torch.rand(2, 2), torch.zeros(2, dtype=torch.int64)
    left = []
    for beta in (1e-6, 10.0):
        method = METHODS["beta_vae"](beta=beta, latent=2)
        stage = next(method.fit())
        torch.manual_seed(1)
        net, state = method.net(build("beta-vae", 2)), stage.method.state(None)
        optimizer = torch.optim.Adam([*net.features.encoder.parameters(), *state.parameters()], 1e-3)
        for step in range(6):
            optimizer.zero_grad()
            stage.method.loss(net, Batch(x, code, code, code, code, None, u), state, step).backward()
            optimizer.step()
        with torch.no_grad():
            left.append(float(parts(net.features.encoder, state.decoder, x, u).divergence.mean()))
    assert left[1] < 0.1 * left[0]
    assert net.latent == stage.method.draws == 2


# StarGAN


def test_one_image_does_not_see_another():
    """Generator and discriminator give each image what they give it alone, of its own shape, within [-1, 1]."""
    torch.manual_seed(0)
    x, v = torch.rand(3, 3, 24, 24) * 2 - 1, torch.tensor([0, 2, 1])
    generator, discriminator = Generator(3, 4), Discriminator(3, 4)
    with torch.no_grad():
        y = generator(x, v)
        torch.testing.assert_close(generator(x[1:2], v[1:2])[0], y[1], rtol=1e-4, atol=1e-5)
        real, domain = discriminator(x)
        torch.testing.assert_close(discriminator(x[1:2])[1][0], domain[1], rtol=1e-4, atol=1e-5)
    assert y.shape == x.shape
    assert float(y.abs().max()) <= 1
    assert (real.shape, domain.shape) == ((3, 3, 3), (3, 3))
    assert [blocks_for(side) for side in (32, 64, 96, 128, 256)] == [5, 5, 6, 6, 9]


def test_the_wanted_domain_is_seen():
    """The same image with another v comes out otherwise, even far from its edges: no norm hides the constants."""
    torch.manual_seed(0)
    x, generator = torch.rand(1, 3, 32, 32) * 2 - 1, Generator(2, 4)
    with torch.no_grad():
        a, b = (generator(x, torch.tensor([v]))[..., 12:20, 12:20] for v in (0, 1))
    assert float((a - b).abs().mean()) > 1e-3


def test_who_learns_from_what():
    """G's part gives D no gradient, D's part gives G none; in the second stage G has none at all and stays."""
    torch.manual_seed(0)
    x, v = torch.rand(4, 3, 16, 16) * 2 - 1, torch.tensor([0, 1, 1, 0])
    generator, discriminator = Generator(2, 2), Discriminator(2, 2)
    convincing(discriminator, generator(x, v), v, 1.0).backward()
    assert all(one.grad is None for one in discriminator.parameters())
    spare = tuple(f"blocks.{number}." for number in range(5, 9))
    used = [one for name, one in generator.named_parameters() if not name.startswith(spare)]
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in used)
    generator.zero_grad()
    telling(discriminator, x, generator(x, v), v, 1.0).backward()
    assert all(one.grad is None for one in generator.parameters())
    assert all(one.grad is not None for one in discriminator.parameters())
    images, benchmark = squares(48)
    lane = second_lane(image_run(benchmark, method="stargan", **STAGED["stargan"]), benchmark, images)
    frozen = lane.stage.method.generator
    before = copy.deepcopy(frozen.state_dict())
    index, u = (torch.from_numpy(part[0]) for part in lane.block(0, 1))
    batch = lane.data.batch(index, lane.net, u=u)
    lane.stage.method.loss(lane.net, batch, lane.parts.state, 0).backward()
    assert all(one.grad is None and not one.requires_grad for one in frozen.parameters())
    assert all(torch.equal(value, frozen.state_dict()[key]) for key, value in before.items())
    assert lane.net.head.weight.grad is not None
    assert not lane.parts.state.state_dict()  # the generator lies in the first stage's file, once


def test_the_second_stage_sees_translated_images():
    """Its loss is ERM's on G(x, v) on the net's own scale, v uniform: no real image has a part in it."""
    images, benchmark = squares(48)
    lane = second_lane(image_run(benchmark, method="stargan", **STAGED["stargan"]), benchmark, images)
    index, u = (torch.from_numpy(part[0]) for part in lane.block(0, 1))
    batch = lane.data.batch(index, lane.net, u=u)
    generator = lane.stage.method.generator
    with torch.no_grad():
        y = normalised(generator(plain(batch.x, lane.net), (u[:, 0] >= 0.5).long()), lane.net)
        want = F.cross_entropy(lane.net(y), batch.label)
        torch.testing.assert_close(lane.stage.method.loss(lane.net, batch, lane.parts.state, 0), want)


def test_scales_come_and_go():
    """Whatever scale a net has, `plain` gives pixels from -1 to 1 and `normalised` gives them back."""
    for name in ("small-cnn", "efficientnet-lite0"):
        net = build(name, 2)
        pixels = torch.tensor([0.0, 127.5, 255.0]).expand(2, 3, 3, 3)
        x = (pixels - torch.tensor(net.mean)[:, None, None]) / torch.tensor(net.std)[:, None, None]
        torch.testing.assert_close(plain(x, net), pixels / 127.5 - 1, atol=1e-6, rtol=0)
        torch.testing.assert_close(normalised(plain(x, net), net), x, atol=1e-5, rtol=0)


def test_wanted_domains_are_uniform():
    """Each domain is drawn as often as each other; the largest draw of all still names one."""
    u = torch.cat([torch.arange(300) / 300, torch.tensor([1 - 2**-24])])[:, None]
    batch = Batch(*[torch.zeros(301)] * 5, None, u)
    assert torch.bincount(drawn(batch, Generator(3, 1))).tolist() == [100, 100, 101]


@pytest.mark.learning
def test_translation_learns_colours():
    """After some steps images are bluer where blue is wanted than where red is, the classifier agrees, and back again
    they are nearer to what they were."""
    images, benchmark = squares(64)
    run = image_run(benchmark, method="stargan", steps=60,
                    params={"width": 8, "gan_lr": 5e-3, "adversarial": 0.1})
    one = Fitting(run, Data(benchmark, images, CPU))
    lane = one.next_lane()
    batch = lane.data.batch(torch.arange(len(lane.data.train)), lane.net)

    def measured():
        """Classifier's loss of translated images, blue less red where red and where blue is wanted, lost on return."""
        state, found = lane.parts.state, []
        with torch.no_grad():
            for v in (0, 1):
                wanted = torch.full_like(batch.domain, v)
                y = state.generator(plain(batch.x, lane.net), wanted)
                back = state.generator(y, batch.domain)
                found.append([float(F.cross_entropy(state.discriminator(y)[1], wanted)),
                              float((y[:, 2] - y[:, 0]).mean()), float(F.l1_loss(back, batch.x))])
        return np.asarray(found).T

    before = measured()
    Plain([lane]).advance(60)
    after = measured()
    assert after[0].mean() < 0.5 * before[0].mean()
    assert after[1][1] - after[1][0] > 0.2 > 2 * abs(before[1][1] - before[1][0])
    assert after[2].mean() < 0.75 * before[2].mean()


def test_one_domain_is_told():
    """Where all training items are of one domain there is nothing to translate to."""
    images, benchmark = squares(24)
    one = dataclasses.replace(benchmark, domain=np.zeros_like(benchmark.domain))
    with pytest.raises(ShiftBenchError, match="all training items are of one domain"):
        learn(image_run(one, method="stargan", **STAGED["stargan"]), one, images)


@pytest.mark.parametrize(("name", "params"), [
    ("bn_adapt", {"ratio": -1.0}), ("dfr", {"l1": -1.0}), ("dfr", {"second": 0.0}), ("beta_vae", {"latent": 0}),
    ("beta_vae", {"beta": -1.0}), ("stargan", {"width": 0}), ("stargan", {"gan_lr": 0.0}),
    ("stargan", {"gan_share": float("inf")})])
def test_settings_that_make_no_sense_are_told(name, params):
    """An error that names the method and the setting."""
    with pytest.raises(ShiftBenchError, match=f"{name}: '{next(iter(params))}' is"):
        METHODS[name](**params)
