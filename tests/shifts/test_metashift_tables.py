"""MetaShift's tables as the authors built them: merged subsets, their sizes, and distances among them."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags
from shiftbench.metagraph.graph import distance, mean_distance, merge_similar, merged_graph, meta_graph
from shiftbench.metagraph.subsets import subset, subset_name, union
from shiftbench.shifts import Subset
from shiftbench.shifts.metashift_tables import (
    ANIMALS,
    BY_OBJECTS,
    COCO_MINORITY,
    COCO_PLACES,
    COCO_SIZES,
    COMMUNITIES,
    EDGES,
    KINDS,
    MAJORITY,
    MINORITY,
    OTHER_PLACES,
    PLACES,
    TASKS,
    WORLD_COCO_MINORITY,
    WORLD_MINORITY,
    WORLD_MOVES,
    WORLD_PLACES,
    WORLD_STAYS,
)
from shiftbench.shifts.recipe import changed
from shiftbench.shifts.shift import ambiguous
from shiftbench.shifts.subset import ladder
from shiftbench.shifts.suites import suite

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "metashift" / "published_schemes.json"
CONTEXTS = sorted({context for name in (COMMUNITIES, PLACES) for contexts in name.values() for context in contexts})


def tagged(items: list[list[str]], kind: str = "object") -> Collection:
    """A collection whose items carry these tags."""
    names = sorted({name for own in items for name in own})
    pairs = [(row, names.index(name)) for row, own in enumerate(items) for name in set(own)]
    row, code = (np.asarray(column, np.int64) for column in zip(*pairs, strict=True))
    return Collection("photos", np.asarray([f"{k:05d}" for k in range(len(items))]),
                      tags=Tags.of(row, code, names, [kind] * len(names)))


@pytest.fixture(scope="module")
def photos() -> Collection:
    """Cats and dogs in one to three contexts each, now and then both; some of the other animals on grass."""
    rng = np.random.default_rng(0)
    items = []
    for number in range(9000):
        own = ["cat", "dog"] if number % 40 == 0 else [("cat", "dog")[number % 2]]
        scene = list(COMMUNITIES.values())[rng.integers(len(COMMUNITIES))]
        items.append([*own, *rng.choice(scene, min(len(scene), rng.integers(1, 4)), replace=False),
                      *rng.choice(CONTEXTS, rng.integers(0, 2))])
    items += [[animal, "grass", "fence"][:2 + number % 2] for animal in ANIMALS for number in range(400)]
    return tagged(items)


# The lists are facts


def test_the_lists_are_those_of_the_authors():
    """21 merged subsets of cats and dogs with 108 contexts, each called by one of its own but dog(vehicle)."""
    assert len(COMMUNITIES) == 21
    assert [sum(name.startswith(cls) for name in COMMUNITIES) for cls in ("cat(", "dog(")] == [8, 13]
    assert sum(map(len, COMMUNITIES.values())) == 108
    assert [name for name, contexts in COMMUNITIES.items() if name[4:-1] not in contexts] == ["dog(vehicle)"]
    assert COMMUNITIES["dog(shelf)"] == ("chair", "desk", "laptop", "picture", "screen", "shelf")
    assert COMMUNITIES["cat(sofa)"] == ("chair", "cup", "sofa")
    assert {name: len(contexts) for name, contexts in PLACES.items()} == {
        "cat(outdoors)": 7, "cat(indoors)": 48, "dog(indoors)": 27, "dog(outdoors)": 27}
    assert not set(PLACES["dog(indoors)"]) & set(PLACES["dog(outdoors)"])
    assert {name: (task.tested, task.distances) for name, task in TASKS.items()} == {
        "cat-dog": (129, (0.44, 0.71, 1.12, 1.43)), "bus-truck": (161, (0.81, 1.20, 1.42, 1.52)),
        "elephant-horse": (140, (0.44, 0.63, 0.89, 1.44)), "bowl-cup": (375, (0.16, 0.47, 1.03, 1.31))}


SCHEMES = {
    "communities": [*COMMUNITIES.items()],
    "tasks": [*TASKS.items()],
    "animals": ANIMALS,
    "places": [*PLACES.items()],
    "places of other animals": [*OTHER_PLACES.items()],
    "coco": [COCO_PLACES, COCO_SIZES, COCO_MINORITY],
    "shares": [MAJORITY, MINORITY, EDGES],
    "world": [WORLD_MOVES, WORLD_STAYS, WORLD_PLACES, WORLD_MINORITY, WORLD_COCO_MINORITY, KINDS],
}
"""What the tables are made of, in order: among places the first that has an image wins."""
DIGESTS = {
    "communities": "ff4f0425daf2b9c1",
    "tasks": "737f4744cde90b2a",
    "animals": "eeaebb27d94dcee1",
    "places": "0ec930998853b206",
    "places of other animals": "be27010b904a8762",
    "coco": "be78b33fde2ded3b",
    "shares": "7e76295c776364df",
    "world": "252a4ed0bc36ed01",
}
"""Of the lists as they stood when those of cats and dogs were compared with the authors' (below)."""


