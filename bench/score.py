"""`shiftbench.score` of 1 M predictions of 62 classes in 1,000 groups: every group's accuracy, the worst, intervals.

Two references. The evaluation of the WILDS package (2.0.0), by itself where it can be imported and in its way where
not: take the class of the largest logit, and for every group select its items out of all and average their hits. It
matches no ids and has no losses, no macro F1 and no intervals. For intervals, the usual way: 1,000 bootstrap replicates
of each group, timed on a sample of the groups and scaled to all. The accuracies of all three must agree.
Run: python bench/score.py; after make test-real, with the package: PYTHONPATH=build/real/wilds python bench/score.py
"""

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import shiftbench as sb
from shiftbench.core.arrays import Bools, Floats, Ints, child
from shiftbench.data.scores import ALL, Scores

ITEMS, GROUPS, CLASSES = 1_000_000, 1_000, 62
TIMES, SAMPLED, REPLICATES = 3, 40, 1_000


def made() -> tuple[sb.Benchmark, sb.Predictions]:
    """Labels with a long tail, groups of uneven size, logits whose largest is the label four times in five."""
    rng = child(0, "bench", "score")
    tail = 1 / np.arange(1, CLASSES + 1)
    label = rng.choice(CLASSES, ITEMS, p=tail / tail.sum())
    group = rng.choice(GROUPS, ITEMS, p=rng.dirichlet(np.full(GROUPS, 5.0)))
    group[:GROUPS], label[:CLASSES] = np.arange(GROUPS), np.arange(CLASSES)
    words = np.asarray([f"class {code:03}" for code in range(CLASSES)])
    places = np.asarray([f"camera {code:04}" for code in range(GROUPS)])
    items = sb.Collection("bench", [f"i{number:07}" for number in range(ITEMS)])
    benchmark = sb.Benchmark.of(items, None, 0, np.arange(ITEMS), np.full(ITEMS, "test"), label=words[label],
                                domain=places[group], group=places[group])
    logits = rng.normal(size=(ITEMS, CLASSES)).astype(np.float32)
    logits[np.arange(ITEMS), np.where(rng.random(ITEMS) < 0.8, label, rng.integers(CLASSES, size=ITEMS))] += 6
    return benchmark, sb.Predictions(benchmark.items, benchmark.split, logits, benchmark.names["label"])


def reference(benchmark: sb.Benchmark, predictions: sb.Predictions) -> Floats:
    """The accuracy of every group, in a loop over groups."""
    predicted = predictions.scores.argmax(axis=1)
    hits = predicted == benchmark.label
    return np.asarray([hits[benchmark.group == code].mean() for code in range(GROUPS)])


def package() -> Callable[[sb.Benchmark, sb.Predictions], Floats] | None:
    """The same by the package; None where it is not there."""
    try:
        import torch
        from wilds.common.metrics.all_metrics import Accuracy, multiclass_logits_to_pred
    except ImportError:
        return None

    def evaluate(benchmark: sb.Benchmark, predictions: sb.Predictions) -> Floats:
        logits, label, group = map(torch.from_numpy, (predictions.scores, benchmark.label, benchmark.group))
        metric = Accuracy(prediction_fn=multiclass_logits_to_pred)
        return np.asarray(metric.compute_group_wise(logits, label, group, GROUPS, return_dict=False)[0])

    return evaluate


def bootstrapped(hits: Bools, group: Ints) -> list[Floats]:
    """Percentile intervals of the accuracies of the sampled groups."""
    rng, ends = child(0, "bench", "bootstrap"), []
    for code in range(0, GROUPS, GROUPS // SAMPLED):
        part = hits[group == code]
        draws = part[rng.integers(len(part), size=(REPLICATES, len(part)))].mean(axis=1)
        ends.append(np.quantile(draws, [0.025, 0.975]))
    return ends


def timed(work: Callable[..., Any], *words: Any, **options: Any) -> tuple[float, Any]:
    """The median time, and what came of it."""
    times = []
    for _ in range(TIMES):
        start = time.perf_counter()
        found = work(*words, **options)
        times.append(time.perf_counter() - start)
    return float(np.median(times)), found


def main() -> None:
    benchmark, predictions = made()
    own = package()
    loop, theirs = timed(own or reference, benchmark, predictions)
    part, _ = timed(bootstrapped, predictions.scores.argmax(axis=1) == benchmark.label, benchmark.group)
    usual = loop + part * GROUPS / SAMPLED
    sb.score(benchmark, predictions, replicates=0)  # what is compiled on first use
    plain, _ = timed(sb.score, benchmark, predictions, replicates=0)
    whole, scores = timed(sb.score, benchmark, predictions)
    assert isinstance(scores, Scores)
    accuracy = scores.where(split="test", metric="accuracy")
    ours = {row["group"]: row["value"] for row in accuracy if row["group"] != ALL}
    if not np.allclose([ours[name] for name in benchmark.names["group"]], theirs):
        raise SystemExit("the two ways disagree")
    (worst,) = scores.where(split="test", metric="worst_group_accuracy")
    whose = "the package wilds 2.0.0" if own else "a loop over groups"
    print(f"{ITEMS:,} predictions, {GROUPS:,} groups, {CLASSES} classes; medians of {TIMES}")
    print(f"accuracy of every group, {whose:27}{loop:8.3f} s")
    print(f"the same with bootstrap intervals ({SAMPLED} groups, scaled) {usual:8.3f} s")
    print(f"shiftbench.score, {len(scores):,} numbers, no intervals     {plain:8.3f} s")
    print(f"shiftbench.score, all of them with intervals        {whole:8.3f} s")
    print(f"worst group {worst['value']:.4f} [{worst['low']:.4f}, {worst['high']:.4f}]")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    print(f"ratio without intervals: {loop / plain:.1f}")
    print(f"ratio: {usual / whole:.1f}")


if __name__ == "__main__":
    main()
