"""MetaShift's five tables as suites: which subsets the authors merged, the splits they made, and the sizes they had.

`metashift/table1` and its like are written in the words of Visual Genome and COCO; `metashift/world/table1` is the same
table on the built-in world, in its words and sizes, with subsets that are not merged. The lists are those of the
authors' repository (commit 7e5e297), the sizes those of the paper and of their notebook.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from shiftbench.shifts.shift import Shift
from shiftbench.shifts.subpopulation import Subpopulation
from shiftbench.shifts.subset import Subset

Suite = Mapping[str, Shift]

# Tables 1 and 3: training subsets of one class move away from its test subset.

COMMUNITIES: Mapping[str, tuple[str, ...]] = {
    "cat(bed)": ("bed", "blanket", "comforter", "couch", "pillow", "remote control", "sheet"),
    "cat(book)": ("blinds", "book", "books", "bookshelf", "television"),
    "cat(box)": ("bag", "box", "paper", "suitcase"),
    "cat(computer)": ("computer mouse", "computer", "desk", "keyboard", "laptop", "monitor", "screen", "speaker"),
    "cat(grass)": ("bird", "car", "grass", "house"),
    "cat(shelf)": ("bowl", "container", "shelf", "vase"),
    "cat(sink)": ("bottle", "faucet", "sink", "toilet", "towel"),
    "cat(sofa)": ("chair", "cup", "sofa"),
    "dog(bag)": ("backpack", "bag", "purse"),
    "dog(bed)": ("bed", "blanket", "books", "couch", "curtain", "lamp", "pillow", "remote control", "sheet"),
    "dog(bench)": ("bench", "trash can"),
    "dog(bike)": ("basket", "bicycle", "bike", "woman"),
    "dog(boat)": ("boat", "flag", "frisbee", "rope", "trees"),
    "dog(box)": ("box", "container", "cup", "food", "plate", "table"),
    "dog(cabinet)": ("cabinet", "clothes", "door", "floor", "rug", "towel"),
    "dog(cap)": ("cap", "collar", "jacket", "scarf", "tie", "toy"),
    "dog(grass)": ("animal", "cow", "grass", "horse", "house", "sheep"),
    "dog(shelf)": ("chair", "desk", "laptop", "picture", "screen", "shelf"),
    "dog(sofa)": ("book", "carpet", "phone", "sofa", "television"),
    "dog(surfboard)": ("sand", "surfboard", "water"),
    "dog(vehicle)": ("basket", "bicycle", "bike", "car", "motorcycle", "skateboard", "truck"),
}
"""The merged subsets of cats and dogs. Those that no task trains or tests on are nodes of the graph in which the
authors measured their distances."""


class Task(NamedTuple):
    """A binary task of Table 1: one class stays, the other's training subsets move away from its test."""

    stays: str
    test: str
    moves: tuple[str, ...]  # from near to far
    tested: int  # published size of the test subset
    distances: tuple[float, ...]  # published


TASKS = {
    "cat-dog": Task("cat(sofa + bed)", "dog(shelf)", (
        "dog(cabinet + bed)", "dog(bag + box)", "dog(bench + bike)", "dog(boat + surfboard)"),
        129, (0.44, 0.71, 1.12, 1.43)),
    "bus-truck": Task("bus(clock + traffic light)", "truck(airplane)", (
        "truck(cone + fence)", "truck(bike + mirror)", "truck(flag + tower)", "truck(traffic light + dog)"),
        161, (0.81, 1.20, 1.42, 1.52)),
    "elephant-horse": Task("elephant(fence + rock)", "horse(barn)", (
        "horse(dirt + trees)", "horse(fence + helmet)", "horse(car + wagon)", "horse(statue + cart)"),
        140, (0.44, 0.63, 0.89, 1.44)),
    "bowl-cup": Task("bowl(fruits + tray)", "cup(coffee)", (
        "cup(knife + tray)", "cup(water + cabinet)", "cup(computer + lamp)", "cup(toilet + box)"),
        375, (0.16, 0.47, 1.03, 1.31)),
}
ANIMALS = ("bear", "bird", "cow", "elephant", "horse", "sheep", "giraffe", "zebra")
"""The eight classes that turn cat against dog into the paper's ten-animal task (B.2)."""
EDGES = 0.2
"""Overlap under which the authors' code drops an edge, with which their communities and distances were made; the paper
prints 0.1."""

