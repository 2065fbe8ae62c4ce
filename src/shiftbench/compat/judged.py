"""What `eval` of a WILDS data set says: keys and values of classes by group, and any results as a text."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.compat.wilds_case import Case, Results
from shiftbench.core.arrays import Ints
from shiftbench.data.groupings import Coded, Grouping, group_by
from shiftbench.scoring.metrics.groups import Grouped, group_means

MOST = 60
"""Groups that a text lists; of more it tells only what is over all."""
METRICS = ("detection_acc_", "acc_", "mse_", "r_")


class Groupings(NamedTuple):
    """Groupings to judge by, besides the columns of a grouper, and the groups that each has in the whole data."""

    fields: Sequence[str]
    names: Mapping[str, Sequence[str]]  # of the numbers in a column
    known: Mapping[str, Sequence[str]] = {}

    def of(self, metadata: Ints, said: str, strict: bool = False) -> Grouping:
        """A grouping of rows of metadata; `label` is another word for y."""
        columns = {field: Coded(metadata[:, at], self.names[field])
                   for at, field in enumerate(self.fields) if field in self.names}
        return group_by({"label": columns["y"], **columns}, said, strict=strict)


def classes(case: Case, fields: Sequence[str], groupings: Groupings, first: bool) -> tuple[Results, str]:
    """Accuracy of all items, of every group and of the worst; with `first` the worst is that of the first grouping."""
    found = case.standard("acc", case.hits(), *fields)
    grouper = case.grouper(*fields)
    names = [grouper.group_str(group) for group in range(grouper.n_groups)]
    tables = [(names, group_means(case.hits(), case.groups(grouper), grouper.n_groups))]
    for said, known in groupings.known.items():
        part = groupings.of(case.metadata.astype(np.int64), said)
        names = list(dict.fromkeys((*known, *part.names)))
        place = np.asarray([names.index(name) for name in part.names], np.int64)
        tables.append((names, group_means(case.hits()[part.rows], place[part.group], len(names))))
        found |= _keys(case, *tables[-1]) | {f"acc_wg[{said}]": case.worst(tables[-1][1])}
    names, judged = tables[1 if first else 0]
    found["acc_wg"] = case.worst(judged)
    return found, _told(found, tables, names, None if case.quirks else judged)


def told(found: Results) -> str:
    """Every value on a line, with its count where it is a group's; a group without items is passed over.

    >>> print(told({"ap": 0.25, "r_all": 0.5, "r_urban:0": 0.75, "count_urban:0": 4}), end="")
    ap: 0.250
    r_all: 0.500
    r_urban:0: 0.750  [n =      4]
    """
    lines, groups = [], sum(key.startswith("count_") for key in found)
    for key, value in found.items():
        if key.startswith("count_"):
            continue
        count = next((found[other] for other in _counts(key) if other in found), None)
        if count is None:
            lines.append(f"{key}: {value:.3f}")
        elif count and groups <= MOST:
            lines.append(f"{key}: {value:.3f}  [n = {count:6.0f}]")
    return "\n".join([*lines, ""])


def _counts(key: str) -> list[str]:
    """Keys that may have the count of the group that a key is about."""
    return [f"count_{key.removeprefix(metric)}" for metric in METRICS if key.startswith(metric)]


def _keys(case: Case, names: Sequence[str], grouped: Grouped) -> Results:
    """`acc_male:1_y:toxic` and `count_male:1_y:toxic` of every group."""
    found: Results = {}
    for name, value, count in zip(names, grouped.value.tolist(), grouped.size.tolist(), strict=True):
        key = name.replace(" = ", ":").replace(", ", "_")
        found |= {f"acc_{key}": case.shown(value, count), f"count_{key}": count}
    return found


def _told(
    found: Results, tables: Sequence[tuple[Sequence[str], Grouped]], judged: Sequence[str], worst: Grouped | None
) -> str:
    """Every group that has items, with its count, and last which is the worst, where that is asked for."""
    lines = [f"Average acc: {found['acc_avg']:.3f}"]
    for names, grouped in tables:
        lines += [f"  {names[group]}  [n = {grouped.size[group]:6.0f}]:\tacc = {grouped.value[group]:5.3f}"
                  for group in np.flatnonzero(grouped.size).tolist()]
    if worst is not None and worst.size.any():
        lowest = int(np.nanargmin(worst.value))
        lines.append(f"Worst group: {judged[lowest]}  [n = {worst.size[lowest]:6.0f}]")
    return "\n".join([*lines, f"Worst-group acc: {found['acc_wg']:.3f}", ""])
