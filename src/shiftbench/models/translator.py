"""Nets that translate images from one domain to another: a generator, and the discriminator it is trained against."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError

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

    def forward(self, x: Tensor, wanted: Tensor) -> Tensor:
        if x.shape[2] % 4 or x.shape[3] % 4:
            raise ShiftBenchError("stargan: the sides of images must be multiples of 4, but they are "
                                  f"{' × '.join(map(str, x.shape[2:]))} px. Choose another size.")
        code = (wanted[:, None] == torch.arange(self.n_domains, device=x.device)).to(x.dtype)
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
