"""A small study of the built-in world's breeds, as a user runs it: two models, retrained last layers, one page."""

import re
from pathlib import Path

import pytest

import shiftbench as sb
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, MEAN, RUN, Scores
from shiftbench.images import augment
from shiftbench.scoring import score_runs
from shiftbench.sweeps.study import Study
from shiftbench.training import step

pytestmark = pytest.mark.slow

STUDY = """
suites = ["breeds/world"]
members = ["rand"]
seeds = 2
[world]
name = "scenes"
items = 3000
size = 32
[run]
features = "efficientnet-lite0@32"
steps = 60
eval_every = 30
[methods.erm]
model = ["linear", "mlp"]
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory, workers_here):
    """As examples/breeds/world.toml, with fewer and smaller pictures, one split, two seeds and a few steps."""
    place = tmp_path_factory.mktemp("breeds")
    (place / "study.toml").write_text(STUDY)
    ends = sb.sweep(place / "study.toml", place / "R", workers=1, device="cpu")
    sb.retrain(place / "R", steps=60, rates=(0.1, 0.5), device="cpu")
    sb.report(place / "R", place / "r.html")
    return place, ends


def test_two_models_are_trained_and_retrained(small):
    """Every run ends well and has a source, a target and a target-RT accuracy, the last on the same items."""
    place, ends = small
    assert [end.state for end in ends] == ["done"] * 4
    made = Benchmark.load(place / "R" / "benchmarks" / "rand")
    scores = score_runs(place / "R", benchmarks=[made]).where(group=ALL)
    for split, metric in (("id_test", "accuracy"), ("test", "accuracy"), ("test", "target_rt_accuracy")):
        values = Scores.join([scores.where(split=split, metric=metric, stat=stat) for stat in (RUN, MEAN)])
        single = values.where(stat=RUN)["value"]
        assert len(single) == 4
        assert ((values["low"] < values["value"]) & (values["value"] < values["high"])).all()
        assert (single > 1.5 / len(made.names["label"])).all()


def test_the_example_is_a_study():
    """examples/breeds/world.toml is read, and has three models on the three splits."""
    study = Study.load(Path(__file__).parents[2] / "examples" / "breeds" / "world.toml")
    assert {(one["model"], one["features"]) for one in study.settings()} == {
        ("linear", "efficientnet-lite0@32"), ("linear", "efficientnet-lite0@64"), ("mlp", "efficientnet-lite0@64")}
    assert [one.name for one in study.builds.members()] == ["good", "rand", "bad"]


def test_the_page_tells_them_with_intervals(small):
    """The table has two models and five numbers for each, all with an interval."""
    place, _ = small
    page = (place / "r.html").read_text(encoding="utf-8")
    part = page.partition('<section id="breeds">')[2].partition("</section>")[0]
    body = part.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.S)
    assert [re.search(r'<th scope="row">(.*?)</th>', row)[1] for row in rows] == [
        "erm, linear on efficientnet-lite0@32", "erm, mlp on efficientnet-lite0@32"]
    for row in rows:
        assert row.count("<data") == row.count("<small>") == 5
    for name in ("breeds-source-target", "breeds-relative", "breeds-classes"):
        assert f'id="{name}"' in part


def test_the_interventions_are_a_study():
    """examples/breeds/interventions.toml is read: a plain ResNet-18 and four interventions, as in Table 14."""
    study = Study.load(Path(__file__).parents[2] / "examples" / "breeds" / "interventions.toml")
    assert [one.name for one in study.builds.members()] == ["good", "rand", "bad"]
    assert {one["preset"]: (one.get("attack", 0.0), one.get("augment", "none")) for one in study.settings()} == {
        "resnet18": (0.0, "none"), "adversarial": (0.5, "none"), "gaussian_noise": (0.0, "noise"),
        "random_erasing": (0.0, "erase"), "texture_noise": (0.0, "texture")}
    assert {one["model"] for one in study.settings()} == {"resnet18"}
    assert (step.STEP, augment.DEVIATION, augment.ERASED, augment.ERASE_AREA, augment.ERASE_RATIO) == (
        0.8, 0.2, 0.5, (0.02, 0.33), (0.3, 3.3))
    on_target = Study.load(Path(__file__).parents[2] / "examples" / "breeds" / "interventions.toml",
                           {"erm.preset": "resnet18"})
    assert [one["preset"] for one in on_target.settings()] == ["resnet18"]
