"""Model selection: choose among runs with different settings, as a pure function of the scores.

A rule gives every run one number, its criterion, and takes for each benchmark, method and seed the run where it is best
(per seed, as DomainBed and Wiles et al., 2022). The criteria differ in what they look at; a choice says whether that
was a label from after the shift. A rule that has nothing to look at chooses nothing and says why.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints, encode, in_short
from shiftbench.core.backend import notebook
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import find
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Measure, Scores
from shiftbench.scoring import means
from shiftbench.scoring.intervals import LEVEL, REPLICATES, seeds_half_width
from shiftbench.scoring.listing import RunSource
from shiftbench.scoring.metrics import METRICS, in_words, is_worst, metric_of
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.rules import ACCURACY, DEFAULT, LABELS, RULES, TARGET, TARGETS, UNKNOWN, Rule, Runs, labels_of
from shiftbench.scoring.runs import read_chosen, under_methods
from shiftbench.shifts.leave_one_domain_out import MARK


class Choice(NamedTuple):
    """The run that a rule chooses for one benchmark, method and seed, and how it does on test."""

    benchmark: str
    method: str
    seed: int
    rule: str
    run: str
    setting: str
    among: int  # the number of runs to choose from
    by: str  # the criterion in words
    criterion: float
    labels: str  # see LABELS
    target: str  # the measure of all fields below, as `Measure` writes it
    test: float
    low: float
    high: float
    oracle: float  # the value of the best run
    blind: float  # the mean of all runs: what a blind choice gives
    group: str = ""  # the worst group, where that is the target
    n: int = 0  # the number of test items

    @property
    def regret(self) -> float:
        """How far the chosen run is behind the best run, whether higher or lower is better."""
        return abs(self.oracle - self.test)


class Refused(NamedTuple):
    """Why a rule chose nothing on a benchmark, for one method or, where none is named, for all."""

    benchmark: str
    method: str
    rule: str
    why: str


class Selection(NamedTuple):
    """The choices of the rules, and the cases in which a rule could not choose."""

    choices: tuple[Choice, ...]
    refused: tuple[Refused, ...]
    metrics: tuple[str, ...] = ()  # those that the runs have

    def __repr__(self) -> str:
        rules, methods, benchmarks = (dict.fromkeys(getattr(choice, name) for choice in self.choices)
                                      for name in ("rule", "method", "benchmark"))
        return (f"Selection({len(self.choices):,} choices; rules: {in_short(rules, 10) or 'none'}; methods: "
                f"{in_short(methods)}; benchmarks: {in_short(benchmarks)}; {len(self.refused):,} refused)")

    def _repr_html_(self) -> str:
        return str(notebook().html(self))


ALLOW = "say allow_target=True (--allow-target)"
"""The remedy where a caller can allow the choice."""
WORST_LOSS = Measure("worst_group_nll")


def setting_of(rule: str) -> str:
    """The `setting` of a mean over the runs that a rule chose, whose own settings may differ."""
    return f"chosen by {rule}"


def select(
    scores: Scores, rules: Iterable[str] = tuple(RULES), *, targets: Sequence[str] = TARGETS,
    benchmarks: Iterable[Benchmark] = (),
) -> Selection:
    """Apply rules to every benchmark, method and seed of a table.

    Every target judges each choice, and the oracle chooses by the target. `benchmarks` say whether `val` shares domains
    with `test`, and which metric `wilds` chooses by.
    """
    return _apply(Runs(scores), tuple(rules), targets, benchmarks)


def chosen(
    scores: Scores, rule: str = DEFAULT, *, target: str = TARGETS[0], benchmarks: Iterable[Benchmark] = (),
    allow_target: bool = False, remedy: str = ALLOW,
) -> Scores:
    """Only the rows of the chosen runs: one run per benchmark, method and seed.

    Means over runs are left out, because they were taken before the choice. A choice that used target labels is an
    error, unless `allow_target`.
    """
    runs = Runs(scores)
    choices = _apply(runs, (rule,), (target,), benchmarks).choices
    refuse_target(choices, allow_target=allow_target, remedy=remedy)
    kept = {(choice.benchmark, choice.method, choice.seed, choice.run) for choice in choices}
    who = zip(runs.benchmark.tolist(), runs.method.tolist(), runs.seed.tolist(), runs.name.tolist(), strict=True)
    keep = np.asarray([(runs.benchmarks[benchmark], runs.methods[method], seed, run) in kept
                       for benchmark, method, seed, run in who], np.bool_)
    return runs.scores.take(keep[runs.of_row])


def refuse_target(choices: Iterable[Choice], *, allow_target: bool = False, remedy: str = ALLOW) -> None:
    """Raise an error if a choice used labels of the target, or if that is not known, unless this is allowed.

    `remedy` tells the user how to allow the choice.
    """
    for choice in choices:
        how = f"Rule '{choice.rule}' chose runs of '{choice.benchmark}' by {choice.by}"
        if choice.labels == TARGET and not allow_target:
            raise ShiftBenchError(f"{how}: labels of the target, which nobody has before deployment. Choose another "
                                  f"rule, or {remedy}.")
        if choice.labels == UNKNOWN and not allow_target:
            raise ShiftBenchError(f"{how}, drawn after the shift, and without the benchmark it is not known whether "
                                  f"these are domains of the test. Give the benchmark (--benchmark), or {remedy}.")


def _apply(
    runs: Runs, rules: Sequence[str], targets: Sequence[str], benchmarks: Iterable[Benchmark]
) -> Selection:
    by_name = {benchmark.name: benchmark for benchmark in benchmarks}
    choices: list[Choice] = []
    refused: list[Refused] = []
    by, metric = (encode(runs.scores[name]) for name in ("by", "metric"))
    pairs = np.unique(np.stack([by[0], metric[0]]), axis=1).T.tolist()
    scored = [Measure(metric[1][name], by[1][grouping]) for grouping, name in pairs if metric[1][name] in METRICS]
    # A further grouping has the accuracy of its single groups, but none over all items.
    allowed = {*map(Measure, TARGETS),
               *(measure for measure in scored if measure.metric != "accuracy" or not measure.by)}
    for target in map(Measure.parse, targets):
        if target not in allowed:
            raise unknown("target", target, allowed)
        for name in rules:
            rule = find(RULES, "rule", name)
            for code in runs.originals:
                benchmark, candidates = runs.benchmarks[code], runs.of(code)
                criterion = (_left_out(runs, code, candidates) if MARK in rule.splits
                             else _measure(runs, rule, candidates, target, by_name.get(benchmark)))
                if not criterion.split:
                    refused.append(Refused(benchmark, "", name, criterion.by))
                    continue
                picked = runs.best(candidates, criterion.value if criterion.lower else -criterion.value)
                labels = labels_of(criterion.split, by_name.get(benchmark))
                choices += _choices(runs, candidates, picked, name, criterion, target, labels)
                refused += [Refused(benchmark, runs.methods[method], name, f"none of its runs has {criterion.by}")
                            for method in np.setdiff1d(runs.method[candidates], runs.method[picked])]
    metrics = {measure.metric for measure in scored}
    return Selection(tuple(choices), tuple(dict.fromkeys(refused)), tuple(sorted(metrics)))


class _Criterion(NamedTuple):
    """A criterion's value for every run, its split and its words. If the split is empty, the words say why."""

    value: Floats
    split: str
    by: str
    lower: bool = False  # lower is better


