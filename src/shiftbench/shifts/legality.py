"""What kind of shift a benchmark has, and which in-distribution settings can be made of it (Koh et al., 2021).

    P_train = Σ_d q_train(d) P_d,    P_test = Σ_d q_test(d) P_d,    D = {d : q(d) > 0} on each side
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from shiftbench.arrays import Bools, Ints
from shiftbench.benchmark import Benchmark
from shiftbench.groupings import grouping, untitled

SETTINGS = ("test-to-test", "mixed-to-test", "train-to-train", "average", "random-split")
"""Those of §5.2; the first two keep the distribution that is tested, and so isolate the shift."""
GENERALIZATION, SUBPOPULATION, HYBRID = "domain generalization", "subpopulation shift", "hybrid"

LEAST = 30
"""Items to test on, at least: below, an interval says nothing (as `shiftbench check` has it)."""
FEW = 10
"""Items of a class or domain of test under which half of them are too few to train on."""
SPARSE = 0.1
"""Share of test that may lie in such classes or domains."""


def kind_of(benchmark: Benchmark) -> str:
    """Which of the three problems of §3 it is, by the domains of training and test.

        domain generalization   D_test ∩ D_train = ∅
        subpopulation shift     D_test ⊆ D_train
        hybrid                  some test domains are seen in training and some are not, or none is and groups of
                                another factor are seen on both sides (FMoW: years are new, regions are not)

    The groups are the benchmark's own, and those by which its headline ranks.
    """
    seen = _seen(benchmark.domain, benchmark)
    if seen.all():
        return SUBPOPULATION
    rows = benchmark.rows("test")
    cells = np.unique(np.stack([benchmark.label[rows], benchmark.group[rows]]), axis=1).shape[1]
    crossed = cells > len(np.unique(benchmark.label[rows])) and _seen(benchmark.group, benchmark).any()
    return HYBRID if seen.any() or crossed or _ranked_groups_are_seen(benchmark) else GENERALIZATION


def _ranked_groups_are_seen(benchmark: Benchmark) -> bool:
    """Whether the headline is of a grouping, groups of which are in training and in test."""
    said = untitled(str(benchmark.card.get("headline") or ""))[1]
    if not said:
        return False
    found = grouping(benchmark, said, strict=False)
    sides = [found.group[benchmark.split[found.rows] == split] for split in ("train", "test")]
    return bool(np.isin(*sides).any())


def legal(benchmark: Benchmark, *, unseen: bool = False) -> dict[str, str]:
    """Every setting by name, with the reason why it cannot be made and what to do instead; empty where it can.

    With `unseen`, average is legal for groups that are not in training.
    """
    found: dict[str, Callable[[Benchmark], str]] = {
        "test-to-test": _test_to_test, "mixed-to-test": _mixed_to_test, "train-to-train": _train_to_train,
        "average": partial(_average, unseen=unseen), "random-split": _random_split}
    broken = _broken(benchmark)
    return {setting: broken or found[setting](benchmark) for setting in SETTINGS}


def _broken(benchmark: Benchmark) -> str:
    for split in ("train", "test"):
        if not len(benchmark.rows(split)):
            return f"There is no split '{split}', so there is nothing to compare. Build the benchmark with one."
    if len(np.unique(benchmark.items)) < len(benchmark):
        return "Some items stand in two rows, so that training and test may share them. See shiftbench check."
    return ""


def _test_to_test(benchmark: Benchmark) -> str:
    small = _mixed_to_test(benchmark)
    if small:
        return small
    rows = np.concatenate([benchmark.rows("test"), benchmark.rows("target_train")])
    for column, many in (("label", "classes"), ("domain", "domains")):
        codes = getattr(benchmark, column)[rows]
        count = np.bincount(codes)
        sparse = count[codes] < FEW
        if sparse.mean() > SPARSE:
            return (f"{int(((count > 0) & (count < FEW)).sum())} of the {int((count > 0).sum())} {many} of test have "
                    f"under {FEW} items, and hold {sparse.mean():.0%} of them: too few to train on as well. Choose "
                    "mixed-to-test, which keeps training items of the others, or train-to-train.")
    return ""


def _mixed_to_test(benchmark: Benchmark) -> str:
    n = len(benchmark.rows("test"))
    if n < 2 * LEAST and not (n >= LEAST and len(benchmark.rows("target_train"))):
        return (f"Test has {n} items; if half of them go to training, under {LEAST} are left to test on. Build a "
                "larger test, or choose train-to-train.")
    return "Training has 1 item, and a mixture needs two." if len(benchmark.rows("train")) < 2 else ""


def _train_to_train(benchmark: Benchmark) -> str:
    if len(benchmark.rows("id_test")):
        return ""
    n = len(benchmark.rows("train"))
    if n < 2 * LEAST:
        return (f"There is no id_test, and training has {n} items: too few to draw {LEAST} from. Build the benchmark "
                "with an id_test, or with more training items.")
    return _noisy(benchmark, "There is no id_test, and one drawn from training would have wrong labels")


def _average(benchmark: Benchmark, unseen: bool) -> str:
    groups = np.unique(benchmark.group[benchmark.rows("test")])
    if len(groups) < 2:
        return "Test has one group, so its average is its worst. Build the benchmark with groups."
    new = int((~_seen(benchmark.group, benchmark)).sum())
    if new and not unseen:
        return (f"{new} of the {len(groups)} groups of test are not in training: they are no subpopulations of it, and "
                "their average is not in distribution either. Choose another setting, or, to set new groups against "
                "their average as the paper does with Amazon's new users, say so: --unseen.")
    return ""


def _random_split(benchmark: Benchmark) -> str:
    return _noisy(benchmark, "A test dealt from all items would have wrong labels")


def _noisy(benchmark: Benchmark, what: str) -> str:
    if "true_label" not in benchmark.extra:
        return ""
    return f"{what}: those of training were made noisy. Make the setting without the condition 'noise'."


def _seen(codes: Ints, benchmark: Benchmark) -> Bools:
    """Which of the codes of test are in training too."""
    return np.isin(np.unique(codes[benchmark.rows("test")]), codes[benchmark.rows("train")])
