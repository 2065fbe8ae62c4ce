"""A user's own table: every value comes back, and what cannot be read says where, why and what to do."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import read_table
from shiftbench.data.benchmark import SPLITS
from shiftbench.data.collection import Collection
from shiftbench.data.item_table import features
from shiftbench.readers import READERS

read = READERS["table"]
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ROLES = {"id": "scan", "label": "tumor", "domain": "hospital", "split": "part"}
COLUMNS = ["scan", "tumor", "hospital", "part", "age", "dose", "note", "file"]

# Words a person writes into a table: no control characters, but commas, quotes and line breaks.
words = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), include_characters="\n"),
                min_size=1, max_size=8).filter(lambda word: word.strip() != "")
numbers = st.floats(allow_nan=False, allow_infinity=False)


def scans(path: Path, rows: int = 12, change: dict[str, object] | None = None, at: int = 3) -> Path:
    """A hospital's table; `change` replaces values in one row."""
    listed = [{"scan": f"{n:04}", "tumor": ("no", "yes")[n // 2 % 2], "hospital": f"{n % 3:02}",
               "part": "train" if n % 3 < 2 else "test", "age": 40 + n, "dose": n / 4, "note": f"note {n}",
               "file": f"{n}.png"} for n in range(rows)]
    listed[at] |= change or {}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(listed)
    return path


def test_columns_become_what_they_are_named_for(tmp_path: Path) -> None:
    """Label, domain and split take our names beside their own, features a mark; leading zeros stay."""
    path = scans(tmp_path / "scans.csv")
    one = read(path, **ROLES, features=["age", "dose"], text="note")
    assert one.name == "scans"
    assert one.items.tolist()[:2] == ["0000", "0001"]
    assert set(one.factors) == {"label", "domain", "split", "tumor", "hospital", "part", "feature:age", "feature:dose",
                                "file"}
    assert one.factors["hospital"].tolist() == one.factors["domain"].tolist()
    assert one.factors["domain"].tolist()[:4] == ["00", "01", "02", "00"]
    assert one.texts.text.tolist() == [f"note {n}" for n in range(12)]
    names, matrix = features(Collection.load(one.save(tmp_path / "c")))
    assert names == ("age", "dose")
    assert matrix.tolist() == [[40 + n, n / 4] for n in range(12)]


@pytest.mark.slow
@few
@given(rows=st.lists(st.tuples(words, words, st.sampled_from(SPLITS), numbers, st.integers(-2 ** 53, 2 ** 53),
                               words | st.just("")), min_size=1, max_size=12),
       parquet=st.booleans())
def test_every_value_comes_back(tmp_path: Path, rows: list, parquet: bool) -> None:
    """Whatever words and numbers are in a table, CSV or parquet, they are in the collection, before and after disk."""
    columns = {"key": [f"k{n}" for n in range(len(rows))]} | {
        name: [row[at] for row in rows] for at, name in enumerate(("y", "site", "fold", "x", "count", "remark"))}
    path = tmp_path / f"data.{'parquet' if parquet else 'csv'}"
    if parquet:
        pq.write_table(pa.table(columns), path)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([columns, *zip(*columns.values(), strict=True)])
    one = read(path, id="key", label="count", domain="site", split="fold", text="remark", features=["x"])
    for made in (one, Collection.load(one.save(tmp_path / "c"))):
        assert made.items.tolist() == columns["key"]
        assert made.factors["label"].tolist() == columns["count"]
        assert made.factors["domain"].tolist() == columns["site"]
        assert made.factors["split"].tolist() == columns["fold"]
        assert features(made)[1][:, 0].tolist() == columns["x"]
        assert made.texts.item.tolist() == [n for n, word in enumerate(columns["remark"]) if word]
        assert made.texts.text.tolist() == [word for word in columns["remark"] if word]


@pytest.mark.parametrize(("change", "options", "message"), [
    ({"scan": "0005"}, {}, r"id '0005' in column 'scan' is in rows 3 and 5; 1 ids are not unique"),
    ({"scan": ""}, {}, "row 3 has nothing in column 'scan'"),
    ({"tumor": " "}, {}, "row 3 has nothing in column 'tumor'"),
    ({"hospital": ""}, {}, "row 3 has nothing in column 'hospital'"),
    ({"part": "valid"}, {}, "row 3, column 'part': No split named 'valid'. Did you mean 'val'.*--rename valid=val"),
    ({"part": "dev"}, {"rename": {"dev": "dev2"}}, "'dev' is to be renamed: No split named 'dev2'"),
    ({}, {"rename": {"dev": "val"}}, "to rename: No split named 'dev'"),
    ({}, {"label": "tumour"}, "No column named 'tumour'. Did you mean 'tumor'"),
    ({}, {"features": ["aeg"]}, "No column named 'aeg'. Did you mean 'age'"),
    ({}, {"features": ["tumor"]}, "column 'tumor' is given for label and for features"),
    ({}, {"text": "hospital"}, "column 'hospital' is given for domain and for text"),
    ({"age": ""}, {"features": ["age"]}, "row 3 has nothing in column 'age'"),
    ({"age": "nan"}, {"features": ["age"]}, "row 3 has nothing in column 'age'"),
    ({"age": "inf"}, {"features": ["age"]}, "row 3 has inf in feature column 'age'"),
    ({"age": "old"}, {"features": ["age"]}, "column 'age' is not all numbers"),
    ({}, {"image": "file", "images": "nowhere"}, "nowhere: no such folder"),
    ({"file": "../x.png"}, {"image": "file"}, "leads out of its folder"),
])
def test_what_is_wrong_is_said(tmp_path: Path, change: dict, options: dict, message: str) -> None:
    """A gap, a double, a wrong word or a wrong column is one error with the place and the nearest right name."""
    path = scans(tmp_path / "scans.csv", change=change)
    with pytest.raises(ShiftBenchError, match=message):
        read(path, **{**ROLES, **options})


@pytest.mark.parametrize(("content", "message"), [
    ("", "is empty"), ("scan,tumor\n", "has no rows"), ("scan,scan\n1,2\n", "more than one column 'scan'"),
    ("scan,tumor\n1\n", "not a readable CSV table"),
    ("scan,tumor,label,label_column\n1,a,x,y\n", "has columns 'label' and 'label_column'"),
    ("scan,tumor,feature:z\n1,a,2\n", "begins with 'feature:'"),
])
def test_tables_that_are_none(tmp_path: Path, content: str, message: str) -> None:
    """A file that is no table of items is refused with the reason."""
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ShiftBenchError, match=message):
        read(tmp_path / "t.csv", id="scan", label="tumor")
    with pytest.raises(ShiftBenchError, match="no such file"):
        read(tmp_path / "u.csv", id="scan", label="tumor")


