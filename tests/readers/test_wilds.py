"""WILDS' ten data sets: what is read is what the files say."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import columns_in
from shiftbench.data.target import boxes_of, kinds_of, tokens_of
from shiftbench.readers.wilds import DATASETS
from shiftbench.readers.wilds.comments import IDENTITIES, OTHER_MARKS, TOKENS, tokens
from shiftbench.readers.wilds.metadata import animals
from shiftbench.readers.wilds.photos import HELD_OUT, fmow, fold_split, mixed_fold, rxrx1
from shiftbench.readers.wilds.wheat import SESSIONS, corners
from shiftbench.shifts.suites import suite
from tests.readers.wilds_files import COUNTRIES, POOR, packed, place_of, read, table

RECORDED = {  # the first rows of id_val and of id_test
    "A": ([13, 17, 22, 61, 85], [12, 64, 80, 148, 181]),
    "B": ([19, 24, 26, 44, 48], [16, 21, 22, 25, 41]),
    "C": ([1, 21, 27, 47, 50], [23, 24, 26, 29, 30]),
    "D": ([23, 33, 48, 52, 71], [8, 10, 24, 28, 47]),
    "E": ([11, 14, 36, 37, 39], [9, 17, 18, 41, 53]),
}
MIXED = {  # id_test, id_val, test, train, unused, val
    "A": [635, 630, 1513, 4500, 2718, 1504],
    "B": [556, 574, 1380, 5000, 2845, 1145],
    "C": [601, 580, 1120, 5000, 2797, 1402],
    "D": [568, 565, 1405, 5000, 2847, 1115],
    "E": [552, 561, 1116, 5000, 2841, 1430],
}


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_is_read_and_kept(tmp_path: Path, name: str) -> None:
    """Each reader gives splits in our words, and the collection comes back from disk as it was."""
    place_of(tmp_path, name)
    one = read(tmp_path, name)
    assert one.name == name
    assert {"train", "val", "test"} <= set(one.factors["split"].tolist()) <= {
        "train", "val", "test", "id_val", "id_test", "unused"}
    assert Collection.load(one.save(tmp_path / "c")) == one
    if one.pixels is not None:
        assert all(one.path(row).is_file() for row in range(len(one)))


@pytest.mark.parametrize("name", [name for name in DATASETS if name not in ("molpcba", "globalwheat", "py150")])
def test_every_label_makes_a_benchmark(tmp_path: Path, name: str) -> None:
    """Data sets with one label per item become a benchmark by the shift `given`, each item where its split says."""
    place_of(tmp_path, name, images=False)
    one = read(tmp_path, name)
    one.save(tmp_path / "c")
    (tmp_path / "recipe.toml").write_text(
        f'collection = "{tmp_path / "c"}"\n[shift.given]\nlabel = "label"\nignore = ["unused"]\n')
    made = sb.build(tmp_path / "recipe.toml")
    kept = one.factors["split"] != "unused"
    assert len(made) == kept.sum()
    assert {part: len(made.rows(part)) for part in made.splits} == {
        part: int((one.factors["split"] == part).sum()) for part in made.splits}


KIND_OF = {"molpcba": "tasks", "globalwheat": "boxes", "poverty": "number", "py150": "tokens"}


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_is_a_benchmark_by_its_name(tmp_path: Path, name: str) -> None:
    """`build wilds --only NAME` knows target, domain, groups and headline of each, and the saved one comes back."""
    place_of(tmp_path, name, images=False)
    one = read(tmp_path, name)
    for key, shift in suite("wilds", name):
        made = shift.build(one)
        assert made.target.kind == KIND_OF.get(name, "class")
        assert {"train", "val", "test"} <= set(made.splits)
        assert Benchmark.load(made.save(tmp_path / key)) == made
        named = {column for said in made.card.get("groupings", ()) for column in columns_in(said)}
        assert named <= {"label", "domain", *made.extra}


def test_wilds_answers_are_in_the_rows(tmp_path: Path) -> None:
    """Boxes and tokens of a benchmark are those of the collection's items, in the order of the rows."""
    place_of(tmp_path, "globalwheat")
    wheat = read(tmp_path, "globalwheat")
    made = dict(suite("wilds", "globalwheat"))["globalwheat"].build(wheat)
    row, box = boxes_of(made.extra["boxes"])
    item, pixels = corners(wheat)
    for number, name in enumerate(made.items.tolist()):
        mine = pixels[item == wheat.items.tolist().index(name)] / 1024
        np.testing.assert_array_equal(box[row == number], mine)
    place_of(tmp_path, "py150")
    code = read(tmp_path, "py150")
    made = dict(suite("wilds", "py150"))["py150"].build(code)
    listed, kinds = tokens(code)
    order = code.index(made.items)
    np.testing.assert_array_equal(tokens_of(made.extra["tokens"]), listed[order])
    np.testing.assert_array_equal(kinds_of(made.extra["kinds"]), kinds[order])
    assert made.target.n == listed.max() + 1


