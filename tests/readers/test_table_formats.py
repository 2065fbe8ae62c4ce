"""One table in every file format is one collection; columns that say yes or no are tags, and a gap is never a word."""

import csv
import datetime
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.readers import READERS

read = READERS["table"]
few = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ROWS = [{"id": f"0{n}", "y": ("cat", "dog")[n % 2], "age": None if n == 3 else 40 + n, "dose": n / 4,
         "ok": n % 3 == 0, "taken": f"2020-01-0{n + 1}", "note": None if n == 2 else f"note, {n}"} for n in range(6)]


def _table() -> pa.Table:
    return pa.Table.from_pylist(ROWS)


def _text(mark: str) -> str:
    words = [["" if value is None else str(value) for value in row.values()] for row in ROWS]
    return "\n".join(mark.join(f'"{word}"' if mark in word else word for word in line)
                     for line in [list(ROWS[0]), *words]) + "\n"


def _stream(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, _table().schema) as writer:
        writer.write_table(_table())


def _excel(path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for line in [list(ROWS[0]), *([*row.values()] for row in ROWS)]:
        book.active.append([datetime.date.fromisoformat(value) if str(value).startswith("2020-") else value
                            for value in line])
    book.save(path)


def _lines() -> str:
    return "".join(json.dumps({key: value for key, value in row.items() if value is not None}) + "\n" for row in ROWS)


WRITERS = {
    "t.csv": lambda path: path.write_text(_text(",")), "t.tsv": lambda path: path.write_text(_text("\t")),
    "t.txt": lambda path: path.write_text(_text(",")), "t.jsonl": lambda path: path.write_text(_lines()),
    "t.csv.gz": lambda path: path.write_bytes(gzip.compress(_text(",").encode())),
    "t.tsv.gz": lambda path: path.write_bytes(gzip.compress(_text("\t").encode())),
    "t.jsonl.gz": lambda path: path.write_bytes(gzip.compress(_lines().encode())),
    "t.parquet": lambda path: pq.write_table(_table(), path), "t.arrow": _stream,
    "t.feather": lambda path: pa.feather.write_feather(_table(), path), "t.xlsx": _excel,
}


@pytest.mark.parametrize("file", WRITERS)
def test_a_table_is_the_same_in_every_format(tmp_path: Path, file: str) -> None:
    """Leading zeros, numbers with a gap, truths, dates and texts with commas come back from every kind of file."""
    WRITERS[file](tmp_path / file)
    one = read(tmp_path / file, id="id", label="y", text="note", tags="ok")
    assert one.name == "t"
    assert one.items.tolist() == [row["id"] for row in ROWS]
    assert one.factors["label"].tolist() == [row["y"] for row in ROWS]
    assert one.factors["dose"].tolist() == [row["dose"] for row in ROWS]
    assert one.factors["taken"].tolist() == [row["taken"] for row in ROWS]
    assert one.factor("year:taken").tolist() == ["2020"] * 6
    np.testing.assert_array_equal(one.factors["age"], [40, 41, 42, np.nan, 44, 45])
    assert one.texts.text.tolist() == [row["note"] for row in ROWS if row["note"]]
    assert one.factor("has:ok").tolist() == ["yes" if row["ok"] else "no" for row in ROWS]
    assert Collection.load(one.save(tmp_path / "c")).digest == one.digest


@pytest.mark.parametrize("words", [("true", "false"), ("1", "0"), ("1", "-1"), ("Yes", "no"), ("1.0", "0.0")])
def test_columns_of_yes_and_no_are_tags(tmp_path: Path, words: tuple[str, str]) -> None:
    """However yes and no are written, an item carries the tags of the columns that say yes; they are no factors."""
    truth = np.random.default_rng(0).random((20, 3)) < 0.4
    with (tmp_path / "t.csv").open("w") as file:
        csv.writer(file).writerows([["id", "y", "Male", "Hat", "Young"], *([n, "ab"[n % 2], *(
            words[not value] for value in row)] for n, row in enumerate(truth.tolist()))])
    one = read(tmp_path / "t.csv", id="id", label="y", tags="Male, Hat,Young")
    assert set(one.factors) == {"label", "y"}
    assert [[answer == "yes" for answer in one.factor(f"has:{tag}")] for tag in ("Male", "Hat", "Young")] == (
        truth.T.tolist())
    assert np.isnan(one.tags.area).all()


@few
@given(rows=st.lists(st.lists(st.text("ab c", min_size=1, max_size=3).map(str.strip).filter(bool), max_size=4),
                     min_size=1, max_size=8), lists=st.booleans(), mark=st.sampled_from([";", "|", ", "]))
def test_a_column_of_words_is_tags(tmp_path: Path, rows: list, lists: bool, mark: str) -> None:
    """Every word of a cell is a tag of its item, once, whether words stand in a list or with a mark between them."""
    cells = pa.array(rows, pa.list_(pa.string())) if lists else pa.array([mark.join(row) for row in rows])
    pq.write_table(pa.table({"id": [str(n) for n in range(len(rows))], "y": ["a"] * len(rows), "w": cells}),
                   tmp_path / "t.parquet")
    one = read(tmp_path / "t.parquet", id="id", label="y", tags_in="w", tags_between=mark)
    carried: list[set[str]] = [set() for _ in rows]
    for item, tag in zip(one.tags.item, one.tags.tag, strict=True):
        carried[item].add(one.tags.names[tag])
    assert carried == [set(row) for row in rows]
    assert len(one.tags.item) == sum(map(len, carried))


@pytest.mark.parametrize(("content", "options"), [
    ("id,y,w\n1,a,u|v\n2,b,v\n", {"between": "|"}),
    ("id,y,w\n1,a,u;v\n2,b,v\n", {"between": ";"}),
    ("id;y;w\n1;a;\"u;v\"\n2;b;v\n", {"between": ";"}),
    ("id;y;w\n1;a;u|v\n2;b;v\n", {"between": ";", "tags_between": "|"}),
    ("id\ty\tw\n1\ta\tu;v\n2\tb\tv\n", {"between": "\\t"}),
    ("id,y,w\n1,a,u\tv\n2,b,v\n", {"tags_between": "\\t"}),
])
def test_between_is_the_separator_that_the_table_lacks(tmp_path: Path, shell, content: str, options: dict) -> None:
    """That of the values, where the columns are found with it; that of the words of a column, where they are found
    without. A tab is typed as a shell can."""
    (tmp_path / "t.csv").write_text(content)
    words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
    code, _, err = shell("read", "table", tmp_path / "t.csv", "--id", "id", "--label", "y", "--tags-in", "w", *words,
                         "--out", tmp_path / "c")
    assert (code, err) == (0, "")
    one = sb.Collection.load(tmp_path / "c")
    assert [(one.items[item], one.tags.names[tag]) for item, tag in zip(one.tags.item, one.tags.tag, strict=True)] == [
        ("1", "u"), ("1", "v"), ("2", "v")]


def test_the_separator_of_a_message_can_be_typed(tmp_path: Path, shell) -> None:
    """What the message shows is what the option takes."""
    (tmp_path / "t.csv").write_text("id\ty\n1\ta\n2\tb\n")
    command = ["read", "table", tmp_path / "t.csv", "--id", "id", "--label", "y", "--out", tmp_path / "c"]
    code, _, err = shell(*command)
    assert code == 1
    mark = err.partition("separated by '")[2].partition("'")[0]
    assert shell(*command, "--between", mark)[0] == 0


def test_a_frame_with_words_in_a_column_takes_between() -> None:
    """A frame has no separator of values."""
    frame = {"id": [1, 2], "y": ["a", "b"], "w": ["u|v", "v"]}
    one = sb.Collection.from_frame(frame, id="id", label="y", tags_in="w", between="|")
    assert one.tags.names == ("u", "v")


def test_a_column_of_lists_is_several_texts() -> None:
    """`text` names it; an item may have none."""
    frame = {"id": pa.array([1, 2, 3]), "y": pa.array(["a", "b", "a"]), "w": pa.array([["u", "v"], [], ["w", ""]])}
    one = sb.Collection.from_frame(pa.table(frame), id="id", label="y", text="w")
    assert (one.texts.item.tolist(), one.texts.text.tolist()) == ([0, 0, 2], ["u", "v", "w"])


def test_tags_of_a_table_make_a_meta_graph_and_a_criterion(tmp_path: Path, shell) -> None:
    """A CelebA-like table is enough for a graph of contexts and for NOOCh's hard items by a question about tags."""
    rng, truth = np.random.default_rng(0), []
    for _ in range(400):
        blond = rng.random() < 0.5
        truth.append((blond, rng.random() < (0.1 if blond else 0.7), rng.random() < 0.4, rng.random() < 0.5))
    (tmp_path / "t.csv").write_text("id,Blond,Male,Hat,Smiling,seen\n" + "".join(
        ",".join([str(n), *("1" if value else "-1" for value in row), "sea;sky" if n % 2 else "sky"]) + "\n"
        for n, row in enumerate(truth)))
    assert shell("read", "table", tmp_path / "t.csv", "--id", "id", "--label", "Blond", "--tags",
                 "Blond,Male,Hat,Smiling", "--tags-in", "seen", "--out", tmp_path / "c", "-q")[0] == 0
    one = sb.Collection.load(tmp_path / "c")
    assert one.tags.names == ("Blond", "Male", "Hat", "Smiling", "sea", "sky")
    nodes = sb.graph(one, "Blond", min_size=5)
    assert dict(zip(nodes.names, nodes.sizes.tolist(), strict=True))["Male"] == sum(row[0] and row[1] for row in truth)
    made = sb.Context("Blond", criterion="has:Male == has:Blond", test_on="all").build(one)
    hard = {str(n) for n, row in enumerate(truth) if row[0] == row[1]}
    assert set(made.items[np.char.startswith(made.extra["kind"].astype(str), "hard")].tolist()) == hard


@pytest.mark.parametrize(("missing", "values", "counted"), [
    ("", ["a", "nan", "NA", ""], "2 values in column 'place' are the word 'nan'.*--missing nan"),
    ("nan", ["a", "", "NA", ""], "1 values in column 'place' are the word 'NA'"), ("nan,NA", ["a", "", "", ""], None),
])
def test_a_word_for_nothing_is_asked_about(tmp_path: Path, missing: str, values: list, counted: str | None) -> None:
    """The words nan and NA in a column of text stay words with a warning, or are gaps if the reader is told so."""
    (tmp_path / "t.csv").write_text("id,y,place\n1,u,a\n2,v,nan\n3,u,NA\n4,v,\n")
    if counted is None:
        one = read(tmp_path / "t.csv", id="id", label="y", missing=missing)
    else:
        with pytest.warns(UserWarning, match=counted):
            one = read(tmp_path / "t.csv", id="id", label="y", missing=missing)
    assert one.factors["place"].tolist() == values


@pytest.mark.parametrize(("content", "options", "message"), [
    ("id,y,t\n1,a,yes\n2,b,perhaps\n", {"tags": "t"}, "row 1 has 'perhaps' in column 't', which is to be a tag"),
    ("id,y,t\n1,a,yes\n", {"tags": "t,t"}, "'t' is given for tags and for tags"),
    ("id,y,t\n1,a,yes\n", {"tags": "u"}, "No column named 'u'"),
    ("id,y,t\n1,a,yes\n", {"tags_in": "t", "tags_between": ""}, "the separator of the tags in column 't' is empty"),
])
def test_columns_that_are_no_tags(tmp_path: Path, content: str, options: dict, message: str) -> None:
    """Another word than yes or no, or a column that is not there, is one line with its place."""
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ShiftBenchError, match=message):
        read(tmp_path / "t.csv", id="id", label="y", **options)


