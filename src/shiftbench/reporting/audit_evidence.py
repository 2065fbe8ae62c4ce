"""The items behind a finding of an audit: examples, the contexts around it, and calibration inside it."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.auditing.findings import Finding
from shiftbench.auditing.join import Items, as_array
from shiftbench.auditing.predicates import Predicate, Predicates
from shiftbench.core.arrays import Bools, Floats, Ints, Values, child
from shiftbench.data.collection import Collection, Texts
from shiftbench.data.questions import base_of
from shiftbench.reporting.charts import (
    Bar,
    Entry,
    Group,
    Guide,
    Look,
    Mark,
    Panel,
    Scale,
    Spot,
    box,
    cell,
    ends_of,
    hundredths,
    legends,
    line,
    plain,
    rows,
    scale,
    scatter,
    text,
)
from shiftbench.reporting.pictures import thumbnails
from shiftbench.scoring.intervals import wilson
from shiftbench.scoring.metrics import in_unit, percent

PER_SIDE, TEXT, VALUES, CHILDREN, BINS = 8, 320, 6, 6, 8
"""Examples on either side, letters of a text, values of an item, narrower contexts, and bins of a calibration."""
PER_BIN = 15
"""The fewest items of a calibration bin; with fewer items there are fewer bins."""
LEAST = 10
"""The fewest confirming items of a narrower context."""
INSIDE, OUTSIDE = Look(2, 0), Look(0, 1)
HALF, NARROW = 560.0, 360.0
LETTER = 6.7
"""The width of a letter of a label, in pixels, on average."""


class Evidence(NamedTuple):
    """The items behind an audit, from which the page shows examples, the contexts around a finding and calibration."""

    items: Items
    predicates: Predicates  # of the items whose loss is a number
    confirming: Bools  # of the same

    @property
    def audited(self) -> Items:
        finite = np.isfinite(self.items.loss)
        return self.items if finite.all() else self.items.take(np.flatnonzero(finite))


def behind(evidence: Evidence | None, finding: Finding, card: Mapping[str, Any], unit: str) -> dict[str, Any]:
    """Examples, the contexts around a finding, and calibration; None for each if the items are not available."""
    numbers = None if evidence is None else _numbers(finding, evidence.predicates)
    if evidence is None or numbers is None:
        return {"examples": None, "lattice": None, "calibration": None}
    items, inside = evidence.audited, _mask(evidence.predicates, numbers)
    least = max(LEAST, round(int(card.get("least") or 0) * float(card.get("confirm") or 0.5)))
    return {"examples": [{"head": side.head, "entries": _entries(side.rows, items, finding.members)}
                         for side in failing_and_passing(name_of(finding.members), inside, items.loss)],
            "lattice": _lattice(numbers, evidence.predicates, items.loss, evidence.confirming, least, unit),
            "calibration": _calibration(inside, items, evidence.confirming)}


def _numbers(finding: Finding, predicates: Predicates) -> list[int] | None:
    """The numbers of a finding's predicates; None unless all of them are listed."""
    number_of = {predicate: number for number, predicate in enumerate(predicates.list)}
    numbers = [number_of.get(member, -1) for member in finding.members]
    return None if min(numbers, default=-1) < 0 else numbers


def _mask(predicates: Predicates, numbers: Iterable[int]) -> Bools:
    mask = np.ones(predicates.n, np.bool_)
    for number in numbers:
        mask &= predicates.mask(number)
    return mask


def name_of(members: Sequence[Predicate]) -> str:
    """A context in words.

    >>> name_of([])
    'all items'
    """
    return " and ".join(member.words for member in members) or "all items"


# The contexts around it

