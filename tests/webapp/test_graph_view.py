"""The meta-graph in the studio: its numbers are those of the verbs, and its recipes are built to the same digest."""

import json
import os
import shutil
from threading import Thread
from urllib.parse import parse_qsl

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.metagraph.graph import distance, distances, layout, mean_distance, to_json
from shiftbench.metagraph.subsets import subset
from shiftbench.webapp.design_view import build_recipe, save_recipe
from shiftbench.webapp.graph_view import graph, samples, sides
from shiftbench.webapp.server import ANSWERS
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Query, Studio, request

ON = "collections/scenes"
TRAIN, TEST = ["dog(cabinet)", "dog(sofa)", "cat(sofa)"], ["dog(shelf)", "cat(shelf)"]


@pytest.fixture
def writable(world, tmp_path):
    """A studio that may write, over a folder that has the world's collection."""
    shutil.copytree(world / "collections", tmp_path / "work/collections")
    return Studio(Shelf([tmp_path / "work"]), edit=True)


def ask(answer, studio, **state):
    return answer(studio, Query({"on": ON, **{key: value if isinstance(value, str) else json.dumps(value)
                                              for key, value in state.items()}}))


def saving(facts, name="dog-shelf", **more):
    return {"on": ON, "shift": "subset", "settings": facts["settings"], "seed": facts["seed"], "name": name, **more}


def test_the_graph_is_the_one_of_the_verb(shown, scenes):
    """Sizes, communities, overlaps and places equal those of `sb.graph` and of its layout."""
    answer = ask(graph, shown, cls="cat", kinds=["object", "stuff"], threshold=0.15, min_size=20)
    whole = sb.graph(scenes, "cat", kinds=("object", "stuff"), threshold=0.15, min_size=20)
    expected = to_json(whole)
    assert {(f"cat({one['name']})", one["size"], one["community"]) for one in answer["subsets"]} == {
        (one["name"], one["size"], one["community"]) for one in expected["subsets"]}
    name = [f"cat({one['name']})" for one in answer["subsets"]]
    assert {(frozenset((name[a], name[b])), overlap) for a, b, overlap in answer["edges"]} == {
        (frozenset((one["source"], one["target"])), one["overlap"]) for one in expected["edges"]}
    places = {one["name"]: one["at"] for one in answer["subsets"]}
    assert np.allclose([places[one] for one in whole.names], layout(whole.weights), atol=1e-4)
    assert (answer["total"], answer["total_edges"]) == (len(whole), whole.edges)


def test_a_large_graph_is_drawn_in_part_and_says_so(shown, monkeypatch):
    """Beyond the heaviest subsets and the strongest overlaps nothing is drawn, and a note counts what is."""
    monkeypatch.setattr("shiftbench.webapp.graph_view.DRAWN", 8)
    monkeypatch.setattr("shiftbench.webapp.graph_view.EDGES", 5)
    answer = ask(graph, shown, cls="dog", min_size=7)
    drawn = [one for one in answer["subsets"] if one["at"]]
    assert len(drawn) == 8 < answer["total"] == len(answer["subsets"])
    assert min(one["size"] for one in drawn) >= max(one["size"] for one in answer["subsets"] if not one["at"])
    assert len(answer["edges"]) == 5
    assert "The 8 largest of" in answer["note"]
    assert "The 5 strongest of" in answer["note"]


def test_two_requests_at_once_get_the_same_communities(world):
    """The generator that communities are drawn with belongs to one thread at a time."""
    answers = [[] for _ in range(4)]

    def work(own):
        own.append(ask(graph, Studio(Shelf([world])), cls="dog", min_size=10)["subsets"])

    threads = [Thread(target=work, args=(own,)) for own in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == answers[0] for own in answers)


