"""The metadata of a benchmark as WILDS has it: one column of numbers per name, and what the numbers stand for."""

from typing import NamedTuple

import numpy as np

from shiftbench.compat.items import next_kinds
from shiftbench.core.arrays import Floats, Ints, Values, encode
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection

SOURCE = ("train", "id_val", "id_test")
"""The splits that are drawn before the shift: their rows have from_source_domain = 1."""
Y, FROM = "y", "from_source_domain"
"""The last two columns, as the package has them."""


class Column(NamedTuple):
    """A number per row; names of those that are codes."""

    values: Ints | Floats
    names: tuple[str, ...] | None = None


def kind_column(place: int) -> str:
    """The column that has the kind of the next token at a place.

    >>> kind_column(0)
    'tok_0_type'
    """
    return f"tok_{place}_type"


def columns(benchmark: Benchmark, collection: Collection, item: Ints) -> dict[str, Column]:
    """Domain, group, further columns and factors that are no fractions, y, from_source_domain.

    A name that is taken already keeps its first meaning. y is the class, or a target that is one number; with other
    targets there is none, and with tokens the kinds of the next tokens stand in its place, as in Py150.
    """
    target = benchmark.target
    found = {name: Column(getattr(benchmark, name), benchmark.names[name]) for name in ("domain", "group")}
    more: dict[str, Values] = {**{name: values[item] for name, values in collection.factors.items()}, **benchmark.extra}
    found |= {name: Column(*encode(values)) for name, values in more.items()
              if name not in (*found, Y, FROM, *target.columns) and np.asarray(values).dtype.kind in "Ubiu"}
    if target.has_classes:
        found[Y] = Column(benchmark.label, benchmark.names["label"])
    elif target.in_units and len(target.columns) == 1:
        found[Y] = Column(np.asarray(benchmark.extra[target.columns[0]], np.float64))
    elif target.per_place:
        kinds = next_kinds(benchmark)
        found |= {kind_column(place): Column(kinds[:, place]) for place in range(kinds.shape[1])}
    source = np.isin(benchmark.split, SOURCE).astype(np.int64)
    return found | {FROM: Column(source, ("False", "True"))}
