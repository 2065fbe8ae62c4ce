"""A multilayer perceptron on pixels, and the hidden layers that it shares with the head of the β-VAE."""


from torch import Tensor, nn

from shiftbench.models.base import Net, expect, model

LAYERS, HIDDEN = 4, 256


def hidden_layers(n_inputs: int) -> nn.Sequential:
    """Four layers of 256 units with ReLU: the MLP of Wiles et al., appendix F.1, without its last layer."""
    layers: list[nn.Module] = []
    for number in range(LAYERS):
        layers += [nn.Linear(HIDDEN if number else n_inputs, HIDDEN), nn.ReLU()]
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
        self.head = nn.Linear(HIDDEN, n_classes)


class _Flat(nn.Module):
    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        expect(x, self.side, PixelMLP.name)
        return x.flatten(1)
