"""What a shift costs a method: its score in distribution minus its score out of distribution, with an interval.

    gap = score(trained in distribution) − score(trained before the shift)        (Koh et al., 2021, §5)

Where both sides test the same items (test-to-test, mixed-to-test) the two are compared item by item; where one run has
both (train-to-train, average) run by run; where they share neither (random-split) the two variances add up.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, MEAN, Measure, Scores
from shiftbench.scoring.differences import compare
from shiftbench.scoring.intervals import LEVEL, Estimate, Measured, seeds, student, take_apart
from shiftbench.scoring.judge import Row, means
from shiftbench.scoring.listing import Finished, RunSource
from shiftbench.scoring.metrics import WORST, is_worst
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.runs import benchmark_of_run, labels
from shiftbench.scoring.scorer import outputs_of, scorer
from shiftbench.shifts.in_distribution import REFERENCES, legal, reference_facts

GAPS = "_gap"
"""The suffix of a gap's metric; its split is the reference."""
IN, OUT = " (in)", " (out)"
"""The suffixes of the splits whose difference is the gap."""
SAME_RUN = ("train-to-train", "average")
PAIRED = ("test-to-test", "mixed-to-test")

Ends = tuple[float, float]


class Side(NamedTuple):
    """A benchmark and a method's runs on it, one per seed."""

    benchmark: Benchmark
    runs: Sequence[Predictions | Answers]


class Tested(NamedTuple):
    """Rows of a benchmark, and a method's runs that predict them."""

    benchmark: Benchmark
    rows: Ints
    runs: Sequence[Predictions | Answers]


def gap(
    outside: Side, inside: Side | None = None, *, reference: str = "", method: str = "", level: float = LEVEL
) -> Scores:
    """Three rows per metric: `accuracy` in and out of distribution, and `accuracy_gap`. The metrics are those of the
    target for which higher is better, over all items and in the worst group, and a grouping's headline.

    `outside` are runs on the benchmark, `inside` runs on its reference (`shifts.in_distribution`); with
    train-to-train and average, all runs are `outside`. Intervals cover other items and other seeds. A worst group's
    interval is for the true worst group, without the bias of a minimum, as in `judge`; n counts its items.
    """
    reference = reference or str(reference_facts((inside or outside).benchmark.card).get("name", ""))
    before, after = _tested(outside, inside, reference)
    rows = (_average(after, level) if reference == "average" else _paired(before, after, level)
            if reference in PAIRED else _apart(before, after, level))
    if outside.benchmark.target.has_classes and outside.benchmark.headline.by:  # over a grouping
        ends = headline_ends(before, after, reference == "average", level)
        rows += [{**row, "split": side, "metric": row["metric"] + ("" if side else GAPS)}
                 for side, row in zip((IN, OUT, ""), ends, strict=False)]
    head = {"run": "", "stat": MEAN, "runs": min(len(before.runs), len(after.runs)),
            "benchmark": outside.benchmark.name, "digest": outside.benchmark.short_digest, "method": method, "seed": -1}
    return Scores.of({**head, **row, "split": reference + row["split"]} for row in rows)


def _tested(outside: Side, inside: Side | None, reference: str) -> tuple[Tested, Tested]:
    """The rows and runs that are tested in and out of distribution."""
    benchmark = outside.benchmark
    after = Tested(benchmark, benchmark.rows("test"), outside.runs)
    if reference == "average":
        return after, after
    if reference in SAME_RUN:
        if "test" not in benchmark.splits:
            raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no test, so there is no gap to measure.")
        if "id_test" not in benchmark.splits:
            raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no id_test, so the train-to-train gap cannot be "
                                  "measured. Draw one with shiftbench build BENCHMARK --reference train-to-train, and "
                                  "train on it.")
        return after._replace(rows=benchmark.rows("id_test")), after
    if inside is None:
        raise ShiftBenchError(f"A gap to reference '{reference}' needs runs on that reference, beside those on the "
                              "benchmark. Make it with shiftbench build BENCHMARK --reference, and train on it.")
    facts = reference_facts(inside.benchmark.card)
    if facts.get("shifted", {}).get("digest") != benchmark.digest:
        raise ShiftBenchError(f"Benchmark '{inside.benchmark.name}' is no reference of '{benchmark.name}' "
                              f"({benchmark.digest[:8]}). Make it again: shiftbench build --reference.")
    if inside.benchmark.names["label"] != benchmark.names["label"]:
        raise ShiftBenchError(f"Benchmarks '{inside.benchmark.name}' and '{benchmark.name}' have different "
                              "classes and cannot be compared.")
    before = Tested(inside.benchmark, inside.benchmark.rows("test"), inside.runs)
    if reference not in PAIRED:
        return before, after
    shared = after.rows[positions(benchmark.items[after.rows], before.benchmark.items[before.rows]) >= 0]
    if not len(shared):
        raise ShiftBenchError(f"'{inside.benchmark.name}' and '{benchmark.name}' have no item of test in "
                              "common. Make the reference again.")
    return Tested(benchmark, shared, inside.runs), after._replace(rows=shared)


