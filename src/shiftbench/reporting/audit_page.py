"""The page of an audit: its sentences, the contexts with their intervals, and what lies behind each of them."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench import __version__
from shiftbench.auditing.findings import Audit, Finding
from shiftbench.auditing.join import Items
from shiftbench.auditing.predicates import Predicate, Predicates
from shiftbench.auditing.table_items import as_array
from shiftbench.core.arrays import Bools, Floats, Ints, Values, in_short
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_text
from shiftbench.core.rng import child
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import PREDICTIONS
from shiftbench.data.questions import base_of
from shiftbench.data.tags import Texts
from shiftbench.reporting.drawing import Figure, Group, Mark, Panel, box, line, text, thumbnails
from shiftbench.reporting.page import environment
from shiftbench.reporting.plots import (
    Bar,
    Guide,
    Look,
    Row,
    Scale,
    Spot,
    hundredths,
    legends,
    plain,
    rows,
    scale,
    scatter,
    signed,
)
from shiftbench.reporting.score_tables import in_unit, percent
from shiftbench.scoring.intervals import wilson

PER_SIDE, TEXT, VALUES, CHILDREN, BINS = 8, 320, 6, 6, 8
"""Examples on either side, letters of a text, values of an item, narrower contexts, and bins of a calibration."""
PER_BIN = 15
"""Items of a bin of calibration, below which there are fewer bins."""
LEAST = 10
"""Confirming items of a narrower context."""
SHOWN = 12
"""Findings that are shown with their examples; the others are in the table."""
INSIDE, OUTSIDE = Look(2, 0), Look(0, 1)
WIDE, HALF, NARROW = 1040.0, 560.0, 360.0
LETTER = 6.7
"""The width of a letter of a label, in pixels, on average."""
TITLE = "shiftbench audit"
"""The title of a page whose audit does not say what it is of."""


NEEDED = ("loss", "n", "n_explore", "n_confirm", "looked_at", "tested", "fdr", "seed")
"""What the page tells of the card."""


class Evidence(NamedTuple):
    """The items behind an audit, from which the page shows examples, the contexts around a finding and calibration."""

    items: Items
    predicates: Predicates  # of the items whose loss is a number
    confirming: Bools  # of the same

    @property
    def audited(self) -> Items:
        known = np.isfinite(self.items.loss)
        return self.items if known.all() else self.items.take(np.flatnonzero(known))


def audit_page(audit: Audit, out: Path | str, evidence: Evidence | None = None, *, title: str = TITLE) -> Path:
    """Write one self-contained HTML page of an audit.

    An audit that was loaded from a file has its tables and charts; with the `evidence` there are also examples, the
    contexts around each finding, and calibration inside it. Without another `title` it is named by its files.
    """
    if absent := [key for key in NEEDED if audit.card.get(key) is None]:
        raise ShiftBenchError(f"The card of this audit has no {in_short(absent)}, which its page tells. Audit again.")
    unit = str(audit.card.get("unit") or "number")
    top = [number for number, finding in enumerate(audit.findings) if finding.parent < 0]
    folded = {number: [other for other, finding in enumerate(audit.findings) if finding.parent == number]
              for number in range(len(audit.findings))}
    order = [entry for number in top for entry in _family(number, folded, 0)]
    anchored = {number for shown in top[:SHOWN] for number, _ in _family(shown, folded, 0)}
    page = environment().get_template("audit_page.html").render(
        title=title_of(audit.card) if title == TITLE else title, version=__version__, unit=unit, per=per(audit),
        loss=loss_of(audit), card=audit.card,
        sentences=[{"words": sentence.strip(), "within": sentence.startswith(" "),
                    "anchor": "" if number is None else _anchor(number)}
                   for number, sentence in audit.numbered_sentences()],
        rows=[{**_entry(audit, number, depth), "linked": number in anchored} for number, depth in order],
        figure=_differences(audit, [number for number, _ in order], unit) if order else None,
        findings=[_shown(audit, number, [other for other, _ in _family(number, folded, 0)][1:], evidence, unit)
                  for number in top[:SHOWN]],
        undecided=[_entry(audit, number, 0, undecided=True) for number in range(len(audit.undecided))],
        facts=_facts(audit), notes=audit.card.get("notes", ()))
    return write_text(out, page)


def title_of(card: Mapping[str, Any]) -> str:
    """What an audit is of, by the names of its files.

    >>> title_of({"sources": {"predictions": "/home/me/new.csv", "data": "/home/me/frames.csv"}, "against": "old.csv"})
    'Audit of new.csv against old.csv on frames.csv'
    """
    sources = card.get("sources")
    known = sources if isinstance(sources, dict) else {}
    model, data = (_file_name(str(known.get(name) or "")) for name in ("predictions", "data"))
    if not model and not data:
        return TITLE
    old = _file_name(str(card.get("against") or ""))
    return "Audit" + "".join(f" {word} {name}" for word, name in (
        ("of", model), ("against", old), ("on", data)) if name)


def _file_name(path: str) -> str:
    """The name of a file; that of the predictions of a run with its folder."""
    file = Path(path)
    return f"{file.parent.name}/{file.name}" if file.name == PREDICTIONS and file.parent.name else file.name


def loss_of(audit: Audit) -> str:
    """The loss in words, without an article: error, squared error, change of the error."""
    words = str(audit.card.get("words") or audit.card["loss"])
    return f"change of {words}" if audit.card.get("against") else words.removeprefix("the ")


def per(audit: Audit) -> str:
    """What follows a loss: per cent for a share, points for its change, nothing for a number."""
    return "" if audit.card.get("unit") != "share" else " points" if audit.card.get("against") else " %"


def name_of(members: Sequence[Predicate]) -> str:
    """A context in words.

    >>> name_of([])
    'all items'
    """
    return " and ".join(member.words for member in members) or "all items"


def _family(number: int, folded: dict[int, list[int]], depth: int) -> Iterable[tuple[int, int]]:
    """A finding and those folded under it, with their depth, in the order of the table."""
    yield number, depth
    for other in folded[number]:
        yield from _family(other, folded, depth + 1)


def _entry(audit: Audit, number: int, depth: int, undecided: bool = False) -> dict[str, Any]:
    """A row of a table."""
    finding = (audit.undecided if undecided else audit.findings)[number]
    parent = audit.findings[finding.parent] if finding.parent >= 0 and not undecided else None
    added = [member for member in finding.members if parent is None or member not in parent.members]
    return {"number": number + 1, "depth": depth, "finding": finding, "name": name_of(finding.members),
            "added": name_of(added), "anchor": _anchor(number)}


def _anchor(number: int) -> str:
    return f"f{number + 1}"


# Charts

def _cell(value: float, low: float = math.nan, high: float = math.nan) -> dict[str, float]:
    return {"value": value, "low": low, "high": high}


def _differences(audit: Audit, order: Sequence[int], unit: str) -> Figure:
    """How much higher the loss is in each context than outside of it, with intervals."""
    findings = [audit.findings[number] for number in order][:40]
    known = [number for finding in findings for number in (0.0, finding.difference, finding.difference_low,
                                                           finding.difference_high) if math.isfinite(number)]
    better = any(finding.difference < 0 for finding in findings)
    factor = 100 if unit == "share" else 1

    def panel(width: float, left: float, ticks: int) -> Panel:
        axis = scale([factor * number for number in known], write=signed, ticks=ticks)
        listed = [Row(name_of(finding.members), INSIDE if finding.difference > 0 else Look(3, 0),
                      [Bar(_cell(*(factor * end for end in (finding.difference, finding.difference_low,
                                                            finding.difference_high))))],
                      title=f"{name_of(finding.members)}: {_points(finding.difference, unit)}, {finding.n:,} items",
                      number=_points(finding.difference, unit), under=f"{finding.n:,} items") for finding in findings]
        return _labelled(listed, axis, width, left, 58, 36,
                         x_name="points above the rest" if unit == "share" else "above the rest")

    columns = ("context", "n", "difference", "low", "high")
    head = "How the contexts differ from elsewhere" if better else "How much worse than elsewhere"
    return Figure("differences", head,
                  f"{loss_of(audit).capitalize()} inside the context minus outside of it; lines are intervals that "
                  "allow for the selection.",
                  (panel(WIDE, 420, 6),), columns,
                  tuple((name_of(finding.members), finding.n, finding.difference, finding.difference_low,
                         finding.difference_high) for finding in findings), (panel(NARROW, 168, 4),))


def _points(value: float, unit: str) -> str:
    return f"{100 * value:+.1f}".replace("-", "−") if unit == "share" else f"{value:+.3f}".replace("-", "−")


def _labelled(
    listed: Sequence[Row], axis: Scale, width: float, left: float, right: float, height: float, x_name: str = ""
) -> Panel:
    """Rows with their names at the left; where one is too long for that, each has its whole name above it."""
    if all(LETTER * len(row.name) <= left - 7 for row in listed):
        return rows("", listed, axis, width=width, left=left, right=right, height=height, x_name=x_name)
    groups, y, end = [], 10.0, width - right - 84
    at = axis.between(0, end)
    for row in listed:
        marks: list[Mark] = []
        for part in textwrap.wrap(row.name, int((width - 5) / LETTER)) or [""]:
            y += 16
            marks.append(text(5, y - 4, part))
        for bar in row.bars:
            marks.append(box(at(bar.start), y, at(bar.cell["value"]), y + 11, bar.style))
            if math.isfinite(bar.cell["low"]) and math.isfinite(bar.cell["high"]):
                marks.append(line([(at(bar.cell["low"]), y + 5.5), (at(bar.cell["high"]), y + 5.5)], "reach"))
        marks += [text(end + 50, y + 10, row.number, anchor="end"), text(width, y + 10, row.under, "small", "end")]
        groups.append(Group(tuple(marks), row.title, row.look.colour))
        y += 20
    grid = [line([(at(tick), 10), (at(tick), y)], "axis" if tick == 0 else "grid") for tick, _ in axis.ticks]
    labels = [text(at(tick), y + 15, words, anchor="start" if at(tick) < 12 else "middle")
              for tick, words in axis.ticks]
    names = [text(end / 2, y + 33, x_name, anchor="middle")] if x_name else []
    return Panel(width, y + (40 if x_name else 22), (Group((*grid, *labels, *names)), *groups))


# One finding

def _shown(audit: Audit, number: int, below: Sequence[int], evidence: Evidence | None, unit: str) -> dict[str, Any]:
    """A finding with those folded under it and, where the items are at hand, what lies behind it."""
    finding = audit.findings[number]
    entry = {**_entry(audit, number, 0), "folded": [_entry(audit, other, 1) for other in below], "examples": None,
             "lattice": None, "calibration": None}
    numbers = None if evidence is None else _numbers(finding, evidence.predicates)
    if evidence is None or numbers is None:
        return entry
    items, inside = evidence.audited, _mask(evidence.predicates, numbers)
    least = max(LEAST, round(int(audit.card.get("least") or 0) * float(audit.card.get("confirm") or 0.5)))
    return {**entry, "examples": _examples(finding, inside, items),
            "lattice": _lattice(numbers, evidence.predicates, items.loss, evidence.confirming, least, unit),
            "calibration": _calibration(inside, items, evidence.confirming)}


def _numbers(finding: Finding, predicates: Predicates) -> list[int] | None:
    """The numbers of a finding's predicates; None where they are not among these."""
    number_of = {predicate: number for number, predicate in enumerate(predicates.list)}
    numbers = [number_of.get(member, -1) for member in finding.members]
    return None if min(numbers, default=-1) < 0 else numbers


