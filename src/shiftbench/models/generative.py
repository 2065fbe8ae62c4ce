"""Nets that make images: the β-VAE of Wiles et al., and StarGAN's generator with its discriminator."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.image_nets import PIXEL_HIDDEN, hidden_layers
from shiftbench.models.names import CATALOGUE
from shiftbench.models.net import Net, model

# The β-VAE (appendix F.6): an encoder, its mirror image, and a net on the codes

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
            inputs = (side * kernel / larger)**2
            layers += [nn.ReLU(), _started(nn.ConvTranspose2d(above, below, kernel, stride), above * inputs)]
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


# StarGAN: a generator translates images from one domain to another, and is trained against a discriminator

GRID = 4
"""The discriminator predicts the domain from this many by this many patches of an image: the position of a thing may
be what differs between domains."""


def blocks_for(side: int) -> int:
    """Residual blocks for images of a side: the numbers of Wiles et al. (F.3) at 64, 96 and 256 px."""
    return 5 if side <= 64 else 6 if side < 256 else 9


class Generator(nn.Module):
    """G(x, v), N × 3 × H × W in [-1, 1], from such images and the numbers v of the wanted domains, N.

    CycleGAN's residual net (Zhu et al., 2017), to whose input StarGAN's code of v is appended: one channel per domain,
    1 for v and 0 for the others. A 7 × 7 convolution, two that halve the image, residual blocks, two that double it
    again, 7 × 7 and tanh. Nine blocks are there, and an image passes as many of them as its side asks for. H and W are
    multiples of 4. All convolutions but the first and the last have an instance norm; the first has none here, since a
    norm over the places of an image takes away exactly what constant channels add. (In StarGAN, which pads with zeros,
    the edges still show v.)
    """

    def __init__(self, n_domains: int, width: int = 64) -> None:
        super().__init__()
        self.n_domains = n_domains
        self.down = nn.Sequential(
            _Reflect(3), nn.Conv2d(3 + n_domains, width, 7), nn.ReLU(),
            *(layer for below in (width, 2 * width) for layer in (
                nn.Conv2d(below, 2 * below, 3, stride=2, padding=1, bias=False), nn.InstanceNorm2d(2 * below),
                nn.ReLU())))
        self.blocks = nn.ModuleList(_Block(4 * width) for _ in range(blocks_for(256)))
        self.up = nn.Sequential(
            *(layer for below in (4 * width, 2 * width) for layer in (
                nn.ConvTranspose2d(below, below // 2, 3, stride=2, padding=1, output_padding=1, bias=False),
                nn.InstanceNorm2d(below // 2), nn.ReLU())),
            _Reflect(3), nn.Conv2d(width, 3, 7), nn.Tanh())

    def forward(self, x: Tensor, domain: Tensor) -> Tensor:
        if x.shape[2] % 4 or x.shape[3] % 4:
            raise ShiftBenchError("stargan: the sides of images must be multiples of 4, but they are "
                                  f"{' × '.join(map(str, x.shape[2:]))} px. Choose another size.")
        code = (domain[:, None] == torch.arange(self.n_domains, device=x.device)).to(x.dtype)
        h = self.down(torch.cat([x, code[:, :, None, None].expand(-1, -1, *x.shape[2:])], dim=1))
        for block in self.blocks[:blocks_for(x.shape[2])]:
            h = block(h)
        return self.up(h)


class Discriminator(nn.Module):
    """How real an image looks at each of its places, N × H/8 × W/8, and logits of its domain, N × n_domains.

    Convolutions that each see 54 × 54 px in the end; without norms, as StarGAN's: they would hide how bright or of
    which colour an image is as a whole.
    """

    def __init__(self, n_domains: int, width: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for below, above, kernel, stride in ((3, width, 4, 2), (width, 2 * width, 4, 2), (2 * width, 4 * width, 4, 2),
                                             (4 * width, 4 * width, 3, 1)):
            layers += [nn.Conv2d(below, above, kernel, stride, padding=1), nn.LeakyReLU(0.2)]
        self.body = nn.Sequential(*layers)
        self.real = nn.Conv2d(4 * width, 1, 3, padding=1)
        self.domain = nn.Linear(4 * width * GRID**2, n_domains)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        maps = self.body(x)
        return self.real(maps).squeeze(1), self.domain(_parts(maps))


def _parts(maps: Tensor) -> Tensor:
    """The means over GRID × GRID parts, one after the other; what is missing at the right and below is 0.

    Not torch's adaptive pooling, whose gradient a GPU adds up in any order.
    """
    maps = F.pad(maps, (0, -maps.shape[3] % GRID, 0, -maps.shape[2] % GRID))
    n, channels, height, width = maps.shape
    return maps.reshape(n, channels, GRID, height // GRID, GRID, width // GRID).mean(dim=(3, 5)).flatten(1)


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            _Reflect(1), nn.Conv2d(width, width, 3, bias=False), nn.InstanceNorm2d(width), nn.ReLU(),
            _Reflect(1), nn.Conv2d(width, width, 3, bias=False), nn.InstanceNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


class _Reflect(nn.Module):
    """The image and its mirror image beyond each edge. From slices: the gradient of torch's own does not repeat."""

    def __init__(self, pad: int) -> None:
        super().__init__()
        self.pad = pad

    def forward(self, x: Tensor) -> Tensor:
        for dim in (2, 3):
            n, pad = x.shape[dim], self.pad
            x = torch.cat([x.narrow(dim, 1, pad).flip(dim), x, x.narrow(dim, n - 1 - pad, pad).flip(dim)], dim)
        return x
