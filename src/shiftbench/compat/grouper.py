"""WILDS' CombinatorialGrouper: groups from columns of numbers, its ids, and names that are right."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError, unknown

QUIRKS = "wilds-2.0"
"""The value of `compat` that asks for the package's behaviour, defects included."""


class Columns(NamedTuple):
    """What a grouper reads of a data set: names of columns, the whole array, and names of values."""

    metadata_fields: Sequence[str]
    metadata_array: Any
    metadata_map: Mapping[str, Sequence[Any]] | None = None


class CombinatorialGrouper:
    """Every combination of the values of some columns is a group.

    With columns 1..k in the order of `metadata_fields` (not of `groupby_fields`), values v and sizes
    c = 1 + the largest value in the whole data:

        group = Σ_i v_i Π_{j<i} c_j,    so that the first column varies fastest.

    Combinations without items keep their number. A name lists the last column first: "y = 1, male = 0". Groups are
    numpy arrays for numpy arrays, and tensors on the same device for tensors.

    `compat="wilds-2.0"` keeps the defects: names follow the order of `groupby_fields` while numbers follow that of the
    columns, so that fields in another order give wrong names; and a value that the whole data lacks falls on another
    group or behind the last one, where here it raises.
    """

    def __init__(
        self,
        dataset: Any,
        groupby_fields: Sequence[str] | None,
        *,
        compat: str | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """Group one data set, or several that have the same columns."""
        # a NamedTuple is a sequence too, so what has fields is a data set
        datasets: list[Any] = [dataset] if hasattr(dataset, "metadata_fields") else list(dataset)
        if compat not in (None, QUIRKS):
            raise unknown("compat", str(compat), [QUIRKS])
        self.quirks = compat == QUIRKS
        self.groupby_fields = groupby_fields if groupby_fields is None else list(groupby_fields)
        self.metadata_map: Mapping[str, Sequence[Any]] = _largest_maps(datasets)
        fields = list(datasets[0].metadata_fields)
        for other in datasets[1:]:
            if list(other.metadata_fields) != fields:
                raise ShiftBenchError(f"Data sets that are grouped together need the same columns; one has "
                                      f"{', '.join(fields)}, another {', '.join(other.metadata_fields)}.")
        for field in self.groupby_fields or ():
            if field not in fields:
                raise unknown("column", field, fields, "groupby_fields")
        self._index = [column for column, field in enumerate(fields) if field in (self.groupby_fields or ())]
        if self.groupby_fields is not None and len(self._index) != len(self.groupby_fields):
            raise ShiftBenchError(f"groupby_fields names a column twice: {', '.join(self.groupby_fields)}.")
        self._fields = [fields[column] for column in self._index]
        columns = [as_array(dataset.metadata_array)[:, self._index] for dataset in datasets]
        values = np.concatenate(columns).astype(np.int64)
        for field, low in zip(self._fields, values.min(axis=0, initial=0).tolist(), strict=True):
            if low < 0:
                raise ShiftBenchError(f"Column '{field}' has the value {low}; groups are made of numbers from 0 on.")
        seen = 1 + values.max(axis=0, initial=0)
        self.cardinality: Ints = np.asarray(
            [max(int(top), (sizes or {}).get(field, 0)) for field, top in zip(self._fields, seen, strict=True)],
            np.int64)
        self._factor = np.cumprod(np.append(1, self.cardinality))[:-1]

    @property
    def n_groups(self) -> int:
        return int(np.prod(self.cardinality, initial=1))

    def metadata_to_group(self, metadata: Any, return_counts: bool = False) -> Any:
        """The group of every row, and with `return_counts` the rows of every group."""
        values = as_array(metadata)[:, self._index].astype(np.int64)
        if not self.quirks and len(values):
            for field, low, top, size in zip(
                    self._fields, values.min(axis=0), values.max(axis=0), self.cardinality, strict=True):
                if low < 0 or top >= size:
                    raise ShiftBenchError(f"Column '{field}' has the value {low if low < 0 else top}, but in the whole "
                                          f"data it goes from 0 to {size - 1}. Build the grouper on the whole data.")
        group = values @ self._factor
        if not return_counts:
            return _like(metadata, group)
        if len(group) and int(group.max()) >= self.n_groups:
            raise ShiftBenchError(f"A row falls on group {int(group.max())} of {self.n_groups}. Build the grouper on "
                                  "the whole data.")
        counts = _like(metadata, np.bincount(group, minlength=self.n_groups))
        return _like(metadata, group), counts.float() if hasattr(counts, "float") else counts

    def values(self, group: int) -> dict[str, Any]:
        """What the columns are in a group, the last one first."""
        digits = (group // self._factor) % self.cardinality
        if self._fields:
            digits[-1] = group // self._factor[-1]  # a number behind the last group keeps its own name
        fields = self.groupby_fields if self.quirks and self.groupby_fields else self._fields
        last_first = reversed(list(zip(fields, digits.tolist(), strict=True)))
        return {field: self._name(field, digit) for field, digit in last_first}

    def _name(self, field: str, digit: int) -> Any:
        if field not in self.metadata_map:
            return digit
        if digit >= len(self.metadata_map[field]) and not self.quirks:
            raise ShiftBenchError(f"Column '{field}' has the value {digit}, but metadata_map names only "
                                  f"{len(self.metadata_map[field])} values, from 0 on.")
        return self.metadata_map[field][digit]

    def group_str(self, group: int) -> str:
        """"country = Mali, time = 3", or "all" where nothing is grouped by."""
        return ", ".join(f"{field} = {value}" for field, value in self.values(int(group)).items()) or "all"

    def group_field_str(self, group: int) -> str:
        """The name in a key: "country:Mali_time:3".

        With quirks every space is dropped and every = and , of a value replaced, so two names may become the same.
        """
        if self.quirks:
            return self.group_str(group).replace("=", ":").replace(",", "_").replace(" ", "")
        return "_".join(f"{field}:{value}" for field, value in self.values(int(group)).items()) or "all"


def as_array(values: Any) -> npt.NDArray[Any]:
    """An array, a list or a tensor (recognised by its `detach`) as a numpy array."""
    return np.asarray(values.detach().cpu().numpy() if hasattr(values, "detach") else values)


def _like(model: Any, values: Ints) -> Any:
    """Whole numbers on the model's device; in its own type, 32-bit floats, large ids would lose digits."""
    return model[:0].long().new_tensor(values) if hasattr(model, "new_tensor") else values


def _largest_maps(whole: Sequence[Any]) -> dict[str, Sequence[Any]]:
    largest: dict[str, Sequence[Any]] = {}
    for dataset in whole:
        for field, names in (dataset.metadata_map or {}).items():
            before = largest.get(field, names)
            shared = min(len(before), len(names))
            if list(before[:shared]) != list(names[:shared]):
                raise ShiftBenchError(f"The data sets give the numbers of column '{field}' different meanings.")
            largest[field] = max(before, names, key=len)
    return largest
