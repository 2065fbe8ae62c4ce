"""A class of very many contexts is drawn by its largest, and the rest is listed."""

import numpy as np
import pytest

from shiftbench.metagraph.graph import MetaGraph, heaviest
from shiftbench.metagraph.picture import DRAWN, draw_html, draw_png


def crowd(n: int) -> MetaGraph:
    """A ring of subsets, the k-th of k + 25 items."""
    weights = np.zeros((n, n))
    weights[np.arange(n), (np.arange(n) + 1) % n] = weights[(np.arange(n) + 1) % n, np.arange(n)] = 0.5
    angle = 2 * np.pi * np.arange(n) / n
    return MetaGraph("dog", tuple(f"place {code:04d}" for code in range(n)), np.arange(25, 25 + n), weights,
                     np.arange(n) % 7, np.stack([np.cos(angle), np.sin(angle)], axis=1), 0.1)


@pytest.mark.slow
def test_the_largest_are_drawn_and_all_others_are_listed(tmp_path):
    """The page says how many subsets are drawn, and every other one stands in a list with its size."""
    graph = crowd(900)
    text = draw_html(graph, tmp_path / "g.html").read_text()
    assert f"The {DRAWN} largest are drawn; the other {900 - DRAWN} are listed below." in text
    assert text.count('<g class="node"') == 2 * DRAWN  # the graph and its embedding
    assert "Subsets 301 to 800 by size" in text
    for code in (0, 599):
        assert f"place {code:04d} ({25 + code})" in text
    assert f"place {600:04d} ({25 + 600})" not in text
    assert draw_png(graph, tmp_path / "g.png").stat().st_size > 10_000


def test_a_part_of_a_graph_lies_where_it_lay():
    """The largest subsets keep their order, communities, overlaps and places; a small graph stays whole."""
    graph = crowd(40)
    part = heaviest(graph, 10)
    assert part.names == graph.names[30:]
    assert np.array_equal(part.embedding, graph.embedding[30:])
    assert np.array_equal(part.weights, graph.weights[30:, 30:])
    assert np.array_equal(part.communities, graph.communities[30:])
    assert heaviest(graph, 40) is graph
