"""The four-legged breeds: proportions, legs, tails and markings. The numbers are in `art/animals.table`.

Birds, buses, trucks, bowls and cups have their breeds in `art/breeds.shapes`.
"""

from dataclasses import dataclass

from shiftbench.worlds.scenes.pen import Pen, Point

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
            title, numbers, words, main, accent = (part.strip() for part in line.split("|"))
            kind, breed = title.split(": ")
            head, length, girth, leg, limb, neck, muzzle = map(float, numbers.split())
            ear, tail, coat = words.split()
            builds.append(Build(kind, breed, head, length, girth, leg, limb, neck, muzzle, ear, tail, coat,
                                split(main), split(accent)))
    return builds


def split(words: str) -> tuple[str, ...]:
    """`red, light blue` as a tuple."""
    return tuple(word.strip() for word in words.split(","))


def limb_ink(b: Build) -> str:
    return {"points": "dark_brown", "panda": "accent", "mask": "paper"}.get(b.coat, "main")


def leg(pen: Pen, b: Build, ink: str, x: float, top: float, lean: float, hoof: bool = False) -> None:
    """From the body at (x, top) down to the ground, `lean` further on."""
    foot, x1 = b.limb * 0.5, x + lean
    pen.line(ink, b.limb, [(x, top), (x1, foot)])
    if hoof:
        pen.rect("hoof", x1 - b.limb * 0.55, 0, b.limb * 1.1, 1.7)
    else:
        pen.oval("paper" if b.coat == "bib" else ink, x1 - b.limb * 0.2, foot * 0.9, b.limb * 0.68, b.limb * 0.48)
    if b.coat == "feathers":
        pen.poly("paper", [(x1 - b.limb * 0.5, 6), (x1 + b.limb * 0.5, 6), (x1 + b.limb, 0.5), (x1 - b.limb, 0.5)])
    elif b.coat == "curls":
        pen.oval("main+" if ink == "main" else ink, x1, b.limb * 0.9, b.limb * 0.95, b.limb * 0.9)
    elif b.coat in STRIPED and b.coat != "half":
        for y in range(4, int(top) - 3, 3):
            pen.over.line("accent", 0.9, [(x - 4, y), (x + 5, y + 0.6)])


def tail(pen: Pen, b: Build, x: float, y: float, k: float) -> None:
    """From the body at (x, y); `k` is smaller for a tail seen from the front."""
    ink = "dark_brown" if b.coat == "points" else "main-"
    if b.tail in ("thin", "whip"):
        pen.line(ink, 1.5 if b.tail == "whip" else 2.3,
                 [(x, y), (x + 5 * k, y + 1.5), (x + 8 * k, y + 6), (x + 7.4 * k, y + 11), (x + 9.5 * k, y + 14)])
    elif b.tail == "bushy":
        pen.blob(ink, [(x - 1, y - 1), (x + 7 * k, y), (x + 12 * k, y + 7), (x + 11 * k, y + 15), (x + 7 * k, y + 17),
                       (x + 5 * k, y + 9), (x - 1, y + 3)])
    elif b.tail == "up":
        pen.line(ink, 2.6, [(x, y), (x + 5 * k, y + 4), (x + 8 * k, y + 10)])
    elif b.tail == "curl":
        pen.blob(ink, [(x - 1, y), (x + 6 * k, y + 3), (x + 7 * k, y + 10), (x + 1 * k, y + 13), (x - 3 * k, y + 9),
                       (x + 1 * k, y + 7), (x - 2, y + 3)])
        pen.oval("paper", x, y + 10, 2.4, 2)
    elif b.tail == "pom":
        pen.line(ink, 1.8, [(x, y), (x + 5 * k, y + 6)])
        pen.oval("main+", x + 6 * k, y + 8.5, 3.4, 3.4)
    elif b.tail == "stub":
        pen.oval(ink, x + 1, y + 0.5, 2.4, 2)
    elif b.tail == "tuft":
        pen.line(ink, 1.2, [(x, y), (x + 3.4, y - 4), (x + 3.4, y - 9)])
        pen.oval("accent-" if b.coat in STRIPED else "main--", x + 3.4, y - 10.5, 1.3, 2.4)
    elif b.tail == "long":
        pen.oval(ink, x + 2.4, y - 4, 1.8, 5)
    else:  # flow, a horse's
        pen.blob(mane_ink(b), [(x - 1, y + 1.5), (x + 4, y + 2), (x + 6.4, y - 5), (x + 5.4, y - 14), (x + 3.4, y - 17),
                               (x + 2.4, y - 8), (x - 1, y - 2)])


