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
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc, ndtri

from shiftbench.auditing.contrasts import DRAWS, Contrast, Doubt, OneSided, compare, count_chances
from shiftbench.auditing.findings import Finding
from shiftbench.auditing.flips import Flips, Rates, flip_rates
from shiftbench.auditing.predicates import Bits, Predicates, unpacked
from shiftbench.auditing.search import Slices, is_binary
from shiftbench.core.arrays import Bools, Floats, Ints, uniform

DEPENDENCE = ("prds", "any")
UNDECIDED = 10
"""Candidates that are listed although they were not confirmed."""
POWER = 0.8
MOST_ITEMS = 10**12
FIRST = 1024
"""Words of bits that tell most pairs of contexts apart."""


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


class Confirmed(NamedTuple):
    """Findings, wide ones before those within them; the best of the others; the level of all intervals."""

    findings: tuple[Finding, ...]
    undecided: tuple[Finding, ...]
    level: float


def confirm(
    predicates: Predicates, loss: Floats, slices: Slices, confirming: Bools, *, fdr: float = 0.1,
    dependence: str = "prds", worse: bool = True, flips: Flips | None = None, cluster: Ints | None = None,
    seed: int = 0,
) -> Confirmed:
    """Test contexts on the `confirming` items; predicates and losses are of all items, slices in the order of interest.

    Reported are those with q ≤ fdr (`q_values`), with intervals whose false coverage rate is ≤ fdr. The test
    is one-sided, so an interval of a difference at the same level may reach past 0; there it is cut at 0. That costs
    nothing: such an interval misses where the context is no finding, and those cases are counted already.
    """
    members = [tuple(int(number) for number in row if number >= 0) for row in slices.members]
    if not members:
        return Confirmed((), (), 1 - fdr)
    rates = flip_rates(predicates, flips or {})
    cases = _Cases(predicates, loss, confirming, cluster, members, rates, 1 if worse else -1)
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
        members: Sequence[tuple[int, ...]], rates: Mapping[int, Rates], sign: int,
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

    def weights(self, number: int, rates: Mapping[int, Rates] | None = None) -> Floats:
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

    def _means(self, number: int, parent: int | None, rates: Mapping[int, Rates]) -> Floats:
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


# What could have been found

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
