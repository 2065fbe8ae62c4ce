"""Out of context: a class without its usual surroundings, or the surroundings without the class. NOOCh."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, Strs, Values, uniform
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import SPLITS, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.questions import DATE, dates, numbers
from shiftbench.shifts.challenge_sets import TASKS, WORLD_TASKS, by_lists, read_splits, slug
from shiftbench.shifts.cues import ALPHA, BETA, Judged, areas, by_areas, carrying, cues, strengths, yes_or_no
from shiftbench.shifts.gist import by_gist
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
            # Hard held-out items to val and test, easy ones to id_val and id_test: nothing is thrown away.
            for before, after in (("id_val", "val"), ("id_test", "test")):
                split = np.where(np.isin(split, (before, after)), np.where(hard, after, before), split)
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


def _counts(split: Strs, kind: Strs) -> dict[str, dict[str, int]]:
    """Rows per split and kind."""
    kinds = np.unique(kind).tolist()
    return {name: {word: int(((split == name) & (kind == word)).sum()) for word in kinds}
            for name in SPLITS if (split == name).any()}


def _nooch(tasks: Mapping[str, str], **settings: Any) -> dict[str, Shift]:
    return {f"{criterion}-{slug(label)}": Context(label, criterion, cue=cue, **settings)
            for criterion in ("ce", "gist") for label, cue in tasks.items()}


NOOCH: dict[str, Mapping[str, Shift]] = {
    "nooch": _nooch(TASKS),
    "nooch/published": _nooch(TASKS, split="data/cocostuff_split_image_ids.npz", lists="nooch"),
    "nooch/all": {criterion: Context(EVERY, criterion) for criterion in ("ce", "gist")},
    "nooch/waterbirds": {"waterbirds": Context("bird", "place != y", domain="background", split="split",
                                               test_on="all")},
    # Every place of the world has sky or walls, so that its stuff tells little; which place it is tells much.
    "nooch/world": _nooch(WORLD_TASKS, kinds=("object", "place"), without=("indoors", "outdoors")),
}
"""The 24 challenge sets on COCO with COCO-Stuff and captions; the same from the authors' lists, at the paths that their
repository has; every class that has a cue; Waterbirds; and the like on the built-in scenes."""


# A criterion as a question about factors: φ(C) in words, without `eval`.

SYMBOLS = {"!=": np.not_equal, "==": np.equal, ">=": np.greater_equal, "<=": np.less_equal, ">": np.greater,
           "<": np.less}
_CLAUSE = re.compile(r"(?P<factor>.+?)(?:\s*(?P<op>!=|==|>=|<=|>|<)\s*|\s+(?P<word>not in|in)\s+)(?P<value>.+)")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_LOG = re.compile(r"-log\(\s*([^()]+?)\s*\)")
YES = ("yes", "true", "1")
NO = ("no", "false", "0")
NUMBERS = "iufb"  # numpy's kinds


def holds(collection: Collection, text: str) -> Bools:
    """φ of every item: where the expression is true.

        place != y                      two factors
        location not in 1..245          a range of whole numbers, both ends in it
        year >= 2013                    also year:taken >= 2013, and taken >= 2013-06 where `taken` holds dates
        max_nll >= -log(0.15)
        subclass in [beagle, pug]
        has:sofa                        a yes or no by itself
        area:sofa > 0.1 and place == indoors or flag

    `and` binds closer than `or`. A word is a factor where there is one of that name, else a value; 'quoted', a value.
    """
    if not text.strip():
        raise ShiftBenchError("The criterion is empty. Write 'ce', 'gist', or a question such as 'year >= 2013'.")
    answer = np.zeros(len(collection), np.bool_)
    for choice in re.split(r"\s+or\s+", text.strip()):
        every = np.ones(len(collection), np.bool_)
        for clause in re.split(r"\s+and\s+", choice):
            every &= _clause(collection, clause.strip())
        answer |= every
    return answer


def _clause(collection: Collection, text: str) -> Bools:
    clause = _CLAUSE.fullmatch(text)
    if not clause:
        return _yes(collection, text)
    name, value = clause["factor"].strip(), clause["value"].strip()
    column = _filled(collection, name)
    if clause["word"]:
        within = _listed(column, name, value)
        return within if clause["word"] == "in" else ~within
    return _compared(collection, column, name, clause["op"], value)


def _yes(collection: Collection, name: str) -> Bools:
    """A factor that is a yes or no by itself."""
    column = np.char.lower(_filled(collection, name).astype(np.str_))
    if not np.isin(column, (*YES, *NO)).all():
        raise ShiftBenchError(f"Criterion '{name}' is no question: factor '{name}' has other values than yes and no. "
                              f"Compare it: {name} == VALUE; allowed are ==, !=, >=, <=, >, <, in, not in.")
    return np.isin(column, YES)


def _compared(collection: Collection, column: Values, name: str, op: str, value: str) -> Bools:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    number = None if quoted else _number(value)
    if number is not None and column.dtype.kind in NUMBERS:
        return _apply(op, column.astype(np.float64), number)
    other = None if quoted or number is not None else _factor(collection, value)
    if other is not None and column.dtype.kind in NUMBERS and other.dtype.kind in NUMBERS:
        return _apply(op, column.astype(np.float64), other.astype(np.float64))
    if op not in ("==", "!="):
        if not quoted and other is None:
            return _ordered(column, name, op, value, number)
        raise ShiftBenchError(f"'{name} {op} {value}': {op} compares numbers or dates. Use == or != for words, and "
                              "factors of numbers on both sides.")
    if other is not None:
        return _apply(op, column.astype(np.str_), other.astype(np.str_))
    word, words = value[1:-1] if quoted else value, column.astype(np.str_)
    _among(word, words, name)
    return _apply(op, words, word)


def _ordered(column: Values, name: str, op: str, value: str, number: float | None) -> Bools:
    """Words that are numbers or dates; an item without one is not hard. A date is compared as exactly as it is said:
    `taken <= 2013` has all of 2013."""
    try:
        if re.match(DATE, value):
            text = dates(column, name).text
            return np.asarray(text != "", np.bool_) & _apply(op, text.astype(f"U{len(value)}"), value)
        if number is not None:
            x = numbers(column, name)
            return ~np.isnan(x) & _apply(op, x, number)
    except ShiftBenchError as problem:
        raise ShiftBenchError(f"'{name} {op} {value}': {op} compares numbers or dates. {problem}") from problem
    raise ShiftBenchError(f"'{name} {op} {value}': {op} compares numbers or dates, and '{value}' is neither. Use == or "
                          "!= for words.")


def _apply(op: str, one: Values, other: Any) -> Bools:
    return np.asarray(SYMBOLS[op](one, other), np.bool_)


def _factor(collection: Collection, name: str) -> Values | None:
    """The factor of that name; None where there is none, since the word is a value then."""
    return _filled(collection, name) if name in collection.factors or ":" in name else None


def _listed(column: Values, name: str, value: str) -> Bools:
    """Which values are in `[a, b, 1..245]`."""
    body = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    values = [text.strip().strip("'\"") for text in body.split(",") if text.strip()]
    if not values:
        raise ShiftBenchError(f"'{name} in {value}' lists no value. Write for example {name} in [a, b] or 1..245.")
    words = column.astype(np.str_)
    answer = np.zeros(len(column), np.bool_)
    for word in values:
        span = _RANGE.fullmatch(word)
        if span and column.dtype.kind in "iuf":
            answer |= (column >= int(span[1])) & (column <= int(span[2]))
        elif column.dtype.kind in "iuf" and _number(word) is not None:
            answer |= column == _number(word)
        else:
            _among(word, words, name)
            answer |= words == word
    return answer


def _among(word: str, words: Values, name: str) -> None:
    """Refuse a word that no item has: it would make every item hard, or none."""
    if len(words) and not (words == word).any():
        raise unknown("value", word, np.unique(words).tolist(), f"Factor '{name}'")


def _number(text: str) -> float | None:
    """A number, or -log(p) of one."""
    log = _LOG.fullmatch(text)
    try:
        value = float(log[1] if log else text)
    except ValueError:
        return None
    if log and not value > 0:
        raise ShiftBenchError(f"'{text}': the logarithm needs a number above 0.")
    return -math.log(value) if log else value


def _filled(collection: Collection, name: str) -> Values:
    column = collection.factor(name)
    missing = np.isnan(column) if column.dtype.kind == "f" else np.zeros(0, np.bool_)
    for row in np.flatnonzero(missing)[:1]:
        raise ShiftBenchError(f"Factor '{name}' has {int(missing.sum())} missing values (NaN), first at item "
                              f"'{collection.items[row]}'. Fill them or drop those items.")
    return column


def by_expression(shift: Context, collection: Collection, split: Strs) -> Judged:
    """A question about factors: φ = 1 is hard. The positive of a label with two values is the second in order."""
    if re.fullmatch(r"\w+", shift.criterion) and shift.criterion not in collection.factors:
        raise unknown("criterion", shift.criterion, ["ce", "gist", *collection.factors], "Write ce, gist or a question")
    hard = holds(collection, shift.criterion)
    if not hard.any() or hard.all():
        raise ShiftBenchError(f"Criterion '{shift.criterion}' is true of {'all' if hard.all() else 'none'} of the "
                              f"{len(hard)} items. It must part them in easy and hard ones.")
    if shift.label in collection.factors or ":" in shift.label:
        label = collection.factor(shift.label).astype(np.str_)
        names = np.unique(label).tolist()
        positive = names[1] if len(names) == 2 else ""
    else:
        label, positive = yes_or_no(shift.label, carrying(collection, shift.label)), shift.label
    sides = np.where(label == positive, "hard_positive", "hard_negative") if positive else np.full(len(label), "hard")
    return Judged(label, np.where(hard, "hard", "easy"), np.where(hard, sides, "easy"),
                  {"positive": positive or None, "criterion": {"name": "factors", "question": shift.criterion}}, [])
