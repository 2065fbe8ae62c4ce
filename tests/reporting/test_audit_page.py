"""The page of an audit shows what the audit says and the items behind it, in one file that trusts no name."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from markupsafe import escape

import shiftbench as sb
from shiftbench.auditing.findings import Audit, Finding
from shiftbench.auditing.join import Items
from shiftbench.auditing.predicates import Predicate, Predicates, packed
from shiftbench.cli import main
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Texts
from shiftbench.reporting.audit_page import Evidence, audit_page
from tests.reporting.test_report import EVIL, Page

N = 900


def items(kind: str) -> Items:
    """Items of three columns; the model errs at night, most of all in a city with an evil name."""
    rng = np.random.default_rng(0)
    light, city = rng.choice(["day", "night"], N), rng.choice(["Rome", EVIL], N)
    truth = rng.choice(["cat", "dog"], N)
    wrong = rng.random(N) < 0.1 + 0.3 * (light == "night") + 0.3 * (light == "night") * (city == EVIL)
    names = np.asarray([f"{EVIL} {number}" for number in range(N)])
    factors = {"light": light, "city": city, "age": rng.normal(40, 9, N)}
    pixels = rng.integers(0, 256, (N, 8, 8, 3), dtype=np.uint8) if kind == "images" else None
    texts = Texts(np.arange(N), np.asarray([f"{EVIL} {number}" * 30 for number in range(N)], object))
    collection = Collection("street", names, factors, texts=texts if kind == "texts" else Texts.none(), pixels=pixels)
    other = np.where(truth == "cat", "dog", "cat")
    loss = rng.gamma(2, 1, N) if kind == "losses" else wrong.astype(float)
    return Items(collection, "label", truth, np.where(wrong, other, truth), rng.uniform(0.5, 1, N), loss, (EVIL,),
                 collection=collection, rows=np.arange(N))


def predicates(known: Items) -> Predicates:
    listed, bits, codes = [], [], []
    for code, column in enumerate(("light", "city")):
        for value in np.unique(known.known.factors[column]).tolist():
            listed.append(Predicate(column, value, "factor", f"{column} is {value}"))
            bits.append(packed(known.known.factors[column] == value))
            codes.append(code)
    return Predicates(tuple(listed), np.stack(bits), N, np.asarray(codes, np.int32))


def case(kind: str = "images") -> tuple[Audit, Evidence]:
    known = items(kind)
    named = predicates(known)
    confirming = np.arange(N) % 2 == 0
    place = {(one.column, one.value): one for one in named.list}
    night, evil = place["light", "night"], place["city", EVIL]

    def finding(*members: Predicate, parent: int = -1) -> Finding:
        mask = np.all([named.mask(named.list.index(member)) for member in members], axis=0)
        inside, rest = (known.loss[part & confirming] for part in (mask, ~mask))
        loss, other = float(inside.mean()), float(rest.mean())
        return Finding(members, len(inside), len(rest), int(mask.sum()), loss, loss - 0.05, loss + 0.05, other,
                       loss - other, loss - other - 0.1, loss - other + 0.1, loss / other, 1.5, 6.0, 1e-6, 2e-4, 0.4,
                       parent, *((0.2, 0.1, 0.3) if parent >= 0 else ()))

    share = kind != "losses"
    card = {"loss": "error" if share else "absolute", "words": "the error" if share else "the absolute error",
            "unit": "share" if share else "number", "n": N, "n_explore": N // 2, "n_confirm": N // 2, "looked_at": 812,
            "tested": 9, "fdr": 0.1, "seed": 0, "least": 20, "confirm": 0.5, "notes": [EVIL], "detectable": 0.14}
    return Audit((finding(night), finding(night, evil, parent=0)), (), card), Evidence(known, named, confirming)


@pytest.mark.parametrize("kind", ["images", "texts", "rows", "losses"])
def test_the_page_is_one_file_that_trusts_no_name(kind, tmp_path):
    """Tags nest, nothing is loaded, no name becomes markup, and every number is the audit's."""
    audit, evidence = case(kind)
    text = audit_page(audit, tmp_path / "audit.html", evidence).read_text()
    page = Page(text)
    assert not page.tags & {"script", "link", "iframe", "object"}
    assert all(value.startswith(("data:", "#")) for _, name, value in page.attributes if name in ("src", "href"))
    shown = [value for value, _ in page.data]
    for finding in audit.findings:
        assert {finding.loss, finding.rest, finding.difference, finding.ratio} <= set(shown)
    words = " ".join("".join(page.words).split())
    for sentence in audit.sentences():
        assert " ".join(sentence.split()) in words
    assert ("img" in page.tags) == (kind == "images")


