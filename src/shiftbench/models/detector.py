"""Detectors: Faster R-CNN (Ren et al., 2015) from torchvision's parts, with a loss for every image."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.roi_heads import RoIHeads, fastrcnn_loss
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.net import Net, model
from shiftbench.models.torchvision_nets import Published, ResNet50

STEP = 32
"""Images are padded to a multiple of this, right and below, as torchvision does: then maps divide them evenly."""


class _Detector(Net):
    """A two-stage detector: it makes proposals, then predicts the kind and the sides of each.

        loss of an image = (objectness + moves of its anchors) + (kinds + moves of its proposals)

    Each of the four is a mean over what is drawn of this image, as in WILDS; torchvision's are means over what is drawn
    of the batch, the same where every image gives as many. No norm looks at other images, and nothing is resized:
    images come in the size and on the scale of pixels that the run says. In WILDS they are 1024 × 1024 px as well.

    `features(x)` are those of the whole image as one region, `head` scores how much a region is of each kind: so net(x)
    says how much an image looks like one large thing. Boxes carry no kind, so training needs exactly one.
    """

    anchors: ClassVar[tuple[tuple[int, ...], ...]]  # sides in pixels, for each map
    n_sampled: ClassVar[tuple[int, int]] = (256, 512)  # anchors and proposals per image to learn from
    n_proposals: ClassVar[tuple[int, int]] = (2000, 1000)  # in training and after
    region: ClassVar[int] = 7  # cells per side of a region
    hidden: ClassVar[int] = 1024

    features: "_Regions"
    head: "_Head"

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        body, n_channels = self._body()
        self.features = _Regions(body, n_channels, self.region, self.hidden, len(self.anchors))
        self.head = _Head(self.hidden, n_classes)
        self.rpn = Proposals(n_channels, self.anchors, self.n_sampled[0], *self.n_proposals)
        self.choice = Choice(self.n_sampled[1])

    def _body(self) -> tuple[nn.Module, int]:
        """A module that gives maps by name, the finest first, and their number of channels."""
        raise NotImplementedError

    def losses(self, x: Tensor, target: Tensor) -> Tensor:
        """The loss of each image. `target` is N × M × 4, left top right bottom in pixels; NaN, like any box without an
        area, does not count as a box, and an image may have none."""
        if self.head.out_features != 1:
            raise ShiftBenchError(f"Model '{self.name}' learns boxes of one kind; got {self.head.out_features} kinds. "
                                  "Name one tag in the recipe: label = \"TAG\".")
        truths = []
        for box in target.to(torch.float32):
            valid = box[(box[:, 2:] > box[:, :2]).all(dim=1)]
            truths.append({"boxes": valid, "labels": torch.ones(len(valid), dtype=torch.int64, device=valid.device)})
        images, maps = self._images_and_maps(x)
        proposals, of_anchors = self.rpn(images, maps, truths)
        boxes, _, kinds, goals = self.choice.select_training_samples(proposals, truths)
        scores, moves = self.head.both(self.features.of(maps, boxes, images.tensors.shape[2]))
        count = [len(box) for box in boxes]
        per_image = [sum(fastrcnn_loss(score, move, [kind], [goal])) for score, move, kind, goal in zip(
            scores.split(count), moves.split(count), kinds, goals, strict=True)]
        return torch.stack(per_image) + sum(of_anchors.values())

    @torch.no_grad()
    def detect(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Boxes and scores of each image: at most 100, with scores above 0.05, no two of which share more than half."""
        images, maps = self._images_and_maps(x)
        proposals, _ = self.rpn(images, maps)
        scores, moves = self.head.both(self.features.of(maps, proposals, images.tensors.shape[2]))
        boxes, values, _ = self.choice.postprocess_detections(scores, moves, proposals, images.image_sizes)
        return list(zip(boxes, values, strict=True))

    def _images_and_maps(self, x: Tensor) -> tuple[Any, dict[str, Tensor]]:
        padded, size = _padded(x), (x.shape[2], x.shape[3])
        return ImageList(padded, [size] * len(x)), self.features.body(padded)


