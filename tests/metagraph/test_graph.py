"""The meta-graph as a whole: communities, distances, what is printed and drawn."""

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags
from shiftbench.metagraph.graph import (
    COMMUNITIES,
    MetaGraph,
    distance,
    distances,
    find_communities,
    layout,
    mean_embedding,
    meta_graph,
    to_json,
)
from shiftbench.metagraph.picture import draw_html, draw_png, place_labels
from tests.metagraph.test_embedding import clique, random_graph
from tests.strategies import seeds, toy

quick = settings(max_examples=40, deadline=None)

ROOM, WATER = ("sofa", "bed", "shelf", "lamp", "cabinet"), ("boat", "kite", "sand", "surfboard")


def themed(n: int = 500, pixels: bool = False) -> Collection:
    """Dogs in rooms and dogs at the water, and a few of both with a ball."""
    rng = np.random.default_rng(0)
    room = rng.random(n) < 0.5
    names = [*ROOM, *WATER, "ball", "dog", "<b>&"]
    chance = np.where(room[:, None], [0.5] * 5 + [0.01] * 4 + [0.15, 1, 0.1], [0.01] * 5 + [0.5] * 4 + [0.15, 1, 0.1])
    images = rng.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8) if pixels else None
    tags = Tags.of(*np.nonzero(rng.random((n, 12)) < chance), names)
    return Collection("themed", np.arange(n).astype(str), tags=tags, pixels=images)


@pytest.mark.parametrize("method", COMMUNITIES)
@quick
@given(seeds, st.integers(0, 2**31))
def test_two_cliques_are_two_communities(method, order, seed):
    """Planted cliques with a weak bridge are found whatever the seed and the order, by every method."""
    weights = block_diag(clique(6, 0.9), clique(5, 0.8))
    weights[0, 10] = weights[10, 0] = 0.1
    places = np.random.default_rng(order).permutation(11)
    labels = find_communities(weights[np.ix_(places, places)], method, seed)
    assert np.array_equal(labels, (places >= 6).astype(int))  # the larger clique is community 0


def modularity(weights, labels):
    """Q = Σ_ij (A_ij − k_i k_j / 2m) 1[c_i = c_j] / 2m, with 2m the sum of A and k its rows' sums."""
    total, degree = weights.sum(), weights.sum(axis=1)
    return float(((weights - np.outer(degree, degree) / total) * (labels[:, None] == labels)).sum() / total)


@pytest.mark.parametrize("method", COMMUNITIES)
@quick
@given(seeds, st.integers(0, 100))
def test_communities_repeat_under_a_seed(method, graph, seed):
    """The same graph and seed give the same communities, numbered from the largest, and leave Python's stream alone."""
    weights = random_graph(graph, 30, 0.2)
    random.seed(1)
    before = random.getstate()
    labels = find_communities(weights, method, seed)
    assert random.getstate() == before
    assert np.array_equal(labels, find_communities(weights, method, seed))
    assert (np.diff(np.bincount(labels)) <= 0).all()
    assert modularity(weights, labels) >= modularity(weights, np.zeros(30, np.int64)) - 1e-12


def test_weights_matter():
    """A clique with two heavy halves falls in two by weight; without weights it is one community."""
    weights = clique(8, 0.1)
    weights[:4, :4] = weights[4:, 4:] = clique(4, 1.0)
    assert find_communities(weights, "louvain").tolist() == [0] * 4 + [1] * 4
    assert find_communities(weights, "greedy").max() == 0


def test_lone_nodes_are_their_own_communities():
    """A graph without edges has as many communities as nodes; unknown methods are named."""
    assert find_communities(np.zeros((3, 3))).tolist() == [0, 1, 2]
    assert find_communities(block_diag(np.zeros((1, 1)), clique(3))).tolist() == [1, 0, 0, 0]
    with pytest.raises(ShiftBenchError, match=r"Did you mean 'leiden'\?"):
        find_communities(np.zeros((3, 3)), "leyden")


