"""A long text in one row costs its own letters, not as many in every row."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from shiftbench.core.arrays import encode, to_strings
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.readers import READERS

ROWS, LETTERS = 20_000, 20_000


@pytest.fixture
def diary(tmp_path):
    """A table of 20,000 rows whose notes are short but for one of 20,000 letters: 1.6 GB at a fixed width."""
    lines = [f"i{row},{'cat' if row % 2 else 'dog'},{'a' * (LETTERS if row == 7 else row % 5)}" for row in range(ROWS)]
    (tmp_path / "diary.csv").write_text("id,class,notes\n" + "\n".join(lines) + "\n")
    return tmp_path / "diary.csv"


@pytest.mark.slow
def test_one_long_text_does_not_widen_every_row(diary, tmp_path):
    """Reading, saving and loading such a table takes no more than some ten times its size."""
    tracemalloc.start()
    collection = READERS["table"](diary, id="id", label="class")
    collection.save(tmp_path / "C")
    loaded = Collection.load(tmp_path / "C")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert loaded == collection
    assert len(loaded.factors["notes"][7]) == LETTERS
    assert peak < 1e8
    assert len(encode(loaded.factors["notes"])[1]) == 6


def test_a_long_text_is_no_value_to_split_by(diary):
    """A factor of long texts is kept, and refused by name where a shift asks for it."""
    collection = READERS["table"](diary, id="id", label="class")
    with pytest.raises(ShiftBenchError, match="'notes' of collection 'diary' holds long texts, of up to 20000 letters"):
        collection.factor("notes")


def test_an_id_is_a_short_name(diary):
    """A text that is given as the id is refused before any memory is asked for."""
    tracemalloc.start()
    text = diary.read_text().replace("aaaa\n", "aaaa\n")
    rows = [line.split(",") for line in text.splitlines()]
    diary.write_text("\n".join(",".join((row[2] + row[0], row[1], row[2])) for row in rows))
    with pytest.raises(ShiftBenchError, match="an id has more than 4096 letters"):
        READERS["table"](diary, id="notesid", label="class")
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()


def test_short_words_stay_fixed_in_width():
    """Where words are of about one length nothing changes, however many there are."""
    column = pa.chunked_array([[f"item-{row}" for row in range(200_000)]])
    assert to_strings(column).dtype == np.dtype("<U11")
