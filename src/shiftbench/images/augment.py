"""Augmentation of a whole batch at once, on the device the batch is on; its random numbers are arguments."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from shiftbench.core.backend import F, torch
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.images import policies

if TYPE_CHECKING:
    from torch import Tensor

ONLY = {f"only-{op}": (op, "identity") for op in policies.RANDOM_OPS}

PRESETS = {"none": 0, "standard": 5, "color": 10, "imagenet": 8, "rotate-flip": 2,
           "randaugment": policies.RANDAUGMENT_DRAWS, "autoaugment": policies.AUTOAUGMENT_DRAWS,
           "augmix": policies.AUGMIX_DRAWS,
           "noise": 2, "erase": 7, "texture": 2,
           **dict.fromkeys(ONLY, policies.RANDAUGMENT_DRAWS)}
"""Name -> how many numbers from [0, 1) it takes per image.

`none`: only normalised.
`standard`: random resized crop of at least 0.7 of the area, and flip.
`color`: standard, then brightness, contrast, saturation and hue moved by up to 0.3 and one image in ten made grey
(DomainBed's and so MetaShift's recipe).
`imagenet`: random resized crop of at least 0.08 of the area, flip, brightness, contrast and saturation moved by up to
0.4 (He et al. 2016, as most train it).
`rotate-flip`: a turn by 0, 90, 180 or 270 degrees, and flip (WILDS' RxRx1).
`randaugment`: three of sixteen operations in a row at strength 5 of 10 (Cubuk et al. 2020).
`autoaugment`: one of 25 learned pairs of operations, for CIFAR-10 below 128 px, else for ImageNet (Cubuk et al. 2019).
`augmix`: the image mixed with three chains of up to three weak operations, no consistency loss (Hendrycks et al. 2020).
`noise`: Gaussian noise of deviation 0.2 · 255 on every pixel and channel, cut to 0..255 (BREEDS).
`erase`: half the images lose a rectangle of 0.02 to 0.33 of the area (BREEDS; Zhong et al. 2020).
`texture`: surfaces made even, then covered with random waves; ours, not Stylized ImageNet.
`only-OP`: randaugment which at each of its three places draws OP or nothing, for each of its sixteen operations
(the ablation of Wiles et al., appendix B.2): `only-rotate`, `only-solarize`, `only-cutout`, …

From `randaugment` on they neither crop nor flip: they do what a paper says and no more. Names are joined by "+":
`standard+erase` is `standard` and then `erase`."""

CROP_AREA = (0.7, 1.0)
IMAGENET_AREA = (0.08, 1.0)
CROP_RATIO = (3 / 4, 4 / 3)
JITTER = 0.3
IMAGENET_JITTER = 0.4
GREY = 0.1
ROUNDING = 1e-6
"""A smaller deviation is a rounding error in a constant channel: one pixel a level higher gives more."""


def parts_of(preset: str) -> list[str]:
    """The names that a preset joins, in the order in which they are applied; an unknown one is an error.

    >>> parts_of("standard+erase")
    ['standard', 'erase']
    """
    names = preset.split("+")
    for name in names:
        if name not in PRESETS:
            raise unknown("augmentation", name, PRESETS, f"augment={preset}" if len(names) > 1 else "")
    if len(names) > 1 and ("none" in names or len(set(names)) < len(names)):
        raise ShiftBenchError(f"augment={preset}: joins 'none', or a name with itself. Name each augmentation once, "
                              "for example standard+erase.")
    return names


def draws_of(preset: str) -> int:
    """The number of draws from [0, 1) that a preset takes per image: the sum over its names."""
    return sum(PRESETS[name] for name in parts_of(preset))


def joined(first: str, then: str) -> str:
    """The preset that applies `first` and then `then`; an augmentation that ends `first` is not repeated.

    >>> joined("standard", "noise"), joined("none", "noise"), joined("standard+noise", "noise")
    ('standard+noise', 'noise', 'standard+noise')
    """
    if first == "none" or then == "none":
        return then if first == "none" else first
    return first if f"+{first}".endswith(f"+{then}") else f"{first}+{then}"


def augment(images: Tensor, preset: str, mean: Tensor, std: Tensor, u: Tensor | None = None) -> Tensor:
    """uint8 N × H × W × 3 to float N × 3 × H × W: (augmented - mean) / std, with mean and std on the 0..255 scale.

    `u` holds uniform numbers, N × draws_of(preset). The caller makes them from seed and step, so a run draws the same
    crops on a laptop and on a GPU, and a resumed one needs no memory of earlier draws.
    """
    names = parts_of(preset)
    x = images.permute(0, 3, 1, 2)
    if u is not None and preset != "none":
        for name, draws in zip(names, u.split([PRESETS[name] for name in names], dim=1), strict=True):
            x = augmented(x, name, draws)
    # The permuted view is channels-last already, which is what convolutions on the CPU and on tensor cores want.
    x = x.float()
    return (x - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1)


def standardised(x: Tensor) -> Tensor:
    """Each channel of each image of N × C × H × W with mean 0 and deviation 1: (x - mean) / std, with std = 1 where the
    channel is constant. Any scale of the pixels gives the same."""
    variance, mean = torch.var_mean(x, dim=(2, 3), keepdim=True)
    std = variance.sqrt()
    return (x - mean) / torch.where(std > ROUNDING, std, 1.0)


def augmented(x: Tensor, name: str, u: Tensor) -> Tensor:
    """Apply one augmentation of a single name: N × 3 × H × W on the 0..255 scale to the same, from bytes or floats.

    The operations of Pillow's kind (randaugment and those after it) work on whole levels: floats are rounded first.
    """
    if name in ("standard", "color", "imagenet"):
        x = _crop_and_flip(x.float(), u[:, :5], IMAGENET_AREA if name == "imagenet" else CROP_AREA)
        return _recolor(x, u[:, 5:]) if name == "color" else _jitter(x, u[:, 5:]) if name == "imagenet" else x
    if name == "rotate-flip":
        return _rotate_and_flip(x, u)
    if name in ("noise", "erase", "texture"):
        return {"noise": noise, "erase": erase, "texture": texture}[name](x.float(), u)
    x = (x if x.dtype == torch.uint8 else (x + 0.5).clamp(0, 255).byte()).contiguous()
    if name == "autoaugment":
        x = policies.autoaugment(x, u)
    elif name == "augmix":
        x = policies.augmix(x, u)
    else:
        x = policies.randaugment(x, u, ONLY.get(name, policies.RANDOM_OPS))
    return x.contiguous(memory_format=torch.channels_last)


def _crop_and_flip(x: Tensor, u: Tensor, areas: tuple[float, float]) -> Tensor:
    """A crop of random area and aspect ratio, resized to the full image by bilinear sampling, mirrored half the time.

    With crop width w and height h as shares of the image, output point (u, v) in [-1, 1]^2 is read at
    (±w u + s (1 - w), h v + t (1 - h)) with s, t uniform in [-1, 1].
    """
    area = areas[0] + u[:, 0] * (areas[1] - areas[0])
    low, high = math.log(CROP_RATIO[0]), math.log(CROP_RATIO[1])
    root = torch.exp((low + u[:, 1] * (high - low)) / 2)
    width, height = (area.sqrt() * root).clamp(max=1.0), (area.sqrt() / root).clamp(max=1.0)
    mirror = torch.where(u[:, 4] < 0.5, -1.0, 1.0)
    theta = torch.zeros(len(x), 2, 3, device=x.device)
    theta[:, 0, 0], theta[:, 0, 2] = mirror * width, (2 * u[:, 2] - 1) * (1 - width)
    theta[:, 1, 1], theta[:, 1, 2] = height, (2 * u[:, 3] - 1) * (1 - height)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _rotate_and_flip(x: Tensor, u: Tensor) -> Tensor:
    """A quarter turn taken 0 to 3 times, each as often, then mirrored half the time: no pixel is lost or resampled."""
    if x.shape[2] != x.shape[3]:
        raise ShiftBenchError(f"augment=rotate-flip turns images by 90 degrees, so they must be square, not "
                              f"{x.shape[3]} × {x.shape[2]}. Set size.")
    turns = (4 * u[:, 0]).long().clamp(max=3).view(-1, 1, 1, 1)
    turned = x
    for k in (1, 2, 3):
        turned = torch.where(turns == k, torch.rot90(x, k, (2, 3)), turned)
    return torch.where((u[:, 1] < 0.5).view(-1, 1, 1, 1), turned.flip(3), turned)


def _recolor(x: Tensor, u: Tensor) -> Tensor:
    """Brightness, contrast and saturation are factors from 0.7 to 1.3; hue turns the colour circle by up to 0.3 of a
    full turn (in the YIQ plane, where grey stays grey and brightness stays what it was)."""
    factor = (1 - JITTER + 2 * JITTER * u[:, :3]).view(-1, 3, 1, 1, 1)
    x = _lighten(x, factor)
    grey = _luma(x)
    color = (x - grey) * factor[:, 2]
    angle = 2 * math.pi * JITTER * (2 * u[:, 3] - 1)
    turn = _hue_turn(angle, x.device)
    x = (grey + torch.einsum("nij,njhw->nihw", turn, color)).clamp(0, 255)
    return torch.where((u[:, 4] < GREY).view(-1, 1, 1, 1), _luma(x).expand_as(x), x)


def _jitter(x: Tensor, u: Tensor) -> Tensor:
    """Brightness, contrast and saturation are factors from 0.6 to 1.4, in this order."""
    factor = (1 - IMAGENET_JITTER + 2 * IMAGENET_JITTER * u[:, :3]).view(-1, 3, 1, 1, 1)
    x = _lighten(x, factor)
    grey = _luma(x)
    return (grey + (x - grey) * factor[:, 2]).clamp(0, 255)


def _lighten(x: Tensor, factor: Tensor) -> Tensor:
    x = (x * factor[:, 0]).clamp(0, 255)
    level = _luma(x).mean(dim=(2, 3), keepdim=True)
    return (level + (x - level) * factor[:, 1]).clamp(0, 255)


def _luma(x: Tensor) -> Tensor:
    return 0.299 * x[:, 0:1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:3]


def _hue_turn(angle: Tensor, device: torch.device) -> Tensor:
    """Rotation by `angle` in the chroma plane, in RGB coordinates: inverse(YIQ) · R(angle) · YIQ."""
    to_yiq, to_rgb = _yiq(device)
    cos, sin = torch.cos(angle), torch.sin(angle)
    turn = torch.zeros(len(angle), 3, 3, device=device)
    turn[:, 0, 0] = 1
    turn[:, 1, 1], turn[:, 1, 2], turn[:, 2, 1], turn[:, 2, 2] = cos, -sin, sin, cos
    return to_rgb @ turn @ to_yiq


@cache
def _yiq(device: torch.device) -> tuple[Tensor, Tensor]:
    """RGB to YIQ and back. Made once per device: a recorded step must not copy from the host."""
    to_yiq = torch.tensor([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
    return to_yiq.to(device), torch.linalg.inv(to_yiq).to(device)


# Images made harder on purpose: noise, erased rectangles, uninformative textures (BREEDS, A.7.3)
#
# Float N × 3 × H × W on the 0..255 scale to the same, every image by itself, all from the uniform numbers passed in.

NUMBER = 0x9E3779B97F4A7C15 - 2**64
MIXERS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64, 0xD6E8FEB86659FD93 - 2**64)
"""Odd 64-bit numbers, written as the signed ones that torch multiplies modulo 2⁶⁴."""

DEVIATION = 0.2
"""The standard deviation of the noise, on the [0, 1] scale (Table 14b)."""

ERASED, ERASE_AREA, ERASE_RATIO, TRIES = 0.5, (0.02, 0.33), (0.3, 3.3), 2
"""Random erasing (Table 14c). One rectangle in 250 does not fit the image and is drawn again."""

MEAN_COLOUR = (123.675, 116.28, 103.53)
"""ImageNet's mean colour: 0 once an image is normalised for the nets that the paper trains."""

PASSES, WAVES, FIELDS = 2, 8, 2
AMPLITUDE = (20.0, 45.0)
PER_WAVE, PER_FIELD = 3, 8


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
    chosen, down, right = u[:, 0] < ERASED, u[:, 1], u[:, 2]
    fits = torch.zeros_like(chosen)
    tall = wide = torch.zeros_like(down)
    low, high = math.log(ERASE_RATIO[0]), math.log(ERASE_RATIO[1])
    for draw in u[:, 3:].unflatten(1, (TRIES, 2)).unbind(1):
        area = (ERASE_AREA[0] + draw[:, 0] * (ERASE_AREA[1] - ERASE_AREA[0])) * (height * width)
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
    return torch.tensor(MEAN_COLOUR, device=device).view(1, 3, 1, 1)


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
