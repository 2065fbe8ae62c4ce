"""Groups of any columns, in any order, overlapping or not: named right, counted right, and never empty."""

import json
import math
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shiftbench.cli import app
from shiftbench.compat.grouper import Columns, CombinatorialGrouper
from shiftbench.compat.wilds import get_dataset
from shiftbench.compat.wilds_eval import evaluate
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import Grouping, columns_in, group_by, grouping, groupings_of
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN, Measure, Scores
from shiftbench.leaderboard import make_board
from shiftbench.readers.wilds.comments import IDENTITIES
from shiftbench.reporting import report
from shiftbench.reporting.terminal import GROUPS, choices_table, scores_table
from shiftbench.scoring import means, score
from shiftbench.scoring.classes import Split, measure_classes
from shiftbench.scoring.intervals import wilson
from shiftbench.scoring.judge import measure
from shiftbench.scoring.listing import Finished
from shiftbench.scoring.metrics import in_words
from shiftbench.scoring.pieces import Piece, together
from shiftbench.scoring.scorer import scorer
from shiftbench.scoring.select import select
from tests.leaderboard.test_boards import submit
from tests.strategies import seeds, toy

COLUMNS = ("word", "number", "flag", "label")
SPLITS = np.asarray(["train", "val", "id_test", "test"])


def table(seed: int, n: int = 60) -> dict[str, np.ndarray]:
    """Words, whole numbers, yes and no, and numbers with gaps."""
    rng = np.random.default_rng(seed)
    gaps = np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 2, n))
    return {"word": rng.choice(["a", "b, c", "d"], n), "number": rng.integers(-1, 3, n), "flag": rng.random(n) < 0.5,
            "other flag": gaps, "label": rng.choice(["cat", "dog"], n)}


def benchmark_of(seed: int = 0, n: int = 400, **card: object) -> Benchmark:
    """A benchmark whose rows keep the columns of `table`."""
    collection, rng, columns = toy(n, seed % 1000), np.random.default_rng(seed), table(seed, n)
    return Benchmark.of(collection, None, 0, np.arange(n), rng.choice(SPLITS, n), label=columns.pop("label"),
                        domain=collection.factor("place"), extra=columns, card={"name": "toy", **card})


def guesses(benchmark: Benchmark, seed: int = 0) -> Predictions:
    scores = np.random.default_rng(seed).normal(size=(len(benchmark), len(benchmark.names["label"])))
    scores[np.arange(len(benchmark)), benchmark.label] += 0.8
    return Predictions(benchmark.items, benchmark.split, scores.astype(np.float32), benchmark.names["label"])


def told(scores: Scores, said: str, split: str = "test") -> dict[tuple[str, str], dict]:
    """By metric and group; the worst by its metric alone."""
    rows = scores.where(by=said, split=split)
    return {(row["metric"], "" if row["metric"].startswith("worst_") else row["group"]): row for row in rows}


