"""The scores of an experiment like that of Wiles et al. (2022), as one array: benchmarks × methods × seeds.

Every interval is Student's over seeds. Runs of one collection with the same seed may share low-data items, so they are
averaged within a seed first; collections are independent of each other.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats
from shiftbench.core.registry import find
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, RUN, Scores
from shiftbench.methods.presets import NINETEEN, family
from shiftbench.reporting.sections.families import number_of
from shiftbench.scoring.hard_items import midranks
from shiftbench.scoring.intervals import LEVEL, student
from shiftbench.scoring.metrics import in_words

FAMILIES = tuple(dict.fromkeys(map(family, NINETEEN)))
BASELINES = ("resnet18", "resnet50", "erm")
"""What a change is measured against: the first of them that the table has. Where the methods of a benchmark were mostly
trained with another net of the paper's, that net is its baseline: a ResNet-50 on Camelyon17 and iWildCam (§4)."""
SHARED = ("heuristic augmentation", "domain generalization", "adaptive")
"""Families whose methods all use the net of the baseline."""
PRETRAINED, SCRATCH = "pretrained", "erm"
"""Where both have one architecture, other than the baseline's, the first is compared with the second."""
FEWEST = 4
"""Methods of the nineteen that one benchmark must have for a table to count as such an experiment."""
ONLY = "only_"
"""How the methods of the RandAugment ablation are named: `only_rotate` is ERM with that one operation."""
METRICS = {"macro_f1": "f1", "accuracy": "accuracy"}
"""What the experiment is scored by -> the rule that chooses settings by it on validation items. The text of the paper
scores and selects by F1, its released code by top-1 accuracy."""
COUNTED = {"spurious": "n_uncorrelated", "low_data": "n_low", "unseen": ""}
"""The three shifts, and the parameter that is the paper's N."""
STRENGTH = {"noise": "p", "size": "n"}
"""The two conditions, and the parameter that varies."""
AXES = ("spurious", "low_data", "noise", "size")
"""What a change may be drawn against: N of the first two, p and n of the conditions."""


class Place(NamedTuple):
    """The facts on the card of one benchmark that the figures need."""

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
class FineGrainedScores:
    """One metric on test of every run: benchmarks × methods × seeds, NaN where there is none."""

    metric: str  # one of METRICS
    places: tuple[Place, ...]
    methods: tuple[str, ...]  # the baseline, then the others of the nineteen in their order
    seeds: tuple[int, ...]
    values: Floats
    operations: tuple[str, ...]  # of the RandAugment ablation
    ablation: Floats  # benchmarks × operations × seeds
    others: tuple[str, ...]  # methods of the table that are neither among the nineteen nor in the ablation
    baselines: tuple[str, ...]  # of each benchmark, the method that its changes are measured from
    scratch: Floats | None = None  # benchmarks × seeds: the architecture of `pretrained`, trained from scratch

    @property
    def baseline(self) -> str:
        """The baseline in words: resnet18, or resnet18 (resnet50 on camelyon17)."""
        others = {place.collection: name for place, name in zip(self.places, self.baselines, strict=True)
                  if name != self.methods[0]}
        exceptions = ", ".join(f"{name} on {collection}" for collection, name in others.items())
        return f"{self.methods[0]} ({exceptions})" if exceptions else self.methods[0]

    @property
    def base(self) -> Floats:
        """The baseline of every benchmark: benchmarks × seeds."""
        return self.values[np.arange(len(self.places)), [self.methods.index(name) for name in self.baselines]]

    def where(self, **equal: Any) -> list[int]:
        """Numbers of the benchmarks with these facts: where(shift="unseen", condition="")."""
        return [row for row, place in enumerate(self.places)
                if all(getattr(place, name) == value for name, value in equal.items())]

    def of_family(self, family: str) -> list[str]:
        """The methods of a family that the table has, the baseline aside."""
        return [method for method in self.methods[1:] if family_of(method) == family]

    @property
    def words(self) -> str:
        """The metric in words."""
        return in_words(self.metric)

    def from_scratch(self, method: str) -> bool:
        """Whether a method is compared with its own net from scratch: another net would be part of the change."""
        return method == PRETRAINED and self.scratch is not None

    def against(self, method: str) -> str:
        """What a method's change is measured from, in words."""
        return "the same net from scratch" if self.from_scratch(method) else self.baseline

    def change(self, method: str) -> Floats:
        """100 (m − b) / b, b the run of the baseline with the same seed (see `against`): benchmarks × seeds."""
        base = self.scratch if self.scratch is not None and self.from_scratch(method) else self.base
        with np.errstate(invalid="ignore", divide="ignore"):
            percent = 100 * (self.values[:, self.methods.index(method)] - base) / base
        compared = (base > 0) & (np.asarray(self.baselines) != method)[:, None]
        return np.where(compared, percent, np.nan)

    def collections(self, rows: Sequence[int]) -> list[str]:
        return [self.places[row].collection for row in rows]


