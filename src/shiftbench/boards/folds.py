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
        _mark([cells[one.entry.folder] for one in part])
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
                "behind": None,  # folds share no items
                "seeds": dict(zip(names, value.tolist(), strict=True))}
    return made


def _mark(entries: Sequence[Mapping[str, Mapping[str, Cell]]]) -> None:
    """The best of each column, and those whose interval reaches the best's."""
    columns = dict.fromkeys((part, name) for one in entries for part, cells in one.items() for name in cells)
    for split, metric in columns:
        column = [one[split][metric] for one in entries if metric in one.get(split, {})]
        known = [cell for cell in column if math.isfinite(cell["value"])]
        lower = metric in LOWER_IS_BETTER
        if len(known) > 1:
            best = (min if lower else max)(known, key=lambda cell: float(cell["value"]))
            for cell in known:
                apart = cell["low"] > best["high"] if lower else best["low"] > cell["high"]
                cell["best"], cell["tied"] = cell is best, cell is not best and not apart
