"""Every view can be read by everybody: names, labels and contrasts in light and dark, on a phone, by keyboard."""

import json
import os
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from shiftbench.auditing.predicates import Predicate
from shiftbench.data.benchmark import Benchmark
from shiftbench.webapp.looks import sealed
from tests.webapp.conftest import Person, settled, until

pytestmark = pytest.mark.slow
AXE = Path(__file__).parents[2] / "build/page/node_modules/axe-core/axe.min.js"
INDOORS = json.dumps([Predicate.of("location", "indoors").facts()])
CELL = json.dumps(["minority", "erm", "accuracy"])
SIDES = {"on": "collections/scenes", "cls": "dog", "at": "shelf", "test": '["dog(shelf)", "cat(shelf)"]',
         "train": '["dog(sofa)", "cat(sofa)"]'}
VIEWS = {
    "home": ("", ".shelf"), "collection": ("collection?on=collections/scenes", ".facet .value"),
    "item": ("collection?on=collections/scenes&item={item}", "aside.item table >> nth=1"),
    "cross": ("collection?on=collections/scenes&a=class&b=light&colour=light", ".cross table"),
    "graph": ("graph?on=collections/scenes&cls=dog", ".disc"), "sides": (f"graph?{urlencode(SIDES)}", ".split-counts"),
    "recipe": ("design?recipe=recipes/minority.toml", ".split-counts"),
    "design": ("design?shift=correlation", ".split-counts"), "invitation": ("design?shift=subset", ".design .note"),
    "runs": ("runs?on=runs", "table.settings"), "compare": ("compare?on=scores.parquet", ".compared"),
    "cell": (f"compare?{urlencode({'on': 'scores.parquet', 'at': CELL})}", ".cell-items .tile"),
    "audit": ("failures?audit=audit.json", ".books"),
    "finding": (f"failures?{urlencode({'audit': 'audit.json', 'where': INDOORS})}", ".books"),
}
"""Name -> the address of a view in a state, and what is there when it is drawn. The item is one that runs predicted."""
RULES = """{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'],
            rules: {'label-content-name-mismatch': {enabled: true}}}"""


@pytest.fixture(scope="module")
def axe():
    if not AXE.exists() and "SHIFTBENCH_BROWSER" not in os.environ:
        pytest.skip("axe-core is not there (make lint-page fetches it)")
    return AXE.read_text()


def fits(page):
    """Whether nothing is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_passes_axe_and_fits_a_phone(browser, studio, world, axe, view):
    """No rule of WCAG 2.1 AA that axe can check is broken, wide and light or narrow and dark; nothing is cut off."""
    address, drawn = VIEWS[view]
    benchmark = Benchmark.load(world / "benchmarks/minority")
    tested = benchmark.items[benchmark.rows("test")]
    address = address.replace("{item}", str(tested[~sealed(tested)][0]))
    for width, scheme in ((1280, "light"), (390, "dark")):
        person = Person(browser, studio, viewport={"width": width, "height": 900}, color_scheme=scheme,
                        reduced_motion="reduce")
        page = person.open(address)
        expect(page.locator(drawn).first).to_be_attached()  # on a phone some of it is folded away
        expect(settled(page).locator("main h1")).to_be_visible()
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
