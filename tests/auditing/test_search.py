"""The search lists what a double loop over masks lists; `describe` says in few slices what many do."""

import os
from itertools import combinations

import numpy as np
import pytest
from scipy.special import ndtri

from shiftbench.auditing import search as searching
from shiftbench.auditing.predicates import Predicate, Predicates, packed
from shiftbench.auditing.search import describe, search
from shiftbench.core.errors import ShiftBenchError


def predicates_of(codes):
    """Every value of every column of codes is a predicate."""
    each = [(c, value) for c in range(len(codes)) for value in np.unique(codes[c])]
    return Predicates(tuple(Predicate(f"c{c}", str(value), "factor", f"c{c} is {value}") for c, value in each),
                      np.stack([packed(codes[c] == value) for c, value in each]), codes.shape[1],
                      np.asarray([c for c, _ in each], np.int32))


def brute_force(predicates, loss, depth, least, gain):
    """Every slice with z > 0 as {names: (n, total, z)}, and how many of each depth hold enough items."""
    masks = [predicates.mask(p) for p in range(len(predicates))]
    n_all, variance, listed, looked_at = predicates.n, loss.var(ddof=1), {}, [0] * depth
    for length in range(1, depth + 1):
        for members in combinations(range(len(predicates)), length):
            inside = np.logical_and.reduce([masks[p] for p in members])
            n = inside.sum()
            if len(set(predicates.column[list(members)])) < length or n < least:
                continue
            looked_at[length - 1] += 1
            if n == n_all or not variance:
                continue
            z = (loss[inside].mean() - loss[~inside].mean()) / np.sqrt(variance * (1 / n + 1 / (n_all - n)))
            worse = True
            for dropped in members if length > 1 else ():
                parent = np.logical_and.reduce([masks[p] for p in members if p != dropped])
                rest, spread = parent & ~inside, loss[parent].var(ddof=1) if parent.sum() > 1 else 0
                difference = loss[inside].mean() - loss[rest].mean() if rest.any() else 0
                scale = np.sqrt(spread * (1 / n + 1 / rest.sum())) if rest.any() else 0
                worse &= (difference / scale if scale else 0) > gain
            if worse and z > 1e-9:
                listed[frozenset(predicates.list[p].words for p in members)] = (n, loss[inside].sum(), z)
    return listed, looked_at


def by_name(predicates, slices):
    return {frozenset(predicates.list[p].words for p in row if p >= 0): (n, total, z)
            for row, n, total, z in zip(slices.members, slices.n, slices.total, slices.z, strict=True)}


