"""The sprites keep their promises: dSprites' grid, any picture on its own, and factors that can be seen."""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench import api as verbs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.checks import check
from shiftbench.data.collection import Collection
from shiftbench.images.decode import content_hashes
from shiftbench.shifts import SHIFTS
from shiftbench.worlds import WORLDS
from shiftbench.worlds import sprites as world
from shiftbench.worlds.sprites import CELLS, VALUES, covered, draw, factors, order, sprites, stencils

LENGTHS = tuple(len(values) for values in VALUES.values())
cells = st.tuples(*(st.integers(0, length - 1) for length in LENGTHS))  # colour, shape, scale, orientation, x, y


def at(*cell: int) -> np.ndarray:
    """The picture of a cell, summed over channels: 255 is full colour."""
    return draw(np.ravel_multi_index(cell, LENGTHS))[0].sum(axis=2, dtype=np.int64)


@pytest.fixture(scope="module")
def some() -> Collection:
    return WORLDS["sprites"](items=3000, seed=1)


def test_the_grid_is_that_of_dsprites_in_three_colours() -> None:
    """3 × 737,280 cells of 3 shapes, 6 scales, 40 orientations and 32 × 32 places; y runs fastest, colour slowest."""
    assert CELLS == 3 * 737_280
    assert [len(VALUES[name]) for name in ("shape", "scale", "orientation", "x", "y")] == [3, 6, 40, 32, 32]
    seen = factors([0, 1, 32, 1024, 40 * 1024, 6 * 40 * 1024, 737_280, CELLS - 1])
    assert seen["y"].tolist() == [0, 1, 0, 0, 0, 0, 0, 31]
    assert seen["x"].tolist() == [0, 0, 1, 0, 0, 0, 0, 31]
    assert seen["orientation"].tolist() == [0.0, 0.0, 0.0, 9.2, 0.0, 0.0, 0.0, 360.0]
    assert seen["scale"].tolist() == [0.5, 0.5, 0.5, 0.5, 0.6, 0.5, 0.5, 1.0]
    assert seen["shape"].tolist() == ["square"] * 5 + ["ellipse", "square", "heart"]
    assert seen["colour"].tolist() == ["red"] * 6 + ["green", "blue"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2999), max_size=9))
def test_a_picture_alone_is_the_picture_of_any_larger_draw(some: Collection, rows: list[int]) -> None:
    """`draw` and `factors` give a collection's pixels and columns for any list of numbers, repeated or empty."""
    number = [int(item.removeprefix("sprite-")) for item in some.items[rows]] if rows else []
    np.testing.assert_array_equal(draw(number), some.pixels[np.asarray(rows, np.int64)])
    for name, column in factors(number).items():
        np.testing.assert_array_equal(column, some.factors[name][np.asarray(rows, np.int64)])


@pytest.mark.slow
@pytest.mark.parametrize("size", [32, 128])
def test_a_picture_alone_has_the_pixels_of_many_at_every_size(size: int) -> None:
    """Chunks and threads leave no trace, also where pictures are halved or enlarged."""
    number = order(5)[:700]
    whole = draw(number, size)
    for row in (0, 511, 512, 699):
        np.testing.assert_array_equal(draw(number[row], size)[0], whole[row])


