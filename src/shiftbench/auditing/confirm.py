"""Test on one part of the items what was chosen on the other: which contexts differ, by how much, and which stay open.

Items are split once. Contexts are searched on the exploring part; the confirming part has not been looked at, so a
p-value on it is as good as if the context had been named beforehand, however many were searched. Only the few contexts
that are tested count: see `q_values`. For two models the loss is the change of each item, new − old, and the
null is that the change inside is that outside (a difference of differences): a model that got worse everywhere alike
has no context to report.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from shiftbench.auditing.contrasts import DRAWS, Contrast, Doubt, OneSided, compare
from shiftbench.auditing.findings import Finding
from shiftbench.auditing.predicates import Bits, Predicate, Predicates, unpacked
from shiftbench.auditing.search import Slices, is_binary
from shiftbench.core.arrays import Bools, Floats, Ints, Strs
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import is_frame, read_table, strings, table_name

DEPENDENCE = ("prds", "any")
UNDECIDED = 10
"""Candidates that are listed although they were not confirmed."""
POWER = 0.8
Flips = Mapping[str, Any]
"""Error rates by predicate, "light=night" or the name of a tag: one number for both directions, two for `false` and
`missing`, or the table of a checked sample with columns `seen` and `true`."""
SEEN, TRUE = "seen", "true"
YES = ("yes", "true", "True", "1")
"""How a sample says that an item has a tag, beside the tag's name."""
MOST_ITEMS = 10**12
FIRST = 1024
"""Words of bits that tell most pairs of contexts apart."""


class Confirmed(NamedTuple):
    """Findings, wide ones before those within them; the best of the others; the level of all intervals."""

    findings: tuple[Finding, ...]
    undecided: tuple[Finding, ...]
    level: float


def confirm(
    predicates: Predicates, loss: Floats, slices: Slices, confirming: Bools, *, fdr: float = 0.1,
    dependence: str = "prds", worse: bool = True, rates: Mapping[int, "Rates"] | None = None,
    cluster: Ints | None = None, seed: int = 0,
) -> Confirmed:
    """Test contexts on the `confirming` items; predicates and losses are of all items, slices in the order of interest.

    Reported are those with q ≤ fdr (`q_values`), with intervals whose false coverage rate is ≤ fdr. The test
    is one-sided, so an interval of a difference at the same level may reach past 0; there it is cut at 0. That costs
    nothing: such an interval misses where the context is no finding, and those cases are counted already.
    """
    members = [tuple(int(number) for number in row if number >= 0) for row in slices.members]
    if not members:
        return Confirmed((), (), 1 - fdr)
    cases = _Cases(predicates, loss, confirming, cluster, members, rates or {}, 1 if worse else -1)
    count = len(members)
    draws = max(DRAWS, math.ceil(20 * count * (harmonic(count) if dependence == "any" else 1) / fdr))
    test = OneSided(cases.loss, cases.cluster, worse=worse, draws=draws, seed=seed)
    p = np.asarray([test.p(cases.mask(number)[confirming]) for number in range(count)])
    within = _within(cases.bits)
    root = trees(within)
    q = q_values(p, root, dependence)
    rejected = q <= fdr
    share = miss(rejected, root, fdr, dependence)
    confirmed = {number: cases.finding(number, p[number], q[number], share)
                 for number in np.flatnonzero(rejected).tolist()}
    findings = _folded(confirmed, within & (root[:, None] == root), cases, share)
    others = [number for number in np.argsort(p, kind="stable").tolist() if not rejected[number]][:UNDECIDED]
    undecided = tuple(cases.undecided(number, p[number], q[number], share) for number in others)
    return Confirmed(findings, undecided, 1 - share)


