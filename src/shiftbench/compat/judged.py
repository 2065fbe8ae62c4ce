"""The results of `eval` of a WILDS data set: keys and values of classes by group, and any results as text."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.compat.wilds_eval import Case, Results
from shiftbench.core.arrays import Ints
from shiftbench.data.groupings import Coded, Grouping, group_by
from shiftbench.readers.wilds.comments import IDENTITIES
from shiftbench.scoring.metrics.beyond_classes import KINDS
from shiftbench.scoring.metrics.classification import Grouped, group_means

MOST = 60
"""Most groups that a text lists; with more groups it has only the overall values."""
METRICS = ("detection_acc_", "acc_", "mse_", "r_")


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
    return results, _told(results, tables, names, None if case.quirks else judged)


def told(results: Results) -> str:
    """Every value on a line, with its count where it is a group's; a group without items is skipped.

    >>> print(told({"ap": 0.25, "r_all": 0.5, "r_urban:0": 0.75, "count_urban:0": 4}), end="")
    ap: 0.250
    r_all: 0.500
    r_urban:0: 0.750  [n =      4]
    """
    lines, groups = [], sum(key.startswith("count_") for key in results)
    for key, value in results.items():
        if key.startswith("count_"):
            continue
        count = next((results[other] for other in _counts(key) if other in results), None)
        if count is None:
            lines.append(f"{key}: {value:.3f}")
        elif count and groups <= MOST:
            lines.append(f"{key}: {value:.3f}  [n = {count:6.0f}]")
    return "\n".join([*lines, ""])


def package_text(dataset: str, case: Case, results: Results) -> str:
    """The results of one of WILDS' ten as the package prints them."""
    if dataset == "amazon" and "10th_percentile_acc" in results:
        lines = {"Average acc": "acc_avg", "10th percentile acc": "10th_percentile_acc", "Worst-group acc": "acc_wg"}
    elif dataset == "iwildcam":
        lines = {"Average acc": "acc_avg", "Recall macro": "recall-macro_all", "F1 macro": "F1-macro_all"}
    elif dataset == "ogb-molpcba":
        lines = {"Average precision": "ap"}
    elif dataset == "py150":
        lines = {key: key for key in ("Acc (Class-Method)", "Acc (Overall)", *(f"Acc ({kind})" for kind in KINDS))}
    else:
        return _by_group(dataset, case, results)
    return "".join(f"{words}: {results[key]:.3f}\n" for words, key in lines.items())


def _by_group(dataset: str, case: Case, results: Results) -> str:
    """The text of a data set whose groups are printed."""
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
        for y, words in enumerate(("non_toxic", "toxic")):
            key = f"y:{y}_{identity}:1"
            if f"acc_{key}" in results:
                text += f"   acc on {words}: {results[f'acc_{key}']:.3f} (n = {results[f'count_{key}']:6.0f}) "
        text += "\n"
    return text + f"Worst-group acc: {results['acc_wg']:.3f}\n"


def _counts(key: str) -> list[str]:
    """Keys that may have the count of the group that a key is about."""
    return [f"count_{key.removeprefix(metric)}" for metric in METRICS if key.startswith(metric)]


def _keys(case: Case, names: Sequence[str], grouped: Grouped) -> Results:
    """`acc_male:1_y:toxic` and `count_male:1_y:toxic` of every group."""
    results: Results = {}
    for name, value, count in zip(names, grouped.value.tolist(), grouped.size.tolist(), strict=True):
        key = name.replace(" = ", ":").replace(", ", "_")
        results |= {f"acc_{key}": case.shown(value, count), f"count_{key}": count}
    return results


def _told(
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
