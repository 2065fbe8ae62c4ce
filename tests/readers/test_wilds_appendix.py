"""What WILDS' package has beside its ten: Amazon by time and category, and CelebA, each as the package reads it."""

import csv
import importlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from shiftbench.cli import app
from shiftbench.compat.wilds import get_dataset
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.readers.wilds.comments import amazon_name
from shiftbench.shifts.suites import suite
from tests.readers.wilds_files import place_of, read, table

with_package = pytest.mark.skipif("SHIFTBENCH_WILDS" not in os.environ, reason="needs the package: make test-real")
FIVE, THREE = ("train", "val", "id_val", "test", "id_test"), ("train", "val", "test")
SCHEMES = {  # what the numbers of a file stand for, in the package's `_split_dict` of the scheme
    "time": (FIVE, [0, 1, 2, 3, 4, -1, -1]), "books_generalization": (FIVE, [-1, 0, -1, 3, 1, 4, 2]),
    "category_subpopulation": (THREE, [0, -1, 1, 2, 0, 2, 1]), "time_baseline": (THREE, [-1, -1, 2, 1, 0, 0, 2]),
    "user": (FIVE, [-1, 0, 1, 2, 3, 4, 0]),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_of_amazon_is_its_split_file(tmp_path: Path, scheme: str) -> None:
    """Items are the reviews that the file does not mark -1, each in the split that the package gives to its number."""
    place_of(tmp_path, "amazon")
    words, numbers = SCHEMES[scheme]
    one, whole = read(tmp_path, "amazon", scheme=scheme), read(tmp_path, "amazon")
    assert one.items.tolist() == [str(row) for row, number in enumerate(numbers) if number >= 0]
    assert one.factors["split"].tolist() == [words[number] for number in numbers if number >= 0]
    assert one.factors["year"].tolist() == [2010 + row for row, number in enumerate(numbers) if number >= 0]
    if scheme == "user":
        assert one == whole
    else:
        assert one.name == f"amazon-{scheme}"
        assert one != whole


@pytest.mark.parametrize(("scheme", "key", "domain"), [
    ("time", "amazon-time", "year"), ("category_subpopulation", "amazon-category", "category"),
    ("books_generalization", "amazon-category", "category"), ("user", "amazon", "user")])
def test_a_scheme_of_amazon_is_a_benchmark(tmp_path: Path, scheme: str, key: str, domain: str) -> None:
    """The domain is what the package groups the scheme by; by time and category its choice is by average accuracy."""
    place_of(tmp_path, "amazon")
    one = read(tmp_path, "amazon", scheme=scheme)
    made = dict(suite("wilds", key))[key].build(one)
    names = np.asarray(made.names["domain"])[made.domain]
    assert names.tolist() == one.factors[domain][one.index(made.items)].astype(str).tolist()
    assert str(made.headline) == ("tenth_percentile_accuracy[user]" if scheme == "user" else "accuracy")
    assert made.card["groupings"] == [domain]


@pytest.mark.parametrize("scheme", ["category", "../user", "notes", ""])
def test_a_scheme_without_a_file_is_refused(tmp_path: Path, scheme: str) -> None:
    """Only the names of the package's own kinds of file below splits/ are schemes; the error lists them."""
    place = place_of(tmp_path, "amazon")
    (place / "splits/notes.csv").write_text("split\n0\n")
    with pytest.raises(ShiftBenchError, match=r"No split scheme named .*books_generalization.*time_baseline"):
        read(tmp_path, "amazon", scheme=scheme)


def test_other_data_sets_have_no_schemes(tmp_path: Path) -> None:
    """Their settings are factors, and the error says so."""
    place_of(tmp_path, "camelyon17")
    with pytest.raises(ShiftBenchError, match="only amazon has other split files"):
        read(tmp_path, "camelyon17", scheme="mixed-to-test")


def test_the_command_line_reads_a_scheme(tmp_path: Path) -> None:
    """`read wilds amazon --scheme time` says nothing of the number of examples, which is published of users alone."""
    place_of(tmp_path, "amazon")
    words = ["read", "wilds", "amazon", "--root", str(tmp_path), "--out", str(tmp_path / "c"), "--scheme", "time"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert "published" not in done.stderr
    assert Collection.load(tmp_path / "c") == read(tmp_path, "amazon", scheme="time")


def test_celeba(tmp_path: Path) -> None:
    """y is 1 for blond hair, `male` 0 or 1 as in the package's metadata; 0, 1 and 2 are train, val and test; groups are
    male × blond, and the worst of them ranks."""
    place = place_of(tmp_path, "celeba")
    one = read(tmp_path, "celebA")
    assert one.factors["y"].tolist() == [1, 0, 0] * 4
    assert one.factors["label"].tolist() == ["blond", "not blond", "not blond"] * 4
    assert one.factors["male"].tolist() == [0, 1] * 6
    assert one.factors["young"].tolist() == [1] * 12
    assert one.factors["split"].tolist() == ["train"] * 4 + ["val"] * 4 + ["test"] * 4
    assert one.path(3) == place.resolve() / "img_align_celeba/000004.jpg"
    made = dict(suite("wilds", "celeba"))["celeba"].build(one)
    cells = {(label, male) for label, male in zip(one.factors["label"].tolist(), one.factors["male"].tolist(),
                                                  strict=True)}
    assert len(made.names["group"]) == len(cells) == 4
    group = 2 * made.label + made.domain
    assert len({(own, cell) for own, cell in zip(made.group.tolist(), group.tolist(), strict=True)}) == 4
    assert str(made.headline) == "worst_group_accuracy"


def test_celeba_of_two_versions_is_refused(tmp_path: Path) -> None:
    """The package takes the rows of both tables by their number alone; here the names must agree."""
    place = place_of(tmp_path, "celeba")
    table(place / "list_eval_partition.csv", ["image_id", "partition"], [[f"{n + 2:06}.jpg", 0] for n in range(12)])
    with pytest.raises(ShiftBenchError, match="Both must be of one version"):
        read(tmp_path, "celebA")


def many_reviews(place: Path) -> None:
    """300 reviews of 12 users in 4 categories over 8 years, and three further split files."""
    rng = np.random.default_rng(0)
    columns = ["reviewerID", "asin", "overall", "reviewTime", "unixReviewTime", "reviewText", "summary", "verified",
               "category", "reviewYear"]
    rows = [[f"U{rng.integers(12)}", f"a{rng.integers(40)}", float(rng.integers(1, 6)), "1 1, 2013", 7, f"text {n}",
             "s", True, ("Books", "Toys", "Movies_and_TV", "Software")[rng.integers(4)], int(rng.integers(2008, 2016))]
            for n in range(300)]
    with (place / "reviews.csv").open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerows([columns, *rows])
    for scheme in SCHEMES:
        most = len(SCHEMES[scheme][0])
        table(place / f"splits/{scheme}.csv", ["split"], [[float(code)] for code in rng.integers(-1, most, 300)])


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Amazon's files, and below b/ a benchmark of each scheme where a script finds it."""
    root = tmp_path_factory.mktemp("amazon")
    many_reviews(place_of(root, "amazon"))
    for scheme in SCHEMES:
        key = "amazon" if scheme == "user" else "amazon-time" if scheme.startswith("time") else "amazon-category"
        one = read(root, "amazon", scheme=scheme)
        one.save(root / "c" / one.name)
        dict(suite("wilds", key))[key].build(one).save(root / "b" / one.name)
    return root


def opened(root: Path, scheme: str):
    collection = Collection.load(root / "c" / amazon_name(scheme))
    return get_dataset("amazon", root_dir=root / "b", collection=collection, split_scheme=scheme, compat="wilds-2.0")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_script_names_a_scheme(root: Path, scheme: str) -> None:
    """`split_scheme` opens the benchmark of that scheme, with the package's splits, and `eval` groups by its field."""
    data = opened(root, scheme)
    assert (data.dataset_name, data.split_scheme) == ("amazon", scheme)
    assert tuple(data.split_dict) == SCHEMES[scheme][0]
    results, _ = data.eval(data.y_array, data.y_array, data.metadata_array)
    field = {"time": "year", "time_baseline": "year", "user": "user"}.get(scheme, "category")
    assert {key.partition(":")[0] for key in results if key.startswith("count_")} == {f"count_{field}"}
    assert ("10th_percentile_acc" in results) == (scheme == "user")


def test_a_script_is_told_of_a_scheme_that_was_not_read(root: Path) -> None:
    """A benchmark of other reviews is not taken for the scheme."""
    official = Collection.load(root / "c" / "amazon")
    with pytest.raises(ShiftBenchError, match="read wilds amazon --scheme books_generalization"):
        get_dataset("amazon", root_dir=root / "b", collection=official, split_scheme="books_generalization")
    with pytest.raises(ShiftBenchError, match="No split scheme named 'season'"):
        get_dataset("amazon", root_dir=root / "b", collection=official, split_scheme="season")


@with_package
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_package_reads_the_same_reviews(root: Path, scheme: str) -> None:
    """Texts, labels, splits, metadata and results of each scheme are those of the package."""
    theirs = importlib.import_module("wilds.datasets.amazon_dataset").AmazonDataset(root_dir=str(root),
                                                                                   split_scheme=scheme)
    ours = opened(root, scheme)
    assert (ours.split_dict, ours.metadata_fields) == (theirs.split_dict, theirs.metadata_fields)
    for split in theirs.split_dict:
        mine, own = ours.get_subset(split), theirs.get_subset(split)
        assert [mine[row][0] for row in range(len(mine))] == [own[row][0] for row in range(len(own))]
        assert mine.y_array.tolist() == own.y_array.tolist()
        assert mine.metadata_array.tolist() == own.metadata_array.tolist()
        guess = torch.from_numpy(np.random.default_rng(1).permutation(own.y_array.numpy()))
        found, told = mine.eval(guess, mine.y_array, mine.metadata_array)
        wanted, text = own.eval(guess, own.y_array, own.metadata_array)
        assert found == pytest.approx(wanted)
        assert told == text


@with_package
@pytest.mark.filterwarnings("ignore")
def test_the_package_reads_the_same_faces(tmp_path: Path) -> None:
    """Names, labels, `male` and splits of CelebA are those of the package."""
    place_of(tmp_path, "celeba")
    theirs = importlib.import_module("wilds.datasets.celebA_dataset").CelebADataset(root_dir=str(tmp_path))
    one = read(tmp_path, "celebA")
    assert one.items.tolist() == list(theirs._input_array)
    assert np.stack([one.factors["male"], one.factors["y"]], axis=1).tolist() == theirs.metadata_array[:, :2].tolist()
    assert theirs.metadata_fields[:2] == ["male", "y"]
    assert [("train", "val", "test")[code] for code in theirs.split_array] == one.factors["split"].tolist()