@settings(max_examples=30, deadline=None)
@given(seeds, st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4, unique=True))
def test_cells_are_those_of_a_plain_loop_in_any_order(seed, columns):
    """Every order of the columns gives the cells that occur, each named in that order, and the same rows in each."""
    data = table(seed)
    for order in permutations(columns):
        made = group_by(data, ",".join(order))
        expected: dict[str, list[int]] = {}
        for row in range(60):
            name = ", ".join(f"{column} = {data[column][row]}" for column in order)
            expected.setdefault(name, []).append(row)
        parts = np.split(made.rows, made.start[1:])
        assert {name: rows.tolist() for name, rows in zip(made.names, parts, strict=True)} == expected
        assert made.times.tolist() == [1] * 60


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_yes_no_columns_make_overlapping_groups(seed):
    """A list of yes/no columns × label has a group for every yes and none for a no; a row is in all its yeses."""
    data = table(seed)
    made = group_by(data, "flag+other flag,label")
    expected = {}
    for column, yes in (("flag", "True"), ("other flag", "1")):
        for label in ("cat", "dog"):
            rows = [row for row in range(60) if data[column][row] == 1 and data["label"][row] == label]
            if rows:
                expected[f"{column} = {yes}, label = {label}"] = rows
    parts = np.split(made.rows, made.start[1:])
    assert {name: rows.tolist() for name, rows in zip(made.names, parts, strict=True)} == expected
    assert made.times.max() <= 2
    one = group_by(data, "each:flag,label")
    assert one.names == tuple(name for name in expected if name.startswith("flag"))
    again = Grouping.of(made.said, made.names, made.member)
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(made, again, strict=True))


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_values_that_are_left_out_or_missing_are_in_no_group(seed):
    """A value behind ! makes no group, nor does a gap; what is left keeps its rows."""
    data = table(seed)
    data["word"][:3] = ["a", "d", "d"]
    rest = group_by(data, "word!a")
    assert set(rest.rows.tolist()) == set(np.flatnonzero(data["word"] != "a").tolist())
    assert not [name for name in rest.names if "= a" in name]
    known = group_by(data, "other flag")
    assert sorted(known.rows.tolist()) == np.flatnonzero(~np.isnan(data["other flag"])).tolist()


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_a_disjoint_grouping_scores_as_the_benchmarks_own_groups(seed):
    """Grouped by label and domain, each score and interval is the existing one, in either order of the columns."""
    benchmark = benchmark_of(seed)
    found = score(benchmark, guesses(benchmark, seed), by=["label,domain", "domain,label", "group"])
    for split in SPLITS:
        own = {(row["metric"], "" if row["metric"].startswith("worst_") else row["group"]): row
               for row in found.where(split=split, by="")}
        for said, name in (("label,domain", "label = {}, domain = {}"), ("domain,label", "domain = {1}, label = {0}"),
                           ("group", "group = {}, {}")):
            mine = told(found, said, split)
            for group in benchmark.counts()[split]:
                here = mine["accuracy", name.format(*group.split(", "))]
                assert all(here[key] == own["accuracy", group][key] for key in ("n", "value", "low", "high"))
            each = [own["accuracy", group]["value"] for group in benchmark.counts()[split]]
            # Of groups that are equally bad the first is named, and its interval told: another order, another group.
            keys = ("value", "low", "high") if each.count(min(each)) == 1 else ()
            for metric in ("worst_group_accuracy", "worst_group_accuracy_corrected"):
                assert all(mine[metric, ""][key] == pytest.approx(own[metric, ""][key], abs=1e-9) for key in keys)
                lowest = name.format(*own[metric, ""]["group"].split(", "))
                assert mine["accuracy", lowest]["value"] == mine["worst_group_accuracy", ""]["value"]
                assert mine[metric, ""]["n"] == mine["accuracy", mine[metric, ""]["group"]]["n"]


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_overlapping_groups_score_as_a_plain_loop(seed):
    """Each group is scored on its own items, the worst is the lowest of them, the mean and percentile are numpy's."""
    benchmark, said = benchmark_of(seed), "flag+other flag,label"
    predictions = guesses(benchmark, seed)
    mine = told(score(benchmark, predictions, by=[said]), said)
    rows = benchmark.rows("test")
    right = predictions.predicted == benchmark.label
    values = []
    for column, yes in (("flag", "True"), ("other flag", "1")):
        for code, label in enumerate(benchmark.names["label"]):
            chosen = rows[(benchmark.extra[column][rows] == 1) & (benchmark.label[rows] == code)]
            here = mine["accuracy", f"{column} = {yes}, label = {label}"]
            assert (here["n"], here["value"]) == (len(chosen), pytest.approx(right[chosen].mean()))
            ends = [float(end) for end in wilson(right[chosen].mean(), len(chosen))]
            assert [here["low"], here["high"]] == pytest.approx(ends)
            values.append(right[chosen].mean())
    worst = mine["worst_group_accuracy", ""]
    assert worst["value"] == pytest.approx(min(values)) == mine["accuracy", worst["group"]]["value"]
    assert worst["n"] == mine["accuracy", worst["group"]]["n"]
    assert worst["low"] <= min(row["low"] for (metric, _), row in mine.items() if metric == "accuracy") + 1e-12
    assert ("worst_group_accuracy_corrected", "") not in mine
    assert mine["mean_group_accuracy", ALL]["value"] == pytest.approx(np.mean(values))
    assert mine["tenth_percentile_accuracy", ALL]["value"] == pytest.approx(np.percentile(values, 10))