def canonical_digest(content: object) -> str:
    """The same for the same words and numbers in the same order."""
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", SCHEMES)
def test_no_word_or_number_of_a_scheme_has_changed(name):
    """A word that is swapped, left out or misspelt in any list gives another digest."""
    assert canonical_digest(SCHEMES[name]) == DIGESTS[name]


def test_two_swapped_words_are_noticed():
    """The digest is of each list, not of the words together."""
    swapped = {**COMMUNITIES, "dog(bench)": ("bench", "rope"), "dog(boat)": ("boat", "flag", "frisbee", "trash can",
                                                                           "trees")}
    assert sorted(word for words in swapped.values() for word in words) == sorted(
        word for words in COMMUNITIES.values() for word in words)
    assert canonical_digest([*swapped.items()]) != DIGESTS["communities"]


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="needs the authors' schemes")
def test_the_schemes_are_those_that_the_authors_published():
    """Every community, rung, distance, place and size of the authors' repository."""
    schemes = json.loads(PUBLISHED.read_text())

    def contexts(name: str, subsets: list[str]) -> tuple[str, ...]:
        cls = name.partition("(")[0]
        assert all(subset.startswith(f"{cls}(") for subset in subsets)
        return tuple(subset[len(cls) + 1:-1] for subset in subsets)

    task = schemes["domain_generalization_cat_dog"]
    assert {name: contexts(name, subsets) for part in ("train", "test", "additional_test")
            for of_class in task[part].values() for name, subsets in of_class.items()} == COMMUNITIES
    rungs, ours = task["rungs"], TASKS["cat-dog"]
    assert [subset_name("dog", contexts("dog", pair)) for pair in rungs["dog"]] == list(ours.moves)
    assert (subset_name("cat", contexts("cat", rungs["cat"])), rungs["test"]) == (ours.stays, [ours.test])
    assert tuple(rungs["published_distances"]) == ours.distances
    places = schemes["subpopulation_indoor_outdoor"]
    assert {name.replace("door)", "doors)"): contexts(name, subsets) for part in ("train", "test")
            for of_class in places[part].values() for name, subsets in of_class.items()} == PLACES
    sizes = places["sizes"]
    assert [share * sizes["training per class"] for share in MINORITY.values()] == pytest.approx(
        sizes["minority in training"])
    assert (BY_OBJECTS.n_train, BY_OBJECTS.n_test) == (2 * sizes["training per class"], 4 * sizes["test per cell"])
    for kind, most in (("minority", 100), ("majority", 850 - 10)):  # what is kept is enough for training and test
        assert sizes[f"{kind} kept per class"] >= most + sizes["test per cell"]


