"""Augmentation of a batch in which every image has its own operation: against Pillow and torchvision, and its laws."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as V

from shiftbench.images import policies
from shiftbench.images.augment import ONLY, PRESETS, augment
from shiftbench.images.policies import CODE, OPS, apply
from shiftbench.worlds.sprites import draw, order

ZERO, ONE = torch.zeros(3), torch.ones(3)

# Strengths to try, in the operation's unit.
STRENGTHS = {"identity": [0], "shear-x": [-0.15, 0.3], "shear-y": [-0.15, 0.3], "translate-x": [-12, 7],
             "translate-y": [-12, 7], "rotate": [-15, 30, 4.5], "brightness": [0.1, 0.55, 1.45],
             "contrast": [0.1, 0.55, 1.45], "posterize": [1, 4, 6], "solarize": [0, 128, 200],
             "solarize-add": [0, 55, 110], "invert": [0], "autocontrast": [0], "equalize": [0],
             "color": [0.1, 0.55, 1.45], "sharpness": [0.1, 0.55, 1.45], "cutout": [0, 7, 12]}
PLACE = (0.3, 0.9)


def pictures(n: int = 6, side: int = 40) -> torch.Tensor:
    """Soft colours, an even picture, one with few levels and one full of noise: uint8, N × 3 × H × W."""
    generator = torch.Generator().manual_seed(0)
    soft = torch.rand(n, 3, 5, 5, generator=generator) * 200 + 20
    out = torch.nn.functional.interpolate(soft, (side, side), mode="bicubic").clamp(0, 255).byte()
    out[0] = 77
    out[1] = out[1] // 64 * 64
    out[2] = torch.randint(0, 256, (3, side, side), generator=generator)
    return out


def with_torchvision(x, op: str, value: float, smooth: bool = False):
    """The same operation on one image by torchvision; on a Pillow image that is Pillow's own."""
    how = {"interpolation": v2.InterpolationMode.BILINEAR if smooth else v2.InterpolationMode.NEAREST}
    fixed = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0], "fill": 128, "center": [0, 0]}
    degrees = math.degrees(math.atan(value)) if op.startswith("shear") else 0.0
    done = {
        "identity": lambda: x,
        "shear-x": lambda: V.affine(x, **{**fixed, "shear": [degrees, 0.0]}, **how),
        "shear-y": lambda: V.affine(x, **{**fixed, "shear": [0.0, degrees]}, **how),
        "translate-x": lambda: V.affine(x, **{**fixed, "translate": [-int(value), 0]}, **how),
        "translate-y": lambda: V.affine(x, **{**fixed, "translate": [0, -int(value)]}, **how),
        "rotate": lambda: V.rotate(x, value, fill=128, **how),
        "brightness": lambda: V.adjust_brightness(x, value),
        "contrast": lambda: V.adjust_contrast(x, value),
        "posterize": lambda: V.posterize(x, int(value)),
        "solarize": lambda: V.solarize(x, value),
        "invert": lambda: V.invert(x),
        "autocontrast": lambda: V.autocontrast(x),
        "equalize": lambda: V.equalize(x),
        "color": lambda: V.adjust_saturation(x, value),
        "sharpness": lambda: V.adjust_sharpness(x, value),
    }
    return done[op]()


def ours(x: torch.Tensor, op: str, value: float, smooth: bool = False) -> torch.Tensor:
    n = len(x)
    return apply(x, torch.full((n,), CODE[op]), torch.full((n,), float(value)), torch.tensor([PLACE]).expand(n, 2),
                 smooth=smooth)


@pytest.mark.parametrize("op", [op for op in OPS if op not in ("solarize-add", "cutout")])
@pytest.mark.parametrize("library", ["pillow", "torchvision"])
def test_every_operation_is_the_known_one(op, library):
    """Image by image as Pillow and torchvision have it: levels to 1 (2 where torchvision rounds grey otherwise); of
    moved pixels at most 1 in 100 may come from a neighbour, where a point lies between two."""
    x = pictures()
    for value in STRENGTHS[op]:
        found = ours(x, op, value).int()
        assert found.shape == x.shape
        for number, picture in enumerate(x):
            if library == "pillow":
                made = with_torchvision(Image.fromarray(picture.permute(1, 2, 0).numpy()), op, value)
                wanted = torch.from_numpy(np.array(made)).permute(2, 0, 1).int()
            else:
                wanted = with_torchvision(picture, op, value).int()
            apart = (found[number] - wanted).abs()
            if op.startswith(("shear", "translate", "rotate")):
                assert (apart > 0).float().mean() < 0.01, (value, number)
            else:
                assert apart.max() <= (2 if library == "torchvision" else 1), (value, number)


@pytest.mark.parametrize("op", ["shear-x", "shear-y", "translate-x", "rotate"])
def test_reading_between_pixels_is_pillows(op):
    """AugMix's bilinear reading gives Pillow's levels to 1, but for 1 pixel in 50 at the edge of what is known."""
    x = pictures()[3:]
    for value in STRENGTHS[op]:
        found = ours(x, op, value, smooth=True).int()
        for number, picture in enumerate(x):
            made = with_torchvision(Image.fromarray(picture.permute(1, 2, 0).numpy()), op, value, smooth=True)
            apart = (found[number] - torch.from_numpy(np.array(made)).permute(2, 0, 1)).abs()
            assert (apart > 1).float().mean() < 0.02, (value, number)