class _Cases:
    """The candidates, and what the items say about each."""

    def __init__(
        self, predicates: Predicates, loss: Floats, confirming: Bools, cluster: Ints | None,
        members: Sequence[tuple[int, ...]], rates: Mapping[int, "Rates"], sign: int,
    ) -> None:
        self.predicates, self.members, self.rates, self.sign = predicates, members, rates, sign
        self.all_losses, self.confirming, self.loss = loss, confirming, loss[confirming]
        self.binary = is_binary(self.loss)
        self.cluster = None if cluster is None else np.unique(cluster[confirming], return_inverse=True)[1]
        self.bits = np.stack([np.bitwise_and.reduce(predicates.bits[list(row)], axis=0) for row in members])

    def mask(self, number: int) -> Bools:
        return unpacked(self.bits[number], self.predicates.n)

    def corrected(self, number: int) -> bool:
        return any(member in self.rates for member in self.members[number])

    def weights(self, number: int, rates: Mapping[int, "Rates"] | None = None) -> Floats:
        """1 inside and 0 outside, on the confirming items; for annotations with flips what they are worth."""
        if not self.corrected(number):
            return self.mask(number)[self.confirming].astype(np.float64)
        weights = np.ones(len(self.loss))
        for member in self.members[number]:
            each = (rates or self.rates).get(member, Rates(0.0, 0.0))
            weights *= (self.predicates.mask(member)[self.confirming] - each.false) / (1 - each.false - each.missing)
        return weights

    def doubt(self, number: int, parent: int | None) -> Doubt:
        """What uncertain rates add to the variances of both means, and to their covariance: the delta method."""
        members = {*self.members[number], *(() if parent is None else self.members[parent])}
        steps = [[{**self.rates, member: each._replace(**{name: getattr(each, name) + sign * error})}
                  for sign in (1, -1)]
                 for member in sorted(members & self.rates.keys()) for each in [self.rates[member]]
                 for name, error in (("false", each.false_error), ("missing", each.missing_error)) if error > 0]
        moved = [np.subtract(*(self._means(number, parent, rates) for rates in pair)) / 2 for pair in steps]
        return Doubt(*(float(sum(move[first] * move[second] for move in moved))
                       for first, second in ((0, 0), (1, 1), (0, 1))))

    def _means(self, number: int, parent: int | None, rates: Mapping[int, "Rates"]) -> Floats:
        inside = self.weights(number, rates)
        outside = (1.0 if parent is None else self.weights(parent, rates)) - inside
        return np.asarray([weights @ self.loss / weights.sum() if weights.sum() > 0 else np.nan
                           for weights in (inside, outside)])

    def contrast(self, number: int, share: float, parent: int | None = None) -> Contrast:
        """Inside against outside, or against the other items of a wider context."""
        inside = self.weights(number)
        outside = (1.0 if parent is None else self.weights(parent)) - inside
        flipped = self.corrected(number) or (parent is not None and self.corrected(parent))
        return compare(self.loss, inside, outside, share, cluster=self.cluster,
                       plain=self.cluster is None and not flipped, binary=self.binary,
                       doubt=self.doubt(number, parent) if flipped else Doubt())

    def finding(self, number: int, p: float, q: float, share: float, contrast: Contrast | None = None) -> Finding:
        mask = self.mask(number)
        n, n_all = int(np.count_nonzero(mask[self.confirming])), int(np.count_nonzero(mask))
        inside, outside, difference, ratio, _ = contrast or self.contrast(number, share)
        low, high = difference.low, difference.high
        if contrast is None:
            low, high = (max(low, 0.0), high) if self.sign > 0 else (low, min(high, 0.0))
        return Finding(tuple(self.predicates.list[member] for member in self.members[number]), n, len(self.loss) - n,
                       n_all, *inside, outside.value, difference.value, low, high, *ratio, float(p), float(q),
                       self.explored(mask), corrected=self.corrected(number),
                       checked=max((self.rates[member].checked for member in self.members[number]
                                    if member in self.rates), default=0))

    def explored(self, mask: Bools) -> float:
        """The difference on the exploring items."""
        inside, outside = (self.all_losses[side & ~self.confirming] for side in (mask, ~mask))
        return float(inside.mean() - outside.mean()) if len(inside) and len(outside) else math.nan

    def undecided(self, number: int, p: float, q: float, share: float) -> Finding:
        """A candidate that was not confirmed, with the items that it would take if the difference is as it seems."""
        contrast = self.contrast(number, share)
        finding = self.finding(number, p, q, share, contrast)
        effect = self.sign * contrast.difference.value
        if not effect > 0 or not contrast.error > 0:
            return finding
        factor = ((float(ndtri(POWER)) - float(ndtri(min(share, 0.5)))) * contrast.error / effect) ** 2
        return replace(finding, needed=int(min(max(math.ceil(finding.n_all * factor), finding.n_all + 1), MOST_ITEMS)))


def _within(bits: Bits) -> Bools:
    """Which candidates lie within which: every item of i is one of j; of equal ones the later within the earlier."""
    count = len(bits)
    inside = np.zeros((count, count), np.bool_)
    for number in range(count):
        maybe = np.flatnonzero(~(bits[:, :FIRST] & ~bits[number, :FIRST]).any(axis=1))
        inside[maybe, number] = [not (bits[other] & ~bits[number]).any() for other in maybe]
    later = np.arange(count)[:, None] > np.arange(count)
    return inside & (~inside.T | later)


