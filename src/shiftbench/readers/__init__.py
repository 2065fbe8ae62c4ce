"""Readers: one per annotation format, each gives a Collection. They never guess, and drop only what the
format's own makers drop; a split that comes with the data is a factor like any other."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import check_regular
from shiftbench.core.registry import find
from shiftbench.core.tables import is_frame, table_name
from shiftbench.data.collection import MARKER, Collection
from shiftbench.data.item_table import table
from shiftbench.readers.annotation_files import with_files
from shiftbench.readers.coco import coco
from shiftbench.readers.factors import factors
from shiftbench.readers.gqa import gqa
from shiftbench.readers.image_folders import folder, imagenet
from shiftbench.readers.metashift import metashift
from shiftbench.readers.open_images import open_images
from shiftbench.readers.pascal_voc import voc
from shiftbench.readers.waterbirds import waterbirds
from shiftbench.readers.wilds import wilds
from shiftbench.readers.yolo import yolo

READERS: dict[str, Callable[..., Collection]] = {
    "coco": coco, "factors": factors, "folder": folder, "gqa": gqa, "imagenet": imagenet, "metashift": metashift,
    "open_images": open_images, "table": table, "voc": voc, "waterbirds": waterbirds, "wilds": wilds, "yolo": yolo}


def read_files(
    format: str, sources: Sequence[Any], *, drop_missing: bool = False, **options: Any
) -> Collection:
    """Read annotation files into a collection. Image files that are not there are counted in a warning, or their items
    are dropped."""
    reader = find(READERS, "format", format)
    for source in sources:
        if is_frame(source) and format != "table":
            raise ShiftBenchError(f"{format}: is read from files, not from a {table_name(source)}.")
        if not is_frame(source):
            check_regular(source)
    return with_files(reader(*(source if is_frame(source) else str(source) for source in sources), **options),
                      drop_missing)


def keep(collection: Collection, out: Path | str, overwrite: bool = False) -> bool:
    """Save a collection, and say whether that was needed: where `out` holds the same one, nothing is written."""
    if (Path(out) / MARKER).exists():
        try:
            before = Collection.load(out)
        except ShiftBenchError:
            before = None
        if before is not None and before == collection:
            return False
        if not overwrite:
            what = "a damaged collection" if before is None else (
                f"another collection ('{before.name}', {len(before):,} items; this one is '{collection.name}', "
                f"{len(collection):,} items)")
            raise ShiftBenchError(f"{out} holds {what}. Name another folder, or replace it with --overwrite "
                                  "(overwrite=True); benchmarks that were built on it stay as they are.")
    collection.save(out)
    return True