def _mask(predicates: Predicates, numbers: Iterable[int]) -> Bools:
    mask = np.ones(predicates.n, np.bool_)
    for number in numbers:
        mask &= predicates.mask(number)
    return mask


def _lattice(
    numbers: Sequence[int], predicates: Predicates, loss: Floats, part: Bools, least: int, unit: str
) -> dict[str, Any]:
    """The contexts one predicate wider and one narrower, with their losses on the confirming items, `part`."""
    inside = _mask(predicates, numbers) & part

    def row(mask: Bools, members: Sequence[int], word: str, style: str) -> dict[str, Any]:
        n = int(mask.sum())
        name = name_of([predicates.list[member] for member in members])
        return {"name": name, "n": n, "loss": float(loss[mask].mean()) if n else math.nan, "word": word, "style": style}

    wider = [row(part, [], "all", "pale-bar")]
    wider += [row(_mask(predicates, rest) & part, rest, "wider", "pale-bar")
              for rest in ([other for other in numbers if other != one] for one in numbers) if rest]
    columns = {int(predicates.column[number]) for number in numbers}
    narrower = []
    for number, column in enumerate(predicates.column.tolist()):
        if column in columns or min(column, *columns) < 0:  # never combined, see `Predicates`
            continue
        mask = inside & predicates.mask(number)
        if least <= mask.sum() < inside.sum():
            narrower.append(row(mask, [*numbers, number], "narrower", "pale-bar")
                            | {"name": f"… and {predicates.list[number].words}"})
    narrower.sort(key=lambda one: -one["loss"])
    listed = [*wider, row(inside, numbers, "this", "bar"), *narrower[:CHILDREN]]
    listed = [one for one in listed if math.isfinite(one["loss"])]
    values = [one["loss"] for one in listed]
    axis = scale([0.0, *values], write=hundredths if unit == "share" else plain, ticks=5)

    def panel(width: float, left: float) -> Panel:
        return _labelled([Row(one["name"], INSIDE if one["word"] in ("this", "narrower") else OUTSIDE,
                              [Bar(_cell(one["loss"]), one["style"])],
                              title=f"{one['name']}: {in_unit(one['loss'], {'unit': unit})}, {one['n']:,} items",
                              number=in_unit(one["loss"], {"unit": unit}), under=f"{one['n']:,} items")
                          for one in listed], axis, width, left, 48, 34)

    return {"wide": panel(HALF, 250), "narrow": panel(NARROW, 168), "n_narrower": len(narrower)}