def test_examples_on_the_failing_side_are_wrong_and_on_the_other_right(tmp_path):
    """All are of the context, and the same each time."""
    audit, evidence = case()
    texts = [audit_page(audit, tmp_path / name, evidence).read_text() for name in ("one.html", "two.html")]
    assert texts[0] == texts[1]
    known = evidence.items
    place = {item: row for row, item in enumerate(known.known.items.tolist())}
    failing, passing = texts[0].split("Failing</h4>")[1].split("Passing</h4>")[:2]
    for side, wrong in ((failing, 1.0), (passing.split("</ul>")[0], 0.0)):
        rows = [row for item, row in place.items() if f'title="{escape(item)}"' in side]
        assert len(rows) == 8
        assert {known.loss[row] for row in rows} == {wrong}
        assert {known.known.factors["light"][row] for row in rows} == {"night"}


def test_the_contexts_around_a_finding_have_their_losses(tmp_path):
    """Wider and narrower contexts are measured on the confirming items."""
    audit, evidence = case()
    text = audit_page(audit, tmp_path / "audit.html", evidence).read_text()
    known, part = evidence.items, evidence.confirming
    night, rome = known.known.factors["light"] == "night", known.known.factors["city"] == "Rome"
    around = {"all items": part, "light is night": part & night, "… and city is Rome": part & night & rome}
    for name, mask in around.items():
        title = f"<title>{name}: {100 * known.loss[mask].mean():.1f}, {mask.sum():,} items</title>"
        assert title in text
    inside = known.truth[night] == known.predicted[night]
    assert f"confidence {100 * known.confidence[night].mean():.1f} %, right {100 * inside.mean():.1f} %" in text


def test_a_loss_that_is_a_number_is_shown_as_it_is(tmp_path):
    """No per cent, and examples of the highest and the lowest loss."""
    audit, evidence = case("losses")
    text = audit_page(audit, tmp_path / "audit.html", evidence).read_text()
    assert "Highest loss" in text
    assert f">{audit.findings[0].loss:.3f}</data>" in text
    assert "Error, %" not in text


def test_an_audit_from_a_file_has_a_page_without_examples(tmp_path):
    """Tables and charts need no items."""
    audit, _ = case()
    audit.save(tmp_path / "audit.json")
    text = audit_page(Audit.load(tmp_path / "audit.json"), tmp_path / "audit.html").read_text()
    assert "Failing" not in text
    assert 'id="differences"' in text
    Page(text)


def test_a_page_of_nothing_says_so(tmp_path):
    """What could have been found is on it, and what was done."""
    audit, evidence = case()
    empty = Audit((), (audit.findings[0],), audit.card)
    text = audit_page(empty, tmp_path / "audit.html", evidence).read_text()
    page = Page(text)
    assert "a group of 100 would have to be 14 points worse" in text
    assert 'id="contexts"' not in text
    assert 'id="undecided"' in text
    assert "none were confirmed" in " ".join(" ".join(page.words).split())


def test_numbers_that_are_unknown_are_dashes(tmp_path):
    """A ratio against a rest without losses, or an interval without an end, breaks nothing."""
    audit, evidence = case()
    unknown = Finding(audit.findings[0].members, 30, 400, 60, 0.5, math.nan, math.nan, 0.0, 0.5, math.nan, math.nan,
                      math.nan, math.nan, math.nan, 0.01, 0.04, math.nan)
    text = audit_page(Audit((unknown,), (), audit.card), tmp_path / "audit.html", evidence).read_text()
    Page(text)
    assert not re.search(r"\bnan\b", text.lower())


@pytest.mark.parametrize("name", ["audit.json", "audit.parquet"])
def test_a_saved_audit_has_its_page_later(name, tmp_path, monkeypatch):
    """`report` of the file writes the page that the audit in memory has without its items."""
    audit, _ = case()
    audit.save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["shiftbench", "report", name, "--out", "later.html"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert (tmp_path / "later.html").read_text() == sb.report(audit, tmp_path / "now.html").read_text()
    with pytest.raises(ShiftBenchError, match="shows the audit alone"):
        sb.report(tmp_path / name, tmp_path / "page.html", compare=["erm", "irm"])


def test_a_card_that_was_changed_is_said(tmp_path):
    """A word where a number was, and a number that is gone."""
    audit, _ = case()
    for card, message in (({**audit.card, "n": "many"}, "'n' of the card is 'many'"),
                          ({"loss": "error"}, "has no n, n_explore")):
        replace(audit, card=card).save(tmp_path / "audit.json")
        with pytest.raises(ShiftBenchError, match=message):
            sb.report(tmp_path / "audit.json", tmp_path / "page.html")
