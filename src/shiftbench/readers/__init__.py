"""Readers: one per annotation format, each gives a Collection. They never filter, never guess, know of no split."""

from collections.abc import Callable

from shiftbench.collection import Collection
from shiftbench.readers.coco import coco
from shiftbench.readers.factors import factors
from shiftbench.readers.gqa import gqa
from shiftbench.readers.imagenet import imagenet
from shiftbench.readers.metashift import metashift
from shiftbench.readers.waterbirds import waterbirds

READERS: dict[str, Callable[..., Collection]] = {
    "coco": coco, "factors": factors, "gqa": gqa, "imagenet": imagenet, "metashift": metashift,
    "waterbirds": waterbirds}
