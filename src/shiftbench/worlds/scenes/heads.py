"""Heads: a cat's or a dog's from the front, a dog's in profile, and those of the larger animals from the side.

All look to the left; the layout flips a sprite for the other way. `x, y` is the middle of the head, `r` its radius.
"""

from shiftbench.worlds.scenes.breeds import Build
from shiftbench.worlds.scenes.pen import Pen

BOTH = (-1, 1)


def cat(pen: Pen, b: Build, x: float, y: float) -> None:
    r = b.head
    dark = b.coat == "points"
    high, wide = {"point": (0.72, 0.42), "tall": (0.9, 0.4), "small": (0.35, 0.36), "huge": (1.15, 0.52)}[b.ear]
    skull = "main" if b.coat != "points" else "main+"
    for side in BOTH:
        base, tip = x + side * 0.62 * r, x + side * (0.72 + 0.22 * (b.ear == "huge")) * r
        outer, inner = base + side * wide * r, base - side * wide * r
        top = y + (0.75 + high) * r
        pen.poly("dark_brown" if dark else "main-", [(outer, y + 0.15 * r), (tip, top), (inner, y + 0.8 * r)])
        pen.poly("skin", [(outer - side * 0.16 * r, y + 0.4 * r), (tip - side * 0.02 * r, top - 0.3 * r),
                          (inner + side * 0.2 * r, y + 0.82 * r)])
    if b.coat == "fluff":
        for side in BOTH:
            pen.poly("main", [(x + side * 0.6 * r, y + 0.4 * r), (x + side * 1.4 * r, y), (x + side * 1.15 * r, y - 0.2 * r),
                              (x + side * 1.3 * r, y - 0.5 * r), (x + side * 0.4 * r, y - 0.95 * r)])
    pen.oval(skull, x, y, 1.06 * r, 0.9 * r)
    if dark:
        pen.oval("dark_brown", x, y - 0.28 * r, 0.62 * r, 0.56 * r)
    if b.coat == "tabby":
        for dx in (-0.3, 0.0, 0.3):
            pen.line("main--", 0.13 * r, [(x + dx * r, y + 0.82 * r), (x + dx * 0.7 * r, y + 0.42 * r)])
        for side in BOTH:
            pen.line("main--", 0.12 * r, [(x + side * 1.02 * r, y - 0.05 * r), (x + side * 0.66 * r, y - 0.12 * r)])
    if b.coat == "patches":
        pen.blob("accent", [(x - 0.1 * r, y + 0.9 * r), (x - 0.9 * r, y + 0.5 * r), (x - 0.9 * r, y - 0.1 * r), (x - 0.2 * r, y)])
        pen.blob("black", [(x + 0.2 * r, y + 0.9 * r), (x + 0.9 * r, y + 0.5 * r), (x + 0.7 * r, y + 0.2 * r)])
    if b.coat == "wrinkle":
        for dy in (0.5, 0.66):
            pen.line("main-", 0.09 * r, [(x - 0.3 * r, y + dy * r), (x + 0.3 * r, y + dy * r)])
    light = "paper" if b.coat == "bib" else "dark_brown+" if dark else "main+"
    for side in BOTH:
        pen.oval(light, x + side * 0.24 * r, y - 0.42 * r, 0.32 * r, 0.26 * r)
    if b.coat == "bib":
        pen.poly("paper", [(x - 0.2 * r, y - 0.3 * r), (x, y + 0.5 * r), (x + 0.2 * r, y - 0.3 * r)])
    for side in BOTH:
        pen.oval("ink", x + side * 0.46 * r, y + 0.1 * r, 0.34 * r, 0.32 * r)
        pen.oval("iris+" if b.coat != "points" else "light_blue", x + side * 0.46 * r, y + 0.1 * r, 0.29 * r, 0.27 * r)
        pen.oval("ink", x + side * 0.46 * r, y + 0.1 * r, 0.1 * r, 0.26 * r)
        for slope in (0.1, -0.1):
            pen.line("paper" if dark else "main--", 0.06 * r, [(x + side * 0.5 * r, y - (0.38 + slope) * r),
                                                             (x + side * 1.3 * r, y - (0.35 + 2.4 * slope) * r)])
    pen.poly("tongue", [(x - 0.15 * r, y - 0.16 * r), (x + 0.15 * r, y - 0.16 * r), (x, y - 0.34 * r)])
    pen.line("ink", 0.08 * r, [(x, y - 0.32 * r), (x, y - 0.5 * r)])


