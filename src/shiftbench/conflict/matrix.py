"""The conflict matrix: the subsets on its two sides, how it is measured, what it holds, and its three files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, child, uniform
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import write_json, writing_folder
from shiftbench.core.registry import Lists
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.metagraph.subsets import subset
from shiftbench.scoring.intervals import wilson
from shiftbench.training.run import Run

MARKER = "conflicts.json"
IN, OUT, LEFT_OUT = KINDS = ("in-domain", "out-of-domain", "left out")

HELD_OUT = {IN: ("id_val", "id_test"), OUT: ("val", "test")}
"""Which splits evaluate. Nothing is chosen on a validation split here, so both held-out splits of a kind serve."""


class Side(NamedTuple):
    """Subsets and their items: row `row[i]` of the benchmark belongs to subset `code[i]`, ascending."""

    names: tuple[str, ...]
    label: Strs  # the class of each subset: that of most of its items
    kind: Strs  # in-domain, out-of-domain or left out of training; empty for training
    row: Ints
    code: Ints

    @property
    def sizes(self) -> Ints:
        return np.bincount(self.code, minlength=len(self.names)).astype(np.int64)


def sides(
    benchmark: Benchmark, train_items: int, eval_items: int, seed: int, leave_out: Mapping[str, Ints] | None = None
) -> tuple[Side, Side]:
    """Training subsets and evaluation subsets of a benchmark: its groups, by split.

    In-domain are the held-out items of the training subsets, out-of-domain those of the shifted splits. `leave_out` has
    the rows of training subsets that are left out: none of them is trained on, whatever other subset it is in, and they
    are evaluated by themselves. Larger subsets are cut to the given numbers of items, drawn by the seed: the paper
    trains on 50 of each.
    """
    leave_out = leave_out or {}
    out: Ints = np.unique(np.concatenate([np.zeros(0, np.int64), *leave_out.values()]))
    train = _side(benchmark, ("train",), "", train_items, seed, without=out)
    if len(train.names) < 2:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has {len(train.names)} training subset. Conflicts need at "
                              "least 2: name several contexts per class, as train = [\"cat(sofa + bed)\", ...].")
    parts = [_side(benchmark, HELD_OUT[IN], IN, eval_items, seed, train.names, without=out),
             _side(benchmark, HELD_OUT[OUT], OUT, eval_items, seed)]
    for name, rows in leave_out.items():
        chosen = rows[np.argsort(uniform(seed, "conflicts", rows), kind="stable")][:eval_items or len(rows)]
        label = benchmark.names["label"][int(np.bincount(benchmark.label[chosen]).argmax())]
        code: Ints = np.zeros(len(chosen), np.int64)
        parts.append(Side((name,), np.asarray([label]), np.asarray([LEFT_OUT]), chosen, code))
    offset = np.cumsum([0, *(len(side.names) for side in parts)])
    evaluation = Side(
        names=tuple(name for side in parts for name in side.names),
        label=np.concatenate([side.label for side in parts]),
        kind=np.concatenate([side.kind for side in parts]),
        row=np.concatenate([side.row for side in parts]),
        code=np.concatenate([side.code + first for side, first in zip(parts, offset[:-1], strict=True)]),
    )
    if not evaluation.names:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has only training rows. Conflicts are measured on id_val, "
                              "id_test, val and test.")
    return train, evaluation


def rows_left_out(benchmark: Benchmark, collection: Collection, names: Sequence[str]) -> dict[str, Ints]:
    """The rows of each training subset, in training or held out in domain, that carry its tags.

    Those of the group alone would not be all: an item of two subsets is in the group of one of them.
    """
    names_of = np.asarray(benchmark.names["group"], np.str_)
    rows = np.flatnonzero(np.isin(benchmark.split, ("train", *HELD_OUT[IN])))
    every = sorted(set(names_of[benchmark.group[rows]].tolist()))
    left_out: dict[str, Ints] = {}
    for name in names:
        if name not in every:
            raise unknown("training subset", name, every, "leave_out")
        members = names_of[benchmark.group[rows]] == name
        if "(" in name:
            members |= np.isin(benchmark.items[rows], collection.items[subset(collection, name)])
        left_out[name] = np.setdiff1d(rows[members], np.concatenate([np.zeros(0, np.int64), *left_out.values()]))
    return left_out


def _side(
    benchmark: Benchmark, splits: tuple[str, ...], kind: str, most: int, seed: int, only: tuple[str, ...] = (),
    without: Ints | None = None,
) -> Side:
    rows = np.flatnonzero(np.isin(benchmark.split, splits))
    rows = rows if without is None else np.setdiff1d(rows, without)
    names = np.asarray(benchmark.names["group"], np.str_)
    if only:
        rows = rows[np.isin(names[benchmark.group[rows]], only)]
    # Each row draws its own place in the queue: a larger cap keeps the items of a smaller one.
    rows = rows[np.lexsort((uniform(seed, "conflicts", rows), benchmark.group[rows]))]
    groups, start, code = np.unique(benchmark.group[rows], return_index=True, return_inverse=True)
    within: Bools = np.arange(len(rows)) - start[code] < (most or len(rows))
    rows, code = rows[within], code[within].astype(np.int64)
    labels = np.asarray(benchmark.names["label"], np.str_)
    counts = np.zeros((len(groups), len(labels)), np.int64)
    np.add.at(counts, (code, benchmark.label[rows]), 1)
    return Side(tuple(names[groups].tolist()), labels[counts.argmax(axis=1)], np.full(len(groups), kind, "U13"), rows,
                code)


MAKEUPS = ("varied", "plain")


@dataclass(frozen=True)
class Settings(Lists):
    """A net, its steps, and how often it is trained from a new start.

    Steps are plain gradient descent, θ ← θ − lr ∇L: then a step is a sum over the items of its batch, which is what the
    regression takes it for. Momentum or Adam would also move along the batches before and blame the present one.

    The first steps are not counted: all items of a class move an untrained net in the same way. Subsets differ only
    later.
    """

    model: str = "mlp"
    features: str = ""  # what a head works on, BACKBONE@SIZE; empty for a net that takes images
    weights: str = "none"  # start of a net that takes images: none, imagenet or a file
    size: int = 0  # images are resized to this; 0: as they are
    steps: int = 300
    skip: float = 1 / 3  # part of the steps, at the start, that is trained but not counted; the paper: 0
    batch_size: int = 64
    lr: float = 0.0  # 0: 0.01 on features, 0.02 on images
    makeup: str = "varied"  # varied: few subsets fill most of a batch; plain: items at random, as in the paper
    repeats: int = 8
    train_items: int = 50  # most items of a training subset; 0: all
    eval_items: int = 50  # most items of an evaluation subset; 0: all
    leave_out: tuple[str, ...] = ()  # training subsets to evaluate on instead: are they too easy to contribute?
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.makeup not in MAKEUPS:
            raise unknown("make-up", self.makeup, MAKEUPS, "conflicts")
        for name, least in (("repeats", 1), ("train_items", 0), ("eval_items", 0)):
            if getattr(self, name) < least:
                raise ShiftBenchError(f"conflicts: '{name}' is {getattr(self, name)}, but must be at least {least}.")
        if not 0 <= self.skip < 1:
            raise ShiftBenchError(f"conflicts: 'skip' is {self.skip}, but must be a share of the steps, from 0 to less "
                                  "than 1.")
        object.__setattr__(self, "lr", float(self.lr) or (0.01 if self.features else 0.02))

    @property
    def skipped(self) -> int:
        return int(self.skip * self.steps)

    def run(self, benchmark: str, repeat: int) -> Run:
        """One repeat as a Run, which checks the other settings; each has its own start and batches."""
        seed = int(child(self.seed, "repeat", str(repeat)).integers(2**31))
        return Run(benchmark, model=self.model, features=self.features, weights=self.weights, size=self.size,
                   steps=self.steps, batch_size=self.batch_size, optimizer="sgd", momentum=0.0, lr=self.lr,
                   select_on="last", seed=seed)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


LITTLE = 2 / 3
"""A training subset contributes little when its contribution is surely less than this part of the median one's."""


