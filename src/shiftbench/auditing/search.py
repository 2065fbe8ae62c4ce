"""The search for slices: conjunctions of predicates whose items lose more, or less, than all the other items.

A slice with n of the N items and a mean loss m, against the mean m' of the N - n others, has

    z = (m - m') / sqrt(s^2 (1/n + 1/(N - n)))

where s^2 is the variance of all losses, with N - 1 below: under a permutation of the losses m - m' has exactly this
variance. Positive z: worse than the rest.

Up to three predicates the search looks at every conjunction that holds enough items; a conjunction that holds fewer is
not extended, since what it contains holds fewer still (Agrawal & Srikant, 1994). Beyond that depth it is a beam: the
`BEAM` slices of highest z of one depth are extended by every predicate, and their extensions alone are looked at.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc, log_ndtr, ndtri

from shiftbench.auditing.predicates import Bits, Predicates, packed
from shiftbench.core.arrays import Bools, Floats, Ints, Values
from shiftbench.core.errors import Advance, ShiftBenchError

BEAM = 1000
CANDIDATES, PARTS, TASK = 2**18, 32, 2**22
"""A thread counts at most so many slices at a time, or a 32nd of a depth, but not less than a millisecond's words."""
CHANCE = 0.1
"""The probability with which a slice of several predicates may seem to add to one of its parents by luck."""
ROUNDING = 1e-9
"""A z that is not above this is 0: sums of losses are rounded."""
Numbers = npt.NDArray[np.int32]
Outcome = TypeVar("Outcome")


class Slices(NamedTuple):
    """Slices and their losses. `looked_at` is how many of each depth were counted and held enough items."""

    members: Numbers  # slices × depth: numbers of predicates, -1 where a slice has fewer
    n: Ints
    total: Floats  # the sum of the losses inside
    z: Floats
    looked_at: Ints

    def of(self, rows: Values) -> "Slices":
        return Slices(self.members[rows], self.n[rows], self.total[rows], self.z[rows], self.looked_at)


class Sums(NamedTuple):
    """The number of items of slices, the sum of their losses and the sum of the squares of these."""

    n: Ints
    total: Floats
    square: Floats

    def of(self, rows: Values) -> "Sums":
        return Sums(self.n[rows], self.total[rows], self.square[rows])

    def inside(self, parent: "Sums") -> Floats:
        """z of slices among the items of their parents, with the variance of the parent."""
        mean = parent.total / parent.n
        variance = np.maximum(parent.square - parent.total * mean, 0) / np.maximum(parent.n - 1, 1)
        return standardised(self.n, self.total - self.n * mean, parent.n, variance)


def standardised(n: Values, excess: Values, n_all: Values | int, variance: Values | float) -> Floats:
    """z of slices of n among n_all items whose losses sum up to `excess` more than n times the mean; 0 if undefined."""
    scale = np.sqrt(variance * n * (n_all - n) / n_all)
    z = np.zeros(np.broadcast(excess, scale).shape)
    np.divide(excess, scale, out=z, where=scale > 0)
    return z


class Batch(NamedTuple):
    """Slices of one depth that may be among the best, and how many were looked at."""

    members: Numbers  # ranks of predicates
    sums: Sums
    z: Floats
    looked_at: int


