"""Models on cached features: a linear layer, and one hidden layer below it."""


from torch import nn

from shiftbench.models.base import Net, model

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
