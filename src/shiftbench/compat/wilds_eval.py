"""What `eval` of the package wilds 2.0.0 returns, key by key and as text, without the package; `evaluate` for the ten.

The package's behaviour has a name, `compat="wilds-2.0"`, and is the default here, since published numbers are made with
it. `compat=None` gives the same keys with what is right:

- a group without items is NaN with count 0; the package says 0.0, and in CivilComments takes it for the worst group;
- no group, task or token to judge by is NaN; the package says 0 or raises (where it raises, so do we, our own error);
- a region of fMoW is left out if it is called Other, not if its name contains the word;
- a group of one item has no r, and is passed over; the package raises;
- a token without a label is of no kind in Py150; the package counts it as wrong;
- names that differ by a space stay apart, counts are whole numbers, values are 64-bit floats.

Sums of 32-bit floats may differ from the package's in the last digit, since the order of summation does.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.compat.grouper import QUIRKS, Columns, CombinatorialGrouper, as_array
from shiftbench.compat.wilds_metadata import DATASETS
from shiftbench.compat.wilds_metadata import KINDS as TARGETS
from shiftbench.core.arrays import Bools, Floats, Ints, Values
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.groupings import Coded, Grouping, group_by
from shiftbench.readers.wilds.comments import IDENTITIES
from shiftbench.scoring.beyond_classes import (
    KINDS,
    Grouped,
    detection_accuracy,
    group_means,
    pearson_by_group,
    percentile_over_groups,
    precision_items,
    squared_errors,
    token_hits,
)
from shiftbench.scoring.metrics import tally

Results = dict[str, float]
MOST = 60
"""Most groups that a text lists; with more groups it has only the overall values."""
AS_GIVEN = ("number", "tasks", "boxes")
"""Targets whose metrics take a model's outputs as they are: there the package's `eval` takes no prediction_fn."""
REMEDIES = {
    "class": "Give one predicted class per item, or a prediction_fn that does, such as one that takes the argmax.",
    "boxes": 'Give {"boxes", "scores"} of every image.',
}
METRICS = ("detection_acc_", "acc_", "mse_", "r_")


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

    def reported(self, value: float, count: int = 1) -> float:
        """A mean over `count` items as the package reports it."""
        if not self.quirks:
            return float(value)
        return float(np.float32(value) if self.single else value) if count else 0.0

    def mean(self, values: Floats) -> float:
        return self.reported(float(values.mean()) if len(values) else math.nan, len(values))

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
            results[f"{name}_{key}"] = self.reported(value, count)
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
            return self.reported(math.nan, 0)
        return self.reported(float(values.max() if lower_is_better else values.min()))

    def standard(self, name: str, values: Floats, *fields: str, lower_is_better: bool = False) -> Results:
        """Average, every group, worst group."""
        grouper, grouped = self.grouped(values, *fields)
        return {f"{name}_avg": self.mean(values), **self.keys(name, grouper, grouped),
                f"{name}_wg": self.worst(grouped, lower_is_better=lower_is_better)}


# Any benchmark, by its kind of target and by groups of any columns

class Groupings(NamedTuple):
    """Groupings to judge by, besides the columns of a grouper, and the groups that each has in the whole data."""

    fields: Sequence[str]
    names: Mapping[str, Sequence[str]]  # of the numbers in a column
    known: Mapping[str, Sequence[str]] = {}

    def of(self, metadata: Ints, grouping: str, strict: bool = False) -> Grouping:
        """A grouping of rows of metadata; `label` is another word for y."""
        columns = {field: Coded(metadata[:, at], self.names[field])
                   for at, field in enumerate(self.fields) if field in self.names}
        return group_by({"label": columns["y"], **columns}, grouping, strict=strict)


def classes(case: Case, fields: Sequence[str], groupings: Groupings, first: bool) -> tuple[Results, str]:
    """Accuracy of all items, of every group and of the worst; with `first` the worst is that of the first grouping."""
    results = case.standard("acc", case.hits(), *fields)
    grouper = case.grouper(*fields)
    names = [grouper.group_str(group) for group in range(grouper.n_groups)]
    tables = [(names, group_means(case.hits(), case.groups(grouper), grouper.n_groups))]
    for grouping, known in groupings.known.items():
        groups = groupings.of(case.metadata.astype(np.int64), grouping)
        names = list(dict.fromkeys((*known, *groups.names)))
        codes = np.asarray([names.index(name) for name in groups.names], np.int64)
        tables.append((names, group_means(case.hits()[groups.rows], codes[groups.group], len(names))))
        results |= _keys(case, *tables[-1]) | {f"acc_wg[{grouping}]": case.worst(tables[-1][1])}
    names, judged = tables[1 if first else 0]
    results["acc_wg"] = case.worst(judged)
    return results, _classes_text(results, tables, names, None if case.quirks else judged)


def _keys(case: Case, names: Sequence[str], grouped: Grouped) -> Results:
    """`acc_male:1_y:toxic` and `count_male:1_y:toxic` of every group."""
    results: Results = {}
    for name, value, count in zip(names, grouped.value.tolist(), grouped.size.tolist(), strict=True):
        key = name.replace(" = ", ":").replace(", ", "_")
        results |= {f"acc_{key}": case.reported(value, count), f"count_{key}": count}
    return results


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
    results["r_all"] = case.reported(float(r(np.zeros_like(group), 1)[0]), len(group))
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
    per_domain = [case.reported(value) for value in grouped.value[grouped.size > 0].tolist()]
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

    def share(chosen: Bools) -> float:
        judged = hits[chosen if case.quirks else chosen & labelled]
        return case.mean(judged) if len(judged) or not case.quirks else 0

    main = share((kind == 0) | (kind == 1))
    return {"acc": main, "Acc (Class-Method)": main, "Acc (Overall)": share(labelled),
            **{f"Acc ({name})": share(kind == code) for code, name in enumerate(KINDS)}}


# The ten data sets

def evaluate(
    dataset: str,
    y_pred: Any,
    y_true: Any,
    metadata: Any,
    metadata_fields: Sequence[str] | None = None,
    metadata_map: Mapping[str, Sequence[Any]] | None = None,
    *,
    full_metadata: Any = None,
    prediction_fn: Callable[[Any], Any] | None = None,
    split_scheme: str = "official",
    compat: str | None = QUIRKS,
) -> Results:
    """All metrics of one of the ten data sets, in the package's keys and their order.

    `y_pred` and `y_true` are what its `eval` takes: predicted classes; logits and labels with NaN for ogb-molpcba; a
    column of numbers for poverty; rows of tokens for py150; {"boxes", "scores"} and {"boxes"} an image for globalwheat.
    Groups have numbers up to the largest in the whole data, whose metadata `full_metadata` is; without it, the lengths
    of `metadata_map` hold, or published sizes, or the largest value here. `split_scheme` matters to amazon only.
    """
    if dataset not in DATASETS:
        raise unknown("data set", dataset, DATASETS)
    return EVALUATORS[dataset](case_of(
        dataset, y_pred, y_true, metadata, metadata_fields, metadata_map, full_metadata=full_metadata,
        prediction_fn=prediction_fn, split_scheme=split_scheme, compat=compat))


def case_of(
    dataset: str, y_pred: Any, y_true: Any, metadata: Any, metadata_fields: Sequence[str] | None,
    metadata_map: Mapping[str, Sequence[Any]] | None, *, full_metadata: Any, split_scheme: str, compat: str | None,
    prediction_fn: Callable[[Any], Any] | None = None,
) -> Case:
    """The arguments of `evaluate`, checked and as arrays."""
    if compat not in (None, QUIRKS):
        raise unknown("compat", str(compat), [QUIRKS])
    published = DATASETS[dataset]
    names = {**published.names, **(metadata_map or {})}
    rows = as_array(metadata)
    sizes = {**published.sizes, **{field: len(values) for field, values in (metadata_map or {}).items()}}
    kind = TARGETS.get(dataset, "class")
    if prediction_fn is not None:
        if kind in AS_GIVEN:
            raise ShiftBenchError(f"{dataset} is scored on the model's outputs; it takes no prediction_fn.")
        y_pred = prediction_fn(y_pred)
    are_boxes = kind == "boxes"
    whole = Columns(published.fields if metadata_fields is None else metadata_fields,
                    rows if full_metadata is None else as_array(full_metadata), names)
    case = Case(y_pred if are_boxes else as_array(y_pred), y_true if are_boxes else as_array(y_true), rows, whole,
                sizes if full_metadata is None else {}, compat, split_scheme)
    check_fit(dataset, kind, case.predicted, case.label, rows)
    return case


def check_fit(dataset: str, kind: str, predicted: Any, label: Any, metadata: Any) -> None:
    """Refuse predictions, labels and rows of metadata that are not as many, or predictions of another shape."""
    remedy = REMEDIES.get(kind, "Give what the labels are, in their shape.")
    if not len(predicted) == len(label) == len(metadata):
        raise ShiftBenchError(f"{dataset}: {len(predicted)} predictions, {len(label)} labels and {len(metadata)} rows "
                              f"of metadata; there must be as many of each. {remedy}")
    if kind != "boxes" and predicted.shape != label.shape:
        raise ShiftBenchError(f"{dataset}: predictions have the shape {predicted.shape} and labels {label.shape}. "
                              f"{remedy}")


def _iwildcam(case: Case) -> Results:
    counts = tally(case.label.astype(np.int64), case.predicted.astype(np.int64))
    recall, f1 = float(counts.macro_recall[0]), float(counts.macro_f1[0])
    if case.quirks and not len(case.label):
        recall = f1 = 0.0
    return {"acc_avg": case.mean(case.hits()), "recall-macro_all": recall, "F1-macro_all": f1}


def _civilcomments(case: Case) -> Results:
    """Sixteen overlapping groups: who is mentioned × the label; who is not mentioned makes no group."""
    hits = case.hits()
    results: Results = {"acc_avg": case.mean(hits)}
    values, counts = [np.zeros(0)], [np.zeros(0, np.int64)]
    for identity in IDENTITIES:
        grouper, grouped = case.grouped(hits, identity, "y")
        kept = [group for group in range(grouper.n_groups) if grouper.values(group)[identity] == 1]
        all_keys = case.keys("acc", grouper, grouped)
        for key in (f"{metric}_{grouper.group_field_str(group)}" for group in kept for metric in ("acc", "count")):
            results[key] = all_keys[key]
        values.append(grouped.value[kept])
        counts.append(grouped.size[kept])
    sixteen = Grouped(np.concatenate(values), np.concatenate(counts))
    if case.quirks:  # here alone the package takes an empty group for one that is always wrong
        sixteen = Grouped(np.nan_to_num(sixteen.value), np.ones_like(sixteen.size))
    return results | {"acc_wg": case.worst(sixteen)}


def _fmow(case: Case) -> Results:
    results = case.standard("acc", case.hits(), "year")
    results["acc_worst_year"] = results.pop("acc_wg")
    grouper, grouped = case.grouped(case.hits(), "region")
    regions = [str(grouper.values(group)["region"]) for group in range(grouper.n_groups)]
    judged = np.asarray(["Other" not in region if case.quirks else region != "Other" for region in regions], np.bool_)
    worst = case.worst(Grouped(grouped.value[judged], grouped.size[judged]))
    return results | case.keys("acc", grouper, grouped) | {"acc_worst_region": worst}


def _amazon(case: Case) -> Results:
    if case.split_scheme not in ("official", "user"):
        by_year = case.split_scheme in ("time", "time_baseline")
        by_category = case.split_scheme == "category_subpopulation" or case.split_scheme.endswith("_generalization")
        return case.standard("acc", case.hits(), "year" if by_year else "category" if by_category else "user")
    results = case.standard("acc", case.hits(), "user")
    _, users = case.grouped(case.hits(), "user")
    if case.quirks and not users.size.any():
        raise ShiftBenchError("amazon: no reviews, so no user has an accuracy. Give some, or compat=None.")
    results["10th_percentile_acc"] = percentile_over_groups(
        np.asarray([case.reported(value) for value in users.value[users.size > 0].tolist()], np.float64))
    return {"acc_avg": results.pop("acc_avg"), "acc_wg": results.pop("acc_wg"), **results}


def _py150(case: Case) -> Results:
    """The package takes every column but the first and the last for kinds; here there are as many as tokens."""
    return tokens(case, case.metadata[:, 1:-1] if case.quirks else case.metadata[:, 1:1 + case.label.shape[1]])


EVALUATORS: Mapping[str, Callable[[Case], Results]] = {
    "amazon": _amazon,
    "camelyon17": lambda case: case.standard("acc", case.hits(), "slide"),
    "civilcomments": _civilcomments,
    "fmow": _fmow,
    "globalwheat": lambda case: boxes(case, "session"),
    "iwildcam": _iwildcam,
    "ogb-molpcba": tasks,
    "poverty": lambda case: numbers(case, "urban"),
    "py150": _py150,
    "rxrx1": lambda case: case.standard("acc", case.hits(), "cell_type"),
}


# The results as text

def results_text(results: Results) -> str:
    """Every value on a line, with its count where it is a group's; a group without items is skipped.

    >>> print(results_text({"ap": 0.25, "r_all": 0.5, "r_urban:0": 0.75, "count_urban:0": 4}), end="")
    ap: 0.250
    r_all: 0.500
    r_urban:0: 0.750  [n =      4]
    """
    lines, groups = [], sum(key.startswith("count_") for key in results)
    for key, value in results.items():
        if key.startswith("count_"):
            continue
        counts = (f"count_{key.removeprefix(metric)}" for metric in METRICS if key.startswith(metric))
        count = next((results[other] for other in counts if other in results), None)
        if count is None:
            lines.append(f"{key}: {value:.3f}")
        elif count and groups <= MOST:
            lines.append(f"{key}: {value:.3f}  [n = {count:6.0f}]")
    return "\n".join([*lines, ""])


def package_text(dataset: str, case: Case, results: Results) -> str:
    """The results of one of WILDS' ten as the package prints them: a few lines, or a line for each group."""
    lines: dict[str, str] = {}
    if dataset == "amazon" and "10th_percentile_acc" in results:
        lines = {"Average acc": "acc_avg", "10th percentile acc": "10th_percentile_acc", "Worst-group acc": "acc_wg"}
    elif dataset == "iwildcam":
        lines = {"Average acc": "acc_avg", "Recall macro": "recall-macro_all", "F1 macro": "F1-macro_all"}
    elif dataset == "ogb-molpcba":
        lines = {"Average precision": "ap"}
    elif dataset == "py150":
        lines = {key: key for key in ("Acc (Class-Method)", "Acc (Overall)", *(f"Acc ({kind})" for kind in KINDS))}
    if lines:
        return "".join(f"{title}: {results[key]:.3f}\n" for title, key in lines.items())
    if dataset == "civilcomments":
        return _identities(results)
    if dataset == "poverty":
        return _standard(case, results, "mse", "urban", "mse_avg") + _standard(case, results, "r", "urban", "r_all")
    if dataset == "globalwheat":
        return (f"Average detection_acc across session: {results['detection_acc_avg_dom']:.3f}\n"
                + _standard(case, results, "detection_acc", "session", "detection_acc_avg"))
    if dataset == "fmow":
        return (_standard(case, results, "acc", "year", "acc_avg", "acc_worst_year")
                + _groups(case, results, "acc", "region", skipping="Other")
                + f"Worst-group acc: {results['acc_worst_region']:.3f}\n")
    field = {"camelyon17": "slide", "rxrx1": "cell_type"}.get(dataset, "")
    field = field or next(name for name in ("user", "category", "year") if any(
        key.startswith(f"count_{name}:") for key in results))
    return _standard(case, results, "acc", field, "acc_avg")


