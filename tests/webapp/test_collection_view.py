"""What the view of a collection shows: every count is what the filter gives, and any name is only a name."""

import json

import numpy as np
import pytest

from shiftbench.auditing.contexts import inside
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.webapp.coded_columns import coded
from shiftbench.webapp.collection_view import warm
from shiftbench.webapp.item_view import draw
from shiftbench.webapp.server import ANSWERS
from shiftbench.webapp.shelf import Memory, Shelf
from shiftbench.webapp.studio import Query, Studio

N = 600
HOSTILE = ("<img src=x onerror=alert(1)>", "\"quoted' & `more`", "\u202eright to left", "a\nb\tc", "x" * 4000,
           "</script>", "../../etc/passwd", "%2e%2e%2f", "?token=&a#b", " ", "🦓", "has:dog", "javascript:alert(1)",
           "null")


def all_kinds():
    """A collection with every kind of column: words, gaps, few and many numbers, dates, texts, tags, a hierarchy."""
    rng = np.random.default_rng(0)
    breed = rng.choice(["pug", "poodle", "tabby", "van", ""], N, p=[0.3, 0.2, 0.2, 0.2, 0.1])
    speed = rng.lognormal(3, 1, N).round(3)
    speed[::17] = np.nan
    item, tag = rng.integers(0, N, 2000), rng.integers(0, 5, 2000)
    day = np.datetime64("2019-01-01") + rng.integers(0, 1500, N)
    return Collection(
        "kinds", np.asarray([f"i{number}" for number in range(N)]),
        {"breed": breed, "speed": speed, "wheels": rng.integers(0, 5, N), "age": rng.integers(0, 90, N),
         "share": rng.choice([0.1, 0.5, np.nan], N), "taken": day.astype(str), "wet": rng.random(N) < 0.5,
         "place": rng.choice([f"town {number}" for number in range(70)], N),
         "note": np.asarray([f"a long note about number {number} of them all" for number in range(N)])},
        Tags.of(item, tag, ("pug", "dog", "sofa", "grass", "grass"), ("object", "object", "object", "stuff", "place"),
                area=rng.choice([0.02, 0.1, 0.31, np.nan], 2000)),
        Texts(np.arange(N), np.asarray([f"A {word} Dog_house {row % 3}." for row, word in enumerate(breed)], object)),
        parents={"pug": ("dog",), "poodle": ("dog",), "dog": ("animal",), "tabby": ("animal",), "animal": ("thing",),
                 "van": ("thing",), "sofa": ("thing",)})


def hostile():
    """A collection in which ids, names of factors, values, tags and texts are all meant to break a page."""
    n = len(HOSTILE)
    names = np.asarray(HOSTILE)
    return Collection(
        "<script>alert('name')</script>", names,
        {name: np.roll(names, number) for number, name in enumerate(HOSTILE[:6])},
        Tags.of(np.arange(n), np.arange(n), HOSTILE), Texts(np.arange(n), names.astype(object)),
        parents={HOSTILE[0]: (HOSTILE[1],), HOSTILE[2]: (HOSTILE[1],)},
        pixels=np.zeros((n, 8, 8, 3), np.uint8))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collections")
    all_kinds().save(folder / "kinds")
    hostile().save(folder / "hostile")
    return Shelf([folder])


@pytest.fixture(scope="module")
def asked(shelf):
    """What the studio answers: asked("counts", on="kinds")."""
    studio = Studio(shelf)
    return lambda name, **state: ANSWERS[name](studio, Query(
        {key: value if isinstance(value, str) else json.dumps(value) for key, value in state.items()}))


def listed(answer):
    """Every value, class and tag of a panel."""
    for column in answer["columns"]:
        yield from column["values"]
        yield from column["classes"]
    for kind in answer["tags"]:
        yield from kind["values"]


def predicates(facts):
    return Query({"where": json.dumps(facts)}).where()


