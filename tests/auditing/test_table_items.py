"""A table's columns are read one at a time: from a file or from memory, coded or not, they say the same."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftbench as sb
from shiftbench.auditing.join import join
from shiftbench.auditing.model_outputs import LOSSES
from shiftbench.auditing.table_items import TableItems, no_doubles, rows_of
from shiftbench.core.arrays import Words
from shiftbench.core.errors import ShiftBenchError

N = 600
RNG = np.random.default_rng(0)
IDS = np.asarray([f"item-{k}" for k in RNG.permutation(N)])
DATA = pa.table({
    "id": IDS, "label": RNG.choice(["cat", "dog"], N), "light": RNG.choice(["day", "night", None], N),
    "speed": RNG.normal(size=N), "lanes": RNG.integers(1, 4, N), "wet": RNG.random(N) < 0.5,
    "day": [f"2020-0{k % 9 + 1}-1{k % 7}" for k in range(N)]})
PREDICTIONS = pa.table({"id": IDS[::-1], "prediction": RNG.choice(["cat", "dog"], N)})


def coded(table):
    return pa.table([column.dictionary_encode() if pa.types.is_string(column.type) else column
                     for column in table.columns], names=table.column_names)


@pytest.fixture
def files(tmp_path):
    pq.write_table(DATA, tmp_path / "data.parquet", row_group_size=70)
    pq.write_table(coded(DATA), tmp_path / "coded.parquet", row_group_size=70)
    pq.write_table(PREDICTIONS, tmp_path / "predictions.parquet", row_group_size=110)
    return tmp_path


def test_a_file_says_what_the_table_in_memory_says(files):
    """Row groups and categories change neither the digest of items, losses and predicates nor a sentence."""
    wanted = sb.audit(PREDICTIONS, DATA, least=20)
    for predictions in (PREDICTIONS, files / "predictions.parquet"):
        for data in (files / "data.parquet", files / "coded.parquet", coded(DATA), DATA.to_pandas()):
            audit = sb.audit(predictions, data, least=20)
            assert audit.sentences() == wanted.sentences()
            assert audit.card["digest"] == wanted.card["digest"]


def test_columns_stay_on_disk_until_they_are_asked_for(files):
    """A join reads ids, labels and predictions; the file may lose everything else without anybody noticing."""
    items = join(files / "predictions.parquet", files / "data.parquet", LOSSES["error"])
    assert isinstance(items.facts, TableItems)
    assert list(items.facts.factors) == ["light", "speed", "lanes", "wet", "day"]
    (files / "data.parquet").unlink()
    assert items.take(np.arange(5)).ids.to_pylist() == IDS[:5].tolist()
    with pytest.raises(ShiftBenchError, match="not a readable parquet table"):
        items.facts.factors["light"]


def test_some_items_have_their_own_values(files):
    """Whatever rows are taken, of a file or of a part, and as a collection."""
    items = join(files / "predictions.parquet", files / "data.parquet", LOSSES["error"])
    rows = RNG.permutation(N)[:50]
    part = items.take(rows).take(np.arange(10, 40))
    numbers = rows[10:40]
    light = np.asarray(["" if word is None else word for word in DATA["light"].to_pylist()])
    assert part.known.items.tolist() == IDS[numbers].tolist()
    assert part.known.factors["light"].tolist() == light[numbers].tolist()
    assert part.facts.factor("bins:speed:0").tolist() == items.known.factor("bins:speed:0")[numbers].tolist()
    with pytest.raises(ShiftBenchError, match=r"No factor named 'lihgt'. Did you mean 'light'"):
        items.facts.factor("lihgt")


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=30), st.integers(1, 5))
def test_words_have_codes(words, chunk):
    """Codes and names are those of the sorted words, in whatever chunks and coding they come; a gap is the empty word.
    """
    wanted = sorted({word or "" for word in words})
    for kind in (pa.string(), pa.dictionary(pa.int32(), pa.string())):
        column = pa.chunked_array([pa.array(words[start:start + chunk], pa.string()).cast(kind)
                                   for start in range(0, len(words), chunk)], kind)
        codes, names = Words.of(column).coded
        assert list(names) == wanted
        assert [names[code] for code in codes] == [word or "" for word in words]


def test_categories_that_stand_twice_or_nowhere_are_no_further_words():
    """As a file of a stranger may have them."""
    categories = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1, None]), pa.array(["a", "b", "a", "z"]))
    codes, names = Words.of(pa.chunked_array([categories])).coded
    assert (codes.tolist(), names) == ([1, 1, 2, 0], ("", "a", "b"))


@given(st.lists(st.text("aÖ b", max_size=4), max_size=40), st.integers(1, 7))
def test_doubled_ids_are_refused_and_counted(ids, chunk):
    """Ids that occur more than once are counted and the first is named; unique ids pass."""
    column = pa.chunked_array([pa.array(ids[start:start + chunk], pa.string()) for start in range(0, len(ids), chunk)],
                              pa.string())
    doubled = sorted({one for one in ids if ids.count(one) > 1})
    if not doubled:
        no_doubles(column, "here")
        return
    with pytest.raises(ShiftBenchError) as problem:
        no_doubles(column, "here")
    assert str(problem.value).startswith(f"here: {len(doubled)} ids occur more than once, the first is '{doubled[0]}'.")


def test_rows_are_found_by_id():
    """-1 for a strange id; nothing is looked up where both stand in the same order."""
    known = pa.chunked_array([["a", "b"], ["c"]])
    assert rows_of(pa.chunked_array([["a"], ["b", "c"]]), known) is None
    assert rows_of(pa.chunked_array([["c", "x", "a"]]), known).tolist() == [2, -1, 0]
