"""Draws of the low-data items: one benchmark several times, each time with other items in its small part.

Wiles et al. (2022) "choose a different set of samples from the low-data region with each seed". The draws of a
benchmark share its name, test, validation and large part; card["draw"] tells them apart, and draw k is for seed k.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.data.benchmark import CODED, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts.conditions import Under
from shiftbench.shifts.low_data import LowData, Spurious
from shiftbench.shifts.shift import Shift


class Member(NamedTuple):
    """One benchmark to be built: its folder, the name on its card, and which draw it is, if any."""

    folder: str
    name: str
    shift: Shift
    draw: int | None = None
    seed: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """What a card says of how it was built."""
        inner = self.shift.shift if isinstance(self.shift, Under) else self.shift
        conditions = self.shift.conditions if isinstance(self.shift, Under) else ()
        told = [{"name": getattr(one, "name", ""), **asdict(one)} for one in conditions]  # type: ignore[call-overload]
        facts = {"shift": getattr(inner, "name", ""), "params": asdict(inner), "seed": self.seed}  # type: ignore[call-overload]
        return dict(json.loads(json.dumps(facts | ({"conditions": told} if told else {})
                                          | ({} if self.draw is None else {"draw": self.draw}))))

    def save(self, collection: Collection, out: Path | str, path: Path | str | None = None) -> Path:
        """Build it and save it below `out`; `path` is where the collection is, for those who look for pixels."""
        folder = Path(out) / self.folder
        made = self.shift.build(collection, self.seed)
        card = dict(made.card) if self.draw is None else {**made.card, "draw": self.draw}
        if path is not None:
            card["collection"] = {**card["collection"], "path": os.path.relpath(path, folder)}
        return replace(made, card=card).save(folder, self.name)


def members(shifts: Iterable[tuple[str, Shift]], draws: Sequence[int] = (), seed: int = 0) -> list[Member]:
    """What to build for some shifts by name: with draws, `low-10` becomes low-10.0, low-10.1, …, all named `low-10`.

    A shift without low-data items, such as `unseen`, has nothing to draw anew and is built once, for all seeds.
    """
    listed: list[Member] = []
    for name, shift in shifts:
        drawn = [(draw, redrawn(shift, draw)) for draw in dict.fromkeys(draws)]
        again = [Member(f"{name}.{draw}", name, other, draw, seed) for draw, other in drawn if other is not None]
        listed += again or [Member(name, name, shift, None, seed)]
    return listed


def redrawn(shift: Shift, draw: int) -> Shift | None:
    """The shift with another draw of its N items; None where it has none."""
    if isinstance(shift, Under):
        inner = redrawn(shift.shift, draw)
        return None if inner is None else replace(shift, shift=inner)
    few = isinstance(shift, Spurious) or (isinstance(shift, LowData) and shift.n_low > 0)
    return replace(shift, draw=draw) if few else None  # type: ignore[type-var]


def draw_of(card: Mapping[str, Any]) -> int | None:
    """Which draw a benchmark is, from its card; None where it is not one of several."""
    draw = card.get("draw")
    return draw if isinstance(draw, int) else None


def same_rows(one: Benchmark, other: Benchmark, split: str = "test") -> bool:
    """Whether a split has the same items in the same order, with the same label, domain and group, in words."""
    if one.names["label"] != other.names["label"]:
        return False
    rows, others = one.rows(split), other.rows(split)
    return np.array_equal(one.items[rows], other.items[others]) and all(
        np.array_equal(np.asarray(one.names[column])[getattr(one, column)[rows]],
                       np.asarray(other.names[column])[getattr(other, column)[others]]) for column in CODED)


def shared_splits(benchmarks: Sequence[Benchmark]) -> tuple[str, ...]:
    """The splits that every draw has with the same rows: all but training's."""
    first = benchmarks[0]
    return tuple(split for split in first.splits if all(
        split in other.splits and same_rows(first, other, split) for other in benchmarks[1:]))
