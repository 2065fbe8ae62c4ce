"""Scores: the long table that every step after training reads. One number per run, split, group and metric."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shiftbench.core.arrays import Bools, Strs, Values, encode, in_short
from shiftbench.core.backend import notebook
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import Tabular, decimal, read_table, strings, table_name, whole, write_table

COLUMNS: Mapping[str, type] = {
    "run": str, "stat": str, "runs": int, "benchmark": str, "digest": str, "method": str, "model": str, "setting": str,
    "label": str, "seed": int, "split": str, "by": str, "group": str, "n": int, "metric": str, "value": float,
    "low": float, "high": float, "p": float,
}
RUN, MEAN, DIFFERENCE = STATS = ("run", "mean", "difference")
"""The statistic of a score: of one run, a method's mean over its runs, or how far a method is behind the best."""
ALL = "all"
"""The group of a score over every item of its split."""
DEFAULTS: Mapping[str, Any] = {
    "stat": RUN, "runs": 1, "digest": "", "model": "", "setting": "", "label": "", "by": "", "p": math.nan,
}
"""Optional columns and their defaults. `runs` counts the runs behind a number. `digest` identifies the benchmark's
rows, so a score finds its benchmark under any name. `model` is the net. `setting` identifies everything that determines
a run except benchmark and seed. `method` is the learning rule, and `label` is the name to show where a run has a preset
or a method several settings (`resnet50`, `erm (lr=0.01)`); where it is empty the method is shown. `by` is the grouping
of a number, empty for the benchmark's own groups. `p` is the corrected p-value of a difference."""

VERSION = 2
VERSION_KEY = b"shiftbench scores"
"""The parquet file's key for its version. Version 1 had none: it wrote means, differences and groupings as names."""
_OLD_RUN, _OLD_METRIC = re.compile(r"mean of \d+$"), re.compile(r"\[.*\]|_behind_best$", re.DOTALL)


class Measure(NamedTuple):
    """A metric, and the grouping that it is over: "" for the benchmark's own groups."""

    metric: str
    by: str = ""

    @staticmethod
    def parse(text: str) -> "Measure":
        """Parse a measure as recipes, cards and command lines write it.

        >>> Measure.parse("worst_group_accuracy[urban,label]"), str(Measure("nll"))
        (Measure(metric='worst_group_accuracy', by='urban,label'), 'nll')
        """
        match = re.fullmatch(r"([^\[]*)\[(.*)\]", text, re.DOTALL)
        return Measure(match[1], match[2]) if match else Measure(text)

    def __str__(self) -> str:
        return f"{self.metric}[{self.by}]" if self.by else self.metric


