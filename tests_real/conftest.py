"""What tests on real data share: where packages are kept, the command line, and the numbers told at the end."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from shiftbench.cli import main

CACHE = Path(__file__).parent.parent / "build" / "real"
FOUND = "found"
torch.set_num_threads(1)

Shell = Callable[..., str]


@pytest.fixture(scope="session")
def cache() -> Path:
    """The folder of packages and pictures; `make clean` deletes it."""
    return CACHE


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder, the current one of all tests of a file."""
    before = Path.cwd()
    folder = tmp_path_factory.mktemp("real")
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="session")
def shell() -> Shell:
    """Run a command in this process, as a user types it; gives what it printed. A command that fails is an error."""

    def run(line: str) -> str:
        said, before, code = io.StringIO(), sys.argv, None
        sys.argv = line.split()
        try:
            with contextlib.redirect_stdout(said):
                main()
        except SystemExit as end:
            code = end.code
        finally:
            sys.argv = before
        assert not code, f"{line}: exit code {code}\n{said.getvalue()}"
        return said.getvalue()

    return run


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Say what was found: `make test-real` ends with it."""
    return lambda line: record_property(FOUND, line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for reports in terminalreporter.stats.values() for report in reports
               if getattr(report, "when", "") == "call"]
    lines = [f"{value}" for report in sorted(reports, key=lambda one: one.nodeid)
             for name, value in report.user_properties if name == FOUND]
    if lines:
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "found.md").write_text("\n".join(["```", *lines, "```", ""]))
        terminalreporter.section("found on real data")
        for line in lines:
            terminalreporter.write_line(line)
