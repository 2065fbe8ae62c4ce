"""Film reviews of two sources: a model of words that learned from IMDB's knows less of Rotten Tomatoes' one-liners."""

import csv
from collections import Counter

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.scores import Scores
from shiftbench.scoring import runs_in, score_runs
from tests_real.reviews import SEEN, UNSEEN, write_table

RECIPE = """
[shift.given]
label = "label"
domain = "domain"
"""
READ = "shiftbench read table {0}.csv --id review --label opinion --domain source --split part --text text --quiet"
TRAIN = "shiftbench train benchmarks/{0} --model text-bag --steps 300 --set lr=0.01 --quiet"
SEEDS = range(3)
LAST = 32
"""Words that the sentence encoder sees: hardly more than Rotten Tomatoes' have, and those in which a verdict is."""
LINE = 20
"""Words of half of Rotten Tomatoes' reviews, at most."""
FEW = {"train": 300, "id_val": 50, "id_test": 150, "test": 150}


@pytest.fixture(scope="module")
def made(cache, place, shell):
    """The table, its collection and its benchmark, by the command line alone."""
    write_table(cache, place / "reviews.csv")
    (place / "given.toml").write_text(RECIPE)
    _build("reviews", shell)
    return place


@pytest.fixture(scope="module")
def gaps(made, shell):
    """What the shift costs erm on text-bag, trained on IMDB alone, and with half of training from Rotten Tomatoes."""
    shell("shiftbench build benchmarks/reviews --reference mixed-to-test --out benchmarks/mixed --quiet")
    for seed in SEEDS:
        shell(f"{TRAIN.format('reviews')} --method erm --seed {seed} --out runs")
        shell(f"{TRAIN.format('mixed')} --method erm --seed {seed} --out runs")
    shell("shiftbench gap runs --out gaps.csv --quiet")
    return _read("gaps.csv")


def test_the_table_keeps_its_promises(made):
    """Classes are even in every split, no text is there twice, and each source is on its own side."""
    benchmark, world = Benchmark.load("benchmarks/reviews"), Collection.load("collections/reviews")
    assert max(Counter(world.texts.text.tolist()).values()) == 1
    source = np.asarray(benchmark.names["domain"])[benchmark.domain]
    for split in benchmark.splits:
        rows = benchmark.rows(split)
        assert set(source[rows]) == {UNSEEN if split in ("test", "target_train") else SEEN}
        assert abs(benchmark.label[rows].mean() - 0.5) < 0.01


def test_a_second_reading_is_the_same_benchmark(made, shell):
    """Read and built again from the same table, the benchmark has the same digest; check finds nothing wrong."""
    shell(READ.format("reviews") + " --out again/reviews")
    shell("shiftbench build given.toml --collection again/reviews --out again/built --quiet")
    assert Benchmark.load("again/built").digest == Benchmark.load("benchmarks/reviews").digest
    shell("shiftbench check benchmarks/reviews")


def test_the_other_source_costs(gaps, tell):
    """A bag of words trained on IMDB is right about most of IMDB, and about far fewer reviews of Rotten Tomatoes."""
    inside, outside, gap = _told(gaps, "train-to-train", "erm")
    tell(f"reviews, text-bag, erm: {SEEN} {inside['value']:.3f}, {UNSEEN} {outside['value']:.3f}, {_interval(gap)}")
    assert inside["low"] > 0.75
    assert outside["low"] > 0.55
    assert gap["low"] > 0.05


def test_it_is_the_shift_that_costs(gaps, tell):
    """Of the same reviews, a bag that has seen others of their source knows more: they are not just shorter."""
    inside, outside, gap = _told(gaps, "mixed-to-test", "erm")
    tell(f"reviews, text-bag, erm, {UNSEEN} seen or unseen: {inside['value']:.3f}, {outside['value']:.3f}, "
         f"{_interval(gap)}")
    assert gap["low"] > 0