def test_the_interval_of_a_worst_overlapping_group_keeps_its_level():
    """Of 600 draws with 16 groups that share most of their items, few have an interval beside the true worst."""
    rng, runs, n = np.random.default_rng(0), 600, 500
    label, named = rng.random(n) < 0.4, rng.random((n, 8)) < 0.8
    member = np.hstack([named & label[:, None], named & ~label[:, None]])
    part = Grouping.of("many", [str(k) for k in range(16)], member)
    rate = np.where(label, 0.6, 0.9)
    scores = np.where(rng.random((runs, n)) < rate, 1.0, -1.0)
    benchmark = Benchmark(np.arange(n).astype(str), np.full(n, "test"), *(np.zeros(n, np.int64),) * 3,
                          {"label": ("a", "b"), "domain": ("d",), "group": ("g",)})
    split = Split.of(benchmark, "test", [])._replace(groupings=(part,))
    runs = range(len(scores))
    found = measure_classes(split, np.stack([scores, -scores], axis=2).astype(np.float32), runs, 0.95)
    worst = next(one for one in found if (one.metric, one.by) == ("worst_group_accuracy", "many"))
    low, high = worst.estimate.ends(runs, 0.95)
    assert (low > 0.6).mean() < 0.04
    assert (high < 0.6).mean() < 0.04


def test_a_batch_has_the_rows_of_the_plain_way():
    """Groupings of the card come with every run of a batch, with the numbers that `score` gives."""
    benchmark = benchmark_of(3, groupings=["flag+other flag,label", "word!a", "number"])
    runs = [guesses(benchmark, seed) for seed in range(3)]
    outputs = ((split, np.stack([run.scores for run in runs])[:, benchmark.rows(split)]) for split in benchmark.splits)
    scorers = {split: scorer(benchmark, split, groupings_of(benchmark)) for split in benchmark.splits}
    finished = [Finished(Path(f"run-{seed}"), {"method": "erm", "seed": seed}, {}) for seed in range(3)]
    batch = together([Piece.of_measured(measure(benchmark, scorers, outputs, range(3), 0.95), finished, "toy",
                                        benchmark.short_digest, 0.95)])
    for seed, run in enumerate(runs):
        plain, ours = list(score(benchmark, run)), list(batch.where(seed=seed))
        for name in ("split", "group", "n", "metric"):
            assert [row[name] for row in plain] == [row[name] for row in ours]
        for name in ("value", "low", "high"):
            np.testing.assert_allclose([row[name] for row in ours], [row[name] for row in plain], rtol=0, atol=1e-4)


def test_methods_are_compared_over_a_grouping():
    """The mean of a method over seeds is that of its runs, and the best is ahead of itself by nothing."""
    benchmark, said = benchmark_of(5), "flag+other flag,label"
    runs = {"a": [guesses(benchmark, 1), guesses(benchmark, 2)], "b": [guesses(benchmark, 3)]}
    both = means(benchmark, runs, by=[said])
    for metric in ("worst_group_accuracy", "mean_group_accuracy", "tenth_percentile_accuracy"):
        rows = {row["method"]: row for row in both.where(stat=MEAN, split="test", metric=metric, by=said)}
        for method, parts in runs.items():
            each = [told(score(benchmark, one, by=[said]), said) for one in parts]
            value = np.mean([next(row["value"] for (name, _), row in one.items() if name == metric) for one in each])
            assert rows[method]["value"] == pytest.approx(value)
            assert rows[method]["low"] <= rows[method]["value"] <= rows[method]["high"]
    behind = both.where(stat=DIFFERENCE, split="test", metric="worst_group_accuracy", by=said)
    assert sorted(behind["value"].tolist())[0] == 0
    assert len(behind) == 2


