"""Whatever an address says, the page shows a view or one sentence, and the way to other views stays open."""

import json
import re
import shutil
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode

import pytest
from playwright.sync_api import expect

import shiftbench as sb
from tests.webapp.conftest import PATIENCE, Person, serving, settled

pytestmark = pytest.mark.slow
ON = "collections/scenes"
ALIVE = "This page was saved without that: open the studio to look further."


def state(page):
    """What the address of the page says."""
    return {name: values[0] for name, values in parse_qs(page.evaluate("location.hash.split('?')[1] ?? ''")).items()}


# Addresses that nobody wrote on this page

@pytest.mark.parametrize(("view", "wrong"), [
    ("compare", {"at": "x"}), ("compare", {"at": "null"}), ("compare", {"at": '["a"]'}),
    ("compare", {"at": "[1, 2, 3]"}), ("graph", {"train": "{}"}), ("graph", {"mark": "7"}),
    ("graph", {"test": "[null]"}), ("graph", {"kinds": "null"}),
    ("collection", {"where": "[null]"}), ("collection", {"where": "[{}]"}), ("collection", {"more": "{"}),
    ("runs", {"where": "[1]"}), ("runs", {"show": "3"}), ("failures", {"where": "[null]"}),
    ("design", {"settings": "[1]"}), ("design", {"conditions": '{"noise": 3}'})],
    ids=lambda value: value if isinstance(value, str) else urlencode(value))
def test_what_cannot_be_read_is_left_out_and_said(person, view, wrong):
    """The view is shown without it, a sentence names it, and another view opens by a click."""
    page = person.open(f"{view}?{urlencode(wrong)}")
    expect(page.get_by_role("alert")).to_have_text(
        f"What the address says of “{next(iter(wrong))}” cannot be read, and is left out.")
    expect(settled(page).locator("main h1")).to_be_visible()
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize(("view", "request_name"), [
    ("compare", "compare"), ("graph", "graph"), ("collection", "counts"), ("design", "design"), ("home", "home"),
    ("failures", "context")])
def test_a_view_that_cannot_be_drawn_is_a_sentence(browser, studio, view, request_name):
    """An answer of another shape than the view expects ends that view alone: the next one is drawn."""
    person = Person(browser, studio)
    person.page.route(f"**/api/{request_name}?*", lambda route: route.fulfill(json={"nonsense": True}))
    page = person.open(view)
    expect(page.get_by_role("alert").filter(has_text="This view cannot be drawn")).to_be_visible()
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.locator("table.settings")).to_be_visible()
    expect(page.get_by_text("cannot be drawn")).to_have_count(0)
    person.page.unroute(f"**/api/{request_name}?*")
    page.go_back()
    expect(settled(page).get_by_text("cannot be drawn")).to_have_count(0)
    expect(page.locator("main h1")).to_be_visible()
    assert all("TypeError" in error for error in person.errors)  # told on the console, for whoever looks for the cause
    person.errors.clear()
    person.close()


def test_an_unknown_collection_is_said_once(person):
    """Four requests fail for one reason, which the page says once."""
    page = person.open("collection?on=nowhere")
    expect(page.get_by_role("alert")).to_contain_text("No collection named 'nowhere'")
    expect(settled(page).get_by_text("No collection named 'nowhere'")).to_have_count(1)
    person.forgive()


def test_a_folder_that_is_gone_is_said_on_the_first_page(editor, edited):
    """An open page that is looked at again says that the folder is gone, not that it is empty."""
    page = settled(editor.open())
    shutil.move(edited.folder, edited.folder.with_name("away"))
    edited.studio.shelf.forget()
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("work: gone.")
    page.get_by_role("link", name="shiftbench studio").click()
    expect(page.get_by_role("alert")).to_contain_text("work: gone.")
    expect(page.get_by_text("Nothing yet")).to_have_count(0)
    editor.forgive()


# What is open is in the address