def family_of(method: str) -> str:
    """The paper's family of a method; `erm` is a ResNet too.

    >>> family_of("dann"), family_of("erm")
    ('domain generalization', 'architecture')
    """
    return family(method) if method in NINETEEN else FAMILIES[0]


def place(benchmark: Benchmark) -> Place | None:
    """The position of a benchmark among the shifts; None where its shift is none of the three.

    A split that came with the data is an unseen shift if training and test share no domains (D.1).
    """
    card = benchmark.card
    shift, params = str(card.get("shift", "")), card.get("params") or {}
    seen, tested = (benchmark.domain[benchmark.rows(split)] for split in ("train", "test"))
    if shift == "given" and not np.isin(tested, seen).any():
        shift = "unseen"
    if shift not in COUNTED:
        return None
    collection = str((card.get("collection") or {}).get("name", ""))
    conditions = [condition for condition in card.get("conditions") or [] if isinstance(condition, Mapping)]
    condition, strength = "several" if conditions else "", 0.0
    if len(conditions) == 1 and conditions[0].get("name") in STRENGTH:
        condition = str(conditions[0]["name"])
        strength = number_of(conditions[0].get(STRENGTH[condition])) or 0.0
    factor = str(params.get("factor") or params.get("domain", ""))
    return Place(benchmark.name, collection, str(params.get("label", "")), factor, shift,
                 int(number_of(params.get(COUNTED[shift])) or 0), condition, strength,
                 json.dumps([collection, shift, {key: params[key] for key in params if key != "draw"}], sort_keys=True,
                            default=str))


def fine_grained_scores(
    scores: Scores, benchmarks: Sequence[Benchmark], metric: str = "macro_f1"
) -> FineGrainedScores | None:
    """The scores of such an experiment in a table of chosen runs (see `shown_scores`), by one of METRICS.

    None unless some benchmark of the three shifts has scores of the baseline and of FEWEST of the nineteen methods.
    Means over seeds are left out: the figures make their own from single runs. Replicates share a name, and their
    cards differ only in the draw, so one card represents all.
    """
    find(METRICS, "metric", metric)
    places = {position.benchmark: position for position in map(place, reversed(benchmarks)) if position is not None}
    single = scores.where(stat=RUN, split="test", metric=metric, by="", group=ALL)
    single = single.take(np.isin(single["benchmark"], list(places)) & np.isfinite(single["value"]))
    present = set(single.names.tolist())
    baseline = next((name for name in BASELINES if name in present), "")
    if not baseline:
        return None
    methods = (baseline, *(name for name in NINETEEN if name in present and name != baseline))
    operations = tuple(sorted(name for name in present if name.startswith(ONLY)))
    scratch = (SCRATCH,) if _own_net(single) else ()
    names = tuple(name for name in sorted(places, key=lambda name: _order(places[name])) if name in single["benchmark"])
    seeds = tuple(np.unique(single["seed"]).tolist())
    table = _cube(single, names, (*methods, *operations, *scratch), seeds)
    n = len(methods)
    baselines = _baselines(single, names, methods)
    here: Bools = np.asarray(np.isfinite(table[:, :n]).any(axis=2))
    based = here[np.arange(len(names)), [methods.index(name) for name in baselines]]
    nineteen = here[:, [at for at, name in enumerate(methods) if name in NINETEEN]].sum(axis=1)
    if not (based & (nineteen >= FEWEST)).any():
        return None
    return FineGrainedScores(
        metric, tuple(places[name] for name in names), methods, seeds, table[:, :n], operations,
        table[:, n:n + len(operations)], tuple(sorted(present.difference(methods, operations, scratch))),
        baselines, table[:, -1] if scratch else None)


def _baselines(single: Scores, names: Sequence[str], methods: Sequence[str]) -> tuple[str, ...]:
    """For every benchmark the architecture that most methods share there, if it was run; else the first baseline."""
    shared = np.isin(single.names, [name for name in methods if name in NINETEEN and family(name) in SHARED])
    chosen = []
    for name in names:
        here = single["benchmark"] == name
        nets = Counter(single["model"][here & shared].tolist()).most_common(1)
        net = nets[0][0] if nets else ""
        chosen.append(net if net in BASELINES and net in single.names[here] else methods[0])
    return tuple(chosen)