def test_numbers_are_those_of_wilds():
    """CivilComments' sixteen groups, FMoW's regions less Other, Amazon's users and RxRx1's cells are `evaluate`'s."""
    rng, n = np.random.default_rng(2), 400
    label, predicted = rng.integers(0, 2, n), rng.integers(0, 2, n)
    names = {"region": ("Asia", "Europe", "Africa", "Americas", "Oceania", "Other"),
             "cell_type": ("HEPG2", "HUVEC", "RPE", "U2OS")}
    named = rng.random((n, 8)) < 0.3
    named[:, 7] = False  # nobody speaks of the last one: two of the sixteen have no items
    codes = {**{name: named[:, at].astype(int) for at, name in enumerate(IDENTITIES)}, "user": rng.integers(0, 25, n),
             "region": rng.integers(0, 6, n), "year": rng.integers(0, 3, n), "cell_type": rng.integers(0, 3, n)}
    extra = {name: np.asarray(names[name])[values] if name in names else values for name, values in codes.items()}
    benchmark = Benchmark(np.arange(n).astype(str), np.full(n, "test"), label, np.zeros(n, int), np.zeros(n, int),
                          {"label": ("0", "1"), "domain": ("d",), "group": ("g",)}, extra=extra)
    predictions = Predictions(benchmark.items, benchmark.split, np.eye(2, dtype=np.float32)[predicted], ("0", "1"))
    sixteen = "+".join(IDENTITIES) + ",label"
    found = score(benchmark, predictions, by=[sixteen, "region!Other", "year", "user", "cell_type"])

    def theirs(dataset, *fields):
        metadata = np.stack([*(codes.get(field, np.zeros(n, int)) for field in fields), label], axis=1)
        words = {field: names[field] for field in fields if field in names}
        return evaluate(dataset, predicted, label, metadata, [*fields, "y"], words, compat=None)

    civil, mine = theirs("civilcomments", *IDENTITIES), told(found, sixteen)
    assert mine["worst_group_accuracy", ""]["value"] == civil["acc_wg"]
    for identity in IDENTITIES:
        for y in "01":
            here = mine.get(("accuracy", f"{identity} = 1, label = {y}"))
            assert civil[f"count_y:{y}_{identity}:1"] == (here["n"] if here else 0)
            assert civil[f"acc_y:{y}_{identity}:1"] == pytest.approx(here["value"] if here else math.nan, nan_ok=True)
    assert sum(metric == "accuracy" for metric, _ in mine) == 14
    fmow = theirs("fmow", "region", "year")
    assert told(found, "region!Other")["worst_group_accuracy", ""]["value"] == fmow["acc_worst_region"]
    assert told(found, "year")["worst_group_accuracy", ""]["value"] == fmow["acc_worst_year"]
    amazon, users = theirs("amazon", "user"), told(found, "user")
    assert users["tenth_percentile_accuracy", ALL]["value"] == pytest.approx(amazon["10th_percentile_acc"])
    assert users["worst_group_accuracy", ""]["value"] == amazon["acc_wg"]
    rxrx1, cells = theirs("rxrx1", "cell_type"), told(found, "cell_type")
    known = [rxrx1[f"acc_cell_type:{name}"] for name in names["cell_type"][:3]]
    assert [cells["accuracy", f"cell_type = {name}"]["value"] for name in names["cell_type"][:3]] == known
    assert cells["mean_group_accuracy", ALL]["value"] == pytest.approx(np.mean(known))
    assert rxrx1["count_cell_type:U2OS"] == 0
    assert ("accuracy", "cell_type = U2OS") not in cells


