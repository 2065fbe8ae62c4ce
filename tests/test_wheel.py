"""The core without torch: a wheel in an environment that has what the wheel asks for, and nothing else."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
RECIPE = """
collection = "scenes"
[shift.subpopulation]
label = "class"
factor = "location"
majority = {cat = "indoors", dog = "outdoors"}
p = 0.2
"""


def required(requirements: list[str]) -> dict[str, Distribution]:
    """The distributions here that meet these requirements, and what those require in turn; no extras."""
    found: dict[str, Distribution] = {}
    todo = [Requirement(line) for line in requirements]
    while todo:
        asked = todo.pop()
        if asked.marker and not asked.marker.evaluate({"extra": ""}):
            continue
        assert not asked.extras
        one = distribution(asked.name)
        assert asked.specifier.contains(one.version, prereleases=True), asked
        if one.name not in found:
            found[one.name] = one
            todo += [Requirement(line) for line in one.requires or ()]
    return found


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """A new environment with the wheel, and links to the core dependencies that the wheel names."""
    place = tmp_path_factory.mktemp("clean")
    run = lambda *words: subprocess.run(words, check=True, cwd=place, capture_output=True, text=True)  # noqa: E731
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT))
    run(sys.executable, "-m", "venv", "--without-pip", str(place / "env"))
    (packages,) = place.glob("env/lib/python3*/site-packages")
    run(sys.executable, "-m", "pip", "--python", str(place / "env/bin/python"), "install", "--no-deps", "--no-compile",
        str(next(place.glob("*.whl"))))
    (metadata,) = packages.glob("shiftbench-*.dist-info/METADATA")
    lines = re.findall(r"(?m)^Requires-Dist: (.*)$", metadata.read_text())
    for one in required(lines).values():
        for top in {file.parts[0] for file in one.files or () if ".." not in file.parts} - {"__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(one.locate_file(top))
    return place


def command(place, *words, code=0):
    """Run the installed command outside the checkout."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run([str(place / "env/bin/shiftbench"), *words], cwd=place, capture_output=True, text=True,
                          env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.slow
def test_the_flow_runs_without_torch(clean):
    """Draw, look, build, check, score a foreign model and report; only training asks for the extra."""
    have = subprocess.run([str(clean / "env/bin/python"), "-c", "import torch"], capture_output=True)
    assert have.returncode != 0
    assert command(clean, "--version").stdout.startswith("shiftbench ")
    command(clean, "read", "world", "scenes", "--items", "800", "--size", "32", "--out", "scenes")
    graph = json.loads(command(clean, "graph", "scenes", "--class", "dog", "--min-size", "10", "--json").stdout)
    assert graph["class"] == "dog"
    (clean / "recipe.toml").write_text(RECIPE)
    command(clean, "build", "recipe.toml", "--out", "bench")
    command(clean, "check", "bench")
    script = ("from shiftbench.data.benchmark import Benchmark; b = Benchmark.load('bench');"
              "print('item,prediction'); [print(f'{item},cat') for item in b.items]")
    python = str(clean / "env/bin/python")
    predictions = subprocess.run([python, "-c", script], cwd=clean, capture_output=True, text=True)
    (clean / "preds.csv").write_text(predictions.stdout)
    scores = json.loads(command(clean, "score", "bench", "preds.csv", "--out", "scores.parquet", "--json").stdout)
    assert scores
    command(clean, "report", "scores.parquet", "--out", "report.html")
    assert "<html" in (clean / "report.html").read_text()
    refused = command(clean, "train", "bench", "--method", "erm", "--out", "runs", code=1)
    assert 'pip install "shiftbench[train]"' in refused.stderr
    assert not (clean / "runs").exists()
