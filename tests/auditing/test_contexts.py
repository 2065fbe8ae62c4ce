"""A context that is kept means the same items wherever it is read."""

import math

import numpy as np
import pytest

from shiftbench.auditing.contexts import Context, holds, inside, keep, load_contexts, write_contexts
from shiftbench.auditing.findings import Audit, Finding
from shiftbench.auditing.predicates import Predicate
from shiftbench.auditing.vocabulary import predicates_of
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags, Texts

EVIL = 'a "b" \\ \n \x7f \x01 é 😀 = [x]'


def finding(*members: Predicate, loss: float = 0.4) -> Finding:
    return Finding(members, 50, 450, 100, loss, 0.3, 0.5, 0.1, 0.3, 0.2, 0.4, 4.0, 2.0, 6.0, 1e-4, 1e-3, 0.35)


def audit(*findings: Finding, **card) -> Audit:
    return Audit(findings, (), {"loss": "error", "words": "the error", "unit": "share", "n": 1000, **card})


def everything(n: int = 600) -> tuple[Collection, np.ndarray, np.ndarray]:
    """A collection with every kind of column, its labels and its predictions."""
    rng = np.random.default_rng(0)
    age = rng.normal(40, 12, n)
    age[::17] = np.nan
    taken = np.datetime64("2019-01-01T00") + rng.integers(0, 24 * 900, n).astype("timedelta64[h]")
    tag = np.tile([0, 1], n)[rng.random(2 * n) < 0.5]
    item = rng.integers(0, n, len(tag))
    pairs = np.unique(item * 2 + tag)
    words = rng.choice(["a fine Day", "a rainy night, again", "no comment", "night-shift report"], n)
    collection = Collection(
        "all", np.arange(n).astype(str),
        {"city": rng.choice(["Oslo", "Rome", ""], n, p=[0.5, 0.4, 0.1]), "age": age, "floor": rng.integers(0, 4, n),
         "taken": taken.astype(str)},
        tags=Tags(pairs // 2, pairs % 2, rng.random(len(pairs)).astype(np.float32), ("dog", "sofa"), ("object",) * 2,
                  np.zeros(0, np.int64), np.zeros((0, 4), np.float32)),
        texts=Texts(np.arange(n), words.astype(object)),
        parents={"cat": ("pet",), "dog": ("pet",), "pet": ("animal",), "cow": ("animal",)})
    truth = rng.choice(["cat", "dog", "cow", "car"], n)
    return collection, truth, rng.choice(["cat", "dog"], n)


def test_every_predicate_of_an_audit_holds_for_the_same_items_when_it_is_kept():
    """Values, numbers, dates, tags, areas, words, missing values, labels, predictions and classes."""
    collection, truth, predicted = everything()
    loss = np.random.default_rng(1).random(len(collection))
    predicates = predicates_of(collection, loss=loss, explore=np.arange(len(collection)) % 2 == 0, truth=truth,
                               label="class", predicted=predicted, least=5)
    kinds = set()
    for number, predicate in enumerate(predicates.list):
        kinds.add(predicate.kind)
        mask = holds(predicate, collection, truth=truth, predicted=predicted)
        assert np.array_equal(mask, predicates.mask(number)), predicate
    assert kinds >= {"factor", "number", "date", "tag", "area", "word", "missing", "label", "prediction", "class"}


def test_a_context_is_all_of_its_predicates():
    collection, *_ = everything()
    members = (Predicate("city", "Oslo", "factor", "city is Oslo"),
               Predicate("age", "from 30 to under 45", "number", "age from 30 to under 45", 30, 45))
    age = collection.factors["age"]
    expected = (collection.factors["city"] == "Oslo") & (age >= 30) & (age < 45)
    assert np.array_equal(inside(members, collection), expected)


