"""What WILDS' scripts make of a model's outputs: classes, scores, and labels for items that have none."""

from copy import copy
from typing import Any

import torch

from shiftbench.core.errors import ShiftBenchError

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