def _standard(case: Case, results: Results, name: str, field: str, average: str, worst: str = "") -> str:
    return (f"Average {name}: {results[average]:.3f}\n" + _groups(case, results, name, field)
            + f"Worst-group {name}: {results[worst or f'{name}_wg']:.3f}\n")


def _groups(case: Case, results: Results, name: str, field: str, skipping: str | None = None) -> str:
    """A line for every group that has items."""
    grouper, text = case.grouper(field), ""
    for group in range(grouper.n_groups):
        key = grouper.group_field_str(group)
        if results[f"count_{key}"] and (skipping is None or skipping not in key):
            text += (f"  {grouper.group_str(group)}  [n = {results[f'count_{key}']:6.0f}]:\t"
                     f"{name} = {results[f'{name}_{key}']:5.3f}\n")
    return text


def _identities(results: Results) -> str:
    """CivilComments: a line for each identity, with its two groups where the whole data has them."""
    text = f"Average acc: {results['acc_avg']:.3f}\n"
    for identity in IDENTITIES:
        text += f"  {identity:20s}"
        for y, title in enumerate(("non_toxic", "toxic")):
            key = f"y:{y}_{identity}:1"
            if f"acc_{key}" in results:
                text += f"   acc on {title}: {results[f'acc_{key}']:.3f} (n = {results[f'count_{key}']:6.0f}) "
        text += "\n"
    return text + f"Worst-group acc: {results['acc_wg']:.3f}\n"


def _classes_text(
    results: Results, tables: Sequence[tuple[Sequence[str], Grouped]], judged: Sequence[str], worst: Grouped | None
) -> str:
    """Every group that has items, with its count, and last the worst group, if asked for."""
    lines = [f"Average acc: {results['acc_avg']:.3f}"]
    for names, grouped in tables:
        lines += [f"  {names[group]}  [n = {grouped.size[group]:6.0f}]:\tacc = {grouped.value[group]:5.3f}"
                  for group in np.flatnonzero(grouped.size).tolist()]
    if worst is not None and worst.size.any():
        lowest = int(np.nanargmin(worst.value))
        lines.append(f"Worst group: {judged[lowest]}  [n = {worst.size[lowest]:6.0f}]")
    return "\n".join([*lines, f"Worst-group acc: {results['acc_wg']:.3f}", ""])
