"""A collection: its items, filtered and coloured by what is known about them, with counts and cross tables."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from shiftbench.auditing.predicates import Interval, Predicate
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
"""Rows and columns of a cross table; the others are summed in one row or column."""
COLOURS = 7
OTHERS = "var(--m0)"
"""The colour of values that are too rare for one of their own."""
LONGEST = 300
"""Letters of a text on the wall."""
NOTED = 8
"""Factors that a row of a table shows."""


def collection(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The contents of a collection, before anything is counted; the first on the shelf if the request names none."""
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
    """Load and code the first collection, in a thread beside the server: its first page then appears at once."""
    with suppress(ShiftBenchError, OSError):  # the page says what is wrong
        counts(studio, Query({"on": str(collection(studio, Query({}))["on"])}))


def _also(studio: Studio, query: Query) -> list[str]:
    """What the page asks next: the panel, the first page of the wall, and whatever is open."""
    def of(name: str, *keys: str) -> str:
        return request(name, **{key: query.text(key) for key in ("on", *keys)})

    coded = _coded(studio, query)
    also = [of("look"), of("counts", "where", "more"), of("items", "where", "colour", "order", "down", "mixed")]
    also += [of("legend", "colour")] if query.text("colour") else []
    also += [of("cross", "where", "a", "b")] if query.text("a") and query.text("b") else []
    also += opened(studio, query.text("on"), query.text("item"))
    try:
        rows = _rows(coded, query)[:0 if why_none(coded.collection) else PAGE]
    except ShiftBenchError:  # the request that needs it says what is wrong
        return also
    return also + [request("thumbnail", on=query.text("on"), row=str(row), version=coded.digest[:12]) for row in rows]


def _coded(studio: Studio, query: Query) -> Coded:
    return coded(studio.shelf.collection(query.text("on")))


def _rows(coded: Coded, query: Query) -> Ints:
    return coded.rows(query.where(), query.text("order"), bool(query.text("down")), bool(query.text("mixed")))


def _path(studio: Studio, on: str) -> str:
    return shlex.quote(str(studio.shelf.find("collection", on).path))


def _questions(items: Collection) -> list[str]:
    """Columns that a person can add: the areas of the most frequent tags."""
    tags = items.tags
    if np.isnan(tags.area).all():
        return []
    size = np.bincount(tags.tag[np.isfinite(tags.area)], minlength=len(tags.names))
    return [f"area:{tags.names[code]}" for code in np.argsort(-size, kind="stable")[:MOST_VALUES] if size[code]]


# The wall

def items(studio: Studio, query: Query) -> Mapping[str, Any]:
    """A page of the items that fulfil the filter, in an order, each with its colour and caption."""
    coded = _coded(studio, query)
    rows = _rows(coded, query)
    start = query.whole("from", 0)
    page = rows[start:start + query.whole("many", PAGE, low=1, high=1000)]
    colour = coded.column(query.text("colour")) if query.text("colour") else None
    marks = _colours(colour)
    labels, notes = _captions(coded, page, query.text("colour"))
    entries = [{"row": row, "id": id, "label": label, "note": note,
                "mark": "" if colour is None or code < 0 else marks[code]}
               for row, id, label, note, code in zip(
                   page.tolist(), coded.collection.items[page].tolist(), labels, notes,
                   [-1] * len(page) if colour is None else colour.codes[page].tolist(), strict=True)]
    return {"n": len(rows), "of": len(coded), "from": start, "items": entries}


def _captions(coded: Coded, rows: Ints, name: str) -> tuple[list[str], list[str]]:
    """The caption of each item and its small print: a factor under a picture, the text, or a table's values."""
    items = coded.collection
    factors = {factor: values for factor, values in items.factors.items() if values.dtype.kind != "O"}
    main = name or next(iter(factors), "")
    values = _written(items.factor(main)[rows], main.startswith("area:")) if main else [""] * len(rows)
    if items.pixels is not None and not why_none(items):
        return values, [""] * len(rows)
    if len(items.texts.item):
        first = items._first_text[rows]
        return [str(items.texts.text[text])[:LONGEST] if text >= 0 else "" for text in first.tolist()], values
    columns = {factor: _written(factors[factor][rows]) for factor in list(factors)[:NOTED]}
    return items.items[rows].tolist(), [" · ".join(f"{factor} {texts[number][:LONGEST]}" for factor, texts in
                                                   columns.items() if texts[number]) for number in range(len(rows))]


