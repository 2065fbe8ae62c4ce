"""Functions of tensors that WILDS' scripts import: groups and their means, and predictions from a model's outputs."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from shiftbench.core.arrays import positions
from shiftbench.core.backend import torch
from shiftbench.core.errors import ShiftBenchError

# Groups of tensors, their counts and means, and seeded draws, as in WILDS' `common.utils`

SUBSAMPLE, SHUFFLE = 541_433, 548_207
"""The offsets that the package adds to the seed of `subsample_idxs` and `shuffle_arr`."""


def minimum(numbers: Any, empty_val: float = 0.0) -> Any:
    """The least of a tensor, an array or a list, without NaN; `empty_val` where there is none."""
    return _extreme(numbers, empty_val, "min")


def maximum(numbers: Any, empty_val: float = 0.0) -> Any:
    """The largest of a tensor, an array or a list, without NaN; `empty_val` where there is none."""
    return _extreme(numbers, empty_val, "max")


def _extreme(numbers: Any, empty: float, which: str) -> Any:
    if isinstance(numbers, torch.Tensor):
        return getattr(numbers[~torch.isnan(numbers)], which)() if numbers.numel() else numbers.new_tensor(empty)
    if isinstance(numbers, np.ndarray):
        return getattr(np, f"nan{which}")(numbers) if numbers.size else np.asarray(empty)
    pick = min if which == "min" else max
    return pick(numbers) if len(numbers) else empty


def split_into_groups(g: Any) -> tuple[Any, list[Any], Any]:
    """The groups that are present, the positions of each one's items, and how many there are."""
    groups, counts = torch.unique(g, sorted=False, return_counts=True)
    return groups, [torch.nonzero(g == group, as_tuple=True)[0] for group in groups], counts


def get_counts(g: Any, n_groups: int) -> Any:
    """How many items each of the groups 0 … n_groups − 1 has, as 32-bit floats."""
    groups, counts = torch.unique(g, sorted=False, return_counts=True)
    sizes = torch.zeros(n_groups, device=g.device)
    sizes[groups] = counts.float()
    return sizes


def avg_over_groups(v: Any, g: Any, n_groups: int) -> tuple[Any, Any]:
    """The mean of `v` in every group, 0 where a group has no items, and the counts. Gradients flow to `v`."""
    if v.device != g.device or v.numel() != g.numel():
        raise ShiftBenchError(f"Values on {v.device} and groups on {g.device}: {v.numel()} and {g.numel()} of them. "
                              "Give as many of each, on one device.")
    counts = get_counts(g, n_groups)
    total = torch.zeros(n_groups, dtype=v.dtype, device=v.device).index_add(0, g, v)
    return total / counts.to(v.dtype).clamp(min=1), counts


def map_to_id_array(df: Any, ordered_map: Mapping[str, Sequence[Any]] | None = None) -> tuple[dict[str, Any], Any]:
    """A data frame's columns as numbers, −1 where a value has none, and what the numbers stand for.

    Values are numbered as they sort, or as `ordered_map` lists them.
    """
    maps: dict[str, Any] = {}
    ids = np.zeros(df.shape)
    for column, name in enumerate(df.columns):
        values = np.asarray(df[name])
        present = values[values == values]
        ordered = np.asarray((ordered_map or {})[name]) if name in (ordered_map or {}) else np.unique(present)
        maps[name] = ordered
        ids[:, column] = positions(values.astype(np.str_), ordered.astype(np.str_))
        ids[values != values, column] = -1
    return maps, ids


def subsample_idxs(idxs: Any, num: int = 5000, take_rest: bool = False, seed: int | None = None) -> Any:
    """The first `num` of the shuffled numbers, or all but those."""
    mixed = _shuffled(idxs, seed, SUBSAMPLE)
    return mixed[num:] if take_rest else mixed[:num]


def shuffle_arr(arr: Any, seed: int | None = None) -> Any:
    """A shuffled copy."""
    return _shuffled(arr, seed, SHUFFLE)


def _shuffled(values: Any, seed: int | None, offset: int) -> Any:
    mixed = values.copy()
    np.random.default_rng(None if seed is None else seed + offset).shuffle(mixed)
    return mixed