def dog(pen: Pen, b: Build, x: float, y: float) -> None:
    r = b.head
    if b.ear in ("wolf", "fold"):
        for side in BOTH:
            tip = (x + side * 0.7 * r, y + 1.75 * r) if b.ear == "wolf" else (x + side * 1.05 * r, y + 1.0 * r)
            pen.poly("main-", [(x + side * 0.95 * r, y + 0.3 * r), tip, (x + side * 0.15 * r, y + 0.8 * r)])
            if b.ear == "wolf":
                pen.poly("skin-", [(x + side * 0.78 * r, y + 0.6 * r), (x + side * 0.66 * r, y + 1.4 * r),
                                   (x + side * 0.36 * r, y + 0.8 * r)])
            else:
                pen.poly("main--", [tip, (x + side * 1.25 * r, y + 0.45 * r), (x + side * 0.5 * r, y + 0.7 * r)])
    jowl = 0.25 * (b.muzzle > 1.4) * r
    pen.blob("main", [(x, y + 0.98 * r), (x - 0.82 * r, y + 0.55 * r), (x - 0.85 * r - jowl, y - 0.3 * r), (x - 0.5 * r, y - 0.95 * r),
                      (x, y - 1.15 * r), (x + 0.5 * r, y - 0.95 * r), (x + 0.85 * r + jowl, y - 0.3 * r), (x + 0.82 * r, y + 0.55 * r)])
    if b.coat == "mask":
        pen.blob("paper", [(x, y + 0.3 * r), (x - 0.7 * r, y + 0.3 * r), (x - 0.85 * r, y - 0.4 * r), (x, y - 1.15 * r),
                           (x + 0.85 * r, y - 0.4 * r), (x + 0.7 * r, y + 0.3 * r)])
        pen.poly("main", [(x - 0.18 * r, y + 0.6 * r), (x + 0.18 * r, y + 0.6 * r), (x, y - 0.2 * r)])
    if b.coat == "spots":
        for dx, dy, s in ((-0.4, 0.6, 0.14), (0.2, 0.7, 0.12), (0.55, 0.1, 0.1), (-0.55, -0.35, 0.1)):
            pen.oval("accent", x + dx * r, y + dy * r, s * r, s * r)
    wide, low = 0.5 * min(b.muzzle, 1.5) * r + 0.04 * r, 0.46 * r
    if b.muzzle < 1.4:
        pen.oval("tongue", x + 0.06 * r, y - 1.05 * r, 0.25 * r, 0.38 * r)
    light = "paper" if b.coat in ("mask", "bib") else "main+"
    pen.oval(light, x, y - 0.52 * r, wide, low)
    if b.muzzle > 1.4:
        for side in BOTH:
            pen.oval("main+" if b.coat != "bib" else "paper", x + side * 0.45 * r, y - 0.72 * r, 0.42 * r, 0.4 * r)
            pen.line("main--", 0.08 * r, [(x, y - 0.5 * r), (x + side * 0.7 * r, y - 0.78 * r)])
    pen.oval("ink", x, y - 0.26 * r, 0.34 * r, 0.25 * r)
    pen.line("ink", 0.09 * r, [(x, y - 0.3 * r), (x, y - 0.68 * r), (x - 0.24 * r, y - 0.78 * r)])
    pen.line("ink", 0.09 * r, [(x, y - 0.68 * r), (x + 0.24 * r, y - 0.78 * r)])
    for side in BOTH:
        pen.oval("paper", x + side * 0.38 * r, y + 0.22 * r, 0.2 * r, 0.2 * r)
        pen.oval("ink" if b.coat != "mask" else "blue", x + side * 0.38 * r, y + 0.21 * r, 0.16 * r, 0.17 * r)
        if b.ear in ("flop", "long"):
            drop = 0.35 if b.ear == "flop" else 1.0
            ink = "accent" if b.coat == "spots" else "main--"
            pen.blob(ink, [(x + side * 0.5 * r, y + 0.95 * r), (x + side * 1.12 * r, y + 0.72 * r), (x + side * 1.4 * r, y - drop * r),
                           (x + side * 1.05 * r, y - (drop + 0.3) * r), (x + side * 0.8 * r, y - drop * 0.5 * r), (x + side * 0.72 * r, y + 0.4 * r)])
        if b.ear == "puff":
            pen.oval("main-", x + side * 1.05 * r, y - 0.15 * r, 0.46 * r, 0.75 * r)
    if b.ear == "puff":
        for dx, dy in ((-0.5, 0.85), (0.5, 0.85), (0, 1.15), (0, 0.8)):
            pen.oval("main+" if dx else "main", x + dx * r, y + dy * r, 0.55 * r, 0.46 * r)