@dataclass(frozen=True, eq=False)
class Scores(Tabular):
    """Columns of equal length, named as in COLUMNS. `low` and `high` are the interval of `value`, NaN where unknown."""

    columns: Mapping[str, Values]

    @staticmethod
    def of(rows: Iterable[Mapping[str, Any]]) -> "Scores":
        """From one mapping per score."""
        complete = [{**DEFAULTS, **row} for row in rows]
        return Scores({name: np.asarray([row[name] for row in complete], dtype=np.str_ if kind is str else kind)
                       for name, kind in COLUMNS.items()})

    @staticmethod
    def join(tables: Sequence["Scores"]) -> "Scores":
        """The rows of several tables, one after the other."""
        return Scores({name: np.concatenate([table.columns[name] for table in tables]) if tables
                       else np.zeros(0, np.str_ if kind is str else kind) for name, kind in COLUMNS.items()})

    def __repr__(self) -> str:
        contents = "; ".join(f"{name}s: {in_short(dict.fromkeys(self[name].tolist()))}"
                             for name in ("benchmark", "method", "split", "metric")) if len(self) else "none"
        return f"Scores({len(self):,} rows; {contents})"

    def _repr_html_(self) -> str:
        return str(notebook().html(self))

    def plot(self, metric: str = "accuracy", split: str = "test") -> Any:
        """A figure of a metric on a split, by method and group; a notebook shows it, `save` writes it as SVG."""
        return notebook().plot(self, metric, split)

    def __len__(self) -> int:
        return len(self.columns["value"])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in zip(*(self.columns[name].tolist() for name in COLUMNS), strict=True):
            yield dict(zip(COLUMNS, row, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scores) and all(
            np.array_equal(self.columns[name], other.columns[name], equal_nan=kind is float)
            for name, kind in COLUMNS.items())

    def __getitem__(self, name: str) -> Values:
        if name not in self.columns:
            raise unknown("column", name, COLUMNS)
        return self.columns[name]

    @property
    def names(self) -> Strs:
        """How each row is shown: by its label, else its method, else its run."""
        labelled = self["label"] != ""
        names: Strs = np.where(labelled, self["label"], self["method"]) if labelled.any() else self["method"]
        nameless = names == ""
        if nameless.any():
            names = np.where(nameless, np.where(self["run"] == "", "model", self["run"]), names)
        return names

    def where(self, **equal: Any) -> "Scores":
        """The rows whose columns have these values: where(split="test", metric="accuracy", stat="mean")."""
        keep: Bools = np.ones(len(self), np.bool_)
        for name, value in equal.items():
            keep &= self[name] == value
        return self.take(keep)

    def take(self, rows: npt.NDArray[Any]) -> "Scores":
        """Some rows, as a mask or as their numbers."""
        return Scores({name: values[rows] for name, values in self.columns.items()})

    def assign(self, **columns: Any) -> "Scores":
        """The same rows with other values in these columns, an array or one value for all rows."""
        for name in columns:
            self[name]  # an unknown name is an error
        return Scores({**self.columns, **{name: np.full(len(self), value) if np.ndim(value) == 0 else value
                                          for name, value in columns.items()}})

    def save(self, path: Path | str) -> Path:
        """Parquet, or CSV where the name ends so."""
        return write_table(path, self.to_arrow())

    def to_arrow(self) -> pa.Table:
        """The columns of the file that `save` writes."""
        table = pa.table({name: pa.array(self.columns[name]) for name in COLUMNS})
        return table.replace_schema_metadata({VERSION_KEY: str(VERSION)})

    @staticmethod
    def from_frame(frame: Any) -> "Scores":
        """From a data frame or a dict of columns, which may lack the columns of DEFAULTS."""
        return Scores.load(frame)

    @staticmethod
    def load(path: Any) -> "Scores":
        """Read a file that `save` wrote, or a table of one's own, which may lack the columns of DEFAULTS."""
        text = [name for name, kind in COLUMNS.items() if kind is str]
        table = read_table(path, [name for name in COLUMNS if name not in DEFAULTS], text=text)
        where = table_name(path)
        _check(where, table)
        for name, value in DEFAULTS.items():
            if name not in table.column_names:
                table = table.append_column(name, pa.array(np.full(len(table), value)))
        read: dict[type, Callable[..., Values]] = {str: strings, int: whole, float: decimal}
        scores = Scores({name: read[kind](where, table, name) for name, kind in COLUMNS.items()})
        for stat in encode(scores["stat"])[1]:
            if stat not in STATS:
                raise unknown("stat", stat, STATS, where)
        return scores


def _check(path: Path | str, table: pa.Table) -> None:
    """Refuse a file of another version. A file of version 1 is read if it has only scores of single runs."""
    version = (table.schema.metadata or {}).get(VERSION_KEY, b"").decode(errors="replace")
    if version not in ("", str(VERSION)):
        raise ShiftBenchError(f"{path}: its scores have format {version}, and this shiftbench reads format {VERSION}. "
                              "Score again.")
    if "stat" not in table.column_names:
        runs, metrics = (encode(strings(path, table, name))[1] for name in ("run", "metric"))
        if any(_OLD_RUN.match(run) for run in runs) or any(_OLD_METRIC.search(metric) for metric in metrics):
            raise ShiftBenchError(f"{path}: an older shiftbench wrote these scores, with means, differences or "
                                  "groupings in their names. Score again.")


def label_of(settings: Mapping[str, Any]) -> str:
    """The name under which a run is shown: its own where it has one, else that of its preset, else of its method.

    >>> label_of({"method": "erm", "preset": "resnet50"}), label_of({"method": "irm"})
    ('resnet50', 'irm')
    """
    return str(settings.get("name") or settings.get("preset") or settings["method"])


def run_id(settings: Mapping[str, Any]) -> str:
    """The id of a run with these settings, all of them.

    A preset counts as the method: presets once were methods, and their runs keep their ids.
    """
    others = {key: value for key, value in settings.items() if key != "preset"}
    return settings_id({**others, "method": str(settings.get("preset") or settings["method"])})


def settings_id(settings: Mapping[str, Any]) -> str:
    """A name for settings: the first 16 hexadecimal digits of the SHA-256 of their canonical JSON."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
