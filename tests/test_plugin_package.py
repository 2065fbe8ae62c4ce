"""examples/plugin: a package with one of each, installed as any package is and found by its entry point."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shiftbench as sb
from shiftbench.core import registry as plugins

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "examples" / "plugin"
BLOCKS = dict(re.findall(r"```python\n# (my_\w+)\.py\n(.*?)```", (ROOT / "docs" / "extend.md").read_text(), re.DOTALL))


def test_the_page_shows_what_the_package_has():
    """Each of the six things has at most 20 lines on the page, and is the same in the package."""
    package = (PACKAGE / "shiftbench_extras.py").read_text()
    assert sorted(BLOCKS) == [f"my_{kind}s" for kind in ("method", "metric", "model", "reader", "section", "shift")]
    for name, block in BLOCKS.items():
        assert block[block.index("@sb.register"):].rstrip() in package, name
        assert len([line for line in block.splitlines() if line.strip()]) <= 20, name


@pytest.fixture
def installed(tmp_path, monkeypatch, registry):
    """The package in a folder of its own, offline."""
    shutil.copytree(PACKAGE, tmp_path / "source")  # a build writes beside what it builds
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
                    "--no-index", "--target", tmp_path / "packages", tmp_path / "source"], check=True)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.chdir(tmp_path)
    plugins._TRIED.clear()
    yield tmp_path
    sys.modules.pop("shiftbench_extras", None)


@pytest.mark.slow
def test_an_installed_package_is_used_by_its_names_alone(installed, shell):
    """No --import: its reader, shift, method, model, metric and section are there in every verb."""
    sb.read("world", "scenes", items=300, size=32, out="scenes")
    (installed / "recipe.toml").write_text('collection = "scenes"\n[shift.crowded]\nlabel = "class"\nmost = 13\n')
    (installed / "texts").mkdir()
    (installed / "texts" / "good.txt").write_text("a fine film\nwell played\n")
    for words in (
            ("read", "lines", "texts", "--out", "texts-read"),
            ("build", "recipe.toml", "--out", "crowded"),
            ("train", "crowded", "--method", "worst_domain", "--model", "tiny", "--set", "select_on=cost",
             "--steps", "2", "--device", "cpu", "--out", "runs"),
            ("table", "runs", "--metric", "cost"),
            ("report", "runs", "--out", "report.html")):
        code, _, err = shell(*words, *(() if words[0] == "table" else ("--quiet",)))
        assert (code, err) == (0, ""), words
    assert "worst_domain" in shell("methods")[1]
    assert sb.Collection.load("texts-read").factor("label").tolist() == ["good", "good"]
    page = (installed / "report.html").read_text()
    assert "How far the worst group is behind" in page
    assert "Cost of errors" in page
