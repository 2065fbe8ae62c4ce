"""Losses inside a context against those outside: one p-value, and intervals of the mean, difference and ratio.

**Test.** For losses of 0 and 1, Fisher's exact test: given the number of errors, those inside are hypergeometric under
"the error does not depend on the context". For other losses, Welch's t, whose distribution is that over permutations of
the items where one side has fewer than `FEW` of them (valid exactly if losses are exchangeable, and in large samples
if only their means are equal: Janssen, 1997; Chung and Romano, 2013), else Student's.

**Clusters.** Items of one cluster may err together. Where no cluster lies on both sides, whole clusters are permuted,
and t has the variance between clusters: the test is exact if clusters are exchangeable, however few they are. Where the
context cuts clusters, t with the variance between clusters has as many degrees of freedom as the side with fewer
clusters has, less one, and p is no lower than 2^−clusters, the least that flipping the sign of each could give. In
both cases p is no lower than that of the test without clusters.

**Intervals.** Each mean has an interval [l, u]: Wilson's for 0 and 1, Student's otherwise. Those of the difference and
the ratio follow from both (MOVER: Newcombe, 1998, method 10; Zou and Donner, 2008; Donner and Zou, 2012),

    difference: δ − √((m₁ − l₁)² + (u₀ − m₀)² − 2ρ (m₁ − l₁)(u₀ − m₀)), and the other end likewise,

with ρ the correlation of the two means, which is 0 unless clusters or flips tie the sides to each other.

**Flips.** An annotation is there though it should not be with probability a, and missing with probability b, whatever
the loss. Then w = (1{annotated} − a) / (1 − a − b) has the mean 1{true}: weights w in place of 0 and 1 invert the
confusion matrix, and in a conjunction of annotations so does their product. Means are ratios Σ w x / Σ w; their
variance is the linearised one, larger by about (1 − a − b)^−2. Rates from a checked sample add the variance of the
means that comes from theirs (`confirm`). The test needs no correction: annotations that say nothing about the loss say
nothing after flips either.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, stdtr

from shiftbench.auditing.search import is_binary
from shiftbench.core.arrays import Bools, Floats, Ints, child
from shiftbench.scoring.intervals import normal_quantile, student, wilson

FEW = 200
"""Items, or clusters, on the smaller side from which Student's distribution stands for that over permutations."""
DRAWS = 1_999
"""Permutations, at least; `confirm` draws as many as the smallest p-value that may count takes."""

MEMORY = 2**25
"""Entries of random orders that are shuffled at once."""


class Interval(NamedTuple):
    """A number with the ends of its interval."""

    value: float
    low: float
    high: float


UNKNOWN = Interval(np.nan, np.nan, np.nan)


class Contrast(NamedTuple):
    """Means inside and outside, their difference and ratio; `error` is the standard error of the difference."""

    inside: Interval
    outside: Interval
    difference: Interval
    ratio: Interval
    error: float


class Doubt(NamedTuple):
    """What something uncertain adds to the variances of both means, and to their covariance."""

    inside: float = 0.0
    outside: float = 0.0
    both: float = 0.0


class Sums(NamedTuple):
    """Sums over units (items, or clusters of them), each with n items and a sum of losses x."""

    units: Floats
    n: Floats
    x: Floats
    xx: Floats
    xn: Floats
    nn: Floats


def fisher(hits: int, size: int, errors: int, n: int) -> float:
    """P(X ≥ hits), X ~ Hypergeometric: `size` of n items are drawn, `errors` of the n are errors.

    Terms further than 40 standard deviations from the mean, and from `hits`, are beyond what a double shows.

    >>> round(fisher(3, 4, 4, 8), 4)  # Fisher's tea
    0.2429
    """
    top, mean = min(size, errors), size * errors / max(n, 1)
    reach = 40 * np.sqrt(mean * (1 - errors / max(n, 1)) * (n - size) / max(n - 1, 1)) + 100
    first = max(hits, size + errors - n, 0, int(mean - reach))
    if first > top:
        return 0.0
    if hits <= max(0, size + errors - n):
        return 1.0
    k = np.arange(first, min(top, int(max(hits, mean) + reach)) + 1, dtype=np.float64)
    return float(min(1.0, count_chances(k, size, errors, n).sum()))


