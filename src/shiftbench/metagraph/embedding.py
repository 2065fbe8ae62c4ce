"""Where the subsets of a class lie: the spectral embedding of a meta-graph (MetaShift, step 3).

    min tr(XᵀLX) = λ2 + … + λK+1    over X with Xᵀ1 = 0 and XᵀX = I,    L = D − A        (equations 2 to 4)

reached by the eigenvectors of the K smallest eigenvalues after the first. Euclidean distances between rows of X must
not depend on the order of the nodes, which takes three rules that the paper leaves open:

- Equal eigenvalues have no eigenvectors of their own, only a common space. Distances are the same for every basis of a
  whole eigenspace, so where K would cut through one, K is extended to its end.
- A graph of c components has the eigenvalue 0 c times. The c − 1 axes beyond the constant one say only in which
  component a node lies. They are all kept and do not count towards K; otherwise six lone nodes would use up K = 5.
- Inside an eigenspace the first axis points to the node that lies farthest out, the next to the farthest of the rest,
  and so on, the first in order among equals. This also fixes every sign: that node's coordinate is positive.
"""

from collections.abc import Callable

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError, unknown

Embedding = Callable[[Floats], Floats]  # weights (n × n) -> coordinates (n × any), for Node2Vec and its like
SCALINGS = ("orthonormal", "unit")
TIE = 1e-8  # eigenvalues closer than this share of the largest, and lengths closer than this share, are equal


def spectral(weights: Floats, dims: int = 5, scaling: str = "unit") -> Floats:
    """Coordinates of the nodes of a weighted graph, one row each; `dims` is K.

    `orthonormal` is equation 2 as it stands. `unit` divides all coordinates by the largest absolute one, as networkx's
    spectral layout does, with which the paper's distances were made. The axes that tell components apart are divided by
    their own largest, so that a lone node, far from everything, does not shrink the rest of the graph to a point.
    """
    if scaling not in SCALINGS:
        raise unknown("scaling", scaling, SCALINGS)
    if dims < 1:
        raise ShiftBenchError(f"A spectral embedding needs at least 1 dimension, not {dims}.")
    adjacency = _checked(weights)
    values, vectors = np.linalg.eigh(np.diag(adjacency.sum(axis=1)) - adjacency)
    component = components(adjacency)
    numbers = np.bincount(component)
    c, n = len(numbers), len(adjacency)
    # the indicators of the components, made orthogonal to the constant vector: n × c numbers of rank c - 1
    indicator = (component[:, None] == np.arange(c)) / np.sqrt(numbers) - np.sqrt(numbers) / n
    apart = canonical(indicator, c - 1)
    tie = TIE * max(float(values[-1]), 1e-300)
    last = min(c + dims, n)
    while last < n and values[last] - values[last - 1] <= tie:
        last += 1
    breaks = np.flatnonzero(np.diff(values[c:last]) > tie) + c + 1
    spaces = [vectors[:, low:high] for low, high in zip([c, *breaks], [*breaks, last], strict=True)]
    within = np.concatenate([canonical(space, space.shape[1]) for space in spaces], axis=1)
    if scaling == "unit":
        apart, within = (block / max(float(np.abs(block).max(initial=0.0)), 1e-300) for block in (apart, within))
    return np.concatenate([apart, within], axis=1)


def canonical(space: Floats, rank: int) -> Floats:
    """The same points on axes of their own choice: each axis points to the farthest node that remains.

    A law of the points alone: any rotation of `space` gives the same result, and a permutation permutes its rows.
    """
    rest, axes = space.copy(), np.zeros((len(space), rank))
    for axis in range(rank):
        length = np.einsum("ij,ij->i", rest, rest)
        pivot = int(np.argmax(length >= length.max() * (1 - TIE)))
        direction = rest[pivot] / np.sqrt(length[pivot])
        axes[:, axis] = rest @ direction
        rest -= np.outer(axes[:, axis], direction)
    return axes


def components(weights: Floats) -> Ints:
    """The connected component of each node, numbered by their first nodes."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    return np.asarray(connected_components(csr_array(weights > 0), directed=False)[1], np.int64)


def embed(weights: Floats, embedding: Embedding) -> Floats:
    """Coordinates from a function of the user's own, checked."""
    points = np.asarray(embedding(weights), np.float64)
    if points.ndim != 2 or len(points) != len(weights) or not np.isfinite(points).all():
        raise ShiftBenchError(f"An embedding must give one row of finite numbers for each of {len(weights)} subsets; "
                              f"got an array of shape {points.shape}.")
    return points


def _checked(weights: Floats) -> Floats:
    adjacency = np.array(weights, np.float64)
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1] or not len(adjacency):
        raise ShiftBenchError(f"The weights of a graph are a square matrix of one node or more, not {adjacency.shape}.")
    if not np.isfinite(adjacency).all() or (adjacency < 0).any() or not np.allclose(adjacency, adjacency.T):
        raise ShiftBenchError("The weights of a graph must be finite, at least 0 and symmetric.")
    np.fill_diagonal(adjacency, 0.0)
    return adjacency