def test_a_meta_graph_finds_the_themes():
    """Rooms and water come out as the two large communities, and a room lies nearer to a room."""
    g = meta_graph(themed(), "dog")
    label = dict(zip(g.names, g.communities.tolist(), strict=True))
    assert len({label[name] for name in ROOM}) == len({label[name] for name in WATER}) == 1
    assert label["sofa"] != label["boat"]
    assert distance(g, ["bed", "lamp"], ["shelf"]) < distance(g, ["ball"], ["shelf"]) < distance(g, ["boat"], ["shelf"])


def test_threshold_drops_edges_below_it():
    """Every weight left is at least the threshold; a higher one keeps a part of the edges."""
    c = themed()
    low, high = meta_graph(c, "dog", threshold=0.1), meta_graph(c, "dog", threshold=0.4)
    assert low.weights[low.weights > 0].min() >= 0.1
    assert 0 < high.edges < low.edges
    assert np.array_equal(high.weights, np.where(low.weights >= 0.4, low.weights, 0))
    assert (np.diag(low.weights) == 0).all()


def test_a_distance_is_that_of_the_mean_embeddings():
    """d = ‖x̄(train) − x̄(test)‖ with means weighted by size, in every way to write contexts; zero to itself."""
    g = meta_graph(themed(), "dog")
    one, two, far = (g.names.index(name) for name in ("bed", "lamp", "boat"))
    mean = (g.sizes[one] * g.embedding[one] + g.sizes[two] * g.embedding[two]) / (g.sizes[one] + g.sizes[two])
    expected = np.linalg.norm(mean - g.embedding[far])
    for train in (["bed", "lamp"], "bed + lamp", "dog(bed + lamp)"):
        assert distance(g, train, "dog(boat)") == pytest.approx(expected)
    assert distance(g, ["bed"], ["bed"]) == 0
    assert distances(g, "boat")[one] == pytest.approx(distance(g, "bed", "boat"))


def test_a_word_of_two_kinds_lies_between_them():
    """`fence` means object:fence and stuff:fence together."""
    g = MetaGraph("dog", ("object:fence", "stuff:fence"), np.asarray([1, 3]), np.zeros((2, 2)), np.asarray([0, 1]),
                  np.asarray([[0.0], [4.0]]), 0.1)
    assert mean_embedding(g, "fence").tolist() == [3.0]
    assert mean_embedding(g, ["object:fence"]).tolist() == [0.0]


def test_messages_say_what_to_do():
    """Contexts that are not in the graph, classes without contexts and foreign subsets are explained."""
    g = meta_graph(themed(), "dog")
    with pytest.raises(ShiftBenchError, match=r"Did you mean 'shelf'\?.*fewer than min_size"):
        distance(g, ["shelv"], ["boat"])
    with pytest.raises(ShiftBenchError, match="is a subset of 'cat'"):
        distance(g, "cat(sofa)", "dog(boat)")
    with pytest.raises(ShiftBenchError, match=r"at least 5000 items \(dog\(.*\) has most, \d+\)\. Lower min_size"):
        meta_graph(themed(), "dog", min_size=5000)
    with pytest.raises(ShiftBenchError, match="between 0 and 1"):
        meta_graph(themed(), "dog", threshold=2)
    with pytest.raises(ShiftBenchError, match="No context of 'dog' was named"):
        distance(g, [], ["boat"])


