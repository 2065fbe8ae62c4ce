"""One call of the evaluation: its arrays, and the parts that most data sets share."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from shiftbench.compat.grouper import Columns, CombinatorialGrouper, as_array
from shiftbench.core.arrays import Bools, Floats, Ints, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.scoring.metrics.correlation import pearson_by_group, squared_errors
from shiftbench.scoring.metrics.curves import precision_items
from shiftbench.scoring.metrics.detection import detection_accuracy
from shiftbench.scoring.metrics.groups import Grouped, group_means
from shiftbench.scoring.metrics.tokens import KINDS, token_hits

Results = dict[str, float]


class Case(NamedTuple):
    """Predictions, labels and metadata as arrays, what the whole data is like, and whether quirks are asked for.

    The package works in 32-bit floats, `single`, and says 0 for what is not defined.
    """

    predicted: Any
    label: Any
    metadata: Values
    whole: Columns
    sizes: Mapping[str, int]
    compat: str | None
    split_scheme: str
    single: bool = True

    @property
    def quirks(self) -> bool:
        return self.compat is not None

    def hits(self) -> Floats:
        return np.asarray(self.predicted == self.label, np.float64)

    def shown(self, value: float, count: int = 1) -> float:
        """A mean over `count` items as the package gives it."""
        if not self.quirks:
            return float(value)
        return float(np.float32(value) if self.single else value) if count else 0.0

    def mean(self, values: Floats) -> float:
        return self.shown(float(values.mean()) if len(values) else math.nan, len(values))

    def grouper(self, *fields: str) -> CombinatorialGrouper:
        return CombinatorialGrouper(self.whole, fields, compat=self.compat, sizes=self.sizes)

    def groups(self, grouper: CombinatorialGrouper) -> Ints:
        """The group of every item; asking for counts checks that the group exists."""
        return np.asarray(grouper.metadata_to_group(self.metadata, return_counts=True)[0])

    def grouped(self, values: Floats, *fields: str) -> tuple[CombinatorialGrouper, Grouped]:
        grouper = self.grouper(*fields)
        return grouper, group_means(values, self.groups(grouper), grouper.n_groups)

    def keys(self, name: str, grouper: CombinatorialGrouper, grouped: Grouped) -> Results:
        """`name_field:value` and `count_field:value` of every group."""
        results: Results = {}
        for group, (value, count) in enumerate(zip(grouped.value.tolist(), grouped.size.tolist(), strict=True)):
            key = grouper.group_field_str(group)
            results[f"{name}_{key}"] = self.shown(value, count)
            results[f"count_{key}"] = float(count) if self.quirks else count
        return results

    def worst(self, grouped: Grouped, *, lower_is_better: bool = False) -> float:
        """The least or the largest of the groups that have items.

        The package passes over a group whose value is NaN; here the worst is then NaN, as a model that has diverged on
        one group is not as good as it is on the others.
        """
        values = grouped.value[grouped.size > 0]
        if self.quirks and len(values):
            values = values[~np.isnan(values)]
            if not len(values):
                raise ShiftBenchError("No group has a value: labels or predictions do not vary, or are not numbers.")
        if not len(values):
            return self.shown(math.nan, 0)
        return self.shown(float(values.max() if lower_is_better else values.min()))

    def standard(self, name: str, values: Floats, *fields: str, lower_is_better: bool = False) -> Results:
        """Average, every group, worst group."""
        grouper, grouped = self.grouped(values, *fields)
        return {f"{name}_avg": self.mean(values), **self.keys(name, grouper, grouped),
                f"{name}_wg": self.worst(grouped, lower_is_better=lower_is_better)}


# How WILDS scores targets other than classes: numbers, tasks, boxes and tokens, by groups of any columns.

def numbers(case: Case, *fields: str) -> Results:
    """Squared error and Pearson's r of all, of every group and of the worst; r of several outputs is their mean."""
    label, predicted = (values if values.ndim > 1 else values[:, None] for values in (case.label, case.predicted))
    case = case._replace(single=np.result_type(label, predicted) != np.float64)
    results = case.standard("mse", squared_errors(label, predicted), *fields, lower_is_better=True)
    grouper = case.grouper(*fields)
    group = case.groups(grouper)
    count = np.bincount(group, minlength=grouper.n_groups)
    if case.quirks and 1 in count:
        raise ShiftBenchError("A group of one item has no correlation. Give more items, or compat=None.")

    def r(groups: Ints, n: int) -> Floats:
        correlations = [pearson_by_group(label[:, at], predicted[:, at], groups, n) for at in range(label.shape[1])]
        return np.asarray(np.mean(correlations, axis=0))

    grouped = r(group, grouper.n_groups)
    judged = count if case.quirks or np.isnan(predicted).any() else np.where(np.isnan(grouped), 0, count)
    case = case._replace(single=False)
    results["r_all"] = case.shown(float(r(np.zeros_like(group), 1)[0]), len(group))
    return results | case.keys("r", grouper, Grouped(grouped, count)) | {"r_wg": case.worst(Grouped(grouped, judged))}


def tasks(case: Case) -> Results:
    """Average precision, mean over the tasks that have a yes and a no. The package makes no groups here."""
    value = precision_items(np.asarray(case.label, np.float64), case.predicted).value
    if case.quirks and math.isnan(value):
        raise ShiftBenchError("There is no task with both a positive and a negative label, so there is no average "
                              "precision. Give more items.")
    return {"ap": value}


def boxes(case: Case, *fields: str) -> Results:
    """Detection accuracy of all images, of every group and of the worst, and the mean over groups that have images."""
    values = detection_accuracy([as_array(image["boxes"]) for image in case.label],
                                [as_array(image["boxes"]) for image in case.predicted],
                                [as_array(image["scores"]) for image in case.predicted])
    _, grouped = case.grouped(values, *fields)
    per_domain = [case.shown(value) for value in grouped.value[grouped.size > 0].tolist()]
    return {**case.standard("detection_acc", values, *fields),
            "detection_acc_avg_dom": float(np.mean(per_domain)) if per_domain else math.nan}


def tokens(case: Case, kind: Ints) -> Results:
    """Share of right tokens: of classes and methods, of all, and of each kind; `kind` is items × places."""
    hits = token_hits(case.label, case.predicted)
    if kind.shape != hits.shape:
        raise ShiftBenchError(f"There are {hits.shape[1]} tokens a row but {kind.shape[1]} columns of kinds. The "
                              "package's metadata is the repository, a kind per token and, last, from_source_domain.")
    labelled = ~np.isnan(hits)
    hits = np.nan_to_num(hits)

    def share(taken: Bools) -> float:
        judged = hits[taken if case.quirks else taken & labelled]
        return case.mean(judged) if len(judged) or not case.quirks else 0

    main = share((kind == 0) | (kind == 1))
    return {"acc": main, "Acc (Class-Method)": main, "Acc (Overall)": share(labelled),
            **{f"Acc ({name})": share(kind == code) for code, name in enumerate(KINDS)}}
