"""A person looks at a collection: filters, colours, cross table, search, an item; and every count is the library's."""

import json
import re
from urllib.parse import parse_qs

import numpy as np
import pytest
from playwright.sync_api import expect
from typer.testing import CliRunner

from shiftbench.auditing.contexts import inside
from shiftbench.cli import app
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.webapp.looks import sealed
from shiftbench.webapp.studio import Query
from tests.webapp.conftest import Person, Server, settled, until
from tests.webapp.test_access import fits
from tests.webapp.test_collection_view import HOSTILE, hostile

pytestmark = pytest.mark.slow
ON = "collections/scenes"


def state(page):
    """What the address of the page says."""
    return {name: values[0] for name, values in parse_qs(page.evaluate("location.hash.split('?')[1] ?? ''")).items()}


def number(text):
    return int(re.search(r"\d[\d,]*", text)[0].replace(",", ""))


def shown(page):
    """The number of items that the page says the filter leaves."""
    return number(page.locator(".found").inner_text())


def filtered(world, page):
    """The counts of `shiftbench show --where`, with the filter of the page's address."""
    run = CliRunner().invoke(app, ["show", str(world / ON), "--json", "--where", state(page).get("where", "")])
    assert run.exit_code == 0
    return json.loads(run.stdout)


def counts(page, column):
    """The values that the panel lists for a column, with their counts, of those that some items have."""
    facet = page.locator("details.facet", has=page.locator(f"summary span:text-is('{column}')")).first
    values = facet.locator("> ul.values .value").evaluate_all("list => list.map(value => value.innerText)")
    return {name: number(n) for name, n in (value.rsplit("\n", 1) for value in values) if number(n)}


def test_a_collection_is_filtered_coloured_crossed_and_searched(person, world):
    """Clicks make the filter in the address; every count equals that of `shiftbench show --where`."""
    page, items = person.open(f"collection?on={ON}"), Collection.load(world / ON)
    until(page, shown, len(items))
    page.get_by_role("button", name=re.compile(r"^dog \d")).first.click()
    expect(page.locator(".filter li")).to_have_count(2)  # the predicate, and "clear"
    facts = filtered(world, page)
    assert facts["items"] == np.count_nonzero(items.factors["class"] == "dog")
    until(page, shown, facts["items"])
    for column in ("location", "weather"):
        until(page, lambda page, column=column: counts(page, column), facts["factors"][column])

    page.get_by_label("Cross").select_option("location")
    page.get_by_label("with").select_option("light")
    cell = page.get_by_role("button", name=re.compile("^indoors, dark: "))
    n = number(cell.get_attribute("aria-label"))
    cell.click()
    until(page, shown, n)
    facts = filtered(world, page)
    assert (facts["items"], facts["factors"]["light"]) == (n, {"dark": n})

    page.get_by_role("button", name="clear").click()
    expect(page.locator(".filter")).to_have_count(0)
    page.get_by_label("Search a word in texts").fill("Boat")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Remove: text has the word “Boat”")).to_be_visible()
    page.get_by_role("button", name=re.compile(r"^boat \d")).first.click()
    expect(page.locator(".filter li")).to_have_count(3)
    where = Query(state(page)).where()
    assert [predicate.kind for predicate in where] == ["word", "tag"]
    until(page, shown, np.count_nonzero(inside(where, items)))

    page.get_by_label(re.compile("^Colour")).select_option("place")
    expect(page.locator(".long-wall .tile .band").first).to_be_visible()
    legend = dict(settled(page).locator(".colours li").evaluate_all(
        "list => list.map(entry => [entry.innerText.trim(), entry.querySelector('i').style.background])"))
    bands = page.locator(".long-wall .tile:has(.band)").evaluate_all(
        "list => list.map(tile => [tile.innerText.trim(), tile.querySelector('.band').style.background])")
    assert len(bands) > 5
    assert bands == [[place, legend.get(place, "var(--m0)")] for place, _ in bands]
    page.go_back()  # the state is in the address: a step back has no colour
    expect(page.locator(".colours")).to_have_count(0)


