"""The beta-VAE: a code of images learnt without labels, and a classifier on the code that cannot change it."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from shiftbench.core.backend import F, nn, torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, Batch, Method, Stage, Task, Trained, check_finite, weighted
from shiftbench.methods.space import Choice, Power, Space
from shiftbench.models.names import CATALOGUE

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.generative import BetaVAE as Model
    from shiftbench.models.net import Net

VALUES = 3 * CATALOGUE["beta-vae"].side**2
"""I, the numbers of an image."""

@register(METHODS, "beta_vae")
@dataclass(frozen=True)
class BetaVAE(Method):
    """A classifier on the code of a beta-VAE (Higgins et al., 2017; as in Wiles et al., 2022, F.6).

        1. max over q, p   mean_i  E_{z ~ q(z|x_i)} log p(x_i|z)  -  beta KL(q(z|x_i) || N(0, 1))
        2. min over h      mean_i  l(h(m(x_i)), y_i)

    beta = beta_norm I / L. q(z|x) is a normal law with a mean and a variance for each of the L = `latent` numbers of z;
    I = 12,288 are the numbers of an image (64 × 64 × 3). With beta = 1 the first line is a bound below log p(x). m(x),
    the mean of q(z|x), stays as the first stage left it; h is an MLP.

    Our reading, where codes differ. p(x|z) is a Bernoulli law for each number of the image, whose grey values count as
    probabilities: that of Higgins et al. for binary images, who take a normal law for others. One z is drawn per image
    and step. The bound is divided by I, which changes neither its maximum nor what Adam does. Each stage has the run's
    steps (`first`: share of the first); the paper does not say how it splits them. It writes its sweep as
    log(beta_norm) from 1e-4 to 10. As a logarithm that is beta from 59 to 27 million, where next to nothing is left in
    the code; we take it as beta_norm from 1e-4 to 10, in equal steps of its logarithm.
    """

    beta: float = 1e-3  # beta_norm
    latent: int = 10  # L
    first: float = 1.0  # share of the run's steps that the code is trained for

    family: ClassVar[str] = "representation learning"
    needs: ClassVar[str] = "images"
    model: ClassVar[str] = "beta-vae"
    shapes: ClassVar[tuple[str, ...]] = ("latent",)
    space: ClassVar[Space] = {"beta": Power(10, -4, 1), "latent": Choice((10, 77, 143, 210))}

    def __post_init__(self) -> None:
        if self.latent < 1:
            raise ShiftBenchError(f"beta_vae: 'latent' is {self.latent}, but a code needs at least one number.")
        check_finite(self, "beta")
        check_finite(self, "first", positive=True)

    def net(self, net: Net) -> Net:
        return cast("Model", net).with_latent(self.latent)

    def fit(self) -> Generator[Stage, Trained, Trained]:
        code = yield Stage(_Code(self.beta, self.latent), share=self.first, trains=("features.encoder.",),
                           select_on="last")
        return (yield Stage(self, start=code, trains=("features.hidden.", "head.")))


@dataclass(frozen=True)
class _Code(Method):
    """The first stage: the encoder learns with a decoder that nobody needs afterwards."""

    beta: float
    latent: int

    shapes: ClassVar[tuple[str, ...]] = ("latent",)

    @property
    def draws(self) -> int:  # type: ignore[override]
        return self.latent

    def state(self, task: Task) -> nn.Module:
        from shiftbench.models.generative import Decoder

        state = nn.Module()
        state.decoder = Decoder(self.latent)
        return state

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        assert batch.u is not None
        likelihood, divergence = parts(cast("Model", net).features.encoder, state.decoder, batch.x, batch.u)
        losses = self.beta / self.latent * divergence - likelihood / VALUES
        return weighted(losses, batch).mean()


def parts(encoder: nn.Module, decoder: nn.Module, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """log p(x|z) of each image for a drawn z, and KL(q(z|x) || N(0, 1)); their difference estimates the bound.

    Both in 32 bits whatever the run's precision: they are sums of thousands. `u` are uniforms, items × L.
    """
    from shiftbench.models.generative import resized

    mean, log_variance = (tensor.float() for tensor in encoder(x))
    z = mean + (log_variance / 2).exp() * normal(u)
    logits, pixels = decoder(z).float(), (resized(x).float() + 1) / 2  # this model's images come in [-1, 1]
    likelihood = -F.binary_cross_entropy_with_logits(logits, pixels, reduction="none").flatten(1).sum(dim=1)
    return likelihood, (mean**2 + log_variance.exp() - 1 - log_variance).sum(dim=1) / 2


def normal(u: Tensor) -> Tensor:
    """Standard normal numbers from uniforms of [0, 1)."""
    return math.sqrt(2) * torch.erfinv(2 * u.clamp(1e-7, 1 - 1e-7) - 1)
