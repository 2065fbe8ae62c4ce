"""Interventions: noise, erased rectangles and random textures keep their laws; attacks stay in ball and pixels."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.images import augment as hashed
from shiftbench.images.augment import (
    MEAN_COLOUR,
    PRESETS,
    augment,
    augmented,
    draws_of,
    erase,
    flattened,
    joined,
    noise,
    parts_of,
    texture,
)
from shiftbench.methods.presets import VARIANTS
from shiftbench.models import Net, build
from shiftbench.training.step import attacked

torch.set_num_threads(1)
ZERO, ONE = torch.zeros(3), torch.ones(3)
CHANCE, AREA, RATIO = 0.5, (0.02, 0.33), (0.3, 3.3)
"""Table 14c."""


def uniform(n: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, width, generator=torch.Generator().manual_seed(seed))


def batch(n: int, side: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, side, side, 3), dtype=torch.uint8, generator=generator)


def floats(n: int, side: int, seed: int = 0) -> torch.Tensor:
    return batch(n, side, seed).permute(0, 3, 1, 2).float()


# ------------------------------------------------------------------------------------------------------------ hashes

@pytest.mark.parametrize("seed", [0, 1])
def test_hashed_numbers_are_uniform_and_normal(seed):
    """Numbers of one image, and the first numbers of many images, follow their laws."""
    one, many = uniform(1, 2, seed), uniform(20_000, 2, seed)
    for u, n in ((one, 100_000), (many, 2)):
        assert stats.kstest(hashed.uniforms(u, n).flatten().numpy(), "uniform").pvalue > 1e-3
        assert stats.kstest(hashed.normals(u, n).flatten().numpy(), "norm").pvalue > 1e-3


def test_hashed_bits_are_even_and_do_not_follow_each_other():
    """Each of the 64 bits is 1 half the time, and neither place nor image next to it tells anything about it."""
    # Draws as close together as 32-bit floats allow: 2⁻²⁴ apart.
    u = torch.stack([torch.full((64,), 0.25), 0.5 + torch.arange(64) * 2.0**-24], 1)
    found = hashed.hashes(u, 512)
    bits = ((found[..., None] >> torch.arange(64)) & 1).double() * 2 - 1
    spread = 1 / math.sqrt(64 * 512)
    assert bits.mean(dim=(0, 1)).abs().max() < 5 * spread
    for shifted in (bits * bits.roll(1, 0), bits * bits.roll(1, 1), bits * bits.roll(1, 2)):
        assert shifted.mean(dim=(0, 1)).abs().max() < 5 * spread


def test_hashed_numbers_have_places():
    """A number depends on the draws, its place and the purpose alone: asking for more changes none."""
    u = uniform(3, 2)
    assert torch.equal(hashed.normals(u, 50), hashed.normals(u, 501)[:, :50])
    assert torch.equal(hashed.normals(u[1:2], 50)[0], hashed.normals(u, 50)[1])
    assert not torch.equal(hashed.normals(u, 50, purpose=1), hashed.normals(u, 50))


# ------------------------------------------------------------------------------------------------------------- noise

def test_noise_is_gaussian_and_of_each_image_its_own():
    """On grey, (out - grey) / (0.2 · 255) is standard normal, uncorrelated across images, channels and neighbours, and
    the same for the same numbers."""
    grey = torch.full((6, 3, 64, 64), 127.5)
    u = uniform(6, PRESETS["noise"])
    e = (noise(grey, u) - grey) / 51
    inner = e[e.abs() < 2.49].numpy()  # the rest was cut to legal pixels
    assert 1 - len(inner) / e.numel() == pytest.approx(2 * stats.norm.sf(2.49), rel=0.2)
    assert stats.kstest(inner, stats.truncnorm(-2.49, 2.49).cdf).pvalue > 1e-3
    spread = 1 / math.sqrt(3 * 64 * 64)
    by_image = torch.corrcoef(e.flatten(1)) - torch.eye(6)
    assert by_image.abs().max() < 5 * spread
    for dim, dims in ((1, 6 * 2), (2, 6 * 3), (3, 6 * 3)):
        pairs = (e.narrow(dim, 0, e.shape[dim] - 1) * e.narrow(dim, 1, e.shape[dim] - 1)).mean()
        assert pairs.abs() < 5 / math.sqrt(dims * 64 * 63)
    assert torch.equal(noise(grey, u), noise(grey, u))


# ----------------------------------------------------------------------------------------------------------- erasing

@pytest.fixture(scope="module")
def erased():
    """Of 4,000 black images of 64 × 96 px: which were erased, and the rectangles' top, left, height and width."""
    out = erase(torch.zeros(4000, 3, 64, 96), uniform(4000, PRESETS["erase"]))
    gone = (out != 0).all(dim=1)
    assert torch.equal((out != 0).any(dim=1), gone)
    done = gone.flatten(1).any(dim=1)
    torch.testing.assert_close(out.permute(1, 0, 2, 3)[:, gone].mean(dim=1), torch.tensor(MEAN_COLOUR))
    rows, columns = gone[done].any(dim=2).int(), gone[done].any(dim=1).int()
    assert torch.equal(gone[done].sum(dim=(1, 2)), rows.sum(1) * columns.sum(1))  # rectangles, without holes
    return done, rows.argmax(1), columns.argmax(1), rows.sum(1), columns.sum(1)


