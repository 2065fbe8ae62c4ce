"""The board: every submission with its numbers, recomputed from its predictions, and the order of those that count."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.core.arrays import in_short
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import OWN
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, Measure, Scores
from shiftbench.leaderboard.submission import MARKER, Entry, fold_of, read_entry
from shiftbench.leaderboard.verify import (
    Rule,
    Verified,
    checked,
    refuse_copies,
    required_seeds,
    seeds_of,
    verify,
)
from shiftbench.reporting.score_tables import Comparison, comparisons, pivot
from shiftbench.scoring import means, score
from shiftbench.scoring.intervals import LEVEL, REPLICATES, seeds
from shiftbench.scoring.listing import Finished, is_run_folder
from shiftbench.scoring.metrics import has_probabilities, is_worst, metric_of, metrics_of
from shiftbench.scoring.runs import labels

SPLITS = ("test", "val", "id_test")
"""The splits of a board; the first ranks."""
BESIDE = ("accuracy", "worst_group_accuracy", "macro_f1")
"""Metrics that are scored beside the one that ranks."""
LOSSES = ("nll", "worst_group_nll")
ABSENT = "There are no predictions of it."
OVER = ("worst_group_accuracy", "mean_group_accuracy", "tenth_percentile_accuracy")
"""Metrics that are scored over each grouping of the benchmark's card."""

Cell = dict[str, Any]
Cells = dict[str, dict[Measure, Cell]]
"""By split and measure."""


@dataclass(frozen=True, eq=False)
class Listed:
    """A submission on the board. `rank` is None where it does not count; `cells[split][measure]` has its numbers.

    A cell: value (the mean over seeds), std (with ddof 1), low, high, best and tied (in its table), group, n, seeds
    (each one's own value) and behind: the paired `Comparison` with the best of its table, None where there is none.
    """

    verified: Verified
    cells: Mapping[str, Mapping[Measure, Cell]]
    rank: int | None = None

    def cell(self, split: str, measure: Measure | str) -> Cell | None:
        return self.cells.get(split, {}).get(Measure.parse(measure) if isinstance(measure, str) else measure)


@dataclass(frozen=True, eq=False)
class Board:
    """All submissions: those that count in their order, training algorithms first (§9.1, §9.2), then the others."""

    benchmark: Benchmark
    measure: Measure
    required: int
    listed: tuple[Listed, ...]
    folds: tuple[Benchmark, ...] = ()  # where numbers are means over folds; `benchmark` is then the first

    def table(self, algorithms: bool) -> list[Listed]:
        return [entry for entry in self.listed if entry.rank and entry.verified.entry.algorithm == algorithms]

    @property
    def refused(self) -> list[Listed]:
        return [entry for entry in self.listed if entry.rank is None]

    @property
    def title(self) -> str:
        """The benchmark, or the first fold and the last."""
        return self.benchmark.name + (f" to {self.folds[-1].name}" if self.folds else "")

    def __repr__(self) -> str:
        ranked = sorted((entry for entry in self.listed if entry.rank), key=lambda entry: entry.rank or 0)
        methods = in_short(entry.verified.entry.method for entry in ranked)
        return (f"Board('{self.title}' by {self.measure} on test; {len(ranked):,} ranked: {methods or 'none'}; "
                f"{len(self.refused):,} not counted)")

    def _repr_html_(self) -> str:
        from shiftbench.leaderboard.writing import board_table
        from shiftbench.reporting.notebook import tables_html

        return tables_html([board_table(self)])


def make_board(
    source: Path | str | Sequence[Finished], benchmark: Benchmark, *, metric: str = "", seeds: int | None = None
) -> Board:
    """Verify and rank every submission in a folder by a metric on test; each must have at least `seeds` seeds.

    The source may also be runs: those that differ only in their seed are one entry, which declares nothing.

    The default metric depends on the target: accuracy for classes, the worst group's r for numbers, and so on
    (`Target.headline`).
    """
    measure = _measure(benchmark, metric)
    required = required_seeds(benchmark) if seeds is None else seeds
    submissions = (_submitted(Path(source), benchmark, required) if isinstance(source, str | Path) else
                   _of_runs(source, labels([run.settings for run in source]), benchmark, required))
    return _board(submissions, benchmark, measure, required)


