"""Losses by kind of target: what each is, and its slope."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.data.target import KINDS, NO_LABEL, TaskTarget, TokenTarget
from shiftbench.methods.alignment import coral_penalty
from shiftbench.methods.method import LOSSES, OUTPUTS, Batch, per_item


def drawn(kind: str, seed: int, n: int = 6, wide: int = 4, long: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs and targets of a kind, some of the latter without a label."""
    rng = np.random.default_rng(seed)
    outputs = rng.normal(size=(n, long, wide) if kind == "tokens" else (n, wide))
    if kind == "class":
        target = rng.integers(0, wide, n)
    elif kind == "tokens":
        target = np.where(rng.random((n, long)) < 0.3, NO_LABEL, rng.integers(0, wide, (n, long)))
    elif kind == "number":
        target = rng.normal(size=(n, wide))
    else:
        target = np.where(rng.random((n, wide)) < 0.4, np.nan, rng.integers(0, 2, (n, wide)))
    return torch.from_numpy(outputs), torch.from_numpy(target)


@pytest.mark.parametrize("kind", OUTPUTS)
@given(seed=st.integers(0, 10**6))
def test_the_slope_is_the_derivative_by_a_common_scale(kind, seed):
    """Over an item's labelled cells the slopes have the mean d/dw l(w f, y) at w = 1, as autograd finds it."""
    outputs, target = drawn(kind, seed)
    scale = torch.ones(len(outputs), dtype=torch.float64, requires_grad=True)
    stretched = outputs * scale.view(-1, *[1] * (outputs.ndim - 1))
    (wanted,) = torch.autograd.grad(LOSSES[KINDS[kind].loss].per_item(stretched, target).sum(), scale)
    slopes, known = LOSSES[KINDS[kind].loss].slopes(outputs, target), LOSSES[KINDS[kind].loss].known(target)
    assert slopes.shape == known.shape
    torch.testing.assert_close((slopes * known).sum(dim=1) / known.sum(dim=1).clamp(min=1), wanted)


@given(seed=st.integers(0, 10**6))
def test_a_task_without_a_label_is_as_if_it_were_not_there(seed):
    """The loss of an item is the mean over its own labelled tasks, whatever the net says about the others."""
    outputs, target = drawn("tasks", seed)
    each = LOSSES[TaskTarget.loss].per_item(outputs, target)
    for row in range(len(outputs)):
        known = ~torch.isnan(target[row])
        wanted = F.binary_cross_entropy_with_logits(outputs[row][known], target[row][known]) if known.any() else 0.0
        assert float(each[row]) == pytest.approx(float(wanted))


@given(seed=st.integers(0, 10**6))
def test_a_place_without_a_label_is_as_if_it_were_not_there(seed):
    """The loss of a row of tokens is the mean over its labelled places."""
    outputs, label = drawn("tokens", seed)
    each = LOSSES[TokenTarget.loss].per_item(outputs, label)
    for row in range(len(outputs)):
        known = label[row] != NO_LABEL
        wanted = F.cross_entropy(outputs[row][known], label[row][known]) if known.any() else 0.0
        assert float(each[row]) == pytest.approx(float(wanted))


def test_no_gap_makes_a_gradient_that_is_no_number():
    """NaN labels reach neither the loss nor its gradient."""
    outputs, target = drawn("tasks", 3)
    target[0] = torch.nan
    outputs.requires_grad_()
    LOSSES[TaskTarget.loss].per_item(outputs, target).sum().backward()
    assert torch.isfinite(outputs.grad).all()
    assert (outputs.grad[torch.isnan(target)] == 0).all()


def test_an_item_weighs_its_loss():
    """`per_item` multiplies by the batch's weights, for every kind."""
    for kind in OUTPUTS:
        outputs, target = drawn(kind, 5)
        weight = torch.rand(len(outputs), dtype=torch.float64)
        none = torch.zeros(len(outputs), dtype=torch.int64)
        batch = Batch(outputs, target, none, none, none, None, None, KINDS[kind].loss)
        torch.testing.assert_close(per_item(outputs, batch._replace(weight=weight)), weight * per_item(outputs, batch))


@given(seed=st.integers(0, 10**6))
def test_coral_of_many_domains_is_that_of_those_in_the_batch(seed):
    """With more domains than rows the penalty is the same as if only the batch's domains existed."""
    rng = np.random.default_rng(seed)
    z, domain = torch.from_numpy(rng.normal(size=(8, 3))), torch.from_numpy(rng.integers(0, 3, 8))
    torch.testing.assert_close(coral_penalty(z, domain * 1000, 3000), coral_penalty(z, domain, 3))