def dog_profile(pen: Pen, b: Build, x: float, y: float) -> None:
    r = b.head
    snout = (1.15 if b.muzzle > 1.4 else 1.45 * b.muzzle + 0.25) * r
    if b.ear == "wolf":
        pen.poly("main-", [(x - 0.05 * r, y + 0.6 * r), (x + 0.5 * r, y + 1.75 * r), (x + 0.8 * r, y + 0.4 * r)])
    if b.muzzle < 1.4:
        pen.oval("tongue", x - 0.8 * snout, y - 0.76 * r, 0.24 * r, 0.42 * r)
    pen.blob("main", [(x + 0.85 * r, y - 0.1 * r), (x + 0.6 * r, y + 0.75 * r), (x - 0.1 * r, y + 0.9 * r), (x - 0.65 * r, y + 0.42 * r),
                      (x - snout, y + 0.12 * r), (x - snout - 0.05 * r, y - 0.28 * r), (x - 0.75 * r, y - 0.6 * r), (x + 0.2 * r, y - 0.85 * r)])
    if b.coat == "mask":
        pen.blob("paper", [(x - 0.3 * r, y + 0.3 * r), (x - snout, y + 0.05 * r), (x - snout, y - 0.28 * r),
                           (x - 0.6 * r, y - 0.58 * r), (x + 0.3 * r, y - 0.8 * r), (x + 0.2 * r, y - 0.2 * r)])
    if b.coat == "spots":
        for dx, dy in ((0.3, 0.5), (-0.4, -0.3), (0.35, -0.45)):
            pen.oval("accent", x + dx * r, y + dy * r, 0.12 * r, 0.12 * r)
    if b.muzzle > 1.4:
        pen.blob("main+", [(x - 0.5 * r, y - 0.1 * r), (x - snout, y - 0.2 * r), (x - 0.9 * snout, y - 0.85 * r), (x - 0.3 * r, y - 0.75 * r)])
    pen.line("ink", 0.09 * r, [(x - snout, y - 0.3 * r), (x - 0.45 * r, y - 0.36 * r)])
    pen.oval("ink", x - snout, y + 0.04 * r, 0.28 * r, 0.24 * r)
    pen.oval("paper", x - 0.3 * r, y + 0.32 * r, 0.19 * r, 0.19 * r)
    pen.oval("ink", x - 0.33 * r, y + 0.31 * r, 0.15 * r, 0.16 * r)
    if b.ear in ("flop", "long"):
        drop = 0.5 if b.ear == "flop" else 1.0
        ink = "accent" if b.coat == "spots" else "main--"
        pen.blob(ink, [(x + 0.1 * r, y + 0.85 * r), (x - 0.1 * r, y), (x + 0.15 * r, y - drop * r), (x + 0.6 * r, y - drop * r), (x + 0.8 * r, y + 0.4 * r)])
    if b.ear == "fold":
        pen.poly("main--", [(x + 0.1 * r, y + 0.9 * r), (x, y + 0.35 * r), (x + 0.6 * r, y + 0.6 * r)])
    if b.ear == "puff":
        pen.oval("main-", x + 0.45 * r, y - 0.1 * r, 0.46 * r, 0.75 * r)
        for dx, dy in ((-0.2, 0.85), (0.4, 0.9), (0.1, 1.15)):
            pen.oval("main+", x + dx * r, y + dy * r, 0.5 * r, 0.42 * r)


