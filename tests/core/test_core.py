"""The ground: columns, randomness, files, registry, errors."""

import json
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.core.arrays import child, digest, encode, positions, uniform
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import inside, read_json, read_toml, writing, writing_folder
from shiftbench.core.registry import Registry, find, make, register
from shiftbench.core.tables import read_table
from tests.strategies import seeds, words


@given(st.one_of(st.lists(words, min_size=1), st.lists(st.integers(-5, 5), min_size=1)), st.randoms())
def test_encode_gives_each_value_its_name_whatever_the_order(values, random):
    """names[codes] is the column, names are sorted, and a shuffled column has the same names."""
    codes, names = encode(values)
    assert [names[code] for code in codes] == [str(value) for value in values]
    assert names == tuple(str(value) for value in sorted(set(values)))
    random.shuffle(values)
    assert encode(values)[1] == names


def test_a_word_is_not_cut_at_a_nul():
    """Two words that differ behind a NUL have codes, names and rows of their own."""
    column = np.asarray(["a\0b", "a", "a\0c", "a\0b"])
    for values in (column, column.astype(object)):
        codes, names = encode(values)
        assert (codes.tolist(), names) == ([1, 0, 2, 1], ("a", "a\0b", "a\0c"))
    assert positions(column[[2, 0, 1]], column[:3]).tolist() == [2, 0, 1]


def test_a_column_of_arrow_has_the_digest_of_its_array():
    """In whatever chunks."""
    words = ["", "Ö", "a long word", "b"]
    for column in (pa.chunked_array([words]), pa.chunked_array([words[:1], words[1:]]),
                   pa.chunked_array([pa.array(["x", *words])[1:]]), pa.chunked_array([pa.array(words)[:2], words[2:]])):
        assert digest({"item": column}) == digest({"item": np.asarray(words)})
    assert digest({"item": pa.chunked_array([[]], pa.string())}) == digest({"item": np.zeros(0, np.str_)})


def test_encode_refuses_missing_values():
    """A column of codes has no holes."""
    with pytest.raises(ShiftBenchError, match="2 missing values"):
        encode([1.0, np.nan, np.nan])


@given(st.lists(words, unique=True, min_size=1), st.lists(words))
def test_positions_finds_every_word_or_says_minus_one(haystack, needles):
    """positions is list.index with -1 for absent words."""
    found = positions(np.asarray(needles, np.str_), np.asarray(haystack, np.str_))
    assert found.tolist() == [haystack.index(word) if word in haystack else -1 for word in needles]


@given(st.lists(words, min_size=1), st.lists(words, min_size=1))
def test_digest_tells_columns_apart(one, other):
    """Equal columns have equal digests, and moving a letter across a border changes it."""
    assert (digest({"a": np.asarray(one)}) == digest({"a": np.asarray(other)})) == (one == other)
    assert digest({"a": np.asarray(["ab", "c"])}) != digest({"a": np.asarray(["a", "bc"])})
    assert digest({"a": np.asarray(one)}) != digest({"b": np.asarray(one)})


def test_digest_is_the_published_one():
    """The digest of these columns is fixed for ever: a change here breaks every saved benchmark."""
    columns = {"item": np.asarray(["a", "ß"]), "code": np.asarray([1, -1]), "area": np.asarray([0.5, 1.0], np.float32)}
    assert digest(columns) == "c2dd0b08d899a63830326e2bd609be43edab899035cbe4e5521d7ef5eeba50d4"


@given(seeds, st.lists(st.integers(0, 10**9), min_size=1, max_size=20))
def test_uniform_depends_on_nothing_but_seed_purpose_and_index(seed, index):
    """The number of an index is the same alone and in company, lies in [0, 1), and moves with the purpose."""
    together = uniform(seed, "deal", np.asarray(index))
    alone = [uniform(seed, "deal", np.asarray([k]))[0] for k in index]
    assert together.tolist() == alone
    assert ((together >= 0) & (together < 1)).all()
    assert not np.array_equal(together, uniform(seed, "other", np.asarray(index)))


def test_uniform_is_uniform():
    """A hundred thousand numbers fill ten bins evenly and neighbours are not correlated."""
    numbers = uniform(3, "x", np.arange(100_000))
    assert abs(np.bincount((numbers * 10).astype(int)) - 10_000).max() < 450  # 4.7 standard deviations
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.015


