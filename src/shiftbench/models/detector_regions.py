"""Features of a region: what maps say at a grid of points in a box (RoIAlign of He et al., 2017, as in torchvision)."""

from collections.abc import Sequence

import torch
from torch import Tensor

SAMPLES = 2
"""Points per side of a cell, of which it is the mean."""
COMMON, COARSE = 224, 4
"""A box of 224 px is looked at on the map of stride 2⁴ (Lin et al., 2017, equation 1)."""


def regions(maps: Sequence[Tensor], boxes: Sequence[Tensor], height: int, side: int) -> Tensor:
    """Boxes × channels × side × side, image after image. `boxes` has one tensor per image, M × 4 in its pixels;
    `height` is that of the images. Of several maps each box is looked at on that of its size."""
    box = torch.cat(list(boxes))
    image = torch.repeat_interleave(torch.tensor([len(one) for one in boxes], device=box.device), output_size=len(box))
    level = _levels(box, maps[0].shape[2] / height, len(maps))
    order, parts = [], []
    for number, plane in enumerate(maps):
        chosen = torch.where(level == number)[0]
        order.append(chosen)
        parts.append(align(plane.float(), image[chosen], box[chosen], plane.shape[2] / height, side))
    found = torch.cat(parts)
    return torch.zeros_like(found).index_copy(0, torch.cat(order), found)


def _levels(box: Tensor, finest: float, n: int) -> Tensor:
    """k = ⌊4 + log₂(√area / 224)⌋, counted from the finest map; the nearest there is."""
    first = round(-torch.tensor(finest).log2().item())
    area = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
    return torch.floor(COARSE + torch.log2(area.sqrt() / COMMON) + 1e-6).clamp(first, first + n - 1).long() - first


def align(plane: Tensor, image: Tensor, box: Tensor, scale: float, side: int) -> Tensor:
    """Boxes × channels × side × side of one map; boxes stand by image.

    A GPU adds up the gradient of torchvision's own in any order, so where results must repeat it is made of products.
    """
    if plane.is_cuda and torch.are_deterministic_algorithms_enabled():
        return by_products(plane, image, box, scale, side)
    from torchvision.ops import roi_align

    return roi_align(plane, torch.cat([image[:, None].to(box.dtype), box], dim=1), side, scale, SAMPLES)


def by_products(plane: Tensor, image: Tensor, box: Tensor, scale: float, side: int) -> Tensor:
    """The same: rows and columns of a cell are weighted means of those of the map, so a region is R · map · Cᵀ."""
    with torch.autocast(plane.device.type, enabled=False):
        begin = box[:, :2] * scale
        size = (box[:, 2:] * scale - begin).clamp(min=1)
        columns, rows = (_weights(begin[:, k], size[:, k], plane.shape[3 - k], side) for k in (0, 1))
        count = torch.bincount(image, minlength=len(plane)).tolist()
        made = []
        for one, row, column in zip(plane, rows.split(count), columns.split(count), strict=True):
            lines = torch.matmul(row.flatten(0, 1), one)  # channels × (boxes · side) × width
            lines = lines.unflatten(1, (len(row), side)).transpose(0, 1)
            made.append(lines @ column.transpose(1, 2)[:, None])
        return torch.cat(made)


def _weights(begin: Tensor, size: Tensor, n: int, side: int) -> Tensor:
    """Boxes × side × n: how much each of n places counts for a cell. Points are read between places; beyond the map by
    more than a place, they are 0."""
    step = (torch.arange(side * SAMPLES, device=begin.device) + 0.5) / (side * SAMPLES)
    at = begin[:, None] + size[:, None] * step
    inside = ((at >= -1) & (at <= n)).to(at.dtype)
    near = (1 - (at.clamp(0, n - 1)[:, :, None] - torch.arange(n, device=at.device)).abs()).clamp(min=0)
    return (near * inside[:, :, None]).unflatten(1, (side, SAMPLES)).mean(dim=2)
