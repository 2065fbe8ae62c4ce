"""A notebook shows the tables of the terminal, and scores as a figure."""

import io
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.leaderboard.writing import board_table
from shiftbench.reporting.terminal import choices_table, rules_table, score_tables
from tests.toys import toy_rows


@pytest.fixture(scope="module")
def scores():
    _, benchmark = toy_rows()
    code = np.where(np.random.default_rng(0).random(240) < 0.8, benchmark.label, 1 - benchmark.label)
    return sb.score(benchmark, ids=benchmark.items, predictions=code, method="<b>mine</b>")


def plain(html):
    """The words of HTML or SVG of ours."""
    return "".join(ElementTree.fromstring(html).itertext())  # noqa: S314


def test_scores_are_the_table_of_the_terminal(scores):
    """The words and numbers of the HTML are those that `shiftbench score` prints; names are escaped."""
    console = Console(width=150, file=io.StringIO())
    for table in score_tables(scores):
        console.print(table)
    assert plain(scores._repr_html_()).split() == console.file.getvalue().split()
    assert "<b>mine" not in scores._repr_html_()


@pytest.fixture(scope="module")
def models():
    """Two models with two seeds each, and what describes them."""
    _, benchmark = toy_rows()
    rng = np.random.default_rng(1)
    made = [sb.Predictions.of(benchmark, benchmark.items, predictions=np.where(
        rng.random(240) < skill, benchmark.label, 1 - benchmark.label)) for skill in (0.9, 0.9, 0.6, 0.6)]
    return benchmark, made, {"method": ["<i>", "<i>", "b", "b"], "seed": [0, 1, 0, 1]}


def words_of(tables, width=150):
    console = Console(width=width, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.file.getvalue().split()


def test_a_choice_is_the_table_of_the_terminal(models):
    """One rule: the chosen runs. Several: the rules side by side."""
    benchmark, made, words = models
    one = sb.select(made, "id", benchmarks=benchmark, **words)
    assert plain(one._repr_html_()).split() == words_of([choices_table(one.choices)])
    several = sb.select(made, benchmarks=benchmark, **words)
    assert plain(several._repr_html_()).split() == words_of([rules_table(several)])
    assert "<i>" not in several._repr_html_()


def test_a_board_is_the_table_of_the_terminal(models):
    """A line per submission with its rank and numbers."""
    benchmark, made, words = models
    board = sb.board(made, benchmark, seeds=2, **words)
    assert plain(board._repr_html_()).split() == words_of([board_table(board)])
    lines = [line.split() for line in plain(board._repr_html_()).splitlines()]
    assert ["1", "algorithms", "<i>"] in [line[:3] for line in lines]
    assert f"{board.listed[0].cell('test', 'accuracy')['value']:.3f}" in plain(board._repr_html_())


def test_a_comparison_is_the_table_of_the_terminal(models):
    """The cells are those that `shiftbench table` prints, and its note."""
    benchmark, made, words = models
    lines = sb.table(made, benchmarks=benchmark, **words)
    shown = plain(lines._repr_html_())
    printed = lines._repr_markdown_().replace("\\", "").replace("*", "")
    for row in [row.split("|")[1:-1] for row in printed.splitlines() if row.startswith("|") and "--" not in row]:
        for cell in row:
            assert set(cell.split()) <= set(shown.split())
    assert "<i>" not in lines._repr_html_()


def test_runs_are_called_by_their_methods(models, tmp_path, shell):
    """`score` shows what the user called them, with the seed where there are several; never the name of a folder
    alone."""
    benchmark, made, _ = models
    benchmark.save(tmp_path / "b")
    files = [one.save(tmp_path / f"{number}.parquet") for number, one in enumerate(made)]
    told = [word for method in "aabb" for word in ("--method", method)]
    code, out, _ = shell("score", tmp_path / "b", *files, *told, *(
        word for seed in (0, 1, 0, 1) for word in ("--seed", seed)))
    assert code == 0
    for name in ("a, seed 0 (", "a, seed 1 (", "b, seed 0 (", "b, seed 1 ("):
        assert name in out
    out = shell("score", tmp_path / "b", *files[::2], "--method", "a", "--method", "b")[1]
    assert "a (" in out
    assert "seed" not in out
    out = shell("score", tmp_path / "b", files[0], "--method", "forest", "--name", "mine")[1]
    assert "forest (mine)" in out
    assert "0 (" not in shell("score", tmp_path / "b", files[0])[1]


def test_a_benchmark_is_a_table_of_its_counts():
    """Each group has its number of items of each split."""
    _, benchmark = toy_rows()
    words = plain(benchmark._repr_html_())
    for group in benchmark.names["group"]:
        line = next(line.strip() for line in words.splitlines() if line.strip().startswith(group))
        assert [int(n) for n in line.removeprefix(group).split()] == [
            benchmark.counts()[split].get(group, 0) for split in benchmark.splits]


def test_a_collection_is_a_table_of_its_factors_and_tags():
    """Each factor has a row with its values and their counts; names are escaped, and the line of text has no arrays."""
    collection = sb.Collection("<b>pets</b>", np.asarray(list("abcd")), {
        "label": np.asarray(["cat", "dog", "cat", "cat"]), "age": np.asarray([1.5, 2, 3, np.nan])},
        tags=sb.Tags.of([0, 1, 1], [0, 0, 1], ["sofa", "cup"], "object"))
    words = plain(collection._repr_html_())
    assert "<b>pets" not in collection._repr_html_()
    lines = [" ".join(line.split()) for line in words.splitlines()]
    assert "label factor 2 cat 3, dog 1" in lines
    assert "age factor 3 least 1.5, most 3, missing 1" in lines
    assert "object tags 2 sofa 2, cup 1" in lines
    assert "array" not in repr(collection)


def test_predictions_are_a_table_of_their_first_rows():
    """Ten items with split and scores, and how many there are in all."""
    _, benchmark = toy_rows()
    scores = np.stack([np.arange(len(benchmark)), -np.arange(len(benchmark))], axis=1)
    predictions = sb.Predictions.of(benchmark, benchmark.items, logits=scores)
    lines = [line.split() for line in plain(predictions._repr_html_()).splitlines()]
    for row in range(10):
        assert [benchmark.items[row], benchmark.split[row], f"{row}", f"{-row}"] in lines
    assert f"The first 10 of {len(benchmark):,} items.".split() in lines
    assert "array" not in repr(predictions)


def test_a_plot_is_svg_with_every_number(scores, tmp_path):
    """A panel per method: all items and every group, with their values in per cent; `save` writes the same."""
    picture = scores.plot(metric="accuracy", split="test")
    words = plain(picture._repr_svg_())
    part = scores.where(metric="accuracy", split="test")
    for group, value in zip(part["group"].tolist(), part["value"].tolist(), strict=True):
        assert f"{'all items' if group == 'all' else group}: {100 * value:.1f}" in words
    assert len(picture.figure.rows) == len(part) == 5
    assert picture.save(tmp_path / "scores.svg").read_text() == picture._repr_svg_()
    assert "array" not in repr(picture)


def test_an_unknown_metric_or_split_is_said(scores):
    """The error names those that the table has."""
    with pytest.raises(ShiftBenchError, match=r"No metric named 'acuracy'. Did you mean 'accuracy'"):
        scores.plot("acuracy")
    with pytest.raises(ShiftBenchError, match="No split named 'tset'"):
        scores.plot(split="tset")
