"""What a person takes away: an audit that was made here, charts as files, and addresses that open a view again."""

import csv
import json
from urllib.parse import urlencode

import pytest
from PIL import Image
from playwright.sync_api import expect

import shiftbench as sb
from shiftbench.auditing.findings import Audit
from shiftbench.auditing.predicates import Predicate
from shiftbench.webapp.collection_view import cross
from shiftbench.webapp.design_view import design
from shiftbench.webapp.failures_view import audit_of_open, choices
from shiftbench.webapp.looks import sealed
from shiftbench.webapp.outcomes import find_outcomes
from shiftbench.webapp.studio import Query
from tests.webapp.conftest import Person, Server, make_run, settled, until
from tests.webapp.test_failures_view import toy_features

pytestmark = pytest.mark.slow
DRAWN = {"collection": ".cross table", "graph": ".sides-table", "design": ".split-counts", "runs": "table.settings",
         "compare": ".compared", "failures": ".books", "home": ".shelf"}
"""What is there when a view is drawn."""
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)")
INDOORS = json.dumps([Predicate.of("location", "indoors").facts()])


def saved(page, name, path):
    """The file that a button of the menu hands out."""
    with page.expect_download() as handed:
        page.get_by_role("button", name=name, exact=True).click()
    handed.value.save_as(path)
    return path


def test_an_audit_is_made_and_saved_and_a_chart_is_a_picture(editor, edited, tmp_path):
    """One click audits the open items, one saves what the library finds; a PNG has the chart's size and colours."""
    run = choices(edited.studio, "")[0][0]
    page = editor.open(f"failures?{urlencode({'run': run})}")
    page.get_by_role("button", name="Audit the open items").click()
    found = audit_of_open(edited.studio, find_outcomes(edited.studio, Query({"run": run})))
    for sentence in found.sentences():
        expect(page.get_by_role("region", name="Findings")).to_contain_text(sentence.strip())
    page.get_by_role("button", name="Save this audit").click()
    expect(page.get_by_role("combobox", name="Audit")).to_have_value(f"audits/{run.rpartition('/')[2]}.json")
    assert Audit.load(edited.folder / f"audits/{run.rpartition('/')[2]}.json").sentences() == found.sentences()
    expect(settled(page).get_by_text("can confirm nothing more")).to_have_count(0)  # it has seen no sealed item

    settled(page).get_by_text("Save", exact=True).click()
    drawn = page.locator("figure", has_text="Calibration").locator("svg").last.bounding_box()
    with Image.open(saved(page, "Calibration as PNG", tmp_path / "calibration.png")) as image:
        assert image.size == (int(2 * drawn["width"]), int(2 * drawn["height"]))
        assert len(image.convert("RGB").getcolors(1 << 24)) > 8


def test_no_name_is_a_formula_in_a_table(editor, edited, tmp_path):
    """A text that a spreadsheet would compute has a mark before it in the CSV file; numbers are as they are."""
    for number, name in enumerate(FORMULAS):
        make_run(edited.folder / "runs", number, params={}, name=name)
    shown = json.dumps([f"{number:08}" for number in range(len(FORMULAS))])
    page = editor.open(f"runs?{urlencode({'on': 'runs', 'show': shown})}")
    expect(page.locator(".curve-keys li")).to_have_count(len(FORMULAS))
    page.get_by_text("Save", exact=True).click()
    with saved(page, "Loss of training as CSV", tmp_path / "loss.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"].split(" ")[0] for row in rows] == [f"'{name}" for name in FORMULAS]
    assert [float(row["value"]) for row in rows] == [number / 64 for number in range(len(FORMULAS))]


SAVED = {
    "home": ("home", {}), "collection": ("collection", {"on": "collections/scenes", "a": "class", "b": "light"}),
    "item": ("collection", {"on": "collections/scenes", "a": "class", "b": "light"}),  # and an item
    "graph": ("graph", {"on": "collections/scenes", "cls": "dog", "train": '["dog(sofa)", "cat(sofa)"]',
                        "test": '["dog(shelf)", "cat(shelf)"]'}),
    "design": ("design", {"on": "collections/scenes", "shift": "subpopulation"}),
    "runs": ("runs", {"on": "runs"}),
    "compare": ("compare", {"on": "runs", "rule": "worst_group", "before": "id",
                            "at": '["minority", "erm", "accuracy"]'}),
    "failures": ("failures", {"where": INDOORS}),
}
"""States that show every table and drawing that a view has."""


@pytest.fixture
def visitor(browser, several):
    """A person before a studio over methods with several settings, whose collection has features."""
    if not (several / "collections/scenes/features").exists():
        toy_features(several / "collections/scenes")
    server = Server(several)
    somebody = Person(browser, server)
    yield somebody
    somebody.close()
    server.stop()


