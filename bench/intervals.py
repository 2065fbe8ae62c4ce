"""How often intervals of a worst-group accuracy hold the truth, and how long they are: ours against the usual ones.

A case is a number of groups, their sizes and their true accuracies; the truth is the lowest of these. Per case and kind
of interval: how often it lies above the truth and below it, in per cent (2.5 each is what a 95 % interval may), its
mean length, and the bias of its estimate, in points.

    percentile   the bootstrap of the minimum
    lowest       Wilson's interval of the group seen lowest
    wilson       Bonferroni's interval over all groups, of Wilson's limits
    bonferroni   the same of Clopper's and Pearson's limits, which hold at every size
    ours         `worst.lowest`

The last line is how much longer Bonferroni's valid interval is than ours, the mean ratio of lengths over cases.
Run: python bench/intervals.py [REPEATS]
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from shiftbench.core.arrays import Floats, Ints, child
from shiftbench.scoring.intervals import interval, wilson
from shiftbench.scoring.worst import lowest

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
    yield from equal_sizes()
    yield from unequal_sizes()


def equal_sizes() -> Iterator[Case]:
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
        yield Case(f"{groups:3} ×  30  all right", np.full(groups, 30), np.ones(groups))
        yield Case(f"{groups:3} ×  30  one all wrong", np.full(groups, 30), np.append(0.0, np.full(groups - 1, 0.9)))
        yield Case(f"{groups:3} × 1000  one 0.99, others 0.995", np.full(groups, 1000),
                   np.append(0.99, np.full(groups - 1, 0.995)))


def unequal_sizes() -> Iterator[Case]:
    for groups in (4, 12, 100):
        size = np.append(20, np.full(groups - 1, 400))
        yield Case(f"{groups:3} × 20|400  small one worst", size, np.append(0.7, np.full(groups - 1, 0.9)))
        yield Case(f"{groups:3} × 20|400  all 0.8", size, np.full(groups, 0.8))
    for groups in (2, 6, 12, 40):
        size = np.round(np.geomspace(32, 924, groups)).astype(np.int64)
        place, name = np.arange(groups), f"{groups:3} × 32…924 "
        yield Case(f"{name} all 0.6", size, np.full(groups, 0.6))
        yield Case(f"{name} all 0.95", size, np.full(groups, 0.95))
        yield Case(f"{name} smallest worst", size, np.where(place == 0, 0.5, 0.8))
        yield Case(f"{name} middle worst", size, np.where(place == groups // 2, 0.56, 0.7))
        yield Case(f"{name} largest worst", size, np.where(place == groups - 1, 0.55, 0.8))
        yield Case(f"{name} largest a little worse", size, np.where(place == groups - 1, 0.55, 0.6))
        yield Case(f"{name} 0.56 to 0.9", size, np.linspace(0.56, 0.9, groups))
        yield Case(f"{name} 0.9 to 0.56", size, np.linspace(0.9, 0.56, groups))
        few = child(0, "bench", "few", str(groups)).integers(1, 12, groups)
        yield Case(f"{groups:3} × 1…11  all 0.8", few, np.full(groups, 0.8))
        yield Case(f"{groups:3} × 1…11|500  largest worst", np.append(few, 500), np.append(np.full(groups, 0.8), 0.6))


def intervals(right: Ints, size: Ints, rng: np.random.Generator) -> dict[str, Ends]:
    rate = right / size
    seen, one = rate.min(axis=1), np.arange(len(rate))
    draws = np.stack([(rng.binomial(size, mine, (REPLICATES, len(size))) / size).min(axis=1) for mine in rate], axis=1)
    low, high = wilson(rate, size)
    wide_low, wide_high = wilson(rate, size, 1 - 0.05 / len(size))
    each = 0.025 / len(size)
    with np.errstate(invalid="ignore"):  # a limit beyond the last item is the one that `where` leaves out
        exact_low = np.where(right > 0, betaincinv(right, size - right + 1, each), 0.0)
        exact_high = np.where(right < size, betaincinv(right + 1, size - right, 1 - each), 1.0)
    return {"percentile": Ends(interval(draws)[0], seen, interval(draws)[1]),
            "lowest": Ends(low[one, rate.argmin(axis=1)], seen, high[one, rate.argmin(axis=1)]),
            "wilson": Ends(wide_low.min(axis=1), seen, wide_high.min(axis=1)),
            "bonferroni": Ends(exact_low.min(axis=1), seen, exact_high.min(axis=1)),
            "ours": Ends(*lowest(right, size))}


def main(repeats: int) -> None:
    rng = child(0, "bench", "coverage")
    results: dict[str, list[tuple[float, ...]]] = {}
    for place, case in enumerate(cases()):
        truth = float(case.truth.min())
        right = rng.binomial(case.size, case.truth, (repeats, len(case.size)))
        columns = []
        for kind, (low, estimate, high) in intervals(right, case.size, rng).items():
            misses = float((low > truth + 1e-6).mean()), float((high < truth - 1e-6).mean())
            row = (*misses, float((high - low).mean()), float((estimate - truth).mean()))
            results.setdefault(kind, []).append(row)
            columns.append("{:6.1f}{:6.1f}{:7.1f}{:+6.1f}".format(*(100 * x for x in row)))
        if not place:
            print(" " * 40 + "    ".join(f"{kind:<25}" for kind in results))
            print(f"{'groups × items':40}" + "    ".join(" above below length  bias" for _ in results))
        print(f"{case.name:40}" + "    ".join(columns), flush=True)
    length = {kind: np.asarray(rows)[:, 2] for kind, rows in results.items()}
    for kind, rows in results.items():
        above, below, _, bias = np.asarray(rows).T
        held = 100 * (1 - above - below)
        ratio = length[kind] / length["bonferroni"]
        print(f"{kind:12} holds the truth: least {held.min():5.1f} %, a tenth of the {len(held)} cases under "
              f"{np.quantile(held, 0.1):5.1f} %, mean {held.mean():5.1f} %; length {100 * length[kind].mean():5.1f} "
              f"points, of Bonferroni's {ratio.mean():.2f} (most {ratio.max():.2f}); |bias| "
              f"{100 * np.abs(bias).mean():4.1f}")
    print(f"ratio: {(length['bonferroni'] / length['ours']).mean():.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
