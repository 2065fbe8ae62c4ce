"""BERT's forward pass in numpy: word pieces in, one vector per word piece out.

It serves users without torch, and a fresh process starts in a tenth of the time that transformers needs and encodes as
fast (bench/sentences.py). Sentences of a batch stand one after the other in one long array of word pieces, so nothing
is padded and nothing has to be masked: linear maps, norms and GELU do not care where a sentence ends, and attention
takes sentences of the same length together. The result is that of a padded and masked batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError

Vectors = npt.NDArray[np.float32]

BLOCK = 16_384
"""Numbers that GELU takes at a time: they stay in the processor's cache over its 18 steps."""

ERF = (1.756355565620464e-09, -1.322688493319242e-07, 3.964802468451311e-06, -5.5306460352548835e-05,
       -3.259444163203232e-05, 0.03633308416896793, 0.797884941536583)
"""The polynomial P of `gelu`, highest power first: a least-squares fit to atanh(erf(x / √2)) / x on 0 < x < 5.6,
weighted until the largest error was smallest. Beyond, its growth drives tanh to 1, as it should."""


class Linear(NamedTuple):
    weight: Vectors  # inputs × outputs
    bias: Vectors

    def __call__(self, x: Vectors) -> Vectors:
        y: Vectors = x @ self.weight
        y += self.bias
        return y


class Norm(NamedTuple):
    """LayerNorm: (x - mean) / √(variance + epsilon) · scale + shift, over the last axis, in place."""

    scale: Vectors
    shift: Vectors
    epsilon: float

    def __call__(self, x: Vectors) -> Vectors:
        x -= x.mean(axis=-1, keepdims=True)
        spread = np.einsum("td,td->t", x, x) / x.shape[-1] + self.epsilon
        x *= (1 / np.sqrt(spread, dtype=np.float32))[:, None]
        x *= self.scale
        x += self.shift
        return x


class Layer(NamedTuple):
    """One encoder layer; `gather` makes queries (already divided by √(width of a head)), keys and values at once."""

    gather: Linear
    after: Linear
    norm: Norm
    widen: Linear
    narrow: Linear
    last: Norm


@dataclass(frozen=True)
class Bert:
    """The net of Devlin et al. (2019) without its pooler, norms after each sum."""

    words: Vectors
    places: Vectors  # position and segment 0, summed
    norm: Norm
    layers: tuple[Layer, ...]
    heads: int

    @property
    def width(self) -> int:
        return int(self.words.shape[1])

    def __call__(self, pieces: Ints, lengths: Ints) -> Vectors:
        """A vector per word piece. `pieces` are those of all sentences in a row; sentence k has `lengths[k]` of them.

        It is fastest when sentences of one length are adjacent.
        """
        starts = np.cumsum(lengths) - lengths
        x = self.words[pieces]
        x += self.places[np.arange(len(pieces)) - np.repeat(starts, lengths)]
        x = self.norm(x)
        cuts = np.flatnonzero(np.diff(lengths, prepend=-1, append=-1))
        runs = [(int(starts[a]), int(b - a), int(lengths[a])) for a, b in pairwise(cuts)]
        for layer in self.layers:
            y = layer.after(self._attend(layer.gather(x), runs))
            y += x
            x = layer.norm(y)
            y = layer.narrow(gelu(layer.widen(x)))
            y += x
            x = layer.last(y)
        return x

    def _attend(self, gathered: Vectors, runs: list[tuple[int, int, int]]) -> Vectors:
        """softmax(q kᵀ) v per head, within each sentence. A run: where it starts, how many sentences, how long each."""
        out: Vectors = np.empty((len(gathered), self.width), np.float32)
        for start, count, length in runs:
            rows = slice(start, start + count * length)
            split = gathered[rows].reshape(count, length, 3, self.heads, -1)
            q, k, v = split.transpose(2, 0, 3, 1, 4)  # each sentences × heads × length × width of a head
            weight = q @ k.swapaxes(-1, -2)
            weight -= weight.max(axis=-1, keepdims=True)
            np.exp(weight, out=weight)
            weight /= weight.sum(axis=-1, keepdims=True)
            out[rows] = (weight @ v).swapaxes(1, 2).reshape(count * length, -1)
        return out


