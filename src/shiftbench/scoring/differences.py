"""Differences between methods: which are significant, and how many items it takes to see one.

`compare` tests methods on the same items and over their seeds, corrected for the number of pairs. `Design` plans an
experiment: the power of a test, the items it needs, and the smallest difference that a number of items shows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.scoring.intervals import LEVEL, checked, over_runs, seeds, take_apart


class Compared(NamedTuple):
    """Pairs of methods; `low` and `high` hold for all pairs at once, and are above 0 just where `adjusted` is small."""

    first: Ints
    second: Ints
    difference: Floats  # first − second
    low: Floats
    high: Floats
    p: Floats  # of each pair alone
    adjusted: Floats  # p times the number of pairs and looks, 1 at most: Bonferroni's; Holm's is never larger


def compare(
    values: npt.NDArray[np.generic],
    method: Sequence[int] | Ints,
    *,
    against: int | None = None,
    centre: Floats | None = None,
    size: Floats | None = None,
    unsure: Floats | None = None,
    level: float = LEVEL,
    looks: int = 1,
) -> Compared:
    """Test every pair of methods on the items they share; `values[r, i]` is the contribution of item i to run r.

        t = δ / √V,    V = (Var_i(d_i) + δ²) / n + V_seeds(first) + V_seeds(second)

    d_i is the difference of the two methods' means over their runs at item i, δ its mean. With δ² in it, the variance
    is that under equal methods: two single runs give McNemar's z = (b − c) / √(b + c). For single runs that are right
    or wrong (`values` of bools) p is that of McNemar's exact test, and an interval reaches 0 unless that test refuses
    equality. V_seeds is that of `seeds`, and the degrees of freedom are Satterthwaite's.

    `against` leaves only the pairs of that method. The correction is still for all pairs, since the method to compare
    against is usually the best, chosen by the same numbers; and for the number of `looks`, such as the groups that are
    compared side by side. If means are biased, `centre` replaces them, `unsure` is the variance of each correction, and
    `size` the number of items behind each.
    """
    from scipy.special import stdtr, stdtrit

    parts = take_apart(values, method)
    n_methods, n = len(parts.value), values.shape[1]
    if against is None:
        first, second = np.triu_indices(n_methods, 1)
    else:
        second = np.flatnonzero(np.arange(n_methods) != against)
        first = np.full(len(second), against)
    by_item = over_runs(np.asarray(values, np.float64), method) - parts.value
    squares = (by_item**2).sum(axis=1)
    spread = squares[first] + squares[second] - 2 * _products(by_item, first, second, against)
    spread[spread < 1e-12 * (squares[first] + squares[second])] = 0.0  # equal, up to rounding
    value = parts.value[:, 0] if centre is None else centre
    difference = value[first] - value[second]
    fewest = np.full(len(first), n) if size is None else np.minimum(size[first], size[second])
    between = seeds(parts.runs, parts.noise, method)
    seed = between.variance[first, 0] + between.variance[second, 0]
    variance = spread / n**2 + difference**2 / fewest + seed
    if unsure is not None:
        variance = variance + unsure[first] + unsure[second]
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(seed > 0, np.minimum(between.freedom * (variance / seed) ** 2, 1e9), 1e9)
        p = np.where(variance > 0, 2 * stdtr(freedom, -np.abs(difference) / np.sqrt(variance)), 1.0)
    pairs = looks * n_methods * (n_methods - 1) // 2
    half = stdtrit(freedom, 1 - (1 - checked(level)) / 2 / max(1, pairs)) * np.sqrt(variance)
    low, high = difference - half, difference + half
    if values.dtype == np.bool_ and len(values) == n_methods:
        p = np.asarray([mcnemar(values[a], values[b]) for a, b in zip(first, second, strict=True)])
        same = p * pairs > 1 - level
        low, high = np.where(same, np.minimum(low, 0.0), low), np.where(same, np.maximum(high, 0.0), high)
    return Compared(first, second, difference, low, high, p, np.minimum(1.0, p * pairs))


def mcnemar(first: Bools, second: Bools) -> float:
    """McNemar's exact test of two single runs: the p-value of b and c items that only one of them is right about.

        p = 2 P(X ≤ min(b, c)),    X ~ Binomial(b + c, ½)

    The answer is about these two runs, not about their methods.
    """
    from scipy.special import bdtr

    b, c = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    return min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5))) if b + c else 1.0


def _products(by_item: Floats, first: Ints, second: Ints, against: int | None) -> Floats:
    if against is not None:
        return np.asarray(by_item[second] @ by_item[against])
    return np.asarray((by_item @ by_item.T)[first, second])


# Planning: power and sample size

POWER = 0.8
MOST_ITEMS = 1e15
"""The largest number of items to plan with; beyond it, doubles no longer count one by one."""
MOST_TESTS = 10**12


@dataclass(frozen=True)
class Design:
    """The assumptions before an experiment; `items` in its methods are the items of the group in question.

    Two models with accuracies p and p + δ on the same n items differ in their answers: a share ψ of the items is right
    for one of them alone. McNemar's test sees the difference with probability

        power = Φ((δ √n − z √ψ) / √(ψ − δ²)),    z = Φ⁻¹(1 − α / 2),    α = (1 − level) / comparisons

    (Connor, 1987). The more the models err on the same items, the smaller ψ is and the fewer items are needed; with a
    correlation ρ of their errors ψ = p₁ q₁ + p₂ q₂ − 2 ρ √(p₁ q₁ p₂ q₂) + δ². On different items it takes n for each
    model, with variances 2 p̄ q̄ and p₁ q₁ + p₂ q₂ in place of ψ and ψ − δ². Seeds play no part: the test is about two
    trained models.
    """

    accuracy: float = 0.7  # the accuracy of the weaker model
    correlation: float = 0.5  # between the two models' errors; 0.5 if nothing is known
    disagreement: float | None = None  # ψ, if it is known: it replaces the correlation
    paired: bool = True
    level: float = LEVEL
    comparisons: int = 1

    def __post_init__(self) -> None:
        checked(self.level)
        _check("accuracy", self.accuracy, 0 <= self.accuracy <= 1, "is a share: 0.7")
        _check("correlation", self.correlation, -1 <= self.correlation <= 1,
               "is 0 where models err independently and 1 where they err on the same items")
        _check("disagreement", self.disagreement, self.disagreement is None or 0 <= self.disagreement <= 1,
               "is the share of items that only one of the models is right about")
        _check("comparisons", self.comparisons, 1 <= self.comparisons <= MOST_TESTS,
               f"is how many tests are made, from 1 to {MOST_TESTS:,}")

    def power(self, items: int, difference: float) -> float:
        """The probability that a difference in accuracy is seen."""
        from scipy.special import ndtr

        under, there = self._variances(difference)
        reach = difference * math.sqrt(items) - self._z() * math.sqrt(under)
        return float(ndtr(reach / math.sqrt(there))) if there > 0 else float(reach > 0)

    def items_needed(self, difference: float, power: float = POWER) -> int:
        """The fewest items with which a difference is seen with this probability."""
        exact = self._items(difference, power)
        if not exact <= MOST_ITEMS:
            raise ShiftBenchError(f"To see a difference of {100 * difference:g} points takes more than {MOST_ITEMS:g} "
                                  "items. Ask for a larger difference.")
        return math.ceil(exact)

    def smallest_difference(self, items: int, power: float = POWER) -> float:
        """The smallest difference that is seen with this probability; NaN where not even 1 − accuracy is."""
        low, high = 0.0, 1 - self.accuracy
        if high <= 0 or self._items(high, power) > items:
            return math.nan
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if self._items(middle, power) <= items else (middle, high)
        return high

    def _items(self, difference: float, power: float) -> float:
        """The number that `items_needed` rounds up; infinite if it exceeds a double."""
        from scipy.special import ndtri

        _check("power", power, 0 < power < 1, "is a probability: 0.8")
        under, there = self._variances(difference)
        reach = self._z() * math.sqrt(under) + float(ndtri(power)) * math.sqrt(there)
        root = max(0.0, reach) / difference
        return root * root  # overflows to infinity, where root ** 2 raises

    def _variances(self, difference: float) -> tuple[float, float]:
        """The variance of a difference, times the items: if the models are equal, and if the difference is real."""
        _check("difference", difference, 0 < difference <= 1, "is a share above 0: two points are 0.02")
        if self.accuracy + difference > 1 + 1e-12:
            raise ShiftBenchError(f"No model is {100 * difference:g} points better than one with an accuracy of "
                                  f"{self.accuracy:g}. Ask for a smaller difference, or a lower accuracy.")
        weak, strong = self.accuracy, min(1.0, self.accuracy + difference)
        variances, mean = (weak * (1 - weak), strong * (1 - strong)), (weak + strong) / 2
        if not self.paired:
            return 2 * mean * (1 - mean), sum(variances)
        differ = self.disagreement
        if differ is None:
            differ = sum(variances) - 2 * self.correlation * math.sqrt(math.prod(variances)) + difference**2
        differ = max(differ, difference)  # at least so many items make up the difference
        return differ, differ - difference**2

    def _z(self) -> float:
        from scipy.special import ndtri

        return -float(ndtri((1 - self.level) / 2 / self.comparisons))


def group_power(
    sizes: Mapping[str, int], difference: float | None = None, power: float = POWER, **known: Any
) -> list[dict[str, Any]]:
    """One row per group: its items, the smallest difference they show and, of a difference, items needed and chance."""
    design = Design(**known)
    rows: list[dict[str, Any]] = []
    for group, items in sizes.items():
        rows.append({"group": group, "items": items, "smallest": design.smallest_difference(items, power)})
        if difference is not None:
            rows[-1] |= {"needed": design.items_needed(difference, power), "chance": design.power(items, difference)}
    return rows


def _check(name: str, value: float | None, fits: bool, meaning: str) -> None:
    if not fits:
        raise ShiftBenchError(f"{name} = {value}, but it {meaning}.")
