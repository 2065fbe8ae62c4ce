"""Contexts that are kept: predicates as data in a TOML file, and the items of any collection that fulfil them.

    format = "shiftbench contexts"
    version = 1
    loss = "error"

    [[context]]
    name = "light is night and age from 30 to under 45"
    loss = 0.41       # when it was found
    n = 312

    [[context.predicate]]
    column = "light"
    value = "night"
    kind = "factor"
    words = "light is night"

    [[context.predicate]]
    column = "age"
    kind = "number"
    low = 30.0
    high = 45.0
    value = "from 30 to under 45"
    words = "age from 30 to under 45"
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.auditing.findings import Audit
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.arrays import Bools, Strs, Values
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import read_toml, write_text
from shiftbench.core.parsing import to_toml
from shiftbench.core.registry import make
from shiftbench.data.collection import Collection
from shiftbench.data.questions import UNKNOWN, dates

FORMAT = "shiftbench contexts"
TOP_KEYS = ("format", "version", "loss", "context")
CONTEXT_KEYS = ("name", "loss", "n", "predicate")
DAY = 86_400_000_000
"""Microseconds, in which moments are counted."""


class Context(NamedTuple):
    """A context that is kept as a test: its predicates, and the loss in it when it was found."""

    members: tuple[Predicate, ...]
    loss: float = math.nan
    n: int = 0

    @property
    def name(self) -> str:
        return " and ".join(member.words for member in self.members)


# Which items are in a context

def inside(
    members: Sequence[Predicate], items: Collection, *, truth: Values | None = None, predicted: Values | None = None
) -> Bools:
    """Which items of a collection fulfil all predicates. `truth` and `predicted` are their labels and predictions."""
    mask = np.ones(len(items), np.bool_)
    for member in members:
        mask &= holds(member, items, truth=truth, predicted=predicted)
    return mask


def holds(
    predicate: Predicate, items: Collection, *, truth: Values | None = None, predicted: Values | None = None
) -> Bools:
    """Which items of a collection fulfil a predicate; a column that is not there is an error."""
    kind, column = predicate.kind, predicate.column
    if kind == "cluster":
        raise ShiftBenchError(f"The context '{predicate.words}' is a cluster of features, which the audit that found "
                              "it made for its own items. Leave the context out, or make the cluster a column.")
    if kind in ("word", "no word"):
        has_word, has_text = _words(predicate, items)
        return has_word if kind == "word" else has_text & ~has_word
    if kind == "area":
        area = np.asarray(items.factor(column), np.float64)
        return np.asarray((area > 0) & _within(area, predicate), np.bool_)
    known = {"label": truth, "prediction": predicted}
    values = known[kind] if kind in known else _column(column, items, truth)
    if values is None:
        raise ShiftBenchError(f"The context '{predicate.words}' asks for the {kind} of each item, which is not known "
                              "here. Leave the context out.")
    if kind == "missing":
        return ~_is_known(values)
    if kind == "class" and not column.startswith("has:"):
        return np.isin(values.astype(np.str_), sorted({predicate.value, *items.below(predicate.value)}))
    if kind == "date" and _is_interval(predicate) and not column.startswith("hour:"):
        moments = dates(values, column)
        return _within(np.where(moments.known, moments.moment // DAY, np.nan), predicate)
    if _is_interval(predicate):
        return _within(_numbers(values, predicate), predicate)
    return np.asarray(_written(values) == predicate.value, np.bool_)


def _column(column: str, items: Collection, truth: Values | None) -> Values | None:
    """A factor of the items, or an answer about their tags or dates; the label where the column is none of these."""
    if truth is not None and column not in items.factors and ":" not in column:
        return truth
    return items.factor(column)


def _is_interval(predicate: Predicate) -> bool:
    return math.isfinite(predicate.low) or math.isfinite(predicate.high)


def _within(values: Values, predicate: Predicate) -> Bools:
    return np.asarray((values >= predicate.low) & (values < predicate.high), np.bool_)  # NaN is nowhere


def _numbers(values: Values, predicate: Predicate) -> Values:
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    try:
        return np.asarray([math.nan if value in ("", UNKNOWN) else float(value) for value in values.tolist()])
    except ValueError as problem:
        raise ShiftBenchError(f"The context '{predicate.words}' needs numbers in '{predicate.column}', which holds "
                              f"words ('{values[0]}', …).") from problem


def _written(values: Values) -> Strs:
    """Values as predicates write them: 3 and 3.0 are both 3."""
    if values.dtype.kind == "f":
        return np.asarray([f"{value:.12g}" for value in values.tolist()], np.str_)
    return values.astype(np.str_)


def _is_known(values: Values) -> Bools:
    if values.dtype.kind == "f":
        return np.asarray(np.isfinite(values), np.bool_)
    return np.asarray(values.astype(np.str_) != "", np.bool_)


def _words(predicate: Predicate, items: Collection) -> tuple[Bools, Bools]:
    """Which items have a text with the word, and which have a text at all."""
    has_word, has_text = np.zeros((2, len(items)), np.bool_)
    if predicate.column in items.factors:
        rows, texts = np.arange(len(items)), items.factors[predicate.column]
        kept = texts.astype(np.str_) != "" if texts.dtype.kind == "U" else np.asarray([bool(text) for text in texts])
        rows, texts = rows[kept], texts[kept]
    else:
        rows, texts = items.texts.item, items.texts.text
    pattern = re.compile(rf"(?<![^\W_]){re.escape(predicate.value)}(?![^\W_])", re.IGNORECASE)
    has_text[rows] = True
    has_word[rows[[pattern.search(str(text)) is not None for text in texts.tolist()]]] = True
    return has_word, has_text


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
    loss, n = table.get("loss", math.nan), table.get("n", 0)
    if isinstance(loss, bool) or not isinstance(loss, int | float) or type(n) is not int:
        raise ShiftBenchError(f"{where}: 'loss' must be a number and 'n' a whole number.")
    return Context(tuple(make(Predicate, member, f"{where}, predicate {number}")
                         for number, member in enumerate(members, 1)), float(loss), n)


def write_contexts(path: Path | str, loss: str, contexts: Sequence[Context]) -> Path:
    """Write a file of contexts: predicates as tables of facts, nothing that would have to be parsed."""
    lines = ["# Contexts that `shiftbench gate --contexts` tests. Add, change and delete them as you like.",
             f"format = {to_toml(FORMAT)}", "version = 1", f"loss = {to_toml(loss)}"]
    for context in contexts:
        lines += ["", "[[context]]", f"name = {to_toml(context.name)}"]
        lines += [f"loss = {to_toml(context.loss)}"] if math.isfinite(context.loss) else []
        lines += [f"n = {context.n}"] if context.n else []
        for member in context.members:
            lines += ["", "[[context.predicate]]"]
            lines += [f"{field.name} = {to_toml(getattr(member, field.name))}" for field in fields(member)
                      if getattr(member, field.name) != field.default]
    return write_text(path, "\n".join([*lines, ""]))


def keep(audit: Audit, path: Path | str) -> int:
    """Add the findings of an audit to a file of contexts, or begin one; gives how many were not in it yet.

    What the file has stays as it is: a context is a test, and a test does not move because a model did. A finding about
    what the model says ("prediction is cat"), or about a cluster of features, is left out: in another audit these are
    other items.
    """
    loss = str(audit.card.get("loss") or "error")
    before: tuple[Context, ...] = ()
    if Path(path).exists():
        kept_loss, before = load_contexts(path)
        if kept_loss not in ("", loss):
            raise ShiftBenchError(f"{path}: holds contexts of the loss '{kept_loss}', and this audit is of '{loss}'. "
                                  "Keep them in another file.")
    known = {frozenset(context.members) for context in before}
    changed = bool(audit.card.get("against"))  # then the loss of a finding is a change, not a level
    new = [Context(finding.members, math.nan if changed else finding.loss, finding.n) for finding in audit.findings
           if frozenset(finding.members) not in known
           and not any(member.kind in ("prediction", "cluster") for member in finding.members)]
    write_contexts(path, loss, [*before, *new])
    return len(new)