def mane_ink(b: Build) -> str:
    return {"patches": "paper-", "rump": "ink", "feathers": "ink"}.get(b.coat, "accent")


def markings(pen: Pen, b: Build, x0: float, y0: float, x1: float, y1: float) -> None:
    """A pawed animal's coat, over the body drawn so far, which fills the box x0..x1, y0..y1."""
    w, h, over = x1 - x0, y1 - y0, pen.over
    if b.coat == "tabby":
        for k in range(5):
            x = x0 + w * (0.2 + 0.16 * k)
            over.poly("main--", [(x, y1 + 3), (x + 2.2, y1 + 3), (x + 1.4, y0 + h * 0.4)])
    elif b.coat == "patches":
        over.blob("accent", [(x0 + w * 0.25, y1 + 3), (x0 + w * 0.6, y1 + 3), (x0 + w * 0.62, y0 + h * 0.6),
                             (x0 + w * 0.3, y0 + h * 0.5)])
        over.blob("black", [(x0 + w * 0.7, y1), (x1 + 2, y1 - 1), (x1 + 2, y0 + h * 0.3),
                            (x0 + w * 0.75, y0 + h * 0.4)])
        over.oval("accent", x0 + w * 0.3, y0 + h * 0.12, w * 0.14, h * 0.2)
    elif b.coat == "spots":
        for k, (u, v) in enumerate(scattered(16)):
            over.oval("accent", x0 + w * u, y0 + h * v, 1.2 + 0.4 * (k % 2), 1.1 + 0.3 * (k % 3))
    elif b.coat == "bib":
        over.oval("paper", x0 + w * 0.18, y0 + h * 0.35, w * 0.2, h * 0.62)
    elif b.coat == "mask":
        over.oval("paper", x0 + w * 0.25, y0 + h * 0.1, w * 0.42, h * 0.5)
    elif b.coat == "panda":
        over.poly("accent", [(x0 - 2, y0 - 2), (x0 + w * 0.36, y0 - 2), (x0 + w * 0.34, y1 + 4), (x0 - 2, y1 + 4)])
    elif b.coat == "wrinkle":
        for k in range(4):
            x = x0 + w * (0.25 + 0.15 * k)
            over.line("main-", 0.6, [(x, y0 + h * 0.85), (x + 1, y0 + h * 0.45)])
    elif b.coat == "fluff":
        for k in range(5):
            x, y = x0 + w * (0.08 + 0.14 * k), y0 + h * (0.42 + 0.1 * (k % 3))
            pen.oval("main+" if k % 2 else "main", x, y, w * 0.14, h * 0.26)