def bear(pen: Pen, b: Build, x: float, y: float) -> None:
    r = b.head
    dark = "accent" if b.coat == "panda" else "main-"
    size = 0.22 if b.ear == "tiny" else 0.36
    for side in BOTH:
        pen.oval(dark, x + side * 0.72 * r, y + 0.72 * r, size * r, size * r)
        if b.coat != "panda":
            pen.oval("skin--", x + side * 0.72 * r, y + 0.7 * r, size * 0.5 * r, size * 0.5 * r)
    pen.oval("main", x, y, 1.04 * r, 0.92 * r)
    pen.oval("accent" if b.coat == "snout" else "main+", x, y - 0.38 * r, 0.5 * r, 0.4 * r)
    if b.coat == "panda":
        for side in BOTH:
            pen.oval("accent", x + side * 0.42 * r, y + 0.12 * r, 0.24 * r, 0.32 * r, side * -25)
    pen.oval("ink", x, y - 0.2 * r, 0.22 * r, 0.15 * r)
    pen.line("ink", 0.08 * r, [(x, y - 0.25 * r), (x, y - 0.5 * r)])
    for side in BOTH:
        pen.oval("paper", x + side * 0.4 * r, y + 0.17 * r, 0.14 * r, 0.14 * r)
        pen.oval("ink", x + side * 0.4 * r, y + 0.16 * r, 0.12 * r, 0.12 * r)


def elephant(pen: Pen, b: Build, x: float, y: float) -> None:
    r = b.head
    pen.line("main-", 0.5 * r, [(x - 0.6 * r, y - 0.2 * r), (x - 1.15 * r, y - 0.8 * r), (x - 1.2 * r, y - 1.4 * r)])
    pen.line("main-", 0.4 * r, [(x - 1.2 * r, y - 1.4 * r), (x - 1.1 * r, y - 1.95 * r), (x - 1.5 * r, y - 2.15 * r)])
    pen.blob("main", [(x + 0.8 * r, y + 0.4 * r), (x + 0.1 * r, y + 0.95 * r), (x - 0.7 * r, y + 0.6 * r), (x - 1.0 * r, y - 0.2 * r),
                      (x - 0.7 * r, y - 0.8 * r), (x + 0.2 * r, y - 0.9 * r), (x + 0.8 * r, y - 0.3 * r)])
    if b.coat == "dome":
        pen.oval("main", x - 0.4 * r, y + 0.72 * r, 0.5 * r, 0.36 * r)
        pen.oval("main", x + 0.35 * r, y + 0.75 * r, 0.5 * r, 0.36 * r)
    if b.coat == "fuzz":
        for dx in (-0.4, -0.1, 0.2):
            pen.line("main--", 0.7, [(x + dx * r, y + 0.8 * r), (x + dx * 1.4 * r, y + 1.15 * r)])
    tusk = {"tusks": 1.1, "fuzz": 0.0, "dome": 0.3}.get(b.coat, 0.75)
    if tusk:
        pen.poly("ivory", [(x - 0.72 * r, y - 0.5 * r), (x - 0.5 * r, y - 0.72 * r), (x - (0.9 + tusk) * r, y - 0.95 * r)])
    big = {"vast": 1.0, "ample": 0.66, "oval": 0.78}[b.ear]
    if b.ear == "oval":
        pen.oval("main-", x + 0.55 * r, y - 0.05 * r, 0.72 * r, 0.8 * r)
    else:
        pen.blob("main-", [(x - 0.05 * r, y + 0.6 * big * r), (x + 0.9 * big * r, y + 1.05 * big * r), (x + 1.6 * big * r, y + 0.5 * big * r),
                           (x + 1.3 * big * r, y - 0.5 * big * r), (x + 0.6 * big * r, y - 1.15 * big * r), (x + 0.05 * r, y - 0.5 * big * r)])
        pen.blob("skin--", [(x + 0.25 * r, y + 0.3 * big * r), (x + 0.9 * big * r, y + 0.65 * big * r), (x + 1.2 * big * r, y + 0.2 * big * r),
                            (x + 0.65 * big * r, y - 0.7 * big * r)])
    pen.oval("paper", x - 0.45 * r, y + 0.18 * r, 0.15 * r, 0.15 * r)
    pen.oval("ink", x - 0.47 * r, y + 0.17 * r, 0.12 * r, 0.13 * r)


