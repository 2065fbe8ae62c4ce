"""One call of the evaluation: its arrays, and the parts that most data sets share."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from shiftbench.arrays import Floats, Ints, Values
from shiftbench.compat.grouper import Columns, CombinatorialGrouper
from shiftbench.errors import ShiftBenchError
from shiftbench.metrics.groups import Grouped, group_means

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
        """The group of every item; asking for counts makes sure that there is such a group."""
        return np.asarray(grouper.metadata_to_group(self.metadata, return_counts=True)[0])

    def grouped(self, values: Floats, *fields: str) -> tuple[CombinatorialGrouper, Grouped]:
        grouper = self.grouper(*fields)
        return grouper, group_means(values, self.groups(grouper), grouper.n_groups)

    def keys(self, name: str, grouper: CombinatorialGrouper, grouped: Grouped) -> Results:
        """`name_field:value` and `count_field:value` of every group."""
        found: Results = {}
        for group, (value, count) in enumerate(zip(grouped.value.tolist(), grouped.size.tolist(), strict=True)):
            key = grouper.group_field_str(group)
            found[f"{name}_{key}"] = self.shown(value, count)
            found[f"count_{key}"] = float(count) if self.quirks else count
        return found

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
