"""The two sides of the matrix: the subsets trained on, and those evaluated in and out of domain."""

from typing import NamedTuple

import numpy as np

from shiftbench.arrays import Bools, Ints, Strs
from shiftbench.benchmark import Benchmark
from shiftbench.errors import ShiftBenchError
from shiftbench.rng import uniform

IN, OUT = "in-domain", "out-of-domain"

HELD_OUT = {IN: ("id_val", "id_test"), OUT: ("val", "test")}
"""Which splits evaluate. Nothing is chosen on a validation split here, so both held-out splits of a kind serve."""


class Side(NamedTuple):
    """Subsets and their items: row `row[i]` of the benchmark belongs to subset `code[i]`, ascending."""

    names: tuple[str, ...]
    label: Strs  # the class of each subset: that of most of its items
    kind: Strs  # in-domain or out-of-domain; empty for training
    row: Ints
    code: Ints

    @property
    def sizes(self) -> Ints:
        return np.bincount(self.code, minlength=len(self.names)).astype(np.int64)


def sides(benchmark: Benchmark, train_items: int, eval_items: int, seed: int) -> tuple[Side, Side]:
    """Training subsets and evaluation subsets of a benchmark: its groups, by split.

    In-domain are the held-out items of the training subsets, out-of-domain those of the shifted splits. Larger subsets
    are cut to the given numbers of items, drawn by the seed: the paper trains on 50 of each.
    """
    train = _side(benchmark, ("train",), "", train_items, seed)
    if len(train.names) < 2:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has {len(train.names)} training subset. Conflicts need at "
                              "least 2: name several contexts per class, as train = [\"cat(sofa + bed)\", ...].")
    parts = [_side(benchmark, splits, kind, eval_items, seed, train.names if kind == IN else ())
             for kind, splits in HELD_OUT.items()]
    offset = len(parts[0].names)
    evaluation = Side(
        names=parts[0].names + parts[1].names,
        label=np.concatenate([part.label for part in parts]),
        kind=np.concatenate([part.kind for part in parts]),
        row=np.concatenate([part.row for part in parts]),
        code=np.concatenate([parts[0].code, parts[1].code + offset]),
    )
    if not evaluation.names:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has only training rows. Conflicts are measured on id_val, "
                              "id_test, val and test.")
    return train, evaluation


def _side(
    benchmark: Benchmark, splits: tuple[str, ...], kind: str, most: int, seed: int, only: tuple[str, ...] = ()
) -> Side:
    rows = np.flatnonzero(np.isin(benchmark.split, splits))
    names = np.asarray(benchmark.names["group"], np.str_)
    if only:
        rows = rows[np.isin(names[benchmark.group[rows]], only)]
    # A row's place in the queue is a number of its own: a larger cap keeps the items of a smaller one.
    rows = rows[np.lexsort((uniform(seed, "conflicts", rows), benchmark.group[rows]))]
    groups, start, code = np.unique(benchmark.group[rows], return_index=True, return_inverse=True)
    kept: Bools = np.arange(len(rows)) - start[code] < (most or len(rows))
    rows, code = rows[kept], code[kept].astype(np.int64)
    words = np.asarray(benchmark.names["label"], np.str_)
    counts = np.zeros((len(groups), len(words)), np.int64)
    np.add.at(counts, (code, benchmark.label[rows]), 1)
    return Side(tuple(names[groups].tolist()), words[counts.argmax(axis=1)], np.full(len(groups), kind, "U13"), rows,
                code)
