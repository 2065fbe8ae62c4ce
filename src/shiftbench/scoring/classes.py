"""Targets that are classes: accuracy, macro F1 and the loss, of all items, of every group and of the worst."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints, Strs
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import Grouping
from shiftbench.data.scores import ALL
from shiftbench.scoring.estimates import loss, share, worst_loss, worst_share
from shiftbench.scoring.groups import by_grouping
from shiftbench.scoring.kinds import by_kind, kinds_of
from shiftbench.scoring.measured import Measured, corrected
from shiftbench.scoring.metrics import Table, f1_items, has_probabilities, losses


class Split(NamedTuple):
    """A split with its items in the order of their groups: prepared once, it judges any number of runs."""

    name: str
    rows: Ints  # of the benchmark
    order: Ints  # of these rows among the split's
    label: Ints
    groups: tuple[str, ...]
    start: Ints  # the first item of every group
    size: Ints
    by_label: Ints  # the items in the order of their labels
    classes: tuple[str, ...]
    first: Ints  # of them, the first item of every class
    of_class: Ints  # their sizes
    n_classes: int  # of the benchmark
    kind: Strs | None  # hard and easy items, see `kinds`
    groupings: tuple[Grouping, ...]  # of the rows

    @staticmethod
    def of(benchmark: Benchmark, name: str, groupings: Sequence[Grouping]) -> "Split":
        rows, names = benchmark.rows(name), benchmark.names
        order = np.argsort(benchmark.group[rows], kind="stable")
        rows = rows[order]
        label = benchmark.label[rows]
        codes, start, size = np.unique(benchmark.group[rows], return_index=True, return_counts=True)
        by_label = np.argsort(label, kind="stable")
        classes, first, count = np.unique(label[by_label], return_index=True, return_counts=True)
        return Split(name, rows, order, label, tuple(names["group"][code] for code in codes), start, size, by_label,
                     tuple(names["label"][code] for code in classes), first, count, len(names["label"]),
                     kinds_of(benchmark, rows), tuple(one.within(rows) for one in groupings))


def measure_classes(
    split: Split, tables: Sequence[Table], owner: Sequence[int], level: float | None
) -> list[Measured]:
    """Everything that `score` says of a split; `tables` has each run's scores, items × classes, in the split's order.

    Without a level there are no intervals, and no correction of the worst group either.
    """
    label, start, n = split.label, split.start, np.asarray([len(split.rows)])
    predicted = np.stack([table.argmax(axis=1) for table in tables])[:, split.order]
    hits = predicted == label
    worst = worst_share(hits, start, owner, level)
    lowest = Measured("worst_group_accuracy", split.groups, split.size, worst.estimate, worst.items, worst)
    least = worst_share(hits[:, split.by_label], split.first, owner, level)
    f1 = f1_items(label, predicted, split.n_classes)
    measured = [
        Measured("accuracy", [ALL], n, share(hits, owner, level), hits),
        Measured("accuracy", split.groups, split.size, share(hits, owner, level, start), hits, start=start),
        lowest, corrected(lowest),
        Measured("worst_class_accuracy", split.classes, split.of_class, least.estimate, worst=least),
        Measured("macro_f1", [ALL], n, share(f1, owner, level), f1),
    ]
    loss_items = None
    if all(has_probabilities(table) for table in tables):
        as_predicted = np.empty_like(label)
        as_predicted[split.order] = label  # a table of many classes is not copied to sort its rows
        loss_items = np.stack([losses(as_predicted, table)[split.order] for table in tables])
        most = worst_loss(loss_items, start, owner, level)
        measured += [Measured("nll", [ALL], n, loss(loss_items, owner, level)),
                     Measured("nll", split.groups, split.size, loss(loss_items, owner, level, start)),
                     Measured("worst_group_nll", split.groups, split.size, most.estimate, worst=most)]
    if split.kind is not None:
        scores = np.stack([np.asarray(table, np.float32)[split.order].T for table in tables])
        measured += by_kind(split.kind, label, scores, loss_items, owner, level, split.groups)
    return measured + [one for grouping in split.groupings for one in by_grouping(hits, grouping, owner, level)]
