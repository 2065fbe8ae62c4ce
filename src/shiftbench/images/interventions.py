"""Make training images harder on purpose: noise, erased rectangles, uninformative textures (BREEDS, A.7.3).

Float N × 3 × H × W on the 0..255 scale to the same, every image by itself, all from the uniform numbers passed in.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from shiftbench.core.later import F, torch

if TYPE_CHECKING:
    from torch import Tensor

DRAWS = 2
"""Numbers from [0, 1) that make a seed: 24 bits each, all that 32-bit floats have."""

NUMBER = 0x9E3779B97F4A7C15 - 2**64
MIXERS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64, 0xD6E8FEB86659FD93 - 2**64)
"""Odd 64-bit numbers, written as the signed ones that torch multiplies modulo 2⁶⁴."""

DEVIATION = 0.2
"""The standard deviation of the noise, on the [0, 1] scale (Table 14b)."""

CHANCE, AREA, RATIO, TRIES = 0.5, (0.02, 0.33), (0.3, 3.3), 2
"""Random erasing (Table 14c). One rectangle in 250 does not fit the image and is drawn again."""

MEAN = (123.675, 116.28, 103.53)
"""ImageNet's mean colour: 0 once an image is normalised for the nets that the paper trains."""

PASSES, WAVES, FIELDS = 2, 8, 2
AMPLITUDE = (20.0, 45.0)
PER_WAVE, PER_FIELD = 3, 8

NOISE_DRAWS = TEXTURE_DRAWS = DRAWS
ERASE_DRAWS = 3 + 2 * TRIES


def noise(x: Tensor, u: Tensor) -> Tensor:
    """x + 0.2 · 255 · e with e standard normal for every pixel and channel, cut to legal pixels.

    The paper gives mean and deviation and does not say whether it cuts; a camera's image has levels from 0 to 255 only,
    and so has ours.
    """
    n, channels, height, width = x.shape
    e = normals(u, channels * height * width).view(n, height, width, channels).permute(0, 3, 1, 2)
    return (x + 255 * DEVIATION * e).clamp(0, 255)


def erase(x: Tensor, u: Tensor) -> Tensor:
    """Half the images lose a rectangle (Zhong et al., 2020): 0.02 to 0.33 of the area, height / width from 0.3 to 3.3
    log-uniformly, at any place where it fits; as torchvision's, with two tries instead of ten.

    It is filled with ImageNet's mean colour. That is torchvision's default, 0, where images are normalised first, as
    its examples do; on images that are not, the same default would paint black.
    """
    height, width = x.shape[2:]
    chosen, down, right = u[:, 0] < CHANCE, u[:, 1], u[:, 2]
    fits = torch.zeros_like(chosen)
    tall = wide = torch.zeros_like(down)
    low, high = math.log(RATIO[0]), math.log(RATIO[1])
    for draw in u[:, 3:].unflatten(1, (TRIES, 2)).unbind(1):
        area = (AREA[0] + draw[:, 0] * (AREA[1] - AREA[0])) * (height * width)
        root = torch.exp((low + draw[:, 1] * (high - low)) / 2)
        rows, columns = torch.round(area.sqrt() * root), torch.round(area.sqrt() / root)
        tall, wide = torch.where(fits, tall, rows), torch.where(fits, wide, columns)
        fits = fits | ((rows < height) & (columns < width))
    top = torch.floor(down * (height - tall + 1)).clamp(max=height - tall)
    left = torch.floor(right * (width - wide + 1)).clamp(max=width - wide)
    row, column = _places(height, x.device), _places(width, x.device)
    inside_y = (row >= top[:, None]) & (row < (top + tall)[:, None])
    inside_x = (column >= left[:, None]) & (column < (left + wide)[:, None])
    erased = inside_y[:, :, None] & inside_x[:, None, :] & (chosen & fits)[:, None, None]
    return torch.where(erased[:, None], _mean_colour(x.device), x)


def texture(x: Tensor, u: Tensor) -> Tensor:
    """Replace the image's texture by a random one; shapes and colours stay.

    This is ours and not Stylized ImageNet: it uses no painting and no net, and it keeps colours. First the image is
    flattened, edges kept (`flattened`). Then two random textures are added (`field`), one to what is brighter than the
    image's mean and one to what is darker, each with an orientation, a scale, a colour and a strength of its own.
    """
    x = flattened(x)
    height, width = x.shape[2:]
    draws = uniforms(u, FIELDS * (PER_FIELD + PER_WAVE * WAVES)).unflatten(1, (FIELDS, -1))
    bright, dark = (field(numbers, height, width) for numbers in draws.unbind(1))
    grey = x.mean(dim=1, keepdim=True)
    share = torch.sigmoid((grey - grey.mean(dim=(2, 3), keepdim=True)) / 8)
    return (x + dark + share * (bright - dark)).clamp(0, 255)


