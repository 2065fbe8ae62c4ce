"""Out of context: a class without its usual surroundings, or the surroundings without the class. NOOCh."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, Strs, Values
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Lists, register
from shiftbench.core.rng import uniform
from shiftbench.data.benchmark import SPLITS, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts.context.challenge_sets import TASKS, WORLD_TASKS, read_splits, slug
from shiftbench.shifts.context.criteria import by_areas, by_expression, by_gist, by_lists
from shiftbench.shifts.context.cues import ALPHA, BETA, areas, cues, strengths
from shiftbench.shifts.shift import SHIFTS, Shift, card, file_name

VALIDATION = ("val", "valid", "validation")
TRAIN_ON, TEST_ON = ("all", "easy"), ("all", "hard")
EVERY = "*"


@register(SHIFTS, "context")
@dataclass(frozen=True)
class Context(Lists):
    """Is an object there, in its usual context or out of it (Madras & Zemel, 2021, §2 and §3)?

        φ(C) = 1 for hard items;   test = {i : φ_i = 1} or all items, told apart by `kind`;   train = all or {φ_i = 0}

    Criterion "ce": cues are {C : A(C, Y) > alpha} on the training items, A(C, Y) = E[Area(C) − Area(Y) | Y = 1]; a
    hard positive has Y = 1 and all its cues' areas < beta, a hard negative Y = 0 and some cue's area > beta. Criterion
    "gist": captions far from the mean caption of training positives though Y = 1, or near it though Y = 0; as many as
    "ce" finds in each split, or by `tau`. With `tau` areas are not needed: a `cue` then only makes the domains, by
    whether the item carries that tag; without a cue either, the domains are hard and easy where "ce" has no cue. Any
    other criterion is a question about factors: `year >= 2013`.

    With "ce" and "gist" the label is a tag, and its values are the tag and `no TAG`; the domain is whether the
    strongest cue is there (area > 0), and the groups, the paper's environments, are label × domain. Column `kind` says
    `hard_positive`, `hard_negative` or `easy` of every row; `hard` or `easy` where the label has more than two values.

    Our reading of the splits: NOOCh's validation items are drawn as training is, so they are `id_val`, and `test` has
    all test items. With test_on = "hard" the easy ones of `test` are `id_test`, and the hard ones of `id_val` `val`.
    """

    label: str  # a tag, or * for a benchmark of each; with a question as criterion also a factor
    criterion: str = "ce"  # ce, gist, or a question such as `place != y`
    alpha: float = ALPHA  # a cue's least A(C, Y)
    beta: float | str = BETA  # share of the image from which on a cue is there; "alike": where P(hard | y) is the same
    tau: float | None = None  # gist: cosine that parts near from far; default: as many hard items as ce has
    cue: str = ""  # tag whose presence makes the domains; default: the strongest cue
    kinds: tuple[str, ...] = ("object", "stuff")  # of tags that may be cues
    without: tuple[str, ...] = ("other",)  # tags that may not; COCO-Stuff calls all things together `other`
    encoder: str = file_name()  # gist: sentence encoder by name or folder; default: all-minilm-l6-v2
    split: str = file_name()  # factor that names the splits, or the published .npz of ids; without one they are drawn
    rename: Mapping[str, str] = field(default_factory=dict)  # the data's word for a split -> ours
    val: float = 0.1  # share of the items that is drawn for id_val
    test: float = 0.2  # and for test
    lists: str = file_name()  # folder of published id lists: they say what is hard in id_val and test
    domain: str = ""  # factor that names the domains instead
    train_on: str = "all"  # or easy: train where φ = 0 alone
    test_on: str = ""  # all or hard; default: all for ce and gist, hard for a question

    @property
    def several(self) -> bool:
        """Whether it stands for one benchmark per tag."""
        return self.label == EVERY

    def each(self, collection: Collection) -> dict[str, "Context"]:
        """Name -> the shift of every tag of `kinds` that has a cue on the training items of seed 0."""
        table = areas(collection, self.kinds, self.without)
        strength = strengths(table, self._splits(collection, 0) == "train")
        able = np.flatnonzero(cues(strength, self.alpha).any(axis=1)).tolist()
        return {f"{self.criterion}-{slug(table.titles[code])}": replace(self, label=table.titles[code])
                for code in able}

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        question = self.criterion not in ("ce", "gist")
        if self.beta != "alike" and not isinstance(self.beta, int | float):
            raise unknown("beta", str(self.beta), ("alike",), "context: a number, or")
        test_on = self.test_on or ("hard" if question else "all")
        for name, value, allowed in (("train_on", self.train_on, TRAIN_ON), ("test_on", test_on, TEST_ON)):
            if value not in allowed:
                raise unknown(name, value, allowed)
        if self.tau is not None and (self.criterion != "gist" or self.lists):
            who = "the published lists say" if self.lists else f"criterion '{self.criterion}' says"
            raise ShiftBenchError(f"context: tau = {self.tau} parts captions, but {who} what is hard. Leave tau out, "
                                  "or choose criterion 'gist'.")
        if self.tau is not None and not -1 <= self.tau <= 1:
            raise ShiftBenchError(f"context: tau = {self.tau}, but it must be a cosine, from -1 to 1.")
        if question and self.cue:
            raise ShiftBenchError(f"context: cue = '{self.cue}' makes the domains of criterion 'ce' and 'gist'; with a "
                                  f"question leave it out, or name a factor: domain = 'has:{self.cue}'.")
        split = self._splits(collection, seed)
        if self.lists and (question or not self.split):
            raise ShiftBenchError("The published lists are for criterion 'ce' or 'gist' and the split they were made "
                                  "with. Name both: split = 'cocostuff_split_image_ids.npz', or a factor.")
        judge = (by_expression if question else by_lists if self.lists else by_gist if self.criterion == "gist"
                 else by_areas)
        judged = judge(self, collection, split)
        hard = judged.kind != "easy"
        dropped = hard & (split == "train") if self.train_on == "easy" else np.zeros(len(split), np.bool_)
        if test_on == "hard":
            split = _restricted(split, hard)
        rows = np.flatnonzero(~dropped & (split != ""))
        self._enough(split[rows], judged.label[rows])
        notes = [*judged.notes]
        if dropped.any():
            notes.append(f"Training is on easy items alone: {int(dropped.sum())} hard ones were left out.")
        domain = collection.factor(self.domain).astype(np.str_) if self.domain else judged.domain
        return Benchmark.of(
            collection, self, seed, rows, split[rows], label=judged.label[rows], domain=domain[rows],
            card=card(collection, rows, split[rows], notes, **judged.facts,
                      kinds=_counts(split[rows], judged.kind[rows])),
            extra={"kind": judged.kind[rows]})

    def _splits(self, collection: Collection, seed: int) -> Strs:
        """The split of every item: as the data says, else each item by chance."""
        if not self.split:
            for name, value in (("val", self.val), ("test", self.test)):
                if not 0 <= value < 1:
                    raise ShiftBenchError(f"context: '{name}' is {value}, but it is a share of the items: 0 or more, "
                                          "and less than 1.")
            if self.val + self.test >= 1 or not self.test:
                raise ShiftBenchError(f"context: val = {self.val} and test = {self.test} of the items must leave items "
                                      "to train on, and test must be above 0.")
            chance = uniform(seed, "context", np.arange(len(collection)))
            return np.where(chance < self.test, "test", np.where(chance < self.test + self.val, "id_val", "train"))
        if self.split.endswith(".npz"):
            return self._published(collection)
        words = collection.factor(self.split).astype(np.str_)
        present = np.unique(words).tolist()
        # Data with one validation set means one that is drawn as training is; data with two says so itself.
        usual = {} if "id_val" in present else dict.fromkeys(VALIDATION, "id_val")
        says = {word: self.rename.get(word, usual.get(word, word)) for word in present}
        for word in says.values():
            if word not in SPLITS:
                raise unknown("split", word, SPLITS, f"Factor '{self.split}', use rename")
        return np.asarray([says[word] for word in present], np.str_)[np.searchsorted(present, words)]

    def _published(self, collection: Collection) -> Strs:
        """The split of the published ids; an item that is in none has none, and is left out."""
        split = np.full(len(collection), "", "U6")
        for name, ids in read_splits(self.split).items():
            split[np.isin(collection.items, ids)] = name
        return split

    def _enough(self, split: Strs, label: Values) -> None:
        for name, least in (("train", 2), ("test", 1)):
            n = len(np.unique(label[split == name]))
            if n < least:
                what = "no items" if not n else "a single label"
                raise ShiftBenchError(f"'{name}' has {what} by label '{self.label}' and criterion '{self.criterion}'. "
                                      "Check the criterion, the split, and train_on and test_on.")


def _restricted(split: Strs, hard: Bools) -> Strs:
    """Hard held-out items to `val` and `test`, easy ones to `id_val` and `id_test`: nothing is thrown away."""
    for before, after in (("id_val", "val"), ("id_test", "test")):
        split = np.where(np.isin(split, (before, after)), np.where(hard, after, before), split)
    return split


def _counts(split: Strs, kind: Strs) -> dict[str, dict[str, int]]:
    """Rows per split and kind."""
    kinds = np.unique(kind).tolist()
    return {name: {word: int(((split == name) & (kind == word)).sum()) for word in kinds}
            for name in SPLITS if (split == name).any()}


def _nooch(tasks: Mapping[str, str], **settings: Any) -> dict[str, Shift]:
    return {f"{criterion}-{slug(label)}": Context(label, criterion, cue=cue, **settings)
            for criterion in ("ce", "gist") for label, cue in tasks.items()}


NOOCH: dict[str, Callable[[], Mapping[str, Shift]]] = {
    "nooch": lambda: _nooch(TASKS),
    "nooch/published": lambda: _nooch(TASKS, split="data/cocostuff_split_image_ids.npz", lists="nooch"),
    "nooch/all": lambda: {criterion: Context(EVERY, criterion) for criterion in ("ce", "gist")},
    "nooch/waterbirds": lambda: {"waterbirds": Context("bird", "place != y", domain="background", split="split",
                                                       test_on="all")},
    # Every place of the world has sky or walls, so that its stuff tells little; which place it is tells much.
    "nooch/world": lambda: _nooch(WORLD_TASKS, kinds=("object", "place"), without=("indoors", "outdoors")),
}
"""The 24 challenge sets on COCO with COCO-Stuff and captions; the same from the authors' lists, at the paths that their
repository has; every class that has a cue; Waterbirds; and the like on the built-in scenes."""
