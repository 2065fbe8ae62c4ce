"""Train on the past, test on what comes after: a shift in time."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shiftbench.core.arrays import Ints, Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.questions import dates, moment
from shiftbench.shifts.leave_one_domain_out import TEST, TRAIN, VAL, deal_sides, kept_items
from shiftbench.shifts.shift import SHIFTS

Date = str | int
"""2013, "2013-06", "2013-06-30" or "2013-06-30T12:00"; in a recipe also a date of TOML."""


@register(SHIFTS, "temporal")
@dataclass(frozen=True)
class Temporal(Lists):
    """Train on items dated before a day, test on those from that day on (as FMoW in WILDS: Koh et al., 2021).

        train ∪ id_val ∪ id_test = {i : t_i < v},     val = {i : v ≤ t_i < c},     test = {i : t_i ≥ c}

    c is `test_from`; where that is not given, the latest share `test` of the items is tested, and items of one moment
    are never parted. v is `val_from`, else c. Every dated item is in the benchmark; those without a date are left out
    and counted on the card. Domains are years unless `domain` says otherwise. For a season, or for one year against all
    others, leave out a domain: `leave_one_domain_out` with domain = "season:taken" or "year:taken".
    """

    label: str
    date: str  # factor that holds ISO dates, timestamps or years
    test_from: Date = ""  # c, the first date that is tested
    val_from: Date = ""  # v, the first date of val: to choose among runs after the shift
    test: float = 0.2  # share of the items that is tested, where test_from is not given
    domain: str = ""  # factor that names the domains; default: the year
    held: float = 0.1  # share of the items before v for id_val, and for id_test
    ood: float = 0.0  # share of the items from c on for val
    classes: tuple[str, ...] = ()  # label values to keep; default: all
    target: str = "class"  # what is predicted, as in `given`

    moves: ClassVar[str] = "date to test from"

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        rows, notes = kept_items(self, collection)
        dated = dates(collection.factor(self.date)[rows], self.date)
        undated = int((~dated.known).sum())
        if undated:
            notes.append(f"{undated} items have no date in '{self.date}' and were left out.")
        rows, time, text = rows[dated.known], dated.moment[dated.known], dated.text[dated.known]
        if not len(rows):
            raise ShiftBenchError(f"temporal: no item has a date in '{self.date}'.")
        cut = self._cut(time)
        start = moment(str(self.val_from), "temporal: val_from") if self.val_from != "" else cut
        if start > cut:
            raise ShiftBenchError(f"temporal: val_from = {self.val_from} comes after the first date that is tested, "
                                  f"{_day(cut)}. Items of val lie between training and test.")
        side = np.where(time < start, TRAIN, np.where(time < cut, VAL, TEST))
        for name in (TRAIN, TEST):
            if not (side == name).any():
                raise ShiftBenchError(f"temporal: no item is on the side of {name}: dates in '{self.date}' run from "
                                      f"{text[time.argmin()]} to {text[time.argmax()]}, and test begins "
                                      f"{_day(cut)}. Choose another date to test from.")
        periods = {name: [str(text[rows_of[time[rows_of].argmin()]]), str(text[rows_of[time[rows_of].argmax()]])]
                   for name in (TRAIN, VAL, TEST) if len(rows_of := np.flatnonzero(side == name))}
        notes.append("; ".join(f"{name} from {first} to {last}" for name, (first, last) in periods.items()).capitalize()
                     + ".")
        domain: Strs = collection.factor(self.domain or f"year:{self.date}")[rows]
        return deal_sides(self, collection, seed, rows, side, domain, notes, periods=periods)

    def _cut(self, time: Ints) -> int:
        """The first moment that is tested."""
        if self.test_from != "":
            return moment(str(self.test_from), "temporal: test_from")
        if not 0 < self.test < 1:
            raise ShiftBenchError(f"temporal: 'test' is {self.test}, but it is a share of the items: between 0 and 1.")
        return int(np.sort(time)[min(len(time) - 1, len(time) - round(self.test * len(time)))])


def _day(moment: int) -> str:
    return str(np.datetime64(moment, "us").astype("datetime64[D]"))
