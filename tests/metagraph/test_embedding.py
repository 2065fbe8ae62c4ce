"""The spectral embedding: what the paper's equations say, and that no order of nodes shows in a distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag

from shiftbench.core.errors import ShiftBenchError
from shiftbench.metagraph.graph import _own_embedding as embed
from shiftbench.metagraph.graph import components, spectral
from tests.strategies import seeds

quick = settings(max_examples=40, deadline=None)


def ring(n: int) -> np.ndarray:
    step = np.roll(np.eye(n), 1, axis=0)
    return np.minimum(step + step.T, 1.0)


def clique(n: int, weight: float = 1.0) -> np.ndarray:
    return weight * (np.ones((n, n)) - np.eye(n))


def star(n: int) -> np.ndarray:
    weights = np.zeros((n, n))
    weights[0, 1:] = weights[1:, 0] = 0.5
    return weights


def random_graph(seed: int, n: int = 14, density: float = 0.35) -> np.ndarray:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.uniform(0.1, 1, (n, n)) * (rng.random((n, n)) < density), 1)
    return upper + upper.T


def connected_graph(seed: int, n: int = 14) -> np.ndarray:
    weights = random_graph(seed, n)
    path = np.arange(n - 1)
    weights[path, path + 1] = weights[path + 1, path] = np.maximum(weights[path, path + 1], 0.3)
    return weights


def laplacian(weights: np.ndarray) -> np.ndarray:
    return np.diag(weights.sum(axis=1)) - weights


def apart(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points[:, None] - points[None], axis=2)


SYMMETRIC = {
    "ring": ring(9), "clique": clique(7), "star": star(8), "two equal cliques": block_diag(clique(4), clique(4)),
    "three parts": block_diag(ring(5), clique(3, 0.4), star(4)), "lone nodes": block_diag(ring(6), np.zeros((4, 4))),
    "no edges": np.zeros((5, 5)), "one node": np.zeros((1, 1)), "one edge": clique(2, 0.7),
    "many lone nodes": block_diag(connected_graph(1), np.zeros((9, 9))),
}


@quick
@given(seeds, st.integers(1, 13))
def test_the_minimum_of_the_paper_is_reached(seed, dims):
    """Xᵀ1 = 0, XᵀX = I and tr(XᵀLX) = λ2 + … + λK+1 on a connected graph (equations 2 to 4)."""
    weights = connected_graph(seed)
    x = spectral(weights, dims, "orthonormal")
    assert x.shape == (14, dims)
    assert np.allclose(x.sum(axis=0), 0, atol=1e-9)
    assert np.allclose(x.T @ x, np.eye(dims), atol=1e-9)
    assert np.isclose(np.trace(x.T @ laplacian(weights) @ x), np.linalg.eigvalsh(laplacian(weights))[1:dims + 1].sum())


@pytest.mark.parametrize("weights", SYMMETRIC.values(), ids=SYMMETRIC)
def test_the_constraints_hold_on_any_graph(weights):
    """Components, lone nodes and equal eigenvalues: still centred, orthonormal and the smallest trace for its size."""
    x = spectral(weights, 3, "orthonormal")
    assert np.allclose(x.sum(axis=0), 0, atol=1e-9)
    assert np.allclose(x.T @ x, np.eye(x.shape[1]), atol=1e-9)
    values = np.linalg.eigvalsh(laplacian(weights))
    assert np.isclose(np.trace(x.T @ laplacian(weights) @ x), values[1:x.shape[1] + 1].sum())


@pytest.mark.parametrize("scaling", ["unit", "orthonormal"])
@pytest.mark.parametrize("weights", SYMMETRIC.values(), ids=SYMMETRIC)
@quick
@given(seeds, st.integers(1, 6))
def test_distances_do_not_depend_on_the_order_of_symmetric_graphs(weights, scaling, seed, dims):
    """Where eigenvalues are equal or components many, permuting the nodes permutes the distances and nothing else."""
    order = np.random.default_rng(seed).permutation(len(weights))
    there = apart(spectral(weights[np.ix_(order, order)], dims, scaling))
    assert np.allclose(there, apart(spectral(weights, dims, scaling))[np.ix_(order, order)], atol=1e-6)


@quick
@given(seeds, st.sampled_from(["unit", "orthonormal"]), st.floats(0, 0.5), st.integers(1, 6))
def test_distances_do_not_depend_on_the_order_of_random_graphs(seed, scaling, density, dims):
    """The same on graphs of any density, most of them in pieces."""
    weights = random_graph(seed, 12, density)
    order = np.random.default_rng(seed).permutation(12)
    there = apart(spectral(weights[np.ix_(order, order)], dims, scaling))
    assert np.allclose(there, apart(spectral(weights, dims, scaling))[np.ix_(order, order)], atol=1e-6)


@quick
@given(seeds)
def test_unit_is_the_layout_that_the_paper_used(seed):
    """On a connected graph with simple eigenvalues: eigenvectors 2 to 6, centred, over the largest absolute entry."""
    weights = connected_graph(seed)
    values, vectors = np.linalg.eig(laplacian(weights))
    plain = np.real(vectors[:, np.argsort(values)[1:6]])
    plain -= plain.mean(axis=0)
    plain /= np.abs(plain).max()
    found = spectral(weights, 5, "unit")
    assert np.abs(found).max() == pytest.approx(1)
    assert np.allclose(apart(found), apart(plain), atol=1e-6)


@quick
@given(seeds)
def test_signs_are_canonical(seed):
    """The largest coordinate of every axis is positive, so the same graph is never drawn mirrored."""
    x = spectral(connected_graph(seed), 5)
    assert (x[np.abs(x).argmax(axis=0), np.arange(5)] > 0).all()


def test_a_cut_through_an_eigenspace_is_extended():
    """A clique has one eigenvalue beside 0: any K gives all its axes, and all nodes lie equally far apart."""
    x = spectral(clique(7), 2, "orthonormal")
    assert x.shape == (7, 6)
    assert np.allclose(apart(x)[np.triu_indices(7, 1)], np.sqrt(2))


def test_components_do_not_use_up_the_dimensions():
    """Ten lone nodes beside a graph leave its inner distances as they are, and lie far from it."""
    weights = connected_graph(5)
    alone, beside = spectral(weights, 5), spectral(block_diag(weights, np.zeros((10, 10))), 5)
    assert np.allclose(apart(beside)[:14, :14], apart(alone), atol=1e-8)
    assert apart(beside)[:14, 14:].min() > 0.9


def test_components_are_found():
    """Nodes joined by a path share a number; a lone node has its own."""
    assert components(block_diag(ring(3), clique(2), np.zeros((1, 1)))).tolist() == [0, 0, 0, 1, 1, 2]


def test_another_embedding_can_be_plugged_in():
    """Any function from weights to rows of numbers will do; what it returns is checked."""
    assert np.array_equal(embed(ring(4), lambda weights: weights[:, :2]), ring(4)[:, :2])
    with pytest.raises(ShiftBenchError, match="one row of finite numbers for each of 4 subsets"):
        embed(ring(4), lambda weights: weights[:2])
    with pytest.raises(ShiftBenchError, match="finite"):
        embed(ring(4), lambda weights: weights * np.nan)


@pytest.mark.parametrize(("weights", "message"), [
    (np.zeros((0, 0)), "one node or more"), (np.zeros((2, 3)), "square"), (-clique(3), "at least 0"),
    (np.triu(clique(3)), "symmetric"), (clique(3) * np.nan, "finite")])
def test_weights_are_checked(weights, message):
    """A matrix that is no weighted graph is refused with what is wrong."""
    with pytest.raises(ShiftBenchError, match=message):
        spectral(weights)


def test_scaling_and_dimensions_are_checked():
    """An unknown scaling is answered with the known ones, no dimension at all is refused."""
    with pytest.raises(ShiftBenchError, match=r"Did you mean 'unit'\?"):
        spectral(ring(4), scaling="units")
    with pytest.raises(ShiftBenchError, match="at least 1 dimension"):
        spectral(ring(4), 0)
