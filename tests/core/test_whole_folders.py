"""A collection or benchmark is loaded as it was written, or not at all: no bit changed, no half of another."""

import json

import numpy as np
import pytest

import shiftbench.data.benchmark
import shiftbench.data.collection
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from tests.strategies import toy
from tests.toys import toy_rows


def other(n=600):
    """The same items with every place turned round."""
    collection = toy(n)
    turned = np.where(collection.factor("place") == "indoors", "outdoors", "indoors")
    return Collection("other", collection.items, {**collection.factors, "place": turned}, collection.tags,
                      collection.texts, collection.parents, collection.pixels)


@pytest.mark.parametrize("file", ["items.parquet", "tags.parquet", "texts.parquet", "parents.parquet"])
def test_one_flipped_bit_is_noticed(tmp_path, file):
    """Whichever bit of whichever table it is, the message names the table."""
    toy(50).save(tmp_path / "toy")
    path = tmp_path / "toy" / file
    sound = path.read_bytes()
    for place in range(0, len(sound), max(1, len(sound) // 25)):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1:])
        with pytest.raises(ShiftBenchError, match=rf"{file}: does not match its digest in collection\.json"):
            Collection.load(tmp_path / "toy")
    path.write_bytes(sound)
    assert Collection.load(tmp_path / "toy") == toy(50)


def test_tables_of_another_collection_are_noticed(tmp_path):
    """A file copied from another folder, or gone, is one line; a collection of an older version has no digests."""
    toy(50).save(tmp_path / "toy")
    other(50).save(tmp_path / "other")
    items = tmp_path / "toy" / "items.parquet"
    sound = items.read_bytes()
    items.write_bytes((tmp_path / "other" / "items.parquet").read_bytes())
    with pytest.raises(ShiftBenchError, match="does not match its digest"):
        Collection.load(tmp_path / "toy")
    items.unlink()
    with pytest.raises(ShiftBenchError, match="No such file"):
        Collection.load(tmp_path / "toy")
    items.write_bytes(sound)
    (tmp_path / "toy" / "mine.parquet").write_bytes(b"a file that a user keeps here")
    marker = tmp_path / "toy" / "collection.json"
    facts = json.loads(marker.read_text())
    del facts["files"]
    marker.write_text(json.dumps(facts))
    assert Collection.load(tmp_path / "toy") == toy(50)


def replaced(monkeypatch, module, times, replace):
    """Another process replaces the folder right after its first table was read, so many times."""
    plain, left = module.read_table, [times]

    def read_table(*given, **options):
        table = plain(*given, **options)
        if left[0]:
            left[0] -= 1
            replace(left[0])
        return table

    monkeypatch.setattr(module, "read_table", read_table)


def test_a_collection_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    """It is the old one or the new one to the last annotation; replaced again and again, one line says so."""
    made = (toy(600), other())
    made[0].save(tmp_path / "toy")
    replaced(monkeypatch, shiftbench.data.collection, 1, lambda left: other().save(tmp_path / "toy"))
    loaded = Collection.load(tmp_path / "toy")
    assert loaded.name == "other"
    assert loaded.digest == made[1].digest
    replaced(monkeypatch, shiftbench.data.collection, 1000, lambda left: made[left % 2].save(tmp_path / "toy"))
    with pytest.raises(ShiftBenchError, match="another process replaced it while it was read"):
        Collection.load(tmp_path / "toy")


def test_a_benchmark_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    """The card and the rows are of one benchmark."""
    toy_rows(80)[1].save(tmp_path / "b")
    new = toy_rows(120, seed=1)[1]
    replaced(monkeypatch, shiftbench.data.benchmark, 1, lambda left: new.save(tmp_path / "b"))
    assert Benchmark.load(tmp_path / "b") == new
