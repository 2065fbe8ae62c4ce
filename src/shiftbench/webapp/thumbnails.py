"""Small pictures of items, made when they are looked at and kept up to a number of bytes."""

import io
from pathlib import Path
from threading import Lock

import numpy as np
from PIL import Image

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.data.roots import unconfirmed
from shiftbench.images.decode import open_image

SIDES = (128, 512)
"""The longest side of a picture on the wall, and of one that is looked at alone."""
ROOM = 64 << 20
"""Bytes of pictures that are kept."""
TYPE = "image/webp"


class Thumbnails:
    """Pictures by collection, item and side; those that were not looked at for longest go first."""

    def __init__(self, room: int = ROOM) -> None:
        self.room = room
        self.held = 0
        self._pictures: dict[tuple[str, int, int], bytes] = {}
        self._lock = Lock()

    def picture(self, collection: Collection, version: str, row: int, side: int) -> bytes:
        """The picture of an item, no longer than `side`. `version` tells collections apart."""
        key = (version, row, side)
        with self._lock:
            known = self._pictures.pop(key, None)
            if known is not None:
                self._pictures[key] = known
                return known
        drawn = draw(collection, row, side)  # outside the lock: pictures are decoded side by side
        with self._lock:
            if key not in self._pictures:
                self.held += len(drawn)
                self._pictures[key] = drawn
            while self.held > self.room:
                self.held -= len(self._pictures.pop(next(iter(self._pictures))))
        return drawn


def draw(collection: Collection, row: int, side: int) -> bytes:
    """An item's image as WebP, in its own proportions."""
    reason = why_none(collection)
    if reason or collection.pixels is None:
        raise ShiftBenchError(reason)
    if collection.pixels.dtype.kind == "U":
        picture = open_image(collection, row, None, least=2 * side)
    else:
        picture = Image.fromarray(np.asarray(collection.pixels[row]))
    picture.thumbnail((side, side))
    held = io.BytesIO()
    picture.save(held, "WEBP", quality=88, method=2)
    return held.getvalue()


def why_none(collection: Collection) -> str:
    """Why a collection's images are not shown; "" if they are."""
    pixels = collection.pixels
    if pixels is None or not len(pixels):
        return "The collection has no images."
    if collection.foreign:
        return str(unconfirmed(collection.home or Path(), collection.root or Path.cwd()))
    if pixels.dtype.kind == "U" and str(pixels[0]).endswith(".npz"):
        return "Its images have any number of channels, and are no pictures."
    return ""
