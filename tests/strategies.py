"""Shared hypothesis strategies: small collections with everything in them, and benchmarks made from them."""

import numpy as np
from hypothesis import strategies as st

from shiftbench.data.benchmark import SPLITS, UNLABELLED, Benchmark
from shiftbench.data.collection import Collection, Tags, Texts

seeds = st.integers(0, 2**32 - 1)
letters = st.characters(codec="utf-8", exclude_categories=("Cs",), exclude_characters="\0")
words = st.text(letters, min_size=1, max_size=6)

LABELLED = [split for split in SPLITS if split != UNLABELLED]


@st.composite
def collections(draw: st.DrawFn, max_items: int = 20) -> Collection:
    """Any collection: odd ids, factors of every type, tags with and without areas and boxes, texts, parents, images."""
    items = draw(st.lists(words, min_size=1, max_size=max_items, unique=True))
    n = len(items)
    rng = np.random.default_rng(draw(seeds))
    names = draw(st.lists(words, min_size=1, max_size=5, unique=True))
    rows = rng.integers(0, 3 * n + 1)
    texts = rng.integers(0, 2 * n + 1)
    area = rng.random(rows)
    area[rng.random(rows) < 0.3] = np.nan
    boxes = rng.random((rows, 4))
    boxes[rng.random(rows) < 0.5] = np.nan
    return Collection(
        name=draw(words),
        items=np.asarray(items),
        factors={
            "word": rng.choice(np.asarray(names), n),
            "whole": rng.integers(-3, 4, n),
            "real": rng.normal(size=n),
            "flag": rng.random(n) < 0.5,
        },
        tags=Tags.of(rng.integers(0, n, rows), rng.integers(0, len(names), rows), names,
                     rng.choice(["object", "place"], len(names)).tolist(), area, boxes),
        texts=Texts(rng.integers(0, n, texts), rng.choice(np.asarray([*names, "a caption"]), texts)),
        parents={names[0]: ("the root",), "a child": ("the root", "another root")},  # longer than any tag
        pixels=draw(st.sampled_from([None, rng.integers(0, 256, (n, 3, 3, 3), dtype=np.uint8),
                                     np.asarray([f"{k}.png" for k in range(n)])])),
    )


def toy(n: int = 400, seed: int = 0) -> Collection:
    """Two classes, two places, five contexts: enough items in every cell for any shift."""
    rng = np.random.default_rng(seed)
    label = np.asarray(["cat", "dog"])[rng.integers(0, 2, n)]
    place = np.asarray(["indoors", "outdoors"])[rng.integers(0, 2, n)]
    contexts = ["sofa", "bed", "shelf", "bench", "boat"]
    often = np.where((place == "indoors")[:, None], [0.5, 0.5, 0.5, 0.2, 0.1], [0.1, 0.1, 0.2, 0.5, 0.4])
    carried = rng.random((n, 5)) < often
    both = rng.random(n) < 0.03
    item, tag = np.nonzero(carried)
    own = np.where(label == "cat", 5, 6)
    other = np.where(label == "cat", 6, 5)
    return Collection(
        "toy", np.asarray([f"i{k:04d}" for k in range(n)]), {"class": label, "place": place},
        Tags.of(np.concatenate([item, np.arange(n), np.flatnonzero(both)]),
                np.concatenate([tag, own, other[both]]), [*contexts, "cat", "dog"]),
    )


@st.composite
def benchmarks(draw: st.DrawFn) -> Benchmark:
    """Any rows of a toy collection in any splits."""
    collection = toy(60, draw(st.integers(0, 20)))
    n = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(seeds))
    rows = rng.permutation(60)[:n]
    return Benchmark.of(collection, None, 0, rows, rng.choice(LABELLED, n), label=collection.factor("class")[rows],
                        domain=collection.factor("place")[rows], extra={"weight": rng.random(n)})
