"""The page says how many seeds each method has, and names a best method only where the numbers support one."""

import re

import numpy as np
import pytest

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import Scores
from shiftbench.reporting import report
from shiftbench.reporting.score_tables import breakable
from shiftbench.scoring import means, score
from tests.strategies import toy

BEST = re.compile(r"is (best|ahead) (for|by|there)|significantly ahead of")


def bench(n: int, name: str = "few") -> Benchmark:
    """The last `n` items are test, as many before them training; the domain is the same for all."""
    collection = toy(2 * n, 0)
    split = np.repeat(["train", "test"], n)
    return Benchmark.of(collection, None, 0, np.arange(2 * n), split, label=collection.factor("class"),
                        domain=np.full(2 * n, "here"), card={"name": name})


def model(benchmark: Benchmark, wrong: int) -> Predictions:
    """Wrong about the first few test items."""
    rows = benchmark.rows("test")
    guess = benchmark.label.copy()
    guess[rows[:wrong]] = 1 - guess[rows[:wrong]]
    scores = np.eye(len(benchmark.names["label"]), dtype=np.float32)[guess]
    return Predictions(benchmark.items[rows], benchmark.split[rows], scores[rows], benchmark.names["label"])


def scored(benchmark: Benchmark, wrong: dict[str, list[int]]) -> Scores:
    """Every method's seeds, which err on as many items as the lists say, with their means and paired differences."""
    runs = {method: [model(benchmark, n) for n in listed] for method, listed in wrong.items()}
    single = [score(benchmark, one, run=f"{method}/{seed}", method=method, seed=seed, replicates=20)
              for method, listed in runs.items() for seed, one in enumerate(listed)]
    return Scores.join([*single, means(benchmark, runs, replicates=50)])


def text_of(scores: Scores, benchmarks: list[Benchmark], folder) -> str:
    return report(scores, benchmarks, folder / "page.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("names", [["one"], ["one", "two"]])
def test_seeds_are_counted_method_by_method(names, tmp_path):
    """Where one method has two seeds and another has one, each count stands beside its method."""
    made = [bench(60, name) for name in names]
    uneven = Scores.join([scored(one, {"erm": [6, 8], "irm": [7]}) for one in made])
    text = text_of(uneven, made, tmp_path)
    assert "mean over seeds (erm 2, irm 1)" in text
    assert "mean over 2 seeds" not in text
    even = Scores.join([scored(one, {"erm": [6, 8], "irm": [7, 9]}) for one in made])
    text = text_of(even, made, tmp_path)
    assert "mean over 2 seeds" in text
    assert "mean over seeds" not in text
    single = Scores.join([scored(one, {"erm": [6], "irm": [7]}) for one in made])
    assert "mean over" not in text_of(single, made, tmp_path).split("How to read the numbers</h2>")[0]


@pytest.mark.parametrize(("n", "wrong"), [
    (3, {"erm": [1], "irm": [0], "vrex": [2]}),
    (3, {"erm": [1], "irm": [1], "vrex": [1]}),
    (60, {"erm": [12, 9, 14], "irm": [10, 13, 11], "vrex": [9, 14, 10]}),
])
def test_a_tie_names_no_best_method(n, wrong, tmp_path):
    """Of three test items, and of three seeds that overlap, the page says that the methods do not differ."""
    made = bench(n)
    assert not BEST.search(text_of(scored(made, wrong), [made], tmp_path))
    text = text_of(scored(made, wrong), [made], tmp_path)
    assert "The 3 methods do not differ significantly" in text
    assert 'class="best"' not in text


def test_a_best_method_is_named_where_there_is_one(tmp_path):
    """The other side of the law: with 200 items, 40 errors fewer are a best method."""
    made = bench(200)
    assert BEST.search(text_of(scored(made, {"erm": [60], "irm": [5]}), [made], tmp_path))


def test_long_names_break_between_their_parts(tmp_path):
    """A line of the page may break behind the _, + and comma of a long name; short names and markup stay."""
    assert str(breakable("north_atlantic+baltic,sea_of_crete")) == (
        "north_<wbr>atlantic+<wbr>baltic,<wbr>sea_<wbr>of_<wbr>crete")
    assert str(breakable("group_dro, <i>in_the_house_of_x</i>")) == (
        "group_dro, &lt;i&gt;in_<wbr>the_<wbr>house_<wbr>of_<wbr>x&lt;/i&gt;")
    made = bench(60)
    text = text_of(scored(made, {"resnet50_imagenet1k_v2": [6], "clip_vit_large_patch14": [7]}), [made], tmp_path)
    shown = text.split("<main>")[1]
    assert shown.count("resnet50_<wbr>imagenet1k_<wbr>v2") >= 3  # the scores, the pairs, the bars
    assert "resnet50_imagenet1k_v2" not in shown
