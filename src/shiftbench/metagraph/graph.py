"""The meta-graph of a class: its subsets as nodes, their overlaps as edges, communities, and how far apart they lie.

    overlap(X, Y) = |X ∩ Y| / min(|X|, |Y|)                                               (MetaShift, equation 1)

Communities: MetaShift merges similar subsets by the Louvain algorithm, which moves one node at a time for as long as
the modularity of the weighted graph grows (paper, C.2). The order of the moves is drawn, so it is seeded here. The
published code used greedy modularity without weights instead; that is `greedy`.

Embedding (step 3):

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

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from shiftbench.core.arrays import Floats, Ints, child, in_short
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.metagraph.subsets import Candidates, candidates, parse_subset, subset_name, union

COMMUNITIES = ("louvain", "leiden", "greedy")
SCALINGS = ("orthonormal", "unit", "diffusion")
COMPARABLE = 0.01
"""Smallest subset, as a share of its class, of a graph whose distances are compared between sizes of a collection."""
TIE = 1e-8  # eigenvalues closer than this share of the largest, and lengths closer than this share, are equal
_GENERATOR = Lock()
Embedding = Callable[[Floats], Floats]  # weights (n × n) -> coordinates (n × any), for Node2Vec and its like


@dataclass(frozen=True, eq=False)
class MetaGraph:
    """The meta-graph of class `cls`: node v is the subset `cls(names[v])` of `sizes[v]` items.

    `weights`      overlaps (equation 1), 0 where below `threshold` and on the diagonal
    `communities`  the community of each node, from the largest
    `embedding`    coordinates of each node; distances are Euclidean
    """

    cls: str
    names: tuple[str, ...]
    sizes: Ints
    weights: Floats
    communities: Ints
    embedding: Floats
    threshold: float

    def __repr__(self) -> str:
        largest = (self.names[node] for node in np.argsort(-self.sizes, kind="stable"))
        return (f"MetaGraph('{self.cls}': {len(self):,} subsets, {self.edges:,} edges of at least {self.threshold:g}, "
                f"{len(np.unique(self.communities)):,} communities; largest: {in_short(largest)})")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def edges(self) -> int:
        return int(np.count_nonzero(np.triu(self.weights, 1)))


def meta_graph(
    collection: Collection,
    cls: str,
    *,
    threshold: float = 0.1,
    min_size: int = 25,
    kinds: Sequence[str] = (),
    scaling: str = "unit",
    dims: int = 5,
    seed: int = 0,
    communities: str = "louvain",
    embedding: Embedding | None = None,
) -> MetaGraph:
    """The meta-graph of a class (MetaShift, steps 1-3).

    The paper drops edges below 0.1, its code those below 0.2. `embedding` is a function from the weights to coordinates
    that takes the place of the spectral embedding, to which `scaling` and `dims` belong.
    """
    if not 0 <= threshold <= 1:
        raise ShiftBenchError(f"The threshold of a meta-graph is an overlap between 0 and 1, not {threshold}.")
    subsets = candidates(collection, cls, kinds=kinds, min_size=min_size)
    if not subsets.names:
        small = candidates(collection, cls, kinds=kinds, min_size=1)
        best = max(zip(small.sizes.tolist(), small.names, strict=True), default=(0, ""))
        seen = f"{subset_name(cls, [best[1]])} has most, {best[0]}" if best[0] else "no context occurs with it"
        raise ShiftBenchError(f"Class '{cls}' has no context with at least {min_size} items ({seen}). Lower min_size.")
    weights = _edges(meetings(subsets), threshold)
    points = spectral(weights, dims, scaling) if embedding is None else _own_embedding(weights, embedding)
    return MetaGraph(cls, subsets.names, subsets.sizes, weights, find_communities(weights, communities, seed), points,
                     threshold)


def merge_similar(graph: MetaGraph, named: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """Similar subsets merged by community (paper, section 4.1): name of the merged subset -> its contexts.

    A merged subset is called by its `named` context, else by its largest. The paper does not say what happens to a
    community with several named contexts: here it is divided among them, each other context going to the named one that
    it overlaps most, the first among equals.
    """
    anchors: dict[int, str] = {node: name for name in named for node in nodes(graph, name)}
    members: dict[str, list[int]] = {name: nodes(graph, name) for name in named}
    for community in range(int(graph.communities.max()) + 1):
        inside = np.flatnonzero(graph.communities == community).tolist()
        named_nodes = [node for node in inside if node in anchors]
        others = [node for node in inside if node not in anchors]
        if not named_nodes and others:
            members[graph.names[others[int(np.argmax(graph.sizes[others]))]]] = others
        for node in others if named_nodes else ():
            members[anchors[named_nodes[int(np.argmax(graph.weights[node, named_nodes]))]]].append(node)
    return {name: tuple(graph.names[node] for node in sorted(inside)) for name, inside in members.items()}


def merged_graph(
    collection: Collection, cls: str, merged: Mapping[str, Sequence[str]], *, threshold: float = 0.1,
    without: Sequence[int] | Ints = (),
) -> MetaGraph:
    """The meta-graph whose nodes are merged subsets: overlaps of their unions, less the items `without`.

    The published code measures the distances of its tasks in this graph.
    """
    member: Ints = np.zeros((len(collection), len(merged)), np.int64)
    for node, contexts in enumerate(merged.values()):
        member[np.setdiff1d(union(collection, cls, contexts)[0], without), node] = 1
    meeting = member.T @ member
    weights = _edges(meeting, threshold)
    return MetaGraph(cls, tuple(merged), np.diag(meeting).copy(), weights, find_communities(weights), spectral(weights),
                     threshold)


def mean_distance(graph: MetaGraph, train: Sequence[str], test: Sequence[str]) -> float:
    """The mean of the distances between each training and each test subset, as the published code has it."""
    points = [np.stack([mean_embedding(graph, [name]) for name in names]) for names in (train, test)]
    return float(np.linalg.norm(points[0][:, None] - points[1][None], axis=2).mean())


def distance(graph: MetaGraph, train: str | Sequence[str], test: str | Sequence[str]) -> float:
    """How far the training subsets lie from the test subsets: d = ‖x̄(train) − x̄(test)‖.

    x̄ is the mean embedding of the contexts, weighted by their sizes (paper, section 4.1); the published code took the
    mean of the single distances instead. Contexts are a sequence, or written `cabinet + bed` or `dog(cabinet + bed)`.
    """
    return float(np.linalg.norm(mean_embedding(graph, train) - mean_embedding(graph, test)))


def distances(graph: MetaGraph, origin: str | Sequence[str]) -> Floats:
    """The distance from a subset, or from a union of some, to each node of the graph."""
    return np.asarray(np.linalg.norm(graph.embedding - mean_embedding(graph, origin), axis=1), np.float64)


def mean_embedding(graph: MetaGraph, contexts: str | Sequence[str]) -> Floats:
    """The mean embedding of some contexts, weighted by their sizes."""
    chosen = [node for context in _listed(graph, contexts) for node in nodes(graph, context)]
    if not chosen:
        raise ShiftBenchError(f"No context of '{graph.cls}' was named. Known contexts: {', '.join(graph.names[:20])}.")
    return np.asarray(np.average(graph.embedding[chosen], axis=0, weights=graph.sizes[chosen]), np.float64)


def nodes(graph: MetaGraph, context: str) -> list[int]:
    """The nodes of a context: one, or one per kind where `fence` stands for `object:fence` and `stuff:fence`."""
    matches = nodes_if_any(graph, context)
    if not matches:
        missing = unknown("context", context, graph.names, where=f"Meta-graph of '{graph.cls}'")
        raise ShiftBenchError(f"{missing} A context with fewer than min_size items is not in the graph.")
    return matches


def nodes_if_any(graph: MetaGraph, context: str) -> list[int]:
    """The nodes of a context; none where it has too few items, or is of another kind."""
    return ([node for node, name in enumerate(graph.names) if name == context]
            or [node for node, name in enumerate(graph.names) if name.partition(":")[2] == context])


def heaviest(graph: MetaGraph, n: int) -> MetaGraph:
    """The graph of its n largest subsets; they keep their communities and where they lie."""
    if len(graph) <= n:
        return graph
    kept = np.sort(np.argsort(-graph.sizes, kind="stable")[:n])
    return replace(graph, names=tuple(graph.names[node] for node in kept.tolist()), sizes=graph.sizes[kept],
                   weights=graph.weights[np.ix_(kept, kept)], communities=graph.communities[kept],
                   embedding=graph.embedding[kept])


def to_json(graph: MetaGraph, origin: str | None = None) -> dict[str, Any]:
    """The graph for machines: subsets, edges from the largest overlap on, with `origin` the distances from it."""
    names = [subset_name(graph.cls, [name]) for name in graph.names]
    one, other = np.nonzero(np.triu(graph.weights, 1))
    order = np.argsort(-graph.weights[one, other], kind="stable")
    far = [] if origin is None else distances(graph, origin).round(6).tolist()
    return {
        "class": graph.cls,
        "subsets": [{"name": name, "size": int(size), "community": int(community)}
                    for name, size, community in zip(names, graph.sizes, graph.communities, strict=True)],
        "edges": [{"source": names[a], "target": names[b], "overlap": round(float(graph.weights[a, b]), 6)}
                  for a, b in zip(one[order].tolist(), other[order].tolist(), strict=True)],
        "threshold": graph.threshold,
        "communities": int(graph.communities.max()) + 1,
        "distances": dict(zip(names, far, strict=False)),
    }


def _listed(graph: MetaGraph, contexts: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(contexts, str):
        return tuple(contexts)
    if contexts in graph.names:
        return (contexts,)
    cls, inside = parse_subset(contexts if contexts.endswith(")") else subset_name(graph.cls, [contexts]))
    if cls != graph.cls:
        raise ShiftBenchError(f"'{contexts}' is a subset of '{cls}', but this is the meta-graph of '{graph.cls}'.")
    return inside


def meetings(subsets: Candidates) -> Ints:
    """|X ∩ Y| for all pairs of the candidate subsets of one class, |X| on the diagonal."""
    from scipy.sparse import csr_array

    context = subsets.context.astype(np.int32)
    member = csr_array((np.ones(len(context), np.int32), context, subsets.start),
                       shape=(len(subsets.items), len(subsets.names)))
    return np.asarray((member.T.tocsr() @ member).toarray(), np.int64)


def _edges(meeting: Ints, threshold: float) -> Floats:
    """Overlaps of different subsets, 0 where below the threshold."""
    weights = overlap(meeting)
    np.fill_diagonal(weights, 0.0)
    weights[weights < threshold] = 0.0
    return weights


def overlap(meeting: Ints) -> Floats:
    """overlap(X, Y) = |X ∩ Y| / min(|X|, |Y|) from such a matrix; an empty subset overlaps nothing."""
    sizes = np.diag(meeting)
    smaller = np.minimum.outer(sizes, sizes)
    return np.divide(meeting, smaller, out=np.zeros(meeting.shape), where=smaller > 0)


def find_communities(weights: Floats, method: str = "louvain", seed: int = 0) -> Ints:
    """The community of each node, numbered from the largest; a lone node is its own community."""
    if method not in COMMUNITIES:
        raise unknown("community method", method, COMMUNITIES)
    graph = _graph(weights)
    if not graph.ecount():
        return np.arange(len(weights))
    with _seeded(seed, "communities", method):
        if method == "louvain":
            clusters = graph.community_multilevel(weights="weight")
        elif method == "leiden":
            clusters = graph.community_leiden(objective_function="modularity", weights="weight", n_iterations=-1)
        else:
            clusters = graph.community_fastgreedy().as_clustering()
    labels = np.asarray(clusters.membership, np.int64)
    _, first, inverse, numbers = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    rank: Ints = np.zeros(len(first), np.int64)
    rank[np.lexsort((first, -numbers))] = np.arange(len(first))
    return rank[inverse]


def spectral(weights: Floats, dims: int = 5, scaling: str = "unit") -> Floats:
    """Coordinates of the nodes of a weighted graph, one row each; `dims` is K.

    `orthonormal` is equation 2 as it stands. `unit` divides all coordinates by the largest absolute one, as networkx's
    spectral layout does, with which the paper's distances were made. The axes that tell components apart are divided by
    their own largest, so that a lone node, far from everything, does not shrink the rest of the graph to a point.
    Neither is comparable between sizes of a collection; `diffusion`, which is ours and has no K, nearly is.
    """
    if scaling not in SCALINGS:
        raise unknown("scaling", scaling, SCALINGS)
    if dims < 1:
        raise ShiftBenchError(f"A spectral embedding needs at least 1 dimension, not {dims}.")
    adjacency = _checked(weights)
    if scaling == "diffusion":
        return _diffusion(adjacency)
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


def _diffusion(adjacency: Floats) -> Floats:
    """Coordinates whose distances are those of one step of a random walk on the graph (Coifman & Lafon, 2006).

        |x_u − x_v|² = Σ_w (p(u, w) − p(v, w))² / π(w),    p = D⁻¹(A + I),   π(w) = D(w) / Σ D

    A weak edge takes a small part in it wherever it lies, while an eigenvector of L turns over when a few weak edges
    come or go: these distances are nearly the same at every size of a collection.
    """
    walk = adjacency + np.eye(len(adjacency))
    degree = walk.sum(axis=1)
    return np.asarray(walk / degree[:, None] * np.sqrt(degree.sum() / degree)[None, :])


def canonical(space: Floats, rank: int) -> Floats:
    """The same points on axes of their own choice: each axis points to the farthest node that remains.

    It depends on the points alone: any rotation of `space` gives the same result, and a permutation permutes its rows.
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


