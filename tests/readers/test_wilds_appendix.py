"""What WILDS' package has beside its ten: Amazon by time and category, and CelebA, each as the package reads it."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.shifts.suites import suite
from tests.readers.wilds_files import place_of, read, table

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
