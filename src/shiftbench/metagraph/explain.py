"""What is different between two sets of items: the tags whose shares differ most, for the card of a shift."""

from typing import Any

import numpy as np

from shiftbench.arrays import Bools, Ints
from shiftbench.collection import Collection
from shiftbench.stats.counts import fisher


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
