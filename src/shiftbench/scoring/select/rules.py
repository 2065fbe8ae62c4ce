"""The rules: what each looks at, and which labels that takes."""

from typing import NamedTuple

from shiftbench.data.benchmark import Benchmark
from shiftbench.scoring.metrics import metric_of
from shiftbench.shifts.leave_one_domain_out import MARK

TARGETS = ("accuracy", "worst_group_accuracy")
"""What a choice is judged by on test, and what the oracle chooses by."""

NONE, SHIFTED, UNKNOWN, TARGET = LABELS = ("none", "shifted", "unknown", "target")
"""Labels from after the shift that a choice used: none; those of other domains than the test's; those of
`val`, with no benchmark at hand that tells its domains; those of the test's own domains or items. In order of harm."""

DEFAULT = "id"
"""The rule of a report's tables."""


class Rule(NamedTuple):
    """A criterion: a metric on the first of some splits that was scored."""

    head: str  # what a table calls it
    metric: str  # empty: what a choice is judged by on test, or the headline
    splits: tuple[str, ...]
    uses: str  # what has to be known to apply it
    headline: bool = False  # by the metric that ranks methods on the benchmark, as its card says

    @property
    def lower(self) -> bool:
        """Whether the smaller is the better."""
        return metric_of(self.metric).lower


RULES: dict[str, Rule] = {
    "id": Rule("ID validation", "accuracy", ("id_val",), "labels of items drawn as training was"),
    "leave_one_domain_out": Rule("Leave one domain out", "accuracy", (MARK,),
                                 "the domains of training, and one more run for each"),
    "worst_group": Rule("Worst group", "worst_group_accuracy", ("id_val", "val"),
                        "labels and groups of validation items"),
    "worst_class": Rule("Worst class", "worst_class_accuracy", ("id_val", "val"), "labels of validation items"),
    "nooch": Rule("NOOCh", "worst_group_nll", ("id_val", "val"), "labels and groups of validation items"),
    "f1": Rule("Validation F1", "macro_f1", ("val", "id_val"), "labels of validation items, shifted ones first"),
    "ood": Rule("OOD validation", "accuracy", ("val",), "labels of items drawn after the shift"),
    "wilds": Rule("WILDS", "", ("val",), "labels and groups of items drawn after the shift", headline=True),
    "oracle": Rule("Oracle", "", ("test",), "the labels of the test"),
}
"""`nooch` minimises the larger of the mean losses of hard positives and hard negatives (Madras & Zemel, 2021, §6);
where no group is named so, the largest group's. `f1` is Wiles et al.'s (2022): top-1 F1 on the validation set, which is
out of distribution where there is such a one. `wilds` is Koh et al.'s (2021): the benchmark's own headline on `val`,
FMoW's worst region, Amazon's user at the tenth percentile, and so on. `oracle` chooses by what is then reported: the
best there was to have.
"""


def labels_of(split: str, benchmark: Benchmark | None) -> str:
    """Which labels from after the shift a criterion on this split uses.

    `val` is drawn after the shift. Where it has domains of the test its labels are the target's; where it has none, it
    is another shift of the same kind.
    """
    if split == "test":
        return TARGET
    if split != "val":
        return NONE
    if benchmark is None or not {"val", "test"} <= set(benchmark.splits):
        return UNKNOWN
    val, test = (set(benchmark.domain[benchmark.rows(part)].tolist()) for part in ("val", "test"))
    return TARGET if val & test else SHIFTED
