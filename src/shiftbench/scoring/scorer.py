"""The scorer measures predictions on a split. Every score of a run is computed here.

`score` reports the scores with intervals, for one run or thousands at once; training uses them without intervals, at
every evaluation, to choose a checkpoint. `scorer` picks the measurements of a benchmark's target:

    classes     accuracy, macro F1 and loss, over all items, in every group and in the worst group; also by any grouping
    numbers     r and squared error (PovertyMap)          tasks     mean average precision (OGB-MolPCBA)
    boxes       detection accuracy (GlobalWheat)          tokens    accuracy of the next token (Py150)

Each is a table of contributions, runs × items, whose mean over items is the metric (`intervals`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import Grouping
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL
from shiftbench.data.target import BOXES, TOKEN_KINDS, TOKENS, Boxes
from shiftbench.scoring.beyond_classes import (
    HEADLINE,
    KINDS,
    Places,
    box_lists,
    detection_accuracy,
    domain_items,
    precision_items,
    r_items,
    ratio_items,
)
from shiftbench.scoring.hard_items import COLUMN, by_kind, kinds_of
from shiftbench.scoring.intervals import (
    REPLICATES,
    Estimate,
    Measured,
    bootstrap,
    corrected,
    estimate,
    interval,
    over_runs,
    without_interval,
)
from shiftbench.scoring.metrics import METRICS, WORST, Metric, Table, f1_items, has_probabilities, losses, own_metrics
from shiftbench.scoring.worst import worst_by, worst_loss, worst_share

Reals = npt.NDArray[np.floating]
Outputs = Reals | Answers
"""A model's outputs for a split's items, in their order: scores, items × outputs, or a list per item."""
Scorer = Callable[[Sequence[Outputs] | Reals, Sequence[int], float | None], list[Measured]]
"""The outputs of each run (also as one array, runs × items × outputs), the method of each run, and the level of
intervals; without a level there are none."""


class Further(NamedTuple):
    """Metrics that are scored besides those of the target, and the replicates and seed of their bootstrap."""

    metrics: Sequence[Metric]
    replicates: int = REPLICATES
    seed: int = 0


def scorer(
    benchmark: Benchmark, split: str, groupings: Sequence[Grouping] = (), further: Further | None = None
) -> Scorer:
    """The scorer of a split. It prepares the truth once and then scores any number of runs.

    `groupings` are scored besides the benchmark's groups, if the target is a class. `further` are metrics besides the
    target's; by default those that the user has registered.
    """
    target, extra = benchmark.target, benchmark.extra
    part = Part.of(benchmark, split)
    truth: Values = benchmark.label[part.rows]
    if target.has_classes:
        measure: Scorer = partial(measure_classes, Split.of(benchmark, split, groupings))
    elif target.one_per_column:
        truth = numbers = target.numbers(extra, part.rows)
        measure = partial(measure_numbers if target.in_units else measure_tasks, part, numbers)
    elif target.detects:
        measure = partial(measure_boxes, part, box_lists(extra[BOXES][part.rows]))
    else:
        kinds = extra[TOKEN_KINDS][part.rows] if TOKEN_KINDS in extra else None
        measure = partial(measure_tokens, part, Places.of(extra[TOKENS][part.rows], kinds))
    more = further or Further(own_metrics(target))
    if not more.metrics:
        return measure
    return lambda outputs, owner, level: [*measure(outputs, owner, level), *(
        measured for metric in more.metrics
        for measured in measure_further(metric, part, truth, outputs, owner, level, more, split))]


def outputs_of(benchmark: Benchmark, predictions: Predictions | Answers, rows: Ints) -> Outputs:
    """These rows of the predictions, in the form that the benchmark's scorer takes."""
    target = benchmark.target
    if target.lists:
        if isinstance(predictions, Predictions):
            raise ShiftBenchError("These are scores of classes, but the benchmark asks for boxes or tokens: a list per "
                                  "item.")
        return predictions.take(rows)
    if isinstance(predictions, Answers):
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for {target.words}, but these predictions are boxes "
                              "or tokens. Give one row of scores per item.")
    first, n = int(rows[0]) if len(rows) else 0, len(rows)
    in_a_row = np.array_equal(rows, np.arange(first, first + n))
    scores = predictions.scores[first:first + n] if in_a_row else predictions.scores[rows]  # a slice is no copy
    if not target.has_classes and (wrong := np.isnan(scores).any(axis=1)).any():
        raise ShiftBenchError(f"{int(wrong.sum())} predictions are not numbers (NaN). The model that gave them has "
                              "diverged.")
    return scores