# Tables 1 and 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["metashift/table1", "metashift/table3"])
def test_a_merged_subset_is_the_union_of_its_contexts(name, photos):
    """The test is every dog with a desk, screen, laptop, shelf, picture or chair; 200 images of each class train."""
    both = ambiguous(photos, ["cat", "dog", *(ANIMALS if name.endswith("3") else ())])
    shelf = np.setdiff1d(np.unique(np.concatenate(
        [subset(photos, f"dog({context})") for context in COMMUNITIES["dog(shelf)"]])), both)
    for key, shift in suite(name, "cat-dog" if name.endswith("1") else "animals"):
        made = shift.build(photos, 0)
        assert set(made.items[made.rows("test")]) == set(photos.items[shelf]), key
        train = made.rows("train")
        assert set(np.bincount(made.label[train]).tolist()) == {200}
        groups = np.asarray(made.names["group"])[made.group[train]]
        for group in set(groups.tolist()) - set(ANIMALS):
            inside = union(photos, group[:3], COMMUNITIES[group])[0]
            assert set(made.items[train][groups == group]) <= set(photos.items[np.setdiff1d(inside, shelf)])
        assert made.card["sizes"] == {"dog(shelf)": {"expected": 129, "actual": len(shelf)}}
        assert made.card["merged"]["dog(shelf)"] == list(COMMUNITIES["dog(shelf)"])
        assert made.card["merged_distances"]["dog"] > 0 < made.card["distance"]


@pytest.mark.slow
def test_distances_of_merged_subsets_are_those_of_the_authors_code(photos):
    """The mean distance of two communities in the spectral layout of all 13 dog communities, from sets of images."""
    dogs = {name[4:-1]: contexts for name, contexts in COMMUNITIES.items() if name.startswith("dog")}
    both = set(subset(photos, "cat(dog)").tolist())
    sets = [set().union(*(subset(photos, f"dog({context})").tolist() for context in contexts)) - both
            for contexts in dogs.values()]
    weights = np.asarray([[len(one & other) / min(len(one), len(other)) for other in sets] for one in sets])
    np.fill_diagonal(weights, 0)
    weights[weights < 0.02] = 0
    values, vectors = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)
    assert values[1] > 1e-6, "connected, so that the layout is determined"
    layout = vectors[:, 1:6] / np.abs(vectors[:, 1:6]).max()
    place = {name: layout[number] for number, name in enumerate(dogs)}
    for key, shift in suite("metashift/table1", "cat-dog"):
        one, other = shift.train[1][4:-1].split(" + ")
        wanted = np.mean([np.linalg.norm(place[name] - place["shelf"]) for name in (one, other)])
        made = replace(shift, threshold=0.02).build(photos, 0)
        assert made.card["merged_distances"]["dog"] == pytest.approx(wanted), key


@pytest.mark.slow
def test_contexts_that_a_collection_lacks_are_named_on_the_card(photos):
    """A published list may be longer than a collection's vocabulary; where nothing of it is there, it is refused."""
    shift = dict(suite("metashift/table1", "cat-dog-1"))["cat-dog-1"]
    more = {**shift.merged, "dog(shelf)": (*shift.merged["dog(shelf)"], "hologram")}
    made = replace(shift, merged=more).build(photos, 0)
    assert made.digest == shift.build(photos, 0).digest
    assert any("dog(hologram)" in note for note in made.card["notes"])
    with pytest.raises(ShiftBenchError, match="No context named 'hologram'"):
        replace(shift, merged={**shift.merged, "dog(shelf)": ("hologram",)}).build(photos, 0)
    with pytest.raises(ShiftBenchError, match="a class that is trained on: cat, dog"):
        replace(shift, merged={"cow(shelf)": ("desk",)}).build(photos, 0)


