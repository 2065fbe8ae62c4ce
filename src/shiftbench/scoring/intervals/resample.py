"""Replicates of accuracies and of macro F1, of any number of runs on the same items."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.core.rng import child
from shiftbench.scoring.intervals.bootstraps import REPLICATES, Cells


class Accuracies(NamedTuple):
    """Replicates of each method's mean accuracies over its runs."""

    average: Floats  # replicates × methods
    by_group: Floats  # replicates × methods × groups; NaN where a group was not drawn
    worst: Floats  # replicates × methods: the mean over runs of each run's lowest group


def accuracies(
    hits: Bools,
    group: Ints,
    n_groups: int,
    *,
    method: Sequence[int] | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
    purpose: str = "",
) -> Accuracies:
    """Bootstrap the accuracies of runs that predict the same items; `hits[r, i]`: run r is right about item i.

    Two things are resampled. Items: one draw per replicate, the same for every run, so that methods stay paired; a draw
    per `purpose` (the split). Runs: `method[r]` is the method of run r, and each replicate draws as many of a method's
    runs, with replacement, as it has: the part of the interval that comes from seeds, the same draw for every purpose.
    A method with a single run has no such part, and k runs show only (k − 1) / k of the seeds' variance. Without
    `method` there is one method.

    The lowest of several noisy groups lies, on average, below the accuracy of the truly worst group, and a replicate's
    lies lower still: the interval of `worst` leans down, the more so the smaller and the more alike the groups.
    """
    owner = np.zeros(len(hits), np.int64) if method is None else np.asarray(method, np.int64)
    cells = Cells.of([group, *hits])
    place, right = group[cells.first], hits[:, cells.first].T.astype(np.float64)
    borders = np.searchsorted(place, np.arange(n_groups + 1))
    parts: list[Accuracies] = []
    items, runs = _streams(owner, seed, purpose)
    for drawn in cells.draws(items, replicates, len(hits) * n_groups):
        size = np.zeros((len(drawn), n_groups))
        rates = np.full((len(drawn), len(hits), n_groups), np.nan)
        total = drawn @ right / max(1, len(group))
        for code in np.flatnonzero(np.diff(borders)):
            part = slice(borders[code], borders[code + 1])
            size[:, code] = drawn[:, part].sum(axis=1)
            with np.errstate(invalid="ignore"):
                rates[:, :, code] = drawn[:, part] @ right[part] / size[:, code, None]
        lowest = np.fmin.reduce(rates, axis=2)
        means = [_over_runs(owner == code, stream, total, rates, lowest) for code, stream in enumerate(runs)]
        parts.append(Accuracies(*(np.stack(field, axis=1) for field in zip(*means, strict=True))))
    return Accuracies(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def macro_f1s(
    label: Ints,
    predicted: Ints,
    *,
    method: Sequence[int] | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
    purpose: str = "",
) -> Floats:
    """Bootstrap each method's mean macro F1 over its runs, resampled as in `accuracies`: replicates × methods.

    `predicted[r, i]` is the class run r gives item i. A replicate's mean is over the classes that it drew.
    """
    owner = np.zeros(len(predicted), np.int64) if method is None else np.asarray(method, np.int64)
    cells = Cells.of([label, *predicted])
    truth = label[cells.first]
    classes = np.unique(truth)
    parts: list[Floats] = []
    items, runs = _streams(owner, seed, purpose)
    for drawn in cells.draws(items, replicates):
        true = _sums(drawn, truth, classes)
        present = true > 0
        values = np.empty((len(drawn), len(predicted)))
        for run, guess in enumerate(predicted[:, cells.first]):
            hit = guess == truth
            given, hits = _sums(drawn, guess, classes), _sums(drawn[:, hit], truth[hit], classes)
            f1 = np.divide(2 * hits, true + given, out=np.zeros_like(true), where=present)
            values[:, run] = f1.sum(axis=1) / present.sum(axis=1)
        means = [_over_runs(owner == code, stream, values)[0] for code, stream in enumerate(runs)]
        parts.append(np.stack(means, axis=1))
    return np.concatenate(parts)


def _streams(owner: Ints, seed: int, purpose: str) -> tuple[np.random.Generator, list[np.random.Generator]]:
    """One stream for the items and one for the runs of each method, so that chunks change no number."""
    methods = range(1 + int(owner.max(initial=0)))
    return child(seed, "bootstrap", "items", purpose), [child(seed, "bootstrap", "runs", str(code)) for code in methods]


def _over_runs(mine: Bools, rng: np.random.Generator, *values: Floats) -> tuple[Floats, ...]:
    """Means over runs drawn with replacement among `mine`; values are replicates × runs (× groups)."""
    k, replicates = int(mine.sum()), len(values[0])
    if k == 1:
        return tuple(part[:, mine][:, 0] for part in values)
    share = rng.multinomial(k, np.full(k, 1 / k), size=replicates) / k
    return tuple(np.einsum("rk,rk...->r...", share, part[:, mine]) for part in values)


def _sums(drawn: Floats, code: Ints, codes: Ints) -> Floats:
    """Replicates × codes: the drawn items of each code."""
    order = np.argsort(code, kind="stable")
    start = np.searchsorted(code[order], codes)
    stop = np.searchsorted(code[order], codes, side="right")
    summed = np.zeros((len(drawn), len(codes)))
    for place in np.flatnonzero(stop > start):
        summed[:, place] = drawn[:, order[start[place]:stop[place]]].sum(axis=1)
    return summed
