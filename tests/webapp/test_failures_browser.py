"""Somebody finds failures, confirms one, and shares the page, by clicks."""

import csv
import json
import re
from urllib.parse import parse_qs, urlencode

import pytest
from playwright.sync_api import expect

from shiftbench.auditing.findings import Audit
from shiftbench.webapp.failures_view import choices, context
from shiftbench.webapp.studio import Query
from tests.webapp.conftest import PATIENCE, Person, settled, until
from tests.webapp.test_failures_view import toy_features

pytestmark = pytest.mark.slow
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def prepare(folder):
    """Features for a map, and an audit whose names are hostile."""
    toy_features(folder / "collections/scenes")
    facts = json.loads((folder / "audit.json").read_text())
    member = {"column": "location", "value": "indoors", "kind": "factor", "words": HOSTILE}
    row = dict.fromkeys(("low", "high", "difference_low", "difference_high", "ratio", "ratio_low", "ratio_high"), 0.5)
    facts["findings"] = [{"members": [member], "n": 9, "n_rest": 9, "n_all": 18, "loss": 0.6, "rest": 0.1, "p": 0.01,
                          "difference": 0.5, "q": 0.01, "explored": 0.5, **row}]
    (folder / "hostile.json").write_text(json.dumps(facts))


def texts(page):
    """What a page says, without the menu."""
    expect(page.get_by_text("Point at an item")).to_be_visible()
    expect(page.get_by_text(re.compile("of the features, [1-9]"))).to_be_visible()
    return settled(page).locator("main").inner_text()


def test_opening_the_view_spends_nothing(editor, edited):
    """Who opens Failures and a filter can confirm it: an audit, which has used the sealed items, opens on request."""
    page = editor.open()
    page.get_by_role("link", name="Failures", exact=True).click()
    expect(page.get_by_role("combobox", name="Audit")).to_have_value("")
    expect(page.get_by_text("once you open one, nothing of that run can be confirmed")).to_be_visible()
    page.get_by_role("combobox", name="Column").select_option("location")
    page.get_by_label("Value").select_option(label=page.get_by_label("Value").locator(
        "option", has_text="location is indoors").inner_text())
    confirm = page.get_by_role("button", name="Confirm once")
    expect(confirm).to_be_enabled()
    assert not any("audit" in look["facts"] for look in edited.studio.books.looks)
    page.get_by_role("combobox", name="Audit").select_option("audit.json")
    expect(page.get_by_text("can confirm nothing more")).to_be_visible()
    expect(confirm).to_have_count(0)


def test_failures_are_found_confirmed_and_shared(editor, browser, tmp_path):
    """A finding, a filter, a cell, the map, two runs; a confirmation that two tabs see; a file that shows the same."""
    prepare(editor.server.folder)
    page = editor.open("home")
    page.get_by_role("link", name="hostile.json").click()
    page.get_by_role("button", name=HOSTILE).click()
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    texts(page)
    page.reload()  # the last look is counted now
    before = texts(page)
    audit = Audit.load(editor.server.folder / "hostile.json")
    assert audit.sentences()[0].strip() in before
    page.reload()
    until(page, texts, before)  # the address is the state

    page.get_by_text("Save", exact=True).click()
    with page.expect_download() as kept:
        page.get_by_role("button", name="This view as one HTML file").click()
    kept.value.save_as(tmp_path / "saved.html")
    with page.expect_download() as table:
        page.get_by_role("button", name="Confusion as CSV").click()
    table.value.save_as(tmp_path / "confusion.csv")
    with page.expect_download() as drawing:
        page.get_by_role("button", name="Calibration as SVG").click()
    drawing.value.save_as(tmp_path / "calibration.svg")
    assert "var(" not in (tmp_path / "calibration.svg").read_text()
    page.get_by_label("Keep this view as").fill("indoors")
    page.get_by_role("button", name="Keep", exact=True).click()
    expect(page.get_by_text("Kept as indoors")).to_be_visible()

    away = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    away.set_default_timeout(1000 * PATIENCE)
    asked, errors = [], []
    file = away.new_page()
    file.on("request", lambda request: asked.append(request.url))
    file.on("pageerror", lambda error: errors.append(str(error)))
    file.on("dialog", lambda dialog: errors.append(dialog.message))
    file.goto((tmp_path / "saved.html").as_uri())
    until(file, texts, before)
    expect(file.locator("main img").first).to_have_attribute("src", re.compile("^data:image/"))
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == errors == []
    away.close()

    studio, state = editor.server.studio, {"run": "", "where": ""}
    editor.open("home")
    page.get_by_role("link", name="indoors").click()
    expect(page.get_by_text("can confirm nothing more")).to_be_visible()  # the audit has used them
    audited = settled(page).locator(".controls select").first.input_value()
    other_run = next(name for name, _ in choices(studio, "") if name != audited)
    where = parse_qs(page.evaluate("location.hash").partition("?")[2])["where"][0]
    editor.open(f"failures?{urlencode({'run': other_run, 'where': where})}")
    page.get_by_role("button", name="Confirm once").click()
    verdict = page.locator(".verdict").inner_text()  # it is written in one go, once it is there
    tests = studio.books.tests()
    assert len(tests) == 1
    assert f"p = {tests[0].p:.2g}" in verdict
    assert f"after {tests[0].looks} looks" in verdict
    other = Person(browser, editor.server)
    other.open(page.evaluate("location.hash.slice(1)"))
    expect(other.page.get_by_text(verdict[2:]).first).to_be_visible()
    assert len(studio.books.tests()) == 1
    other.close()

    page.get_by_role("button", name="clear").click()
    expect(page.get_by_role("heading", name="All open items")).to_be_visible()
    state["run"] = settled(page).locator(".controls select").first.input_value()
    told = context(studio, Query(state))
    with (tmp_path / "confusion.csv").open() as lines:
        assert sum(int(row["items"]) for row in csv.DictReader(lines)) < told["n"]
    page.locator(".confusion td.wrong button:not([disabled])").first.click()
    expect(page.get_by_role("heading", name="and prediction is")).to_be_visible()
    cell = next(n for row, cells in enumerate(told["confusion"]["cells"]) for column, n in enumerate(cells)
                if n and row != column)
    expect(page.locator(".figures b").first).to_have_text(str(cell))
    settled(page).locator("canvas").focus()  # a new map begins with no item
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Close the item").click()
    page.locator(".controls select").nth(1).select_option(index=1)
    expect(page.get_by_role("heading", name="Which of the two gets an item right")).to_be_visible()
    expect(page.get_by_role("heading", name="All open items")).to_be_visible()
