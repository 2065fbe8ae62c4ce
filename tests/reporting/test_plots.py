"""Charts put numbers where they belong, and both painters draw the same marks."""

import csv
import io
import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from shiftbench.core.errors import ShiftBenchError
from shiftbench.reporting.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LIGHT,
    MARKERS,
    SPACING,
    STYLES,
    TOP,
    WIDTH,
    Bar,
    Dot,
    Entry,
    Figure,
    Guide,
    Look,
    Scale,
    Series,
    Spot,
    around,
    css,
    drawn,
    hundredths,
    legends,
    lines,
    plain,
    rows,
    scale,
    scatter,
)
from shiftbench.reporting.figures import to_svg, write_figures

EVIL = '<script>alert("1")</script> & {{ 7 * 7 }}'
finite = st.floats(-1e6, 1e6)


def cell(value, half=0.0):
    return {"value": value, "low": value - half, "high": value + half}


def figure(name="one", head="A head"):
    """One of each chart, with names that a browser would run."""
    share = scale([0, 1], write=hundredths)
    spots = [Spot(cell(0.2, 0.1), cell(0.4, 0.1), Look(1, k), EVIL, "hollow-dot" if k == 1 else "dot")
             for k in range(len(MARKERS))]
    series = [Series(EVIL, Look(2, 2), [(0.0, cell(0.3), "a"), (1.0, cell(0.7), "b")]),
              Series("pale", Look(3), [(0.0, cell(0.1), ""), (1.0, cell(9.0), "")], "pale-line"),
              Series("before", Look(), [(0.0, cell(0.5), ""), (1.0, cell(0.6), "")], "before")]
    listed = [Entry(EVIL, Look(4), (Bar(cell(0.5, 0.1), band=(0.4, 0.6)), Bar(cell(0.2), "pale-bar")), number="50.0"),
              Entry("dots", dots=(Dot(0.1, "d"), Dot(0.9, style="hollow-dot")), bridge=(0.1, 0.9), extent=(0.05, 0.2),
                  under="why", warned=True, median=0.4)]
    panels = (scatter("spots", spots, share, share, ("x", "y"), [Guide("same", "identity", 1.0)]),
              lines("series", series, share, share, ("x", "y"), width=500, room=100, level=(0.5, "chance", "chance")),
              rows(EVIL, listed, share, level=(0.3, "level")))
    return Figure(name, head, "What it shows", panels, ("name", "value", "low"),
                  (("=1+1", 0.25, math.nan), ("50 % & more_", -0.5, None)),
                  legends=legends([(EVIL, Look(1, 3)), ("identity", "same"), ("hollow", "hollow-dot")]))


@settings(max_examples=200, deadline=None)
@given(st.lists(finite, min_size=1, max_size=6))
def test_an_axis_holds_its_numbers_between_round_ticks(values):
    """Every value is on the axis, ticks are evenly spaced, few, and written apart from each other."""
    axis = scale(values, write=plain)
    slack = 1e-6 * (axis.high - axis.low)
    assert axis.low - slack <= min(values) <= max(values) <= axis.high + slack
    places = [place for place, _ in axis.ticks]
    assert 2 <= len(places) <= 8
    assert np.allclose(np.diff(places), places[1] - places[0])
    assert len({words for _, words in axis.ticks}) == len(places)
    at = axis.between(300, 10)
    assert [at(value) for value in sorted(values)] == sorted((at(value) for value in values), reverse=True)
    assert (at(axis.low - 1), at(axis.high + 1)) == (at(axis.low), at(axis.high)) == (300, 10)


def test_an_axis_stops_where_numbers_stop():
    """A share has no tick below 0 or above 1, whatever its intervals say; a logarithm puts decades evenly."""
    axis = scale([0.02, 1.3, -0.4], write=hundredths, least=0.0, most=1.0)
    assert (axis.ticks[0], axis.ticks[-1]) == ((0.0, "0"), (1.0, "100"))
    at = Scale(1, 100, (), log=True).between(0, 2)
    assert [at(x) for x in (1, 10, 100)] == pytest.approx([0, 1, 2])


def test_a_wide_interval_does_not_stretch_the_axis():
    """Values are always on the axis, the ends of an interval only as far away as the values spread."""
    found = around([cell(0.4, 0.01), cell(0.6, 30.0)])
    assert (min(found), max(found)) == pytest.approx((0.2, 0.8))
    assert around([{"value": math.nan, "low": 0.0, "high": 1.0}]) == []


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=12))
def test_lines_keep_order_and_room(values):
    """A higher value stands higher, everything lies in the frame, and no two names overlap."""
    series = [Series(f"m{k}", Look(k, k), [(x, cell(v, 0.1), f"m{k} {v}") for x, v in zip((0.4, 0.7, 1.4), row,
                                                                                         strict=True)])
              for k, row in enumerate(values)]
    panel = lines("", series, Scale(0.3, 1.5, ()), scale([0, 1], write=hundredths, least=0, most=1), ("", ""),
                  width=760, height=380, room=150)
    points = {}
    for group in panel.groups[1:]:
        for mark in group.marks:
            if mark.style in ("dot", "whisker", "line"):
                assert all(LEFT <= x <= 610 and TOP - 1e-6 <= y <= 380 - BOTTOM + 1e-6 for x, y in mark.points)
            if mark.style == "dot":
                points[mark.points[0]] = float(group.title.split()[1])
    for (_, y), value in points.items():
        assert all(y <= below for (_, below), less in points.items() if value > less)
    names = sorted(mark.points[0][1] for group in panel.groups for mark in group.marks if mark.style == "name")
    assert len(names) == len(values)
    assert (np.diff(names) >= SPACING - 1e-6).all()


