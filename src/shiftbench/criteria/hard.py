"""Hard positives and hard negatives by the CE criterion, of all classes at once (Madras & Zemel, 2021, §3.1.1)."""

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Bools, Ints, Strs
from shiftbench.criteria.areas import Areas
from shiftbench.errors import ShiftBenchError

BETA = 0.1
KINDS = ("easy", "hard_positive", "hard_negative")
EASY, HARD_POSITIVE, HARD_NEGATIVE = range(3)

Codes = npt.NDArray[np.int8]


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