def test_a_group_without_items_in_a_split_is_no_group_there():
    """It has no row, is neither a zero nor the worst, and changes no mean; without any group there is no row at all."""
    benchmark = benchmark_of(4)
    only = np.where(benchmark.split == "train", "early", "late")
    never = np.where(benchmark.split == "train", 1, 0)
    benchmark = replace(benchmark, extra={"time": only, "seen": never, "known": 1 - never})
    found = score(benchmark, guesses(benchmark), by=["time", "time,label", "each:seen", "seen+known"])
    assert {key[1] for key in told(found, "time") if key[0] == "accuracy"} == {"time = late"}
    average = next(iter(found.where(split="test", metric="accuracy", group=ALL)))["value"]
    for said in ("time", "seen+known"):
        for metric in ("worst_group_accuracy", "mean_group_accuracy", "tenth_percentile_accuracy"):
            here = next(row for (name, _), row in told(found, said).items() if name == metric)
            assert here["value"] == pytest.approx(average)
    assert told(found, "each:seen") == {}
    assert len(told(found, "each:seen", "train")) > 0


def test_columns_come_from_the_benchmark_and_then_from_the_collection():
    """A factor of the collection is a column where it is given; the benchmark's own column of that name wins."""
    collection = toy(300)
    rows = np.arange(300)[::-1]
    benchmark = Benchmark.of(collection, None, 0, rows, np.full(300, "test"), label=collection.factor("class")[rows],
                             domain=np.full(300, "x"), card={"name": "toy"})
    made = grouping(benchmark, "place,label", collection)
    place = dict(zip(collection.items.tolist(), collection.factor("place").tolist(), strict=True))
    for name, part in zip(made.names, np.split(made.rows, made.start[1:]), strict=True):
        assert {f"place = {place[item]}" for item in benchmark.items[part].tolist()} == {name.split(", ")[0]}
    assert grouping(benchmark, "domain", collection).names == ("domain = x",)
    assert len(groupings_of(replace(benchmark, card={"groupings": ["label"]}), ["label", "domain"])) == 2
    with pytest.raises(ShiftBenchError, match=r"No column named 'plac'\. Did you mean 'place'"):
        grouping(benchmark, "plac", collection)


@pytest.mark.parametrize(("said", "words"), [
    ("wrd", "No column named 'wrd'. Did you mean 'word'"), ("word,,label", "cannot be read at ''"),
    ("word!", "cannot be read"), ("flag+other flag!1", "cannot be read"), ("word,word", "'word' twice"),
    ("word+flag", "joins columns of yes and no"), ("word!aa", "No value named 'aa'. Did you mean 'a'"),
    ("real", "holds fractions"), ("", "cannot be read"),
])
def test_what_cannot_be_read_says_why(said, words):
    """A slip in a grouping is an error that names it, and the nearest name."""
    with pytest.raises(ShiftBenchError, match=words):
        group_by({**table(0), "real": np.linspace(0, 1, 60)}, said)


def test_a_name_is_never_taken_apart():
    """A column whose name holds a comma or a plus is one column; the columns of a grouping can be told without data."""
    made = group_by({"a+b": np.asarray(["x", "y"]), "c,d": np.asarray([1, 1])}, "c,d")
    assert made.names == ("c,d = 1",)
    assert group_by({"a+b": np.asarray(["x", "y"])}, "a+b").names == ("a+b = x", "a+b = y")
    assert columns_in("each:male+female , label") == ("male", "female", "label")
    assert in_words("worst_group_accuracy", "a,b") == "worst-group accuracy by a, b"


def test_wilds_names_are_right_in_any_order():
    """A grouper's numbers and names agree, in whatever order its columns are asked for; so do `eval`'s."""
    rng = np.random.default_rng(0)
    metadata = np.stack([rng.integers(0, size, 200) for size in (2, 3, 4)], axis=1)
    whole = Columns(("a", "b", "c"), metadata)
    for fields in permutations(("a", "b", "c"), 2):
        grouper = CombinatorialGrouper(whole, fields)
        group = grouper.metadata_to_group(metadata)
        for row in range(200):
            said = dict(part.split(" = ") for part in grouper.group_str(group[row]).split(", "))
            assert said == {field: str(metadata[row, "abc".index(field)]) for field in fields}


