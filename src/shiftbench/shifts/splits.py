"""Splits without a constructed shift: the data's own split (WILDS, a hospital's table), a date, or chance.

`deal_sides` serves every shift that keeps all items: the data say which side of the shift an item is on, chance only
what is held out. Below it, what a benchmark's rows hold where the target is no class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values, encode, uniform
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import CODED, SPLITS, UNLABELLED, Benchmark, with_factor
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import columns_in
from shiftbench.data.questions import FORMS, dates, moment
from shiftbench.data.target import BOXES, KINDS, TOKEN_KINDS, TOKENS, Target, boxes_text, kinds_text, tokens_text
from shiftbench.shifts.shift import SHIFTS, ambiguous_note, card, labelled_items

RESERVED = ("item", "split", *CODED)  # columns that every benchmark has
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
    domain: str = ""  # factor that moves between train and test; default: `domain` where there is one, else the split
    groups: tuple[str, ...] = ()  # factors whose cells with the label are the groups; default: the domain
    rename: Mapping[str, str] = field(default_factory=dict)  # the data's word -> ours, e.g. {"valid": "val"}
    ignore: tuple[str, ...] = ()  # words whose items are left out
    target: str = "class"  # what is predicted: class, number, tasks, boxes or tokens
    score_by: tuple[str, ...] = ()  # further groupings to score by, e.g. "male+female,label": see docs/groups.md
    keep: tuple[str, ...] = ()  # factors to keep in the rows
    headline: str = ""  # the metric that ranks methods; empty: what the kind of target has

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        no_split = self.split in ("", ABSENT) and self.split not in collection.factors
        words = np.full(len(collection), "test") if no_split else collection.factor(self.split).astype(np.str_)
        rows = np.flatnonzero(~np.isin(words, self.ignore))
        split = words[rows]
        for old, new in self.rename.items():
            split = np.where(words[rows] == old, new, split)
        for word in np.unique(split).tolist():
            if word not in SPLITS:
                raise unknown("split", word, SPLITS, f"Factor '{self.split}', use rename or ignore")
        if not len(rows):
            raise ShiftBenchError(f"Factor '{self.split}' leaves no items. Check `ignore`.")
        scored = [name for grouping in self.score_by for name in columns_in(grouping, collection.factors)]
        named = (*self.keep, *scored)
        questions = {name for name in named if name not in collection.factors and name.partition(":")[0] in FORMS}
        for name in named:
            if name not in {*collection.factors, *CODED, *questions}:
                raise unknown("factor", name, {*collection.factors, *CODED}, "keep and score_by of shift 'given'")
        hidden = split == UNLABELLED
        extra = {name: collection.factor(name)[rows] for name in named
                 if name in {*collection.factors, *questions} and name != self.label}
        extra |= {name: _yes_or_no(extra[name], hidden) for name in scored if name in extra}
        label, target, truth = truth_of(collection, rows, self.target, self.label, ~hidden)
        extra |= truth
        moves = self.domain or ("domain" if "domain" in collection.factors else "")
        domain = collection.factor(moves)[rows].astype(np.str_) if moves else split
        group = None
        if self.groups:
            columns = [_with_name(name, collection.factor(name)[rows]) for name in self.groups]
            columns = [_with_name(self.label, label), *columns] if target is None else columns
            group = np.asarray([", ".join(cell) for cell in zip(*columns, strict=True)], np.str_)
        notes = ["The data have no split: every item is test."] if no_split else []
        facts = card(collection, rows, split, notes, **({"groupings": list(self.score_by)} if self.score_by else {}),
                     **({"headline": self.headline} if self.headline else {}))
        return Benchmark.of(collection, self, seed, rows, split, label=label, domain=domain, group=group,
                            card=facts, extra=extra, target=target)


def _yes_or_no(values: Values, hidden: Bools) -> Values:
    """A column to score by, with no in hidden rows where all others say yes or no (1 and 0). A gap there would be a
    third word, of which the groups of male+female cannot be made; nobody scores these rows."""
    labelled = np.asarray(values)[~hidden]
    yes_or_no = hidden.any() and labelled.dtype.kind in "biu" and bool(np.isin(labelled, (0, 1)).all())
    return np.where(hidden, 0, values) if yes_or_no else values


def _with_name(name: str, values: Values) -> Strs:
    """Words as they are; a number with the name of its factor: black = 1."""
    if values.dtype.kind != "U":
        return np.char.add(f"{name} = ", values.astype(np.str_))
    codes, names = encode(values)
    return np.asarray(with_factor(name, names), np.str_)[codes]


@register(SHIFTS, "iid")
@dataclass(frozen=True)
class IID:
    """Every item goes to one split by chance: `held` of all to each of id_val, id_test and test, the rest to train.

        p_train(x, y) = p_test(x, y)
    """

    label: str  # factor to predict
    domain: str = ""  # factor that names the domains; without one there is one domain
    held: float = 0.1

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        if not 0 < self.held < 1 / 3:
            raise ShiftBenchError(f"iid: 'held' is {self.held}, but three such shares must leave items to train on.")
        rows, dropped = labelled_items(collection, self.label)
        number = (uniform(seed, "iid", rows) / self.held).astype(np.int64).clip(max=3)
        split = np.asarray(["id_val", "id_test", "test", "train"])[number]
        label = collection.factor(self.label)[rows].astype(np.str_)
        domain = collection.factor(self.domain)[rows] if self.domain else np.full(len(rows), "all")
        notes = [ambiguous_note(dropped)] if dropped else []
        return Benchmark.of(collection, self, seed, rows, split, label=label, domain=domain,
                            card=card(collection, rows, split, notes))


# Every item on the side of the shift that the data say.

TRAIN, VAL, TEST = "train", "val", "test"
Date = str | int
"""2013, "2013-06", "2013-06-30" or "2013-06-30T12:00"; in a recipe also a date of TOML."""


@register(SHIFTS, "temporal")
@dataclass(frozen=True)
class Temporal(Lists):
    """Train on items dated before a day, test on those from that day on (as FMoW in WILDS: Koh et al., 2021).

        train ∪ id_val ∪ id_test = {i : t_i < v},     val = {i : v ≤ t_i < c},     test = {i : t_i ≥ c}

    c is `test_from`; where that is not given, the latest share `test` of the items is tested, and items of one moment
    are never parted. v is `val_from`, else c. Every dated item is in the benchmark; those without a date are left out
    and counted on the card. Domains are years unless `domain` says otherwise. For a season, or for one year against all
    others, leave out a domain: `leave_one_domain_out` with domain = "season:taken" or "year:taken".
    """

    label: str
    date: str  # factor that holds ISO dates, timestamps or years
    test_from: Date = ""  # c, the first date that is tested
    val_from: Date = ""  # v, the first date of val: to choose among runs after the shift
    test: float = 0.2  # share of the items that is tested, where test_from is not given
    domain: str = ""  # factor that names the domains; default: the year
    held: float = 0.1  # share of the items before v for id_val, and for id_test
    ood: float = 0.0  # share of the items from c on for val
    classes: tuple[str, ...] = ()  # label values to keep; default: all
    target: str = "class"  # what is predicted, as in `given`

    moves: ClassVar[str] = "date to test from"

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        rows, notes = kept_items(self, collection)
        dated = dates(collection.factor(self.date)[rows], self.date)
        undated = int((~dated.known).sum())
        if undated:
            notes.append(f"{undated} items have no date in '{self.date}' and were left out.")
        rows, time, text = rows[dated.known], dated.moment[dated.known], dated.text[dated.known]
        if not len(rows):
            raise ShiftBenchError(f"temporal: no item has a date in '{self.date}'.")
        cut = self._cut(time)
        start = moment(str(self.val_from), "temporal: val_from") if self.val_from != "" else cut
        if start > cut:
            raise ShiftBenchError(f"temporal: val_from = {self.val_from} comes after the first date that is tested, "
                                  f"{_day(cut)}. Items of val lie between training and test.")
        side = np.where(time < start, TRAIN, np.where(time < cut, VAL, TEST))
        for name in (TRAIN, TEST):
            if not (side == name).any():
                raise ShiftBenchError(f"temporal: no item is on the side of {name}: dates in '{self.date}' run from "
                                      f"{text[time.argmin()]} to {text[time.argmax()]}, and test begins "
                                      f"{_day(cut)}. Choose another date to test from.")
        periods = {name: [str(text[rows_of[time[rows_of].argmin()]]), str(text[rows_of[time[rows_of].argmax()]])]
                   for name in (TRAIN, VAL, TEST) if len(rows_of := np.flatnonzero(side == name))}
        notes.append("; ".join(f"{name} from {first} to {last}" for name, (first, last) in periods.items()).capitalize()
                     + ".")
        domain: Strs = collection.factor(self.domain or f"year:{self.date}")[rows]
        return deal_sides(self, collection, seed, rows, side, domain, notes, periods=periods)

    def _cut(self, time: Ints) -> int:
        """The first moment that is tested."""
        if self.test_from != "":
            return moment(str(self.test_from), "temporal: test_from")
        if not 0 < self.test < 1:
            raise ShiftBenchError(f"temporal: 'test' is {self.test}, but it is a share of the items: between 0 and 1.")
        return int(np.sort(time)[min(len(time) - 1, len(time) - round(self.test * len(time)))])


def _day(moment: int) -> str:
    return str(np.datetime64(moment, "us").astype("datetime64[D]"))


def kept_items(shift: Any, collection: Collection) -> tuple[Ints, list[str]]:
    """The items of the classes that are kept, less those that carry the tags of two of them, and a note on these."""
    if shift.target == "class":
        rows, dropped = labelled_items(collection, shift.label, shift.classes)
        return rows, [ambiguous_note(dropped)] if dropped else []
    if shift.classes:
        raise ShiftBenchError(f"{shift.name}: 'classes' keeps values of a label, but the target is {shift.target}. "
                              "Leave it out.")
    return np.arange(len(collection)), []


def deal_sides(
    shift: Any, collection: Collection, seed: int, rows: Ints, side: Strs, domain: Values, notes: Sequence[str] = (),
    **facts: Any,
) -> Benchmark:
    """A benchmark of all rows, each of which is on the side `train`, `val` or `test` of the shift.

    `held` of the items on the side of training become id_val, as many id_test; `ood` of those on the side of test
    become val. Each item goes by chance, by a number that depends on the seed and its place in the collection alone: it
    is held out in every benchmark in whose training domains it is, and a larger share adds items and moves none.
    """
    if not 0 <= shift.held < 0.5:
        raise ShiftBenchError(f"{shift.name}: 'held' is {shift.held}, but two such shares must leave items to train "
                              "on. Give 0 or more, and less than 0.5.")
    if not 0 <= shift.ood < 1:
        raise ShiftBenchError(f"{shift.name}: 'ood' is {shift.ood}, but it is a share of the test items. Give 0 or "
                              "more, and less than 1.")
    chance = uniform(seed, "held", rows)
    inside, after = side == TRAIN, side == TEST
    split = side.astype("U8")
    split[inside & (chance >= 1 - shift.held)] = "id_test"
    split[inside & (chance < shift.held)] = "id_val"
    split[after & (chance < shift.ood)] = VAL
    label, target, extra = truth_of(collection, rows, shift.target, shift.label)
    for name, least in ((TRAIN, 1 if target else 2), (TEST, 1)):
        if len(np.unique(label[split == name])) < least:
            what = "a single class" if (split == name).any() else "no items"
            raise ShiftBenchError(f"{shift.name}: '{name}' has {what}. Choose another {shift.moves}, or smaller "
                                  "shares.")
    lost = np.setdiff1d(label[split == TEST], label[split == TRAIN]).tolist()
    notes = [*notes, *(f"Class '{name}' is tested, but training has none of it." for name in lost)]
    return Benchmark.of(collection, shift, seed, rows, split, label=label, domain=domain, extra=extra, target=target,
                        card=card(collection, rows, split, notes, **facts))


def truth_of(
    collection: Collection, rows: Ints, kind: str, label: str, known: Bools | None = None
) -> tuple[Strs, Target | None, Mapping[str, Values]]:
    """The label of some rows, and where the target is no class the target and one column of the rows' truth per name.

    `number`  the factor `label`, or all that match the pattern (`y*`), as numbers
    `tasks`   the same, of 0, 1 and NaN
    `boxes`   the boxes of the tag `label`
    `tokens`  the two texts of each item: its tokens, and what kind each of them is, as numbers with spaces between

    `known` says which of the rows must have a truth, by default all. The label is then one word for all rows.
    """
    if kind == "class":
        return collection.factor(label)[rows].astype(np.str_), None, {}
    target = KINDS.get(kind)
    if target is None or target.has_classes:
        raise unknown("kind of target", kind, KINDS)
    if target.one_per_column:
        names = tuple(sorted(name for name in collection.factors if fnmatchcase(name, label)))
        if not names:
            raise unknown("factor", label, collection.factors)
        # A factor that is called label may not replace the rows' own column of that name.
        columns = tuple(name if name not in RESERVED else "target" if len(names) == 1 else f"target:{name}"
                        for name in names)
        known = np.ones(len(rows), np.bool_) if known is None else known
        return np.full(len(rows), label), target(columns), {
            column: _numbers(collection, name, rows, kind, known) for column, name in zip(columns, names, strict=True)}
    if target.detects:
        return np.full(len(rows), label), target((BOXES,)), {BOXES: _boxes(collection, rows, label)}
    code, sort = _tokens(collection, rows)
    return np.full(len(rows), "next token"), target((TOKENS, TOKEN_KINDS), int(code.max(initial=0)) + 1), {
        TOKENS: tokens_text(code), TOKEN_KINDS: kinds_text(sort, (code >= 0).sum(axis=1))}


def _numbers(collection: Collection, name: str, rows: Ints, kind: str, known: Bools) -> Floats:
    values = collection.factors[name][rows]
    if np.asarray(values).dtype.kind not in "biuf":
        raise ShiftBenchError(f"Factor '{name}' holds words ('{values[0]}', …), so it is no target of kind {kind}. "
                              "Leave `target` out to predict it as a class.")
    column = np.asarray(values, np.float64)
    if kind == "number" and not np.isfinite(column[known]).all():
        bad = int(np.flatnonzero(known & ~np.isfinite(column))[0])
        raise ShiftBenchError(f"Factor '{name}' of item '{collection.items[rows[bad]]}' is {column[bad]}. A target of "
                              "kind number has no gaps.")
    if kind == "tasks" and not np.isin(column[~np.isnan(column)], (0.0, 1.0)).all():
        raise ShiftBenchError(f"Factor '{name}' has values besides 0, 1 and gaps, so it is no target of kind tasks. "
                              "Use target = \"number\".")
    return column


def _boxes(collection: Collection, rows: Ints, tag: str) -> Values:
    """Boxes as shares: left, top, right, bottom."""
    tags = collection.tags
    if tag not in tags.names:
        raise unknown("tag", tag, tags.names)
    tagged = tags.tag[tags.box_row] == tags.names.index(tag)
    number = np.full(len(collection), -1)
    number[rows] = np.arange(len(rows))
    item = number[tags.item[tags.box_row[tagged]]]
    box = tags.boxes[tagged]
    corners = np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)
    return boxes_text(item[item >= 0], corners[item >= 0], len(rows))


def _tokens(collection: Collection, rows: Ints) -> tuple[Ints, Ints]:
    from shiftbench.readers.wilds.comments import tokens

    if len(collection.texts.text) != 2 * len(collection):
        raise ShiftBenchError(f"Collection '{collection.name}' has no tokens: each item needs two texts, its tokens "
                              "and their kinds, as `read wilds py150` makes them.")
    code, sort = tokens(collection)
    return code[rows], sort[rows]
