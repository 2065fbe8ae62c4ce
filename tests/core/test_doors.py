"""The doors through which files of strangers come in: JSON and TOML, columns of tables, arrays. What is odd is one
line."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shiftbench.core.arrays import read_array
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import DEEPEST, parse_json, parse_toml, parse_value, read_json, read_text, read_toml
from shiftbench.core.table_formats import MOST_COLUMNS
from shiftbench.core.tables import decimal, no_doubles, open_table, read_table, strings, texts, values_of, whole, words
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection, Tags
from shiftbench.data.item_table import factor_column
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import Scores
from shiftbench.scoring import runs_in
from tests.strategies import toy

LONG = "9" * 5000
DEEP = 100_000


@pytest.mark.parametrize(("text", "says"), [
    ("[" * DEEP + "]" * DEEP, "nested"), ('{"a":' * DEEP + "1" + "}" * DEEP, "nested"),
    ('["]",' * 300 + "1" + "]" * 300, "nested"), ("[[]," * 300 + "1" + "]" * 300, "nested"),
    (LONG, "64 bits"), (f"[-{LONG}]", "64 bits"), (f'{{"a": {2**63}}}', "64 bits"), ('["\\ud800"]', "surrogate pair"),
    ('{"\\udfff": 1}', "surrogate pair"), ("[1,]", "not valid JSON"), ("", "not valid JSON"),
])
def test_json_is_parsed_within_limits(tmp_path, text, says):
    """Deep nesting, however brackets in texts and short branches hide it, long numbers and broken characters."""
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ShiftBenchError, match=says) as problem:
        read_json(tmp_path / "x.json")
    assert "x.json" in str(problem.value)


def test_json_that_is_sound_comes_back():
    """Up to the limits, everything that Python's parser gives."""
    for value in ([[1] * 50] * 200, ["[" * 500, "9" * 99], {"a": [{"b": -(2**63)}, 2**63 - 1, None, 1.5]}, "é"):
        assert parse_json(json.dumps(value), "x") == value
    deep: list = []
    for _ in range(DEEPEST - 1):
        deep = [deep]
    assert parse_json(json.dumps(deep), "x") == deep


@pytest.mark.parametrize(("value", "says"), [
    ("[" * 5000 + "]" * 5000, "nested"), ("{a=" * 300 + "1" + "}" * 300, "nested"), (LONG, "64 bits"),
    ("[10000000000000000000000]", "64 bits"), ("0x" + "f" * 40, "64 bits"),
])
def test_toml_and_set_are_parsed_within_limits(shell, project, value, says):
    """In a recipe, in a study and behind --set."""
    (project / "x.toml").write_text(f"a = {value}\n")
    with pytest.raises(ShiftBenchError, match=says):
        read_toml(project / "x.toml")
    for command in (["build", "x.toml", "--out", "b"], ["build", "recipe.toml", "--out", "b", "--set", f"p={value}"],
                    ["sweep", "x.toml", "--out", "runs"]):
        code, _, err = shell(*command)
        assert (code, err.count("\n")) == (1, 1)
        assert says in err


def test_dotted_keys_are_nesting_too():
    """A key of a thousand parts is a thousand tables."""
    with pytest.raises(ShiftBenchError, match="nested"):
        parse_toml("a." * 1000 + "b = 1", "x")


def test_values_behind_set_are_toml_or_text():
    """Numbers, lists and truths are what they are, words need no quotes, dates are text, a line break adds no key."""
    read = {"0.06": 0.06, "true": True, "[1, 2]": [1, 2], "class": "class", "'a b'": "a b", "1979-05-27": "1979-05-27",
            "1\nq = 2": "1\nq = 2", "": ""}
    for text, value in read.items():
        assert parse_value(text, "--set") == value


def test_a_run_with_odd_facts_is_one_line(tmp_path):
    """run.json is read by a faster decoder, which hands what is odd to the careful one."""
    facts = '{"run": {"method": "erm", "seed": %s}, "benchmark": {"name": "b", "digest": "d", "path": null}}'
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    (folder / "done").touch()
    (folder / "run.json").write_text(facts % "3")
    assert runs_in(tmp_path / "runs")[0][0].settings["seed"] == 3
    for odd, says in ((LONG, "64 bits"), ("[" * DEEP + "]" * DEEP, "nested"), ('"\\ud800"', "surrogate pair")):
        (folder / "run.json").write_text(facts % odd)
        with pytest.raises(ShiftBenchError, match=says):
            runs_in(tmp_path / "runs")


