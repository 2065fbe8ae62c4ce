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
from shiftbench.auditing.audit import detectable
from shiftbench.auditing.contrasts import Interval, compare
from shiftbench.auditing.findings import Audit, Finding
from shiftbench.auditing.predicates import Predicate
from shiftbench.auditing.vocabulary import PREDICTION, predicates_of
from shiftbench.core.arrays import Bools, encode
from shiftbench.core.errors import ShiftBenchError
from shiftbench.reporting.audit_evidence import failing_and_passing, name_of, reliability
from shiftbench.scoring.listing import names_in
from shiftbench.webapp.item_view import pictures
from shiftbench.webapp.looks import ALPHA, Confirmation, open_items
from shiftbench.webapp.outcomes import Outcomes, embeddings, find_outcomes, listed_runs, mapped, two_components
from shiftbench.webapp.studio import Action, Answer, Content, Query, Studio, request

OPEN = "open"
"""The name of the audit that is computed here, on the open items; its card says so."""
EXAMPLES = 24
CLASSES = 12
"""Classes of a confusion table; the others share one row and column."""
LEAST = 5
"""Items that a value needs to be offered as a filter."""
RUNS = 500
"""Runs that can be chosen from a list."""
LEVEL = 0.95
GROUPED = {"has": "tags", "area": "areas"}
"""Columns that are chosen from one list."""


# The list of findings

def failures(studio: Studio, query: Query) -> Mapping[str, Any]:
    """What can be chosen, the run that an audit is about, and the columns of a filter by hand.

    An audit is opened only on request: after that, nothing about its run can be confirmed.
    """
    audits, audit = [thing.id for thing in studio.shelf.things("audit")], query.text("audit")
    run = query.text("run") or (source_run(studio, studio.shelf.audit(audit)) if audit not in ("", OPEN) else "")
    if not run and audit in ("", OPEN):
        run = _first_run(studio)
    outcomes = find_outcomes(studio, Query({**query, "run": run})) if run else None
    if audit and outcomes is not None:  # before the page asks for a filter's numbers, which include this cost
        _count_look(studio, outcomes, audit, None if audit == OPEN else studio.shelf.audit(audit))
    state = {"run": run, "against": query.text("against"), "where": query.text("where")}
    also = [request("findings", run=run, against=state["against"], audit=audit)] if audit else []
    return {"audits": audits, "audit": audit, "run": run, "against": query.text("against"), "edit": studio.edit,
            "runs": choices(studio, run), "others": choices(studio, query.text("against"), outcomes),
            **({"on": ""} if outcomes is None else _outcome_facts(studio, outcomes)),
            "also": also + ([] if outcomes is None else [request("context", **state)])}


