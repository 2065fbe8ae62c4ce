"""The shift designer: its tables are those of `build`, `check` and `power`, for every shift and a user's own."""

import json
import shutil
from dataclasses import dataclass

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.data.benchmark import Benchmark
from shiftbench.shifts import SHIFTS
from shiftbench.shifts.recipe import Recipe, Tables, to_text
from shiftbench.webapp.design_view import build_recipe, design, save_recipe
from shiftbench.webapp.forms import comments
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Query, Studio

ON = "collections/scenes"
MINORITY = {"label": "class", "factor": "location", "majority": {"cat": "indoors", "dog": "outdoors"}, "p": 0.2}


@pytest.fixture
def writable(world, tmp_path):
    """A studio that may write, over a folder that has the world's collection and recipe."""
    for part in ("collections", "recipes"):
        shutil.copytree(world / part, tmp_path / "work" / part)
    return Studio(Shelf([tmp_path / "work"]), edit=True)


def ask(studio, **state):
    return design(studio, Query({"on": ON, **{key: value if isinstance(value, str) else json.dumps(value)
                                              for key, value in state.items()}}))


def counts(built):
    return {split: {group: n for group, n in zip(built["groups"], numbers, strict=True) if n}
            for split, numbers in built["counts"].items()}


def field(answer, name):
    return next(one for one in answer["fields"] if one["name"] == name)


def test_the_table_is_that_of_the_build(shown, scenes):
    """Counts, findings, power and digest equal those of the benchmark that the same settings build, at every p."""
    for p in (0.0, 0.05, 0.5):
        answer = ask(shown, shift="subpopulation", settings=MINORITY | {"p": p}, seed=2)
        benchmark = sb.build(sb.Subpopulation(**(MINORITY | {"p": p})), collection=scenes, seed=2)
        built = answer["built"]
        assert counts(built) == benchmark.counts()
        assert (built["digest"], built["rows"]) == (benchmark.digest, len(benchmark))
        assert built["power"] == sb.power(benchmark)
        assert built["findings"] == [finding._asdict() for finding in sb.check(benchmark)]


def test_conditions_are_part_of_what_is_built(shown, scenes):
    """Label noise and a smaller training set, as in a recipe; None takes a condition away."""
    asked = {"noise": {"p": 0.25}, "size": {"n": 50}}
    answer = ask(shown, shift="subpopulation", settings=MINORITY, conditions=asked)
    shift = sb.Under(sb.Subpopulation(**MINORITY), (sb.Noise(0.25), sb.Size(50)))
    assert answer["built"]["digest"] == sb.build(shift, collection=scenes).digest
    assert [one["name"] for one in answer["conditions"] if one["on"]] == ["noise", "size"]
    bare = ask(shown, shift="subpopulation", settings=MINORITY, conditions={"noise": None})
    assert bare["built"]["digest"] == sb.build(sb.Subpopulation(**MINORITY), collection=scenes).digest


@pytest.mark.parametrize("name", sorted(SHIFTS))
def test_every_shift_has_a_form_that_starts(shown, name):
    """A first choice of label, factor and values builds something, or an invitation says what to choose."""
    answer = ask(shown, shift=name)
    assert {one["name"] for one in answer["fields"]} >= {one for one in ("label", "factor", "domain") if hasattr(
        SHIFTS[name], "__dataclass_fields__") and one in SHIFTS[name].__dataclass_fields__}
    assert answer["built"]["problem"] == ""  # nothing was done that could be wrong
    if name in ("context", "subset", "temporal"):  # a tag without a cue; no subsets; no dates
        assert answer["built"]["invitation"].startswith("Choose ")
    else:
        assert answer["built"]["counts"]["test"]
    assert all(one["doc"] for one in answer["fields"] if one["kind"] in ("words", "table"))


def test_an_invitation_names_what_is_missing(shown):
    """It says which settings have no value; once a person has chosen something, what is wrong is said as such."""
    assert "‘train’" in ask(shown, shift="subset")["built"]["invitation"]
    assert "meta-graph" in ask(shown, shift="subset")["built"]["invitation"]
    assert "‘date’ (factor that holds" in ask(shown, shift="temporal")["built"]["invitation"]
    assert "has no cue" in ask(shown, shift="context")["built"]["invitation"]
    assert "'test' is missing" in ask(shown, shift="subset", settings={"train": ["dog(sofa)"]})["built"]["problem"]
    assert "No factor named ''" in ask(shown, shift="temporal", settings={"held": 0.2})["built"]["problem"]