@pytest.mark.slow
def test_half_the_images_lose_a_rectangle(erased):
    """Erased are as many as the probability says."""
    done = erased[0]
    assert stats.binomtest(int(done.sum()), len(done), CHANCE).pvalue > 1e-3


@pytest.mark.slow
def test_areas_and_ratios_follow_table_14(erased):
    """Areas are uniform from 0.02 to 0.33, log ratios uniform from 0.3 to 3.3, up to whole pixels and to what fits."""
    _, _, _, tall, wide = (one.double().numpy() for one in erased)
    rng = np.random.default_rng(0)  # rounding to whole pixels, undone at random
    tall, wide = tall + rng.uniform(-0.5, 0.5, len(tall)), wide + rng.uniform(-0.5, 0.5, len(wide))
    area = (tall * wide / (64 * 96) - AREA[0]) / (AREA[1] - AREA[0])
    low, high = math.log(RATIO[0]), math.log(RATIO[1])
    ratio = (np.log(tall / wide) - low) / (high - low)
    # Tall rectangles of more than the height do not fit a wide image: areas lose a little above.
    assert stats.kstest(area, "uniform").statistic < 0.05
    fits = np.exp(low + ratio * (high - low)) < 64 / 96 / AREA[1]
    assert stats.kstest(ratio[fits] / ratio[fits].max(), "uniform").statistic < 0.06