@dataclass(frozen=True, eq=False)
class Field:
    """What is searched: predicates by their ranks, which depend on names alone, and losses that are high where it is.

    Losses of 0 and 1 are the bits `errors`, and `loss` is empty. Others are `loss`, less their mean.
    """

    bits: Bits
    order: Numbers  # the number of a predicate by its rank
    errors: Bits
    loss: Floats
    n: int
    mean: float  # of the errors; 0 for other losses
    variance: float
    least: int
    most: int
    gain: float = -np.inf

    def sums(self, members: Numbers) -> Sums:
        """Count slices of one depth."""
        return counted(self.bits, self.order[members], self.errors, self.loss)

    def large(self, members: Numbers) -> tuple[Numbers, Sums]:
        """Count slices of one depth, and keep those that hold enough items."""
        sums = self.sums(members)
        enough = sums.n >= self.least
        return members[enough], sums.of(enough)

    def z(self, sums: Sums) -> Floats:
        return standardised(sums.n, sums.total - sums.n * self.mean, self.n, self.variance)

    def reach(self, total: Floats) -> Floats:
        """The highest z of a slice with so many errors: all its items are errors, unless these are fewer than `least`.

        z falls with the items that are no errors, and rises with the errors of a slice that has no other items.
        """
        if len(self.loss):
            return np.full(len(total), np.inf)
        n = np.maximum(total, self.least)
        return standardised(n, total - n * self.mean, self.n, self.variance)

    def select(self, members: Numbers, sums: Sums, parents: Callable[[Numbers], Sums]) -> Batch:
        """Those that are worse than the rest, by `gain` than the others of every parent: the best `most` and ties."""
        z = self.z(sums)
        keep = np.flatnonzero(z > ROUNDING)
        for dropped in range(members.shape[1] if members.shape[1] > 1 and self.gain > -np.inf else 0):
            parent = parents(np.delete(members[keep], dropped, axis=1))
            keep = keep[sums.of(keep).inside(parent) > self.gain]
        if len(keep) > self.most:
            keep = keep[z[keep] >= np.partition(z[keep], -self.most)[-self.most]]
        return Batch(members[keep], sums.of(keep), z[keep], len(members))


class Shortlist:
    """The best slices so far. Slices with the same z are sorted by length, then by the ranks of their predicates."""

    def __init__(self, depth: int, most: int) -> None:
        self.most = most
        self.slices = Slices(np.zeros((0, depth), np.int32), np.zeros(0, np.int64), np.zeros(0), np.zeros(0),
                             np.zeros(depth, np.int64))

    def add(self, batch: Batch) -> None:
        """Enter slices, and drop those that are no longer among the best."""
        old, length = self.slices, batch.members.shape[1]
        old.looked_at[length - 1] += batch.looked_at
        padding = np.full((len(batch.z), old.members.shape[1] - length), -1, np.int32)
        members = np.concatenate([old.members, np.hstack([batch.members, padding])])
        z = np.concatenate([old.z, batch.z])
        ranking = np.lexsort([*members.T[::-1], lengths(members), -z])[:self.most]
        self.slices = Slices(members[ranking], np.concatenate([old.n, batch.sums.n])[ranking],
                             np.concatenate([old.total, batch.sums.total])[ranking], z[ranking], old.looked_at)

    def floor(self) -> float:
        """The z that a slice must reach to enter."""
        return float(self.slices.z[-1]) if len(self.slices.z) == self.most > 0 else -np.inf

    def of_length(self, length: int) -> Numbers:
        """The slices of so many predicates, best first."""
        return self.slices.members[lengths(self.slices.members) == length, :length]


def lengths(members: Numbers) -> Ints:
    """How many predicates each slice has."""
    return np.asarray(np.count_nonzero(members >= 0, axis=1))


def search(
    predicates: Predicates, loss: Floats, *, depth: int = 3, least: int = 20, worse: bool = True,
    gain: float | None = None, most: int = 10_000, progress: Advance | None = None,
) -> Slices:
    """The `most` slices with the highest z among those that hold `least` items and are worse than the rest.

    A slice of several predicates must add something to each of its parents, the slices with one predicate less: it is
    worse than the other items of the parent by more than `gain` standard errors (-inf: every slice may be listed).
    Without that rule near-copies of one bad slice would fill the list. By default

        gain = Phi^-1(1 - 0.1 / K),     K: predicates that hold enough items

    because a parent may be extended by each of them, and of many extensions some are worse by luck (Bonferroni).

    `worse=False` lists slices that are better than the rest, lowest z first. Neither the order of the predicates nor
    the number of processors changes the result. Losses of 0 and 1 are counted by bits; where the list is full before
    slices of three are counted, pairs with too few errors to reach it are not extended.
    """
    if depth < 1 or least < 1:
        raise ShiftBenchError(f"A slice has at least 1 predicate and 1 item; got depth {depth} and least {least}.")
    assert len(loss) == predicates.n, "one loss per item"
    assert np.isfinite(loss).all(), "a loss is a number"
    field = _field(predicates, loss, worse, least, most)
    best = Shortlist(depth, most)
    singles = _singles(field, best)
    field = replace(field, gain=_gain(int((singles.n >= least).sum())) if gain is None else gain)
    if depth == 2 and len(field.loss) and field.gain > -np.inf:
        _last_pairs(field, best, singles, predicates.column[field.order], _advance(progress, 2, depth))
    elif depth > 1:
        pairs = _pairs(field, best, singles, predicates.column[field.order], _advance(progress, 2, depth))
    if depth > 2:
        _triples(field, best, pairs, _advance(progress, 3, depth))
    for length in range(4, depth + 1):
        _beam(field, best, pairs, length, _advance(progress, length, depth))
    return _as_given(best.slices, field, loss, worse)


