"""A context that is kept means the same items wherever it is read."""

import math

import numpy as np
import pytest

from shiftbench.auditing.contexts import Context, build_finding, inside, keep, load_contexts, write_contexts
from shiftbench.auditing.findings import Audit, Finding
from shiftbench.auditing.predicates import Predicate
from shiftbench.auditing.vocabulary import predicates_of
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark, check_origin
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
        mask = inside([predicate], collection, truth=truth, predicted=predicted)
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
            inside([Predicate("citi", "cat", kind, "citi is cat")], collection, truth=truth, label="class")
    with pytest.raises(ShiftBenchError, match=r"^Context 'with bed': No tag named 'bed'"):
        inside([Predicate("has:bed", "yes", "tag", "with bed")], collection, truth=truth, label="class")
    with pytest.raises(ShiftBenchError, match="the prediction of each item, which is not known"):
        inside([Predicate("prediction", "cat", "prediction", "prediction is cat")], collection)
    with pytest.raises(ShiftBenchError, match="needs numbers in 'city'"):
        inside([Predicate("city", "", "number", "city from 1", 1.0)], collection)


def test_the_label_is_known_by_its_own_name():
    """Whatever kind asks for it; another column of a kind that is about labels is read as it is."""
    collection, truth, _ = everything()
    for kind in ("label", "factor"):
        mask = inside([Predicate("class", "cat", kind, "class is cat")], collection, truth=truth, label="class")
        assert np.array_equal(mask, truth == "cat")
    oslo = inside([Predicate("city", "Oslo", "label", "city is Oslo")], collection, truth=truth, label="class")
    assert np.array_equal(oslo, collection.factors["city"] == "Oslo")
    kind = Predicate("class", "pet", "class", "class is a kind of pet")
    pets = inside([kind], collection, truth=truth, label="class")
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


@pytest.mark.parametrize(("fields", "predicate"), [
    ("column = 'has:dog'\nvalue = 'yes'\nkind = 'factor'", Predicate("has:dog", "yes", "factor", "with dog")),
    ("column = 'has:dog'\nvalue = 'no'\nkind = 'label'", Predicate("has:dog", "no", "label", "without dog")),
    ("column = 'text'\nvalue = 'rain'\nkind = 'word'\nlow = 3", Predicate(
        "text", "rain", "word", "text has the word “rain”")),
    ("column = 'age'\nvalue = 'x'\nkind = 'missing'\nlow = 3", Predicate("age", "", "missing", "age is missing")),
    ("column = 'animal'\nvalue = 'pet'\nkind = 'class'\nhigh = 3", Predicate(
        "animal", "pet", "class", "animal is a kind of pet")),
    ("column = 'has:dog'\nvalue = 'yes'\nkind = 'area'\nlow = 0.5", Predicate(
        "area:dog", "at least 50 %", "area", "with dog on at least 50 % of the image", 0.5)),
])
def test_what_a_file_says_needlessly_does_not_change_its_predicate(tmp_path, fields, predicate):
    path = tmp_path / "hand.toml"
    path.write_text(f"[[context]]\n[[context.predicate]]\n{fields}\n")
    assert load_contexts(path)[1][0].members == (predicate,)


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
    ("[[context]]\n[[context.predicate]]\ncolumn = 'a'\nkind = 'date'\nlow = 1e300", "'low' is 1e\\+300 and 'high' is"),
    ("[[context]]\n[[context.predicate]]\ncolumn = 'a'\nkind = 'number'\nhigh = nan", "'high' is nan, but the ends"),
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


# A finding becomes a benchmark: training lacks the context, and the test sets it against others like it

NIGHT = Predicate("light", "night", "factor", "light is night")
OSLO = Predicate("city", "Oslo", "factor", "city is Oslo")
CAT = Predicate("class", "cat", "label", "class is cat")
SAID = Predicate("prediction", "dog", "prediction", "prediction is dog")


@pytest.fixture
def collection() -> Collection:
    rng = np.random.default_rng(0)
    n = 3000
    return Collection("street", np.arange(n).astype(str), {
        "class": rng.choice(["cat", "cow", "dog"], n), "light": rng.choice(["day", "night"], n, p=[0.7, 0.3]),
        "city": rng.choice(["Oslo", "Rome"], n)})


def found(*contexts: tuple[Predicate, ...]) -> Audit:
    numbers = [math.nan] * 13
    return Audit(tuple(Finding(members, 9, 9, 18, *numbers) for members in contexts), (),
                 {"loss": "error", "label": "class"})


def values(benchmark: Benchmark, collection: Collection, split: str, factor: str) -> np.ndarray:
    return collection.factor(factor)[collection.index(benchmark.items[benchmark.rows(split)])]