def test_distances_are_those_of_the_meta_graph(shown, scenes):
    """From a chosen subset, or from the test subsets, to all others; and between the two sides of each class."""
    whole = sb.graph(scenes, "dog", kinds=("object",))
    chosen = ask(sides, shown, cls="dog", at="shelf")
    assert chosen["distances"] == dict(zip(whole.names, distances(whole, "shelf").tolist(), strict=True))
    assert chosen["command"].endswith("--class dog --kind object --from 'dog(shelf)'")
    put = ask(sides, shown, cls="dog", at="bed", train=TRAIN, test=[*TEST, "dog(lamp)"])
    assert put["distances"] == dict(zip(whole.names, distances(whole, ["shelf", "lamp"]).tolist(), strict=True))
    dog = put["classes"][0]
    assert dog["distance"] == distance(whole, ["cabinet", "sofa"], ["shelf", "lamp"])
    assert dog["mean_distance"] == mean_distance(whole, ["cabinet", "sofa"], ["shelf", "lamp"])


def test_both_sides_are_counted_while_they_are_made(shown, scenes):
    """Items, leakage and tags are there from the first subset on; what a recipe still lacks is a sentence."""
    one = ask(sides, shown, cls="dog", test=["dog(shelf)"])
    assert one["items"] == {"train": 0, "test": len(subset(scenes, "dog(shelf)")), "both": 0, "ambiguous": 0}
    assert "'train' names no subset" in one["built"]["problem"]
    half = ask(sides, shown, cls="dog", train=["dog(cabinet)"], test=["dog(shelf)"])
    train, test = subset(scenes, "dog(cabinet)"), subset(scenes, "dog(shelf)")
    assert half["items"]["both"] == half["classes"][0]["both"] == len(np.intersect1d(train, test)) > 0
    assert half["differences"][0]["tag"] == "shelf"
    assert "Add subsets of a second one" in half["built"]["problem"]


def test_what_is_shown_is_what_the_recipe_builds(shown, scenes):
    """Counts, distance, tags and findings are those of the benchmark that `sb.build` makes of the same subsets."""
    facts = ask(sides, shown, cls="dog", train=TRAIN, test=TEST, n_train=40, n_ood=20, seed=3)
    benchmark = sb.build(sb.Subset(tuple(TRAIN), tuple(TEST), n_train=40, n_ood=20), collection=scenes, seed=3)
    built = facts["built"]
    assert built["digest"] == benchmark.digest
    assert {split: {group: n for group, n in zip(built["groups"], numbers, strict=True) if n}
            for split, numbers in built["counts"].items()} == benchmark.counts()
    assert built["distances"] == benchmark.card["distances"]
    assert built["differences"] == benchmark.card["explanation"]
    assert built["findings"] == [finding._asdict() for finding in sb.check(benchmark)]
    assert built["power"] == sb.power(benchmark)


def test_a_saved_recipe_builds_to_the_same_digest(writable):
    """From the page's settings to TOML to a benchmark: the digest stays what the page showed."""
    facts = ask(sides, writable, cls="dog", train=TRAIN, test=TEST, kinds=["object", "stuff"], seed=1)
    saved = save_recipe(writable, saving(facts))
    folder = writable.shelf.folders[0]
    assert saved["recipe"] == "recipes/dog-shelf.toml"
    assert sb.build(folder / saved["recipe"]).digest == facts["built"]["digest"]
    built = build_recipe(writable, {"recipe": saved["recipe"]})
    assert built["benchmarks"][0]["digest"] == sb.Benchmark.load(folder / "benchmarks/dog-shelf").digest
    assert built["benchmarks"][0] | {"path": ""} == {
        "id": "benchmarks/dog-shelf", "path": "", "digest": facts["built"]["digest"], "rows": facts["built"]["rows"]}
    text = folder / "copied.toml"
    text.write_text(facts["recipe"])  # what a read-only studio shows to copy
    assert sb.build(text).digest == facts["built"]["digest"]


def test_nothing_is_replaced_unless_said(writable):
    """A recipe or a benchmark of the same name stays, until the request says that it is to be replaced."""
    facts = ask(sides, writable, cls="dog", train=TRAIN, test=TEST)
    save_recipe(writable, saving(facts))
    changed = saving({**facts, "seed": 7})
    with pytest.raises(ShiftBenchError, match="exists already"):
        save_recipe(writable, changed)
    recipe = writable.shelf.folders[0] / "recipes/dog-shelf.toml"
    assert "seed = 0" in recipe.read_text()
    save_recipe(writable, {**changed, "replace": True})
    assert "seed = 7" in recipe.read_text()
    build_recipe(writable, {"recipe": "recipes/dog-shelf.toml"})
    with pytest.raises(ShiftBenchError, match="exists already"):
        build_recipe(writable, {"recipe": "recipes/dog-shelf.toml"})
    build_recipe(writable, {"recipe": "recipes/dog-shelf.toml", "replace": True})