def _paired(inside: Tested, outside: Tested, level: float) -> list[Row]:
    """Compare the items that both sides test, one by one; run r belongs to side `owner[r]`."""
    owner = [0] * len(inside.runs) + [1] * len(outside.runs)
    rows: list[Row] = []
    for score in _measured(outside._replace(runs=[*inside.runs, *outside.runs]), owner, level).values():
        ends = (np.nan, np.nan)
        if score.items is not None and score.items.size:
            worst: dict[str, Any] = {} if score.worst is None else {
                "centre": score.estimate.centre[:, 0], "size": score.worst.fewest, "unsure": score.worst.unsure}
            comparison = compare(score.items, owner, level=level, **worst)
            ends = float(comparison.low[0]), float(comparison.high[0])
        rows += _rows(score, score, _ends(score.estimate, owner, level), ends, sides=(0, 1))
    return rows


def _apart(inside: Tested, outside: Tested, level: float) -> list[Row]:
    """The gap between different items: their variances add up, and so do those of seeds unless the runs are the same,
    whose gaps have a variance of their own."""
    owners = [[0] * len(side.runs) for side in (inside, outside)]
    before, after = (_measured(side, owner, level) for side, owner in zip((inside, outside), owners, strict=True))
    rows: list[Row] = []
    for first, second in ((before[metric], after[metric]) for metric in before if metric in after):
        a, b = first.estimate, second.estimate
        sides = np.concatenate([_ends(side, owner, level) for side, owner in zip((a, b), owners, strict=True)])
        if inside.runs is outside.runs:
            low, high = _ends(a - b, owners[0], level)[0, 1:].tolist()
        else:
            more = np.hypot(*[seeds(side.runs, side.noise, owner).half_width(level)[0, 0]
                              for side, owner in zip((a, b), owners, strict=True)])
            below, above = np.hypot(a.below, b.above)[0, 0], np.hypot(a.above, b.below)[0, 0]
            centre = float(a.centre[0, 0] - b.centre[0, 0])
            low, high = centre - float(np.hypot(below, more)), centre + float(np.hypot(above, more))
        rows += _rows(first, second, sides, (low, high))
    return rows


def _average(side: Tested, level: float) -> list[Row]:
    """The gap between average and worst group of the same runs on the same items: one table of contributions."""
    runs = list(side.runs) * (2 if len(side.runs) == 1 else 1)  # contributions to a worst group need several runs
    owner, z = [0] * len(runs), float(student(np.inf, level))
    measured = _measured(side._replace(runs=runs), owner, level)
    rows: list[Row] = []
    for metric, average in measured.items():
        worst = measured.get(WORST + metric)
        if worst is None:
            continue
        ends = (np.nan, np.nan)
        if average.items is not None and worst.items is not None and average.items.shape == worst.items.shape:
            difference, low = take_apart(average.items - worst.items, owner), worst.estimate
            # The variance of the worst group's interval beyond its items, which comes from the bias of the minimum.
            unsure = np.maximum(((low.below + low.above) / 2 / z) ** 2 - take_apart(worst.items, owner).items, 0)
            more = seeds(difference.runs, difference.noise, owner).half_width(level)
            half = float(np.hypot(z * np.sqrt(difference.items + unsure), more)[0, 0])
            centre = float(average.estimate.centre[0, 0] - low.centre[0, 0])
            ends = (centre - half, centre + half)
        sides = np.concatenate([_ends(score.estimate, owner, level) for score in (average, worst)])
        rows += _rows(average, worst, sides, ends)
    return rows


