"""Models of text that start from nothing: a bag of words and word pairs, and a small transformer."""

import re
import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.net import Dropout, Net, model

# Blocks of a transformer on tokens: attention that knows how far apart two places are, and an MLP.

WIDTH, INNER, HEADS, LAYERS = 128, 512, 4, 2
DEPTH = WIDTH // HEADS
SLOWEST = 10_000.0
"""The slowest pair of numbers turns once in 2π times this many places."""


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
            mixed = F.scaled_dot_product_attention(_turned(query, turn), _turned(key, turn), value, attn_mask=mask,
                                                   is_causal=mask is None)
        tokens = tokens + self.drop(self.output(mixed.transpose(1, 2).flatten(2)))
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


# Texts as numbers without a vocabulary: every word and every mark has the bucket that its hash says.

BUCKETS = 1 << 15
"""Tokens run from 1 to BUCKETS - 1. 0 is padding."""

WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
"""A run of letters and digits, apostrophes inside it included (don't), or a single mark."""


class _Buckets(dict[str, int]):
    """Bucket of a word: computed when first met, looked up from then on. Texts repeat their words."""

    def __missing__(self, word: str) -> int:
        # Half of a surrogate pair is not a character, but texts from the web contain them.
        number = self[word] = 1 + zlib.crc32(word.encode("utf-8", "surrogatepass")) % (BUCKETS - 1)
        return number


def hashed_words(texts: Sequence[str], length: int) -> npt.NDArray[np.int32]:
    """The first `length` words and marks of each text, lower-cased, as hashes 1, 2, …; then 0.

        token(w) = 1 + crc32(w) mod (BUCKETS - 1)

    No text decides how another is cut, so training learns nothing from the test's words, and a token means the same in
    every benchmark. Two words may share a bucket: 30,000 different ones use about 19,700 buckets.
    """
    if length < 1:
        raise ShiftBenchError(f"Texts are cut to {length} tokens, but must have room for at least 1. Set size.")
    bucket, find = _Buckets(), WORD.findall
    tokens = np.zeros((len(texts), length), np.int32)
    for row, text in enumerate(texts):
        words = find(text.lower().replace("\u2019", "'"))[:length]
        tokens[row, :len(words)] = [bucket[word] for word in words]
    return tokens


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


# A small model of code that starts from nothing: it says at every place which token comes next.

class NextToken(Net):
    """Features and outputs of place t are made of the tokens 0 … t alone; output t is about token t + 1.

    x are the benchmark's own tokens 0 … n_classes - 1 as they are, negative beyond the item's end. Padding has features
    too, of no meaning; no token sees it, since it comes after all of them.
    """

    @classmethod
    def tokens(cls, texts: Sequence[str], length: int, weights: str) -> npt.NDArray[np.int32]:
        raise ShiftBenchError(f"Model '{cls.name}' predicts the next token of a benchmark that comes with its tokens, "
                              "as Py150 does; plain texts have none. For texts with labels use text-bag, "
                              "text-transformer or transformers.")


@model("code-transformer")
class CodeTransformer(NextToken):
    """Token vectors, two pre-norm blocks of causal attention and MLP, and a norm: the blocks of text-transformer.

    No dropout. The head is a layer of its own, not the token vectors once more. With Py150's 50,001 tokens 13.25
    million parameters, all but 0.40 of them token vectors and head.
    """

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.features = _Writer(n_classes)
        self.head = nn.Linear(WIDTH, n_classes)


class _Writer(nn.Module):
    def __init__(self, n_tokens: int) -> None:
        super().__init__()
        self.token = embedding(n_tokens)
        self.blocks = Blocks()

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.token(x.clamp(min=0)), None)