class _Regions(nn.Module):
    """The maps of an image, and a vector for any region of it."""

    def __init__(self, body: nn.Module, n_channels: int, side: int, width: int, n_maps: int) -> None:
        super().__init__()
        self.side = side
        self.body = body
        self.hidden = nn.ModuleDict({"fc6": nn.Linear(n_channels * side**2, width), "fc7": nn.Linear(width, width)})
        self.pooled = [str(number) for number in range(n_maps)][:4]  # a fifth map of torchvision's is for anchors alone

    def forward(self, x: Tensor) -> Tensor:
        padded = _padded(x)
        box = torch.tensor([[0.0, 0.0, x.shape[3], x.shape[2]]], device=x.device, dtype=x.dtype)
        return self.of(self.body(padded), [box] * len(x), padded.shape[2])

    def of(self, maps: Mapping[str, Tensor], boxes: list[Tensor], height: int) -> Tensor:
        z = regions([maps[name] for name in self.pooled], boxes, height, self.side).flatten(1)
        return F.relu(self.hidden["fc7"](F.relu(self.hidden["fc6"](z))))


class _Head(nn.Linear):
    """Scores of the kinds; beside them that of the background, and how the sides of a box of each kind move."""

    def __init__(self, width: int, n_kinds: int) -> None:
        super().__init__(width, n_kinds)
        self.ground = nn.Linear(width, 1)
        self.moves = nn.Linear(width, 4 * (1 + n_kinds))

    def both(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([self.ground(z), self(z)], dim=1).float(), self.moves(z).float()


@model("faster-rcnn")
class FasterRCNN(_Detector, Published):
    """ResNet-50 with a feature pyramid, the detector of WILDS' GlobalWheat; 41.30 million parameters.

    Weights: a file of torchvision's detector (WILDS starts from the one trained on COCO), or of a ResNet-50, with which
    the rest starts fresh (`imagenet`: that of ImageNet). Its batch norms are frozen. As in torchvision, the first
    layers (conv1, layer1) stay as the file has them; without a file all layers learn.
    """

    anchors: ClassVar[tuple[tuple[int, ...], ...]] = ((32,), (64,), (128,), (256,), (512,))

    def _body(self) -> tuple[nn.Module, int]:
        from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

        body = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=5)
        for block in body.modules():
            if hasattr(block, "bn3"):
                block.bn3.weight.fill_(0.25)  # one by √16 blocks: a fresh net's frozen norms would let its values grow
        return body, body.out_channels

    @classmethod
    def imagenet(cls) -> Path:
        """torchvision's ResNet-50."""
        return ResNet50.imagenet()

    @staticmethod
    def rename(key: str) -> str:
        """torchvision's names, of now and of its published file, and those of a ResNet, its own or ours."""
        key = re.sub(r"((?:inner|layer)_blocks\.\d)\.(?=weight|bias)", r"\1.0.", key)
        key = re.sub(r"^rpn\.head\.conv\.(?=weight|bias)", "rpn.head.conv.0.0.", key)
        key = re.sub(r"^(?:features\.)?(?=(?:conv1|bn1|layer\d)\.)", RESNET, key)
        for theirs, ours in THEIRS.items():
            key = ours + key.removeprefix(theirs) if key.startswith(theirs) else key
        return key

    def completed(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """A detector's file as it is, its background apart from its kinds; a ResNet's with the rest as it is here."""
        state = {key: value for key, value in tensors.items() if not key.endswith("num_batches_tracked")}
        for suffix in ("weight", "bias"):
            scores = state.pop(f"head.scores.{suffix}", None)
            if scores is not None:
                state[f"head.ground.{suffix}"], state[f"head.{suffix}"] = scores[:1], scores[1:]
        resnet = {key: value for key, value in state.items() if key.startswith(RESNET)}
        if resnet and not any(key.startswith("rpn.") for key in state):
            state = resnet | {key: value for key, value in self.state_dict().items() if not key.startswith(RESNET)}
        self.features.body.body["layer1"].register_forward_hook(_fixed)
        return state


RESNET = "features.body.body."
THEIRS = {"backbone.": "features.body.", "roi_heads.box_head.": "features.hidden.",
          "roi_heads.box_predictor.cls_score.": "head.scores.", "roi_heads.box_predictor.bbox_pred.": "head.moves."}


@model("faster-rcnn-small")
class FasterRCNNSmall(_Detector):
    """Four convolutions down to one map of a quarter of the side, for images of 64 to 128 px with things of 6 to 48 px;
    0.23 million parameters, trained from nothing on a CPU."""

    anchors: ClassVar[tuple[tuple[int, ...], ...]] = ((8, 16, 32),)
    n_sampled: ClassVar[tuple[int, int]] = (64, 32)
    n_proposals: ClassVar[tuple[int, int]] = (128, 64)
    region: ClassVar[int] = 5
    hidden: ClassVar[int] = 128

    def _body(self) -> tuple[nn.Module, int]:
        return _Small(), WIDTHS[-1]


WIDTHS = (16, 32, 48, 48)


class _Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for below, above, stride in zip((3, *WIDTHS), WIDTHS, (2, 2, 1, 1), strict=False):
            layers += [nn.Conv2d(below, above, 3, stride, 1, bias=False), nn.GroupNorm(8, above), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"0": self.layers(x)}


def _padded(x: Tensor) -> Tensor:
    return F.pad(x, (0, -x.shape[3] % STEP, 0, -x.shape[2] % STEP))


def _fixed(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """No layer before this one learns."""
    return output.detach()


# The parts of torchvision's detectors, with a loss for every image

RATIOS = (0.5, 1.0, 2.0)


class Sampler:
    """Draws `n` of an image's candidates, of which at most a `share` is on a thing.

    Each image draws from a stream of its own, so what is drawn for one does not depend on what the others hold.
    """

    def __init__(self, n: int, share: float) -> None:
        self.n, self.share = n, share

    def __call__(self, kinds: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Which are drawn of those on a thing (kind ≥ 1) and of those on none (0); the others (-1) never are."""
        positives, negatives = [], []
        for kind in kinds:
            seed = int(torch.randint(2**62, ()))
            order = torch.randperm(len(kind), generator=torch.Generator(kind.device).manual_seed(seed),
                                   device=kind.device)
            on, off = (order[mask[order]] for mask in (kind >= 1, kind == 0))
            on = on[:int(self.n * self.share)]
            positives.append(_marked(kind, on))
            negatives.append(_marked(kind, off[:self.n - len(on)]))
        return positives, negatives


def _marked(like: Tensor, places: Tensor) -> Tensor:
    return torch.zeros_like(like, dtype=torch.bool).index_fill(0, places, True)


class _ProposalHead(RPNHead):
    """Its numbers are 32-bit whatever the run's precision is: in bfloat16 a place at 1000 px is 4 px off."""

    def forward(self, x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        scores, moves = super().forward(x)
        return [score.float() for score in scores], [move.float() for move in moves]


class Proposals(RegionProposalNetwork):
    """Propose regions: anchors of several sizes and shapes at every position of every map, scored and moved."""

    def __init__(self, n_channels: int, sides: Sequence[Sequence[int]], n_sampled: int, n_train: int, n_test: int
                 ) -> None:
        anchors = AnchorGenerator(tuple(map(tuple, sides)), (RATIOS,) * len(sides))
        most = {"training": n_train, "testing": n_test}
        super().__init__(anchors, _ProposalHead(n_channels, anchors.num_anchors_per_location()[0]), 0.7, 0.3, n_sampled,
                         0.5, most, most, 0.7)
        self.fg_bg_sampler = Sampler(n_sampled, 0.5)

    def forward(self, images: ImageList, maps: dict[str, Tensor], truths: list[dict[str, Tensor]] | None = None
                ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Return losses if truths are passed, in training and in evaluation mode."""
        self.training = truths is not None
        return super().forward(images, maps, truths)

    def compute_loss(self, scores: Tensor, moves: Tensor, kinds: list[Tensor], goals: list[Tensor]
                     ) -> tuple[Tensor, Tensor]:
        """The loss of each image; torchvision's is one mean over all anchors of a batch."""
        n = len(kinds)
        losses = [super(Proposals, self).compute_loss(score, move, [kind], [goal]) for score, move, kind, goal in zip(
            scores.reshape(n, -1), moves.reshape(n, -1, 4), kinds, goals, strict=True)]
        of_scores, of_moves = zip(*losses, strict=True)
        return torch.stack(of_scores), torch.stack(of_moves)


class Choice(RoIHeads):
    """Chooses the proposals to learn from and those that become answers; it has no layers of its own."""

    def __init__(self, n_sampled: int) -> None:
        identity = nn.Identity()
        super().__init__(identity, identity, identity, 0.5, 0.5, n_sampled, 0.25, None, 0.05, 0.5, 100)
        self.fg_bg_sampler = Sampler(n_sampled, 0.25)


# Features of a region: values of maps at a grid of points in a box (RoIAlign of He et al., 2017, as in torchvision).

SAMPLES = 2
"""Points per side of a cell, of which it is the mean."""
COMMON, COARSE = 224, 4
"""A box of 224 px is read from the map of stride 2⁴ (Lin et al., 2017, equation 1)."""


def regions(maps: Sequence[Tensor], boxes: Sequence[Tensor], height: int, side: int) -> Tensor:
    """Boxes × channels × side × side, image after image. `boxes` has one tensor per image, M × 4 in its pixels;
    `height` is that of the images. Where there are several maps, each box is read from the map that fits its size."""
    box = torch.cat(list(boxes))
    count = torch.tensor([len(rows) for rows in boxes], device=box.device)
    image = torch.repeat_interleave(count, output_size=len(box))
    level = _levels(box, maps[0].shape[2] / height, len(maps))
    order, parts = [], []
    for number, plane in enumerate(maps):
        chosen = torch.where(level == number)[0]
        order.append(chosen)
        parts.append(align(plane.float(), image[chosen], box[chosen], plane.shape[2] / height, side))
    pooled = torch.cat(parts)
    return torch.zeros_like(pooled).index_copy(0, torch.cat(order), pooled)


def _levels(box: Tensor, finest: float, n: int) -> Tensor:
    """k = ⌊4 + log₂(√area / 224)⌋, counted from the finest map; the nearest there is."""
    first = round(-torch.tensor(finest).log2().item())
    area = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
    return torch.floor(COARSE + torch.log2(area.sqrt() / COMMON) + 1e-6).clamp(first, first + n - 1).long() - first


def align(plane: Tensor, image: Tensor, box: Tensor, scale: float, side: int) -> Tensor:
    """Boxes × channels × side × side of one map; boxes stand by image.

    A GPU adds up the gradient of torchvision's own in any order, so where results must repeat it is done by products.
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
        products = []
        for image_map, row, column in zip(plane, rows.split(count), columns.split(count), strict=True):
            lines = torch.matmul(row.flatten(0, 1), image_map)  # channels × (boxes · side) × width
            lines = lines.unflatten(1, (len(row), side)).transpose(0, 1)
            products.append(lines @ column.transpose(1, 2)[:, None])
        return torch.cat(products)


def _weights(begin: Tensor, size: Tensor, n: int, side: int) -> Tensor:
    """Boxes × side × n: how much each of n places counts for a cell. Points are read between places; beyond the map by
    more than a place, they are 0."""
    step = (torch.arange(side * SAMPLES, device=begin.device) + 0.5) / (side * SAMPLES)
    position = begin[:, None] + size[:, None] * step
    inside = ((position >= -1) & (position <= n)).to(position.dtype)
    near = (1 - (position.clamp(0, n - 1)[:, :, None] - torch.arange(n, device=position.device)).abs()).clamp(min=0)
    return (near * inside[:, :, None]).unflatten(1, (side, SAMPLES)).mean(dim=2)
