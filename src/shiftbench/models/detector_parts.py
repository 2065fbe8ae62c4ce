"""What torchvision's detectors are made of, with a loss for every image; imported when a detector is built."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.roi_heads import RoIHeads, fastrcnn_loss
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead

__all__ = ["Choice", "ImageList", "Proposals", "fastrcnn_loss"]

RATIOS = (0.5, 1.0, 2.0)


class Sampler:
    """Draws `n` of an image's candidates, of which at most a `share` is on a thing.

    Each image draws from a stream of its own, so what is drawn for one does not depend on what the others hold.
    """

    def __init__(self, n: int, share: float) -> None:
        self.n, self.share = n, share

    def __call__(self, kinds: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Which are drawn of those on a thing (kind ≥ 1) and of those on none (0); the others (-1) never are."""
        things, others = [], []
        for kind in kinds:
            seed = int(torch.randint(2**62, ()))
            order = torch.randperm(len(kind), generator=torch.Generator(kind.device).manual_seed(seed),
                                   device=kind.device)
            on, off = (order[wanted[order]] for wanted in (kind >= 1, kind == 0))
            on = on[:int(self.n * self.share)]
            things.append(_marked(kind, on))
            others.append(_marked(kind, off[:self.n - len(on)]))
        return things, others


def _marked(like: Tensor, places: Tensor) -> Tensor:
    return torch.zeros_like(like, dtype=torch.bool).index_fill(0, places, True)


class _ProposalHead(RPNHead):
    """Its numbers are 32-bit whatever the run's precision is: in bfloat16 a place at 1000 px is 4 px off."""

    def forward(self, x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        scores, moves = super().forward(x)
        return [one.float() for one in scores], [one.float() for one in moves]


class Proposals(RegionProposalNetwork):
    """Where things may be: anchors of several sides and shapes at every place of every map, scored and moved."""

    def __init__(self, n_channels: int, sides: Sequence[Sequence[int]], n_sampled: int, n_train: int, n_test: int
                 ) -> None:
        anchors = AnchorGenerator(tuple(map(tuple, sides)), (RATIOS,) * len(sides))
        most = {"training": n_train, "testing": n_test}
        super().__init__(anchors, _ProposalHead(n_channels, anchors.num_anchors_per_location()[0]), 0.7, 0.3, n_sampled,
                         0.5, most, most, 0.7)
        self.fg_bg_sampler = Sampler(n_sampled, 0.5)

    def forward(self, images: ImageList, maps: dict[str, Tensor], truths: list[dict[str, Tensor]] | None = None
                ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """It learns where it is told the truth, whatever mode the net is in."""
        self.training = truths is not None
        return super().forward(images, maps, truths)

    def compute_loss(self, scores: Tensor, moves: Tensor, kinds: list[Tensor], goals: list[Tensor]
                     ) -> tuple[Tensor, Tensor]:
        """Of each image alone; torchvision's is that of all anchors of a batch together."""
        n = len(kinds)
        each = [super(Proposals, self).compute_loss(score, move, [kind], [goal]) for score, move, kind, goal in zip(
            scores.reshape(n, -1), moves.reshape(n, -1, 4), kinds, goals, strict=True)]
        of_scores, of_moves = zip(*each, strict=True)
        return torch.stack(of_scores), torch.stack(of_moves)


class Choice(RoIHeads):
    """Which proposals are learnt from, and which become answers; it has no layers of its own."""

    def __init__(self, n_sampled: int) -> None:
        nothing = nn.Identity()
        super().__init__(nothing, nothing, nothing, 0.5, 0.5, n_sampled, 0.25, None, 0.05, 0.5, 100)
        self.fg_bg_sampler = Sampler(n_sampled, 0.25)


# Features of a region: what maps say at a grid of points in a box (RoIAlign of He et al., 2017, as in torchvision).

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
