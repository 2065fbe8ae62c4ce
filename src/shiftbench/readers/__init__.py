"""Readers: one per annotation format, each returns a Collection. They never guess, and drop only what the
format's own makers drop; a split that comes with the data is a factor like any other."""

from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import check_regular
from shiftbench.core.registry import Registry, find
from shiftbench.data.collection import MARKER, Collection
from shiftbench.data.hf_dataset import hf
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
from shiftbench.worlds import world

READERS: Registry[Callable[..., Collection]] = Registry(dict[str, Callable[..., Collection]](
    world=world, coco=coco, factors=factors, folder=folder, imagenet=imagenet, gqa=gqa, hf=hf, metashift=metashift,
    yolo=yolo, voc=voc, open_images=open_images, waterbirds=waterbirds, wilds=wilds, table=table))

IN_MEMORY = ("hf", "table")
"""Formats that are also read from objects: data frames and data sets of Hugging Face."""


def read_files(
    format: str, sources: Sequence[Any], *, drop_missing: bool = False, **options: Any
) -> Collection:
    """Read annotation files into a collection. Missing image files are counted in a warning, or their items are
    dropped."""
    reader = find(READERS, "format", format)
    parameters = signature(reader).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for key in options:
        if key not in parameters and not takes_any:
            settings = [name for name, parameter in parameters.items() if parameter.default is not parameter.empty]
            raise unknown("setting", key, settings, format)
    for source in sources:
        if isinstance(source, str | Path):
            check_regular(source)
        elif format not in IN_MEMORY and READERS.owner(format).ours:
            raise ShiftBenchError(f"{format}: is read from files, not from a {type(source).__name__}.")
    collection = reader(*(str(source) if isinstance(source, Path) else source for source in sources), **options)
    if not isinstance(collection, Collection):
        raise ShiftBenchError(f"{format}: {READERS.owner(format)} returns {type(collection).__name__}, but a reader "
                              "must return a Collection.")
    return with_files(collection, drop_missing)


def keep(collection: Collection, out: Path | str, overwrite: bool = False) -> bool:
    """Save a collection and return whether that was needed: if `out` holds the same one, nothing is written."""
    if (Path(out) / MARKER).exists():
        try:
            present = Collection.load(out)
        except ShiftBenchError:
            present = None
        if present is not None and present == collection:
            return False
        if not overwrite:
            content = "a damaged collection" if present is None else (
                f"another collection ('{present.name}', {len(present):,} items; this one is '{collection.name}', "
                f"{len(collection):,} items)")
            raise ShiftBenchError(f"{out} holds {content}. Name another folder, or replace it with --overwrite "
                                  "(overwrite=True); benchmarks that were built on it stay as they are.")
    collection.save(out)
    return True
