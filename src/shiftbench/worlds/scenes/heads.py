"""The four-legged breeds: their proportions, whose numbers are in `art/animals.table`, and their heads.

Birds, buses, trucks, bowls and cups have their breeds in `art/breeds.shapes`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from shiftbench.worlds.scenes.pen import Pen

STRIPED = ("wide", "fine", "belly", "half")
"""The coats with stripes."""


@dataclass(frozen=True)
class Build:
    """Proportions of one breed; the words choose among the ears, tails and coats that can be drawn."""

    kind: str
    breed: str
    head: float  # radius
    length: float
    girth: float
    leg: float
    limb: float  # thickness of a leg
    neck: float
    muzzle: float
    ear: str
    tail: str
    coat: str
    main: tuple[str, ...]
    accent: tuple[str, ...]


def read_builds(text: str) -> list[Build]:
    """One breed per line: `class: breed | seven numbers | ear tail coat | main colours | accent colours`."""
    builds = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            title, numbers, words, main, accent = (column.strip() for column in line.split("|"))
            kind, breed = title.split(": ")
            head, length, girth, leg, limb, neck, muzzle = map(float, numbers.split())
            ear, tail, coat = words.split()
            builds.append(Build(kind, breed, head, length, girth, leg, limb, neck, muzzle, ear, tail, coat,
                                split(main), split(accent)))
    return builds


def split(words: str) -> tuple[str, ...]:
    """`red, light blue` as a tuple."""
    return tuple(word.strip() for word in words.split(","))


# Heads: a cat's, a dog's, a bear's, a cow's and a sheep's from the front, the others from the side, looking left.
# A head is drawn in its own frame: (0, 0) is its middle and 1 its radius. The layout flips a sprite for the other way.

def cat(pen: Pen, b: Build) -> None:
    both, dark = pen.pair, b.coat == "points"
    high, wide, lean = {"point": (0.72, 0.42, 0.1), "tall": (0.9, 0.4, 0.1), "small": (0.35, 0.36, 0.1),
                        "huge": (1.15, 0.52, 0.32)}[b.ear]
    both.poly("dark_brown" if dark else "main-", [(0.62 + wide, 0.15), (0.62 + lean, 0.75 + high), (0.62 - wide, 0.8)])
    both.poly("skin", [(0.46 + wide, 0.4), (0.6 + lean, 0.45 + high), (0.82 - wide, 0.82)])
    if b.coat == "fluff":
        both.poly("main", [(0.6, 0.4), (1.4, 0), (1.15, -0.2), (1.3, -0.5), (0.4, -0.95)])
    pen.oval("main+" if dark else "main", 0, 0, 1.06, 0.9)
    if dark:
        pen.oval("dark_brown", 0, -0.28, 0.62, 0.56)
    elif b.coat == "tabby":
        both.line("main--", 0.13, [(0.3, 0.82), (0.21, 0.42)])
        pen.line("main--", 0.13, [(0, 0.82), (0, 0.42)])
        both.line("main--", 0.12, [(1.02, -0.05), (0.66, -0.12)])
    elif b.coat == "patches":
        pen.blob("accent", [(-0.1, 0.9), (-0.9, 0.5), (-0.9, -0.1), (-0.2, 0)])
        pen.blob("black", [(0.2, 0.9), (0.9, 0.5), (0.7, 0.2)])
    elif b.coat == "wrinkle":
        for y in (0.5, 0.66):
            pen.line("main-", 0.09, [(-0.3, y), (0.3, y)])
    both.oval("paper" if b.coat == "bib" else "dark_brown+" if dark else "main+", 0.24, -0.42, 0.32, 0.26)
    if b.coat == "bib":
        pen.poly("paper", [(-0.2, -0.3), (0, 0.5), (0.2, -0.3)])
    both.oval("ink", 0.46, 0.1, 0.34, 0.32)
    both.oval("light_blue" if dark else "iris+", 0.46, 0.1, 0.29, 0.27)
    both.oval("ink", 0.46, 0.1, 0.1, 0.26)
    for slope in (0.1, -0.1):
        both.line("paper" if dark else "main--", 0.06, [(0.5, -0.38 - slope), (1.3, -0.35 - 2.4 * slope)])
    pen.poly("tongue", [(-0.15, -0.16), (0.15, -0.16), (0, -0.34)])
    pen.line("ink", 0.08, [(0, -0.32), (0, -0.5)])


def dog(pen: Pen, b: Build) -> None:
    both, broad = pen.pair, b.muzzle > 1.4
    if b.ear == "wolf":
        both.poly("main-", [(0.95, 0.3), (0.7, 1.75), (0.15, 0.8)])
        both.poly("skin-", [(0.78, 0.6), (0.66, 1.4), (0.36, 0.8)])
    elif b.ear == "fold":
        both.poly("main-", [(0.95, 0.3), (1.05, 1.0), (0.15, 0.8)])
        both.poly("main--", [(1.05, 1.0), (1.25, 0.45), (0.5, 0.7)])
    jaw = 1.1 if broad else 0.85
    pen.blob("main", [(0, 0.98), (-0.82, 0.55), (-jaw, -0.3), (-0.5, -0.95), (0, -1.15), (0.5, -0.95), (jaw, -0.3),
                      (0.82, 0.55)])
    if b.coat == "mask":
        pen.blob("paper", [(0, 0.3), (-0.7, 0.3), (-0.85, -0.4), (0, -1.15), (0.85, -0.4), (0.7, 0.3)])
        pen.poly("main", [(-0.18, 0.6), (0.18, 0.6), (0, -0.2)])
    if b.coat == "spots":
        for x, y, size in ((-0.4, 0.6, 0.14), (0.2, 0.7, 0.12), (0.55, 0.1, 0.1), (-0.55, -0.35, 0.1)):
            pen.oval("accent", x, y, size, size)
    pale = "paper" if b.coat in ("mask", "bib") else "main+"
    if not broad:
        pen.oval("tongue", 0.06, -1.05, 0.25, 0.38)
    pen.oval(pale, 0, -0.52, 0.04 + 0.5 * b.muzzle, 0.46)
    if broad:
        both.oval(pale, 0.45, -0.72, 0.42, 0.4)
        both.line("main--", 0.08, [(0, -0.5), (0.7, -0.78)])
    pen.oval("ink", 0, -0.26, 0.34, 0.25)
    pen.line("ink", 0.09, [(0, -0.3), (0, -0.68)])
    both.line("ink", 0.09, [(0, -0.68), (0.24, -0.78)])
    both.oval("paper", 0.38, 0.22, 0.2, 0.2)
    both.oval("blue" if b.coat == "mask" else "ink", 0.38, 0.21, 0.16, 0.17)
    if b.ear in ("flop", "long"):
        drop = 0.35 if b.ear == "flop" else 1.0
        both.blob("accent" if b.coat == "spots" else "main--",
                  [(0.5, 0.95), (1.12, 0.72), (1.4, -drop), (1.05, -drop - 0.3), (0.8, -drop * 0.5), (0.72, 0.4)])
    elif b.ear == "puff":
        both.oval("main-", 1.05, -0.15, 0.46, 0.75)
        both.oval("main+", 0.5, 0.85, 0.55, 0.46)
        for y in (1.15, 0.8):
            pen.oval("main", 0, y, 0.55, 0.46)


def dog_profile(pen: Pen, b: Build) -> None:
    broad = b.muzzle > 1.4
    nose = -1.15 if broad else -1.45 * b.muzzle - 0.25
    if b.ear == "wolf":
        pen.poly("main-", [(-0.05, 0.6), (0.5, 1.75), (0.8, 0.4)])
    if not broad:
        pen.oval("tongue", 0.8 * nose, -0.76, 0.24, 0.42)
    pen.blob("main", [(0.85, -0.1), (0.6, 0.75), (-0.1, 0.9), (-0.65, 0.42), (nose, 0.12), (nose - 0.05, -0.28),
                      (-0.75, -0.6), (0.2, -0.85)])
    if b.coat == "mask":
        pen.blob("paper", [(-0.3, 0.3), (nose, 0.05), (nose, -0.28), (-0.6, -0.58), (0.3, -0.8), (0.2, -0.2)])
    if b.coat == "spots":
        for x, y in ((0.3, 0.5), (-0.4, -0.3), (0.35, -0.45)):
            pen.oval("accent", x, y, 0.12, 0.12)
    if broad:
        pen.blob("main+", [(-0.5, -0.1), (nose, -0.2), (0.9 * nose, -0.85), (-0.3, -0.75)])
    pen.line("ink", 0.09, [(nose, -0.3), (-0.45, -0.36)])
    pen.oval("ink", nose, 0.04, 0.28, 0.24)
    pen.oval("paper", -0.3, 0.32, 0.19, 0.19)
    pen.oval("ink", -0.33, 0.31, 0.15, 0.16)
    if b.ear in ("flop", "long"):
        drop = 0.5 if b.ear == "flop" else 1.0
        ink = "accent" if b.coat == "spots" else "main--"
        pen.blob(ink, [(0.1, 0.85), (-0.1, 0), (0.15, -drop), (0.6, -drop), (0.8, 0.4)])
    elif b.ear == "fold":
        pen.poly("main--", [(0.1, 0.9), (0, 0.35), (0.6, 0.6)])
    elif b.ear == "puff":
        pen.oval("main-", 0.45, -0.1, 0.46, 0.75)
        for x, y in ((-0.2, 0.85), (0.4, 0.9), (0.1, 1.15)):
            pen.oval("main+", x, y, 0.5, 0.42)


def bear(pen: Pen, b: Build) -> None:
    both, panda = pen.pair, b.coat == "panda"
    size = 0.22 if b.ear == "tiny" else 0.36
    both.oval("accent" if panda else "main-", 0.72, 0.72, size, size)
    if not panda:
        both.oval("skin--", 0.72, 0.7, size / 2, size / 2)
    pen.oval("main", 0, 0, 1.04, 0.92)
    pen.oval("accent" if b.coat == "snout" else "main+", 0, -0.38, 0.5, 0.4)
    if panda:
        both.oval("accent", 0.42, 0.12, 0.24, 0.32, -25)
    pen.oval("ink", 0, -0.2, 0.22, 0.15)
    pen.line("ink", 0.08, [(0, -0.25), (0, -0.5)])
    both.oval("paper", 0.4, 0.17, 0.14, 0.14)
    both.oval("ink", 0.4, 0.16, 0.12, 0.12)


def elephant(pen: Pen, b: Build) -> None:
    pen.line("main-", 0.5, [(-0.6, -0.2), (-1.15, -0.8), (-1.2, -1.4)])
    pen.line("main-", 0.4, [(-1.2, -1.4), (-1.1, -1.95), (-1.5, -2.15)])
    pen.blob("main", [(0.8, 0.4), (0.1, 0.95), (-0.7, 0.6), (-1.0, -0.2), (-0.7, -0.8), (0.2, -0.9), (0.8, -0.3)])
    if b.coat == "dome":
        pen.oval("main", -0.4, 0.72, 0.5, 0.36)
        pen.oval("main", 0.35, 0.75, 0.5, 0.36)
    if b.coat == "fuzz":
        for x in (-0.4, -0.1, 0.2):
            pen.line("main--", 0.07, [(x, 0.8), (1.4 * x, 1.15)])
    tusk = {"tusks": 1.1, "fuzz": 0.0, "dome": 0.3}.get(b.coat, 0.75)
    if tusk:
        pen.poly("ivory", [(-0.72, -0.5), (-0.5, -0.72), (-0.9 - tusk, -0.95)])
    if b.ear == "oval":
        pen.oval("main-", 0.55, -0.05, 0.72, 0.8)
    else:
        ear = pen.at(pen.x, pen.y, pen.unit * {"vast": 1.0, "ample": 0.66}[b.ear])
        ear.blob("main-", [(-0.05, 0.6), (0.9, 1.05), (1.6, 0.5), (1.3, -0.5), (0.6, -1.15), (0.05, -0.5)])
        ear.blob("skin--", [(0.25, 0.3), (0.9, 0.65), (1.2, 0.2), (0.65, -0.7)])
    pen.oval("paper", -0.45, 0.18, 0.15, 0.15)
    pen.oval("ink", -0.47, 0.17, 0.12, 0.13)


def horse(pen: Pen, b: Build) -> None:
    high = 1.8 if b.ear == "big" else 1.3
    pen.poly("main-", [(0.25, 0.6), (0.55, high), (0.9, 0.5)])
    pen.poly("main", [(-0.2, 0.6), (0.1, high), (0.45, 0.5)])
    pen.blob("main", [(0.9, 0.1), (0.4, 0.85), (-0.4, 0.55), (-1.9, -0.75), (-2.0, -1.3), (-1.3, -1.45),
                      (-0.2, -0.8), (0.6, -0.7)])
    if b.coat in STRIPED:
        for k in range(3):
            pen.line("accent", 0.18, [(0.5 - 0.9 * k, 0.75 - 0.6 * k), (0.1 - 0.75 * k, -0.35 - 0.3 * k)])
    if b.coat in ("feathers", "patches"):
        pen.line("paper", 0.32, [(-0.3, 0.3), (-1.6, -0.85)])
    pen.oval("accent" if b.coat in STRIPED else "main-", -1.65, -1.08, 0.5, 0.42)
    pen.oval("ink", -1.8, -0.95, 0.11, 0.14)
    pen.oval("paper", -0.28, 0.14, 0.22, 0.2)
    pen.oval("ink", -0.3, 0.12, 0.19, 0.19)


def giraffe(pen: Pen, b: Build) -> None:
    for x in (0.35, -0.05):
        pen.line("main-", 0.28, [(x, 0.5), (x + 0.12, 1.35)])
        pen.oval("accent--", x + 0.12, 1.45, 0.25, 0.22)
    pen.oval("main-", 1.05, 0.45, 0.6, 0.26, 20)
    pen.blob("main", [(0.8, 0.2), (0.2, 0.75), (-0.5, 0.5), (-1.9, -0.25), (-1.9, -0.8), (-0.6, -0.7), (0.6, -0.5)])
    pen.oval("main+", -1.55, -0.5, 0.5, 0.36)
    pen.oval("ink", -1.7, -0.4, 0.12, 0.12)
    pen.oval("ink", -0.2, 0.18, 0.24, 0.24)


def cow(pen: Pen, b: Build) -> None:
    both = pen.pair
    if b.coat != "polled":
        long = {"horns": 2.2, "shag": 1.5}.get(b.coat, 0.62)
        both.line("ivory", 0.26, [(0.45, 0.75), (0.5 + 0.5 * long, 0.8 + 0.05 * long),
                                  (0.5 + 0.7 * long, 0.95 + 0.4 * long)])
    both.oval("main-", 1.05, 0.42, 0.5, 0.24, -15)
    pen.blob("main", [(0, 0.95), (-0.75, 0.6), (-0.6, -0.5), (0, -1.1), (0.6, -0.5), (0.75, 0.6)])
    if b.coat == "patches":
        pen.blob("accent", [(-0.2, 0.9), (-0.75, 0.5), (-0.55, -0.3), (-0.2, 0.1)])
    pen.oval("accent" if b.coat == "snout" else "skin", 0, -0.78, 0.66, 0.46)
    both.oval("ink", 0.26, -0.74, 0.11, 0.13)
    both.oval("paper", 0.4, 0.2, 0.19, 0.19)
    both.oval("ink", 0.4, 0.18, 0.15, 0.16)
    if b.coat == "shag":
        for x in (-0.5, -0.2, 0.1, 0.4):
            pen.poly("main-", [(x - 0.2, 0.95), (x + 0.25, 0.95), (x * 1.2, 0.1)])


def sheep(pen: Pen, b: Build) -> None:
    both = pen.pair
    both.oval("accent-", 0.95, *((0.25, 0.5, 0.24, -12) if b.ear == "side" else (0.0, 0.5, 0.24, -50)))
    pen.blob("accent", [(0, 0.8), (-0.68, 0.5), (-0.5, -0.6), (0, -1.0), (0.5, -0.6), (0.68, 0.5)])
    both.oval("main", 0.45, 0.75, 0.46, 0.38)
    pen.oval("main", 0, 0.95, 0.46, 0.38)
    both.oval("paper", 0.32, 0.15, 0.2, 0.2)
    both.oval("ink", 0.32, 0.13, 0.14, 0.15)
    pen.oval("skin", 0, -0.68, 0.24, 0.14)
    if b.coat == "ram":
        both.line("wood", 0.36, [(0.4, 0.8), (1.1, 0.9), (1.5, 0.2), (1.1, -0.35), (0.8, 0)])


HEADS: dict[str, Callable[[Pen, Build], None]] = {
    "cat": cat, "dog": dog, "bear": bear, "elephant": elephant, "horse": horse,
    "zebra": horse, "giraffe": giraffe, "cow": cow, "sheep": sheep,
}
