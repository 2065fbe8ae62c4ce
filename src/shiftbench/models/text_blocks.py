"""Blocks of a transformer on tokens: attention that knows how far apart two places are, and an MLP."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from shiftbench.models.dropout import Dropout

WIDTH, INNER, HEADS, LAYERS = 128, 512, 4, 2
DEPTH = WIDTH // HEADS
SLOWEST = 10_000.0
"""The slowest pair of numbers turns once in 2π times so many places."""


class Blocks(nn.Module):
    """t ← t + attention(norm(t)), then t ← t + MLP(norm(t)), twice, and a norm at the end.

    `visible` (N × L) says which places may be looked at; None stands for each place and those before it.
    """

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block(rate) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor, visible: Tensor | None) -> Tensor:
        mask = None if visible is None else visible[:, None, None, :]
        turn = _turns(tokens.shape[1], tokens.device)
        for block in self.blocks:
            tokens = block(tokens, mask, turn)
        return self.norm(tokens)


class _Block(nn.Module):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.inputs = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.drop = Dropout(rate)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH), Dropout(rate))

    def forward(self, tokens: Tensor, mask: Tensor | None, turn: tuple[Tensor, Tensor]) -> Tensor:
        parts = self.inputs(self.norm1(tokens)).unflatten(2, (3, HEADS, DEPTH))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind()
        with repeatable():
            found = F.scaled_dot_product_attention(_turned(query, turn), _turned(key, turn), value, attn_mask=mask,
                                                   is_causal=mask is None)
        tokens = tokens + self.drop(self.output(found.transpose(1, 2).flatten(2)))
        return tokens + self.mlp(self.norm2(tokens))


def embedding(n: int, width: int = WIDTH) -> nn.Embedding:
    """A vector for each of n tokens, small at the start: Adam's first steps then already change what it says."""
    table = nn.Embedding(n, width)
    nn.init.normal_(table.weight, std=0.02)
    return table


def _turns(length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosine and sine of place · speed, places × DEPTH / 2."""
    pair = torch.arange(0, DEPTH, 2, device=device) / DEPTH
    angle = torch.arange(length, device=device)[:, None] * SLOWEST ** -pair
    return angle.cos(), angle.sin()


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions (Su et al., 2021): pairs of numbers turned by an angle that grows with the place, so that the
    product of a query and a key depends on their distance alone, and a text may have any length."""
    cos, sin = turn[0].to(x.dtype), turn[1].to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def repeatable() -> AbstractContextManager[Any]:
    """Where algorithms that repeat are asked for with warnings only, as training does on a GPU, the fused kernels still
    add up gradients in any order: plain products then."""
    if torch.are_deterministic_algorithms_enabled():
        return sdpa_kernel(SDPBackend.MATH)
    return nullcontext()