def test_solarize_add_and_cutout():
    """What no library has, in numpy: dark levels are raised and kept below 256; a grey square of side 2 · half."""
    x = pictures()
    for add in STRENGTHS["solarize-add"]:
        wanted = np.where(x.numpy() < 128, np.minimum(x.numpy().astype(int) + add, 255), x.numpy())
        assert np.array_equal(ours(x, "solarize-add", add).numpy(), wanted)
    for half in STRENGTHS["cutout"]:
        wanted = x.clone()
        column, row = (int(share * 40) for share in PLACE)
        wanted[:, :, max(row - half, 0):row + half, max(column - half, 0):column + half] = 128
        assert torch.equal(ours(x, "cutout", half), wanted)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_an_image_does_not_depend_on_its_neighbours(seed):
    """With any operations mixed in the batch, an image alone comes out as it does among others, in any order."""
    generator = torch.Generator().manual_seed(seed)
    x = pictures(12, 20)
    op = torch.randint(0, len(OPS), (12,), generator=generator)
    value = torch.tensor([float(STRENGTHS[OPS[code]][seed % len(STRENGTHS[OPS[code]])]) for code in op])
    place = torch.rand(12, 2, generator=generator)
    whole = apply(x, op, value, place)
    turned = torch.randperm(12, generator=generator)
    for some in (turned, turned[:1]):
        assert torch.equal(apply(x[some], op[some], value[some], place[some]), whole[some])


def batch(n: int, side: int) -> torch.Tensor:
    return pictures(max(n, 3), side)[-n:].permute(0, 2, 3, 1).contiguous()