def _folded(
    findings: Mapping[int, Finding], within: Bools, cases: _Cases, share: float
) -> tuple[Finding, ...]:
    """Findings with those that lie within them right behind, the surest difference first.

    A context within another is listed only if it adds to the smallest such that is listed: if the interval of what it
    adds excludes 0. The others are counted there as `narrower`.
    """
    parents: dict[int, int] = {}  # of those that are listed
    narrower: dict[int, int] = {}
    listed = dict(findings)
    for number in sorted(findings, key=lambda number: (-findings[number].n_all, number)):  # wide ones first
        wider = [other for other in parents if within[number, other]]
        parents[number] = parent = min(wider, key=lambda other: (findings[other].n_all, -other), default=-1)
        if parent < 0:
            continue
        adds = cases.contrast(number, share, parent).difference
        if adds.low > 0 if cases.sign > 0 else adds.high < 0:
            listed[number] = replace(findings[number], adds=adds.value, adds_low=adds.low, adds_high=adds.high)
        else:
            del parents[number]
            narrower[parent] = narrower.get(parent, 0) + 1
    ranks = sorted(parents, key=lambda number: (-_surest(findings[number]), number))
    rows: list[Finding] = []

    def append(number: int, position: int) -> None:
        rows.append(replace(listed[number], parent=position, narrower=narrower.get(number, 0)))
        row = len(rows) - 1
        for other in ranks:
            if parents[other] == number:
                append(other, row)

    for number in ranks:
        if parents[number] < 0:
            append(number, -1)
    return tuple(rows)


def _surest(finding: Finding) -> float:
    """The end of the interval of the difference that lies nearer to 0; unknown ones last."""
    end = finding.difference_low if finding.difference > 0 else -finding.difference_high
    return -math.inf if math.isnan(end) else end


# Which of many contexts may be reported: the false discovery rate of a list in which nested contexts are folded

def q_values(p: Floats, root: Ints, dependence: str = "prds") -> Floats:
    """The smallest q at which each context is rejected: min over t ≥ p_j of m t / G(R_t), 1 at most.

    m contexts are tested, context j with p-value p_j. Contexts lie within each other ("night in Oslo" within "night"),
    and a report shows the widest ones and folds the others below them. Benjamini and Hochberg's procedure (1995)
    controls the share of false discoveries among all rejections, not among those that are left when some are folded
    away. Focused BH (Katsevich, Sabatti and Bogomolov, 2023) counts what is left:

        t* = max {t : m t / |F(R_t)| ≤ q},    R_t = {j : p_j ≤ t}

    and under dependence it needs |F| not to fall when p-values fall. "The widest" does not have that property (a wide
    context that joins R folds many), so we count something smaller that has it. Every context belongs to one tree,
    whose root is a candidate that holds all its items and lies within no other; trees are fixed before p-values are
    seen. G(R) is the number of trees with a rejection. Contexts are folded within their tree alone, so every such tree
    still shows one: |F(R)| ≥ G(R). With

        t* = max {t : m t / G(R_t) ≤ q},

        FDR = E[ |F ∩ nulls| / |F| ] ≤ Σ_null E[ 1{p_j ≤ t*} / G ] ≤ (q / m) Σ_null E[ 1{p_j ≤ t*} / t* ] ≤ q,

    where the last step holds for p-values that are independent or positively dependent (PRDS; Benjamini and Yekutieli,
    2001), since t* does not rise in any p_j. The same bound holds for every list between F and R. Under any dependence
    it holds with q / (1 + 1/2 + … + 1/m) in place of q. Where every context is its own root, these are Benjamini and
    Hochberg's adjusted p-values.
    """
    m = len(p)
    if not m:
        return np.zeros(0)
    order = np.argsort(p, kind="stable")
    first = np.zeros(m, np.bool_)
    first[np.unique(root[order], return_index=True)[1]] = True
    rate = m * p[order] / np.cumsum(first) * (harmonic(m) if dependence == "any" else 1.0)
    last = np.searchsorted(p[order], p[order], side="right") - 1  # ties enter together
    q = np.empty(m)
    q[order] = np.minimum.accumulate(rate[last][::-1])[::-1]
    return np.minimum(q, 1.0)


def trees(within: Bools) -> Ints:
    """The root of each context: of the widest ones that hold it, the first.

    `within[i, j]` says that context i lies within j, a strict partial order; contexts come best first.

    >>> trees(np.asarray([[0, 0, 0], [0, 0, 0], [1, 1, 0]], bool)).tolist()
    [0, 1, 0]
    """
    widest = ~within.any(axis=1)
    holds = (within | np.eye(len(within), dtype=np.bool_)) & widest
    return np.asarray(holds.argmax(axis=1), np.int64)