def findings(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The findings of an audit: one on disk, or one of the open items, computed now."""
    outcomes = find_outcomes(studio, query) if query.text("run") else None
    if query.text("audit") == OPEN and outcomes is None:
        raise ShiftBenchError("Choose a run to audit.")
    audit = audit_of_open(studio, outcomes) if query.text("audit") == OPEN and outcomes is not None else (
        studio.shelf.audit(query.text("audit")))
    if outcomes is not None:
        _count_look(studio, outcomes, query.text("audit"), audit)
    command = "" if outcomes is None else _command(outcomes, "audit", _options(audit))
    return {**_audit_facts(audit, outcomes), "command": command}


def _count_look(studio: Studio, outcomes: Outcomes, name: str, audit: Audit | None) -> None:
    """Note that an audit of a run was opened; one of the open items is the same, whether it was saved or not."""
    studio.books.look(outcomes.subject, {"audit": OPEN if audit is None or audit.card.get(OPEN) else name})


def _options(audit: Audit) -> list[str]:
    """The options of the verb that made an audit, as its card names them, without those at their defaults."""
    usual = {"loss": "error", "split": "test", "depth": 3, "confirm": 0.5, "fdr": 0.1, "dependence": "prds",
             "cluster": "", "seed": 0}
    options = [option for name, value in usual.items() if audit.card.get(name, value) not in (value, "")
               for option in (f"--{name}", str(audit.card[name]))]
    return options + ["--better"] * bool(audit.card.get("better")) + ["--unsealed"] * bool(audit.card.get(OPEN))


def choices(studio: Studio, chosen: str, like: Outcomes | None = None) -> list[list[str]]:
    """Runs as name and description; with `like`, only those on the same benchmark, to compare with."""
    digest = "" if like is None else studio.shelf.benchmark(like.benchmark).digest
    runs = [[name, description] for name, trained_on, description in listed_runs(studio) if digest in ("", trained_on)]
    return [*runs[:RUNS], *([run for run in runs[RUNS:] if run[0] == chosen])]


def _first_run(studio: Studio) -> str:
    """The run that the view begins with: preferably one without an audit, whose findings can still be confirmed."""
    runs = [name for name, _, _ in listed_runs(studio)]
    audited = set()
    for thing in studio.shelf.things("audit") if len(runs) > 1 else ():
        with suppress(ShiftBenchError):  # a file that cannot be read is about no run
            audit = studio.shelf.audit(thing.id)
            audited |= set() if audit.card.get(OPEN) else {source_run(studio, audit)}
    return next((name for name in runs if name not in audited), runs[0] if runs else "")


def source_run(studio: Studio, audit: Audit) -> str:
    """The run that an audit is about: at the path it names, else one of that name; "" if there is none."""
    sources = audit.card.get("sources")
    path = Path(str(sources.get("predictions", "")) if isinstance(sources, dict) else "")
    folders = sorted(studio.shelf.things("runs"), key=lambda thing: thing.path != path.parent)
    return next((f"{thing.id}/{path.name}" for thing in folders if names_in(thing.path, [path.name]).done), "")


def audit_of_open(studio: Studio, outcomes: Outcomes) -> Audit:
    """An audit of the open items, as the verb makes it."""
    def compute() -> Audit:
        audit = search_and_confirm(open_items(outcomes.items), outcomes.loss, against=outcomes.against)[0]
        return replace(audit, card={**audit.card, OPEN: True})

    return studio.once(("audit", outcomes.subject), compute)


def _audit_facts(audit: Audit, outcomes: Outcomes | None) -> dict[str, Any]:
    lines = audit.numbered_sentences()
    labels = () if outcomes is None or outcomes.items.truth.dtype.kind not in "UO" else encode(outcomes.items.truth)[1]
    sentences = [" ".join(line.strip() for at, line in lines if at == number) for number in range(len(audit))]
    entries = [_finding(audit, number, finding, sentences[number], labels, outcomes)
               for number, finding in enumerate(audit.findings)]
    undecided = [line for _, line in lines[len(lines) - len(audit.undecided):]]
    return {"findings": entries, "sentence": "" if entries else lines[0][1],
            "undecided": [{"sentence": sentence, "where": [member.facts() for member in finding.members]}
                          for sentence, finding in zip(undecided, audit.undecided, strict=True)],
            "notes": [str(note) for note in audit.card.get("notes", ())],
            "level": audit.card.get("level"), "unit": audit.card.get("unit"), "n_audited": audit.card.get("n")}


def _finding(
    audit: Audit, number: int, finding: Finding, sentence: str, labels: Sequence[str], outcomes: Outcomes | None
) -> dict[str, Any]:
    depth, above = 0, finding.parent
    while above >= 0:
        depth, above = depth + 1, audit.findings[above].parent
    return {"number": number + 1, "depth": depth, "name": name_of(finding.members), "sentence": sentence.strip(),
            "where": [member.facts() for member in finding.members], "n": finding.n,
            "loss": [finding.loss, finding.low, finding.high], "rest": finding.rest,
            "difference": [finding.difference, finding.difference_low, finding.difference_high],
            "graph": _subsets(finding.members, labels, outcomes)}


def _subsets(members: Sequence[Predicate], labels: Sequence[str], outcomes: Outcomes | None) -> list[dict[str, str]]:
    """The subsets of the meta-graph that a context speaks of: its tags, in the graph of its class or of each class."""
    if outcomes is None or outcomes.items.collection is None:
        return []
    tags = [member.column.removeprefix("has:") for member in members
            if member.column.startswith("has:") and member.value == "yes"]
    classes = [member.value for member in members if member.kind == "label"] or list(labels)
    tag_names = set(outcomes.items.collection.tags.names)
    return [{"cls": cls, "tag": tag} for cls in classes[:4] for tag in tags if cls in tag_names and tag != cls]


def _outcome_facts(studio: Studio, outcomes: Outcomes) -> dict[str, Any]:
    """What is the same for every filter of a run."""
    return {"on": outcomes.on, "benchmark": outcomes.benchmark, "columns": _columns(studio, outcomes),
            "maps": list(embeddings(outcomes)), "n": len(outcomes.items), "sealed": int(outcomes.sealed.sum()),
            "words": outcomes.loss.words, "unit": outcomes.loss.unit,
            "item_notes": list(outcomes.items.notes)}


def _columns(studio: Studio, outcomes: Outcomes) -> list[dict[str, Any]]:
    """The predicates that a filter can be made of, by column, with the open items of each."""
    def compute() -> list[dict[str, Any]]:
        items = open_items(outcomes.items)
        predicates = predicates_of(items.known, loss=items.loss, explore=np.ones(len(items), np.bool_),
                                   truth=items.truth, label=items.label, predicted=items.predicted, least=LEAST)
        columns: dict[str, list[dict[str, Any]]] = {}
        for number, predicate in enumerate(predicates.list):
            name = GROUPED.get(predicate.column.partition(":")[0], predicate.column)
            columns.setdefault(name, []).append({"is": predicate.facts(), "n": int(predicates.mask(number).sum())})
        return [{"name": name, "values": values} for name, values in columns.items()]

    return studio.once(("columns", outcomes.subject), compute)


def _command(outcomes: Outcomes, verb: str, options: Sequence[str]) -> str:
    """The command that prints the same: `audit` for findings, `show` for the open items inside a filter."""
    data, run, *other = map(str, outcomes.folders)
    return shlex.join(["shiftbench", verb, run, "--data", data, *(["--against", *other] if other else []), *options])


# One context

def context(studio: Studio, query: Query) -> Mapping[str, Any]:
    """A filter, or all items: how the run does inside and outside, on the open items, and what can be confirmed."""
    outcomes = find_outcomes(studio, query)
    where = query.where()
    inside = outcomes.inside(where)
    looks = studio.books.look(outcomes.subject, {"where": sorted(str(member.facts()) for member in where)})
    sides = _sides(outcomes, where, inside & ~outcomes.sealed)
    return {"also": _also(studio, outcomes, sides, query), **numbers_inside(outcomes, where), "sides": sides,
            "books": {"looks": looks, **_books(studio, outcomes, where, inside)},
            "command": _command(outcomes, "show", ["--where", query.text("where")] if where else [])}


def numbers_inside(outcomes: Outcomes, where: tuple[Predicate, ...]) -> dict[str, Any]:
    """The numbers of a filter, of open items alone, as the page shows them and `show RUN --where` prints them."""
    inside, is_open = outcomes.inside(where), ~outcomes.sealed
    return {"name": name_of(where), "n": int((inside & is_open).sum()), "n_open": int(is_open.sum()),
            "unit": outcomes.loss.unit, "words": outcomes.loss.words, "change": bool(outcomes.against),
            **_contrast(outcomes, inside), "confusion": _confusion(outcomes, inside & is_open),
            "calibration": _calibration(outcomes, inside, is_open), "pairs": _pairs(outcomes, inside & is_open)}


def map_counts(outcomes: Outcomes) -> dict[str, dict[str, int]]:
    """For every embedding map: how many open items it shows, and how many of these fail."""
    rows = {name: mapped(outcomes, folder)[0] for name, folder in embeddings(outcomes).items()}
    return {name: {"n": len(chosen), "fail": int(outcomes.wrong[chosen].sum())} for name, chosen in rows.items()}


def _also(studio: Studio, outcomes: Outcomes, sides: Sequence[Mapping[str, Any]], query: Query) -> list[str]:
    """What the page asks for beside the numbers: pictures of the examples, and the embedding map."""
    names = list(embeddings(outcomes))[:1] if outcomes.on else []
    maps = [request("points", **{**query, "features": name}) for name in names]
    return [*pictures(studio, outcomes.on, [item["row"] for side in sides for item in side["items"]]), *maps]


def _contrast(outcomes: Outcomes, inside: Bools) -> dict[str, Any]:
    """Means inside and outside with 95 % intervals, which are not adjusted for looks."""
    is_open = ~outcomes.sealed
    weights = inside[is_open].astype(np.float64)
    whole = not 0 < weights.sum() < len(weights)
    contrast = compare(outcomes.items.loss[is_open], weights, weights if whole else 1 - weights, 1 - LEVEL, plain=True)
    inner, outer, difference = ([float(end) for end in interval] for interval in contrast[:3])
    return {"inside": inner, "outside": None if whole else outer, "difference": None if whole else difference}


def _sides(outcomes: Outcomes, where: Sequence[Predicate], inside: Bools) -> list[dict[str, Any]]:
    """Failing beside passing items, none of them sealed."""
    examples = failing_and_passing(name_of(where), inside, outcomes.items.loss, EXAMPLES)
    heads = [side.head for side in examples]
    if outcomes.against and outcomes.loss.unit == "share":
        heads = ["Only the other run is right", "Only this run is right"]
    return [{"head": head, "n": side.n, "items": [_entry(outcomes, row, mark) for row in side.rows.tolist()]}
            for head, side, mark in zip(heads, examples, ("bad", "good"), strict=True)]


def _entry(outcomes: Outcomes, row: int, mark: str) -> dict[str, Any]:
    items = outcomes.items
    truth, predicted = (f"{value:.4g}" if isinstance(value, float) else str(value)
                        for value in (items.truth[row].item(), items.predicted[row].item()))
    return {"row": -1 if items.rows is None else int(items.rows[row]), "id": str(items.known.items[row]),
            "label": truth, "note": f"→ {predicted}", "mark": mark}


def _confusion(outcomes: Outcomes, inside: Bools) -> dict[str, Any] | None:
    """Items by label and prediction; a cell is two predicates. None for numbers."""
    items = outcomes.items
    if items.truth.dtype.kind not in "UO" or not inside.any():
        return None
    truth, predicted = items.truth[inside], items.predicted[inside]
    names, n = np.unique(np.concatenate([truth, predicted]), return_counts=True)
    frequent = sorted(names[np.argsort(-n, kind="stable")[:CLASSES]].tolist())
    code = {name: number for number, name in enumerate(frequent)}
    cells = np.zeros((len(frequent) + 1, len(frequent) + 1), np.int64)
    np.add.at(cells, ([code.get(name, len(frequent)) for name in truth.tolist()],
                      [code.get(name, len(frequent)) for name in predicted.tolist()]), 1)
    whole = len(names) == len(frequent)
    return {"cells": (cells[:-1, :-1] if whole else cells).tolist(),
            "rows": [Predicate.of(items.label, name, "label").facts() for name in frequent],
            "columns": [Predicate.of(PREDICTION, name, "prediction").facts() for name in frequent],
            "others": 0 if whole else len(names) - len(frequent)}


def _calibration(outcomes: Outcomes, inside: Bools, is_open: Bools) -> dict[str, Any] | None:
    """Bins of confidence inside and outside, as the page of an audit has them."""
    items = outcomes.items
    if items.confidence is None:
        return None
    right = items.truth == items.predicted
    sides = {side: reliability(items.confidence[mask], right[mask])
             for side, mask in (("inside", inside & is_open), ("elsewhere", ~inside & is_open))}
    return {side: [bin._asdict() for bin in bins] for side, bins in sides.items()}


def _pairs(outcomes: Outcomes, inside: Bools) -> dict[str, int] | None:
    """For two runs: the items that both, only one, or neither get right."""
    if not outcomes.against or outcomes.loss.unit != "share":
        return None
    wrong = (outcomes.items.truth != outcomes.items.predicted)[inside]
    other = wrong - outcomes.items.loss[inside] > 0.5
    return {"both": int((~wrong & ~other).sum()), "only_this": int((~wrong & other).sum()),
            "only_other": int((wrong & ~other).sum()), "none": int((wrong & other).sum())}


def points(studio: Studio, query: Query) -> Content:
    """The embedding map: row of the collection, x, y, whether the item fails and whether it is inside, for each."""
    outcomes = find_outcomes(studio, query)
    chosen, at = two_components(studio, outcomes, query.text("features"))
    inside = outcomes.inside(query.where())
    rows = np.zeros(len(outcomes.items)) if outcomes.items.rows is None else outcomes.items.rows
    columns = [rows[chosen], at[:, 0], at[:, 1], outcomes.wrong[chosen], inside[chosen]]
    return Content(np.stack(columns, axis=1).astype("<f4").tobytes())


# The books

def _books(studio: Studio, outcomes: Outcomes, where: Sequence[Predicate], inside: Bools) -> dict[str, Any]:
    """The level of a confirmation, what it could detect, and its result if there was one."""
    books = studio.books
    sealed, level = int(outcomes.sealed.sum()), books.next_level()
    count = int((inside & outcomes.sealed).sum())
    base = float(outcomes.wrong[~outcomes.sealed].mean()) if (~outcomes.sealed).any() else math.nan
    needed = detectable(sealed, count, base, level) if 0 < count < sealed else math.nan
    test = books.test_of(outcomes.subject, where) if where else None
    return {"sealed": sealed, "sealed_inside": count, "level": level, "alpha": ALPHA,
            "detectable": None if math.isnan(needed) else needed,
            "test": None if test is None else confirmation_facts(test), "failing": _failing(outcomes),
            "tests": [confirmation_facts(earlier) for earlier in books.tests()], "spent": _spent(studio, outcomes)}


def _spent(studio: Studio, outcomes: Outcomes) -> str:
    """Why sealed items can confirm nothing of a run any more: an audit of all its items, these too, was opened."""
    seen = any(look["subject"] == outcomes.subject and look["facts"].get("audit", OPEN) != OPEN
               for look in studio.books.looks)
    return ("You have opened an audit of all items of this run, sealed ones too, so these can confirm nothing more. "
            "The audit has tested its findings on its own items. To look by hand, choose another run.") if seen else ""


def _failing(outcomes: Outcomes) -> str:
    """What counts as a failure, in words."""
    if outcomes.against:
        return f"{outcomes.loss.words} is larger than that of {outcomes.against}"
    if outcomes.loss.unit == "share":
        return "an error"
    return f"{outcomes.loss.words} is among the largest quarter of the open items"


def confirmation_facts(test: Confirmation) -> dict[str, Any]:
    """A confirmation as the page shows it, with its sentence."""
    more = "fewer" if test.difference < 0 else "more"
    share = (f"{100 * test.loss:.0f} % of {test.n:,} sealed items inside fail, {100 * test.rest:.0f} % of the "
             f"{test.n_rest:,} others: {abs(100 * test.difference):.0f} points {more}, interval "
             f"{_points(test.difference_low)} to {_points(test.difference_high)} at level {_percent(1 - test.level)}")
    verdict = "Confirmed" if test.confirmed else "Not confirmed"
    sign = "≤" if test.confirmed else ">"
    return {"context": test.context, "subject": test.subject, "confirmed": test.confirmed, "looks": test.looks,
            "number": test.number, "level": test.level, "p": test.p,
            "where": [member.facts() for member in test.members],
            "interval": list(Interval(test.difference, test.difference_low, test.difference_high)),
            "sentence": f"{verdict} on sealed items, test {test.number}, after {test.looks:,} "
                        f"look{'' if test.looks == 1 else 's'}: p = {test.p:.2g} {sign} "
                        f"{test.level:.2g} = {ALPHA:g} / ({test.looks:,} × {test.number + 1}). {share}."}


def _points(share: float) -> str:
    return f"{100 * share:+.0f}".replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def confirm(studio: Studio, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Test a filter on the sealed items, once only."""
    query = Query({name: str(value) for name, value in facts.items()})
    outcomes = find_outcomes(studio, query)
    where = query.where()
    if not where:
        raise ShiftBenchError("Choose a filter first: the set of all items is not a finding.")
    if len(where) > 1 and any(member.kind == "prediction" for member in where):
        raise ShiftBenchError("A predicted class is confirmed alone: with the label it would define the error.")
    if _spent(studio, outcomes) and studio.books.test_of(outcomes.subject, where) is None:
        raise ShiftBenchError(_spent(studio, outcomes))
    items, inside = outcomes.items.known.items, outcomes.inside(where)
    test = studio.books.confirm(outcomes.subject, where, items, inside, outcomes.wrong)
    return {"test": confirmation_facts(test), "looks": len(studio.books.looks), "level": studio.books.next_level()}


def save_audit(studio: Studio, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write the audit of the open items below the studio's folder."""
    outcomes = find_outcomes(studio, Query({name: str(value) for name, value in facts.items()}))
    folder = studio.folder_for("audits")
    runs = [name.rpartition("/")[2] for name in (outcomes.run, outcomes.against) if name]
    path = folder / f"{'-against-'.join(runs)}.json"
    audit_of_open(studio, outcomes).save(path)
    studio.shelf.forget()
    return {"audit": studio.shelf.id_of("audit", path)}


ANSWERS: dict[str, Answer] = {"failures": failures, "findings": findings, "context": context, "points": points}
ACTIONS: dict[str, Action] = {"confirm": confirm, "save-audit": save_audit}
