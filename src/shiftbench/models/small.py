"""Models on cached features: a linear layer, and one hidden layer below it."""

from torch import Tensor, nn

from shiftbench.models.net import Net, expect, model

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
