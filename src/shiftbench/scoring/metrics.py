"""Metrics: the functions of classification, and one table of the names, directions, units and intervals of all metrics.

A function takes arrays, truth first: (label, scores, weight) -> float. `scores[i, c]` is a logit or log-probability of
class c for item i. `weight` counts item i `weight[i]` times, so a bootstrap replicate is the metric at the times each
item was drawn. No items, or a value that is not defined: NaN. `losses` and `f1_items` return what each item contributes
to a metric, for many runs at once; `tally` counts groups and classes.

Everything that scores, chooses weights, selects runs, prints a table or ranks a board asks METRICS. A user's own metric
joins with `shiftbench.register.metric`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.registry import Owner, Registry, load_installed, register
from shiftbench.data.groupings import by_in_words
from shiftbench.data.target import Target
from shiftbench.scoring.beyond_classes import KINDS as KINDS_OF_TOKEN

Table = npt.NDArray[np.floating]
BLOCK = 1 << 18
"""Scores that are looked at in one go: 2 MB of 64 bits stay in a processor's cache."""


def accuracy(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Share of items whose largest score is their label. Higher is better."""
    return _mean((scores.argmax(axis=1) == label).astype(np.float64), weight)


def error(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Share of items whose largest score is not their label. Lower is better."""
    return 1.0 - accuracy(label, scores, weight)


def macro_f1(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Mean over the classes in the truth of F1 = 2 TP / (2 TP + FP + FN). Higher is better."""
    return float(tally(label, scores.argmax(axis=1), n_classes=scores.shape[1], weight=weight).macro_f1[0])


def macro_recall(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Mean over the classes in the truth of TP / (TP + FN). Higher is better."""
    return float(tally(label, scores.argmax(axis=1), n_classes=scores.shape[1], weight=weight).macro_recall[0])


def nll(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Mean of −log p(label), p = softmax(scores). Lower is better; infinite where a label was ruled out."""
    return _mean(losses(label, scores), weight)


def auc(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """P(s⁺ > s⁻) + ½ P(s⁺ = s⁻) for a class against the rest, s its log-odds or log-probability. Higher is better.

    With two classes this is the usual AUC; with more it is the mean over the classes that have items on both sides.
    """
    if scores.shape[1] == 2:
        with np.errstate(invalid="ignore"):
            return _one_auc(label == 1, np.asarray(scores[:, 1] - scores[:, 0], np.float64), weight)  # keeps ties exact
    ranks = log_softmax(scores)
    areas = np.asarray([_one_auc(label == code, ranks[:, code], weight) for code in range(scores.shape[1])])
    return float(np.mean(areas[~np.isnan(areas)])) if not np.isnan(areas).all() else math.nan


def losses(label: Ints, scores: Table) -> Floats:
    """−log p(label) of every item, p = softmax(scores); scores are items × classes, or runs × items × classes.

    A block of items at a time: the whole table in 64 bits, several times over, would be most of the memory of a score.
    """
    item_losses = np.empty(scores.shape[:-1])
    for block in _blocks(scores):
        logs = log_softmax(scores[..., block, :])
        labels = np.broadcast_to(label[block], logs.shape[:-1])[..., None]
        item_losses[..., block] = -np.take_along_axis(logs, labels, axis=-1)[..., 0]
    return item_losses


def has_probabilities(scores: Table) -> bool:
    """Whether scores say more than which class is chosen: some item of every run has finite scores for two classes.

    A model that gives only its choice rules every other class out; its log-loss would be infinite at the first mistake
    and says nothing.
    """
    several = np.zeros(scores.shape[:-2], np.bool_)
    for block in _blocks(scores):
        table = scores[..., block, :]
        several |= np.isfinite(table).sum(axis=(-2, -1)) > table.shape[-2]
        if several.all():
            return True
    return False


def log_softmax(scores: Table) -> Floats:
    """log softmax over the last axis, in 64 bits."""
    peak = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        shifted = np.asarray(scores - np.where(np.isfinite(peak), peak, 0.0), np.float64)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _blocks(scores: Table) -> list[slice]:
    """Slices of the items of a table, ... × items × classes, each of about BLOCK scores."""
    n = scores.shape[-2]
    rows = max(1, BLOCK * n // max(1, scores.size))
    return [slice(at, at + rows) for at in range(0, n, rows)]


def _mean(values: Floats, weight: Floats | None) -> float:
    if not len(values):
        return math.nan
    if weight is None:
        return float(np.mean(values))
    total = float(weight.sum())
    drawn = weight > 0  # 0 × inf is not a number, but an item drawn 0 times is simply absent
    return float(values[drawn] @ weight[drawn]) / total if total else math.nan


def _one_auc(positive: npt.NDArray[np.bool_], rank: Floats, weight: Floats | None) -> float:
    _, code = np.unique(rank, return_inverse=True)
    share = np.ones(len(rank)) if weight is None else weight
    above = np.bincount(code, share * positive)
    below = np.bincount(code, share * ~positive)
    pairs = above.sum() * below.sum()
    return float(above @ (np.cumsum(below) - below / 2) / pairs) if pairs else math.nan


# Counts of groups and classes

class Tally(NamedTuple):
    """Cell k is a class that occurs in the truth of group `group[k]`; only such cells are kept.

    In it `truth[k]` items have the class, `predicted[k]` are predicted as it, `hits[k]` are both; with weights,
    their sums.
    """

    group: Ints
    truth: Floats
    predicted: Floats
    hits: Floats
    n_groups: int

    @property
    def accuracy(self) -> Floats:
        """Per group, the share of items whose prediction is their label; NaN where a group is empty."""
        return _ratio(self._sum(self.hits), self._sum(self.truth))

    @property
    def macro_recall(self) -> Floats:
        """Per group, the mean of hits / truth over the classes in its truth."""
        return self._mean(self.hits / self.truth)

    @property
    def macro_f1(self) -> Floats:
        """Per group, the mean of F1 = 2 hits / (truth + predicted) over the classes in its truth.

        A class that is predicted but absent from the truth is no term of the mean, as in WILDS; it costs the recall of
        the classes it is mistaken for.
        """
        return self._mean(2 * self.hits / (self.truth + self.predicted))

    def _sum(self, values: Floats) -> Floats:
        return _count(self.group, values, self.n_groups)

    def _mean(self, values: Floats) -> Floats:
        return _ratio(self._sum(values), _count(self.group, None, self.n_groups))


def tally(
    label: Ints,
    predicted: Ints,
    group: Ints | None = None,
    n_groups: int = 1,
    *,
    n_classes: int | None = None,
    weight: Floats | None = None,
) -> Tally:
    """Count truth, predictions and hits per group and class in one pass over the items; without `group`, over all.

    The table groups × classes is dense while it is about as small as the data, and compact where it would not be: never
    more than a few numbers per item, whatever the number of groups and classes.
    """
    classes = n_classes or 1 + int(max(label.max(initial=0), predicted.max(initial=0)))
    base = np.zeros(len(label), np.int64) if group is None else group * classes
    true, guess = base + label, base + predicted
    hit = true == guess
    size = n_groups * classes
    if size <= 4 * len(label) + 1024:
        truth = _count(true, weight, size)
        cells = np.flatnonzero(truth)
        hits = _count(true[hit], None if weight is None else weight[hit], size)[cells]
        return Tally(cells // classes, truth[cells], _count(guess, weight, size)[cells], hits, n_groups)
    cells, true = np.unique(true, return_inverse=True)
    position = np.searchsorted(cells, guess)
    position[position == len(cells)] = 0
    has_cell = cells[position] == guess  # a class predicted where the group's truth lacks it has no cell
    truth = _count(true, weight, len(cells))
    hits = _count(true[hit], None if weight is None else weight[hit], len(cells))
    guesses = _count(position[has_cell], None if weight is None else weight[has_cell], len(cells))
    kept = truth > 0  # weights may be 0
    return Tally(cells[kept] // classes, truth[kept], guesses[kept], hits[kept], n_groups)


def f1_items(label: Ints, predicted: Ints, n_classes: int) -> Floats:
    """Runs × items: contributions whose mean over the items is macro F1, and whose spread is its error to first order.

    With F_c = 2 h_c / d_c, h_c the hits and d_c the items of class c plus those predicted as c, C classes in the truth:

        c_i = F + (n / C) (2 · 1[ŷ_i = y_i] / d_y − F_y / d_y − F_ŷ / d_ŷ),    F = mean of F_c.

    A class that is predicted but absent from the truth has no term. `predicted` is runs × items.
    """
    runs, n = predicted.shape
    run = np.repeat(np.arange(runs), n)
    truth = np.tile(label, runs)
    counts = tally(truth, predicted.ravel(), run, runs, n_classes=n_classes)
    classes = np.unique(label)
    both = (counts.truth + counts.predicted).reshape(runs, len(classes))
    f1 = 2 * counts.hits.reshape(runs, len(classes)) / both
    per_item, penalty = np.zeros((runs, n_classes)), np.zeros((runs, n_classes))
    per_item[:, classes], penalty[:, classes] = 2 / both, f1 / both
    of_predicted = np.take_along_axis(penalty, predicted, axis=1)
    deviation = (predicted == label) * per_item[:, label] - penalty[:, label] - of_predicted
    return np.asarray(f1.mean(axis=1, keepdims=True) + deviation * (n / len(classes)))


def _count(cells: Ints, weight: Floats | None, size: int) -> Floats:
    return np.asarray(np.bincount(cells, weight, size), np.float64)


def _ratio(above: Floats, below: Floats) -> Floats:
    filled: Floats = np.full(len(above), math.nan)
    np.divide(above, below, out=filled, where=below > 0)
    return filled


# The table

WORST = "worst_group_"
"""The prefix of a metric's name for its value in the worst group."""
LAWS = ("bootstrap", "wilson", "wilson of contributions", "student", "fisher z", "jackknife logit", "delong logit",
        "student and bias", "order statistics", "none")
"""How an interval is made; `intervals.LAWS` has those that any contributions can use."""
OVER = ("all items", "worst group", "worst class", "worse hard side", "mean over groups", "percentile over groups",
        "mean over domains", "gap")


@dataclass(frozen=True)
class Metric:
    """The facts about a metric."""

    name: str
    words: str  # as a page says it: macro F1
    targets: tuple[str, ...] = ("class",)  # kinds of target that have it
    better: str = "higher"  # or lower
    unit: str = "share"  # shown in per cent; or number, shown as it is
    interval: str = "bootstrap"  # one of LAWS
    over: str = "all items"  # one of OVER
    of: str = ""  # where it is over groups, the metric of each group
    function: Callable[..., float] | None = None  # (truth, outputs, weight) -> value
    items: Callable[..., Any] | None = None  # (truth, outputs) -> what each item contributes; the mean is the value
    always: bool = True  # scored without being asked for
    own: bool = False  # registered by a user

    @property
    def lower(self) -> bool:
        """Whether the smaller is the better."""
        return self.better == "lower"

    @property
    def sign(self) -> int:
        """The factor by which values are multiplied so that larger is better."""
        return -1 if self.lower else 1

    @property
    def of_worst(self) -> bool:
        """Whether the score is that of the worst of several groups, which the row then names."""
        return self.over.startswith("wors")

    def show(self, value: float, sign: str = "") -> str:
        """A value as a table shows it: shares in per cent, numbers as they are; no difference is not a negative one.

        >>> METRICS["accuracy"].show(0.5), METRICS["nll"].show(0.5, "+"), METRICS["accuracy"].show(-0.0001, "+")
        ('50.0', '+0.500', '+0.0')
        """
        number, digits = (value, 3) if self.unit == "number" else (100 * value, 1)
        return f"{round(number, digits) + 0.0:{sign}.{digits}f}"


METRICS: Registry[Metric] = Registry()
"""All metrics by name, those of worst groups among them."""


def add_metric(metric: Metric, *, groups: bool = False, owner: Owner | None = None) -> Metric:
    """Enter a metric into the table and, where it is scored by `groups`, that of the worst group."""
    register(METRICS, metric.name, owner)(metric)
    if groups:
        register(METRICS, WORST + metric.name, owner)(replace(
            metric, name=WORST + metric.name, words=f"worst-group {metric.words}", over="worst group", of=metric.name,
            function=None, items=None))
    return metric


def metric_of(name: str) -> Metric:
    """The facts about a metric by its name in a table of scores, also about a gap.

    A name that nobody has registered, such as a metric of a table that someone else made, is a share of which higher is
    better.
    """
    if name not in METRICS and name.endswith("_gap"):
        whole = metric_of(name.removesuffix("_gap"))
        return replace(whole, name=name, words=f"{whole.words}, gap", better="lower", over="gap", of=whole.name)
    return METRICS.get(name) or Metric(name, name.replace("_", " "))


def is_worst(name: str) -> bool:
    """Whether a score is of the worst of several groups, which it then names; so is the gap of such a score."""
    metric = metric_of(name)
    return (metric_of(metric.of) if metric.over == "gap" else metric).of_worst


def metrics_of(target: Target) -> Iterator[Metric]:
    """All metrics of a kind of target."""
    return (metric for metric in METRICS.values() if target.kind in metric.targets)


def own_metrics(target: Target) -> list[Metric]:
    """The metrics of a kind of target that a user has registered or installed, those of worst groups left out."""
    load_installed()
    return [metric for metric in metrics_of(target) if metric.own and not metric.of]


def in_words(name: str, by: str = "") -> str:
    """A metric as a page says it, with the grouping that it is over.

    >>> in_words("worst_group_accuracy", "urban,label"), in_words("accuracy", "a+b+c+d,label")
    ('worst-group accuracy by urban, label', 'accuracy by a+3 more, label')
    """
    return metric_of(name).words + (by_in_words(by) if by else "")


def _fill() -> None:
    numbers, tasks, boxes, tokens = ("number",), ("tasks",), ("boxes",), ("tokens",)
    add_metric(Metric("accuracy", "accuracy", ("class", "tokens"), interval="wilson", function=accuracy), groups=True)
    add_metric(Metric("worst_group_accuracy_corrected", "worst-group accuracy, corrected", interval="wilson",
                      over="worst group", of="accuracy"))
    add_metric(Metric("worst_class_accuracy", "worst-class accuracy", interval="wilson", over="worst class",
                      of="accuracy"))
    add_metric(Metric("mean_group_accuracy", "mean accuracy over groups", interval="wilson", over="mean over groups",
                      of="accuracy"))
    add_metric(Metric("tenth_percentile_accuracy", "tenth percentile of accuracy over groups",
                      interval="order statistics", over="percentile over groups", of="accuracy"))
    add_metric(Metric("macro_f1", "macro F1", interval="wilson", function=macro_f1))
    add_metric(Metric("macro_recall", "macro recall", function=macro_recall, always=False))
    add_metric(Metric("nll", "log-loss", better="lower", unit="number", interval="student", function=nll), groups=True)
    add_metric(Metric("auc", "AUC", interval="delong logit", function=auc, always=False))
    add_metric(Metric("ece", "calibration error", better="lower", interval="student and bias", always=False))
    add_metric(Metric("error", "error", better="lower", interval="wilson", function=error, always=False))
    add_metric(Metric("worst_hard_error", "error of the worse hard side", better="lower", interval="wilson",
                      over="worse hard side", of="error", always=False))
    add_metric(Metric("worst_hard_nll", "log-loss of the worse hard side", better="lower", unit="number",
                      interval="student", over="worse hard side", of="nll", always=False))
    add_metric(Metric("target_rt_accuracy", "accuracy after target-RT", interval="wilson", always=False))
    add_metric(Metric("pairwise_accuracy", "pairwise accuracy", always=False))
    add_metric(Metric("r", "Pearson’s r", numbers, unit="number", interval="fisher z"), groups=True)
    add_metric(Metric("mse", "squared error", numbers, "lower", "number", "student"), groups=True)
    add_metric(Metric("mean_ap", "average precision", tasks, interval="jackknife logit"), groups=True)
    add_metric(Metric("tasks_judged", "tasks judged", tasks, unit="number", interval="none"))
    add_metric(Metric("detection_accuracy", "detection accuracy", boxes, interval="wilson of contributions"),
               groups=True)
    add_metric(Metric("detection_accuracy_by_domain", "detection accuracy, mean over domains", boxes,
                      interval="wilson of contributions", over="mean over domains", of="detection_accuracy"))
    add_metric(Metric("overall_accuracy", "accuracy of all tokens", tokens, interval="wilson of contributions"))
    for kind in KINDS_OF_TOKEN:
        add_metric(Metric(f"{kind}_accuracy", f"accuracy of {kind.replace('_', ' ')} tokens", tokens,
                          interval="wilson of contributions"))
    # What annotators are judged by, see `human.people`.
    add_metric(Metric("answered", "questions answered", always=False, interval="none"))
    add_metric(Metric("agreement", "agreement of annotators", always=False, interval="none"))
    add_metric(Metric("fleiss_kappa", "Fleiss’ κ", unit="number", always=False, interval="none"))


_fill()


# Numbers as tables, pages and sentences show them

def percent(value: float, digits: int = 1) -> str:
    """A share in per cent, as text.

    >>> percent(0.8234), percent(0.12, 0), percent(-0.072), percent(math.nan)
    ('82.3', '12', '−7.2', '–')
    """
    return f"{round(100 * value, digits) + 0.0:.{digits}f}".replace("-", "−") if math.isfinite(value) else "–"


def in_unit(value: float, cell: Mapping[str, Any]) -> str:
    """A number of a cell: a share in per cent, anything else as it is.

    >>> in_unit(0.5, {"unit": "share"}), in_unit(-0.5, {"unit": "number"}), in_unit(0.25, {})
    ('50.0', '−0.500', '25.0')
    """
    if cell.get("unit", "share") == "share" or not math.isfinite(value):
        return percent(value)
    return f"{value:.3f}".replace("-", "−")