def flattened(x: Tensor) -> Tensor:
    """Twice, each pixel becomes the mean of the most even of the four squares of which it is a corner (Kuwahara,
    1976): surfaces become even, edges stay sharp. The squares' side is a 40th of the image's and one pixel.
    Lines thinner than half of that vanish too."""
    reach = max(1, round(min(x.shape[2:]) / 40))
    height, width = x.shape[2:]
    for _ in range(PASSES):
        averaged = torch.cat([x, x.square().sum(dim=1, keepdim=True)], dim=1)
        averaged = F.pad(averaged, (reach,) * 4, mode="replicate")
        averaged = F.avg_pool2d(F.avg_pool2d(averaged, (reach + 1, 1), stride=1), (1, reach + 1), stride=1)
        mean, square = averaged[:, :3], averaged[:, 3:]
        spread = square - mean.square().sum(dim=1, keepdim=True)
        corners = [(slice(None), slice(None), slice(i, i + height), slice(j, j + width))
                   for i in (0, reach) for j in (0, reach)]
        x, least = mean[corners[0]], spread[corners[0]]
        for corner in corners[1:]:
            x = torch.where(spread[corner] < least, mean[corner], x)
            least = torch.minimum(spread[corner], least)
    return x


def field(v: Tensor, height: int, width: int) -> Tensor:
    """A texture, N × 3 × H × W around 0: eight waves of about one length and direction, summed up, sharpened, coloured.

    From the uniforms v, N × 32: direction, its spread from none (stripes) to all (blotches), length from a 32nd to an
    8th of the image (at least 3 px) give or take half an octave, sharpness, strength, colour, and per wave its own
    deviation from direction and length and its phase. cos(a + b) is cos a cos b - sin a sin b, so that the sum over
    waves is a product of two small matrices.
    """
    of_field, of_wave = v[:, :PER_FIELD], v[:, PER_FIELD:].unflatten(1, (PER_WAVE, WAVES))
    side = min(height, width)
    turn = math.pi * (of_field[:, :1] + of_field[:, 1:2] * (of_wave[:, 0] - 0.5))
    shortest = max(3.0, side / 32)
    length = shortest * max(1.0, side / 8 / shortest)**of_field[:, 2:3] * torch.exp2(of_wave[:, 1] - 0.5)
    phase = 2 * math.pi * of_wave[:, 2]
    along = 2 * math.pi / length[:, :, None]
    a = along * torch.cos(turn)[:, :, None] * _places(width, v.device) + phase[:, :, None]
    b = along * torch.sin(turn)[:, :, None] * _places(height, v.device)
    waves = torch.cat([torch.cos(b), torch.sin(b)], 1).mT @ torch.cat([torch.cos(a), -torch.sin(a)], 1)
    sharp = (4 * of_field[:, 3] + 0.5).view(-1, 1, 1)
    pattern = torch.tanh(sharp * waves / math.sqrt(WAVES / 2))
    strength = AMPLITUDE[0] + of_field[:, 4:5] * (AMPLITUDE[1] - AMPLITUDE[0])
    colour = strength * (0.4 + 1.2 * of_field[:, 5:8])
    return colour[:, :, None, None] * pattern[:, None]


@cache  # a recorded step must not copy from the host
def _mean_colour(device: torch.device) -> Tensor:
    return torch.tensor(MEAN, device=device).view(1, 3, 1, 1)


@cache
def _places(n: int, device: torch.device) -> Tensor:
    return torch.arange(n, dtype=torch.float32, device=device)


# Any number of random numbers per image, from two that are passed in
#
# A run's draws are made on the host, some per image and step. Noise needs three per pixel: they are a hash of the
# image's two draws and of the pixel's number, in whole numbers, so that every device gives the same bits and a
# recorded step can be replayed.

def hashes(u: Tensor, n: int, purpose: int = 0) -> Tensor:
    """N × n whole numbers of 64 random bits: mix(mix(seed, purpose) + NUMBER · place), from the N × 2 draws `u`."""
    bits = (u.double() * 2**24).long()
    seed = _mixed(((bits[:, :1] << 24) + bits[:, 1:2]) * 64 + (purpose + 1))
    return _mixed(torch.add(seed, torch.arange(n, device=u.device), alpha=NUMBER))


def uniforms(u: Tensor, n: int, purpose: int = 0) -> Tensor:
    """N × n numbers from (0, 1], of 32 bits each; 1 only by rounding."""
    halves = hashes(u, -(-n // 2), purpose).view(torch.int32)[:, :n]
    return (halves.double() + (2**31 + 0.5)).mul_(2.0**-32).float()


def normals(u: Tensor, n: int, purpose: int = 0) -> Tensor:
    """N × n standard normal numbers, two from a hash by Box and Muller: √(-2 ln a) · (cos 2πb, sin 2πb)."""
    pairs = uniforms(u, 2 * -(-n // 2), purpose).unflatten(1, (-1, 2))
    radius, angle = torch.sqrt(-2 * torch.log(pairs[..., 0])), 2 * math.pi * pairs[..., 1]
    return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=2).flatten(1)[:, :n]


def _mixed(x: Tensor) -> Tensor:
    for mixer in MIXERS:
        # Ends with a product: >> repeats the sign, so that right after x ^ (x >> k) the top bit would always be 0.
        x = (x ^ (x >> 32)) * mixer
    return x
