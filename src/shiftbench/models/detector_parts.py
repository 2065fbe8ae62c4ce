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