COLUMNS = {  # columns that hold neither text nor numbers, and why
    "lists": pa.array([[1.0], [2.0]]), "records": pa.array([{"a": 1}, {"a": 2}]),
    "bytes": pa.array([b"\xff", b"a"], pa.binary()),
    "no UTF-8": pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff", b"a"], pa.binary()).buffers()),
    "gaps": pa.array([None, "a"]), "nothing": pa.nulls(2),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("read", [strings, whole, values_of], ids=lambda read: read.__name__)
def test_a_column_of_another_type_is_named(tmp_path, kind, read):
    """Whatever a parquet file says that a column holds, the error names the file and the column."""
    pq.write_table(pa.table({"x": COLUMNS[kind]}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", ["x"])
    with pytest.raises(ShiftBenchError, match=r"t\.parquet: .*column 'x'"):
        read(tmp_path / "t.parquet", table, "x")


@pytest.mark.parametrize(("read", "name"), [(texts, "word"), (words, "word"), (whole, "count"), (decimal, "count"),
                                            (factor_column, "word"), (factor_column, "count")])
def test_a_column_of_an_opened_table_is_read_once(tmp_path, monkeypatch, read, name):
    """A column is read from its file when it is asked for, and only once."""
    pq.write_table(pa.table({"word": ["a", "b"], "count": [1, 2]}), tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.parquet")
    asked, plain = [], pq.ParquetFile.read
    monkeypatch.setattr(pq.ParquetFile, "read", lambda file, columns: asked.append(columns) or plain(file, columns))
    assert len(read("t.parquet", table, name)) == 2
    assert asked == [[name]]


def test_a_column_of_numbers_may_have_gaps():
    """They are NaN; words are not numbers, and numbers are words where words are asked for."""
    assert np.isnan(decimal("t", pa.table({"x": pa.nulls(2)}), "x")).all()
    assert decimal("t", pa.table({"x": ["1e3", "-inf"]}), "x").tolist() == [1000.0, -np.inf]
    assert strings("t", pa.table({"x": [1, 2]}), "x").tolist() == ["1", "2"]
    assert strings("t", pa.table({"x": [None, "b"]}), "x", gap="?").tolist() == ["?", "b"]
    for odd in (["=1+1"], ["high"], [[1]]):
        with pytest.raises(ShiftBenchError, match="not all numbers"):
            decimal("t", pa.table({"x": odd}), "x")


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_a_column_name_that_is_no_text_is_one_line(tmp_path, name):
    """Bytes that are no UTF-8 in the name of a column, in both formats."""
    path = tmp_path / name
    if name.endswith("csv"):
        path.write_bytes(b"item,caf\xe9\n1,2\n")
    else:
        pq.write_table(pa.table({"item": ["1"], "xxxxx": ["2"]}), path)
        path.write_bytes(path.read_bytes().replace(b"xxxxx", b"caf\xe9\xff"))
    with pytest.raises(ShiftBenchError, match=r"(?i)utf-8"):
        read_table(path)


def test_doubled_columns_are_found_in_one_look():
    """The names are listed once, however many they are."""

    class Wide:
        looks = 0

        @property
        def column_names(self):
            self.looks += 1
            return [f"c{k}" for k in range(50_000)] + ["c7"]

    wide = Wide()
    with pytest.raises(ShiftBenchError, match="more than one column 'c7'"):
        no_doubles("t", wide)
    assert wide.looks == 1


@pytest.mark.parametrize("file", ["t.csv", "t.csv.gz"])
def test_of_two_columns_of_one_name_none_is_taken(tmp_path, file):
    """Where a few columns of a CSV file are kept, a doubled name among them is refused; the others may be anything."""
    packed = gzip.compress if file.endswith(".gz") else bytes
    (tmp_path / file).write_bytes(packed(b"a,b,a,c,c,\xff\n1,2,3,4,5,6\n"))
    assert read_table(tmp_path / file, ["b"], every=False).to_pydict() == {"b": [2]}
    (tmp_path / file).write_bytes(packed(b"a,b,a\n1,2,3\n"))
    with pytest.raises(ShiftBenchError, match="more than one column 'a'"):
        read_table(tmp_path / file, ["b", "a"], every=False)


def test_a_million_columns_are_one_line(tmp_path):
    """The head is counted before anything is read."""
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{k}" for k in range(10 * MOST_COLUMNS)) + "\n")
    with pytest.raises(ShiftBenchError, match=r"wide\.csv: has more than 100,000 columns"):
        read_table(path)


def test_scores_and_predictions_of_other_types_are_one_line(tmp_path):
    """A formula for a score, lists for ids, words for seeds, a probability below 0, a score beyond 32 bits."""
    collection = toy(20)
    made = Benchmark.of(collection, None, 0, np.arange(20), np.full(20, "test"), label=collection.factor("class"),
                        domain=collection.factor("place"))
    columns = {"item": made.items, "prob:cat": np.full(20, 0.5), "prob:dog": np.full(20, 0.5)}
    for change in ({"prob:cat": ["=1+1"] * 20}, {"item": [[1]] * 20}, {"item": [None] * 20},
                   {"prob:cat": [True, None] * 10}, {"prob:cat": np.full(20, -0.5)}, {"prob:cat": np.full(20, 1e300)}):
        pq.write_table(pa.table({**columns, **change}), tmp_path / "p.parquet")
        with pytest.raises(ShiftBenchError, match=r"p\.parquet: "):
            Predictions.load(tmp_path / "p.parquet", made)
    row = {"run": "r", "benchmark": "b", "method": "m", "seed": 0, "split": "test", "group": "all", "n": 3,
           "metric": "accuracy", "value": 0.5, "low": 0.4, "high": 0.6}
    for name, odd in (("seed", "zero"), ("value", "=1+1"), ("run", None), ("n", 1.5), ("low", [0.1])):
        pq.write_table(pa.Table.from_pylist([{**row, name: odd}]), tmp_path / "s.parquet")
        with pytest.raises(ShiftBenchError, match=rf"s\.parquet: .*'{name}'"):
            Scores.load(tmp_path / "s.parquet")


def test_tags_without_a_name_are_refused():
    """A code below 0 or beyond the vocabulary, and a box of no row."""
    empty = {"area": np.full(1, np.nan, np.float32), "names": ("a",), "kinds": ("object",),
             "boxes": np.zeros((0, 4), np.float32), "box_row": np.zeros(0, np.int64)}
    for change in ({"tag": np.asarray([-1])}, {"tag": np.asarray([1])},
                   {"tag": np.asarray([0]), "boxes": np.zeros((1, 4), np.float32), "box_row": np.asarray([4])}):
        with pytest.raises(ShiftBenchError, match="outside"):
            Tags(**{"item": np.asarray([0]), **empty, **change})


HEADS = (b"{" * 300, b"(" * 300, b"'", b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"\xff" * 20,
         b"{'descr': '|u1', 'fortran_order': False, 'shape': (9000000000000,), }", b"{'descr': '|u1'}",
         b"{'descr': '|u1', 'fortran_order': False, 'shape': (-1,), }")


@pytest.mark.parametrize("head", HEADS)
def test_an_odd_array_is_one_line(tmp_path, head):
    """Whatever its header says: nothing is evaluated, unpickled or made room for."""
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + b"\n" + bytes(50))
    with pytest.raises(ShiftBenchError, match=r"a\.npy: "):
        read_array(tmp_path / "a.npy")


@pytest.mark.parametrize("pixels", [np.zeros((20, 4, 4)), np.zeros((20, 4, 4), np.uint8),
                                    np.zeros((20, 4, 4, 4), np.uint8),
                                    np.zeros((20, 0, 4, 3), np.uint8), np.zeros((), np.uint8), np.zeros(20, "U3")])
def test_odd_images_of_a_collection_are_one_line(tmp_path, pixels):
    """Images are bytes, items × height × width × 3."""
    collection = toy(20)
    Collection("c", collection.items, pixels=np.zeros((20, 2, 2, 3), np.uint8)).save(tmp_path / "c")
    np.save(tmp_path / "c" / "pixels.npy", pixels)
    with pytest.raises(ShiftBenchError, match=r"pixels\.npy: holds"):
        Collection.load(tmp_path / "c")


def test_a_list_of_files_that_is_no_text_is_one_line(tmp_path):
    """As py150 has them."""
    (tmp_path / "train.txt").write_bytes(b"ann/one/caf\xe9.py\n")
    with pytest.raises(ShiftBenchError, match=r"train\.txt: cannot be read as text"):
        read_text(tmp_path / "train.txt")
