"""The tables of methods × shifts as Markdown, so that documents quote a run and nobody copies numbers by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from shiftbench.core.errors import ShiftBenchError
from shiftbench.reporting.tables import percent


def as_markdown(table: Mapping[str, Any]) -> str:
    """A family's table (`distance_tables`, `share_tables`): value and interval, bold is the best, ≈ tied with it."""
    blocks = list(dict.fromkeys(column["block"] for column in table["columns"]))
    heads = [column["under"] + ", " + column["head"] if len(blocks) == 1 else
             f"{column['block'].split()[0].lower()}, {column['head']}" for column in table["columns"]]
    rows = [[row["method"], *map(_cell, row["cells"])] for row in table["rows"]]
    title = f"{table['title']}: {' and '.join(block.lower() for block in blocks)} on test, %"
    return "\n".join([title, "", _line(["method", *heads]), "|--" * (len(heads) + 1) + "|", *map(_line, rows)])


def _cell(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "–"
    value = f"**{percent(cell['value'])}**" if cell["best"] else percent(cell["value"])
    return f"{value}{' ≈' if cell['tied'] else ''} <sub>{percent(cell['low'])}–{percent(cell['high'])}</sub>"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace(chr(0xA0), ' ').replace('|', chr(92) + '|') for cell in cells)} |"


def quoted(text: str, name: str) -> str:
    """What stands in a document between `<!-- NAME -->` and `<!-- end NAME -->`."""
    return _parts(text, name)[1]


def inserted(text: str, name: str, block: str) -> str:
    """The document with another text between the two marks."""
    before, _, after = _parts(text, name)
    return f"{before}{block}{after}"


def _parts(text: str, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ShiftBenchError(f"A document must have the marks {begin.strip()} and {end} once each.")
    before, _, rest = text.partition(begin)
    block, _, after = rest.partition(end)
    return before + begin, block, end + after
