"""The few slices that say what many do: orthogonal matching pursuit over what the search kept."""

import numpy as np
from scipy.special import bdtrc, log_ndtr, ndtri

from shiftbench.auditing.predicates import Predicates
from shiftbench.auditing.search import Slices, counted, is_binary, lengths, standardised
from shiftbench.core.arrays import Floats


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
