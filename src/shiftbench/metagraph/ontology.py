"""MetaShift's contexts beyond objects: general ones (appendix A.1.1) and attributes (A.1.2), as the paper lists them.

`within` keeps of a collection's places, weather and attributes those that the paper uses; its objects stay as they are.
"""

from dataclasses import replace

import numpy as np

from shiftbench.collection import Collection, Tags

GENERAL = {
    "indoor/outdoor": ("indoors", "outdoors"),
    "weather": ("clear", "overcast", "cloudless", "cloudy", "sunny", "foggy", "rainy"),
    "room": ("bedroom", "kitchen", "bathroom", "living room"),
    "place": (
        "road", "sidewalk", "field", "beach", "park", "grass", "farm", "ocean", "pavement", "lake", "street",
        "train station", "hotel room", "church", "restaurant", "forest", "path", "display", "store", "river", "yard",
        "snow", "airport", "parking lot"),
}
"""The 37 general contexts."""

ATTRIBUTES = {
    "darkness": ("dark", "bright"), "dryness": ("wet", "dry"), "colorful": ("colorful", "shiny"),
    "leaf": ("leafy", "bare"), "emotion": ("happy", "calm"), "sports": ("baseball", "tennis"),
    "flatness": ("flat", "curved"), "lightness": ("light", "heavy"), "gender": ("male", "female"),
    "width": ("wide", "narrow"), "depth": ("deep", "shallow"), "hardness": ("hard", "soft"),
    "cleanliness": ("clean", "dirty"), "switch": ("on", "off"), "thickness": ("thin", "thick"),
    "openness": ("open", "closed"), "height": ("tall", "short"), "length": ("long", "short"),
    "fullness": ("full", "empty"), "age": ("young", "old"), "size": ("large", "small"),
    "pattern": ("checkered", "striped", "dress", "dotted"),
    "shape": ("round", "rectangular", "triangular", "square"),
    "activity": (
        "waiting", "staring", "drinking", "playing", "eating", "cooking", "resting", "sleeping", "posing", "talking",
        "looking down", "looking up", "driving", "reading", "brushing teeth", "flying", "surfing", "skiing", "hanging"),
    "pose": ("walking", "standing", "lying", "sitting", "running", "jumping", "crouching", "bending", "smiling",
             "grazing"),
    "material": ("wood", "plastic", "metal", "glass", "leather", "porcelain", "concrete", "paper", "stone", "brick"),
    "color": (
        "white", "red", "black", "green", "silver", "gold", "khaki", "gray", "dark", "pink", "dark blue", "dark brown",
        "blue", "yellow", "tan", "brown", "orange", "purple", "beige", "blond", "brunette", "maroon", "light blue",
        "light brown"),
}
"""The 114 object attributes by what they describe, less a second leather; `dark` and `short` stand under two heads."""

_GENERAL = frozenset(word for words in GENERAL.values() for word in words)
_ATTRIBUTES = frozenset(word for words in ATTRIBUTES.values() for word in words)


def within(collection: Collection) -> Collection:
    """The collection with those places, weather words and attributes alone that the paper uses as contexts."""
    tags = collection.tags
    keep = np.asarray([_in_paper(name, kind) for name, kind in zip(tags.names, tags.kinds, strict=True)], np.bool_)
    rows = keep[tags.tag]
    boxed = rows[tags.box_row] if len(tags.box_row) else np.zeros(0, np.bool_)
    number = np.cumsum(rows) - 1
    kept = Tags(
        item=tags.item[rows], tag=(np.cumsum(keep) - 1)[tags.tag[rows]], area=tags.area[rows],
        names=tuple(name for name, stays in zip(tags.names, keep, strict=True) if stays),
        kinds=tuple(kind for kind, stays in zip(tags.kinds, keep, strict=True) if stays),
        box_row=number[tags.box_row[boxed]], boxes=tags.boxes[boxed],
    )
    return replace(collection, tags=kept)


def _in_paper(name: str, kind: str) -> bool:
    if kind in ("place", "weather"):
        return name in _GENERAL
    return kind != "attribute" or name.partition("(")[2].removesuffix(")") in _ATTRIBUTES