def test_no_name_leads_out_of_the_folder(writable):
    """A name that is no plain file name is refused, and nothing is written."""
    facts = ask(sides, writable, cls="dog", train=TRAIN, test=TEST)
    before = sorted(writable.shelf.folders[0].parent.rglob("*"))
    for name in ("../out", "a/b", "/etc/out", ".hidden", "..", "", "x\0y", "a\nb", "con:", "x" * 81, "end."):
        with pytest.raises(ShiftBenchError, match="Choose such a name"):
            save_recipe(writable, saving(facts, name))
    assert sorted(writable.shelf.folders[0].parent.rglob("*")) == before


def test_a_link_does_not_lead_out_either(writable, tmp_path):
    """Where recipes/ or a file in it is a link to elsewhere, nothing is written through it."""
    facts = ask(sides, writable, cls="dog", train=TRAIN, test=TEST)
    folder = writable.shelf.folders[0]
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", folder / "recipes")
    with pytest.raises(ShiftBenchError):
        save_recipe(writable, saving(facts, replace=True))
    (folder / "recipes").unlink()
    (folder / "recipes").mkdir()
    os.symlink(tmp_path / "elsewhere/x.toml", folder / "recipes/dog-shelf.toml")
    with pytest.raises(ShiftBenchError):
        save_recipe(writable, saving(facts, replace=True))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_read_only_studio_writes_nothing(shown):
    """Without --edit both actions are refused; the text is there to copy."""
    facts = ask(sides, shown, cls="dog", train=TRAIN, test=TEST)
    assert "[shift.subset]" in facts["recipe"]
    for action, wish in ((save_recipe, saving(facts)), (build_recipe, {"recipe": "recipes/minority.toml"})):
        with pytest.raises(ShiftBenchError, match="--edit"):
            action(shown, wish)


def test_requests_that_are_not_what_they_should_be_are_one_sentence(writable):
    """A missing key, a wrong type and an unknown shift, class or subset are errors of the user's kind."""
    for wish in ({}, {"name": 3}, {"name": "a", "on": ON, "shift": "subset", "settings": [1]},
                 {"name": "a", "on": ON, "shift": "nothing", "settings": {}},
                 {"name": "a", "on": "../x", "shift": "iid", "settings": {"label": "class"}}):
        with pytest.raises(ShiftBenchError):
            save_recipe(writable, wish)
    with pytest.raises(ShiftBenchError):
        ask(sides, writable, cls="dog", train=["dog(nowhere)"])
    assert "no context" in ask(graph, writable, cls="dog", min_size=10_000)["problem"]


def test_samples_are_items_of_the_subset(shown, scenes):
    """Up to eight, the same at every request."""
    items = ask(samples, shown, subset="dog(shelf)")["items"]
    assert 0 < len(items) <= 8
    assert items == ask(samples, shown, subset="dog(shelf)")["items"]
    assert set(scenes.items[subset(scenes, "dog(shelf)")]) >= {item["id"] for item in items}


def test_a_graph_names_what_its_page_asks_next(shown):
    """A saved page carries the sides, the items of the chosen subset and their pictures: each request is answered."""
    waiting, seen = ask(graph, shown, cls="dog", at="shelf", train=TRAIN, test=TEST)["also"], []
    while waiting:
        path = waiting.pop(0)
        if path not in seen:
            name, _, words = path.partition("?")
            answer = ANSWERS[name](shown, Query(dict(parse_qsl(words))))
            waiting += answer.get("also", []) if isinstance(answer, dict) else []
            seen.append(path)
    names = [path.partition("?")[0] for path in seen]
    assert set(names) == {"graph", "look", "sides", "samples", "thumbnail"}
    assert request("samples", on=ON, subset="dog(shelf)") in seen
    assert request("sides", on=ON, cls="dog", at="shelf", train=json.dumps(TRAIN), test=json.dumps(TEST)) in seen
