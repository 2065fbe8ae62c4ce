"""Mixtures of the same groups with other weights: subpopulation shift."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shiftbench.arrays import Floats
from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.registry import Lists, register
from shiftbench.shifts.base import SHIFTS
from shiftbench.shifts.mixture import Names, mate, mixture, share


@register(SHIFTS, "subpopulation")
@dataclass(frozen=True)
class Subpopulation(Lists):
    """Train on a mixture in which minority groups have the share p, test on a balanced one (Liang & Zou, 2022, §4.2).

    For every class y one value m(y) of the factor is the majority's:

        p_train(y, a) = (1 − p) / |Y|                where a = m(y)
                        p / (|Y| (|A| − 1))          elsewhere
        p_test(y, a)  = 1 / (|Y| |A|)

    The total n_train is the same whatever p is, and so are the test items. Classes in `others` are trained on as they
    are and not tested, as in the paper's ten-class task (B.2.2).
    """

    label: str
    factor: str
    majority: Mapping[str, str]  # class -> m(y)
    p: float = 0.12
    values: tuple[str, ...] = ()  # factor values to keep; default: all
    n_train: int = 0  # 0: as many as the cells allow
    n_test: int = 0  # 0: a third of n_train
    n_val: int = 0  # id_val and id_test each; 0: a quarter of n_train
    n_ood: int = 0  # val, drawn as test is: for choosing among runs after the shift
    others: tuple[str, ...] = ()  # classes that are in training only
    n_others: int = 0  # training items of each of them; 0: three fifths of what there is

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        return mixture(self, collection, seed, tuple(self.majority), self._shares, self.others, self.n_others)

    def _shares(self, y_names: Names, a_names: Names) -> Floats:
        p = share("p", self.p)
        table = np.full((len(y_names), len(a_names)), p / (len(y_names) * (len(a_names) - 1)))
        for code, name in enumerate(y_names):
            table[code, mate(self.majority[name], a_names, self.factor)] = (1 - p) / len(y_names)
        return table
