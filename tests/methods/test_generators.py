"""The beta-VAE and StarGAN: their laws, and what each stage learns from."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods import METHODS, Batch
from shiftbench.methods.beta_vae import VALUES, normal, parts
from shiftbench.methods.stargan import _OnTranslated, convincing, normalised, target_domains, telling, to_unit
from shiftbench.models import build
from shiftbench.models.generative import Discriminator, Generator, blocks_for
from shiftbench.training.batches import Data
from shiftbench.training.loop import Fitting
from shiftbench.training.step import Plain
from tests.methods.test_stages import STAGED, image_run, second_lane, squares
from tests.toys import CPU, learn

# The beta-VAE


def test_divergence_is_one():
    """KL is at least 0, 0 at the prior, and the closed form of torch's distributions."""
    torch.manual_seed(0)
    mean, log_variance = torch.randn(2, 50, 3)
    mean[0], log_variance[0] = 0, 0
    x, u = torch.zeros(50, 3, 64, 64), torch.rand(50, 3)
    _, found = parts(lambda _: (mean, log_variance), lambda z: z.new_zeros(50, 3, 64, 64), x, u)
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
    likelihood, divergence = parts(encoder, decoder, x.expand(256, -1, -1, -1), u)
    bound = likelihood.double() - divergence
    assert float(bound.mean()) <= float(evidence) + 4 * float(bound.std()) / 16 + 0.01


@pytest.mark.slow
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
    assert any(name.startswith("decoder.") for name, _ in first.state.named_parameters())
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
            left.append(float(parts(net.features.encoder, state.decoder, x, u)[1].mean()))
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
    lane.stage.method.loss(lane.net, batch, lane.state, 0).backward()
    assert all(one.grad is None and not one.requires_grad for one in frozen.parameters())
    assert all(torch.equal(value, frozen.state_dict()[key]) for key, value in before.items())
    assert lane.net.head.weight.grad is not None
    assert not lane.state.state_dict()  # the generator lies in the first stage's file, once


def test_the_second_stage_sees_translated_images():
    """Its loss is ERM's on G(x, v) on the net's own scale, v uniform: no real image has a part in it."""
    images, benchmark = squares(48)
    lane = second_lane(image_run(benchmark, method="stargan", **STAGED["stargan"]), benchmark, images)
    index, u = (torch.from_numpy(part[0]) for part in lane.block(0, 1))
    batch = lane.data.batch(index, lane.net, u=u)
    generator = lane.stage.method.generator
    with torch.no_grad():
        y = normalised(generator(to_unit(batch.x, lane.net), (u[:, 0] >= 0.5).long()), lane.net)
        want = F.cross_entropy(lane.net(y), batch.label)
        torch.testing.assert_close(lane.stage.method.loss(lane.net, batch, lane.state, 0), want)


@pytest.mark.slow
@given(st.floats(0, 1), st.integers(0, 999))
@settings(max_examples=20, deadline=None)
def test_a_share_alpha_of_the_images_is_translated(alpha, seed):
    """p_aug: an image is translated where its number is below alpha, into each domain alike; others are real."""
    rng = torch.Generator().manual_seed(seed)
    net, generator = build("small-cnn", 2), Generator(3, 4)
    x, u = torch.randn((48, 3, 16, 16), generator=rng), torch.rand((48, 1), generator=rng)
    batch = Batch(x, *torch.zeros((4, 48), dtype=torch.long), None, u)
    augmented = _OnTranslated(generator, alpha).augmented(net, batch)
    touched = (augmented != x).flatten(1).any(dim=1)
    assert torch.equal(touched, u[:, 0] < alpha)
    whole = _OnTranslated(generator).augmented(net, batch._replace(u=(u / alpha).clamp(max=1) if alpha else u))
    assert torch.equal(augmented[touched], whole[touched])
    assert torch.equal(_OnTranslated(generator, 0.0).augmented(net, batch), x)
    with pytest.raises(ShiftBenchError, match="a share from 0 to 1"):
        METHODS["stargan"](alpha=1.5)


def test_scales_come_and_go():
    """Whatever scale a net has, `plain` gives pixels from -1 to 1 and `normalised` gives them back."""
    for name in ("small-cnn", "efficientnet-lite0"):
        net = build(name, 2)
        pixels = torch.tensor([0.0, 127.5, 255.0]).expand(2, 3, 3, 3)
        x = (pixels - torch.tensor(net.mean)[:, None, None]) / torch.tensor(net.std)[:, None, None]
        torch.testing.assert_close(to_unit(x, net), pixels / 127.5 - 1, atol=1e-6, rtol=0)
        torch.testing.assert_close(normalised(to_unit(x, net), net), x, atol=1e-5, rtol=0)


def test_wanted_domains_are_uniform():
    """Each domain is drawn as often as each other; the largest draw of all still names one."""
    u = torch.cat([torch.arange(300) / 300, torch.tensor([1 - 2**-24])])[:, None]
    batch = Batch(*[torch.zeros(301)] * 5, None, u)
    assert torch.bincount(target_domains(batch, Generator(3, 1))).tolist() == [100, 100, 101]


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
        state, found = lane.state, []
        with torch.no_grad():
            for v in (0, 1):
                wanted = torch.full_like(batch.domain, v)
                y = state.generator(to_unit(batch.x, lane.net), wanted)
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
