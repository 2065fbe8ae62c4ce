"""Scores of annotators and models on the same pairs of superclasses.

Answers are not independent: those of one annotator are alike, and so are those to one pair, so the intervals are
clustered by both. How far annotators agree with each other is scored too, independent of the truth.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, child, encode, positions
from shiftbench.core.errors import printable
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, Scores
from shiftbench.human.answers import Answers, pair_name, read_answers
from shiftbench.human.pages import Key, find_key
from shiftbench.reporting.terminal import score_tables
from shiftbench.scoring import GAP, score_models
from shiftbench.scoring.intervals import LEVEL, REPLICATES, effective, interval, normal_quantile, student, wilson
from shiftbench.scoring.metrics import percent

if TYPE_CHECKING:
    from rich.table import Table

HUMAN = "human"
"""The method name of the annotators' scores."""
METRIC = "pairwise_accuracy"
METRICS = (METRIC, f"{METRIC}_gap", "answered", "agreement", "fleiss_kappa")
"""The metrics that a human study adds to a table of scores."""
Row = dict[str, Any]


def score_people(
    benchmark: Benchmark, answers: Sequence[Path | str], models: Mapping[str, Any], study: Path | str | None = None,
    **options: Any,
) -> Scores:
    """Scores of models, of annotators, and of classifiers on the pairs of superclasses that annotators saw."""
    key = find_key(study, answers)
    key.check(benchmark)
    intervals = {name: options[name] for name in ("level", "replicates") if name in options}
    people = [human_scores(benchmark, key, read_answers(answers, key), **intervals)] if answers else []
    scores = score_models(benchmark, models, **options)
    classifiers = [(name, model) for name, model in models.items() if isinstance(model, Predictions)]
    return Scores.join([scores, *people, model_scores(benchmark, key, classifiers, **intervals)])


def human_scores(
    benchmark: Benchmark, key: Key, answers: Answers, *, level: float = LEVEL, replicates: int = REPLICATES
) -> Scores:
    """Annotators' `pairwise_accuracy` per condition, over both and per pair; `agreement` and `fleiss_kappa`.

    The split of a score is where the images were from: `id_test` for the source control, `test` for the target. Over
    all pairs the interval is clustered by annotator and pair; for a single pair it is Wilson's. `answered` is the share
    of images sorted in the tasks that were begun; the others count as missing, not as wrong.
    """
    head = {"run": HUMAN, "benchmark": benchmark.name, "digest": benchmark.short_digest, "method": HUMAN, "seed": 0}
    annotator, pair, question = encode(answers.annotator)[0], encode(answers.pair)[0], answers.question
    rows: list[Row] = []

    def add(split: str, group: str, n: int, metric: str, value: float, low: float, high: float) -> None:
        ends = (low, high) if replicates else (math.nan, math.nan)
        rows.append({**head, "split": split, "group": group, "n": n, "metric": metric, "value": value, "low": ends[0],
                     "high": ends[1]})

    def share(split: str, of: Bools) -> None:
        right = answers.right[of]
        add(split, ALL, len(right), METRIC, float(right.mean()),
            *clustered(right, annotator[of], pair[of], question[of], level))

    answered = [split for split in key.splits.values() if (answers.split == split).any()]
    for split in answered:
        of = answers.split == split
        share(split, of)
        for name in sorted(set(answers.pair[of].tolist())):
            right = answers.right[of & (answers.pair == name)]
            low, high = wilson(float(right.mean()), len(right), level)
            add(split, name, len(right), METRIC, float(right.mean()), float(low), float(high))
        asked = int(of.sum()) + answers.missing[split]
        add(split, ALL, asked, "answered", int(of.sum()) / asked, math.nan, math.nan)
        agreed = _agreement(answers, of, level, replicates)
        if agreed.n:
            add(split, ALL, agreed.n, "agreement", *agreed.raw)
            add(split, ALL, agreed.n, "fleiss_kappa", *agreed.kappa)
    if len(answered) == 2:
        share("+".join(answered), np.ones(len(answers), np.bool_))
        gap, half = _gap(answers, answered, annotator, pair, level)
        add(GAP, ALL, int((answers.split == answered[1]).sum()), f"{METRIC}_gap", gap, gap - half, gap + half)
    return Scores.of(rows)


