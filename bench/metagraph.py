"""Meta-graphs of every class of a Visual-Genome-sized collection, against a double loop over Python sets.

Both compare every pair of candidate subsets of every class. Ours starts from the long table of (item, tag) pairs and
ends with every edge of every meta-graph, on all cores, without compiling, which numba does once and keeps on disk. The
reference is what one would write first: for each class a set of items per context, and two loops over the contexts. It
is sampled: a class is drawn in proportion to its pairs, one of its subsets against all the others is timed, and the
mean time per pair is multiplied by the number of pairs. Building its sets is not timed. Every sampled value must equal
ours. The two take turns, so that a busy machine slows both; of our runs the median counts.

    python bench/metagraph.py [--items 113018] [--tags 1702] [--pairs 1700000] [--rounds 7] [--rows 30]
"""

import argparse
import resource
import time

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, child
from shiftbench.metagraph.counting import (
    Edges,
    add_sizes,
    counting_order,
    edges,
    incidence,
    joined,
    mirrored,
    plan,
    runs_of,
)

MIN_SIZE = 25
THRESHOLD = 0.1


def annotations(n_items: int, n_tags: int, n_pairs: int, themes: int = 40) -> tuple[Ints, Ints]:
    """A long table with the shape of Visual Genome: common and rare tags, and themes in which tags meet."""
    rng = child(0, "bench", "metagraph")
    common = rng.permutation(1 / np.arange(1, n_tags + 1) ** 0.9)
    liking = common * np.where(rng.random((themes, n_tags)) < 0.08, 1.0, 0.02)
    ladder = np.cumsum(liking / liking.sum(axis=1, keepdims=True), axis=1)
    theme = rng.choice(themes, n_items, p=rng.dirichlet(np.full(themes, 3.0)))
    drawn = np.maximum(rng.poisson(rng.gamma(4, 1.5 * n_pairs / n_items / 4, n_items)), 1)
    item = np.repeat(np.arange(n_items), drawn)
    chance = rng.random(len(item))
    tag: Ints = np.zeros(len(item), np.int64)
    for which in range(themes):
        here = theme[item] == which
        tag[here] = np.minimum(np.searchsorted(ladder[which], chance[here]), n_tags - 1)
    keys = np.unique(item * n_tags + tag)
    keys = np.sort(rng.choice(keys, min(n_pairs, len(keys)), replace=False))
    return keys // n_tags, keys % n_tags


def ours(item: Ints, tag: Ints, n_tags: int) -> tuple[Ints, Bools, Edges]:
    """The meta-graph of every class: which contexts it has, in an order of tags, and every overlap of the threshold."""
    classes = np.arange(n_tags)
    order = counting_order(classes, n_tags, np.bincount(tag, minlength=n_tags))
    table = incidence(runs_of(item), tag, order)
    sizes = np.zeros((n_tags, n_tags), np.int32)
    add_sizes(table, sizes)
    kept = mirrored(sizes) >= MIN_SIZE
    np.fill_diagonal(kept, False)  # a class is no context of itself
    return order, kept, joined(edges(table, plan(sizes, kept, THRESHOLD), THRESHOLD), order, classes)


def timed(item: Ints, tag: Ints, n_tags: int) -> tuple[Floats, Ints, Bools, Edges]:
    """Our time on the wall and on all processors, and what came out."""
    start = np.asarray([time.perf_counter(), time.process_time()])
    found = ours(item, tag, n_tags)
    return np.asarray([time.perf_counter(), time.process_time()]) - start, *found


def reference_row(chosen: int, subsets: list[set[int]]) -> tuple[float, list[float]]:
    """The inner loop of the double loop: one subset against all the others."""
    start = time.perf_counter()
    values = []
    first = subsets[chosen]
    for second in subsets:
        values.append(len(first & second) / min(len(first), len(second)))
    return time.perf_counter() - start, values


def ours_row(found: Edges, cls: int, context: int, n_tags: int) -> Floats:
    """Our overlaps of one subset with all the others, 0 where there is no edge."""
    here = slice(found.start[cls], found.start[cls + 1])
    row = np.zeros(n_tags, np.float32)
    for side, far in ((found.one[here], found.other[here]), (found.other[here], found.one[here])):
        row[far[side == context]] = found.weight[here][side == context]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=113_018)
    parser.add_argument("--tags", type=int, default=1_702)
    parser.add_argument("--pairs", type=int, default=1_700_000)
    parser.add_argument("--rounds", type=int, default=7, help="how often both take turns")
    parser.add_argument("--rows", type=int, default=30, help="rows of the reference's double loop timed in each turn")
    asked = parser.parse_args()
    ours(*annotations(300, 10, 900, themes=2), 10)  # compiles, or loads what is compiled
    item, tag = annotations(asked.items, asked.tags, asked.pairs)
    before = peak()
    _, order, kept, found = timed(item, tag, asked.tags)
    most = peak()
    place = np.argsort(order)
    kept = kept[place][:, place]
    numbers = kept.sum(axis=1)
    pairs = int((numbers * (numbers - 1) // 2).sum())
    print(f"collection: {asked.items:,} items, {asked.tags:,} tags, {len(item):,} (item, tag) pairs")
    print(f"subsets:    {int(numbers.sum()):,} of at least {MIN_SIZE} items in {int((numbers > 0).sum()):,} classes, "
          f"{pairs:,} pairs of subsets, {len(found.weight):,} edges of overlap ≥ {THRESHOLD}")

    holders = [set() for _ in range(asked.tags)]
    for one, other in zip(item.tolist(), tag.tolist(), strict=True):
        holders[other].add(one)
    rng = child(0, "bench", "rows")
    weight = numbers * (numbers - 1)
    runs, times = [], []
    for _ in range(asked.rounds):
        runs.append(timed(item, tag, asked.tags)[0])
        for cls in rng.choice(asked.tags, asked.rows, p=weight / weight.sum()).tolist():
            contexts = np.flatnonzero(kept[cls])
            subsets = [holders[cls] & holders[context] for context in contexts.tolist()]
            chosen = int(rng.integers(len(subsets)))
            taken, values = reference_row(chosen, subsets)
            times.append(taken / len(subsets))
            theirs = np.where(np.asarray(values) >= THRESHOLD, values, 0).astype(np.float32)
            theirs[chosen] = 0
            mine = ours_row(found, cls, int(contexts[chosen]), asked.tags)[contexts]
            assert np.array_equal(mine, theirs), "our overlaps differ from the reference's"
    slow = float(np.mean(times)) * pairs
    error = float(np.std(times) / np.sqrt(len(times)) / np.mean(times))
    wall, busy = np.median(runs, axis=0)
    print(f"ours:       {wall:.2f} s, the median of {', '.join(f'{run[0]:.2f}' for run in runs)}; {busy:.2f} s of "
          f"processor time; peak memory {most:.2f} GB ({before:.2f} GB of it to generate the collection)")
    print(f"reference:  {slow:.1f} s ± {error:.0%}, from {len(times)} sampled rows of "
          f"{np.mean(times) * 1e6:.2f} µs per pair; all their values equal ours")
    print(f"per processor: {slow / busy:.1f}")
    print(f"ratio: {slow / wall:.1f}")


def peak() -> float:
    """The most memory this process ever had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main()