def _measure(benchmark: Benchmark, metric: str) -> Measure:
    """The measure that ranks: the one named, else the benchmark's headline."""
    measure = Measure.parse(metric) if metric else benchmark.headline
    allowed = {*(Measure(own.name) for own in metrics_of(benchmark.target)), benchmark.headline, *further(benchmark)}
    if measure not in allowed:
        raise unknown("metric", measure, allowed)
    if "test" not in benchmark.splits:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no split 'test' to rank by.")
    return measure


def _board(verified: Sequence[Verified], benchmark: Benchmark, measure: Measure, required: int) -> Board:
    """Submissions in the order of their numbers."""
    if required < 1:
        raise ShiftBenchError(f"seeds = {required}, but a submission has at least one.")
    submissions = refuse_copies(verified)
    listed: list[Listed] = []
    for algorithms in (True, False):
        valid = [submission for submission in submissions
                 if submission.valid and submission.entry.algorithm == algorithms]
        listed += ranked(valid, numbers(benchmark, valid, measure), measure)
    # Submissions that do not count are scored one by one: no other is compared with them.
    listed += [Listed(submission, numbers(benchmark, [submission], measure)[submission.entry.folder])
               for submission in submissions if not submission.valid]
    listed.sort(key=lambda entry: entry.rank is None)
    return Board(benchmark, measure, required, tuple(listed))


def holds_submissions(source: Any) -> bool:
    """Whether the source of a board is a folder of submissions, not runs or predictions."""
    if not isinstance(source, str | Path):
        return False
    folder = Path(source)
    return not folder.is_file() and not is_run_folder(folder) and not (folder.is_dir() and any(
        is_run_folder(path) for path in folder.iterdir() if not (path / MARKER).exists()))


def _submitted(root: Path, benchmark: Benchmark, required: int) -> list[Verified]:
    """The submissions in a folder."""
    if not root.is_dir():
        raise ShiftBenchError(f"{root}: no such folder. A board is made of a folder of submissions.")
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    names = [name for name in names if (root / name / MARKER).exists() or not (root / name / "board.json").exists()]
    if not names:
        raise ShiftBenchError(f"{root} holds no submissions. One is a folder with {MARKER} and files of predictions.")
    return [verify(root, read_entry(root, name), benchmark, required) for name in names]


def _of_runs(
    runs: Sequence[Finished], names: Sequence[str], benchmark: Benchmark, required: int
) -> list[Verified]:
    """An entry for each name, with its seeds."""
    if not runs:
        raise ShiftBenchError(f"There are no runs on benchmark '{benchmark.name}' to rank.")
    entries: dict[str, dict[int, Predictions | Answers]] = {}
    for label, run in zip(names, runs, strict=True):
        seed, by_seed = int(run.settings["seed"]), entries.setdefault(label, {})
        if seed in by_seed:
            raise ShiftBenchError(f"Two runs of '{label}' on benchmark '{benchmark.name}' have seed {seed}, and a "
                                  "board counts a seed once. Leave one out, or tell them apart with --seed or "
                                  "--setting.")
        by_seed[seed] = run.predictions(benchmark)
    return [checked(Entry(label, method=label, benchmark=benchmark.digest), predictions, benchmark, required)
            for label, predictions in entries.items()]


def further(benchmark: Benchmark) -> list[Measure]:
    """The metrics over the groupings that the benchmark's card asks for, grouping by grouping."""
    return [Measure(metric, str(grouping)) for grouping in benchmark.card.get(OWN) or () for metric in OVER]


