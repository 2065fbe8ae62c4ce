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
from shiftbench.reporting.audit_evidence import Evidence
from shiftbench.reporting.audit_page import audit_page
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


def test_calibration_is_that_of_the_confirming_items(tmp_path):
    """On the exploring items the context was chosen because many are wrong; they say nothing of calibration."""
    audit, evidence = case()
    text = audit_page(audit, tmp_path / "audit.html", evidence).read_text()
    known = evidence.items
    for mask in (known.known.factors["light"] == "night", known.known.factors["light"] != "night"):
        part = mask & evidence.confirming
        right = known.truth[part] == known.predicted[part]
        assert f"confidence {100 * known.confidence[part].mean():.1f} %, right {100 * right.mean():.1f} %" in text


def test_examples_show_the_columns_of_the_finding_first(tmp_path):
    """Though the table has six others before it, and a value that is not there reads missing."""
    rng = np.random.default_rng(0)
    n = 2000
    data = {"id": [f"i{number}" for number in range(n)], "label": rng.choice(["cat", "dog"], n),
            **{f"first {number}": rng.choice(["u", "v"], n) for number in range(6)},
            "note": np.where(rng.random(n) < 0.5, "", "seen"), "speed": np.where(rng.random(n) < 0.3, np.nan, 40.0),
            "light": rng.choice(["day", "night"], n)}
    wrong = rng.random(n) < 0.1 + 0.3 * ((data["light"] == "night") & np.isnan(data["speed"]))
    predictions = {"id": data["id"], "prediction": np.where(wrong, np.where(data["label"] == "cat", "dog", "cat"),
                                                            data["label"])}
    audit = sb.audit(predictions, data, out=tmp_path / "audit.html")
    assert {member.column for member in audit.findings[0].members} == {"light", "speed"}
    text = " ".join("".join(Page((tmp_path / "audit.html").read_text()).words).split())
    names = [member.column for member in audit.findings[0].members]
    shown = ", ".join({"light": "light night", "speed": "speed missing"}[name] for name in names)
    assert f"; {shown}, first 0 " in text
    assert "nan" not in text
    assert "first 4 u" not in text  # six values are shown of an item


def test_a_page_is_named_by_its_files(tmp_path):
    """The file of the model and that of the data, where the audit knows them, unless the caller has a title."""
    audit, _ = case()
    sources = {"sources": {"predictions": "/home/me/runs/7f/predictions.parquet", "data": f"/home/{EVIL}/frames.csv"}}
    for card, title, head in (
            ({}, {}, "shiftbench audit"), (sources, {}, "Audit of 7f/predictions.parquet on frames.csv"),
            ({**sources, "against": "models/old.csv"}, {},
             "Audit of 7f/predictions.parquet against old.csv on frames.csv"), (sources, {"title": "Mine"}, "Mine"),
            ({"sources": 3}, {}, "shiftbench audit")):
        named = replace(audit, card={**audit.card, **card})
        text = audit_page(named, tmp_path / "audit.html", **title).read_text()
        assert f"<title>{head}</title>" in text
        assert f"<h1>{head}</h1>" in text


def test_sentences_and_rows_lead_to_the_section_of_their_finding(tmp_path):
    """Every link of the page has its target, once; a finding without a section is reached in the table."""
    audit, evidence = case()
    many = replace(audit, findings=(*audit.findings, *[audit.findings[0]] * 14))
    for one, shown in ((audit, evidence), (many, None)):
        page = Page(audit_page(one, tmp_path / "audit.html", shown).read_text())
        targets = [value for _, name, value in page.attributes if name == "id"]
        links = [value[1:] for tag, name, value in page.attributes if (tag, name) == ("a", "href")]
        assert len(targets) == len(set(targets))
        assert set(links) <= set(targets)
        for number in range(1, len(one.findings) + 1):
            assert links.count(f"f{number}") >= 1
        assert links.count("f1") == 3  # of its sentence, of the contents and of the table


def test_the_contents_wrap_and_keep_long_names_for_windows_with_room(tmp_path):
    """In a narrower window a link shows its number alone; its name is its title and what is read aloud."""
    audit, _ = case()
    text = audit_page(audit, tmp_path / "audit.html").read_text()
    rule = text[text.rindex("@media (max-width: 91.99rem)"):]
    rule = rule[:rule.index("\n}")]
    assert ".long { display: none; }" in rule
    assert re.search(r"\nnav ul \{[^}]*flex-wrap: wrap;", text)
    assert "nowrap" not in "".join(re.findall(r"\n *nav[^{]*\{[^}]*\}", text))
    assert ('<a href="#f1" title="light is night" aria-label="1. light is night">1.<span class="long"> light is '
            "night</span></a>") in text


def test_a_long_name_around_a_finding_is_not_cut(tmp_path):
    """It stands above its bar, in as many lines as it takes, for a wide window and for a narrow one."""
    audit, evidence = case()
    long = "hour of the day at which the picture was taken is from 12 to under 17"
    rename = {member: replace(member, words=long) if member.column == "light" else member
              for member in evidence.predicates.list}
    audit = replace(audit, findings=tuple(replace(finding, members=tuple(rename[member] for member in finding.members))
                                          for finding in audit.findings))
    named = replace(evidence.predicates, list=tuple(rename.values()))
    text = audit_page(audit, tmp_path / "audit.html", evidence._replace(predicates=named)).read_text()
    drawn = re.findall(r"<svg class=\"(wide|narrow)\".*?</svg>", text, flags=re.S)
    assert drawn.count("wide") == drawn.count("narrow") == 2
    for part in re.findall(r"<svg class=\"(?:wide|narrow)\".*?</svg>", text, flags=re.S):
        words = " ".join(re.findall(r"<text[^>]*>(.*?)</text>", part))
        assert long in words
        assert "…" not in words.replace("… and", "")


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
