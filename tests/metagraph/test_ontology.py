"""The paper's lists of contexts, and meta-graphs kept to them."""

import numpy as np
from PIL import Image

from shiftbench.data.collection import Collection, Tags
from shiftbench.metagraph.graph import distance, meta_graph
from shiftbench.metagraph.picture import draw_html
from shiftbench.metagraph.subsets import ATTRIBUTES, GENERAL, paper_contexts
from shiftbench.shifts import Subset
from tests.strategies import toy


def test_the_lists_have_the_papers_sizes():
    """37 general contexts, none twice; 114 attributes as printed, leather twice among them."""
    general = [word for words in GENERAL.values() for word in words]
    assert len(general) == len(set(general)) == 37
    assert sum(len(words) for words in ATTRIBUTES.values()) == 114 - 1


def test_within_drops_what_the_paper_does_not_use():
    """Places, weather and attributes outside the lists go with their rows and boxes; objects stay as they are."""
    names = ["cat", "cellar", "beach", "cat(black)", "cat(fluffy)", "sofa"]
    kinds = ["object", "place", "place", "attribute", "attribute", "object"]
    box = np.full((6, 4), np.nan)
    box[[0, 1, 5]] = [[0, 0, 1, 1], [0, 0, 0.2, 0.2], [0, 0, 0.5, 0.5]]
    tags = Tags.of(np.zeros(6, int), np.arange(6), names, kinds, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], box)
    kept = paper_contexts(Collection("c", np.asarray(["a"]), tags=tags)).tags
    assert kept.names == ("cat", "beach", "cat(black)", "sofa")
    assert [kept.names[code] for code in kept.tag] == list(kept.names)
    assert np.allclose(kept.area, [0.1, 0.3, 0.4, 0.6])
    assert kept.box_row.tolist() == [0, 3]
    assert kept.boxes[1].tolist() == [0, 0, 0.5, 0.5]


def test_the_card_gives_the_distance_of_every_training_subset():
    """Each subset's distance is that of the graph, and the union lies between its parts."""
    collection = toy(600)
    made = Subset(("cat(sofa)", "dog(bench + boat)"), ("dog(shelf)",), moves="dog").build(collection)
    graph = meta_graph(collection, "dog", kinds=("object",))
    assert made.card["subsets"] == {f"dog({name})": distance(graph, [name], ["shelf"]) for name in ("bench", "boat")}
    assert made.card["contexts"] == {"train": {"cat": ["sofa"], "dog": ["bench", "boat"]}, "test": {"dog": ["shelf"]}}
    assert made.card["distance"] <= max(made.card["subsets"].values())


def test_the_page_shows_images_from_files(tmp_path):
    """With image files on disk the nodes have sample images; files that are missing are left out."""
    base = toy(300)
    names = np.asarray([f"{k}.png" for k in range(300)])
    for name in names[::2]:
        Image.new("RGB", (80, 60), (200, 30, 30)).save(tmp_path / name)
    collection = Collection("c", base.items, base.factors, base.tags, pixels=names, root=tmp_path)
    page = draw_html(meta_graph(collection, "dog"), tmp_path / "g.html", collection).read_text()
    assert page.count("data:image/png;base64,") > 5