@pytest.mark.parametrize(("shift", "name", "value", "words"), [
    ("correlation", "classes", 3, "a list of words"), ("correlation", "classes", [None], "a list of words"),
    ("correlation", "classes", {"a": 1}, "a list of words"), ("subset", "train", [["a"]], "a list of words"),
    ("correlation", "pairs", 3, "a table"), ("correlation", "pairs", ["a"], "a table"),
    ("subpopulation", "majority", True, "a table"), ("subset", "merged", 1.5, "a table")])
def test_settings_of_another_shape_are_one_sentence(shown, shift, name, value, words):
    """A number where a list or a table is meant is the user's error, and the sentence names it."""
    with pytest.raises(ShiftBenchError, match=rf"'{name}' is .*, but it must be {words}\."):
        ask(shown, shift=shift, settings={name: value})


def test_settings_that_the_shift_refuses_are_its_own_sentence(shown):
    """What has the shape of a setting, but is none, leaves the form there to correct it."""
    for settings in ({"classes": [1, 2]}, {"classes": "cat"}, {"pairs": {"cat": 3}}):
        answer = ask(shown, shift="correlation", settings=settings)
        assert answer["built"]["problem"]
        assert answer["fields"]


def test_conditions_of_another_shape_are_one_sentence(shown):
    """Each condition is a table, or null where it is taken away."""
    for value in (3, [], {"noise": 3}, {"noise": [1]}, {"size": "x"}):
        with pytest.raises(ShiftBenchError, match="'conditions' cannot be read"):
            ask(shown, shift="correlation", conditions=value)
    assert "must be of type" in ask(shown, conditions={"noise": {"p": "x"}})["built"]["problem"]


def test_what_is_impossible_is_the_sentence_of_the_build(shown, scenes):
    """More items than a group has, a share of 1.5, an unknown class: the page shows what `build` would say."""
    for change in ({"n_train": 9000}, {"p": 1.5}, {"majority": {"cat": "indoors", "unicorn": "outdoors"}}):
        answer = ask(shown, shift="subpopulation", settings=MINORITY | change)
        with pytest.raises(ShiftBenchError) as problem:
            sb.build(sb.Subpopulation(**(MINORITY | change)), collection=scenes)
        assert answer["built"] == {"problem": str(problem.value)}
    wrong = ask(shown, shift="subpopulation", settings=MINORITY | {"p": "much"})
    assert "must be of type float" in wrong["built"]["problem"]
    assert wrong["fields"]


def test_a_form_says_what_each_setting_is(shown):
    """Type, comment and choices of a field become dial, help text and options; values follow the chosen factor."""
    answer = ask(shown, shift="subpopulation", settings=MINORITY | {"factor": "weather", "majority": {}})
    assert "'majority' names no class" in answer["built"]["problem"]
    assert (field(answer, "p")["kind"], field(answer, "n_train")["kind"]) == ("share", "whole")
    assert field(answer, "n_train")["doc"] == "0: as many as the cells allow"
    assert "sunny" in field(answer, "values")["options"]
    assert field(answer, "majority")["keys"][:2] == ("bear", "bird")
    assert field(answer, "label")["options"][0] == "class"
    assert comments(SHIFTS["low_data"])["classes"].startswith("label values to keep")  # of the class above it


def test_a_shift_of_the_users_own_gets_a_form(shown, scenes):
    """A registered dataclass is in the list, has inputs by its types, and its recipe is built like any other."""
    @dataclass(frozen=True)
    class Halves:
        """The first share of the items trains, the rest tests."""

        label: str
        cut: float = 0.5  # share that trains
        turn: bool = False
        only: tuple[str, ...] = ()  # label values to keep

        def build(self, collection, seed=0):
            values = collection.factor(self.label).astype(np.str_)
            rows = np.flatnonzero(np.isin(values, self.only)) if self.only else np.arange(len(collection))
            first = (np.arange(len(rows)) < self.cut * len(rows)) != self.turn
            return Benchmark.of(collection, self, seed, rows, np.where(first, "train", "test"), label=values[rows],
                                domain=np.full(len(rows), "all"))

    register(SHIFTS, "halves")(Halves)
    try:
        answer = ask(shown, shift="halves", settings={"cut": 0.25, "only": ["cat", "dog"]})
        assert ["halves", "The first share of the items trains, the rest tests."] in answer["shifts"]
        assert [(one["name"], one["kind"]) for one in answer["fields"]] == [
            ("label", "choice"), ("cut", "share"), ("turn", "yes"), ("only", "words")]
        assert field(answer, "only")["options"] == field(ask(shown, shift="correlation"), "classes")["options"]
        expected = sb.build(Halves("class", 0.25, only=("cat", "dog")), collection=scenes)
        assert answer["built"]["digest"] == expected.digest
    finally:
        del SHIFTS["halves"]
        SHIFTS.owners.pop("halves", None)