FILTERS = [
    [], [{"column": "breed", "value": "pug", "kind": "factor", "words": "breed is pug"}],
    [{"column": "speed", "value": "", "kind": "number", "words": "fast", "low": 20.0},
     {"column": "has:dog", "value": "yes", "kind": "tag", "words": "with dog"}],
    [{"column": "text", "value": "dog", "kind": "word", "words": "text has the word “dog”"}],
    [{"column": "breed", "value": "", "kind": "missing", "words": "breed is missing"}],
]


@pytest.mark.parametrize("where", FILTERS, ids=lambda where: " and ".join(entry["words"] for entry in where) or "all")
def test_every_count_is_the_number_of_items_that_a_click_gives(asked, shelf, where):
    """The count beside a value is that of the items which fulfil the filter and the value's predicate."""
    items = shelf.collection("kinds")
    answer = asked("counts", on="kinds", where=where, more=["area:sofa", "has:pug", "month:taken"])
    entries = list(listed(answer))
    assert len(entries) > 60
    for entry in entries:
        mask = inside(predicates([*where, entry["is"]]), items)
        assert entry["n"] == np.count_nonzero(mask), entry
        assert entry["all"] == np.count_nonzero(inside(predicates([entry["is"]]), items)), entry
        assert entry["is"]["words"]
    assert answer["n"] == np.count_nonzero(inside(predicates(where), items))


def test_counts_are_those_of_numpy(asked, shelf):
    """Values, gaps and bins of a column share out all items."""
    columns = {column["name"]: column for column in asked("counts", on="kinds")["columns"]}
    factors = shelf.collection("kinds").factors
    assert {name: column["shape"] for name, column in columns.items()} == {
        "breed": "values", "speed": "bins", "wheels": "values", "age": "bins", "share": "values", "taken": "bins",
        "wet": "values", "place": "values", "note": "text"}
    names, counts = np.unique(factors["breed"], return_counts=True)
    assert {entry["name"]: entry["n"] for entry in columns["breed"]["values"]} == dict(zip(
        [name or "missing" for name in names.tolist()], counts.tolist(), strict=True))
    for name in ("breed", "speed", "wheels", "age", "share", "taken", "wet"):
        assert sum(entry["n"] for entry in columns[name]["values"]) == N
    assert [entry["name"] for entry in columns["wheels"]["values"]] == list("01234")
    assert len(columns["place"]["values"]) == 50
    assert columns["place"]["many"] == 70
    assert [entry["name"] for entry in asked("values", on="kinds", column="place", find="WN 7")["values"]].count(
        "town 7") == 1


@pytest.mark.parametrize(("a", "b"), [("breed", "wheels"), ("speed", "taken"), ("place", "has:dog"), ("age", "share")])
def test_a_cross_table_counts_pairs(asked, shelf, a, b):
    """Each cell is the number of items with both values, and the sides are the sums of the cells."""
    items, where = shelf.collection("kinds"), FILTERS[3]
    table = asked("cross", on="kinds", where=where, a=a, b=b)
    cells = np.asarray(table["cells"])
    assert cells.sum() == table["n"] == np.count_nonzero(inside(predicates(where), items))
    assert cells.sum(axis=1).tolist() == [row["n"] for row in table["rows"]]
    assert cells.sum(axis=0).tolist() == [column["n"] for column in table["columns"]]
    for row, line in zip(table["rows"], table["cells"], strict=True):
        for column, n in zip(table["columns"], line, strict=True):
            if row["is"] and column["is"]:
                assert n == np.count_nonzero(inside(predicates([*where, row["is"], column["is"]]), items))


@pytest.mark.parametrize("order", [{}, {"mixed": "1"}, {"order": "speed"}, {"order": "speed", "down": "1"},
                                   {"order": "breed"}, {"order": "taken", "down": "1"}, {"order": "area:sofa"}])