def table(seed, n=300, columns=5, binary=True):
    """Codes of columns, one of which repeats another in part, and losses that depend on two of them."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (columns, n))
    codes[1] = np.where(rng.random(n) < 0.6, codes[0], codes[1])
    bad = (codes[0] == 1) & (codes[2] == 2)
    return codes, (rng.random(n) < 0.2 + 0.5 * bad) * 1.0 if binary else rng.gamma(1.0, 1 + 2 * bad)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("least", [1, 12])
@pytest.mark.parametrize("gain", [-np.inf, 1.645])
@pytest.mark.parametrize("binary", [True, False])
def test_the_list_is_that_of_brute_force(depth, least, gain, binary):
    """Sizes, sums, z and the number of slices looked at are those of loops over masks, best first.

    Beyond three predicates a slice is reached from a slice that is listed.
    """
    codes, loss = table(depth * 10 + least, columns=5 if depth < 4 else 4, binary=binary)
    predicates = predicates_of(codes)
    slices = search(predicates, loss, depth=depth, least=least, gain=gain)
    listed, looked_at = brute_force(predicates, loss, depth, least, gain)
    ours = by_name(predicates, slices)
    for names in [names for names in listed if len(names) == 4]:
        if not any(names - {dropped} in listed for dropped in names):
            del listed[names]
    assert ours.keys() == listed.keys()
    for names, row in listed.items():
        np.testing.assert_allclose(ours[names], row, rtol=1e-9)
    assert slices.looked_at[:3].tolist() == looked_at[:3]
    assert slices.looked_at[3:].sum() <= sum(looked_at[3:])
    assert (np.diff(slices.z) <= 0).all()


@pytest.mark.parametrize("binary", [True, False])
def test_better_is_worse_of_the_opposite(binary):
    """Slices that are better than the rest are those that are worse with the opposite losses; sums keep their sign."""
    codes, loss = table(7, binary=binary)
    predicates = predicates_of(codes)
    better = search(predicates, loss, worse=False, least=5)
    opposite = search(predicates, 1 - loss, least=5)
    assert np.array_equal(better.members, opposite.members)
    np.testing.assert_allclose(better.z, -opposite.z)
    np.testing.assert_allclose(better.total, better.n - opposite.total)
    assert (better.z < 0).all()


@pytest.mark.parametrize("binary", [True, False])
def test_neither_threads_nor_the_order_of_predicates_matter(binary, monkeypatch):
    """Predicates in another order, in small blocks, in one thread or four, give the same slices in the same order."""
    codes, loss = table(3, n=500, binary=binary)
    predicates = predicates_of(codes)
    first = search(predicates, loss, least=3, gain=-np.inf, most=60)
    order = np.random.default_rng(0).permutation(len(predicates))
    turned = Predicates(tuple(predicates.list[p] for p in order), predicates.bits[order], predicates.n,
                        predicates.column[order])
    monkeypatch.setattr(searching, "CANDIDATES", 7)
    for processors in (1, 4):
        monkeypatch.setattr(os, "cpu_count", lambda processors=processors: processors)
        second = search(turned, loss, least=3, gain=-np.inf, most=60)
        assert np.array_equal(first.members, np.where(second.members < 0, -1, order[second.members]))
        for field in ("n", "total", "z", "looked_at"):
            assert np.array_equal(getattr(first, field), getattr(second, field))


@pytest.mark.parametrize("most", [1, 5, 40])
@pytest.mark.parametrize("seed", range(5))
def test_what_cannot_reach_the_list_is_rightly_left_out(most, seed):
    """A short list of errors, for which pairs are left out early, is the head of the long one."""
    codes, loss = table(seed, n=200)
    predicates = predicates_of(codes)
    long = search(predicates, loss, least=4, gain=-np.inf)
    short = search(predicates, loss, least=4, gain=-np.inf, most=most)
    assert np.array_equal(short.members, long.members[:most])
    assert short.looked_at[2] <= long.looked_at[2]


def test_pairs_with_too_few_errors_are_not_extended():
    """With rare errors and a short list, fewer slices of three are looked at."""
    rng = np.random.default_rng(0)
    predicates = predicates_of(rng.integers(0, 3, (8, 2000)))
    loss = (rng.random(2000) < 0.01) * 1.0
    long = search(predicates, loss, gain=-np.inf)
    short = search(predicates, loss, gain=-np.inf, most=10)
    assert np.array_equal(short.members, long.members[:10])
    assert short.looked_at[2] < 0.9 * long.looked_at[2]


def test_the_beam_reaches_a_bad_cell_of_five():
    """Slices of more than three predicates are found by extending the best."""
    codes = np.random.default_rng(1).integers(0, 2, (8, 8000))
    bad = (codes[:5] == 1).all(axis=0)
    loss = (np.random.default_rng(2).random(8000) < 0.1 + 0.8 * bad) * 1.0
    predicates = predicates_of(codes)
    best = search(predicates, loss, depth=5)
    assert {predicates.list[p].words for p in best.members[0]} == {f"c{c} is 1" for c in range(5)}
    assert best.n[0] == bad.sum()


def test_losses_without_spread_and_no_items():
    """Where all losses are equal, or there are no items or no predicates, nothing is listed."""
    codes, _ = table(0)
    predicates = predicates_of(codes)
    for same in (0.0, 1.0, 0.3):
        assert not len(search(predicates, np.full(predicates.n, same)).n)
    empty = predicates.take(np.zeros(0, np.int64))
    assert search(empty, np.zeros(0)).looked_at.tolist() == [0, 0, 0]
    none = Predicates((), predicates.bits[:0], predicates.n, predicates.column[:0])
    slices = search(none, np.zeros(predicates.n), depth=4)
    assert slices.members.shape == (0, 4)
    assert not len(describe(none, np.zeros(predicates.n), slices).n)
    with pytest.raises(ShiftBenchError, match="at least 1 predicate"):
        search(predicates, np.zeros(predicates.n), depth=0)


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_progress_rises_to_its_end(depth, monkeypatch):
    """The share that is done grows with every step, and is 1 at the last."""
    monkeypatch.setattr(searching, "CANDIDATES", 30)
    shares = []
    codes, loss = table(0)
    search(predicates_of(codes), loss, depth=depth, progress=lambda done, total: shares.append(done / total))
    assert len(shares) > depth
    assert (np.diff(shares) > 0).all()
    assert shares[-1] == 1


def planted(cells, seed, n=20_000, base=0.1, high=0.5, binary=True):
    """Six columns of four values, with cells {column: value} that are worse."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (6, n))
    bad = np.logical_or.reduce([np.logical_and.reduce([codes[c] == v for c, v in cell.items()]) for cell in cells])
    loss = (rng.random(n) < np.where(bad, high, base)) * 1.0 if binary else rng.normal(bad * 1.0)
    return predicates_of(codes), loss


CELLS = ({0: 1, 1: 2}, {2: 3, 3: 0, 4: 1}, {5: 2, 0: 3})