def test_a_column_that_is_not_there_is_named():
    """With the context that asks for it and the nearest columns; it is never taken for the label."""
    collection, truth, _ = everything()
    citi, old = (Predicate("citi", "cat", "factor", "citi is cat"), Predicate("age", "", "number", "age is old", 60.0))
    for options in ({}, {"truth": truth, "label": "class"}):
        with pytest.raises(ShiftBenchError, match=r"^Context 'citi is cat and age is old': No column named 'citi'\. "
                                                  r"Did you mean 'city'\? Known columns: age, .*city"):
            inside((citi, old), collection, **options)
    for kind in ("label", "class", "missing", "word"):
        with pytest.raises(ShiftBenchError, match=r"^Context 'citi is cat': No column named 'citi'"):
            holds(Predicate("citi", "cat", kind, "citi is cat"), collection, truth=truth, label="class")
    with pytest.raises(ShiftBenchError, match=r"^Context 'with bed': No tag named 'bed'"):
        holds(Predicate("has:bed", "yes", "tag", "with bed"), collection, truth=truth, label="class")
    with pytest.raises(ShiftBenchError, match="the prediction of each item, which is not known"):
        holds(Predicate("prediction", "cat", "prediction", "prediction is cat"), collection)
    with pytest.raises(ShiftBenchError, match="needs numbers in 'city'"):
        holds(Predicate("city", "", "number", "city from 1", 1.0), collection)


def test_the_label_is_known_by_its_own_name():
    """Whatever kind asks for it; another column of a kind that is about labels is read as it is."""
    collection, truth, _ = everything()
    for kind in ("label", "factor"):
        mask = holds(Predicate("class", "cat", kind, "class is cat"), collection, truth=truth, label="class")
        assert np.array_equal(mask, truth == "cat")
    oslo = holds(Predicate("city", "Oslo", "label", "city is Oslo"), collection, truth=truth, label="class")
    assert np.array_equal(oslo, collection.factors["city"] == "Oslo")
    pets = holds(Predicate("class", "pet", "class", "class is a kind of pet"), collection, truth=truth, label="class")
    assert np.array_equal(pets, np.isin(truth, ["cat", "dog"]))


def test_contexts_come_back_from_their_file(tmp_path):
    """Any text and any number, infinite ends too; a name that the user gave stands before what the context says."""
    contexts = (Context((Predicate(EVIL, EVIL, "factor", f"{EVIL} is {EVIL}"),
                         Predicate("age", "30 or more", "number", "age is 30 or more", 30.0)), 0.1 + 0.2, 312, EVIL),
                Context((Predicate("x", "1e400", "factor", "x is 1e400"),)))
    path = write_contexts(tmp_path / "saved.toml", "error", contexts)
    loss, loaded = load_contexts(path)
    assert loss == "error"
    assert loaded[0] == contexts[0]
    assert loaded[1].members == contexts[1].members
    assert math.isnan(loaded[1].loss)
    assert loaded[0].name.startswith(f"{EVIL} ({EVIL} is")


def test_every_predicate_of_an_audit_comes_back_in_its_own_words(tmp_path):
    """The file has no words: they are made of column, kind, value and ends, for every kind."""
    collection, truth, _ = everything()
    loss = np.random.default_rng(1).random(len(collection))
    predicates = predicates_of(collection, loss=loss, explore=np.arange(len(collection)) % 2 == 0, truth=truth,
                               label="class", least=5)
    communities = Predicate("which:community=bed+lamp", "community", "factor", "with any of bed, lamp")
    listed = [Context((predicate,)) for predicate in (*predicates.list, communities)]
    path = write_contexts(tmp_path / "saved.toml", "error", listed)
    assert "words =" not in path.read_text()
    assert [context.members for context in load_contexts(path)[1]] == [context.members for context in listed]


HAND = """
[[context]]
{name}
loss = 0.2
[[context.predicate]]
column = "light"
kind = "factor"
value = "day"
{words}
[[context.predicate]]
column = "age"
kind = "number"
low = 30
high = 60
"""


