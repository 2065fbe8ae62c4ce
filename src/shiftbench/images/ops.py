"""The operations of AutoAugment and its heirs on a batch in which every image has its own operation and strength."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

from shiftbench.core.later import F, torch

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
