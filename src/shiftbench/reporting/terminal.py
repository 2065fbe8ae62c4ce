"""Tables of scores for the terminal."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shiftbench.core.errors import printable
from shiftbench.data.groupings import spaced, untitled
from shiftbench.data.scores import ALL, Scores
from shiftbench.reporting.tables import percent
from shiftbench.scoring import BEHIND, GAP, comparisons
from shiftbench.scoring.metrics import in_words

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

GROUPS = 20
"""Groups that are printed of a metric; of more, those that it finds worst."""
FEWEST = 10
"""Groups from which on their tenth percentile is printed."""


def as_table(table: dict[str, Any]) -> "Table":
    """A family's table (`distance_tables`, `share_tables`), value and interval in each cell; * is the best."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    blocks = list(dict.fromkeys(column["block"] for column in table["columns"]))
    title = f"{table['title']}: {' and '.join(block.lower() for block in blocks)} on test, %"
    drawn = Table(title=Text(printable(title)), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
                  pad_edge=False, caption="* best   ≈ not distinguishable from the best", caption_justify="left")
    drawn.add_column("method")
    for column in table["columns"]:
        short, head = column["block"].split()[0].lower(), printable(column["head"])
        drawn.add_column(Text(head if len(blocks) == 1 else f"{short}\n{head}"), justify="right")
    for row in table["rows"]:
        drawn.add_row(Text(printable(row["method"])), *(_cell(cell) for cell in row["cells"]))
    return drawn


def scores_table(scores: Scores) -> "Table":
    """Every split of every run: average, groups and worst group with intervals, then macro F1 and the gap.

    Of many groups the worst are shown; the table as a file has all.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("run", "split", "metric", "group"):
        drawn.add_column(name)
    for name in ("n", "%", "interval"):
        drawn.add_column(name, justify="right")
    before: tuple[str, ...] = ("", "")
    kept = [row for row in scores if not row["metric"].endswith(BEHIND)]
    hidden = _hidden(kept)
    if hidden:
        drawn.caption = f"Of more than {GROUPS} groups the worst are shown; --out has all."
        drawn.caption_justify = "left"
    for row in _shown(kept, hidden):
        head = (row["method"] or row["run"] if row["seed"] == -1 else row["run"] or row["method"], row["split"])
        shown = [word if word != old or (place and head[0] != before[0]) else ""
                 for place, (word, old) in enumerate(zip(head, before, strict=True))]
        strong = (untitled(row["metric"])[0] == "worst_group_accuracy"
                  or (row["metric"] == "accuracy" and row["group"] == ALL))
        drawn.add_row(*(Text(printable(word)) for word in shown), Text(printable(in_words(row["metric"]))),
                      Text("" if row["group"] == ALL else printable(row["group"])), f"{row['n']:,}",
                      Text(_number(row, "value"), "bold" if strong else ""), _interval(row),
                      end_section=row["split"] == GAP)
        before = head
    return drawn


def versus_table(scores: Scores) -> "Table | None":
    """Models side by side on the same items: all items, then the groups in which they differ most surely."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    listed = comparisons(scores)
    if not listed:
        return None
    more = f" The first {GROUPS} of {len(listed)}; --out has all." if len(listed) > GROUPS else ""
    drawn = Table(title="Side by side, on the same items", title_justify="left", title_style="bold",
                  box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left",
                  caption=f"p is corrected for all pairs of models and for the groups of a grouping.{more}")
    for name in ("split", "metric", "group"):
        drawn.add_column(name)
    for name in ("n", "ahead", "%", "behind", "%", "difference", "interval", "p"):
        drawn.add_column(name, justify="right")
    for one in listed[:GROUPS]:
        metric = in_words(one.metric) + (f" by {spaced(one.by)}" if one.by else "")
        drawn.add_row(one.split, Text(metric), Text("" if one.group == ALL else one.group), f"{one.n:,}",
                      Text(one.best), percent(one.best_value), Text(one.other), percent(one.other_value),
                      percent(one.difference), _interval(one._asdict()), probability(one.p))
    return drawn


def probability(p: float) -> str:
    """
    >>> probability(0.0264), probability(4e-5), probability(1.0), probability(math.nan)
    ('0.026', '4e-05', '1', '–')
    """
    return "–" if math.isnan(p) else f"{p:.2g}" if p >= 0.001 else f"{p:.0e}"


def _hidden(rows: list[dict[str, Any]]) -> set[int]:
    """Rows of groups that are not printed: of each metric all but the worst ones."""
    parts: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["group"] != ALL:
            parts.setdefault((*_of(row), row["metric"]), []).append(row)
    return {id(row) for listed in parts.values() for row in sorted(listed, key=_goodness)[GROUPS:]}


def _goodness(row: dict[str, Any]) -> float:
    """Higher is better, also of a loss; a group without a value is never among the worst."""
    value = -row["value"] if row["metric"].partition("[")[0] in ("nll", "mse") else row["value"]
    return math.inf if math.isnan(value) else float(value)


def _shown(rows: list[dict[str, Any]], hidden: set[int]) -> Iterator[dict[str, Any]]:
    """The rows that are printed: of each metric the worst group first; how many groups a further grouping has."""
    parts = Counter(_of(row) for row in rows if row["metric"].startswith("accuracy["))
    place: dict[tuple[Any, ...], int] = {}
    order = [place.setdefault((*_of(row), row["metric"], row["group"] == ALL), at) for at, row in enumerate(rows)]
    for _, _, at in sorted((first, _goodness(rows[at]) if rows[at]["group"] != ALL else 0.0, at)
                           for at, first in enumerate(order)):
        row = rows[at]
        many = parts[_of(row)]
        if many and row["group"] == ALL:
            row["group"] = f"{many:,} groups"
        if id(row) not in hidden and not (row["metric"].startswith("tenth") and many < FEWEST):
            yield row


def _of(row: dict[str, Any]) -> tuple[Any, ...]:
    """Whose row it is, and of which grouping."""
    return (*(row[name] for name in ("benchmark", "run", "method", "seed", "split")), untitled(row["metric"])[1])


def _cell(cell: dict[str, Any] | None) -> "Text":
    from rich.text import Text

    if cell is None:
        return Text("–", "dim")
    mark = "*" if cell.get("best") else "≈" if cell.get("tied") else " "
    value = Text(percent(cell["value"]) + mark, "bold" if cell.get("best") else "")
    return value.append(" ").append(_interval(cell))


def _interval(cell: dict[str, Any]) -> "Text":
    from rich.text import Text

    between = " to " if cell["low"] < 0 else "–"  # a dash beside a minus cannot be read
    return Text("" if math.isnan(cell["low"]) else f"{_number(cell, 'low')}{between}{_number(cell, 'high')}", "dim")


def _number(row: dict[str, Any], key: str) -> str:
    """A share in per cent; a loss, a correlation and a count as they are."""
    metric = row.get("metric", "").removeprefix("worst_group_").removesuffix("_gap")
    if metric == "tasks_judged":
        return f"{row[key]:.0f}"
    plain = "nll" in metric or metric in ("r", "mse")
    return f"{row[key]:.3f}".replace("-", "−") if plain else percent(row[key])
