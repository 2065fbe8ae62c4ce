"""How often intervals over groupings hold the truth where groups share their items, as CivilComments' sixteen do.

A case has groups × label with each item in every group with some probability, or a small group beside large ones. Per
case: how often the interval of the worst group lies above the truth and below it, in per cent (2.5 each is what a 95 %
interval may), as scored and as if groups were independent; and the same of the mean over groups. Then the tenth
percentile of groups that are drawn themselves. Run: python bench/overlap.py [REPEATS]
"""

import sys
from collections.abc import Iterator

import numpy as np

from shiftbench.core.arrays import Bools, Floats, child
from shiftbench.data.groupings import Grouping
from shiftbench.scoring.intervals import LEVEL, Estimate
from shiftbench.scoring.scorer import by_grouping, percentile
from shiftbench.scoring.worst import lowest

ITEMS = 1200


def cases(rng: np.random.Generator) -> Iterator[tuple[str, Bools, Floats]]:
    """Name, who is in what, and how likely each item is right."""
    for share in (0.1, 0.3, 0.6, 0.95):
        label, named = rng.random(ITEMS) < 0.3, rng.random((ITEMS, 8)) < share
        member = np.hstack([named & label[:, None], named & ~label[:, None]])
        yield f"16 groups, {share:.0%} in each, all 0.7", member, np.full(ITEMS, 0.7)
        yield f"16 groups, {share:.0%} in each, a label 0.6", member, np.where(label, 0.6, 0.9)
        yield f"16 groups, {share:.0%} in each, one lower", member, np.where(label, 0.75, 0.9) - 0.2 * named[:, 0]
    member = np.hstack([np.arange(ITEMS)[:, None] < 20, rng.random((ITEMS, 8)) < 0.5])
    member[:20, 1:] = False
    yield "20 items at 0.7, eight groups at 0.9", member, np.where(member[:, 0], 0.7, 0.9)


def missed(estimate: Estimate, truth: float) -> str:
    low, high = estimate.ends(range(len(estimate.runs)), LEVEL)
    return f"{100 * (low > truth + 1e-9).mean():6.1f}{100 * (high < truth - 1e-9).mean():6.1f}"


def main(repeats: int) -> None:
    rng = child(0, "bench", "overlap")
    print(f"{'above and below the truth, %':40} {'worst':>12} {'independent':>12} {'mean':>12}")
    for name, member, rate in cases(rng):
        part = Grouping.of("", [str(code) for code in range(member.shape[1])], member)
        hits: Bools = rng.random((repeats, len(member))) < rate
        told = {one.metric.removesuffix("[]"): one.estimate for one in by_grouping(hits, part, range(repeats), LEVEL)}
        truth = np.asarray([rate[mine].mean() for mine in member.T])
        ends = lowest(np.add.reduceat(hits[:, part.rows], part.start, axis=1, dtype=np.int64), part.size)
        alone = (100 * np.mean(ends.low > truth.min() + 1e-9), 100 * np.mean(ends.high < truth.min() - 1e-9))
        print(f"{name:40} {missed(told['worst_group_accuracy'], truth.min())} {alone[0]:6.1f}{alone[1]:6.1f} "
              f"{missed(told['mean_group_accuracy'], truth.mean())}")
    for groups, size in ((40, 30), (200, 75), (1000, 75)):
        true = np.percentile(rng.binomial(size, rng.beta(14, 6, 400_000)) / size, 10)
        seen = rng.binomial(size, rng.beta(14, 6, (repeats, groups))) / size
        shown = f"tenth percentile, {groups:,} groups of {size}"
        print(f"{shown:40} {missed(percentile(seen, range(repeats), LEVEL), float(true))}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