def gelu(x: Vectors) -> Vectors:
    """x Φ(x) = x (1 + erf(x / √2)) / 2, in place.

    numpy has no erf and scipy's is the slowest step of the whole net, so erf(x / √2) is tanh(x P(x²)), which is off by
    less than 6e-8, half of what float32 can tell apart near 1.
    """
    flat = x.reshape(-1)
    for start in range(0, len(flat), BLOCK):
        block = flat[start:start + BLOCK]
        square = block * block
        p = square * np.float32(ERF[0])
        for number in ERF[1:-1]:
            p += np.float32(number)
            p *= square
        p += np.float32(ERF[-1])
        p *= block
        np.tanh(p, out=p)
        p += np.float32(1)
        p *= np.float32(0.5)
        block *= p
    return x


def bert(tensors: Mapping[str, Vectors], heads: int, n_layers: int, epsilon: float, first_place: int,
         where: str) -> Bert:
    """The net from tensors under Hugging Face's names, with or without a prefix such as `bert.`

    `first_place` is the row of the position table that the first word piece takes: 0, but 2 in RoBERTa.
    """
    stem = "embeddings.word_embeddings.weight"
    prefix = next((name.removesuffix(stem) for name in sorted(tensors) if name.endswith(stem)), "")
    width = 0

    def take(name: str, *shape: int) -> Vectors:
        tensor = tensors.get(prefix + name)
        if tensor is None:
            raise ShiftBenchError(f"{where}: has no tensor '{name}', so it is not a BERT encoder.")
        if tensor.ndim != len(shape) or any(size and size != tensor.shape[axis] for axis, size in enumerate(shape)):
            raise ShiftBenchError(f"{where}: tensor '{name}' has shape {tensor.shape}, but the others make it "
                                  f"({', '.join(str(size or 'any') for size in shape)}).")
        if tensor.dtype.kind != "f":
            raise ShiftBenchError(f"{where}: tensor '{name}' holds {tensor.dtype}, not floating-point numbers.")
        if not np.isfinite(tensor).all():
            raise ShiftBenchError(f"{where}: tensor '{name}' holds NaN or infinite numbers.")
        return np.ascontiguousarray(tensor, np.float32)

    def linear(name: str, below: int, above: int) -> Linear:
        return Linear(np.ascontiguousarray(take(f"{name}.weight", above, below).T), take(f"{name}.bias", above))

    def norm(name: str) -> Norm:
        return Norm(take(f"{name}.weight", width), take(f"{name}.bias", width), epsilon)

    def layer(name: str) -> Layer:
        q, k, v = (linear(f"{name}.attention.self.{role}", width, width) for role in ("query", "key", "value"))
        scale = np.float32((width // heads) ** -0.5)
        gather = Linear(np.concatenate([q.weight * scale, k.weight, v.weight], axis=1),
                        np.concatenate([q.bias * scale, k.bias, v.bias]))
        inner = len(take(f"{name}.intermediate.dense.bias", 0))
        return Layer(gather, linear(f"{name}.attention.output.dense", width, width),
                     norm(f"{name}.attention.output.LayerNorm"), linear(f"{name}.intermediate.dense", width, inner),
                     linear(f"{name}.output.dense", inner, width), norm(f"{name}.output.LayerNorm"))

    words = take(stem, 0, 0)
    width = words.shape[1]
    if heads < 1 or width % heads:
        raise ShiftBenchError(f"{where}: {width} numbers per word piece do not divide among {heads} heads.")
    if prefix + f"encoder.layer.{n_layers}.output.dense.weight" in tensors:
        raise ShiftBenchError(f"{where}: has more layers than the {n_layers} of config.json. They belong to different "
                              "models.")
    places = take("embeddings.position_embeddings.weight", 0, width)[first_place:]
    places = places + take("embeddings.token_type_embeddings.weight", 0, width)[0]
    return Bert(words, places, norm("embeddings.LayerNorm"),
                tuple(layer(f"encoder.layer.{number}") for number in range(n_layers)), heads)
