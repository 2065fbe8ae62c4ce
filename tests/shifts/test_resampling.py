"""How training items are drawn under the shifts of Wiles et al.: by importance, W = p / p_train, or part by part."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.shifts import LowData, Size, Spurious, Under, Unseen
from shiftbench.shifts.shift import SHIFTS
from shiftbench.shifts.suites import suite
from tests.shifts.test_fine_grained import GRID, grid
from tests.strategies import seeds

SHAPES, COLOURS = ("square", "ellipse", "heart"), ("red", "green", "blue")
KINDS = {"spurious": Spurious("shape", "colour", n_uncorrelated=12), "low_data": LowData("shape", "colour", ("blue",)),
         "unseen": Unseen("shape", "colour", ("blue",)),
         "at random": LowData("shape", "colour", ("blue",), balanced=False)}
quick = settings(max_examples=15, deadline=None)


def drawn(benchmark, *columns):
    """The share of draws that each combination of these columns gets; training's own items only."""
    train = benchmark.rows("train")
    weight = benchmark.extra["weight"][train].astype(float)
    keys = list(zip(*(values[train].tolist() for values in columns), strict=True))
    return {key: sum(w for w, own in zip(weight, keys, strict=True) if own == key) / weight.sum() for key in set(keys)}


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@quick
def test_importance_draws_every_cell_of_training_equally_often(kind, seed):
    """W = p / p_train with p uniform: the cells that training has share the draws equally, also under `unseen`; only
    the weights change, and they are 1 on average over training and 0 elsewhere."""
    by_parts = KINDS[kind].build(GRID, seed)
    benchmark = replace(KINDS[kind], resampling="importance").build(GRID, seed)
    assert np.array_equal(benchmark.items, by_parts.items)
    assert np.array_equal(benchmark.split, by_parts.split)
    shares = drawn(benchmark, benchmark.label, benchmark.domain)
    assert list(shares.values()) == pytest.approx([1 / len(shares)] * len(shares))
    assert len(shares) == {"unseen": 6}.get(kind, len(shares))
    weight, train = benchmark.extra["weight"].astype(float), benchmark.split == "train"
    assert weight[train].mean() == pytest.approx(1)
    assert not weight[~train].any()


def test_the_two_resamplings_differ_as_their_names_say():
    """`parts` gives the N items half of the draws, whatever their cells; `importance` gives each cell its ninth."""
    spurious = replace(KINDS["spurious"], against=True)
    for resampling, share in (("parts", 1 / 2), ("importance", 6 / 9)):
        benchmark = replace(spurious, resampling=resampling).build(GRID)
        assert drawn(benchmark, benchmark.extra["part"])[("few",)] == pytest.approx(share), resampling
    with pytest.raises(ShiftBenchError, match="Did you mean 'importance'"):
        replace(spurious, resampling="importanse").build(GRID)


@given(n=st.integers(60, 150), seed=seeds)
@quick
def test_a_smaller_data_set_keeps_how_often_cells_are_drawn(n, seed):
    """Under the condition of size every cell of training is still drawn equally often."""
    benchmark = Under(replace(KINDS["low_data"], n_low=30, resampling="importance"), (Size(n, 0.1),)).build(GRID, seed)
    assert len(benchmark.rows("train")) == n
    shares = drawn(benchmark, benchmark.label, benchmark.domain)
    assert list(shares.values()) == pytest.approx([1 / len(shares)] * len(shares))


def three() -> tuple:
    """The grid with a third factor that is independent of the others."""
    collection = grid(120)
    size = np.asarray(["small", "large"])[np.random.default_rng(3).integers(0, 2, len(collection))]
    return replace(collection, factors={**collection.factors, "size": size}), {"small": "red", "large": "green"}


@pytest.mark.parametrize("resampling", ["parts", "importance"])
@given(n=st.integers(1, 40), seed=seeds)
@quick
def test_two_factors_go_together_while_the_label_does_not(resampling, n, seed):
    """With `other`, training's main part has only the paired values of both factors, evenly over labels; the test is
    uniform over the cells of all three."""
    collection, pairs = three()
    shift = Spurious("shape", "colour", other="size", pairs=pairs, n_uncorrelated=n, resampling=resampling)
    benchmark = shift.build(collection, seed)
    at = {item: row for row, item in enumerate(collection.items.tolist())}
    rows = np.asarray([at[item] for item in benchmark.items.tolist()])
    shape, colour, size = (collection.factor(name)[rows] for name in ("shape", "colour", "size"))
    main = benchmark.extra["part"] == "main"
    assert {(b, a) for b, a in zip(size[main].tolist(), colour[main].tolist(), strict=True)} == set(pairs.items())
    assert set(shape[main].tolist()) == set(SHAPES)
    shares = [np.mean(colour[main & (shape == name)] == "red") for name in SHAPES]
    assert max(shares) - min(shares) < 0.25  # colour says next to nothing about the shape
    test = benchmark.split == "test"
    _, counts = np.unique(np.stack([shape[test], colour[test], size[test]]), axis=1, return_counts=True)
    assert len(counts) == 18
    assert np.ptp(counts) <= 1
    assert int((benchmark.extra["part"] == "few").sum()) == n
    if resampling == "importance":
        cells = drawn(benchmark, shape, size, colour)
        assert list(cells.values()) == pytest.approx([1 / len(cells)] * len(cells))
    with pytest.raises(ShiftBenchError, match="sise"):
        replace(shift, other="sise").build(collection, seed)


def test_b_3_predicts_the_colour_of_a_shape_that_training_lacks():
    """The suite of B.3 swaps label and factor of the unseen shift, on dSprites and on its twin."""
    for name in ("dsprites", "sprites"):
        (plain,), (swapped,) = (dict(suite(f"fine_grained/{name}/{kind}")).values() for kind in ("unseen", "swapped"))
        assert (swapped.label, swapped.factor) == (plain.factor, plain.label)
    benchmark = dict(suite("fine_grained/sprites/swapped"))["unseen-swapped"].build(GRID)
    words = np.asarray(benchmark.names["domain"])[benchmark.domain]
    assert benchmark.names["label"] == tuple(sorted(COLOURS))
    assert set(words[benchmark.rows("train")].tolist()) == {"square", "ellipse"}
    assert set(words[benchmark.rows("test")].tolist()) == set(SHAPES)
    assert {"spurious", "low_data", "unseen"} <= set(SHIFTS)
