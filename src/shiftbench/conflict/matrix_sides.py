"""The two sides of the matrix: the subsets trained on, and those evaluated in and out of domain."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Ints, Strs
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.rng import child, uniform
from shiftbench.data.benchmark import Benchmark
from shiftbench.training.run import Run

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


# What decides a conflict matrix, besides the benchmark.

MAKEUPS = ("varied", "plain")


@dataclass(frozen=True)
class Settings:
    """A net, its steps, and how often it is trained from a new start.

    Steps are plain gradient descent, θ ← θ − lr ∇L: then a step is a sum over the items of its batch, which is what the
    regression takes it for. Momentum or Adam would also move along the batches before and blame the present one.

    The first steps are not counted: a net that knows nothing yet is pulled the same way by all items of a class. Which
    subsets differ shows later.
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
    seed: int = 0

    def __post_init__(self) -> None:
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
        """One repeat in the words of training, which checks the rest; each has a start and batches of its own."""
        seed = int(child(self.seed, "repeat", str(repeat)).integers(2**31))
        return Run(benchmark, model=self.model, features=self.features, weights=self.weights, size=self.size,
                   steps=self.steps, batch_size=self.batch_size, optimizer="sgd", momentum=0.0, lr=self.lr,
                   select_on="last", seed=seed)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
