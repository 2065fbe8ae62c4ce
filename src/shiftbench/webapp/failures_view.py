"""Failures: where a model breaks. Findings of audits, filters by hand, the items behind both, and the books."""

import math
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.auditing.audit import audit as search_and_confirm
from shiftbench.auditing.confirm import detectable
from shiftbench.auditing.contrasts import Interval, compare
from shiftbench.auditing.findings import Audit, Finding
from shiftbench.auditing.predicates import Predicate, has_value
from shiftbench.auditing.vocabulary import PREDICTION, predicates_of
from shiftbench.core.arrays import Bools, encode
from shiftbench.core.errors import ShiftBenchError
from shiftbench.reporting.audit_evidence import failing_and_passing, name_of, reliability
from shiftbench.scoring.listing import names_in
from shiftbench.webapp.item_view import pictures
from shiftbench.webapp.looks import ALPHA, Confirmation, open_items
from shiftbench.webapp.outcomes import Outcomes, embeddings, listed_runs, mapped, outcomes, two_components
from shiftbench.webapp.studio import Action, Answer, Content, Query, Studio, request

OPEN = "open"
"""The name of the audit that is computed here, on the open items; its card says so."""
EXAMPLES = 24
CLASSES = 12
"""Classes of a table of confusion; the others are one."""
LEAST = 5
"""Items of a value that can be filtered by."""
RUNS = 500
"""Runs that can be chosen from a list."""
LEVEL = 0.95
GROUPED = {"has": "tags", "area": "areas"}
"""Columns that are chosen from one list."""


# The list of findings

def failures(studio: Studio, query: Query) -> Mapping[str, Any]:
    """What can be chosen, which run an audit is of, and what a filter by hand can say.

    An audit is opened only on request: after it nothing of its run can be confirmed.
    """
    audits, audit = [thing.id for thing in studio.shelf.things("audit")], query.text("audit")
    run = query.text("run") or (source_run(studio, studio.shelf.audit(audit)) if audit not in ("", OPEN) else "")
    if not run and audit in ("", OPEN):
        run = _first_run(studio)
    held = outcomes(studio, Query({**query, "run": run})) if run else None
    if audit and held is not None:  # before the page asks for the numbers of a filter, which say what that costs
        _count_look(studio, held, audit, None if audit == OPEN else studio.shelf.audit(audit))
    state = {"run": run, "against": query.text("against"), "where": query.text("where")}
    also = [request("findings", run=run, against=state["against"], audit=audit)] if audit else []
    return {"audits": audits, "audit": audit, "run": run, "against": query.text("against"), "edit": studio.edit,
            "runs": choices(studio, run), "others": choices(studio, query.text("against"), held),
            **({"on": ""} if held is None else _outcome_facts(studio, held)),
            "also": also + ([] if held is None else [request("context", **state)])}


def findings(studio: Studio, query: Query) -> Mapping[str, Any]:
    """What an audit found: one on disk, or one of the open items that is made now."""
    held = outcomes(studio, query) if query.text("run") else None
    if query.text("audit") == OPEN and held is None:
        raise ShiftBenchError("Choose a run to audit.")
    audit = audit_of_open(studio, held) if query.text("audit") == OPEN and held is not None else (
        studio.shelf.audit(query.text("audit")))
    if held is not None:
        _count_look(studio, held, query.text("audit"), audit)
    return _audit_facts(audit, held) | {"command": "" if held is None else _command(held, "audit", _options(audit))}


def _count_look(studio: Studio, held: Outcomes, name: str, audit: Audit | None) -> None:
    """Note that an audit of a run was opened; one of the open items is the same, whether it was saved or not."""
    studio.books.look(held.subject, {"audit": OPEN if audit is None or audit.card.get(OPEN) else name})


def _options(audit: Audit) -> list[str]:
    """The options of the verb that made an audit, as far as its card names them and they are not the usual ones."""
    usual = {"loss": "error", "split": "test", "depth": 3, "confirm": 0.5, "fdr": 0.1, "dependence": "prds",
             "cluster": "", "seed": 0}
    words = [word for name, value in usual.items() if audit.card.get(name, value) not in (value, "")
             for word in (f"--{name}", str(audit.card[name]))]
    return words + ["--better"] * bool(audit.card.get("better")) + ["--unsealed"] * bool(audit.card.get(OPEN))