class Bin(NamedTuple):
    """Items of about one confidence: how sure the model is of them on average, and the share it gets right."""

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


def _calibration(inside: Bools, items: Items, part: Bools) -> dict[str, Any] | None:
    """Accuracy against confidence, inside the context and elsewhere; None without probabilities of classes.

    Of the confirming items, `part`: on the others the context was chosen because many of them are wrong.
    """
    if items.confidence is None:
        return None
    right = items.truth == items.predicted
    spots, gaps = [], {}
    for word, mask, look in (("in this context", inside & part, INSIDE), ("elsewhere", ~inside & part, OUTSIDE)):
        bins = reliability(items.confidence[mask], right[mask])
        if not bins:
            continue
        gaps[word] = (float(items.confidence[mask].mean()), float(right[mask].mean()))
        spots += [Spot(_cell(one.confidence), _cell(one.right, one.low, one.high), look,
                       f"{word}: confidence {percent(one.confidence)} %, right {percent(one.right)} %, {one.n:,} items")
                  for one in bins]
    if "in this context" not in gaps:
        return None
    axis = scale([0.0, 1.0], write=hundredths)
    return {"panel": scatter("", spots, axis, axis, ("confidence, %", "right, %"),
                             [Guide("same", "confidence equals accuracy", 1.0)]),
            "key": legends([("in this context", INSIDE), ("elsewhere", OUTSIDE)])[-1], "gaps": gaps}


