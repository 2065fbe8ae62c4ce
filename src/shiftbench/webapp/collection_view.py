"""A collection: its items, filtered and coloured by what is known about them, with counts and cross tables."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from shiftbench.auditing.cut_points import Interval
from shiftbench.auditing.predicates import Predicate, has_value, has_word, is_kind_of
from shiftbench.auditing.vocabulary import DAY, TEXT, is_known
from shiftbench.core.arrays import Ints, Values
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.data.questions import moment
from shiftbench.webapp.coded_columns import Coded, Column, coded
from shiftbench.webapp.item_view import opened, why_none
from shiftbench.webapp.studio import Answer, Query, Studio, request

PAGE = 120
"""Items of one request."""
MOST_VALUES = 50
"""Values of a column, and tags of a kind, that are listed at a time."""
MOST_CELLS = 20
"""Rows and columns of a cross table; what is beyond is one row or column."""
COLOURS = 7
OTHERS = "var(--m0)"
"""The colour of values that are too rare for one of their own."""
LONGEST = 300
"""Letters of a text on the wall."""
NOTED = 8
"""Factors that a row of a table shows."""


def collection(studio: Studio, query: Query) -> Mapping[str, Any]:
    """What a collection holds, before anything is counted; the first on the shelf where none is named."""
    ids = [thing.id for thing in studio.shelf.things("collection")]
    on = query.text("on") or (ids[0] if ids else "")
    if not on:
        raise ShiftBenchError("There is no collection in the studio's folder. Make one: shiftbench read world scenes "
                              "--out collections/scenes")
    items = studio.shelf.collection(on)
    prose = [name for name, values in items.factors.items() if values.dtype.kind == "O"]
    return {"collections": ids, "on": on, "name": items.name, "n": len(items), "factors": list(items.factors),
            "texts": [*([TEXT] if len(items.texts.item) else []), *prose],
            "questions": _questions(items), "command": f"shiftbench show {_path(studio, on)}",
            "also": _also(studio, Query({**query, "on": on}))}


def warm(studio: Studio) -> None:
    """Load and code the first collection, in a thread beside the server: its first page is then there at once."""
    with suppress(ShiftBenchError, OSError):  # the page says what is wrong
        counts(studio, Query({"on": str(collection(studio, Query({}))["on"])}))


def _also(studio: Studio, query: Query) -> list[str]:
    """What the page asks next: the panel, the first page of the wall, and what the state opens."""
    def of(name: str, *keys: str) -> str:
        return request(name, **{key: query.text(key) for key in ("on", *keys)})

    held = _coded(studio, query)
    also = [of("look"), of("counts", "where", "more"), of("items", "where", "colour", "order", "down", "mixed")]
    also += [of("legend", "colour")] if query.text("colour") else []
    also += [of("cross", "where", "a", "b")] if query.text("a") and query.text("b") else []
    also += opened(studio, query.text("on"), query.text("item"))
    try:
        shown = _rows(held, query)[:0 if why_none(held.collection) else PAGE]
    except ShiftBenchError:  # the request that needs it says what is wrong
        return also
    return also + [request("thumbnail", on=query.text("on"), row=str(row), version=held.digest[:12]) for row in shown]


def _coded(studio: Studio, query: Query) -> Coded:
    return coded(studio.shelf.collection(query.text("on")))


def _rows(held: Coded, query: Query) -> Ints:
    return held.rows(query.where(), query.text("order"), bool(query.text("down")), bool(query.text("mixed")))


def _path(studio: Studio, on: str) -> str:
    return shlex.quote(str(studio.shelf.find("collection", on).path))


def _questions(items: Collection) -> list[str]:
    """Further columns that can be asked for: the areas of the most frequent tags."""
    tags = items.tags
    if np.isnan(tags.area).all():
        return []
    size = np.bincount(tags.tag[np.isfinite(tags.area)], minlength=len(tags.names))
    return [f"area:{tags.names[code]}" for code in np.argsort(-size, kind="stable")[:MOST_VALUES] if size[code]]


# The wall

def items(studio: Studio, query: Query) -> Mapping[str, Any]:
    """A page of the items that fulfil the filter, in an order, each with its colour and what is said of it."""
    held = _coded(studio, query)
    rows = _rows(held, query)
    start = query.whole("from", 0)
    shown = rows[start:start + query.whole("many", PAGE, low=1, high=1000)]
    colour = held.column(query.text("colour")) if query.text("colour") else None
    marks = _colours(colour)
    labels, notes = _said(held, shown, query.text("colour"))
    entries = [{"row": row, "id": id, "label": label, "note": note,
                "mark": "" if colour is None or code < 0 else marks[code]}
               for row, id, label, note, code in zip(
                   shown.tolist(), held.collection.items[shown].tolist(), labels, notes,
                   [-1] * len(shown) if colour is None else colour.codes[shown].tolist(), strict=True)]
    return {"n": len(rows), "of": len(held), "from": start, "items": entries}


def _said(held: Coded, rows: Ints, name: str) -> tuple[list[str], list[str]]:
    """What is said of items first, and in small: a factor under a picture, the text, or the values of a table."""
    items = held.collection
    shown = {factor: values for factor, values in items.factors.items() if values.dtype.kind != "O"}
    main = name or next(iter(shown), "")
    values = _written(items.factor(main)[rows], main.startswith("area:")) if main else [""] * len(rows)
    if items.pixels is not None and not why_none(items):
        return values, [""] * len(rows)
    if len(items.texts.item):
        first = items._first_text[rows]
        return [str(items.texts.text[text])[:LONGEST] if text >= 0 else "" for text in first.tolist()], values
    columns = {factor: _written(shown[factor][rows]) for factor in list(shown)[:NOTED]}
    return items.items[rows].tolist(), [" · ".join(f"{factor} {words[number][:LONGEST]}" for factor, words in
                                                   columns.items() if words[number]) for number in range(len(rows))]


def _written(values: Values, share: bool = False) -> list[str]:
    """Values as a person reads them; "" where one is missing."""
    known = is_known(values).tolist()
    words = values.astype(str).tolist() if values.dtype.kind != "f" else [
        f"{100 * value:.1f} %" if share else f"{value:.6g}" for value in values.tolist()]
    return [word[:LONGEST] if has else "" for word, has in zip(words, known, strict=True)]


def _colours(column: Column | None) -> list[str]:
    """The colour of each code: of values the most frequent have one each; of bins each is a shade of one."""
    if column is None:
        return []
    if column.shape not in ("values", "bins"):
        raise ShiftBenchError(f"'{column.name}' has no colours: it holds a text, or a value of its own for nearly "
                              "every item. Choose another column.")
    if column.edges:
        many = max(len(column.edges) - 2, 1)
        shades = [f"color-mix(in oklab, var(--m1) {15 + 85 * bin // many}%, var(--line))"
                  for bin in range(len(column.edges) - 1)]
        return [*shades, "var(--faint)"][:len(column.names)]
    order = np.argsort(-column.counts(None), kind="stable")
    frequent = [code for code in order.tolist() if column.names[code] != ""][:COLOURS]
    return [f"var(--m{frequent.index(code) + 1})" if code in frequent else OTHERS
            for code in range(len(column.names))]


def legend(studio: Studio, query: Query) -> Mapping[str, Any]:
    """What the colours of a wall mean."""
    column = _coded(studio, query).column(query.text("colour"))
    colours = _colours(column)
    listed = [{"name": name or "missing", "colour": colour} for name, colour in zip(column.names, colours, strict=True)]
    if column.edges:
        many = len(column.edges) - 1
        return {"ramp": listed[:many], "entries": listed[many:]}
    rest = [entry for entry in listed if entry["colour"] == OTHERS]
    own = sorted((entry for entry in listed if entry["colour"] != OTHERS), key=lambda entry: entry["colour"])
    return {"ramp": [], "entries": [*own, *(rest if len(rest) < 2 else [
        {"name": f"{len(rest):,} others", "colour": OTHERS}])]}


# The panel

def counts(studio: Studio, query: Query) -> Mapping[str, Any]:
    """How many items of the filter have each value of each column, each tag and each class of the hierarchy."""
    held = _coded(studio, query)
    where = query.where()
    mask = held.mask(where)
    rows = None if mask is None else held.rows(where)
    names = [*held.collection.factors, *query.names("more")]
    columns = [_listed(held.column(name), rows) for name in dict.fromkeys(names)]
    return {"n": len(held) if rows is None else len(rows), "of": len(held), "columns": columns,
            "tags": _tags(held, mask), "command": _command(studio, query.text("on"), where)}


def _command(studio: Studio, on: str, where: Sequence[Predicate]) -> str:
    import msgspec

    text = msgspec.json.encode([predicate.facts() for predicate in where]).decode()
    return f"shiftbench show {_path(studio, on)}{f' --where {shlex.quote(text)}' if where else ''}"


def _listed(column: Column, rows: Ints | None, find: str = "") -> dict[str, Any]:
    """A column with the counts of its values: of bins all, of values the most frequent."""
    facts = {"name": column.name, "shape": column.shape, "kind": column.kind, "many": len(column.names)}
    if column.shape not in ("values", "bins"):
        return {**facts, "values": [], "classes": []}
    n, every = column.counts(rows), column.counts(None)
    codes: Iterable[int] = range(len(column.names))
    if find:
        codes = [code for code in codes if find.casefold() in column.names[code].casefold()]
    if not column.edges and not column.ordered:
        codes = sorted(codes, key=lambda code: (column.names[code] == "", -(
            every[code] if len(column.names) <= MOST_VALUES else n[code])))[:MOST_VALUES]
    classes = [{"name": name, "n": int(n[below].sum()), "all": int(every[below].sum()),
                "is": is_kind_of(column.name, name).facts()} for name, below in column.classes.items()]
    return {**facts, "classes": [] if find else classes, "edges": list(column.edges), "values": [
        {"name": column.names[code] or "missing", "n": int(n[code]), "all": int(every[code]),
         "is": column.predicate(code).facts()} for code in codes]}


def _tags(held: Coded, mask: Any, find: str = "") -> list[dict[str, Any]]:
    """Tags by kind, then the classes above them; the most frequent of each."""
    tags = held.tags
    if not tags.words:
        return []
    n, classes = tags.counts(mask)
    kinds: dict[str, list[int]] = {}
    for code in np.argsort(-n, kind="stable").tolist():
        if find.casefold() in tags.words[code].casefold():
            kinds.setdefault(tags.tags.kinds[code], []).append(code)
    listed = [{"name": kind, "many": len(codes), "values": [
        {"name": tags.words[code], "n": int(n[code]), "all": int(tags.all_tags[code]), "is": tags.tag(code).facts()}
        for code in codes[:MOST_VALUES]]} for kind, codes in sorted(kinds.items())]
    above = [code for code in np.argsort(-classes, kind="stable").tolist()
             if find.casefold() in tags.classes[code].casefold()]
    return listed + [{"name": "classes of tags", "many": len(above), "values": [
        {"name": tags.classes[code], "n": int(classes[code]), "all": int(tags.all_classes[code]),
         "is": tags.tag_class(code).facts()} for code in above]}] * bool(above)


def values(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The values of a column whose names hold some letters; of all tags where no column is named."""
    held = _coded(studio, query)
    where, find = query.where(), query.text("find")
    if not query.text("column"):
        return {"tags": _tags(held, held.mask(where), find)}
    return _listed(held.column(query.text("column")), held.rows(where) if where else None, find)


