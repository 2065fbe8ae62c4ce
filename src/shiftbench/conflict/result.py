"""The conflict matrix: what it holds, what is said about it, and the three files it is written to."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shiftbench.conflict.matrix_sides import IN, OUT, Settings, Side
from shiftbench.core.arrays import Floats, Ints, Strs
from shiftbench.core.files import write_json, write_table, writing_folder

MARKER = "conflicts.json"
LITTLE = 2 / 3
"""A training subset contributes little when its contribution is surely less than this part of the median one's."""


class Axis(NamedTuple):
    """The subsets along one side of the matrix, in the order in which they are shown."""

    names: tuple[str, ...]
    label: Strs
    kind: Strs
    items: Ints

    @staticmethod
    def of(side: Side, places: Ints) -> "Axis":
        return Axis(tuple(side.names[place] for place in places), side.label[places], side.kind[places],
                    side.sizes[places])


class Measured(NamedTuple):
    """Numbers with their intervals."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Conflicts:
    """What a step on each training subset does to the loss of each evaluation subset.

    `effect.value[i, j]` lies in [−1, 1]: positive where training on subset i lowers the loss on subset j, negative
    where the two conflict. Times `unit` it is the drop of the loss at one step on a batch of subset i alone. `low` and
    `high` bound a 95 % interval in the same unit, so those of the largest cells may lie beyond ±1.
    """

    benchmark: str
    digest: str
    settings: Settings
    train: Axis
    evaluation: Axis
    effect: Measured
    unit: float
    contribution: Measured  # of each training subset to the others, as a multiple of the median one's
    accuracy: Floats  # of each evaluation subset at the end, mean over repeats
    resampled: str
    units: int

    def at(self, train: str, evaluation: str, kind: str = "") -> dict[str, Any]:
        """One cell; without a kind, the in-domain one where there are two."""
        i = self.train.names.index(train)
        j = next(place for place, (name, of) in enumerate(zip(self.evaluation.names, self.evaluation.kind, strict=True))
                 if name == evaluation and kind in ("", of))
        return self._cell(i, j)

    def strongest(self, most: int = 10) -> list[dict[str, Any]]:
        """The most negative cells among those whose interval lies below 0."""
        rows, columns = np.nonzero(self.effect.high < 0)
        ranked = np.argsort(self.effect.value[rows, columns], kind="stable")[:most]
        return [self._cell(int(rows[place]), int(columns[place])) for place in ranked]

    @property
    def little(self) -> tuple[str, ...]:
        """Training subsets that do little to the others: their interval ends below LITTLE. The least first."""
        places = np.flatnonzero(self.contribution.high < LITTLE)
        return tuple(self.train.names[place] for place in places[np.argsort(self.contribution.value[places])])

    def table(self) -> pa.Table:
        """One row per cell, in the order of the heatmap."""
        n, k = self.effect.value.shape
        i, j = np.repeat(np.arange(n), k), np.tile(np.arange(k), n)
        return pa.table({
            "train": np.asarray(self.train.names)[i], "evaluation": np.asarray(self.evaluation.names)[j],
            "kind": self.evaluation.kind[j], "train_class": self.train.label[i],
            "evaluation_class": self.evaluation.label[j], "items": self.evaluation.items[j],
            **{name: part.ravel() for name, part in self.effect._asdict().items()},
        })

    def to_json(self) -> dict[str, Any]:
        at_home = {name: float(right) for name, kind, right in
                   zip(self.evaluation.names, self.evaluation.kind, self.accuracy, strict=True) if kind == IN}
        certain = (self.effect.high < 0) | (self.effect.low > 0)
        return {
            "format": "shiftbench conflicts", "version": 1,
            "benchmark": {"name": self.benchmark, "digest": self.digest},
            "settings": self.settings.to_json(),
            "unit": self.unit, "resampled": f"{self.units} {self.resampled}",
            "cells": {"all": int(certain.size), "helping": int((self.effect.low > 0).sum()),
                      "conflicting": int((self.effect.high < 0).sum()), "undecided": int((~certain).sum())},
            "conflicts": self.strongest(),
            "low_contribution": list(self.little),
            "classes": self._classes(),
            "subsets": [
                {"name": name, "class": str(label), "items": int(items), "contribution": float(value),
                 "low": float(low), "high": float(high), "accuracy": at_home.get(name)}
                for name, label, items, value, low, high in zip(
                    self.train.names, self.train.label, self.train.items, *self.contribution, strict=True)],
            "order": {"train": list(self.train.names),
                      **{kind: [name for name, of in zip(self.evaluation.names, self.evaluation.kind, strict=True)
                                if of == kind] for kind in (IN, OUT)}},
        }

    def save(self, folder: Path | str) -> Path:
        """Write matrix.parquet, heatmap.png and conflicts.json; an older result there is replaced in one step."""
        from shiftbench.conflict.heatmap import draw

        with writing_folder(folder, MARKER) as place:
            write_table(place / "matrix.parquet", self.table())
            draw(self, place / "heatmap.png")
            write_json(place / MARKER, self.to_json())
        return Path(folder)

    def _cell(self, i: int, j: int) -> dict[str, Any]:
        return {"train": self.train.names[i], "evaluation": self.evaluation.names[j],
                "kind": str(self.evaluation.kind[j]), **{name: float(part[i, j]) for name, part
                                                         in self.effect._asdict().items()}}

    def _classes(self) -> list[dict[str, Any]]:
        """The mean effect of one class on another: what a cell is to be read against."""
        train, evaluation, kinds = self.train.label, self.evaluation.label, self.evaluation.kind
        return [{"train": one, "evaluation": other, "kind": kind,
                 "value": float(self.effect.value[np.ix_(train == one, columns)].mean())}
                for kind in (IN, OUT) for one in np.unique(train).tolist() for other in np.unique(evaluation).tolist()
                if (columns := (evaluation == other) & (kinds == kind)).any()]
