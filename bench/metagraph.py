"""Meta-graphs of every class of a Visual-Genome-sized collection, against a double loop over Python sets.

Both compare every pair of candidate subsets of every class. Ours starts from the long table of (item, tag) pairs and
ends with every edge of every meta-graph, on all cores; the median of three runs counts, two before the reference and
one after it, without compiling, which numba does once and keeps on disk. The reference is sampled: a class is drawn in
proportion to its pairs, one subset of it against all the others is timed, and the mean time per pair is multiplied by
the number of pairs. Building its sets is not timed. Every sampled value must equal ours.

    python bench/metagraph.py [--items 113018] [--tags 1702] [--pairs 1700000] [--rows 200]
"""

import argparse
import resource
import time

import numpy as np

from shiftbench.arrays import Floats, Ints
from shiftbench.metagraph.overlaps import Edges, Plan, add_sizes, edges, incidence, plan
from shiftbench.rng import child

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


def ours(item: Ints, tag: Ints, n_items: int, n_tags: int) -> tuple[Plan, Edges]:
    """The meta-graph of every class: the candidate subsets, and every overlap of at least the threshold."""
    table = incidence(item, tag, n_items, n_tags, np.arange(n_tags))
    sizes = np.zeros((n_tags, n_tags), np.int32)
    add_sizes(table, sizes)
    kept = sizes >= MIN_SIZE
    np.fill_diagonal(kept, False)  # a class is no context of itself
    room = plan(kept)
    return room, edges(table, room, THRESHOLD)


def reference_row(chosen: int, subsets: list[set[int]]) -> tuple[float, list[float]]:
    """The inner loop of the double loop: one subset against all the others."""
    start = time.perf_counter()
    values = []
    first = subsets[chosen]
    for second in subsets:
        values.append(len(first & second) / min(len(first), len(second)))
    return time.perf_counter() - start, values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=113_018)
    parser.add_argument("--tags", type=int, default=1_702)
    parser.add_argument("--pairs", type=int, default=1_700_000)
    parser.add_argument("--rows", type=int, default=200, help="rows of the reference's double loop that are timed")
    asked = parser.parse_args()
    warm = annotations(300, 10, 900, themes=2)
    ours(*warm, 300, 10)
    item, tag = annotations(asked.items, asked.tags, asked.pairs)
    before = peak()
    runs = []
    for _ in range(2):
        start = clocks()
        room, found = ours(item, tag, asked.items, asked.tags)
        runs.append(clocks() - start)
    most = peak()
    numbers = np.diff(room.first)
    pairs = int((numbers * (numbers - 1) // 2).sum())
    print(f"collection: {asked.items:,} items, {asked.tags:,} tags, {len(item):,} (item, tag) pairs")
    print(f"subsets:    {len(room.context):,} of at least {MIN_SIZE} items in {int((numbers > 0).sum()):,} classes, "
          f"{pairs:,} pairs of subsets")

    rng = child(0, "bench", "rows")
    weight = numbers * (numbers - 1)
    holders = [set() for _ in range(asked.tags)]
    for one, other in zip(item.tolist(), tag.tolist(), strict=True):
        holders[other].add(one)
    times = []
    drawn = rng.choice(asked.tags, asked.rows, p=weight / weight.sum())
    for cls in sorted(drawn.tolist()):
        contexts = room.context[room.first[cls]:room.first[cls + 1]].tolist()
        subsets = [holders[cls] & holders[context] for context in contexts]
        chosen = int(rng.integers(len(subsets)))
        taken, values = reference_row(chosen, subsets)
        times.append(taken / len(subsets))
        here = slice(found.start[cls], found.start[cls + 1])
        mine = np.zeros(asked.tags, np.float32)
        for side, far in ((found.one[here], found.other[here]), (found.other[here], found.one[here])):
            mine[far[side == contexts[chosen]]] = found.weight[here][side == contexts[chosen]]
        theirs = np.where(np.asarray(values) >= THRESHOLD, values, 0).astype(np.float32)
        theirs[chosen] = 0
        assert np.array_equal(mine[contexts], theirs), "our overlaps differ from the reference's"
    slow = float(np.mean(times)) * pairs
    error = float(np.std(times) / np.sqrt(len(times)) / np.mean(times))
    start = clocks()
    ours(item, tag, asked.items, asked.tags)
    seconds, busy = np.median([*runs, clocks() - start], axis=0)
    print(f"ours:       {seconds:.2f} s ({busy:.2f} s of processor time), {len(found.weight):,} edges of overlap ≥ "
          f"{THRESHOLD}, peak memory {most:.2f} GB ({before:.2f} GB of it to generate the collection)")
    print(f"reference:  {slow:.1f} s ± {error:.0%}, from {asked.rows} sampled rows of "
          f"{np.mean(times) * 1e6:.2f} µs per pair; all their values equal ours")
    print(f"ratio: {slow / seconds:.1f}")


def clocks() -> Floats:
    """Time on the wall and time of all processors."""
    return np.asarray([time.perf_counter(), time.process_time()])


def peak() -> float:
    """The most memory this process ever had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main()
