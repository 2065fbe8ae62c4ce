"""The scores of many runs on one benchmark at once: the rows of `judge.score`, in a small part of its time.

An interval of a single run is a function of its own items. So the items of all runs are laid one after the other and
every run, or every group of a run, is a group of that one long run: one call of `estimates` for what took thousands.
Only the worst group has a law that is costly to invert; runs that are right equally often in every group share it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs
from shiftbench.data.scores import ALL
from shiftbench.scoring.classes import Split
from shiftbench.scoring.estimates import Estimate, loss, share
from shiftbench.scoring.groups import by_grouping
from shiftbench.scoring.intervals import LEVEL, Lowest, lowest, lowest_mean
from shiftbench.scoring.intervals import means as take_apart
from shiftbench.scoring.kinds import by_kind
from shiftbench.scoring.measured import CORRECTED, Measured
from shiftbench.scoring.metrics import f1_items
from shiftbench.scoring.rows import GAP

ONE = [0]
"""The owner of the one long run."""


class Cell(NamedTuple):
    """What a score is of. Where `group` is empty it is each run's own worst, and n that one's: see `Batch.worst`."""

    split: str
    group: str
    n: int
    metric: str


class Batch(NamedTuple):
    """Scores of several runs, cells × runs; `worst[cell]` has the names and numbers of items of each run's worst."""

    cells: list[Cell]
    value: Floats
    low: Floats
    high: Floats
    worst: dict[int, tuple[Strs, Ints]]


def score_batch(splits: Sequence[Split], scores: npt.NDArray[np.float32], place: Ints, level: float | None) -> Batch:
    """The scores of runs that predict the same items: `scores[r, c, place[i]]` is of run r, class c and row i.

    Every score is finite. Without a level there are no intervals.
    """
    sheet = _Sheet(len(scores), level)
    with np.errstate(invalid="ignore"):  # ends that are not known
        average = {split.name: sheet.one_split(split, scores[:, :, place[split.rows]]) for split in splits}
        if "id_test" in average and "test" in average:
            n = next(len(split.rows) for split in splits if split.name == "test")
            sheet.add(GAP, [ALL], [n], "accuracy_gap", average["id_test"] - average["test"])
    return sheet.batch()


