"""What an audit reports, as files and as sentences."""

import json
import math
from dataclasses import replace

import pytest

from shiftbench.auditing.findings import Audit, Finding
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.errors import ShiftBenchError

NIGHT, OSLO = (Predicate(column, value, "factor", f"{column} is {value}")
               for column, value in (("light", "night"), ("city", "Oslo")))
WIDE = Finding((NIGHT,), 600, 600, 1190, 0.2, 0.15, 0.25, 0.12, 0.08, 0.04, 0.12, 1.67, 1.2, math.nan, 1e-4, 0.01, 0.1)
NARROW = replace(WIDE, members=(NIGHT, OSLO), n=312, loss=0.41, low=0.33, high=0.49, parent=0, adds=0.2, adds_low=0.1,
                 adds_high=0.3, ratio_high=4.1)
MAYBE = replace(WIDE, members=(Predicate("tag", "dog", "tag", "with a dog"),), n=31, n_all=60, q=0.4, needed=250)
CARD = {"loss": "error", "words": "the error", "unit": "share", "n": 2400, "detectable": 0.14}
AUDIT = Audit((WIDE, NARROW), (MAYBE,), CARD)


def test_sentences_say_what_was_found_and_what_could_not_be_told():
    """A sentence per finding, what a narrower one adds below the wider one, and the items that an open one takes."""
    assert AUDIT.sentences() == [
        "Where light is night, the error is 20 % [15, 25] against 12 % elsewhere, 600 items.",
        "  Where light is night and city is Oslo, the error is 41 % [33, 49] against 12 % elsewhere, 312 items. "
        "That is 20 points [10, 30] more than the other items where light is night.",
        "Undecided: with a dog, the error is 20 % [15, 25] against 12 % elsewhere, 31 items. "
        "It would take about 250 items of this context; there are 60."]
    assert repr(AUDIT) == "\n".join(AUDIT.sentences())
    assert str(WIDE) == "where light is night: loss 0.2 against 0.12 elsewhere, 600 items"


def test_an_audit_that_finds_nothing_says_what_it_could_have_found():
    """The size of the effect that a group of 100 would need is in the sentence."""
    assert Audit((), (), CARD).sentences() == [
        "Nothing was found that 2,400 items could show; a group of 100 would have to be 14 points worse."]
    for change, words in (({"detectable": None}, "not even a group of 100"), ({"n": 40}, "40 items are too few"),
                          ({"sd": 0.0}, "every item has the same loss")):
        assert words in Audit((), (), {**CARD, **change}).sentences()[0]


@pytest.mark.parametrize(("change", "words"), [
    ({"better": True, "detectable_better": 0.09}, "would have to be 14 points worse or 9 points better."),
    ({"better": True, "detectable_better": 0.14}, "would have to be 14 points worse or better."),
    ({"against": "old.csv", "detectable_better": 0.14}, "would have to be 14 points worse or better."),
    ({"better": True, "detectable_better": None}, "14 points worse. Not even a group of 100 without errors could be "
                                                  "shown to be better."),
    ({"better": True, "detectable": None, "detectable_better": 0.3}, "would have to be 30 points better."),
    ({"detectable_better": None}, "would have to be 14 points worse."),
])
def test_an_audit_of_both_directions_speaks_of_both(change, words):
    """With --better, and of two models, how much worse and how much better a group would have to be."""
    assert Audit((), (), {**CARD, **change}).sentences()[0].endswith(words)


def test_one_item_is_one_item():
    """The reason why nothing was looked at is the sentence, and a single item is no plural."""
    reason = "1 item is too few to say anything"
    assert Audit((), (), {**CARD, "n": 1, "reason": reason}).sentences() == [f"Nothing was found: {reason}."]
    assert "Nothing was found; 1 item is too few" in Audit((), (), {**CARD, "n": 1}).sentences()[0]
    assert "elsewhere, 1 item." in Audit((replace(WIDE, n=1),), (), CARD).sentences()[0]


