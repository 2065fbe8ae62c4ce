"""The board: every submission with its numbers, recomputed from its predictions, and the order of those that count."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.answers import Answers
from shiftbench.benchmark import Benchmark
from shiftbench.boards.entries import MARKER, read_entry
from shiftbench.boards.verify import Verified, refuse_copies, required_seeds, seeds_of, verify
from shiftbench.errors import ShiftBenchError, unknown
from shiftbench.groupings import OWN, titled
from shiftbench.metrics import LOWER_IS_BETTER, METRICS, has_probabilities
from shiftbench.predictions import Predictions
from shiftbench.reporting.tables import pivot
from shiftbench.scores import ALL, Scores
from shiftbench.scoring import BEHIND, Comparison, comparisons, means, score
from shiftbench.scoring.rows import P
from shiftbench.scoring.targets import RANKING, headline
from shiftbench.stats import REPLICATES

SPLITS = ("test", "val", "id_test")
"""What is shown, the split that ranks first."""
BESIDE = ("accuracy", "worst_group_accuracy", "macro_f1")
"""Scored with the metric that ranks."""
LOSSES = ("nll", "worst_group_nll")
SCORED = (*BESIDE, "worst_class_accuracy", "worst_group_accuracy_corrected", *LOSSES)
"""Metrics whose intervals are over items and seeds together; others of `METRICS` are scored seed by seed."""
OVER = ("worst_group_accuracy", "mean_group_accuracy", "tenth_percentile_accuracy")
"""Of each grouping of the benchmark's card: `worst_group_accuracy[region]`, and so on."""

Cell = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Listed:
    """A submission on the board. `rank` is None where it does not count; `cells[split][metric]` has its numbers.

    A cell: value (the mean over seeds), std (with ddof 1), low, high, best and tied (in its table), group, n, seeds
    (each one's own value) and behind: the paired `Comparison` with the best of its table, None where there is none.
    """

    verified: Verified
    cells: Mapping[str, Mapping[str, Cell]]
    rank: int | None = None

    def cell(self, split: str, metric: str) -> Cell | None:
        return self.cells.get(split, {}).get(metric)


@dataclass(frozen=True, eq=False)
class Board:
    """All submissions: those that count in their order, training algorithms first (§9.1, §9.2), then the others."""

    benchmark: Benchmark
    metric: str
    required: int
    listed: tuple[Listed, ...]
    folds: tuple[Benchmark, ...] = ()  # where numbers are means over folds; `benchmark` is then the first

    def table(self, algorithms: bool) -> list[Listed]:
        return [one for one in self.listed if one.rank and one.verified.entry.algorithm == algorithms]

    @property
    def refused(self) -> list[Listed]:
        return [one for one in self.listed if one.rank is None]


def make_board(
    folder: Path | str, benchmark: Benchmark, *, metric: str = "", seeds: int | None = None
) -> Board:
    """Verify and rank every submission in a folder by a metric on test; `seeds` are required of each.

    Without a metric it is the one that goes with what is predicted: accuracy, for numbers the worst group's r, and so
    on (`scoring.targets.HEADLINES`).
    """
    metric = metric or headline(benchmark)
    root = Path(folder)
    if not root.is_dir():
        raise ShiftBenchError(f"{root}: no such folder. A board is made of a folder of submissions.")
    kind = benchmark.target.kind
    known = {*SCORED, *METRICS, *further(benchmark)} if kind == "class" else {*RANKING[kind], headline(benchmark)}
    if metric not in known:
        raise unknown("metric", metric, known)
    if "test" not in benchmark.splits:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no split 'test' to rank by.")
    required = required_seeds(benchmark) if seeds is None else seeds
    if required < 1:
        raise ShiftBenchError(f"seeds = {required}, but a submission has at least one.")
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    names = [name for name in names if (root / name / MARKER).exists() or not (root / name / "board.json").exists()]
    if not names:
        raise ShiftBenchError(f"{root} holds no submissions. One is a folder with {MARKER} and files of predictions.")
    found = refuse_copies([verify(root, read_entry(root, name), benchmark, required) for name in names])
    listed: list[Listed] = []
    for algorithms in (True, False):
        part = [one for one in found if one.valid and one.entry.algorithm == algorithms]
        listed += ranked(part, numbers(benchmark, part, metric), metric)
    # Those that do not count are scored one by one: they are nobody's rival.
    listed += [Listed(one, numbers(benchmark, [one], metric)[one.entry.folder]) for one in found if not one.valid]
    listed.sort(key=lambda one: one.rank is None)
    return Board(benchmark, metric, required, tuple(listed))


def further(benchmark: Benchmark) -> list[str]:
    """The metrics over the groupings that the benchmark's card asks for, grouping by grouping."""
    return [titled(metric, str(said)) for said in benchmark.card.get(OWN) or () for metric in OVER]