def _measure(runs: Runs, rule: Rule, candidates: Ints, target: Measure, benchmark: Benchmark | None) -> _Criterion:
    """The criterion of a rule on one benchmark's runs, from the first split that has it."""
    if rule.headline and benchmark is None:
        return _Criterion(np.full(len(runs), np.nan), "",
                          "the benchmark's card says its headline; give it (--benchmark)")
    measure = Measure(rule.metric) if rule.metric else target
    if rule.headline and benchmark is not None:
        measure = benchmark.headline
    lower, words = metric_of(measure.metric).lower, in_words(*measure)
    for split in rule.splits:
        if measure == WORST_LOSS and not np.isnan(runs.hard(split).value[candidates]).all():
            return _Criterion(runs.hard(split).value, split,
                              f"larger log-loss of hard positives and hard negatives on {split}", lower)
        number = runs.number(split, measure)
        if np.isnan(number.value[candidates]).all():
            continue
        what = "class" if measure.metric == "worst_class_accuracy" else "group"
        if is_worst(rule.metric) and (number.n[candidates] == runs.number(split, ACCURACY).n[candidates]).all():
            return _Criterion(number.value, "", f"{split} has one {what}, so there is no worst")
        return _Criterion(number.value, split, f"{words} on {split}", lower)
    return _Criterion(np.full(len(runs), np.nan), "", f"its runs have no {words} on {' or '.join(rule.splits)}")