def numbers(
    benchmark: Benchmark, entries: Sequence[Verified], measure: Measure
) -> dict[str, Cells]:
    """By folder, split and measure: mean and standard deviation over seeds, interval, and difference to the best."""
    table: dict[str, Cells] = {submission.entry.folder: {} for submission in entries}
    for split in SPLITS:
        runs = {submission.entry.folder: seeds_of(submission, split) for submission in entries if submission.has(split)}
        if split not in benchmark.splits or not runs:
            continue
        by_measure, per_seed = _scored(benchmark, runs, measure)
        for name, scores in by_measure.items():
            # Each submission against the best on the same items; none for a metric that `means` does not pair.
            behind = {pair.other: pair for pair in comparisons(scores.where(split=split, **name._asdict()))
                      if pair.group == ALL}
            rows = pivot(scores, name.metric, split, by=name.by)
            cells = {row["method"]: row["cells"][benchmark.name] for row in rows}
            for folder, cell in cells.items():
                table[folder].setdefault(split, {})[name] = {
                    **cell, **_spread(per_seed, folder, split, name), "behind": behind.get(folder)}
    return table


def _scored(
    benchmark: Benchmark, submitted: Mapping[str, Mapping[int, Predictions | Answers]], measure: Measure
) -> tuple[dict[Measure, Scores], Scores]:
    """Measure -> the scores with its intervals; and the scores of every seed."""
    classes = benchmark.target.has_classes
    extra = (measure.metric,) if classes and not (measure.by or metric_of(measure.metric).always) else ()
    joint = means(benchmark, {folder: list(parts.values()) for folder, parts in submitted.items()})
    per_seed = Scores.join([
        score(benchmark, predictions, run=f"{folder}/{seed}", method=folder, seed=seed, metrics=extra,
              replicates=REPLICATES if extra else 0)
        for folder, parts in submitted.items() for seed, predictions in parts.items()])
    if not classes:
        return dict.fromkeys((measure, *map(Measure, benchmark.target.ranking)), joint), per_seed
    by_measure = dict.fromkeys((measure, *map(Measure, BESIDE), *further(benchmark)), joint)
    if extra:
        by_measure[measure] = per_seed
    elif measure.metric in LOSSES:  # predictions without probabilities have no loss; the other submissions keep theirs
        sure = {folder: list(parts.values()) for folder, parts in submitted.items() if all(
            isinstance(predictions, Predictions) and has_probabilities(predictions.scores)
            for predictions in parts.values())}
        by_measure[measure] = means(benchmark, sure) if sure else Scores.of([])
    return by_measure, per_seed


def _spread(per_seed: Scores, folder: str, split: str, measure: Measure) -> Cell:
    """Each seed's value and their standard deviation, which is NaN for one seed."""
    rows = [row for row in per_seed.where(method=folder, split=split, **measure._asdict())
            if is_worst(measure.metric) or row["group"] == ALL]
    values = [row["value"] for row in rows]
    return {"std": float(np.std(values, ddof=1)) if len(values) > 1 else math.nan,
            "seeds": {str(row["seed"]): row["value"] for row in rows}}


def ranked(
    entries: Sequence[Verified], cells: Mapping[str, Mapping[str, Mapping[Measure, Cell]]], measure: Measure
) -> list[Listed]:
    """Entries sorted by their means; an entry without this number is listed with the reason but not ranked."""
    missing = {"value": math.nan}
    value = {folder: splits.get("test", {}).get(measure, missing)["value"] for folder, splits in cells.items()}
    sign = -metric_of(measure.metric).sign
    sortable = [submission for submission in entries if math.isfinite(value[submission.entry.folder])]
    sortable.sort(key=lambda submission: (sign * value[submission.entry.folder], submission.entry.folder))
    why = f"Its predictions have no {measure} on test: bare choices have no loss, and some metrics need two classes."
    return [*(Listed(submission, cells[submission.entry.folder], rank)
              for rank, submission in enumerate(sortable, start=1)),
            *(Listed(replace(submission, reasons=(why,)), cells[submission.entry.folder])
              for submission in entries if submission not in sortable)]