@pytest.mark.parametrize("n_cells", [1, 3])
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_as_many_slices_are_described_as_were_planted(n_cells, binary, seed):
    """One slice for one planted cell, three for three, though the search lists hundreds."""
    predicates, loss = planted(CELLS[:n_cells], seed, binary=binary)
    everything = search(predicates, loss, gain=-np.inf)
    assert len(everything.n) > 100
    for slices in (everything, search(predicates, loss)):
        chosen = describe(predicates, loss, slices, chance=0.01)
        assert by_name(predicates, chosen).keys() == {frozenset(f"c{c} is {v}" for c, v in cell.items())
                                                      for cell in CELLS[:n_cells]}
        assert by_name(predicates, chosen).items() <= by_name(predicates, slices).items()


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_slice_stands_for_its_children(seed):
    """Where a whole value is worse, it is described, and none of the slices inside it."""
    predicates, loss = planted([{0: 1}], seed, high=0.2)
    chosen = describe(predicates, loss, search(predicates, loss, gain=-np.inf), chance=0.01)
    assert by_name(predicates, chosen).keys() == {frozenset(["c0 is 1"])}


def test_a_worse_core_of_a_wide_slice_is_described_after_it():
    """A value that is worse, and worse still together with another one, gives two slices."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (6, 20_000))
    loss = (rng.random(20_000) < 0.1 + 0.2 * (codes[0] == 1) + 0.2 * ((codes[0] == 1) & (codes[1] == 2))) * 1.0
    predicates = predicates_of(codes)
    chosen = describe(predicates, loss, search(predicates, loss), chance=0.01)
    assert list(by_name(predicates, chosen)) == [frozenset(["c0 is 1"]), frozenset(["c0 is 1", "c1 is 2"])]


@pytest.mark.parametrize("binary", [True, False])
def test_better_slices_are_described_too(binary):
    """A cell with smaller losses is the one better slice."""
    predicates, loss = planted([{0: 1, 1: 2}], 0, base=0.5, high=0.1, binary=binary)
    loss = loss if binary else -loss
    chosen = describe(predicates, loss, search(predicates, loss, worse=False), worse=False, chance=0.01)
    assert by_name(predicates, chosen).keys() == {frozenset(["c0 is 1", "c1 is 2"])}
    assert (chosen.z < 0).all()


@pytest.mark.parametrize("rate", [0.3, 0.01])
def test_about_chance_slices_of_noise_are_described(rate):
    """Losses that depend on nothing give fewer than `chance` slices per depth on average, with rare errors too."""
    counts = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        predicates = predicates_of(rng.integers(0, 3, (6, 1500)))
        loss = (rng.random(1500) < rate) * 1.0
        counts.append(len(describe(predicates, loss, search(predicates, loss), chance=1.0).n))
    assert np.mean(counts) < 3 + 4 * np.std(counts) / np.sqrt(len(counts))
    assert max(counts) > 0


def test_a_wide_slice_is_preferred_to_what_luck_makes_of_its_parts():
    """A value that adds ten points is described by itself, though among its thousands of parts some have a higher z."""
    random = np.random.default_rng(2)
    codes = random.integers(0, 4, (12, 2000))
    loss = (random.random(2000) < 0.1 + 0.1 * (codes[2] == 1)).astype(np.float64)
    predicates = predicates_of(codes)
    slices = search(predicates, loss)
    assert searching.lengths(slices.members)[0] > 1  # of the highest z
    first = describe(predicates, loss, slices).members[0]
    assert [predicates.list[number].words for number in first if number >= 0] == ["c2 is 1"]


def test_the_best_of_many_extensions_must_add_more():
    """By default a slice beats each parent by what the luckiest of as many extensions as predicates seldom reaches."""
    codes, loss = table(5, n=600)
    predicates = predicates_of(codes)
    by_default, strict = (search(predicates, loss, least=5, **gain) for gain in (
        {}, {"gain": float(-ndtri(0.1 / len(predicates)))}))
    assert np.array_equal(by_default.members, strict.members)
    assert len(by_default.n) < len(search(predicates, loss, least=5, gain=1.645).n)


def test_a_bad_value_is_rarely_described_with_a_needless_predicate():
    """One of 40 columns has a bad value: in few draws a part of it stands in its place. With a bar for one extension
    alone that is so in one draw of five.
    """
    draws, parts = 100, 0
    for seed in range(draws):
        random = np.random.default_rng(seed)
        codes = random.integers(0, 2, (40, 2000))
        loss = (random.random(2000) < 0.1 + 0.06 * (codes[0] == 0)).astype(np.float64)
        predicates = predicates_of(codes)
        chosen = by_name(predicates, describe(predicates, loss, search(predicates, loss, least=10)))
        parts += frozenset(["c0 is 0"]) not in chosen and any("c0 is 0" in names for names in chosen)
    assert parts / draws < 0.12