def test_pages_share_out_the_items_of_a_filter(asked, shelf, order):
    """Pages of any length hold every item once, in one order, with missing values last."""
    items, where = shelf.collection("kinds"), FILTERS[2]
    pages = [asked("items", on="kinds", where=where, many=many, **{"from": str(start)}, **order)["items"]
             for many, start in ((7, number) for number in range(0, N, 7))]
    rows = [entry["row"] for page in pages for entry in page]
    assert sorted(rows) == np.flatnonzero(inside(predicates(where), items)).tolist()
    assert rows == [entry["row"] for entry in asked("items", on="kinds", where=where, many=1000, **order)["items"]]
    if "order" in order:
        values = items.factor(order["order"])[rows]
        known = values[~np.isnan(values)] if values.dtype.kind == "f" else values[values != ""]
        assert (values[:len(known)] == known).all()
        assert (np.sort(known)[::-1 if "down" in order else 1] == known).all()


def test_colours_go_to_the_most_frequent(asked):
    """Each item has the colour that the legend gives to its value."""
    legend = {entry["name"]: entry["colour"] for entry in asked("legend", on="kinds", colour="breed")["entries"]}
    assert len(set(legend.values())) == 5
    for entry in asked("items", on="kinds", colour="breed")["items"]:
        assert entry["mark"] == legend[entry["label"].split(".")[0].split()[1] if entry["note"] else "missing"]
    assert len(asked("legend", on="kinds", colour="place")["entries"]) == 8
    bins = asked("legend", on="kinds", colour="speed")
    assert len({entry["colour"] for entry in bins["ramp"]}) == len(bins["ramp"]) > 5
    assert [entry["name"] for entry in bins["entries"]] == ["missing"]


@pytest.mark.parametrize("written", [
    {"column": "text", "word": "Dog_house"}, {"column": "note", "word": "number 7"}, {"column": "note", "value": "x"},
    {"column": "speed", "low": "5", "high": "20.5"}, {"column": "age", "high": "30"},
    {"column": "taken", "low": "2020-02", "high": "2021-03-04"}, {"column": "area:sofa", "low": "0.05"}])
def test_what_a_person_writes_becomes_a_predicate(asked, shelf, written):
    """The predicate has its words from the server, and says how many items fulfil it."""
    answer = asked("predicate", on="kinds", **written)
    (predicate,) = predicates([answer["is"]])
    assert isinstance(predicate, Predicate)
    assert written["column"].removeprefix("area:") in predicate.words
    assert answer["n"] == np.count_nonzero(inside([predicate], shelf.collection("kinds")))
    assert (answer["n"] > 0) == ("value" not in written)


@pytest.mark.parametrize(("name", "state", "words"), [
    ("counts", {"on": "nowhere"}, "No collection named 'nowhere'"),
    ("counts", {"on": "../kinds"}, "No collection named"),
    ("counts", {"on": "kinds", "where": "[{"}, "'where' cannot be read"),
    ("counts", {"on": "kinds", "where": [{"column": "hue", "value": "red", "kind": "factor", "words": "w"}]}, "'hue'"),
    ("counts", {"on": "kinds", "where": [{"column": "x", "value": "a", "kind": "prediction", "words": "w"}]}, "known"),
    ("counts", {"on": "kinds", "more": ["area:cat"]}, "No tag named 'cat'"),
    ("counts", {"on": "kinds", "more": "7"}, "'more' cannot be read"),
    ("items", {"on": "kinds", "order": "hue"}, "No factor named 'hue'"),
    ("items", {"on": "kinds", "from": "first"}, "'from' is 'first'"),
    ("legend", {"on": "kinds", "colour": "note"}, "has no colours"),
    ("items", {"on": "kinds", "colour": "note"}, "has no colours"),
    ("cross", {"on": "kinds", "a": "breed", "b": "note"}, "side of a cross table"),
    ("cross", {"on": "kinds", "a": "breed"}, "No factor named ''"),
    ("predicate", {"on": "kinds", "column": "speed", "low": "9", "high": "3"}, "is empty"),
    ("predicate", {"on": "kinds", "column": "speed", "low": "nan"}, "must be a number"),
    ("predicate", {"on": "kinds", "column": "breed", "low": "1"}, "no numbers"),
    ("predicate", {"on": "kinds", "column": "taken", "low": "soon"}, "no date"),
    ("predicate", {"on": "kinds", "column": "hue", "word": "x"}, "No text named 'hue'"),
    ("item", {"on": "kinds", "row": "600"}, "not among the 600 items"),
    ("item", {"on": "kinds", "id": "nobody"}, "no item 'nobody'"),
    ("thumbnail", {"on": "kinds", "row": "1"}, "has no images"),
    ("thumbnail", {"on": "hostile", "row": "-1"}, "not among"),
])
def test_wrong_input_is_one_sentence(asked, name, state, words):
    """What cannot be answered is an error of one line that names it."""
    with pytest.raises(ShiftBenchError, match=words) as problem:
        asked(name, **state)
    assert "\n" not in str(problem.value)


