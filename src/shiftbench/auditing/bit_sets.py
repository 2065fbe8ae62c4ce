"""Sets of items as bits, and the loops that make, thin and count them, compiled. Imported only where they run.

Item i is bit i % 64 of word i // 64; bits beyond the last item are 0. The loops hold no lock of Python, so that threads
share the work: each writes where no other writes, and what comes out depends on no number of threads.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from shiftbench.core.arrays import Floats, Ints, Values
from shiftbench.core.errors import Advance
from shiftbench.metagraph.counting import compiled

Bits = npt.NDArray[np.uint64]
Task = TypeVar("Task")
Outcome = TypeVar("Outcome")
u64 = np.uint64
ZERO, ONE, LOW, SHIFT, WORD = u64(0), u64(1), u64(63), u64(6), 64
TASK = 2**20
"""Bits that are worth a task of a thread: about a millisecond."""
BLOCK = 512
"""Words that are counted at a time: 4 KB of each predicate, so that a block of 100 predicates stays in the cache."""

SINGLE, TASKS = 512, 128
"""Items whose losses are summed in 32 bits, and such blocks of a task of a thread."""
TINY = np.float32(2.0**-100)


@intrinsic  # type: ignore[untyped-decorator]
def ones(_: Any, word: Any) -> Any:
    """The number of bits that are set."""
    return types.uint64(types.uint64), lambda context, builder, signature, values: builder.ctpop(values[0])


@intrinsic  # type: ignore[untyped-decorator]
def lowest(_: Any, word: Any) -> Any:
    """The place of the lowest bit that is set; 64 where none is."""
    return types.uint64(types.uint64), lambda context, builder, signature, values: builder.cttz(
        values[0], context.get_constant(types.boolean, False))


def bits_of_codes(codes: Values, n_values: int) -> Bits:
    """The items of every value of a column, `n_values` rows of bits; a negative code is no value.

    >>> bits_of_codes(np.asarray([0, 1, 0, -1]), 2).tolist()
    [[5], [2]]
    """
    assert codes.max(initial=-1) < n_values, "the loop writes where the codes say"
    bits = np.zeros((n_values, -(-len(codes) // WORD)), np.uint64)
    _pack(np.ascontiguousarray(codes, np.int32), bits)
    return bits


def take_bits(bits: Bits, rows: Ints) -> Bits:
    """The sets among some items only, in the order of `rows`, which are numbers of items."""
    taken = np.empty((len(bits), -(-len(rows) // WORD)), np.uint64)
    rows = np.ascontiguousarray(rows, np.int64)
    step = max(1, TASK // max(len(rows), 1))

    def take(low: int) -> None:
        _take(bits[low:low + step], rows, taken[low:low + step])

    list(in_threads(take, range(0, len(bits), step)))
    return taken


def pair_totals(bits: Bits, loss: Floats) -> Floats:
    """At least the sum of the losses of the items that are in both of two sets, of all pairs of sets; hardly more.

    Sums are first over blocks of K items, in 32 bits:

        sum_i a_i b_i x_i,  with an error of at most gamma sum_i a_i b_i |x_i|,  gamma = (K + 1) u / (1 - (K + 1) u)

    in whatever order they are summed, u = 2^-24 (Higham, 2002, section 3.1). Blocks are added in 64 bits. In place of
    the sum of |x_i| over both sets stands that over one of them, the smaller; twice the bound is added, which covers
    the rounding of this sum too, and what is too small for 32 bits.
    """
    scale = float(np.abs(loss).max(initial=0.0)) or 1.0
    padded = np.pad(loss / scale, (0, bits.shape[1] * WORD - len(loss)))
    words = SINGLE // WORD

    def block(low: int) -> tuple[Floats, Floats]:
        inside = np.zeros((-(-len(bits) // 4) * 4, SINGLE), np.float32)
        total, size = np.zeros((len(inside), len(inside))), np.zeros(len(inside))
        for first in range(low, min(low + TASKS * words, bits.shape[1]), words):
            held = np.ascontiguousarray(bits[:, first:first + words], "<u8").view(np.uint8)
            values = padded[first * WORD:(first + words) * WORD].astype(np.float32)
            inside[:len(bits), :len(values)] = np.unpackbits(held, axis=1, bitorder="little")
            _add_pairs(inside[:, :len(values)], values, total, size)
        return np.triu(total, 1), size

    total, size = np.zeros((len(bits), len(bits))), np.zeros(len(bits))
    for block_total, block_size in in_threads(block, range(0, bits.shape[1], TASKS * words)):
        total += block_total[:len(bits), :len(bits)]
        size += block_size[:len(bits)]
    total += total.T
    gamma = (SINGLE + 1) * 2.0**-24 / (1 - (SINGLE + 1) * 2.0**-24)
    return np.asarray(scale * (total + 2 * gamma * np.minimum(size[:, None], size)))


def in_threads(
    work: Callable[[Task], Outcome], tasks: Sequence[Task], advance: Advance | None = None
) -> Iterator[Outcome]:
    """The outcome of every task, in their order, with all processors at work; `advance(done, tasks)` after each."""
    with ThreadPoolExecutor(os.cpu_count() or 1) if len(tasks) > 1 else nullcontext() as pool:
        for done, outcome in enumerate(map(work, tasks) if pool is None else pool.map(work, tasks), 1):
            if advance is not None:
                advance(done, len(tasks))
            yield outcome


@compiled
def _pack(codes: npt.NDArray[np.int32], bits: Bits) -> None:
    for i in range(u64(len(codes))):
        code = codes[i]
        if code >= 0:
            bits[u64(code), i >> SHIFT] |= ONE << (i & LOW)


@compiled
def _take(bits: Bits, rows: Ints, taken: Bits) -> None:
    n = u64(len(rows))
    for number in range(len(bits)):
        row = bits[number]
        for w in range(u64(taken.shape[1])):
            word, first = ZERO, w << SHIFT
            for k in range(min(u64(WORD), n - first)):
                item = u64(rows[first + k])
                word |= ((row[item >> SHIFT] >> (item & LOW)) & ONE) << k
            taken[number, w] = word


@partial(compiled, fastmath=True)
def _add_pairs(inside: npt.NDArray[np.float32], values: npt.NDArray[np.float32], total: Floats, size: Floats) -> None:
    """Add the sum of the values in two sets, 0 and 1 per item, to `total[one, other]`, if one < other.

    The sum of the absolute values of each set is added to `size`. The sets are a multiple of four: four at a time read
    the others once. What stands below the diagonal has no meaning.
    """
    n, held = len(values), np.empty((4, len(values)), np.float32)
    for one in range(0, len(inside), 4):
        for k in range(4):
            own = np.float32(0)
            for i in range(n):
                held[k, i] = inside[one + k, i] * values[i]
                own += abs(held[k, i]) + TINY
            size[one + k] += own
        first, second, third, fourth = held[0], held[1], held[2], held[3]
        for other in range(one + 1, len(inside)):
            row = inside[other]
            a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for i in range(n):
                a, b = a + first[i] * row[i], b + second[i] * row[i]
                c, d = c + third[i] * row[i], d + fourth[i] * row[i]
            total[one, other] += a
            total[one + 1, other] += b
            total[one + 2, other] += c
            total[one + 3, other] += d


@compiled
def measure(
    bits: Bits, members: npt.NDArray[np.int32], errors: Bits, loss: Floats, n: Ints, total: Floats, square: Floats,
) -> None:
    """Add, for every slice, its items to `n`, their losses to `total` and the squares of these to `square`.

    A slice is a row of `members`: the items that fulfil all these predicates. Losses of 0 and 1 are the bits `errors`,
    and `loss` is empty; others are `loss`, one per item. Slices that differ in the last predicate only should stand
    next to each other: what the others have in common is found once.
    """
    depth, n_words = members.shape[1], bits.shape[1]
    shared, wrong = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    items = np.empty(BLOCK * WORD + 4, np.int64)
    for low in range(0, n_words, BLOCK):
        words = min(BLOCK, n_words - low)
        for k in range(len(members)):
            fresh = k == 0
            for d in range(depth - 1):
                fresh |= k > 0 and members[k, d] != members[k - 1, d]
            if fresh:
                shared[:] = ~ZERO
                for d in range(depth - 1):
                    row = bits[members[k, d], low:low + words]
                    for w in range(words):
                        shared[w] &= row[w]
                if len(loss) == 0:
                    row = errors[low:low + words]
                    for w in range(words):
                        wrong[w] = shared[w] & row[w]
            row = bits[members[k, depth - 1], low:low + words]
            if len(loss) == 0:
                size, count = ZERO, ZERO
                for w in range(words):
                    size += ones(shared[w] & row[w])
                    count += ones(wrong[w] & row[w])
                n[k] += size
                total[k] += count
                square[k] += count
            else:
                size = _items(shared[:words], row, u64(low) << SHIFT, items)
                n[k] += size
                added, squares = _sums(loss, items[:size])
                total[k] += added
                square[k] += squares


@compiled
def _items(shared: Bits, row: Bits, first: u64, items: Ints) -> u64:
    """Write the numbers of the items of both sets, counted from `first`; return how many they are.

    Four are written for every word, whether there are so many or not: a processor cannot guess how many bits are set,
    and what is too much is overwritten by the next word.
    """
    n = ZERO
    for w in range(u64(len(row))):
        word, start = shared[w] & row[w], first + (w << SHIFT)
        end = n + ones(word)
        for k in range(u64(4)):
            items[n + k] = start + lowest(word)
            word &= word - ONE
        n += u64(4)
        while word != ZERO:
            items[n] = start + lowest(word)
            word &= word - ONE
            n += ONE
        n = end
    return n


@compiled
def _sums(loss: Floats, items: Ints) -> tuple[float, float]:
    """The sum of the losses of some items and that of their squares; two sums at a time wait less for each other."""
    even, odd, squares, more = 0.0, 0.0, 0.0, 0.0
    n = u64(len(items))
    for i in range(ONE, n, u64(2)):
        x, y = loss[u64(items[i - ONE])], loss[u64(items[i])]
        even, odd, squares, more = even + x, odd + y, squares + x * x, more + y * y
    if n & ONE:
        x = loss[u64(items[n - ONE])]
        even, squares = even + x, squares + x * x
    return even + odd, squares + more