def test_an_item_is_the_same_however_many_are_drawn(some: Collection) -> None:
    """The first items of a long collection are those of a short one; another seed has others."""
    few = sprites(40, seed=1)
    np.testing.assert_array_equal(few.items, some.items[:40])
    np.testing.assert_array_equal(few.pixels, some.pixels[:40])
    assert few.digest == Collection("sprites", some.items[:40], {k: v[:40] for k, v in some.factors.items()}).digest
    assert set(sprites(40, seed=2).items) != set(few.items)


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**31))
def test_a_seed_deals_the_whole_grid_and_repeats_last(seed: int) -> None:
    """Every cell comes exactly once, those that look like an earlier one at the end, the others evenly mixed."""
    dealt = order(seed)
    np.testing.assert_array_equal(np.sort(dealt), np.arange(CELLS))
    distinct = CELLS * 39 // 40
    assert (dealt // 1024 % 40 != 39)[:distinct].all()
    counts = np.unique(factors(dealt[:90_000])["shape"], return_counts=True)[1]
    np.testing.assert_allclose(counts, 30_000, atol=800)  # over 5 standard deviations


def test_no_two_pictures_of_a_sample_are_alike() -> None:
    """The 39 orientations of each shape and scale all differ, at every size; at one full turn the first comes back."""
    for zoom in (1, 2, 4):
        flat = stencils(zoom).reshape(18, 40, -1)
        np.testing.assert_array_equal(flat[:, 39], flat[:, 0])
        assert len({one.tobytes() for one in flat[:, :39].reshape(18 * 39, -1)}) == 18 * 39


@settings(max_examples=30, deadline=None)
@given(cells)
def test_position_moves_the_sprite_by_whole_pixels(cell: tuple[int, ...]) -> None:
    """One step of x is one pixel to the right, one of y one pixel down; no sprite is cut off at the edge."""
    *rest, x, y = cell
    np.testing.assert_array_equal(at(*rest, x, y), np.roll(at(*rest, 0, 0), (y, x), axis=(0, 1)))
    picture = at(*rest, 0, 0)
    assert picture[:33, :33].sum() == picture.sum() > 0


@settings(max_examples=30, deadline=None)
@given(cells)
def test_the_centre_of_mass_is_the_position(cell: tuple[int, ...]) -> None:
    """Whatever its shape, scale and orientation, a sprite weighs the same on all sides of its position."""
    picture = at(*cell)
    rows, columns = np.indices(picture.shape)
    centre = [(grid * picture).sum() / picture.sum() for grid in (columns, rows)]
    np.testing.assert_allclose(centre, [16 + cell[4], 16 + cell[5]], atol=0.05)


@settings(max_examples=30, deadline=None)
@given(cells)
def test_area_grows_with_the_square_of_scale(cell: tuple[int, ...]) -> None:
    """The painted area over scale² is that of full scale, to 2 %, at every orientation."""
    colour, shape, scale, _, x, y = cell
    full = at(colour, shape, 5, 0, x, y).sum()
    assert at(*cell).sum() / VALUES["scale"][scale] ** 2 == pytest.approx(full, rel=0.02)


@pytest.mark.parametrize("scale", range(6))
def test_an_ellipse_points_where_its_orientation_says(scale: int) -> None:
    """The long axis of an ellipse stands at the orientation, counter-clockwise from the right, up to half a turn."""
    for orientation in range(40):
        picture = at(0, 1, scale, orientation, 16, 16)
        down, right = np.indices(picture.shape) - 32
        xx, yy, xy = ((picture * part).sum() for part in (right * right, down * down, -right * down))
        off = np.degrees(np.arctan2(2 * xy, xx - yy) / 2) - orientation * 360 / 39
        assert abs((off + 90) % 180 - 90) < 1


def test_a_heart_turns_by_its_orientation() -> None:
    """At 0 degrees a heart's tip hangs down, at the middle; its lopsidedness turns counter-clockwise with the angle."""
    upright = stencils(1)[2, 5, 0] > 127
    np.testing.assert_array_equal(upright, upright[:, ::-1])
    first, last = np.flatnonzero(upright.any(axis=1))[[0, -1]]
    assert not upright[first, 16]
    assert upright[last, 16]
    down, right = np.indices((33, 33)) - 16
    z = right - 1j * down
    lean = np.angle((stencils(1)[2, 5] * (np.abs(z) ** 4 * z)).sum(axis=(1, 2)), deg=True)
    off = lean - lean[0] - np.arange(40) * 360 / 39
    assert np.abs((off + 180) % 360 - 180).max() < 3  # a step is 9.2


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([0.5, 0.7, 1.0]), st.integers(0, 38))
def test_shapes_have_their_symmetries(scale: float, k: int) -> None:
    """A square is itself after a quarter turn, an ellipse after a half, a heart after a whole turn only."""
    turn = k / 39
    drawn = {shape: [covered(shape, scale, turn + more / 4) for more in range(5)] for shape in VALUES["shape"].tolist()}
    same = {shape: [bool((quarter == first).all()) for quarter in rest] for shape, (first, *rest) in drawn.items()}
    assert same["square"] == [True] * 4
    assert same["ellipse"] == [False, True, False, True]
    assert same["heart"] == [False, False, False, True]
    for first, quarter, *_ in drawn.values():
        np.testing.assert_array_equal(quarter, np.rot90(first))