def model_scores(
    benchmark: Benchmark, key: Key, models: Sequence[tuple[str, Predictions]], *, level: float = LEVEL,
    replicates: int = REPLICATES,
) -> Scores:
    """Each model's pairwise accuracy on the pairs of the human study: over all of them, and on each.

    All items of a pair's split count, not only those that annotators saw, and both superclasses count alike, as in a
    task with equally many of each. The interval is Wilson's at the number of independent items with the same variance;
    the gap's is normal. With 0 replicates there are no intervals.
    """
    rows: list[Row] = []
    names = list(benchmark.names["label"])
    pairs = [(names.index(a), names.index(b)) for a, b in key.pairs]
    for name, model in models:
        head = {"run": name, "benchmark": benchmark.name, "digest": benchmark.short_digest, "method": name, "seed": 0}
        means: list[PairMean] = []
        for split in key.splits.values():
            predicted = np.flatnonzero(model.split == split)
            if not len(predicted):
                continue
            label = benchmark.label[positions(model.item[predicted], benchmark.items)]
            table = model.scores[predicted]
            means.append(over_pairs(label, table, pairs, balanced=True))
            rows.append({**head, "split": split, "group": ALL, **_ends(means[-1], level)})
            rows += [{**head, "split": split, "group": pair_name(pair),
                      **_ends(over_pairs(label, table, [codes], balanced=True), level)}
                     for pair, codes in zip(key.pairs, pairs, strict=True)]
        if len(means) == 2:
            gap = means[0].value - means[1].value
            half = float(student(math.inf, level)) * math.sqrt(means[0].variance + means[1].variance)
            rows.append({**head, "split": GAP, "group": ALL, "n": means[1].n, "metric": f"{METRIC}_gap", "value": gap,
                         "low": gap - half, "high": gap + half})
    return Scores.of(rows if replicates else [{**row, "low": math.nan, "high": math.nan} for row in rows])


class PairMean(NamedTuple):
    """A mean over pairs of classes, its variance through the items, and how many comparisons it is made of."""

    value: float
    variance: float
    n: int


def over_pairs(
    label: Ints, scores: npt.NDArray[np.floating], pairs: Sequence[tuple[int, int]], *, balanced: bool = False
) -> PairMean:
    """Mean over these pairs of classes, each once, of the accuracy when only the two are asked for (BREEDS, A.7.2).

    With wins[a, b] the items of class a with a higher score for a than for b, a tie counting half, it is

        A[a, b] = (wins[a, b] + wins[b, a]) / (size[a] + size[b]).

    `balanced` counts both classes alike whatever their sizes, as a task does that asks for equally many of each:
    A[a, b] = (wins[a, b] / size[a] + wins[b, a] / size[b]) / 2. A pair with an empty class is left out. An item takes
    part in every pair of its class, so its parts are summed before their spread is taken:

        mean = Σ_i c_i,   Var = Σ_a n_a / (n_a − 1) Σ_{i in a} (c_i − mean over a)².
    """
    n_classes = scores.shape[1]
    chosen = np.zeros((n_classes, n_classes))
    for a, b in pairs:
        chosen[a, b] = chosen[b, a] = 1.0
    size = np.bincount(label, minlength=n_classes).astype(np.float64)
    chosen[size == 0] = chosen[:, size == 0] = 0.0
    if not chosen.any():
        return PairMean(math.nan, math.nan, 0)
    weight = chosen / (2 * size[:, None] if balanced else size[:, None] + size).clip(1) / (chosen.sum() / 2)
    own = scores[np.arange(len(label)), label][:, None]
    wins = (own > scores) + 0.5 * (own == scores)  # of an item's own class over every class; a tie counts half
    contribution = (wins * weight[label]).sum(axis=1)
    centre = np.bincount(label, contribution, n_classes) / size.clip(1)
    spread = np.bincount(label, (contribution - centre[label]) ** 2, n_classes)
    return PairMean(float(contribution.sum()), float((spread * size / (size - 1).clip(1)).sum()),
                    int((chosen.sum(axis=1) * size).sum()))


def _ends(mean: PairMean, level: float) -> Row:
    size = effective(np.asarray(mean.value), np.asarray(mean.variance), mean.n)
    low, high = wilson(mean.value, size, level)
    return {"n": mean.n, "metric": METRIC, "value": mean.value, "low": float(low), "high": float(high)}