def test_an_open_item_is_in_the_address(person):
    """On the meta-graph and behind a cell: the address opens the item again, and the way back closes it."""
    cell = json.dumps(["minority", "erm", "accuracy"])
    for route, tiles in ((f"graph?{urlencode({'on': ON, 'cls': 'dog', 'at': 'shelf'})}", ".subset .tile"),
                         (f"compare?{urlencode({'on': 'scores.parquet', 'at': cell})}", ".cell-items .tile")):
        page = person.open(route)
        tile = page.locator(tiles).first
        tile.click()
        panel = page.get_by_role("complementary", name="Item")
        expect(panel.get_by_role("heading", level=2)).to_have_text(state(page)["item"])
        assert tile.get_attribute("title").endswith(state(page)["item"])
        page.reload()
        expect(panel.get_by_role("heading", level=2)).to_have_text(state(page)["item"])
        settled(page).go_back()
        expect(panel).to_have_count(0)
        assert "item" not in state(page)


def test_a_phone_shows_the_name_of_the_view(browser, studio):
    """Where the names of the views are wider than the screen, the present one is in sight, however one came to it."""
    person = Person(browser, studio, viewport={"width": 390, "height": 800})
    for view in ("failures", "collection", "compare", "graph", "runs", "design"):
        page = person.open(view)
        expect(settled(page).locator("nav [aria-current]")).to_be_in_viewport(ratio=1)
    page.get_by_role("link", name="Failures", exact=True).click()
    expect(page.locator("nav [aria-current]")).to_have_text("Failures")
    expect(page.locator("nav [aria-current]")).to_be_in_viewport(ratio=1)
    person.close()


# A frame of a notebook

@pytest.fixture
def notebook(browser, world):
    """A page with a view in a frame, as a notebook has it: notebook("graph") gives the frame and what goes wrong."""
    pages, opened = {}, []

    class Here(BaseHTTPRequestHandler):
        def do_GET(self):
            body = pages.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    def open_frame(view):
        embedded = sb.studio(world, embed=True, view=view)
        pages[f"/{view}"] = f"<!doctype html><title>{escape(view)}</title><h1>Notebook</h1>{embedded._repr_html_()}"
        page, errors = browser.new_page(), []
        opened.append(page)
        page.set_default_timeout(1000 * PATIENCE)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"http://127.0.0.1:{port}/{view}")
        return page.frame_locator("iframe"), errors

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Here)) as port:
        yield open_frame
        for page in opened:
            page.close()


def test_links_of_a_notebook_open_views_of_the_frame(notebook):
    """A click on a view, a thing and the name of the studio stays in the frame; what was not saved is a sentence."""
    frame, errors = notebook("home")
    frame.get_by_role("link", name=ON).click()
    expect(frame.get_by_role("alert")).to_have_text(ALIVE)
    expect(frame.locator("nav [aria-current]")).to_have_text("Collection")
    frame.get_by_role("link", name="Failures", exact=True).click()
    expect(frame.get_by_role("heading", name="Failures", exact=True)).to_be_visible()
    frame.get_by_role("link", name="shiftbench studio").click()
    expect(frame.get_by_role("heading", name="What is here")).to_be_visible()
    expect(frame.get_by_role("link", name=ON)).to_be_visible()  # what was saved is there again
    expect(frame.get_by_role("heading", name="Notebook")).to_have_count(0)
    assert errors == []


@pytest.mark.parametrize(("view", "click", "shows"), [
    ("graph", "[data-name=shelf]", ".subset .problem"),
    ("collection", ".long-wall .tile >> nth=2", "aside.item .problem"),
    ("runs", "table.settings input >> nth=0", ".curve-keys")])
def test_clicks_in_a_notebook_change_the_state(notebook, view, click, shows):
    """Where the browser's address cannot be written the page keeps it: a click shows its view, or what is not saved."""
    frame, errors = notebook(view)
    frame.locator(click).click()
    expect(frame.locator(shows).first).to_be_visible()
    if view == "graph":
        expect(frame.get_by_label("Chosen subset").get_by_role("heading")).to_have_text(re.compile(r"\(shelf\)"))
        expect(frame.locator(".subset .tile")).to_have_count(0)  # pictures of another subset would lie
    assert errors == []
