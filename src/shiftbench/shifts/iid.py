"""No shift: all splits drawn alike. What a shift is compared with, and what pretraining learns from."""

from dataclasses import dataclass

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.core.rng import uniform
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts.shift import SHIFTS, ambiguous, card


@register(SHIFTS, "iid")
@dataclass(frozen=True)
class IID:
    """Every item goes to one split by chance: `held` of all to each of id_val, id_test and test, the rest to train.

        p_train(x, y) = p_test(x, y)
    """

    label: str  # factor to predict
    domain: str = ""  # factor that names the domains; without one there is one domain
    held: float = 0.1

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        if not 0 < self.held < 1 / 3:
            raise ShiftBenchError(f"iid: 'held' is {self.held}, but three such shares must leave items to train on.")
        label = collection.factor(self.label).astype(np.str_)
        two = ambiguous(collection, np.unique(label).tolist())
        rows = np.setdiff1d(np.arange(len(collection)), two)
        place = (uniform(seed, "iid", rows) / self.held).astype(np.int64).clip(max=3)
        split = np.asarray(["id_val", "id_test", "test", "train"])[place]
        domain = collection.factor(self.domain)[rows] if self.domain else np.full(len(rows), "all")
        notes = [f"{len(two)} items carry the tags of two of the classes and were dropped."] if len(two) else []
        return Benchmark.of(collection, self, seed, rows, split, label=label[rows], domain=domain,
                            card=card(collection, rows, split, notes))
