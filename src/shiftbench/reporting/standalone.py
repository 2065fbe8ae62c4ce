"""A figure of the page as a file of its own: an SVG that carries its colours, light and dark."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftbench.reporting.tables import percent
from shiftbench.reporting.words import breakable

FOLDER = Path(__file__).parent
GAP = 24
"""Room between the parts of a figure."""


def standalone(template: str, head: str, definition: str, rows: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """Drawings in rows, each by the template's macro `drawing`; head and definition are its title and description."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    drawer = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined,
                         trim_blocks=True, lstrip_blocks=True)
    drawer.filters |= {"percent": percent, "breakable": breakable}
    module: Any = drawer.get_template(template).make_module({"methods": []})
    inside, y, width = Markup(), 0.0, 0
    for row in rows:
        x = 0
        for part in row:
            inside += Markup('<g transform="translate({} {})">{}</g>\n').format(x, round(y, 1), module.drawing(part))
            x += int(part["width"]) + GAP
        width = max(width, x - GAP)
        y += max(part["height"] for part in row) + GAP
    height = round(y - GAP + 2)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-16 -16 {width + 32} {height + 32}" '
            f'width="{width + 32}" height="{height + 32}" role="img">\n<title>{escape(head)}</title>\n'
            f'<desc>{escape(definition)}</desc>\n<style>\n{_style()}</style>\n'
            f'<rect class="paper" x="-16" y="-16" width="100%" height="100%"/>\n{inside}</svg>\n')


def in_rows(parts: Sequence[Mapping[str, Any]], most: int = 3) -> list[Sequence[Mapping[str, Any]]]:
    """Panels in rows of three."""
    return [parts[start:start + most] for start in range(0, len(parts), most)]


def _style() -> str:
    """Of the page's style, its colours and what it says of drawings."""
    text = (FOLDER / "style.css").read_text(encoding="utf-8")
    colours, _, rest = text.partition("\n* {")
    drawn = [line for line in rest.splitlines() if line.startswith(("svg .", "svg text"))]
    letters = "svg text { font-family: var(--sans); font-variant-numeric: tabular-nums; }"
    return "\n".join([colours, letters, *drawn, ""])