def _as_given(slices: Slices, field: Field, loss: Floats, worse: bool) -> Slices:
    """Slices by the numbers of their predicates, with the sums and signs of the losses that were given."""
    if not len(slices.n):
        return slices
    members = np.where(slices.members < 0, -1, field.order[slices.members])
    mean = float(loss.mean()) if len(field.loss) else 0.0 if worse else 1.0  # what the field's losses are relative to
    sign = 1.0 if worse else -1.0
    return slices._replace(members=members, total=slices.n * mean + sign * slices.total, z=sign * slices.z)


def _gain(extensions: int) -> float:
    """Standard errors that the best of so many extensions exceeds by luck with probability `CHANCE` at most."""
    return float(-ndtri(CHANCE / max(extensions, 1)))


def _field(predicates: Predicates, loss: Floats, worse: bool, least: int, most: int) -> Field:
    """What is searched. In a search for better slices the losses change their signs, and what is right is an error."""
    names = [(predicate.column, predicate.value, predicate.kind, predicate.words) for predicate in predicates.list]
    order = np.asarray(sorted(range(len(names)), key=names.__getitem__), np.int32)
    mean, variance = (float(loss.mean()), float(loss.var(ddof=1))) if len(loss) > 1 else (0.0, 0.0)
    if is_binary(loss):
        errors, values, mean = packed(loss == worse), np.zeros(0), mean if worse else 1 - mean
    else:
        errors, values, mean = np.zeros(0, np.uint64), loss - mean if worse else mean - loss, 0.0
    return Field(predicates.bits, order, errors, values, predicates.n, mean, variance, least, most)


def is_binary(loss: Floats) -> bool:
    """Whether losses are errors: 0 and 1 alone."""
    return bool(((loss == 0) | (loss == 1)).all())


def counted(bits: Bits, members: Numbers, errors: Bits, loss: Floats) -> Sums:
    """Count slices of one depth, given by numbers of predicates."""
    from shiftbench.auditing.bit_sets import measure  # numba is loaded by the first search, not by the import

    sums = Sums(np.zeros(len(members), np.int64), np.zeros(len(members)), np.zeros(len(members)))
    measure(bits, np.ascontiguousarray(members), errors, loss, *sums)
    return sums


class Pairs(NamedTuple):
    """All pairs that hold enough items."""

    members: Numbers
    sums: Sums
    number: Numbers  # predicates × predicates: the row of a pair, lower rank first; -1 where there is none


def _singles(field: Field, best: Shortlist) -> Sums:
    """Look at every predicate."""
    ranks = np.arange(len(field.order), dtype=np.int32)[:, None]
    sums = field.sums(ranks)
    enough = sums.n >= field.least
    best.add(field.select(ranks[enough], sums.of(enough), field.sums))
    return sums


