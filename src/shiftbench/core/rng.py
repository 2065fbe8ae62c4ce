"""Randomness: a stream per named purpose, passed in, never global.

`child` gives a generator for one purpose; `uniform` gives one number per index, so that item i never depends on which
other items are drawn. Adding a draw under a new name moves no other draw.
"""

import zlib

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError


def child(seed: int, *purpose: str) -> np.random.Generator:
    """An independent stream for one named purpose: child(0, "split", "dog")."""
    return np.random.default_rng([checked_seed(seed), *(zlib.crc32(word.encode()) for word in purpose)])


def checked_seed(seed: int) -> int:
    """The seed, after a check that every random draw goes through."""
    if seed < 0:
        raise ShiftBenchError(f"seed = {seed}, but a seed is a whole number of at least 0.")
    return seed


def uniform(seed: int, purpose: str, index: Ints) -> Floats:
    """One number in [0, 1) per index, a pure function of (seed, purpose, index).

    A counter hash: the splitmix64 finaliser applied twice to index + key. Integer arithmetic alone, so every machine
    gives the same bits.
    """
    sequence = np.random.SeedSequence([checked_seed(seed), zlib.crc32(purpose.encode())])
    key = np.uint64(sequence.generate_state(1, np.uint64)[0])
    with np.errstate(over="ignore"):
        mixed = _splitmix(_splitmix(np.asarray(index).astype(np.uint64) + key) ^ key)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _splitmix(x: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
