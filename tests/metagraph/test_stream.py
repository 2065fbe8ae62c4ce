"""The catalogue from disk: in batches, in pieces and on Ray it is that of the collection in memory, bit for bit."""

import json
import re
import socket
import sys
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.metagraph.catalogue import (
    Catalogue,
    Piece,
    Source,
    Terms,
    batches,
    catalogue,
    overview,
    streamed,
)
from shiftbench.metagraph.graph import meta_graph
from shiftbench.metagraph.subsets import spell
from shiftbench.metagraph.subsets import vocabulary as words
from tests.metagraph.test_subsets import tagged
from tests.strategies import seeds, toy

quick = settings(max_examples=20, deadline=None)
some = Terms(min_size=4, more_than=1)


def saved(c: Collection, folder: Path | str, group: int, plain: bool = False) -> Path:
    """A collection on disk as far as tags go, in row groups of some size, items as texts or as codes."""
    tags, place = c.tags, Path(folder)
    (place / "collection.json").write_text(json.dumps({
        "format": "shiftbench collection", "version": 1, "name": c.name, "tags": [tags.names, tags.kinds]}))
    item = pa.DictionaryArray.from_arrays(pa.array(tags.item), pa.array(c.items))
    tag = pa.DictionaryArray.from_arrays(pa.array(tags.tag), pa.array(vocabulary(c)))
    table = pa.table({"item": item.cast(pa.string()) if plain else item, "tag": tag})
    pq.write_table(table, place / "tags.parquet", row_group_size=group)
    return place


def vocabulary(c: Collection) -> tuple[str, ...]:
    return tuple(f"{kind}:{name}" for name, kind in zip(c.tags.names, c.tags.kinds, strict=True))


def same(one: Catalogue, other: Catalogue) -> bool:
    return one.classes == other.classes and all(
        np.array_equal(a, b) and a.dtype == b.dtype
        for a, b in zip([*one[1:-1], *one.edges], [*other[1:-1], *other.edges], strict=True))


@pytest.mark.slow
@quick
@given(seeds, st.integers(1, 60), st.integers(1, 400), st.integers(1, 300), st.booleans())
def test_batches_of_any_size_give_the_catalogue_of_the_whole(seed, rows, group, cells, plain):
    """However rows, row groups and counts are cut, and wherever a cut falls inside an item, nothing changes.

    A collection without any class is refused both ways with the same words.
    """
    c = tagged(seed, n=25)
    with TemporaryDirectory() as folder:
        place = saved(c, folder, group, plain)
        try:
            whole = catalogue(c, some)
        except ShiftBenchError as refused:
            with pytest.raises(ShiftBenchError, match=re.escape(str(refused))):
                streamed(place, some, rows=rows, cells=cells)
            return
        found = streamed(place, some, rows=rows, cells=cells)
    assert same(found, whole)


@quick
@given(seeds, st.integers(1, 40), st.integers(1, 50), st.lists(st.integers(0, 12), max_size=4))
def test_every_item_belongs_to_one_piece(seed, rows, group, cuts):
    """Pieces of the row groups hold each item once and whole, also where an item covers several row groups."""
    c = tagged(seed, n=12)
    with TemporaryDirectory() as folder:
        source = Source(str(saved(c, folder, group) / "tags.parquet"), vocabulary(c), rows)
        groups = pq.ParquetFile(source.path).num_row_groups
        bounds = [0, *sorted(min(cut, groups) for cut in cuts), groups]
        read = [tag[begin:end].tolist() for low, high in pairwise(bounds)
                for start, tag in batches(source, Piece(low, high)) for begin, end in pairwise(start)]
    changes = np.flatnonzero(np.diff(c.tags.item)) + 1
    assert read == [part.tolist() for part in np.split(c.tags.tag, changes)]


@quick
@given(seeds)
def test_edges_are_those_of_each_meta_graph(seed):
    """Every class of the catalogue has the subsets and the edges of its meta-graph made alone."""
    c = tagged(seed)
    found = catalogue(c, Terms(min_size=8, more_than=0, threshold=0.3))
    for k, cls in enumerate(found.classes):
        alone = meta_graph(c, cls, min_size=8, threshold=0.3)
        contexts = found.context[found.first[k]:found.first[k + 1]]
        names = dict(zip(contexts.tolist(), spell(c.tags, words(c.tags), cls, contexts), strict=True))
        weights = np.zeros((len(alone), len(alone)), np.float32)
        here = slice(found.edges.start[k], found.edges.start[k + 1])
        one, other = ([alone.names.index(names[code]) for code in side[here].tolist()]
                      for side in (found.edges.one, found.edges.other))
        weights[one, other] = weights[other, one] = found.edges.weight[here]
        assert set(names.values()) == set(alone.names)
        assert np.array_equal(weights, alone.weights.astype(np.float32))


