"""Accuracy of the next token by what kind of token it is; the metric of Py150.

The headline pools the tokens of two kinds, names of classes and of methods. A token without a label is masked: it is of
no kind. Tokens count alike, whichever snippet they stand in.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.target import NO_LABEL, TOKENS, kinds_of, tokens_of

Numbers = npt.NDArray[np.number]
KINDS = ("class", "method", "punctuation", "keyword", "builtin", "literal", "other_identifier")
"""Py150's kinds of token, in the order of their codes."""
HEADLINE = (0, 1)
"""Names of classes and of methods."""


class Places(NamedTuple):
    """The next token at every place and its kind, items × places; NO_LABEL where there is none or it is masked."""

    label: Ints
    kind: Ints
    kinds: bool = True  # whether tokens have a kind; else all count

    @staticmethod
    def of(tokens: Strs, kinds: Strs | None) -> "Places":
        label = tokens_of(tokens)[:, 1:]
        if kinds is None:
            return Places(label, np.where(label == NO_LABEL, NO_LABEL, HEADLINE[0]), kinds=False)
        width = label.shape[1]
        kind = np.full(label.shape, NO_LABEL)
        known = kinds_of(kinds)[:, 1:1 + width]
        kind[:, :known.shape[1]] = known
        return Places(np.where(kind == NO_LABEL, NO_LABEL, label), np.where(label == NO_LABEL, NO_LABEL, kind))

    def hits(self, answers: Answers) -> Bools:
        """Where the answer is right; an answer beyond the last label is not looked at."""
        flat, start = answers.values[TOKENS]
        width = self.label.shape[1]
        asked = (width - (self.label != NO_LABEL)[:, ::-1].argmax(axis=1)) * (self.label != NO_LABEL).any(axis=1)
        for row in np.flatnonzero(np.diff(start) < asked)[:1]:
            raise ShiftBenchError(f"Item '{answers.item[row]}' has {start[row + 1] - start[row]} answers but labels at "
                                  f"{asked[row]} places. Give the next token at every place.")
        if not len(flat):
            return np.zeros(self.label.shape, np.bool_)
        position = np.minimum(start[:-1, None] + np.arange(width), len(flat) - 1)
        return np.asarray((flat[position] == self.label) & (self.label != NO_LABEL))


def token_hits(label: Numbers, predicted: Numbers) -> Floats:
    """1 where the token is right, 0 where it is wrong, NaN where there is no label."""
    return np.where(np.isnan(label), np.nan, label == predicted)


def ratio_items(right: Floats, count: Ints, group: Ints) -> Floats:
    """Contributions to R = Σ right / Σ count within each group: c_i = R + (right_i − R count_i) / mean count."""
    many = int(group.max(initial=-1)) + 1
    tokens, files = np.bincount(group, count, many), np.bincount(group, minlength=many)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.stack([np.bincount(group, one, many) / tokens for one in right])[:, group]
        return np.asarray(rate + (right - rate * count) / (tokens / files)[group])
