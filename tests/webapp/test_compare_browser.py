"""A person compares methods by clicks, and every number on the page is the one that the page's command prints."""

import json
import shlex

import numpy as np
import pytest
from playwright.sync_api import expect
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.reporting.comparison import Line, mean_in_words
from shiftbench.webapp.compare_view import compare
from shiftbench.webapp.looks import sealed
from shiftbench.webapp.studio import Query
from tests.webapp.conftest import Person, Server, settled, until

pytestmark = pytest.mark.slow


@pytest.fixture
def comparer(browser, several):
    """A person before a studio over methods with several settings."""
    server = Server(several)
    somebody = Person(browser, server)
    yield somebody
    somebody.close()
    server.stop()


def printed(page):
    """What the command on the page prints: benchmark, measure and method -> the mean with its interval."""
    words = shlex.split(page.locator(".command code").first.inner_text())
    result = CliRunner().invoke(app, [*words[1:], "--json"])
    assert result.exit_code == 0, result.output
    lines = [Line(**{name: float("nan") if value is None else value for name, value in line.items()})
             for line in json.loads(result.stdout)]
    return sorted([line.method, mean_in_words(line)] for line in lines)


def shown(page):
    """The methods and numbers that the page's tables have."""
    return sorted(page.locator(".compared").evaluate_all("""sections => sections.flatMap(section =>
        [...section.querySelectorAll("tbody tr")].map(row => [row.querySelector("th").innerText.trim(),
            [row.querySelector("td b").innerText.replace("≈", "").trim(),
             row.querySelector("td small").innerText.trim()].join(" ")]))"""))


def choose(page, label, value):
    page.locator("label.choice", has_text=label).locator("select").select_option(value)


def test_methods_are_compared_by_clicks(comparer, several):
    """Rules, splits and metrics are chosen by clicks; the tables equal the command's, and changes are marked."""
    page = comparer.open("compare?on=runs")
    expect(page.get_by_role("heading", name="Worst-group accuracy, %")).to_be_visible()
    first = shown(settled(page))
    also = compare(comparer.server.studio, Query({"on": "runs"}))["also"]  # what a saved page must carry
    assert all(any(f"api/{request}&token" in url for url in comparer.asked) for request in also)
    assert len(first) == 4
    assert first == printed(page)
    expect(page.locator("option[value=oracle]")).to_be_disabled()
    choose(page, "Rule", "worst_group")
    expect(page.locator(".moved")).to_contain_text("choices are other runs than by ID validation")
    expect(page.locator("td.changed em").first).to_be_visible()
    expect(page.locator(".command code").first).to_contain_text("--rule worst_group")
    second = printed(page)
    assert second != first
    until(page, shown, second)
    page.get_by_text("Which").click()
    expect(page.locator(".moved tbody tr").first).to_contain_text("lr ")
    choose(page, "Metric", "macro_f1")
    expect(page.get_by_role("heading", name="Macro F1, %")).to_be_visible()
    choose(page, "Split", "id_test")
    expect(page.locator(".command code").first).to_contain_text("--split id_test")
    until(page, shown, printed(page))
    expect(page.locator("figure.report svg").first).to_be_visible()
    page.go_back()
    expect(page.locator(".command code").first).not_to_contain_text("--split id_test")


def test_a_click_on_a_cell_shows_its_items(comparer, several):
    """The items of a cell are those that all chosen runs get wrong, without the sealed ones; one opens by a click."""
    page = comparer.open("compare?on=runs")
    cell = page.locator(".compared").first.get_by_role("row").filter(has_text="erm").get_by_role("button")
    cell.click()
    benchmark = sb.Benchmark.load(several / "benchmarks/minority")
    rows = benchmark.rows("test")
    runs = [choice.run for choice in sb.select(several / "runs", "id").choices if choice.method == "erm"]
    wrong = np.ones(len(rows), np.bool_)
    for run in runs:
        predictions = sb.Predictions.load(several / "runs" / run / "predictions.parquet", benchmark)
        order = {item: place for place, item in enumerate(predictions.item.tolist())}
        scores = predictions.scores[[order[item] for item in benchmark.items[rows].tolist()]]
        wrong &= scores.argmax(axis=1) != benchmark.label[rows]
    kept = sealed(benchmark.items[rows])
    expect(page.get_by_role("button", name=f"wrong in all {(wrong & ~kept).sum()}")).to_be_visible()
    expect(page.locator(".cell-items")).to_contain_text(f"{kept.sum()} of them are sealed")
    tiles = page.locator(".cell-items .wall button")
    expect(tiles).to_have_count(min(60, int((wrong & ~kept).sum())))
    open_items = set(benchmark.items[rows][wrong & ~kept].tolist())
    titles = settled(page).locator(".cell-items .wall button").evaluate_all("list => list.map(tile => tile.title)")
    assert {title.rpartition(", ")[2] for title in titles} <= open_items
    page.get_by_role("button", name="right in all").click()
    expect(page.locator(".cell-items .wall button[title^='✓']").first).to_be_visible()
    tiles.first.click()
    expect(page.get_by_role("complementary")).to_be_visible()
