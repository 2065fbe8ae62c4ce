"""The meta-graph of a class: its subsets as nodes, their overlaps as edges, and how far apart they lie."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.metagraph.communities import communities as find_communities
from shiftbench.metagraph.embedding import Embedding, embed, spectral
from shiftbench.metagraph.overlaps import meetings, overlap
from shiftbench.metagraph.subsets import candidates, parse, written


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
    found = candidates(collection, cls, kinds=kinds, min_size=min_size)
    if not found.names:
        small = candidates(collection, cls, kinds=kinds, min_size=1)
        best = max(zip(small.sizes.tolist(), small.names, strict=True), default=(0, ""))
        seen = f"{written(cls, [best[1]])} has most, {best[0]}" if best[0] else "no context occurs with it"
        raise ShiftBenchError(f"Class '{cls}' has no context with at least {min_size} items ({seen}). Lower min_size.")
    weights = overlap(meetings(found))
    np.fill_diagonal(weights, 0.0)
    weights[weights < threshold] = 0.0
    return MetaGraph(
        cls=cls,
        names=found.names,
        sizes=found.sizes,
        weights=weights,
        communities=find_communities(weights, communities, seed),
        embedding=spectral(weights, dims, scaling) if embedding is None else embed(weights, embedding),
        threshold=threshold,
    )


def distance(graph: MetaGraph, train: str | Sequence[str], test: str | Sequence[str]) -> float:
    """How far the training subsets lie from the test subsets: d = ‖x̄(train) − x̄(test)‖.

    x̄ is the mean embedding of the contexts, weighted by their sizes (paper, section 4.1); the published code took the
    mean of the single distances instead. Contexts are a sequence, or written `cabinet + bed` or `dog(cabinet + bed)`.
    """
    return float(np.linalg.norm(place(graph, train) - place(graph, test)))


def distances(graph: MetaGraph, origin: str | Sequence[str]) -> Floats:
    """The distance from a subset, or from a union of some, to each node of the graph."""
    return np.asarray(np.linalg.norm(graph.embedding - place(graph, origin), axis=1), np.float64)


def place(graph: MetaGraph, contexts: str | Sequence[str]) -> Floats:
    """The mean embedding of some contexts, weighted by their sizes."""
    found = [node for context in _listed(graph, contexts) for node in nodes(graph, context)]
    if not found:
        raise ShiftBenchError(f"No context of '{graph.cls}' was named. Known contexts: {', '.join(graph.names[:20])}.")
    return np.asarray(np.average(graph.embedding[found], axis=0, weights=graph.sizes[found]), np.float64)


def nodes(graph: MetaGraph, context: str) -> list[int]:
    """The nodes of a context: one, or one per kind where `fence` stands for `object:fence` and `stuff:fence`."""
    found = [node for node, name in enumerate(graph.names) if name == context]
    found = found or [node for node, name in enumerate(graph.names) if name.partition(":")[2] == context]
    if not found:
        missing = unknown("context", context, graph.names, where=f"Meta-graph of '{graph.cls}'")
        raise ShiftBenchError(f"{missing} A context with fewer than min_size items is not in the graph.")
    return found


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
    names = [written(graph.cls, [name]) for name in graph.names]
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
    cls, inside = parse(contexts if contexts.endswith(")") else written(graph.cls, [contexts]))
    if cls != graph.cls:
        raise ShiftBenchError(f"'{contexts}' is a subset of '{cls}', but this is the meta-graph of '{graph.cls}'.")
    return inside
