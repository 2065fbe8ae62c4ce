"""Every view can be read by everybody: names, labels and contrasts in light and dark, on a phone, by keyboard."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.webapp.conftest import Person, settled, until

pytestmark = pytest.mark.slow
AXE = Path(__file__).parents[2] / "build/page/node_modules/axe-core/axe.min.js"
VIEWS = ("", "collection?on=collections/scenes", "graph?on=collections/scenes&cls=dog",
         "design?recipe=recipes/minority.toml", "runs?on=runs", "compare?on=scores.parquet",
         "failures?audit=audit.json")
RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}"


@pytest.fixture(scope="module")
def axe():
    if not AXE.exists() and "SHIFTBENCH_BROWSER" not in os.environ:
        pytest.skip("axe-core is not there (make lint-page fetches it)")
    return AXE.read_text()


def fits(page):
    """Whether nothing is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.partition("?")[0] or "home")
def test_a_view_passes_axe_and_fits_a_phone(browser, studio, axe, view):
    """No rule of WCAG 2.1 AA that axe can check is broken, wide and light or narrow and dark; nothing is cut off."""
    for width, scheme in ((1280, "light"), (390, "dark")):
        person = Person(browser, studio, viewport={"width": width, "height": 900}, color_scheme=scheme,
                        reduced_motion="reduce")
        page = settled(person.open(view))
        expect(page.locator("main h1")).to_be_visible()
        page.evaluate(axe)
        found = page.evaluate(f"axe.run(document, {RULES})")["violations"]
        assert [(rule["id"], rule["help"], [node["html"][:120] for node in rule["nodes"][:3]]) for rule in found] == []
        until(page, fits, True)
        person.close()


def test_the_keyboard_reaches_every_view(person):
    """Tab goes from the skip link through the names of the views, and Enter opens one."""
    page = settled(person.open())
    names = []
    for _ in range(12):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent.trim()"))
        if names[-1] == "Runs":
            page.keyboard.press("Enter")
            break
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    assert names[0] == "To the view"
