"""The β-VAE of Wiles et al., appendix F.6: an encoder, its mirror image, and a net on the codes."""

import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.names import CATALOGUE
from shiftbench.models.net import Net, model
from shiftbench.models.small import PIXEL_HIDDEN, hidden_layers

SIDE, LATENT = CATALOGUE["beta-vae"].side, 10

STACK = ((3, 16, 5, 1), (16, 32, 4, 2), (32, 64, 3, 1), (64, 128, 3, 2), (128, 256, 4, 1), (256, 512, 4, 2),
         (512, 512, 4, 1))
"""Channels below, channels above, kernel, stride, without padding: 64 px become 60, 29, 27, 13, 10, 4 and 1."""


def resized(x: Tensor) -> Tensor:
    """Images at the 64 px that encoder and decoder work on."""
    if x.shape[2:] == (SIDE, SIDE):
        return x
    return F.interpolate(x, (SIDE, SIDE), mode="bilinear", align_corners=False)


class Encoder(nn.Module):
    """(μ, log σ²), N × L each, of q(z|x) = N(μ, diag σ²), from normalised images of any side.

    The paper's list ends with "Linear L"; a code has a mean and a variance, so ours gives 2 L numbers.
    """

    def __init__(self, latent: int = LATENT) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for below, above, kernel, stride in STACK:
            layers += [_started(nn.Conv2d(below, above, kernel, stride), below * kernel**2), nn.ReLU()]
        self.convs = nn.Sequential(*layers)
        self.code = nn.Linear(STACK[-1][1], 2 * latent)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.code(self.convs(resized(x)).flatten(1)).chunk(2, dim=1)
        return mean, log_variance


class Decoder(nn.Module):
    """From codes, N × L, to the logits of pixels, N × 3 × 64 × 64: the encoder backwards, transposed convolutions."""

    def __init__(self, latent: int = LATENT) -> None:
        super().__init__()
        self.code = nn.Linear(latent, STACK[-1][1])
        layers: list[nn.Module] = []
        side = 1
        for below, above, kernel, stride in STACK[::-1]:
            larger = (side - 1) * stride + kernel
            # Places of the smaller image that one of the larger sees: fewer at its border, this many on the mean.
            sees = (side * kernel / larger)**2
            layers += [nn.ReLU(), _started(nn.ConvTranspose2d(above, below, kernel, stride), above * sees)]
            side = larger
        self.convs = nn.Sequential(*layers)

    def forward(self, code: Tensor) -> Tensor:
        return self.convs(self.code(code)[:, :, None, None])


@model("beta-vae")
class BetaVAE(Net):
    """features(x) = MLP(μ(x)): the mean code of an encoder, and the four hidden layers of appendix F.1 on it.

    The encoder is `features.encoder`; training it without labels, and keeping it fixed after, is up to the method.
    """

    def __init__(self, n_classes: int, n_inputs: int = 0, latent: int = LATENT) -> None:
        super().__init__()
        if latent < 1:
            raise ShiftBenchError(f"Model 'beta-vae': a code needs at least one number, got latent={latent}.")
        self.features = _OnCode(latent)
        self.head = nn.Linear(PIXEL_HIDDEN, n_classes)

    @property
    def latent(self) -> int:
        """L, the numbers in a code."""
        return int(self.features.encoder.code.out_features) // 2

    def with_latent(self, latent: int) -> "BetaVAE":
        """A fresh net for as many classes with codes of another size, drawn on the CPU from torch's present stream and
        put on this one's device."""
        return BetaVAE(self.head.out_features, latent=latent).to(self.head.weight.device)


class _OnCode(nn.Module):
    def __init__(self, latent: int) -> None:
        super().__init__()
        self.encoder = Encoder(latent)
        self.hidden = hidden_layers(latent)

    def forward(self, x: Tensor) -> Tensor:
        mean, _ = self.encoder(x)
        return self.hidden(mean)


def _started(layer: nn.Module, n_inputs: float) -> nn.Module:
    """He's start, variance 2 / inputs and no bias: through seven layers of torch's own the image would fade away."""
    nn.init.normal_(layer.weight, std=(2 / n_inputs)**0.5)
    nn.init.zeros_(layer.bias)
    return layer
