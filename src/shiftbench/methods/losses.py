"""The loss of an item by what is predicted, and how it grows with the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from shiftbench.core.later import F, torch
from shiftbench.data.target import NO_LABEL

if TYPE_CHECKING:
    from torch import Tensor


class Loss(NamedTuple):
    """`per_item(f, y)` is the loss l(f, y) of each item: the mean over its labelled cells.

    A cell is what one label stands for: the item's class or its numbers, one of its tasks, one of its tokens.
    `slopes(f, y)`, items × cells, is d/dw l(w f, y) at w = 1 of each cell, for IRM; `known(y)` says which cells have a
    label.
    """

    per_item: Callable[[Tensor, Tensor], Tensor]
    slopes: Callable[[Tensor, Tensor], Tensor]
    known: Callable[[Tensor], Tensor]


def class_losses(outputs: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy: log sum_c exp(f_c) - f_y."""
    return F.cross_entropy(outputs, label, reduction="none")


def class_slopes(outputs: Tensor, label: Tensor) -> Tensor:
    """With p = softmax(f): sum_c p_c f_c - f_y."""
    return (outputs.softmax(dim=-1) * outputs).sum(dim=-1, keepdim=True) - outputs.gather(-1, label[..., None])


def number_losses(outputs: Tensor, target: Tensor) -> Tensor:
    """Squared error, mean over the outputs."""
    return ((outputs - target) ** 2).mean(dim=1)


def number_slopes(outputs: Tensor, target: Tensor) -> Tensor:
    return (2 * (outputs - target) * outputs).mean(dim=1, keepdim=True)


def task_losses(outputs: Tensor, target: Tensor) -> Tensor:
    """Binary cross-entropy, mean over the item's own labelled tasks; 0 for an item that has none.

    WILDS takes the mean over all labelled cells of a batch, by which an item with many labels counts for more.
    """
    known, truth = _known(target)
    return _mean(F.binary_cross_entropy_with_logits(outputs, truth.to(outputs.dtype), reduction="none"), known)


def task_slopes(outputs: Tensor, target: Tensor) -> Tensor:
    _, truth = _known(target)
    return (outputs.sigmoid() - truth) * outputs


def token_losses(outputs: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy of the next token, mean over the item's labelled places."""
    losses = F.cross_entropy(outputs.transpose(1, 2), label, ignore_index=NO_LABEL, reduction="none")
    return _mean(losses, label != NO_LABEL)


def token_slopes(outputs: Tensor, label: Tensor) -> Tensor:
    return class_slopes(outputs, label.clamp(min=0)).squeeze(-1)


def one_cell(target: Tensor) -> Tensor:
    return torch.ones((len(target), 1), dtype=torch.bool, device=target.device)


def _known(target: Tensor) -> tuple[Tensor, Tensor]:
    known = ~torch.isnan(target)
    return known, torch.where(known, target, torch.zeros_like(target))


def _mean(values: Tensor, known: Tensor) -> Tensor:
    return (values * known).sum(dim=1) / known.sum(dim=1).clamp(min=1)


LOSSES: Mapping[str, Loss] = {
    "class": Loss(class_losses, class_slopes, one_cell),
    "number": Loss(number_losses, number_slopes, one_cell),
    "tasks": Loss(task_losses, task_slopes, lambda target: ~torch.isnan(target)),
    "tokens": Loss(token_losses, token_slopes, lambda label: label != NO_LABEL),
}
"""By the kind of target. A detector's loss is its own."""
