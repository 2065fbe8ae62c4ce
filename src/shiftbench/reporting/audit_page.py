"""The page of an audit: its sentences, a table and a chart of the contexts with their intervals, and what was done."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftbench import __version__
from shiftbench.auditing.findings import Audit
from shiftbench.core.arrays import in_short
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_text
from shiftbench.data.predictions import PREDICTIONS
from shiftbench.reporting.audit_evidence import INSIDE, NARROW, Evidence, behind, labelled_rows, name_of
from shiftbench.reporting.charts import Bar, Entry, Figure, Look, Panel, cell, scale, signed
from shiftbench.reporting.page import environment
from shiftbench.scoring.metrics import in_unit, percent

SHOWN = 12
"""Findings that are shown with their examples; the others are in the table."""
DRAWN = 40
"""Findings of the chart."""
WIDE = 1040.0
TITLE = "shiftbench audit"
"""The title of a page whose audit names no files."""
NEEDED = ("loss", "n", "n_explore", "n_confirm", "looked_at", "tested", "fdr", "seed")
"""Fields of the card that the page needs."""


def audit_page(audit: Audit, out: Path | str, evidence: Evidence | None = None, *, title: str = TITLE) -> Path:
    """Write one self-contained HTML page of an audit.

    An audit that was loaded from a file has its tables and charts; with the `evidence` there are also examples, the
    contexts around each finding, and calibration inside it. Without another `title` it is named by its files.
    """
    if absent := [key for key in NEEDED if audit.card.get(key) is None]:
        raise ShiftBenchError(f"The card of this audit has no {in_short(absent)}, which its page needs. Audit again.")
    unit = str(audit.card.get("unit") or "number")
    top = [number for number, finding in enumerate(audit.findings) if finding.parent < 0]
    folded = {number: [other for other, finding in enumerate(audit.findings) if finding.parent == number]
              for number in range(len(audit.findings))}
    order = [entry for number in top for entry in _family(number, folded, 0)]
    anchored = {number for root in top[:SHOWN] for number, _ in _family(root, folded, 0)}
    page = environment().get_template("audit_page.html").render(
        title=title_of(audit.card) if title == TITLE else title, version=__version__, unit=unit, per=per(audit),
        loss=loss_of(audit), card=audit.card,
        sentences=[{"words": sentence.strip(), "within": sentence.startswith(" "),
                    "anchor": "" if number is None else _anchor(number)}
                   for number, sentence in audit.numbered_sentences()],
        rows=[{**_entry(audit, number, depth), "linked": number in anchored} for number, depth in order],
        figure=_differences(audit, [number for number, _ in order], unit) if order else None,
        findings=[{**_entry(audit, number, 0),
                   "folded": [_entry(audit, other, 1) for other, _ in _family(number, folded, 0) if other != number],
                   **behind(evidence, audit.findings[number], audit.card, unit)}
                  for number in top[:SHOWN]],
        undecided=[_entry(audit, number, 0, undecided=True) for number in range(len(audit.undecided))],
        facts=_facts(audit), notes=audit.card.get("notes", ()))
    return write_text(out, page)


def title_of(card: Mapping[str, Any]) -> str:
    """The subject of an audit, by the names of its files.

    >>> title_of({"sources": {"predictions": "/home/me/new.csv", "data": "/home/me/frames.csv"}, "against": "old.csv"})
    'Audit of new.csv against old.csv on frames.csv'
    """
    sources = card.get("sources")
    paths = sources if isinstance(sources, dict) else {}
    model, data = (_file_name(str(paths.get(name) or "")) for name in ("predictions", "data"))
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
    name = str(audit.card.get("words") or audit.card["loss"])
    return f"change of {name}" if audit.card.get("against") else name.removeprefix("the ")


def per(audit: Audit) -> str:
    """The unit after a loss: per cent for a share, points for its change, none for a number."""
    return "" if audit.card.get("unit") != "share" else " points" if audit.card.get("against") else " %"


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

def _differences(audit: Audit, order: Sequence[int], unit: str) -> Figure:
    """How much higher the loss is in each context than outside of it, with intervals."""
    findings = [audit.findings[number] for number in order][:DRAWN]
    ends = [number for finding in findings for number in (0.0, finding.difference, finding.difference_low,
                                                          finding.difference_high) if math.isfinite(number)]
    better = any(finding.difference < 0 for finding in findings)
    factor = 100 if unit == "share" else 1

    def panel(width: float, left: float, ticks: int) -> Panel:
        axis = scale([factor * number for number in ends], write=signed, ticks=ticks)
        entries = [Entry(name_of(finding.members), INSIDE if finding.difference > 0 else Look(3, 0),
                      [Bar(cell(factor * finding.difference, factor * finding.difference_low,
                                factor * finding.difference_high))],
                      title=f"{name_of(finding.members)}: {_points(finding.difference, unit)}, {finding.n:,} items",
                      number=_points(finding.difference, unit), under=f"{finding.n:,} items") for finding in findings]
        return labelled_rows(entries, axis, width, left, 58, 36,
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


# What was done

def _facts(audit: Audit) -> list[tuple[str, str]]:
    """What was searched, tested and split, as the card records it."""
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
