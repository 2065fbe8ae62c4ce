"""What was measured on a split, before it is written as rows: a metric of all items, of each group, or of the worst."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.data.scores import ALL
from shiftbench.scoring.estimates import Estimate, Worst

CORRECTED = "_corrected"
"""How the metric ends that is a worst group without the bias of a minimum."""


class Measured(NamedTuple):
    """A metric with one value per group and method, or, with `worst`, of each method's worst group.

    `items` are the contributions by which methods are compared where higher is better, runs × items. With `start` they
    lie group by group, and methods are compared in each group.
    """

    metric: str
    groups: Sequence[str]
    n: Ints
    estimate: Estimate
    items: Bools | Floats | None = None
    worst: Worst | None = None
    start: Ints | None = None
    of: int = 0  # items of the comparison; 0: the sum of `n`

    @property
    def is_whole(self) -> bool:
        """Whether it is one number of a run: over all items, or of the worst group."""
        return self.worst is not None or list(self.groups) == [ALL]


def corrected(lowest: Measured) -> Measured:
    """The same worst group without the downward bias of a minimum; methods are not compared by it."""
    assert lowest.worst is not None
    centred = lowest.estimate._replace(value=lowest.estimate.centre)
    return lowest._replace(metric=lowest.metric + CORRECTED, estimate=centred, items=None,
                           worst=lowest.worst._replace(estimate=centred))


def values_of(measured: Iterable[Measured]) -> dict[str, float]:
    """The numbers of a single run by metric, over all items or of the worst group; NaN where one is not defined."""
    return {one.metric: float(one.estimate.value[0, 0]) for one in measured if one.is_whole}
