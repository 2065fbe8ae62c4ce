"""A notebook shows the tables of the terminal, and scores as a figure."""

import io
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.reporting.terminal import score_tables
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
