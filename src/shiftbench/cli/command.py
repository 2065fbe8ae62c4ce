"""What every command shares: how it starts and fails, the options of several verbs, and what is printed.

Everything on the terminal goes through this page. Names come from data, and data may contain anything: nothing is read
as markup or emoji, and control characters are escaped.
"""

import json
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
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

from shiftbench import __version__
from shiftbench.core.errors import Advance, Say, ShiftBenchError, printable

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown",
    help="Controlled, explained, measured distribution shifts from what is already annotated about your data.",
    epilog="The flow: read → build → check → train or sweep → score → report. Start with: shiftbench demo",
)

RENAMED = {
    "setting": "shiftbench build BENCHMARK --reference NAME --out FOLDER, or shiftbench check BENCHMARK --references",
    "hardest": "shiftbench select RUNS --hardest N",
}
"""Verbs that became options of others: an old name answers with the new one."""


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        sys.stdout.write(f"shiftbench {__version__}\n")
        raise typer.Exit


def main() -> None:
    """Run a command. What the user can correct is one line on standard error and exit code 1."""
    try:
        for word in sys.argv[1:]:
            if any("\ud800" <= letter <= "\udfff" for letter in word):  # how Python spells bytes that are no text
                raise ShiftBenchError(f"'{word}' is not UTF-8 text. Rename the file, or give it through a link with "
                                      "another name.")
        if sys.argv[1:] and sys.argv[1] in RENAMED:
            sys.stderr.write(f"shiftbench: '{sys.argv[1]}' is now: {RENAMED[sys.argv[1]]}.\n")
            sys.exit(2)
        silence_pillow()
        with warnings.catch_warnings():  # one of ours that no verb collects is a line, without the code that raised it
            show_fully = warnings.showwarning
            warnings.showwarning = lambda message, category, *where: (
                note(message) if category is UserWarning else show_fully(message, category, *where))
            app()
    except ShiftBenchError as problem:
        sys.stderr.write(f"shiftbench: {problem}\n")
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as problem:  # a name that is too long, a folder without permission
        file = printable(os.fsdecode(problem.filename or "a file"))[:300]
        sys.stderr.write(f"shiftbench: {file}: {printable(problem.strerror or problem)}.\n")
        sys.exit(1)


# Options of several verbs

def load(names: list[str] | None) -> list[str] | None:
    """Load users' code, before the verb looks names up; an error in it names the file."""
    if names:
        from shiftbench.core.registry import load_plugins

        load_plugins(names)
    return names


Json = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars, no table.")]
Plugins = Annotated[list[str] | None, typer.Option(
    "--import", callback=load, is_eager=True, metavar="FILE.py|PACKAGE",
    help="Your own methods, shifts, readers, metrics, models or sections; may be repeated. See docs/extend.md.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Origin = Annotated[Path | None, typer.Option(help="Where its collection is now.")]

# What the user says of predictions from outside
Names = Annotated[list[str] | None, typer.Option(
    "--name", help="Name of the run that predicted; repeated, one per file.")]
Methods = Annotated[list[str] | None, typer.Option(
    "--method", help="Method that predicted: one for all files, or repeated, one per file.")]
Settings = Annotated[list[str] | None, typer.Option(
    "--setting", help="Setting of the method, in your words: lr=0.1; one for all files, or one per file.")]
Seeds = Annotated[list[int] | None, typer.Option(
    "--seed", min=0, help="Seed of the run that predicted: one for all files, or repeated, one per file.")]
IgnoreExtra = Annotated[bool, typer.Option(
    "--ignore-extra", help="Leave out predictions of items that are not in the benchmark, and say how many.")]


def pairs(
    settings: Sequence[str], option: str, example: str, form: str = "NAME=NAME",
    split: Callable[[str, str], tuple[str, str, str]] = str.partition,
) -> dict[str, str]:
    """What an option that may be repeated says of each name: {"valid": "val"} of --rename valid=val.

    With `str.rpartition` the last = is the one that counts.
    """
    named: dict[str, str] = {}
    for setting in settings:
        name, equals, value = split(setting, "=")
        if not (name and equals and value):
            raise ShiftBenchError(f"{option} '{setting}' is not of the form {form}. Write {option} {example}.")
        if name in named:
            raise ShiftBenchError(f"{option} names '{name}' twice: {named[name]} and {value}. Name it once.")
        named[name] = value
    return named


# What is printed

EVERY = 30.0
"""Seconds between two lines about a long piece of work where nobody is watching."""


class _Plain(Console):
    """A console that prints text literally."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, soft_wrap=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text
            clean = text if segment.control else "\n".join(map(_clean, text.split("\n")))
            yield segment if clean == text else Segment(clean, segment.style, segment.control)


def _clean(line: str) -> str:
    return line if line.isprintable() else printable(line)


def console() -> Console:
    """Standard output, for tables that another part has drawn; wide enough for one when it is not a terminal."""
    return _Plain(width=None if sys.stdout.isatty() else 140)


def say(*lines: object, style: str = "") -> None:
    """Print lines of text without wrapping them; a line break inside one is escaped."""
    for line in lines:
        console().print(_clean(str(line)), style=style or None, soft_wrap=True)


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


def teller(silent: bool = False) -> Say:
    """A callable that prints a line on standard error, above the bar where there is one."""
    def tell(line: str) -> None:
        if not silent:
            sys.stderr.write(f"{printable(line)}\n")

    return tell


@contextmanager
def progress(what: str, quiet: bool = False, in_bytes: bool = False) -> Iterator[Advance]:
    """A callable (done, total): a bar on a terminal, else a line now and then, on standard error; none when quiet."""
    if quiet or not sys.stderr.isatty():
        yield _lines(what, math.inf if quiet else EVERY)
        return
    counts = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)
    with Progress(TextColumn("{task.description}", markup=False), BarColumn(), *counts, TimeRemainingColumn(),
                  console=_Plain(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def bar_with_sentence() -> Iterator[Callable[[int, int, str], None]]:
    """A bar on a terminal: a callable (done, total, sentence)."""
    with Progress(BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(),
                  console=_Plain(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda done, total, sentence: bar.update(task, completed=done, total=total, description=sentence)


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
