"""Communities of subsets, and where to draw them: everything that igraph does for us.

MetaShift merges similar subsets by the Louvain algorithm, which moves one node at a time for as long as the modularity
of the weighted graph grows (paper, C.2). The order of the moves is drawn, so it is seeded here. The published code used
greedy modularity without weights instead; that is `greedy`.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import unknown
from shiftbench.core.rng import child

COMMUNITIES = ("louvain", "leiden", "greedy")


def communities(weights: Floats, method: str = "louvain", seed: int = 0) -> Ints:
    """The community of each node, numbered from the one with most nodes; a lone node is a community of its own."""
    if method not in COMMUNITIES:
        raise unknown("community method", method, COMMUNITIES)
    graph = _graph(weights)
    if not graph.ecount():
        return np.arange(len(weights))
    with _seeded(seed, "communities", method):
        if method == "louvain":
            found = graph.community_multilevel(weights="weight")
        elif method == "leiden":
            found = graph.community_leiden(objective_function="modularity", weights="weight", n_iterations=-1)
        else:
            found = graph.community_fastgreedy().as_clustering()
    labels = np.asarray(found.membership, np.int64)
    _, first, inverse, numbers = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    rank: Ints = np.zeros(len(first), np.int64)
    rank[np.lexsort((first, -numbers))] = np.arange(len(first))
    return rank[inverse]


def modularity(weights: Floats, labels: Ints) -> float:
    """Q = Σ_ij (A_ij − k_i k_j / 2m) 1[c_i = c_j] / 2m, with 2m the sum of A and k its rows' sums."""
    adjacency = weights - np.diag(np.diag(weights))
    total, degree = adjacency.sum(), adjacency.sum(axis=1)
    if total == 0:
        return 0.0
    same = labels[:, None] == labels
    return float(((adjacency - np.outer(degree, degree) / total) * same).sum() / total)


def merge(points: Floats, sizes: Ints, labels: Ints) -> Floats:
    """Row c is the mean of the points with label c, weighted by the sizes of their subsets (paper, section 4.1)."""
    weight = np.bincount(labels, weights=sizes)
    total: Floats = np.zeros((len(weight), points.shape[1]))
    np.add.at(total, labels, points * sizes[:, None])
    return total / weight[:, None]


def layout(weights: Floats, seed: int = 0) -> Floats:
    """Positions in the unit square for a drawing: nodes that overlap much attract each other."""
    graph = _graph(weights)
    with _seeded(seed, "layout"):
        places = np.asarray(graph.layout_fruchterman_reingold(weights="weight" if graph.ecount() else None, niter=1000)
                            .coords, np.float64).reshape(-1, 2)
    span = np.ptp(places, axis=0)
    return (places - places.min(axis=0)) / np.where(span > 0, span, 1.0) if len(places) > 1 else np.full((1, 2), 0.5)


def _graph(weights: Floats) -> Any:
    import igraph

    one, other = np.nonzero(np.triu(weights, 1))
    graph = igraph.Graph(len(weights), np.stack([one, other], axis=1).tolist())
    graph.es["weight"] = weights[one, other].tolist()
    return graph


@contextmanager
def _seeded(seed: int, *purpose: str) -> Iterator[None]:
    """igraph draws from one global generator; lend it a stream of ours and give Python's back."""
    import igraph

    igraph.set_random_number_generator(random.Random(int(child(seed, *purpose).integers(2**62))))  # noqa: S311
    try:
        yield
    finally:
        igraph.set_random_number_generator(random)
