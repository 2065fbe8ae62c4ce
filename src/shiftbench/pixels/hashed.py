"""As many random numbers per image as wanted, from two that are handed in.

A run's draws are made on the host, some per image and step. Noise needs three per pixel: they are a hash of the image's
two draws and of the pixel's number, in whole numbers, so that every device gives the same bits and a recorded step can
be replayed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shiftbench.later import torch

if TYPE_CHECKING:
    from torch import Tensor

DRAWS = 2
"""Numbers from [0, 1) that make a seed: 24 bits each, all that 32-bit floats have."""

NUMBER = 0x9E3779B97F4A7C15 - 2**64
MIXERS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64, 0xD6E8FEB86659FD93 - 2**64)
"""Odd 64-bit numbers, written as the signed ones that torch multiplies modulo 2⁶⁴."""


def words(u: Tensor, n: int, purpose: int = 0) -> Tensor:
    """N × n whole numbers of 64 random bits: mix(mix(seed, purpose) + NUMBER · place), of the N × 2 draws `u`."""
    bits = (u.double() * 2**24).long()
    seed = _mixed(((bits[:, :1] << 24) + bits[:, 1:2]) * 64 + (purpose + 1))
    return _mixed(torch.add(seed, torch.arange(n, device=u.device), alpha=NUMBER))


def uniforms(u: Tensor, n: int, purpose: int = 0) -> Tensor:
    """N × n numbers from (0, 1], of 32 bits each; 1 only by rounding."""
    halves = words(u, -(-n // 2), purpose).view(torch.int32)[:, :n]
    return (halves.double() + (2**31 + 0.5)).mul_(2.0**-32).float()


def normals(u: Tensor, n: int, purpose: int = 0) -> Tensor:
    """N × n standard normal numbers, two from a word by Box and Muller: √(-2 ln a) · (cos 2πb, sin 2πb)."""
    pairs = uniforms(u, 2 * -(-n // 2), purpose).unflatten(1, (-1, 2))
    radius, angle = torch.sqrt(-2 * torch.log(pairs[..., 0])), 2 * math.pi * pairs[..., 1]
    return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=2).flatten(1)[:, :n]


def _mixed(x: Tensor) -> Tensor:
    for mixer in MIXERS:
        # Ends with a product: >> repeats the sign, so that right after x ^ (x >> k) the top bit would always be 0.
        x = (x ^ (x >> 32)) * mixer
    return x