def numbers(
    benchmark: Benchmark, entries: Sequence[Verified], metric: str
) -> dict[str, dict[str, dict[str, Cell]]]:
    """By folder, split and metric: mean and standard deviation over seeds, interval, and who is told from the best."""
    made: dict[str, dict[str, dict[str, Cell]]] = {one.entry.folder: {} for one in entries}
    for split in SPLITS:
        runs = {one.entry.folder: seeds_of(one, split) for one in entries if one.has(split)}
        if split not in benchmark.splits or not runs:
            continue
        told, each = (_of_classes if benchmark.target.kind == "class" else _of_others)(benchmark, runs, metric)
        for name, judged in told.items():
            behind = _behind(judged, split, name)
            cells = {row["method"]: row["cells"][benchmark.name] for row in pivot(judged, name, split)}
            for folder, cell in cells.items():
                made[folder].setdefault(split, {})[name] = {
                    **cell, **_spread(each, folder, split, name), "behind": behind.get(folder)}
    return made


def _behind(judged: Scores, split: str, metric: str) -> dict[str, Comparison]:
    """Each submission against the best on the same items; empty for a metric that `scoring.means` does not pair."""
    names = (metric, metric + BEHIND, P + metric + BEHIND)
    rows = Scores.join([judged.where(split=split, metric=name) for name in names])
    return {one.other: one for one in comparisons(rows) if one.group == ALL}


def _of_classes(
    benchmark: Benchmark, given: Mapping[str, Mapping[int, Predictions | Answers]], metric: str
) -> tuple[dict[str, Scores], Scores]:
    """By metric the scores that have it with intervals, and those of every seed."""
    runs = {folder: {seed: one for seed, one in parts.items() if isinstance(one, Predictions)}
            for folder, parts in given.items()}
    joint = means(benchmark, {folder: list(parts.values()) for folder, parts in runs.items()})
    over = further(benchmark)
    extra = () if metric in (*SCORED, *over) else (metric,)
    each = Scores.join([
        score(benchmark, one, run=f"{folder}/{seed}", method=folder, seed=seed, metrics=extra,
              replicates=REPLICATES if extra else 0)
        for folder, parts in runs.items() for seed, one in parts.items()])
    sure = {folder: list(parts.values()) for folder, parts in runs.items()
            if all(has_probabilities(one.scores) for one in parts.values())}
    told = {}
    for name in dict.fromkeys((metric, *BESIDE, *over)):
        # A bare choice has no loss; that of one submission does not take the others' away.
        losses = means(benchmark, sure) if sure and name in LOSSES else Scores.of([])
        told[name] = each if name in extra else losses if name in LOSSES else joint
    return told, each


def _of_others(
    benchmark: Benchmark, given: Mapping[str, Mapping[int, Predictions | Answers]], metric: str
) -> tuple[dict[str, Scores], Scores]:
    """The same for targets that are no classes."""
    joint = means(benchmark, {folder: list(parts.values()) for folder, parts in given.items()})
    each = Scores.join([
        score(benchmark, one, run=f"{folder}/{seed}", method=folder, seed=seed, replicates=0)
        for folder, parts in given.items() for seed, one in parts.items()])
    return dict.fromkeys((metric, *RANKING[benchmark.target.kind]), joint), each


def _spread(each: Scores, folder: str, split: str, metric: str) -> Cell:
    """Each seed's value and their standard deviation, which one seed does not have."""
    rows = [row for row in each.where(method=folder, split=split, metric=metric)
            if metric.startswith("worst_") or row["group"] == ALL]
    values = [row["value"] for row in rows]
    return {"std": float(np.std(values, ddof=1)) if len(values) > 1 else math.nan,
            "seeds": {str(row["seed"]): row["value"] for row in rows}}


def ranked(
    entries: Sequence[Verified], cells: Mapping[str, Mapping[str, Mapping[str, Cell]]], metric: str
) -> list[Listed]:
    """In the order of their means; one whose predictions have no such number says so and is not ranked."""
    value = {folder: split.get("test", {}).get(metric, {"value": math.nan})["value"] for folder, split in cells.items()}
    sign = 1 if metric in LOWER_IS_BETTER else -1
    known = [one for one in entries if math.isfinite(value[one.entry.folder])]
    known.sort(key=lambda one: (sign * value[one.entry.folder], one.entry.folder))
    why = f"Its predictions have no {metric} on test: bare choices have no loss, and some metrics need two classes."
    return [*(Listed(one, cells[one.entry.folder], rank) for rank, one in enumerate(known, start=1)),
            *(Listed(replace(one, reasons=(why,)), cells[one.entry.folder]) for one in entries if one not in known)]