# Classes

Q = 0.1
COMPARED = 1000
"""The most groups in which methods are compared one by one; with more, nobody reads the comparisons and none is
significant."""


class Split(NamedTuple):
    """A split with its items ordered by group. It is prepared once and scores any number of runs."""

    name: str
    rows: Ints  # the benchmark's rows, ordered by group
    order: Ints  # their positions in the benchmark's order of the split
    label: Ints
    groups: tuple[str, ...]
    start: Ints  # the first item of every group
    size: Ints
    by_label: Ints  # the items ordered by label
    classes: tuple[str, ...]
    first: Ints  # the first item of every class in `by_label`
    of_class: Ints  # the number of items of every class
    n_classes: int  # all classes of the benchmark
    kind: Strs | None  # hard and easy items, see `hard_items.kinds_of`
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
                     tuple(grouping.within(rows) for grouping in groupings))


def measure_classes(
    split: Split, tables: Sequence[Table] | Table, owner: Sequence[int], level: float | None
) -> list[Measured]:
    """Everything that `score` measures on a split; `tables` are the runs' scores, items × classes, in its order.

    Without a level there are no intervals, and no correction of the worst group either.
    """
    label, start, n = split.label, split.start, np.asarray([len(split.rows)])
    predicted = _each(lambda scores: scores.argmax(axis=-1), tables)[:, split.order]
    hits = predicted == label
    worst = worst_share(hits, start, owner, level)
    worst_class = worst_share(hits[:, split.by_label], split.first, owner, level)
    lowest = worst.measured("worst_group_accuracy", split.groups, split.size, compared=True)
    f1 = f1_items(label, predicted, split.n_classes)
    measured = [
        Measured("accuracy", [ALL], n, estimate("wilson", hits, owner, level), hits),
        Measured("accuracy", split.groups, split.size, estimate("wilson", hits, owner, level, start), hits,
                 start=start),
        lowest, corrected(lowest),
        worst_class.measured("worst_class_accuracy", split.classes, split.of_class),
        Measured("macro_f1", [ALL], n, estimate("wilson", f1, owner, level), f1),
    ]
    loss_items = None
    if all(has_probabilities(scores) for scores in ([tables] if isinstance(tables, np.ndarray) else tables)):
        as_predicted = np.empty_like(label)
        as_predicted[split.order] = label  # a table of many classes is not copied to sort its rows
        loss_items = _each(lambda scores: losses(as_predicted, scores), tables)[:, split.order]
        highest = worst_loss(loss_items, start, owner, level)
        measured += [Measured("nll", [ALL], n, estimate("student", loss_items, owner, level)),
                     Measured("nll", split.groups, split.size, estimate("student", loss_items, owner, level, start)),
                     highest.measured("worst_group_nll", split.groups, split.size)]
    if split.kind is not None:
        scores = _each(lambda table: np.asarray(table[:, split.order].transpose(0, 2, 1), np.float32), tables)
        measured += by_kind(split.kind, label, scores, loss_items, owner, level, split.groups)
    return measured + [score for grouping in split.groupings for score in by_grouping(hits, grouping, owner, level)]


def _each(function: Callable[[Table], Any], tables: Sequence[Table] | Table) -> Any:
    """Apply a function to scores, runs × items × classes: to all runs at once, or run by run if they are in a list."""
    if isinstance(tables, np.ndarray):
        return function(tables)
    return np.concatenate([function(table[None]) for table in tables])