def test_a_line_says_less_than_a_page(gaps, place, shell, tell):
    """The same bag of words is right about fewer reviews of IMDB when only their last words are left."""
    def cut(row):
        if row["source"] == SEEN:
            yield row
        if row["part"] == "id_test":
            yield {**row, "review": row["review"] + "-end", "part": "test", "source": "end", "text": _end(row, LINE)}

    _rewrite(place, "cut", cut)
    _build("cut", shell)
    for seed in SEEDS:
        shell(f"{TRAIN.format('cut')} --method erm --seed {seed} --out cut")
    shell("shiftbench gap cut --out cut-gaps.csv --quiet")
    inside, outside, gap = _told(_read("cut-gaps.csv"), "train-to-train", "erm")
    tell(f"reviews, text-bag, erm: {SEEN} {inside['value']:.3f}, the last {LINE} words of each {outside['value']:.3f}, "
         f"{_interval(gap)}")
    assert inside["value"] == pytest.approx(_told(gaps, "train-to-train", "erm")[0]["value"])
    assert gap["low"] > 0


def test_group_dro_trains_on_both_sources(gaps, shell, tell):
    """On both sources at once, group DRO is above chance in its worst group of opinion × source."""
    shell(f"{TRAIN.format('mixed')} --method group_dro --set batch_size=8 --out groups")
    worst = next(row for row in score_runs("groups")
                 if (row["split"], row["metric"]) == ("test", "worst_group_accuracy"))
    tell(f"reviews, text-bag, group_dro on both sources: worst group of {UNSEEN} {worst['value']:.3f} "
         f"[{worst['low']:.3f}, {worst['high']:.3f}]")
    assert worst["low"] > 0.5


def test_sentence_vectors_of_equal_length_lose_less(gaps, place, shell, tell):
    """A head on a pretrained encoder's vectors of as many words from both sources loses less than the bag of words."""
    taken: Counter[tuple[str, str]] = Counter()

    def short(row):
        taken[row["part"], row["opinion"]] += 1
        if taken[row["part"], row["opinion"]] <= FEW.get(row["part"], 0):
            yield {**row, "text": _end(row, LAST)}

    _rewrite(place, "short", short)
    _build("short", shell)
    for seed in SEEDS:
        shell("shiftbench train benchmarks/short --method erm --model linear --features sentences --steps 300 "
              f"--seed {seed} --out short --quiet")
    shell("shiftbench gap short --out short-gaps.csv --quiet")
    inside, outside, gap = _told(_read("short-gaps.csv"), "train-to-train", "erm")
    tell(f"reviews, last {LAST} words, linear on sentence vectors, erm: {SEEN} {inside['value']:.3f}, "
         f"{UNSEEN} {outside['value']:.3f}, {_interval(gap)}")
    assert min(inside["low"], outside["low"]) > 0.6
    assert gap["high"] < _told(gaps, "train-to-train", "erm")[2]["value"]


def test_an_audit_of_the_reviews_asks_their_words(gaps, tell):
    """Words of texts are predicates, and every context that is named has its interval above the rest's error."""
    benchmark = Benchmark.load("benchmarks/reviews")
    run = next(run for run in runs_in("runs")[0] if run.benchmark["digest"] == benchmark.digest)
    audit = sb.audit(run.folder, "benchmarks/reviews", depth=1)
    assert audit.card["predicates"] > 100  # most are words
    tell(f"reviews, text-bag, erm, on {UNSEEN}: {audit.sentences()[0]}")
    assert all(finding.difference_low > 0 for finding in audit)


def _end(row, words):
    return " ".join(row["text"].split()[-words:])


def _rewrite(place, name, change):
    """Another table, with the rows that `change` makes of each row of the reviews."""
    with (place / "reviews.csv").open(encoding="utf-8") as old, (place / f"{name}.csv").open("w", newline="") as new:
        rows = csv.DictReader(old)
        table = csv.DictWriter(new, rows.fieldnames or ())
        table.writeheader()
        for row in rows:
            table.writerows(change(row))


def _build(name, shell):
    shell(f"{READ.format(name)} --out collections/{name}")
    shell(f"shiftbench build given.toml --collection collections/{name} --out benchmarks/{name} --quiet")


def _read(file):
    return {(row["split"], row["method"], row["metric"]): row for row in Scores.load(file)}


def _told(gaps, setting, method):
    """In distribution, out of it, and the gap."""
    return [gaps[f"{setting}{end}", method, metric] for end, metric in (
        (" (in)", "accuracy"), (" (out)", "accuracy"), ("", "accuracy_gap"))]


def _interval(gap):
    return f"gap {gap['value']:.3f} [{gap['low']:.3f}, {gap['high']:.3f}]"