def test_eval_takes_groupings():
    """`eval` has every group of a grouping, overlapping ones too, and by default judges by those of the card."""
    collection = toy(200)
    rng = np.random.default_rng(9)
    benchmark = Benchmark.of(collection, None, 0, np.arange(200), rng.choice(SPLITS, 200), domain=np.full(200, "x"),
                             label=collection.factor("class"),
                             extra={"p": rng.integers(0, 2, 200), "q": np.ones(200, int)},
                             card={"name": "toy", "groupings": ["p+q,label"]})
    data = get_dataset(benchmark, collection=collection)
    subset = data.get_subset("test")
    guess = rng.integers(0, 2, len(subset))
    found, words = data.eval(guess, subset.y_array, subset.metadata_array)
    right, y = guess == subset.y_array.numpy(), subset.y_array.numpy()
    p = benchmark.extra["p"][benchmark.rows("test")]
    each = {f"{column}:1_label:{name}": right[(value == 1) & (y == code)]
            for column, value in (("p", p), ("q", np.ones(len(p)))) for code, name in enumerate(("cat", "dog"))}
    for key, hits in each.items():
        assert (found[f"acc_{key}"], found[f"count_{key}"]) == (pytest.approx(hits.mean()), len(hits))
    worst = min(each, key=lambda key: each[key].mean())
    assert found["acc_wg"] == found["acc_wg[p+q,label]"] == pytest.approx(each[worst].mean())
    line = f"Worst group: {worst.replace(':', ' = ').replace('_', ', ')}  [n = {len(each[worst]):6.0f}]"
    assert words.endswith(f"{line}\nWorst-group acc: {found['acc_wg']:.3f}\n")
    by_fields, _ = get_dataset(benchmark, collection=collection, groupby_fields=["y", "p"]).eval(
        guess, subset.y_array, subset.metadata_array)
    assert by_fields["acc_wg"] == min(value for key, value in by_fields.items() if key.startswith("acc_y:"))
    with pytest.raises(ShiftBenchError, match="No column named 'pp'"):
        get_dataset(benchmark, collection=collection, groupings=["pp"])


def test_the_command_scores_by_any_columns(tmp_path):
    """--by takes several groupings; every worst group is printed with its name and its number of items."""
    benchmark = benchmark_of(6, groupings=["flag+other flag,label"])
    benchmark.save(tmp_path / "made")
    guesses(benchmark).save(tmp_path / "model.parquet")
    call = ["score", str(tmp_path / "made"), str(tmp_path / "model.parquet"), "--by", "word", "--by", "number,label"]
    done = CliRunner().invoke(app, [*call, "--json"])
    assert done.exit_code == 0, done.output
    split = json.loads(done.output)["runs"][0]["splits"]["test"]
    assert set(split["groupings"]) == {"flag+other flag,label", "word", "number,label"}
    for part in split["groupings"].values():
        worst = part["worst_group_accuracy"]
        assert part["groups"][worst["group"]]["accuracy"] == {**part["groups"][worst["group"]]["accuracy"],
                                                              "value": worst["value"], "n": worst["n"]}
    wrong = CliRunner().invoke(app, [*call[:3], "--by", "wrd"])
    assert isinstance(wrong.exception, ShiftBenchError)
    assert "Did you mean 'word'" in str(wrong.exception)