def test_names_from_data_are_only_names(asked, shelf):
    """Every hostile id, value and tag can be shown, filtered by and opened, and comes out as it went in."""
    items = shelf.collection("hostile")
    answer = asked("counts", on="hostile")
    for entry in listed(answer):
        assert entry["n"] == np.count_nonzero(inside(predicates([entry["is"]]), items)), entry
    assert [entry["id"] for entry in asked("items", on="hostile")["items"]] == list(HOSTILE)
    for row, id in enumerate(HOSTILE):
        item = asked("item", on="hostile", id=id)
        assert (item["row"], item["id"], item["texts"]) == (row, id, [id])
        assert asked("cross", on="hostile", a=HOSTILE[0], b=HOSTILE[1])["n"] == len(HOSTILE)
    assert "--where '[" in asked("counts", on="hostile", where=[answer["columns"][0]["values"][0]["is"]])["command"]


def test_pictures_keep_their_proportions_and_their_room(tmp_path):
    """A thumbnail is no larger than asked for, and the oldest are dropped when there are too many bytes."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (30, 60, 200, 3)).astype(np.uint8)
    wide = Collection("wide", np.arange(30).astype(str), pixels=pixels)
    kept = Memory(50_000, len)
    for row in (0, *range(30), 29):
        body = kept.get(row, lambda row=row: draw(wide, row, 128))
        (tmp_path / "picture.webp").write_bytes(body)
        with Image.open(tmp_path / "picture.webp") as picture:
            assert (picture.format, picture.size) == ("WEBP", (128, 38))
        assert kept.used <= 50_000
    assert kept.get(29, lambda: draw(wide, 29, 128)) is body


def test_what_is_kept_is_bounded():
    """The values that were not asked for longest go first; one that is larger than the room is still given."""
    kept = Memory(10, lambda value: 4 if isinstance(value, int) else len(value))
    assert [kept.get(key, lambda key=key: key * 2) for key in (1, 2, 1, 3)] == [2, 4, 2, 6]
    assert kept.used == 8
    assert kept.get(1, lambda: "kept") == 2
    assert kept.get(2, lambda: "again") == "again"
    assert kept.get(9, lambda: "larger than all") == "larger than all"
    assert kept.used == len("larger than all")


@pytest.mark.parametrize("alone", [False, True])
def test_what_has_changed_is_computed_again(alone):
    """A value is kept under its stamp; under another it is replaced, and the room it took is free."""
    kept = Memory(10, len, alone=alone)
    assert [kept.get("file", lambda text=text: text, stamp) for text, stamp in (
        ("old", 1), ("unread", 1), ("newer", 2))] == ["old", "old", "newer"]
    assert kept.used == len("newer")
    kept.forget()
    assert kept.get("file", lambda: "read", 2) == "read"


def test_the_first_collection_is_ready_before_it_is_asked_for(shelf, tmp_path):
    """A warm studio has loaded and coded it; an empty folder is left to the page."""
    studio = Studio(Shelf(shelf.folders))
    warm(studio)
    assert coded(studio.shelf.collection("hostile"))._columns.used > 0
    warm(Studio(Shelf([tmp_path])))


def test_codes_are_made_once(shelf):
    """Two requests for a loaded collection share its codes; a collection that was replaced has others."""
    items = shelf.collection("kinds")
    assert coded(items) is coded(items)
    assert coded(items).column("breed") is coded(items).column("breed")
    assert coded(items).mask(predicates(FILTERS[1])) is coded(items).mask(predicates(FILTERS[1]))
    assert coded(all_kinds()) is not coded(items)