class _Sheet:
    """The cells of a batch as they are found."""

    def __init__(self, runs: int, level: float | None) -> None:
        self.runs, self.level = runs, level
        self.cells: list[Cell] = []
        self.found: list[tuple[Floats, Floats, Floats]] = []
        self.worst: dict[int, tuple[Strs, Ints]] = {}

    def batch(self) -> Batch:
        value, low, high = (np.concatenate(field) for field in zip(*self.found, strict=True))
        return Batch(self.cells, value, low, high, self.worst)

    def one_split(self, split: Split, scores: npt.NDArray[np.float32]) -> Estimate:
        """Add the scores of a split; gives the average accuracy. As `judge` does it, and in its order."""
        name, n, level = split.name, len(split.rows), self.level or LEVEL
        predicted = scores.argmax(axis=1)
        hits = predicted == split.label
        whole = np.arange(self.runs) * n
        each = (whole[:, None] + split.start).ravel()

        average = share(hits.reshape(1, -1), ONE, level, whole)
        self.add(name, [ALL], [n], "accuracy", average)
        self.add(name, split.groups, split.size, "accuracy", share(hits.reshape(1, -1), ONE, level, each))
        worst, which = _worst_share(hits, split.start, split.size, level)
        self.add_worst(name, split.groups, split.size, "worst_group_accuracy", worst, which)
        self.add_worst(name, split.groups, split.size, "worst_group_accuracy" + CORRECTED,
                       worst._replace(value=worst.centre), which)
        self.add_worst(name, split.classes, split.of_class, "worst_class_accuracy", *_worst_share(
            hits[:, split.by_label], split.first, split.of_class, level))
        f1 = f1_items(split.label, predicted, split.n_classes)
        self.add(name, [ALL], [n], "macro_f1", share(f1.reshape(1, -1), ONE, level, whole))
        losses = None
        if split.n_classes > 1:
            losses = _losses(split.label, scores)
            self.add(name, [ALL], [n], "nll", loss(losses.reshape(1, -1), ONE, level, whole))
            self.add(name, split.groups, split.size, "nll", loss(losses.reshape(1, -1), ONE, level, each))
            self.add_worst(name, split.groups, split.size, "worst_group_nll", *_worst_loss(losses, split, level))
        owner = range(self.runs)  # here every run is a method of its own
        if split.kind is not None:
            self.add_measured(name, by_kind(split.kind, split.label, scores, losses, owner, self.level, split.groups))
        for grouping in split.groupings:
            self.add_measured(name, by_grouping(hits, grouping, owner, self.level))
        return average

    def add_measured(self, split: str, measured: Sequence[Measured]) -> None:
        for one in measured:
            cells = list(zip(one.groups, one.n.tolist(), strict=True))
            if one.worst is not None:
                self.worst[len(self.cells)] = np.asarray(one.groups)[one.worst.code], one.worst.n
                cells = [("", 0)]
            self.cells += [Cell(split, group, n, one.metric) for group, n in cells]
            value, low = one.estimate.value, np.full_like(one.estimate.value, np.nan)
            low, high = one.estimate.ends(range(self.runs), self.level) if self.level else (low, low)
            self.found.append((value.T, low.T, high.T))

    def add(
        self, split: str, groups: Sequence[str] | Strs, n: Sequence[int] | Ints, metric: str, found: Estimate
    ) -> None:
        """One cell per group; the estimate is of the one long run, 1 × (runs × groups)."""
        self.cells += [Cell(split, str(group), int(size), metric) for group, size in zip(groups, n, strict=True)]
        low, high = found.ends(ONE, self.level) if self.level else (np.full_like(found.value, np.nan),) * 2
        value, low, high = (part.reshape(self.runs, -1).T for part in (found.value, low, high))
        self.found.append((value, low, high))

    def add_worst(
        self, split: str, groups: Sequence[str], size: Ints, metric: str, found: Estimate, which: Ints
    ) -> None:
        self.worst[len(self.cells)] = np.asarray(groups)[which], size[which]
        self.add(split, [""], [0], metric, found)


def _worst_share(hits: Bools, start: Ints, size: Ints, level: float) -> tuple[Estimate, Ints]:
    """The lowest accuracy over groups, and which it is; see `estimates.worst_share`."""
    right = np.add.reduceat(hits, start, axis=1, dtype=np.int64)
    some, same = np.unique(right, axis=0, return_inverse=True)
    rate = right / size
    ends = Lowest(*(end[same] for end in lowest(some, size, level)))
    return _between(rate.min(axis=1), ends, 1.0), rate.argmin(axis=1)


def _worst_loss(losses: Floats, split: Split, level: float) -> tuple[Estimate, Ints]:
    """The highest mean loss over groups, and which it is; see `estimates.worst_loss`."""
    each = (np.arange(len(losses))[:, None] * losses.shape[1] + split.start).ravel()
    found = take_apart(losses.reshape(1, -1), ONE, each)
    value, items = found.value.reshape(len(losses), -1), found.items.reshape(len(losses), -1)
    if split.size.min() > 1:
        ends = lowest_mean(-value, np.sqrt(items * split.size / (split.size - 1)), level, freedom=split.size - 1)
        ends = Lowest(-ends.high, -ends.middle, -ends.low)
    else:
        ends = Lowest(*(np.full(len(losses), np.nan),) * 3)
    return _between(value.max(axis=1), ends, np.inf), value.argmax(axis=1)


def _between(value: Floats, ends: Lowest, most: float) -> Estimate:
    low, middle, high = (end[None] for end in ends)
    return Estimate(value[None], value[None], middle, middle - low, high - middle, np.zeros((1, len(value))), 0.0, most)


def _losses(label: Ints, scores: npt.NDArray[np.float32]) -> Floats:
    """`metrics.losses` of every run, runs × items; `scores` is runs × classes × items."""
    shifted = np.asarray(scores - scores.max(axis=1, keepdims=True), np.float64)
    total = np.log(np.exp(shifted).sum(axis=1))
    return np.asarray(total - np.take_along_axis(shifted, label[None, None], axis=1)[:, 0])
