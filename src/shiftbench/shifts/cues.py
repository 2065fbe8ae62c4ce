"""The CE criterion (Madras & Zemel, 2021, §3.1.1): areas of tags, the cues of a class, and which items are hard.

A cue is what is large where a class is present. Everything is computed for all classes at once, or for some of them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, in_short
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection, Tags

if TYPE_CHECKING:
    from shiftbench.shifts.out_of_context import Context

Shares = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int8]
ALPHA, BETA = 0.05, 0.1
KINDS = ("easy", "hard_positive", "hard_negative")
EASY, HARD_POSITIVE, HARD_NEGATIVE = range(3)


@dataclass(frozen=True, eq=False)
class Areas:
    """The sparse table items × tags of Area(C): row r says that tag `tag[r]` covers `area[r]` of item `item[r]`.

    Rows are sorted by item, then tag, each pair once. An area is the sum over the tag's instances, so it may exceed 1
    where they overlap. A tag that an item does not carry has no row and the area 0; one it carries may have the area 0.
    """

    item: Ints
    tag: Ints
    area: Shares
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    n_items: int

    def code(self, name: str) -> int:
        """The number of a tag by its name, or by kind and name where two kinds share one."""
        full = [f"{kind}:{word}" for kind, word in zip(self.kinds, self.names, strict=True)]
        codes = [code for code, word in enumerate(self.names) if word == name] or [
            code for code, word in enumerate(full) if word == name]
        if not codes:
            raise unknown("tag", name, self.titles)
        if len(codes) > 1:
            raise ShiftBenchError(f"'{name}' is the name of {len(codes)} tags: "
                                  f"{', '.join(full[code] for code in codes)}. Name one of these.")
        return codes[0]

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """The names, with their kind before those that two kinds share."""
        times = Counter(self.names)
        return tuple(f"{kind}:{word}" if times[word] > 1 else word
                     for kind, word in zip(self.kinds, self.names, strict=True))

    def carried(self, tag: int) -> Bools:
        """Which items carry a tag: Y = 1, however small its area."""
        answer = np.zeros(self.n_items, np.bool_)
        answer[self.item[self.tag == tag]] = True
        return answer

    def present(self, tag: int) -> Bools:
        """Where a tag covers something: area > 0, as the environments of NOOCh are made."""
        answer = np.zeros(self.n_items, np.bool_)
        answer[self.item[(self.tag == tag) & (self.area > 0)]] = True
        return answer


def areas(collection: Collection, kinds: Sequence[str] = (), without: Sequence[str] = (), label: str = "") -> Areas:
    """The areas of a collection's tags of these kinds (default: all), those named in `without` left out.

    The label is there whatever its kind.
    """
    tags = collection.tags
    if not len(tags.tag):
        raise ShiftBenchError(f"Collection '{collection.name}' has no tags, so it has no areas. Read annotations with "
                              "areas, for example COCO's instances and stuff files, or choose a factor expression.")
    for kind in kinds:
        if kind not in tags.kinds and not set(kinds) & set(tags.kinds):
            raise unknown("kind of tags", kind, set(tags.kinds), f"Collection '{collection.name}'")
    kept = np.asarray([(not kinds or tags.kinds[code] in kinds) and not set(_both(tags, code)) & set(without)
                       for code in range(len(tags.names))], np.bool_)
    if label and label not in (name for code in np.flatnonzero(kept).tolist() for name in _both(tags, code)):
        kept[tags.codes(label)] = True
    number = np.cumsum(kept) - 1
    rows = np.flatnonzero(kept[tags.tag])
    codes = np.flatnonzero(kept).tolist()
    table = Areas(tags.item[rows], number[tags.tag[rows]], tags.area[rows], tuple(tags.names[code] for code in codes),
                 tuple(tags.kinds[code] for code in codes), len(collection))
    missing = np.isnan(table.area)
    if len(rows) and missing.all():
        raise ShiftBenchError(f"Collection '{collection.name}': no tag of kind {' or '.join(kinds) or 'any'} has an "
                              "area. Read annotations with areas, or choose criterion 'gist' with tau, or a factor "
                              "expression.")
    for row in np.flatnonzero(missing)[:1]:
        worst = np.bincount(table.tag[missing], minlength=len(codes))
        unknown_areas = ", ".join(table.titles[code] for code in np.argsort(-worst, kind="stable")[:5] if worst[code])
        raise ShiftBenchError(
            f"Collection '{collection.name}': {int(missing.sum())} of {len(rows)} areas are unknown (NaN), first "
            f"'{table.titles[table.tag[row]]}' in item '{collection.items[table.item[row]]}'. Leave such tags out with "
            f"`without` or `kinds` (most often unknown: {unknown_areas}).")
    return table


def _both(tags: Tags, code: int) -> tuple[str, str]:
    return tags.names[code], f"{tags.kinds[code]}:{tags.names[code]}"


class Cue(NamedTuple):
    """One cue of a class: its tag and A(C, Y)."""

    tag: str
    kind: str
    strength: float


def strengths(areas: Areas, train: Bools | None = None) -> Floats:
    """A(C, Y) of every class and every cue at once, as a matrix whose row is Y and whose column is C.

        A(C, Y) = E[Area(C) − Area(Y) | Y = 1]   over the training items,

    one product of two sparse matrices, who carries Y and how much C covers. The row of a class that no training item
    carries is NaN. Sums go item by item in one order, so every machine finds the same cues.
    """
    from scipy.sparse import csr_array

    n, width = areas.n_items, len(areas.names)
    rows = slice(None) if train is None else np.flatnonzero(train[areas.item])
    item, tag, area = areas.item[rows], areas.tag[rows], areas.area[rows].astype(np.float64)
    start = np.searchsorted(item, np.arange(n + 1))
    covered = csr_array((area, tag, start), shape=(n, width))
    carried = csr_array((np.ones(len(tag)), tag, start), shape=(n, width))
    total: Floats = (carried.T @ covered).toarray()
    count = np.bincount(tag, minlength=width)
    mean: Floats = np.full((width, width), np.nan)
    seen = count > 0
    mean[seen] = total[seen] / count[seen, None]
    mean -= mean.diagonal().copy()[:, None]
    return mean


def cues(strength: Floats, alpha: float = ALPHA) -> Bools:
    """Which C are alpha-strong context cues of which Y: {C ≠ Y : A(C, Y) > alpha}, row Y, column C."""
    if not np.isfinite(alpha):
        raise ShiftBenchError(f"alpha is {alpha}, but it must be a number, usually {ALPHA}.")
    chosen: Bools = strength > alpha
    np.fill_diagonal(chosen, False)
    return chosen


def cues_of(areas: Areas, strength: Floats, label: int, alpha: float = ALPHA) -> list[Cue]:
    """The cues of one class from the strongest on, or an error that names the nearest choice."""
    row = strength[label]
    name = areas.titles[label]
    if np.isnan(row).all():
        seen: Ints = np.flatnonzero(~np.isnan(np.diagonal(strength)))
        labels = ", ".join(areas.titles[code] for code in seen[:20].tolist())
        raise ShiftBenchError(f"No training item carries '{name}', so it has no context. Choose another label"
                              + (f": {labels}{' …' if len(seen) > 20 else ''}." if len(seen) else "."))
    chosen = np.flatnonzero(cues(strength, alpha)[label])
    if not chosen.size:
        others = np.where(np.arange(len(row)) == label, -np.inf, row)
        best = int(others.argmax())
        if len(row) < 2:
            raise ShiftBenchError(f"'{name}' is the only tag, so nothing can be its context.")
        able = np.flatnonzero(cues(strength, alpha).any(axis=1))
        examples = ", ".join(areas.titles[code] for code in able[:5].tolist())
        other = f", or choose a label with a cue, for example {examples}" if examples else ""
        raise ShiftBenchError(f"'{name}' has no cue with A > {alpha:g}. The nearest is '{areas.titles[best]}' with A = "
                              f"{row[best]:.4f}: lower alpha below that{other}.")
    order = chosen[np.argsort(-row[chosen], kind="stable")]
    return [Cue(areas.titles[code], areas.kinds[code], float(row[code])) for code in order.tolist()]


def members(areas: Areas, cue: Bools, beta: float = BETA, tasks: Ints | None = None) -> Codes:
    """The kind of every item in every task, items × tasks, as places in `KINDS`; `tasks` are tags, default all.

        hard positive   Y = 1,  Y has a cue,  Area(C) < beta for all its cues C
        hard negative   Y = 0,  Area(C) > beta for some cue C of Y

    All else is easy, and so is an area of exactly beta on either side. The paper's "β = 1" would leave no hard
    negative; its Figure 1 and the published lists say 0.1.
    """
    if not (np.isfinite(beta) and beta >= 0):
        raise ShiftBenchError(f"beta is {beta}, but it must be a share of the image, 0 or more, usually {BETA}.")
    wanted = np.arange(len(areas.names)) if tasks is None else tasks
    chosen = cue[wanted]
    limit = np.float32(beta)  # areas are float32: what is 0.1 in a file is to equal 0.1 here
    able = chosen.any(axis=1) & (limit > 0)  # no area is below 0, not even that of a tag without a row
    far = ~_near(areas, chosen, areas.area >= limit) & able
    near = _near(areas, chosen, areas.area > limit)
    column = np.full(len(areas.names), -1)
    column[wanted] = np.arange(len(wanted))
    rows = np.flatnonzero(column[areas.tag] >= 0)
    carried = np.zeros((areas.n_items, len(wanted)), np.bool_)
    carried[areas.item[rows], column[areas.tag[rows]]] = True
    kind: Codes = (near & ~carried).astype(np.int8) * HARD_NEGATIVE
    kind[far & carried] = HARD_POSITIVE
    return kind


def alike(areas: Areas, cue: Bools, carried: Bools, train: Bools) -> float:
    """The beta at which hard items are as common among positives as among negatives: on the training items

        P(hard | Y = 1) = P(m < beta | Y = 1),     P(hard | Y = 0) = P(m > beta | Y = 0),

    m being the largest area of a cue. The first grows with beta and the second falls, so they meet: beta is halfway
    between two neighbouring areas, where their difference is smallest.
    """
    largest = np.zeros(areas.n_items, np.float32)
    rows = cue[areas.tag]
    np.maximum.at(largest, areas.item[rows], areas.area[rows])
    positive, negative = np.sort(largest[carried & train]), np.sort(largest[~carried & train])
    seen = np.unique(np.concatenate([positive, negative])).astype(np.float64)
    betas = (seen[:-1] + seen[1:]) / 2
    if not len(betas) or not len(positive) or not len(negative):
        raise ShiftBenchError("beta = 'alike' needs training items with and without the label whose cues differ in "
                              f"area. Give a number, usually {BETA}.")
    below = np.searchsorted(positive, betas) / len(positive)
    above = 1 - np.searchsorted(negative, betas) / len(negative)
    return float(betas[np.abs(below - above).argmin()])


def words(kind: Codes) -> Strs:
    return np.asarray(KINDS)[kind]


def _near(areas: Areas, cue: Bools, large: Bools) -> Bools:
    """Which items have a large cue of which task.

    A tag stands for the set of tasks it is a cue of, one bit each; an item's large tags are joined by OR.
    """
    n_tasks = len(cue)
    packed = np.packbits(cue.T, axis=1)  # tags × bytes
    wide = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    wide[:, :packed.shape[1]] = packed
    sets = wide.view(np.uint64)
    is_cue: Bools = np.logical_or.reduce(cue, axis=0)
    rows = np.flatnonzero(large & is_cue[areas.tag])
    joined = np.zeros((areas.n_items, sets.shape[1]), np.uint64)
    if rows.size:
        item = areas.item[rows]
        first = np.flatnonzero(np.diff(item, prepend=-1))
        joined[item[first]] = np.bitwise_or.reduceat(sets[areas.tag[rows]], first, axis=0)
    return np.unpackbits(joined.view(np.uint8), axis=1, count=n_tasks).view(np.bool_)


# What a criterion says of every item, and what this one says.

class Judged(NamedTuple):
    """One value per item of the collection."""

    label: Strs
    domain: Strs
    kind: Strs
    facts: dict[str, Any]
    notes: list[str]


def by_areas(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """The CE criterion: cues by the training items, hard items by their areas."""
    table = areas(collection, shift.kinds, shift.without, shift.label)
    label = table.code(shift.label)
    strength = strengths(table, split == "train")
    strong = cues_of(table, strength, label, shift.alpha)
    cue, carried = cues(strength, shift.alpha), table.carried(label)
    beta = alike(table, cue[label], carried, split == "train") if shift.beta == "alike" else float(shift.beta)
    kind = members(table, cue, beta, np.asarray([label]))[:, 0]
    strongest = shift.cue or strong[0].tag
    domain = np.where(table.present(table.code(strongest)), strongest, f"no {strongest}")
    listed = in_short((f"{cue.tag} ({cue.strength:.3f})" for cue in strong), 12)
    return Judged(yes_or_no(shift.label, carried), domain, words(kind), {
        "positive": shift.label, "criterion": {"name": "ce", "alpha": shift.alpha, "beta": beta},
        "environment": strongest, "cues": [cue._asdict() for cue in strong]},
        [f"Cues of '{shift.label}' with A(C, Y): {listed}."])


def carrying(collection: Collection, name: str) -> Bools:
    """Which items carry a tag."""
    carried = np.zeros(len(collection), np.bool_)
    carried[collection.with_tag(name)] = True
    return carried


def yes_or_no(name: str, carried: Bools) -> Strs:
    return np.where(carried, name, f"no {name}")