def harmonic(m: int) -> float:
    """1 + 1/2 + … + 1/m, the price of an unknown dependence."""
    return float((1 / np.arange(1, m + 1)).sum()) if m else 1.0


def miss(rejected: Bools, root: Ints, fdr: float, dependence: str = "prds") -> float:
    """The share of misses at which intervals are made, so that of those reported a share of `fdr` at most misses.

    Benjamini and Yekutieli's intervals (2005) for R of m selected parameters have level 1 − R q / m. We take G for R:
    then the false coverage rate holds for those shown as well as for all that are rejected.
    """
    m = max(1, len(rejected))
    count = max(1, len(np.unique(root[rejected])))
    return count * fdr / m / (harmonic(m) if dependence == "any" else 1.0)


# Error rates of annotations: known ones, or those of a hand-checked sample, which are uncertain themselves
#
# An annotation is there though it should not be with probability a (`false`), and missing though it should be there
# with probability b (`missing`). Of a sample of checked items, k₀ of the n₀ that should not have it do, and k₁ of the
# n₁ that should do not. With Jeffreys' prior a has the distribution Beta(k₀ + ½, n₀ − k₀ + ½), and b likewise: its mean
# is the rate, its standard deviation the `…_error`, which the delta method carries into the interval.

class Rates(NamedTuple):
    """How often an annotation is there falsely and missing falsely, how sure that is, and by how many checked items."""

    false: float
    missing: float
    false_error: float = 0.0
    missing_error: float = 0.0
    checked: int = 0

    @property
    def turned(self) -> "Rates":
        """Those of the opposite, "without dog"."""
        return Rates(self.missing, self.false, self.missing_error, self.false_error, self.checked)


def flip_rates(predicates: Predicates, flips: Flips) -> dict[int, Rates]:
    """The rates of each predicate that has some, by its number."""
    names: dict[str, int] = {}
    opposite: dict[str, int] = {}
    for number, predicate in enumerate(predicates.list):
        names[f"{predicate.column}={predicate.value}"] = number
        if predicate.kind == "tag":
            (names if predicate.value == "yes" else opposite)[_tag(predicate)] = number
    rates: dict[int, Rates] = {}
    for name, source in flips.items():
        if name not in names:
            raise unknown("annotation", name, names, "flips")
        predicate = predicates.list[names[name]]
        rates[names[name]] = each = _rates(name, predicate, source)
        if predicate.kind == "tag" and predicate.value == "yes" and _tag(predicate) in opposite:
            rates.setdefault(opposite[_tag(predicate)], each.turned)
    return rates


def _tag(predicate: Predicate) -> str:
    return predicate.column.removeprefix("has:")


def _rates(name: str, predicate: Predicate, source: Any) -> Rates:
    if is_frame(source) or isinstance(source, str | Path):
        rates = _of_sample(predicate, source)
    else:
        false, missing = (source, source) if isinstance(source, int | float) else source
        rates = Rates(float(false), float(missing))
    if not (rates.false >= 0 and rates.missing >= 0 and rates.false + rates.missing < 1):
        raise ShiftBenchError(f"flips of '{name}' = {rates.false:g} and {rates.missing:g}, but rates of false and of "
                              "missing annotations are shares that together stay below 1; at 1 an annotation says "
                              "nothing.")
    return rates


def _of_sample(predicate: Predicate, source: Any) -> Rates:
    where = table_name(source)
    table = read_table(source, [SEEN, TRUE], text=(SEEN, TRUE))
    seen, true = (_has(strings(where, table, column), predicate) for column in (SEEN, TRUE))
    if true.all() or not true.any():
        which = "is not" if true.all() else "is"
        raise ShiftBenchError(f"{where}: of the {len(true):,} items that were checked, none {which} truly "
                              f"'{predicate.words}', so that one of the two error rates is unknown.")
    pairs = [_beta(int(wrong.sum()), len(wrong)) for wrong in (seen[~true], ~seen[true])]
    return Rates(pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1], len(true))


def _has(values: Strs, predicate: Predicate) -> Bools:
    words = (_tag(predicate), *YES) if predicate.kind == "tag" else (predicate.value,)
    return np.asarray(np.isin(values, words) != (predicate.kind == "tag" and predicate.value == "no"), np.bool_)


def _beta(hits: int, n: int) -> tuple[float, float]:
    """Mean and standard deviation of Jeffreys' posterior of a share.

    >>> [round(number, 4) for number in _beta(8, 100)]
    [0.0842, 0.0275]
    """
    mean = (hits + 0.5) / (n + 1)
    return mean, float(np.sqrt(mean * (1 - mean) / (n + 2)))
