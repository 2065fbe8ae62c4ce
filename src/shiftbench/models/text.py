"""Models of text that start from nothing: a bag of words and word pairs, and a small transformer."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from shiftbench.models.base import Net, model
from shiftbench.models.hashed_words import BUCKETS, hashed_words
from shiftbench.models.text_blocks import WIDTH, Blocks, embedding

BAG_WIDTH, PAIRS = 32, 1 << 16
FIRST, SECOND = 0x9E3779B97F4A7C15 - 2**64, 0xBF58476D1CE4E5B9 - 2**64
"""Odd 64-bit numbers, written as the signed ones that torch multiplies modulo 2⁶⁴."""


class _Words(Net):
    """A net on hashed words: its texts need no vocabulary."""

    @classmethod
    def tokens(cls, texts: Sequence[str], length: int, weights: str) -> npt.NDArray[np.int32]:
        return hashed_words(texts, length)


@model("text-bag")
class TextBag(_Words):
    """Vectors of words and of neighbouring pairs, averaged, after fastText (Joulin et al., 2017).

        z = √n · mean of the n words' vectors  +  √(n - 1) · mean of the pairs' vectors

    fastText takes one plain mean over words and pairs together, and learning rates from 0.1 to 1. With the roots z is
    as large in long texts as in short ones at the start, and the usual rates for Adam do. Pairs are hashed into 65,536
    buckets of their own; 3.15 million parameters. An empty text has z = 0.
    """

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.features = _Bag()
        self.head = nn.Linear(BAG_WIDTH, n_classes)


class _Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word = embedding(BUCKETS, BAG_WIDTH)
        self.pair = embedding(PAIRS, BAG_WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return _rooted(self.word(x), x > 0) + _rooted(self.pair(pairs(x)), x[:, 1:] > 0)


def _rooted(values: Tensor, real: Tensor) -> Tensor:
    """√n times the mean over the n real places."""
    return masked_mean(values, real) * real.sum(dim=1, keepdim=True).sqrt()


def pairs(x: Tensor) -> Tensor:
    """The bucket of each token and the next, N × (L - 1)."""
    x = x.long()
    return ((x[:, :-1] * FIRST + x[:, 1:]) * SECOND >> 40) & (PAIRS - 1)


@model("text-transformer")
class TextTransformer(_Words):
    """Word vectors, two pre-norm blocks of attention and MLP, a norm, and the mean over the words.

    Width 128, MLP width 512, 4 heads, dropout 0.1 on each block's two results; rotary positions, so any length will do
    and padding changes nothing. 4.59 million parameters, 4.19 of them word vectors. An empty text has z = 0.
    """

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.features = _Reader()
        self.head = nn.Linear(WIDTH, n_classes)


class _Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word = embedding(BUCKETS)
        self.blocks = Blocks(rate=0.1)

    def forward(self, x: Tensor) -> Tensor:
        real = x > 0
        return masked_mean(self.blocks(self.word(x), seen(real)), real)


def seen(real: Tensor) -> Tensor:
    """The places that may be looked at: those of tokens, and in an item without any all: attention to nothing is NaN,
    which no later mask takes out of a gradient."""
    return real | ~real.any(dim=1, keepdim=True)


def masked_mean(values: Tensor, real: Tensor) -> Tensor:
    """Mean over the real places, N × L × D to N × D; 0 where there are none."""
    weight = real.to(values.dtype)
    return (values * weight[:, :, None]).sum(dim=1) / weight.sum(dim=1, keepdim=True).clamp(min=1)
