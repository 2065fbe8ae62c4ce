"""Every row of a benchmark as tensors: the input that a model takes, and what it should predict.

Features of a frozen backbone are computed once per item, and kept in a memory-mapped file beside the collection.
"""

import copy
import hashlib
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from shiftbench.core.arrays import Ints, Strs, cached_rows, check_writable, digest, positions, write_rows
from shiftbench.core.backend import choose_device
from shiftbench.core.errors import Advance, Say, ShiftBenchError
from shiftbench.core.files import making_folder, write_json
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.target import BOXES, NO_LABEL, TOKEN_KINDS, TOKENS, boxes_of, kinds_of, tokens_of
from shiftbench.images.augment import augment
from shiftbench.images.decode import channel_images, images
from shiftbench.models.names import COLUMNS, SENTENCES, facts
from shiftbench.models.names import backbone as check_backbone
from shiftbench.models.net import MODELS, Net, build, weights_digest
from shiftbench.training.run import Run, split_features

Features = npt.NDArray[np.float32]

PADDING = -1

PIXELS_AT_ONCE = 600_000
"""Per forward pass on a CPU: 12 images of 224 px, 36 of 128. More would not fit its cache, and is slower."""

CHUNK = 256
"""Images per write to disk and per report of progress."""


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
    benchmark: Benchmark, collection: Collection, run: Run, progress: Advance | None = None, say: Say | None = None
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
        return torch.from_numpy(_features(benchmark, collection, rows, run, progress, say))
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
    benchmark: Benchmark, collection: Collection, rows: Ints, run: Run, progress: Advance | None, say: Say | None
) -> np.ndarray:
    """Features of a backbone, vectors of texts, or the columns of a table."""
    if run.features == SENTENCES:
        return sentence_features(benchmark, collection, rows)
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
    return backbone_features(collection, rows, run.features, progress, say)


def backbone_features(
    collection: Collection, rows: Ints, name: str, progress: Advance | None = None, say: Say | None = None
) -> np.ndarray:
    """Features of images by BACKBONE@SIZE."""
    backbone, size = split_features(name)
    return embed(collection, rows, backbone, size, folder=collection.home, progress=progress, say=say)


def sentence_features(benchmark: Benchmark, collection: Collection, rows: Ints) -> np.ndarray:
    """Vectors of the items' texts."""
    from shiftbench.text import embed_texts, encoder

    with_text, vectors = embed_texts(collection, encoder(), collection.home)
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


# Features of a frozen backbone


def embed(
    collection: Collection,
    rows: Ints,
    backbone: str = "efficientnet-lite0",
    size: int = 224,
    folder: Path | str | None = None,
    progress: Advance | None = None,
    *,
    weights: str = "imagenet",
    device: str = "auto",
    say: Say | None = None,
) -> Features:
    """Features of these items, len(rows) × D. `say` reports how many are computed, which may take longer than training.

    With `folder` (the collection's) they are kept in folder/features/KEY/ and only what is missing is computed. KEY
    depends on backbone, weights, preprocessing and the collection's items. A row counts as present only once its
    features are on disk, so a killed process leaves nothing wrong behind and the next one goes on.
    """
    rows = np.asarray(rows, np.int64)
    if check_backbone(backbone).outside:
        net_facts = MODELS[backbone]
        if net_facts.takes != "images" or net_facts.channels != 3:
            raise ShiftBenchError(f"Model '{backbone}' takes {net_facts.takes}, but features are made of images of "
                                  "three channels.")
        size = size or net_facts.side
    if not 8 <= size <= 1024:
        raise ShiftBenchError(f"size is {size}, but images are embedded at 8 to 1024 pixels per side.")
    net = build(backbone, 1, size, weights=weights)
    if folder is None:
        distinct, inverse = np.unique(rows, return_inverse=True)
        out: Features = np.empty((len(distinct), net.width), np.float32)
        _fill(net, collection, distinct, size, device, progress, out.__setitem__)
        return out[inverse]
    table, present = _open(Path(folder), collection, net, backbone, size)
    requested = np.unique(rows)
    missing = requested[~present[requested]]
    check_writable(table, len(missing))
    if len(missing) and say is not None:
        say(f"features {backbone}@{size} of {len(missing):,} of {len(rows):,} items are not cached: computing them "
            f"once, into {Path(folder) / 'features'}. Choose others, or a smaller size, with --features BACKBONE@SIZE.")

    def keep(chunk_rows: slice, values: Features) -> None:
        write_rows(table, missing[chunk_rows], values)  # the features first, then the mark that they are there
        write_rows(present, missing[chunk_rows], np.ones(len(values), np.bool_))

    _fill(net, collection, missing, size, device, progress, keep)
    return np.asarray(table[rows])


def _fill(net: Net, collection: Collection, rows: Ints, size: int, device: str, progress: Advance | None,
          keep: Callable[[slice, Features], None]) -> None:
    """Compute the features of rows, chunk by chunk, and hand each chunk over."""
    if not len(rows):
        return
    on_device = choose_device(device)
    body = fused(net.eval()).to(on_device)
    if net.channels_last:
        body = body.to(memory_format=torch.channels_last)
    scale = torch.tensor([net.mean, net.std], device=on_device)
    at_once = max(1, PIXELS_AT_ONCE // size**2) * (16 if on_device.type == "cuda" else 1)
    chunk = at_once * max(1, CHUNK // at_once)
    with torch.inference_mode():
        for start in range(0, len(rows), chunk):
            chunk_rows = slice(start, min(start + chunk, len(rows)))
            pixels = torch.from_numpy(images(collection, rows[chunk_rows], size))
            values = [body(augment(batch.to(on_device), "none", scale[0], scale[1])).float().cpu()
                      for batch in pixels.split(at_once)]
            keep(chunk_rows, torch.cat(values).numpy())
            if progress:
                progress(chunk_rows.stop, len(rows))


def fused(net: Net) -> nn.Module:
    """The features of a net with each batch norm folded into the convolution defined just before it: a third faster.

    In all our nets a norm defined right after a convolution also follows it in computation; DenseNet's others stay. A
    test compares the two. An outside net stays as it is.
    """
    body = copy.deepcopy(net.features)
    if net.outside:
        return body
    for module in list(body.modules()):
        children = list(module.named_children())
        for (name, conv), (after, norm) in pairwise(children):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, name, fuse_conv_bn_eval(conv, norm))
                setattr(module, after, nn.Identity())
    return body


def _open(folder: Path, collection: Collection, net: Net, backbone: str, size: int) -> tuple[Any, Any]:
    """The two memory-mapped files of a cache, created where missing: features, and which rows have them."""
    facts = {"backbone": backbone, "size": size, "resize": "bicubic", "mean": list(net.mean), "std": list(net.std),
             "weights": weights_digest(net), "items": digest({"items": collection.items}), "width": net.width}
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]", "_", backbone)  # an outside model's may hold characters that a folder's may not
    cache = folder / "features" / f"{name}@{size}-{key}"
    if not cache.is_dir():
        with making_folder(cache) as hidden:
            np.lib.format.open_memmap(hidden / "features.npy", "w+", np.float32, (len(collection), net.width)).flush()
            np.lib.format.open_memmap(hidden / "present.npy", "w+", np.bool_, (len(collection),)).flush()
            write_json(hidden / "features.json", facts)
    table = cached_rows(cache / "features.npy", (len(collection), net.width), np.float32)
    return table, cached_rows(cache / "present.npy", (len(collection),), np.bool_)
