"""An audit: search contexts on one part of the items, test them on the other, and report what holds there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import bdtrc, ndtri

from shiftbench.auditing.confirm import DEPENDENCE, POWER, Confirmed, Flips, confirm, flip_rates
from shiftbench.auditing.contrasts import count_chances
from shiftbench.auditing.findings import GROUP, Audit, Finding
from shiftbench.auditing.join import Items
from shiftbench.auditing.model_outputs import Loss
from shiftbench.auditing.predicates import Predicates
from shiftbench.auditing.search import describe, search
from shiftbench.auditing.vocabulary import predicates_of
from shiftbench.core.arrays import Bools, Floats, Ints, Words, digest, encode, uniform
from shiftbench.core.errors import Advance, ShiftBenchError, unknown

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
    progress: Advance | None = None,
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
    rates = flip_rates(predicates, options.flips)
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
                                 dependence=options.dependence, rates=rates, cluster=clusters))
    card: dict[str, Any] = {
        "loss": loss.name, "words": loss.words, "unit": loss.unit, "label": items.label, "against": against,
        "better": options.better, "split": items.split, "n": len(items), "n_explore": int((~confirming).sum()),
        "n_confirm": int(confirming.sum()), "mean": float(items.loss.mean()), "sd": float(items.loss.std()),
        "depth": options.depth, "least": least, "confirm": options.confirm, "fdr": options.fdr,
        "dependence": options.dependence, "seed": options.seed, "cluster": options.cluster,
        "predicates": len(predicates), "looked_at": looked_at, "tested": tested,
        "level": min((confirmed.level for confirmed in lists), default=1 - options.fdr),
        "notes": [*items.notes, *([] if reason else predicates.notes)], "reason": reason,
        "flips": {predicates.list[number].words: each._asdict() for number, each in rates.items()},
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


# The parts of the items, and what they can show

def split_items(
    n: int, *, confirm: float = 0.5, seed: int = 0, strata: Ints | None = None, cluster: Ints | None = None
) -> Bools:
    """Draw the confirming part: True for a share `confirm` of the items, of every stratum, and of whole clusters.

    Units (items, or clusters) are put in random order within their stratum, and every (1 / confirm)-th is taken across
    all of them: each stratum is off by less than one unit. The stratum of a cluster is that of its median item.
    """
    stratum = np.zeros(n, np.int64) if strata is None else strata
    unit = np.arange(n)
    if cluster is not None:
        unit = np.unique(cluster, return_inverse=True)[1]
        size = np.bincount(unit)
        stratum = stratum[np.lexsort((stratum, unit))[np.cumsum(size) - size + size // 2]]
    count = len(stratum)
    ranked = _ranked(stratum, uniform(seed, "audit split", np.arange(count)))
    steps = np.floor(np.arange(count + 1) * confirm + float(uniform(seed, "audit start", np.zeros(1, np.int64))[0]))
    chosen = np.zeros(count, np.bool_)
    chosen[ranked] = np.diff(steps) > 0
    return np.asarray(chosen[unit], np.bool_)


def _ranked(stratum: Ints, order: Floats) -> Ints:
    """`np.lexsort((order, stratum))`, where `order` is from [0, 1) in 53 bits: both are one number, unless two tie."""
    if not len(stratum) or stratum.min() < 0 or stratum.max() >= 1 << 11:
        return np.lexsort((order, stratum))
    key = stratum.astype(np.uint64) << np.uint64(53) | (order * 2.0**53).astype(np.uint64)
    ranked = np.argsort(key)
    key = key[ranked]
    return np.lexsort((order, stratum)) if (key[1:] == key[:-1]).any() else ranked


def detectable(
    n: float, n_slice: float, base: float, alpha: float, power: float = POWER, sd: float | None = None
) -> float:
    """The smallest difference that `n_slice` of n items show with this power in a one-sided test at level alpha.

    `base` is the share of errors elsewhere, and the test is Fisher's with the number of errors that is to be expected;
    a loss that is no share has a standard deviation `sd` instead. NaN where not even errors throughout would be seen.

    >>> round(detectable(1200, 50, 0.12, 0.1 / 50), 2)
    0.23
    """
    size, rest = round(n_slice), round(n) - round(n_slice)
    if size < 1 or rest < 1:
        return math.nan
    if sd is not None:
        return float(ndtri(power) - ndtri(alpha)) * sd * math.sqrt(1 / size + 1 / rest)

    @cache
    def significant(errors: int) -> int:
        """The fewest errors inside, of so many in all, that are significant in Fisher's test."""
        least, most = max(0, errors - rest), min(size, errors)
        tails = np.cumsum(count_chances(np.arange(least, most + 1.0), size, errors, size + rest)[::-1])[::-1]
        return max(1, least + int(np.count_nonzero(tails > alpha)))

    def chance(share: float) -> float:
        """The probability that a group with this share of errors is seen."""
        many = significant(round(rest * base + size * share))
        return float(bdtrc(many - 1, size, share)) if many <= size else 0.0

    low, high = base, 1.0
    if chance(high) < power:
        return math.nan
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) >= power else (middle, high)
    return high - base
