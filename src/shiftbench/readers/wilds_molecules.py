"""OGB-MolPCBA: molecules, 128 yes-or-no assays of which most were never run, split by scaffold."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from shiftbench.arrays import Ints, Values
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError
from shiftbench.readers.wilds_files import needed
from shiftbench.tags import Texts

SPLITS = {"train": "train", "valid": "val", "test": "test"}
GRAPHS = ("raw/edge.csv.gz", "raw/edge-feat.csv.gz", "raw/node-feat.csv.gz")


def molpcba(place: Path, images: bool = True) -> Collection:
    """Labels are the factors `y000` to `y127`: 0, 1, or NaN where the assay was not run. The domain is `scaffold`.

    The graphs stay in their files (`GRAPHS`, below `root`), which must be there; `atoms` and `bonds` say how many rows
    of them belong to each molecule, in the order of the items. Where mapping/mol.csv.gz is there, the SMILES string of
    a molecule is its text. A molecule in no split file is `unused`.
    """
    label_file, atom_file, bond_file, scaffold_file, *split_files = needed(
        place, "raw/graph-label.csv.gz", "raw/num-node-list.csv.gz", "raw/num-edge-list.csv.gz",
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
    try:
        scaffold = np.load(scaffold_file, allow_pickle=False).reshape(-1)
    except (ValueError, OSError) as problem:
        raise ShiftBenchError(f"{scaffold_file}: not a numpy file of whole numbers ({problem}).") from problem
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
        texts=_smiles(place / "mapping" / "mol.csv.gz", total),
        root=place.resolve())


def _rows(path: Path, header: bool = False) -> pa.Table:
    from pyarrow import csv

    try:
        with pa.input_stream(str(path), compression="gzip") as stream:
            return csv.read_csv(stream, read_options=csv.ReadOptions(autogenerate_column_names=not header))
    except (pa.ArrowException, OSError) as problem:
        raise ShiftBenchError(f"{path}: not a CSV table in gzip ({str(problem).splitlines()[0]}).") from problem


def _floats(path: Path, column: pa.ChunkedArray) -> Values:
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    except pa.ArrowException as problem:
        raise ShiftBenchError(f"{path}: has a value that is no number ({str(problem).splitlines()[0]}).") from problem


def _whole(path: Path, total: int | None = None) -> Ints:
    """A file with one whole number per line, one per molecule where `total` is given."""
    values = _floats(path, _rows(path).column(0))
    if np.isnan(values).any() or (values != np.floor(values)).any():
        raise ShiftBenchError(f"{path}: has a line that is no whole number.")
    if total is not None and len(values) != total:
        raise ShiftBenchError(f"{path}: has {len(values)} lines for {total} molecules.")
    return values.astype(np.int64)


def _smiles(path: Path, total: int) -> Texts:
    if not path.is_file():
        return Texts.none()
    table = _rows(path, header=True)
    if "smiles" not in table.column_names or table.num_rows != total:
        raise ShiftBenchError(f"{path}: needs a column 'smiles' with one line for each of {total} molecules.")
    return Texts(np.arange(total), np.asarray(table["smiles"].to_pylist(), np.object_))