def test_many_groups_are_not_all_printed():
    """Of a grouping with more groups than a screen holds the lowest are printed, and how many there are."""
    benchmark = benchmark_of(7)
    benchmark = replace(benchmark, extra={"user": np.random.default_rng(0).integers(0, 50, 400)})
    scores = score(benchmark, guesses(benchmark), by=["user"]).where(split="test")
    drawn = scores_table(scores)
    cells = [list(column.cells) for column in drawn.columns]
    shown = [row for row in zip(*cells, strict=True) if str(row[2]) == "accuracy by user"]
    values = sorted(scores.where(metric="accuracy", by="user")["value"].tolist())
    assert sorted(float(str(row[5])) for row in shown) == [round(100 * value, 1) for value in values[:GROUPS]]
    assert [str(row[3]) for row in zip(*cells, strict=True) if "tenth" in str(row[2])] == [f"{len(values)} groups"]


def test_pages_say_which_group_is_the_worst_and_how_many_items_it_has(tmp_path):
    """A report's tables have the worst group's name and n, of the benchmark's groups and of its card's groupings."""
    benchmark = benchmark_of(8, groupings=["flag+other flag,label"])
    scores = score(benchmark, guesses(benchmark), run="one", method="erm")
    text = report(scores, [benchmark], tmp_path / "page.html").read_text()
    for by in ("", "flag+other flag,label"):
        (row,) = scores.where(split="test", metric="worst_group_accuracy", by=by)
        assert f"{row['group']}, n\u00a0=\u00a0{row['n']:,}</small>" in text
    assert "by flag+\u200bother flag, label, test" in text


def test_a_board_ranks_by_a_grouping_of_the_card(tmp_path):
    """The worst of the card's groups can rank; the page and the command say which group it is and its items."""
    said = "flag+other flag,label"
    benchmark, metric = benchmark_of(10, groupings=[said]), f"worst_group_accuracy[{said}]"
    benchmark.save(tmp_path / "made")
    runs = {name: [guesses(benchmark, 10 * at + seed) for seed in range(3)] for at, name in enumerate(("a", "b"))}
    for name, parts in runs.items():
        submit(tmp_path / "all", name, benchmark, parts)
    call = ["board", str(tmp_path / "all"), "--benchmark", str(tmp_path / "made"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*call, "--metric", metric])
    assert done.exit_code == 0, done.output
    made = json.loads((tmp_path / "out" / "board.json").read_text())
    expected = {row["method"]: row for row in means(benchmark, runs).where(
        stat=MEAN, split="test", metric="worst_group_accuracy", by=said)}
    assert [one["folder"] for one in made["entries"]] == sorted(expected, key=lambda name: -expected[name]["value"])
    text = (tmp_path / "out" / "index.html").read_text()
    assert "Worst-group accuracy by flag+\u200bother flag, label" in text
    for one in made["entries"]:
        cell, row = one["scores"]["test"][metric], expected[one["folder"]]
        assert [cell[key] for key in ("value", "group", "n")] == [row[key] for key in ("value", "group", "n")]
        assert f"{row['group']}, n\u00a0=\u00a0{row['n']}</small>" in text
        assert str(row["n"]) in done.output
    with pytest.raises(ShiftBenchError, match="No metric named"):
        make_board(tmp_path / "all", benchmark, metric="worst_group_accuracy[word]")


def test_a_choice_says_which_group_it_was_judged_by():
    """Judged by the worst group, of the benchmark or of a grouping, a choice has that group's name and items."""
    benchmark = benchmark_of(11, groupings=["word"])
    scores = Scores.join([score(benchmark, guesses(benchmark, seed), run=str(seed), method="erm", setting=str(seed))
                          for seed in range(3)])
    for target in ("worst_group_accuracy", "worst_group_accuracy[word]"):
        (choice,) = select(scores, ["oracle"], targets=[target]).choices
        (row,) = scores.where(run=choice.run, split="test", **Measure.parse(target)._asdict())
        assert (choice.group, choice.n, choice.test) == (row["group"], row["n"], row["value"])
        drawn = choices_table([choice])
        words = [str(cell) for column in drawn.columns for cell in column.cells]
        assert {row["group"], f"{row['n']:,}"} <= set(words)
    with pytest.raises(ShiftBenchError, match="No target named"):
        select(scores, ["oracle"], targets=["worst_group_accuracy[number]"])