def test_a_community_that_no_task_uses_may_be_absent():
    """Where no item carries a word of dog(cap), or none does together with a dog, the task is built all the same, and
    the card names the community; one that is trained or tested on is refused."""
    absent = ("dog(bike)", "dog(cap)")
    missing = {context for name in absent for context in COMMUNITIES[name]}
    words = [context for contexts in COMMUNITIES.values() for context in contexts if context not in missing]
    items = [[("cat", "dog")[number % 2], words[number % len(words)], words[(7 * number + 3) % len(words)]]
             for number in range(6000)]
    shift = dict(suite("metashift/table1", "cat-dog-1"))["cat-dog-1"]
    made = shift.build(tagged(items), 0)
    assert any(all(name in note for name in absent) and "neither trained nor tested on" in note
               for note in made.card["notes"])
    assert made.card["merged_distances"]["dog"] > 0
    of_others = shift.build(tagged([*items, *[["bird", context] for context in COMMUNITIES["dog(cap)"]]]), 0)
    assert of_others.digest == made.digest
    assert any("dog(cap)" in note for note in of_others.card["notes"])
    left = [[word for word in own if word not in COMMUNITIES["dog(shelf)"]] for own in items]
    with pytest.raises(ShiftBenchError, match="No context named 'chair'"):
        shift.build(tagged(left), 0)


# Merging by community, on any collection


@pytest.mark.slow
def test_merging_divides_the_subsets_of_a_class(photos):
    """Every subset is in one merged subset, those of one community stay together unless two of them are named."""
    graph = meta_graph(photos, "dog", threshold=0.2, min_size=25, kinds=("object",))
    plain = merge_similar(graph)
    assert sorted(name for contexts in plain.values() for name in contexts) == sorted(graph.names)
    community = dict(zip(graph.names, graph.communities.tolist(), strict=True))
    assert len(plain) == len(set(community.values()))
    assert all(len({community[context] for context in contexts}) == 1 for contexts in plain.values())
    assert all(name in contexts for name, contexts in plain.items())
    largest = max(plain.values(), key=len)
    named = merge_similar(graph, largest[:2])
    assert sorted(context for name in largest[:2] for context in named[name]) == sorted(largest)
    assert set(named) - set(largest[:2]) == {name for name, contexts in plain.items() if contexts != largest}


@pytest.mark.slow
def test_merge_in_a_recipe_takes_whole_communities(photos):
    """merge = true trains and tests on the communities of the named contexts, and keeps both distances."""
    shift = Subset(("cat(sofa + bed)", "dog(cabinet + bed)"), ("dog(shelf)",), moves="dog", threshold=0.2)
    made = changed(shift, {"merge": True}, "here").build(photos, 0)
    graph = meta_graph(photos, "dog", threshold=0.2, kinds=("object",))
    wanted = merge_similar(graph, ("cabinet", "bed", "shelf"))
    both = subset(photos, "cat(dog)")
    tested = np.setdiff1d(union(photos, "dog", wanted["shelf"])[0], both)
    assert set(made.items[made.rows("test")]) == set(photos.items[tested])
    assert len(tested) > len(np.setdiff1d(subset(photos, "dog(shelf)"), both))
    merged = merged_graph(photos, "dog", wanted, threshold=0.2, without=both)
    assert made.card["merged_distances"]["dog"] == pytest.approx(mean_distance(merged, ["cabinet", "bed"], ["shelf"]))
    assert "merged" not in shift.build(photos, 0).card


@pytest.mark.slow
def test_a_rung_may_be_a_union_of_two_communities(photos):
    """With merge, the ladder's rungs are two whole communities each, none used twice, none that of the test."""
    rungs = ladder(photos, "dog(shelf)", 3, items=50, threshold=0.2, merge=True)
    graph = meta_graph(photos, "dog", threshold=0.2, kinds=("object",))
    plain = merge_similar(graph, ("shelf",))
    names = [name for rung in rungs for name in rung.subset[4:-1].split(" + ")]
    assert len(set(names)) == 6
    assert set(names) <= set(plain) - {"shelf"}
    taken = union(photos, "dog", plain["shelf"])[0]
    for rung in rungs:
        one, other = rung.subset[4:-1].split(" + ")
        assert rung.items == len(np.setdiff1d(union(photos, "dog", (*plain[one], *plain[other]))[0], taken))
    assert [rung.distance for rung in rungs] == sorted(rung.distance for rung in rungs)


