"""Suites: the benchmarks of a paper's table, by name. Each is a family of shifts on one collection.

`metashift/table1` and its like are written in the words of Visual Genome and COCO; `metashift/world/table1` is the same
table on the built-in world, in its words and sizes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

from shiftbench.errors import ShiftBenchError
from shiftbench.hierarchies.tasks import TASKS as BREEDS
from shiftbench.registry import find
from shiftbench.shifts.base import Shift
from shiftbench.shifts.breeds import Breeds
from shiftbench.shifts.context import NOOCH
from shiftbench.shifts.fine_grained import FINE_GRAINED
from shiftbench.shifts.recipe import changed
from shiftbench.shifts.subpopulation import Subpopulation
from shiftbench.shifts.subset import Subset
from shiftbench.shifts.wilds import WILDS


class Task(NamedTuple):
    """A binary task of MetaShift's Table 1: one class stays, the other's training subsets move away from its test."""

    stays: str
    test: str
    moves: tuple[str, ...]  # from near to far


TASKS = {
    "cat-dog": Task("cat(sofa + bed)", "dog(shelf)", (
        "dog(cabinet + bed)", "dog(bag + box)", "dog(bench + bike)", "dog(boat + surfboard)")),
    "bus-truck": Task("bus(clock + traffic light)", "truck(airplane)", (
        "truck(cone + fence)", "truck(bike + mirror)", "truck(flag + tower)", "truck(traffic light + dog)")),
    "elephant-horse": Task("elephant(fence + rock)", "horse(barn)", (
        "horse(dirt + trees)", "horse(fence + helmet)", "horse(car + wagon)", "horse(statue + cart)")),
    "bowl-cup": Task("bowl(fruits + tray)", "cup(coffee)", (
        "cup(knife + tray)", "cup(water + cabinet)", "cup(computer + lamp)", "cup(toilet + box)")),
}
ANIMALS = ("bear", "bird", "cow", "elephant", "horse", "sheep", "giraffe", "zebra")
"""The eight classes that turn cat against dog into the paper's ten-animal task (B.2)."""
MAJORITY = {"cat": "indoors", "dog": "outdoors"}
COCO_PLACES = ("which:indoors=indoor+kitchen+electronic+appliance+furniture"
               "|outdoors=outdoor+vehicle+sports")
"""Table 5 calls a picture indoors or outdoors by COCO's supercategories (appendix D)."""
WORLD_PLACES = ("which:indoors=sofa+bed+shelf+cabinet+lamp+television+laptop+sink+toilet+pillow"
                "|outdoors=bench+bike+boat+surfboard+car+traffic light+hydrant+frisbee+kite")
WORLD_WORDS = {"trees": "tree", "fruits": "fruit"}
KINDS = ("object", "stuff")

Suite = Mapping[str, Shift]


def table1(n_train: int = 400, words: Mapping[str, str] | None = None) -> Suite:
    """Four binary tasks, four training sets each; the paper tests on the class that moves alone."""
    return {f"{name}-{rung}": Subset((_said(task.stays, words), _said(moved, words)), (task.test,),
                                     moves=task.test.partition("(")[0], n_train=n_train, kinds=KINDS)
            for name, task in TASKS.items() for rung, moved in enumerate(task.moves, 1)}


def table3(n_train: int = 2000) -> Suite:
    """The first task among ten animals: only the dog's training subsets move."""
    task = TASKS["cat-dog"]
    return {f"animals-{rung}": Subset((task.stays, moved, *ANIMALS), (task.test,), moves="dog", n_train=n_train,
                                      kinds=KINDS) for rung, moved in enumerate(task.moves, 1)}


def mixtures(shift: Subpopulation, shares: tuple[float, ...], name: str) -> Suite:
    """One subpopulation shift at several minority shares."""
    return {f"{name}-{100 * p:g}": replace(shift, p=p) for p in shares}


PHOTOS = Subpopulation("which:cat|dog", "which:indoors|outdoors", MAJORITY, values=("indoors", "outdoors"),
                       n_train=1700, n_test=576, n_val=200)
DRAWN = replace(PHOTOS, factor="location", n_train=700, n_test=400, n_val=200)

SUITES: dict[str, Callable[[], Suite]] = {
    "metashift/table1": table1,
    "metashift/table2": lambda: mixtures(PHOTOS, (0.12, 0.06, 0.01), "minority"),
    "metashift/table3": table3,
    "metashift/table4": lambda: mixtures(
        replace(PHOTOS, label=_which("cat", "dog", *ANIMALS), others=ANIMALS, n_others=170), (0.12, 0.06, 0.01),
        "animals-minority"),
    "metashift/table5": lambda: mixtures(
        replace(PHOTOS, factor=COCO_PLACES, n_train=3000, n_test=524, n_val=300), (0.13, 0.07, 0.01), "coco-minority"),
    "metashift/world/table1": lambda: table1(100, WORLD_WORDS),
    "metashift/world/table2": lambda: mixtures(DRAWN, (0.12, 0.06, 0.01), "minority"),
    "metashift/world/table3": lambda: table3(600),
    "metashift/world/table4": lambda: mixtures(
        replace(DRAWN, label="class", others=ANIMALS, n_others=40), (0.12, 0.06, 0.01), "animals-minority"),
    "metashift/world/table5": lambda: mixtures(
        replace(DRAWN, factor=WORLD_PLACES, n_train=600, n_test=300), (0.13, 0.07, 0.01), "coco-minority"),
    "breeds": lambda: {task: Breeds("wnid", task, given="split", held=0.04) for task in BREEDS},
    "breeds/world": lambda: {split: Breeds("breed", level=2, subclasses=8, split=split)
                             for split in ("good", "rand", "bad")},
    "wilds": lambda: WILDS,
    **NOOCH,
    **FINE_GRAINED,
}


def suite(name: str, only: str = "", changes: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Shift]]:
    """The shifts of a suite by name: the one named `only`, else those whose name begins so.

    `changes` are settings that replace those of each of them, named as in a recipe. One that a shift does not have, or
    by which the members of the suite differ, so that two of them would become the same, is refused.
    """
    chosen = only_of(find(SUITES, "suite", name)(), only, name)
    if not changes:
        yield from chosen.items()
        return
    made = {key: changed(shift, changes, f"Suite '{name}', benchmark '{key}'") for key, shift in chosen.items()}
    for (first, one), (second, other) in combinations(made.items(), 2):
        if one == other and chosen[first] != chosen[second]:
            said = ", ".join(f"{key} = {value!r}" for key, value in changes.items())
            raise ShiftBenchError(f"Suite '{name}': with {said} its benchmarks '{first}' and '{second}' are the same, "
                                  "for this is what they differ by. Choose one with --only, or change something else.")
    yield from made.items()


def only_of(shifts: Suite, only: str, name: str) -> Suite:
    """The shift named `only`, else those whose name begins so."""
    chosen = {key: shift for key, shift in shifts.items() if key == only or (
        only not in shifts and key.startswith(only))}
    if not chosen:
        raise ShiftBenchError(f"Suite '{name}' has no benchmark that begins with '{only}'. It has {', '.join(shifts)}.")
    return chosen


def _which(*classes: str) -> str:
    return "which:" + "|".join(classes)


def _said(name: str, words: Mapping[str, str] | None) -> str:
    """A subset in another vocabulary."""
    for old, new in (words or {}).items():
        name = name.replace(old, new)
    return name