def predicate(studio: Studio, query: Query) -> Mapping[str, Any]:
    """A predicate that a person wrote: a word of a text, an exact value, or a range of numbers or dates."""
    held = _coded(studio, query)
    name, value = query.text("column"), query.text("value").strip()
    if query.text("word"):
        if name != TEXT and name not in held.collection.factors:
            raise unknown("text", name, [TEXT, *held.collection.factors])
        condition = has_word(name, query.text("word").strip())
    elif value:
        condition = has_value(name, value)
    else:
        column = held.column(name)
        if not column.edges:
            raise ShiftBenchError(f"'{name}' has no numbers to take a range of. Choose one of its values.")
        low, high = (_end(query, end, column) for end in ("low", "high"))
        if not low < high:
            raise ShiftBenchError(f"The range of '{name}' is empty: its upper end must be above its lower end.")
        condition = column.within(Interval(low, high))
    mask = held.mask([condition])
    return {"is": condition.facts(), "n": len(held) if mask is None else int(np.count_nonzero(mask))}


def _end(query: Query, end: str, column: Column) -> float:
    """An end of a range; a date is a day."""
    if not query.text(end):
        return -np.inf if end == "low" else np.inf
    if column.kind == "date":
        return float(moment(query.text(end), column.name) // DAY)
    return query.number(end, 0)


# The cross table

def cross(studio: Studio, query: Query) -> Mapping[str, Any]:
    """How many items of the filter have each pair of values of two columns."""
    held = _coded(studio, query)
    where = query.where()
    rows = held.rows(where)
    one, other = (_axis(held.column(query.text(name)), rows) for name in ("a", "b"))
    codes, names = (one[0], other[0]), (one[1], other[1])
    many = len(names[1])
    both = (codes[0] >= 0) & (codes[1] >= 0)
    cells = np.bincount(codes[0][both] * many + codes[1][both], minlength=len(names[0]) * many)
    table = cells.reshape(len(names[0]), many)
    return {"a": query.text("a"), "b": query.text("b"), "n": len(rows), "cells": table.tolist(),
            "rows": _with_counts(names[0], table.sum(axis=1)), "columns": _with_counts(names[1], table.sum(axis=0)),
            "command": studio.command("cross", **{key: query.text(key) for key in ("on", "where", "a", "b")})}


def _axis(column: Column, rows: Ints) -> tuple[Ints, list[dict[str, Any]]]:
    """The code of each row on a side of the table, and what each code says; rare values are one."""
    if column.shape not in ("values", "bins"):
        raise ShiftBenchError(f"'{column.name}' cannot be a side of a cross table: it holds a text, or a value of its "
                              "own for nearly every item. Choose another column.")
    n = column.counts(rows)
    order = np.argsort(-n, kind="stable")[:np.count_nonzero(n)]
    shown, rare = (np.arange(len(n)), order[:0]) if column.edges else (order[:MOST_CELLS], order[MOST_CELLS:])
    code_of = np.full(len(n), -1)
    code_of[shown] = np.arange(len(shown))
    code_of[rare] = len(shown)
    names = [{"name": column.names[code] or "missing", "is": column.predicate(code).facts()} for code in shown.tolist()]
    codes = column.codes[rows]
    return np.where(codes >= 0, code_of[codes], -1), [
        *names, *([{"name": f"{len(rare):,} others", "is": None}] if len(rare) else [])]


def _with_counts(names: list[dict[str, Any]], n: Ints) -> list[dict[str, Any]]:
    return [{**name, "n": k} for name, k in zip(names, n.tolist(), strict=True)]


ANSWERS: dict[str, Answer] = {"collection": collection, "items": items, "legend": legend, "counts": counts,
                              "values": values, "predicate": predicate, "cross": cross}
