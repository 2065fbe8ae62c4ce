"""RandAugment, AutoAugment and AugMix choose the operations on an image and their strengths from uniform draws.

Strengths are read as (base, slope, signed): base + slope · level, with a random sign on the slope where signed. Papers
and released code differ on what a level means; our reading stands with each of the three.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from shiftbench.core.later import torch
from shiftbench.images.ops import CODE, GEOMETRY, OPS, apply

if TYPE_CHECKING:
    from torch import Tensor

ROUNDS, LEVEL = 3, 5
"""RandAugment's N and M (of 10) in Wiles et al., appendix F.2."""

CHAINS, DEPTH, SEVERITY = 3, 3, 3
"""AugMix: k = 3 chains of one to three operations, levels uniform up to 3."""

RANDOM_OPS = OPS[1:]
MIX_OPS = tuple(name for name in RANDOM_OPS if name not in ("invert", "solarize-add", "cutout"))
ENHANCE = ("brightness", "contrast", "color", "sharpness")

Range = tuple[float, float, bool]

CIFAR = """
invert .1 7, contrast .2 6 | rotate .7 2, translate-x .3 9 | sharpness .8 1, sharpness .9 3
shear-y .5 8, translate-y .7 9 | autocontrast .5 8, equalize .9 2 | shear-y .2 7, posterize .3 7
color .4 3, brightness .6 7 | sharpness .3 9, brightness .7 9 | equalize .6 5, equalize .5 1
contrast .6 7, sharpness .6 5 | color .7 7, translate-x .5 8 | equalize .3 7, autocontrast .4 8
translate-y .4 3, sharpness .2 6 | brightness .9 6, color .2 8 | solarize .5 2, invert 0 3
equalize .2 0, autocontrast .6 0 | equalize .2 8, equalize .6 4 | color .9 9, equalize .6 6
autocontrast .8 4, solarize .2 8 | brightness .1 3, color .7 0 | solarize .4 5, autocontrast .9 3
translate-y .9 9, translate-y .7 9 | autocontrast .9 2, solarize .8 3 | equalize .8 8, invert .1 3
translate-y .7 9, autocontrast .9 1
"""

IMAGENET = """
posterize .4 8, rotate .6 9 | solarize .6 5, autocontrast .6 5 | equalize .8 8, equalize .6 3
posterize .6 7, posterize .6 6 | equalize .4 7, solarize .2 4 | equalize .4 4, rotate .8 8
solarize .6 3, equalize .6 7 | posterize .8 5, equalize 1 2 | rotate .2 3, solarize .6 8
equalize .6 8, posterize .4 6 | rotate .8 8, color .4 0 | rotate .4 9, equalize .6 2
equalize 0 7, equalize .8 8 | invert .6 4, equalize 1 8 | color .6 4, contrast 1 8
rotate .8 8, color 1 2 | color .8 8, solarize .8 7 | sharpness .4 7, invert .6 8
shear-x .6 5, equalize 1 9 | color .4 0, equalize .6 3 | equalize .4 7, solarize .2 4
solarize .6 5, autocontrast .6 5 | invert .6 4, equalize 1 8 | color .6 4, contrast 1 8
equalize .8 8, equalize .6 3
"""


def randaugment(x: Tensor, u: Tensor, ops: tuple[str, ...] = RANDOM_OPS) -> Tensor:
    """N = 3 operations in a row, each drawn evenly from the sixteen of the released code, at M = 5 of 10.

    Released code gives brightness, contrast, color and sharpness the factor 0.1 + 1.8 M / 10, which is no change at
    M = 5; like torchvision we go 0.9 M / 10 up or down from 1, and posterize to 8 - 4 M / 10 bits.
    """
    base, slope, signed = _ranges(ops, "randaugment", min(x.shape[2:]), x.device)
    codes = _codes(ops, x.device)
    for draw in u.unflatten(1, (ROUNDS, 3)).unbind(1):
        choice = _choice(draw[:, 0], len(ops))
        # No operation needs both a sign and a place, so one number serves for either.
        value = base[choice] + torch.where(signed[choice], _sign(draw[:, 1]), 1.0) * slope[choice] * LEVEL
        x = apply(x, codes[choice], value, draw[:, 1:], ops)
    return x


def autoaugment(x: Tensor, u: Tensor) -> Tensor:
    """One of 25 pairs of operations, each done with its own probability: the CIFAR-10 policy below 128 px, else the
    ImageNet policy.

    Levels are read as in the released CIFAR-10 code, m / 10 of the range. That posterizes to 4 - 4 m / 10 bits; for
    ImageNet we keep the paper's range, 8 - 4 m / 10.
    """
    side = min(x.shape[2:])
    codes, chance, base, slope = _policy("cifar" if side < 128 else "imagenet", side, x.device)
    pair = _choice(u[:, 0], len(codes))
    for index in range(2):
        applied = u[:, 1 + 2 * index] < chance[pair, index]
        op = torch.where(applied, codes[pair, index], CODE["identity"])
        value = base[pair, index] + _sign(u[:, 2 + 2 * index]) * slope[pair, index]
        x = apply(x, op, value, u[:, :2], [name for name in OPS if name not in ("solarize-add", "cutout")])
    return x


