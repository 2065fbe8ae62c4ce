"""Which items make batch t: a pure function of the seed and t, so a resumed run needs no memory of earlier batches."""

from functools import lru_cache

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.rng import child, uniform


class Batches:
    """Numbers of training items for any step.

    `codes` says which pool an item is in: one pool for plain batches, one per domain or group for the others. Each
    batch takes `size` items from every pool. A pool is dealt out in random order again and again, so that every item
    comes equally often and none twice before all came once; a pool smaller than `size` is drawn with replacement.

    With `at_once` a batch takes `size` items from each of that many pools, drawn uniformly for every step (WILDS' group
    loader with its default of uniform groups). A pool of fewer items than `size` is drawn with replacement.

    Batches of another `purpose` are drawn by streams of their own.

    With `weights` item i is drawn with replacement in proportion to weight i among its pool. A pool that weighs nothing
    is drawn as if there were no weights: a batch needs items of it all the same.
    """

    def __init__(self, codes: Ints, size: int, seed: int, weights: Floats | None = None, at_once: int = 0,
                 purpose: str = "") -> None:
        self.size, self.seed, self.weights, self.purpose = size, seed, weights, purpose
        order = np.argsort(codes, kind="stable")
        self.pools = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
        self.at_once = at_once if at_once < len(self.pools) else 0
        # Two rounds at most are in use at once per pool: the one a batch ends and the one it begins.
        self._round = lru_cache(maxsize=2 * len(self.pools) + 2)(self._deal)

    def __len__(self) -> int:
        """Items per batch."""
        return self.size * (self.at_once or len(self.pools))

    def at(self, step: int) -> Ints:
        """The batch of one step, pool after pool."""
        return self.block(step, 1)[0]

    def block(self, first: int, steps: int) -> Ints:
        """The batches of several steps as rows: one transfer to the device instead of many."""
        if self.at_once:
            return np.stack([self._some(step) for step in range(first, first + steps)])
        return np.concatenate([self._draw(number, first, steps) for number in range(len(self.pools))], axis=1)

    def _draw(self, number: int, first: int, steps: int) -> Ints:
        """Batch t takes `size` items from place t · size of the endless row of rounds."""
        pool = self.pools[number]
        counters = np.arange(first * self.size, (first + steps) * self.size)
        sums = np.zeros(1) if self.weights is None else np.cumsum(self.weights[pool])
        if sums[-1] > 0:
            u = uniform(self.seed, f"{self.purpose}batch {number}", counters)
            chosen = pool[np.searchsorted(sums, u * sums[-1], side="right").clip(max=len(pool) - 1)]
        elif len(pool) < self.size:
            chosen = pool[(uniform(self.seed, f"{self.purpose}batch {number}", counters) * len(pool)).astype(np.int64)]
        else:
            turn, last = int(counters[0]) // len(pool), int(counters[-1]) // len(pool)
            rounds = np.concatenate([self._round(number, one) for one in range(turn, last + 1)])
            chosen = rounds[counters - turn * len(pool)]
        return chosen.reshape(steps, self.size)

    def _some(self, step: int) -> Ints:
        """The batch of a step that takes some of the pools."""
        rng = child(self.seed, f"{self.purpose}pools", str(step))
        chosen = []
        for number in rng.choice(len(self.pools), self.at_once, replace=False).tolist():
            pool = self.pools[number]
            share = None if self.weights is None else self.weights[pool]
            if share is not None and share.sum() > 0:
                chosen.append(rng.choice(pool, self.size, p=share / share.sum()))
            else:
                chosen.append(rng.choice(pool, self.size, replace=len(pool) < self.size))
        return np.concatenate(chosen)

    def _deal(self, number: int, turn: int) -> Ints:
        return child(self.seed, f"{self.purpose}round", str(number), str(turn)).permutation(self.pools[number])
