"""Metrics: one table of their names, directions, units and intervals.

The functions are plain functions of arrays, truth first; what is undefined is NaN. Everything that scores, chooses
weights, selects runs, prints a table or ranks a board asks METRICS. A user's own metric joins with
`shiftbench.register.metric`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shiftbench.core.registry import Owner, Registry, load_installed, register
from shiftbench.data.groupings import by_in_words
from shiftbench.data.target import Target
from shiftbench.scoring.metrics.beyond_classes import KINDS as KINDS_OF_TOKEN
from shiftbench.scoring.metrics.classification import (
    Table,
    Tally,
    accuracy,
    error,
    f1_items,
    has_probabilities,
    losses,
    macro_f1,
    macro_recall,
    nll,
    tally,
)
from shiftbench.scoring.metrics.curves import auc

__all__ = [
    "METRICS", "WORST", "Metric", "Table", "Tally", "accuracy", "auc", "error", "f1_items", "has_probabilities",
    "in_unit", "in_words", "is_worst", "losses", "macro_f1", "macro_recall", "metric_of", "metrics_of", "nll",
    "own_metrics", "percent", "tally",
]

WORST = "worst_group_"
"""The prefix of a metric's name for its value in the worst group."""
LAWS = ("bootstrap", "wilson", "wilson of contributions", "student", "fisher z", "jackknife logit", "delong logit",
        "student and bias", "order statistics", "none")
"""How an interval is made; `intervals.estimates` has those that any contributions can use."""
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
        """A value as a table shows it: shares in per cent, numbers as they are.

        >>> METRICS["accuracy"].show(0.5), METRICS["nll"].show(0.5, "+")
        ('50.0', '+0.500')
        """
        return f"{value:{sign}.3f}" if self.unit == "number" else f"{100 * value:{sign}.1f}"


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
