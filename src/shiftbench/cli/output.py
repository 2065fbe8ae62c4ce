"""What a command prints: tables on a terminal, JSON when asked, progress bars where a person is watching.

Everything on the terminal goes through this module. Names come from data, and data may contain anything: nothing is
read as markup or emoji, and control characters are escaped.
"""

import json
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Protocol

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from shiftbench.core.errors import printable

Advance = Callable[[int, int], None]

EVERY = 30.0
"""Seconds between two lines about a long piece of work where nobody is watching."""


class Ended(Protocol):
    """How a run ended: `done`, or `failed`; 0 seconds where it had ended before the sweep."""

    @property
    def state(self) -> str: ...

    @property
    def seconds(self) -> float: ...


class _Plain(Console):
    """A console that prints text literally."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, soft_wrap=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text
            clean = text if segment.control or text.isprintable() else "\n".join(map(printable, text.split("\n")))
            yield segment if clean == text else Segment(clean, segment.style, segment.control)


def console() -> Console:
    """Standard output, for tables that another part has drawn; wide enough for one when it is not a terminal."""
    return _Plain(width=None if sys.stdout.isatty() else 140)


def say(*lines: object, style: str = "") -> None:
    """Print lines of text without wrapping them; a line break inside one is escaped."""
    for line in lines:
        console().print(printable(line), style=style or None, soft_wrap=True)


def say_titled(name: object, details: object) -> None:
    """Print a line whose first words, a name, are bold."""
    console().print(Text(printable(name), "bold").append(f"  {printable(details)}", "not bold"), soft_wrap=True)


def note(message: object) -> None:
    """Print a note on standard error."""
    sys.stderr.write(f"note: {printable(message)}\n")


@contextmanager
def noted() -> Iterator[list[str]]:
    """Turn warnings inside the block into notes on standard error; the list has them at the end."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        silence_pillow()
        yield notes
    notes += dict.fromkeys(str(warning.message) for warning in caught)
    for message in notes:
        note(message)


def silence_pillow() -> None:
    """Turn Pillow's warnings about damaged images off: our error names the file and the reason."""
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


def print_json(value: Any) -> None:
    """Print JSON that every parser takes: NaN and infinity become null, and control characters are escaped."""
    text = json.dumps(_finite(value), indent=1, ensure_ascii=False)
    sys.stdout.write(_RISKY.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")


_RISKY = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that JSON allows unescaped but that a terminal or a UTF-8 encoder may not take."""


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table whose number columns are aligned to the right; a title may begin with a line break."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [all(_is_number(row[column]) for row in cells) and bool(cells) for column in range(len(columns))]
    if title:
        say(*([""] if title.startswith("\n") else []), title.lstrip("\n"), style="bold")
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name, is_numeric in zip(columns, numeric, strict=True):
        table.add_column(printable(name), justify="right" if is_numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    console().print(table)


def teller(silent: bool = False) -> Callable[[str], None]:
    """A callable that prints a line on standard error, above the bar where there is one."""
    def say(line: str) -> None:
        if not silent:
            sys.stderr.write(f"{printable(line)}\n")

    return say


@contextmanager
def progress(what: str, quiet: bool = False, in_bytes: bool = False) -> Iterator[Advance]:
    """A callable (done, total): a bar on a terminal, else a line now and then, on standard error; none when quiet."""
    if quiet or not sys.stderr.isatty():
        yield _lines(what, math.inf if quiet else EVERY)
        return
    counts = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)
    bar = Progress(TextColumn("{task.description}", markup=False), BarColumn(), *counts, TimeRemainingColumn(),
                   console=_Plain(stderr=True), transient=True)
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(what: str, every: float, clock: Callable[[], float] = time.monotonic) -> Advance:
    """Print the progress, at most once in `every` seconds."""
    last = clock()

    def advance(done: int, total: int) -> None:
        nonlocal last
        if clock() - last >= every:
            last = clock()
            sys.stderr.write(f"{what}: {done:,} of {total:,}\n")
            sys.stderr.flush()

    return advance


class Tally:
    """The state of a sweep: runs done, failed and left, and how long the rest takes at the pace so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.began = clock, clock()
        self.done = self.failed = self.found = self.total = 0

    def add(self, end: Ended, total: int) -> None:
        """Count a run; those that had ended before the sweep do not count for the pace."""
        self.total = total
        self.done += end.state == "done"
        self.failed += end.state == "failed"
        self.found += end.state in ("done", "failed") and not end.seconds

    def __str__(self) -> str:
        if not self.total:
            return "no run has ended yet"
        ended = self.done + self.failed
        left = self.total - ended
        sentence = f"{self.done:,} of {self.total:,} runs done, {self.failed:,} failed, {left:,} left"
        if left and ended > self.found:
            sentence += f", about {how_long((self.clock() - self.began) * left / (ended - self.found))} to go"
        return sentence


@contextmanager
def sweep_progress(quiet: bool = False) -> Iterator[Callable[[Ended, int], None]]:
    """A callable (how a run ended, runs in all): a bar on a terminal, else a line now and then; nothing when quiet."""
    tally = Tally()
    if quiet:
        yield tally.add
    elif sys.stderr.isatty():
        bar = Progress(BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(),
                       console=_Plain(stderr=True), transient=True)
        with bar:
            task = bar.add_task("starting", total=None)

            def advance(end: Ended, total: int) -> None:
                tally.add(end, total)
                bar.update(task, completed=tally.done + tally.failed, total=total, description=str(tally))

            yield advance
    else:
        over = Event()
        teller = Thread(target=_tell, args=(tally, over), daemon=True)
        teller.start()
        try:
            yield tally.add
        finally:
            over.set()
            teller.join()


def _tell(tally: Tally, over: Event) -> None:
    while not over.wait(EVERY):
        sys.stderr.write(f"{tally}\n")
        sys.stderr.flush()


def how_long(seconds: float) -> str:
    """A duration in words.

    >>> [how_long(seconds) for seconds in (0.4, 75, 5000, 400_000)]
    ['1 s', '75 s', '1 h 23 min', '4.6 days']
    """
    if math.isnan(seconds):
        return "unknown"
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 48 * 60 else f"{seconds / 86_400:.1f} days"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else printable(value)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("-", "").replace("–", "0").isdigit()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(element) for element in value]
    return value.item() if hasattr(value, "item") else value