def augmix(x: Tensor, u: Tensor) -> Tensor:
    """(1 - m) x + m (w1 c1(x) + w2 c2(x) + w3 c3(x)) with m from Beta(1, 1) and w from Dirichlet(1, 1, 1).

    Each chain c is one to three of thirteen operations, drawn evenly; levels are uniform from 0.1 to 3 of 10 and read
    as in the released code (enhancements only weaken, posterize keeps 3 or 4 bits, translate reaches a third of the
    image at 10), but degrees are not cut to whole ones. Beta(1, 1) is uniform. The mixture is not rounded.
    """
    mix, weight, chains = u[:, 0], mixing_weights(u[:, 1:1 + CHAINS]), u[:, 1 + CHAINS:]
    base, slope, signed = _ranges(MIX_OPS, "augmix", min(x.shape[2:]), x.device)
    codes = _codes(MIX_OPS, x.device)
    # The chains of all images side by side: three rounds on 3 N images instead of nine on N.
    draws = chains.reshape(len(x) * CHAINS, 1 + 3 * DEPTH)
    depth = 1 + _choice(draws[:, 0], DEPTH)
    chained = x.repeat_interleave(CHAINS, dim=0)
    for index, draw in enumerate(draws[:, 1:].unflatten(1, (DEPTH, 3)).unbind(1)):
        choice = _choice(draw[:, 0], len(MIX_OPS))
        level = 0.1 + (SEVERITY - 0.1) * draw[:, 1]
        value = base[choice] + torch.where(signed[choice], _sign(draw[:, 2]), 1.0) * slope[choice] * level
        op = torch.where(index < depth, codes[choice], CODE["identity"])
        chained = apply(chained, op, value, draw[:, 1:], MIX_OPS, fill=0, smooth=True)
    mixed = (chained.unflatten(0, (len(x), CHAINS)) * weight.view(-1, CHAINS, 1, 1, 1)).sum(1)
    return x + mix.view(-1, 1, 1, 1) * (mixed - x)


RANDAUGMENT_DRAWS, AUTOAUGMENT_DRAWS, AUGMIX_DRAWS = 3 * ROUNDS, 5, 1 + CHAINS + CHAINS * (1 + 3 * DEPTH)


def mixing_weights(u: Tensor) -> Tensor:
    """Dirichlet(1, …, 1) from uniform numbers: -log u over its sum."""
    spread = -torch.log(u.clamp(1e-7, 1 - 1e-7))
    return spread / spread.sum(1, keepdim=True)


def _choice(u: Tensor, n: int) -> Tensor:
    """0 to n - 1, evenly; a number just below 1 may have been rounded up to it."""
    return (u * n).long().clamp(max=n - 1)


def _sign(u: Tensor) -> Tensor:
    return torch.where(u < 0.5, -1.0, 1.0)


def reach(small: float, large: float, side: int) -> float:
    """A length in pixels between what is used at 32 px and at 224 px, in proportion below 32."""
    return small * side / 32 if side < 32 else small + (large - small) * (side - 32) / (224 - 32)


def strength(op: str, policy: str, side: int) -> Range:
    """How a level of `policy` (randaugment, cifar, imagenet, augmix) becomes the strength of `op`."""
    signed = policy == "randaugment"
    if op in ENHANCE:
        return (1.0, 0.09, True) if signed else (0.1, 0.18, False)
    translate = side / 30 if policy == "augmix" else reach(10, 100, side) / 10
    slopes = {"rotate": 3.0, "shear-x": 0.03, "shear-y": 0.03, "translate-x": translate, "translate-y": translate}
    if op in GEOMETRY:
        return 0.0, slopes[op], True
    ranges = {"posterize": (4.0 if policy in ("cifar", "augmix") else 8.0, -0.4, False),
            "solarize": (256.0, -25.6, False), "solarize-add": (0.0, 11.0, False),
            "cutout": (0.0, reach(10, 40, side) / 10, False)}
    return ranges.get(op, (0.0, 0.0, False))


def sub_policies(policy: str) -> list[list[tuple[str, float, int]]]:
    """AutoAugment's 25 pairs of (operation, probability, level)."""
    text = {"cifar": CIFAR, "imagenet": IMAGENET}[policy].strip().replace("\n", "|")
    parts = [[step.split() for step in pair.split(",")] for pair in text.split("|")]
    return [[(op, float(chance), int(level)) for op, chance, level in pair] for pair in parts]


# Tables are made once per device and image side: a recorded step must not copy from the host.
@cache
def _ranges(ops: tuple[str, ...], policy: str, side: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    base, slope, signed = zip(*(strength(op, policy, side) for op in ops), strict=True)
    return torch.tensor(base, device=device), torch.tensor(slope, device=device), torch.tensor(signed, device=device)


@cache
def _codes(ops: tuple[str, ...], device: torch.device) -> Tensor:
    return torch.tensor([CODE[op] for op in ops], device=device)


@cache
def _policy(policy: str, side: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Code, probability, strength and how far a sign moves it, each 25 × 2."""
    rows = []
    for op, chance, level in (step for pair in sub_policies(policy) for step in pair):
        base, slope, signed = strength(op, policy, side)
        rows.append((CODE[op], chance, base if signed else base + slope * level, slope * level if signed else 0.0))
    code, chance, base, slope = torch.tensor(rows, dtype=torch.float64, device=device).view(-1, 2, 4).unbind(2)
    return code.long(), chance.float(), base.float(), slope.float()
