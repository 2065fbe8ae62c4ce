"""Overlaps: the compiled counts against plain sets, for one class, for all, and for chunks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.collection import Collection, Tags
from shiftbench.metagraph import overlaps as counting
from shiftbench.metagraph.overlaps import (
    add_meetings,
    add_sizes,
    edges,
    edges_of,
    incidence,
    meetings,
    overlap,
    plan,
)
from shiftbench.metagraph.subsets import candidates, subset
from tests.strategies import seeds, toy

quick = settings(max_examples=30, deadline=None)


def random_collection(seed: int, n: int = 60, tags: int = 7) -> Collection:
    rng = np.random.default_rng(seed)
    carried = rng.random((n, tags)) < rng.uniform(0.05, 0.9, tags)
    return Collection("random", np.arange(n).astype(str), tags=Tags.of(*np.nonzero(carried), list("abcdefghij"[:tags])))


@quick
@given(seeds)
def test_overlap_is_that_of_sets(seed):
    """|X ∩ Y| / min(|X|, |Y|) for every pair, as Python's sets say; symmetric, and 1 with itself."""
    c = random_collection(seed)
    found = candidates(c, "a", min_size=1)
    matrix = overlap(meetings(found))
    sets = [set(subset(c, f"a({name})").tolist()) for name in found.names]
    plain = [[len(x & y) / min(len(x), len(y)) for y in sets] for x in sets]
    assert np.array_equal(matrix, np.asarray(plain).reshape(len(sets), len(sets)))
    assert np.array_equal(matrix, matrix.T)
    assert (np.diag(matrix) == 1).all()


def test_a_subset_inside_another_overlaps_it_fully():
    """A ⊆ B gives overlap 1, disjoint subsets 0."""
    item, tag = [0, 1, 2, 3, 0, 1, 2, 0, 3], [0, 0, 0, 0, 1, 1, 1, 2, 3]
    c = Collection("nested", np.asarray(list("wxyz")), tags=Tags.of(item, tag, ["cat", "b", "inside b", "apart"]))
    found = candidates(c, "cat", min_size=1)
    matrix = overlap(meetings(found))
    b, inside, apart = (found.names.index(name) for name in ("b", "inside b", "apart"))
    assert matrix[b, inside] == 1
    assert matrix[b, apart] == 0


def test_an_empty_subset_overlaps_nothing():
    """No division by zero where a subset has no items."""
    assert np.array_equal(overlap(np.asarray([[0, 0], [0, 3]])), [[0, 0], [0, 1]])


def of_all(c: Collection, kept_size: int, threshold: float, pieces: int = 1):
    """Edges of every class, in one go or with the items counted in pieces."""
    tags, n = c.tags, len(c.tags.names)
    classes = np.arange(n)
    bounds = np.linspace(0, len(c), pieces + 1).astype(int)
    tables = []
    for low, high in pairwise(bounds.tolist()):
        here = (tags.item >= low) & (tags.item < high)
        tables.append(incidence(tags.item[here] - low, tags.tag[here], high - low, n, classes))
    sizes = np.zeros((n, n), np.int32)
    for table in tables:
        add_sizes(table, sizes)
    kept = sizes >= kept_size
    np.fill_diagonal(kept, False)
    room = plan(kept)
    if pieces == 1:
        return room, sizes, edges(tables[0], room, threshold)
    counts = np.zeros(room.block[-1], np.int32)
    for table in tables:
        add_meetings(table, room, counts)
    return room, sizes, edges_of(room, counts, threshold)


@quick
@given(seeds, st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), st.integers(1, 12))
def test_all_classes_at_once_are_each_class_alone(seed, threshold, size):
    """The pass over all classes finds the subsets and edges that one class at a time finds, with the same weights."""
    c = random_collection(seed)
    room, sizes, found = of_all(c, size, threshold)
    for k, cls in enumerate(c.tags.names):
        alone = candidates(c, cls, min_size=size)
        contexts = room.context[room.first[k]:room.first[k + 1]]
        assert tuple(c.tags.names[code] for code in contexts) == alone.names
        assert np.array_equal(sizes[k, contexts], alone.sizes)
        matrix = overlap(meetings(alone))
        one, other = np.nonzero(np.triu((matrix > 0) & (matrix >= threshold), 1))
        here = slice(found.start[k], found.start[k + 1])
        assert np.array_equal(found.one[here], contexts[one])
        assert np.array_equal(found.other[here], contexts[other])
        assert np.array_equal(found.weight[here], matrix[one, other].astype(np.float32))


@quick
@given(seeds, st.integers(2, 6))
def test_counts_of_chunks_add_up(seed, pieces):
    """Items counted in pieces give the edges of the whole."""
    c = random_collection(seed)
    whole, parts = of_all(c, 3, 0.1)[2], of_all(c, 3, 0.1, pieces)[2]
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))


@quick
@given(seeds, st.integers(1, 40))
def test_edges_do_not_depend_on_how_classes_are_shared_out(seed, cells):
    """Any batch of classes per thread gives the same columns in the same order."""
    c = random_collection(seed, n=200, tags=10)
    expected = of_all(c, 5, 0.1)[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "CELLS", cells)
        found = of_all(c, 5, 0.1)[2]
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


def test_a_collection_without_edges_has_none():
    """No class large enough: empty columns, not an error."""
    room, _, found = of_all(toy(10), 1000, 0.1)
    assert len(room.context) == len(found.weight) == 0
    assert found.start.tolist() == [0] * (len(toy(10).tags.names) + 1)