def test_iwildcam(tmp_path: Path) -> None:
    """Animals have names where categories.csv is there, images lie in train/, times are taken apart."""
    place = place_of(tmp_path, "iwildcam")
    one = read(tmp_path, "iwildcam")
    assert one.factors["label"].tolist() == ["empty", "lion", "zebra"] * 2
    assert one.factors["y"].tolist() == [0, 1, 2] * 2
    assert one.factors["location"].tolist() == [0, 0, 1, 1, 2, 2]
    assert [one.factors[part].tolist()[3] for part in ("year", "month", "day", "hour", "minute", "second")] == [
        2013, 6, 4, 5, 43, 13]
    assert (one.path(4), one.root) == (place.resolve() / "train/f4.jpg", place.resolve())
    (place / "categories.csv").unlink()
    assert read(tmp_path, "iwildcam").factors["label"].tolist() == [0, 1, 2] * 2


def test_iwildcam_has_as_many_classes_as_numbers(tmp_path: Path) -> None:
    """Two numbers that share a name stay two classes, in a sample too; unused categories may share a number."""
    place = place_of(tmp_path, "iwildcam")
    table(place / "categories.csv", ["y", "category_id", "name"], [
        [2, 9, "fox"], [0, 4, "empty"], [1, 7, "fox"], [99999, 1, "cow"], [99999, 2, "hen"]])
    one = read(tmp_path, "iwildcam")
    assert one.factors["label"].tolist() == ["empty", "fox (y = 1)", "fox (y = 2)"] * 2
    made = dict(suite("wilds", "iwildcam"))["iwildcam"].build(one)
    assert len(made.names["label"]) == 3
    alone = animals(place / "categories.csv", place / "metadata.csv", np.asarray([0, 2, 2]))
    assert alone.tolist() == ["empty", "fox (y = 2)", "fox (y = 2)"]
    table(place / "categories.csv", ["y", "name"], [[0, "a"], [1, "b"], [2, "c"], [2, "d"]])
    with pytest.raises(ShiftBenchError, match="names the same y twice"):
        read(tmp_path, "iwildcam")


@pytest.mark.parametrize("name", ["iwildcam", "camelyon17", "rxrx1", "civilcomments", "fmow", "amazon"])
def test_a_label_is_a_number_of_wilds_and_no_two_are_merged(tmp_path: Path, name: str) -> None:
    """Between labels and WILDS' numbers goes a one-to-one map, in the collection and in its benchmark."""
    place_of(tmp_path, name)
    one = read(tmp_path, name)
    pairs = set(zip(one.factors["label"].tolist(), one.factors["y"].tolist(), strict=True))
    assert len(pairs) == len({label for label, _ in pairs}) == len({y for _, y in pairs})
    made = dict(suite("wilds", name))[name].build(one)
    assert len(set(zip(made.label.tolist(), made.extra["y"].tolist(), strict=True))) == len(set(made.label.tolist()))


def test_camelyon17(tmp_path: Path) -> None:
    """Hospitals 1 and 2 are val and test; mixed-to-test trains on slide 23."""
    place_of(tmp_path, "camelyon17")
    one = read(tmp_path, "camelyon17")
    assert one.factors["label"].tolist() == ["normal", "tumor"] * 5
    assert one.factors["split"].tolist() == ["train", "val", "test", "train", "train", "id_val", "val", "test",
                                             "id_val", "id_val"]
    assert one.factors["split_mixed_to_test"].tolist()[3] == "train"
    assert one.factors["hospital"].tolist() == [0, 1, 2, 3, 4] * 2


def test_rxrx1(tmp_path: Path) -> None:
    """Site 2 of a training experiment is id_test."""
    place_of(tmp_path, "rxrx1")
    one = read(tmp_path, "rxrx1")
    assert one.factors["split"].tolist() == ["train", "id_test", "val", "val", "test", "test"]
    assert one.factors["label"].tolist() == [1, 2, 11, 12, 21, 22]
    assert one.items[1] == "HEPG2-01/Plate1/B02_s2"


