"""NOOCh, whole, on the built-in world: from nothing to a page, with both criteria and the paper's rule."""

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.data.benchmark import Benchmark
from shiftbench.scoring import score_runs

pytestmark = pytest.mark.slow

STUDY = """
suites = ["nooch/world"]
members = ["ce-bus", "gist-bus"]
seeds = 1
[world]
name = "scenes"
items = 800
size = 64
[run]
model = "mlp"
features = "efficientnet-lite0@32"
steps = 200
batches = "plain"
batch_size = 64
select_on = "loss"
[methods.erm]
[methods.group_dro]
hard = true
adjustment = [0.0, 2.0]
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory, workers_here):
    place = tmp_path_factory.mktemp("nooch")
    (place / "study.toml").write_text(STUDY)
    ends = sb.sweep(place / "study.toml", place / "R", workers=1, device="cpu")
    assert {end.state for end in ends} == {"done"}
    return place, score_runs(place / "R")


def test_hard_items_cost_more_than_easy_ones(done):
    """Under ERM the loss on hard positives and on hard negatives exceeds that on easy items, by both criteria."""
    _, scores = done
    for name in ("ce-bus", "gist-bus"):
        loss = {row["group"]: row["value"] for row in scores.where(
            benchmark=name, method="erm", split="test", metric="nll", seed=0)}
        assert min(loss["hard_positive"], loss["hard_negative"]) > loss["easy"]
        area = {row["group"]: row["value"] for row in scores.where(
            benchmark=name, method="erm", split="test", metric="auc", seed=0)}
        assert area["hard"] < area["easy"]


def test_the_two_criteria_find_other_items(done):
    """CE and gist sets are of one size in every split, and not the same."""
    place, _ = done
    ce, gist = (Benchmark.load(place / "R" / "benchmarks" / name) for name in ("ce-bus", "gist-bus"))
    kinds = {one.name: dict(zip(one.items.tolist(), one.extra["kind"].tolist(), strict=True)) for one in (ce, gist)}
    for kind in ("hard_positive", "hard_negative"):
        for split in ("id_val", "test"):
            sets = [{item for item in one.items[one.rows(split)].tolist() if kinds[one.name][item] == kind}
                    for one in (ce, gist)]
            assert len(sets[0]) == len(sets[1]) > 0
        assert kinds["ce-bus"] != kinds["gist-bus"]
    assert ce.card["cues"][0]["tag"] == "street"


def test_settings_are_chosen_by_the_papers_rule_and_shown(done):
    """The report by rule `nooch` has the table of hard items; the tasks are ranked by what hardness costs."""
    place, scores = done
    page = sb.report(place / "R", place / "r.html", rule="nooch").read_text(encoding="utf-8")
    assert "Out-of-context challenge (NOOCh)" in page
    chosen = sb.select(scores, "nooch").choices
    assert {(one.benchmark, one.method) for one in chosen} == {
        (name, method) for name in ("ce-bus", "gist-bus") for method in ("erm", "group_dro")}
    ranked = sb.hardest(scores, 2)
    assert [one.gap for one in ranked] == sorted((one.gap for one in ranked), reverse=True)
    assert np.isfinite([one.gap for one in ranked]).all()