# A board of several folds: one number per submission, the mean over folds, as WILDS has it for PovertyMap.
#
# Folds have different items, so each is a benchmark of its own, and a submission names the digests of all of them,
# separated by spaces. File names say the fold: `poverty_split:test_fold:A_pred.csv`, `fold-A-seed-0.parquet`.


def make_folds(
    source: Path | str | Sequence[Sequence[Finished]], benchmarks: Sequence[Benchmark], *, metric: str = "",
    seeds: int = 1,
) -> Board:
    """Verify every submission on every fold, with at least `seeds` seeds, and rank by the mean over folds on test.

    The source may also be the runs on each fold.
    """
    if not benchmarks:
        raise ShiftBenchError("There is no benchmark to rank on. Name one, or one per fold.")
    names = [fold_of(benchmark) or benchmark.name for benchmark in benchmarks]
    if len(set(names)) < len(names):
        raise ShiftBenchError(f"Folds must differ; got {', '.join(names)}. Build one benchmark per fold, from the "
                              "splits split_A to split_E.")
    if isinstance(source, str | Path):
        boards = [make_board(source, benchmark, metric=metric, seeds=seeds) for benchmark in benchmarks]
    else:
        named = iter(labels([run.settings for runs in source for run in runs]))  # alike in every fold
        boards = [_board(_of_runs(runs, [next(named) for _ in runs], benchmark, seeds), benchmark,
                         _measure(benchmark, metric), seeds)
                  for runs, benchmark in zip(source, benchmarks, strict=True)]
    folds = [{entry.verified.entry.folder: entry for entry in board.listed} for board in boards]
    in_folds = {name: [other.get(name) or Listed(Verified(entry.verified.entry, {}, reasons=(ABSENT,)), {})
                       for other in folds] for fold in folds for name, entry in fold.items()}
    verified = {name: _verified_in_folds(in_fold, names) for name, in_fold in in_folds.items()}
    cells = {name: _cells_of_folds(in_fold, names) for name, in_fold in in_folds.items()}
    ranking: list[Listed] = []
    for algorithms in (True, False):
        valid = [submission for submission in verified.values()
                 if submission.valid and submission.entry.algorithm == algorithms]
        valid_cells = {submission.entry.folder: cells[submission.entry.folder] for submission in valid}
        _mark_folds(valid_cells)
        ranking += ranked(valid, valid_cells, boards[0].measure)
    ranking += [Listed(submission, cells[name]) for name, submission in verified.items() if not submission.valid]
    ranking.sort(key=lambda entry: entry.rank is None)
    return Board(benchmarks[0], boards[0].measure, len(names), tuple(ranking), tuple(benchmarks))


def _verified_in_folds(folds: Sequence[Listed], names: Sequence[str]) -> Verified:
    """The entry counts if it counts in every fold; it keeps the first seed of each fold."""
    first = next(fold.verified for fold in folds if ABSENT not in fold.verified.reasons)
    # A reason that applies to every fold is listed once.
    reasons_of = [dict.fromkeys(fold.verified.reasons) for fold in folds]
    shared = [reason for reason in reasons_of[0] if all(reason in other for other in reasons_of)]
    of_fold = [f"Fold {name}: {reason}" for name, reasons in zip(names, reasons_of, strict=True) for reason in reasons
               if reason not in shared]
    predictions = {number: next(iter(fold.verified.predictions.values())) for number, fold in enumerate(folds)
                   if fold.verified.predictions}
    rules = tuple(Rule(rule.name, len(predictions) == len(folds), f"{len(predictions)} of the {len(folds)} folds")
                  if rule.name == "Replicates" else rule for rule in first.rules)
    return replace(first, predictions=predictions, rules=rules, reasons=(*shared, *of_fold))


