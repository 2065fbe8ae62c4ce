"""Rows and columns in an order that shows what belongs together: classes apart, alike subsets side by side."""

import numpy as np

from shiftbench.arrays import Floats, Ints
from shiftbench.conflict.sides import IN, OUT, Side


def order(value: Floats, train: Side, evaluation: Side) -> tuple[Ints, Ints]:
    """Places of the training subsets, and of the evaluation subsets: in-domain first, then out-of-domain.

    Within a class, average linkage of Euclidean distances between profiles, leaves ordered so that neighbours are as
    near as can be (Bar-Joseph et al., 2001). The profile of a training subset is its row and, where it is evaluated in
    domain, its column; its in-domain column stands where its row does, so that the diagonal is one. Out-of-domain
    subsets are ordered by their columns. Of a class's two directions the one is taken that brings strong effects
    nearer to the diagonal of their block.
    """
    inside = {name: place for place, (name, kind) in enumerate(zip(evaluation.names, evaluation.kind, strict=True))
              if kind == IN}
    own = np.asarray([inside.get(name, -1) for name in train.names])
    received = np.where(own >= 0, value[:, own], 0.0)
    profile = np.concatenate([value, received.T], axis=1)
    rows: list[Ints] = []
    for part in _classes(train, np.arange(len(train.names))):
        leaves = part[_leaves(profile[part])]
        rows.append(_facing(received[:, leaves], leaves, rows[:1]))
    columns: list[Ints] = []
    for part in _classes(evaluation, np.flatnonzero(evaluation.kind == OUT)):
        leaves = part[_leaves(value.T[part])]
        columns.append(_facing(value[:, leaves], leaves, rows))
    ordered = np.concatenate(rows)
    return ordered, np.concatenate([own[ordered][own[ordered] >= 0], *columns])


def _classes(side: Side, places: Ints) -> list[Ints]:
    """The places of each class, classes in alphabetical order."""
    return [places[side.label[places] == label] for label in np.unique(side.label[places])]


def _leaves(profile: Floats) -> Ints:
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(profile) < 3:
        return np.arange(len(profile))
    return np.asarray(leaves_list(linkage(profile, "average", optimal_ordering=True)), np.int64)


def _facing(value: Floats, leaves: Ints, rows: list[Ints]) -> Ints:
    """The leaves or their reverse, by where their columns' strong effects lie among the rows of each class."""
    across = np.linspace(-1, 1, len(leaves))
    lean = sum(float(np.linspace(-1, 1, len(part)) @ np.abs(value[part]) @ across) for part in rows)
    return leaves[::-1] if lean < 0 else leaves
