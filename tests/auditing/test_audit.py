"""An audit from a CSV file: planted contexts are found, noise is not, and hopeless input has a plain answer."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest

import shiftbench as sb
from shiftbench.auditing.audit import Options, detectable, split_items
from shiftbench.auditing.audit import audit as search_and_confirm
from shiftbench.auditing.contrasts import fisher
from shiftbench.auditing.findings import Audit
from shiftbench.auditing.join import join
from shiftbench.auditing.model_outputs import LOSSES
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from tests.strategies import toy

N = 1600


def drawn(n=N, seed=0, harm=0.5):
    """Metadata, predictions of a model that fails at night above 60 km/h, and of an old one that does not."""
    rng = np.random.default_rng(seed)
    data = {"id": [f"{k:05}" for k in range(n)], "label": rng.choice(["car", "bus"], n),
            "light": rng.choice(["day", "dusk", "night"], n), "city": rng.choice(["Oslo", "Rome", "Lima", ""], n),
            "speed": rng.uniform(0, 120, n).round(1), "video": (np.arange(n) // 8).astype(str)}
    other = np.where(data["label"] == "car", "bus", "car")
    planted = (data["light"] == "night") & (data["speed"] > 60)
    new, old = (np.where(rng.random(n) < rate, other, data["label"])
                for rate in (np.where(planted, 0.1 + harm, 0.1), np.full(n, 0.1)))
    return data, {"item": data["id"], "prediction": new}, {"item": data["id"], "prediction": old}


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name, table in zip(("data", "new", "old"), drawn(), strict=True):
        write_table(tmp_path / f"{name}.csv", pa.table(table))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def columns(finding):
    return {member.column for member in finding.members}


def test_a_planted_context_is_found_with_an_interval_that_holds_it():
    """Night and speed above 60 come out first, with the error that was planted, and the same seed gives the same."""
    data, new, _ = drawn()
    audit = sb.audit(new, data, exclude="video")
    finding = audit.findings[0]
    assert columns(finding) == {"light", "speed"}
    assert finding.low < 0.6 < finding.high
    assert finding.rest == pytest.approx(0.1, abs=0.04)
    assert audit.sentences() == sb.audit(new, data, exclude="video").sentences()
    assert audit.sentences() != sb.audit(new, data, exclude="video", seed=1).sentences()


def test_nothing_is_found_in_a_model_that_fails_everywhere_alike():
    """The sentence says what could have been found."""
    data, new, _ = drawn(seed=3, harm=0.0)
    audit = sb.audit(new, data, exclude="video")
    assert not audit.findings
    assert audit.sentences()[0].startswith("Nothing was found that 1,600 items could show; a group of 100 would have")


def test_two_models_are_compared():
    """Against the old model the context got worse; a context of the rest got better than that on average."""
    data, new, old = drawn()
    audit = sb.audit(new, data, against=old, exclude="video")
    worse = [finding for finding in audit.findings if finding.difference > 0]
    assert columns(worse[0]) == {"light", "speed"}
    assert worse[0].low < 0.5 < worse[0].high
    assert all(finding.difference < 0 for finding in audit.findings[len(worse):])
    assert [finding.parent for finding in audit.findings if finding.parent >= 0] == [
        number for number in (finding.parent for finding in audit.findings) if 0 <= number < len(audit.findings)]


def test_better_contexts_are_found_on_request():
    """With `better`, contexts that fail less than the rest follow those that fail more."""
    data, new, _ = drawn()
    audit = sb.audit(new, data, better=True, exclude="video")
    signs = [finding.difference > 0 for finding in audit.findings]
    assert set(signs) == {True, False}
    assert signs == sorted(signs, reverse=True)


def test_an_audit_of_both_directions_that_finds_nothing_says_so_of_both():
    """How much worse a group would have to be, and how much better: rare errors leave less room for the latter."""
    data, new, _ = drawn(seed=3, harm=0.0)
    sentence = sb.audit(new, data, better=True, exclude="video").sentences()[0]
    assert re.search(r"would have to be \d+ points worse( or \d+ points better\.|\. Not even a group of 100 without "
                     r"errors could be shown to be better\.)$", sentence)


def test_a_dependence_that_is_not_known_is_refused_though_nothing_is_tested():
    """Before, an audit that tested no context took any word."""
    data, new, _ = drawn(30)
    with pytest.raises(ShiftBenchError, match="No dependence named 'foo'"):
        sb.audit(new, data, dependence="foo")


def test_clusters_stay_together_and_are_no_context():
    """Items of one video are in one part, and the video is not a predicate."""
    data, new, _ = drawn()
    audit = sb.audit(new, data, cluster="video")
    assert columns(audit.findings[0]) == {"light", "speed"}
    assert audit.card["n_confirm"] % 8 == 0
    with pytest.raises(ShiftBenchError, match=r"No factor named 'vdeo'. Did you mean 'video'"):
        sb.audit(new, data, cluster="vdeo")


def test_the_parts_have_every_label_alike_and_know_nothing_of_losses():
    """Whatever a model says, the same items confirm: given the labels, losses of the two parts are independent."""
    data, *models = drawn()
    splits = []
    for predictions in (*models, {"item": data["id"], "prediction": data["label"]}):
        items = join(predictions, data, LOSSES["error"])
        _, _, held = search_and_confirm(items, LOSSES["error"], Options(exclude=["video"]))
        splits.append(held)
    assert all(np.array_equal(held, splits[0]) for held in splits)
    counts = [splits[0][np.asarray(data["label"]) == name].sum() for name in ("car", "bus")]
    assert counts == pytest.approx([(np.asarray(data["label"]) == name).sum() / 2 for name in ("car", "bus")], abs=1)


def test_a_benchmark_and_its_collection_are_audited():
    """Tags, factors and domains are predicates, and only the items of test count."""
    collection = toy(1200)
    label = collection.factors["class"]
    split = np.asarray(["train", "test", "test"])[np.arange(1200) % 3]
    benchmark = Benchmark.of(collection, None, 0, np.arange(1200), split, label=label,
                             domain=collection.factors["place"])
    sofa = np.isin(collection.index(benchmark.items), collection.with_tag("sofa"))
    rng = np.random.default_rng(0)
    wrong = rng.random(1200) < np.where(sofa, 0.6, 0.1)
    names = np.asarray(benchmark.names["label"])
    predictions = {"item": benchmark.items, "prediction": names[np.where(wrong, 1 - benchmark.label, benchmark.label)]}
    audit = sb.audit(predictions, collection, label="class", split="")
    assert audit.findings[0].context == "with sofa"
    audit = sb.audit(predictions, benchmark)
    assert (audit.card["split"], audit.card["n"]) == ("test", 800)


@pytest.mark.parametrize(("rows", "line"), [
    (1, "Nothing was found: 1 item is too few to say anything"),
    (30, "Nothing was found: 30 items are too few to say anything")])
def test_few_items_have_a_plain_answer(shell, place, rows, line):
    """One row, or thirty: exit 0 with one sentence, and no notes on columns that nobody looked at."""
    data, new, _ = drawn(rows)
    write_table(place / "few.csv", pa.table(data))
    write_table(place / "p.csv", pa.table(new))
    code, out, err = shell("audit", "p.csv", "--data", "few.csv")
    assert (code, err) == (0, "")
    assert out.startswith(line)
    assert out.count("\n") == 1


def test_a_model_without_errors_and_one_class_have_plain_answers():
    """All losses equal, or one label only: nothing is found, or what there is, and nothing breaks."""
    data, new, _ = drawn()
    audit = sb.audit({"item": data["id"], "prediction": data["label"]}, data)
    assert not audit.findings
    assert audit.sentences() == ["Nothing was found: every item has the same loss."]
    cars = np.flatnonzero(data["label"] == "car")
    only = {name: np.asarray(values)[cars] for name, values in data.items()}
    audit = sb.audit({name: np.asarray(values)[cars] for name, values in new.items()}, only, exclude="video")
    assert columns(audit.findings[0]) >= {"light"}


def test_the_verb_prints_sentences_and_a_table_and_writes_files(shell, place):
    """Sentences first, then the ranked table; what was left out is a note; the files say the same."""
    code, out, err = shell("audit", "new.csv", "--data", "data.csv", "--exclude", "video", "--out", "a.json",
                           "--keep", "kept.toml")
    assert code == 0, err
    lines = out.splitlines()
    assert "light is night and speed is" in lines[0]
    assert {"Findings", "Wrote a.json.", "Wrote kept.toml."} <= set(lines)
    assert Audit.load("a.json").sentences() == sb.audit("new.csv", "data.csv", exclude="video").sentences()
    for name in ("a.parquet", "a.html"):
        assert shell("audit", "new.csv", "--data", "data.csv", "--exclude", "video", "--out", name, "-q")[0] == 0
    assert Audit.load("a.parquet").sentences() == Audit.load("a.json").sentences()
    assert "light is night" in (place / "a.html").read_text()


def test_json_says_the_same(shell, place):
    """--json prints sentences, findings, candidates and the card, and nothing else."""
    code, out, err = shell("audit", "new.csv", "--data", "data.csv", "--exclude", "video", "--json", "--against",
                           "old.csv")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["findings"][0]["members"][0]["column"] in ("light", "speed")
    assert said["card"]["against"] == "old.csv"
    within = [line for line in said["sentences"] if "narrower context" in line]
    assert len(said["sentences"]) == len(said["findings"]) + len(said["undecided"]) + len(within)


@pytest.mark.parametrize(("words", "message"), [
    (["--out", "a.txt"], "ends in .html, .json or .parquet"),
    (["--loss", "eror"], "Did you mean 'error'"),
    (["--loss", "nll"], "classes without probabilities"),
    (["--label", "lable"], "Did you mean 'label'"),
    (["--exclude", "vidoe"], "Did you mean 'video'"),
    (["--fdr", "2"], "between 0 and 1"),
    (["--confirm", "0"], "between 0 and 1"),
    (["--split", "test"], "There are no splits"),
    (["--flips", "night"], "--flips 'night' is not of the form NAME=NUMBER"),
    (["--flips", "light=night=0.1", "--flips", "light=night=0.2"], "--flips names 'light=night' twice: 0.1 and 0.2."),
    (["--id", "name"], "No column named 'name'"),
    (["--dependence", "foo"], "No dependence named 'foo'. Known dependences: any, prds."),
])
def test_a_wrong_request_is_one_line(shell, place, words, message):
    """Exit code 1 and one line that names the fault."""
    code, out, err = shell("audit", "new.csv", "--data", "data.csv", *words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err


# The parts of the items, and what they can show

@pytest.mark.parametrize("share", [0.5, 0.3, 0.8])
def test_the_split_takes_a_share_of_every_stratum(share):
    """Each stratum is off by less than one item, the whole too, and another seed takes others."""
    strata = np.random.default_rng(0).integers(0, 7, 1001)
    held = split_items(1001, confirm=share, seed=3, strata=strata)
    for stratum in range(7):
        assert abs(held[strata == stratum].sum() - share * (strata == stratum).sum()) <= 1
    assert abs(held.sum() - share * 1001) < 1
    assert np.array_equal(held, split_items(1001, confirm=share, seed=3, strata=strata))
    assert not np.array_equal(held, split_items(1001, confirm=share, seed=4, strata=strata))


def test_clusters_stay_whole():
    """All items of a cluster are on one side, and half of the clusters on each."""
    cluster = np.random.default_rng(1).integers(0, 50, 700) * 3
    held = split_items(700, cluster=cluster, strata=cluster % 2)
    sides = [set(held[cluster == code].tolist()) for code in np.unique(cluster)]
    assert all(len(side) == 1 for side in sides)
    assert abs(sum(side == {True} for side in sides) - len(sides) / 2) <= 1


def test_a_smallest_difference_is_seen_as_often_as_promised():
    """With probability 0.8 by simulation of Fisher's test, and what cannot be seen has no answer."""
    rng, draws = np.random.default_rng(6), 1500
    difference = detectable(1200, 100, 0.12, 0.002)
    hits, misses = rng.binomial(100, 0.12 + difference, draws), rng.binomial(1100, 0.12, draws)
    seen = np.mean([fisher(int(one), 100, int(one + other), 1200) <= 0.002
                    for one, other in zip(hits, misses, strict=True)])
    assert 0.76 < seen < 0.86
    assert np.isnan(detectable(1200, 2, 0.12, 1e-6))
    assert np.isnan(detectable(1200, 0, 0.12, 0.01))
    assert detectable(1200, 100, 0.0, 0.002, sd=2.0) == pytest.approx((2.878 + 0.842) * 2 * (1 / 100 + 1 / 1100) ** 0.5,
                                                                      rel=1e-3)
