"""Two outside models are compared on the same items, and the page keeps what was scored by."""

import io

import numpy as np
import pytest
from rich.console import Console

import shiftbench as sb
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, Scores
from shiftbench.reporting.score_tables import comparisons
from shiftbench.reporting.terminal import scores_table, versus_table
from shiftbench.scoring.differences import compare, mcnemar
from shiftbench.shifts.shift import fisher
from tests.strategies import toy

N = 600


def evaluation_only() -> Benchmark:
    """All rows are test; the domain is one of twelve cities."""
    collection = toy(N, 0)
    city = np.asarray([f"city {code:02}" for code in np.arange(N) % 12])
    return Benchmark.of(collection, None, 0, np.arange(N), np.full(N, "test"), label=collection.factor("class"),
                        domain=city, card={"name": "cities"})


def model(benchmark: Benchmark, wrong) -> Predictions:
    """Wrong about the rows that are named."""
    guess = benchmark.label.copy()
    guess[wrong] = 1 - guess[wrong]
    return Predictions(benchmark.items, benchmark.split, np.eye(2, dtype=np.float32)[guess], benchmark.names["label"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A benchmark folder and two files: both err on one item in five, `new` on 24 fewer, all of them in city 03."""
    place = tmp_path_factory.mktemp("side")
    benchmark = evaluation_only()
    benchmark.save(place / "bench")
    shared = np.arange(0, N, 5)
    worse = np.setdiff1d(np.arange(3, N, 12), shared)[:24]
    model(benchmark, shared).save(place / "new.parquet")
    model(benchmark, np.append(shared, worse)).save(place / "old.parquet")
    return place


def test_outside_models_are_paired(files):
    """Where intervals overlap, the paired test of the same items still tells two models apart, with its exact p."""
    scores = sb.score(files / "bench", files / "new.parquet", files / "old.parquet", by=["domain"])
    new, old = (scores.where(method=name, metric="accuracy", group=ALL) for name in ("new", "old"))
    assert old["high"][0] > new["low"][0]
    whole = next(one for one in comparisons(scores) if one.metric == "accuracy" and one.group == ALL)
    assert (whole.best, whole.other, whole.n) == ("new", "old", N)
    assert whole.difference == pytest.approx(24 / N)
    assert whole.p == pytest.approx(2 * 0.5**24)
    assert 0 < whole.low < 24 / N < whole.high


def test_groups_are_corrected_for_how_many_are_looked_at(files):
    """In each of the twelve cities the exact p is multiplied by twelve, and only the planted one is told apart."""
    scores = sb.score(files / "bench", files / "new.parquet", files / "old.parquet", by=["domain"])
    cities = [one for one in comparisons(scores) if one.by == "domain" and one.group != ALL]
    assert len(cities) == 12
    assert cities[0].group == "domain = city 03"
    assert cities[0].p == pytest.approx(12 * 2 * 0.5**24)
    assert [one.low > 0 for one in cities] == [True] + [False] * 11


def test_single_runs_have_mcnemars_exact_p():
    """The p-value of two runs that are right or wrong is McNemar's, and the interval agrees with it about 0."""
    rng = np.random.default_rng(0)
    for share in (0.5, 0.7, 0.9):
        hits = rng.random((2, 40)) < np.asarray([[0.5], [share]])
        found = compare(hits, [0, 1])
        assert found.p[0] == mcnemar(hits[0], hits[1])
        assert (found.low[0] > 0 or found.high[0] < 0) <= (found.p[0] <= 0.05)


def test_the_page_keeps_groupings_and_pairs(files, tmp_path):
    """`score --by --out` then `report`, with or without the benchmark: the planted group stands on the page."""
    sb.score(files / "bench", files / "new.parquet", files / "old.parquet", by=["domain"]).save(tmp_path / "s.parquet")
    for benchmarks in ((), (files / "bench",)):
        text = sb.report(tmp_path / "s.parquet", tmp_path / "r.html", benchmarks=benchmarks).read_text()
        assert "Accuracy by domain" in text
        assert "<b>domain = city 03</b>" in text
        assert "Side by side, on the same test items" in text
        assert "none in training" not in text


def test_the_terminal_lists_the_worst_first(files):
    """Groups stand in the order of their accuracy, and two models in one table."""
    scores = sb.score(files / "bench", files / "old.parquet", by=["domain"])
    screen = Console(width=200, record=True, file=io.StringIO())
    screen.print(scores_table(scores))
    cities = [line for line in screen.export_text().splitlines() if "domain = city" in line and "worst" not in line]
    assert "city 03" in cities[0]
    assert len(cities) == 12
    assert versus_table(scores) is None
    both = sb.score(files / "bench", files / "old.parquet", files / "new.parquet")
    screen.print(versus_table(both))
    assert "Side by side" in screen.export_text()
    assert isinstance(both, Scores)


def test_chance_is_not_told_as_the_shift():
    """Fisher's p is scipy's, and a sentence about a tag needs one that is small after correction for all tags."""
    from scipy.stats import fisher_exact

    from shiftbench.reporting.sections.cards import summary

    for first, second in ((0, 3), (5, 9), (30, 2), (0, 0), (40, 40)):
        assert fisher(first, 60, second, 40) == pytest.approx(
            fisher_exact([[first, 60 - first], [second, 40 - second]])[1])
    benchmark = evaluation_only()
    parts = [{"tag": "boat", "kind": "object", "train": 0.0, "test": 0.09, "lift": 5.0, "p": 1.0},
             {"tag": "sofa", "kind": "object", "train": 0.1, "test": 0.6, "lift": 6.0, "p": 1e-9}]
    benchmark.card["explanation"] = parts
    assert "sofa" in summary(benchmark)
    assert "boat" not in summary(benchmark)