def threshold_at_recall(y_pred: Any, y_true: Any, global_recall: float = 60) -> Any:
    """The score above which a model finds `global_recall` per cent of the positives."""
    return np.percentile(y_pred[y_true == 1], 100 - global_recall)


def numel(obj: Any) -> int:
    """How many values a tensor has, or how many items a list."""
    if isinstance(obj, torch.Tensor):
        return int(obj.numel())
    if isinstance(obj, list):
        return len(obj)
    raise TypeError(f"A tensor or a list is needed, not {type(obj).__name__}.")


# A model's outputs: classes, scores, and labels for items that have none

Pseudolabels = tuple[Any, Any, Any, Any]
"""Outputs that are kept, their labels, the share that is kept, and which items those are."""


def binary_logits_to_score(logits: Any) -> Any:
    """The score of class 1: logits of one output as they are, of two their softmax."""
    if logits.dim() == 1:
        return logits
    if logits.dim() != 2 or logits.shape[1] != 2:
        raise ShiftBenchError(f"Logits of two classes are needed, not of the shape {tuple(logits.shape)}.")
    return torch.softmax(logits, dim=1)[:, 1]


def multiclass_logits_to_pred(logits: Any) -> Any:
    """The class of the largest logit, which is the last axis."""
    if logits.dim() < 2:
        raise ShiftBenchError("Logits need an axis of classes; these have one axis.")
    return logits.argmax(-1)


def binary_logits_to_pred(logits: Any) -> Any:
    return (logits > 0).long()


def pseudolabel_multiclass_logits(logits: Any, confidence_threshold: float) -> Pseudolabels:
    """The likeliest class where its probability reaches the threshold; other items are left out."""
    sure = torch.softmax(logits, -1).max(-1)[0] >= confidence_threshold
    return logits[sure], multiclass_logits_to_pred(logits)[sure], sure.sum() / sure.numel(), sure


def pseudolabel_binary_logits(logits: Any, confidence_threshold: float) -> Pseudolabels:
    """Each task's answer where its probability reaches the threshold, else NaN; items without any are left out."""
    if logits.dim() != 2:
        raise ShiftBenchError(f"Logits must be items × tasks, not of the shape {tuple(logits.shape)}.")
    positive = 1 / (1 + torch.exp(-logits))
    sure = torch.max(positive, 1 - positive) >= confidence_threshold
    labels = (logits > 0).float()
    labels[~sure] = float("nan")
    kept = sure.any(dim=1)
    return logits[kept], labels[kept], sure.sum() / sure.numel(), kept


def pseudolabel_identity(logits: Any, confidence_threshold: float) -> Pseudolabels:
    """Numbers are their own labels."""
    return logits, logits, 1, None


def pseudolabel_detection(preds: list[Any], confidence_threshold: float) -> Pseudolabels:
    """The boxes that score the threshold or more; an image may be left with none."""
    sure, share = _sure_boxes(preds, confidence_threshold)
    return sure, [_label(image) for image in sure], share, torch.ones(len(sure), dtype=torch.bool)


def pseudolabel_detection_discard_empty(preds: list[Any], confidence_threshold: float) -> Pseudolabels:
    """The boxes that score the threshold or more; an image without any is left out."""
    sure, share = _sure_boxes(preds, confidence_threshold)
    kept = [image for image in sure if len(image["labels"])]
    return kept, [_label(image) for image in kept], share, torch.tensor([len(image["labels"]) > 0 for image in sure])


def _sure_boxes(preds: list[Any], threshold: float) -> tuple[list[Any], Any]:
    """Each image's confident boxes, and their share of all boxes."""
    sure = []
    for image in preds:
        kept, image = image["scores"] >= threshold, copy(image)
        sure.append({**{key: image[key][kept] for key in ("boxes", "labels", "scores")}, "losses": image["losses"]})
    count = sum(len(image["scores"]) for image in preds)
    return sure, torch.tensor(sum(len(image["scores"]) for image in sure)) / count


def _label(image: Any) -> dict[str, Any]:
    return {"boxes": image["boxes"], "labels": image["labels"]}