def uniform(n: int, preset: str, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, PRESETS[preset], generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("side", [8, 32, 64, 224])
def test_presets_at_every_size(preset, side):
    """Any side and any number of images, one included, give finite levels, and the same ones each time and each
    neighbourhood; numbers at both ends of [0, 1] are no exception."""
    x, u = batch(3, side), uniform(3, preset)
    if PRESETS[preset]:
        u[1], u[2] = 0.0, 1.0
    out = augment(x, preset, ZERO, ONE, u)
    assert out.shape == (3, 3, side, side)
    assert out.isfinite().all()
    assert out.min() >= -1e-3
    assert out.max() <= 255.001
    torch.testing.assert_close(augment(x[1:2], preset, ZERO, ONE, u[1:2])[0], out[1], rtol=0, atol=2e-3)


@pytest.mark.parametrize("preset", ["randaugment", "autoaugment", "augmix", *ONLY])
def test_no_random_number_but_those_handed_in(preset):
    """The global generators are neither used nor moved, and the batch handed in stays as it was."""
    x = batch(6, 16)
    before, state = x.clone(), torch.random.get_rng_state()
    augment(x, preset, ZERO, ONE, uniform(6, preset))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(x, before)


def drawn(monkeypatch, preset: str, n: int, side: int = 8) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Operations and strengths of each round of a preset on n images."""
    rounds = []

    def note(x, op, value, place, *rest, **named):
        rounds.append((op, value))
        return x

    monkeypatch.setattr(policies, "apply", note)
    known = {"randaugment": policies.randaugment, "autoaugment": policies.autoaugment, "augmix": policies.augmix}
    work = known.get(preset) or partial(policies.randaugment, ops=ONLY[preset])
    work(torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(n, 3, side, side), uniform(n, preset))
    return rounds


def test_randaugment_draws_evenly(monkeypatch):
    """Three rounds in which each of sixteen operations comes in one of sixteen images, at both signs."""
    rounds = drawn(monkeypatch, "randaugment", 16_000, 32)
    assert len(rounds) == 3
    assert len(policies.RANDOM_OPS) == 16
    for op, value in rounds:
        count = torch.bincount(op, minlength=len(OPS))
        assert count[CODE["identity"]] == 0
        assert (count[1:] - 1000).abs().max() < 150  # about five standard deviations
        turned = value[op == CODE["rotate"]]
        assert set(turned.tolist()) == {-15.0, 15.0}
        assert 0.4 < (turned > 0).float().mean() < 0.6
        assert value[op == CODE["color"]].unique().tolist() == pytest.approx([0.55, 1.45])
        assert value[op == CODE["translate-x"]].abs().unique().tolist() == pytest.approx([5])


@pytest.mark.parametrize("preset", ONLY)
def test_an_operation_alone_or_nothing(monkeypatch, preset):
    """The ablation draws the one operation half the time and else leaves the image as it is."""
    for op, _ in drawn(monkeypatch, preset, 2000):
        assert set(op.tolist()) == {CODE["identity"], CODE[preset.removeprefix("only-")]}
        assert 0.45 < (op != 0).float().mean() < 0.55


@pytest.mark.parametrize(("policy", "theirs"), [("cifar", "cifar10"), ("imagenet", "imagenet")])
def test_autoaugment_policies_are_the_papers(policy, theirs):
    """25 pairs each, with the operations, probabilities and levels that torchvision holds too."""
    found = policies.sub_policies(policy)
    known = v2.AutoAugment(v2.AutoAugmentPolicy(theirs))._policies
    assert len(found) == len(known) == 25
    for ours_, theirs_ in zip(found, known, strict=True):
        for (op, chance, level), (name, probability, magnitude) in zip(ours_, theirs_, strict=True):
            assert (op.replace("-", ""), chance) == (name.lower(), probability)
            assert magnitude in (None, level)


@pytest.mark.parametrize(("side", "policy"), [(8, "cifar"), (128, "imagenet")])
def test_autoaugment_keeps_its_probabilities(monkeypatch, side, policy):
    """An operation comes as often, in each of the two places, as the policy's probabilities say."""
    pairs = policies.sub_policies(policy)
    n = 3000
    for place, (op, _) in enumerate(drawn(monkeypatch, "autoaugment", n, side)):
        for name in OPS[1:]:
            wanted = sum(pair[place][1] for pair in pairs if pair[place][0] == name) / 25
            assert (op == CODE[name]).float().mean() == pytest.approx(wanted, abs=5 * math.sqrt(0.25 / n))


def test_lengths_lie_between_cifar_and_imagenet():
    """Translate reaches 10 px at 32 and 100 px at 224, cutout's half side 10 and 40, and a line runs between."""
    for op, small, large in (("translate-x", 10, 100), ("cutout", 10, 40)):
        reach = [10 * policies.strength(op, "randaugment", side)[1] for side in (16, 32, 128, 224)]
        assert reach == pytest.approx([small / 2, small, (small + large) / 2, large])


def test_augmix_mixes():
    """Weights of the chains are positive and sum to one, evenly on average; with mix 0 the image is itself, with mix 1
    and one chain's weight it is that chain; depths 1 to 3 come evenly."""
    weight = policies.mixing_weights(torch.rand(20_000, 3, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(weight.sum(1), torch.ones(20_000))
    assert weight.min() >= 0
    torch.testing.assert_close(weight.mean(0), torch.full((3,), 1 / 3), rtol=0, atol=0.01)
    torch.testing.assert_close(weight.var(0), torch.full((3,), 1 / 18), rtol=0.05, atol=0)  # of Dirichlet(1, 1, 1)
    x, u = batch(6, 32), uniform(6, "augmix")
    u[:, 0] = 0
    assert torch.equal(augment(x, "augmix", ZERO, ONE, u), x.permute(0, 3, 1, 2).float())
    u[:, 0], u[:, 1:4] = 1, torch.tensor([0.0, 1.0, 1.0])
    first = u.clone()
    first[:, 14:] = 0.99  # the other chains' draws no longer count
    once, again = (augment(x, "augmix", ZERO, ONE, each) for each in (u, first))
    torch.testing.assert_close(once, again, rtol=0, atol=1e-3)
    assert (once - x.permute(0, 3, 1, 2)).abs().max() > 1


def test_augmix_chains_have_random_depth(monkeypatch):
    """The first operation always comes, the second in two of three chains, the third in one; they are thirteen."""
    rounds = drawn(monkeypatch, "augmix", 3000)
    assert [(op != 0).float().mean().item() for op, _ in rounds] == pytest.approx([1, 2 / 3, 1 / 3], abs=0.03)
    assert len({code for op, _ in rounds for code in op.tolist()} - {0}) == len(policies.MIX_OPS) == 13


def test_imagenet_crops_more_than_standard():
    """Crops of 0.08 of the area occur, and brightness moves by up to 0.4."""
    ramp = torch.arange(32, dtype=torch.uint8).mul(4).view(1, 1, 32, 1).expand(500, 32, 32, 3)
    u = uniform(500, "imagenet")
    u[:, 5:] = 0.5  # no jitter
    out = augment(ramp, "imagenet", ZERO, ONE, u)
    width = (out[:, 0, 16, -1] - out[:, 0, 16, 0]).abs() / 124
    assert width.min() < 0.4
    assert width.max() > 0.95
    even = torch.full((500, 8, 8, 3), 100, dtype=torch.uint8)
    light = augment(even, "imagenet", ZERO, ONE, uniform(500, "imagenet")).mean((1, 2, 3))
    assert 60 <= light.min() < 62
    assert 138 < light.max() <= 140.001


@pytest.mark.slow
def test_black_ground_stays_black():
    """On sprites: color, brightness, posterize and sharpness move no light into what is black all around."""
    x = torch.from_numpy(draw(order(0)[:16]))
    light = torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2).float().amax(1, keepdim=True), 7, 1, 3)
    for preset in ("only-color", "only-brightness", "only-posterize", "only-sharpness"):
        out = augment(x, preset, ZERO, ONE, uniform(16, preset))
        assert out[(light == 0).expand_as(out)].max() == 0
        assert out.max() > 0
