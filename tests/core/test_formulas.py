"""Texts that a spreadsheet would take for formulas: no CSV file of ours holds one, and all come back as they were."""

import csv

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftbench as sb
from shiftbench.core.tables import read_table, write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions

EVIL = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "'=x", "''@y", "'plain", "cat", "-1", "+3.5e-2",
        "é=", ""]


@pytest.mark.slow
@given(st.lists(st.text(st.sampled_from("=+-@'\t19.ea é"), max_size=6), min_size=1))
def test_every_text_comes_back(tmp_path_factory, words):
    """Whatever apostrophes, signs and digits it begins with; and what is written begins no formula."""
    table = pa.table({"w": pa.array(words, pa.string()), "n": np.arange(len(words))})
    path = tmp_path_factory.getbasetemp() / "words.csv"
    write_table(path, table)
    assert read_table(path, text=["w"]).equals(table)
    with path.open(newline="") as file:
        written = [row["w"] for row in csv.DictReader(file)]
    assert len(written) == len(words)
    for word in written:
        assert not word.startswith(("=", "@", "\t", "\r"))
        assert not word.startswith(("+", "-")) or float(word) is not None


def test_a_csv_file_holds_no_formula(tmp_path):
    """As another program reads it: no cell begins one, numbers stay numbers, and we read what was written."""
    table = pa.table({"=evil": pa.array(EVIL), "score": np.linspace(-1, 1, len(EVIL))})
    write_table(tmp_path / "t.csv", table)
    with (tmp_path / "t.csv").open(newline="") as file:
        cells = list(csv.reader(file))
    assert cells[0] == ["'=evil", "score"]
    assert [row[0][:1] for row in cells[1:]] == ["'"] * 8 + ["c", "-", "+", "é", ""]
    assert cells[1][1] == "-1"
    assert read_table(tmp_path / "t.csv", text=["'=evil"]).equals(table)


def test_predictions_for_an_exported_benchmark_find_their_items(tmp_path):
    """Ids copied from rows.csv as they stand, apostrophes and all, are the items of the benchmark; so is a new read."""
    items = np.asarray(EVIL[:-1])
    n = len(items)
    benchmark = Benchmark.of(Collection("c", items), None, 0, np.arange(n), np.full(n, "test"),
                             label=np.resize(["=cat", "dog"], n), domain=np.full(n, "d"))
    rows = sb.export(benchmark, tmp_path / "out", to="csv") / "rows.csv"
    with rows.open(newline="") as file:
        lines = list(csv.DictReader(file))
    with (tmp_path / "p.csv").open("w", newline="") as file:
        mine = csv.writer(file)
        mine.writerow(["item", "prediction"])
        mine.writerows([line["item"], line["label"]] for line in lines)
    read = Predictions.load(tmp_path / "p.csv", benchmark)
    assert read.item.tolist() == benchmark.items.tolist()
    assert (read.predicted == benchmark.label).all()
    again = sb.read("table", rows, id="item", label="label")
    assert sorted(again.items.tolist()) == sorted(items.tolist())