def test_a_file_name_may_be_the_id_and_a_domain_the_split(tmp_path: Path) -> None:
    """One column for two roles, where that means something; the label is never an input."""
    path = scans(tmp_path / "scans.csv")
    for n in range(12):
        (tmp_path / f"{n}.png").touch()
    one = read(path, id="file", image="file", label="tumor", domain="part", split="part")
    assert one.pixels.tolist() == one.items.tolist() == [f"{n}.png" for n in range(12)]
    assert one.factors["domain"].tolist() == one.factors["split"].tolist() == one.factors["part"].tolist()
    two = read(path, id="scan", label="tumor", domain="age", features="age, dose")
    assert features(two)[0] == ("age", "dose")
    assert two.factors["age"].tolist() == two.factors["domain"].tolist() == [str(40 + n) for n in range(12)]
    with pytest.raises(ShiftBenchError, match=r"'age' is given for features and for features"):
        read(path, id="scan", label="tumor", features=["age", "age"])
    with pytest.raises(ShiftBenchError, match=r"'tumor' is given for label and for domain.*id\+image"):
        read(path, id="scan", label="tumor", domain="tumor")


def test_a_spare_column_with_our_word_is_kept_and_told(tmp_path: Path) -> None:
    """A column `split` that nobody named is a factor, under another name where the split is another column."""
    path = tmp_path / "t.csv"
    path.write_text("scan,y,label,split,part\n1,a,u,x,train\n2,b,v,y,test\n")
    with pytest.warns(UserWarning, match="'split' is not named with --split; it is kept as the factor 'split', which"):
        one = read(path, id="scan", label="label")
    assert one.factors["split"].tolist() == ["x", "y"]
    with pytest.warns(UserWarning, match="kept as the factor 'split_column'."):
        two = read(path, id="scan", label="y", split="part")
    assert {name: values.tolist() for name, values in two.factors.items()} == {
        "label": ["a", "b"], "y": ["a", "b"], "split": ["train", "test"], "part": ["train", "test"],
        "label_column": ["u", "v"], "split_column": ["x", "y"]}
    with pytest.warns(UserWarning, match="'split' is not named"):
        moved = read(path, id="scan", label="y", domain="label")
    assert moved.factors["domain"].tolist() == ["u", "v"]
    assert moved.factors["label"].tolist() == ["a", "b"]