def _gap(answers: Answers, splits: list[str], annotator: Ints, pair: Ints, level: float) -> tuple[float, float]:
    """Source minus target, and half its interval: both were sorted by the same people and for the same pairs."""
    influence: Floats = np.zeros(len(answers))
    means = []
    for sign, split in ((1, splits[0]), (-1, splits[1])):
        of = answers.split == split
        means.append(float(answers.right[of].mean()))
        influence[of] = sign * (answers.right[of] - means[-1]) / of.sum()
    spread = two_way(influence, annotator, pair)
    if not spread.freedom:
        return means[0] - means[1], math.nan
    return means[0] - means[1], float(student(spread.freedom, level)) * math.sqrt(spread.variance)


def answer_notes(answers: Sequence[Path], study: Path | None) -> tuple[str, ...]:
    """Notes on files of answers: repeated and missing answers."""
    return read_answers(answers, find_key(study, answers)).notes if answers else ()


# Intervals of clustered answers

class Spread(NamedTuple):
    """The variance of an estimate whose answers are clustered, and the degrees of freedom it was estimated with."""

    variance: float
    freedom: float


def clustered(right: Bools, annotator: Ints, pair: Ints, question: Ints, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval at the number of independent answers that would vary as much as these do.

    With few clusters the normal quantile is too short: the number is lowered by (z / t)². It is never above the number
    of answers; where all are right, or there is one cluster, it is the number of different questions.
    """
    n, value = len(right), float(right.mean()) if len(right) else math.nan
    spread = two_way((right - value) / max(n, 1), annotator, pair)
    size = float(len(np.unique(question)))
    if spread.variance > 0:
        plain = min(value * (1 - value) / spread.variance, float(n))
        size = plain * (normal_quantile(level) / float(student(spread.freedom, level))) ** 2
    low, high = wilson(value, size, level)
    return float(low), float(high)


def two_way(influence: Floats, annotator: Ints, pair: Ints) -> Spread:
    """Variance of Σ influence with answers clustered by annotator and by pair (Cameron, Gelbach and Miller, 2011).

        V = V_annotator + V_pair − V_both,    V_C = G / (G − 1) Σ_g (Σ_{i in g} influence_i)²,   G clusters of kind C

    V is never less than either kind alone. With one annotator V is V_pair, and the interval is about other pairs for
    this annotator; with one pair it is the reverse. Degrees of freedom are Satterthwaite's.
    """
    both = _one_way(influence, annotator * (int(pair.max(initial=0)) + 1) + pair)
    ways = [way for way in (_one_way(influence, annotator), _one_way(influence, pair)) if way.freedom > 0]
    if not ways:
        return Spread(0.0, 0.0)
    total = sum(way.variance for way in ways) - (both.variance if len(ways) > 1 else 0.0)
    variance = max(total, *(way.variance for way in ways))
    weight = sum(way.variance**2 / way.freedom for way in ways)
    freedom = sum(way.variance for way in ways) ** 2 / weight if weight > 0 else max(way.freedom for way in ways)
    return Spread(variance, freedom)


def _one_way(influence: Floats, cluster: Ints) -> Spread:
    codes = np.unique(cluster, return_inverse=True)[1]
    groups = int(codes.max(initial=-1)) + 1
    if groups < 2:
        return Spread(0.0, 0.0)
    return Spread(groups / (groups - 1) * float((np.bincount(codes, influence) ** 2).sum()), groups - 1.0)


# Agreement of annotators

class Agreement(NamedTuple):
    """Raw agreement and kappa with their intervals, over `n` images that two annotators or more have sorted."""

    n: int
    raw: tuple[float, float, float]
    kappa: tuple[float, float, float]


def _agreement(answers: Answers, of: Bools, level: float, replicates: int) -> Agreement:
    questions, first, code = np.unique(answers.question[of], return_index=True, return_inverse=True)
    counts = np.zeros((len(questions), 2), np.int64)
    np.add.at(counts, (code, answers.chosen[of]), 1)
    return agreement(counts, encode(answers.task[of][first])[0], level=level, replicates=replicates)


def agreement(
    counts: Ints, task: Ints, *, level: float = LEVEL, replicates: int = REPLICATES, seed: int = 0
) -> Agreement:
    """Agreement over the images of several tasks; `counts[i, j]` annotators put image i of `task[i]` into group j.

        P_i = Σ_j n_ij (n_ij − 1) / (n_i (n_i − 1)),    p_j = Σ_i n_ij / Σ_i n_i
        κ = (mean P_i − mean Σ_j p_j²) / (1 − mean Σ_j p_j²)

    The two groups of one task have nothing to do with those of another, so chance (Σ_j p_j²) is computed within each
    task and averaged over images: with one task this is the kappa of Fleiss (1971), and it does not matter which group
    comes first. Images need not all have the same number of annotators; those with fewer than two are left out. NaN
    where only one group was ever chosen: then chance alone agrees. Intervals are percentiles of a bootstrap over tasks,
    NaN with one task.
    """
    several = counts.sum(axis=1) > 1
    counts, task = counts[several], np.unique(task[several], return_inverse=True)[1]
    if not len(counts):
        return Agreement(0, (math.nan,) * 3, (math.nan,) * 3)
    n = np.bincount(task).astype(np.float64)
    raw = np.bincount(task, _agreeing(counts)).astype(np.float64)
    chosen = np.stack([np.bincount(task, counts[:, side]) for side in range(counts.shape[1])], axis=1)
    chance = n * ((chosen / chosen.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
    values = _both(np.ones((1, len(n))), n, raw, chance)[0]
    times = child(seed, "annotation", "agreement").multinomial(
        len(n), np.full(len(n), 1 / len(n)), size=replicates if len(n) > 1 else 0)
    low, high = interval(_both(times.astype(np.float64), n, raw, chance), level)
    observed, kappa = ((float(values[k]), float(low[k]), float(high[k])) for k in (0, 1))
    return Agreement(len(counts), observed, kappa)


def _both(weight: Floats, n: Floats, raw: Floats, chance: Floats) -> Floats:
    """Raw agreement and kappa for each row of weights over tasks."""
    with np.errstate(invalid="ignore", divide="ignore"):
        observed, expected = (weight @ raw) / (weight @ n), (weight @ chance) / (weight @ n)
        return np.stack([observed, np.where(expected < 1, (observed - expected) / (1 - expected), np.nan)], axis=1)


def _agreeing(counts: Ints) -> Floats:
    """The share of an item's annotator pairs that agree, for every item."""
    each = counts.sum(axis=1)
    return np.asarray((counts * (counts - 1)).sum(axis=1) / (each * (each - 1)))


# Tables for a terminal

def tables(scores: Scores, level: float = LEVEL) -> "list[Table]":
    """The usual table of all other scores, then the scores of people on pairs, then every pair."""
    study = np.isin(scores["metric"], METRICS)
    others, people = scores.take(~study), scores.take(study)
    return [*score_tables(others), *([study_table(people, level), pairs_table(people)] if len(people) else [])]


def study_table(scores: Scores, level: float = LEVEL) -> "Table":
    """A row per method and split; annotators also have the interval that treats all answers as independent."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Two superclasses at a time", title_justify="left")
    for name in ("who", "split", "metric"):
        drawn.add_column(name)
    for name in ("n", "%", "interval", "if independent"):
        drawn.add_column(name, justify="right")
    before = ""
    for row in scores.where(group=ALL):
        plain = ""
        if row["method"] == HUMAN and row["metric"] == METRIC and not math.isnan(row["low"]):
            plain = "–".join(percent(float(end)) for end in wilson(row["value"], row["n"], level))
        kappa = row["metric"] == "fleiss_kappa"
        value, low, high = (f"{row[name]:.2f}" if kappa else percent(row[name]) for name in ("value", "low", "high"))
        ends = "" if math.isnan(row["low"]) else f"{low}{' to ' if row['low'] < 0 else '–'}{high}"
        drawn.add_row(Text(printable(row["method"]) if row["method"] != before else ""), Text(printable(row["split"])),
                      Text(printable(row["metric"]).replace("_", " ")), f"{row['n']:,}", Text(value, "bold"),
                      Text(ends, "dim"), Text(plain, "dim"))
        before = row["method"]
    return drawn


def pairs_table(scores: Scores) -> "Table":
    """A row per pair, a column per method and split, the pairs with the lowest value first."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    accuracy = {(row["group"], row["method"], row["split"]): row["value"] for row in scores
                if row["metric"] == METRIC and row["group"] != ALL}
    columns = list(dict.fromkeys((method, split) for _, method, split in accuracy))
    pairs = sorted({pair for pair, _, _ in accuracy}, key=lambda pair: (
        min((value for (name, _, _), value in accuracy.items() if name == pair), default=1.0), pair))
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Pairwise accuracy, per cent", title_justify="left")
    drawn.add_column("pair")
    for method, split in columns:
        drawn.add_column(Text(f"{printable(method)}\n{printable(split)}"), justify="right")
    for pair in pairs:
        values = [percent(accuracy[pair, *column]) if (pair, *column) in accuracy else "–" for column in columns]
        drawn.add_row(Text(printable(pair)), *values)
    return drawn