def by_grouping(hits: Bools, grouping: Grouping, owner: Sequence[int], level: float | None) -> list[Measured]:
    """Every score over the grouping of a split's items; `hits` is runs × items, `owner[r]` the method of run r.

    With groups g of n_g items, a_g the accuracy of each and G groups that have items:

        accuracy of g                a_g, Wilson's interval
        worst_group_accuracy         min_g a_g, with the interval of `worst_share`
        mean_group_accuracy          Σ_g a_g / G: every group weighs the same (GlobalWheat's sessions)
        tenth_percentile_accuracy    of the a_g, linear between neighbours (Amazon's users)

    The interval of the mean is about other items of the same groups, that of the percentile about other groups. The
    list is empty if no item is in a group. If groups overlap, the worst group is not corrected, see `worst_share`.
    """
    if not grouping.names:
        return []
    size, times, n = grouping.size, grouping.times, hits.shape[1]
    disjoint = int(times.max()) == 1
    by_group = estimate("wilson", hits[:, grouping.rows], owner, level, grouping.start)
    worst = worst_share(hits, grouping.start, owner, level, grouping.rows)
    items = contributions(hits, grouping, by_group.runs, times)
    n_inside = np.asarray([items.shape[1]])
    many = len(grouping.names) > COMPARED
    names = grouping.names
    measured = [Measured("accuracy", names, size, by_group, None if many else hits[:, grouping.rows],
                         start=None if many else grouping.start),
                worst.measured("worst_group_accuracy", names, size, of=n, compared=True)]
    if disjoint:
        measured.append(corrected(measured[-1]))
    measured += [Measured("mean_group_accuracy", [ALL], n_inside, estimate("wilson", items, owner, level), items, of=n),
                 Measured("tenth_percentile_accuracy", [ALL], n_inside, percentile(by_group.runs, owner, level))]
    return [score._replace(by=grouping.spec) for score in measured]


def contributions(hits: Bools, grouping: Grouping, accuracy: Floats, times: Ints) -> Floats:
    """What each item in a group contributes to the mean over groups A; the spread of the contributions is its error.

        c_i = A + N / G Σ_{g ∋ i} (h_i − a_g) / n_g √(n_g / (n_g − 1)),    A = Σ_g a_g / G, N items in groups.
    """
    inside = np.flatnonzero(times)
    position = np.cumsum(times > 0)[grouping.rows] - 1
    size = grouping.size
    weight = np.repeat(np.sqrt(size / np.maximum(size - 1, 1)) / size, size)
    deviation = (hits[:, grouping.rows] - np.repeat(accuracy, size, axis=1)) * weight
    by_item = np.zeros((len(hits), len(inside)))
    if len(inside) == len(position):
        by_item[:, position] = deviation
    else:
        for run, values in enumerate(deviation):
            by_item[run] = np.bincount(position, values, len(inside))
    return np.asarray(accuracy.mean(axis=1, keepdims=True) + by_item * (len(inside) / len(size)))


def percentile(accuracy: Floats, owner: Sequence[int], level: float | None) -> Estimate:
    """The tenth percentile over groups of each run, from accuracies runs × groups, and its interval.

    The interval is about other groups like these, each with as many items. Its ends are the order statistics between
    which the true percentile lies, B ~ Binomial(G, 0.1), whatever the distribution of the accuracies. With fewer than
    36 groups none bounds it from below at 95 %, and the lower end is 0.
    """
    n_groups = accuracy.shape[1]
    ordered = np.sort(accuracy, axis=1)
    runs = np.percentile(ordered, 100 * Q, axis=1)[:, None]
    if level is None:
        return without_interval(runs, owner)
    from scipy.special import bdtr

    below = bdtr(np.arange(n_groups + 1), n_groups, Q)  # P(B ≤ k)
    lower = int((below <= (1 - level) / 2).sum()) - 1
    upper = int((below < (1 + level) / 2).sum())
    low = ordered[:, lower:lower + 1] if lower >= 0 else np.zeros_like(runs)
    high = ordered[:, upper:upper + 1] if upper < n_groups else np.ones_like(runs)
    value, least, most = (over_runs(end, owner) for end in (runs, low, high))
    return Estimate(runs, value, value, np.maximum(value - least, 0), np.maximum(most - value, 0),
                    np.zeros_like(value))


# Numbers, tasks, boxes and tokens

GROUPS = 100
"""The most groups of a split for which tasks are scored in each; of thousands, hardly one has both labels of many
tasks."""


class Part(NamedTuple):
    """The rows of a split, and the group and the domain of each."""

    rows: Ints
    group: Ints
    domain: Ints
    names: tuple[str, ...]  # of groups

    @staticmethod
    def of(benchmark: Benchmark, split: str) -> "Part":
        rows = benchmark.rows(split)
        return Part(rows, benchmark.group[rows], benchmark.domain[rows], benchmark.names["group"])

    def take(self, kept: Ints) -> "Part":
        return self._replace(rows=self.rows[kept], group=self.group[kept], domain=self.domain[kept])


