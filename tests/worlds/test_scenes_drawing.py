"""The art and the rasteriser: what is measured is what is painted, and no two breeds look alike."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.worlds.scenes import CANONICAL, Seen, render
from shiftbench.worlds.scenes import scene as themes
from shiftbench.worlds.scenes.layout import PLACE, THING, Layout, arrange
from shiftbench.worlds.scenes.pen import FRAME, NAMED
from shiftbench.worlds.scenes.raster import cross, fill
from shiftbench.worlds.scenes.scene import STRIDE, sample, things
from shiftbench.worlds.scenes.sheet import read_art, sheet

PLAIN = [4096, 0, 256, 256, 256, 0, 0, 0, 0, 0, 0, 0]  # no turn, no tint, flat


def alone(sprites: list[int], gray: int = 128) -> tuple[np.ndarray, Seen]:
    """Each sprite by itself on a lawn, in the same colours as all others."""
    place = next(k for k, s in enumerate(sheet().sprites) if s.name == "field")
    ground, one = [*NAMED["light blue"], *NAMED["meadow"]], [gray] * 3 + [gray // 2] * 3
    rows = [row for sprite in sprites for row in ([place, FRAME // 2, 0, 1024, 1024, *ground, PLACE],
                                                  [sprite, FRAME // 2, FRAME // 8, 1280, 1280, *one, THING])]
    n = len(sprites)
    blank = np.zeros(2 * n, "U1")
    return render(Layout(np.arange(0, 2 * n + 1, 2), np.asarray(rows), np.asarray([PLAIN] * n),
                         np.repeat(np.arange(n), 2), blank, np.zeros(2 * n, bool), blank, blank), CANONICAL)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.15, 1.0), min_size=3, max_size=14))
def test_a_filled_polygon_has_the_area_of_geometry(radii: list[float]) -> None:
    """Painted pixels of a star-shaped polygon number its area, to within half a pixel along its outline."""
    side, angle = 96, np.linspace(0, 2 * np.pi, len(radii), endpoint=False)
    x = np.rint(256 * (side / 2 + 44 * np.asarray(radii) * np.cos(angle))).astype(np.int64)
    y = np.rint(256 * (side / 2 + 44 * np.asarray(radii) * np.sin(angle))).astype(np.int64)
    crossing, count = np.zeros((side, 32), np.int64), np.zeros(side, np.int64)
    colour, owner = np.zeros((side, side), np.uint32), np.zeros((side, side), np.int16)
    cross(x, y, len(x), 0, side - 1, crossing, count)
    fill(colour, owner, crossing, count, 0, side - 1, 0xABCDEF, 256, False, True, 7)
    area = abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2 / 256**2
    outline = np.hypot(np.diff(x, append=x[:1]), np.diff(y, append=y[:1])).sum() / 256
    assert abs((owner == 7).sum() - area) <= outline / 2 + 1
    assert ((colour == 0xABCDEF) == (owner == 7)).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(-160, 160), st.integers(-160, 160), st.integers(8, 60))
def test_what_sticks_out_of_the_picture_is_cut_off(dx: int, dy: int, radius: int) -> None:
    """A shape moved by whole pixels paints the same pixels moved, less those outside the picture."""
    wide, side, n = 512, 96, 9
    angle = 2 * np.pi * np.arange(n) / n
    x, y = (np.rint(256 * radius * turn(angle)).astype(np.int64) for turn in (np.cos, np.sin))
    painted = []
    for size, left, top in ((wide, 256, 256), (side, 48 + dx, 48 + dy)):
        crossing, count = np.zeros((size, 32), np.int64), np.zeros(size, np.int64)
        colour, owner = np.zeros((size, size), np.uint32), np.zeros((size, size), np.int16)
        cross(x + 256 * left, y + 256 * top, n, 0, size - 1, crossing, count)
        fill(colour, owner, crossing, count, 0, size - 1, 0xABCDEF, 256, False, True, 7)
        painted.append(owner == 7)
    whole, cut = painted
    row, column = 256 - 48 - dy, 256 - 48 - dx
    np.testing.assert_array_equal(cut, whole[row:row + side, column:column + side])


def test_boxes_contain_every_pixel_of_the_subject() -> None:
    """Repainting the subject in other colours changes pixels inside its box only, and no more of them than its area."""
    layout = arrange(sample(np.arange(150), 3), 3)
    layout.look[:, 8] = 0  # a flat style: an outline would darken neighbours too
    before, seen = render(layout, CANONICAL)
    layout.placed[layout.subject, 5:11] = 255 - layout.placed[layout.subject, 5:11]
    after, _ = render(layout, CANONICAL)
    changed = (before != after).any(axis=3)
    assert changed.any(axis=(1, 2)).all()
    for pixels, (x, y, width, height) in zip(changed, seen.box[layout.subject] * CANONICAL, strict=True):
        rows, columns = np.flatnonzero(pixels.any(1)), np.flatnonzero(pixels.any(0))
        assert np.floor(x) <= columns[0] <= columns[-1] < np.ceil(x + width)
        assert np.floor(y) <= rows[0] <= rows[-1] < np.ceil(y + height)
    # an edge pixel may be only a quarter the subject's
    assert (changed.mean(axis=(1, 2)) <= 1.3 * seen.area[layout.subject] + 0.03).all()


def test_what_is_visible_adds_up_to_the_picture() -> None:
    """Objects and stuff share out every pixel of every picture, at any size."""
    layout = arrange(sample(np.arange(60), 8), 8)
    for size in (32, CANONICAL, 100):
        _, seen = render(layout, size)
        total = np.bincount(layout.item, seen.area, 60) + seen.stuff.sum(1)
        np.testing.assert_allclose(total, 1.0)


def test_nothing_visible_of_what_is_fully_covered() -> None:
    """An object behind a larger copy of itself has no area; on top it has all of its own."""
    layout = arrange(sample(np.arange(1), 0), 0)
    box = next(k for k, s in enumerate(sheet().sprites) if s.name == "box")
    small, large = ([box, FRAME // 2, FRAME // 4, scale, scale, *[90] * 6, THING] for scale in (800, 1600))
    for order, hidden in (((small, large), True), ((large, small), False)):
        rows = np.asarray([layout.placed[0], *order])
        blank = np.zeros(3, "U1")
        _, seen = render(Layout(np.asarray([0, 3]), rows, np.asarray([PLAIN]), np.zeros(3, int), blank, blank == "x",
                                blank, blank), CANONICAL)
        assert (seen.area[1 if hidden else 2] < 0.004) == hidden


@pytest.mark.parametrize("kind", sorted(themes.CLASSES))
def test_breeds_of_a_class_look_different(kind: str) -> None:
    """In the same colours and pose, any two breeds of a class differ clearly in at least 40 of 4096 pixels."""
    first = {}
    for number in sheet().variants(kind):
        first.setdefault(sheet().sprites[number].breed, number)
    pictures, _ = alone(list(first.values()))
    for a, b in combinations(range(len(first)), 2):
        different = (np.abs(pictures[a].astype(int) - pictures[b]) > 24).any(axis=2).sum()
        assert different >= 40, (list(first)[a], list(first)[b])


def test_every_sprite_stays_within_what_the_rasteriser_can_hold() -> None:
    """No polygon has more points than the rasteriser has room for, and every sprite paints something."""
    assert np.diff(sheet().start).max() <= 512
    objects = [k for k, s in enumerate(sheet().sprites) if s.name in (*things()[0], *themes.CLASSES)]
    _, seen = alone(objects)
    assert (seen.area[1::2] > 0.004).all()
    assert len(things()[0]) < STRIDE - 8  # each object of an item has random numbers of its own


def test_every_word_of_the_themes_can_be_drawn() -> None:
    """Places, weather and objects named in the themes have sprites, and all chances are percentages."""
    known = {sprite.name for sprite in sheet().sprites}
    assert set(themes.WITH) == {s.name for s in sheet().sprites if s.band in ("indoors", "outdoors")}
    assert set(themes.WEATHER) <= known
    assert set(things()[0]) <= known
    for line in (*themes.WHERE.values(), *themes.WITH.values(), *themes.COMPANIONS.values()):
        assert all(0 < chance <= 100 for chance in themes.table(line).values())
    for places in themes.WHERE.values():
        assert set(themes.table(places)) <= set(themes.WITH)


def test_a_mistake_in_the_art_is_found_by_its_line() -> None:
    """An art file that cannot be drawn is refused with its name, line and text."""
    with pytest.raises(ShiftBenchError, match=r"toys.shapes, line 2: cannot draw 'oval chartreuse 0 0 1 1'"):
        read_art("@top | front | red | blue\noval chartreuse 0 0 1 1\n", "toys.shapes")


def test_item_numbers_may_be_large() -> None:
    """The millionth item exists without the others and differs from its neighbour."""
    a, b = render(arrange(sample(np.asarray([10**6, 10**6 + 1]), 0), 0), 32)[0]
    assert (a != b).any()