def _written(values: Values, share: bool = False) -> list[str]:
    """Values as a person reads them; "" where one is missing."""
    known = is_known(values).tolist()
    texts = values.astype(str).tolist() if values.dtype.kind != "f" else [
        f"{100 * value:.1f} %" if share else f"{value:.6g}" for value in values.tolist()]
    return [text[:LONGEST] if has else "" for text, has in zip(texts, known, strict=True)]


def _colours(column: Column | None) -> list[str]:
    """The colour of each code: the most frequent values have one each; bins are shades of one colour."""
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
    pairs = zip(column.names, _colours(column), strict=True)
    entries = [{"name": name or "missing", "colour": colour} for name, colour in pairs]
    if column.edges:
        many = len(column.edges) - 1
        return {"ramp": entries[:many], "entries": entries[many:]}
    others = [entry for entry in entries if entry["colour"] == OTHERS]
    coloured = sorted((entry for entry in entries if entry["colour"] != OTHERS), key=lambda entry: entry["colour"])
    return {"ramp": [], "entries": [*coloured, *(others if len(others) < 2 else [
        {"name": f"{len(others):,} others", "colour": OTHERS}])]}


# The panel

def counts(studio: Studio, query: Query) -> Mapping[str, Any]:
    """How many items of the filter have each value of each column, each tag and each class of the hierarchy."""
    coded = _coded(studio, query)
    where = query.where()
    mask = coded.mask(where)
    rows = None if mask is None else coded.rows(where)
    names = [*coded.collection.factors, *query.names("more")]
    columns = [_column_facts(coded.column(name), rows) for name in dict.fromkeys(names)]
    return {"n": len(coded) if rows is None else len(rows), "of": len(coded), "columns": columns,
            "tags": _tags(coded, mask), "command": _command(studio, query.text("on"), where)}


def _command(studio: Studio, on: str, where: Sequence[Predicate]) -> str:
    import msgspec

    text = msgspec.json.encode([predicate.facts() for predicate in where]).decode()
    return f"shiftbench show {_path(studio, on)}{f' --where {shlex.quote(text)}' if where else ''}"


def _column_facts(column: Column, rows: Ints | None, find: str = "") -> dict[str, Any]:
    """A column with the counts of its values: all bins, or the most frequent values."""
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
                "is": Predicate.of(column.name, name, "class").facts()} for name, below in column.classes.items()]
    return {**facts, "classes": [] if find else classes, "edges": list(column.edges), "values": [
        {"name": column.names[code] or "missing", "n": int(n[code]), "all": int(every[code]),
         "is": column.predicate(code).facts()} for code in codes]}


def _tags(coded: Coded, mask: Any, find: str = "") -> list[dict[str, Any]]:
    """Tags by kind, then the classes above them; the most frequent of each."""
    tags = coded.tags
    if not tags.words:
        return []
    n, classes = tags.counts(mask)
    kinds: dict[str, list[int]] = {}
    for code in np.argsort(-n, kind="stable").tolist():
        if find.casefold() in tags.words[code].casefold():
            kinds.setdefault(tags.tags.kinds[code], []).append(code)
    groups = [{"name": kind, "many": len(codes), "values": [
        _tag(tags.words[code], "tag", n[code], tags.all_tags[code]) for code in codes[:MOST_VALUES]]}
        for kind, codes in sorted(kinds.items())]
    above = [code for code in np.argsort(-classes, kind="stable").tolist()
             if find.casefold() in tags.classes[code].casefold()]
    return groups + [{"name": "classes of tags", "many": len(above), "values": [
        _tag(tags.classes[code], "class", classes[code], tags.all_classes[code]) for code in above]}] * bool(above)