def choices(studio: Studio, chosen: str, like: Outcomes | None = None) -> list[list[str]]:
    """Runs as name and words: those of one benchmark, where a run to compare with is asked for."""
    digest = "" if like is None else studio.shelf.benchmark(like.benchmark).digest
    runs = [[name, words] for name, of, words in listed_runs(studio) if digest in ("", of)]
    return [*runs[:RUNS], *([one for one in runs[RUNS:] if one[0] == chosen])]


def _first_run(studio: Studio) -> str:
    """The run that the view begins with: by preference one without an audit, of which a finding can be confirmed."""
    runs = [name for name, _, _ in listed_runs(studio)]
    audited = set()
    for thing in studio.shelf.things("audit") if len(runs) > 1 else ():
        with suppress(ShiftBenchError):  # a file that cannot be read is of no run
            audit = studio.shelf.audit(thing.id)
            audited |= set() if audit.card.get(OPEN) else {source_run(studio, audit)}
    return next((name for name in runs if name not in audited), runs[0] if runs else "")


def source_run(studio: Studio, audit: Audit) -> str:
    """The run that an audit is of: where the audit found it, else one of its name; "" if there is none."""
    sources = audit.card.get("sources")
    path = Path(str(sources.get("predictions", "")) if isinstance(sources, dict) else "")
    folders = sorted(studio.shelf.things("runs"), key=lambda thing: thing.path != path.parent)
    return next((f"{thing.id}/{path.name}" for thing in folders if names_in(thing.path, [path.name]).done), "")


def audit_of_open(studio: Studio, held: Outcomes) -> Audit:
    """An audit of the open items, as the verb makes it."""
    def compute() -> Audit:
        audit = search_and_confirm(open_items(held.items), held.loss, against=held.against)[0]
        return replace(audit, card={**audit.card, OPEN: True})

    return studio.once(("audit", held.subject), compute)


def _audit_facts(audit: Audit, held: Outcomes | None) -> dict[str, Any]:
    lines = audit.numbered_sentences()
    labels = () if held is None or held.items.truth.dtype.kind not in "UO" else encode(held.items.truth)[1]
    sentences = [" ".join(line.strip() for at, line in lines if at == number) for number in range(len(audit))]
    listed = [_finding(audit, number, finding, sentences[number], labels, held)
              for number, finding in enumerate(audit.findings)]
    rest = [line for _, line in lines[len(lines) - len(audit.undecided):]]
    return {"findings": listed, "sentence": "" if listed else lines[0][1],
            "undecided": [{"sentence": sentence, "where": [member.facts() for member in finding.members]}
                          for sentence, finding in zip(rest, audit.undecided, strict=True)],
            "notes": [str(note) for note in audit.card.get("notes", ())],
            "level": audit.card.get("level"), "unit": audit.card.get("unit"), "n_audited": audit.card.get("n")}


def _finding(
    audit: Audit, number: int, finding: Finding, sentence: str, labels: Sequence[str], held: Outcomes | None
) -> dict[str, Any]:
    depth, above = 0, finding.parent
    while above >= 0:
        depth, above = depth + 1, audit.findings[above].parent
    return {"number": number + 1, "depth": depth, "name": name_of(finding.members), "sentence": sentence.strip(),
            "where": [member.facts() for member in finding.members], "n": finding.n,
            "loss": [finding.loss, finding.low, finding.high], "rest": finding.rest,
            "difference": [finding.difference, finding.difference_low, finding.difference_high],
            "graph": _subsets(finding.members, labels, held)}


def _subsets(members: Sequence[Predicate], labels: Sequence[str], held: Outcomes | None) -> list[dict[str, str]]:
    """The subsets of the meta-graph that a context speaks of: its tags, in the graph of its class or of each class."""
    if held is None or held.items.collection is None:
        return []
    tags = [member.column.removeprefix("has:") for member in members
            if member.column.startswith("has:") and member.value == "yes"]
    classes = [member.value for member in members if member.kind == "label"] or list(labels)
    known = set(held.items.collection.tags.names)
    return [{"cls": cls, "tag": tag} for cls in classes[:4] for tag in tags if cls in known and tag != cls]


