"""Readers: one per annotation format, each returns a Collection. They never guess, and drop only what the
format's own makers drop; a split that comes with the data is a factor like any other."""

from shiftbench.data.hf_dataset import hf
from shiftbench.data.item_table import table
from shiftbench.readers.annotation_files import READERS
from shiftbench.readers.boxes import open_images, voc
from shiftbench.readers.coco import coco
from shiftbench.readers.factors import factors
from shiftbench.readers.gqa import gqa
from shiftbench.readers.image_folders import folder, imagenet
from shiftbench.readers.metashift import metashift
from shiftbench.readers.waterbirds import waterbirds
from shiftbench.readers.wilds import wilds
from shiftbench.readers.yolo import yolo
from shiftbench.worlds import world

__all__ = ["READERS"]

READERS.update(
    world=world, coco=coco, factors=factors, folder=folder, imagenet=imagenet, gqa=gqa, hf=hf, metashift=metashift,
    yolo=yolo, voc=voc, open_images=open_images, waterbirds=waterbirds, wilds=wilds, table=table)
