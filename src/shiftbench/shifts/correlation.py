"""A spurious correlation between the label and one other factor."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shiftbench.arrays import Floats
from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.errors import unknown
from shiftbench.registry import Lists, register
from shiftbench.shifts.base import SHIFTS
from shiftbench.shifts.mixture import Names, mate, mixture, share


@register(SHIFTS, "correlation")
@dataclass(frozen=True)
class Correlation(Lists):
    """A spurious correlation between the label y and one other factor a (after Wiles et al., 2022).

        p_train(y, a) = rho · 1[a = pair(y)] / |Y|  +  (1 − rho) / (|Y| |A|)
        p_test(y, a)  = 1 / (|Y| |A|)

    rho = 0 is no shift; at rho = 1 the factor predicts the label perfectly in training. Our reading: where `pairs` is
    silent, the k-th label value goes with the k-th factor value, in the order of their names.
    """

    label: str
    factor: str
    rho: float = 0.95
    classes: tuple[str, ...] = ()  # label values to keep; default: all
    values: tuple[str, ...] = ()  # factor values to keep; default: all
    pairs: Mapping[str, str] = field(default_factory=dict)  # label value -> its factor value in training
    n_train: int = 0  # 0: as many as the cells allow
    n_test: int = 0  # 0: a third of n_train
    n_val: int = 0  # id_val and id_test each; 0: a quarter of n_train
    n_ood: int = 0  # val, drawn as test is: for choosing among runs after the shift

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        return mixture(self, collection, seed, self.classes, self._shares)

    def _shares(self, y_names: Names, a_names: Names) -> Floats:
        rho = share("rho", self.rho)
        for name in self.pairs:
            if name not in y_names:
                raise unknown("class", name, y_names, "pairs")
        table = np.full((len(y_names), len(a_names)), (1 - rho) / (len(y_names) * len(a_names)))
        for code, name in enumerate(y_names):
            pair = mate(self.pairs[name], a_names, self.factor) if name in self.pairs else code % len(a_names)
            table[code, pair] += rho / len(y_names)
        return table
