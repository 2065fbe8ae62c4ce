"""Group-wise macro F1 and worst-group intervals on 1 M predictions × 1,000 groups × 182 classes.

The reference is the WILDS package (2.0.0) itself where it can be imported, and its way where not: for every group,
select its items out of all and give them to scikit-learn's f1_score over the classes in their truth, timed on a sample
of the groups and scaled to all. Both sides start from the same predicted classes, and their values must agree.
Run: python bench/score.py; after make test-real, with the package: PYTHONPATH=build/real/wilds python bench/score.py
"""

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.rng import child
from shiftbench.scoring.estimates import worst_share
from shiftbench.scoring.metrics import tally

ITEMS, GROUPS, CLASSES, SAMPLED = 1_000_000, 1_000, 182, 40


def table() -> tuple[Ints, Ints, Ints]:
    """Labels with a long tail, predictions that are right four times in five, groups of uneven size."""
    rng = child(0, "bench", "score")
    tail = 1 / np.arange(1, CLASSES + 1)
    label = rng.choice(CLASSES, ITEMS, p=tail / tail.sum())
    predicted = np.where(rng.random(ITEMS) < 0.8, label, rng.integers(CLASSES, size=ITEMS))
    group = rng.choice(GROUPS, ITEMS, p=rng.dirichlet(np.full(GROUPS, 5.0)))
    return label, predicted, group


def reference(label: Ints, predicted: Ints, group: Ints, codes: Ints) -> Floats:
    values = []
    for code in codes:
        mine = group == code
        truth, guess = label[mine], predicted[mine]
        values.append(f1_score(truth, guess, average="macro", labels=np.unique(truth), zero_division=0))
    return np.asarray(values)


def package() -> Callable[..., Any] | None:
    """Group-wise macro F1 of the package; None where it is not there."""
    try:
        from wilds.common.metrics.all_metrics import F1
    except ImportError:
        return None
    return F1(average="macro").compute_group_wise


def main() -> None:
    label, predicted, group = table()
    own = package()
    if own is None:
        codes = np.sort(child(0, "bench", "sample").choice(GROUPS, SAMPLED, replace=False))
        start = time.perf_counter()
        theirs = reference(label, predicted, group, codes)
        loop = (time.perf_counter() - start) * GROUPS / SAMPLED
        whose = f"a loop of f1_score  {loop:8.3f} s   ({SAMPLED} groups timed, scaled)"
    else:
        import torch

        codes = np.arange(GROUPS)
        tensors = [torch.from_numpy(part) for part in (predicted, label, group)]
        start = time.perf_counter()
        theirs = own(*tensors, GROUPS, return_dict=False)[0].numpy()
        loop = time.perf_counter() - start
        whose = f"by the package      {loop:8.3f} s   (wilds 2.0.0, all groups)"
    times = []
    for _ in range(5):
        start = time.perf_counter()
        ours = tally(label, predicted, group, GROUPS, n_classes=CLASSES).macro_f1
        times.append(time.perf_counter() - start)
    count = float(np.median(times))
    if not np.allclose(ours[codes], theirs):
        raise SystemExit("the two ways disagree")
    start = time.perf_counter()
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(GROUPS))
    worst = worst_share((label == predicted)[None, order], first, [0], 0.95).estimate
    low, high = (float(end[0, 0]) for end in worst.ends([0], 0.95))
    interval = time.perf_counter() - start
    print(f"{ITEMS:,} predictions, {GROUPS:,} groups, {CLASSES} classes")
    print(f"macro F1 of every group, {whose}")
    print(f"macro F1 of every group, counted at once     {count:8.3f} s   (median of 5)")
    print(f"worst-group accuracy with its interval       {interval:8.3f} s   [{low:.4f}, {high:.4f}]")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory                                  {peak:8.0f} MB")
    print(f"ratio: {loop / count:.1f}")


if __name__ == "__main__":
    main()
