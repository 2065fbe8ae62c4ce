"""What a collection has to offer as a whole: the paper's summary of all classes, and each class in a line."""

from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.metagraph.catalogue import Terms, catalogue, summary
from shiftbench.metagraph.stream import described, streamed


def overview(
    collection: Collection | Path | str, terms: Terms | None = None, *, engine: str = "local",
) -> dict[str, Any]:
    """Classes, subsets, distinct contexts, mean and median size (MetaShift, section 3), and the same for each class.

    A collection on disk, given by its folder, is streamed: it may be larger than memory.
    """
    if isinstance(collection, Collection):
        if engine != "local":
            raise ShiftBenchError(f"The engine '{engine}' reads a collection from disk. Save '{collection.name}' and "
                                  "give its folder.")
        tags, found = collection.tags, catalogue(collection, terms)
    else:
        (_, tags), found = described(collection), streamed(collection, terms, engine=engine)
    per_class = []
    for k, cls in enumerate(found.classes):
        sizes = found.sizes[found.first[k]:found.first[k + 1]]
        per_class.append({
            "class": cls,
            "items": int(found.items[k]),
            "subsets": len(sizes),
            "mean_size": float(np.mean(sizes)),
            "median_size": float(np.median(sizes)),
            "edges": int(found.edges.start[k + 1] - found.edges.start[k]),
        })
    return {**summary(found, tags), "per_class": sorted(per_class, key=lambda row: (-row["subsets"], row["class"]))}
