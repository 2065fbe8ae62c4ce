"""RandAugment, AutoAugment and AugMix choose the operations on an image and their strengths from uniform draws.

Strengths are read as (base, slope, signed): base + slope · level, with a random sign on the slope where signed. Papers
and released code differ on what a level means; our reading stands with each of the three.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

from shiftbench.core.backend import F, torch

if TYPE_CHECKING:
    from torch import Tensor

OPS = ("identity", "shear-x", "shear-y", "translate-x", "translate-y", "rotate", "brightness", "contrast", "posterize",
       "solarize", "solarize-add", "invert", "autocontrast", "equalize", "color", "sharpness", "cutout")
"""An operation is its place here. The strength is in its own unit: shear a tangent, translate pixels (cut to whole
ones), rotate degrees counter-clockwise, brightness, contrast, color and sharpness a factor (1 changes nothing),
posterize the bits kept, solarize the level from which values are inverted, solarize-add what is added to values below
128, cutout half the side of the grey square; the others have none."""

CODE = {name: code for code, name in enumerate(OPS)}
GEOMETRY = OPS[1:6]
TABLES = OPS[6:14]
GREY = 128

Change: TypeAlias = "tuple[Tensor, Callable[..., Tensor]]"
"""The images that a change applies to, and the function that changes them."""

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


# The operations, on a batch in which every image has its own operation and strength


def apply(x: Tensor, op: Tensor, value: Tensor, position: Tensor, present: Collection[str] = OPS, fill: int = GREY,
          smooth: bool = False) -> Tensor:
    """One operation per image: uint8 N × 3 × H × W to the same.

    `op` and `value` have one entry per image, `position` (N × 2, from [0, 1)) is the centre of the square to cut out.
    `present` names what may occur, so that other operations cost nothing. Levels are cut or rounded as Pillow does
    (torchvision's tensors, whose grey is cut and not rounded, differ by up to 2). Pixels from beyond the edge are
    `fill`; `smooth` reads between pixels instead of the nearest one.
    """
    names = frozenset(present)
    changes: list[Change] = []
    if names & {*GEOMETRY}:
        changes.append(((op >= CODE["shear-x"]) & (op <= CODE["rotate"]), partial(_move, fill=fill, smooth=smooth)))
    if names & {*TABLES}:
        changes.append(((op >= CODE["brightness"]) & (op <= CODE["equalize"]), partial(_look_up, present=names)))
    changes += [(op == CODE[name], change) for name, change in OWN.items() if name in names]
    return _replace(x, changes, x, op, value, position)


def _replace(x: Tensor, changes: list[Change], *arguments: Tensor) -> Tensor:
    """Apply each change to its images, at most one per image.

    On a device every change is computed for all images and then selected, since a recorded step can neither wait for a
    choice nor change its shapes. On the CPU each is computed for its own images only; the result is the same.
    """
    if x.device.type != "cpu":
        for concerned, change in changes:
            x = torch.where(concerned.view(-1, *[1] * (x.ndim - 1)), change(*arguments), x)
        return x
    unchanged = torch.stack([concerned for concerned, _ in changes]).any(0).logical_not()
    rows = [mask.nonzero()[:, 0] for mask in (unchanged, *(concerned for concerned, _ in changes))]
    parts = [x.index_select(0, rows[0])]
    parts += [change(*(tensor.index_select(0, chosen) for tensor in arguments))
              for chosen, (_, change) in zip(rows[1:], changes, strict=True) if len(chosen)]
    return torch.cat(parts).index_select(0, torch.cat(rows).argsort())


def _move(x: Tensor, op: Tensor, value: Tensor, _: Tensor, *, fill: int, smooth: bool) -> Tensor:
    """Output point (x, y) is read at A (x, y) + b; shears hold the upper left corner, rotations the centre."""
    height, width = x.shape[2:]
    pixels = value.trunc()
    angle = torch.where(op == CODE["rotate"], value, 0.0) * (math.pi / 180)
    cos, sin = torch.cos(angle).view(-1, 1, 1), torch.sin(angle).view(-1, 1, 1)
    shear_x, shear_y = (torch.where(op == CODE[name], value, 0.0).view(-1, 1, 1) for name in ("shear-x", "shear-y"))
    by_x, by_y = (torch.where(op == CODE[name], pixels, 0.0).view(-1, 1, 1) for name in ("translate-x", "translate-y"))
    column, row = _centres(height, width, x.device)
    from_x = cos * column + ((shear_x - sin) * row + (by_x + (1 - cos) * (width / 2) + sin * (height / 2)))
    from_y = (shear_y + sin) * column + (cos * row + (by_y + (1 - cos) * (height / 2) - sin * (width / 2)))
    inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
    if smooth:
        grid = torch.stack([from_x * (2 / width) - 1, from_y * (2 / height) - 1], dim=-1)
        moved = F.grid_sample(x.float(), grid, padding_mode="border", align_corners=False)
        return torch.where(inside[:, None], moved + 0.5, fill).byte()
    # After the pixels comes one more entry, the fill: points outside read that one.
    beyond = torch.full((len(x), 3, 1), fill, dtype=torch.uint8, device=x.device)
    source = torch.where(inside, from_y.long() * width + from_x.long(), height * width)
    return torch.cat([x.flatten(2), beyond], 2).gather(2, source.flatten(1)[:, None].expand(-1, 3, -1)).view(x.shape)


def _look_up(x: Tensor, op: Tensor, value: Tensor, _: Tensor, *, present: Collection[str]) -> Tensor:
    """Every level is replaced by that of a table with 256 entries, one per image and channel."""
    table = _tables(x, op, value, present)
    if "equalize" in present:
        table = _replace(table, [(op == CODE["equalize"], _equalizer)], x)
    return table.gather(2, x.flatten(2).long()).view(x.shape)


def _tables(x: Tensor, op: Tensor, value: Tensor, present: Collection[str]) -> Tensor:
    """Brightness, contrast, invert and autocontrast are lines through a point, (v - pivot) · rise / run + base."""
    line = _unchanged(x.device).expand(len(x), 3, 4)
    lines = {"brightness": _scaled, "contrast": _about_the_mean, "invert": _mirrored, "autocontrast": _stretched}
    changes = [(op == CODE[name], change) for name, change in lines.items() if name in present]
    pivot, rise, run, base = (_replace(line, changes, x, line, value) if changes else line).split(1, dim=2)
    level, op, value = _levels(x.device), op.view(-1, 1, 1), value.view(-1, 1, 1)
    table = ((level - pivot) * rise / run + base).clamp(0, 255)
    step = torch.exp2(8 - torch.where(op == CODE["posterize"], value, 8.0).ceil())
    table = torch.where(op == CODE["posterize"], torch.floor(level / step) * step, table)
    table = torch.where((op == CODE["solarize"]) & (level >= value), 255 - level, table)
    added = (op == CODE["solarize-add"]) & (level < 128)
    return torch.where(added, (level + value).clamp(0, 255), table).byte()


def _line(like: Tensor, *pivot_rise_run_base: Tensor | float) -> Tensor:
    out = torch.empty_like(like, memory_format=torch.contiguous_format)
    out[..., 0], out[..., 1], out[..., 2], out[..., 3] = pivot_rise_run_base
    return out


def _scaled(x: Tensor, line: Tensor, factor: Tensor) -> Tensor:
    return _line(line, 0, factor[:, None], 1, 0)


def _about_the_mean(x: Tensor, line: Tensor, factor: Tensor) -> Tensor:
    """Contrast: away from the mean luminance, in whole levels as Pillow has it."""
    mean = torch.floor(_luma(x.float()).mean(dim=(2, 3)) + 0.5)
    return _line(line, mean, factor[:, None], 1, mean)


def _mirrored(x: Tensor, line: Tensor, _: Tensor) -> Tensor:
    return _line(line, 255, -1, 1, 0)


def _stretched(x: Tensor, line: Tensor, _: Tensor) -> Tensor:
    """Autocontrast: darkest level to 0 and brightest to 255, channel by channel; an even channel stays."""
    low, high = x.flatten(2).amin(2).float(), x.flatten(2).amax(2).float()
    even = high == low
    run = torch.where(even, 255.0, high - low)
    return _line(line, torch.where(even, 0.0, low), 255, run, 0)


def _equalizer(x: Tensor) -> Tensor:
    """Pillow's table: (how many are darker + step / 2) / step, with 255 steps for all but the brightest level's."""
    n, channels, height, width = x.shape
    first = torch.arange(0, n * channels * 256, 256, device=x.device).view(n, channels, 1)
    bin = (first + x.flatten(2).long()).flatten()
    # Flat, because sums of this kind repeat exactly on a device only in one dimension (whole numbers: in any order).
    count = torch.zeros(n * channels * 256, dtype=torch.int32, device=x.device)
    count = count.scatter_add_(0, bin, torch.ones_like(bin, dtype=torch.int32)).view(n, channels, 256)
    total = count.cumsum(2, dtype=torch.int32)
    brightest = count.gather(2, x.amax(dim=(2, 3)).long()[..., None])
    step = (height * width - brightest) // 255
    table = ((total - count + step // 2) // step.clamp(min=1)).clamp(0, 255)
    return torch.where(step > 0, table.byte(), _levels(x.device).byte())


def _saturate(x: Tensor, op: Tensor, factor: Tensor, _: Tensor) -> Tensor:
    """Towards grey of the same luminance, or away from it."""
    x = x.float()
    return _blend(_luma(x), x, factor)


def _sharpen(x: Tensor, op: Tensor, factor: Tensor, _: Tensor) -> Tensor:
    """Away from (or towards) the mean of 3 × 3 pixels in which the middle one counts five times; edges stay."""
    original, x = x, x.float()
    rows = x[:, :, :-2] + x[:, :, 1:-1] + x[:, :, 2:]
    inner = x[:, :, 1:-1, 1:-1]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * inner
    out = original.clone()
    out[:, :, 1:-1, 1:-1] = _blend(torch.floor(total / 13 + 0.5), inner, factor)
    return out


def _cut_out(x: Tensor, op: Tensor, half: Tensor, position: Tensor) -> Tensor:
    """A square of side 2 · half, cut to whole pixels, around a pixel; what lies beyond the edge is lost."""
    height, width = x.shape[2:]
    column, row = _centres(height, width, x.device)
    half = half.trunc().view(-1, 1, 1)
    middle_x = torch.floor(position[:, 0] * width).view(-1, 1, 1)
    middle_y = torch.floor(position[:, 1] * height).view(-1, 1, 1)
    hidden = ((column - middle_x).abs() < half) & ((row - middle_y).abs() < half)
    return x.masked_fill(hidden[:, None], GREY)


def _blend(base: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """From `base` (factor 0) through x (factor 1) and beyond, cut to whole levels."""
    return (base + (x - base) * factor.view(-1, 1, 1, 1)).clamp(0, 255).byte()


def _luma(x: Tensor) -> Tensor:
    """Rounded to whole levels as Pillow's grey images are."""
    return torch.floor(0.299 * x[:, 0:1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:3] + 0.5)


OWN = {"color": _saturate, "sharpness": _sharpen, "cutout": _cut_out}


@cache
def _unchanged(device: torch.device) -> Tensor:
    """The line that changes nothing: pivot 0, rise 1, run 1, base 0."""
    return torch.tensor([0.0, 1.0, 1.0, 0.0], device=device)


@cache
def _levels(device: torch.device) -> Tensor:
    return torch.arange(256, dtype=torch.float32, device=device)


@cache
def _centres(height: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Column and row of the pixels' centres."""
    return (torch.arange(width, dtype=torch.float32, device=device).view(1, 1, -1) + 0.5,
            torch.arange(height, dtype=torch.float32, device=device).view(1, -1, 1) + 0.5)
