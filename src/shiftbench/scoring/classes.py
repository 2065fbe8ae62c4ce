"""Scores of classification: accuracy, macro F1 and loss, over all items, in every group and in the worst group.

By any other grouping, with groups g of n_g items, a_g the accuracy of each and G groups that have items:

    accuracy of g                a_g, Wilson's interval
    worst_group_accuracy         min_g a_g
    mean_group_accuracy          Σ_g a_g / G: every group weighs the same (GlobalWheat's sessions)
    tenth_percentile_accuracy    of the a_g, linear between neighbours (Amazon's users)

The interval of the worst is `estimates.worst_share`'s, that of the mean is about other items of the same groups. That
of the percentile is about other groups like these, each of as many items: the order statistics between which the true
one lies, B ~ Binomial(G, 0.1), whatever the law of the a_g. Of fewer than 36 groups none bounds it from below at 95 %,
and the lower end is 0.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import Grouping
from shiftbench.data.scores import ALL
from shiftbench.scoring.estimates import (
    Estimate,
    Measured,
    bare,
    corrected,
    loss,
    share,
    worst_loss,
    worst_share,
)
from shiftbench.scoring.hard_items import COLUMN, by_kind, kinds_of
from shiftbench.scoring.intervals import over_runs
from shiftbench.scoring.metrics.classification import Table, f1_items, has_probabilities, losses
from shiftbench.scoring.metrics.groups import mean_over_groups

Q = 0.1
COMPARED = 1000
"""The most groups in which methods are compared one by one; with more, nobody reads the comparisons and none is
significant."""


class Split(NamedTuple):
    """A split with its items ordered by group. It is prepared once and scores any number of runs."""

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
                     kinds_of(benchmark, rows) if COLUMN in benchmark.extra else None,
                     tuple(one.within(rows) for one in groupings))


def measure_classes(
    split: Split, tables: Sequence[Table] | Table, owner: Sequence[int], level: float | None
) -> list[Measured]:
    """All that `score` measures on a split; `tables` holds each run's scores, items × classes, in the split's order.

    Without a level there are no intervals, and no correction of the worst group either.
    """
    label, start, n = split.label, split.start, np.asarray([len(split.rows)])
    predicted = _each(lambda scores: scores.argmax(axis=-1), tables)[:, split.order]
    hits = predicted == label
    worst = worst_share(hits, start, owner, level)
    worst_class = worst_share(hits[:, split.by_label], split.first, owner, level)
    lowest = Measured("worst_group_accuracy", split.groups, split.size, worst.estimate, worst=worst, compared=True)
    f1 = f1_items(label, predicted, split.n_classes)
    measured = [
        Measured("accuracy", [ALL], n, share(hits, owner, level), hits),
        Measured("accuracy", split.groups, split.size, share(hits, owner, level, start), hits, start=start),
        lowest, corrected(lowest),
        Measured("worst_class_accuracy", split.classes, split.of_class, worst_class.estimate, worst=worst_class),
        Measured("macro_f1", [ALL], n, share(f1, owner, level), f1),
    ]
    loss_items = None
    if all(has_probabilities(scores) for scores in ([tables] if isinstance(tables, np.ndarray) else tables)):
        as_predicted = np.empty_like(label)
        as_predicted[split.order] = label  # a table of many classes is not copied to sort its rows
        loss_items = _each(lambda scores: losses(as_predicted, scores), tables)[:, split.order]
        highest = worst_loss(loss_items, start, owner, level)
        measured += [Measured("nll", [ALL], n, loss(loss_items, owner, level)),
                     Measured("nll", split.groups, split.size, loss(loss_items, owner, level, start)),
                     Measured("worst_group_nll", split.groups, split.size, highest.estimate, worst=highest)]
    if split.kind is not None:
        scores = _each(lambda table: np.asarray(table[:, split.order].transpose(0, 2, 1), np.float32), tables)
        measured += by_kind(split.kind, label, scores, loss_items, owner, level, split.groups)
    return measured + [one for grouping in split.groupings for one in by_grouping(hits, grouping, owner, level)]


def _each(function: Callable[[Table], Any], tables: Sequence[Table] | Table) -> Any:
    """Apply a function to scores, runs × items × classes: to all runs at once, or run by run if they are in a list."""
    if isinstance(tables, np.ndarray):
        return function(tables)
    return np.concatenate([function(table[None]) for table in tables])


def by_grouping(hits: Bools, grouping: Grouping, owner: Sequence[int], level: float | None) -> list[Measured]:
    """Every score over the grouping of a split's items; `hits` is runs × items, `owner[r]` the method of run r.

    The list is empty if no item is in a group. If groups overlap, the worst group is not corrected, see `worst_share`.
    """
    if not grouping.names:
        return []
    size, times, n = grouping.size, grouping.times, hits.shape[1]
    disjoint = int(times.max()) == 1
    each = share(hits[:, grouping.rows], owner, level, grouping.start)
    worst = worst_share(hits, grouping.start, owner, level, grouping.rows)
    items = contributions(hits, grouping, each.runs, times)
    n_inside = np.asarray([items.shape[1]])
    many = len(grouping.names) > COMPARED
    names = grouping.names
    measured = [Measured("accuracy", names, size, each, None if many else hits[:, grouping.rows],
                         start=None if many else grouping.start),
                Measured("worst_group_accuracy", names, size, worst.estimate, worst=worst, of=n, compared=True)]
    if disjoint:
        measured.append(corrected(measured[-1]))
    measured += [Measured("mean_group_accuracy", [ALL], n_inside, share(items, owner, level), items, of=n),
                 Measured("tenth_percentile_accuracy", [ALL], n_inside, percentile(each.runs, owner, level))]
    return [one._replace(by=grouping.said) for one in measured]


def contributions(hits: Bools, grouping: Grouping, accuracy: Floats, times: Ints) -> Floats:
    """What each item that is in a group adds to the mean over groups: its mean is that mean, its spread its error.

        c_i = A + N / G Σ_{g ∋ i} (h_i − a_g) / n_g √(n_g / (n_g − 1)),    A = Σ_g a_g / G, N items in groups.
    """
    inside = np.flatnonzero(times)
    position = np.cumsum(times > 0)[grouping.rows] - 1
    size = grouping.size
    weight = np.repeat(np.sqrt(size / np.maximum(size - 1, 1)) / size, size)
    spread = (hits[:, grouping.rows] - np.repeat(accuracy, size, axis=1)) * weight
    moved = np.zeros((len(hits), len(inside)))
    if len(inside) == len(position):
        moved[:, position] = spread
    else:
        for run, values in enumerate(spread):
            moved[run] = np.bincount(position, values, len(inside))
    mean = np.asarray([mean_over_groups(values) for values in accuracy])
    return np.asarray(mean[:, None] + moved * (len(inside) / len(size)))


def percentile(accuracy: Floats, owner: Sequence[int], level: float | None) -> Estimate:
    """The tenth percentile over groups of each run, runs × groups in, and the order statistics around it."""
    many = accuracy.shape[1]
    ordered = np.sort(accuracy, axis=1)
    runs = np.percentile(ordered, 100 * Q, axis=1)[:, None]
    if level is None:
        return bare(runs, owner)
    from scipy.special import bdtr

    below = bdtr(np.arange(many + 1), many, Q)  # P(B ≤ k)
    under = int((below <= (1 - level) / 2).sum()) - 1
    over = int((below < (1 + level) / 2).sum())
    low = ordered[:, under:under + 1] if under >= 0 else np.zeros_like(runs)
    high = ordered[:, over:over + 1] if over < many else np.ones_like(runs)
    value, least, most = (over_runs(end, owner) for end in (runs, low, high))
    return Estimate(runs, value, value, np.maximum(value - least, 0), np.maximum(most - value, 0),
                    np.zeros_like(value))