def _outcome_facts(studio: Studio, held: Outcomes) -> dict[str, Any]:
    """What is the same for every filter of a run."""
    return {"on": held.on, "benchmark": held.benchmark, "columns": _columns(studio, held),
            "maps": list(embeddings(held)), "n": len(held.items), "sealed": int(held.sealed.sum()),
            "words": held.loss.words, "unit": held.loss.unit,
            "item_notes": list(held.items.notes)}


def _columns(studio: Studio, held: Outcomes) -> list[dict[str, Any]]:
    """The predicates that a filter can be made of, by column, with the open items of each."""
    def compute() -> list[dict[str, Any]]:
        items = open_items(held.items)
        predicates = predicates_of(items.known, loss=items.loss, explore=np.ones(len(items), np.bool_),
                                   truth=items.truth, label=items.label, predicted=items.predicted, least=LEAST)
        columns: dict[str, list[dict[str, Any]]] = {}
        for number, predicate in enumerate(predicates.list):
            name = GROUPED.get(predicate.column.partition(":")[0], predicate.column)
            columns.setdefault(name, []).append({"is": predicate.facts(), "n": int(predicates.mask(number).sum())})
        return [{"name": name, "values": values} for name, values in columns.items()]

    return studio.once(("columns", held.subject), compute)


def _command(held: Outcomes, verb: str, options: Sequence[str]) -> str:
    """What prints the same: `audit` for findings, `show` for the open items inside a filter."""
    data, run, *other = map(str, held.folders)
    return shlex.join(["shiftbench", verb, run, "--data", data, *(["--against", *other] if other else []), *options])


# One context

def context(studio: Studio, query: Query) -> Mapping[str, Any]:
    """A filter, or all items: how the run does inside and outside, on the open items, and what can be confirmed."""
    held = outcomes(studio, query)
    where = query.where()
    inside = held.inside(where)
    looks = studio.books.look(held.subject, {"where": sorted(str(member.facts()) for member in where)})
    sides = _sides(held, where, inside & ~held.sealed)
    return {"also": _shown(studio, held, sides, query), **numbers_inside(held, where), "sides": sides,
            "books": {"looks": looks, **_books(studio, held, where, inside)},
            "command": _command(held, "show", ["--where", query.text("where")] if where else [])}


def numbers_inside(held: Outcomes, where: tuple[Predicate, ...]) -> dict[str, Any]:
    """The numbers of a filter, of open items alone, as the page shows them and `show RUN --where` prints them."""
    inside, shown = held.inside(where), ~held.sealed
    return {"name": name_of(where), "n": int((inside & shown).sum()), "n_open": int(shown.sum()),
            "unit": held.loss.unit, "words": held.loss.words, "change": bool(held.against), **_contrast(held, inside),
            "confusion": _confusion(held, inside & shown), "calibration": _calibration(held, inside, shown),
            "pairs": _pairs(held, inside & shown)}


def map_counts(held: Outcomes) -> dict[str, dict[str, int]]:
    """Of every embedding map, how many open items it has and how many of these fail."""
    rows = {name: mapped(held, folder)[0] for name, folder in embeddings(held).items()}
    return {name: {"n": len(chosen), "fail": int(held.wrong[chosen].sum())} for name, chosen in rows.items()}


def _shown(studio: Studio, held: Outcomes, sides: Sequence[Mapping[str, Any]], query: Query) -> list[str]:
    """What the page asks for beside the numbers: pictures of the examples, and the embedding map."""
    maps = [request("points", **{**query, "features": name}) for name in list(embeddings(held))[:1]] if held.on else []
    return [*pictures(studio, held.on, [item["row"] for side in sides for item in side["items"]]), *maps]


def _contrast(held: Outcomes, inside: Bools) -> dict[str, Any]:
    """Means inside and outside with intervals of 95 %, which do not allow for looks."""
    shown = ~held.sealed
    weights = inside[shown].astype(np.float64)
    whole = not 0 < weights.sum() < len(weights)
    contrast = compare(held.items.loss[shown], weights, weights if whole else 1 - weights, 1 - LEVEL, plain=True)
    inner, outer, difference = ([float(end) for end in one] for one in contrast[:3])
    return {"inside": inner, "outside": None if whole else outer, "difference": None if whole else difference}