def horse(pen: Pen, b: Build, x: float, y: float) -> None:
    r = b.head
    high = 1.3 if b.ear == "up" else 1.8
    for dx in (0.55, 0.1):
        pen.poly("main-" if dx > 0.3 else "main", [(x + (dx - 0.3) * r, y + 0.6 * r), (x + dx * r, y + high * r), (x + (dx + 0.35) * r, y + 0.5 * r)])
    pen.blob("main", [(x + 0.9 * r, y + 0.1 * r), (x + 0.4 * r, y + 0.85 * r), (x - 0.4 * r, y + 0.55 * r), (x - 1.9 * r, y - 0.75 * r),
                      (x - 2.0 * r, y - 1.3 * r), (x - 1.3 * r, y - 1.45 * r), (x - 0.2 * r, y - 0.8 * r), (x + 0.6 * r, y - 0.7 * r)])
    if b.coat in ("wide", "fine", "belly", "half"):
        for k in range(3):
            pen.line("accent", 0.18 * r, [(x - (0.9 * k - 0.5) * r, y + (0.75 - 0.6 * k) * r), (x - (0.75 * k - 0.1) * r, y - (0.35 + 0.3 * k) * r)])
    if b.coat in ("feathers", "patches"):
        pen.line("paper", 0.32 * r, [(x - 0.3 * r, y + 0.3 * r), (x - 1.6 * r, y - 0.85 * r)])
    muzzle = "accent" if b.coat in ("wide", "fine", "belly", "half") else "main-"
    pen.oval(muzzle, x - 1.65 * r, y - 1.08 * r, 0.5 * r, 0.42 * r)
    pen.oval("ink", x - 1.8 * r, y - 0.95 * r, 0.11 * r, 0.14 * r)
    pen.oval("paper", x - 0.28 * r, y + 0.14 * r, 0.22 * r, 0.2 * r)
    pen.oval("ink", x - 0.3 * r, y + 0.12 * r, 0.19 * r, 0.19 * r)


def giraffe(pen: Pen, b: Build, x: float, y: float) -> None:
    r = b.head
    for dx in (0.35, -0.05):
        pen.line("main-", 0.28 * r, [(x + dx * r, y + 0.5 * r), (x + (dx + 0.12) * r, y + 1.35 * r)])
        pen.oval("accent--", x + (dx + 0.12) * r, y + 1.45 * r, 0.25 * r, 0.22 * r)
    pen.oval("main-", x + 1.05 * r, y + 0.45 * r, 0.6 * r, 0.26 * r, 20)
    pen.blob("main", [(x + 0.8 * r, y + 0.2 * r), (x + 0.2 * r, y + 0.75 * r), (x - 0.5 * r, y + 0.5 * r), (x - 1.9 * r, y - 0.25 * r),
                      (x - 1.9 * r, y - 0.8 * r), (x - 0.6 * r, y - 0.7 * r), (x + 0.6 * r, y - 0.5 * r)])
    pen.oval("main+", x - 1.55 * r, y - 0.5 * r, 0.5 * r, 0.36 * r)
    pen.oval("ink", x - 1.7 * r, y - 0.4 * r, 0.12 * r, 0.12 * r)
    pen.oval("ink", x - 0.2 * r, y + 0.18 * r, 0.24 * r, 0.24 * r)