def test_molpcba(tmp_path: Path) -> None:
    """Assays are a factor each with NaN where not run; graphs stay in their files, SMILES are texts."""
    place = place_of(tmp_path, "molpcba")
    one = read(tmp_path, "ogbg-molpcba")
    labels = np.stack([one.factors[f"y{task:03}"] for task in range(3)], axis=1)
    np.testing.assert_array_equal(labels, [[0, np.nan, 1], [1, 0, np.nan], [np.nan, np.nan, 0], [1, 1, 1]])
    assert one.factors["split"].tolist() == ["train", "val", "test", "train"]
    assert (one.factors["atoms"].tolist(), one.factors["bonds"].tolist()) == ([3, 4, 5, 2], [2, 4, 6, 1])
    assert (one.texts.text.tolist(), one.root) == (["CCO", "C#N", "C", "O=O"], place.resolve())
    (place / "mapping/mol.csv.gz").unlink()
    assert len(read(tmp_path, "molpcba").texts.item) == 0


@pytest.mark.parametrize(("file", "rows", "message"), [
    ("split/scaffold/valid.csv.gz", [[4]], "names molecule 4, but there are 4"),
    ("split/scaffold/valid.csv.gz", [[3]], "molecule 3 is in another split too"),
    ("raw/graph-label.csv.gz", [[0], [2], [0], [0]], "row 1 has 2.0 in column 0"),
    ("raw/num-node-list.csv.gz", [[1]], "has 1 lines for 4 molecules"),
])
def test_molpcba_says_what_is_wrong(tmp_path: Path, file: str, rows: list, message: str) -> None:
    """Files of OGB that do not belong together are one clear error."""
    packed(place_of(tmp_path, "molpcba") / file, rows)
    with pytest.raises(ShiftBenchError, match=message):
        read(tmp_path, "molpcba")


def test_globalwheat(tmp_path: Path) -> None:
    """Boxes come back in pixels as they stand in the file; settings whose files are there are further splits."""
    place_of(tmp_path, "globalwheat")
    one = read(tmp_path, "globalwheat")
    assert one.items.tolist() == [f"i{n}.png" for n in (0, 1, 2, 3, 4, 5, 20, 7, 8)]
    assert one.factors["split"].tolist() == ["train"] * 3 + ["val"] * 2 + ["test"] * 2 + ["id_val", "id_test"]
    row, box = corners(one)
    listed = {0: [], 1: [[0, 0, 512, 256]], 2: [[10, 20, 30, 40], [100, 200, 1024, 1024]]}
    for n, item in enumerate(one.items.tolist()):
        assert box[row == n].tolist() == listed[int(item[1:-4]) % 3]
    assert one.factors["heads"].tolist() == [0, 1, 2, 0, 1, 2, 2, 1, 2]
    assert one.factors["session"].tolist()[6] == SESSIONS[20] == "Utokyo_3"
    assert one.factors["country"].tolist()[6] == "land of Utokyo_3"
    assert one.factors["split_test_to_test"].tolist() == [
        "unused", "unused", "unused", "val", "val", "train", "test", "unused", "unused"]
    assert one.factors["split_official_with_subsampled_test"].tolist() == [
        "train", "train", "train", "val", "val", "unused", "test", "unused", "unused"]
    assert "split_mixed_to_test" not in one.factors


@pytest.mark.parametrize("box", ["1 2 3", "1 2 x 4", "1 2 3 4;", "a"])
def test_globalwheat_refuses_what_is_no_box(tmp_path: Path, box: str) -> None:
    """A box that is not four numbers is an error, not an image without wheat."""
    place = place_of(tmp_path, "globalwheat")
    table(place / "official_val.csv", ["image_name", "BoxesString", "domain"], [["i3.png", box, 0]])
    with pytest.raises(ShiftBenchError, match=r"i3\.png' has the box"):
        read(tmp_path, "globalwheat")


def test_civilcomments(tmp_path: Path) -> None:
    """A score of one half is a yes, a missing one a no; texts keep quotes and line breaks."""
    place_of(tmp_path, "civilcomments")
    one = read(tmp_path, "civilcomments")
    assert one.factors["label"].tolist() == ["civil", "toxic"] * 10
    assert one.factors["y"].tolist() == [0, 1] * 10
    assert [one.factors[mark].tolist().index(1) for mark in (*IDENTITIES, *OTHER_MARKS)] == list(range(15))
    assert sum(one.factors[mark].sum() for mark in IDENTITIES) == 8
    assert one.texts.text[0] == 'He said "no",\nand left.'
    assert len(one.texts.item) == 20


