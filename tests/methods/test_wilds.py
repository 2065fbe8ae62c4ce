"""CORAL and IRM on tokens and tasks as WILDS computes them: its published formulas, written again in numpy.

WILDS makes one list of a domain's features (every place of every item) and one of its losses (every labelled cell, item
by item), and averages over domains and pairs of them.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.data.target import KINDS, NO_LABEL
from shiftbench.methods import Batch
from shiftbench.methods.alignment import coral_penalty
from shiftbench.methods.irm import invariance
from tests.toys import method_of, net_of, ten_rows

DOMAIN = np.asarray([0, 1, 0, 2, 1, 0, 2, 1])
DOMAINS = torch.from_numpy(DOMAIN)
SEEDS = st.integers(0, 10**6)


def coral(z: np.ndarray, domain: np.ndarray) -> float:
    """Mean over pairs of domains of mean (mu_a - mu_b)^2 + mean (C_a - C_b)^2, over the d and d × d entries."""
    lists = [z[domain == code].reshape(-1, z.shape[-1]) for code in np.unique(domain)]
    return float(np.mean([((a.mean(0) - b.mean(0)) ** 2).mean()
                          + ((np.cov(a, rowvar=False) - np.cov(b, rowvar=False)) ** 2).mean()
                          for place, a in enumerate(lists) for b in lists[place + 1:]]))


def irm(slopes: np.ndarray, known: np.ndarray, domain: np.ndarray) -> float:
    """Mean over domains of the product of the mean slopes over even and odd places of the domain's list."""
    lists = [slopes[domain == code][known[domain == code]] for code in np.unique(domain)]
    return float(np.mean([one[0::2].mean() * one[1::2].mean() for one in lists]))


def cross_entropy(logits: np.ndarray, label: np.ndarray) -> np.ndarray:
    chosen = np.take_along_axis(logits, label[..., None], axis=-1)[..., 0]
    return np.log(np.exp(logits).sum(axis=-1)) - chosen


def by_differences(loss, outputs: np.ndarray) -> np.ndarray:
    """d/dw loss(w outputs) at w = 1."""
    h = 1e-5
    return (loss((1 + h) * outputs) - loss((1 - h) * outputs)) / (2 * h)


def batch_of(label: np.ndarray, kind: str) -> Batch:
    domain = torch.from_numpy(DOMAIN)
    return Batch(domain, torch.from_numpy(label), domain, domain, domain, loss=KINDS[kind].loss)


@given(seed=SEEDS)
def test_coral_takes_every_place_as_a_row(seed):
    """On features of places the penalty is that of all places in one list, not that of the items' means."""
    z = np.random.default_rng(seed).normal(size=(8, 5, 3)) * np.linspace(0.5, 2, 5)[:, None]
    assert float(coral_penalty(torch.from_numpy(z), torch.from_numpy(DOMAIN), 3)) == pytest.approx(coral(z, DOMAIN))


def test_coral_of_places_is_not_coral_of_their_means():
    """The penalty of the items' means is another number."""
    z = np.random.default_rng(0).normal(size=(8, 5, 3)) * np.linspace(0.5, 2, 5)[:, None]
    assert abs(coral(z.mean(axis=1), DOMAIN) - coral(z, DOMAIN)) > 1e-3


def test_coral_on_places_of_many_domains_is_that_of_those_in_the_batch():
    """Thousands of domains cost nothing and change nothing; a domain with one item has as many rows as places."""
    z = np.random.default_rng(0).normal(size=(4, 5, 3))
    domain = np.asarray([0, 7000, 0, 12])
    assert float(coral_penalty(torch.from_numpy(z), torch.from_numpy(domain), 9000)) == pytest.approx(coral(z, domain))


@given(seed=SEEDS)
def test_irm_halves_the_labelled_tasks(seed):
    """Of tasks with gaps, even and odd are counted over the labelled cells of a domain, item by item."""
    rng = np.random.default_rng(seed)
    outputs, label = rng.normal(size=(8, 4)), rng.integers(0, 2, (8, 4)).astype(float)
    known = rng.random((8, 4)) < 0.7
    known[:, 0] = True  # WILDS has no number for a domain with a single label
    slopes = by_differences(lambda out: np.log1p(np.exp(out)) - label * out, outputs)
    found = invariance(torch.from_numpy(outputs), batch_of(np.where(known, label, np.nan), "tasks"), DOMAINS, 3)
    assert float(found) == pytest.approx(irm(slopes, known, DOMAIN), rel=1e-3, abs=1e-6)


def test_irm_by_cells_is_not_irm_by_items():
    """The penalty that halves by items, each with the mean of its tasks, is another number."""
    rng = np.random.default_rng(0)
    outputs, label = rng.normal(size=(8, 4)), rng.integers(0, 2, (8, 4)).astype(float)
    slopes = (1 / (1 + np.exp(-outputs)) - label) * outputs
    by_items = irm(slopes.mean(axis=1, keepdims=True), np.ones((8, 1), bool), DOMAIN)
    found = float(invariance(torch.from_numpy(outputs), batch_of(label, "tasks"), DOMAINS, 3))
    assert found == pytest.approx(irm(slopes, np.ones((8, 4), bool), DOMAIN), rel=1e-4)
    assert abs(found - by_items) > 1e-3


@given(seed=SEEDS)
def test_irm_halves_the_labelled_tokens(seed):
    """Tokens are counted the same way; those without a label are not there."""
    rng = np.random.default_rng(seed)
    outputs, label = rng.normal(size=(8, 5, 4)), rng.integers(0, 4, (8, 5))
    known = rng.random((8, 5)) < 0.7
    known[:, 0] = True
    slopes = by_differences(lambda out: cross_entropy(out, label), outputs)
    found = invariance(torch.from_numpy(outputs), batch_of(np.where(known, label, NO_LABEL), "tokens"), DOMAINS, 3)
    assert float(found) == pytest.approx(irm(slopes, known, DOMAIN), rel=1e-3, abs=1e-6)


def test_irm_averages_its_risk_over_items():
    """Its risk is ERM's, each domain counted by its items: as its docstring says, and unlike WILDS' mean of domains."""
    _, batch, task = ten_rows()
    net, method = net_of(), method_of("irm", penalty=0.0)
    losses = cross_entropy(net(batch.x).detach().numpy(), batch.label.numpy())
    domain = batch.domain.numpy()
    by_domain = np.mean([losses[domain == code].mean() for code in (0, 1)])
    found = float(method.loss(net, batch, method.state(task), 0).detach())
    assert found == pytest.approx(losses.mean(), rel=1e-5)
    assert abs(found - by_domain) > 1e-3