def count_chances(k: Floats, size: int, errors: int, n: int) -> Floats:
    """The probability of each number k of errors among `size` of n items."""
    def choose(total: float, some: Floats | float) -> Floats:
        return np.asarray(gammaln(total + 1.0) - gammaln(some + 1.0) - gammaln(total - some + 1.0))

    return np.asarray(np.exp(choose(errors, k) + choose(n - errors, size - k) - choose(n, size)))


def fisher_within(errors: Bools, inside: Bools, stratum: Ints) -> float:
    """Fisher's test within strata: P(X ≥ errors inside) where errors are in random order within every stratum.

    X is a sum of independent hypergeometric numbers, one per stratum, whose distribution is their convolution. The test
    is exact given the number of errors of every stratum: it stays valid for somebody who knows these numbers.
    """
    hits, chances, first = int(np.count_nonzero(errors & inside)), np.ones(1), 0
    for code in np.unique(stratum):
        within = stratum == code
        n, size, wrong = (int(np.count_nonzero(within & mask)) for mask in (within, inside, errors))
        start, terms = _hypergeometric(size, wrong, n)
        chances, first = np.convolve(chances, terms), first + start
    return float(min(1.0, chances[max(0, hits - first):].sum()))


def _hypergeometric(size: int, errors: int, n: int) -> tuple[int, Floats]:
    """The probabilities of the numbers of errors among `size` of n items, and the first of these numbers."""
    mean = size * errors / max(n, 1)
    reach = 40 * np.sqrt(mean * (1 - errors / max(n, 1)) * (n - size) / max(n - 1, 1)) + 100
    first, last = max(size + errors - n, 0, int(mean - reach)), min(size, errors, int(mean + reach))
    return first, count_chances(np.arange(first, last + 1, dtype=np.float64), size, errors, n)


