"""The files around the code: one version, floors that are tested, a Dockerfile that its linter accepts."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import shiftbench

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_stands_once_and_is_cited():
    assert "version" in PROJECT["dynamic"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == shiftbench.__version__
    assert f"## [{shiftbench.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_oldest_versions_that_are_tested_are_those_allowed():
    """Each pin of constraints-oldest.txt is the floor of pyproject.toml, and every dependency of the core has one."""
    extras = PROJECT["optional-dependencies"].values()
    asked = [Requirement(line) for lines in (PROJECT["dependencies"], *extras) for line in lines]
    floors = {one.name: Version(next(iter(one.specifier)).version) for one in asked if one.specifier}
    pins = [Requirement(line) for line in (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
            if not line.startswith("#")]
    assert {one.name for one in pins} >= {Requirement(line).name for line in PROJECT["dependencies"]}
    for one in pins:
        assert Version(next(iter(one.specifier)).version) == floors[one.name], one.name


def test_the_dockerfile_passes_its_linter():
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.is_file():
        pytest.skip("hadolint is not installed (extra: dev)")
    ended = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
