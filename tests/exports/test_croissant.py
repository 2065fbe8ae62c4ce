"""croissant.json is valid, its digests are those of the files, and the records that it describes are the rows."""

import hashlib
import json
import logging
from dataclasses import replace

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.data.benchmark import table
from tests.exports.test_layouts import pets


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("to", ["csv", "torch", "hf"])
def test_mlcroissant_loads_the_rows(to, tmp_path, caplog):
    """mlcroissant finds no fault, offline, and gives every row with its item, split, label, domain and group."""
    mlc = pytest.importorskip("mlcroissant")  # here: it takes two seconds, which other workers need not spend
    collection = pets(tmp_path / "in")
    bench = sb.Given().build(collection)
    sb.export(bench, tmp_path / "out", to=to, collection=collection, licence="https://opensource.org/license/mit",
              citation="Nobody, 2026")
    caplog.set_level(logging.ERROR)
    described = mlc.Dataset(jsonld=str(tmp_path / "out" / "croissant.json"))
    assert not described.metadata.issues.errors
    facts = json.loads((tmp_path / "out" / "croissant.json").read_text())
    assert (facts["license"], facts["citeAs"]) == ("https://opensource.org/license/mit", "Nobody, 2026")
    for file in facts["distribution"]:
        if file["@type"] == "cr:FileObject":
            content = (tmp_path / "out" / file["contentUrl"]).read_bytes()
            assert file["sha256"] == hashlib.sha256(content).hexdigest()
    words = table(bench)
    expected = {item: tuple(str(words[column][row]) for column in ("split", "label", "domain", "group"))
                for row, item in enumerate(bench.items.tolist())}
    records = list(described.records("rows"))
    assert {text(record, "item"): tuple(named(bench, record, column) for column in (
        "split", "label", "domain", "group")) for record in records} == expected
    splits = [text(record, "name", "splits") for record in described.records("splits")]
    assert splits == ["train", "val", "test", "unlabelled"]
    if to == "hf":
        assert np.asarray(records[0]["rows/image"]).shape == (8, 8, 3)


def text(record, column, place="rows"):
    value = record[f"{place}/{column}"]
    return value.decode() if isinstance(value, bytes) else "" if value is None else str(value)


def named(bench, record, column):
    """The word of a column: as it stands, or the name of its code."""
    value = record[f"rows/{column}"]
    if isinstance(value, int | np.integer):
        return "" if value < 0 else bench.names[column][int(value)]
    return text(record, column)


def test_what_a_published_data_set_asks_for_is_written(tmp_path):
    """Licence and citation of a collection that `download` knows by its name; nothing where nobody knows them."""
    for name, there in (("iwildcam", True), ("pets", False)):
        collection = replace(pets(), name=name)
        sb.export(sb.Given().build(collection), tmp_path / name, to="csv", collection=collection)
        facts = json.loads((tmp_path / name / "croissant.json").read_text())
        assert ("license" in facts, "citeAs" in facts) == (there, there)
