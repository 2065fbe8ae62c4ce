"""Every row of a benchmark as tensors: the input that a model takes, and what it should predict."""

from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shiftbench.core.arrays import Ints, Strs, positions
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.target import BOXES, NO_LABEL, TOKEN_KINDS, TOKENS, boxes_of, kinds_of, tokens_of
from shiftbench.images.decode import channel_images, images
from shiftbench.models.names import COLUMNS, SENTENCES, facts
from shiftbench.models.net import MODELS
from shiftbench.training.features import Report, Say, embed
from shiftbench.training.run import Run, split_features

PADDING = -1


class Ragged(NamedTuple):
    """Inputs of different lengths, one behind the other: item i has the lines `values[start[i]:start[i + 1]]`.

    A batch is as long as its longest item.
    """

    values: Tensor  # lines × columns
    start: Tensor  # items + 1

    @property
    def items(self) -> int:
        return len(self.start) - 1

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    def to(self, device: torch.device) -> "Ragged":
        return Ragged(self.values.to(device), self.start.to(device))

    def take(self, rows: Tensor) -> Tensor:
        """The lines of these items, items × longest × columns as 64-bit numbers; PADDING behind an item's end."""
        rows = rows.to(self.start.device)
        first, stop = self.start[rows], self.start[rows + 1]
        offset = torch.arange(int((stop - first).max()) if len(rows) else 0, device=first.device)
        inside = offset < (stop - first)[:, None]
        line = torch.where(inside, first[:, None] + offset, 0)
        return torch.where(inside[:, :, None], self.values[line].long(), PADDING)


def inputs(
    benchmark: Benchmark, collection: Collection, run: Run, cache: Path | None, progress: Report | None = None,
    say: Say | None = None,
) -> Tensor | Ragged:
    """One input per row of the benchmark.

    Cached features as float32, N × D; images as uint8, N × H × W × 3, those of more channels as float32, N × C × H × W;
    tokens as int32, N × L; graphs as lines of numbers.
    """
    net = MODELS[run.model]
    if net.outside:
        run.check_inputs(facts(run.model)._replace(takes=net.takes))
    rows = collection.index(benchmark.items)
    if net.takes == "features":
        return torch.from_numpy(_features(benchmark, collection, rows, run, cache, progress, say))
    if net.takes == "tokens":
        return torch.from_numpy(_tokens(benchmark, collection, rows, run))
    if net.takes == "graphs":
        from shiftbench.readers.wilds.molecules import graph_lines

        values, start = graph_lines(collection, rows)
        return Ragged(torch.from_numpy(values), torch.from_numpy(start))
    size = size_of(run) or None
    if net.channels != 3:
        return torch.from_numpy(channel_images(collection, rows, size))
    pixels = images(collection, rows, size)
    if run.stylised:
        train = benchmark.rows("train")
        stylised = Collection.load(run.stylised)
        pixels[train] = images(stylised, _same_items(stylised, benchmark.items[train]), pixels.shape[1])
    return torch.from_numpy(pixels)


def size_of(run: Run) -> int:
    """The side of the run's images, or its number of tokens: the run's own, else that of an outside model. 0: images
    as they are, or as many tokens as the model reads."""
    net = MODELS[run.model]
    return run.size or (net.side if net.outside else 0)


def _features(
    benchmark: Benchmark, collection: Collection, rows: Ints, run: Run, cache: Path | None,
    progress: Report | None, say: Say | None,
) -> np.ndarray:
    """Features of a backbone, vectors of texts, or the columns of a table."""
    if run.features == SENTENCES:
        return sentence_features(benchmark, collection, rows, cache)
    if run.features == COLUMNS:
        from shiftbench.data.item_table import features

        names, values = features(collection)
        if not names:
            raise ShiftBenchError(f"Collection '{collection.name}' has no columns of features. Name them when it is "
                                  "read: shiftbench read table … --features age,dose.")
        values = values[rows]
        train_values = values[benchmark.rows("train")]
        if not len(train_values):
            return np.asarray(values, np.float32)  # training refuses a benchmark without training rows
        # The statistics are of training rows alone, as when a model is fitted. A constant column carries nothing.
        mean, spread = train_values.mean(axis=0), train_values.std(axis=0)
        return np.asarray((values - mean) / np.where(spread > 0, spread, 1), np.float32)
    return backbone_features(collection, rows, run.features, cache, progress, say)