def cow(pen: Pen, b: Build, x: float, y: float) -> None:
    r = b.head
    long = {"horns": 2.2, "shag": 1.5}.get(b.coat, 0.62)
    if b.main != "black, maroon":
        for side in BOTH:
            pen.line("ivory", 0.26 * r, [(x + side * 0.45 * r, y + 0.75 * r), (x + side * (0.5 + 0.5 * long) * r, y + (0.8 + 0.05 * long) * r),
                                         (x + side * (0.5 + 0.7 * long) * r, y + (0.95 + 0.4 * long) * r)])
    for side in BOTH:
        pen.oval("main-", x + side * 1.05 * r, y + 0.42 * r, 0.5 * r, 0.24 * r, side * -15)
    pen.blob("main", [(x, y + 0.95 * r), (x - 0.75 * r, y + 0.6 * r), (x - 0.6 * r, y - 0.5 * r), (x, y - 1.1 * r), (x + 0.6 * r, y - 0.5 * r), (x + 0.75 * r, y + 0.6 * r)])
    if b.coat == "patches":
        pen.blob("accent", [(x - 0.2 * r, y + 0.9 * r), (x - 0.75 * r, y + 0.5 * r), (x - 0.55 * r, y - 0.3 * r), (x - 0.2 * r, y + 0.1 * r)])
    pen.oval("accent" if b.coat == "snout" else "skin", x, y - 0.78 * r, 0.66 * r, 0.46 * r)
    for side in BOTH:
        pen.oval("ink", x + side * 0.26 * r, y - 0.74 * r, 0.11 * r, 0.13 * r)
        pen.oval("paper", x + side * 0.4 * r, y + 0.2 * r, 0.19 * r, 0.19 * r)
        pen.oval("ink", x + side * 0.4 * r, y + 0.18 * r, 0.15 * r, 0.16 * r)
    if b.coat == "shag":
        for dx in (-0.5, -0.2, 0.1, 0.4):
            pen.poly("main-", [(x + (dx - 0.2) * r, y + 0.95 * r), (x + (dx + 0.25) * r, y + 0.95 * r), (x + dx * 1.2 * r, y + 0.1 * r)])


def sheep(pen: Pen, b: Build, x: float, y: float) -> None:
    r = b.head
    for side in BOTH:
        pen.oval("accent-", x + side * 0.95 * r, y + (0.25 if b.ear == "side" else 0.0) * r, 0.5 * r, 0.24 * r, side * (-12 if b.ear == "side" else -50))
    pen.blob("accent", [(x, y + 0.8 * r), (x - 0.68 * r, y + 0.5 * r), (x - 0.5 * r, y - 0.6 * r), (x, y - 1.0 * r), (x + 0.5 * r, y - 0.6 * r), (x + 0.68 * r, y + 0.5 * r)])
    for dx, dy in ((-0.45, 0.75), (0.45, 0.75), (0, 0.95)):
        pen.oval("main", x + dx * r, y + dy * r, 0.46 * r, 0.38 * r)
    for side in BOTH:
        pen.oval("paper", x + side * 0.32 * r, y + 0.15 * r, 0.2 * r, 0.2 * r)
        pen.oval("ink", x + side * 0.32 * r, y + 0.13 * r, 0.14 * r, 0.15 * r)
    pen.oval("skin", x, y - 0.68 * r, 0.24 * r, 0.14 * r)
    if b.coat == "ram":
        for side in BOTH:
            pen.line("wood", 0.36 * r, [(x + side * 0.4 * r, y + 0.8 * r), (x + side * 1.1 * r, y + 0.9 * r), (x + side * 1.5 * r, y + 0.2 * r),
                                        (x + side * 1.1 * r, y - 0.35 * r), (x + side * 0.8 * r, y)])
