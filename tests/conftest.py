"""Fixtures that many tests share."""

import ctypes
import os
import sys
from itertools import islice

import pytest
from hypothesis import settings

from shiftbench.cli import main
from shiftbench.core import plugins
from shiftbench.scoring.metrics import METRICS
from tests.strategies import toy

# A slow machine is no failure: nothing here is a timed test. In CI the examples are the same every time, so that a red
# build means a change; everywhere else each run looks at new ones.
settings.register_profile("shiftbench", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("shiftbench")
collect_ignore = ["compat/wilds_experiment.py"]  # a script for the package wilds, which need not be there


def pytest_collection_modifyitems(items):
    """Each worker of xdist begins with slow tests: what is left at the end is short, so that they end together.

    The workers of `--dist worksteal` start with equal stretches of the list. Slow tests are dealt by files, whose tests
    share fixtures.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow, quick = [], []
    for item in items:
        (slow if item.get_closest_marker("slow") or item.get_closest_marker("learning") else quick).append(item)
    files = {path: number % workers for number, path in enumerate(dict.fromkeys(item.path for item in slow))}
    size, rest = len(items) // workers, iter(quick)
    items.clear()
    for worker in range(workers):
        share = [item for item in slow if files[item.path] == worker]
        items += [*share, *islice(rest, max(0, size - len(share)))]
    items += rest


@pytest.fixture(autouse=True, scope="session")
def own_notes(tmp_path_factory):
    """What is confirmed in tests is noted in a place of theirs."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture
def registry():
    """What a test registers is gone after it."""
    metrics, loaded = dict(METRICS), dict(plugins._LOADED)
    yield
    METRICS.clear()
    METRICS.update(metrics)
    plugins._LOADED.clear()
    plugins._LOADED.update(loaded)


@pytest.fixture
def shell(monkeypatch, capsys):
    """Run a command in this process, as the shell would: shell("show", "x") gives exit code, output, errors."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["shiftbench", *map(str, words)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return run


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a small collection and a recipe; the current folder of the test."""
    monkeypatch.chdir(tmp_path)
    toy(600).save("toy")
    (tmp_path / "recipe.toml").write_text("""
collection = "toy"
[shift.subpopulation]
label = "class"
factor = "place"
majority = {cat = "indoors", dog = "outdoors"}
p = 0.2
""")
    return tmp_path


@pytest.fixture
def no_rights():
    """File modes hold for this test, even where root runs it: root's right to pass over them is laid down meanwhile."""
    if os.geteuid():
        yield
        return
    libc, header = ctypes.CDLL(None, use_errno=True), (ctypes.c_uint32 * 2)(0x20080522, 0)
    had = (ctypes.c_uint32 * 6)()
    if libc.capget(header, had):
        pytest.skip("this system has no capabilities")
    fewer = (ctypes.c_uint32 * 6)(*had)
    fewer[0] &= ~0b110  # effective: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert libc.capset(header, fewer) == 0
    yield
    assert libc.capset(header, had) == 0
