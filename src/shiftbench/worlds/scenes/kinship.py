"""The class tree: breed -> class -> superclass -> animal or artifact -> entity."""

from functools import cache

from shiftbench.worlds.scenes.sheet import sheet
from shiftbench.worlds.scenes.themes import CLASSES

SUPERCLASSES = {
    "cat": "pet", "dog": "pet", "horse": "farm animal", "cow": "farm animal", "sheep": "farm animal",
    "bear": "wild animal", "bird": "wild animal", "elephant": "wild animal", "giraffe": "wild animal",
    "zebra": "wild animal", "bus": "vehicle", "truck": "vehicle", "bowl": "tableware", "cup": "tableware",
}
KINDS = {"pet": "animal", "farm animal": "animal", "wild animal": "animal", "vehicle": "artifact",
         "tableware": "artifact"}
ROOT = "entity"


@cache
def breeds() -> dict[str, str]:
    """Every breed and its class."""
    return {sprite.breed: sprite.name for sprite in sheet().sprites if sprite.name in CLASSES}


def parents() -> dict[str, tuple[str, ...]]:
    """The tree as a collection stores it: a name and the names above it."""
    above = {**breeds(), **SUPERCLASSES, **KINDS, **dict.fromkeys(KINDS.values(), ROOT)}
    return {name: (parent,) for name, parent in above.items()}