def _lattice(
    numbers: Sequence[int], predicates: Predicates, loss: Floats, confirming: Bools, least: int, unit: str
) -> dict[str, Any]:
    """The contexts one predicate wider and one narrower, with their losses on the confirming items."""
    inside = _mask(predicates, numbers) & confirming

    def row(mask: Bools, name: str, look: Look, style: str = "pale-bar") -> Entry:
        mean, n = float(loss[mask].mean()) if mask.any() else math.nan, f"{int(mask.sum()):,} items"
        number = in_unit(mean, {"unit": unit})
        return Entry(name, look, [Bar(cell(mean), style)], title=f"{name}: {number}, {n}", number=number, under=n)

    contexts = [row(confirming, name_of([]), OUTSIDE)]
    for dropped in numbers if len(numbers) > 1 else ():
        others = [number for number in numbers if number != dropped]
        name = name_of([predicates.list[number] for number in others])
        contexts.append(row(_mask(predicates, others) & confirming, name, OUTSIDE))
    contexts.append(row(inside, name_of([predicates.list[number] for number in numbers]), INSIDE, "bar"))
    columns = {int(predicates.column[number]) for number in numbers}
    narrower = []
    for number, column in enumerate(predicates.column.tolist()):
        if column in columns or min(column, *columns) < 0:  # never combined, see `Predicates`
            continue
        mask = inside & predicates.mask(number)
        if least <= mask.sum() < inside.sum():
            narrower.append(row(mask, f"… and {predicates.list[number].words}", INSIDE))
    contexts += sorted(narrower, key=lambda entry: -_loss(entry))[:CHILDREN]
    contexts = [entry for entry in contexts if math.isfinite(_loss(entry))]
    axis = scale([0.0, *map(_loss, contexts)], write=hundredths if unit == "share" else plain, ticks=5)

    def panel(width: float, left: float) -> Panel:
        return labelled_rows(contexts, axis, width, left, 48, 34)

    return {"wide": panel(HALF, 250), "narrow": panel(NARROW, 168), "n_narrower": len(narrower)}


def _loss(entry: Entry) -> float:
    return float(entry.bars[0].cell["value"])


def labelled_rows(
    entries: Sequence[Entry], x: Scale, width: float, left: float, right: float, height: float, x_name: str = ""
) -> Panel:
    """Rows with their names at the left; if one is too long for that, each row has its whole name above it."""
    if all(LETTER * len(row.name) <= left - 7 for row in entries):
        return rows("", entries, x, width=width, left=left, right=right, height=height, x_name=x_name)
    groups, y, end = [], 10.0, width - right - 84
    at = x.between(0, end)
    for row in entries:
        marks: list[Mark] = []
        for piece in textwrap.wrap(row.name, int((width - 5) / LETTER)) or [""]:
            y += 16
            marks.append(text(5, y - 4, piece))
        for bar in row.bars:
            marks.append(box(at(bar.start), y, at(bar.cell["value"]), y + 11, bar.style))
            marks += [line([(at(end), y + 5.5) for end in ends], "reach") for ends in [ends_of(bar.cell)] if ends]
        marks += [text(end + 50, y + 10, row.number, anchor="end"), text(width, y + 10, row.under, "small", "end")]
        groups.append(Group(tuple(marks), row.title, row.look.colour))
        y += 20
    grid = [line([(at(tick), 10), (at(tick), y)], "axis" if tick == 0 else "grid") for tick, _ in x.ticks]
    labels = [text(at(tick), y + 15, label, anchor="start" if at(tick) < 12 else "middle")
              for tick, label in x.ticks]
    names = [text(end / 2, y + 33, x_name, anchor="middle")] if x_name else []
    return Panel(width, y + (40 if x_name else 22), (Group((*grid, *labels, *names)), *groups))


# Calibration inside it

class Bin(NamedTuple):
    """Items of about one confidence: the model's mean confidence in them, and the share it gets right."""

    confidence: float
    right: float
    low: float
    high: float
    n: int


