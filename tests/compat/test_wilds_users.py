"""What a user of the ten data sets meets first: what is printed, which number is told, and what an error says."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.cli.command import _lines
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.checks import check, fit
from shiftbench.data.collection import Collection, Texts
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import Measure
from shiftbench.exports import export
from shiftbench.images.decode import images
from shiftbench.methods import METHODS
from shiftbench.reporting.pictures import samples
from shiftbench.reporting.terminal import GROUPS, scores_table
from shiftbench.scoring import means
from shiftbench.scoring.gaps import Side, gap
from shiftbench.scoring.select import select
from shiftbench.shifts.in_distribution import GENERALIZATION, HYBRID, kind_of
from shiftbench.shifts.splits import Given

N, USERS = 600, 40
RANKED = "tenth_percentile_accuracy[user]"


@pytest.fixture(scope="module")
def reviews() -> Collection:
    """Users 0 to 19 in training, the others after the shift; no user has given every number of stars."""
    rng = np.random.default_rng(0)
    user = np.arange(N) % USERS
    label = (user + rng.integers(0, 3, N)) % 4
    split = np.where(user < 20, np.where(rng.random(N) < 0.6, "train", "id_val"), np.where(user < 30, "val", "test"))
    return Collection("reviews", np.asarray([f"r{k}" for k in range(N)]), factors={
        "label": label, "user": np.asarray([f"u{one:02}" for one in user]), "split": split,
        "region": np.asarray(["east", "west"])[rng.integers(0, 2, N)], "price": rng.normal(size=N)})


def made(collection: Collection, **options: object) -> Benchmark:
    return Given(domain="user", score_by=("user", "region"), **options).build(collection)


def guesses(benchmark: Benchmark, seed: int, right: float) -> Predictions:
    """A model that is right in so many cases, else says anything."""
    rng = np.random.default_rng(seed)
    n, k = len(benchmark), len(benchmark.names["label"])
    said = np.where(rng.random(n) < right, benchmark.label, rng.integers(0, k, n))
    return answers(benchmark, np.eye(k)[said])


def answers(benchmark: Benchmark, scores: np.ndarray) -> Predictions:
    return Predictions(benchmark.items, benchmark.split, scores.astype(np.float32), benchmark.names["label"])


def test_gaps_in_the_grid_are_notes_where_another_number_ranks(reviews):
    """No user gives every number of stars: unfit where the worst cell counts, a note where users do."""
    plain, own = made(reviews), made(reviews, headline=RANKED)
    assert not fit(check(plain))
    assert fit(check(own))
    assert sorted(one[1:] for one in check(own)) == sorted(one[1:] for one in check(plain))


def test_files_that_are_called_alike_are_told_apart(reviews, tmp_path):
    """Predictions of two runs have the same file name; scores name their folders, and count each one's groups."""
    benchmark = made(reviews)
    for place, seed in (("a", 0), ("b", 1)):
        (tmp_path / place).mkdir()
        guesses(benchmark, seed, 0.7).save(tmp_path / place / "predictions.parquet")
    scores = sb.score(benchmark, *(tmp_path / place / "predictions.parquet" for place in "ab"), replicates=0)
    assert set(scores["run"].tolist()) == {"a/predictions", "b/predictions"}
    told = Console(width=200)
    with told.capture() as caught:
        told.print(scores_table(scores))
    assert "10 groups" in caught.get()
    assert "40 groups" not in caught.get()


@pytest.mark.slow
def test_a_terminal_shows_the_worst_of_many_groups(reviews):
    """Of each metric and split at most so many groups are printed, the worst of all among them, and that is said."""
    benchmark = made(reviews)
    scores = sb.score(benchmark, guesses(benchmark, 0, 0.7), replicates=0)
    told = Console(width=200)
    with told.capture() as caught:
        told.print(scores_table(scores))
    lines = caught.get().splitlines()
    assert f"Of more than {GROUPS} groups the worst are shown" in caught.get()
    cells = [row["value"] for row in scores.where(split="train", metric="accuracy", by="") if row["group"] != "all"]
    first = next(at for at, line in enumerate(lines) if " train " in line)
    last = next(at for at, line in enumerate(lines) if " worst-group accuracy " in line)
    shown = [float(line.split()[-1]) / 100 for line in lines[first + 1:last]]
    assert len(cells) > GROUPS == len(shown)
    np.testing.assert_allclose(sorted(shown), sorted(cells)[:GROUPS], atol=5e-4)