@pytest.mark.parametrize(("name", "words", "shown"), [
    ("", "", "light is day and age is from 30 to under 60"),
    ("", 'words = "light is night"', "light is day and age is from 30 to under 60"),
    ('name = "light is night and "', 'words = "light is night"', "light is day and age is from 30 to under 60"),
    ('name = "light is day and age is from 30 to under 60"', "", "light is day and age is from 30 to under 60"),
    ('name = "by day"', 'words = "light is night"', "by day (light is day and age is from 30 to under 60)"),
])
def test_a_context_goes_by_what_its_predicates_say(tmp_path, name, words, shown):
    """Words need not be written; old ones, also in the name that `keep` once wrote, do not outlive an edit."""
    path = tmp_path / "hand.toml"
    path.write_text(HAND.format(name=name, words=words))
    assert load_contexts(path)[1][0].name == shown


@pytest.mark.parametrize(("text", "message"), [
    ("[[context]]\nname = 'x'", "has no \\[\\[context.predicate\\]\\]"),
    ("contexts = 1", "Did you mean 'context'"), ("[context]\nname = 'x'", "contexts are tables"),
    ("loss = 3", "'loss' is 3"), ("[[context]]\nnam = 'x'", "Did you mean 'name'"),
    ("[[context]]\n[[context.predicate]]\ncolumn = 'a'\nvalue = 3\nkind = 'factor'\nwords = 'a'", "'value' is 3"),
    ("[[context]]\nloss = 'high'\n[[context.predicate]]\ncolumn = 'a'", "'loss' must be a number"),
    ("format = 'shiftbench study'", "not a file of contexts"),
    ("[[context]]\n[[context.predicate]]\ncolumn = 'a'", "'value' is missing"),
    ("[[context]]\n[[context.predicate]]\ncolumn = 'a'\nvalue = 'b'\nkind = 'facotr'", "Did you mean 'factor'"),
    ("[[context]]\n[[context.predicate]]\ncolumn = 'has:a'\nvalue = 'true'\nkind = 'tag'", "is yes or no"),
    ("[[context]]\nname = 3\n[[context.predicate]]\ncolumn = 'a'", "'name' a text"),
])
def test_a_file_that_is_wrong_says_where(tmp_path, text, message):
    path = tmp_path / "saved.toml"
    path.write_text(text)
    with pytest.raises(ShiftBenchError, match=message):
        load_contexts(path)


def test_findings_are_added_and_what_is_kept_stays(tmp_path):
    """A second audit adds what is new; a context that is in the file keeps the loss at which it was found."""
    night, oslo = (Predicate(column, value, "factor", f"{column} is {value}")
                   for column, value in (("light", "night"), ("city", "Oslo")))
    path = tmp_path / "saved.toml"
    assert keep(audit(finding(night)), path) == 1
    assert keep(audit(finding(night, loss=0.9), finding(oslo, night)), path) == 1
    assert keep(audit(finding(night, oslo)), path) == 0  # the same conjunction in another order
    loss, contexts = load_contexts(path)
    assert [context.loss for context in contexts] == [0.4, 0.4]
    assert loss == "error"
    with pytest.raises(ShiftBenchError, match="another file"):
        keep(audit(finding(night), loss="nll"), path)


def test_a_finding_about_what_the_model_says_is_not_kept(tmp_path):
    """For another model these would be other items."""
    said = Predicate("prediction", "cat", "prediction", "prediction is cat")
    assert keep(audit(finding(said)), tmp_path / "saved.toml") == 0


def test_the_change_of_a_loss_is_not_kept_as_its_level(tmp_path):
    """Findings of an audit against an old model are contexts to compare in, without a level."""
    night = Predicate("light", "night", "factor", "light is night")
    keep(audit(finding(night), against="old.csv"), tmp_path / "saved.toml")
    assert math.isnan(load_contexts(tmp_path / "saved.toml")[1][0].loss)
