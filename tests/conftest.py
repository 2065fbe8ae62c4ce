"""Fixtures that many tests share."""

import os
import sys

import pytest
from hypothesis import settings

from shiftbench.cli import main
from tests.strategies import toy

# A slow machine is no failure: nothing here is a timed test. In CI the examples are the same every time, so that a red
# build means a change; everywhere else each run looks at new ones.
settings.register_profile("shiftbench", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("shiftbench")


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