class OneSided:
    """One-sided p-values of contexts on the same items; `worse`: that losses inside are higher than outside."""

    def __init__(self, loss: Floats, cluster: Ints | None, *, worse: bool, draws: int = DRAWS, seed: int = 0) -> None:
        self.loss = loss if worse else -loss
        self.worse, self.binary, self.draws, self.seed = worse, is_binary(loss), draws, seed
        self.cluster = None if cluster is None else np.unique(cluster, return_inverse=True)[1]
        self._tables: dict[str, Sums] = {}

    def p(self, inside: Bools) -> float:
        n, size = len(inside), int(np.count_nonzero(inside))
        if not 0 < size < n:
            return 1.0
        items = self._fisher(inside, size, n) if self.binary else self._by_units(np.ones(n), self.loss, inside)
        return items if self.cluster is None else max(items, self._by_cluster(inside))

    def _fisher(self, inside: Bools, size: int, n: int) -> float:
        errors, hits = round(abs(self.loss.sum())), round(abs(self.loss[inside].sum()))
        return (fisher(hits, size, errors, n) if self.worse else fisher(size - hits, size, n - errors, n))

    def _by_cluster(self, inside: Bools) -> float:
        assert self.cluster is not None
        weights = inside.astype(np.float64)
        n, x, hold = (_by_code(self.cluster, values) for values in (np.ones(len(inside)), self.loss, weights))
        if not ((hold > 0) & (hold < n)).any():
            return self._by_units(n, x, hold > 0)
        contrast = compare(self.loss, weights, 1 - weights, 0.05, cluster=self.cluster)
        touched = min(int((hold > 0).sum()), int((hold < n).sum()))
        t = contrast.difference.value / contrast.error if contrast.error > 0 else 0.0
        return max(_student_tail(t, touched - 1), 2.0**-touched) if touched > 1 else 1.0

    def _by_units(self, n: Floats, x: Floats, inside: Bools) -> float:
        """Welch's t of units on both sides, by permutation where one side is small."""
        x = x - n * (x.sum() / n.sum())  # t does not change, and squares do not swallow what differs
        small = inside if inside.sum() <= len(inside) / 2 else ~inside
        sign, count = (1.0 if small is inside else -1.0), int(small.sum())
        whole = _sums(n, x, np.ones(len(n), np.bool_))
        t, freedom = _welch(_sums(n, x, small), whole)
        if count >= FEW:
            return _student_tail(float(sign * t), float(freedom))
        table = self._table(n, x)
        drawn, _ = _welch(Sums(*(column[count - 1] for column in table)), whole)
        return float((1 + (sign * drawn >= sign * t - 1e-9 * np.abs(t)).sum()) / (1 + self.draws))

    def _table(self, n: Floats, x: Floats) -> Sums:
        """Sums of the first 1, 2, … units of random orders: one set of draws serves contexts of every size."""
        key = "items" if len(n) == len(self.loss) else "clusters"
        if key not in self._tables:
            most = min(FEW - 1, len(n) // 2)
            order = _orders(child(self.seed, "audit", "permutation"), len(n), most, self.draws)
            steps = np.broadcast_to(np.arange(1.0, most + 1)[:, None], order.shape)
            x, alone = x[order], bool((n == 1).all())
            sums, squares = (values.cumsum(axis=0) for values in (x, x * x))
            if alone:  # units of one item: n, x n and n n are among the sums already
                self._tables[key] = Sums(steps, steps, sums, squares, sums, steps)
            else:
                n = n[order]
                counts, products, sizes = (values.cumsum(axis=0) for values in (n, x * n, n * n))
                self._tables[key] = Sums(steps, counts, sums, squares, products, sizes)
        return self._tables[key]


def _orders(rng: np.random.Generator, n: int, most: int, draws: int) -> Ints:
    """The first `most` of n units in random order, most × draws."""
    if n * draws > MEMORY:
        return np.stack([rng.choice(n, most, replace=False) for _ in range(draws)], axis=1)
    order, columns = np.repeat(np.arange(n, dtype=np.int32)[:, None], draws, axis=1), np.arange(draws)
    flat = order.reshape(-1)  # one index is faster than two
    for row in range(most):  # Fisher and Yates' shuffle of all columns at once
        other = rng.integers(row, n, draws) * draws + columns
        drawn = flat[other]
        flat[other] = order[row]
        order[row] = drawn
    return order[:most].astype(np.int64)


def _by_code(codes: Ints, values: Floats) -> Floats:
    """The sum of the values of each code."""
    return np.asarray(np.bincount(codes, values), np.float64)


def _sums(n: Floats, x: Floats, where: Bools) -> Sums:
    n, x = n[where], x[where]
    return Sums(*(np.asarray(float(total)) for total in (len(n), n.sum(), x.sum(), x @ x, x @ n, n @ n)))


def _welch(some: Sums, whole: Sums) -> tuple[Floats, Floats]:
    """t of some units against the others, and Satterthwaite's degrees of freedom; 0 where nothing varies."""
    other = Sums(*(total - share for total, share in zip(whole, some, strict=True)))
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [side.x / side.n for side in (some, other)]
        variances = [np.where(side.units > 1, np.maximum(side.xx - 2 * mean * side.xn + mean**2 * side.nn, 0)
                              / side.n**2 * side.units / np.maximum(side.units - 1, 1), np.inf)
                     for side, mean in zip((some, other), means, strict=True)]
        total = variances[0] + variances[1]
        floor = 1e-12 * (whole.xx / whole.n + 1e-300)  # a side without any variance: rounding must not decide
        t = np.where(np.isfinite(total), (means[0] - means[1]) / np.sqrt(np.maximum(total, floor)), 0.0)
        freedom = total**2 / sum(v**2 / np.maximum(side.units - 1, 1)
                                 for v, side in zip(variances, (some, other), strict=True))
    return t, np.nan_to_num(freedom, nan=1.0)


def _student_tail(t: float, freedom: float) -> float:
    return float(stdtr(max(freedom, 1.0), -t))


def compare(
    loss: Floats, inside: Floats, outside: Floats, miss: float, *, cluster: Ints | None = None, plain: bool = False,
    binary: bool | None = None, doubt: Doubt = Doubt(),
) -> Contrast:
    """The mean under weights `inside` against that under `outside`; intervals miss with probability `miss`.

    `plain`: weights are 0 and 1 and items independent, so that a share has Wilson's interval by its own n. `binary`:
    whether all losses are 0 or 1, where that is known. `doubt`: variance beside that of the items.
    """
    n1, n0 = float(inside.sum()), float(outside.sum())
    if n1 <= 0 or n0 <= 0:
        return Contrast(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, np.nan)
    binary = is_binary(loss) if binary is None else binary
    m1, m0 = float(inside @ loss) / n1, float(outside @ loss) / n0
    m1, m0 = (min(max(m, 0.0), 1.0) if binary else m for m in (m1, m0))  # weights of flips may leave the range
    if plain:
        square = loss if binary else loss * loss
        units, tie = (int(n1), int(n0)), 0.0
        v1, v0 = (max(float(side @ square) / n - m * m, 0.0) / max(n - 1, 1)
                  for side, n, m in ((inside, n1, m1), (outside, n0, m0)))
    else:
        units, v1, v0, tie = _linearised(inside * (loss - m1) / n1, outside * (loss - m0) / n0, inside > 0,
                                         outside > 0, cluster)
        v1, v0, tie = v1 + doubt.inside, v0 + doubt.outside, tie + doubt.both
    correlation = tie / np.sqrt(v1 * v0) if v1 > 0 and v0 > 0 and tie else 0.0
    inner, outer = (_mean(m, v, n, count, 1 - miss, binary=binary, plain=plain)
                 for m, v, n, count in ((m1, v1, n1, units[0]), (m0, v0, n0, units[1])))
    return Contrast(inner, outer, _difference(inner, outer, correlation), _ratio(inner, outer, correlation),
                    float(np.sqrt(max(v1 + v0 - 2 * tie, 0.0))))


def _linearised(
    inner: Floats, outer: Floats, inside: Bools, outside: Bools, cluster: Ints | None
) -> tuple[tuple[int, int], float, float, float]:
    """Units on both sides, variances and covariance of two means, from what each item contributes to them."""
    units = int(np.count_nonzero(inside)), int(np.count_nonzero(outside))
    if cluster is not None:
        units = len(np.unique(cluster[inside])), len(np.unique(cluster[outside]))
        inner, outer = _by_code(cluster, inner), _by_code(cluster, outer)
    v1, v0 = (float(side @ side) * count / max(count - 1, 1) for side, count in zip((inner, outer), units, strict=True))
    return units, v1, v0, float(inner @ outer)


def _mean(m: float, v: float, n: float, units: int, level: float, *, binary: bool, plain: bool) -> Interval:
    if binary and plain:
        return Interval(m, *(float(end) for end in wilson(m, n, level)))
    if units < 2:
        return Interval(m, 0.0, 1.0) if binary else Interval(m, np.nan, np.nan)
    t = float(student(units - 1, level))
    if not binary:
        return Interval(m, m - t * np.sqrt(v), m + t * np.sqrt(v))
    size = min(m * (1 - m) / v, n) if v > 0 and 0 < m < 1 else float(min(units, n))
    return Interval(m, *(float(end) for end in wilson(m, size * (normal_quantile(level) / t) ** 2, level)))


def _difference(inner: Interval, outer: Interval, correlation: float) -> Interval:
    def half(a: float, b: float) -> float:
        return float(np.sqrt(max(a * a + b * b - 2 * correlation * a * b, 0.0)))

    value = inner.value - outer.value
    return Interval(value, value - half(inner.value - inner.low, outer.high - outer.value),
                    value + half(inner.high - inner.value, outer.value - outer.low))


def _ratio(inner: Interval, outer: Interval, correlation: float) -> Interval:
    """NaN for a ratio against 0 and for an end that no data bound; losses that may be negative have none."""
    if not (inner.low >= 0 and outer.low >= 0 and outer.value >= 0):
        return UNKNOWN

    def end(first: float, second: float, sign: int) -> float:
        product = inner.value * outer.value - correlation * (inner.value - first) * (second - outer.value)
        below = second * (2 * outer.value - second)
        root = product**2 - first * (2 * inner.value - first) * below
        if below == 0 or root < 0 or (sign > 0 and below < 0):
            return np.nan
        return float((product + sign * np.sqrt(root)) / below)

    return Interval(inner.value / outer.value if outer.value > 0 else np.nan, end(inner.low, outer.high, -1),
                    end(inner.high, outer.low, 1))
