"""Data to evaluate on and nothing else: all rows are test, or no column says a split."""

import json

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection

RECIPE = 'collection = "c"\n[shift.given]\ndomain = "domain"\n'


@pytest.fixture(params=["no column", "all test"])
def project(tmp_path, monkeypatch, shell, request):
    """A table of 120 images of two cities, read and built without a word about training."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    split = ",split" if request.param == "all test" else ""
    rows = [f"im{k}.png,{'cat' if k % 2 else 'dog'},{rng.choice(['Kiel', 'Ulm'])}{',test' if split else ''}"
            for k in range(120)]
    (tmp_path / "d.csv").write_text(f"file,animal,city{split}\n" + "\n".join(rows) + "\n")
    words = ["--split", "split"] if split else []
    assert shell("read", "table", "d.csv", "--id", "file", "--label", "animal", "--domain", "city", *words, "--out",
                 "c", "--quiet")[0] == 0
    (tmp_path / "r.toml").write_text(RECIPE)
    assert shell("build", "r.toml", "--out", "b", "--quiet")[0] == 0
    for name, right in (("a", 0.9), ("b", 0.6)):
        hits = rng.random(120) < right
        (tmp_path / f"{name}.csv").write_text("item,prediction\n" + "".join(
            f"im{k}.png,{'cat' if (k % 2 == 1) == hits[k] else 'dog'}\n" for k in range(120)))
    return tmp_path


@pytest.mark.slow
def test_evaluation_data_are_fit_for_scoring(project, shell):
    """`check` exits 0 and says what the benchmark is fit for, and what it is not fit for and why."""
    code, out, _ = shell("check", "b")
    assert code == 0
    assert "b: fit" in out
    assert "no item is in train" in out
    assert json.loads(shell("check", "b", "--json")[1]) == {"fit": True, "fit_for": ["scoring"], "findings": []}


@pytest.mark.slow
def test_evaluation_data_are_scored_and_reported(project, shell):
    """`score` gives groups and intervals, `report` a page of them."""
    code = shell("score", "b", "a.csv", "b.csv", "--by", "city", "--out", "s.parquet", "--json")[0]
    assert code == 0
    scores = sb.Scores.load("s.parquet")
    assert set(scores.where(metric="accuracy", by="city")["group"]) == {"city = Kiel", "city = Ulm"}
    assert set(scores["split"]) == {"test"}
    own = scores.where(metric="accuracy", by="")["group"]
    assert set(own) == {"all", "cat, Kiel", "cat, Ulm", "dog, Kiel", "dog, Ulm"}
    assert shell("report", "s.parquet", "--benchmark", "b", "--out", "r.html")[0] == 0
    page = (project / "r.html").read_text()
    assert "cat, Kiel" in page
    assert "training and test" not in page
    assert "the shift" not in page.lower().partition("how to read the numbers")[0]


def submit(project, name, chosen):
    folder = project / "submissions" / name
    folder.mkdir(parents=True)
    (folder / "seed-0.csv").write_bytes((project / f"{name}.csv").read_bytes())
    digest = sb.Benchmark.load("b").digest
    (folder / "submission.toml").write_text(f'method = "{name}"\nauthors = ["x"]\nselected_on = "{chosen}"\n'
                                            f'external_data = false\nbenchmark = "{digest}"\n')


@pytest.mark.slow
def test_a_board_of_evaluation_data_ranks_models_from_elsewhere(project):
    """One file is enough, and a model that was chosen elsewhere counts; one chosen on the test itself does not."""
    submit(project, "a", "elsewhere")
    submit(project, "b", "test")
    board = sb.board("submissions", "b", "board")
    assert board.required == 1
    assert [(one.verified.entry.method, one.rank) for one in board.listed] == [("a", 1), ("b", None)]
    assert "final evaluation" in " ".join(board.listed[1].verified.reasons)


def test_a_board_says_which_word_evaluation_data_want(project):
    """A split that the benchmark does not have is answered with the word that is right."""
    submit(project, "a", "val")
    (one,) = sb.board("submissions", "b").listed
    assert "say 'elsewhere'" in " ".join(one.verified.reasons)


@pytest.mark.slow
def test_training_on_evaluation_data_is_refused_in_one_line(project, shell):
    """Settings and training say that there is no split to train on."""
    assert "no split 'train'" in shell("build", "b", "--reference", "mixed-to-test", "--out", "m")[2]


def test_bare_numbers_in_a_group_say_what_they_are():
    """Groups of the label 0 and the place 1 are named y = 0, place = 1; words stay as they are."""
    n = np.arange(80)
    data = Collection("d", np.char.mod("i%d", n), {"y": n % 2, "place": n // 2 % 2, "sky": np.where(n % 4, "a", "b")})
    made = sb.Given(label="y", domain="place").build(data)
    assert made.names["group"] == ("y = 0, place = 0", "y = 0, place = 1", "y = 1, place = 0", "y = 1, place = 1")
    assert made.names["label"] == ("0", "1")
    assert sb.Given(label="y", domain="sky").build(data).names["group"] == ("y = 0, a", "y = 0, b", "y = 1, a")
    grouped = sb.Given(label="y", groups=("place",)).build(data)
    assert grouped.names["group"][1] == "y = 0, place = 1"
    drawn = sb.Correlation("y", "place", rho=0.5, n_train=20, n_test=8).build(data)
    assert set(drawn.names["group"]) == set(made.names["group"])
    noisy = sb.Noise(1.0)(drawn)
    train = noisy.rows("train")
    assert [noisy.names["group"][g] for g in noisy.group[train]] == [
        f"y = {y}, place = {d}" for y, d in zip(noisy.label[train], noisy.domain[train], strict=True)]
    holes = Collection("h", data.items[n != 3], {key: values[n != 3] for key, values in data.factors.items()})
    hole = sb.Given(label="y", domain="place").build(holes.take(np.flatnonzero((holes.factors["y"] == 0) | (
        holes.factors["place"] == 0))))
    assert any("'y = 1, place = 1'" in finding.detail for finding in sb.check(hole))


def test_only_the_usual_split_may_be_absent():
    """A split that is named and not there is a slip; the empty name and the usual one mean that all items are test."""
    data = Collection("d", np.char.mod("i%d", np.arange(6)), {"label": np.asarray(list("ababab"))})
    for shift in (sb.Given(), sb.Given(split="")):
        made = shift.build(data)
        assert set(made.split) == {"test"}
        assert made.card["notes"] == ["The data have no split: every item is test."]
    with pytest.raises(ShiftBenchError, match="No factor named 'part'"):
        sb.Given(split="part").build(data)
    named = Collection("d", data.items, {**data.factors, "split": np.asarray(["train", "test"] * 3)})
    assert set(sb.Given().build(named).split) == {"train", "test"}
