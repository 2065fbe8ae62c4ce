"""What a collection holds, counted: for the terminal, for notebooks and as JSON."""

from typing import Any

import numpy as np

from shiftbench.core.arrays import encode
from shiftbench.data.collection import Collection

COLUMNS = ("name", "is", "values", "how many items")


def collection_facts(collection: Collection) -> dict[str, Any]:
    """Counts of everything in a collection."""
    tags = collection.tags
    times = np.bincount(tags.tag, minlength=len(tags.names))
    kinds = sorted(set(tags.kinds))
    return {
        "name": collection.name, "items": len(collection), "digest": collection.digest,
        "images": "none" if collection.pixels is None else "files" if collection.pixels.dtype.kind == "U"
        else "×".join(map(str, collection.pixels.shape[1:3])),
        "texts": len(collection.texts.item), "boxes": len(tags.boxes),
        "factors": {name: _values(values) for name, values in collection.factors.items()},
        "tags": {kind: {tags.names[code]: int(times[code]) for code in np.argsort(-times, kind="stable")
                        if tags.kinds[code] == kind} for kind in kinds},
        "parents": len(collection.parents),
    }


def _values(values: Any) -> dict[str, Any]:
    """How often each value occurs; for numbers with many values, their range and how many are missing."""
    if values.dtype.kind == "f" or (values.dtype.kind in "iu" and len(np.unique(values)) > 50):
        known = values[~np.isnan(values)]
        lacking = {"missing": len(values) - len(known)} if len(known) < len(values) else {}
        return {"least": known.min().item(), "most": known.max().item(), **lacking} if len(known) else lacking
    codes, names = encode(values)
    return dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))


def contents_title(facts: dict[str, Any]) -> str:
    """The counts of `collection_facts` in a line."""
    return (f"{facts['items']:,} items, images {facts['images']}, {facts['texts']:,} texts, {facts['boxes']:,} boxes, "
            f"{facts['parents']:,} names in the hierarchy")


def contents_rows(collection: Collection, facts: dict[str, Any]) -> list[tuple[str, str, int, str]]:
    """A row per factor and per kind of tag: its values, and how many items have the first of them."""
    listed: list[tuple[str, str, int, str]] = []
    for name, values in facts["factors"].items():
        own = collection.factors[name]
        many = len(np.unique(own[~np.isnan(own)])) if own.dtype.kind in "fiu" else len(values)
        listed.append((name, "factor", many, _most(values)))
    return listed + [(kind, "tags", len(names), _most(names)) for kind, names in facts["tags"].items()]


def _most(values: dict[str, Any]) -> str:
    shown = [f"{name} {n:,.6g}" if isinstance(n, float) else f"{name} {n:,}" for name, n in list(values.items())[:8]]
    return ", ".join(shown) + (" …" if len(values) > 8 else "")