def measure_numbers(
    part: Part, truth: Reals, predicted: Sequence[Reals], owner: Sequence[int], level: float | None
) -> list[Measured]:
    """`r` and `mse` of all items, of every group and of the worst group; truth and predictions are items × outputs.

    With several outputs both are means over them. NaN in the truth is no label; an item without any label is left out.
    A group in which r is not defined (one item, or nothing that varies) has no r and is never the worst.
    """
    kept = np.flatnonzero(~np.isnan(truth).all(axis=1))
    part, truth, predicted = part.take(kept), truth[kept], [np.asarray(run, np.float64)[kept] for run in predicted]
    one_group = np.zeros(len(kept), np.int64)
    errors = np.stack([np.nanmean((truth - run) ** 2, axis=1, dtype=np.float64) for run in predicted])
    return [*grouped(part, "r", np.stack([r_items(truth, run, one_group) for run in predicted]),
                     np.stack([r_items(truth, run, part.group) for run in predicted]), owner, level),
            *grouped(part, "mse", errors, errors, owner, level)]


def measure_tasks(
    part: Part, truth: Reals, predicted: Sequence[Reals], owner: Sequence[int], level: float | None
) -> list[Measured]:
    """`mean_ap` over tasks with both labels, and `tasks_judged`, the number of these tasks; NaN is a missing label.

    A split of at most GROUPS groups also has `mean_ap` of each group, over the tasks with both labels in it, and of the
    worst group.
    """
    kept = np.flatnonzero(~np.isnan(truth).all(axis=1))
    part, truth, predicted = part.take(kept), truth[kept], [np.asarray(run, np.float64)[kept] for run in predicted]
    precisions = [precision_items(truth, run) for run in predicted]
    whole = np.stack([run.items for run in precisions])
    tasks = np.full((max(owner) + 1, 1), float(precisions[0].tasks))
    none = np.full_like(tasks, np.nan)
    judged = Measured("tasks_judged", [ALL], np.asarray([len(kept)]),
                      Estimate(np.full((len(owner), 1), tasks[0, 0]), tasks, tasks, none, none, none, most=np.inf))
    if len(np.unique(part.group)) > GROUPS:
        return [over_all("mean_ap", whole, len(kept), owner, level), judged]
    values = np.empty_like(whole)
    for code in np.unique(part.group):
        inside = part.group == code
        values[:, inside] = [precision_items(truth[inside], run[inside]).items for run in predicted]
    return [*grouped(part, "mean_ap", whole, values, owner, level), judged]


def measure_boxes(
    part: Part, truth: Sequence[Boxes], answers: Sequence[Answers], owner: Sequence[int], level: float | None
) -> list[Measured]:
    """`detection_accuracy` over all images, in every group and in the worst group, and its mean over domains.

    Boxes with a score above ½ count, and match a true box that they overlap by ½ or more, see `detection_accuracy`.
    """
    values = np.stack([detection_accuracy(truth, run.lists("boxes"), run.lists("scores")) for run in answers])
    return [*grouped(part, "detection_accuracy", values, values, owner, level),
            over_all("detection_accuracy_by_domain", domain_items(values, part.domain), len(part.rows), owner, level)]


def measure_tokens(
    part: Part, places: Places, answers: Sequence[Answers], owner: Sequence[int], level: float | None
) -> list[Measured]:
    """`accuracy` of names of classes and methods, over all and by group; `overall_accuracy`, and that of every kind.

    Without kinds all tokens count for `accuracy`. All tokens weigh the same, whichever item they are in, and n counts
    them. Tokens of a file depend on each other, so intervals are about other files: a ratio estimator, linearised.
    """
    hits, law = [places.hits(run) for run in answers], "wilson of contributions"
    measured: list[Measured] = []
    pooled: dict[str, tuple[int, ...]] = {"accuracy": HEADLINE, "overall_accuracy": tuple(range(10))}
    for metric, codes in {**pooled, **{f"{name}_accuracy": (code,) for code, name in enumerate(KINDS)}}.items():
        counted = np.isin(places.kind, codes)
        count = counted.sum(axis=1)
        kept = np.flatnonzero(count)
        if not len(kept) and metric != "accuracy":
            continue
        right = np.stack([(run & counted).sum(axis=1)[kept] for run in hits]).astype(np.float64)
        files, count = part.take(kept), count[kept]
        whole = ratio_items(right, count, np.zeros(len(kept), np.int64))
        if metric != "accuracy":
            measured.append(over_all(metric, whole, int(count.sum()), owner, level))
            continue
        measured += grouped(files, metric, whole, ratio_items(right, count, files.group), owner, level, weight=count,
                            law=law)
        if not places.kinds:
            break
    return measured


