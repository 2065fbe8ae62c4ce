"""Tables of scores for the terminal."""

import math
from typing import TYPE_CHECKING, Any

from shiftbench.reporting.tables import percent
from shiftbench.scores import ALL, Scores
from shiftbench.scoring import BEHIND, GAP

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def as_table(table: dict[str, Any]) -> "Table":
    """A family's table (`distance_tables`, `share_tables`), value and interval in each cell; * is the best."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    blocks = list(dict.fromkeys(column["block"] for column in table["columns"]))
    drawn = Table(title=Text(f"{table['title']}: {' and '.join(block.lower() for block in blocks)} on test, %"),
                  title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False,
                  caption="* best   ≈ not distinguishable from the best", caption_justify="left")
    drawn.add_column("method")
    for column in table["columns"]:
        short = column["block"].split()[0].lower()
        drawn.add_column(Text(column["head"] if len(blocks) == 1 else f"{short}\n{column['head']}"), justify="right")
    for row in table["rows"]:
        drawn.add_row(Text(row["method"]), *(_cell(cell) for cell in row["cells"]))
    return drawn


def scores_table(scores: Scores) -> "Table":
    """Every split of every run: average, groups and worst group with intervals, then macro F1 and the gap."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("run", "split", "metric", "group"):
        drawn.add_column(name)
    for name in ("n", "%", "interval"):
        drawn.add_column(name, justify="right")
    before: tuple[str, ...] = ("", "")
    for row in scores:
        if row["metric"].endswith(BEHIND):
            continue
        head = (row["method"] or row["run"] if row["seed"] == -1 else row["run"] or row["method"], row["split"])
        shown = [word if word != old or (place and head[0] != before[0]) else ""
                 for place, (word, old) in enumerate(zip(head, before, strict=True))]
        strong = row["metric"] == "worst_group_accuracy" or (row["metric"] == "accuracy" and row["group"] == ALL)
        drawn.add_row(*(Text(word) for word in shown), Text(row["metric"].replace("_", " ")),
                      Text("" if row["group"] == ALL else row["group"]), f"{row['n']:,}",
                      Text(_number(row, "value"), "bold" if strong else ""), _interval(row),
                      end_section=row["split"] == GAP)
        before = head
    return drawn


def _cell(cell: dict[str, Any] | None) -> "Text":
    from rich.text import Text

    if cell is None:
        return Text("–", "dim")
    mark = "*" if cell.get("best") else "≈" if cell.get("tied") else " "
    value = Text(percent(cell["value"]) + mark, "bold" if cell.get("best") else "")
    return value.append(" ").append(_interval(cell))


def _interval(cell: dict[str, Any]) -> "Text":
    from rich.text import Text

    return Text("" if math.isnan(cell["low"]) else f"{_number(cell, 'low')}–{_number(cell, 'high')}", "dim")


def _number(row: dict[str, Any], key: str) -> str:
    """A share in per cent; a loss as it is."""
    return f"{row[key]:.3f}" if "nll" in row.get("metric", "") else percent(row[key])