@pytest.mark.parametrize("name", SAVED)
def test_every_table_and_drawing_can_be_saved(visitor, tmp_path, name):
    """Each table of a view is a CSV file of the menu, which has rows; each drawing is an SVG or PNG file."""
    view, state = SAVED[name]
    page = visitor.open(f"{view}?{urlencode(state)}")
    expect(page.locator(DRAWN[view]).first).to_be_attached()
    if name == "item":
        benchmark = sb.Benchmark.load(visitor.server.studio.shelf.find("benchmark", "benchmarks/minority").path)
        tested = benchmark.items[benchmark.rows("test")]
        page.evaluate("item => { location.hash += `&item=${item}`; }", str(tested[~sealed(tested)][0]))
        expect(page.locator("aside.item table")).to_have_count(2)
    if name == "compare":
        page.get_by_text("Which", exact=True).click()
        expect(page.locator("figure.report svg").first).to_be_visible()
    settled(page).get_by_text("Save", exact=True).click()
    files = page.evaluate("""() => ["table", "canvas", "svg:not([aria-hidden])"].flatMap(kind =>
        [...document.querySelectorAll(`main ${kind}`)].filter(one => !one.parentElement.closest("svg")).map(one =>
            [one.closest("[data-file]")?.dataset.file ?? one.outerHTML.slice(0, 80), one.tagName.toLowerCase()]))""")
    assert files or name == "home"
    for title, tag in files:
        kind = {"table": "CSV", "canvas": "PNG", "svg": "SVG"}[tag]
        button = page.get_by_role("button", name=f"{title} as {kind}", exact=True)
        expect(button).to_have_count(1)
        path = saved(page, f"{title} as {kind}", tmp_path / f"file.{kind.lower()}")
        assert len(path.read_bytes().splitlines()) > 1 or tag == "svg"
    if name == "home":
        rows = list(csv.DictReader(saved(page, "What is here as CSV", tmp_path / "home.csv").open(newline="")))
        assert [row["id"] for row in rows] == [thing.id for thing in visitor.server.studio.shelf.things()]


def table(page, name, path):
    """A CSV file of the menu, as rows."""
    settled(page).get_by_text("Save", exact=True).click()
    with saved(page, name, path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_tables_hold_what_the_studio_answers(visitor, tmp_path):
    """The cross table, the comparison and the counts of a design, as CSV, have the numbers of the answers."""
    studio = visitor.server.studio
    view, state = SAVED["collection"]
    page = visitor.open(f"{view}?{urlencode(state)}")
    expect(page.locator(".cross table")).to_be_visible()
    answer = cross(studio, Query(state))
    assert table(page, "class × light as CSV", tmp_path / "cross.csv") == [
        {"class": row["name"], "light": column["name"], "items": str(n)}
        for row, cells in zip(answer["rows"], answer["cells"], strict=True)
        for column, n in zip(answer["columns"], cells, strict=True)]
    page = visitor.open("compare?on=runs")
    expect(page.locator(".compared").first).to_be_visible()
    rows = table(page, "Accuracy, % as CSV", tmp_path / "accuracy.csv")
    lines = {line.method: line for line in sb.table(studio.shelf.folders[0] / "runs") if line.metric == "accuracy"}
    assert {row["method"]: (float(row["mean"]), float(row["low"]), int(row["items"])) for row in rows} == {
        method: (line.mean, line.low, line.n) for method, line in lines.items()}
    view, state = SAVED["design"]
    page = visitor.open(f"{view}?{urlencode(state)}")
    expect(page.locator(".split-counts")).to_be_visible()
    built = design(studio, Query(state))["built"]
    assert table(page, "Items of every split as CSV", tmp_path / "counts.csv") == [
        {"group": group, **{split: str(built["counts"][split][number]) for split in built["splits"]}}
        for number, group in enumerate(built["groups"])]


def test_a_figure_of_several_panels_is_one_picture(visitor, tmp_path):
    """The legend and all panels of a figure of the report are in its SVG file, side by side as on the page."""
    page = visitor.open("compare?on=runs&benchmark=minority")
    figure = page.locator("figure.report").first
    expect(figure.locator("svg").first).to_be_visible()
    many = settled(page).locator("figure.report").first.locator("svg").count()
    title = figure.get_attribute("data-file")
    page.get_by_text("Save", exact=True).click()
    text = saved(page, f"{title} as SVG", tmp_path / "figure.svg").read_text()
    assert text.count("<svg") == 1 + many >= 3
    assert "var(" not in text


def test_every_address_opens_its_view_again(person, studio):
    """Each view in a state, loaded anew, says what it said."""
    run, other = (name for name, _ in choices(studio.studio, "")[:2])
    cell = json.dumps(["minority", "erm", "worst_group"])
    views = {
        "collection": {"on": "collections/scenes", "where": INDOORS, "colour": "light", "order": "weather", "down": "1",
                       "a": "class", "b": "light"},
        "graph": {"on": "collections/scenes", "cls": "dog", "at": "sofa", "test": '["dog(shelf)"]',
                  "train": '["dog(sofa)"]', "colour": "community"},
        "design": {"on": "collections/scenes", "shift": "subpopulation", "settings": '{"p": 0.3}', "seed": "3"},
        "runs": {"on": "runs", "sort": "loss", "down": "1", "state": "done", "columns": "all"},
        "compare": {"on": "scores.parquet", "metric": "macro_f1", "split": "id_test", "at": cell},
        "failures": {"run": run, "against": other, "where": INDOORS},
    }
    settled(person.open(f"failures?{urlencode(views['failures'])}"))  # its look is counted in all that follows
    for view, state in views.items():
        page = person.open(f"{view}?{urlencode(state)}")
        expect(page.locator(DRAWN[view]).first).to_be_attached()
        before = settled(page).locator("main").inner_text()
        page.reload()
        until(page, lambda page: page.locator("main").inner_text(), before)
        assert page.evaluate("document.body.dataset.address") == page.evaluate("location.hash"), view