def context(benchmark: Benchmark, collection: Collection, split: str) -> np.ndarray:
    return ((values(benchmark, collection, split, "light") == "night")
            & (values(benchmark, collection, split, "city") == "Oslo"))


def test_training_has_no_item_of_the_context_and_the_test_as_many_as_others(collection):
    """Of every label the test has as many items in the context as outside of it."""
    benchmark = build_finding(found((OSLO,), (NIGHT, OSLO)), 2, collection)
    assert not context(benchmark, collection, "train").any()
    inside, label = context(benchmark, collection, "test"), values(benchmark, collection, "test", "class")
    counts = [((label == name) & (inside == side)).sum() for name in ("cat", "cow", "dog") for side in (True, False)]
    assert min(counts) > 20
    assert max(counts) - min(counts) <= 1
    assert benchmark.names["domain"] == ("elsewhere", "inside")
    assert benchmark.card["finding"]["context"] == "light is night and city is Oslo"


def test_with_n_low_training_has_a_few(collection):
    """Settings of the shift are those of a recipe."""
    benchmark = build_finding(found((NIGHT, OSLO)), 1, collection, changes={"n_low": 12})
    assert context(benchmark, collection, "train").sum() == 12
    assert benchmark.card["shift"] == "low_data"
    with pytest.raises(ShiftBenchError, match="No setting named 'n_lo'"):
        build_finding(found((NIGHT, OSLO)), 1, collection, changes={"n_lo": 12})


def test_a_context_of_one_label_is_a_correlation(collection):
    """Cats at night: training has cats by day alone, all but the few that are asked for, and dogs by day and night."""
    benchmark = build_finding(found((CAT, NIGHT)), 1, collection, changes={"n_uncorrelated": 5})
    night, label = (values(benchmark, collection, "train", factor) for factor in ("light", "class"))
    assert ((label == "cat") & (night == "night")).sum() == 5
    assert ((label == "dog") & (night == "night")).sum() > 50
    assert benchmark.card["shift"] == "spurious"


def test_the_benchmark_goes_with_the_collection_as_it_is(collection, tmp_path):
    """The context is in the rows, so that the collection needs no new factor; it can be saved and loaded."""
    benchmark = build_finding(found((NIGHT,)), 1, collection, seed=3)
    check_origin(benchmark, collection)
    benchmark.save(tmp_path / "night")
    assert Benchmark.load(tmp_path / "night") == benchmark
    assert build_finding(found((NIGHT,)), 1, collection, seed=3).digest == benchmark.digest


def test_labels_without_a_match_are_left_out_and_named(collection):
    """Cows are never seen at night: a test of matched items has none, one at random has."""
    light = np.where(collection.factors["class"] == "cow", "day", collection.factors["light"])
    indoors = Collection("street", collection.items, {**collection.factors, "light": light})
    benchmark = build_finding(found((NIGHT,)), 1, indoors)
    assert benchmark.names["label"] == ("cat", "dog")
    assert any("left out: cow" in note for note in benchmark.card["notes"])
    assert "cow" in build_finding(found((NIGHT,)), 1, indoors, changes={"balanced": False}).names["label"]
    assert build_finding(found((CAT, NIGHT)), 1, indoors).names["label"] == ("cat", "dog")
    with pytest.raises(ShiftBenchError, match="'n_low' is 'x'"):
        build_finding(found((NIGHT,)), 1, indoors, changes={"n_low": "x"})
    with pytest.raises(ShiftBenchError, match="Ask for fewer"):
        build_finding(found((NIGHT,)), 1, indoors, changes={"n_low": 2000})


def test_a_column_that_the_collection_lacks_is_never_taken_for_the_label(collection):
    """It is named with the context; the label itself may have another name in the collection."""
    town = Predicate("town", "cat", "factor", "town is cat")
    with pytest.raises(ShiftBenchError, match=r"Context 'light is night and town is cat': No column named 'town'"):
        build_finding(found((NIGHT, town)), 1, collection)
    renamed = Collection("street", collection.items, {
        "species" if name == "class" else name: values for name, values in collection.factors.items()})
    ours, theirs = (build_finding(found((CAT, NIGHT)), 1, one, label=label)
                    for one, label in ((collection, ""), (renamed, "species")))
    assert np.array_equal(ours.items, theirs.items)


def test_what_is_no_shift_is_refused(collection):
    """A finding that is not there, one about the label alone, and one about what a model says."""
    for members, number, message in (((NIGHT,), 2, "no finding 2"), ((CAT,), 1, "the label alone"),
                                     ((SAID, NIGHT), 1, "what the model says")):
        with pytest.raises(ShiftBenchError, match=message):
            build_finding(found(members), number, collection)
