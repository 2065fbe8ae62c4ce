"""The command line: one page per panel of `--help`, the same words as in Python.

A verb parses its options, calls the function of its name in `shiftbench.api` and prints. What verbs share is in
`options` and `output`; `read` has a command per format.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from shiftbench import __version__
from shiftbench.cli.data import download, export, show, trust
from shiftbench.cli.judging import audit, conflicts, gap, gate, score, select, table
from shiftbench.cli.options import importing
from shiftbench.cli.output import note, silence_pillow
from shiftbench.cli.read import read
from shiftbench.cli.sharing import board, demo, report, studio, study
from shiftbench.cli.shifts import build, check, graph, hierarchy, power
from shiftbench.cli.training import embed, fetch, methods, predict, pretrain, retrain, sweep, train
from shiftbench.core.errors import ShiftBenchError, printable

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown",
    help="Controlled, explained, measured distribution shifts from what is already annotated about your data.",
    epilog="The flow: read → build → check → train or sweep → score → report. Start with: shiftbench demo",
)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        sys.stdout.write(f"shiftbench {__version__}\n")
        raise typer.Exit


PANELS = {
    "Data": (download, show, export, trust),
    "Shifts": (graph, hierarchy, build, check, power),
    "Training": (methods, embed, train, pretrain, retrain, sweep, fetch, predict),
    "Judging": (score, audit, gate, select, gap, table, conflicts),
    "Sharing": (report, studio, board, study),
}
"""The verbs as `--help` groups them, in the order in which people need them."""

app.command()(demo)
app.add_typer(read, name="read", rich_help_panel="Data")
for panel, verbs in PANELS.items():
    for verb in verbs:
        app.command(rich_help_panel=panel)(importing(verb))


RENAMED = {
    "setting": "shiftbench build BENCHMARK --reference NAME --out FOLDER, or shiftbench check BENCHMARK --references",
    "hardest": "shiftbench select RUNS --hardest N",
}
"""Verbs that became options of others: an old name answers with the new one."""


def main() -> None:
    """Run a command. What the user can correct is one line on standard error and exit code 1."""
    try:
        for word in sys.argv[1:]:
            if not _is_text(word):
                raise ShiftBenchError(f"'{word}' is not UTF-8 text. Rename the file, or give it through a link with "
                                      "another name.")
        if sys.argv[1:] and sys.argv[1] in RENAMED:
            sys.stderr.write(f"shiftbench: '{sys.argv[1]}' is now: {RENAMED[sys.argv[1]]}.\n")
            sys.exit(2)
        silence_pillow()
        with _short_warnings():
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


@contextmanager
def _short_warnings() -> Iterator[None]:
    """A warning of ours that a verb does not collect is one line, without the line of code that raised it."""
    with warnings.catch_warnings():
        show_fully = warnings.showwarning
        warnings.showwarning = lambda message, category, *where: (
            note(message) if category is UserWarning else show_fully(message, category, *where))
        yield


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
