"""The sheet: every sprite, read once from the art files and the breeds, packed into flat arrays for the rasteriser."""

from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.worlds.scenes.animals import POSES, animal
from shiftbench.worlds.scenes.heads import read_builds, split
from shiftbench.worlds.scenes.pen import FRAME, Pen, Point, Polygon

ART = ("places.shapes", "weather.shapes", "indoors.shapes", "things.shapes", "outdoors.shapes", "breeds.shapes")


@dataclass(frozen=True)
class Sprite:
    """One drawing: `name` is the tag (or the place), `breed` and `pose` say which variant it is."""

    name: str
    band: str
    main: tuple[str, ...]
    accent: tuple[str, ...]
    polygons: list[Polygon] = field(repr=False)
    breed: str = ""
    pose: str = ""
    horizon: float = 0.0


@dataclass(frozen=True)
class Sheet:
    """All sprites; sprite s owns polygons `first[s]:first[s+1]`, polygon p owns points `start[p]:start[p+1]`.

    A row of `ink` is (role, red, green, blue, shade, alpha, clip, stuff).
    """

    sprites: tuple[Sprite, ...]
    first: Ints
    start: Ints
    ink: Ints
    points: Ints
    stuff: tuple[str, ...]

    def extents(self) -> Floats:
        """Width and height of each sprite, as shares of the picture's width."""
        outlines = [self.points[self.start[lo]:self.start[hi]] for lo, hi in pairwise(self.first)]
        return np.asarray([points.max(0) - points.min(0) for points in outlines]) / FRAME

    def variants(self, name: str) -> list[int]:
        return [number for number, sprite in enumerate(self.sprites) if sprite.name == name]


def read_art(text: str, where: str) -> list[Sprite]:
    """Sprites from the lines of an art file; the format is described at the head of `art/indoors.shapes`."""
    sprites: list[Sprite] = []
    pen = Pen()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if line.startswith("@"):
            title, band, main, accent = (column.strip() for column in line[1:].split("|"))
            name, _, breed = title.partition(":")
            pen = Pen()
            sprites.append(Sprite(name, band, split(main), split(accent), pen.done, breed))
        elif words[0] == "stuff":
            pen.stuff = words[1]
        elif words[0] == "horizon":
            sprites[-1] = replace(sprites[-1], horizon=float(words[1]))
        else:
            try:
                stroke(pen, words[0], words[1], [float(word) for word in words[2:]])
            except (KeyError, IndexError, ValueError, TypeError) as problem:
                raise ShiftBenchError(f"{where}, line {number}: cannot draw '{line}' ({problem}).") from problem
    return sprites


def stroke(pen: Pen, kind: str, ink: str, numbers: list[float]) -> None:
    """One line of an art file; `|` in the kind draws it mirrored too, `&` clips it to the sprite drawn so far."""
    name = kind.rstrip("|&")
    pen = pen.pair if "|" in kind else pen
    pen = pen.over if "&" in kind else pen
    if name == "rect":
        x, y, width, height = numbers
        pen.rect(ink, x, y, width, height)
    elif name == "oval":
        x, y, rx, ry, turn = (*numbers, 0.0)[:5]
        pen.oval(ink, x, y, rx, ry, turn)
    elif name == "line":
        pen.line(ink, numbers[0], pairs(numbers[1:]))
    else:
        {"poly": pen.poly, "blob": pen.blob}[name](ink, pairs(numbers))


def pairs(numbers: list[float]) -> list[Point]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def centred(polygons: list[Polygon]) -> list[Polygon]:
    """The same sprite with the middle of its width at x = 0."""
    xs = [x for polygon in polygons for x, _ in polygon.points]
    middle = (min(xs) + max(xs)) // 2
    return [replace(p, points=tuple((x - middle, y) for x, y in p.points)) for p in polygons]


@cache
def sheet() -> Sheet:
    """The whole sheet, built on first use."""
    art = {path.name: path.read_text("utf-8") for path in (files(__package__) / "art").iterdir()}
    sprites = [sprite for name in ART for sprite in read_art(art[name], name)]
    sprites += [Sprite(b.kind, "subject", b.main, b.accent, centred(animal(b, pose)), b.breed, pose)
                for b in read_builds(art["animals.table"]) for pose in POSES[b.kind]]
    polygons = [polygon for sprite in sprites for polygon in sprite.polygons]
    stuff = ("", *sorted({polygon.stuff for polygon in polygons} - {""}))
    return Sheet(
        sprites=tuple(sprites),
        first=np.cumsum([0, *(len(sprite.polygons) for sprite in sprites)]),
        start=np.cumsum([0, *(len(polygon.points) for polygon in polygons)]),
        ink=np.asarray([(p.ink.role, *p.ink.rgb, p.ink.shade, p.ink.alpha, p.clip, stuff.index(p.stuff))
                        for p in polygons], np.int64),
        points=np.asarray([point for polygon in polygons for point in polygon.points], np.int64),
        stuff=stuff,
    )
