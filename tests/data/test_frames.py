"""Data frames in and out: pandas, polars, pyarrow and dicts of columns mean what the same table in a file means."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.readers import READERS
from tests.toys import toy_rows

ROLES = {"id": "scan", "label": "tumor", "domain": "hospital", "split": "part"}
FRAMES = {"pandas": lambda table: table.to_pandas(), "polars": pl.from_arrow, "pyarrow": lambda table: table,
          "dict": lambda table: {name: column.to_pylist() for name, column in zip(table.column_names, table.columns,
                                                                                  strict=True)},
          "arrays": lambda table: {name: column.to_numpy() for name, column in zip(table.column_names, table.columns,
                                                                                   strict=True)}}
frames = pytest.mark.parametrize("form", FRAMES)


def scans(n: int = 24) -> pa.Table:
    """A hospital's table."""
    k = np.arange(n)
    return pa.table({"scan": [f"{i:04}" for i in k], "tumor": np.asarray(["no", "yes"])[k // 2 % 2],
                     "hospital": np.asarray(["a", "b", "c"])[k % 3], "part": np.where(k % 3 < 2, "train", "test"),
                     "age": 40 + k, "dose": k / 4, "note": [f"note {i}" for i in k], "smokes": k % 5 == 0,
                     "file": [f"{i}.png" for i in k]})


@frames
def test_a_frame_is_the_collection_of_its_file(tmp_path, form):
    """`from_frame` and `read table` of the same table, in memory and as parquet, are equal, tags and texts too."""
    pq.write_table(scans(), tmp_path / "scans.parquet")
    more = {"features": ["age", "dose"], "text": "note", "tags": ["smokes"], "image": "file", "images": tmp_path}
    file = READERS["table"](tmp_path / "scans.parquet", **ROLES, **more)
    collection = sb.Collection.from_frame(FRAMES[form](scans()), **ROLES, **more, name="scans")
    assert collection == file
    assert collection.items[1] == "0001"
    assert set(collection.tags.names) == {"smokes"}
    assert collection.factors["feature:dose"].tolist() == scans()["dose"].to_pylist()


def test_a_frame_goes_where_a_file_goes(tmp_path):
    """read("table", frame) is read("table", file); other formats are files."""
    pq.write_table(scans(), tmp_path / "scans.parquet")
    assert sb.read("table", scans().to_pandas(), **ROLES, name="scans") == sb.read(
        "table", tmp_path / "scans.parquet", **ROLES)
    with pytest.raises(ShiftBenchError, match=r"^coco: is read from files, not from a DataFrame"):
        sb.read("coco", scans().to_pandas())


def test_types_of_pandas_and_polars_are_words_and_numbers():
    """Categories are words, an index with a name is a column and one without is none, a gap of pandas is a gap."""
    table = scans().to_pandas()
    expected = sb.Collection.from_frame(table, **ROLES)
    assert sb.Collection.from_frame(table.astype({"hospital": "category", "tumor": "category"}), **ROLES) == expected
    assert sb.Collection.from_frame(table.set_index("scan"), **ROLES).items.tolist() == expected.items.tolist()
    assert set(sb.Collection.from_frame(table[table.age > 50], **ROLES).factors) == set(expected.factors)
    assert sb.Collection.from_frame(pl.from_arrow(scans()).with_columns(pl.col("hospital").cast(pl.Categorical)),
                                    **ROLES) == expected
    table.loc[3, "dose"] = np.nan
    assert np.isnan(sb.Collection.from_frame(table, **ROLES).factors["dose"][3])
    table.loc[3, "tumor"] = None
    with pytest.raises(ShiftBenchError, match=r"^DataFrame: row 3 has nothing in column 'tumor'"):
        sb.Collection.from_frame(table, **ROLES)


def test_a_named_index_that_counts_is_a_column():
    """pandas keeps it as a range, which pyarrow describes and does not write."""
    table = scans().to_pandas().drop(columns="scan")
    table.index = pd.RangeIndex(100, 100 + len(table), name="scan")
    assert sb.Collection.from_frame(table, **ROLES).items.tolist() == [str(100 + k) for k in range(len(table))]
    assert len(sb.Collection.from_frame(table[:5], **ROLES)) == 5
    assert len(sb.Collection.from_frame(pa.Table.from_pandas(table), **ROLES)) == len(table)
    _, benchmark = toy_rows()
    answers = pd.DataFrame({"prediction": "cat"}, index=pd.Index(benchmark.items, name="item"))
    assert sb.score(benchmark, answers) == sb.score(benchmark, answers.reset_index())


def test_nan_in_a_list_of_words_is_a_gap():
    """Not the word nan; also where numbers are among the words."""
    for words in (["a", float("nan"), "b", "a"], ["a", float("nan"), 3, "a"], ["a", None, "b", "a"]):
        table = {"scan": [1, 2, 3, 4], "tumor": ["x", "y", "x", "y"], "hospital": words, "part": ["train"] * 4}
        with pytest.raises(ShiftBenchError, match=r"^dict: row 1 has nothing in column 'hospital'"):
            sb.Collection.from_frame(table, **ROLES)
        other = sb.Collection.from_frame({**table, "note": words}, **{**ROLES, "domain": "part", "split": None})
        assert other.factors["note"].tolist() == [str(word) if word == word and word else "" for word in words]


def test_a_period_is_its_text():
    """A month of pandas is 2020-01, not the months since 1970; a period that is missing is a gap."""
    table = scans(4).to_pandas()
    table["month"] = pd.PeriodIndex(["2020-01", "2020-02", None, "2021-01"], freq="M")
    assert sb.Collection.from_frame(table, **ROLES).factors["month"].tolist() == ["2020-01", "2020-02", "", "2021-01"]


def test_a_frame_that_waits_is_computed(tmp_path):
    """A LazyFrame of polars goes wherever a frame goes."""
    pq.write_table(scans(), tmp_path / "scans.parquet")
    lazy = pl.scan_parquet(tmp_path / "scans.parquet")
    assert sb.Collection.from_frame(lazy, **ROLES) == sb.Collection.from_frame(scans(), **ROLES)
    _, benchmark = toy_rows()
    answers = pl.DataFrame({"item": benchmark.items, "prediction": ["cat"] * len(benchmark)})
    assert sb.score(benchmark, answers.lazy()) == sb.score(benchmark, answers)


@pytest.mark.parametrize(("frame", "message"), [
    ([1, 2], "^list is neither the file of a table, nor a data frame"),
    (scans().drop_columns(["scan"]).to_pandas(), r"^DataFrame: No column named 'scan'"),
    ({"scan": [1, 2], "tumor": ["a"], "hospital": [1, 2], "part": ["train"] * 2}, "^dict: cannot be read as a table"),
    ({"scan": "0001"}, r"^dict\['scan'\]: is str"),
    (pd.Series([1, 2]), "^Series: cannot be read as a table"),
    ({}, "^dict: No column named 'scan'"),
    (pa.table([[1], [2]], names=["scan", "scan"]), "^Table: has more than one column 'scan'"),
])
def test_what_is_wrong_with_a_frame_is_said(frame, message):
    """One message that begins with what the user passed."""
    with pytest.raises(ShiftBenchError, match=message):
        sb.Collection.from_frame(frame, **ROLES)


def test_images_need_the_column_of_their_names(tmp_path):
    """A folder of images that no column leads to is not ignored."""
    with pytest.raises(ShiftBenchError, match="Name the column of their names too, with `image`"):
        sb.Collection.from_frame(scans(), **ROLES, images=tmp_path)


def test_the_split_of_the_data_keeps_the_domain_of_the_table():
    """`Given()` takes the factor `domain` where there is one; where there is none the split is the domain."""
    collection = sb.Collection.from_frame(scans(), **ROLES)
    assert sb.Given().build(collection).names["domain"] == ("a", "b", "c")
    assert sb.Given().build(collection).digest == sb.Given(domain="hospital").build(collection).digest
    without = sb.Collection.from_frame(scans(), **{key: ROLES[key] for key in ("id", "label", "split")})
    assert sb.Given().build(without).names["domain"] == ("test", "train")
    assert sb.Given(domain="split").build(collection).names["domain"] == ("test", "train")


@frames
def test_predictions_may_be_a_frame(tmp_path, form):
    """A frame with the columns of a file of predictions is scored as the file."""
    _, benchmark = toy_rows()
    rng = np.random.default_rng(0)
    table = pa.table({"item": benchmark.items, "cat": rng.normal(size=240), "dog": rng.normal(size=240)})
    pq.write_table(table, tmp_path / "predictions.parquet")
    assert sb.score(benchmark, FRAMES[form](table)) == sb.score(benchmark, tmp_path / "predictions.parquet")
    with pytest.raises(ShiftBenchError, match=r"^(DataFrame|Table|dict): has no column 'item'"):
        sb.score(benchmark, FRAMES[form](table.drop_columns(["item"])))


def test_an_array_of_two_dimensions_is_a_column_of_lists():
    """{"item": …, "logits": items × classes} is a table of predictions."""
    _, benchmark = toy_rows()
    logits = np.random.default_rng(0).normal(size=(240, 2)).astype(np.float32)
    assert sb.score(benchmark, {"item": benchmark.items, "logits": logits}) == sb.score(
        benchmark, ids=benchmark.items, logits=logits)
    with pytest.raises(ShiftBenchError, match="ndarray is neither a table of predictions nor the file of one"):
        sb.score(benchmark, logits)


@pytest.mark.parametrize("package", ["pandas", "polars", "arrow"])
def test_tables_leave_and_come_back(package):
    """Scores and predictions are the same after a data frame; a benchmark's frame has its words."""
    _, benchmark = toy_rows()
    predictions = sb.Predictions.of(benchmark, benchmark.items, predictions=benchmark.label)
    scores = sb.score(benchmark, predictions)
    assert sb.Scores.from_frame(getattr(scores, f"to_{package}")()) == scores
    assert sb.Predictions.load(getattr(predictions, f"to_{package}")(), benchmark) == predictions
    rows = getattr(benchmark, f"to_{package}")()
    assert list(map(str, rows["label"])) == np.asarray(benchmark.names["label"])[benchmark.label].tolist()
    assert list(map(str, rows["item"])) == benchmark.items.tolist()


def test_verbs_take_a_frame_of_scores():
    """A table of scores in memory is reported, and compared, as the object."""
    _, benchmark = toy_rows()
    scores = sb.score(benchmark, ids=benchmark.items, predictions=benchmark.label, method="mine")
    assert sb.table(scores.to_pandas()) == sb.table(scores)
    with pytest.raises(ShiftBenchError, match=r"^DataFrame: No column named 'value'"):
        sb.table(scores.to_polars().drop("value"))


def test_a_missing_package_is_named(monkeypatch):
    """Without pandas or polars the error says what to install."""
    scores = sb.Scores.join([])
    for package in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ShiftBenchError, match=f"^{package} is not installed. .* pip install {package}$"):
            getattr(scores, f"to_{package}")()


@pytest.mark.slow
def test_frames_are_imported_only_when_they_are_asked_for():
    """Scoring arrays loads neither pandas nor polars."""
    script = ("import sys, shiftbench as sb; sb.Collection, sb.Scores, sb.Predictions, sb.score;"
              "assert not {'pandas', 'polars'} & set(sys.modules)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
