"""WILDS 2's items without labels come behind the labelled ones, in the package's splits, and nobody sees a label."""

import re
from pathlib import Path

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.readers.wilds import DATASETS
from shiftbench.readers.wilds.photos import HELD_OUT
from tests.readers.wilds_files import COUNTRIES, place_of, read, table
from tests.readers.wilds_unlabelled_files import WRITERS, write

UNLABELLED = [name for name, published in DATASETS.items() if published.unlabelled is not None]

TRAIN, VAL, TEST, EXTRA = (f"{word}_unlabeled" for word in ("train", "val", "test", "extra"))
EXPECTED = {
    "camelyon17": [TRAIN, VAL, TEST, TRAIN, TRAIN] * 2,
    "iwildcam": [EXTRA] * 5,
    "civilcomments": [EXTRA] * 6,
    "poverty": [TEST if country in HELD_OUT["A"] else VAL if country in HELD_OUT["B"] else TRAIN
                for country in COUNTRIES] * 2,
    "fmow": [VAL, TEST, TRAIN],
    "amazon": [VAL, TEST, EXTRA, EXTRA],
}


def prepared(root: Path, name: str, images: bool = True) -> None:
    """A data set with items without labels: in a folder of their own, or among the labelled ones."""
    place = place_of(root, name, images)
    if name in WRITERS:
        write(root, name)
    elif name == "fmow":  # row 4: train of 2013; row 5: seq of 2016; two more rows
        with (place / "rgb_metadata.csv").open("a") as file:
            file.write('seq,zoo,2010-01-01T00:00:00Z,FRA,"a, b"\ntrain,zoo,2010-01-01T00:00:00Z,FRA,"a, b"\n')
    else:
        with (place / "reviews.csv").open("a") as file:
            file.writelines(f'u{n},a,{n + 1}.0,"1 1, 2013",7,more {n},s,True,Books,2015\n' for n in range(4))
        table(place / "splits/user.csv", ["split"], [[code] for code in (-1, 0, 1, 2, 3, 4, 0, 11, 12, 13, 13)])


@pytest.mark.parametrize("name", UNLABELLED)
def test_items_without_labels_come_behind_the_labelled_ones(name: str, tmp_path: Path) -> None:
    """The labelled items stay as they are; the others have the package's splits, no label, and files that are there."""
    prepared(tmp_path, name)
    with_files = name not in ("fmow",)  # whose two new rows have no file
    alone, both = (read(tmp_path, name, unlabelled=more, images=with_files) for more in (False, True))
    n = len(alone)
    assert both.items[:n].tolist() == alone.items.tolist()
    assert all(item.startswith("unlabelled/") for item in both.items[n:].tolist())
    assert both.factors.keys() == alone.factors.keys()
    for factor, values in alone.factors.items():
        assert both.factors[factor][:n].astype(values.dtype).tolist() == values.tolist(), factor
    assert both.factors["split"][n:].tolist() == EXPECTED[name]
    label = both.factors["label"][n:]
    assert np.isnan(label).all() if label.dtype.kind == "f" else set(label.tolist()) == {""}
    if both.pixels is not None:
        assert all(both.path(row).is_file() for row in range(len(both)))
    if len(alone.texts.item):
        assert both.texts.text[both.texts.item >= n].tolist() == [
            f"more {k}" if name == "amazon" else f'unheard "{k}",\nreally' for k in range(len(both) - n)]


def test_facts_of_items_without_labels(tmp_path: Path) -> None:
    """What a file says of them is kept, what it does not say is a gap, and every fold of PovertyMap has its splits."""
    prepared(tmp_path, "iwildcam")
    made = read(tmp_path, "iwildcam", unlabelled=True)
    assert made.factors["location"][6:].tolist() == [10, 10, 11, 11, 12]
    assert made.factors["hour"][6:].tolist() == [5, 5, -1, 5, 5]
    assert set(made.factors["y"][6:].tolist()) == {-1}
    prepared(tmp_path, "poverty", images=False)
    poor = read(tmp_path, "poverty", unlabelled=True)
    for fold, countries in HELD_OUT.items():
        held = np.isin(poor.factors["country"][-46:], countries)
        assert np.array_equal(poor.factors[f"split_{fold}"][-46:] == TEST, held)
        assert set(poor.factors[f"split_mixed_to_test_{fold}"][-46:].tolist()) == {"unused"}


def test_a_benchmark_adapts_with_them(tmp_path: Path) -> None:
    """One of the splits is renamed to `unlabelled`, others are ignored; no class is added."""
    prepared(tmp_path, "camelyon17")
    made = read(tmp_path, "camelyon17", unlabelled=True)
    bench = sb.Given(domain="hospital", rename={TEST: "unlabelled"}, ignore=(TRAIN, VAL)).build(made)
    assert bench.names["label"] == ("normal", "tumor")
    assert {item.split("/")[0] for item in bench.items[bench.rows("unlabelled")].tolist()} == {"unlabelled"}
    assert len(bench.rows("unlabelled")) == 2


def test_what_is_not_there_is_said(tmp_path: Path, shell) -> None:
    """A folder that is missing, a data set without such items, another split of Amazon; the command line has it too."""
    place_of(tmp_path, "camelyon17")
    with pytest.raises(ShiftBenchError, match=r"has no folder camelyon17_unlabeled_v1.0"):
        read(tmp_path, "camelyon17", unlabelled=True)
    place_of(tmp_path, "rxrx1")
    with pytest.raises(ShiftBenchError, match=re.escape("rxrx1: its items without labels cannot be read,")):
        read(tmp_path, "rxrx1", unlabelled=True)
    place_of(tmp_path, "amazon")
    with pytest.raises(ShiftBenchError, match="scheme=time: items without labels belong to the official split"):
        read(tmp_path, "amazon", unlabelled=True, scheme="time")
    write(tmp_path, "camelyon17")
    code, _, said = shell("read", "wilds", "camelyon17", "--unlabelled", "--root", tmp_path, "--out", tmp_path / "c")
    assert code == 0, said
    assert len(sb.Collection.load(tmp_path / "c")) == 20