def test_children_are_independent_of_each_other():
    """Another purpose is another stream, the same purpose the same."""
    assert child(0, "a").random() == child(0, "a").random()
    streams = [child(0, "a"), child(0, "b"), child(0, "a", "b"), child(1, "a")]
    assert len({stream.random() for stream in streams}) == 4


def test_a_failed_write_leaves_the_old_file(tmp_path):
    """When writing breaks off, the file is as before and nothing else lies beside it."""
    target = tmp_path / "file.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), writing(target) as hidden:
        hidden.write_text(f"half {1 / 0}")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path):
    """Only a folder with our marker, or an empty one, gives way."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    with pytest.raises(ShiftBenchError, match="not ours to replace"), writing_folder(tmp_path / "home", "marker"):
        pass
    assert (tmp_path / "home" / "thesis.tex").read_text() == "years of work"
    with writing_folder(tmp_path / "new", "marker") as place:
        (place / "marker").write_text("1")
    with writing_folder(tmp_path / "new", "marker") as place:
        (place / "marker").write_text("2")
    assert (tmp_path / "new" / "marker").read_text() == "2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "new"]


def test_bad_files_are_named_with_the_place(tmp_path):
    """Truncated JSON, TOML and tables give one message that names the file."""
    broken = tmp_path / "broken"
    broken.write_text('{"a": 1,')
    with pytest.raises(ShiftBenchError, match=r"broken: not valid JSON, line 1"):
        read_json(broken)
    with pytest.raises(ShiftBenchError, match=r"broken: not valid TOML"):
        read_toml(broken)
    with pytest.raises(ShiftBenchError, match="not a readable CSV table"):
        read_table(broken)
    with pytest.raises(ShiftBenchError, match="no such file"):
        read_json(tmp_path / "absent")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ShiftBenchError, match="is empty"):
        read_table(tmp_path / "empty.csv")


def test_paths_stay_in_their_folder(tmp_path):
    """A path that climbs out of its folder, or a link that does, is refused."""
    assert inside(tmp_path, "a/b.png") == (tmp_path / "a/b.png").resolve()
    (tmp_path / "link").symlink_to("/etc")
    for path in ("../b.png", "/etc/passwd", "a/../../b", "link/passwd"):
        with pytest.raises(ShiftBenchError, match="leads out"):
            inside(tmp_path, path)


@dataclass(frozen=True)
class Sample:
    share: float
    names: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    limit: int | None = None


def test_make_checks_settings_against_the_fields():
    """Right settings become the dataclass; wrong keys and types are named with the nearest choice."""
    made = make(Sample, {"share": 1, "names": ["a"], "sizes": {"x": 2}, "limit": 3}, "recipe.toml")
    assert made == Sample(1.0, ("a",), {"x": 2}, 3)
    with pytest.raises(ShiftBenchError, match=r"recipe.toml: No setting named 'shar'. Did you mean 'share'"):
        make(Sample, {"shar": 1}, "recipe.toml")
    with pytest.raises(ShiftBenchError, match="'share' is missing"):
        make(Sample, {}, "recipe.toml")
    for settings in ({"share": "a"}, {"share": True}, {"share": 1, "names": 5}, {"share": 1, "sizes": {"x": 0.5}}):
        with pytest.raises(ShiftBenchError, match="must be of type"):
            make(Sample, settings, "recipe.toml")


def test_a_name_is_registered_once():
    """A taken name is refused with both owners, an unknown one is answered with the nearest."""
    table: Registry[type] = Registry()
    register(table, "irm")(Sample)
    assert register(table, "irm")(Sample) is table["irm"]  # the same file once more
    with pytest.raises(ShiftBenchError, match=r"'irm' of Random of module random \(.*random.py\) is taken by Sample of "
                                              r"module tests.core.test_core \(.*test_core.py\)"):
        register(table, "irm")(Random)
    with pytest.raises(ShiftBenchError, match=r"No method named 'irn'. Did you mean 'irm'"):
        find(table, "method", "irn")


def test_a_long_list_of_names_is_cut():
    """With many known names the message stays short."""
    message = str(unknown("tag", "zzz", [f"tag{k:03d}" for k in range(100)]))
    assert "and 80 more" in message
    assert json.dumps(message)
