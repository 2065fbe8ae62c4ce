"""OGB-MolPCBA: molecules, 128 yes-or-no assays of which most were never run, split by scaffold; and their graphs."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shiftbench.core.arrays import Ints, Values, read_array
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.tables import FAULTS, long_texts, no_doubles
from shiftbench.data.collection import Collection, Texts
from shiftbench.readers.wilds.metadata import needed

SPLITS = {"train": "train", "valid": "val", "test": "test"}
GRAPHS = ("raw/edge.csv.gz", "raw/edge-feat.csv.gz", "raw/node-feat.csv.gz")
ATOM_SIZES = (119, 5, 12, 12, 10, 6, 6, 2, 2)  # number of values of each of OGB's features of an atom
BOND_SIZES = (5, 6, 2)  # and of a bond

Shorts = npt.NDArray[np.int16]


def molpcba(folder: Path, images: bool = True) -> Collection:
    """Labels are the factors `y000` to `y127`: 0, 1, or NaN where the assay was not run. The domain is `scaffold`.

    The graphs stay in their files (`GRAPHS`, below `root`), which must be there; `atoms` and `bonds` count the rows of
    each molecule in them, in the order of the items. Where mapping/mol.csv.gz is there, the SMILES string of
    a molecule is its text. A molecule in no split file is `unused`; the package would train on it.
    """
    label_file, atom_file, bond_file, scaffold_file, *split_files = needed(
        folder, "raw/graph-label.csv.gz", "raw/num-node-list.csv.gz", "raw/num-edge-list.csv.gz",
        "raw/scaffold_group.npy", *(f"split/scaffold/{name}.csv.gz" for name in SPLITS), *GRAPHS)[:4 + len(SPLITS)]
    labels = _rows(label_file)
    total = labels.num_rows
    factors: dict[str, Values] = {}
    for number, column in enumerate(labels.columns):
        values = _floats(label_file, column)
        for row in np.flatnonzero(~np.isnan(values) & (values != 0) & (values != 1))[:1]:
            raise ShiftBenchError(f"{label_file}: row {row} has {values[row]} in column {number}. Labels are 0, 1 or "
                                  "nothing.")
        factors[f"y{number:03}"] = values.astype(np.float32)
    atoms, bonds = (_whole(path, total) for path in (atom_file, bond_file))
    scaffold = read_array(scaffold_file).reshape(-1)
    if scaffold.dtype.kind not in "iu":
        raise ShiftBenchError(f"{scaffold_file}: holds {scaffold.dtype}, but scaffolds are whole numbers.")
    if len(scaffold) != total:
        raise ShiftBenchError(f"{scaffold_file}: has {len(scaffold)} scaffolds for {total} molecules.")
    split = np.full(total, "unused", "U6")
    for path, word in zip(split_files, SPLITS.values(), strict=True):
        rows = _whole(path)
        if len(rows) and (rows.min() < 0 or rows.max() >= total):
            wrong = rows[(rows < 0) | (rows >= total)][0]
            raise ShiftBenchError(f"{path}: names molecule {wrong}, but there are {total}.")
        if (split[rows] != "unused").any():
            raise ShiftBenchError(f"{path}: molecule {rows[split[rows] != 'unused'][0]} is in another split too.")
        split[rows] = word
    return Collection(
        name="molpcba",
        items=np.arange(total).astype(np.str_),
        factors={**factors, "scaffold": scaffold.astype(np.int64), "atoms": atoms, "bonds": bonds, "split": split},
        texts=_smiles(folder / "mapping" / "mol.csv.gz", total),
        root=folder.resolve())


def graph_lines(collection: Collection, rows: Ints) -> tuple[Shorts, Ints]:
    """The graphs of these items as lines of ten numbers; item k has the lines start[k] to start[k + 1].

    A line is an atom `[0, f0 … f8]` or an edge `[1, source, target, b0, b1, b2, -1 …]`, atoms first; source and target
    count the atoms of the molecule. The files and `bonds` count a bond once; like OGB, we add the reverse edge
    right after it.
    """
    if collection.root is None or not {"atoms", "bonds"} <= set(collection.factors):
        raise ShiftBenchError(f"Collection '{collection.name}' has no graphs: it needs the factors atoms and bonds "
                              "and the folder of OGB's files. Read it with: shiftbench read wilds molpcba --root DIR.")
    edge_file, bond_file, atom_file = needed(collection.files_root, *GRAPHS)
    all_atoms, all_bonds = (np.asarray(collection.factors[name], np.int64) for name in ("atoms", "bonds"))
    if min(all_atoms.min(initial=0), all_bonds.min(initial=0)) < 0:
        raise ShiftBenchError(f"Collection '{collection.name}': a molecule has fewer than 0 atoms or bonds.")
    features = _shorts(atom_file, ATOM_SIZES, int(all_atoms.sum()))
    edges = np.concatenate([_shorts(edge_file, (1 << 15,) * 2, int(all_bonds.sum())),
                            _shorts(bond_file, BOND_SIZES, int(all_bonds.sum()))], axis=1)
    outside = (edges[:, :2] >= np.repeat(all_atoms, all_bonds)[:, None]).any(axis=1)
    if outside.any():
        line = int(outside.argmax())
        owner = int(np.searchsorted(np.cumsum(all_bonds), line, side="right"))
        raise ShiftBenchError(f"{edge_file}: row {line} names atom {edges[line, :2].max()} of molecule {owner}, which "
                              f"has {all_atoms[owner]}. The files do not belong together; unpack the data set again.")
    rows = np.asarray(rows, np.int64)
    atoms, bonds = all_atoms[rows], all_bonds[rows]
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(atoms + 2 * bonds)])
    values = np.full((start[-1], 1 + len(ATOM_SIZES)), -1, np.int16)
    target = _spans(start[:-1], atoms)
    values[target, 0] = 0
    values[target, 1:] = features[_spans((np.cumsum(all_atoms) - all_atoms)[rows], atoms)]
    target = _spans(start[:-1] + atoms, 2 * bonds)
    chosen = edges[_spans((np.cumsum(all_bonds) - all_bonds)[rows], bonds)]
    values[target, 0] = 1
    values[target[0::2], 1:6] = chosen
    values[target[1::2], 1:6] = chosen[:, [1, 0, 2, 3, 4]]
    return values, start


def _spans(first: Ints, length: Ints) -> Ints:
    """first[0], first[0] + 1, … (length[0] numbers), then first[1], …: all numbers of many ranges."""
    before = np.cumsum(length) - length
    return np.repeat(first - before, length) + np.arange(int(length.sum()))


def _shorts(path: Path, sizes: tuple[int, ...], total: int) -> Shorts:
    """A table of small whole numbers without header, one line for each atom or bond; column j is below sizes[j]."""
    if not total:
        return np.zeros((0, len(sizes)), np.int16)
    table = _rows(path, types={f"f{column}": pa.int16() for column in range(len(sizes))})
    if (table.num_rows, table.num_columns) != (total, len(sizes)):
        raise ShiftBenchError(f"{path}: has {table.num_rows} lines of {table.num_columns} numbers, but the molecules "
                              f"need {total} of {len(sizes)}. Unpack the data set again.")
    values = np.empty((total, len(sizes)), np.int16)
    for number, (column, size) in enumerate(zip(table.columns, sizes, strict=True)):
        values[:, number] = column.fill_null(-1).to_numpy()
        wrong = (values[:, number] < 0) | (values[:, number] >= size)
        if wrong.any():
            line = int(wrong.argmax())
            raise ShiftBenchError(f"{path}: row {line} has {column[line]} in column {number}. It should be a whole "
                                  f"number from 0 to {size - 1}.")
    return values


def _rows(path: Path, header: bool = False, types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    from pyarrow import csv

    try:
        with pa.input_stream(str(path), compression="gzip") as stream:
            table = csv.read_csv(stream, read_options=csv.ReadOptions(autogenerate_column_names=not header),
                                convert_options=csv.ConvertOptions(column_types=types))
    except (OSError, *FAULTS) as problem:
        raise ShiftBenchError(f"{path}: not a CSV table in gzip ({first_line(problem)}).") from problem
    no_doubles(path, table)
    return table


def _floats(path: Path, column: pa.ChunkedArray) -> Values:
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    except FAULTS as problem:
        raise ShiftBenchError(f"{path}: has a value that is not a number ({first_line(problem)}).") from problem


def _whole(path: Path, total: int | None = None) -> Ints:
    """A file with one whole number per line, one per molecule where `total` is given."""
    values = _floats(path, _rows(path).column(0))
    if np.isnan(values).any() or (values != np.floor(values)).any():
        raise ShiftBenchError(f"{path}: has a line that is not a whole number.")
    if total is not None and len(values) != total:
        raise ShiftBenchError(f"{path}: has {len(values)} lines for {total} molecules.")
    return values.astype(np.int64)


def _smiles(path: Path, total: int) -> Texts:
    if not path.is_file():
        return Texts.none()
    table = _rows(path, header=True)
    if "smiles" not in table.column_names or table.num_rows != total:
        raise ShiftBenchError(f"{path}: needs a column 'smiles' with one line for each of {total} molecules.")
    return Texts(np.arange(total), long_texts(path, table, "smiles"))
