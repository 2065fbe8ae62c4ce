"""Clusters of embeddings as predicates: groups of items that look alike, named by what is frequent in them.

The features are those that `embed` has kept, or a table of yours. K-means runs on the exploring items alone, in the
first principal components of their features; then every item belongs to the cluster whose centre is nearest. The
predicates that are more frequent in a cluster than elsewhere name it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftbench.auditing.join import Items
from shiftbench.auditing.model_outputs import id_column
from shiftbench.auditing.predicates import Draft, Predicate, unpacked
from shiftbench.core.arrays import Bools, Floats, Ints, Values, child, in_short, positions, read_array
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import decimal, is_frame, read_table, strings, table_name
from shiftbench.data.predictions import IDS

SIZES = (8, 24)
"""Numbers of clusters: few wide ones, and more that are narrow."""
COMPONENTS, FITTED, ROUNDS = 32, 20_000, 50
"""Principal components that are kept, exploring items that centres are made from, and most rounds of k-means."""
NAMING = ("label", "factor", "tag", "class", "word")
"""Kinds of predicates that name a cluster."""
NAMES, LIFT = 2, 1.5
"""Predicates in a name, at most, and how much more frequent they must be in the cluster than elsewhere."""


# Reading

def read_features(source: Any, items: Items, id: str = "") -> Floats:
    """The features of the items, one row each; NaN for an item without.

    `source` is a table with ids and columns of numbers, or one column of lists of them; or the folder that `embed` has
    written below the collection of the items.
    """
    if is_frame(source) or not Path(source).is_dir():
        known, features = _table(source, id)
        rows = positions(items.facts.items, known)
    else:
        folder = _kept(Path(source))
        features, rows = kept_features(folder, items)
    if not (rows >= 0).any():
        raise ShiftBenchError(f"{table_name(source)}: has no features of the items that are audited.")
    return np.where(rows[:, None] >= 0, np.asarray(features, np.float64)[rows], np.nan)


def kept_features(folder: Path, items: Items) -> tuple[Values, Ints]:
    """The features that `embed` wrote for all items of a collection, and the row of each of `items`, -1 without."""
    features, present = read_array(folder / "features.npy"), read_array(folder / "present.npy")
    count = 0 if items.collection is None else len(items.collection)
    if (features.ndim != 2 or features.dtype.kind != "f" or present.shape != (count,) or len(features) != count
            or items.rows is None):
        raise ShiftBenchError(f"{folder}: holds no features of the {count:,} items of the collection. Name the "
                              "folder that `shiftbench embed` wrote for it, and audit with --data of a benchmark "
                              "or of that collection.")
    return features, np.where(present.astype(np.bool_)[items.rows], items.rows, -1)


def _kept(folder: Path) -> Path:
    """The folder with features.npy: this one, or the only one below it."""
    if (folder / "features.npy").is_file():
        return folder
    below = sorted(path.parent for path in folder.glob("*/features.npy"))
    if len(below) != 1:
        names = in_short([path.name for path in below], 5) if below else "none"
        raise ShiftBenchError(f"{folder}: holds the features of {len(below)} backbones ({names}). Name the folder of "
                              "one of them.")
    return below[0]


def _table(source: Any, id: str) -> tuple[Any, Floats]:
    where = table_name(source)
    table = read_table(source, text=(*IDS, id))
    column = id_column(table, id if id in table.column_names else "", where)
    names = [name for name in table.column_names if name != column]
    lists = [name for name in names if pa.types.is_nested(table[name].type)]
    if lists:
        try:
            wide = np.asarray(table[lists[0]].to_pylist(), np.float64)
        except (ValueError, TypeError):
            wide = np.zeros(0)
        if len(lists) > 1 or wide.ndim != 2 or not wide.shape[1]:
            raise ShiftBenchError(f"{where}: features are columns of numbers, or one column of lists of equally many "
                                  "numbers.")
        return strings(where, table, column), wide
    if not names:
        raise ShiftBenchError(f"{where}: has no column of numbers beside the ids.")
    return strings(where, table, column), np.stack([decimal(where, table, name) for name in names], axis=1)


# Clusters

def add_clusters(draft: Draft, features: Floats) -> None:
    """A predicate per cluster. Clusters exclude each other, and those of different numbers are not combined either."""
    known = np.isfinite(features).all(axis=1)
    if not known.all():
        draft.notes.append(f"{int((~known).sum()):,} items have no features and are in no cluster.")
    seen = np.flatnonzero(known & draft.explore)
    code, named = draft.code(), _naming(draft)
    for count in SIZES:
        if not draft.wants(f"cluster of {count}"):
            continue
        if len(seen) < 2 * count * max(draft.least, 1):
            draft.notes.append(f"{len(seen):,} exploring items with features are too few for {count} clusters.")
            continue
        rng = child(0, "audit", "clusters", str(count))
        fitted = np.sort(rng.permutation(seen)[:FITTED])
        points = _projected(features, fitted)
        cluster = np.where(known, nearest(points, k_means(points[fitted], count, rng)), -1)
        for number in range(count):
            mask = cluster == number
            words = f"in cluster {number + 1} of {count}"
            if name := _name(draft, mask, named):
                words += f" ({name})"
            draft.add(Predicate(f"cluster of {count}", f"{number + 1}", "cluster", words), mask, code)


def _projected(features: Floats, fitted: Ints) -> Floats:
    """All features in the principal components of some items; 0 where they are unknown."""
    sample = features[fitted]
    centre = sample.mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov(sample, rowvar=False).reshape(sample.shape[1], sample.shape[1]))
    return np.asarray(np.nan_to_num(features - centre) @ vectors[:, ::-1][:, :COMPONENTS])


def k_means(points: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Centres by Lloyd's rounds, from seeds that lie apart (k-means++: Arthur and Vassilvitskii, 2007)."""
    centres = points[rng.integers(len(points), size=1)]
    while len(centres) < count:
        far = _distances(points, centres).min(axis=1)
        total = far.sum()
        chances = far / total if total > 0 else None
        centres = np.concatenate([centres, points[rng.choice(len(points), size=1, p=chances)]])
    before = np.full(len(points), -1)
    for _ in range(ROUNDS):
        cluster = nearest(points, centres)
        if (cluster == before).all():
            break
        before = cluster
        size = np.bincount(cluster, minlength=count)
        sums = np.zeros_like(centres)
        np.add.at(sums, cluster, points)
        centres = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], centres)
    return centres


