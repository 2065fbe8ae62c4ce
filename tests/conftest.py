"""Fixtures that many tests share."""

import ctypes
import gc
import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.dummy import Process

import pytest
from hypothesis import settings
from typer.main import get_command

from shiftbench import cli
from shiftbench.core import registry as plugins
from shiftbench.methods import METHODS
from shiftbench.models.names import CATALOGUE
from shiftbench.readers import READERS
from shiftbench.reporting.page import SECTIONS
from shiftbench.scoring.metrics import METRICS
from shiftbench.shifts import SHIFTS
from tests.strategies import toy

# A slow machine is no failure: nothing here is a timed test. In CI the examples are the same every time, so that a red
# build means a change; everywhere else each run looks at new ones.
settings.register_profile("shiftbench", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("shiftbench")
collect_ignore = ["compat/wilds_experiment.py"]  # a script for the package wilds, which need not be there
WITHOUT_TORCH = find_spec("torch") is None  # make test-oldest: what needs torch, itself or through others, is skipped


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


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Modules and collected tests stay to the end: the garbage collector need not walk over them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if WITHOUT_TORCH and report.failed and "No module named 'torch'" in str(report.longrepr):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, "Skipped: needs torch")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except Exception as problem:
        if WITHOUT_TORCH and any(words in str(problem) for words in ("No module named 'torch'", "needs torch")):
            pytest.skip("needs torch")
        raise


@pytest.fixture(autouse=True, scope="session")
def own_notes(tmp_path_factory):
    """What is confirmed in tests is noted in a place of theirs."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_disks():
    """No test cuts the power: what is written need not reach the disk before a test goes on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def registry():
    """What a test registers is gone after it."""
    tables = (METHODS, SHIFTS, READERS, METRICS, CATALOGUE, SECTIONS, plugins._LOADED)
    before = [(dict(table), dict(getattr(table, "owners", {}))) for table in tables]
    modules = set(sys.modules)
    yield
    for table, (entries, owners) in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)
        if hasattr(table, "owners"):
            table.owners = owners
    plugins._TRIED.clear()
    for name in set(sys.modules) - modules:
        if name.startswith("shiftbench_plugin"):
            del sys.modules[name]


@pytest.fixture(scope="session")
def command_line():
    """The command line, built once: typer builds it anew at every call, which takes longer than most commands."""
    return get_command(cli.app)


@pytest.fixture
def shell(monkeypatch, capsys, command_line):
    """Run a command in this process, as the shell would: shell("show", "x") gives exit code, output, errors."""
    monkeypatch.setattr(cli, "app", command_line)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["shiftbench", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return run


@pytest.fixture(scope="module")
def workers_here():
    """Workers of a sweep are threads of this process: for tests that ask what a sweep leaves, not how processes end."""
    from shiftbench.sweeps.local import Worker, attempt

    def start(options):
        ours, theirs = Pipe()

        def serve():
            with theirs, suppress(EOFError, OSError):
                theirs.send([])
                while True:
                    theirs.send(attempt(theirs.recv(), options))

        thread = Process(target=serve)
        thread.start()
        return Worker(thread, ours, options.device)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "start", staticmethod(start))
        yield


@pytest.fixture
def few_replicates(monkeypatch):
    """A bootstrap draws 100 replicates, not 1,000: for tests that ask where its interval goes, not where it ends."""
    from shiftbench.scoring import scorer

    bootstrap = scorer.bootstrap
    monkeypatch.setattr(scorer, "bootstrap", lambda *words, replicates, **more: bootstrap(
        *words, replicates=min(replicates, 100), **more))


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