def _pairs(field: Field, best: Shortlist, singles: Sums, column: Numbers, advance: Advance) -> Pairs:
    """Look at every two predicates."""
    ranks, may_meet = _may_meet(field, singles, column)
    blocks = list(_in_blocks(field.large, ranks, may_meet, field.bits.shape[1], advance))
    members = np.concatenate([members for members, _ in blocks])
    sums = Sums(*(np.concatenate(each) for each in zip(*(sums for _, sums in blocks), strict=True)))
    number = np.full(may_meet.shape, -1, np.int32)
    number[tuple(members.T)] = np.arange(len(members))
    best.add(field.select(members, sums, lambda parent: singles.of(parent[:, 0])))
    return Pairs(members, sums, number)


def _may_meet(field: Field, singles: Sums, column: Numbers) -> tuple[Numbers, Bools]:
    """Predicates that hold enough items, and which two of them are combined, lower rank first.

    They are of different columns; a negative code stands for a predicate that stands alone.
    """
    enough = singles.n >= field.least
    may_meet = np.triu((column[:, None] != column) & (enough & (column >= 0))[:, None] & enough & (column >= 0))
    return np.flatnonzero(enough).astype(np.int32)[:, None], may_meet


def _last_pairs(field: Field, best: Shortlist, singles: Sums, column: Numbers, advance: Advance) -> None:
    """Look at every two predicates where none are extended: sums are exact for pairs that may be listed alone.

    More losses make a slice worse, against all items and against its parents: a pair that is not listed with at least
    the sum that it has is not listed with that sum.
    """
    from shiftbench.auditing.bit_sets import pair_totals

    most, none = pair_totals(field.bits, field.loss), np.zeros(field.bits.shape[1], np.uint64)

    def look(members: Numbers) -> Batch:
        n = counted(field.bits, field.order[members], none, np.zeros(0)).n
        members, n = members[n >= field.least], n[n >= field.least]
        bound = Sums(n, most[tuple(field.order[members].T)], np.zeros(len(n)))
        able = replace(field, most=len(n)).select(members, bound, lambda parent: singles.of(parent[:, 0])).members
        batch = field.select(able, field.sums(able), lambda parent: singles.of(parent[:, 0]))
        return batch._replace(looked_at=len(members))

    for batch in _in_blocks(look, *_may_meet(field, singles, column), field.bits.shape[1], advance):
        best.add(batch)


def _triples(field: Field, best: Shortlist, pairs: Pairs, advance: Advance) -> None:
    """Look at every three predicates of which each two hold enough items and may reach the list."""
    able = pairs.number >= 0
    able[able] = field.reach(pairs.sums.total[pairs.number[able]]) >= best.floor()

    def look(members: Numbers) -> Batch:
        return field.select(*field.large(members), lambda parent: pairs.sums.of(pairs.number[tuple(parent.T)]))

    extended = pairs.members[able[tuple(pairs.members.T)]]
    for batch in _in_blocks(look, extended, able, field.bits.shape[1], advance):
        best.add(batch)


def _beam(field: Field, best: Shortlist, pairs: Pairs, length: int, advance: Advance) -> None:
    """Look at what the best slices hold together with one more predicate, each once."""
    from shiftbench.auditing.bit_sets import in_threads

    may_meet = (pairs.number >= 0) | (pairs.number >= 0).T
    extended = np.sort(_extended(best.of_length(length - 1)[:BEAM], may_meet), axis=1)
    members = np.unique(extended, axis=0)

    def look(block: Numbers) -> Batch:
        return field.select(*field.large(block), field.sums)

    blocks = [members[rows] for rows in _blocks(len(members), 1, field.bits.shape[1])]
    for batch in in_threads(look, blocks, advance):
        best.add(batch)


def _extended(slices: Numbers, may_meet: Bools) -> Numbers:
    """Slices with one more predicate, every one that may meet each of theirs."""
    able = np.logical_and.reduce([may_meet[column] for column in slices.T])
    row, added = np.nonzero(able)
    return np.hstack([slices[row], added[:, None].astype(np.int32)])


