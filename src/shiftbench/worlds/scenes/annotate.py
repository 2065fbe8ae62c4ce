"""Tags of drawn scenes: what can be seen, how much of it and where."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from shiftbench.core.arrays import Ints, Strs
from shiftbench.data.collection import Tags
from shiftbench.worlds.scenes import themes
from shiftbench.worlds.scenes.layout import Layout
from shiftbench.worlds.scenes.scene import Scenes, things
from shiftbench.worlds.scenes.sheet import sheet
from shiftbench.worlds.scenes.world import Seen

VISIBLE = 0.004  # an object or a stuff that covers less of the picture is not tagged: nobody would see it


@cache
def vocabulary() -> dict[tuple[str, str], int]:
    """Every tag of this world as (kind, name) and its code, whether an item carries it or not."""
    sprites = sheet().sprites
    subjects = [sprite for sprite in sprites if sprite.name in themes.CLASSES]
    traits = {f"{sprite.name}({word})" for sprite in subjects
              for word in (*sprite.main, *([sprite.pose] if sprite.pose else ()), "small", "large")}
    words = {
        "object": {*things()[0], *themes.CLASSES, "table"},
        "attribute": traits,
        "place": {*themes.WITH, "indoors", "outdoors"},
        "weather": set(themes.WEATHER),
        "stuff": set(sheet().stuff) - {""},
    }
    pairs = [(kind, name) for kind, names in words.items() for name in sorted(names)]
    return {pair: code for code, pair in enumerate(pairs)}


def shown(layout: Layout, seen: Seen) -> Ints:
    """Rows of the layout whose object is visible; the subject always is."""
    return np.flatnonzero((layout.name != "") & ((seen.area >= VISIBLE) | layout.subject))


def tags(scenes: Scenes, layout: Layout, seen: Seen) -> Tags:
    """Objects with area and boxes, traits of the classes' objects, stuff, place, indoors or outdoors, and weather.

    The areas are visible shares after occlusion. A place covers what no object hides; weather has no area.
    """
    code = vocabulary()
    n = len(scenes.index)
    rows = shown(layout, seen)
    item, name, area, box = layout.item[rows], layout.name[rows], seen.area[rows], seen.box[rows]
    size = np.where(layout.subject[rows], scenes.factors["size"][item], "")
    parts: list[tuple[Ints, Strs, str, np.ndarray, np.ndarray]] = [(item, name, "object", area, box)]
    blank = np.full((len(rows), 4), np.nan)
    for trait in (layout.main[rows], layout.pose[rows], np.where(size == "medium", "", size)):
        has = np.isin(name, list(themes.CLASSES)) & (trait != "")
        words = np.char.add(np.char.add(np.char.add(name[has], "("), trait[has]), ")")
        parts.append((item[has], words, "attribute", area[has], blank[has]))
    where, which = np.nonzero(seen.stuff[:, 1:] >= VISIBLE)
    ground = np.asarray(sheet().stuff)[1:][which]
    parts.append((where, ground, "stuff", seen.stuff[where, which + 1], np.full((len(where), 4), np.nan)))
    every, free = np.arange(n), seen.stuff.sum(1)
    for factor, kind in (("place", "place"), ("location", "place"), ("weather", "weather")):
        words = scenes.factors[factor]
        has = words != "none"
        covers = free if kind == "place" else np.full(n, np.nan)
        parts.append((every[has], words[has], kind, covers[has], np.full((int(has.sum()), 4), np.nan)))
    return Tags.of(
        item=np.concatenate([part[0] for part in parts]),
        tag=np.concatenate([codes(part[1], part[2], code) for part in parts]),
        names=[name for _, name in code], kinds=[kind for kind, _ in code],
        area=np.concatenate([part[3] for part in parts]),
        boxes=np.concatenate([part[4] for part in parts]))


def codes(names: Strs, kind: str, code: dict[tuple[str, str], int]) -> Ints:
    distinct, back = np.unique(names, return_inverse=True)
    return np.asarray([code[kind, str(name)] for name in distinct], np.int64)[back]


# Five captions per scene, from what is in it and can be seen.

PREPOSITIONS = {
    "street": "on the street", "parking lot": "in a parking lot", "park": "in a park", "yard": "in the yard",
    "beach": "on the beach", "lake": "by a lake", "farm": "on a farm", "field": "in a field",
    "savanna": "on the savanna", "forest": "in the forest", "snow": "in the snow", "airport": "at the airport",
    "plaza": "on a plaza",
}
LIGHTS = {"bright": "in bright light", "golden": "in golden light", "dark": "in the dark"}
STYLES = {"flat": "a flat drawing", "outlined": "an outlined drawing", "textured": "a drawing on rough paper",
          "pastel": "a pastel", "nocturne": "a picture in night colours"}
SOME = ("fruit", "coffee", "water", "hay")


def captions(factors: Mapping[str, Strs], near: Sequence[Sequence[str]]) -> list[list[str]]:
    """`near[i]` names the other objects of item i, the most visible first; each item gets five sentences."""
    columns = ("class", "breed", "colour", "size", "pose", "place", "weather", "light", "style")
    rows = zip(*(factors[name].tolist() for name in columns), near, strict=True)
    return [five(*row) for row in rows]


def five(kind: str, breed: str, colour: str, size: str, pose: str, place: str, weather: str, light: str, style: str,
         near: Sequence[str]) -> list[str]:
    where = PREPOSITIONS.get(place, f"in the {place}")
    doing = "" if pose == "still" else f" {pose}"
    full = breed if kind in breed else f"{breed} {kind}"
    beside = f" next to {listed(near[:1])}" if near else ""
    sky = LIGHTS[light] if weather == "none" else f"on a {weather} day"
    scene = f" with {listed(near[:3])}" if near else ""
    return [sentence(text) for text in (
        f"{a(colour)} {kind} {where}",
        f"{a(full)}{doing}{beside}",
        f"{listed([*near[:2], kind])} {where} {sky}",
        f"{a(size)} {colour} {kind}{doing} {LIGHTS[light]}{beside}",
        f"{STYLES[style]} of {a(full)} {where}{scene}")]


def a(word: str) -> str:
    """The word with its article."""
    return f"some {word}" if word in SOME else f"an {word}" if word[0] in "aeiou" else f"a {word}"


def listed(words: Sequence[str]) -> str:
    """`a sofa, a lamp and a cat`."""
    named = [a(word) for word in words]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