class Axis(NamedTuple):
    """The subsets along one side of the matrix, in the order in which they are shown."""

    names: tuple[str, ...]
    label: Strs
    kind: Strs
    items: Ints

    @staticmethod
    def of(side: Side, order: Ints) -> "Axis":
        return Axis(tuple(side.names[number] for number in order), side.label[order], side.kind[order],
                    side.sizes[order])


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
        pairs = zip(self.evaluation.names, self.evaluation.kind, strict=True)
        j = next(number for number, (name, of) in enumerate(pairs) if name == evaluation and kind in ("", of))
        return self._cell(i, j)

    def strongest(self, most: int = 10) -> list[dict[str, Any]]:
        """The most negative cells among those whose interval lies below 0."""
        rows, columns = np.nonzero(self.effect.high < 0)
        ranked = np.argsort(self.effect.value[rows, columns], kind="stable")[:most]
        return [self._cell(int(rows[cell]), int(columns[cell])) for cell in ranked]

    @property
    def little(self) -> tuple[str, ...]:
        """Training subsets that do little to the others: their interval ends below LITTLE. The least first."""
        low = np.flatnonzero(self.contribution.high < LITTLE)
        return tuple(self.train.names[number] for number in low[np.argsort(self.contribution.value[low])])

    @property
    def left_out(self) -> list[dict[str, Any]]:
        """Accuracy on each training subset that was left out of training, with a 95 % interval over its items."""
        return [{"name": name, "items": int(items), "accuracy": float(share),
                 **{bound: float(value) for bound, value in zip(("low", "high"), wilson(share, items), strict=True)}}
                for name, kind, items, share in zip(self.evaluation.names, self.evaluation.kind, self.evaluation.items,
                                                    self.accuracy, strict=True) if kind == LEFT_OUT]

    def table(self) -> pa.Table:
        """One row per cell, in the order of the heatmap."""
        n, k = self.effect.value.shape
        i, j = np.repeat(np.arange(n), k), np.tile(np.arange(k), n)
        return pa.table({
            "train": np.asarray(self.train.names)[i], "evaluation": np.asarray(self.evaluation.names)[j],
            "kind": self.evaluation.kind[j], "train_class": self.train.label[i],
            "evaluation_class": self.evaluation.label[j], "items": self.evaluation.items[j],
            **{name: values.ravel() for name, values in self.effect._asdict().items()},
        })

    def to_json(self) -> dict[str, Any]:
        in_domain = {name: float(accuracy) for name, kind, accuracy in
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
            "left_out": self.left_out,
            "classes": self._classes(),
            "subsets": [
                {"name": name, "class": str(label), "items": int(items), "contribution": float(value),
                 "low": float(low), "high": float(high), "accuracy": in_domain.get(name)}
                for name, label, items, value, low, high in zip(
                    self.train.names, self.train.label, self.train.items, *self.contribution, strict=True)],
            "order": {"train": list(self.train.names),
                      **{kind: [name for name, of in zip(self.evaluation.names, self.evaluation.kind, strict=True)
                                if of == kind] for kind in KINDS}},
        }

    def save(self, folder: Path | str) -> Path:
        """Write matrix.parquet, heatmap.png and conflicts.json; an older result there is replaced in one step."""
        from shiftbench.conflict.heatmap import draw

        with writing_folder(folder, MARKER) as staging:
            write_table(staging / "matrix.parquet", self.table())
            draw(self, staging / "heatmap.png")
            write_json(staging / MARKER, self.to_json())
        return Path(folder)

    def _cell(self, i: int, j: int) -> dict[str, Any]:
        return {"train": self.train.names[i], "evaluation": self.evaluation.names[j],
                "kind": str(self.evaluation.kind[j]), **{name: float(values[i, j]) for name, values
                                                         in self.effect._asdict().items()}}

    def _classes(self) -> list[dict[str, Any]]:
        """The mean effect of one class on another: what a cell is to be read against."""
        train, evaluation, kinds = self.train.label, self.evaluation.label, self.evaluation.kind
        return [{"train": trained, "evaluation": evaluated, "kind": kind,
                 "value": float(self.effect.value[np.ix_(train == trained, columns)].mean())}
                for kind in KINDS for trained in np.unique(train).tolist()
                for evaluated in np.unique(evaluation).tolist()
                if (columns := (evaluation == evaluated) & (kinds == kind)).any()]