def grouped(
    part: Part, metric: str, whole: Floats, values: Floats, owner: Sequence[int], level: float | None,
    *, weight: Ints | None = None, law: str = "",
) -> list[Measured]:
    """The metric of all items, of every group that has a value in every run, and of the worst group.

    `whole` and `values` are contributions, runs × items, to the value of all items and to that of the item's group.
    `weight` is what an item counts in n; `law` replaces the metric's usual law of the interval.
    """
    order = np.argsort(part.group, kind="stable")  # one order for all metrics, so that they can be compared
    part, whole, values = part.take(order), whole[:, order], values[:, order]
    count = np.ones(len(part.rows), np.int64) if weight is None else weight[order]
    measured = [over_all(metric, whole, int(count.sum()), owner, level, law)]
    defined = np.ones(len(part.names), np.bool_)
    defined[part.group[np.isnan(values).any(axis=0)]] = False
    kept = np.flatnonzero(defined[part.group])
    if not len(kept):
        return measured
    codes, start = np.unique(part.group[kept], return_index=True)
    names, n = [part.names[code] for code in codes], np.add.reduceat(count[kept], start)
    law = law or METRICS[metric].interval
    worst = worst_by(law, values[:, kept], start, owner, level, lower=METRICS[metric].lower)
    worst = replace(worst, n=n[worst.code])
    return [*measured, Measured(metric, names, n, estimate(law, values[:, kept], owner, level, start)),
            worst.measured(WORST + metric, names, n, compared=not METRICS[metric].lower)]


def over_all(
    metric: str, values: Floats, n: int, owner: Sequence[int], level: float | None, law: str = ""
) -> Measured:
    """The metric over all items, from what each contributes, runs × items; NaN where no item has one."""
    facts = METRICS[metric]
    if not values.shape[1]:
        values = np.full((len(values), 1), np.nan)
    return Measured(metric, [ALL], np.asarray([n]), estimate(law or facts.interval, values, owner, level),
                    None if facts.lower else values)


# Additional metrics

def measure_further(
    metric: Metric, part: Part, truth: Values, outputs: Sequence[Any] | Reals, owner: Sequence[int],
    level: float | None, further: Further, split: str,
) -> list[Measured]:
    """An additional metric, from its contributions if it has them, else over all items with the bootstrap."""
    if metric.items is not None:
        values = np.stack([np.asarray(metric.items(truth, run), np.float64) for run in outputs])
        if values.shape[1:] != (len(truth),):
            raise ShiftBenchError(f"Metric '{metric.name}': `items` gives an array of shape {values.shape[1:]}, but "
                                  f"{len(truth)} items have one contribution each.")
        measured = grouped(part, metric.name, values, values, owner, level)
        least = 0.0 if not (values < 0).any() else -np.inf
        return measured if metric.unit == "share" else [
            score._replace(estimate=score.estimate._replace(least=least, most=np.inf)) for score in measured]
    value = bootstrapped(metric, truth, outputs, owner, level, further, split)
    return [Measured(metric.name, [ALL], np.asarray([len(truth)]), value)]


def bootstrapped(
    metric: Metric, truth: Values, outputs: Sequence[Any] | Reals, owner: Sequence[int], level: float | None,
    further: Further, split: str,
) -> Estimate:
    """The percentile bootstrap of a metric without a formula: the same draws of items for every run.

    How far the draws move each run from its method's mean is noise of the items, which seeds must not add again.
    """
    if metric.function is None:
        raise ShiftBenchError(f"Metric '{metric.name}' cannot be computed from predictions alone.")
    least, most = (0.0, 1.0) if metric.unit == "share" else (-np.inf, np.inf)
    runs = np.asarray([[metric.function(truth, run)] for run in outputs], np.float64)
    value = over_runs(runs, owner)
    if level is None or not further.replicates:
        return without_interval(runs, owner)._replace(least=least, most=most)
    draws = np.stack([bootstrap(partial(metric.function, truth, run), len(truth), replicates=further.replicates,
                                seed=further.seed, purpose=split) for run in outputs])
    low, high = (end[:, None] for end in interval(over_runs(draws, owner).T, level))
    count = np.bincount(np.asarray(owner))[:, None]
    apart = np.nanvar(draws - over_runs(draws, owner)[np.asarray(owner)], axis=1)[:, None]
    noise = over_runs(apart, owner) * count / np.maximum(count - 1, 1)
    return Estimate(runs, value, value, value - low, high - value, noise, least, most)
