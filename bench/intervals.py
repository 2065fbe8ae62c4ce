"""How often intervals of a worst-group accuracy hold the truth: ours against the usual ones, on drawn groups.

A case is a number of groups, their sizes and their true accuracies; the truth is the lowest of these. Per case and
kind of interval: how often it misses because it lies above the truth and below it, in per cent (2.5 each is what a 95 %
interval may), its mean width, and the bias of its estimate, in points. `percentile` is the bootstrap of the minimum,
`lowest` Wilson's interval of the group seen lowest, `bonferroni` that of all groups at once, `ours` stats.lowest.
Run: python bench/intervals.py [REPEATS]
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shiftbench.arrays import Floats, Ints
from shiftbench.rng import child
from shiftbench.stats import interval, lowest, wilson

REPLICATES = 200


class Case(NamedTuple):
    name: str
    size: Ints
    truth: Floats


class Ends(NamedTuple):
    low: Floats
    estimate: Floats
    high: Floats


def cases() -> Iterator[Case]:
    for groups in (4, 12, 100):
        for n in (20, 50, 300):
            size, step = np.full(groups, n), np.sqrt(0.21 / n)  # a standard error at 0.7
            def case(name: str, truth: Floats, size: Ints = size, n: int = n, groups: int = groups) -> Case:
                return Case(f"{groups:3} × {n:3}  {name}", size, np.clip(truth, 0, 1))
            for rate in (0.03, 0.5, 0.95):
                yield case(f"all {rate}", np.full(groups, rate))
            yield case("one 0.5, others 0.9", np.append(0.5, np.full(groups - 1, 0.9)))
            yield case("one 0.85, others all right", np.append(0.85, np.ones(groups - 1)))
            yield case("0.7 and up to 2 s.e. above", 0.7 + step * np.linspace(0, 2, groups))
            yield case("one 1 s.e. below the others", 0.7 + step * (np.arange(groups) > 0))
            yield case("one 2 s.e. below the others", 0.7 + 2 * step * (np.arange(groups) > 0))
            yield case("0.6 to 0.95", np.linspace(0.6, 0.95, groups))
        size = np.append(20, np.full(groups - 1, 400))
        yield Case(f"{groups:3} × 20|400  small one worst", size, np.append(0.7, np.full(groups - 1, 0.9)))
        yield Case(f"{groups:3} × 20|400  all 0.8", size, np.full(groups, 0.8))
        yield Case(f"{groups:3} ×  30  all right", np.full(groups, 30), np.ones(groups))
        yield Case(f"{groups:3} ×  30  one all wrong", np.full(groups, 30), np.append(0.0, np.full(groups - 1, 0.9)))


def intervals(right: Ints, size: Ints, rng: np.random.Generator) -> dict[str, Ends]:
    rate = right / size
    seen, one = rate.min(axis=1), np.arange(len(rate))
    draws = np.stack([(rng.binomial(size, mine, (REPLICATES, len(size))) / size).min(axis=1) for mine in rate], axis=1)
    low, high = wilson(rate, size)
    wide_low, wide_high = wilson(rate, size, 1 - 0.05 / len(size))
    return {"percentile": Ends(interval(draws)[0], seen, interval(draws)[1]),
            "lowest": Ends(low[one, rate.argmin(axis=1)], seen, high[one, rate.argmin(axis=1)]),
            "bonferroni": Ends(wide_low.min(axis=1), seen, wide_high.min(axis=1)),
            "ours": Ends(*lowest(right, size))}


def main(repeats: int) -> None:
    rng = child(0, "bench", "coverage")
    found: dict[str, list[tuple[float, ...]]] = {}
    for place, case in enumerate(cases()):
        truth = float(case.truth.min())
        right = rng.binomial(case.size, case.truth, (repeats, len(case.size)))
        shown = []
        for kind, (low, estimate, high) in intervals(right, case.size, rng).items():
            misses = float((low > truth + 1e-6).mean()), float((high < truth - 1e-6).mean())
            row = (*misses, float((high - low).mean()), float((estimate - truth).mean()))
            found.setdefault(kind, []).append(row)
            shown.append("{:6.1f}{:6.1f}{:6.1f}{:+6.1f}".format(*(100 * x for x in row)))
        if not place:
            print(" " * 40 + "    ".join(f"{kind:<24}" for kind in found))
            print(f"{'groups × items':40}" + "    ".join(" above below width  bias" for _ in found))
        print(f"{case.name:40}" + "    ".join(shown), flush=True)
    for kind, rows in found.items():
        above, below, width, bias = np.asarray(rows).T
        held = 100 * (1 - above - below)
        print(f"{kind:12} holds the truth: least {held.min():5.1f} %, a tenth of the cases under "
              f"{np.quantile(held, 0.1):5.1f} %, mean {held.mean():5.1f} %; width {100 * width.mean():5.1f}, "
              f"|bias| {100 * np.abs(bias).mean():4.1f} points")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