@settings(max_examples=20, deadline=None)
@given(cells)
def test_colour_is_the_only_painted_channel(cell: tuple[int, ...]) -> None:
    """Red, green and blue sprites have the same pixels, in channel 0, 1 and 2, on black."""
    pictures = draw([np.ravel_multi_index((colour, *cell[1:]), LENGTHS) for colour in range(3)])
    for colour in range(3):
        np.testing.assert_array_equal(pictures[colour, :, :, colour], pictures[0, :, :, 0])
        assert not np.delete(pictures[colour], colour, axis=2).any()


@pytest.mark.parametrize("size", [32, 128, 256])
def test_sizes_show_the_same_pictures(some: Collection, size: int) -> None:
    """A larger picture averages to the smaller one within rounding, and annotations do not depend on the size."""
    asked = sprites(20, seed=1, size=size)
    assert asked.digest == sprites(20, seed=1).digest
    small, large = sorted([asked.pixels, some.pixels[:20]], key=lambda pixels: pixels.shape[1])
    side, step = small.shape[1], large.shape[1] // small.shape[1]
    averaged = large.reshape(20, side, step, side, step, 3).mean(axis=(2, 4))
    assert np.abs(averaged - small).max() <= 1


@pytest.mark.parametrize(("call", "words"), [
    (lambda: sprites(4, size=65), ["size is 65", "32, 64, 128 or 256"]),
    (lambda: draw([0], size=0), ["size is 0", "32, 64, 128 or 256"]),
    (lambda: sprites(0), ["items is 0", "1 to 2,211,840"]),
    (lambda: sprites(CELLS + 1), ["items is 2211841", "1 to 2,211,840"]),
    (lambda: draw([3, -2]), ["picture -2", "from 0 to 2211839"]),
    (lambda: factors(CELLS), ["picture 2211840", "from 0 to 2211839"]),
])
def test_impossible_requests_are_refused_in_words(call, words: list[str]) -> None:
    """A size or a number that cannot be drawn is named together with what is allowed."""
    with pytest.raises(ShiftBenchError) as caught:
        call()
    assert all(word in str(caught.value) for word in words)


def test_many_pictures_live_in_a_file(some: Collection, monkeypatch, tmp_path: Path) -> None:
    """Beyond the limit pixels are memory-mapped, equal those in memory, and leave no file behind."""
    monkeypatch.setattr(world, "IN_MEMORY", 2**20)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mapped = sprites(3000, seed=1)
    assert isinstance(mapped.pixels, np.memmap)
    assert mapped == some
    assert not list(tmp_path.iterdir())
    with pytest.raises(ShiftBenchError, match=r"sprites: its images take .* TMPDIR"):
        world.space(200_000_000_000, 64)


def test_a_spurious_correlation_of_shape_and_colour_is_fit(tmp_path: Path) -> None:
    """`read` saves the world, a shift builds on it, and the check finds no picture in two splits."""
    heard: list[tuple[int, int]] = []
    made = verbs.read("world", "sprites", out=tmp_path / "sprites", items=4000, seed=3, size=64,
                      progress=lambda done, total: heard.append((done, total)))
    assert heard == sorted(heard)
    assert heard[-1] == (4000, 4000)
    saved = Collection.load(tmp_path / "sprites")
    assert saved == made
    built = SHIFTS["correlation"](label="shape", factor="colour", rho=0.9, n_train=600, n_test=270).build(saved, 0)
    assert built.names["label"] == ("ellipse", "heart", "square")
    assert not [found for found in check(built, content_hashes(saved, saved.index(built.items))) if found.unfit]


@pytest.mark.slow
def test_another_process_draws_the_same_world() -> None:
    """Annotations and pixels do not depend on the process or on PYTHONHASHSEED."""
    code = ("import hashlib; from shiftbench.worlds.sprites import sprites; c = sprites(300, seed=9);"
            "print(c.digest, hashlib.sha256(c.pixels.tobytes()).hexdigest())")
    said = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "7"}, check=True,
                          capture_output=True, text=True).stdout.split()
    here = sprites(300, seed=9)
    assert said == [here.digest, hashlib.sha256(here.pixels.tobytes()).hexdigest()]


def test_another_machine_draws_the_same_world() -> None:
    """These are the stencils and the order everywhere. Whoever changes a shape changes this number."""
    seen = hashlib.sha256(stencils(1).tobytes() + order(0)[:5000].astype("<i8").tobytes())
    assert seen.hexdigest()[:16] == "29f6d450fcc7e927"


def test_the_world_is_imported_without_numba_or_torch() -> None:
    """Only the first picture pays for numba."""
    code = "import sys, shiftbench.worlds.sprites; assert not {'numba', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
