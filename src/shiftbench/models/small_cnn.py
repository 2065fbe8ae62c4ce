"""A small convolutional net for images of 32 to 96 pixels, trained from nothing in minutes on a CPU."""


from torch import Tensor, nn

from shiftbench.models.base import Net, model

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
