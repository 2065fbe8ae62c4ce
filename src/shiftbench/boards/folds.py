"""A board of several folds: one number per submission, the mean over folds, as WILDS has it for PovertyMap.

Folds have other items each, so each is a benchmark of its own, and a submission names the digests of all of them, with
spaces between. Files say which fold they are of: `poverty_split:test_fold:A_pred.csv`, `fold-A-seed-0.parquet`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from shiftbench.benchmark import Benchmark
from shiftbench.boards.ranking import SPLITS, Board, Cell, Listed, make_board, ranked
from shiftbench.boards.replicates import fold_of
from shiftbench.boards.verify import Rule, Verified
from shiftbench.errors import ShiftBenchError
from shiftbench.metrics import LOWER_IS_BETTER
from shiftbench.scores import ALL
from shiftbench.scoring import Comparison
from shiftbench.stats import LEVEL, student

Cells = dict[str, dict[str, Cell]]


def make_folds(folder: Path | str, benchmarks: Sequence[Benchmark], *, metric: str = "") -> Board:
    """Verify every submission on every fold, one seed of each at least, and rank by the mean over folds on test."""
    names = [fold_of(one) or one.name for one in benchmarks]
    if len(set(names)) < len(names):
        raise ShiftBenchError(f"Of folds each must be another; got {', '.join(names)}. Build one benchmark per fold, "
                              "from the splits split_A to split_E.")
    boards = [make_board(folder, one, metric=metric, seeds=1) for one in benchmarks]
    listed = [{one.verified.entry.folder: one for one in board.listed} for board in boards]
    found = {name: [part[name] for part in listed] for name in listed[0]}
    verified = {name: _verified(ones, names) for name, ones in found.items()}
    cells = {name: _cells(ones, names) for name, ones in found.items()}
    made: list[Listed] = []
    for algorithms in (True, False):
        part = [one for one in verified.values() if one.valid and one.entry.algorithm == algorithms]
        _mark({one.entry.folder: cells[one.entry.folder] for one in part})
        made += ranked(part, {one.entry.folder: cells[one.entry.folder] for one in part}, boards[0].metric)
    made += [Listed(one, cells[name]) for name, one in verified.items() if not one.valid]
    made.sort(key=lambda one: one.rank is None)
    return Board(benchmarks[0], boards[0].metric, len(names), tuple(made), tuple(benchmarks))


def _verified(ones: Sequence[Listed], names: Sequence[str]) -> Verified:
    """The entry counts where it counts in every fold; of each fold it keeps the first seed."""
    first = ones[0].verified
    # What is wrong in every fold is said once.
    said = [dict.fromkeys(one.verified.reasons) for one in ones]
    shared = [reason for reason in said[0] if all(reason in other for other in said)]
    own = [f"Fold {name}: {reason}" for name, reasons in zip(names, said, strict=True) for reason in reasons
           if reason not in shared]
    predictions = {place: next(iter(one.verified.predictions.values())) for place, one in enumerate(ones)
                   if one.verified.predictions}
    rules = tuple(Rule(rule.name, len(predictions) == len(ones), f"{len(predictions)} of the {len(ones)} folds")
                  if rule.name == "Replicates" else rule for rule in first.rules)
    return replace(first, predictions=predictions, rules=rules, reasons=(*shared, *own))


def _cells(ones: Sequence[Listed], names: Sequence[str]) -> Cells:
    """Means over folds, where every fold has the number, and their standard deviation (ddof 1) over folds.

    A half-width is √(Σ half-width²) / k: folds are trained and tested apart, and taken as they are.
    """
    made: Cells = {}
    for split in SPLITS:
        for metric in ones[0].cells.get(split, {}):
            each = [cell for one in ones if (cell := one.cell(split, metric)) is not None]
            if len(each) < len(ones):
                continue
            value, low, high = (np.asarray([cell[key] for cell in each]) for key in ("value", "low", "high"))
            mean, many = float(value.mean()), len(each)
            made.setdefault(split, {})[metric] = {
                "value": mean, "std": float(np.std(value, ddof=1)) if many > 1 else math.nan,
                "low": mean - math.sqrt(((value - low) ** 2).sum()) / many,
                "high": mean + math.sqrt(((high - value) ** 2).sum()) / many,
                "n": sum(cell["n"] for cell in each), "group": " or ".join(dict.fromkeys(
                    cell["group"] for cell in each)), "runs": many, "scored": False, "best": False, "tied": False,
                "behind": None,
                "seeds": dict(zip(names, value.tolist(), strict=True))}
    return made


def _mark(entries: Mapping[str, Mapping[str, Mapping[str, Cell]]]) -> None:
    """The best of each column, how far each other one is behind it, and which cannot be told from it."""
    columns = dict.fromkeys((part, name) for one in entries.values() for part, cells in one.items() for name in cells)
    for split, metric in columns:
        column = {folder: one[split][metric] for folder, one in entries.items() if metric in one.get(split, {})}
        known = {folder: cell for folder, cell in column.items() if math.isfinite(cell["value"])}
        lower = metric in LOWER_IS_BETTER
        if len(known) < 2:
            continue
        first = (min if lower else max)(known, key=lambda folder: float(known[folder]["value"]))
        best = known[first]
        for folder, cell in known.items():
            if cell is best:
                cell["best"] = True
            elif lower or cell["runs"] < 2:  # as a board of one benchmark does with losses
                cell["tied"] = not (cell["low"] > best["high"] if lower else best["low"] > cell["high"])
            else:
                cell["behind"] = _behind(best, cell, pairs=len(known) * (len(known) - 1) // 2)._replace(
                    split=split, metric=metric, best=first, other=folder)
                cell["tied"] = not cell["behind"].low > 0


def _behind(best: Cell, cell: Cell, pairs: int, level: float = LEVEL) -> Comparison:
    """Two submissions fold by fold: Student's t of the k differences d, mean(d) ± t₍k−1₎ sd(d) / √k.

    A hard fold is hard for both, so folds are compared within, not across. Level and p-value are Bonferroni's for all
    `pairs` of the table, since the best was found in it.
    """
    from scipy.special import stdtr

    difference = np.asarray([best["seeds"][fold] - cell["seeds"][fold] for fold in best["seeds"]])
    many, mean = len(difference), float(difference.mean())
    error = float(np.std(difference, ddof=1)) / math.sqrt(many)
    half = float(student(many - 1, 1 - (1 - level) / pairs)) * error
    p = 2 * float(stdtr(many - 1, -abs(mean) / error)) if error > 0 else float(mean == 0)
    return Comparison("", "", "", "", ALL, best["n"], "", "", best["value"], cell["value"], mean - half, mean + half,
                      min(1.0, pairs * p))
