"""A metric that is no class's, measured over all items, by group, and in the worst group."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL
from shiftbench.scoring.estimates import Worst
from shiftbench.scoring.measured import Measured
from shiftbench.scoring.target_estimates import Make

WORST = "worst_group_"


class Part(NamedTuple):
    """The rows of a split, and the group and the domain of each."""

    rows: Ints
    group: Ints
    domain: Ints
    names: tuple[str, ...]  # of groups

    @staticmethod
    def of(benchmark: Benchmark, split: str) -> "Part":
        rows = benchmark.rows(split)
        return Part(rows, benchmark.group[rows], benchmark.domain[rows], benchmark.names["group"])

    def take(self, kept: Ints) -> "Part":
        return self._replace(rows=self.rows[kept], group=self.group[kept], domain=self.domain[kept])


def over_all(
    metric: str, values: Floats, n: int, owner: Sequence[int], level: float | None, make: Make,
    *, lower_is_better: bool = False,
) -> Measured:
    """The metric over all items; NaN where no item has one."""
    if not values.shape[1]:
        values = np.full((len(values), 1), np.nan)
    return Measured(metric, [ALL], np.asarray([n]), make(values, owner, level, None),
                    None if lower_is_better else values)


def grouped(
    part: Part, metric: str, whole: Floats, values: Floats, owner: Sequence[int], level: float | None, make: Make,
    worst: Callable[[Floats, Ints], Worst], *, lower_is_better: bool = False, weight: Ints | None = None,
) -> list[Measured]:
    """The metric of all items, of every group that has a value in every run, and of the worst group.

    `whole` and `values` are contributions, runs × items, to the value of all and to that of the item's group. `weight`
    is what an item counts in n.
    """
    order = np.argsort(part.group, kind="stable")  # items of all metrics lie in one order, to be compared by
    part, whole, values = part.take(order), whole[:, order], values[:, order]
    count = np.ones(len(part.rows), np.int64) if weight is None else weight[order]
    found = [over_all(metric, whole, int(count.sum()), owner, level, make, lower_is_better=lower_is_better)]
    known = np.ones(len(part.names), np.bool_)
    known[part.group[np.isnan(values).any(axis=0)]] = False
    kept = np.flatnonzero(known[part.group])
    if not len(kept):
        return found
    codes, start = np.unique(part.group[kept], return_index=True)
    names, n = [part.names[code] for code in codes], np.add.reduceat(count[kept], start)
    by_group, lowest = make(values[:, kept], owner, level, start), worst(values[:, kept], start)
    lowest = lowest._replace(n=n[lowest.code])
    return [*found, Measured(metric, names, n, by_group),
            Measured(WORST + metric, names, n, lowest.estimate, None if lower_is_better else lowest.items, lowest)]