@pytest.mark.parametrize(("name", "mark"), [("x.txt", " "), ("x.dat", ";"), ("x", ","), ("x.csv", "|")])
def test_text_files_of_any_name_are_text(tmp_path: Path, name: str, mark: str) -> None:
    """What is no parquet file is read as text, whatever its name; without --between the message says what to say."""
    (tmp_path / name).write_text(f"scan{mark}tumor\n1{mark}a\n2{mark}b\n")
    assert read(tmp_path / name, id="scan", label="tumor", between=mark).factors["label"].tolist() == ["a", "b"]
    if mark != ",":
        with pytest.raises(ShiftBenchError, match="Say so with --between"):
            read(tmp_path / name, id="scan", label="tumor")
    pq.write_table(pa.table({"scan": ["1"], "tumor": ["a"]}), tmp_path / "y.data")
    assert len(read(tmp_path / "y.data", id="scan", label="tumor")) == 1


def test_parquet_of_every_type(tmp_path: Path) -> None:
    """Dates, booleans, categories and gaps become words or NaN; lists and a NaN label are refused."""
    path = tmp_path / "t.parquet"
    columns = {"id": pa.array([1, 2, 3]), "y": pa.array([0.5, 1.5, 2.5]),
               "day": pa.array([0, None, 2], pa.date32()), "ok": pa.array([True, None, False]),
               "kind": pa.array(["a", "b", None]).dictionary_encode(), "n": pa.array([1, None, 3]),
               "none": pa.nulls(3), "big": pa.array([2 ** 64 - 1, 0, 1], pa.uint64())}
    pq.write_table(pa.table(columns), path)
    one = read(path, id="id", label="y")
    assert Collection.load(one.save(tmp_path / "c")).digest == one.digest
    assert one.items.tolist() == ["1", "2", "3"]
    assert one.factors["label"].tolist() == [0.5, 1.5, 2.5]
    assert one.factors["day"].tolist() == ["1970-01-01", "", "1970-01-03"]
    assert one.factors["ok"].tolist() == ["true", "", "false"]
    assert one.factors["kind"].tolist() == ["a", "b", ""]
    np.testing.assert_array_equal(one.factors["n"], [1, np.nan, 3])
    assert one.factors["big"].tolist() == [str(2 ** 64 - 1), "0", "1"]
    for wrong, message in ((pa.array([[1], [2], [3]]), "'z' holds list"), (pa.array([b"a", b"b", b"c"]), "'z' holds")):
        pq.write_table(pa.table(columns | {"z": wrong}), path)
        with pytest.raises(ShiftBenchError, match=message):
            read(path, id="id", label="y")
    pq.write_table(pa.table(columns | {"y": pa.array([0.5, float("nan"), 1])}), path)
    with pytest.raises(ShiftBenchError, match="row 1 has nothing in column 'y'"):
        read(path, id="id", label="y")


