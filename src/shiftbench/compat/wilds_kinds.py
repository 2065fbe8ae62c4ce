"""How WILDS judges what is no class: numbers, tasks, boxes and tokens; groups are those of any columns."""

import math

import numpy as np

from shiftbench.arrays import Bools, Floats, Ints
from shiftbench.compat.grouper import as_array
from shiftbench.compat.wilds_case import Case, Results
from shiftbench.errors import ShiftBenchError
from shiftbench.metrics.average_precision import mean_average_precision
from shiftbench.metrics.correlation import pearson_by_group, squared_errors
from shiftbench.metrics.detection import detection_accuracy
from shiftbench.metrics.groups import Grouped
from shiftbench.metrics.tokens import KINDS, token_hits


def numbers(case: Case, *fields: str) -> Results:
    """Squared error and Pearson's r of all, of every group and of the worst; r of several outputs is their mean."""
    label, predicted = (values if values.ndim > 1 else values[:, None] for values in (case.label, case.predicted))
    case = case._replace(single=np.result_type(label, predicted) != np.float64)
    found = case.standard("mse", squared_errors(label, predicted), *fields, lower_is_better=True)
    grouper = case.grouper(*fields)
    group = case.groups(grouper)
    count = np.bincount(group, minlength=grouper.n_groups)
    if case.quirks and 1 in count:
        raise ShiftBenchError("A group of one item has no correlation. Give more items, or compat=None.")

    def r(groups: Ints, n: int) -> Floats:
        each = [pearson_by_group(label[:, at], predicted[:, at], groups, n) for at in range(label.shape[1])]
        return np.asarray(np.mean(each, axis=0))

    grouped = r(group, grouper.n_groups)
    judged = count if case.quirks or np.isnan(predicted).any() else np.where(np.isnan(grouped), 0, count)
    case = case._replace(single=False)
    found["r_all"] = case.shown(float(r(np.zeros_like(group), 1)[0]), len(group))
    return found | case.keys("r", grouper, Grouped(grouped, count)) | {"r_wg": case.worst(Grouped(grouped, judged))}


def tasks(case: Case) -> Results:
    """Average precision, mean over the tasks that have a yes and a no. The package makes no groups here."""
    value = mean_average_precision(np.asarray(case.label, np.float64), case.predicted)
    if case.quirks and math.isnan(value):
        raise ShiftBenchError("There is no task with both a positive and a negative label, so there is no average "
                              "precision. Give more items.")
    return {"ap": value}


def boxes(case: Case, *fields: str) -> Results:
    """Detection accuracy of all images, of every group and of the worst, and the mean over groups that have images."""
    values = detection_accuracy([as_array(one["boxes"]) for one in case.label],
                                [as_array(one["boxes"]) for one in case.predicted],
                                [as_array(one["scores"]) for one in case.predicted])
    _, grouped = case.grouped(values, *fields)
    each = [case.shown(value) for value in grouped.value[grouped.size > 0].tolist()]
    return {**case.standard("detection_acc", values, *fields),
            "detection_acc_avg_dom": float(np.mean(each)) if each else math.nan}


def tokens(case: Case, kind: Ints) -> Results:
    """Share of right tokens: of classes and methods, of all, and of each kind; `kind` is items × places."""
    hits = token_hits(case.label, case.predicted)
    if kind.shape != hits.shape:
        raise ShiftBenchError(f"There are {hits.shape[1]} tokens a row but {kind.shape[1]} columns of kinds. The "
                              "package's metadata is the repository, a kind per token and, last, from_source_domain.")
    labelled = ~np.isnan(hits)
    hits = np.nan_to_num(hits)

    def share(taken: Bools) -> float:
        mine = hits[taken if case.quirks else taken & labelled]
        return case.mean(mine) if len(mine) or not case.quirks else 0

    main = share((kind == 0) | (kind == 1))
    return {"acc": main, "Acc (Class-Method)": main, "Acc (Overall)": share(labelled),
            **{f"Acc ({name})": share(kind == code) for code, name in enumerate(KINDS)}}