TABLE1: Suite = {f"{name}-{rung}": Subset(
    (task.stays, moved), (task.test,), moves=task.test.partition("(")[0], n_train=400, threshold=EDGES,
    merge=name != "cat-dog", merged=COMMUNITIES if name == "cat-dog" else {}, expected={task.test: task.tested})
    for name, task in TASKS.items() for rung, moved in enumerate(task.moves, 1)}
"""Four binary tasks, four training sets each; the paper tests on the class that moves alone.

The authors published which subsets they merged for cats and dogs. For the other three tasks they published the names of
the merged subsets alone: there a name stands for the community of its context.
"""
TABLE3: Mapping[str, Subset] = {f"animals-{rung}": Subset(
    (TASKS["cat-dog"].stays, moved, *ANIMALS), (TASKS["cat-dog"].test,), moves="dog", n_train=2000, threshold=EDGES,
    merged=COMMUNITIES, expected={TASKS["cat-dog"].test: TASKS["cat-dog"].tested})
    for rung, moved in enumerate(TASKS["cat-dog"].moves, 1)}
"""The first task among ten animals: only the dog's training subsets move."""

WORLD_MOVES = {
    "cat-dog": TASKS["cat-dog"].moves,
    "bus-truck": ("truck(cone + mirror)", "truck(fence + bike)", "truck(tower + dog)", "truck(flag + traffic light)"),
    "elephant-horse": ("horse(fence + wagon)", "horse(helmet + car)", "horse(tree + cart)", "horse(dirt + statue)"),
    "bowl-cup": ("cup(cabinet + computer)", "cup(water + lamp)", "cup(knife + tray)", "cup(toilet + box)"),
}
"""The paper's contexts, paired so that the distance rises from rung to rung in the built-in world: what is near to what
differs from photos. Chosen by distances alone, at 6, 12 and 24 thousand items."""
WORLD_STAYS = {"bowl-cup": "bowl(fruit + tray)"}
KINDS = ("object", "stuff")

WORLD_TABLE1: Suite = {f"{name}-{rung}": Subset(
    (WORLD_STAYS.get(name, task.stays), moved), (task.test,), moves=task.test.partition("(")[0], n_train=100,
    kinds=KINDS) for name, task in TASKS.items() for rung, moved in enumerate(WORLD_MOVES[name], 1)}
"""The sixteen benchmarks with single contexts of the built-in world."""
WORLD_TABLE3: Suite = {key: replace(shift, n_train=600, threshold=0.1, merged={}, expected={}, kinds=KINDS)
                       for key, shift in TABLE3.items()}
"""Ten animals of the built-in world, of which the dog's training subsets move."""


# Tables 2, 4 and 5: indoors and outdoors, mixed at other shares.

MAJORITY = {"cat": "indoors", "dog": "outdoors"}
PLACES: Mapping[str, tuple[str, ...]] = {
    "cat(outdoors)": ("bench", "bird", "car", "fence", "grass", "house", "roof"),
    "cat(indoors)": (
        "bag", "bed", "blanket", "blinds", "book", "books", "bookshelf", "bottle", "bowl", "box", "carpet",
        "comforter", "computer mouse", "computer", "container", "couch", "counter", "cup", "curtain", "desk",
        "faucet", "floor", "food", "keyboard", "lamp", "laptop", "monitor", "paper", "papers", "picture", "pillow",
        "plate", "pot", "remote control", "rug", "screen", "sheet", "shelf", "sink", "sofa", "speaker", "suitcase",
        "table", "television", "toilet", "towel", "toy", "vase"),
    "dog(indoors)": (
        "bed", "blanket", "books", "bowl", "box", "cabinet", "carpet", "container", "cup", "curtain", "desk", "floor",
        "food", "lamp", "laptop", "picture", "pillow", "plate", "remote control", "rug", "screen", "sheet", "shelf",
        "sofa", "table", "television", "towel"),
    "dog(outdoors)": (
        "bench", "bicycle", "bike", "boat", "car", "cow", "dirt", "fence", "fire hydrant", "flag", "frisbee", "grass",
        "helmet", "horse", "house", "motorcycle", "pole", "rope", "sand", "sheep", "skateboard", "snow", "surfboard",
        "trash can", "trees", "truck", "water"),
}
"""Indoors and outdoors as unions of object subsets (Tables 2 and 4). The minority's comes first: an image in both is
the minority's."""
OTHER_PLACES: Mapping[str, tuple[str, ...]] = {
    f"{animal}({place})": tuple(sorted({*PLACES[f"cat({place})"], *PLACES[f"dog({place})"]} - {animal}))
    for animal in ANIMALS for place in ("outdoors", "indoors")}