def _cells_of_folds(folds: Sequence[Listed], names: Sequence[str]) -> Cells:
    """Means over folds, where every fold has the number, and their standard deviation (ddof 1) over folds.

    A half-width is √(Σ half-width²) / k: folds are trained and tested independently, and are not a sample.
    """
    table: Cells = {}
    for split in SPLITS:
        for measure in folds[0].cells.get(split, {}):
            per_fold = [cell for fold in folds if (cell := fold.cell(split, measure)) is not None]
            if len(per_fold) < len(folds):
                continue
            value, low, high = (np.asarray([cell[key] for cell in per_fold]) for key in ("value", "low", "high"))
            mean, n_folds = float(value.mean()), len(per_fold)
            table.setdefault(split, {})[measure] = {
                "value": mean, "std": float(np.std(value, ddof=1)) if n_folds > 1 else math.nan,
                "low": mean - math.sqrt(((value - low) ** 2).sum()) / n_folds,
                "high": mean + math.sqrt(((high - value) ** 2).sum()) / n_folds,
                "n": sum(cell["n"] for cell in per_fold),
                "group": " or ".join(dict.fromkeys(cell["group"] for cell in per_fold)),
                "runs": n_folds, "scored": False, "best": False, "tied": False, "behind": None,
                "seeds": dict(zip(names, value.tolist(), strict=True))}
    return table


def _mark_folds(entries: Mapping[str, Cells]) -> None:
    """Mark the best of each column, how far the others are behind, and which do not differ significantly from it."""
    columns = dict.fromkeys(
        (split, name) for table in entries.values() for split, cells in table.items() for name in cells)
    for split, measure in columns:
        column = {folder: table[split][measure] for folder, table in entries.items() if measure in table.get(split, {})}
        defined = {folder: cell for folder, cell in column.items() if math.isfinite(cell["value"])}
        lower = metric_of(measure.metric).lower
        if len(defined) < 2:
            continue
        first = (min if lower else max)(defined, key=lambda folder: float(defined[folder]["value"]))
        best = defined[first]
        for folder, cell in defined.items():
            if cell is best:
                cell["best"] = True
            elif lower or cell["runs"] < 2:  # as a board of one benchmark does with losses
                cell["tied"] = not (cell["low"] > best["high"] if lower else best["low"] > cell["high"])
            else:
                cell["behind"] = _behind_in_folds(best, cell, pairs=len(defined) * (len(defined) - 1) // 2)._replace(
                    split=split, metric=measure.metric, by=measure.by, best=first, other=folder)
                cell["tied"] = not cell["behind"].low > 0
        if all(cell["tied"] for cell in defined.values() if cell is not best):  # as in a table of one benchmark
            best |= {"best": False, "tied": True}


def _behind_in_folds(best: Cell, cell: Cell, pairs: int, level: float = LEVEL) -> Comparison:
    """Two submissions fold by fold: Student's t of the k differences d (`intervals.seeds`).

    A hard fold is hard for both, so submissions are compared within folds. Level and p-value are Bonferroni's for all
    `pairs` of the table, since the best was chosen from it.
    """
    from scipy.special import stdtr

    difference = np.asarray([best["seeds"][fold] - cell["seeds"][fold] for fold in best["seeds"]])
    n_folds, mean = len(difference), float(difference.mean())
    spread = seeds(difference[:, None], np.zeros((1, 1)), np.zeros(n_folds, np.int64))
    half, error = float(spread.half_width(1 - (1 - level) / pairs)[0, 0]), math.sqrt(float(spread.variance[0, 0]))
    p = 2 * float(stdtr(n_folds - 1, -abs(mean) / error)) if error > 0 else float(mean == 0)
    return Comparison("", "", "", "", ALL, best["n"], "", "", best["value"], cell["value"], mean - half, mean + half,
                      min(1.0, pairs * p))
