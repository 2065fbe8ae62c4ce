"""Small nets: heads on cached features, two nets on images, and a predictor at every place of an image."""

from functools import cache
from itertools import pairwise

from torch import Tensor, nn

from shiftbench.models.net import MODELS, Net, expect, model

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
        self.predictor = nn.Sequential(_Places(), *layers, _Mean())

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.predictor(self.body.maps(x))
        return features


class _Places(nn.Module):
    def forward(self, maps: Tensor) -> Tensor:
        return maps.flatten(2).mT  # items × places × channels


class _Mean(nn.Module):
    def forward(self, places: Tensor) -> Tensor:
        return places.mean(dim=1)
