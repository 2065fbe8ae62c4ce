"""The split is in the data: WILDS, DomainBed, a hospital's own table."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shiftbench.core.arrays import Strs, Values, encode
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import CODED, SPLITS, Benchmark, with_factor
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import columns_in
from shiftbench.data.questions import FORMS
from shiftbench.shifts.asked import truth_of
from shiftbench.shifts.shift import SHIFTS, card

ABSENT = "split"
"""The factor that may be absent: its items are then all for test."""


@register(SHIFTS, "given")
@dataclass(frozen=True)
class Given(Lists):
    """Take the split from a factor of the collection, as its makers meant it. Nothing is drawn.

        split(i) = rename(c_i),   label(i) = y_i,   domain(i) = d_i

    Data without a split are for evaluation alone: where the collection has no factor `split`, and no other is named,
    or with split = "", every item is test, and the card says so.
    """

    label: str = "label"  # factor to predict; with a target of numbers or tasks a pattern (y*), of boxes their tag
    split: str = ABSENT  # factor that names the split of each item; without one, all items are test
    domain: str = ""  # factor that moves between train and test; without one, the split is the domain
    groups: tuple[str, ...] = ()  # factors whose cells with the label are the groups; default: the domain
    rename: Mapping[str, str] = field(default_factory=dict)  # the data's word -> ours, e.g. {"valid": "val"}
    ignore: tuple[str, ...] = ()  # words whose items are left out
    target: str = "class"  # what is predicted: class, number, tasks, boxes or tokens
    score_by: tuple[str, ...] = ()  # further groupings to score by, e.g. "male+female,label": see docs/groups.md
    keep: tuple[str, ...] = ()  # factors to keep in the rows
    headline: str = ""  # the metric that ranks methods; empty: what the kind of target has

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        whole = self.split in ("", ABSENT) and self.split not in collection.factors
        words = np.full(len(collection), "test") if whole else collection.factor(self.split).astype(np.str_)
        rows = np.flatnonzero(~np.isin(words, self.ignore))
        split = words[rows]
        for old, new in self.rename.items():
            split = np.where(words[rows] == old, new, split)
        for word in np.unique(split).tolist():
            if word not in SPLITS:
                raise unknown("split", word, SPLITS, f"Factor '{self.split}', use rename or ignore")
        if not len(rows):
            raise ShiftBenchError(f"Factor '{self.split}' leaves no items. Check `ignore`.")
        named = (*self.keep, *(name for said in self.score_by for name in columns_in(said, collection.factors)))
        questions = {name for name in named if name not in collection.factors and name.partition(":")[0] in FORMS}
        for name in named:
            if name not in {*collection.factors, *CODED, *questions}:
                raise unknown("factor", name, {*collection.factors, *CODED}, "keep and score_by of shift 'given'")
        extra = {name: collection.factor(name)[rows] for name in named
                 if name in {*collection.factors, *questions} and name != self.label}
        label, target, truth = truth_of(collection, rows, self.target, self.label)
        extra |= truth
        domain = collection.factor(self.domain)[rows].astype(np.str_) if self.domain else split
        group = None
        if self.groups:
            columns = [_said(name, collection.factor(name)[rows]) for name in self.groups]
            columns = [_said(self.label, label), *columns] if target is None else columns
            group = np.asarray([", ".join(cell) for cell in zip(*columns, strict=True)], np.str_)
        notes = ["The data have no split: every item is test."] if whole else []
        told = {**card(collection, rows, split, notes), **({"groupings": list(self.score_by)} if self.score_by else {}),
                **({"headline": self.headline} if self.headline else {})}
        return Benchmark.of(collection, self, seed, rows, split, label=label, domain=domain, group=group,
                            card=told, extra=extra, target=target)


def _said(name: str, values: Values) -> Strs:
    """Words as they are; a number does not say by itself what it counts: black = 1."""
    if values.dtype.kind != "U":
        return np.char.add(f"{name} = ", values.astype(np.str_))
    codes, names = encode(values)
    return np.asarray(with_factor(name, names), np.str_)[codes]
