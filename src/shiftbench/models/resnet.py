"""ResNets from torchvision: those of MetaShift's tables (18), of Wiles et al. (18, 50, 101), of BREEDS (18, 34, 50)."""


from torch import Tensor, nn

from shiftbench.models.base import Net, model
from shiftbench.models.published import Published


class Residual(Net):
    """A ResNet of torchvision up to the mean over places, and a fresh linear head."""

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.features = self.body()
        width = self.features.fc.in_features
        self.features.fc = nn.Identity()
        self.head = nn.Linear(width, n_classes)

    def body(self) -> nn.Module:
        """torchvision's net of this name."""
        from torchvision.models import get_model

        return get_model(self.name)

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


class _ResNet(Residual, Published):
    """With torchvision's scale of pixels and its weights."""


@model("resnet18")
class ResNet18(_ResNet):
    """512 features; 11.18 million parameters."""


@model("resnet34")
class ResNet34(_ResNet):
    """512 features; 21.29 million parameters."""


@model("resnet50")
class ResNet50(_ResNet):
    """2048 features; 23.51 million parameters."""


@model("resnet101")
class ResNet101(_ResNet):
    """2048 features; 42.51 million parameters."""
