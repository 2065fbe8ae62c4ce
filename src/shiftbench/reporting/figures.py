"""Figures as files: SVG and PNG, and the tables of their numbers as CSV and LaTeX.

matplotlib paints PNG alone: its own SVG has fixed colours, no titles and ids that clash on a page, and is four to six
times as large (`docs/reports.md`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from shiftbench.core.files import write_json, writing_folder
from shiftbench.reporting.charts import COLOURS, LIGHT, MARKERS, STYLES, Figure, Group, Panel, css, drawn, short
from shiftbench.reporting.score_tables import to_csv, to_latex

INDEX = "figures.json"
"""The file that lists the figures of a folder and describes them."""
PNG_SCALE = 2
ALIGNED: Mapping[str, Literal["left", "center", "right"]] = {"start": "left", "middle": "center", "end": "right"}
GAP, MARGIN = 24, 16
"""Room between the panels of a figure, and around them."""
LARGER = {"triangle": 1.2, "diamond": 0.9, "wedge": 1.2, "plus": 1.25}
"""Factors that make matplotlib's markers as large as ours."""


def write_figures(figures: Sequence[Figure], folder: Path | str) -> Path:
    """Every figure as NAME.svg and NAME.png, its table as NAME.csv and NAME.tex, and an index; all or nothing."""
    index, names = [], set[str]()
    with writing_folder(folder, INDEX) as hidden:
        for figure in figures:
            name = re.sub(r"[^\w.-]+", "-", figure.name).strip("-.")[:100] or "figure"
            numbered = (f"{name}-{number}" for number in count(2))
            name = next(candidate for candidate in chain([name], numbered) if candidate not in names)
            names.add(name)
            (hidden / f"{name}.svg").write_text(to_svg(figure), encoding="utf-8")
            write_png(figure, hidden / f"{name}.png")
            (hidden / f"{name}.csv").write_text(to_csv(figure.columns, figure.rows), encoding="utf-8")
            (hidden / f"{name}.tex").write_text(to_latex(figure.columns, figure.rows, figure.head), encoding="utf-8")
            index.append({"name": name, "head": figure.head, "definition": figure.definition})
        write_json(hidden / INDEX, {"format": "shiftbench figures", "version": 1, "figures": index})
    return Path(folder)


def to_svg(figure: Figure, most: int = 3) -> str:
    """A figure as a standalone SVG file, with its light and dark colours, and at most so many panels side by side."""
    placed, width, height = _laid_out(figure, most)
    inside = "\n".join(f'<g transform="translate({short(x)} {short(y)})">\n{drawn(panel)}\n</g>'
                       for x, y, panel in placed)
    letters = "svg text { font-family: ui-sans-serif, system-ui, sans-serif; font-variant-numeric: tabular-nums; }"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {short(width)} {short(height)}" '
            f'width="{short(width)}" height="{short(height)}" role="img">\n<title>{escape(figure.head)}</title>\n'
            f"<desc>{escape(figure.definition)}</desc>\n<style>\n{css()}{letters}\n"
            f'svg .paper {{ fill: var(--paper); }}\n</style>\n<rect class="paper" width="100%" height="100%"/>\n'
            f"{inside}\n</svg>\n")


def _laid_out(figure: Figure, most: int = 3) -> tuple[list[tuple[float, float, Panel]], float, float]:
    """The position of each panel (the legend, then rows of panels), and the size of the figure."""
    rows = [figure.panels[start:start + most] for start in range(0, len(figure.panels), most)]
    wide = max((sum(panel.width + GAP for panel in row) - GAP for row in rows), default=0.0)
    fitting = [key for key in figure.legends if key.width <= wide + GAP] or list(figure.legends[-1:])
    placed, y, right = [], float(MARGIN), 0.0
    for row in [fitting[:1], *rows] if fitting else rows:
        x = float(MARGIN)
        for panel in row:
            placed.append((x, y, panel))
            x += panel.width + GAP
        right, y = max(right, x - GAP), y + max(panel.height for panel in row) + GAP
    return placed, right + MARGIN, y - GAP + MARGIN


def write_png(figure: Figure, path: Path) -> None:
    """Paint a figure's panels, in the colours of light, at twice their size in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    placed, width, height = _laid_out(figure)
    canvas = Canvas(figsize=(width / 100, height / 100), dpi=100 * PNG_SCALE, facecolor=LIGHT["paper"])
    FigureCanvasAgg(canvas)
    axes = canvas.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    order = 0
    for x, y, panel in placed:
        for group in panel.groups:
            for artist in _artists(group, x, y):
                order += 1
                artist.set_zorder(order)
                axes.add_artist(artist)
    canvas.savefig(path, format="png", metadata={"Software": None})


def _artists(group: Group, left: float, top: float) -> Iterator[Any]:
    """A group's marks for matplotlib, whose lengths are points: 100 pixels are 72 of them."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.text import Text

    def colour(name: str) -> str:
        return "none" if not name else LIGHT[f"m{group.colour % COLOURS}" if name == "c" else name]

    for mark in group.marks:
        style, xs, ys = STYLES[mark.style], *([start + point[side] for point in mark.points]
                                              for side, start in ((0, left), (1, top)))
        if mark.shape == "text":
            yield Text(xs[0], ys[0], mark.text, color=colour(style.fill), fontsize=0.72 * style.size,
                       fontweight="bold" if style.bold else "normal", parse_math=False, verticalalignment="baseline",
                       horizontalalignment=ALIGNED[mark.anchor],
                       rotation=90 if mark.upright else 0, rotation_mode="anchor")
        elif mark.shape == "box":
            yield Rectangle((xs[0], ys[0]), xs[1] - xs[0], ys[1] - ys[0], facecolor=colour(style.fill),
                            edgecolor="none", alpha=style.opacity)
        elif mark.shape == "line":
            drawn_line = Line2D(xs, ys, color=colour(style.stroke), linewidth=0.72 * style.width, alpha=style.opacity,
                                solid_joinstyle="round", solid_capstyle="butt")
            if style.dash:
                drawn_line.set_linestyle((0, [length / style.width for length in style.dash]))
            yield drawn_line
        else:
            yield Line2D(xs, ys, marker=MARKERS[mark.shape][1], 
                         markersize=0.72 * 2 * mark.radius * LARGER.get(mark.shape, 1.0), linestyle="none",
                         markerfacecolor=colour(style.fill), markeredgecolor=colour(style.stroke),
                         markeredgewidth=0.72 * style.width, alpha=style.opacity)
