"""The smallest study of examples/fine_grained, as a user runs it: nineteen methods, three shifts, one page."""

import runpy
from pathlib import Path

import pytest

import shiftbench as sb
from shiftbench.data.scores import Scores
from shiftbench.methods.presets import NINETEEN
from shiftbench.sweeps.status import status

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


SHORTER = {"run.steps": 1, "run.eval_every": 1, "run.batch_size": 2, "world.items": 120}
"""What makes the study cheaper still: the same methods, shifts and nets."""


@pytest.fixture(scope="module")
def smoke(tmp_path_factory, workers_here):
    place = tmp_path_factory.mktemp("smoke")
    return place, sb.sweep(ROOT / "examples" / "fine_grained" / "smoke.toml", place / "R", device="cpu", workers=1,
                           changes=SHORTER)


def test_every_method_is_run_on_every_shift(smoke):
    """All 57 runs end well, each on its draw of the low-data items."""
    place, ends = smoke
    assert len(ends) == 57
    runs = status(place / "R")
    assert {(run.benchmark, run.method) for run in runs} == {
        (benchmark, method) for benchmark in ("spurious-10", "low-10", "unseen") for method in NINETEEN}
    assert {end.state for end in ends} == {run.state for run in runs} == {"done"}


def test_the_page_has_the_papers_figures_and_takeaways(smoke):
    """One command makes the page: figures 3, 4, 5 and 10 to 12, and the seven takeaways, none told from one seed."""
    place, _ = smoke
    page = sb.report(place / "R", place / "r.html", rule="f1").read_text(encoding="utf-8")
    section = page[page.index('id="fine-grained"'):]
    assert section.count('class="claim"') == section.count("undecided</span>") == 2 * 7  # by each metric
    for name in ("fine-grained-3-spurious", "fine-grained-4-low_data", "fine-grained-5-unseen"):
        assert f'id="{name}"' in section
    for method in ("resnet101", "augmix", "coral", "sagnet", "bn_adapt", "beta_vae"):
        assert method in section


def test_the_tables_of_a_study_have_both_metrics(smoke):
    """The script prints a line per method for each metric, and every takeaway once with a verdict by each; from saved
    scores of parts it prints the same."""
    place, _ = smoke
    tables = runpy.run_path(str(ROOT / "examples" / "fine_grained" / "tables.py"))["main"]
    text = tables([str(place / "R")], out=str(place / "all.parquet"))
    assert text.startswith("57 runs, 19 methods, 3 benchmarks, 1 seeds; the baseline is resnet18.")
    for method in NINETEEN:
        assert text.count(f"| `{method}` |") == 2
    assert text.count("**undecided**") == 2 * 7
    assert "by macro F1" in text
    assert "by accuracy" in text
    scores = Scores.load(place / "all.parquet")
    for part, kept in (("a", scores["benchmark"] == "unseen"), ("b", scores["benchmark"] != "unseen")):
        scores.take(kept).save(place / f"{part}.parquet")
    folders = [str(folder) for folder in (place / "R" / "benchmarks").iterdir()]
    assert tables([str(place / f"{part}.parquet") for part in "ab"], folders) == text
