"""A saved page is one file that asks nobody, in which names from data are text, and kept views lead only to views."""

import json
import re

import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.webapp.home_view import home, save_view
from shiftbench.webapp.server import OWN, PLACE, SAVED, VENDORED, filled, inline_hash, page_file, saved_page
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Query, Studio

HOSTILE = "</script><script>alert(1)</script><!-- $& $1 \u2028"


def carried(page):
    return json.loads(re.search(r'<script type="application/json" id="answers">(.*?)</script>', page, re.S)[1])


def test_the_inlined_page_has_all_scripts_and_a_policy_that_names_them():
    """Every module is in the import map as it is served; every inline script is in the policy; nothing may be asked."""
    page = page_file(SAVED).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    inline = re.findall(r"<script(?: type=\"(?:module|importmap)\")?>(.*?)</script>", page, re.S)
    assert len(inline) == 4
    assert all(inline_hash(script) in policy for script in inline)
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    modules = json.loads(inline[0])["imports"]
    assert set(modules) == {"preact", *(f"studio/{name}" for name in OWN if name.endswith(".js"))}
    assert all(url.startswith("data:") for url in modules.values())
    assert not re.search(r'(?:src|href)="(?!data:)', page.replace(inline[1], "").replace(inline[2], ""))
    assert page.count(PLACE) == 1
    assert len(VENDORED) == 3


def test_hostile_answers_stay_data():
    """Text that would end the script comes back as it was, and adds no tag to the page."""
    page = filled("#home", {"home": {"name": HOSTILE}})
    assert carried(page)["home"]["name"] == HOSTILE
    assert page.count("<script") == page_file(SAVED).decode().count("<script")


def test_a_view_carries_what_it_asks_for(world):
    """The answer of the route, and of all requests that it names: the numbers of a run, its examples and pictures."""
    answers = carried(saved_page(Studio(Shelf([world])), "failures?audit=audit.json"))
    names = {path.partition("?")[0] for path in answers}
    assert names >= {"#", "failures", "findings", "context", "look", "thumbnail"}
    context = answers["*context"]
    pictures = [value for path, value in answers.items() if path.startswith("thumbnail?")]
    assert len(pictures) == sum(len(side["items"]) for side in context["sides"])
    assert all(value.startswith("data:image/") for value in pictures)
    assert answers["#"] == "#failures?audit=audit.json"


def test_a_view_that_takes_its_time_is_waited_for(world):
    """Scores that are being read are in the file, not the sentence that says so."""
    answers = carried(saved_page(Studio(Shelf([world])), "compare?on=scores.parquet"))
    assert not answers["*compare"].get("scoring")


def test_a_route_that_is_none_is_an_error(world):
    """A view that does not exist, or a thing that is not there, is said in one sentence."""
    with pytest.raises(ShiftBenchError, match="No view named 'nowhere'"):
        saved_page(Studio(Shelf([world])), "nowhere")
    with pytest.raises(ShiftBenchError, match="No audit named"):
        saved_page(Studio(Shelf([world])), "failures?audit=none.json")


def test_a_view_is_kept_below_the_folder_only(tmp_path):
    """With --edit a view is kept under a name that leads nowhere else, and the first page lists it."""
    studio = Studio(Shelf([tmp_path]), edit=True)
    save_view(studio, {"name": "../../Night: cats & dogs", "route": "failures?audit=a.json"})
    assert list(tmp_path.rglob("*.json")) == [tmp_path / "views/Night-cats-dogs.json"]
    assert home(studio, Query({}))["views"] == [{"name": "../../Night: cats & dogs", "route": "failures?audit=a.json"}]
    for wrong in ({"name": "..", "route": "home"}, {"name": "x", "route": "javascript:alert(1)"}, {"route": "home"}):
        with pytest.raises(ShiftBenchError):
            save_view(studio, wrong)
    (tmp_path / "views/bad.json").write_text('{"format": "shiftbench view", "name": "x", "route": "//elsewhere"}')
    (tmp_path / "views/worse.json").write_text("[")
    assert len(home(studio, Query({}))["views"]) == 1
    with pytest.raises(ShiftBenchError, match="read-only"):
        save_view(Studio(Shelf([tmp_path])), {"name": "x", "route": "home"})
