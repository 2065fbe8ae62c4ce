"""A study in the manner of Wiles et al. (2022): which scores of a table belong to it, as one array."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, Scores
from shiftbench.methods.presets import NINETEEN, family
from shiftbench.scoring import MEAN

FAMILIES = tuple(dict.fromkeys(map(family, NINETEEN)))
BASELINES = ("resnet18", "erm")
"""What a change is measured against: the first of them that the table has."""
FEWEST = 4
"""Methods of the nineteen that one benchmark must have for a table to count as such a study."""
ONLY = "only_"
"""How the methods of the RandAugment ablation are named: `only_rotate` is ERM with that one operation."""
METRIC = "macro_f1"
COUNTED = {"spurious": "n_uncorrelated", "low_data": "n_low", "unseen": ""}
"""The three shifts, and the parameter that is the paper's N."""
STRENGTH = {"noise": "p", "size": "n"}
"""The two conditions, and what of them is varied."""


class Place(NamedTuple):
    """What the card of one benchmark says that the figures need."""

    benchmark: str
    collection: str
    label: str
    factor: str
    shift: str  # spurious, low_data or unseen
    n: int  # N; 0 for an unseen shift
    condition: str  # "", noise, size, or "several"
    strength: float  # p of noise, n of size; 0 without
    base: str  # collection and shift with all parameters: what a condition was applied to


@dataclass(frozen=True, eq=False)
class Study:
    """Macro F1 on test of every run: benchmarks × methods × seeds, NaN where there is none."""

    places: tuple[Place, ...]
    methods: tuple[str, ...]  # the baseline, then the others of the nineteen in their order
    seeds: tuple[int, ...]
    values: Floats
    operations: tuple[str, ...]  # of the RandAugment ablation
    ablation: Floats  # benchmarks × operations × seeds
    others: tuple[str, ...]  # methods of the table that are no part of this

    @property
    def baseline(self) -> str:
        return self.methods[0]

    def where(self, **equal: Any) -> list[int]:
        """Numbers of the benchmarks with these facts: where(shift="unseen", condition="")."""
        return [row for row, place in enumerate(self.places)
                if all(getattr(place, name) == value for name, value in equal.items())]

    def of_family(self, family: str) -> list[str]:
        """The methods of a family that the table has, the baseline aside."""
        return [method for method in self.methods[1:] if family_of(method) == family]

    def change(self, method: str) -> Floats:
        """100 (m − b) / b against the baseline's run with the same seed: benchmarks × seeds."""
        base = self.values[:, 0]
        with np.errstate(invalid="ignore", divide="ignore"):
            made = 100 * (self.values[:, self.methods.index(method)] - base) / base
        return np.where(base > 0, made, np.nan)

    def collections(self, rows: Sequence[int]) -> list[str]:
        return [self.places[row].collection for row in rows]


def family_of(method: str) -> str:
    """The paper's family of a method; `erm` is a ResNet too.

    >>> family_of("dann"), family_of("erm")
    ('domain generalization', 'architecture')
    """
    return family(method) if method in NINETEEN else FAMILIES[0]


def place(benchmark: Benchmark) -> Place | None:
    """Where a benchmark stands in the study; None where its shift is none of the three.

    A split that came with the data is an unseen shift where its test has domains that training has none of (D.1).
    """
    card = benchmark.card
    shift, params = str(card.get("shift", "")), card.get("params") or {}
    seen, tested = (benchmark.domain[benchmark.rows(split)] for split in ("train", "test"))
    if shift == "given" and not np.isin(tested, seen).any():
        shift = "unseen"
    if shift not in COUNTED:
        return None
    collection = str((card.get("collection") or {}).get("name", ""))
    conditions = [one for one in card.get("conditions") or [] if isinstance(one, Mapping)]
    condition, strength = "several" if conditions else "", 0.0
    if len(conditions) == 1 and conditions[0].get("name") in STRENGTH:
        condition = str(conditions[0]["name"])
        strength = _number(conditions[0].get(STRENGTH[condition]))
    factor = str(params.get("factor") or params.get("domain", ""))
    return Place(benchmark.name, collection, str(params.get("label", "")), factor, shift,
                 int(_number(params.get(COUNTED[shift]))), condition, strength,
                 json.dumps([collection, shift, {key: params[key] for key in params if key != "draw"}], sort_keys=True,
                            default=str))


def study(scores: Scores, benchmarks: Sequence[Benchmark]) -> Study | None:
    """The study that a table of chosen runs holds (see `shown_scores`).

    None unless some benchmark of the three shifts has scores of the baseline and of FEWEST of the nineteen methods.
    Means over seeds are left out: the figures make their own from single runs. Of draws that share a name, whose cards
    say the same but for the draw, one stands for all.
    """
    known = {one.benchmark: one for one in map(place, reversed(benchmarks)) if one is not None}
    some = scores.where(split="test", metric=METRIC, group=ALL)
    single = ~((some["seed"] == -1) & np.char.startswith(some["run"], MEAN))
    keep: Bools = single & np.isin(some["benchmark"], list(known)) & np.isfinite(some["value"])
    benchmark, method, seed, value = (some[name][keep] for name in ("benchmark", "method", "seed", "value"))
    found = set(method.tolist())
    baseline = next((name for name in BASELINES if name in found), "")
    if not baseline:
        return None
    methods = (baseline, *(name for name in NINETEEN if name in found and name != baseline))
    operations = tuple(sorted(name for name in found if name.startswith(ONLY)))
    names, seeds = tuple(name for name in known if name in benchmark), tuple(np.unique(seed).tolist())
    table = np.full((len(names), len(methods) + len(operations), len(seeds)), np.nan)
    column = {name: at for at, name in enumerate((*methods, *operations))}
    row, depth = ({one: at for at, one in enumerate(listed)} for listed in (names, seeds))
    for where, which, when, number in zip(benchmark.tolist(), method.tolist(), seed.tolist(), value.tolist(),
                                          strict=True):
        if which in column:
            table[row[where], column[which], depth[when]] = number
    here = np.isfinite(table[:, :len(methods)]).any(axis=2)
    nineteen = here[:, [at for at, name in enumerate(methods) if name in NINETEEN]].sum(axis=1)
    if not (here[:, 0] & (nineteen >= FEWEST)).any():
        return None
    order = sorted(range(len(names)), key=lambda at: _order(known[names[at]]))
    return Study(tuple(known[names[at]] for at in order), methods, seeds, table[order][:, :len(methods)], operations,
                 table[order][:, len(methods):], tuple(sorted(found - set(column))))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _order(one: Place) -> tuple[Any, ...]:
    return (tuple(COUNTED).index(one.shift), one.condition, one.collection, one.label, one.factor, one.strength, one.n)
