"""Accuracy of the next token by what kind of token it is; the metric of Py150.

The headline pools the tokens of two kinds, names of classes and of methods. A token whose label is NaN is masked: it is
of no kind. Tokens count alike, whichever snippet they stand in.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints
from shiftbench.scoring.metrics.groups import Grouped, group_means

Numbers = npt.NDArray[np.number]
KINDS = ("class", "method", "punctuation", "keyword", "builtin", "literal", "other_identifier")
"""Py150's kinds of token, in the order of their codes."""


def token_hits(label: Numbers, predicted: Numbers) -> Floats:
    """1 where the token is right, 0 where it is wrong, NaN where there is no label."""
    return np.where(np.isnan(label), np.nan, label == predicted)


def token_accuracy(
    label: Numbers, predicted: Numbers, kind: Ints | None = None, kinds: Collection[int] = (0, 1)
) -> float:
    """Share of right tokens among the labelled ones of these kinds, or among all; NaN where there is none.

    >>> token_accuracy(np.array([[5.0, 6.0, np.nan]]), np.array([[5, 7, 8]]), np.array([[0, 2, 1]]))
    1.0
    """
    return float(token_accuracy_by_group(label, predicted, np.zeros(len(label), np.int64), 1, kind, kinds).value[0])


def token_accuracy_by_group(
    label: Numbers,
    predicted: Numbers,
    group: Ints,
    n_groups: int,
    kind: Ints | None = None,
    kinds: Collection[int] = (0, 1),
) -> Grouped:
    """The same within each group of snippets; `group[i]` is the group of row i. Counts are of tokens."""
    hits = token_hits(label, predicted)
    if kind is not None:
        hits = np.where(np.isin(kind, list(kinds)), hits, np.nan)
    row, column = np.nonzero(~np.isnan(hits))
    return group_means(hits[row, column], group[row], n_groups)
