"""The generative model: what is in each scene, as columns. No coordinates, no pixels.

class -> place -> objects, each by one number per (seed, purpose, item), so item i is the same whatever else is drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, uniform
from shiftbench.worlds.scenes.sheet import sheet

# What belongs where: the themes that make contexts co-occur. All numbers are percent.
#
# A place is a theme: each object of its list stands there with its own chance, so that objects of one theme meet often
# and objects of two themes meet through the places they share. Hallway, store and garage join the rooms to the street;
# the garage's surfboard and the promenade's bench join the street to the sea.

CLASSES = {
    "cat": 22.0, "dog": 25.0, "bus": 7.0, "truck": 8.5, "elephant": 6.0, "horse": 7.5, "bowl": 6.0, "cup": 7.5,
    "bear": 1.8, "bird": 2.0, "cow": 1.9, "sheep": 1.8, "giraffe": 1.8, "zebra": 1.8,
}

WHERE = {  # class -> places
    "cat": "bedroom 21, living room 21, kitchen 7, bathroom 5, office 6, hallway 4, store 2, garage 2, yard 10, "
           "street 7, park 6, beach 3, lake 2, forest 2, farm 2",
    "dog": "bedroom 14, living room 14, hallway 5, store 4.5, garage 3, office 2, kitchen 1.5, bathroom 1, park 13, "
           "street 11, beach 12.5, lake 6.5, yard 5, field 2, snow 3, forest 2",
    "bus": "street 56, parking lot 20, plaza 14, airport 5, beach 5",
    "truck": "airport 30, street 28, parking lot 18, plaza 9, farm 7, snow 8",
    "elephant": "savanna 52, forest 12, lake 10, park 10, field 10, plaza 6",
    "horse": "farm 36, field 26, plaza 12, street 6, beach 5, forest 5, park 6, snow 4",
    "bowl": "kitchen 44, restaurant 36, living room 8, store 6, office 6",
    "cup": "kitchen 27, restaurant 28, office 24, bathroom 11, living room 6, bedroom 4",
    "bear": "forest 46, lake 16, snow 20, field 10, park 8",
    "bird": "beach 20, lake 20, park 20, forest 14, yard 15, snow 6, field 5",
    "cow": "farm 55, field 37, yard 8",
    "sheep": "farm 50, field 36, snow 8, forest 6",
    "giraffe": "savanna 76, park 14, field 10",
    "zebra": "savanna 70, field 18, park 12",
}

WITH = {  # place -> objects
    "bedroom": "bed 94, shelf 42, cabinet 50, lamp 45, pillow 30, window 40, picture 30, book 25, clock 15, mirror "
               "15, chair 8, plant 12, television 5, laptop 12, bag 8, box 8",
    "living room": "sofa 92, shelf 44, cabinet 50, lamp 40, television 20, table 10, plant 30, picture 30, window "
                   "35, pillow 20, book 25, chair 8, clock 15, bag 6, box 8, laptop 10, tray 8, cup 5, coffee 6",
    "kitchen": "cabinet 60, refrigerator 42, oven 40, sink 34, table 22, chair 25, shelf 32, window 30, clock 20, "
               "plant 12, fruit 30, knife 34, bottle 12, plate 18, tray 30, coffee 26, water 28, box 8, bag 6, bowl "
               "5, cup 5, lamp 5",
    "bathroom": "toilet 62, sink 55, bathtub 35, mirror 50, cabinet 44, window 20, plant 10, bottle 18, shelf 14, "
                "box 26, water 20",
    "office": "shelf 60, computer 58, chair 35, table 20, laptop 26, cabinet 26, lamp 46, book 35, plant 22, clock "
              "25, window 30, bag 20, box 18, coffee 26, picture 15, water 12, cup 4",
    "hallway": "bag 52, box 52, suitcase 25, mirror 25, umbrella 24, shelf 28, cabinet 14, lamp 18, plant 18, bike "
               "18, picture 20, chair 15, helmet 10, clock 12, bench 12",
    "store": "shelf 64, box 60, bag 52, fruit 25, bottle 25, book 14, plant 15, clock 15, television 12, tray 10, "
             "suitcase 16, chair 10, lamp 12, sign 6, bed 6, cabinet 6",
    "garage": "box 60, shelf 46, bike 36, bag 24, car 30, helmet 25, bucket 25, cabinet 8, surfboard 10, trash can "
              "18, cone 15, ball 15, lamp 8, boat 4",
    "restaurant": "table 30, chair 35, tray 42, knife 42, fruit 34, coffee 44, water 36, plate 30, bottle 25, lamp "
                  "14, plant 20, picture 25, clock 20, window 30, cabinet 22, shelf 14, bowl 6, cup 6",
    "street": "bike 38, bench 34, car 42, traffic light 40, sign 26, tree 25, trash can 18, hydrant 18, bag 22, box "
              "14, clock 24, umbrella 10, dog 12, cat 4, flag 12, cone 15, bus 6, truck 6, mirror 10, tower 12, "
              "fence 10",
    "parking lot": "car 60, cone 40, fence 34, tree 30, sign 30, traffic light 26, bike 26, mirror 18, trash can 20, "
                   "flag 14, bus 6, truck 8, dog 12, box 10, clock 14, tower 8",
    "park": "bench 50, tree 60, bike 38, frisbee 22, ball 25, bag 14, bush 30, fence 22, statue 10, rock 22, bird 8, "
            "kite 12, umbrella 6, trash can 12, dog 6, box 5, flag 6",
    "yard": "tree 35, fence 16, chair 25, ball 30, bucket 25, bush 38, bike 22, bench 20, table 12, frisbee 15, box "
            "14, plant 18, umbrella 8, bag 8, car 10, bird 6",
    "beach": "surfboard 56, boat 52, umbrella 36, ball 28, bucket 28, chair 20, kite 18, bag 12, frisbee 18, rock "
             "16, bird 10, flag 12, bench 11, bike 6, airplane 5",
    "lake": "boat 64, surfboard 34, rock 34, tree 32, bush 22, bench 16, bucket 12, bird 14, chair 10, fence 8, bike "
            "8, flag 8, umbrella 8",
    "farm": "barn 62, fence 52, hay 42, tree 34, cart 24, wagon 24, bucket 22, truck 6, car 10, cow 10, sheep 10, "
            "bird 8, rock 12, helmet 14, dog 6",
    "field": "tree 58, fence 44, rock 28, bush 30, hay 18, helmet 26, bird 10, barn 12, cow 6, sheep 6, kite 8, flag "
             "10, bench 8, ball 10, frisbee 10",
    "savanna": "tree 52, rock 58, bush 36, fence 34, bird 14, zebra 8, giraffe 8, car 12",
    "forest": "tree 70, rock 50, bush 46, fence 20, bird 14, bench 14, bike 10, bag 10, bucket 6",
    "snow": "tree 55, rock 34, fence 28, flag 20, cone 16, bench 18, car 12, helmet 16, bag 10, sign 16, box 6",
    "airport": "airplane 84, cone 46, fence 42, tower 16, flag 14, car 18, suitcase 22, bag 16, sign 14, box 16, "
               "clock 8, traffic light 5",
    "plaza": "statue 56, flag 42, tower 42, cart 46, bench 30, clock 26, bike 22, car 26, wagon 28, umbrella 16, "
             "bird 14, tree 22, traffic light 18, bag 12, dog 10, mirror 8",
}

COMPANIONS = {  # class -> what may be with it anywhere
    "cat": "dog 5",
    "dog": "cat 5, dog 3",
    "bus": "truck 6",
    "truck": "bus 5, dog 5",
    "horse": "dog 4",
    "cow": "dog 5",
    "bowl": "cup 18",
    "cup": "bowl 14",
}

ON_A_TABLE = ("bowl", "cup")  # these classes stand on a tabletop in front of the room
NEVER_ON_A_TABLE = ("table", "chair", "bed", "umbrella", "suitcase", "sign", "bike", "pillow")

WEATHER = {"sunny": 38, "cloudy": 24, "overcast": 14, "rainy": 14, "foggy": 10}
SKY = {"sunny": (132, 192, 236), "cloudy": (160, 204, 232), "overcast": (176, 184, 194), "rainy": (132, 142, 156),
       "foggy": (204, 210, 214)}
AIR = {"rainy": "rain", "foggy": "fog", "snowy": "snowfall"}  # what is drawn over everything

LIGHT = {"bright": 74, "golden": 15, "dark": 11}
STYLE = {"flat": 58, "outlined": 16, "textured": 10, "pastel": 8, "nocturne": 8}
CAMERA = {"phone": 46, "compact": 18, "film": 12, "webcam": 11, "wide": 13}
SIZE = {"small": 25, "medium": 50, "large": 25}

GAINS = {"bright": (256, 256, 256), "golden": (276, 240, 190), "dark": (164, 170, 206)}
TINTS = {  # camera -> gain by channel, lift by channel, zoom in percent, most degrees of tilt, vignette, noise
    "phone": ((256, 256, 256), (0, 0, 0), 100, 4, 0, 0),
    "compact": ((266, 254, 236), (2, 0, 0), 108, 2, 30, 0),
    "film": ((222, 216, 204), (26, 22, 24), 100, 3, 90, 8),
    "webcam": ((236, 250, 252), (4, 8, 12), 110, 6, 20, 18),
    "wide": ((256, 258, 260), (0, 0, 0), 90, 9, 70, 0),
}

SCALES = {"small": 86, "medium": 100, "large": 114}
GROWTH = {  # of a sprite that is the subject
    "cat": 173, "dog": 167, "bus": 104, "truck": 104, "elephant": 112, "horse": 122, "bowl": 122, "cup": 122,
    "bear": 128, "bird": 128, "cow": 124, "sheep": 138, "giraffe": 116, "zebra": 124,
}


def table(line: str) -> dict[str, float]:
    """`bed 94, traffic light 40` as a table of chances.

    >>> table("bed 94, traffic light 40")
    {'bed': 94.0, 'traffic light': 40.0}
    """
    pairs = [entry.strip().rsplit(" ", 1) for entry in line.split(",")]
    return {name: float(chance) for name, chance in pairs}


# Columns of scenes

CAPS = {"sky": 1, "wall": 2, "back": 2, "mid": 2, "side": 2, "front": 2}  # how many of a band fit into a picture
# where a class's object stands when it is only a context; the others stand at the back
AS_CONTEXT = {"cat": "side", "dog": "side", "bird": "front", "bowl": "front", "cup": "front"}
STRIDE = 256  # room for one number per object of an item


@dataclass(frozen=True)
class Scenes:
    """One row per item in `index`: its factors and its subject's sprite; one row per context object in `item`, `thing`.

    `thing` counts in `things()`; `rank` is the object's place among those of its band, 0 first.
    """

    index: Ints
    factors: Mapping[str, Strs]
    subject: Ints
    item: Ints
    thing: Ints
    rank: Ints


@cache
def things() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and bands of everything that can be a context, in a fixed order."""
    lines = [*WITH.values(), *COMPANIONS.values()]
    names = tuple(sorted({name for line in lines for name in table(line)}))
    bands = {sprite.name: sprite.band for sprite in sheet().sprites}
    bands |= {name: AS_CONTEXT.get(name, "back") for name in CLASSES}
    return names, tuple(bands[name] for name in names)