def test_images_are_below_their_folder(tmp_path: Path) -> None:
    """Image names lead to files below the folder given, or below the table's own."""
    path = scans(tmp_path / "scans.csv")
    (tmp_path / "png").mkdir()
    for n in range(12):
        (tmp_path / "png" / f"{n}.png").touch()
    one = read(path, **ROLES, image="file", images=tmp_path / "png")
    assert one.path(7) == (tmp_path / "png" / "7.png").resolve()
    beside = scans(tmp_path / "png" / "scans.csv")
    assert read(beside, **ROLES, image="file").path(7) == one.path(7)


def run(*command: object) -> str:
    told = CliRunner().invoke(app, [str(part) for part in command])
    assert told.exit_code == 0, told.output
    return told.stdout


def test_from_a_table_to_a_benchmark(tmp_path: Path) -> None:
    """Read, build, check: a hospital column becomes a benchmark in two lines, and it is fit."""
    path = scans(tmp_path / "scans.csv", rows=120)
    path.write_text(path.read_text().replace(",02,test,", ",02,holdout,"))
    (tmp_path / "given.toml").write_text('[shift.given]\nlabel = "label"\ndomain = "domain"\n')
    run("read", "table", path, "--id", "scan", "--label", "tumor", "--domain", "hospital", "--split", "part",
        "--features", "age, dose", "--rename", "holdout=test", "--out", tmp_path / "c", "--json")
    made = json.loads(run("build", tmp_path / "given.toml", "--collection", tmp_path / "c", "--out", tmp_path / "b",
                          "--json"))
    assert made["rows"] == 120
    assert json.loads(run("check", tmp_path / "b", "--json"))["fit"]
    wrong = CliRunner().invoke(app, ["read", "table", str(path), "--id", "scan", "--label", "tumor", "--rename", "x",
                                     "--out", str(tmp_path / "d")])
    assert "Write --rename valid=val" in str(wrong.exception)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_text_in_another_encoding_says_which_to_use(tmp_path: Path, encoding: str) -> None:
    """As Excel and old tools write it."""
    (tmp_path / "t.csv").write_text("id,y\n1,ä\n", encoding=encoding)
    with pytest.raises(ShiftBenchError, match=r"not a readable CSV table .* Save it as UTF-8\."):
        read_table(tmp_path / "t.csv", text=("y",))


@pytest.mark.parametrize(("mark", "ending"), [(";", "csv"), ("|", "csv"), ("\t", "tsv"), ("\t", "csv"), (",", "csv")])
def test_other_separators(tmp_path: Path, mark: str, ending: str) -> None:
    """A spreadsheet's table, with its own separator and a byte order mark, is read; the separator must be said."""
    path = tmp_path / f"t.{ending}"
    path.write_text("id,y\na,u\nb,v\n".replace(",", mark), encoding="utf-8-sig")
    assert read(path, id="id", label="y", between=mark).factors["label"].tolist() == ["u", "v"]
    if mark == "," or ending == "tsv":
        assert read(path, id="id", label="y").items.tolist() == ["a", "b"]
    else:
        with pytest.raises(ShiftBenchError, match="Say so with --between"):
            read(path, id="id", label="y")
    if mark in ";\t" and ending == "csv":
        with pytest.raises(ShiftBenchError, match=r"Say so with --between, .* save it with commas"):
            read_table(path)
        path.write_text("id;y;cost\na;u;1,5\n".replace(";", mark))
        with pytest.raises(ShiftBenchError, match=r"Expected 1 columns.*Say so with --between, .* commas"):
            read_table(path)
    with pytest.raises(ShiftBenchError, match="one character"):
        read(path, id="id", label="y", between=";;")


def test_pandas_row_numbers_are_a_factor_of_their_own(tmp_path: Path) -> None:
    """The column without a name that pandas writes is called `unnamed`."""
    (tmp_path / "t.csv").write_text(",id,y\n0,a,u\n1,b,v\n")
    one = read(tmp_path / "t.csv", id="id", label="y")
    assert one.factors["unnamed"].tolist() == [0, 1]