def test_the_same_request_gives_the_same_graph():
    """Nothing in a meta-graph depends on when or how often it is made."""
    one, other = meta_graph(themed(), "dog", seed=3), meta_graph(themed(), "dog", seed=3)
    assert one.names == other.names
    for name in ("sizes", "weights", "communities", "embedding"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


def test_an_embedding_of_ones_own():
    """A plain function takes the place of the spectral embedding."""
    g = meta_graph(themed(), "dog", embedding=lambda weights: np.arange(len(weights))[:, None].astype(float))
    assert distance(g, [g.names[0]], [g.names[3]]) == 3


def test_what_machines_read():
    """Exactly the promised keys, plain JSON, and distances from a subset to all when asked."""
    g = meta_graph(toy(), "dog")
    facts = to_json(g, "dog(shelf)")
    assert json.loads(json.dumps(facts)) == facts
    assert set(facts) == {"class", "subsets", "edges", "threshold", "communities", "distances"}
    assert [set(part) for part in facts["subsets"]] == [{"name", "size", "community"}] * len(g)
    assert facts["distances"]["dog(shelf)"] == 0
    assert facts["distances"]["dog(boat)"] == pytest.approx(distance(g, "boat", "shelf"), abs=1e-6)
    assert facts["communities"] == len({part["community"] for part in facts["subsets"]})
    place = {part["name"]: node for node, part in enumerate(facts["subsets"])}
    again = np.zeros_like(g.weights)
    for edge in facts["edges"]:
        assert set(edge) == {"source", "target", "overlap"}
        again[place[edge["source"]], place[edge["target"]]] += edge["overlap"]
    assert np.allclose(again + again.T, g.weights, atol=1e-6)
    assert len(facts["edges"]) == g.edges > 0
    overlaps = [edge["overlap"] for edge in facts["edges"]]
    assert overlaps == sorted(overlaps, reverse=True)
    assert to_json(g)["distances"] == {}


@quick
@given(seeds, st.integers(1, 60))
def test_labels_touch_nothing(seed, n):
    """No label that is placed overlaps another, a disc other than its own, or the border."""
    rng = np.random.default_rng(seed)
    points, radii, lengths = rng.uniform(0, 400, (n, 2)), rng.uniform(3, 15, n), rng.integers(1, 12, n)
    anchor, labelled = place_labels(points, radii, lengths, (400, 400), 12)
    tall, wide = 0.9 * 12, lengths * 0.56 * 12
    top = anchor[:, 1] - 0.85 * tall
    boxes = np.stack([anchor[:, 0], top, anchor[:, 0] + wide, top + tall], axis=1)
    shown = np.flatnonzero(labelled)
    for k in shown:
        left, top, right, bottom = boxes[k]
        assert min(left, top) >= -1e-9
        assert max(right, bottom) <= 400 + 1e-9
        others = boxes[shown[shown != k]]
        assert not ((others[:, 0] < right - 1e-9) & (others[:, 2] > left + 1e-9) & (others[:, 1] < bottom - 1e-9)
                    & (others[:, 3] > top + 1e-9)).any()
        reach = np.maximum(np.maximum([left, top] - points, points - [right, bottom]), 0)
        assert (np.linalg.norm(reach, axis=1) >= radii - 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.1, 1.0])
def test_pictures_are_written(tmp_path, threshold):
    """A PNG and a self-contained page, also of a graph without edges; the same call gives the same bytes."""
    from PIL import Image

    g = meta_graph(themed(pixels=True), "dog", threshold=threshold)
    with Image.open(draw_png(g, tmp_path / "g.png")) as image:
        assert image.width > 2 * image.height * 0.9
    draw_html(g, tmp_path / "g.html", themed(pixels=True))
    draw_html(g, tmp_path / "again.html", themed(pixels=True))
    text = (tmp_path / "g.html").read_text()
    assert text == (tmp_path / "again.html").read_text()
    assert "://" not in text
    assert text.count("<circle") == 2 * len(g)
    assert text.count("<line") == g.edges
    assert "data:image/png;base64," in text


def test_a_page_escapes_names_and_lives_without_images(tmp_path):
    """A tag named like markup stays text, in the drawing and in the data; no images, no samples."""
    g = meta_graph(themed(), "dog")
    text = draw_html(g, tmp_path / "g.html", themed()).read_text()
    assert "<b>&" in g.names
    assert "<b>&" not in text
    assert "&lt;b&gt;&amp;" in text
    facts = json.loads(text.split('id="facts">')[1].split("</script>")[0])
    assert "dog(<b>&)" in [node["name"] for node in facts["nodes"]]
    assert facts["images"] == []


def test_a_layout_fits_the_unit_square():
    """Positions lie in the unit square and repeat under a seed, for one node, no edges and many."""
    for weights in (np.zeros((1, 1)), np.zeros((4, 4)), random_graph(1, 20, 0.2)):
        places = layout(weights, 3)
        assert places.shape == (len(weights), 2)
        assert places.min() >= 0
        assert places.max() <= 1
        assert np.array_equal(places, layout(weights, 3))
