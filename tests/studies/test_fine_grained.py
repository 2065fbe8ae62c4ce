"""The smallest study of examples/fine_grained, as a user runs it: nineteen methods, three shifts, one page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shiftbench.methods.presets import NINETEEN

ROOT = Path(__file__).parents[2]


def shell(*words, cwd):
    return subprocess.run([sys.executable, "-m", "shiftbench", *words], cwd=cwd, capture_output=True, text=True,
                          check=False)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    place = tmp_path_factory.mktemp("smoke")
    study = ROOT / "examples" / "fine_grained" / "smoke.toml"
    done = shell("sweep", str(study), "--out", "R", "--device", "cpu", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    return place, json.loads(done.stdout)


def test_every_method_is_run_on_every_shift(smoke):
    """All 57 runs end well, each on its draw of the low-data items."""
    place, told = smoke
    assert told["failed"] == 0
    runs = json.loads(shell("show", "R", "--json", cwd=place).stdout)
    assert {(run["benchmark"], run["method"]) for run in runs} == {
        (benchmark, method) for benchmark in ("spurious-10", "low-10", "unseen") for method in NINETEEN}
    assert all(run["state"] == "done" for run in runs)


def test_the_page_has_the_papers_figures_and_takeaways(smoke):
    """One command makes the page: figures 3, 4, 5 and 10 to 12, and the seven takeaways, none told from one seed."""
    place, _ = smoke
    assert shell("report", "R", "--rule", "f1", "--out", "r.html", cwd=place).returncode == 0
    page = (place / "r.html").read_text(encoding="utf-8")
    section = page[page.index('id="fine-grained"'):]
    assert section.count('class="claim"') == section.count("cannot be told</span>") == 7
    for name in ("figure-3-spurious", "figure-4-low_data", "figure-5-unseen"):
        assert f'id="{name}"' in section
    for method in ("resnet101", "augmix", "coral", "sagnet", "bn_adapt", "beta_vae"):
        assert method in section
