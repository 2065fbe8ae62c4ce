"""Augmentation of a whole batch at once, on the device the batch is on; every draw is a number that is handed in."""

import shiftbench.pixels.needs_torch  # noqa: F401

# isort: split
import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftbench.errors import unknown

PRESETS = {"none": 0, "standard": 5, "color": 10}
"""Name -> how many numbers from [0, 1) it takes per image.

`none`: only normalised. `standard`: random resized crop and flip. `color`: standard, then brightness, contrast,
saturation and hue moved by up to 0.3 and one image in ten made grey (DomainBed's and so MetaShift's recipe)."""

CROP_AREA = (0.7, 1.0)
CROP_RATIO = (3 / 4, 4 / 3)
JITTER = 0.3
GREY = 0.1


def augment(images: Tensor, preset: str, mean: Tensor, std: Tensor, u: Tensor | None = None) -> Tensor:
    """uint8 N × H × W × 3 to float N × 3 × H × W: (augmented - mean) / std, with mean and std on the 0..255 scale.

    `u` holds uniform numbers, N × PRESETS[preset]. Who calls makes them from seed and step, so a run draws the same
    crops on a laptop and on a GPU, and a resumed one needs no memory of earlier draws.
    """
    if preset not in PRESETS:
        raise unknown("augmentation", preset, PRESETS)
    x = images.permute(0, 3, 1, 2).float()
    if u is not None and preset != "none":
        x = _crop_and_flip(x, u[:, :5])
    if u is not None and preset == "color":
        x = _recolor(x, u[:, 5:])
    # The permuted view is channels-last already, which is what convolutions on the CPU and on tensor cores want.
    return (x - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1)


def _crop_and_flip(x: Tensor, u: Tensor) -> Tensor:
    """A crop of random area and aspect ratio, resized to the full image by bilinear sampling, mirrored half the time.

    With crop width w and height h as shares of the image, output point (u, v) in [-1, 1]^2 is read at
    (±w u + s (1 - w), h v + t (1 - h)) with s, t uniform in [-1, 1].
    """
    area = CROP_AREA[0] + u[:, 0] * (CROP_AREA[1] - CROP_AREA[0])
    low, high = math.log(CROP_RATIO[0]), math.log(CROP_RATIO[1])
    root = torch.exp((low + u[:, 1] * (high - low)) / 2)
    width, height = (area.sqrt() * root).clamp(max=1.0), (area.sqrt() / root).clamp(max=1.0)
    mirror = torch.where(u[:, 4] < 0.5, -1.0, 1.0)
    theta = torch.zeros(len(x), 2, 3, device=x.device)
    theta[:, 0, 0], theta[:, 0, 2] = mirror * width, (2 * u[:, 2] - 1) * (1 - width)
    theta[:, 1, 1], theta[:, 1, 2] = height, (2 * u[:, 3] - 1) * (1 - height)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _recolor(x: Tensor, u: Tensor) -> Tensor:
    """Brightness, contrast and saturation are factors from 0.7 to 1.3; hue turns the colour circle by up to 0.3 of a
    full turn (in the YIQ plane, where grey stays grey and brightness stays what it was)."""
    factor = (1 - JITTER + 2 * JITTER * u[:, :3]).view(-1, 3, 1, 1, 1)
    x = (x * factor[:, 0]).clamp(0, 255)
    level = _luma(x).mean(dim=(2, 3), keepdim=True)
    x = (level + (x - level) * factor[:, 1]).clamp(0, 255)
    grey = _luma(x)
    color = (x - grey) * factor[:, 2]
    angle = 2 * math.pi * JITTER * (2 * u[:, 3] - 1)
    turn = _hue_turn(angle, x.device)
    x = (grey + torch.einsum("nij,njhw->nihw", turn, color)).clamp(0, 255)
    return torch.where((u[:, 4] < GREY).view(-1, 1, 1, 1), _luma(x).expand_as(x), x)


def _luma(x: Tensor) -> Tensor:
    return 0.299 * x[:, 0:1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:3]


def _hue_turn(angle: Tensor, device: torch.device) -> Tensor:
    """Rotation by `angle` in the chroma plane, seen from RGB: inverse(YIQ) · R(angle) · YIQ."""
    there, back = _yiq(device)
    cos, sin = torch.cos(angle), torch.sin(angle)
    turn = torch.zeros(len(angle), 3, 3, device=device)
    turn[:, 0, 0] = 1
    turn[:, 1, 1], turn[:, 1, 2], turn[:, 2, 1], turn[:, 2, 2] = cos, -sin, sin, cos
    return back @ turn @ there


@lru_cache
def _yiq(device: torch.device) -> tuple[Tensor, Tensor]:
    """RGB to YIQ and back. Made once per device: a recorded step must not copy from the host."""
    there = torch.tensor([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
    return there.to(device), torch.linalg.inv(there).to(device)
