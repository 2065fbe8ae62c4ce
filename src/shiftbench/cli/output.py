"""What a command prints: tables on a terminal, JSON when asked, progress bars where a person is watching."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars, no table.")]

Advance = Callable[[int, int], None]


def console() -> Console:
    """Standard output; wide enough for a table when it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 140, highlight=False, soft_wrap=False)


def print_json(value: Any) -> None:
    """JSON that every parser takes: NaN and infinity become null."""
    sys.stdout.write(json.dumps(_finite(value), indent=1, ensure_ascii=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table whose number columns are aligned to the right."""
    listed = [[_cell(value) for value in row] for row in rows]
    kinds = [all(_is_number(row[place]) for row in listed) and bool(listed) for place in range(len(columns))]
    if title:
        console().print(title, style="bold", markup=False)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name, number in zip(columns, kinds, strict=True):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in listed:
        table.add_row(*row)
    console().print(table)


@contextmanager
def progress(what: str, quiet: bool = False) -> Iterator[Advance]:
    """A callable (done, total) that moves a bar on standard error; silent when quiet or when nobody is watching."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                   console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("-", "").replace("–", "0").isdigit()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value.item() if hasattr(value, "item") else value