def sample(index: Ints, seed: int) -> Scenes:
    """Draw the facts of the scenes with these numbers."""
    cls = choose(uniform(seed, "class", index), CLASSES)
    place = np.empty(len(index), "U20")
    subject = np.zeros(len(index), np.int64)
    u, v = uniform(seed, "place", index), uniform(seed, "subject", index)
    for name in CLASSES:
        rows = cls == name
        place[rows] = choose(u[rows], table(WHERE[name]))
        subject[rows] = pick(np.asarray(sheet().variants(name)), v[rows])
    sprites = sheet().sprites
    indoors = {sprite.name for sprite in sprites if sprite.band == "indoors"}
    location = np.where(np.isin(place, list(indoors)), "indoors", "outdoors")
    weather = np.where(location == "indoors", "none", choose(uniform(seed, "weather", index), WEATHER))
    factors = {
        "class": cls,
        "breed": np.asarray([sprite.breed for sprite in sprites])[subject],
        "place": place,
        "location": location,
        "weather": weather,
        "light": choose(uniform(seed, "light", index), LIGHT),
        "size": choose(uniform(seed, "size", index), SIZE),
        "pose": np.asarray([sprite.pose or "still" for sprite in sprites])[subject],
        "style": choose(uniform(seed, "style", index), STYLE),
        "camera": choose(uniform(seed, "camera", index), CAMERA),
    }
    item, thing, rank = contexts(index, seed, cls, place)
    return Scenes(index, factors, subject, item, thing, rank)