def _tag(name: str, kind: str, n: int, every: int) -> dict[str, Any]:
    return {"name": name, "n": int(n), "all": int(every), "is": Predicate.of(f"has:{name}", "yes", kind).facts()}


def values(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The values of a column whose names contain some letters; without a column, such tags."""
    coded = _coded(studio, query)
    where, find = query.where(), query.text("find")
    if not query.text("column"):
        return {"tags": _tags(coded, coded.mask(where), find)}
    return _column_facts(coded.column(query.text("column")), coded.rows(where) if where else None, find)


def predicate(studio: Studio, query: Query) -> Mapping[str, Any]:
    """A predicate that a person wrote: a word of a text, an exact value, or a range of numbers or dates."""
    coded = _coded(studio, query)
    name, value = query.text("column"), query.text("value").strip()
    if query.text("word"):
        if name != TEXT and name not in coded.collection.factors:
            raise unknown("text", name, [TEXT, *coded.collection.factors])
        condition = Predicate.of(name, query.text("word").strip(), "word")
    elif value:
        condition = Predicate.of(name, value)
    else:
        column = coded.column(name)
        if not column.edges:
            raise ShiftBenchError(f"'{name}' has no numbers to take a range of. Choose one of its values.")
        low, high = (_end(query, end, column) for end in ("low", "high"))
        if not low < high:
            raise ShiftBenchError(f"The range of '{name}' is empty: its upper end must be above its lower end.")
        condition = column.within(Interval(low, high))
    mask = coded.mask([condition])
    return {"is": condition.facts(), "n": len(coded) if mask is None else int(np.count_nonzero(mask))}


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
    coded = _coded(studio, query)
    where = query.where()
    rows = coded.rows(where)
    (a, a_names), (b, b_names) = (_axis(coded.column(query.text(name)), rows) for name in ("a", "b"))
    both = (a >= 0) & (b >= 0)
    cells = np.bincount(a[both] * len(b_names) + b[both], minlength=len(a_names) * len(b_names))
    table = cells.reshape(len(a_names), len(b_names))
    return {"a": query.text("a"), "b": query.text("b"), "n": len(rows), "cells": table.tolist(),
            "rows": _with_counts(a_names, table.sum(axis=1)), "columns": _with_counts(b_names, table.sum(axis=0)),
            "command": studio.command("cross", **{key: query.text(key) for key in ("on", "where", "a", "b")})}


def _axis(column: Column, rows: Ints) -> tuple[Ints, list[dict[str, Any]]]:
    """The code of each row on one axis of the table, and the name of each code; rare values share one code."""
    if column.shape not in ("values", "bins"):
        raise ShiftBenchError(f"'{column.name}' cannot be a side of a cross table: it holds a text, or a value of its "
                              "own for nearly every item. Choose another column.")
    n = column.counts(rows)
    order = np.argsort(-n, kind="stable")[:np.count_nonzero(n)]
    frequent, rare = (np.arange(len(n)), order[:0]) if column.edges else (order[:MOST_CELLS], order[MOST_CELLS:])
    code_of = np.full(len(n), -1)
    code_of[frequent] = np.arange(len(frequent))
    code_of[rare] = len(frequent)
    names = [{"name": column.names[code] or "missing", "is": column.predicate(code).facts()}
             for code in frequent.tolist()]
    codes = column.codes[rows]
    return np.where(codes >= 0, code_of[codes], -1), [
        *names, *([{"name": f"{len(rare):,} others", "is": None}] if len(rare) else [])]


def _with_counts(names: list[dict[str, Any]], n: Ints) -> list[dict[str, Any]]:
    return [{**name, "n": k} for name, k in zip(names, n.tolist(), strict=True)]


ANSWERS: dict[str, Answer] = {"collection": collection, "items": items, "legend": legend, "counts": counts,
                              "values": values, "predicate": predicate, "cross": cross}
