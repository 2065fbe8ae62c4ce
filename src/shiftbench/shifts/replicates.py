"""Replicates of a benchmark: the same benchmark several times, each time with other low-data items.

Wiles et al. (2022) "choose a different set of samples from the low-data region with each seed". The replicates of a
benchmark share its name, test, validation and large part; card["draw"] numbers them, and replicate k is for seed k.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.data.benchmark import CODED, Benchmark, save_for
from shiftbench.data.collection import Collection
from shiftbench.shifts.conditions import condition_facts
from shiftbench.shifts.low_data import LowData, Spurious
from shiftbench.shifts.shift import Shift, bare, under


class Member(NamedTuple):
    """One benchmark to be built: its folder, the name on its card, and which replicate it is, if any."""

    folder: str
    name: str
    shift: Shift
    replicate: int | None = None
    seed: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """The card's entries about how the benchmark was built."""
        inner, conditions = bare(self.shift)
        facts = {"shift": getattr(inner, "name", ""), "params": asdict(inner), "seed": self.seed}
        facts |= {"conditions": [condition_facts(condition) for condition in conditions]} if conditions else {}
        return dict(json.loads(json.dumps(facts | ({} if self.replicate is None else {"draw": self.replicate}))))

    def save(self, collection: Collection, out: Path | str, path: Path | str | None = None) -> Benchmark:
        """Build it and save it below `out`; `path` is where the collection is, for those who look for pixels."""
        benchmark = self.shift.build(collection, self.seed)
        card = {**benchmark.card, "name": self.name, **({} if self.replicate is None else {"draw": self.replicate})}
        return save_for(replace(benchmark, card=card), Path(out) / self.folder, path, self.name)


def members(shifts: Iterable[tuple[str, Shift]], replicates: Sequence[int] = (), seed: int = 0) -> list[Member]:
    """What to build for some shifts by name: with replicates, `low-10` becomes low-10.0, low-10.1, …, named `low-10`.

    A shift without low-data items, such as `unseen`, has no replicates and is built once, for all seeds.
    """
    wanted: list[Member] = []
    for name, shift in shifts:
        numbered = [(number, replicate(shift, number)) for number in dict.fromkeys(replicates)]
        several = [Member(f"{name}.{number}", name, other, number, seed) for number, other in numbered
                   if other is not None]
        wanted += several or [Member(name, name, shift, None, seed)]
    return wanted


def replicate(shift: Shift, number: int) -> Shift | None:
    """The shift with another choice of its N items; None where it has none."""
    inner, conditions = bare(shift)
    few = isinstance(inner, Spurious) or (isinstance(inner, LowData) and inner.n_low > 0)
    return under(replace(inner, draw=number), conditions) if few else None


def replicate_of(card: Mapping[str, Any]) -> int | None:
    """Which replicate a benchmark is, from its card; None where it is not one of several."""
    number = card.get("draw")
    return number if isinstance(number, int) else None


def same_rows(one: Benchmark, other: Benchmark, split: str = "test") -> bool:
    """Whether a split has the same items in the same order, with the same label, domain and group, in words."""
    if one.names["label"] != other.names["label"]:
        return False
    rows, others = one.rows(split), other.rows(split)
    return np.array_equal(one.items[rows], other.items[others]) and all(
        np.array_equal(np.asarray(one.names[column])[getattr(one, column)[rows]],
                       np.asarray(other.names[column])[getattr(other, column)[others]]) for column in CODED)


def shared_splits(benchmarks: Sequence[Benchmark]) -> tuple[str, ...]:
    """The splits that every replicate has with the same rows: all but training's."""
    first = benchmarks[0]
    return tuple(split for split in first.splits if all(
        split in other.splits and same_rows(first, other, split) for other in benchmarks[1:]))
