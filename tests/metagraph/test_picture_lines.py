"""The graphs of OGB's files as lines: what belongs to a molecule, both ways of a bond, and files that do not fit."""

import gzip
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.models import gin
from shiftbench.readers.wilds.molecules import ATOM_SIZES, BOND_SIZES, graph_lines, molpcba

Row = list[int]
Molecule = tuple[list[Row], list[tuple[Row, Row]]]
"""Atoms, and bonds with their two atoms and three features."""


def below(sizes: Sequence[int]) -> st.SearchStrategy[Row]:
    return st.tuples(*(st.integers(0, size - 1) for size in sizes)).map(list)


@st.composite
def molecules(draw: st.DrawFn) -> Molecule:
    atoms = draw(st.lists(below(ATOM_SIZES), min_size=1, max_size=5))
    ends = below([len(atoms)] * 2)
    return atoms, draw(st.lists(st.tuples(ends, below(BOND_SIZES)), max_size=6))


def packed(path: Path, rows: Sequence[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(",".join(map(str, row)) + "\n" for row in rows).encode()))


def written(place: Path, listed: Sequence[Molecule]) -> Collection:
    """The molecules as OGB lays them out, read back."""
    bonds = [bond for _, bonds in listed for bond in bonds]
    for name, rows in {
        "graph-label": [[0] for _ in listed], "num-node-list": [[len(atoms)] for atoms, _ in listed],
        "num-edge-list": [[len(bonds)] for _, bonds in listed], "node-feat": [atom for atoms, _ in listed
                                                                              for atom in atoms],
        "edge": [ends for ends, _ in bonds], "edge-feat": [features for _, features in bonds],
    }.items():
        packed(place / f"raw/{name}.csv.gz", rows)
    np.save(place / "raw/scaffold_group.npy", np.arange(len(listed)))
    for number, name in enumerate(("train", "valid", "test")):
        packed(place / f"split/scaffold/{name}.csv.gz", [[row] for row in range(number, len(listed), 3)])
    return molpcba(place)


def lines(molecule: Molecule) -> list[Row]:
    """As the docstring has it, one after another: the way back stands right behind the way there."""
    atoms, bonds = molecule
    edges = [[1, *way, *features, -1, -1, -1, -1] for ends, features in bonds for way in (ends, ends[::-1])]
    return [*([0, *atom] for atom in atoms), *edges]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(molecules(), min_size=3, max_size=6), st.data())
def test_every_molecule_has_its_own_lines(listed: list[Molecule], data: st.DataObject) -> None:
    """Any rows, in any order and as often as asked, get the lines of their molecules and no other."""
    rows = data.draw(st.lists(st.integers(0, len(listed) - 1), max_size=8))
    with tempfile.TemporaryDirectory() as folder:
        values, start = graph_lines(written(Path(folder), listed), np.asarray(rows, np.int64))
    assert values.dtype == np.int16
    assert values.shape == (start[-1], 10)
    assert [values[a:b].tolist() for a, b in pairwise(start)] == [lines(listed[row]) for row in rows]


CARBON: Row = [5, 0, 4, 5, 3, 0, 2, 0, 0]
OXYGEN: Row = [7, 0, 2, 5, 1, 0, 2, 0, 0]
THREE: list[Molecule] = [([CARBON, CARBON, OXYGEN], [([0, 1], [0, 0, 0]), ([1, 2], [0, 0, 0])]), ([OXYGEN], []),
                         ([CARBON, OXYGEN], [([0, 1], [1, 0, 0])])]


def test_a_kept_collection_finds_its_graphs(tmp_path: Path) -> None:
    """A collection that was saved and loaded still knows where its graphs are."""
    one = written(tmp_path / "data", THREE)
    again = Collection.load(one.save(tmp_path / "c"))
    for mine, theirs in zip(graph_lines(one, np.arange(3)), graph_lines(again, np.arange(3)), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_model_knows_the_same_features() -> None:
    """What the reader lets through has a place in the tables of the model."""
    assert (ATOM_SIZES, BOND_SIZES) == (gin.ATOM_SIZES, gin.BOND_SIZES)


@pytest.mark.parametrize(("name", "rows", "message"), [
    ("node-feat", [CARBON] * 5, "has 5 lines of 9 numbers, but the molecules need 6 of 9"),
    ("node-feat", [CARBON[:8]] * 6, "has 6 lines of 8 numbers, but the molecules need 6 of 9"),
    ("node-feat", [CARBON] * 5 + [[119, *CARBON[1:]]], r"row 5 has 119 in column 0.* 0 to 118"),
    ("node-feat", [CARBON] * 5 + [["", *CARBON[1:]]], r"row 5 has None in column 0"),
    ("node-feat", [CARBON] * 5 + [["C", *CARBON[1:]]], "not a CSV table in gzip"),
    ("edge", [[0, 1], [1, 2], [0, 2]], "row 2 names atom 2 of molecule 2, which has 2"),
    ("edge", [[0, 1], [-1, 2], [0, 1]], "row 1 has -1 in column 0"),
    ("edge", [[0, 1], [1, 2]], "has 2 lines of 2 numbers, but the molecules need 3 of 2"),
    ("edge-feat", [[0, 0, 0], [0, 6, 0], [0, 0, 0]], r"row 1 has 6 in column 1.* 0 to 5"),
    ("edge-feat", [[0, 0, 0], [0, 0, 0.5], [0, 0, 0]], "not a CSV table in gzip"),
])
def test_files_that_do_not_fit_are_told(tmp_path: Path, name: str, rows: list[Row], message: str) -> None:
    """A file with too few lines, or with a number that no molecule can have, is one error with its name."""
    one = written(tmp_path, THREE)
    packed(tmp_path / f"raw/{name}.csv.gz", rows)
    with pytest.raises(ShiftBenchError, match=message) as caught:
        graph_lines(one, np.arange(3))
    assert f"{name}.csv.gz" in str(caught.value)


def test_what_has_no_graphs_is_told(tmp_path: Path) -> None:
    """Without counts, without a folder, or without a file there are no graphs, and the error says what is missing."""
    one = written(tmp_path, THREE)
    for lacking in (replace(one, factors={}), replace(one, root=None)):
        with pytest.raises(ShiftBenchError, match="has no graphs"):
            graph_lines(lacking, np.arange(3))
    with pytest.raises(ShiftBenchError, match="fewer than 0"):
        graph_lines(replace(one, factors={**one.factors, "bonds": np.asarray([2, -1, 2])}), np.arange(3))
    (tmp_path / "raw/edge.csv.gz").unlink()
    with pytest.raises(ShiftBenchError, match=r"has no raw/edge\.csv\.gz"):
        graph_lines(one, np.arange(3))