"""Our reading: the authors published no lists for the eight other animals, so theirs are those of cats and dogs."""

COCO_PLACES = ("which:indoors=indoor+kitchen+electronic+appliance+furniture"
               "|outdoors=outdoor+vehicle+sports")
"""Table 5 calls a picture indoors or outdoors by COCO's supercategories, and leaves out what is both (appendix D)."""
COCO_SIZES = {"cat, outdoors": 331, "cat, indoors": 2707, "dog, outdoors": 1586, "dog, indoors": 1500}
"""Images of COCO 2017 train that the authors found."""
WORLD_PLACES = ("which:indoors=sofa+bed+shelf+cabinet+lamp+television+laptop+sink+toilet+pillow"
                "|outdoors=bench+bike+boat+surfboard+car+traffic light+hydrant+frisbee+kite")

MINORITY = {"12": 100 / 850, "6": 50 / 850, "1": 10 / 850}
"""Tables 2 and 4: per cent in the paper -> share, from 100, 50 and 10 minority images among 850 of each class."""
COCO_MINORITY = {"13": 200 / 1369, "7": 100 / 1369, "1": 15 / 1369}
"""Table 5. The paper says 3,000 training images; the authors' notebook keeps 1,500 of each majority group, 131 of them
for test, and replaces 200, 100 or 15 of the rest: 2 × 1,369 images, and 200 of 1,369 are 14.6 per cent."""
WORLD_MINORITY = {"12": 0.12, "6": 0.06, "1": 0.01}
WORLD_COCO_MINORITY = {"13": 0.13, "7": 0.07, "1": 0.01}

BY_OBJECTS = Subpopulation("which:cat|dog", "place", MAJORITY, merged=PLACES, n_train=1700, n_test=576, n_val=200)
BY_LOCATION = replace(BY_OBJECTS, factor="which:indoors|outdoors", values=("indoors", "outdoors"), merged={})
DRAWN = replace(BY_LOCATION, factor="location", n_train=700, n_test=400, n_val=200)
COCO = replace(BY_LOCATION, factor=COCO_PLACES, n_train=2 * 1369, n_test=4 * 131, expected=COCO_SIZES)


def mixtures(shift: Subpopulation, shares: Mapping[str, float], name: str) -> Suite:
    """One subpopulation shift at several minority shares."""
    return {f"{name}-{percent}": replace(shift, p=p) for percent, p in shares.items()}


def _ten_animals(shift: Subpopulation) -> Subpopulation:
    return replace(shift, label="which:" + "|".join(("cat", "dog", *ANIMALS)), others=ANIMALS, n_others=170,
                   merged={**shift.merged, **OTHER_PLACES} if shift.merged else {})


METASHIFT: dict[str, Suite] = {
    "metashift/table1": TABLE1,
    "metashift/table2": mixtures(BY_OBJECTS, MINORITY, "minority"),
    "metashift/table2/location": mixtures(BY_LOCATION, MINORITY, "minority"),
    "metashift/table3": TABLE3,
    "metashift/table4": mixtures(_ten_animals(BY_OBJECTS), MINORITY, "animals-minority"),
    "metashift/table4/location": mixtures(_ten_animals(BY_LOCATION), MINORITY, "animals-minority"),
    "metashift/table5": mixtures(COCO, COCO_MINORITY, "coco-minority"),
    "metashift/world/table1": WORLD_TABLE1,
    "metashift/world/table2": mixtures(DRAWN, WORLD_MINORITY, "minority"),
    "metashift/world/table3": WORLD_TABLE3,
    "metashift/world/table4": mixtures(
        replace(DRAWN, label="class", others=ANIMALS, n_others=40), WORLD_MINORITY, "animals-minority"),
    "metashift/world/table5": mixtures(
        replace(DRAWN, factor=WORLD_PLACES, n_train=600, n_test=300), WORLD_COCO_MINORITY, "coco-minority"),
}
