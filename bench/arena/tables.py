"""Tables with planted contexts: columns of a few values, an error per item, and the risk that it was drawn with.

Columns are drawn, or they are the annotations of a built-in world: the factors of `sprites`, those of `scenes` and
which objects are in the picture.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Strs, child, encode
from shiftbench.worlds.scenes import scenes
from shiftbench.worlds.sprites import factors, order

BASE = 0.1
"""The risk outside of all planted contexts."""
BINS = 4
"""Intervals into which a factor of sprites is cut that has more than `SEVERAL` values."""
SEVERAL = 8
AWAY = 1_000_000
"""What is added to the seed of a table whose errors are permuted, so that no other draw has its columns."""
FACTORS = ("class", "place", "weather", "light", "pose")
OBJECTS = ("fence", "shelf", "sofa", "table")

Cell = Mapping[int, int]
"""A context: column -> value, or -> several values in the reports of a tool that unites some."""


class Case(NamedTuple):
    """How a table is drawn: its columns, and the planted contexts with what each adds to the risk.

    `null` names the case whose tables, with their errors permuted, show what a tool reports of noise; "" is the case
    itself. Cases with columns of the same law share one of them, that with the lowest rate of errors or close to it.
    Without a `world`, `columns` of four values each, of which every second one repeats the one before it with
    probability `alike`; `noise` is the share of errors that are wrong themselves.
    """

    name: str
    planted: tuple[tuple[Mapping[str, str], float], ...] = ()
    rows: int = 4000
    columns: int = 8
    alike: float = 0.0
    noise: float = 0.0
    world: str = ""
    null: str = ""


class Table(NamedTuple):
    codes: npt.NDArray[np.int64]  # rows × columns
    error: npt.NDArray[np.bool_]
    risk: npt.NDArray[np.float64]
    cells: tuple[Cell, ...]


PAIR = {"c0": "1", "c5": "2"}
TRIPLE = "three values together, +40 points"
COMMON = "a common value, +30 points"
CASES = (
    Case("nothing"),
    Case("nothing, columns alike", alike=0.8),
    Case("nothing, scenes", world="scenes"),
    Case("a common value, +10 points", (({"c2": "1"}, 0.10),), null=TRIPLE),
    Case(COMMON, (({"c2": "1"}, 0.30),)),
    Case("a rare pair, +15 points", ((PAIR, 0.15),), null=TRIPLE),
    Case("a rare pair, +30 points", ((PAIR, 0.30),), null=TRIPLE),
    Case("a rare pair, +30 points, columns alike", ((PAIR, 0.30),), alike=0.8),
    Case("a rare pair, +30 points, a tenth of the errors is noise", ((PAIR, 0.30),), noise=0.1, null=COMMON),
    Case(TRIPLE, (({"c1": "0", "c4": "3", "c6": "2"}, 0.40),)),
    Case("five contexts, 16,000 items", (
        ({"c0": "1"}, 0.08), ({"c3": "2", "c4": "1"}, 0.25), ({"c5": "0", "c7": "3"}, 0.25), ({"c1": "1"}, 0.08),
        ({"c2": "3", "c6": "0", "c7": "1"}, 0.45)), rows=16_000),
    Case("scenes: with a shelf, +10; cats lying, +25", (
        ({"shelf": "yes"}, 0.10), ({"class": "cat", "pose": "lying"}, 0.25)), world="scenes"),
    Case("sprites: blue hearts, +15; small ellipses at the left, +40", (
        ({"colour": "blue", "shape": "heart"}, 0.15), ({"scale": "0.5", "shape": "ellipse", "x": "0"}, 0.40)),
        rows=6000, world="sprites"),
)


def draw(case: Case, seed: int) -> Table:
    """One table of a case."""
    random = child(seed, "arena", case.name)
    columns = {"": _drawn, "scenes": _scenes, "sprites": _sprites}[case.world](case, seed, random)
    names = list(columns)
    coded = [encode(values) for values in columns.values()]
    codes = np.stack([code for code, _ in coded], axis=1).astype(np.int64)
    cells = tuple({names.index(name): coded[names.index(name)][1].index(value) for name, value in context.items()}
                  for context, _ in case.planted)
    risk = np.full(case.rows, BASE)
    for cell, (_, more) in zip(cells, case.planted, strict=True):
        risk += more * inside(codes, cell)
    error = random.random(case.rows) < risk
    flipped = random.random(case.rows) < case.noise
    risk = risk * (1 - case.noise) + (1 - risk) * case.noise
    return Table(codes, error ^ flipped, risk, cells)


def draw_null(case: Case, seed: int) -> Table:
    """A table of a case with its errors permuted: the same columns and as many errors, and nothing to find."""
    table = draw(case, AWAY + seed)
    error = child(seed, "arena", "null", case.name).permutation(table.error)
    return Table(table.codes, error, np.full(case.rows, error.mean()), ())


def _drawn(case: Case, seed: int, random: np.random.Generator) -> dict[str, Strs]:
    codes = random.integers(0, 4, (case.columns, case.rows))
    for column in range(1, case.columns, 2):
        copied = random.random(case.rows) < case.alike
        codes[column, copied] = codes[column - 1, copied]
    return {f"c{column}": values.astype(np.str_) for column, values in enumerate(codes)}


def _scenes(case: Case, seed: int, random: np.random.Generator) -> dict[str, Strs]:
    world = scenes(case.rows, seed, 32)
    return {**{name: world.factors[name] for name in FACTORS},
            **{name: world.factor(f"has:object:{name}") for name in OBJECTS}}


def _sprites(case: Case, seed: int, random: np.random.Generator) -> dict[str, Strs]:
    columns = {}
    for name, values in factors(order(seed)[:case.rows]).items():
        known, codes = np.unique(values, return_inverse=True)
        columns[name] = (codes * BINS // len(known) if len(known) > SEVERAL else values).astype(np.str_)
    return columns


def inside(codes: npt.NDArray[np.int64], cell: Cell) -> npt.NDArray[np.bool_]:
    """Which items have the values of a context."""
    return np.logical_and.reduce([np.isin(codes[:, column], value) for column, value in cell.items()])
