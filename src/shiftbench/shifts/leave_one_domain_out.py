"""Train on all domains but one, test on that one: domain generalisation on any factor."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from shiftbench.core.arrays import Ints, encode
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts.leave_out import folder_word
from shiftbench.shifts.parts import Names, pick
from shiftbench.shifts.shift import SHIFTS
from shiftbench.shifts.sides import TEST, TRAIN, VAL, candidates, dealt

Domains = str | tuple[str, ...]


@register(SHIFTS, "leave_one_domain_out")
@dataclass(frozen=True)
class LeaveOneDomainOut(Lists):
    """Test on the items of one domain, train on those of all others (DomainBed: Gulrajani & Lopez-Paz, 2021).

        test = {i : d_i ∈ E},     train ∪ id_val ∪ id_test = {i : d_i ∉ E ∪ V},     val = {i : d_i ∈ V}

    Every item is in the benchmark, with the shares that the data have: nothing is balanced. Without `test` it stands
    for one benchmark per domain, each named after what it leaves out; in all of them the same items are held out.
    `unseen` is the shift for a test that is uniform over the cells of label × factor.
    """

    label: str
    domain: str  # factor whose values are the domains: a hospital, `year:taken`, `bins:age:30,60`
    test: Domains = ()  # E, one or several, by name or place (#3); none: one benchmark per domain
    val: Domains = ()  # V, to choose among runs on domains that are neither trained on nor tested
    held: float = 0.1  # share of the training domains' items for id_val, and for id_test
    ood: float = 0.0  # share of the test domain's items for val
    classes: tuple[str, ...] = ()  # label values to keep; default: all
    target: str = "class"  # what is predicted, as in `given`

    moves: ClassVar[str] = "domain to test on"

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        rows, codes, names, notes = self._domains(collection)
        if self.several:
            raise ShiftBenchError(f"leave_one_domain_out: 'test' names no domain, so it stands for {len(names)} "
                                  f"benchmarks, one per value of '{self.domain}'. Build all of them with `shiftbench "
                                  "build RECIPE` or sb.suite, or name one of them: "
                                  f"{', '.join(names[:8])}{', …' if len(names) > 8 else ''}.")
        tested, chosen = (pick(_listed(given), names, self.domain) for given in (self.test, self.val))
        both = np.intersect1d(tested, chosen)
        if len(both):
            raise ShiftBenchError(f"leave_one_domain_out: '{names[both[0]]}' is in 'test' and in 'val'. Name it once.")
        side = np.where(np.isin(codes, tested), TEST, np.where(np.isin(codes, chosen), VAL, TRAIN))
        return dealt(self, collection, seed, rows, side, np.asarray(names, np.str_)[codes], notes)

    @property
    def several(self) -> bool:
        """Whether it stands for one benchmark per domain."""
        return not _listed(self.test)

    def each(self, collection: Collection) -> dict[str, "LeaveOneDomainOut"]:
        """By the name of its folder, the shift that leaves out one domain; those of `val` are never tested."""
        names = self._domains(collection)[2]
        spared = pick(_listed(self.val), names, self.domain)
        taken: set[str] = set()
        return {folder_word(f"{self.domain[:30]}-{name}", taken): replace(self, test=(name,))
                for code, name in enumerate(names) if code not in spared}

    def _domains(self, collection: Collection) -> tuple[Ints, Ints, Names, list[str]]:
        rows, notes = candidates(self, collection)
        codes, names = encode(collection.factor(self.domain)[rows])
        if len(names) < 2:
            raise ShiftBenchError(f"Factor '{self.domain}' has {len(names)} of the 2 values or more that it takes to "
                                  f"leave one out, among {len(rows)} items.")
        return rows, codes, names, notes


def _listed(given: Domains) -> tuple[str, ...]:
    return ((given,) if given else ()) if isinstance(given, str) else given