def contexts(index: Ints, seed: int, cls: Strs, place: Strs) -> tuple[Ints, Ints, Ints]:
    """The context objects of each scene: every one by its own chance, then as many of a band as fit."""
    names, bands = things()
    chance = np.zeros((len(index), len(names)))
    for theme, line in WITH.items():
        chance[place == theme] = [table(line).get(name, 0.0) for name in names]
    for name, line in COMPANIONS.items():
        chance[cls == name] += [table(line).get(other, 0.0) for other in names]
    lone = np.asarray([name in CLASSES for name in names])
    chance[(cls[:, None] == np.asarray(names)) & (cls != "dog")[:, None] & lone] = 0.0
    on_table = np.isin(cls, ON_A_TABLE)
    chance[np.ix_(on_table, np.isin(names, NEVER_ON_A_TABLE))] = 0.0
    cell = index[:, None] * STRIDE + np.arange(len(names))
    present: Bools = uniform(seed, "has", cell) * 100 < chance
    order: Floats = np.where(present, uniform(seed, "order", cell), 2.0)
    rank = np.zeros(present.shape, np.int64)
    for band, cap in CAPS.items():
        columns = np.flatnonzero(np.asarray(bands) == band)
        rank[:, columns] = order[:, columns].argsort(1, kind="stable").argsort(1, kind="stable")
        present[:, columns] &= rank[:, columns] < cap
    item, thing = np.nonzero(present)
    return item, thing, rank[item, thing]


def choose(u: Floats, weights: Mapping[str, float]) -> Strs:
    """The word whose share of [0, 1) each number falls into."""
    bounds = np.cumsum(list(weights.values()))
    code = np.searchsorted(bounds / bounds[-1], u, side="right").clip(max=len(bounds) - 1)
    words: Strs = np.asarray(list(weights))[code]
    return words


def pick(options: Ints, u: Floats) -> Ints:
    """One of the options for each number, all equally likely."""
    return np.asarray(options[(u * len(options)).astype(np.int64)])
