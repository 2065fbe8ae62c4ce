"""Features of a frozen backbone, computed once per item and kept in a memory-mapped file beside the collection."""

import copy
import hashlib
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from shiftbench.core.arrays import Ints, cached_rows, check_writable, digest, write_rows
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import making_folder, write_json
from shiftbench.data.collection import Collection
from shiftbench.images.augment import augment
from shiftbench.images.decode import images
from shiftbench.models.names import backbone as check_backbone
from shiftbench.models.net import MODELS, Net, build
from shiftbench.models.weights import weights_digest
from shiftbench.training.device import choose_device

Features = npt.NDArray[np.float32]
Report = Callable[[int, int], None]
Say = Callable[[str], None]

PIXELS_AT_ONCE = 600_000
"""Per forward pass on a CPU: 12 images of 224 px, 36 of 128. More would not fit its cache, and is slower."""

CHUNK = 256
"""Images per write to disk and per report of progress."""


def embed(
    collection: Collection,
    rows: Ints,
    backbone: str = "efficientnet-lite0",
    size: int = 224,
    folder: Path | str | None = None,
    progress: Report | None = None,
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


def _fill(net: Net, collection: Collection, rows: Ints, size: int, device: str, progress: Report | None,
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
