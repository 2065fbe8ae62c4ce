"""Scores of hard and easy items (NOOCh), for every benchmark whose rows have a `kind`.

Hard are hard positives and hard negatives together, easy is every other item, of either label (Madras & Zemel, 2021,
§6). AUC is over the labels within a set, so that AUC-hard sets hard positives against hard negatives; where a set has
one label it has no AUC, which is NaN.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, RUN, Scores
from shiftbench.scoring.intervals import (
    Estimate,
    Law,
    Means,
    Measured,
    estimate,
    on_the_logit_scale,
    over_runs,
    student,
    wilson,
)
from shiftbench.scoring.worst import mirrored, worst_loss, worst_share

COLUMN = "kind"
SIDES = ("hard_positive", "hard_negative")
HARD, EASY = "hard", "easy"
SETS = {ALL: (*SIDES, HARD, EASY), HARD: (*SIDES, HARD), EASY: (EASY,), SIDES[0]: SIDES[:1], SIDES[1]: SIDES[1:]}
"""The sets that are scored, and the kinds in each; `hard` is itself a kind if a label has more than two values."""


def kinds_of(benchmark: Benchmark, rows: Ints) -> Strs | None:
    """The kinds of some rows; None if the benchmark has none, or if its column of that name means something else."""
    column = benchmark.extra.get(COLUMN)
    if column is None or column.dtype.kind != "U" or not np.isin(column, SETS[ALL]).all():
        return None
    return np.asarray(column[rows])


def by_kind(
    kind: Strs, label: Ints, scores: npt.NDArray[np.float32], losses: Floats | None, owner: Sequence[int],
    level: float | None, groups: Sequence[str] | Strs = (),
) -> list[Measured]:
    """Every score of every set that has items; `scores` is runs × classes × items, `owner[r]` the method of run r.

    `auc` (with two classes) and `ece` are for all, hard and easy items; `nll` and `error` for hard and easy items and
    for each hard side; `worst_hard_error` and `worst_hard_nll` are the larger of the two sides' (the paper's Table 4).
    `losses` is None if scores are mere choices, which have neither loss nor calibration. A set that is also one of the
    benchmark's `groups` has its nll in the table already.
    """
    hits: Bools = scores.argmax(axis=1) == label
    with np.errstate(invalid="ignore"):
        margin = None if scores.shape[1] != 2 else scores[:, 1] - scores[:, 0]  # in its own type: keeps ties exact
    confidence = None if losses is None else confidences(scores)
    measured: list[Measured] = []
    for group, kinds in SETS.items():
        rows = np.flatnonzero(np.isin(kind, kinds))
        if not rows.size:
            continue
        n, size = len(rows), np.asarray([len(rows)])
        if margin is not None and group not in SIDES:
            positive: Bools = label[rows] == 1
            items = auc_items(positive, margin[:, rows])
            few = min(int(positive.sum()), n - int(positive.sum()))
            measured.append(Measured("auc", [group], size, area(items, few, owner, level), items))
        if confidence is not None and group not in SIDES:
            calibrated = miscalibrated(hits[:, rows], confidence[:, rows], owner, level)
            measured.append(Measured("ece", [group], size, calibrated))
        if losses is not None and group != ALL and group not in groups:
            measured.append(Measured("nll", [group], size, estimate("student", losses[:, rows], owner, level)))
        if group != ALL:
            measured.append(Measured("error", [group], size, estimate("wilson", ~hits[:, rows], owner, level)))
    return measured + _larger(kind, hits, losses, owner, level)


def area(items: Floats, few: int, owner: Sequence[int], level: float | None) -> Estimate:
    """AUC: DeLong's interval on the scale of the logit, where it is closer to its level than A ± z √V is.

        logit A ± t √V / (A (1 − A)),    t Student's with min(m, k) − 1 degrees of freedom.

    If one side lies wholly above the other there is no variance to see: then it is Wilson's for min(m, k) items.
    """
    def reach(parts: Means, size: Ints, level: float) -> tuple[Floats, Floats]:
        value = parts.value
        ends = on_the_logit_scale(value, student(few - 1, level) * np.sqrt(parts.items))
        low, high = (np.where((value > 0) & (value < 1), *both)
                     for both in zip(ends, wilson(value, float(few), level), strict=True))
        return value - low, high - value

    return estimate(Law(reach), items, owner, level)


def miscalibrated(hits: Bools, confidence: Floats, owner: Sequence[int], level: float | None) -> Estimate:
    """ECE: Student's interval of its contributions, extended downwards by what chance may have lifted it.

    A percentile bootstrap lifts it a second time: for calibrated models its interval never holds the true 0.
    """
    deviation = calibration(hits, confidence)

    def reach(parts: Means, size: Ints, level: float) -> tuple[Floats, Floats]:
        half = student(size - 1, level) * np.sqrt(parts.items * size / (size - 1))
        return half + over_runs(deviation.lifted[:, None], owner), half

    return estimate(Law(reach), deviation.items, owner, level)


def _larger(
    kind: Strs, hits: Bools, losses: Floats | None, owner: Sequence[int], level: float | None
) -> list[Measured]:
    """The larger error and loss of the two hard sides, where both have items."""
    sides = [np.flatnonzero(kind == side) for side in SIDES]
    if not all(side.size for side in sides):
        return []
    rows, start = np.concatenate(sides), np.asarray([0, len(sides[0])])
    size = np.asarray([len(side) for side in sides])
    error = mirrored(worst_share(hits[:, rows], start, owner, level), about=1.0)
    measured = [error.measured("worst_hard_error", SIDES, size)]
    if losses is not None:
        measured.append(worst_loss(losses[:, rows], start, owner, level).measured("worst_hard_nll", SIDES, size))
    return measured


# AUC

def midranks(values: npt.NDArray[np.floating]) -> Floats:
    """Ranks from 1 within each row; equal values share the mean of their ranks."""
    rows, n = values.shape
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    new = np.ones((rows, n), np.bool_)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.flatnonzero(new)  # no tie goes over the end of a row, since a row begins anew
    size = np.diff(np.append(first, rows * n))
    middle = np.repeat(first + (size + 1) / 2, size).reshape(rows, n) - np.arange(rows)[:, None] * n
    ranks = np.empty((rows, n))
    np.put_along_axis(ranks, order, middle, axis=1)
    return ranks


def placements(positive: Bools, score: npt.NDArray[np.floating]) -> Floats:
    """V of every item: the share of the other polarity that it is on the right side of; runs × items.

    With m positives, k negatives and ψ(x, y) = 1 where x > y, ½ where x = y, the area under the ROC curve is

        A = P(s⁺ > s⁻) + ½ P(s⁺ = s⁻) = mean of V over the positives = mean of V over the negatives,
        V(positive) = mean of ψ(it, y) over the negatives y,    V(negative) = mean of ψ(x, it) over the positives x,
        Var(A) = Var_positives(V) / m + Var_negatives(V) / k        (DeLong, DeLong & Clarke-Pearson, 1988).

    V comes from midranks, so that the cost is that of sorting (Sun & Xu, 2014).
    """
    above, below = np.flatnonzero(positive), np.flatnonzero(~positive)
    ranks = midranks(score)
    shares = np.empty(score.shape)
    shares[:, above] = (ranks[:, above] - midranks(score[:, above])) / max(1, len(below))
    shares[:, below] = 1 - (ranks[:, below] - midranks(score[:, below])) / max(1, len(above))
    return shares


def auc_items(positive: Bools, score: npt.NDArray[np.floating]) -> Floats:
    """Runs × items: contributions whose mean over the items is AUC, and whose spread over n is DeLong's variance.

        c_i = A + (n / m) √(m / (m − 1)) (V_i − A) for a positive, and the same with k for a negative.

    `score[r, i]` is run r's for item i, the larger the likelier positive; infinite ones are scores like others. NaN
    throughout where all items have one polarity, or where a run has a score that is not a number.
    """
    m, n = int(positive.sum()), len(positive)
    if not 0 < m < n:
        return np.full(score.shape, np.nan)
    value = placements(positive, np.asarray(score, np.float64))
    area = value[:, positive].mean(axis=1, keepdims=True)
    weight = np.where(positive, _worth(n, m), _worth(n, n - m))
    items = area + weight * (value - area)
    items[np.isnan(score).any(axis=1)] = np.nan
    return np.asarray(items)


def _worth(n: int, of_polarity: int) -> float:
    """A single item of a polarity has no spread to enlarge."""
    return n / of_polarity * np.sqrt(of_polarity / (of_polarity - 1)) if of_polarity > 1 else float(n)


# Calibration

BINS = 15
SURE = 2.0
"""Standard errors from which on the side to which a bin errs is taken as known."""


class Calibration(NamedTuple):
    """ECE of each run as the mean over its items, and what its absolute values may owe to chance.

    Our reading of "ECE" is the one that NOOCh cites (Guo et al., 2017): the predicted class's probability, also with
    two classes, in 15 bins of equal width, each with its upper end:

        ECE = Σ_b n_b / n |accuracy of b − mean probability of b|.
    """

    items: Floats  # runs × items: ± (probability − right), its bin's sign
    lifted: Floats  # runs


def calibration(hits: Bools, confidence: Floats, bins: int = BINS) -> Calibration:
    """Contributions of every item: their mean is ECE, their spread its error while no bin changes sides.

    An absolute value is never below 0: a model that is calibrated has an ECE above 0. With e_b the sum of a bin's
    deviations d and δ_b its expectation, |e_b| − |δ_b| is at most |e_b − δ_b|, whose mean is √(2/π) of its standard
    error. `lifted` sums that over the bins whose side is unknown, |e_b| ≤ 2 √Σd²: how much too high ECE may be.
    """
    runs, n = confidence.shape
    deviation = confidence - hits
    # A third of fifteen bins is an edge, and rounding must not decide on which side of it an item lies.
    bin_index = np.clip(np.ceil(confidence * bins - 1e-9).astype(np.int64) - 1, 0, bins - 1)
    cell = bin_index + np.arange(runs)[:, None] * bins
    total = np.bincount(cell.ravel(), deviation.ravel(), runs * bins)
    error = np.sqrt(np.bincount(cell.ravel(), (deviation**2).ravel(), runs * bins))
    items = deviation * np.where(total < 0, -1.0, 1.0)[cell]
    unsure = np.where(np.abs(total) <= SURE * error, error, 0.0).reshape(runs, bins).sum(axis=1)
    return Calibration(items, math.sqrt(2 / math.pi) * unsure / max(1, n))


def confidences(scores: npt.NDArray[np.floating]) -> Floats:
    """The predicted class's probability; `scores` is runs × classes × items."""
    shifted = np.asarray(scores - scores.max(axis=1, keepdims=True), np.float64)
    return np.asarray(1 / np.exp(shifted).sum(axis=1))