def test_fmow(tmp_path: Path) -> None:
    """The split follows from year and file; sequestered images are no items, and images keep their row's number."""
    place_of(tmp_path, "fmow")
    one = read(tmp_path, "fmow")
    assert one.items.tolist() == ["0", "1", "2", "3", "4", "6", "7", "8"]
    assert one.factors["split"].tolist() == ["train", "id_val", "id_test", "val", "unused", "test", "unused", "unused"]
    assert one.factors["region"].tolist()[:3] == ["Europe", "Other", "Other"]
    assert (one.factors["y"].tolist()[0], one.factors["y"].tolist()[1]) == (0, 61)
    assert one.path(5).name == "rgb_img_6.png"


def test_of_a_key_that_comes_twice_the_last_counts(tmp_path: Path) -> None:
    """A country code or a repository that a file lists twice has the last value, as in the package."""
    place = place_of(tmp_path, "fmow")
    table(place / "country_code_mapping.csv", ["alpha-3", "region"],
          [["FRA", "Asia"], ["ATA", "Africa"], ["FRA", "Europe"], ["ATA", ""]])
    assert read(tmp_path, "fmow").factors["region"].tolist()[:3] == ["Europe", "Other", "Other"]
    place = place_of(tmp_path, "py150")
    table(place / "metadata/repo_file_names/repo_ids.csv", ["id", "repo_name"],
          [[1, "bob/two"], [7, "ann/one"], [2, "not/there"], [3, "bob/two"]])
    assert read(tmp_path, "py150").factors["repo_id"].tolist() == [7, 3] * 5


def test_poverty(tmp_path: Path) -> None:
    """The label is a number; every country is held out in one fold, and in the fold before it is val."""
    place_of(tmp_path, "poverty", images=False)
    one = read(tmp_path, "poverty")
    assert one.factors["label"].tolist() == [n / 8 for n in range(POOR)]
    assert one.factors["urban"].tolist()[:2] == ["urban", "rural"]
    folds = {fold: one.factors[f"split_{fold}"] for fold in HELD_OUT}
    assert np.array_equal(one.factors["split"], folds["A"])
    for fold, after in zip("ABCDE", "BCDEA", strict=True):
        assert set(one.factors["country"][folds[fold] == "test"]) == set(HELD_OUT[fold])
        assert np.array_equal(folds[fold] == "val", folds[after] == "test")
    assert sum((words == "test").astype(int) for words in folds.values()).tolist() == [1] * POOR


def test_poverty_sets_aside_the_published_rows() -> None:
    """Of 23 × 500 rows, the same 2,000 as the package draws: the first of them, as recorded from wilds 2.0.0."""
    country = np.asarray(COUNTRIES)[np.arange(23 * 500) % 23]
    for fold, (first_val, first_test) in RECORDED.items():
        words = fold_split(country, fold)
        assert (words == "id_val").sum() == (words == "id_test").sum() == 1000
        assert np.flatnonzero(words == "id_val")[:5].tolist() == first_val
        assert np.flatnonzero(words == "id_test")[:5].tolist() == first_test


def test_poverty_mixed_to_test_draws_the_published_rows() -> None:
    """The in-distribution setting has as many rows of each split as the package's own draw on the same countries."""
    country = np.asarray(COUNTRIES)[np.arange(23 * 500) % 23]
    for fold, counts in MIXED.items():
        words = mixed_fold(country, fold)
        assert np.unique(words, return_counts=True)[1].tolist() == counts
        outside = np.isin(country, HELD_OUT[fold])
        assert set(words[outside]) == {"test", "train"}


def test_fmow_mixed_to_test_draws_the_published_rows(tmp_path: Path) -> None:
    """Half of train and as many later rows, without val and sequestered ones: recorded from wilds 2.0.0's draw."""
    table(tmp_path / "rgb_metadata.csv", ["split", "category", "timestamp", "country_code"],
          [[("train", "train", "seq", "val", "test")[n % 5], "zoo", f"{2002 + n % 16}-01-01T00:00:00Z", "FRA"]
           for n in range(600)])
    table(tmp_path / "country_code_mapping.csv", ["alpha-3", "region"], [["FRA", "Europe"]])
    one = fmow(tmp_path, images=False)
    train = one.items[one.factors["split_mixed_to_test"] == "train"].astype(int)
    assert train[:12].tolist() == [0, 5, 6, 20, 30, 31, 35, 46, 56, 63, 65, 70]
    assert (len(train), train.sum()) == (135, 40647)
    for part in ("val", "test", "id_val", "id_test"):
        assert np.array_equal(one.factors["split_mixed_to_test"] == part, one.factors["split"] == part)


