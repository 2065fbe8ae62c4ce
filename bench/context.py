"""All tasks of a COCO-Stuff-sized table by the CE criterion, against a Python loop over images.

Both go from the long table of (item, tag, area) rows to A(C, Y) of every pair on the training items, to the cues of
every class, to the kind of every item in every task: hard positive, hard negative or easy. The reference is what one
would write first: a dictionary of areas per image; for each image and each of its classes the areas of all others are
added up; then for each image and each task its cues are gone through. It is timed on a sample of the images, whose time
is multiplied; the cues it then goes through are those of the whole table. Its A(C, Y) of the sample and its kinds must
equal ours. Making its dictionaries is not timed. The two take turns, so that a busy machine slows both; the medians
count.

    python bench/context.py [--items 123287] [--tags 171] [--annotations 1500000] [--rounds 5] [--sample 1500]
"""

import argparse
import resource
import time

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, child
from shiftbench.data.collection import Collection, Tags
from shiftbench.shifts.cues import ALPHA, BETA, Areas, Codes, areas, cues, members, strengths

KINDS = ("easy", "hard_positive", "hard_negative")


def annotations(n_items: int, n_tags: int, n_rows: int, themes: int = 25) -> Collection:
    """A collection with the shape of COCO-Stuff: things that are many and small, stuff that is large, and themes."""
    rng = child(0, "bench", "context")
    size = rng.choice([0.01, 0.03, 0.15], n_tags, p=[0.4, 0.3, 0.3])
    common = rng.permutation(1 / np.arange(1, n_tags + 1) ** 0.7) * np.where(size > 0.1, 3, 1)
    liking = common * np.where(rng.random((themes, n_tags)) < 0.15, 1.0, 0.05)
    ladder = np.cumsum(liking / liking.sum(axis=1, keepdims=True), axis=1)
    theme = rng.integers(0, themes, n_items)
    item = np.sort(rng.integers(0, n_items, n_rows))
    chance = rng.random(n_rows)
    tag: Ints = np.zeros(n_rows, np.int64)
    for which in range(themes):
        here = theme[item] == which
        tag[here] = np.minimum(np.searchsorted(ladder[which], chance[here]), n_tags - 1)
    return Collection("bench", np.char.mod("%d", np.arange(n_items)), tags=Tags.of(
        item, tag, [f"tag {code}" for code in range(n_tags)], area=rng.exponential(size[tag])))


def ours(table: Areas, train: Bools) -> tuple[Floats, Codes]:
    strength = strengths(table, train)
    return strength, members(table, cues(strength, ALPHA), BETA)


def reference(
    images: list[dict[int, float]], train: list[bool], cue: list[list[int]]
) -> tuple[dict[tuple[int, int], float], list[list[str]]]:
    """The loop over images: A(C, Y), then the kind of each image in each task."""
    total: dict[tuple[int, int], float] = {}
    count: dict[int, int] = {}
    for image, used in zip(images, train, strict=True):
        if used:
            for y in image:
                count[y] = count.get(y, 0) + 1
                for c, area in image.items():
                    total[y, c] = total.get((y, c), 0.0) + area
    strength = {(y, c): (value - total[y, y]) / count[y] for (y, c), value in total.items()}
    kinds = []
    for image in images:
        row = []
        for y, context in enumerate(cue):
            if y in image:
                hard = bool(context) and all(image.get(c, 0.0) < BETA for c in context)
                row.append(KINDS[1] if hard else KINDS[0])
            else:
                row.append(KINDS[2] if any(image.get(c, 0.0) > BETA for c in context) else KINDS[0])
        kinds.append(row)
    return strength, kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=123_287)
    parser.add_argument("--tags", type=int, default=171)
    parser.add_argument("--annotations", type=int, default=1_500_000)
    parser.add_argument("--rounds", type=int, default=5, help="how often both take turns")
    parser.add_argument("--sample", type=int, default=1_500, help="images of the reference's loop timed in each turn")
    asked = parser.parse_args()
    collection = annotations(asked.items, asked.tags, asked.annotations)
    train = child(0, "bench", "train").random(asked.items) < 0.7
    table = areas(collection)
    ours(table, train)  # imports scipy
    strength, kinds = ours(table, train)
    chosen = cues(strength, ALPHA)
    context = [np.flatnonzero(row).tolist() for row in chosen]
    print(f"table: {asked.items:,} items, {asked.tags} tags, {asked.annotations:,} annotations, {len(table.item):,} "
          f"(item, tag) pairs")
    print(f"tasks: {int(chosen.any(axis=1).sum())} of {asked.tags} have cues, {int(chosen.sum())} in all; "
          f"{int((kinds == 1).sum()):,} hard positives, {int((kinds == 2).sum()):,} hard negatives")
    start = np.searchsorted(table.item, np.arange(asked.items + 1))
    fast, slow = [], []
    for turn in range(asked.rounds):
        began = time.perf_counter()
        ours(areas(collection), train)
        fast.append(time.perf_counter() - began)
        picked = np.sort(child(turn, "bench", "sample").choice(asked.items, min(asked.sample, asked.items), False))
        images = [dict(zip(table.tag[a:b].tolist(), table.area[a:b].tolist(), strict=True))
                  for a, b in zip(start[picked].tolist(), start[picked + 1].tolist(), strict=True)]
        used = train[picked].tolist()
        began = time.perf_counter()
        means, theirs = reference(images, used, context)
        slow.append((time.perf_counter() - began) * asked.items / len(picked))
        mine = strengths(table, train & np.isin(np.arange(asked.items), picked))
        assert all(abs(mine[pair] - value) < 1e-9 for pair, value in means.items()), "our A(C, Y) differs"
        assert (np.asarray(KINDS)[kinds[picked]] == np.asarray(theirs)).all(), "our kinds differ from the loop's"
    print(f"ours: {np.median(fast):.3f} s ({', '.join(f'{one:.3f}' for one in fast)}), peak memory "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    print(f"loop: {np.median(slow):.1f} s ({', '.join(f'{one:.1f}' for one in slow)}), from {len(picked):,} images a "
          "turn; its A(C, Y) and kinds equal ours")
    print(f"ratio: {np.median(slow) / np.median(fast):.1f}")


if __name__ == "__main__":
    main()
