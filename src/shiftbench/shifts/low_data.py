"""Low-data drift and unseen data shift: few or no training items of some values of a factor, all of the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shiftbench.core.arrays import Bools, Ints, Strs
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts.parts import Names, Regions, Where, pick, two_parts
from shiftbench.shifts.shift import SHIFTS


@register(SHIFTS, "low_data")
@dataclass(frozen=True)
class LowData(Lists):
    """Shift 2 of Wiles et al. (2022, D.2): N items in all of the values A_c of factor a, all items of its other values.

        train = {i : a_i ∉ A_c}  ∪  N items of {i : a_i ∈ A_c},     p_test(y, a) = 1 / (|Y| |A|)

    Test items are none of training's. Our reading: the N items are spread evenly over the cells of A_c, and which they
    are is the seed's and the draw's choice. At N = 0 this is `unseen`.
    """

    label: str
    factor: str
    low: tuple[str, ...] = ()  # A_c, by name or place (#3, #2..4, #5..)
    low_where: Where = field(default_factory=dict)  # or: the values that such items have, {split = ["val", "test"]}
    n_low: int = 10  # N
    drawn: float = 0.5  # share of the draws in training that go to the N items; 0: every item alike
    classes: tuple[str, ...] = ()  # label values to keep; default: all
    values: tuple[str, ...] = ()  # factor values to keep; default: all
    balanced: bool = True  # False: test and N items at random, not uniform over cells
    n_test: int = 0  # 0: a fifth of the smallest cell from each
    n_val: int = 0  # id_val and id_test each; 0: a tenth of training
    n_ood: int = 0  # val, drawn as test is
    test_where: Where = field(default_factory=dict)  # items for test and val alone, {source = ["testing"]}
    draw: int = 0  # another takes other N items, and moves nothing else

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        regions = _apart(collection, self.factor, "low", self.low, self.low_where)
        return two_parts(self, collection, seed, self.n_low, self.drawn, regions)


@register(SHIFTS, "unseen")
@dataclass(frozen=True)
class Unseen(Lists):
    """Shift 3 of Wiles et al. (2022, D.2): no training item has one of the values A_c of factor a; `low_data` at N = 0.

        train = {i : a_i ∉ A_c},     p_test(y, a) = 1 / (|Y| |A|)

    The paper wants two seen values or more (its equation 2), so that there is something to learn invariance from. A
    test that is uniform over cells is as large as the smallest cell allows; the card says how many items of A_c it has.
    `leave_one_domain_out` tests all of them.
    """

    label: str
    factor: str
    unseen: tuple[str, ...] = ()  # A_c, by name or place (#3, #2..4, #5..)
    unseen_where: Where = field(default_factory=dict)  # or: the values that such items have, {split = ["test"]}
    classes: tuple[str, ...] = ()  # label values to keep; default: all
    values: tuple[str, ...] = ()  # factor values to keep; default: all
    balanced: bool = True  # False: test at random, not uniform over cells
    n_test: int = 0  # 0: a fifth of the smallest cell from each
    n_val: int = 0  # id_val and id_test each; 0: a tenth of training
    n_ood: int = 0  # val, drawn as test is
    test_where: Where = field(default_factory=dict)  # items for test and val alone, {source = ["testing"]}

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        regions = _apart(collection, self.factor, "unseen", self.unseen, self.unseen_where)
        made = two_parts(self, collection, seed, 0, 0.0, regions)
        seen = np.unique(made.domain[made.rows("train")])
        apart = [name for code, name in enumerate(made.names["domain"]) if code not in seen]
        kept = np.isin(collection.factor(self.label).astype(np.str_), made.names["label"])
        there = int((np.isin(collection.factor(self.factor).astype(np.str_), apart) & kept).sum())
        used = int((np.isin(made.split, ("test", "val")) & ~np.isin(made.domain, seen)).sum())
        made.card["notes"][-1] += f" Of the {there} items with an unseen value, {used} are tested" + (
            ": leave_one_domain_out tests all." if used < there else ".")
        if len(seen) == 1:
            made.card["notes"].append(f"Training sees one value of '{self.factor}', '{made.names['domain'][seen[0]]}': "
                                      "nothing in it shows that the factor does not matter.")
        return made


def _apart(collection: Collection, factor: str, field_name: str, listed: tuple[str, ...], where: Where) -> Regions:
    """The cells of the values that are listed, or that items of other factors have, against all others."""
    met: Strs = np.zeros(0, np.str_)
    for column, words in where.items():
        own = collection.factor(column).astype(np.str_)
        for word in words:
            if word not in own:
                raise unknown("value", word, np.unique(own).tolist(), f"Factor '{column}'")
        met = np.union1d(met, collection.factor(factor)[np.isin(own, words)].astype(np.str_))

    def regions(y_names: Names, a_names: Names, _: object) -> tuple[Bools, Bools]:
        apart = np.isin(a_names, met)
        apart[pick(listed, a_names, factor)] = True
        if apart.all() or not apart.any():
            raise ShiftBenchError(f"'{field_name}' names {int(apart.sum())} of the {len(a_names)} values of '{factor}' "
                                  f"({', '.join(a_names[:12])}); name some of them, not none and not all.")
        few = np.tile(apart, (len(y_names), 1))
        return ~few, few

    return regions


# Spurious correlation by counts: all items of the correlated cells and N that know nothing of the correlation.

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