def _own_net(single: Scores) -> bool:
    """Whether SCRATCH is the net of PRETRAINED without its weights, and the baseline is another net."""
    pretrained, scratch, baseline = ({*single["model"][single.names == name].tolist()}
                                     for name in (PRETRAINED, SCRATCH, BASELINES[0]))
    if len(scratch) != 1 or not pretrained or not baseline:
        return False
    (net,) = scratch
    return net not in {"", *baseline} and all(model.startswith(f"{net} on ") for model in pretrained)


def _cube(single: Scores, names: Sequence[str], methods: Sequence[str], seeds: Sequence[int]) -> Floats:
    """Scores as benchmarks × methods × seeds; NaN where there is none."""
    table = np.full((len(names), len(methods), len(seeds)), np.nan)
    row, column, depth = ({key: at for at, key in enumerate(keys)} for keys in (names, methods, seeds))
    for benchmark, method, seed, value in zip(single["benchmark"].tolist(), single.names.tolist(),
                                              single["seed"].tolist(), single["value"].tolist(), strict=True):
        if method in column:
            table[row[benchmark], column[method], depth[seed]] = value
    return table


def _order(position: Place) -> tuple[Any, ...]:
    return (tuple(COUNTED).index(position.shift), position.condition, position.collection, position.label,
            position.factor, position.strength, position.n)


# Means with intervals over seeds

class Estimate(NamedTuple):
    """A mean over benchmarks with its interval over seeds; without a second seed the interval is NaN."""

    value: float
    low: float
    high: float
    seeds: int  # of the benchmark that has fewest
    benchmarks: int
    collections: int

    def above(self, than: float = 0.0) -> bool | None:
        """Whether the mean is above a number; None where the interval contains it or is NaN."""
        return True if self.low > than else False if self.high < than else None


def estimate(values: Floats, collections: Sequence[str], level: float = LEVEL) -> Estimate:
    """The mean of benchmarks × seeds over seeds, then over the benchmarks of a collection, then over collections.

        x̄ = 1/D Σ_d x̄_d,     Var(x̄) = 1/D² Σ_d s_d² / k_d,     s_d²: of the seeds' means over the benchmarks of d

    with degrees of freedom after Welch and Satterthwaite; for one collection this is Student's interval of k seeds. A
    benchmark that lacks seeds others have is centred on its own, and the fewest seeds of any of them are k.
    """
    kept = np.isfinite(values).any(axis=1)
    owner = np.asarray(collections, np.str_)[kept]
    summaries = [_collection(values[kept][owner == name]) for name in dict.fromkeys(owner.tolist())]
    if not summaries:
        return Estimate(math.nan, math.nan, math.nan, 0, 0, 0)
    middle = float(np.mean([summary[0] for summary in summaries]))
    variance = np.asarray([summary[1] for summary in summaries])
    k = np.asarray([summary[2] for summary in summaries])
    half = math.nan
    if k.min() > 1:
        total = float(variance.sum())
        freedom = total**2 / float((variance**2 / (k - 1)).sum()) if total > 0 else float(k.min() - 1)
        half = float(student(freedom, level)) * math.sqrt(total) / len(summaries)
    return Estimate(middle, middle - half, middle + half, int(k.min()), int(kept.sum()), len(summaries))


