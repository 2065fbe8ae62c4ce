"""How good a net is on some rows while it learns: a few plain numbers by what is predicted."""

from collections.abc import Mapping
from itertools import chain

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shiftbench.arrays import Floats, Ints
from shiftbench.methods.losses import LOSSES
from shiftbench.metrics.average_precision import mean_average_precision
from shiftbench.metrics.correlation import pearson, pearson_by_group
from shiftbench.metrics.detection import detection_accuracy
from shiftbench.models.base import Net
from shiftbench.target import NO_LABEL
from shiftbench.training.data import Data

WORDS: Mapping[str, str] = {"class": "a class", "number": "numbers", "tasks": "yes or no of several tasks",
                            "boxes": "boxes", "tokens": "the next token"}
HEADLINE: Mapping[str, str] = {"class": "accuracy", "number": "r", "tasks": "mean_ap", "boxes": "detection_accuracy",
                               "tokens": "accuracy"}
"""What weights are chosen on, where the run's `select_on` is not one of the measured."""


def judged(data: Data, net: Net, rows: Ints, precision: str = "float32") -> dict[str, float]:
    """The measures of these rows; `loss` where there is one of the outputs."""
    if data.kind == "boxes":
        found = list(chain.from_iterable(data.each(net.found, net, rows, precision)))
        truth = [one[~one.isnan().any(dim=1)].cpu().numpy() for one in data.truth[torch.from_numpy(rows)]]
        boxes, scores = ([part.cpu().numpy() for part in parts] for parts in zip(*found, strict=True))
        each = detection_accuracy(truth, boxes, scores)
        return {"detection_accuracy": float(each.mean())}
    if data.kind == "tokens":
        return _tokens(data, net, rows, precision)
    outputs = data.outputs(net, rows, precision)
    if data.kind == "class":
        return measure(outputs, data.benchmark.label[rows], data.benchmark.group[rows])
    truth = data.truth[torch.from_numpy(rows).to(data.device)].cpu()
    loss = {"loss": float(LOSSES[data.kind].per_item(outputs, truth).mean())}
    y, f = truth.double().numpy(), outputs.double().numpy()
    if data.kind == "tasks":
        return {"mean_ap": _number(mean_average_precision(y, f)), **loss}
    codes, group = np.unique(data.benchmark.group[rows], return_inverse=True)
    columns = range(y.shape[1])
    within = np.mean([pearson_by_group(y[:, k], f[:, k], group, len(codes)) for k in columns], axis=0)
    known = within[np.isfinite(within)]  # a group of one item has no r
    return {"r": _number(float(np.mean([pearson(y[:, k], f[:, k]) for k in columns]))),
            "worst_group": float(known.min()) if len(known) else -1.0, **loss}


def _tokens(data: Data, net: Net, rows: Ints, precision: str) -> dict[str, float]:
    """Over all labelled places; a place's outputs are one per token, so they are not kept."""
    right = known = 0
    loss = 0.0
    place = iter(torch.from_numpy(rows).to(data.device).split(data.at_once))
    for outputs in data.each(net, net, rows, precision):
        label = data.truth[next(place)]
        loss += float(LOSSES["tokens"].per_item(outputs, label).sum())
        right += int((outputs.argmax(dim=2) == label).sum())
        known += int((label != NO_LABEL).sum())
    return {"accuracy": right / max(1, known), "loss": loss / max(1, len(rows))}


def _number(value: float) -> float:
    """What cannot be told (one value only, no task with both labels) ranks below everything."""
    return value if np.isfinite(value) else -1.0


def measure(logits: Tensor, label: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Accuracy, accuracy of the worst group that has items, macro F1 over the classes that are there, and mean
    cross-entropy."""
    truth, said = torch.from_numpy(label), logits.argmax(dim=1).numpy()
    right: Floats = (said == label).astype(np.float64)
    hits = np.bincount(label, right, minlength=logits.shape[1])
    both = np.bincount(label, minlength=logits.shape[1]) + np.bincount(said, minlength=logits.shape[1])
    count = np.bincount(group)
    by_group = np.bincount(group, right)[count > 0] / count[count > 0]
    return {"accuracy": float(right.mean()), "worst_group": float(by_group.min()),
            "macro_f1": float((2 * hits[both > 0] / both[both > 0]).mean()),
            "loss": float(F.cross_entropy(logits, truth))}
