"""Contexts: the items of any collection that fulfil them, the TOML file in which they are kept, and their benchmarks.

    format = "shiftbench contexts"
    version = 1
    loss = "error"

    [[context]]
    name = "young drivers at night"      # your own, shown before the predicates; may be left out
    loss = 0.41                          # when it was found
    n = 312

    [[context.predicate]]
    column = "light"
    value = "night"
    kind = "factor"

    [[context.predicate]]
    column = "age"
    kind = "number"
    low = 18.0
    high = 25.0

A file may also have the words of a predicate, and the value of an interval. Both are made anew from the other fields,
so that a context that was edited never goes by its old words.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.auditing.findings import Audit
from shiftbench.auditing.predicates import KINDS, Interval, Predicate
from shiftbench.auditing.vocabulary import DAY, TEXT, is_known
from shiftbench.core.arrays import Bools, Strs, Values, in_short
from shiftbench.core.errors import ShiftBenchError, printable, unknown
from shiftbench.core.files import read_toml, to_toml, write_text
from shiftbench.core.registry import make
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.questions import UNKNOWN, dates
from shiftbench.shifts.low_data import LowData, Spurious, Unseen
from shiftbench.shifts.recipe import applied
from shiftbench.shifts.shift import Shift, ambiguous

FORMAT = "shiftbench contexts"
TOP_KEYS = ("format", "version", "loss", "context")
CONTEXT_KEYS = ("name", "loss", "n", "predicate")
FAR = 10**7
"""No date is more days from 1970-01-01."""
LEAST = 10
"""Items of a label, inside the context and elsewhere, from which on the test has some of both."""
CONTEXT, IN, OUT = "context", "inside", "elsewhere"
"""The factor that says of each item whether it is in the context, and its values."""


class Context(NamedTuple):
    """A context that is kept as a test: its predicates, the loss in it when it was found, and a user's name for it."""

    members: tuple[Predicate, ...]
    loss: float = math.nan
    n: int = 0
    title: str = ""

    @property
    def name(self) -> str:
        """What it says of items, after the name that its user gave it."""
        words = joined_words(self.members)
        return f"{self.title} ({words})" if self.title else words


def joined_words(members: Sequence[Predicate]) -> str:
    """What predicates say together."""
    return " and ".join(member.words for member in members)


# Which items are in a context

def inside(
    members: Sequence[Predicate], items: Collection, *, truth: Values | None = None, label: str | None = None,
    predicted: Values | None = None,
) -> Bools:
    """Which items of a collection fulfil all predicates.

    `truth` are their labels, which predicates know by the name `label`, and `predicted` their predictions. A column
    that is not there is an error that names the context. (Without a `label`, the name of the truth is not known, and
    such a column is taken for it: for filters of the studio, which are made of the columns that are there.)
    """
    source = _Source(items, truth, label, predicted, joined_words(members))
    mask = np.ones(len(items), np.bool_)
    for member in members:
        mask &= source.holds(member)
    return mask