def test_bars_and_dots_are_as_long_as_their_numbers():
    """A bar begins at 0 and ends at its value; a dot stands at its value on the same axis."""
    axis = Scale(-1, 1, ((0.0, "0"),))
    panel = rows("t", [Entry("a", bars=(Bar(cell(-0.5)),), dots=(Dot(0.25),))], axis, left=100, right=60)
    at = axis.between(100, WIDTH - 60)
    marks = [mark for group in panel.groups for mark in group.marks]
    (bar,), (dot,) = ([mark for mark in marks if mark.style == style] for style in ("bar", "dot"))
    assert [x for x, _ in bar.points] == [at(0), at(-0.5)]
    assert dot.points[0][0] == at(0.25)


def test_a_drawing_has_no_foreign_markup_and_every_style():
    """Names are text, titles are kept, and each class that is used is in the style sheet; HEIGHT bounds a panel."""
    one = figure()
    for panel in one.panels:
        root = ET.fromstring(f"<svg>{drawn(panel)}</svg>")  # noqa: S314 - written a line above
        assert {element.tag for element in root.iter()} <= {"svg", "g", "title", "path", "rect", "circle", "text"}
        assert {element.get("class") for element in root.iter()} <= {None, *STYLES}
        assert panel.height <= HEIGHT
    assert EVIL in {element.text for element in ET.fromstring(  # noqa: S314
        f"<svg>{drawn(one.panels[0])}</svg>").iter("title")}
    sheet = css()
    for name in set(STYLES) - {"text"}:
        assert f"svg .{name} {{" in sheet
    assert sheet.count("--m7: ") == 3  # light, dark and print


@pytest.mark.slow
def test_figures_are_written_whole(tmp_path):
    """Every figure has four files that repeat to the byte, and an index; names that are equal are told apart."""
    figures = [figure(), figure(), figure("groups-a/b: c", EVIL)]
    folders = [write_figures(figures, tmp_path / name) for name in ("a", "b")]
    names = ["one", "one-2", "groups-a-b-c"]
    assert sorted(path.name for path in folders[0].iterdir()) == sorted(
        ["figures.json", *(f"{name}.{kind}" for name in names for kind in ("svg", "png", "csv", "tex"))])
    index = json.loads((folders[0] / "figures.json").read_text())["figures"]
    assert [one["name"] for one in index] == names
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name
    table = list(csv.reader(io.StringIO((folders[0] / "one.csv").read_text())))
    assert table == [["name", "value", "low"], ["'=1+1", "0.25", ""], ["50 % & more_", "-0.5", ""]]
    assert r"50 \% \& more\_ & $-$0.5 & -- \\" in (folders[0] / "one.tex").read_text()
    write_figures(figures[:1], folders[1])
    assert not (folders[1] / "one-2.svg").exists()


def test_a_folder_that_is_not_ours_stays(tmp_path):
    """A folder with other files is not replaced, and nothing is written beside it."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years")
    with pytest.raises(ShiftBenchError, match="not ours to replace"):
        write_figures([figure()], tmp_path / "mine")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "thesis.tex"]


@pytest.mark.slow
def test_both_painters_draw_the_same(tmp_path):
    """The PNG has twice the pixels of the SVG, its paper around, and the colours of the series that the SVG names."""
    folder = write_figures([figure()], tmp_path / "f")
    pixels = np.asarray(Image.open(folder / "one.png").convert("RGB"))
    root = ET.fromstring((folder / "one.svg").read_text())  # noqa: S314 - written a line above
    assert abs(pixels.shape[1] - 2 * float(root.get("width"))) <= 1
    assert abs(pixels.shape[0] - 2 * float(root.get("height"))) <= 1
    seen = {tuple(colour) for colour in np.unique(pixels.reshape(-1, 3), axis=0).tolist()}
    for name in ("paper", "m1", "m2", "soft", "warned"):
        assert tuple(bytes.fromhex(LIGHT[name][1:])) in seen, name
    assert (pixels[0, 0] == list(bytes.fromhex(LIGHT["paper"][1:]))).all()
    assert "prefers-color-scheme: dark" in to_svg(figure())


@pytest.mark.slow
def test_a_page_loads_what_it_shows(tmp_path):
    """A page and its SVG need no matplotlib, which takes a second to load, and no section that does not apply."""
    script = ("import sys; from shiftbench.data.scores import Scores; from shiftbench.reporting import report\n"
              "report(Scores.of([]), [], sys.argv[1])\n"
              "assert 'jinja2' in sys.modules and 'matplotlib' not in sys.modules\n"
              "papers = {f'shiftbench.reporting.sections.{name}' for name in ('breeds', 'fine_grained', 'nooch')}\n"
              "assert not papers & set(sys.modules), papers & set(sys.modules)")
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "r.html"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
