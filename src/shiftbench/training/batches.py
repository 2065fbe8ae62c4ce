"""Which items make batch t: a pure function of the seed and t, so a resumed run needs no memory of earlier batches."""

from functools import lru_cache

import numpy as np

from shiftbench.arrays import Ints
from shiftbench.rng import child


class Batches:
    """Numbers of training items for any step.

    `codes` says which pool an item is in: one pool for plain batches, one per domain or group for the others. Each
    batch takes `size` items from every pool. A pool is dealt out in random order again and again, so that every item
    comes equally often and none twice before all came once; a pool smaller than `size` is drawn with replacement.
    """

    def __init__(self, codes: Ints, size: int, seed: int) -> None:
        self.size, self.seed = size, seed
        self.pools = [np.flatnonzero(codes == code) for code in np.unique(codes)]
        # Two rounds at most are in use at once per pool: the one a batch ends and the one it begins.
        self._round = lru_cache(maxsize=2 * len(self.pools) + 2)(self._deal)

    def __len__(self) -> int:
        """Items per batch."""
        return self.size * len(self.pools)

    def at(self, step: int) -> Ints:
        """The batch of one step, pool after pool."""
        return np.concatenate([self._draw(number, pool, step) for number, pool in enumerate(self.pools)])

    def block(self, first: int, steps: int) -> Ints:
        """The batches of several steps as rows: one transfer to the device instead of many."""
        return np.stack([self.at(step) for step in range(first, first + steps)])

    def _draw(self, number: int, pool: Ints, step: int) -> Ints:
        if len(pool) < self.size:
            rng = child(self.seed, "batch", str(number), str(step))
            return pool[rng.integers(len(pool), size=self.size)]
        turn, start = divmod(step * self.size, len(pool))
        part = self._round(number, turn)[start:start + self.size]
        if len(part) < self.size:
            part = np.concatenate([part, self._round(number, turn + 1)[:self.size - len(part)]])
        return part

    def _deal(self, number: int, turn: int) -> Ints:
        return child(self.seed, "round", str(number), str(turn)).permutation(self.pools[number])
