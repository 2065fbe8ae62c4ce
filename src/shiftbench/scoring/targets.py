"""Facts about kinds of targets: the metric that ranks, those that may, and those of which a gap is told."""

from shiftbench.data.benchmark import Benchmark
from shiftbench.scoring.target_boxes import BY_DOMAIN, METRIC
from shiftbench.scoring.target_measures import WORST

HEADLINES = {
    "class": "accuracy", "number": WORST + "r", "tasks": "mean_ap", "boxes": BY_DOMAIN, "tokens": "accuracy",
}
"""By kind of target, the metric that ranks."""
PLAIN = {"class": "accuracy", "number": "r", "tasks": "mean_ap", "boxes": METRIC, "tokens": "accuracy"}
"""By kind of target, the metric over all items; WORST before it is that of the worst group."""
RANKING = {
    "number": (WORST + "r", "r"), "tasks": ("mean_ap",), "boxes": (BY_DOMAIN, METRIC, WORST + METRIC),
    "tokens": ("accuracy", "overall_accuracy", WORST + "accuracy"),
}
"""Metrics by which methods may be ranked, higher better, those of all items and of the worst group; see HEADLINES."""
GAPS = ("r", WORST + "r", "mean_ap", METRIC, BY_DOMAIN, "accuracy")
"""Metrics of which the gap from id_test to test is told."""


def headline(benchmark: Benchmark) -> str:
    """The metric by which a benchmark's methods are ranked: its card's, else what its kind of target has."""
    return str(benchmark.card.get("headline") or HEADLINES[benchmark.target.kind])