def test_a_sentence_has_one_minus_sign():
    """The same as a gate's: no hyphen stands before a number."""
    change = replace(WIDE, loss=-0.2, low=-0.25, high=-0.15, rest=-0.12, difference=-0.08)
    for card in ({**CARD, "against": "old.csv"}, {**CARD, "unit": "number"}):
        sentence = Audit((change,), (), card).sentences()[0]
        assert "-" not in sentence
        assert sentence.count("−") == 4


def test_a_sentence_is_numbered_by_its_finding():
    """So that a page can lead from it to what it is about; the others are about none."""
    counted = Audit((WIDE, replace(NARROW, narrower=2)), (MAYBE,), CARD)
    assert [number for number, _ in counted.numbered_sentences()] == [0, 1, 1, None]
    assert [line for _, line in counted.numbered_sentences()] == counted.sentences()


def test_narrower_contexts_that_add_nothing_are_a_line():
    """They are counted below the finding that they lie within, one step further in."""
    counted = Audit((replace(WIDE, narrower=1), replace(NARROW, narrower=1200)), (), CARD)
    lines = counted.sentences()
    assert lines[1] == "  1 narrower context adds nothing."
    assert lines[3] == "    1,200 narrower contexts add nothing."


@pytest.mark.parametrize(("low", "high", "difference", "words"), [
    (0.02, 0.1, 0.08, "the new model is worse here"), (-0.3, -0.1, -0.2, "the new model is better here"),
    (-0.09, -0.01, 0.05, "better than before, but by less"), (-0.1, 0.1, 0.05, "cannot be told")])
def test_a_change_says_whether_the_new_model_is_worse_or_only_gained_less(low, high, difference, words):
    """A change that differs from that elsewhere may still be one for the better."""
    change = replace(WIDE, low=low, high=high, difference=difference)
    sentence = Audit((change,), (), {**CARD, "against": "old.csv"}).sentences()[0]
    assert words in sentence
    assert "the change of the error is +20 points" in sentence


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_a_saved_audit_is_read_back(tmp_path, ending):
    """Findings, candidates and card survive both formats, unknown numbers too."""
    back = Audit.load(AUDIT.save(tmp_path / f"audit.{ending}"))
    assert back.findings[1] == NARROW
    assert repr(back) == repr(AUDIT)
    assert math.isnan(back.findings[0].ratio_high)
    assert back.card == CARD
    assert Audit.load(Audit((), (), CARD).save(tmp_path / f"none.{ending}")).findings == ()


def test_an_audit_is_a_table():
    """One row per finding and candidate."""
    table = AUDIT.to_arrow()
    assert table["confirmed"].to_pylist() == [True, True, False]
    assert table["context"][1].as_py() == "where light is night and city is Oslo"
    assert table["parent"].to_pylist() == [-1, 0, -1]


@pytest.mark.parametrize(("change", "message"), [
    ({"format": "x"}, "not an audit"), ({"version": 9}, "format 9"), ({"card": 3}, "no card"),
    ({"findings": 3}, "not a list"), ({"findings": [{"n": "many"}]}, "not as it was written"),
    ({"findings": [{**{"parent": 5}}]}, "not as it was written")])
def test_a_changed_file_is_refused_in_one_line(tmp_path, change, message):
    """The message names the file."""
    path = AUDIT.save(tmp_path / "audit.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ShiftBenchError, match=message) as problem:
        Audit.load(path)
    assert str(path) in str(problem.value)


def test_a_finding_within_a_later_one_is_refused(tmp_path):
    """Sentences follow parents, so a circle must not be read."""
    path = Audit((replace(WIDE, parent=0),), (), CARD).save(tmp_path / "audit.json")
    with pytest.raises(ShiftBenchError, match="does not come before it"):
        Audit.load(path)
    with pytest.raises(ShiftBenchError, match="saved as"):
        AUDIT.save(tmp_path / "audit.txt")
