"""What a person sees is whole and in its place: nothing covers anything else, and nothing is cut off."""

import json
from itertools import combinations
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from shiftbench.auditing.predicates import Predicate
from shiftbench.webapp.forms import class_tags
from shiftbench.webapp.graph_view import graph
from shiftbench.webapp.studio import Query
from tests.webapp.conftest import Person, settled

pytestmark = pytest.mark.slow
ON = "collections/scenes"
INDOORS = json.dumps([Predicate.of("location", "indoors").facts()])


def boxes(locator):
    """The boxes of elements with what they say: (text, left, top, right, bottom)."""
    return [tuple(box) for box in locator.evaluate_all("""list => list.map(element => {
        const {left, top, right, bottom} = element.getBoundingClientRect();
        return [element.textContent || element.getAttribute("data-name") || "", left, top, right, bottom];
    })""")]


def meeting(one, other, slack=0):
    """Whether two boxes cover each other by more than some pixels: lines of text are higher than their letters."""
    return (one[1] + slack < other[3] and other[1] + slack < one[3] and one[2] + slack < other[4]
            and other[2] + slack < one[4])


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("sides", [{}, {"test": '["dog(shelf)"]', "train": '["dog(sofa)"]', "at": "lamp"}], ids=len)
def test_labels_of_the_graph_cover_nothing(browser, studio, width, sides):
    """No label lies on a disc, on a label or beyond the edge, and no button on a label; the chosen have theirs."""
    person = Person(browser, studio, viewport={"width": width, "height": 900})
    page = settled(person.open("graph?" + urlencode({"on": ON, "cls": "dog", **sides})))
    labels, discs = boxes(page.locator(".names text")), boxes(page.locator(".disc"))
    (drawing,) = boxes(page.locator(".drawing > svg"))
    buttons = boxes(page.locator(".zoom button"))
    named = {label[0] for label in labels}
    assert len(named) > 0.6 * len(discs)
    assert {"shelf", "sofa", "lamp"} <= named or not sides
    assert [pair for pair in combinations(labels, 2) if meeting(*pair)] == []
    assert [(label, disc) for label in labels for disc in [*discs, *buttons] if meeting(label, disc)] == []
    assert all(label[1] >= drawing[1] and label[3] <= drawing[3] for label in labels)
    person.close()


def test_the_note_of_a_graph_is_sentences(browser, studio, monkeypatch):
    """Between the note on what is drawn and what follows there is a space."""
    monkeypatch.setattr("shiftbench.webapp.graph_view.DRAWN", 8)
    person = Person(browser, studio)
    page = person.open("graph?" + urlencode({"on": ON, "cls": "cat", "min_size": "9"}))
    expect(page.get_by_text("are drawn. A disc's area")).to_be_visible()
    person.close()


def test_classes_are_those_that_have_subsets(shown, scenes):
    """By size, without empty ones and those with fewer items than a subset needs; the chosen one is always there."""
    assert min(class_tags(shown, scenes).values()) > 0
    for state in ({}, {"cls": "bear(brown)"}, {"min_size": "100"}):
        answer = graph(shown, Query({"on": ON, **state}))
        (_, classes), (_, others) = answer["classes"]
        listed = dict(map(tuple, classes + others))
        assert answer["cls"] in listed
        assert all(n >= answer["min_size"] for name, n in listed.items() if name != answer["cls"])
        for group in (classes, others):
            assert [n for _, n in group] == sorted((n for _, n in group), reverse=True)
        assert {name for name, _ in classes} <= set(scenes.factors["class"].tolist())


def test_the_rows_of_a_confusion_are_alike(person):
    """The header of the last class has the colour and the place of the others."""
    page = settled(person.open("failures"))
    styles = page.locator(".confusion tbody th").evaluate_all("""list => list.map(head => {
        const style = getComputedStyle(head);
        return [style.color, style.padding, head.getBoundingClientRect().left];
    })""")
    assert len(styles) == 2
    assert styles[0] == styles[1]


def test_the_key_of_the_calibration_covers_nothing(person):
    """The words of the chart do not cover each other, and name both sides."""
    page = person.open("failures?" + urlencode({"where": INDOORS}))
    chart = settled(page).get_by_role("figure").filter(has_text="Calibration")
    texts = boxes(chart.locator("svg text"))
    assert {"inside", "elsewhere"} <= {text[0] for text in texts}
    assert [pair for pair in combinations(texts, 2) if meeting(*pair, slack=2)] == []


def test_tiles_of_a_cell_are_not_cut(person):
    """What the runs say of an item fits under its picture."""
    cell = json.dumps(["minority", "erm", "accuracy"])
    for outcome in ("wrong", "mixed"):
        page = person.open("compare?" + urlencode({"on": "scores.parquet", "at": cell, "outcome": outcome}))
        said = page.locator(".cell-items .tile .said")
        expect(said.first).to_contain_text("→")
        cut = settled(page).locator(".cell-items .tile .said").evaluate_all(
            """list => list.filter(one => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight)
                .map(one => one.textContent)""")
        assert cut == []


@pytest.mark.parametrize("shift", ["context", "subset", "temporal"])
def test_a_shift_begins_with_an_invitation(person, shift):
    """Before anything was chosen there is no error and no recipe, but what to choose."""
    page = person.open(f"design?{urlencode({'on': ON, 'shift': shift})}")
    expect(page.get_by_role("status").filter(has_text="to see what this shift builds")).to_be_visible()
    expect(settled(page).get_by_role("alert")).to_have_count(0)
    expect(page.get_by_label("Recipe as TOML")).to_have_count(0)
