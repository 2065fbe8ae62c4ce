"""What a person takes away: an audit that was made here, charts as files, and addresses that open a view again."""

import csv
import json
from urllib.parse import urlencode

import pytest
from PIL import Image
from playwright.sync_api import expect

from shiftbench.auditing.findings import Audit
from shiftbench.auditing.predicates import has_value
from shiftbench.webapp.failures_view import audit_of_open, choices
from shiftbench.webapp.outcomes import outcomes
from shiftbench.webapp.query import Query
from tests.webapp.conftest import make_run, settled, until

pytestmark = pytest.mark.slow
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)")
INDOORS = json.dumps([has_value("location", "indoors").facts()])


def saved(page, name, path):
    """The file that a button of the menu hands out."""
    with page.expect_download() as handed:
        page.get_by_role("button", name=name).click()
    handed.value.save_as(path)
    return path


def test_an_audit_is_made_and_saved_and_a_chart_is_a_picture(editor, edited, tmp_path):
    """One click audits the open items, one saves what the library finds; a PNG has the chart's size and colours."""
    run = choices(edited.studio, "")[0][0]
    page = editor.open(f"failures?{urlencode({'run': run})}")
    page.get_by_role("button", name="Audit the open items").click()
    found = audit_of_open(edited.studio, outcomes(edited.studio, Query({"run": run})))
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
        before = settled(page).locator("main").inner_text()
        assert len(before) > 200, view
        page.reload()
        until(page, lambda page: page.locator("main").inner_text(), before)
        assert page.evaluate("document.body.dataset.address") == page.evaluate("location.hash"), view