@pytest.mark.slow
def test_every_place_is_hit(erased):
    """Rectangles lie inside, and anywhere: of the room that is left, any share is above, and any is to the left."""
    _, top, left, tall, wide = (one.double() for one in erased)
    rng = torch.rand(len(top), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for start, size, side in ((top, tall, 64), (left, wide, 96)):
        assert (start + size <= side).all()
        assert stats.kstest(((start + rng) / (side - size + 1)).numpy(), "uniform").pvalue > 1e-3


def test_erasing_is_torchvisions():
    """Where nothing has to be drawn again, areas have torchvision's mean and spread."""
    from torchvision.transforms import RandomErasing

    torch.manual_seed(0)
    theirs = RandomErasing(p=CHANCE, scale=AREA, ratio=RATIO)
    image = torch.ones(3, 32, 32)
    known = np.asarray([float((theirs(image) == 0).double().mean()) for _ in range(1500)])
    ours = (erase(torch.zeros(1500, 3, 32, 32), uniform(1500, PRESETS["erase"], 3)) != 0).double()
    assert stats.ks_2samp(known, ours.mean(dim=(1, 2, 3)).numpy()).pvalue > 1e-3


# ---------------------------------------------------------------------------------------------------------- textures

def shape_with_textures(side: int = 64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A bright disc with upright stripes on a dark ground with level ones, the disc, and the stripes."""
    row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    disc = (row - side / 2)**2 + (column - side / 2)**2 < (side / 3)**2
    stripes = torch.where(disc, (column % 2) * 2 - 1, (row % 2) * 2 - 1).float()
    image = torch.where(disc, 190.0, 70.0) + 15 * stripes
    return image.expand(1, 3, -1, -1), disc, stripes


def test_texture_goes_and_shape_stays():
    """Of stripes on a disc nothing is left, while brightness still tells disc from ground nearly everywhere."""
    image, disc, stripes = shape_with_textures()
    out = texture(image.expand(40, -1, -1, -1), uniform(40, PRESETS["texture"]))
    smooth = F.avg_pool2d(out.mean(dim=1, keepdim=True), 7, stride=1, padding=3, count_include_pad=False)[:, 0]
    level = smooth.flatten(1).mean(dim=1).view(-1, 1, 1)
    right = ((smooth > level) == disc).float().mean(dim=(1, 2))
    assert right.min() > 0.9
    deep = F.max_pool2d((~disc).float()[None, None], 7, 1, 3)[0, 0] == 0  # inside the disc, away from its edge
    centred = out.mean(dim=1)[:, deep] - out.mean(dim=1)[:, deep].mean(dim=1, keepdim=True)
    left = (centred * stripes[deep]).mean(dim=1)
    assert left.abs().mean() < 2  # 15 before
    assert centred.std(dim=1).min() > 5  # there is a texture: another one


def test_flattening_keeps_edges_and_even_images():
    """An even image and a straight edge stay as they are; noise on a surface loses most of its spread."""
    step = torch.zeros(1, 3, 32, 64)
    step[..., 32:] = 200
    torch.testing.assert_close(flattened(step), step, atol=1e-3, rtol=0)
    rough = 128 + 20 * hashed.normals(uniform(1, 2), 3 * 64 * 64).view(1, 3, 64, 64)
    assert flattened(rough).std() < 0.6 * rough.std()


@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_textures_differ_and_repeat(seed):
    """Other numbers give another texture, the same the same, and an image never depends on its neighbours."""
    x, u = floats(3, 24, seed), uniform(3, PRESETS["texture"], seed)
    out = texture(x, u)
    assert torch.equal(out, texture(x, u))
    assert (out - texture(x, 1 - u)).abs().mean() > 3
    torch.testing.assert_close(texture(x[1:2], u[1:2])[0], out[1], rtol=0, atol=2e-3)


# ----------------------------------------------------------------------------------------------------- joined presets

NAMES = st.lists(st.sampled_from(["standard", "color", "imagenet", "randaugment", "noise", "erase", "texture"]),
                 min_size=1, max_size=3, unique=True)


@settings(max_examples=25, deadline=None)
@given(NAMES, st.integers(0, 100))
def test_joined_presets_are_one_after_the_other(names, seed):
    """NAME+NAME takes the draws of both, side by side, and does the second to the outcome of the first."""
    preset, x = "+".join(names), batch(3, 16, seed)
    assert parts_of(preset) == names
    u = uniform(3, draws_of(preset), seed)
    expected, used = x.permute(0, 3, 1, 2), 0
    for name in names:
        expected = augmented(expected, name, u[:, used:used + PRESETS[name]])
        used += PRESETS[name]
    assert used == u.shape[1]
    assert torch.equal(augment(x, preset, ZERO, ONE, u), expected.float())


@given(NAMES, NAMES)
def test_joining_twice_is_joining_once(first, then):
    """What is joined already is not joined again, and none adds nothing."""
    once = joined("+".join(first), "+".join(then))
    assert joined(once, "+".join(then)) == once
    assert joined("none", once) == joined(once, "none") == once


@pytest.mark.parametrize(("preset", "says"), [
    ("standard+eras", "augment=standard\\+eras: No augmentation named 'eras'. Did you mean 'erase'"),
    ("standard+", "No augmentation named ''"), ("none+noise", "joins 'none'"), ("erase+erase", "a name with itself"),
])
def test_a_preset_that_cannot_be_joined_is_told(preset, says):
    """Each name is known, stands once, and is not none."""
    for ask in (parts_of, draws_of, lambda name: augment(batch(1, 8), name, ZERO, ONE)):
        with pytest.raises(ShiftBenchError, match=says):
            ask(preset)


def test_interventions_are_presets():
    """Every intervention among the presets is ERM with an augmentation of the table."""
    found = {name: preset.settings["augment"] for name, preset in VARIANTS.items()
             if preset.family == "robust training" and "augment" in preset.settings}
    assert found == {"gaussian_noise": "noise", "random_erasing": "erase", "texture_noise": "texture"}
    assert set(found.values()) <= set(PRESETS)


# ----------------------------------------------------------------------------------------------------------- attacks

SCALE = torch.tensor([[123.675, 116.28, 103.53], [58.395, 57.12, 57.375]])


class Smooth(Net):
    """A net whose loss has no corner."""

    name = "smooth"

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(3 * 36, 16), nn.Tanh())
        self.head = nn.Linear(16, 3)


def normalised(x: torch.Tensor) -> torch.Tensor:
    return (x - SCALE[0].view(1, 3, 1, 1)) / SCALE[1].view(1, 3, 1, 1)


def pixels(x: torch.Tensor) -> torch.Tensor:
    """On the [0, 1] scale."""
    return (x * SCALE[1].view(1, 3, 1, 1) + SCALE[0].view(1, 3, 1, 1)) / 255


def losses(net: nn.Module, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return F.cross_entropy(net(x), label, reduction="none")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 3), st.integers(1, 4))
def test_attacks_stay_in_ball_and_range_and_never_help(seed, eps, steps):
    """No image moves further than eps, none leaves the legal pixels, no loss goes down."""
    net, x = Smooth(seed), normalised(floats(5, 6, seed))
    label = torch.arange(5) % 3
    moved = attacked(net, x, label, eps, steps, SCALE)
    by = (pixels(moved) - pixels(x)).flatten(1).norm(dim=1)
    assert by.max() <= eps + 1e-5
    assert pixels(moved).min() >= -1e-6
    assert pixels(moved).max() <= 1 + 1e-6
    before, after = losses(net, x, label), losses(net, moved, label)
    assert (after >= before - 1e-6).all()
    if eps > 0.1:
        assert after.mean() > before.mean()


def test_no_radius_no_attack():
    """With eps = 0, or no steps, the images come back bit for bit."""
    x, label = normalised(floats(4, 6)), torch.tensor([0, 1, 2, 0])
    assert torch.equal(attacked(Smooth(0), x, label, 0.0, 3, SCALE), x)
    assert torch.equal(attacked(Smooth(0), x, label, 1.0, 0, SCALE), x)


def test_a_linear_net_is_attacked_along_its_weights():
    """Away from the ends of the range, one step goes 0.8 eps along the difference of weights of a two-class linear net,
    and three steps go to the ball's edge."""
    net = Smooth(0)
    net.features, net.head = nn.Flatten(), nn.Linear(3 * 36, 2)
    x, label = normalised(torch.full((1, 3, 6, 6), 128.0)), torch.tensor([0])
    along = ((net.head.weight[1] - net.head.weight[0]).view(1, 3, 6, 6) / SCALE[1].view(1, 3, 1, 1)).detach()
    for steps, length in ((1, 0.8), (3, 1.0)):
        by = pixels(attacked(net, x, label, 0.5, steps, SCALE)) - pixels(x)
        torch.testing.assert_close(by, 0.5 * length * along / along.norm(), rtol=1e-3, atol=1e-6)


def test_a_flat_net_moves_nothing():
    """Without a gradient, or with one whose squares vanish in 32 bits, there is no division by nothing."""
    x, label = normalised(floats(2, 6)), torch.tensor([0, 1])
    flat = Smooth(0)
    nn.init.zeros_(flat.head.weight)
    assert torch.equal(attacked(flat, x, label, 1.0, 3, SCALE), x)
    sure = Smooth(0)
    nn.init.zeros_(sure.head.weight)
    sure.head.weight.data[0, 0] = 1e-25
    moved = attacked(sure, x, label, 0.5, 1, SCALE)
    assert moved.isfinite().all()


def test_an_attack_leaves_no_trace():
    """Weights, running statistics, dropout's counters, modes and gradients of the net are what they were, torch's
    generator has not moved, and training on the outcome gives the net gradients, in 16 bits too."""
    net = build("small-cnn", 3, 16)
    net.features.append(build("vit", 2, 16).features.drop)
    net.train()
    net.features[1].eval()  # a frozen norm stays one
    before, modes = copy.deepcopy(net.state_dict()), [part.training for part in net.modules()]
    state = torch.random.get_rng_state()
    x, label = floats(4, 16) / 127.5 - 1, torch.tensor([0, 1, 2, 0])
    scale = torch.tensor([net.mean, net.std])
    with torch.autocast("cpu", torch.bfloat16):
        moved = attacked(net, x, label, 1.0, 2, scale)
        assert not moved.requires_grad
        assert all(value.grad is None for value in net.parameters())
        assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
        loss = F.cross_entropy(net(moved).float(), label)
    assert [part.training for part in net.modules()] == modes
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not torch.equal(moved, x)
    loss.backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in net.parameters())


def test_an_image_is_attacked_by_itself():
    """An image's attack does not depend on the others of the batch, and not on the mode the net is in."""
    net = build("small-cnn", 3, 16)
    x, label, scale = floats(4, 16) / 127.5 - 1, torch.tensor([0, 1, 2, 0]), torch.tensor([net.mean, net.std])
    whole = attacked(net.train(), x, label, 0.5, 3, scale)
    torch.testing.assert_close(attacked(net.eval(), x[2:3], label[2:3], 0.5, 3, scale)[0], whole[2], rtol=1e-3,
                               atol=1e-4)