def _sides(held: Outcomes, where: Sequence[Predicate], inside: Bools) -> list[dict[str, Any]]:
    """Failing beside passing items, none of them sealed."""
    listed = failing_and_passing(name_of(where), inside, held.items.loss, EXAMPLES)
    heads = [side.head for side in listed]
    if held.against and held.loss.unit == "share":
        heads = ["Only the other run is right", "Only this run is right"]
    return [{"head": head, "n": side.n, "items": [_entry(held, row, mark) for row in side.rows.tolist()]}
            for head, side, mark in zip(heads, listed, ("bad", "good"), strict=True)]


def _entry(held: Outcomes, row: int, mark: str) -> dict[str, Any]:
    items = held.items
    truth, predicted = (f"{value:.4g}" if isinstance(value, float) else str(value)
                        for value in (items.truth[row].item(), items.predicted[row].item()))
    return {"row": -1 if items.rows is None else int(items.rows[row]), "id": str(items.known.items[row]),
            "label": truth, "note": f"→ {predicted}", "mark": mark}


def _confusion(held: Outcomes, inside: Bools) -> dict[str, Any] | None:
    """Items by label and prediction; a cell is two predicates. None for numbers."""
    items = held.items
    if items.truth.dtype.kind not in "UO" or not inside.any():
        return None
    truth, predicted = items.truth[inside], items.predicted[inside]
    names, n = np.unique(np.concatenate([truth, predicted]), return_counts=True)
    shown = sorted(names[np.argsort(-n, kind="stable")[:CLASSES]].tolist())
    code = {name: number for number, name in enumerate(shown)}
    cells = np.zeros((len(shown) + 1, len(shown) + 1), np.int64)
    np.add.at(cells, ([code.get(name, len(shown)) for name in truth.tolist()],
                      [code.get(name, len(shown)) for name in predicted.tolist()]), 1)
    whole = len(names) == len(shown)
    return {"cells": (cells[:-1, :-1] if whole else cells).tolist(),
            "rows": [has_value(items.label, name, "label").facts() for name in shown],
            "columns": [has_value(PREDICTION, name, "prediction").facts() for name in shown],
            "others": 0 if whole else len(names) - len(shown)}


def _calibration(held: Outcomes, inside: Bools, shown: Bools) -> dict[str, Any] | None:
    """Bins of confidence inside and outside, as the page of an audit has them."""
    items = held.items
    if items.confidence is None:
        return None
    right = items.truth == items.predicted
    sides = {word: reliability(items.confidence[mask], right[mask])
             for word, mask in (("inside", inside & shown), ("elsewhere", ~inside & shown))}
    return {word: [one._asdict() for one in bins] for word, bins in sides.items()}


def _pairs(held: Outcomes, inside: Bools) -> dict[str, int] | None:
    """Of two runs: items that both get right, only one of them, or none."""
    if not held.against or held.loss.unit != "share":
        return None
    wrong = (held.items.truth != held.items.predicted)[inside]
    other = wrong - held.items.loss[inside] > 0.5
    return {"both": int((~wrong & ~other).sum()), "only_this": int((~wrong & other).sum()),
            "only_other": int((wrong & ~other).sum()), "none": int((wrong & other).sum())}


def points(studio: Studio, query: Query) -> Content:
    """The embedding map: row of the collection, x, y, whether the item fails and whether it is inside, for each."""
    held = outcomes(studio, query)
    chosen, at = two_components(studio, held, query.text("features"))
    inside = held.inside(query.where())
    rows = np.zeros(len(held.items)) if held.items.rows is None else held.items.rows
    columns = [rows[chosen], at[:, 0], at[:, 1], held.wrong[chosen], inside[chosen]]
    return Content(np.stack(columns, axis=1).astype("<f4").tobytes())


# The books