def test_a_recipe_of_the_shelf_opens_as_it_is(shown, world):
    """Opened, a recipe builds what it builds on disk; a change of one setting keeps the others."""
    opened = design(shown, Query({"recipe": "recipes/minority.toml"}))
    assert opened["on"] == ON
    assert opened["built"]["digest"] == Benchmark.load(world / "benchmarks/minority").digest
    changed = design(shown, Query({"recipe": "recipes/minority.toml",
                                   "settings": json.dumps(opened["settings"] | {"p": 0.3})}))
    expected = sb.build(world / "recipes/minority.toml", changes={"p": 0.3})
    assert changed["built"]["digest"] == expected.digest


def test_a_saved_design_builds_to_the_same_digest(writable):
    """From dials to TOML to a benchmark, with odd words in names and conditions in order."""
    answer = ask(writable, shift="spurious", seed=5, conditions={"noise": {"p": 0.1}}, settings={
        "label": "class", "factor": "location", "classes": ["cat", "dog"], "n_uncorrelated": 12})
    name = "drüben (2)+a"
    saved = save_recipe(writable, {"name": name, "on": ON, "shift": "spurious", "settings": answer["settings"],
                                   "conditions": answer["chosen"], "seed": 5})
    built = build_recipe(writable, {"recipe": saved["recipe"]})
    folder = writable.shelf.folders[0]
    assert built["benchmarks"][0]["digest"] == answer["built"]["digest"]
    assert sb.build(folder / f"recipes/{name}.toml").digest == answer["built"]["digest"]
    assert Benchmark.load(folder / f"benchmarks/{name}").digest == answer["built"]["digest"]


def test_one_recipe_may_build_several_benchmarks(writable):
    """leave_one_domain_out without a domain is one benchmark per value, below a folder of the recipe's name."""
    settings = {"label": "class", "domain": "location", "test": []}
    answer = ask(writable, shift="leave_one_domain_out", settings=settings)
    assert answer["built"]["several"]
    saved = save_recipe(writable, {"name": "each", "on": ON, "shift": "leave_one_domain_out", "settings": settings})
    built = build_recipe(writable, {"recipe": saved["recipe"]})
    assert [one["id"] for one in built["benchmarks"]] == [
        "benchmarks/each/location-indoors", "benchmarks/each/location-outdoors"]


@pytest.mark.parametrize(("shift", "name"), [
    ("breeds", "hierarchy"), ("breeds", "edits"), ("context", "lists"), ("context", "split"), ("context", "encoder")])
def test_a_page_names_no_file(shown, writable, tmp_path, shift, name):
    """Settings that name files are those of the recipe on disk: an address or a request cannot open one."""
    secret = tmp_path / "secret.txt"
    secret.write_text("1\n")
    settings = {"label": "dog", "criterion": "gist"} if shift == "context" else {"label": "class"}
    with pytest.raises(ShiftBenchError, match="names a file"):
        ask(shown, shift=shift, settings=settings | {name: str(secret)})
    with pytest.raises(ShiftBenchError, match="names a file"):
        save_recipe(writable, {"name": "x", "on": ON, "shift": shift, "settings": settings | {name: str(secret)}})


def test_hostile_words_stay_words(shown, tmp_path):
    """Quotes, brackets, control signs and markup in names go into TOML and come back as they were."""
    words = ['a"b', "c\\d", "<script>alert(1)</script>", "[x]\n= 1", "\t\x7f", "ü + é", "'''", "# no comment"]
    shift = sb.Subpopulation("class\n[shift]", 'fac"tor', {word: words[-1 - k] for k, word in enumerate(words)},
                             values=tuple(words))
    (tmp_path / "r.toml").write_text(to_text(shift, tmp_path / 'odd "folder"', 3), encoding="utf-8")
    loaded = Recipe.load(tmp_path / "r.toml")
    assert (loaded.shift, loaded.seed, loaded.collection) == (shift, 3, tmp_path / 'odd "folder"')
    assert Tables.of(loaded.shift).settings["values"] == tuple(words)
    answer = ask(shown, shift="subpopulation", settings=MINORITY | {"majority": {words[2]: words[2]}})
    assert words[2] in answer["built"]["problem"]
    with pytest.raises(ShiftBenchError, match="cannot be read"):
        design(shown, Query({"on": ON, "settings": "[1, 2]"}))