def _left_out(runs: Runs, benchmark: int, candidates: Ints) -> _Criterion:
    """The mean test accuracy of runs with the same setting and seed over the parts that leave a domain out."""
    value, parts = np.full(len(runs), np.nan), runs.parts(benchmark)
    if not parts:
        return _Criterion(value, "", "it has no runs that were trained without one of its domains")
    if (runs.setting[candidates] == "").any():
        return _Criterion(value, "", "its scores lack the settings, by which runs without a domain are matched")
    accuracy, total = runs.number("test", ACCURACY).value, np.zeros(len(candidates))
    for part in parts:
        on_part, by_setting = runs.of(part), np.full(len(runs), np.nan)
        by_setting[runs.alike[on_part]] = accuracy[on_part]
        total += by_setting[runs.alike[candidates]]  # a setting that lacks a part cannot be compared with the others
    value[candidates] = total / len(parts)
    if np.isnan(total).all():
        return _Criterion(value, "", f"no setting has runs on all {len(parts)} parts that leave a domain out")
    return _Criterion(value, MARK, f"accuracy on left-out training domains, mean of {len(parts)}")


def _choices(
    runs: Runs, candidates: Ints, picked: Ints, rule: str, criterion: _Criterion, target: Measure, labels: str
) -> list[Choice]:
    """A `Choice` for every picked run, which compares it with the other runs of its method and seed."""
    test = runs.number("test", target)
    which = runs.which("test", target) if is_worst(target.metric) else np.zeros(len(runs), np.str_)
    cell, tested = runs.cell, candidates[~np.isnan(test.value[candidates])]
    among = np.bincount(cell[candidates])
    best, n = np.full(len(among), np.nan), np.bincount(cell[tested], minlength=len(among))
    (np.fmin if metric_of(target.metric).lower else np.fmax).at(best, cell[tested], test.value[tested])
    total = np.bincount(cell[tested], test.value[tested], minlength=len(among))
    return [
        Choice(runs.benchmarks[runs.benchmark[run]], runs.methods[runs.method[run]], int(runs.seed[run]), rule,
               str(runs.name[run]), str(runs.setting[run]), int(among[cell[run]]), criterion.by,
               float(criterion.value[run]), labels, str(target), float(test.value[run]), float(test.low[run]),
               float(test.high[run]), float(best[cell[run]]),
               float(total[cell[run]] / n[cell[run]]) if n[cell[run]] else np.nan, str(which[run]),
               int(np.nan_to_num(test.n[run])))
        for run in picked.tolist()]


# How good a rule is: its choices averaged over seeds, then over benchmarks.

class Mean(NamedTuple):
    """Choices of a rule for one method, averaged over seeds and, without a `benchmark`, over benchmarks."""

    benchmark: str
    benchmarks: int
    method: str
    rule: str
    target: str
    seeds: int
    among: int
    labels: str
    by: str
    groups: tuple[str, ...]  # each seed's worst group, if that is the target (one benchmark only)
    n: int  # the number of test items; with several groups, the size of the smallest
    test: float
    low: float
    high: float
    oracle: float
    blind: float
    regret: float
    regret_low: float
    regret_high: float

    @property
    def whose(self) -> str:
        """The worst group and its number of items, or the number of groups that were worst."""
        if len(self.groups) > 1:
            return f"{len(self.groups)} groups, n\u00a0≥\u00a0{self.n:,}"
        return f"{self.groups[0]}, n\u00a0=\u00a0{self.n:,}" if self.groups else ""