def _in_blocks(
    look: Callable[[Numbers], Outcome], slices: Numbers, may_meet: Bools, words: int, advance: Advance,
) -> Iterator[Outcome]:
    """Extend slices, block by block, in threads."""
    from shiftbench.auditing.bit_sets import in_threads

    blocks = _blocks(len(slices), len(may_meet), words)
    return in_threads(lambda rows: look(_extended(slices[rows], may_meet)), blocks, advance)


def _blocks(n: int, width: int, words: int) -> list[slice]:
    """Rows in blocks by the number of their extensions and the words of each; at least one, that may be empty."""
    size = max(1, min(CANDIDATES // max(width, 1), max(-(-n // PARTS), TASK // max(width * words, 1))))
    return [slice(low, low + size) for low in range(0, max(n, 1), size)]


def _advance(progress: Advance | None, length: int, depth: int) -> Advance:
    """Progress within slices of one length, as progress of the whole search."""
    return lambda done, total: None if progress is None else progress((length - 1) * total + done, depth * total)


# The few slices that say what many do

def describe(
    predicates: Predicates, loss: Floats, slices: Slices, *, worse: bool = True, most: int = 50, chance: float = 1.0,
) -> Slices:
    """Few slices that say what many do, in the order of choice: those that are worth a test on other items.

    The slice with the lowest M_d p is chosen, where p = 1 - Phi(z) and M_d is the number of slices of d predicates that
    the search looked at: of many small slices one has a high z by luck, and z alone would prefer it to the wide slice
    that it lies in. A least-squares fit of the losses by the chosen slices is then subtracted, and z is computed anew
    from what is left: slices that were bad because they meet chosen ones are no longer (orthogonal matching pursuit,
    Pati, Rezaiifar & Krishnaprasad, 1993). This is repeated until `most` are chosen, or no z is above

        bar = Phi^-1(1 - chance / M_d)

    Of slices that are no worse than the rest, about `chance` of each depth pass, whatever their dependence. Errors of 0
    and 1 must also have a binomial tail below chance / M_d, because z of few rare errors is far from normal. The
    statistics are those of `loss`.
    """
    sign = 1.0 if worse else -1.0
    depth = lengths(slices.members)
    share = np.minimum(chance / np.maximum(slices.looked_at, 1), 0.5)[depth - 1]
    keep = sign * slices.z > -ndtri(share)
    if is_binary(loss) and len(loss):
        right = slices.total if worse else slices.n - slices.total
        keep &= bdtrc(right - 1, slices.n, loss.mean() if worse else 1 - loss.mean()) < share
    slices, share, bar = slices.of(keep), share[keep], -ndtri(share[keep])
    n, total = np.append(len(loss), slices.n), sign * np.append(loss.sum(), slices.total)  # of all items, then slices
    square, chosen, common = float(loss @ loss), [0], [n]
    while len(chosen) <= min(most, len(bar)):
        gram = np.stack(common)  # items that a chosen slice shares with each: all items are the first
        weights = np.linalg.lstsq(gram[:, chosen], total[chosen])[0]
        variance = max(square - weights @ total[chosen], 0) / max(len(loss) - len(chosen), 1)
        z = standardised(slices.n, (total - weights @ gram)[1:], len(loss), variance)
        z[np.asarray(chosen[1:], np.int64) - 1] = -np.inf
        best = int(np.argmax(np.where(z > bar, np.log(share) - log_ndtr(-z), -np.inf)))
        if not z[best] > bar[best]:
            break
        chosen.append(best + 1)
        common.append(np.append(slices.n[best], _common(predicates, slices, best)))
    return slices.of(np.asarray(chosen[1:], np.int64) - 1)


def _common(predicates: Predicates, slices: Slices, chosen: int) -> Floats:
    """How many items of each slice are items of the chosen one."""
    inside = np.bitwise_and.reduce(predicates.bits[slices.members[chosen][slices.members[chosen] >= 0]], axis=0)
    depth, common = lengths(slices.members), np.zeros(len(slices.n))
    for length in np.unique(depth):
        rows = depth == length
        common[rows] = counted(predicates.bits, slices.members[rows, :length], inside, np.zeros(0)).total
    return common
