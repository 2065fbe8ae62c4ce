"""Targets that are numbers: Pearson's r and the squared error, over all items and group by group."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints
from shiftbench.scoring.estimates import loss, worst_loss
from shiftbench.scoring.measured import Measured
from shiftbench.scoring.metrics.correlation import pearson_by_group
from shiftbench.scoring.metrics.groups import group_means
from shiftbench.scoring.target_estimates import correlation, worst_of
from shiftbench.scoring.target_measures import Part, grouped

Reals = npt.NDArray[np.floating]


def measure_numbers(
    part: Part, truth: Reals, predicted: Sequence[Reals], owner: Sequence[int], level: float | None
) -> list[Measured]:
    """`r` and `mse` of all and of every group, and the worst of each; truth and predictions are items × outputs.

    With several outputs both are means over them. NaN in the truth is no label; an item without any is left out. A
    group in which r is not defined (one item, or nothing that varies) has none, and is not the worst.
    """
    kept = np.flatnonzero(~np.isnan(truth).all(axis=1))
    part, truth, predicted = part.take(kept), truth[kept], [np.asarray(one, np.float64)[kept] for one in predicted]
    whole = np.zeros(len(kept), np.int64)
    errors = np.stack([np.nanmean((truth - one) ** 2, axis=1, dtype=np.float64) for one in predicted])
    return [
        *grouped(part, "r", np.stack([r_items(truth, one, whole) for one in predicted]),
                 np.stack([r_items(truth, one, part.group) for one in predicted]), owner, level, correlation,
                 partial(worst_of, owner=owner, level=level, make=correlation, fisher=True)),
        *grouped(part, "mse", errors, errors, owner, level, loss,
                 partial(worst_loss, owner=owner, level=level), lower_is_better=True),
    ]


def r_items(truth: Reals, predicted: Reals, group: Ints) -> Floats:
    """What each item contributes to r of its group; the mean over the group is r. Outputs are averaged.

        c_i = r + u v − r (u² + v²) / 2,    u, v the two numbers, less their means and over their standard deviations

    An item without a label contributes r to that output; those that have one n / n_labelled as much.
    """
    made = np.zeros(len(truth))
    for column in range(truth.shape[1]):
        has = ~np.isnan(truth[:, column])
        made += _r_items(truth[:, column], predicted[:, column], group, has)
    return np.asarray(made / truth.shape[1])


def _r_items(truth: Reals, predicted: Reals, group: Ints, has: npt.NDArray[np.bool_]) -> Floats:
    many = int(group.max(initial=-1)) + 1
    mine = group[has]
    r = pearson_by_group(truth[has], predicted[has], mine, many)
    u, v = (_standard(values[has], mine, many) for values in (truth, predicted))
    made = r[group]
    share = np.bincount(group, minlength=many) / np.maximum(np.bincount(mine, minlength=many), 1)
    made[has] += share[mine] * (u * v - r[mine] * (u * u + v * v) / 2)
    return made


def _standard(values: Reals, group: Ints, many: int) -> Floats:
    apart = values - group_means(np.asarray(values, np.float64), group, many).value[group]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(apart / np.sqrt(group_means(apart**2, group, many).value)[group])