@pytest.mark.slow
def test_diffusion_distances_are_those_of_a_random_walk(photos):
    """d(u, v)² = Σ_w (p(u, w) − p(v, w))² / π(w) for one step of the walk on A + I; the card has that of its rung."""
    shift = dict(suite("metashift/table1", "cat-dog-2"))["cat-dog-2"]
    graph = meta_graph(photos, "dog", threshold=0.2, kinds=("object",), scaling="diffusion",
                       min_size=int(np.ceil(0.01 * len(photos.with_tag("dog")))))
    walk = graph.weights + np.eye(len(graph))
    step, share = walk / walk.sum(axis=1, keepdims=True), walk.sum(axis=1) / walk.sum()
    wanted = np.sqrt((((step[:, None] - step[None]) ** 2) / share).sum(axis=2))
    assert np.linalg.norm(graph.embedding[:, None] - graph.embedding[None], axis=2) == pytest.approx(wanted)
    sides = [[context for name in names for context in COMMUNITIES[f"dog({name})"] if context in graph.names]
             for names in (("bag", "box"), ("shelf",))]
    assert shift.build(photos, 0).card["diffusion_distances"]["dog"] == pytest.approx(distance(graph, *sides))


# Tables 2, 4 and 5


@pytest.mark.slow
def test_places_are_unions_of_object_subsets(photos):
    """850 images of each class of which 100, 50 or 10 are the minority's, 144 of each cell for test."""
    both = subset(photos, "cat(dog)")
    outdoors = np.setdiff1d(union(photos, "cat", PLACES["cat(outdoors)"])[0], both)
    for (key, shift), minority in zip(suite("metashift/table2"), (100, 50, 10), strict=True):
        made = shift.build(photos, 0)
        counts = made.counts()
        assert counts["train"] == {"cat, indoors": 850 - minority, "cat, outdoors": minority,
                                   "dog, indoors": minority, "dog, outdoors": 850 - minority}, key
        assert set(counts["test"].values()) == {144}
        cats = np.asarray(made.names["group"])[made.group] == "cat, outdoors"
        assert set(made.items[cats]) <= set(photos.items[outdoors])
    made = next(shift for _, shift in suite("metashift/table4")).build(photos, 0)
    assert {name: counts for name, counts in made.counts()["train"].items() if name.startswith("zebra")} == {
        "zebra, outdoors": 170}


def test_table5_is_built_from_the_authors_own_counts():
    """331, 2,707, 1,586 and 1,500 images are enough: 2 × 1,369 train, of which 200, 100 or 15 of each class are few."""
    tag = {"outdoors": "vehicle", "indoors": "kitchen"}
    coco = tagged([list((cls, tag[place])) for cell, size in COCO_SIZES.items()
                   for cls, place in [cell.split(", ")] for _ in range(size)]
                  + [["indoor"], ["electronic"], ["appliance"], ["furniture"], ["outdoor"], ["sports"]])
    for (_, shift), minority in zip(suite("metashift/table5"), (200, 100, 15), strict=True):
        made = shift.build(coco, 0)
        assert made.counts()["train"] == {"cat, indoors": 1369 - minority, "cat, outdoors": minority,
                                          "dog, indoors": minority, "dog, outdoors": 1369 - minority}
        assert set(made.counts()["test"].values()) == {131}
        assert all(size["expected"] == size["actual"] for size in made.card["sizes"].values())
        short = any("left for id_val" in note for note in made.card["notes"])
        assert short == (minority in (200, 15))


def test_places_by_location_are_another_suite(photos):
    """The same rungs, sizes and shares, with GQA's places instead of lists of objects."""
    for table in ("metashift/table2", "metashift/table4"):
        for (key, one), (twin, other) in zip(suite(table), suite(f"{table}/location"), strict=True):
            assert key == twin
            assert replace(one, factor=other.factor, values=other.values, merged={}) == other
    assert subset_name("cat", ["outdoors"]) in PLACES