class _Source(NamedTuple):
    """What predicates are checked against, and the words of the `context`, by which errors name it."""

    items: Collection
    truth: Values | None
    label: str | None
    predicted: Values | None
    context: str

    def holds(self, predicate: Predicate) -> Bools:
        kind, column, interval = predicate.kind, predicate.column, predicate.interval
        if kind == "cluster":
            raise ShiftBenchError(f"The context '{self.context}' is a cluster of features, which the audit that found "
                                  "it made for its own items. Leave the context out, or make the cluster a column.")
        if kind in ("word", "no word"):
            has_word, has_text = self._words(predicate)
            return has_word if kind == "word" else has_text & ~has_word
        values = self._prediction() if kind == "prediction" else self._column(predicate)
        if kind == "missing":
            return ~is_known(values)
        if kind == "class" and not column.startswith("has:"):
            return np.isin(values.astype(np.str_), sorted({predicate.value, *self.items.below(predicate.value)}))
        if kind == "area":
            return (values > 0) & Interval(predicate.low, predicate.high).holds(values.astype(np.float64))
        if interval is None:
            return np.asarray(_written(values) == predicate.value, np.bool_)
        if kind == "date" and not column.startswith("hour:"):
            moments = dates(values, column)
            return interval.holds(np.where(moments.known, moments.moment // DAY, np.nan))
        return interval.holds(self._numbers(values, column))

    def _prediction(self) -> Values:
        if self.predicted is None:
            raise ShiftBenchError(f"The context '{self.context}' asks for the prediction of each item, which is not "
                                  "known here. Leave the context out.")
        return self.predicted

    def _column(self, predicate: Predicate) -> Values:
        """A factor of the items, an answer about tags or dates, or the truth where the column is the label itself."""
        column = predicate.column
        absent = ":" not in column and column not in self.items.factors
        is_label = column == self.label if self.label is not None else absent or predicate.kind == "label"
        if self.truth is not None and is_label:
            return self.truth
        if absent:
            raise unknown("column", column, {*self.items.factors, *([self.label] if self.label else [])},
                          f"Context '{self.context}'")
        try:
            return self.items.factor(column)
        except ShiftBenchError as problem:
            raise ShiftBenchError(f"Context '{self.context}': {problem}") from problem

    def _words(self, predicate: Predicate) -> tuple[Bools, Bools]:
        """Which items have a text with the word, and which have a text at all."""
        if predicate.column in self.items.factors:
            texts = self.items.factors[predicate.column]
            rows = np.flatnonzero([bool(text) for text in texts.tolist()])
            texts = texts[rows]
        elif predicate.column == TEXT:
            rows, texts = self.items.texts.item, self.items.texts.text
        else:
            raise unknown("column", predicate.column, self.items.factors, f"Context '{self.context}'")
        pattern = re.compile(rf"(?<![^\W_]){re.escape(predicate.value)}(?![^\W_])", re.IGNORECASE)
        has_word, has_text = np.zeros((2, len(self.items)), np.bool_)
        has_text[rows] = True
        has_word[rows[[pattern.search(str(text)) is not None for text in texts.tolist()]]] = True
        return has_word, has_text

    def _numbers(self, values: Values, column: str) -> Values:
        if values.dtype.kind in "biuf":
            return values.astype(np.float64)
        try:
            return np.asarray([math.nan if value in ("", UNKNOWN) else float(value) for value in values.tolist()])
        except ValueError as problem:
            raise ShiftBenchError(f"The context '{self.context}' needs numbers in '{column}', which holds words "
                                  f"('{values[0]}', …).") from problem


def _written(values: Values) -> Strs:
    """Values as predicates write them: 3 and 3.0 are both 3."""
    if values.dtype.kind == "f":
        return np.asarray([f"{value:.12g}" for value in values.tolist()], np.str_)
    return values.astype(np.str_)


# The file

def load_contexts(path: Path | str) -> tuple[str, tuple[Context, ...]]:
    """The loss and the contexts of a file that `keep` wrote, or that was written by hand."""
    raw = read_toml(path)
    for key in raw:
        if key not in TOP_KEYS:
            raise unknown("key", key, TOP_KEYS, str(path))
    if raw.get("format", FORMAT) != FORMAT or raw.get("version", 1) != 1:
        raise ShiftBenchError(f"{path}: is not a file of contexts in format 1. `shiftbench audit --keep` writes one.")
    tables = raw.get("context", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ShiftBenchError(f"{path}: contexts are tables [[context]], each with its [[context.predicate]].")
    if not isinstance(raw.get("loss", ""), str):
        raise ShiftBenchError(f"{path}: 'loss' is {raw['loss']!r}, but it must be the name of a loss.")
    return raw.get("loss", ""), tuple(_context(table, f"{path}, context {number}")
                                      for number, table in enumerate(tables, 1))


def _context(table: Mapping[str, Any], where: str) -> Context:
    for key in table:
        if key not in CONTEXT_KEYS:
            raise unknown("key", key, CONTEXT_KEYS, where)
    members = table.get("predicate", [])
    if not isinstance(members, list) or not members or not all(isinstance(member, dict) for member in members):
        raise ShiftBenchError(f"{where}: has no [[context.predicate]]. Give it at least one.")
    loss, n, title = table.get("loss", math.nan), table.get("n", 0), table.get("name", "")
    if isinstance(loss, bool) or not isinstance(loss, int | float) or type(n) is not int or type(title) is not str:
        raise ShiftBenchError(f"{where}: 'loss' must be a number, 'n' a whole number and 'name' a text.")
    read = [_predicate(member, f"{where}, predicate {number}") for number, member in enumerate(members, 1)]
    # A name that `keep` once wrote is the predicates' old words: it says nothing that an edited context does not.
    old = " and ".join(str(member.get("words") or "") for member in members)
    return Context(tuple(read), float(loss), n, "" if title in (old, joined_words(read)) else title)


def _predicate(table: Mapping[str, Any], where: str) -> Predicate:
    """A predicate of a file, in the words that its other fields make."""
    needless = {"words": ""}
    if table.get("kind") == "missing" or {"low", "high"} & set(table):
        needless["value"] = ""
    predicate = make(Predicate, {**needless, **table}, where)
    if predicate.kind not in KINDS:
        raise unknown("kind", predicate.kind, KINDS, where)
    if predicate.column.startswith("has:") and predicate.value not in ("yes", "no"):
        raise ShiftBenchError(f"{where}: 'value' is {predicate.value!r}, but whether an item has a tag is yes or no.")
    kind, column, low, high = predicate.kind, predicate.column, predicate.low, predicate.high
    if any(math.isnan(end) or (kind == "date" and FAR < abs(end) < math.inf) for end in (low, high)):
        raise ShiftBenchError(f"{where}: 'low' is {low:g} and 'high' is {high:g}, but the ends of an interval are "
                              "numbers, and those of dates are days since 1970-01-01.")
    if kind == "cluster":
        return predicate
    if kind == "area":
        return Predicate.of(column, Interval(low, high), kind)
    if kind == "missing":
        return Predicate.of(column, kind=kind)
    if kind in ("word", "no word", "class"):
        return Predicate.of(column, predicate.value, kind)
    if column.startswith("has:"):
        return replace(Predicate.of(column, predicate.value, "tag"), kind=kind)
    return Predicate.of(column, predicate.interval or predicate.value, kind)


def write_contexts(path: Path | str, loss: str, contexts: Sequence[Context]) -> Path:
    """Write a file of contexts: predicates as tables of facts, nothing that would have to be parsed.

    What the facts imply, the words of a predicate and of an interval, stands above them as a comment.
    """
    lines = ["# Contexts that `shiftbench gate --contexts` tests. Add, change and delete them as you like.",
             f"format = {to_toml(FORMAT)}", "version = 1", f"loss = {to_toml(loss)}"]
    for context in contexts:
        lines += ["", f"# {printable(joined_words(context.members))}", "[[context]]"]
        lines += [f"name = {to_toml(context.title)}"] if context.title else []
        lines += [f"loss = {to_toml(context.loss)}"] if math.isfinite(context.loss) else []
        lines += [f"n = {context.n}"] if context.n else []
        for member in context.members:
            lines += ["", "[[context.predicate]]"]
            lines += [f"{field.name} = {to_toml(getattr(member, field.name))}" for field in fields(member)
                      if field.name not in _implied(member) and getattr(member, field.name) != field.default]
    return write_text(path, "\n".join([*lines, ""]))


def _implied(predicate: Predicate) -> set[str]:
    """Fields that `Predicate.of` makes of the others."""
    return {"words", "value"} if predicate.interval is not None or predicate.kind == "missing" else {"words"}


def keep(audit: Audit, path: Path | str) -> int:
    """Add the findings of an audit to a file of contexts, or begin one; gives how many were not in it yet.

    What the file has stays as it is: a context is a test, and a test does not move because a model did.
    """
    loss = str(audit.card.get("loss") or "error")
    before: tuple[Context, ...] = ()
    if Path(path).exists():
        kept_loss, before = load_contexts(path)
        if kept_loss not in ("", loss):
            raise ShiftBenchError(f"{path}: holds contexts of the loss '{kept_loss}', and this audit is of '{loss}'. "
                                  "Keep them in another file.")
    known = {frozenset(context.members) for context in before}
    new = [context for context in contexts_of(audit) if frozenset(context.members) not in known]
    write_contexts(path, loss, [*before, *new])
    return len(new)


def contexts_of(audit: Audit) -> list[Context]:
    """The findings of an audit as tests of other models.

    A finding about what the model says ("prediction is cat"), or about a cluster of features, is left out: in another
    audit these are other items.
    """
    changed = bool(audit.card.get("against"))  # then the loss of a finding is a change, not a level
    return [Context(finding.members, math.nan if changed else finding.loss, finding.n) for finding in audit.findings
            if not any(member.kind in ("prediction", "cluster") for member in finding.members)]


# From a finding to a benchmark: train without the items of the context, test on them beside others like them

def build_finding(
    audit: Audit, number: int, collection: Collection, *, label: str = "", seed: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> Benchmark:
    """The shift of finding `number` of an audit, counted from 1: the factor `context` says which items are in it.

    A context that says nothing of the label is `unseen` in training or, where `changes` have `n_low`, rare in it
    (`low_data`). The test is uniform over label × context, so that its items are set against as many others with the
    same labels, and as large as the items allow; labels that have no such match are left out.

    A context of some labels alone ("cats at night") is a correlation (`spurious`): in training these labels go with
    the items elsewhere, all but `n_uncorrelated` of them, and all other labels with both. `changes` are settings of
    the shift.
    """
    if not 1 <= number <= len(audit.findings):
        raise ShiftBenchError(f"The audit has {len(audit.findings)} findings, so there is no finding {number}.")
    audited = str(audit.card.get("label") or "label")
    label = label or audited
    truth = collection.factor(label)
    members = [replace(member, column=label) if member.column == audited else member
               for member in audit.findings[number - 1].members]
    guessed = [member.words for member in members if member.kind == "prediction"]
    if guessed:
        raise ShiftBenchError(f"Finding {number} is about what the model says ({guessed[0]}), which no benchmark can "
                              "ask of items. Choose another finding, or audit with --exclude prediction.")
    about_label = [member for member in members if member.kind in ("label", "class")
                   and not member.column.startswith("has:")]
    others = [member for member in members if member not in about_label]
    if not others:
        raise ShiftBenchError(f"Finding {number} is about the label alone: a class that is hard is no shift. Choose "
                              "another finding.")
    mask = inside(others, collection, truth=truth, label=label)
    factor = CONTEXT if CONTEXT not in collection.factors else "context found"
    widened = replace(collection, factors={**collection.factors, factor: np.where(mask, IN, OUT)})
    labelled = inside(about_label, collection, truth=truth, label=label)
    shift, settings = _shift(truth.astype(np.str_), labelled, changes or {})
    rare: list[str] = []
    if settings.get("balanced", True) and not {"classes", "n_test"} & set(settings):
        few = settings.get("n_low", settings.get("n_uncorrelated", 0))
        kept, rare, n_test = _matched(collection, truth.astype(np.str_), mask, labelled, few if type(few) is int else 0)
        settings |= {"classes": kept, "n_test": n_test}
        if isinstance(settings.get("pairs"), dict):
            settings["pairs"] = {name: sides for name, sides in settings["pairs"].items() if name not in rare}
    built = applied(make(shift, {"label": label, "factor": factor, **settings}, f"finding {number}"), widened, seed)
    words = joined_words(members)
    # The factor is in the rows, as their domain: the benchmark goes with the collection as it is.
    card = {**built.card, "collection": {"name": collection.name, "digest": collection.digest},
            "finding": {"number": number, "context": words, "predicates": [member.facts() for member in members]},
            "notes": [f"Made from finding {number} of an audit: {words}.", *built.card["notes"]]}
    if rare:
        card["notes"].append(f"Labels with fewer than {LEAST} items inside or elsewhere have no match and are left "
                             f"out: {in_short(rare, 12)}. With balanced = false they stay, and the test is random.")
    return replace(built, card=card)


def _matched(
    collection: Collection, truth: Strs, mask: Bools, labelled: Bools, few: int
) -> tuple[tuple[str, ...], list[str], int]:
    """The labels with items inside the context and elsewhere, the others, and the largest test that matches them.

    The test takes all items of cells that training does without, less the `few` that it has, and a third of others.
    """
    names = np.unique(truth).tolist()
    clear = np.ones(len(collection), np.bool_)
    clear[ambiguous(collection, names)] = False
    counts = {(name, side): int((clear & (truth == name) & (mask == side)).sum()) for name in names
              for side in (True, False)}
    kept = tuple(name for name in names if min(counts[name, True], counts[name, False]) >= LEAST)
    if len(kept) < 2:
        raise ShiftBenchError(f"Only {len(kept)} labels have {LEAST} items or more both inside the context and "
                              "elsewhere, and a test takes two. Choose another finding, or draw the test at random: "
                              "--set balanced=false.")
    unseen = {name for name in kept if labelled[truth == name].any()}
    each = min(counts[name, side] - few if side and name in unseen else counts[name, side] // 3
               for name in kept for side in (True, False))
    if each < 1:
        raise ShiftBenchError(f"Training is to have {few} items of the context, which leaves none of some label for "
                              "the test. Ask for fewer.")
    return kept, [name for name in names if name not in kept], 2 * len(kept) * each


def _shift(truth: Strs, labelled: Bools, changes: Mapping[str, Any]) -> tuple[type[Shift], dict[str, Any]]:
    """The shift that fits, and its settings; `labelled` are the items of the labels that the context names."""
    if labelled.all():
        if "n_low" in changes:
            return LowData, {"low": (IN,), **changes}
        return Unseen, {"unseen": (IN,), **changes}
    pairs = {name: (OUT,) if labelled[truth == name].any() else (IN, OUT) for name in np.unique(truth).tolist()}
    return Spurious, {"pairs": pairs, "against": True, "n_uncorrelated": 1, **changes}