def _measured(side: Tested, owner: Sequence[int], level: float) -> dict[str, Measured]:
    """Measure each method on these rows: one value per metric, over all items and for the method's worst group."""
    if not side.runs:
        raise ShiftBenchError(f"There are no runs on '{side.benchmark.name}' to compare.")
    tested = _test_of(side)
    chosen = [positions(tested.items, run.item) for run in side.runs]
    missing = max(int((position < 0).sum()) for position in chosen)
    if missing:
        raise ShiftBenchError(f"{missing} of {len(side.rows)} items of '{side.benchmark.name}' have no prediction. "
                              "Predict them all.")
    outputs = [outputs_of(tested, run, position) for run, position in zip(side.runs, chosen, strict=True)]
    return {score.metric: score for score in scorer(tested, "test")(outputs, owner, level)
            if score.items is not None and score.is_whole and not score.by}


def _test_of(side: Tested) -> Benchmark:
    """A benchmark whose test is these rows, and which has nothing else."""
    benchmark, rows = side.benchmark, side.rows
    return Benchmark(benchmark.items[rows], np.full(len(rows), "test"), benchmark.label[rows], benchmark.domain[rows],
                     benchmark.group[rows], benchmark.names, benchmark.card,
                     {name: values[rows] for name, values in benchmark.extra.items()})


def _ends(estimate: Estimate, owner: Sequence[int], level: float) -> Floats:
    """Methods × (value, low, high)."""
    low, high = estimate.ends(owner, level)
    return np.stack([estimate.value[:, 0], low[:, 0], high[:, 0]], axis=1)


def _rows(
    inside: Measured, outside: Measured, ends: Floats, gap_ends: Ends, sides: tuple[int, int] = (0, 0)
) -> list[Row]:
    """Rows of the score in distribution, out of distribution, and of the gap.

    A gap that lies outside its corrected interval stretches the interval to itself. The group of a worst-group score is
    the worst on average, and n counts its items; the gap has the group out of distribution.
    """
    groups = [(ALL, int(score.n[0])) if score.worst is None else
              (str(score.groups[score.worst.code[side]]), int(score.worst.n[side]))
              for score, side in zip((inside, outside), sides, strict=True)]
    difference, widest = float(ends[0, 0] - ends[1, 0]), outside.estimate.most - outside.estimate.least
    low, high = max(-widest, np.fmin(gap_ends[0], difference)), min(widest, np.fmax(gap_ends[1], difference))
    if np.isnan(gap_ends).any():
        low, high = np.nan, np.nan
    cells = [(IN, inside.metric, groups[0], *ends[0]), (OUT, outside.metric, groups[1], *ends[1]),
             ("", outside.metric + GAPS, groups[1], difference, low, high)]
    return [{"split": split, "group": group, "n": n, "metric": metric, "value": float(value), "low": float(least),
             "high": float(most)} for split, metric, (group, n), value, least, most in cells]


# The gap of a headline that is over a grouping: the worst region of FMoW, the user of Amazon at the tenth percentile.
#
#     average      accuracy of test − headline of test            (so CivilComments and Amazon in the paper)
#     any other    headline in distribution − headline out of distribution
#
# The two sides are treated as if they shared no items. The interval is then somewhat too wide, because shared items
# make the difference more certain.

def headline_ends(inside: Tested, outside: Tested, average: bool, level: float) -> list[Row]:
    """The headline in distribution, out of distribution, and their difference; empty if a side has no such group."""
    measure = outside.benchmark.headline
    before, after = _value(inside, Measure("accuracy") if average else measure, level), _value(outside, measure, level)
    if before is None or after is None:
        return []
    difference = before["value"] - after["value"]
    low = difference - np.hypot(before["value"] - before["low"], after["high"] - after["value"])
    high = difference + np.hypot(before["high"] - before["value"], after["value"] - after["low"])
    low, high = (float(np.clip(end, -1, 1)) for end in (low, high))
    return [before, after, {**after, "value": difference, "low": low, "high": high}]