def over_seeds(choices: Iterable[Choice], level: float = LEVEL) -> list[Mean]:
    """Average the test value and the regret over seeds, with intervals at the level of the scores' intervals.

    The half-width of a test value is √(w² + s²): w is the runs' mean half-width, since seeds share their test items,
    and s is Student's half-width over the seeds (`seeds_half_width`). The interval is centred on the mean of the runs'
    centres, which for a worst group may differ from the value. A regret compares runs on the same items, so its
    interval is over seeds only.
    """
    cells: dict[tuple[str, ...], list[Choice]] = {}
    for choice in choices:
        cells.setdefault((choice.benchmark, choice.method, choice.rule, choice.target), []).append(choice)
    means = []
    for (benchmark, method, rule, target), seeds in cells.items():
        test, oracle = (np.asarray([getattr(choice, name) for choice in seeds]) for name in ("test", "oracle"))
        value, regret = float(test.mean()), float(np.abs(oracle - test).mean())
        low, high = (float(np.mean([getattr(choice, end) for choice in seeds])) for end in ("low", "high"))
        half = math.hypot((high - low) / 2, seeds_half_width(test, level))
        ends = (0.0, 1.0) if metric_of(Measure.parse(target).metric).unit == "share" else (-math.inf, math.inf)
        low, high = (float(np.clip((low + high) / 2 + side * half, *ends)) for side in (-1, 1))
        reach = seeds_half_width(oracle - test, level) if len(seeds) > 1 else math.nan
        means.append(Mean(
            benchmark, 1, method, rule, target, len(seeds), max(choice.among for choice in seeds), seeds[0].labels,
            seeds[0].by, tuple(dict.fromkeys(choice.group for choice in seeds if choice.group)),
            min(choice.n for choice in seeds), value, low, high, float(oracle.mean()),
            float(np.mean([choice.blind for choice in seeds])),
            regret, float(np.maximum(0.0, regret - reach)), regret + reach))
    return means


def over_benchmarks(means: Iterable[Mean]) -> list[Mean]:
    """The plain mean over the benchmarks where a rule applies. Its interval is cautious: it averages the ends, as if
    all benchmarks erred in one direction."""
    cells: dict[tuple[str, ...], list[Mean]] = {}
    for mean in means:
        cells.setdefault((mean.method, mean.rule, mean.target), []).append(mean)
    numbers = ("test", "low", "high", "oracle", "blind", "regret", "regret_low", "regret_high")
    return [Mean(
        "", len(cell), method, rule, target, max(mean.seeds for mean in cell), max(mean.among for mean in cell),
        max((mean.labels for mean in cell), key=LABELS.index), "; ".join(dict.fromkeys(mean.by for mean in cell)), (),
        0, *(float(np.mean([getattr(mean, name) for mean in cell])) for name in numbers))
        for (method, rule, target), cell in cells.items()]


# Means over chosen runs, scored from their predictions, which a table of single runs does not hold.

def chosen_means(
    source: RunSource | RunIndex, scores: Scores, benchmarks: Iterable[Benchmark], rule: str = DEFAULT, *,
    replicates: int = REPLICATES, level: float = LEVEL, remedy: str = ALLOW,
) -> Scores:
    """Each method's mean over the runs that a rule chooses, with methods paired by item.

    Only benchmarks on which a method has several settings are scored. Join the result to the scores: a report uses
    these means and their paired differences; without them it combines the intervals of single runs.
    """
    draws: dict[str, dict[str, Benchmark]] = {}
    for benchmark in benchmarks:
        draws.setdefault(benchmark.name, {})[benchmark.digest] = benchmark
    by_name = {name: next(iter(alike.values())) for name, alike in draws.items()}
    wanted = Runs(scores).several & by_name.keys()
    choices = select(scores, [rule], targets=TARGETS[:1], benchmarks=by_name.values()).choices
    refuse_target((choice for choice in choices if choice.benchmark in wanted), remedy=remedy)
    parts, index = [], RunIndex.of(source)
    for name in sorted(wanted):
        runs: dict[str, list[str]] = {}
        for choice in choices:
            if choice.benchmark == name:
                runs.setdefault(choice.method, []).append(choice.run)
        if runs:
            read = {method: read_chosen(index, names, list(draws[name].values())) for method, names in runs.items()}
            heads = {method: {**index.run(names[0]).head, "model": "", "setting": setting_of(rule)}
                     for method, names in runs.items()}
            parts.append(under_methods(means(by_name[name], read, replicates=replicates, level=level), heads))
    return Scores.join(parts)