def test_an_item_is_opened_and_linked(person, world):
    """The panel has image, boxes, annotations, split and predictions; its address opens it again."""
    benchmark, items = Benchmark.load(world / "benchmarks/minority"), Collection.load(world / ON)
    rows = benchmark.rows("test")
    open_row = int(rows[~sealed(benchmark.items[rows])][0])
    page = person.open(f"collection?on={ON}&item={benchmark.items[open_row]}")
    panel = page.get_by_role("complementary", name="Item")
    (row,) = np.flatnonzero(items.items == benchmark.items[open_row])
    tags = np.flatnonzero(items.tags.item == row)
    expect(panel.locator("svg rect")).to_have_count(int(np.count_nonzero(np.isin(items.tags.box_row, tags))))
    page.wait_for_function("() => document.querySelector('.boxes img').naturalWidth === 64")
    expect(panel.locator("tbody tr").first.locator("td").first).to_have_text("test")
    expect(panel.locator("table").nth(1).locator("tbody th")).to_have_text(["erm", "group_dro"])
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    hidden = str(benchmark.items[rows][sealed(benchmark.items[rows])][0])
    page = person.open(f"collection?on={ON}&item={hidden}")
    expect(panel.get_by_text("This item is sealed")).to_be_visible()
    expect(panel.locator("table")).to_have_count(1)


def test_a_wall_is_scrolled_and_walked_by_keyboard(person, world):
    """Only what is in view exists and is saved; the end is the last item; arrow keys go from tile to tile."""
    page, items = person.open(f"collection?on={ON}"), Collection.load(world / ON)
    expect(page.locator(".long-wall .tile img").first).to_be_visible()
    assert settled(page).locator(".long-wall .tile").count() < 200
    page.locator(".long-wall").evaluate("element => element.scrollTo(0, element.scrollHeight)")
    expect(page.locator(f".long-wall button[title*='{items.items[-1]}']")).to_be_visible()
    shown = settled(page).evaluate("import('studio/answers.js').then(module => Object.keys(module.answersShown()))")
    requests = [parse_qs(path.removeprefix("items?")) for path in shown if path.startswith("items?")]
    pages = {int(request["from"][0]) for request in requests}
    assert 1440 in pages
    assert pages <= {1320, 1440}  # a page that is saved now carries no others
    last = page.locator(f".long-wall button[title*='{items.items[-1]}']")
    last.focus()
    tops = page.locator(".long-wall button").evaluate_all("tiles => tiles.map(tile => tile.offsetTop)")
    across = max(tops.count(top) for top in tops)
    for key in ("ArrowUp", "ArrowLeft", *["ArrowUp"] * 30, "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)  # faster than lines are drawn: a tile that comes and goes keeps the focus
    number = len(items) - 1 - 30 * across
    expect(page.locator(f".long-wall button[data-number='{number}']")).to_be_focused()
    expect(page.locator(f".long-wall button[data-number='{number}']")).to_be_in_viewport(ratio=1)
    page.keyboard.press("Enter")
    expect(page.locator("aside.item h2")).to_have_text(str(items.items[number]))
    assert state(settled(page))["item"] == str(items.items[number])


def test_hostile_names_are_text(browser, tmp_path):
    """No name is markup: pages with hostile ids, values and tags hold them as text, and run nothing."""
    hostile().save(tmp_path / "bad")
    server = Server(tmp_path)
    person = Person(browser, server)
    person.page.on("dialog", lambda dialog: person.errors.append(f"a name was run: {dialog.message}"))
    page = person.open("collection?on=bad")
    try:
        expect(page.locator(".long-wall .tile img").first).to_be_visible()
        expect(page.locator("h1")).to_have_text("<script>alert('name')</script>")
        expect(settled(page).locator("main img[src='x'], main script")).to_have_count(0)
        for id in (HOSTILE[0], HOSTILE[1], HOSTILE[8], HOSTILE[6]):
            page.locator(".long-wall button").nth(HOSTILE.index(id)).click()
            page.wait_for_function("id => document.querySelector('aside.item h2')?.textContent === id", arg=id)
            assert state(page)["item"] == id
            page.keyboard.press("Escape")
            expect(page.locator("aside.item")).to_have_count(0)
        page.locator(".facet .value").first.click()
        expect(page.locator(".filter")).to_be_visible()
        until(page, shown, 1)
        until(page, fits, True)
    finally:
        person.close()
        server.stop()