def backbone_features(
    collection: Collection, rows: Ints, name: str, cache: Path | None, progress: Report | None = None,
    say: Say | None = None,
) -> np.ndarray:
    """Features of images by BACKBONE@SIZE."""
    backbone, size = split_features(name)
    return embed(collection, rows, backbone, size, folder=cache, progress=progress, say=say)


def sentence_features(benchmark: Benchmark, collection: Collection, rows: Ints, cache: Path | None) -> np.ndarray:
    """Vectors of the items' texts."""
    from shiftbench.text import embed_texts, encoder

    with_text, vectors = embed_texts(collection, encoder(), cache)
    nearest = np.searchsorted(with_text, rows).clip(max=len(with_text) - 1)
    for row in np.flatnonzero(with_text[nearest] != rows)[:1]:
        raise ShiftBenchError(f"Collection '{collection.name}' has no text of item '{benchmark.items[row]}', so "
                              "there is no vector for it.")
    return np.asarray(vectors[nearest], np.float32)


def _tokens(benchmark: Benchmark, collection: Collection, rows: Ints, run: Run) -> np.ndarray:
    """The benchmark's own tokens, where they are what is predicted, or those of the items' first texts."""
    net = MODELS[run.model]
    if benchmark.target.per_place:
        if run.size:
            raise ShiftBenchError(f"run: size={run.size} would cut tokens that are to be predicted. Leave size at 0.")
        return tokens_of(np.asarray(benchmark.extra[TOKENS])).astype(np.int32)
    return net.tokens(collection.first_texts(rows), run.size or net.side, run.weights)


def _same_items(stylised: Collection, items: Strs) -> Ints:
    """Rows of the items in the stylised collection; file suffixes may differ there, as in Stylized ImageNet."""
    position = positions(_stems(items), _stems(stylised.items))
    if (position < 0).any():
        missing = items[position < 0]
        raise ShiftBenchError(f"Collection '{stylised.name}' has no stylised image of {len(missing)} of the "
                              f"{len(items)} training items ({missing[0]}, …). It must have the same items.")
    return position


def _stems(items: Strs) -> Strs:
    return np.asarray([str(PurePosixPath(item).with_suffix("")) if "/" in item else item for item in items.tolist()])


def truth_of(benchmark: Benchmark, n_places: int = 0, height: int = 0, width: int = 0) -> Tensor:
    """Classes as codes (N); numbers and tasks as N × outputs, NaN where there is none; for tokens the next one at each
    of `n_places` places; boxes as N × most × 4 in pixels of an image of this size, NaN after an item's last."""
    target = benchmark.target
    if target.one_per_column:
        columns = [np.asarray(benchmark.extra[name], np.float32) for name in target.columns]
        return torch.from_numpy(np.stack(columns, axis=1))
    if target.per_place:
        codes = tokens_of(np.asarray(benchmark.extra[TOKENS]))
        following = np.concatenate([codes[:, 1:], np.full((len(codes), 1), NO_LABEL)], axis=1)
        if TOKEN_KINDS in benchmark.extra:  # a token whose kind is masked is not asked for, as in WILDS
            kinds = kinds_of(np.asarray(benchmark.extra[TOKEN_KINDS]))
            following[:, :kinds.shape[1] - 1][kinds[:, 1:] == NO_LABEL] = NO_LABEL
        return torch.from_numpy(following[:, :n_places])
    if target.detects:
        row, box = boxes_of(np.asarray(benchmark.extra[BOXES]))
        count = np.bincount(row, minlength=len(benchmark))
        number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        corners = np.full((len(benchmark), max(1, int(count.max(initial=0))), 4), np.nan, np.float32)
        corners[row, number] = box * np.asarray([width, height, width, height], np.float32)
        return torch.from_numpy(corners)
    return torch.from_numpy(benchmark.label.astype(np.int64))
