"""The pen: shapes in readable units become polygons in whole numbers.

A sprite is drawn in hundredths of the picture's width, x to the right, y up, (0, 0) where it stands on the ground.
Everything becomes a polygon on an integer grid (`FRAME` steps across the picture), so the rasteriser knows one shape
only and gives the same pixels on every machine.
"""

from dataclasses import dataclass, field
from math import cos, hypot, pi, sin

from shiftbench.worlds.scenes.colours import NAMED

FRAME = 1 << 14
MAIN, ACCENT, LITERAL = 0, 1, 2
SHADES = {"--": 150, "-": 200, "": 256, "+": 320, "++": 400}
SOLID = 256

Point = tuple[float, float]


@dataclass(frozen=True)
class Ink:
    """A colour by role: the instance's main or accent colour, or a named one; darker or lighter; maybe translucent."""

    role: int
    rgb: tuple[int, int, int]
    shade: int
    alpha: int

    @staticmethod
    def of(word: str) -> "Ink":
        """`main`, `accent-` (darker), `wood++` (much lighter), `ink/30` (30 % over what lies below, which keeps its id)."""
        word, _, percent = word.replace("_", " ").partition("/")
        name = word.rstrip("+-")
        role = {"main": MAIN, "accent": ACCENT}.get(name, LITERAL)
        return Ink(role, NAMED[name] if role == LITERAL else (0, 0, 0), SHADES[word[len(name):]],
                   SOLID * int(percent or 100) // 100)


@dataclass(frozen=True)
class Polygon:
    """`points` on the grid; `clip` paints only over what the same sprite has painted before; `stuff` as in places."""

    ink: Ink
    points: tuple[tuple[int, int], ...]
    clip: bool = False
    stuff: str = ""


@dataclass
class Pen:
    """Records polygons. `at` and `clip` and `stuff` hold for what is drawn next."""

    done: list[Polygon] = field(default_factory=list)
    clip: bool = False
    stuff: str = ""

    def poly(self, ink: str, points: list[Point]) -> None:
        grid = tuple((round(x * FRAME / 100), round(y * FRAME / 100)) for x, y in points)
        self.done.append(Polygon(Ink.of(ink), grid, self.clip, self.stuff))

    def rect(self, ink: str, x: float, y: float, width: float, height: float) -> None:
        self.poly(ink, [(x, y), (x + width, y), (x + width, y + height), (x, y + height)])

    def oval(self, ink: str, x: float, y: float, rx: float, ry: float, turn: float = 0.0) -> None:
        """An ellipse; `turn` in degrees, anticlockwise."""
        n = 12 if max(rx, ry) < 3 else 20 if max(rx, ry) < 12 else 32
        c, s = cos(turn * pi / 180), sin(turn * pi / 180)
        ring = [(rx * cos(2 * pi * k / n), ry * sin(2 * pi * k / n)) for k in range(n)]
        self.poly(ink, [(x + c * u - s * v, y + s * u + c * v) for u, v in ring])

    def blob(self, ink: str, points: list[Point]) -> None:
        """A closed smooth curve through the points (Catmull-Rom)."""
        n, curve = len(points), []
        for k in range(n):
            a, b, c, d = (points[(k + j - 1) % n] for j in range(4))
            for step in range(5):
                t = step / 5
                curve.append(tuple(
                    0.5 * (2 * q + (r - p) * t + (2 * p - 5 * q + 4 * r - s) * t * t + (3 * q - p - 3 * r + s) * t * t * t)
                    for p, q, r, s in zip(a, b, c, d, strict=True)))
        self.poly(ink, [(x, y) for x, y in curve])

    def line(self, ink: str, width: float, points: list[Point]) -> None:
        """A stroke with round ends and joints where it is wide enough to show them."""
        for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
            length = hypot(x1 - x0, y1 - y0) or 1.0
            u, v = (y0 - y1) / length * width / 2, (x1 - x0) / length * width / 2
            self.poly(ink, [(x0 + u, y0 + v), (x1 + u, y1 + v), (x1 - u, y1 - v), (x0 - u, y0 - v)])
        if width >= 1.5:
            for x, y in points:
                self.oval(ink, x, y, width / 2, width / 2)