def hide(pen: Pen, b: Build, half: float, top: float, shoulder: Point, head: Point) -> None:
    """A large animal's coat, over body, neck and legs, and its mane."""
    (x0, y0), (x1, y1), over = shoulder, head, pen.over
    if b.coat in STRIPED:
        gap = 1.9 if b.coat == "fine" else 3.2
        foot = b.leg + b.girth * (0.4 if b.coat == "belly" else 0.1)
        for k in range(int(b.length * (0.4 if b.coat == "half" else 1.0) / gap)):
            x = -half + 1 + k * gap
            over.line("accent", gap * 0.42, [(x + 1, top + 2), (x - 1, foot)])
        rings = int(b.neck * 1.3 / gap) + 2
        for k in range(rings):
            x, y = x0 + (x1 - x0) * (k + 0.4) / rings, y0 + (y1 - y0) * (k + 0.4) / rings
            over.line("accent", gap * 0.42, [(x - 5, y - 2.4), (x + 6, y + 2.4)])
    elif b.coat == "patches":
        over.blob("accent", [(-half * 0.75, top + 2), (-half * 0.1, top + 2), (-half * 0.05, b.leg + b.girth * 0.4),
                             (-half * 0.55, b.leg + b.girth * 0.3)])
        over.blob("accent", [(half * 0.4, top + 2), (half + 2, top), (half + 2, b.leg + b.girth * 0.2),
                             (half * 0.55, b.leg + b.girth * 0.45)])
        over.oval("accent", half * 0.2, b.leg + 1, half * 0.2, b.girth * 0.2)
        over.oval("accent", (x0 + x1) / 2, (y0 + y1) / 2, b.neck * 0.24, b.neck * 0.2)
    elif b.coat == "rump":
        over.oval("accent", half * 0.72, top - b.girth * 0.2, half * 0.42, b.girth * 0.5)
        for u, v in scattered(9):
            over.oval("main", half * (0.5 + 0.5 * u), top - b.girth * v * 0.55, 0.8, 0.8)
    elif b.kind == "giraffe":
        for u, v in scattered(24):
            patch(over, b, -half + b.length * u, b.leg - 4 + (b.girth + 8) * v, 1.0)
        for k in range(10):
            patch(over, b, x0 + (x1 - x0) * k / 9 + (1.7 if k % 2 else -1.5), y0 + (y1 - y0) * k / 9, 0.8)
    elif b.kind == "elephant":
        over.oval("main-/50", 0, b.leg, half, b.girth * 0.22)
    elif b.coat == "shag" and b.kind == "cow":
        fringe(pen, b, half)
    if b.kind in ("horse", "zebra", "giraffe"):
        width = {"zebra": 2.4, "giraffe": 1.4}.get(b.kind, 5.0 if b.coat == "shag" else 3.4)
        edge, up = b.girth * (0.32 if b.kind == "giraffe" else 0.42), y1 > y0
        start, side = ((x0 + edge, y0 + edge * 0.6), 0.95) if up else ((x0 - edge, y0 + edge * 0.4), 0.2)
        pen.line(mane_ink(b) if b.kind == "horse" else "accent", width,
                 [start, (x1 + b.head * side, y1 + b.head * (1.15 - side)), (x1 + b.head * 0.3, y1 + b.head * 0.75)])
    if b.coat == "shag" and b.kind == "horse":
        fringe(pen, b, half)


def fringe(pen: Pen, b: Build, half: float) -> None:
    """Long hair that hangs below the belly."""
    for k in range(6):
        x = -half + 2 + k * b.length / 6
        pen.poly("main-", [(x, b.leg + 4), (x + b.length / 6, b.leg + 4), (x + 2, b.leg - 3)])


def patch(pen: Pen, b: Build, x: float, y: float, scale: float) -> None:
    """One patch of a giraffe."""
    frame = pen.at(x, y, scale * (2.0 if b.coat == "net" else 1.7))
    if b.coat == "jagged":
        frame.poly("accent", [(-1, 0), (-0.2, 0.4), (0, 1), (0.4, 0.3), (1, 0), (0.2, -0.5), (0, -1)])
    else:
        frame.poly("accent", [(-1, -0.4), (-0.5, 0.9), (0.7, 0.8), (1, -0.3), (0, -1)])


def scattered(n: int) -> list[Point]:
    """n places in the unit square, evenly but not regularly spread."""
    return [(k * 0.755 % 1.0, k * 0.57 % 1.0) for k in range(n)]