def _examples(finding: Finding, inside: Bools, items: Items) -> dict[str, Any]:
    """Failing and passing items of a context, with what is known of each."""
    return {"sides": [{"head": side.head, "entries": _entries(side.rows, items, finding.members)}
                      for side in failing_and_passing(name_of(finding.members), inside, items.loss)]}


class Side(NamedTuple):
    """Examples of one kind: their rows, out of n."""

    head: str
    rows: Ints
    n: int


def failing_and_passing(context: str, inside: Bools, loss: Floats, most: int = PER_SIDE) -> list[Side]:
    """Failing and passing items of a context: wrong and right ones by chance, or those of highest and lowest loss.

    Of two models, those that only the new one or only the old one has wrong.
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
    """What is shown of few items: the columns that a finding names, then the first of the others."""
    shown: dict[str, Values] = {}
    for member in members:
        question, _, tag = member.column.partition(":")
        column = base_of(member.column, items.facts.factors)
        if column in items.facts.factors:
            shown[column] = as_array(few.facts.factors[column])
        elif question in ("has", "area") and isinstance(few.facts, Collection):
            shown[tag if question == "has" else f"area of {tag}"] = few.facts.factor(member.column)
    for name, _ in items.first_columns(VALUES + len(shown)):
        if len(shown) < VALUES:
            shown.setdefault(name, as_array(few.facts.factors[name]))
    return shown


def _texts(texts: Texts, rows: Ints) -> dict[int, str]:
    """The first text of each of these items that has one, cut to a few lines."""
    first: dict[int, str] = {}
    for number, row in enumerate(rows.tolist()):
        own = np.flatnonzero(texts.item == row)[:1]
        if len(own):
            words = " ".join(str(texts.text[own[0]]).split())
            first[number] = words if len(words) <= TEXT else words[:TEXT - 1] + "…"
    return first


def _plain_value(value: Any) -> str:
    """A value as the page shows it, a long text cut."""
    if isinstance(value, float | np.floating):
        return "missing" if math.isnan(value) else f"{float(value):.4g}"
    words = " ".join(str(value).split())
    return textwrap.shorten(words, TEXT, placeholder=" …") if len(words) > TEXT else str(value) or "missing"


# What was done

def _facts(audit: Audit) -> list[tuple[str, str]]:
    """What was looked at, tested and split, in the words of the card."""
    card = audit.card
    return [
        ("Loss", loss_of(audit)), ("Average", in_unit(float(card.get("mean", math.nan)), card) + per(audit)),
        ("Items", f"{int(card['n']):,}"),
        ("Exploring items", f"{int(card['n_explore']):,}"), ("Confirming items", f"{int(card['n_confirm']):,}"),
        ("Contexts looked at", f"{int(card['looked_at']):,}"), ("Contexts tested", f"{int(card['tested']):,}"),
        ("Most predicates", f"{card.get('depth', '–')}"), ("Fewest items", f"{card.get('least', '–')}"),
        ("False discovery rate", f"{100 * float(card['fdr']):g} %"),
        ("Level of intervals", f"{percent(float(card.get('level', math.nan)))} %"),
        ("Seed of the split", f"{card['seed']}"),
    ]
