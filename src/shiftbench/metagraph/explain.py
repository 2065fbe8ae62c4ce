"""What is different between two sets of items: the tags whose shares differ most, for the card of a shift."""

from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.data.collection import Collection

# Whether two shares of counts differ beyond chance.

def fisher(first: int, of_first: int, second: int, of_second: int) -> float:
    """Fisher's exact test: the p-value of `first` of `of_first` items against `second` of `of_second`, two-sided.

    Given how many items there are in all, and with the tag, X of the first ones have it by the hypergeometric law; p is
    the probability of all X that are no likelier than the one seen.

    >>> round(fisher(0, 30, 3, 30), 3), round(fisher(2, 200, 40, 200), 12)
    (0.237, 0.0)
    """
    from scipy.special import gammaln

    def log_ways(n: int, k: Ints) -> Floats:
        return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))

    tagged = first + second
    x = np.arange(max(0, tagged - of_second), min(tagged, of_first) + 1)
    log = log_ways(of_first, x) + log_ways(of_second, tagged - x)
    chance = np.exp(log - log.max())
    return float(chance[chance <= chance[first - x[0]] * (1 + 1e-9)].sum() / chance.sum())


def differences(collection: Collection, train_rows: Ints, test_rows: Ints, top: int = 10) -> list[dict[str, Any]]:
    """The `top` tags whose shares differ most between two sets of items, as {tag, kind, train, test, lift, p}.

    `train` and `test` are the shares of items that carry the tag, and

        lift = ((n_test(t) + 1) / (n_test + 2)) / ((n_train(t) + 1) / (n_train + 2)),

    above 1 where test has more of it; one item more with and one without the tag keep it finite (Laplace). Ordered by
    |test − train|, then by name. `p` is Fisher's exact p-value times the number of tags that any of the items carries
    (Bonferroni): a difference with a large one is what a random split shows too. Item numbers may come in any order;
    doubles count once.
    """
    tags = collection.tags
    shares, smooth, seen, sizes = [], [], [], []
    for rows in (train_rows, test_rows):
        member: Bools = np.zeros(len(collection), np.bool_)
        member[rows] = True
        counts = np.bincount(tags.tag[member[tags.item]], minlength=len(tags.names))
        n = int(member.sum())
        seen.append(counts)
        sizes.append(n)
        shares.append(counts / max(n, 1))
        smooth.append((counts + 1) / (n + 2))
    looks = int(((seen[0] + seen[1]) > 0).sum())
    gap = np.abs(shares[1] - shares[0])
    order = np.lexsort((np.asarray(tags.kinds, np.str_), np.asarray(tags.names, np.str_), -gap.round(12)))
    return [{
        "tag": tags.names[code],
        "kind": tags.kinds[code],
        "train": float(shares[0][code]),
        "test": float(shares[1][code]),
        "lift": float(smooth[1][code] / smooth[0][code]),
        "p": min(1.0, looks * fisher(int(seen[0][code]), sizes[0], int(seen[1][code]), sizes[1])),
    } for code in order[:top].tolist() if gap[code] > 0]