# The hardest tasks

class Ranked(NamedTuple):
    """A task and by how much its mean loss on hard items exceeds that on all items."""

    task: str
    hard: float
    all: float
    gap: float


def hardest(scores: Scores, n: int = 12, *, method: str = "erm", split: str = "test") -> list[Ranked]:
    """Rank tasks (benchmarks) by how much more hard items cost than the average item; the first n."""
    scores = scores.where(stat=RUN, split=split, metric="nll", by="")
    losses: dict[str, dict[str, list[float]]] = {HARD: {}, ALL: {}}
    for row in scores.take(scores.names == method):
        if row["group"] in losses:
            losses[row["group"]].setdefault(row["benchmark"], []).append(row["value"])
    if not losses[HARD]:
        raise ShiftBenchError(f"No run of method '{method}' has a loss on hard items of {split}. Train it on "
                              "benchmarks of shift 'context' first, or name another method.")
    hard, every = ({task: sum(values) / len(values) for task, values in by_task.items()} for by_task in losses.values())
    return hardest_tasks(hard, every, min(n, len(hard)))


def hardest_tasks(hard: Mapping[str, float], every: Mapping[str, float], n: int = 12) -> list[Ranked]:
    """The n tasks of a suite (§3.2): the largest  mean loss on hard items − mean loss on all items,  largest first.

    Tasks without a loss on hard items (NaN: they have none) do not take part; the name decides between equal ones.

    >>> chosen = hardest_tasks({"car": 0.9, "tie": 0.3, "cat": 0.4}, {"car": 0.4, "tie": 0.1, "cat": 0.1}, 2)
    >>> [ranked.task for ranked in chosen]
    ['car', 'cat']
    """
    for task in hard:
        if task not in every:
            raise unknown("task", task, every, "Mean losses on all items")
    tasks = [Ranked(task, loss, every[task], loss - every[task]) for task, loss in hard.items()
             if math.isfinite(loss) and math.isfinite(every[task])]
    if not 1 <= n <= len(tasks):
        raise ShiftBenchError(f"{n} tasks are asked for, but {len(tasks)} of {len(hard)} have losses on hard and on "
                              "all items. Ask for as many as there are, or train more tasks.")
    return sorted(tasks, key=lambda ranked: (-ranked.gap, ranked.task))[:n]
