"""A fine-grained study is told by macro F1 and by accuracy, each with every figure, takeaway and rule."""

import numpy as np
import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.scores import Scores
from shiftbench.reporting import report
from shiftbench.reporting.page import results_of
from shiftbench.reporting.sections.fine_grained import ablation, bars, content, ranks
from shiftbench.reporting.sections.fine_grained_scores import AXES, METRICS, changes, fine_grained_scores
from shiftbench.reporting.sections.takeaways import takeaways
from shiftbench.scoring.rules import RULES
from shiftbench.scoring.select import select
from tests.reporting.test_fine_grained import METHODS, grid, noise, plain, table

WITH_ABLATION = (*METHODS, "only_rotate", "only_invert", "only_color")


def other(one, method, seed):
    """Scores that order the methods otherwise than `plain`."""
    return 0.5 + 0.2 * noise(method, size=1.0) + noise(one.name, method, seed)


def by(metric, scores, split="test"):
    """The same scores under the name of another metric, on another split."""
    return scores.assign(metric=np.full(len(scores), metric), split=np.full(len(scores), split))


@pytest.fixture(scope="module")
def made():
    return grid()


@pytest.fixture(scope="module")
def both(made):
    return Scores.join([table(plain, made, WITH_ABLATION), by("accuracy", table(other, made, WITH_ABLATION))])


def everything(scores):
    """All numbers of the study."""
    return ([changes(scores, axis) for axis in AXES], ranks(scores), ablation(scores), takeaways(scores),
            [bars(scores, shift) for shift in ("spurious", "low_data", "unseen")])


@pytest.mark.parametrize(("metric", "value"), [("macro_f1", plain), ("accuracy", other)])
def test_every_number_is_of_the_metric_asked_for(made, both, metric, value):
    """Beside scores of the other metric, each figure and takeaway is what it is without them."""
    alone = by(metric, table(value, made, WITH_ABLATION))
    assert repr(everything(fine_grained_scores(both, made, metric))) == repr(
        everything(fine_grained_scores(alone, made, metric)))
    swapped = fine_grained_scores(by("macro_f1", alone), made)
    assert repr(everything(swapped)) == repr(everything(fine_grained_scores(both, made, metric)))


@pytest.mark.slow
def test_the_page_has_both_metrics(made, both, tmp_path):
    """All figures and takeaways once by each metric, under names and captions that say which it is."""
    figures = content(results_of(both, made))["figures"]
    names = [figure.name for figure in figures]
    assert len(names) == len(set(names)) == 2 * 10
    own = [name for name in names if name.startswith("fine-grained-accuracy-")]
    assert [name.replace("accuracy-", "") for name in own] == [name for name in names if name not in own]
    for figure in figures:
        assert figure.head.endswith("accuracy" if figure.name in own else "macro F1"), figure.head
        assert ("accuracy" in figure.definition.lower()) is (figure.name in own)
    text = report(both, made, tmp_path / "r.html").read_text(encoding="utf-8")
    part = text.partition('<section id="fine-grained">')[2].partition("</section>")[0]
    assert part.count('class="claim"') == 2 * 7
    assert part.count("<figure") == 2 * 10
    single = content(results_of(by("accuracy", table(plain, made)), made))
    assert [one["metric"] for one in single["parts"]] == ["accuracy"]


def test_another_metric_is_refused(made, both):
    """The study is of two metrics; a third is named in the message."""
    with pytest.raises(ShiftBenchError, match="worst_class_accuracy"):
        fine_grained_scores(both, made, "worst_class_accuracy")


def test_each_metric_has_its_rule():
    """The two rules look at the same splits in the same order and differ in the metric alone."""
    assert {RULES[rule].metric: rule for rule in METRICS.values()} == METRICS
    assert len({RULES[rule].splits for rule in METRICS.values()}) == 1


@pytest.mark.slow
def test_a_setting_is_chosen_by_the_metric_that_it_is_shown_by(made):
    """Where one setting has the better validation F1 and another the better accuracy, each metric shows its own."""
    def setting(name, f1, accuracy, test):
        parts = [by("macro_f1", table(lambda *_: f1, made), "id_val"),
                 by("accuracy", table(lambda *_: accuracy, made), "id_val"),
                 *(by(metric, table(lambda one, method, seed: test if method == "dann" else 0.5, made))
                   for metric in METRICS)]
        scores = Scores.join(parts)
        return scores.assign(run=np.char.add(scores["run"], name), setting=np.full(len(scores), name))

    scores = Scores.join([setting("a", 0.9, 0.1, 0.6), setting("b", 0.1, 0.9, 0.8)])
    for rule in METRICS.values():
        parts = content(results_of(scores, made, rule=rule))["parts"]
        assert [part["rule"] for part in parts] == [RULES[own].head for own in METRICS.values()]
        for part, change in zip(parts, ("+20.0 %", "+60.0 %"), strict=True):
            drawn = next(one for one in part["figures"] if one.name.endswith("4-low_data"))
            assert {round(row[3]) for row in drawn.rows if row[0] == "dann"} == {round(float(change[:-2]))}
        assert {one.setting for one in select(scores, [rule]).choices} == {"a" if rule == "f1" else "b"}


def test_pretraining_is_compared_with_its_own_net(made):
    """Where `erm` is the net of `pretrained` from scratch, its change is over that; all others' over the baseline."""
    skill = {"resnet18": 0.5, "erm": 0.6, "pretrained": 0.9}
    net = {"pretrained": "efficientnet-lite0 on imagenet", "erm": "efficientnet-lite0"}
    scores = table(lambda one, method, seed: skill.get(method, 0.55), made, (*METHODS, "erm"))

    def change(models):
        told = scores.assign(model=np.asarray([models.get(name, "resnet18") for name in scores["method"].tolist()]))
        study = fine_grained_scores(told, made)
        return study, {method: round(float(np.nanmean(study.change(method)))) for method in ("pretrained", "dann")}

    study, changed = change(net)
    assert (changed, study.others) == ({"pretrained": 50, "dann": 10}, ())
    assert "over the same net from scratch" in takeaways(study)[1].parts[0].text
    study, changed = change({**net, "erm": "resnet50"})
    assert (changed, study.others) == ({"pretrained": 80, "dann": 10}, ("erm",))
    assert "over resnet18" in takeaways(study)[1].parts[0].text


def test_the_baseline_of_a_benchmark_is_the_net_that_its_methods_share(made):
    """Where the methods were trained with a ResNet-50, changes are over that; no net is compared with itself."""
    skill = {"resnet18": 0.5, "resnet50": 0.4}
    scores = table(lambda one, method, seed: skill.get(method, 0.6), made, (*METHODS, "resnet50"))
    real = np.char.startswith(scores["benchmark"], "rooms")
    named = np.isin(scores["method"], ["resnet18", "resnet50"])
    net = np.where(named, scores["method"], np.where(real, "resnet50", "resnet18"))
    study = fine_grained_scores(scores.assign(model=net), made)
    rooms = np.asarray([place.collection == "rooms" for place in study.places])
    assert np.allclose(study.change("dann")[rooms], 50)
    assert np.allclose(study.change("dann")[~rooms], 20)
    assert np.isnan(study.change("resnet50")[rooms]).all()
    assert np.allclose(study.change("resnet50")[~rooms], -20)
    assert study.baseline == "resnet18 (resnet50 on rooms)"
    assert fine_grained_scores(scores, made).baseline == "resnet18"
