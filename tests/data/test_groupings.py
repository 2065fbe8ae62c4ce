"""Groups of any columns, in any order, overlapping or not: named right, counted right, and never empty."""

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shiftbench.cli import app
from shiftbench.compat.grouper import Columns, CombinatorialGrouper
from shiftbench.compat.wilds import get_dataset
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import Grouping, columns_in, group_by, grouping, groupings_of
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import MEAN, Measure, Scores
from shiftbench.leaderboard import make_board
from shiftbench.reporting import report
from shiftbench.reporting.terminal import GROUPS, choices_table, scores_table
from shiftbench.scoring import means, score
from shiftbench.scoring.metrics import in_words
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
    again = Grouping.of(made.spec, made.names, made.member)
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
