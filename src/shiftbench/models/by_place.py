"""A net with maps, read at every place by a small predictor: what SagNet's two predictors are."""

from functools import cache
from itertools import pairwise

from torch import Tensor, nn

from shiftbench.models.net import MODELS, Net

HIDDEN = (64, 64, 64)
"""Units of the hidden layers of a predictor: Wiles et al., appendix F.4."""


class ByPlace(Net):
    """A net with maps whose features are those of hidden layers at each place, averaged over places."""

    features: "_Features"

    def __init__(self, body: Net) -> None:
        super().__init__()
        n_classes, width = body.head.out_features, body.width
        del body.head
        self.features = _Features(body, width)
        self.head = nn.Linear(HIDDEN[-1], n_classes)

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
    said = ("takes", "has_maps", "sized", "mean", "std", "side", "name")
    return type(f"ByPlace{body.__name__}", (ByPlace,), {key: getattr(body, key) for key in said})


class _Features(nn.Module):
    def __init__(self, body: Net, width: int) -> None:
        super().__init__()
        self.body = body
        sizes = (width, *HIDDEN)
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
