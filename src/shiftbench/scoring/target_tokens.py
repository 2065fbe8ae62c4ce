"""Targets that are next tokens: the share of right ones by what kind of token they are."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.target import NO_LABEL, TOKENS, kinds_of, tokens_of
from shiftbench.scoring.measured import Measured
from shiftbench.scoring.metrics.tokens import KINDS
from shiftbench.scoring.target_estimates import shares, worst_of
from shiftbench.scoring.target_measures import Part, grouped, over_all

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
        told = kinds_of(kinds)[:, 1:1 + width]
        kind[:, :told.shape[1]] = told
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
        place = np.minimum(start[:-1, None] + np.arange(width), len(flat) - 1)
        return np.asarray((flat[place] == self.label) & (self.label != NO_LABEL))


def measure_tokens(
    part: Part, places: Places, answers: Sequence[Answers], owner: Sequence[int], level: float | None
) -> list[Measured]:
    """`accuracy` of names of classes and methods, all and by group; `overall_accuracy`, and that of every kind.

    Without kinds all tokens count for `accuracy`. Tokens count alike, whichever item they stand in, and n counts them;
    tokens of a file depend on each other, so intervals are about other files: a ratio estimator, linearised.
    """
    hits = [places.hits(one) for one in answers]
    found: list[Measured] = []
    chosen: dict[str, tuple[int, ...]] = {"accuracy": HEADLINE, "overall_accuracy": tuple(range(10))}
    for metric, codes in {**chosen, **{f"{name}_accuracy": (code,) for code, name in enumerate(KINDS)}}.items():
        asked = np.isin(places.kind, codes)
        count = asked.sum(axis=1)
        kept = np.flatnonzero(count)
        if not len(kept) and metric != "accuracy":
            continue
        right = np.stack([(one & asked).sum(axis=1)[kept] for one in hits]).astype(np.float64)
        mine, count = part.take(kept), count[kept]
        whole = ratio_items(right, count, np.zeros(len(kept), np.int64))
        if metric != "accuracy":
            found.append(over_all(metric, whole, int(count.sum()), owner, level, shares))
            continue
        found += grouped(mine, metric, whole, ratio_items(right, count, mine.group), owner, level, shares,
                         partial(worst_of, owner=owner, level=level, make=shares), weight=count)
        if not places.kinds:
            break
    return found


def ratio_items(right: Floats, count: Ints, group: Ints) -> Floats:
    """Contributions to R = Σ right / Σ count within each group: c_i = R + (right_i − R count_i) / mean count."""
    many = int(group.max(initial=-1)) + 1
    tokens, files = np.bincount(group, count, many), np.bincount(group, minlength=many)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.stack([np.bincount(group, one, many) / tokens for one in right])[:, group]
        return np.asarray(rate + (right - rate * count) / (tokens / files)[group])
