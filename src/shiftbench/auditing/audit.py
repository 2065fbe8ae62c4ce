"""An audit: search contexts on one part of the items, test them on the other, and report what holds there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shiftbench.auditing.confirm import POWER, Confirmed, check_dependence, confirm, detectable, split_items
from shiftbench.auditing.findings import GROUP, Audit, Finding
from shiftbench.auditing.flips import Flips, flip_rates
from shiftbench.auditing.join import Items
from shiftbench.auditing.model_outputs import Loss
from shiftbench.auditing.predicates import Predicates
from shiftbench.auditing.search import Progress, describe, search
from shiftbench.auditing.vocabulary import predicates_of
from shiftbench.core.arrays import Bools, Floats, Ints, Words, digest, encode
from shiftbench.core.errors import ShiftBenchError

LEAST, SHARE = 20, 0.005
"""A context has at least so many items, or this share of them."""
MANY_LABELS = 50
"""Labels from which on the parts are not drawn alike in every single one of them."""


def audit(
    items: Items, loss: Loss, *, against: str = "", depth: int = 3, least: int = 0, share: float = 0.5,
    fdr: float = 0.1, dependence: str = "prds", better: bool = False, cluster: str = "", include: Sequence[str] = (),
    exclude: Sequence[str] = (), most_values: int = 20, flips: Flips | None = None, seed: int = 0,
    features: Floats | None = None, progress: Progress | None = None,
) -> tuple[Audit, Predicates, Bools]:
    """Find the contexts of up to `depth` predicates in which items lose more than elsewhere.

    A `share` of the items is kept for confirming; contexts are searched among the others. With `better`, and where two
    models are compared, contexts that are better than the rest are searched too, and each of the two lists has half of
    `fdr`: the false discoveries among both together then stay below it. Gives the audit, the predicates of all items
    and which items confirmed.
    """
    if not 0 < fdr < 1 or not 0 < share < 1:
        raise ShiftBenchError(f"fdr = {fdr} and confirm = {share}, but both are shares between 0 and 1.")
    check_dependence(dependence)
    notes = list(items.notes)
    groups = _clusters(items, cluster)
    least = least or max(LEAST, math.ceil(SHARE * len(items)))
    held = split_items(len(items), confirm=share, seed=seed, strata=_strata(items), cluster=groups)
    predicates = predicates_of(
        items.facts, loss=items.loss, explore=~held, truth=items.labels, label=items.label, predicted=items.choices,
        include=include, exclude=(*exclude, *([cluster] if cluster else [])), most_values=most_values, least=least,
        features=features)
    directions = (True, False) if better or against else (True,)
    lists: list[Confirmed] = []
    looked_at = tested = 0
    if not (reason := _reason(items, held, least)):
        notes += predicates.notes
        explore, known = predicates.take(~held), items.loss[~held]
        for worse in directions:
            slices = search(explore, known, depth=depth, least=max(1, round(least * (1 - share))), worse=worse,
                            progress=progress)
            chosen = describe(explore, known, slices, worse=worse)
            looked_at, tested = looked_at + int(slices.looked_at.sum()), tested + len(chosen.n)
            lists.append(confirm(predicates, items.loss, chosen, held, fdr=fdr / len(directions), worse=worse,
                                 dependence=dependence, flips=flips, cluster=groups, seed=seed))
    card = {
        "loss": loss.name, "words": loss.words, "unit": loss.unit, "label": items.label, "against": against,
        "better": better, "split": items.split, "n": len(items), "n_explore": int((~held).sum()),
        "n_confirm": int(held.sum()), "mean": float(items.loss.mean()), "sd": float(items.loss.std()),
        "depth": depth, "least": least, "confirm": share, "fdr": fdr, "dependence": dependence, "seed": seed,
        "cluster": cluster, "predicates": len(predicates), "looked_at": looked_at,
        "tested": tested, "level": min((one.level for one in lists), default=1 - fdr), "notes": notes,
        "reason": reason,
        "flips": {predicates.list[number].words: rates._asdict()
                  for number, rates in flip_rates(predicates, flips or {}).items()},
        "digest": digest({"item": items.ids, "loss": items.loss, "bits": predicates.bits.view(np.int64)}),
    }
    card["detectable"] = _detectable(card, loss, bool(against))
    card["detectable_better"] = _detectable(card, loss, bool(against), worse=False) if len(directions) > 1 else None
    return Audit(_joined([one.findings for one in lists]),
                 tuple(finding for one in lists for finding in one.undecided), card), predicates, held


def _clusters(items: Items, column: str) -> Ints | None:
    if not column:
        return None
    known = items.facts.factors
    values = known[column] if column in known else items.facts.factor(column)
    codes, names = encode(values if isinstance(values, Words) else values.astype(np.str_))
    if len(names) < 2:
        raise ShiftBenchError(f"All items are in one cluster of '{column}', so that they cannot be split.")
    return codes


def _strata(items: Items) -> Ints | None:
    """What both parts have alike: every label, where there are few of these; never the losses.

    Given the labels, the losses of the two parts are then independent. Strata of the losses would tie them: with as
    many errors of each label in one part as in the other, a label that looks bad by chance does so in both.
    """
    if not isinstance(items.labels, Words):
        return None
    codes, names = items.labels.coded
    return codes.astype(np.int64) if len(names) <= MANY_LABELS else None


def _reason(items: Items, held: Bools, least: int) -> str:
    """Why no context can be looked at, if so."""
    if min(int(held.sum()), int((~held).sum())) < least:
        few = "1 item is" if len(items) == 1 else f"{len(items):,} items are"
        return (f"{few} too few to say anything, because both parts need at least {least:,}, the smallest group that "
                "is looked at (--least)")
    return "every item has the same loss" if np.ptp(items.loss) == 0 else ""


def _detectable(card: Mapping[str, Any], loss: Loss, change: bool, worse: bool = True) -> float | None:
    """How much worse a group of 100 items would have to be to be found with probability 0.8; None where it could not.

    The group is one of the predicates. It has to pass `describe`, which lets about one of them pass by chance, and then
    the test of the findings: both with probability √0.8, since the two parts are independent. How much better, where
    it is not `worse`: then what is right is counted in the place of errors.
    """
    plain = loss.unit == "share" and not change and 0 <= card["mean"] <= 1
    if card["n"] <= GROUP or not card["sd"]:
        return None
    rate = card["fdr"] / (2 if change or card["better"] else 1)
    steps = ((card["n_explore"], 1 - card["confirm"], 1 / max(2, card["predicates"])),
             (card["n_confirm"], card["confirm"], rate / (1 + card["tested"])))
    base = card["mean"] if worse else 1 - card["mean"]
    values = [detectable(n, GROUP * share, base, alpha, math.sqrt(POWER), sd=None if plain else card["sd"])
              for n, share, alpha in steps]
    return None if any(math.isnan(value) for value in values) else max(values)


def _joined(lists: Sequence[tuple[Finding, ...]]) -> tuple[Finding, ...]:
    """Findings one list after the other; the number of a wider finding moves along."""
    every: list[Finding] = []
    for findings in lists:
        start = len(every)
        every += [replace(one, parent=one.parent + start) if one.parent >= 0 else one for one in findings]
    return tuple(every)