def test_rxrx1_mixed_to_test(tmp_path: Path) -> None:
    """Each test experiment takes the place of a training one of its cells: train keeps its number of experiments."""
    kinds = {"HEPG2": ["train", "train", "train", "val", "test", "test"], "U2OS": ["train", "train", "test"]}
    rows = [[cells, word, f"{cells}-{n + 1:02}", 1, "B02", site, 0] for cells, words in kinds.items()
            for n, word in enumerate(words) for site in (1, 2)]
    table(tmp_path / "metadata.csv", ["cell_type", "dataset", "experiment", "plate", "well", "site", "sirna_id"], rows)
    one = rxrx1(tmp_path, images=False)
    mixed, place = one.factors["split_mixed_to_test"], [f"{e}/{s}" for e, s in zip(
        one.factors["experiment"].tolist(), one.factors["site"].tolist(), strict=True)]
    found = {word: [name for name, own in zip(place, mixed.tolist(), strict=True) if own == word]
             for word in set(mixed.tolist())}
    assert found["train"] == ["HEPG2-03/1", "HEPG2-05/1", "HEPG2-06/1", "U2OS-02/1", "U2OS-03/1"]
    assert found["test"] == ["HEPG2-05/2", "HEPG2-06/2", "U2OS-03/2"]
    assert found["val"] == ["HEPG2-04/1", "HEPG2-04/2"]


def test_amazon(tmp_path: Path) -> None:
    """Rows that no split has are no items; ids stay text, stars are whole, `NA` is a review like any other."""
    place_of(tmp_path, "amazon")
    one = read(tmp_path, "amazon")
    assert one.items.tolist() == ["1", "2", "3", "4", "5", "6"]
    assert one.factors["split"].tolist() == ["train", "val", "id_val", "test", "id_test", "train"]
    assert one.factors["label"].tolist() == [2, 3, 4, 5, 1, 2]
    assert one.factors["y"].tolist() == [1, 2, 3, 4, 0, 1]
    assert one.factors["user"].tolist()[0] == "001"
    assert one.texts.text.tolist()[:2] == ["NA", 'line\n"two" 2']


def test_py150(tmp_path: Path) -> None:
    """Tokens and their kinds come back as arrays, after a round trip to disk; the repository is that of the file."""
    place_of(tmp_path, "py150")
    one = Collection.load(read(tmp_path, "py150").save(tmp_path / "c"))
    code, kind = tokens(one)
    assert code.tolist() == [row for n in range(5) for row in ([n, 5, 1], [9, n, 0])]
    assert kind.tolist() == [[0, 1, TOKENS["masked"]], [6, 2, 1]] * 5
    assert one.factors["repo"].tolist() == ["ann/one", "bob/two"] * 5
    assert one.factors["repo_id"].tolist() == [7, 3] * 5
    assert one.factors["split"].tolist()[::2] == ["train", "id_val", "val", "id_test", "test"]


def test_py150_takes_any_file_name(tmp_path: Path) -> None:
    """A name with a character at which Python breaks lines, but no file does, is one name."""
    place = place_of(tmp_path, "py150")
    names = "ann/one/a\u2028b.py\nbob/two/\x0c.py\n"
    (place / "metadata/repo_file_names/train.txt").write_text(names, encoding="utf-8")
    assert read(tmp_path, "py150").factors["repo"].tolist()[:2] == ["ann/one", "bob/two"]


def test_the_command_line_reads_and_notes(tmp_path: Path) -> None:
    """`shiftbench read wilds` writes the collection and says what is not as published."""
    place_of(tmp_path, "camelyon17")
    told = CliRunner().invoke(app, ["read", "wilds", "camelyon17", "--root", str(tmp_path), "--name", "mine", "--json",
                                    "--out", str(tmp_path / "c")])
    assert told.exit_code == 0
    assert "10 examples, where 455,954 are published" in told.stderr
    assert json.loads(told.stdout)["items"] == 10
    assert Collection.load(tmp_path / "c").name == "mine"
