"""Sets of items as bits: what comes out is what numpy counts with truths."""

import math

import numpy as np
import pytest

from shiftbench.auditing.bit_sets import BLOCK, bits_of_codes, measure, pair_totals, take_bits
from shiftbench.auditing.predicates import packed, unpacked


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_codes_become_one_set_per_value(n, kind):
    """Item i is in the set of its code and in no other; a negative code is in none."""
    codes = np.random.default_rng(n).integers(-1, 5, n).astype(kind)
    bits = bits_of_codes(codes, 5)
    assert bits.shape == (5, -(-n // 64))
    assert all(np.array_equal(unpacked(bits[value], n), codes == value) for value in range(5))


def test_rows_of_sets():
    """Rows may come in any order and twice; bits beyond the last row are 0."""
    rng = np.random.default_rng(0)
    masks = rng.random((7, 333)) < 0.3
    rows = rng.integers(0, 333, 150)
    taken = take_bits(np.stack([packed(mask) for mask in masks]), rows)
    assert np.array_equal(taken, np.stack([packed(mask[rows]) for mask in masks]))


@pytest.mark.parametrize("n", [10, 64 * BLOCK + 1])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("binary", [True, False])
def test_counts_of_conjunctions(n, depth, binary):
    """Sizes, sums of losses and of their squares are those of numpy, within a block and over several."""
    rng = np.random.default_rng(n)
    masks = rng.random((6, n)) < np.asarray([[0.01], [0.2], [0.5], [0.7], [0.9], [1.0]])
    loss = (rng.random(n) < 0.3) * 1.0 if binary else rng.normal(size=n)
    members = rng.integers(0, 6, (20, depth)).astype(np.int32)
    sizes, total, square = np.zeros(20, np.int64), np.zeros(20), np.zeros(20)
    errors, real = (packed(loss > 0), np.zeros(0)) if binary else (packed(np.zeros(n, bool)), loss)
    measure(np.stack([packed(mask) for mask in masks]), members, errors, real, sizes, total, square)
    inside = [masks[row].all(axis=0) for row in members]
    assert sizes.tolist() == [mask.sum() for mask in inside]
    np.testing.assert_allclose(total, [loss[mask].sum() for mask in inside], atol=1e-9)
    np.testing.assert_allclose(square, [(loss[mask] ** 2).sum() for mask in inside], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("losses", ["normal", "heavy", "huge", "tiny", "none"])
def test_sums_of_pairs_are_bounded_from_above(losses):
    """The bound is never below the exact sum, and above it by less than two ten-thousandths of all losses."""
    rng = np.random.default_rng(1)
    n = 5000
    masks = rng.random((12, n)) < rng.random((12, 1))
    loss = {"normal": rng.normal(size=n), "heavy": rng.standard_cauchy(n) ** 3, "huge": rng.normal(size=n) * 1e300,
            "tiny": 10.0 ** rng.uniform(-300, -290, n), "none": np.zeros(n)}[losses]
    bound = pair_totals(np.stack([packed(mask) for mask in masks]), loss)
    exact = np.asarray([[math.fsum(loss[one & other]) for other in masks] for one in masks])
    apart = ~np.eye(len(masks), dtype=bool)
    assert (bound >= exact)[apart].all()
    assert (bound - exact <= 2e-4 * np.abs(loss).sum() + 1e-20)[apart].all()
