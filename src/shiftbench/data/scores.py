"""Scores: the long table everything after training reads. One number per run, split, group and metric."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Bools, Values, settings_id
from shiftbench.core.errors import unknown
from shiftbench.core.files import read_table, write_table
from shiftbench.core.tables import decimal, strings, whole

COLUMNS: Mapping[str, type] = {
    "run": str, "benchmark": str, "method": str, "setting": str, "seed": int, "split": str, "group": str, "n": int,
    "metric": str, "value": float, "low": float, "high": float, "digest": str,
}
ALL = "all"
"""The group of a score over every item of its split."""
OPTIONAL = {"setting": "", "digest": ""}
"""What a table may lack, and what stands there then. `setting` names all that decides a run but benchmark and seed;
`digest` tells the benchmark's rows, by which a score finds its benchmark under any name."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Columns of equal length, named as in COLUMNS. `low` and `high` are the interval of `value`, NaN where unknown."""

    columns: Mapping[str, Values]

    @staticmethod
    def of(rows: Iterable[Mapping[str, Any]]) -> "Scores":
        """From one mapping per score."""
        listed = [OPTIONAL | dict(row) for row in rows]
        return Scores({name: np.asarray([row[name] for row in listed], dtype=np.str_ if kind is str else kind)
                       for name, kind in COLUMNS.items()})

    @staticmethod
    def join(parts: Sequence["Scores"]) -> "Scores":
        return Scores({name: np.concatenate([part.columns[name] for part in parts]) if parts
                       else np.zeros(0, np.str_ if kind is str else kind) for name, kind in COLUMNS.items()})

    def __len__(self) -> int:
        return len(self.columns["value"])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in zip(*(self.columns[name].tolist() for name in COLUMNS), strict=True):
            yield dict(zip(COLUMNS, row, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scores) and all(
            np.array_equal(self.columns[name], other.columns[name], equal_nan=kind is float)
            for name, kind in COLUMNS.items())

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, name: str) -> Values:
        if name not in self.columns:
            raise unknown("column", name, COLUMNS)
        return self.columns[name]

    def where(self, **equal: Any) -> "Scores":
        """The rows whose columns have these values: where(split="test", metric="accuracy")."""
        keep: Bools = np.ones(len(self), np.bool_)
        for name, value in equal.items():
            keep &= self[name] == value
        return Scores({name: values[keep] for name, values in self.columns.items()})

    def save(self, path: Path | str) -> Path:
        """Parquet, or CSV where the name ends so."""
        write_table(path, pa.table({name: pa.array(self.columns[name]) for name in COLUMNS}))
        return Path(path)

    @staticmethod
    def load(path: Path | str) -> "Scores":
        words = [name for name, kind in COLUMNS.items() if kind is str]
        table = read_table(path, [name for name in COLUMNS if name not in OPTIONAL], text=words)
        for name, value in OPTIONAL.items():
            if name not in table.column_names:
                table = table.append_column(name, pa.array(np.full(len(table), value)))
        read: dict[type, Callable[..., Values]] = {str: strings, int: whole, float: decimal}
        return Scores({name: read[kind](path, table, name) for name, kind in COLUMNS.items()})


def label_of(settings: Mapping[str, Any]) -> str:
    """The name under which a run is shown: that of its preset where it has one, else that of its method.

    >>> label_of({"method": "erm", "preset": "resnet50"}), label_of({"method": "irm"})
    ('resnet50', 'irm')
    """
    return str(settings.get("preset") or settings["method"])


def run_id(settings: Mapping[str, Any]) -> str:
    """The id of a run with these settings, all of them.

    The label stands for method and preset: presets were methods once, and their runs keep the ids of that time.
    """
    known = {key: value for key, value in settings.items() if key != "preset"}
    return settings_id({**known, "method": label_of(settings)})