def test_gaps_in_a_tag_column_are_counted(tmp_path: Path) -> None:
    """Where nobody said yes or no the tag is absent, and a warning says how often."""
    (tmp_path / "t.csv").write_text("id,y,t\n1,a,1\n2,b,\n3,b,0\n")
    with pytest.warns(UserWarning, match="1 rows have nothing in column 't'"):
        assert read(tmp_path / "t.csv", id="id", label="y", tags="t").factor("has:t").tolist() == ["yes", "no", "no"]


@pytest.mark.parametrize(("file", "content", "message"), [
    ("t.csv.gz", b"id,y\n1,a\n", "not a readable CSV table"), ("t.jsonl", b'{"id": 1\n', "not a readable JSON lines"),
    ("t.jsonl", b"", "is empty"), ("t.arrow", b"ARROW1\0\0junk", "not a readable Arrow table"),
    ("t.parquet.gz", b"", "a gzipped parquet table is not read"), ("t.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
    ("t.jsonl", b'{"id": 1, "y": "a"}\n{"id": "x", "y": "b"}\n', "not a readable JSON lines"),
])
def test_files_that_are_no_tables(tmp_path: Path, file: str, content: bytes, message: str) -> None:
    """A file that is not what its name says is one line."""
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ShiftBenchError, match=message) as told:
        read(tmp_path / file, id="id", label="y")
    assert "\n" not in str(told.value)


def test_a_file_made_to_fill_a_memory_is_refused(tmp_path: Path, monkeypatch) -> None:
    """Text that unpacks to hundreds of times its size is not unpacked to the end."""
    monkeypatch.setattr("shiftbench.core.table_formats.SMALL", 1 << 20)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"id,y\n" + b"1,a\n" * (1 << 22)))
    with pytest.raises(ShiftBenchError, match="unpacks to more than 200 times its size"):
        read(tmp_path / "t.csv.gz", id="id", label="y")


def test_excel_without_openpyxl_is_one_line(tmp_path: Path, monkeypatch) -> None:
    """The message names the extra to install."""
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(ShiftBenchError, match=r"pip install 'shiftbench\[xlsx\]'"):
        read(tmp_path / "t.xlsx", id="id", label="y")
