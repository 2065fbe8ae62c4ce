"""Overlaps: the compiled counts against plain sets, for one class, for all, and for chunks."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags
from shiftbench.metagraph import counting
from shiftbench.metagraph.counting import (
    add_meetings,
    add_sizes,
    counting_order,
    edges,
    edges_of,
    incidence,
    joined,
    mirrored,
    plan,
    runs_of,
)
from shiftbench.metagraph.graph import meetings, overlap
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


def of_all(c: Collection, kept, threshold: float, pieces: int = 1, ranges: int = 1):
    """Sizes and edges of every class, in one go or with the items counted in pieces and the classes in ranges.

    `kept` is a matrix that says which tag is a context of which class, or the least size of a subset.
    """
    tags, n = c.tags, len(c.tags.names)
    classes = np.arange(n)
    order = counting_order(classes, n, np.bincount(tags.tag, minlength=n))
    tables = []
    for low, high in pairwise(np.linspace(0, len(c), pieces + 1).astype(int).tolist()):
        here = (tags.item >= low) & (tags.item < high)
        tables.append(incidence(runs_of(tags.item[here]), tags.tag[here], order))
    sizes = np.zeros((n, n), np.int32)
    for table in tables:
        add_sizes(table, sizes)
    mirrored(sizes)
    wanted = (sizes >= kept) if isinstance(kept, int) else kept[np.ix_(order, order)] & (sizes > 0)
    np.fill_diagonal(wanted, False)
    room = plan(sizes, wanted, threshold)
    place = np.argsort(order)
    facts = wanted[np.ix_(place, place)], sizes[np.ix_(place, place)]
    if pieces == 1:
        return *facts, joined(edges(tables[0], room, threshold), order, classes)
    parts = []
    for low, high in pairwise(np.linspace(0, n, ranges + 1).astype(int).tolist()):
        counts = np.zeros(room.block[high] - room.block[low], np.int32)
        for table in tables:
            add_meetings(table, room, counts, low, high)
        parts += edges_of(room, counts, threshold, low, high)
    return *facts, joined(parts, order, classes)


def listed(found, k: int) -> dict[tuple[int, int], np.float32]:
    """The edges of class k: pairs of tags and their weights."""
    here = slice(found.start[k], found.start[k + 1])
    ends = np.sort(np.stack([found.one[here], found.other[here]], axis=1), axis=1).tolist()
    weights = dict(zip(map(tuple, ends), found.weight[here], strict=True))
    assert len(weights) == len(ends), "an edge is listed twice"
    return weights


def plainly(sets: dict[int, set[int]], threshold: float) -> dict[tuple[int, int], np.float32]:
    """The same from sets of items, by the definition."""
    return {(one, other): np.float32(len(sets[one] & sets[other]) / min(len(sets[one]), len(sets[other])))
            for one, other in combinations(sorted(sets), 2)
            if sets[one] & sets[other]
            and len(sets[one] & sets[other]) / min(len(sets[one]), len(sets[other])) >= threshold}


thresholds = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])


@pytest.mark.slow
@quick
@given(seeds, thresholds, st.integers(1, 12))
def test_all_classes_at_once_are_each_class_alone(seed, threshold, size):
    """The pass over all classes finds the subsets and edges that one class at a time finds, with the same weights."""
    c = random_collection(seed)
    kept, sizes, found = of_all(c, size, threshold)
    for k, cls in enumerate(c.tags.names):
        alone = candidates(c, cls, min_size=size)
        contexts = np.flatnonzero(kept[k])
        assert tuple(c.tags.names[code] for code in contexts) == alone.names
        assert np.array_equal(sizes[k, contexts], alone.sizes)
        matrix = overlap(meetings(alone))
        one, other = np.nonzero(np.triu((matrix > 0) & (matrix >= threshold), 1))
        assert listed(found, k) == dict(zip(zip(contexts[one].tolist(), contexts[other].tolist(), strict=True),
                                            matrix[one, other].astype(np.float32), strict=True))


@quick
@given(seeds, thresholds, st.integers(1, 4), st.integers(1, 3))
def test_any_tags_may_be_contexts_of_any_class(seed, threshold, pieces, ranges):
    """Where b is a context of a but a none of b, the edges are still those of plain sets of items."""
    c = random_collection(seed, n=40)
    rng = np.random.default_rng(seed)
    kept, _, found = of_all(c, rng.random((7, 7)) < rng.random(), threshold, pieces, ranges)
    holders = [set(c.with_tag(name).tolist()) for name in c.tags.names]
    for k in range(7):
        sets = {int(b): holders[k] & holders[b] for b in np.flatnonzero(kept[k])}
        assert listed(found, k) == plainly(sets, threshold)


@quick
@given(seeds, st.integers(2, 6), st.integers(1, 4))
def test_counts_of_chunks_add_up(seed, pieces, ranges):
    """Items counted in pieces, and classes in ranges, give the edges of the whole in the same order."""
    c = random_collection(seed)
    whole, parts = of_all(c, 3, 0.1)[2], of_all(c, 3, 0.1, pieces, ranges)[2]
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))


@quick
@given(seeds, st.integers(1, 40), st.integers(1, 2))
def test_edges_do_not_depend_on_how_classes_are_shared_out(seed, cells, pieces):
    """Any batch of classes per thread gives the same sizes, and the same edges in the same order."""
    c = random_collection(seed, n=200, tags=10)
    expected = of_all(c, 5, 0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "CELLS", cells)
        patch.setattr(counting, "LEAST", 1)
        found = of_all(c, 5, 0.1, pieces)
    assert np.array_equal(expected[1], found[1])
    assert all(np.array_equal(a, b) for a, b in zip(expected[2], found[2], strict=True))


@quick
@given(seeds)
def test_edges_are_in_the_order_of_counting(seed):
    """From the rarest tag to the commonest: `one` before `other`, and edges by `one`, then by `other`."""
    c = random_collection(seed)
    found = of_all(c, 3, 0.1)[2]
    rank = np.argsort(np.argsort(np.bincount(c.tags.tag, minlength=7), kind="stable"))
    assert (rank[found.one] < rank[found.other]).all()
    for k in range(7):
        here = slice(found.start[k], found.start[k + 1])
        assert (np.diff(rank[found.one[here]] * 7 + rank[found.other[here]]) > 0).all()


def test_a_collection_without_edges_has_none():
    """No class large enough: empty columns, not an error."""
    kept, _, found = of_all(toy(10), 1000, 0.1)
    assert not kept.any()
    assert len(found.weight) == 0
    assert found.start.tolist() == [0] * (len(toy(10).tags.names) + 1)


def test_a_pair_that_comes_twice_is_refused():
    """An item that carries a tag twice would be counted twice; neighbours with the same tag are no such thing."""
    assert incidence(np.asarray([0, 1, 2]), np.asarray([1, 1]), np.arange(2)).first.tolist() == [0, 0, 2]
    with pytest.raises(ShiftBenchError, match="same tag twice"):
        incidence(np.asarray([0, 1, 4]), np.asarray([0, 1, 0, 1]), np.arange(2))