def _collection(values: Floats) -> tuple[float, float, int]:
    """Mean, variance of the mean and number of seeds of one collection's benchmarks × seeds."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    means = np.where(known, values, 0).sum(axis=1) / count
    apart = np.where(known, values - means[:, None], 0).sum(axis=0)
    seeds = known.any(axis=0)
    apart = apart[seeds] / known.sum(axis=0)[seeds]
    k = int(count.min())
    variance = float((apart**2).sum()) / (int(seeds.sum()) - 1) / k if k > 1 else math.nan
    return float(means.mean()), variance, k


def leads(values: Floats, against: Floats) -> Floats:
    """For every seed, how far the method that is best on the other seeds is ahead of `against`.

    The best of many is also the luckiest, so the seed that a lead is measured on has no part in the choice. `values` is
    methods × seeds; NaN where a seed has nothing to choose by. The choices of two seeds share the others, so Student's
    interval over them is a little short: of 3 to 19 equal methods on 2 to 5 seeds it was above 0 in 3 to 7 % of
    simulated tables, where 2.5 % are meant and taking the best by its own mean gives 5 to 15 %.
    """
    ahead = values - against
    known = np.isfinite(ahead)
    filled = np.where(known, ahead, 0)
    others = known.sum(axis=1, keepdims=True) - known
    rest = (filled.sum(axis=1, keepdims=True) - filled) / np.maximum(others, 1)
    usable = known & (others > 0)
    chosen = np.where(usable, rest, -np.inf).argmax(axis=0)
    seeds = np.arange(values.shape[1])
    return np.where(usable.any(axis=0), ahead[chosen, seeds], np.nan)


# Changes over the baseline

class Change(NamedTuple):
    """Percentage change of a method over the baseline, against N, p or n."""

    method: str
    family: str
    points: Mapping[float, Estimate]
    best: bool  # the highest of its family on average over what is varied


def changes(scores: FineGrainedScores, axis: str, level: float = LEVEL) -> list[Change]:
    """100 (m − b) / b of the metric on test, the mean over seeds and collections (Figures 3, 4, 6 and 7)."""
    rows = rows_by(scores, axis)
    lines = []
    for method in scores.methods[1:]:
        change = scores.change(method)
        points = {x: estimate(change[numbers], scores.collections(numbers), level)
                  for x, numbers in sorted(rows.items())}
        points = {x: point for x, point in points.items() if point.benchmarks}
        if points:
            lines.append(Change(method, family_of(method), points, False))
    best = {family: max((line for line in lines if line.family == family), default=None,
                        key=lambda line: (len(line.points), np.mean([point.value for point in line.points.values()])))
            for family in FAMILIES}
    return [line._replace(best=line is best[line.family]) for line in lines]


def rows_by(scores: FineGrainedScores, axis: str) -> dict[float, list[int]]:
    """The benchmarks at each N, p or n. Under noise, p = 0 is the same shift without the condition."""
    rows: dict[float, list[int]] = {}
    if axis not in ("noise", "size"):
        for row in scores.where(shift=axis, condition=""):
            rows.setdefault(float(scores.places[row].n), []).append(row)
        return rows
    for row in scores.where(condition=axis):
        rows.setdefault(scores.places[row].strength, []).append(row)
    if axis == "noise":
        noisy = {scores.places[row].base for row in scores.where(condition="noise")}
        plain = [row for row in scores.where(condition="") if scores.places[row].base in noisy]
        rows |= {0.0: plain} if plain else {}
    return rows


# Do two benchmarks put the methods in the same order?

def agreement(
    scores: FineGrainedScores, pairs: Sequence[tuple[int, int]], level: float = LEVEL
) -> tuple[Estimate, Estimate]:
    """Spearman's ρ of the methods' scores between the two benchmarks of each pair, and how far seeds are above it.

        across_s = ρ(A_s, B_s),     lost_s = mean over s' ≠ s of ½ (ρ(A_s, A_s') + ρ(B_s, B_s'))  −  across_s

    Single runs are noisy, so ρ is below 1 even between seeds of one benchmark; only what is lost beyond that is due to
    the benchmarks. Both are per seed; the interval of ρ is cut at −1 and 1. Pairs of seeds overlap, so the interval of
    `lost` is a guide, not exact.
    """
    across, lost = (np.full((len(pairs), len(scores.seeds)), np.nan) for _ in range(2))
    for at, (first, second) in enumerate(pairs):
        a, b = scores.values[first].T, scores.values[second].T
        for seed in range(len(scores.seeds)):
            across[at, seed] = correlation(a[seed], b[seed])
            within = [correlation(side[seed], side[again]) for side in (a, b)
                      for again in range(len(scores.seeds)) if again != seed]
            known = [value for value in within if math.isfinite(value)]
            lost[at, seed] = np.mean(known) - across[at, seed] if known else math.nan
    collections = scores.collections([first for first, _ in pairs])
    rho = estimate(across, collections, level)
    return rho._replace(low=max(-1.0, rho.low), high=min(1.0, rho.high)) if rho.seeds > 1 else rho, estimate(
        lost, collections, level)


def correlation(first: Floats, second: Floats) -> float:
    """Spearman's ρ over the methods that both have; NaN with fewer than FEWEST, or where both sides are constant.

    Where only one side is constant, ρ is 0.

    >>> correlation(np.asarray([1.0, 2, 3, 4]), np.asarray([10.0, 30, 20, 40])).__round__(2)
    0.8
    """
    both = np.isfinite(first) & np.isfinite(second)
    if both.sum() < FEWEST:
        return math.nan
    a, b = (ranks - ranks.mean() for ranks in midranks(np.stack([first[both], second[both]])))
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0 else 0.0 if a.any() or b.any() else math.nan
