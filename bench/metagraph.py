"""Meta-graphs of every class of a Visual-Genome-sized collection, against a double loop over Python sets.

Both sides start from the same long table of (item, tag) pairs and end with overlap(X, Y) for every pair of candidate
subsets of every class. The reference is sampled: a class is drawn in proportion to its pairs, one subset of it against
all the others is timed, and the mean time per pair is multiplied by the number of pairs. Building its sets is not timed.
Sampled values must equal ours. Compiling is not timed either; numba keeps the compiled loops on disk.

    python bench/metagraph.py [--items 113018] [--tags 1702] [--pairs 1700000] [--rows 400]
"""

import argparse
import resource
import time

import numpy as np

from shiftbench.arrays import Ints
from shiftbench.metagraph.overlaps import add_meetings, add_sizes, incidence, overlaps, plan
from shiftbench.rng import child

MIN_SIZE = 25


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


def ours(item: Ints, tag: Ints, n_items: int, n_tags: int):
    """Every overlap of every class: sizes, room for the counts, counts, shares."""
    table = incidence(item, tag, n_items, np.arange(n_tags), n_tags)
    sizes = np.zeros((n_tags, n_tags), np.int32)
    add_sizes(table, sizes)
    kept = sizes >= MIN_SIZE
    np.fill_diagonal(kept, False)  # a class is no context of itself
    room = plan(kept)
    counts = np.zeros(room.block[-1], np.int32)
    add_meetings(table, room, n_tags, counts)
    return room, overlaps(room, counts)


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
    parser.add_argument("--rows", type=int, default=400, help="rows of the reference's double loop that are timed")
    asked = parser.parse_args()
    warm = annotations(300, 10, 900, themes=2)
    ours(*warm, 300, 10)
    item, tag = annotations(asked.items, asked.tags, asked.pairs)
    before = peak()
    start = time.perf_counter()
    room, shares = ours(item, tag, asked.items, asked.tags)
    seconds = time.perf_counter() - start
    numbers = np.diff(room.first)
    pairs = int((numbers * (numbers - 1) // 2).sum())
    print(f"collection: {asked.items:,} items, {asked.tags:,} tags, {len(item):,} (item, tag) pairs")
    print(f"subsets:    {len(room.context):,} of at least {MIN_SIZE} items in {int((numbers > 0).sum()):,} classes, "
          f"{pairs:,} pairs of subsets")
    print(f"ours:       {seconds:.2f} s, peak memory {peak():.2f} GB ({before:.2f} GB before)")

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
        n, others = len(subsets), np.arange(len(subsets))
        low, high = np.minimum(chosen, others), np.maximum(chosen, others)
        mine = shares[room.block[cls] + low * n - low * (low + 1) // 2 + high]
        assert np.array_equal(mine, np.asarray(values, np.float32)), "our overlaps differ from the reference's"
    slow = float(np.mean(times)) * pairs
    error = float(np.std(times) / np.sqrt(len(times)) / np.mean(times))
    print(f"reference:  {slow:.1f} s ± {error:.0%}, from {asked.rows} sampled rows of "
          f"{np.mean(times) * 1e6:.2f} µs per pair; all their values equal ours")
    print(f"ratio: {slow / seconds:.1f}")


def peak() -> float:
    """The most memory this process ever had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main()