def reliability(confidence: Floats, right: Bools) -> list[Bin]:
    """Bins of equally many items by confidence; none where there are too few items."""
    bins = []
    count = min(BINS, len(confidence) // PER_BIN)
    for chunk in np.array_split(np.argsort(confidence, kind="stable"), count) if count else []:
        share = float(right[chunk].mean())
        low, high = (float(end) for end in wilson(share, len(chunk)))
        bins.append(Bin(float(confidence[chunk].mean()), share, low, high, len(chunk)))
    return bins


def _calibration(inside: Bools, items: Items, confirming: Bools) -> dict[str, Any] | None:
    """Accuracy against confidence, inside the context and elsewhere; None without probabilities of classes.

    Only the `confirming` items count: the context was chosen because many of the others are wrong.
    """
    if items.confidence is None:
        return None
    right = items.truth == items.predicted
    spots, gaps = [], {}
    for word, within, look in (("in this context", inside, INSIDE), ("elsewhere", ~inside, OUTSIDE)):
        mask = within & confirming
        bins = reliability(items.confidence[mask], right[mask])
        if not bins:
            continue
        gaps[word] = (float(items.confidence[mask].mean()), float(right[mask].mean()))
        spots += [Spot(cell(bin.confidence), cell(bin.right, bin.low, bin.high), look,
                       f"{word}: confidence {percent(bin.confidence)} %, right {percent(bin.right)} %, {bin.n:,} items")
                  for bin in bins]
    if "in this context" not in gaps:
        return None
    axis = scale([0.0, 1.0], write=hundredths)
    return {"panel": scatter("", spots, axis, axis, ("confidence, %", "right, %"),
                             [Guide("same", "confidence equals accuracy", 1.0)]),
            "key": legends([("in this context", INSIDE), ("elsewhere", OUTSIDE)])[-1], "gaps": gaps}


# Examples

class Side(NamedTuple):
    """Examples of one kind: their rows, out of n."""

    head: str
    rows: Ints
    n: int


def failing_and_passing(context: str, inside: Bools, loss: Floats, most: int = PER_SIDE) -> list[Side]:
    """Failing and passing items of a context: wrong and right ones by chance, or those of highest and lowest loss.

    For two models: the items that only the new one or only the old one gets wrong.
    """
    chosen = np.flatnonzero(inside)
    if not np.isin(loss, (-1.0, 0.0, 1.0)).all():
        order = chosen[np.argsort(-loss[chosen], kind="stable")]
        return [Side("Highest loss", order[:most], len(order)), Side("Lowest loss", order[::-1][:most], len(order))]
    changed = bool((loss < 0).any())
    heads = ("Wrong now, right before", "Right now, wrong before") if changed else ("Failing", "Passing")
    sides = []
    for head, value in zip(heads, (1, -1 if changed else 0), strict=True):
        rows = chosen[loss[chosen] == value]
        few = child(0, "audit", "examples", f"{context} {value}").permutation(len(rows))[:most]
        sides.append(Side(head, rows[np.sort(few)], len(rows)))
    return sides


def _entries(chosen: Ints, items: Items, members: Sequence[Predicate]) -> list[dict[str, Any]]:
    """Each item with its picture or its text, with its label and what was predicted, and with some of its values."""
    collection, rows = items.collection, items.rows
    sources = [] if collection is None or rows is None or collection.foreign else thumbnails(collection, rows[chosen])
    texts, few = _texts(items.facts.texts, chosen), items.take(chosen)
    columns = _columns(items, few, members)
    return [{"item": str(few.ids[number]), "source": sources[number] if sources else "",
             "text": texts.get(number, ""), "truth": _plain_value(few.truth[number]),
             "predicted": _plain_value(few.predicted[number]),
             "values": [(name, _plain_value(values[number])) for name, values in columns.items()]}
            for number in range(len(chosen))]


def _columns(items: Items, few: Items, members: Sequence[Predicate]) -> dict[str, Values]:
    """The columns that are shown of a few items: those that a finding names, then the first of the others."""
    columns: dict[str, Values] = {}
    for member in members:
        question, _, tag = member.column.partition(":")
        column = base_of(member.column, items.facts.factors)
        if column in items.facts.factors:
            columns[column] = as_array(few.facts.factors[column])
        elif question in ("has", "area") and isinstance(few.facts, Collection):
            columns[tag if question == "has" else f"area of {tag}"] = few.facts.factor(member.column)
    for name, _ in items.first_columns(VALUES + len(columns)):
        if len(columns) < VALUES:
            columns.setdefault(name, as_array(few.facts.factors[name]))
    return columns


def _texts(texts: Texts, rows: Ints) -> dict[int, str]:
    """The first text of each of these items that has one, cut to a few lines."""
    first: dict[int, str] = {}
    for number, row in enumerate(rows.tolist()):
        numbers = np.flatnonzero(texts.item == row)[:1]
        if len(numbers):
            text = " ".join(str(texts.text[numbers[0]]).split())
            first[number] = text if len(text) <= TEXT else text[:TEXT - 1] + "…"
    return first


def _plain_value(value: Any) -> str:
    """A value as the page shows it, a long text cut."""
    if isinstance(value, float | np.floating):
        return "missing" if math.isnan(value) else f"{float(value):.4g}"
    text = " ".join(str(value).split())
    return textwrap.shorten(text, TEXT, placeholder=" …") if len(text) > TEXT else str(value) or "missing"