def test_the_overview_of_a_folder_is_that_of_the_collection(tmp_path):
    """Whole numbers and means are the same from disk and from memory, and add up over the classes."""
    c = tagged(n=300)
    said = overview(c.save(tmp_path / "c"), some)
    assert said == overview(c, some)
    assert json.loads(json.dumps(said)) == said
    assert list(said) == ["classes", "subsets", "contexts", "mean_size", "median_size", "edges", "per_class"]
    assert said["classes"] == len(said["per_class"])
    assert said["subsets"] == sum(row["subsets"] for row in said["per_class"])
    assert said["edges"] == sum(row["edges"] for row in said["per_class"])
    cat = next(row for row in said["per_class"] if row["class"] == "cat")
    alone = meta_graph(c, "cat", min_size=4)
    assert (cat["items"], cat["subsets"], cat["edges"]) == (len(c.with_tag("cat")), len(alone), alone.edges)


def test_bad_tables_are_explained(tmp_path):
    """A table that is missing, torn, unsorted, doubled or foreign is named, with what is wrong in it."""
    c = toy(50)
    place = c.save(tmp_path / "c")
    tags = place / "tags.parquet"
    good = pq.read_table(tags)
    item, tag = good["item"].cast(pa.string()).combine_chunks(), good["tag"].cast(pa.string()).combine_chunks()
    for bad, message in (
        ({"item": item, "tag": pa.array(["object:unicorn", *tag.to_pylist()[1:]])}, "tags.parquet: No tag named"),
        ({"item": item, "tag": pa.array([None, *tag.to_pylist()[1:]], pa.string())}, "no item or no tag"),
        ({"item": pa.array(["a", "b", "a"]), "tag": tag[:3]}, "Sort them by item"),
        ({"item": pa.array(["a", "a"]), "tag": pa.array(["object:cat", "object:cat"])}, r"tags\.parquet: .*tag twice"),
        ({"item": item}, "has no column 'tag'"),
    ):
        pq.write_table(pa.table(bad), tags)
        with pytest.raises(ShiftBenchError, match=message):
            streamed(place, Terms(min_size=1000))
    tags.write_bytes(b"PAR1 torn")
    with pytest.raises(ShiftBenchError, match="not a readable parquet table"):
        streamed(place)
    tags.unlink()
    with pytest.raises(ShiftBenchError, match=r"tags\.parquet"):
        streamed(place)
    with pytest.raises(ShiftBenchError, match=r"Did you mean 'local'\?"):
        streamed(place, engine="locally")
    with pytest.raises(ShiftBenchError, match="Save 'toy' and give its folder"):
        overview(c, engine="ray")


def test_without_ray_the_message_says_what_to_install(tmp_path, monkeypatch):
    """Asking for Ray where it is not installed names the extra."""
    place = toy(50).save(tmp_path / "c")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ShiftBenchError, match=r'pip install "shiftbench\[ray\]"'):
        streamed(place, engine="ray")


def test_a_cluster_that_is_not_there_is_named(tmp_path, monkeypatch):
    """An address at which nobody answers is an error at once, not a long wait."""
    pytest.importorskip("ray")
    place = toy(50).save(tmp_path / "c")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(ShiftBenchError, match=f"No Ray cluster at {address}"):
            streamed(place, engine="ray")


@pytest.mark.faults
def test_ray_gives_the_catalogue_of_this_machine(tmp_path):
    """Pieces counted by Ray's workers sum to the same catalogue, and what a worker has to say reaches the user."""
    ray = pytest.importorskip("ray")
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        for seed, group in ((0, 7), (1, 100), (2, 10**6)):  # an item may lie across two pieces
            c = tagged(seed)
            found = streamed(saved(c, tmp_path, group), some, engine="ray", cells=500)
            assert same(found, catalogue(c, some))
        unsorted = pa.table({"item": pa.array(["a", "b", "a"]), "tag": pa.array(["object:cat"] * 3)})
        pq.write_table(unsorted, tmp_path / "tags.parquet")
        with pytest.raises(ShiftBenchError, match="Sort them by item"):
            streamed(tmp_path, engine="ray")
        assert ray.is_initialized()  # a cluster that was running before keeps running
    finally:
        ray.shutdown()