def _value(side: Tested, measure: Measure, level: float) -> Row | None:
    """The mean over runs with its interval, about other items and other seeds."""
    tested = _test_of(side)
    runs = [Predictions(tested.items, tested.split, run.scores[positions(tested.items, run.item)], run.classes)
            for run in side.runs if isinstance(run, Predictions)]
    scores = means(tested, {"": runs}, level=level).where(split="test", **measure._asdict())
    kept = [row for row in scores if is_worst(measure.metric) or row["group"] == ALL]
    return {key: kept[0][key] for key in ("by", "group", "n", "metric", "value", "low", "high")} if kept else None


# Gaps of runs folders: compare every reference that has runs with the benchmark that it was made of.

def gaps_of(
    source: RunSource, *, reference: str = "", level: float = LEVEL, benchmarks: Sequence[Benchmark] = ()
) -> Scores:
    """All gaps that finished runs allow, or only those to one reference.

    Runs on a reference are compared with runs on its benchmark that have the same method and the same settings except
    for the seed. Runs on a benchmark give train-to-train if it has an id_test, and average if its groups are
    subpopulations. `benchmarks` are at hand already; others are read from the paths that the runs name.
    """
    if reference not in ("", *REFERENCES):
        raise unknown("reference", reference, REFERENCES)
    index = RunIndex(source)
    by_digest = {benchmark.digest: benchmark for benchmark in benchmarks}
    by_setting: dict[str, dict[str, list[Finished]]] = {}  # digest of a benchmark -> setting -> runs
    for run in index.runs:
        digest = str(run.benchmark["digest"])
        if digest not in by_digest:
            by_digest[digest] = benchmark_of_run(run, (), index)
        by_setting.setdefault(digest, {}).setdefault(run.setting, []).append(run)
    run_labels = dict(zip(index.by_name, labels([run.settings for run in index.runs]), strict=True))
    parts: list[tuple[tuple[str, int, str], Scores]] = []
    for digest, settings in by_setting.items():
        benchmark = by_digest[digest]
        for name, shifted in _comparisons(benchmark, by_digest, reference):
            others = by_setting[shifted]
            for setting in [setting for setting in settings if setting in others]:
                runs = settings[setting]
                inside = None if name in SAME_RUN else Side(
                    benchmark, [index.predictions(run, benchmark) for run in runs])
                outside = Side(by_digest[shifted],
                               [index.predictions(run, by_digest[shifted]) for run in others[setting]])
                head, label = runs[0].head, run_labels[runs[0].name]
                scores = gap(outside, inside, reference=name, method=head["method"], level=level).assign(
                    label="" if label == head["method"] else label, model=head["model"], setting=head["setting"])
                parts.append(((outside.benchmark.name, REFERENCES.index(name), label), scores))
    if not parts:
        raise ShiftBenchError(
            f"{index.where}: {len(index.runs)} finished runs allow no gap"
            f"{f' to reference {reference}' if reference else ''}. A gap needs runs on a benchmark and, with the same "
            "method and settings, runs on its reference (shiftbench build BENCHMARK --reference); or runs on a "
            "benchmark with an id_test and a test.")
    return Scores.join([scores for _, scores in sorted(parts, key=lambda part: part[0])])


def _comparisons(benchmark: Benchmark, by_digest: dict[str, Benchmark], only: str) -> list[tuple[str, str]]:
    """For every gap that runs on a benchmark allow: the reference's name, and the digest of the shifted benchmark."""
    facts = reference_facts(benchmark.card)
    if facts and facts["name"] not in SAME_RUN:
        shifted = str(facts["shifted"]["digest"])
        comparisons = [(str(facts["name"]), shifted)] if shifted in by_digest else []
    else:
        comparisons = [("train-to-train", benchmark.digest)] if {"id_test", "test"} <= set(benchmark.splits) else []
        if not legal(benchmark, unseen=facts.get("name") == "average" or only == "average")["average"]:
            comparisons.append(("average", benchmark.digest))
    return [(name, shifted) for name, shifted in comparisons if only in ("", name)]