def nearest(points: Floats, centres: Floats) -> Ints:
    """The number of the nearest centre of each point."""
    return np.concatenate([_distances(points[start:start + FITTED], centres).argmin(axis=1)
                           for start in range(0, len(points), FITTED)]).astype(np.int64)


def _distances(points: Floats, centres: Floats) -> Floats:
    """Squared distances, points × centres."""
    square = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(square, 0.0))


def _naming(draft: Draft) -> list[tuple[str, Bools]]:
    """What may name a cluster, with the exploring items that it holds of."""
    return [(predicate.words, unpacked(bits, draft.n)[draft.explore]) for predicate, bits, _ in draft.rows.values()
            if predicate.kind in NAMING and predicate.value != "no"]


def _name(draft: Draft, mask: Bools, named: list[tuple[str, Bools]]) -> str:
    """The predicates that tell the cluster from the rest best, by z: of those LIFT times as frequent in it."""
    inside = mask[draft.explore]
    n1, n0 = int(inside.sum()), int((~inside).sum())
    if not n1 or not n0:
        return ""
    ranked = []
    for words, holds in named:
        within, elsewhere, overall = holds[inside].mean(), holds[~inside].mean(), holds.mean()
        if within > LIFT * elsewhere and 0 < overall < 1:
            ranked.append(((within - elsewhere) / np.sqrt(overall * (1 - overall) * (1 / n1 + 1 / n0)), words))
    ranked.sort(key=lambda pair: (-pair[0], pair[1]))
    return "; ".join(words for z, words in ranked[:NAMES] if z > 3)