def _books(studio: Studio, held: Outcomes, where: Sequence[Predicate], inside: Bools) -> dict[str, Any]:
    """What a confirmation would cost and could show, and what came out if there was one."""
    books = studio.books
    sealed, level = int(held.sealed.sum()), books.next_level()
    count = int((inside & held.sealed).sum())
    base = float(held.wrong[~held.sealed].mean()) if (~held.sealed).any() else math.nan
    needed = detectable(sealed, count, base, level) if 0 < count < sealed else math.nan
    test = books.test_of(held.subject, where) if where else None
    tests = books.tests()
    return {"sealed": sealed, "sealed_inside": count, "level": level, "alpha": ALPHA,
            "detectable": None if math.isnan(needed) else needed, "test": None if test is None else told(test),
            "failing": _failing(held), "tests": [told(one) for one in tests], "spent": _spent(studio, held)}


def _spent(studio: Studio, held: Outcomes) -> str:
    """Why sealed items can confirm nothing of a run any more: an audit of all its items, these too, was opened."""
    seen = any(look["subject"] == held.subject and look["facts"].get("audit", OPEN) != OPEN
               for look in studio.books.looks)
    return ("You have opened an audit of all items of this run, sealed ones too, so these can confirm nothing more. "
            "The audit has tested its findings on its own items. To look by hand, choose another run.") if seen else ""


def _failing(held: Outcomes) -> str:
    """What counts as a failure, in words."""
    if held.against:
        return f"{held.loss.words} is larger than that of {held.against}"
    if held.loss.unit == "share":
        return "an error"
    return f"{held.loss.words} is among the largest quarter of the open items"


def told(test: Confirmation) -> dict[str, Any]:
    """A confirmation as the page says it."""
    more = "fewer" if test.difference < 0 else "more"
    share = (f"{100 * test.loss:.0f} % of {test.n:,} sealed items inside fail, {100 * test.rest:.0f} % of the "
             f"{test.n_rest:,} others: {abs(100 * test.difference):.0f} points {more}, interval "
             f"{_points(test.difference_low)} to {_points(test.difference_high)} at level {_percent(1 - test.level)}")
    verdict = "Confirmed" if test.confirmed else "Not confirmed"
    sign = "≤" if test.confirmed else ">"
    return {"context": test.context, "subject": test.subject, "confirmed": test.confirmed, "looks": test.looks,
            "number": test.number, "level": test.level, "p": test.p, "where": [one.facts() for one in test.members],
            "interval": list(Interval(test.difference, test.difference_low, test.difference_high)),
            "sentence": f"{verdict} on sealed items, test {test.number}, after {test.looks:,} "
                        f"look{'' if test.looks == 1 else 's'}: p = {test.p:.2g} {sign} "
                        f"{test.level:.2g} = {ALPHA:g} / ({test.looks:,} × {test.number + 1}). {share}."}


def _points(share: float) -> str:
    return f"{100 * share:+.0f}".replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def confirm(studio: Studio, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Test a filter on the sealed items, once."""
    query = Query({name: str(value) for name, value in facts.items()})
    held = outcomes(studio, query)
    where = query.where()
    if not where:
        raise ShiftBenchError("Choose a filter first: all items are not a finding.")
    if len(where) > 1 and any(member.kind == "prediction" for member in where):
        raise ShiftBenchError("A predicted class is confirmed alone: with what tells the label it would be the error.")
    if _spent(studio, held) and studio.books.test_of(held.subject, where) is None:
        raise ShiftBenchError(_spent(studio, held))
    test = studio.books.confirm(held.subject, where, held.items.known.items, held.inside(where), held.wrong)
    return {"test": told(test), "looks": len(studio.books.looks), "level": studio.books.next_level()}


def save_audit(studio: Studio, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write the audit of the open items below the studio's folder."""
    held = outcomes(studio, Query({name: str(value) for name, value in facts.items()}))
    folder = studio.folder_for("audits")
    name = f"{held.run.rpartition('/')[2]}{'-against-' + held.against.rpartition('/')[2] if held.against else ''}.json"
    audit_of_open(studio, held).save(folder / name)
    studio.shelf.forget()
    return {"audit": studio.shelf.id_of("audit", folder / name)}


ANSWERS: dict[str, Answer] = {"failures": failures, "findings": findings, "context": context, "points": points}
ACTIONS: dict[str, Action] = {"confirm": confirm, "save-audit": save_audit}
