"""Readers: one per annotation format, each gives a Collection. They never guess, and drop only what the
format's own makers drop; a split that comes with the data is a factor like any other."""

from collections.abc import Callable

from shiftbench.data.collection import Collection
from shiftbench.readers.coco import coco
from shiftbench.readers.factors import factors
from shiftbench.readers.gqa import gqa
from shiftbench.readers.imagenet import imagenet
from shiftbench.readers.metashift import metashift
from shiftbench.readers.table import table
from shiftbench.readers.waterbirds import waterbirds
from shiftbench.readers.wilds import wilds

READERS: dict[str, Callable[..., Collection]] = {
    "coco": coco, "factors": factors, "gqa": gqa, "imagenet": imagenet, "metashift": metashift,
    "table": table, "waterbirds": waterbirds, "wilds": wilds}