def test_show_prints_brackets_and_counts_numbers(reviews, tmp_path):
    """The headline is printed whole, and a column of numbers has as many values as it has."""
    made(reviews, headline=RANKED).save(tmp_path / "b")
    assert RANKED in CliRunner().invoke(app, ["show", str(tmp_path / "b")]).stdout.replace("\n", "")
    reviews.save(tmp_path / "c")
    line = next(line for line in CliRunner().invoke(app, ["show", str(tmp_path / "c")]).stdout.splitlines()
                if line.startswith("price"))
    assert line.split()[2] == str(N)


def test_select_judges_by_any_scored_number(reviews):
    """Macro F1 and the tenth percentile judge a choice as accuracy does; a misspelt one names those that are there."""
    benchmark = made(reviews)
    scores = sb.Scores.join([
        sb.score(benchmark, guesses(benchmark, seed, right), replicates=0) for seed, right in ((0, 0.3), (1, 0.9))])
    scores = scores.assign(run=np.repeat(["poor", "good"], len(scores) // 2), method="erm")
    for target in ("macro_f1", RANKED):
        found = next(one for one in select(scores, ["id"], targets=[target]).choices)
        assert found.run == "good"
        wanted = scores.where(run="good", split="test", group="all", **Measure.parse(target)._asdict())["value"]
        assert found.test == found.oracle == wanted
    with pytest.raises(ShiftBenchError, match=r"Did you mean 'worst_group_accuracy\[region\]'"):
        select(scores, ["id"], targets=["worst_group_accuracy[regon]"])


def test_a_page_tells_the_number_that_ranks(reviews, tmp_path):
    """The first sentence is of the headline, also of a target that is no class."""
    numbers = Given("price", domain="user", groups=("region",), target="number").build(reviews)
    truth, noise = np.asarray(numbers.extra["price"]), np.random.default_rng(0).normal(size=(N, 1))
    shown = {}
    for name, benchmark, predicted in (("stars", made(reviews, headline=RANKED), None),
                                       ("prices", numbers, answers(numbers, truth[:, None] + noise))):
        benchmark = replace(benchmark, card={**benchmark.card, "name": name})
        scores = sb.score(benchmark, predicted or guesses(benchmark, 0, 0.7))
        benchmark.save(tmp_path / name)
        page = sb.report(scores, tmp_path / f"{name}.html", benchmarks=[tmp_path / name])
        shown[name] = page.read_text(encoding="utf-8")
    assert "in what ranks here (tenth percentile of accuracy over groups by user)" in shown["stars"]
    assert "in what ranks here (worst-group Pearson’s r: “" in shown["prices"]
    assert "Pearson’s r</dt>" in shown["prices"]
    assert "Pearson’s r</dt>" not in shown["stars"]


def test_a_perfect_line_has_no_interval(reviews):
    """r = 1 but for rounding says nothing of its interval; it is not −1 to 1."""
    benchmark = Given("price", domain="user", groups=("region",), target="number").build(reviews)
    truth = np.asarray(benchmark.extra["price"])[:, None]
    rows = sb.score(benchmark, answers(benchmark, 4 * truth)).where(metric="r")
    assert len(rows) >= 4
    np.testing.assert_allclose(rows["value"], 1)
    assert np.isnan(rows["low"]).all()


@pytest.mark.parametrize("setting", ["average", "train-to-train", "mixed-to-test"])
def test_the_gap_is_of_the_headline_too(reviews, setting):
    """A headline over a grouping stands in the gap as it is scored, on the items that count there, with an interval."""
    moved = np.where((reviews.factors["split"] == "id_val") & (np.arange(N) % 2 == 0), "id_test",
                     reviews.factors["split"])
    benchmark = made(replace(reviews, factors={**reviews.factors, "split": moved}), headline=RANKED)
    runs = [guesses(benchmark, seed, 0.7) for seed in (0, 1)]
    outside, inside = Side(benchmark, runs), None
    if setting == "mixed-to-test":
        mixed = sb.reference(benchmark, setting)
        inside = Side(mixed, [guesses(mixed, seed, 0.9) for seed in (2, 3)])
    found, ranked = gap(outside, inside, reference=setting), Measure.parse(RANKED)
    told = {row["split"]: row for row in found if row["by"] == ranked.by or (
        setting == "average" and row["split"].endswith(" (in)"))}
    scored = means(benchmark, {"": runs}, replicates=0)
    before, after, both = (told[setting + side] for side in (" (in)", " (out)", ""))
    if setting != "mixed-to-test":
        expected = scored.where(split="test", group="all", **ranked._asdict())["value"][0]
        assert after["value"] == pytest.approx(expected)
        split, measure = ("test", Measure("accuracy")) if setting == "average" else ("id_test", ranked)
        assert before["value"] == pytest.approx(scored.where(split=split, group="all", **measure._asdict())["value"][0])
    assert (both["metric"], both["by"]) == (ranked.metric + "_gap", ranked.by)
    assert both["value"] == pytest.approx(before["value"] - after["value"])
    assert -1 <= both["low"] <= both["value"] <= both["high"] <= 1


@pytest.mark.parametrize(("headline", "kind"), [(RANKED, GENERALIZATION), ("accuracy", GENERALIZATION),
                                                ("worst_group_accuracy[region]", HYBRID)])
def test_groups_that_rank_make_a_hybrid(reviews, headline, kind):
    """New users alone are domain generalization; ranked by regions that training has, they are a hybrid, as FMoW."""
    assert kind_of(made(reviews, headline=headline)) == kind


@pytest.mark.parametrize("wrong", [{"keep": ("regin",)}, {"score_by": ("regin,label",)}])
def test_a_misspelt_column_to_keep_is_an_error(reviews, wrong):
    """Columns that are not there are not passed over."""
    with pytest.raises(ShiftBenchError, match=r"No factor named 'regin'. Did you mean 'region'"):
        Given(domain="user", **wrong).build(reviews)


def test_tokens_are_exported_as_numbers(tmp_path):
    """rows.csv has tokens that any tool can read, and no label where none is predicted."""
    texts = np.asarray(["3 1 4", "0 1 2", "1 5 9", "2 2 0"], np.object_)
    code = Collection("code", np.asarray(["a", "b"]), factors={"split": np.asarray(["train", "test"])},
                      texts=Texts(np.asarray([0, 0, 1, 1]), texts))
    export(Given(target="tokens").build(code), None, tmp_path / "e", to="csv")
    head, *lines = (tmp_path / "e" / "rows.csv").read_text().splitlines()
    assert "label" not in head
    assert lines[0].endswith('"3 1 4","0 1 2"')
    assert lines[1].endswith('"1 5 9","2 2 0"')


def test_arrays_are_no_pictures(reviews, tmp_path):
    """A report of .npz images has no pictures; a model of pictures is told which model takes them."""
    np.savez(tmp_path / "x.npz", x=np.zeros((8, 4, 4), np.float32))
    many = replace(reviews, pixels=np.full(N, "x.npz"), root=tmp_path)
    assert samples(made(many), many) == []
    with pytest.raises(ShiftBenchError, match="--model resnet18-ms"):
        images(many, np.arange(2))


def test_a_suite_names_the_collection_that_it_cannot_be_built_on(reviews, tmp_path):
    """Of the ten data sets the user says which: the error names benchmark, collection and the option."""
    with pytest.raises(ShiftBenchError, match=r"Benchmark 'iwildcam' of suite 'wilds'.*'reviews'.*--only"):
        sb.suite("wilds", reviews, tmp_path)


def test_what_is_said_to_learn_boxes_takes_a_detector():
    """A method that needs images, which no detector of ours gives it, is not named to a user with boxes."""
    assert {name for name, method in METHODS.items() if "boxes" in method.targets} == {"erm", "group_dro", "swa"}


def test_without_a_terminal_a_long_run_is_told_now_and_then(capsys):
    """Where nobody watches a bar, a line every so many seconds says how far it is; between them nothing."""
    now = [0.0]
    advance = _lines("training", 30, lambda: now[0])
    for second in range(1, 100):
        now[0] = float(second)
        advance(second, 1000)
    assert capsys.readouterr().err.splitlines() == [f"training: {at} of 1,000" for at in (30, 60, 90)]


def test_without_a_test_there_is_no_gap(reviews):
    """A benchmark that has no test says so, and divides by nothing."""
    split = np.where(reviews.factors["split"] == "test", "id_test", reviews.factors["split"])
    benchmark = made(replace(reviews, factors={**reviews.factors, "split": split}))
    with pytest.raises(ShiftBenchError, match="has no test"):
        gap(Side(benchmark, [guesses(benchmark, 0, 0.7)]), reference="train-to-train")