def _own_embedding(weights: Floats, embedding: Embedding) -> Floats:
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


def layout(weights: Floats, seed: int = 0) -> Floats:
    """Positions in the unit square for a drawing: nodes that overlap much attract each other."""
    graph = _graph(weights)
    with _seeded(seed, "layout"):
        points = np.asarray(graph.layout_fruchterman_reingold(weights="weight" if graph.ecount() else None, niter=1000)
                            .coords, np.float64).reshape(-1, 2)
    span = np.ptp(points, axis=0)
    return (points - points.min(axis=0)) / np.where(span > 0, span, 1.0) if len(points) > 1 else np.full((1, 2), 0.5)


def _graph(weights: Floats) -> Any:
    import igraph

    one, other = np.nonzero(np.triu(weights, 1))
    graph = igraph.Graph(len(weights), np.stack([one, other], axis=1).tolist())
    graph.es["weight"] = weights[one, other].tolist()
    return graph


@contextmanager
def _seeded(seed: int, *purpose: str) -> Iterator[None]:
    """igraph draws from one global generator; lend it a stream of ours and give Python's back. One thread at a time."""
    import igraph

    with _GENERATOR:
        igraph.set_random_number_generator(random.Random(int(child(seed, *purpose).integers(2**62))))  # noqa: S311
        try:
            yield
        finally:
            igraph.set_random_number_generator(random)
