"""The pen: shapes in readable units become polygons in whole numbers.

A sprite is drawn in hundredths of the picture's width, x to the right, y up, (0, 0) where it stands on the ground.
Everything becomes a polygon on an integer grid (`FRAME` steps across the picture), so the rasteriser knows one shape
only and gives the same pixels on every machine.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from math import cos, hypot, pi, sin

# Named colours: the words of MetaShift's attribute ontology first, then the materials the art is made of.

Rgb = tuple[int, int, int]

NAMED: dict[str, Rgb] = {
    # words an item may be tagged with
    "white": (238, 236, 230), "black": (52, 50, 56), "gray": (138, 140, 146), "silver": (186, 192, 200),
    "brown": (130, 84, 50), "dark brown": (84, 56, 40), "light brown": (176, 128, 84), "tan": (206, 168, 118),
    "beige": (226, 208, 176), "orange": (226, 138, 56), "red": (202, 58, 52), "maroon": (124, 44, 52),
    "pink": (232, 152, 166), "purple": (132, 88, 152), "blue": (62, 108, 188), "dark blue": (42, 62, 112),
    "light blue": (146, 194, 226), "green": (84, 148, 76), "yellow": (240, 200, 66), "gold": (212, 168, 60),
    "khaki": (186, 176, 126), "teal": (58, 142, 140),
    # materials and details
    "ink": (30, 28, 34), "paper": (250, 248, 240), "wood": (156, 108, 66), "pine": (198, 154, 102),
    "steel": (168, 176, 184), "glass": (176, 214, 232), "leaf": (74, 138, 66), "moss": (104, 148, 74),
    "olive": (136, 142, 72), "bark": (108, 78, 54), "grass": (122, 172, 84), "meadow": (150, 186, 92),
    "straw": (214, 190, 112), "sand": (234, 210, 156), "dirt": (168, 124, 82), "rock": (136, 132, 126),
    "brick": (178, 98, 76), "asphalt": (104, 106, 112), "concrete": (178, 176, 170), "tile": (206, 226, 228),
    "sea": (58, 132, 176), "lagoon": (74, 160, 172), "foam": (232, 244, 246), "snow": (240, 244, 250),
    "ice": (206, 222, 236), "rubber": (44, 44, 48), "skin": (238, 178, 168), "tongue": (226, 112, 126),
    "amber": (236, 182, 48), "iris": (150, 196, 84), "hoof": (70, 58, 50), "ivory": (246, 238, 214),
    "lamp": (255, 226, 138), "screen": (78, 112, 150),
}


FRAME = 1 << 14
MAIN, ACCENT, LITERAL = 0, 1, 2
SHADES = {"--": 150, "-": 200, "": 256, "+": 320, "++": 400}
SOLID = 256

Point = tuple[float, float]


@dataclass(frozen=True)
class Ink:
    """A colour by role: the instance's main or accent colour, or a named one; darker or lighter, or translucent."""

    role: int
    rgb: tuple[int, int, int]
    shade: int
    alpha: int

    @staticmethod
    def of(word: str) -> "Ink":
        """`main`, `accent-` (darker), `wood++` (much lighter), `ink/30` (30 % over what lies below)."""
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
    """Records polygons. `clip` and `stuff` hold for what is drawn next; a frame moves, scales or mirrors it."""

    done: list[Polygon] = field(default_factory=list)
    clip: bool = False
    stuff: str = ""
    x: float = 0.0
    y: float = 0.0
    unit: float = 1.0
    sides: tuple[int, ...] = (1,)

    def at(self, x: float, y: float, unit: float) -> "Pen":
        """The same sheet in a frame of its own: (0, 0) is at x, y and 1 is `unit` long."""
        return Pen(self.done, self.clip, self.stuff, x, y, unit)

    @property
    def pair(self) -> "Pen":
        """The same frame, everything drawn twice: as it is and mirrored about x = 0."""
        return Pen(self.done, self.clip, self.stuff, self.x, self.y, self.unit, (1, -1))

    @property
    def over(self) -> "Pen":
        """The same frame, painting only over what the sprite has painted before."""
        return Pen(self.done, True, self.stuff, self.x, self.y, self.unit, self.sides)

    def poly(self, ink: str, points: list[Point]) -> None:
        for side in self.sides:
            moved = [(self.x + side * self.unit * x, self.y + self.unit * y) for x, y in points]
            grid = tuple((round(x * FRAME / 100), round(y * FRAME / 100)) for x, y in moved)
            self.done.append(Polygon(Ink.of(ink), grid, self.clip, self.stuff))

    def rect(self, ink: str, x: float, y: float, width: float, height: float) -> None:
        self.poly(ink, [(x, y), (x + width, y), (x + width, y + height), (x, y + height)])

    def oval(self, ink: str, x: float, y: float, rx: float, ry: float, turn: float = 0.0) -> None:
        """An ellipse; `turn` in degrees, anticlockwise."""
        large = max(rx, ry) * self.unit
        n = 12 if large < 3 else 20 if large < 12 else 32
        c, s = cos(turn * pi / 180), sin(turn * pi / 180)
        ring = [(rx * cos(2 * pi * k / n), ry * sin(2 * pi * k / n)) for k in range(n)]
        self.poly(ink, [(x + c * u - s * v, y + s * u + c * v) for u, v in ring])

    def blob(self, ink: str, points: list[Point]) -> None:
        """A closed smooth curve through the points (Catmull-Rom)."""
        around = [points[-1], *points, *points[:2]]
        self.poly(ink, [between(around[k : k + 4], step / 5) for k in range(len(points)) for step in range(5)])

    def line(self, ink: str, width: float, points: list[Point]) -> None:
        """A stroke with round ends and joints where it is wide enough to show them."""
        for (x0, y0), (x1, y1) in pairwise(points):
            length = hypot(x1 - x0, y1 - y0) or 1.0
            u, v = (y0 - y1) / length * width / 2, (x1 - x0) / length * width / 2
            self.poly(ink, [(x0 + u, y0 + v), (x1 + u, y1 + v), (x1 - u, y1 - v), (x0 - u, y0 - v)])
        if width * self.unit >= 1.5:
            for x, y in points:
                self.oval(ink, x, y, width / 2, width / 2)


def between(four: list[Point], t: float) -> Point:
    """The Catmull-Rom curve of four points, from the second to the third, at t in [0, 1]."""

    def along(p: float, q: float, r: float, s: float) -> float:
        return 0.5 * (2 * q + (r - p) * t + (2 * p - 5 * q + 4 * r - s) * t * t + (3 * q - p - 3 * r + s) * t * t * t)

    xs, ys = zip(*four, strict=True)
    return along(*xs), along(*ys)
