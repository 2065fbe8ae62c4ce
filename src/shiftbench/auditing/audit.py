"""An audit: search contexts on one part of the items, test them on the other, and report what holds there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shiftbench.auditing.confirm import DEPENDENCE, POWER, Confirmed, confirm, detectable, split_items
from shiftbench.auditing.findings import GROUP, Audit, Finding
from shiftbench.auditing.flips import Flips, flip_rates
from shiftbench.auditing.join import Items
from shiftbench.auditing.model_outputs import Loss
from shiftbench.auditing.predicates import Predicates
from shiftbench.auditing.search import Progress, describe, search
from shiftbench.auditing.vocabulary import predicates_of
from shiftbench.core.arrays import Bools, Floats, Ints, Words, digest, encode
from shiftbench.core.errors import ShiftBenchError, unknown

LEAST, SHARE = 20, 0.005
"""A context has at least LEAST items, or this share of all items if that is more."""
MANY_LABELS = 50
"""With more labels than this, the parts are not stratified by label."""


@dataclass(frozen=True)
class Options:
    """How an audit searches contexts and tests them."""

    depth: int = 3  # predicates of a context, at most
    least: int = 0  # items of a context; 0: LEAST, or a share SHARE of them
    confirm: float = 0.5  # the share of the items that contexts are tested on
    fdr: float = 0.1
    dependence: str = "prds"  # one of DEPENDENCE
    better: bool = False  # also search contexts that are better than the rest
    cluster: str = ""  # the column of items that stay in one part
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    most_values: int = 20
    flips: Flips = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.fdr < 1 or not 0 < self.confirm < 1:
            raise ShiftBenchError(f"fdr = {self.fdr} and confirm = {self.confirm}, but both are shares between 0 and "
                                  "1.")
        if self.dependence not in DEPENDENCE:
            raise unknown("dependence", self.dependence, DEPENDENCE)


def audit(
    items: Items, loss: Loss, options: Options = Options(), *, against: str = "", features: Floats | None = None,
    progress: Progress | None = None,
) -> tuple[Audit, Predicates, Bools]:
    """Find the contexts in which items lose more than elsewhere.

    Where `better` contexts are asked for, or two models are compared, contexts that are better than the rest are
    searched too, and each of the two lists has half of `fdr`: the false discoveries among both together then stay below
    it. `against` names the old model. Returns the audit, the predicates of all items, and which items confirmed.
    """
    least = options.least or max(LEAST, math.ceil(SHARE * len(items)))
    clusters = _clusters(items, options.cluster)
    confirming = split_items(len(items), confirm=options.confirm, seed=options.seed, strata=_strata(items),
                             cluster=clusters)
    predicates = predicates_of(
        items.facts, loss=items.loss, explore=~confirming, truth=items.labels, label=items.label, features=features,
        predicted=items.choices, include=options.include, exclude=[*options.exclude, *filter(None, [options.cluster])],
        most_values=options.most_values, least=least)
    directions = (True, False) if options.better or against else (True,)
    fdr = options.fdr / len(directions)
    lists: list[Confirmed] = []
    looked_at = tested = 0
    reason = _reason(items, confirming, least)
    if not reason:
        explore, losses = predicates.take(~confirming), items.loss[~confirming]
        for worse in directions:
            slices = search(explore, losses, depth=options.depth, worse=worse, progress=progress,
                            least=max(1, round(least * (1 - options.confirm))))
            chosen = describe(explore, losses, slices, worse=worse)
            looked_at, tested = looked_at + int(slices.looked_at.sum()), tested + len(chosen.n)
            lists.append(confirm(predicates, items.loss, chosen, confirming, fdr=fdr, worse=worse, seed=options.seed,
                                 dependence=options.dependence, flips=options.flips, cluster=clusters))
    card: dict[str, Any] = {
        "loss": loss.name, "words": loss.words, "unit": loss.unit, "label": items.label, "against": against,
        "better": options.better, "split": items.split, "n": len(items), "n_explore": int((~confirming).sum()),
        "n_confirm": int(confirming.sum()), "mean": float(items.loss.mean()), "sd": float(items.loss.std()),
        "depth": options.depth, "least": least, "confirm": options.confirm, "fdr": options.fdr,
        "dependence": options.dependence, "seed": options.seed, "cluster": options.cluster,
        "predicates": len(predicates), "looked_at": looked_at, "tested": tested,
        "level": min((confirmed.level for confirmed in lists), default=1 - options.fdr),
        "notes": [*items.notes, *([] if reason else predicates.notes)], "reason": reason,
        "flips": {predicates.list[number].words: rates._asdict()
                  for number, rates in flip_rates(predicates, options.flips).items()},
        "digest": digest({"item": items.ids, "loss": items.loss, "bits": predicates.bits.view(np.int64)}),
    }
    binary = loss.unit == "share" and not against and 0 <= card["mean"] <= 1
    card["detectable"] = _detectable(card, fdr, binary)
    card["detectable_better"] = _detectable(card, fdr, binary, worse=False) if len(directions) > 1 else None
    return Audit(_joined([confirmed.findings for confirmed in lists]),
                 tuple(finding for confirmed in lists for finding in confirmed.undecided), card), predicates, confirming


def _clusters(items: Items, column: str) -> Ints | None:
    if not column:
        return None
    factors = items.facts.factors
    values = factors[column] if column in factors else items.facts.factor(column)
    codes, names = encode(values if isinstance(values, Words) else values.astype(np.str_))
    if len(names) < 2:
        raise ShiftBenchError(f"All items are in one cluster of '{column}', so they cannot be split. Choose another "
                              "column.")
    return codes


def _strata(items: Items) -> Ints | None:
    """The strata of the split: labels, unless there are many of them; never the losses.

    Given the labels, the losses of the two parts are then independent. Strata of the losses would tie them: with as
    many errors of each label in one part as in the other, a label that looks bad by chance does so in both.
    """
    if not isinstance(items.labels, Words):
        return None
    codes, names = items.labels.coded
    return codes.astype(np.int64) if len(names) <= MANY_LABELS else None


def _reason(items: Items, confirming: Bools, least: int) -> str:
    """Why nothing can be searched; empty where it can."""
    if min(int(confirming.sum()), int((~confirming).sum())) < least:
        few = "1 item is" if len(items) == 1 else f"{len(items):,} items are"
        return (f"{few} too few to say anything, because both parts need at least {least:,}, the smallest group that "
                "is looked at (--least)")
    return "every item has the same loss" if np.ptp(items.loss) == 0 else ""


def _detectable(card: Mapping[str, Any], fdr: float, binary: bool, worse: bool = True) -> float | None:
    """How much worse a group of 100 items would have to be to be found with probability 0.8; None where it could not.

    The group is one of the predicates. It has to pass `describe`, which lets about one of them pass by chance, and then
    the test of the findings: both with probability √0.8, since the two parts are independent. For groups that are
    better, right items are counted in place of errors.
    """
    if card["n"] <= GROUP or not card["sd"]:
        return None
    steps = ((card["n_explore"], 1 - card["confirm"], 1 / max(2, card["predicates"])),
             (card["n_confirm"], card["confirm"], fdr / (1 + card["tested"])))
    base = card["mean"] if worse else 1 - card["mean"]
    values = [detectable(n, GROUP * share, base, alpha, math.sqrt(POWER), sd=None if binary else card["sd"])
              for n, share, alpha in steps]
    return None if any(math.isnan(value) for value in values) else max(values)


def _joined(lists: Sequence[tuple[Finding, ...]]) -> tuple[Finding, ...]:
    """Findings one list after the other; the number of a wider finding moves along."""
    findings: list[Finding] = []
    for each in lists:
        start = len(findings)
        findings += [replace(finding, parent=finding.parent + start) if finding.parent >= 0 else finding
                     for finding in each]
    return tuple(findings)
