"""Spurious correlation by counts: all items of the correlated cells and N that know nothing of the correlation."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shiftbench.arrays import Bools, Ints
from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError, unknown
from shiftbench.registry import Lists, register
from shiftbench.shifts.base import SHIFTS
from shiftbench.shifts.parts import Names, Where, pick, two_parts

PAIRINGS = ("order", "commonest")


@register(SHIFTS, "spurious")
@dataclass(frozen=True)
class Spurious(Lists):
    """Shift 1 of Wiles et al. (2022, D.2): label y and factor a go together in training, all but N items.

        train = {i : a_i ∈ pairs(y_i)}  ∪  N items of U,   test ~ U,   U(y, a) = 1 / (|Y| |A|),   N ≥ 1

    Test items are none of training's. With N = 0 label and factor could not be told apart, so it is refused. Our
    reading: "the uncorrelated distribution" is U over all cells, as in the authors' code, so about N Σ_y |pairs(y)| /
    (|Y| |A|) of the N items agree with the correlation; with `against` all N contradict it. Where `pairs` is silent the
    k-th label value goes with the k-th factor value. `correlation` is the same shift by shares, at a fixed total.
    """

    label: str
    factor: str
    n_uncorrelated: int = 50  # N
    drawn: float = 0.5  # share of the draws in training that go to the N items; 0: every item alike
    pairs: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)  # label value -> its factor value(s)
    pairing: str = "order"  # for the other label values; "commonest": the factor value each is most often seen with
    against: bool = False  # take the N items from outside the correlated cells only
    classes: tuple[str, ...] = ()  # label values to keep, by name or place (#1, #2..4, #5..); default: all
    values: tuple[str, ...] = ()  # factor values to keep; default: all
    balanced: bool = True  # False: test and N items at random, not uniform over cells
    n_test: int = 0  # 0: a fifth of the smallest cell from each
    n_val: int = 0  # id_val and id_test each; 0: a tenth of training
    n_ood: int = 0  # val, drawn as test is
    test_where: Where = field(default_factory=dict)  # items for test and val alone, {source = ["testing"]}
    draw: int = 0  # another takes other N items, and moves nothing else

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        if self.n_uncorrelated < 1:
            raise ShiftBenchError(f"n_uncorrelated = {self.n_uncorrelated}, but without a single uncorrelated item "
                                  "label and factor cannot be told apart. Give 1 or more.")
        return two_parts(self, collection, seed, self.n_uncorrelated, self.drawn, self._regions)

    def _regions(self, y_names: Names, a_names: Names, counts: Ints) -> tuple[Bools, Bools]:
        if self.pairing not in PAIRINGS:
            raise unknown("pairing", self.pairing, PAIRINGS)
        order = np.arange(len(y_names)) % len(a_names)
        mates = order if self.pairing == "order" else counts.argmax(axis=1)
        together = np.arange(len(a_names)) == mates[:, None]
        for name, value in self.pairs.items():
            for code in pick([name], y_names, self.label):
                together[code] = False
                together[code, pick([value] if isinstance(value, str) else value, a_names, self.factor)] = True
        return together, ~together if self.against else np.ones_like(together)
